#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "tests/cases.h"
#include "tests/plan_run.h"
#include "tests/sketch_internal.h"

/* Properties of random plans.  The seeds are fixed: a failure repeats. */
#define PLANS MW_CASES(12000)

static void
make(struct sketch *sketch, GRand *random, uint32_t seed)
{
    g_rand_set_seed(random, seed);
    sketch_random(sketch, random, seed % 3 == 0);
}

static void
expect(struct mw_plan *plan, bool expected, uint32_t seed, const char *reason)
{
    char why[512] = "";

    if (mw_plan_check(plan, why, sizeof why) != expected)
        g_error("seed %u: the check said '%s', expected it to %s", seed, why,
                expected ? "accept" : "refuse");
    g_assert_true(plan->checked == expected);
    if (!expected)
        g_assert_nonnull(strstr(why, reason));
    g_assert_null(strchr(why, '\n'));
}

/* The ops of each program side by side, as the planner has them. */
static struct sketch
by_program(const struct sketch *sketch)
{
    struct sketch sorted = *sketch;
    uint32_t place[SKETCH_MAX_OPS], count = 0;

    for (uint32_t program = 0; program < sketch->ranks; program++)
        for (uint32_t i = 0; i < sketch->op_count; i++)
            if (sketch->lanes[sketch->ops[i].lane].program == program) {
                sorted.ops[count] = sketch->ops[i];
                place[i] = count++;
            }
    g_assert_cmpuint(count, ==, sketch->op_count);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t d = 0; d < sorted.ops[i].dep_count; d++)
            sorted.ops[i].deps[d] = place[MW_DEP_INDEX(sorted.ops[i].deps[d])] |
                                    (sorted.ops[i].deps[d] & MW_DEP_PREVIOUS_STEP);
    return sorted;
}

/* Builds the sketch, as it is and by program, and compares the check's verdict with `expected`. */
static struct mw_plan *
build_and_check(const struct sketch *sketch, bool expected, uint32_t seed, const char *reason)
{
    struct sketch sorted = by_program(sketch);
    struct mw_plan *plan = sketch_build(sketch), *other = sketch_build(&sorted);

    expect(plan, expected, seed, reason);
    expect(other, expected, seed, reason);
    g_assert_true(plan->barriered == other->barriered);
    mw_plan_free(other);
    return plan;
}

static void
refuse(const struct sketch *sketch, uint32_t seed, const char *reason)
{
    mw_plan_free(build_and_check(sketch, false, seed, reason));
}

static void
test_safe(void)
{
    GRand *random = g_rand_new();

    for (uint32_t seed = 0; seed < PLANS; seed++) {
        struct sketch sketch;
        struct mw_plan *plan;

        make(&sketch, random, seed);
        g_assert_true(sketch_is_safe(&sketch));
        plan = build_and_check(&sketch, true, seed, "");
        g_assert_true(plan->barriered == sketch_is_barriered(&sketch));
        plan_run(plan, random, 3);
        mw_plan_free(plan);
    }
    g_rand_free(random);
}

/* Takes a dependency away: the check must say what the oracle says. */
static void
test_dependency_dropped(void)
{
    GRand *random = g_rand_new();
    uint32_t refused = 0, accepted = 0;

    for (uint32_t seed = 0; seed < PLANS; seed++) {
        struct sketch sketch;
        struct sketch_op *op;
        struct mw_plan *plan;
        bool safe;

        make(&sketch, random, seed);
        op = &sketch.ops[g_rand_int_range(random, 0, (gint32)sketch.op_count)];
        if (!op->dep_count)
            continue;
        op->deps[g_rand_int_range(random, 0, (gint32)op->dep_count)] = op->deps[op->dep_count - 1];
        op->dep_count--;
        safe = sketch_is_safe(&sketch);
        plan = build_and_check(&sketch, safe, seed, "slot ");
        g_assert_true(!safe || plan->barriered == sketch_is_barriered(&sketch));
        if (safe)
            plan_run(plan, random, 3);
        mw_plan_free(plan);
        *(safe ? &accepted : &refused) += 1;
    }
    g_test_message("%u refused, %u accepted", refused, accepted);
    g_assert_cmpuint(refused, >, PLANS / 12);
    g_assert_cmpuint(accepted, >, PLANS / 12);
    g_rand_free(random);
}

/* Turns a use into another one: contents that are missing, writers that nobody expected. */
static void
test_use_changed(void)
{
    GRand *random = g_rand_new();
    uint32_t refused = 0;

    for (uint32_t seed = 0; seed < PLANS; seed++) {
        struct sketch sketch;
        struct sketch_op *op;
        bool safe;

        make(&sketch, random, seed);
        op = &sketch.ops[g_rand_int_range(random, 0, (gint32)sketch.op_count)];
        if (!op->use_count)
            continue;
        op->uses[0].mode = (uint8_t)g_rand_int_range(random, 0, MW_USE_MODE_COUNT);
        safe = sketch_is_safe(&sketch);
        mw_plan_free(build_and_check(&sketch, safe, seed, "slot "));
        refused += !safe;
    }
    g_assert_cmpuint(refused, >, PLANS / 12);
    g_rand_free(random);
}

/* Two matches of one lane change places in one rank only. */
static void
test_match_swapped(void)
{
    GRand *random = g_rand_new();
    uint32_t refused = 0;

    for (uint32_t seed = 0; seed < PLANS; seed++) {
        struct sketch sketch;
        struct sketch_op *first = NULL, *second = NULL;

        make(&sketch, random, seed);
        for (uint32_t i = 0; i < sketch.op_count && sketch.ranks > 1; i++)
            if (sketch.ops[i].work == SKETCH_WORK_GATHER && sketch.ops[i].lane == 0) {
                first = second;
                second = &sketch.ops[i];
            }
        if (!first)
            continue;
        first->match ^= second->match;
        second->match ^= first->match;
        first->match ^= second->match;
        refuse(&sketch, seed, "cycle: ");
        refused++;
    }
    g_assert_cmpuint(refused, >, PLANS / 12);
    g_rand_free(random);
}

/* A member does something else than the others. */
static void
test_match_mismatched(void)
{
    GRand *random = g_rand_new();
    uint32_t refused = 0;

    for (uint32_t seed = 0; seed < PLANS; seed++) {
        struct sketch sketch;
        struct sketch_op *op;

        make(&sketch, random, seed);
        op = &sketch.ops[g_rand_int_range(random, 0, (gint32)sketch.op_count)];
        if (op->work != SKETCH_WORK_GATHER || op->match == MW_NONE)
            continue;
        if (seed % 2) {
            op->work = SKETCH_WORK_COMPUTE;
            refuse(&sketch, seed, "not one collective");
        } else {
            op->match = SKETCH_MAX_OPS + 1;
            refuse(&sketch, seed, "match ");
        }
        refused++;
    }
    g_assert_cmpuint(refused, >, PLANS / 24);
    g_rand_free(random);
}

static struct mw_slot *
pick_slot(struct sketch *sketch, GRand *random)
{
    return &sketch->slots[g_rand_int_range(random, 0, (gint32)sketch->slot_count)];
}

static void
test_slots_overlap(void)
{
    GRand *random = g_rand_new();
    uint32_t refused = 0;

    for (uint32_t seed = 0; seed < PLANS; seed++) {
        struct sketch sketch;
        struct mw_slot *a, *b;

        make(&sketch, random, seed);
        a = pick_slot(&sketch, random);
        b = pick_slot(&sketch, random);
        if (a == b || a->program != b->program || a->tier != b->tier)
            continue;
        a->offset_bytes = b->offset_bytes + b->size_bytes - 1;
        sketch.tiers[a->tier].capacity_bytes += 1000;
        refuse(&sketch, seed, "overlap");
        refused++;
    }
    g_assert_cmpuint(refused, >, PLANS / 24);
    g_rand_free(random);
}

/* --- slots that share bytes ------------------------------------------------------------------ */

/* Lays the smaller of two slots over the larger one; false where they are none that may share. */
static bool
share(struct sketch *sketch, uint32_t a, uint32_t b)
{
    struct mw_slot *one = &sketch->slots[a], *other = &sketch->slots[b];

    if (a == b || one->program != other->program || one->tier != other->tier || one->persistent ||
        other->persistent)
        return false;
    one->shares = other->shares = true;
    if (one->size_bytes < other->size_bytes)
        one->offset_bytes = other->offset_bytes + other->size_bytes - one->size_bytes;
    else
        other->offset_bytes = one->offset_bytes;
    return true;
}

/* The last of both slots to be written before an op; MW_NONE: none was. */
static uint32_t
written_before(const struct sketch *sketch, uint32_t a, uint32_t b, uint32_t before)
{
    for (uint32_t i = before; i-- > 0;) {
        if (sketch_mode_of(&sketch->ops[i], a) >= 0 &&
            sketch_mode_of(&sketch->ops[i], a) != MW_USE_READ)
            return a;
        if (sketch_mode_of(&sketch->ops[i], b) >= 0 &&
            sketch_mode_of(&sketch->ops[i], b) != MW_USE_READ)
            return b;
    }
    return MW_NONE;
}

/* Every use finds its own slot's content there, and of each two users of which one writes, the
 * first is done before the second starts: all pairs, one by one. */
static bool
never_meet(const struct sketch *sketch, uint32_t a, uint32_t b)
{
    struct sketch_set done[SKETCH_MAX_OPS];

    sketch_close(sketch, done);
    for (uint32_t i = 0; i < sketch->op_count; i++) {
        int of_a = sketch_mode_of(&sketch->ops[i], a), of_b = sketch_mode_of(&sketch->ops[i], b);
        uint32_t last = written_before(sketch, a, b, i);
        if ((of_a >= 0 && of_b >= 0) || (of_a > MW_USE_DEFINE && last != a) ||
            (of_b > MW_USE_DEFINE && last != b))
            return false;
        for (uint32_t j = 0; j < i; j++)
            if ((sketch_conflict(of_a, sketch_mode_of(&sketch->ops[j], b)) ||
                 sketch_conflict(of_b, sketch_mode_of(&sketch->ops[j], a))) &&
                !(done[i].step[1] & (UINT64_C(1) << j)))
                return false;
    }
    return true;
}

/* Contents begin anew where another one was written over them. */
static void
define_anew(struct sketch *sketch, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < sketch->op_count; i++)
        for (uint32_t u = 0; u < sketch->ops[i].use_count; u++) {
            struct mw_use *use = &sketch->ops[i].uses[u];
            if ((use->slot == a || use->slot == b) && written_before(sketch, a, b, i) != use->slot)
                use->mode = MW_USE_DEFINE;
        }
}

static bool
is_used(const struct sketch *sketch, uint32_t slot)
{
    for (uint32_t i = 0; i < sketch->op_count; i++)
        if (sketch_mode_of(&sketch->ops[i], slot) >= 0)
            return true;
    return false;
}

static void
test_slots_share(void)
{
    GRand *random = g_rand_new();
    uint32_t refused = 0, accepted = 0;

    for (uint32_t seed = 0; seed < 10 * PLANS; seed++) {
        struct sketch sketch;

        make(&sketch, random, seed);
        uint32_t a = (uint32_t)g_rand_int_range(random, 0, (gint32)sketch.slot_count);
        uint32_t b = (uint32_t)g_rand_int_range(random, 0, (gint32)sketch.slot_count);
        if (!share(&sketch, a, b) || !is_used(&sketch, a) || !is_used(&sketch, b))
            continue;
        if (seed % 2)
            define_anew(&sketch, a, b);
        bool safe =
            sketch_is_safe(&sketch) && sketch_is_barriered(&sketch) && never_meet(&sketch, a, b);
        mw_plan_free(build_and_check(&sketch, safe, seed, "slot"));
        *(safe ? &accepted : &refused) += 1;
    }
    g_test_message("%u refused, %u accepted", refused, accepted);
    g_assert_cmpuint(refused, >, PLANS / 12);
    g_assert_cmpuint(accepted, >, PLANS / 80);
    g_rand_free(random);
}

static void
test_slot_too_large(void)
{
    GRand *random = g_rand_new();

    for (uint32_t seed = 0; seed < PLANS; seed++) {
        struct sketch sketch;
        struct mw_slot *slot;
        struct mw_tier_info *tier;

        make(&sketch, random, seed);
        slot = pick_slot(&sketch, random);
        tier = &sketch.tiers[slot->tier];
        if (seed % 2) {
            slot->size_bytes = tier->capacity_bytes - slot->offset_bytes + 1;
            tier->largest_request_bytes = INT64_MAX;
            refuse(&sketch, seed, "over capacity");
        } else {
            tier->largest_request_bytes = slot->size_bytes - 1;
            refuse(&sketch, seed, "fragmentation");
        }
    }
    g_rand_free(random);
}

static void
test_dependency_cycle(void)
{
    GRand *random = g_rand_new();
    uint32_t refused = 0;

    for (uint32_t seed = 0; seed < PLANS; seed++) {
        struct sketch sketch;
        struct sketch_op *op;
        uint32_t dep;

        make(&sketch, random, seed);
        op = &sketch.ops[g_rand_int_range(random, 0, (gint32)sketch.op_count)];
        if (!op->dep_count || (op->deps[0] & MW_DEP_PREVIOUS_STEP))
            continue;
        dep = op->deps[0];
        if (sketch.ops[dep].dep_count == SKETCH_MAX_DEPS)
            continue;
        sketch.ops[dep].deps[sketch.ops[dep].dep_count++] = (uint32_t)(op - sketch.ops);
        refuse(&sketch, seed, "cycle: ");
        refused++;
    }
    g_assert_cmpuint(refused, >, PLANS / 12);
    g_rand_free(random);
}

static char *
write_text(const struct mw_plan *plan)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    g_assert_true(mw_plan_write(plan, out));
    fclose(out);
    return text;
}

static void
test_text(void)
{
    GRand *random = g_rand_new();

    for (uint32_t seed = 0; seed < PLANS; seed++) {
        struct sketch sketch;
        struct mw_plan *plan, *copy;
        char why[256] = "";

        make(&sketch, random, seed);
        plan = sketch_build(&sketch);
        char *first = write_text(plan);
        FILE *in = fmemopen(first, strlen(first), "r");
        copy = mw_plan_read(in, why, sizeof why);
        fclose(in);
        g_assert_cmpstr(why, ==, "");
        g_assert_nonnull(copy);
        char *second = write_text(copy);
        g_assert_cmpstr(first, ==, second);
        g_assert_true(mw_plan_check(copy, why, sizeof why));
        free(first);
        free(second);
        mw_plan_free(plan);
        mw_plan_free(copy);
    }
    g_rand_free(random);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/plan/random/safe", test_safe);
    g_test_add_func("/plan/random/dependency-dropped", test_dependency_dropped);
    g_test_add_func("/plan/random/use-changed", test_use_changed);
    g_test_add_func("/plan/random/match-swapped", test_match_swapped);
    g_test_add_func("/plan/random/match-mismatched", test_match_mismatched);
    g_test_add_func("/plan/random/slots-overlap", test_slots_overlap);
    g_test_add_func("/plan/random/slots-share", test_slots_share);
    g_test_add_func("/plan/random/slot-too-large", test_slot_too_large);
    g_test_add_func("/plan/random/dependency-cycle", test_dependency_cycle);
    g_test_add_func("/plan/random/text", test_text);
    return g_test_run();
}
