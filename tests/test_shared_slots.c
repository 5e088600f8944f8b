/* Slots that share bytes in the planner's plans: what they save, that they cost no time, and that
 * the check refuses them where their contents would meet. */
#include <stdio.h>
#include <string.h>

#include "tests/cases.h"
#include "tests/random_request.h"
#include "tests/simulated.h"

#define REQUESTS MW_CASES(3000)
#define SPOILED 200
#define PAGE MW_SLOT_ALIGNMENT_BYTES

/* States in one tier each: buffers of the update share bytes only then. */
static void
split_nothing(struct mw_settings *settings)
{
    for (int state = 0; state < MW_STATE_COUNT; state++) {
        struct mw_placement *placement = &settings->placement[state];
        if (placement->count)
            *placement = (struct mw_placement){.count = 1,
                                               .part = {{placement->part[0].tier, INT64_MAX, 0}}};
    }
}

/* The request's first candidate, if it has slots that share bytes; the candidates own it. */
static const struct mw_sizing *
sharing(guint32 seed, struct random_request *request, GPtrArray **candidates)
{
    random_request_init(request, seed);
    request->settings.share_slots = MW_SHARE_ALL;
    if (seed % 2)
        split_nothing(&request->settings);
    if (seed % 4 == 1 && !request->settings.update_beside)
        request->settings.update_on = 1;
    const struct mw_sizing *sizing = random_request_fitting(request, candidates);

    return sizing && !sizing->next_stage && mw_sizing_shares(sizing) ? sizing : NULL;
}

/* The same where logits lie over what recomputed layers keep. */
static const struct mw_sizing *
sharing_rooms(guint32 seed, struct random_request *request, GPtrArray **candidates)
{
    const struct mw_sizing *sizing = sharing(seed, request, candidates);

    return sizing && sizing->buffers[MW_BUFFER_ROOMS].shares ? sizing : NULL;
}

/* --- what it saves, and costs ---------------------------------------------------------------- */

/* All of the smaller of logits and rooms at least, but for whole pages; and no tier needs more. */
static void
assert_saves(const struct mw_sizing *shared, const struct mw_sizing *apart)
{
    const struct mw_buffer *rooms = &shared->buffers[MW_BUFFER_ROOMS];
    int64_t saved = MIN(mw_sizing_buffer_bytes(shared, MW_BUFFER_ROOMS),
                        mw_sizing_buffer_bytes(shared, MW_BUFFER_LOGITS));
    int64_t less = apart->need_bytes[MW_TIER_GPU] - shared->need_bytes[MW_TIER_GPU];
    int64_t pages = apart->buffers[MW_BUFFER_ACTIVATIONS].count +
                    shared->buffers[MW_BUFFER_ACTIVATIONS].count + rooms->count;

    g_assert_cmpint(less, >=, (rooms->shares ? saved : 0) - pages * PAGE);
    for (int t = MW_TIER_CPU; t < MW_TIER_COUNT; t++)
        g_assert_cmpint(apart->need_bytes[t], >=, shared->need_bytes[t]);
}

/* Pairs of buffers that lie over each other somewhere. */
static const enum mw_buffer_kind pairs[][2] = {
    {MW_BUFFER_ROOMS, MW_BUFFER_LOGITS},
    {MW_BUFFER_GRADIENTS, MW_BUFFER_LOGITS},
    {MW_BUFFER_WIDENED, MW_BUFFER_LOGITS},
    {MW_BUFFER_ROOMS, MW_BUFFER_STATE_GPU},
    {MW_BUFFER_PARAMETERS_PINNED, MW_BUFFER_STATE_PINNED},
    {MW_BUFFER_GRADIENTS_PINNED, MW_BUFFER_UPDATED_PINNED},
};

static bool
lie_over(const struct mw_sizing *sizing, enum mw_buffer_kind one, enum mw_buffer_kind other)
{
    const struct mw_buffer *a = &sizing->buffers[one], *b = &sizing->buffers[other];

    return a->shares && b->shares && a->at.begin < b->at.end && b->at.begin < a->at.end;
}

static void
assert_as_fast(const struct mw_sizing *shared, const struct mw_sizing *apart,
               const struct mw_hardware *hardware)
{
    struct mw_plan *one = mw_build_plan(shared), *other = mw_build_plan(apart);

    g_assert_cmpint(one->op_count, ==, other->op_count);
    g_assert_cmpint(mw_test_step_ns(one, hardware), ==, mw_test_step_ns(other, hardware));
    mw_plan_free(one);
    mw_plan_free(other);
}

static void
test_memory_and_time(void)
{
    int compared = 0, fit = 0, found[G_N_ELEMENTS(pairs)] = {0};

    for (guint32 seed = 0; seed < REQUESTS; seed++) {
        struct random_request request;
        g_autoptr(GPtrArray) candidates = NULL;
        const struct mw_sizing *shared = sharing(seed, &request, &candidates);
        if (!shared)
            continue;
        struct mw_settings settings = shared->settings;
        settings.share_slots = MW_SHARE_NONE;
        struct mw_sizing *apart = mw_sizing_new(&request.model, &request.hardware, &settings, NULL);
        /* Rings of gradients are as long as there is room for. */
        bool alike = !memcmp(apart->more_parts, shared->more_parts, sizeof apart->more_parts);
        if (alike)
            assert_saves(shared, apart);
        for (size_t p = 0; p < G_N_ELEMENTS(pairs); p++)
            found[p] += lie_over(shared, pairs[p][0], pairs[p][1]);
        if (alike && apart->fits && fit++ % 8 == 0)
            assert_as_fast(shared, apart, &request.hardware);
        mw_sizing_free(apart);
        compared += alike;
    }
    g_test_message("%d compared, %d fit with slots apart", compared, fit);
    g_assert_cmpint(compared, >, REQUESTS / 20);
    for (size_t p = 0; p < G_N_ELEMENTS(pairs); p++) {
        g_test_message("pair %zu: %d", p, found[p]);
        g_assert_true(found[p] > 0 || MW_FEW_CASES);
    }
}

/* Like other activations, rooms are dozens of tensors and never one request. */
static void
test_several_slots(void)
{
    int cut = 0;

    for (guint32 seed = 0; seed < REQUESTS; seed++) {
        struct random_request request;
        g_autoptr(GPtrArray) candidates = NULL;
        const struct mw_sizing *shared = sharing_rooms(seed, &request, &candidates);
        if (shared)
            cut += shared->buffers[MW_BUFFER_ROOMS].count > 1;
    }
    g_test_message("%d with rooms in several slots", cut);
    g_assert_cmpint(cut, >, 100);
}

/* --- what is refused ------------------------------------------------------------------------- */

/* Spoils an unchecked plan; false where it has nothing to spoil in this way. */
typedef bool spoil_fn(struct mw_plan *plan, GRand *random);

static void
expect_refusals(spoil_fn *spoil, bool by_step, const char *reason)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(1);
    int spoiled = 0;

    for (guint32 seed = 0; spoiled < SPOILED; seed++) {
        struct random_request request;
        g_autoptr(GPtrArray) candidates = NULL;
        const struct mw_sizing *sizing = sharing_rooms(seed, &request, &candidates);
        if (!sizing)
            continue;
        struct mw_plan *made = mw_build_plan(sizing), *plan = unchecked_plan_copy(made);
        char why[512] = "";
        if (spoil(plan, random)) {
            bool good = mw_plan_check(plan, why, sizeof why);
            g_assert_true(good == by_step);
            g_assert_false(good && mw_plan_check_step(plan, false, why, sizeof why));
            if (!g_regex_match_simple(reason, why, 0, 0))
                g_error("refused for another reason: %s", why);
            g_assert_null(strchr(why, '\n'));
            spoiled++;
        }
        mw_plan_free(made);
        mw_plan_free(plan);
    }
}

static uint32_t
find_slot(const struct mw_plan *plan, enum mw_purpose purpose, bool shares)
{
    for (uint32_t s = 0; s < plan->slot_count; s++)
        if (plan->slots[s].purpose == purpose && plan->slots[s].shares == shares)
            return s;
    g_assert_not_reached();
}

static bool
say_nothing(struct mw_plan *plan, GRand *random)
{
    (void)random;
    plan->slots[find_slot(plan, MW_PURPOSE_LOGITS, true)].shares = false;
    return true;
}

static bool
make_persistent(struct mw_plan *plan, GRand *random)
{
    (void)random;
    plan->slots[find_slot(plan, MW_PURPOSE_LOGITS, true)].persistent = true;
    return true;
}

/* What passes between operators exists beside the logits.  Slots in rings are refused before. */
static bool
lie_over_what_passes(struct mw_plan *plan, GRand *random)
{
    struct mw_slot *logits = &plan->slots[find_slot(plan, MW_PURPOSE_LOGITS, true)];

    (void)random;
    logits->offset_bytes = plan->slots[find_slot(plan, MW_PURPOSE_ACTIVATIONS, false)].offset_bytes;
    for (uint32_t s = 0; s < plan->slot_count; s++)
        plan->slots[s].shares |= plan->slots[s].purpose == MW_PURPOSE_ACTIVATIONS;
    return !plan->section_count;
}

/* An op that begins a content where logits were goes on with what was there before. */
static bool
go_on(struct mw_plan *plan, GRand *random)
{
    uint32_t room = find_slot(plan, MW_PURPOSE_ACTIVATIONS, true), found = MW_NONE;
    bool after_logits = false;

    (void)random;
    for (uint32_t i = 0; i < plan->op_count && found == MW_NONE; i++)
        for (uint32_t u = plan->ops[i].use_begin;
             u < plan->ops[i].use_begin + plan->ops[i].use_count; u++) {
            after_logits |= plan->slots[plan->uses[u].slot].purpose == MW_PURPOSE_LOGITS;
            if (after_logits && plan->uses[u].slot == room && plan->uses[u].mode == MW_USE_DEFINE)
                found = u;
        }
    if (found == MW_NONE)
        return false;
    plan->uses[found].mode = MW_USE_MODIFY;
    return true;
}

/* An op of a layer does not say that it uses the rooms. */
static bool
hide_use(struct mw_plan *plan, GRand *random)
{
    uint32_t room = find_slot(plan, MW_PURPOSE_ACTIVATIONS, true);
    uint32_t first = g_rand_int(random) % plan->op_count;

    for (uint32_t i = 0; i < plan->op_count; i++) {
        struct mw_op *op = &plan->ops[(first + i) % plan->op_count];
        struct mw_use *last = &plan->uses[op->use_begin + op->use_count - 1];
        for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++)
            if (plan->uses[u].slot == room && plan->uses[u].mode == MW_USE_MODIFY &&
                op->layer >= 0 && !plan->section_count) {
                struct mw_use use = plan->uses[u];
                plan->uses[u] = *last;
                *last = use;
                op->use_count--;
                return true;
            }
    }
    return false;
}

static void
test_not_said(void)
{
    expect_refusals(say_nothing, false, "^slots \\d+ and \\d+ of program 0 overlap in tier gpu");
}

static void
test_persistent(void)
{
    expect_refusals(make_persistent, false, "^slot \\d+ \\(logits\\): shares its bytes, and is");
}

static void
test_over_what_passes(void)
{
    expect_refusals(lie_over_what_passes, false,
                    "^slots? \\d+ (\\(.*\\): .* would .*, but .* wrote over bytes|"
                    "and \\d+ share bytes: .* uses both)");
}

static void
test_goes_on(void)
{
    expect_refusals(go_on, false, "^slot \\d+ \\(activations\\): .* would modify it, but .* wrote");
}

static void
test_hidden_use(void)
{
    expect_refusals(hide_use, true, "does not use slot \\d+, in which layers keep activations");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/shared-slots/memory-and-time", test_memory_and_time);
    g_test_add_func("/shared-slots/several-slots", test_several_slots);
    g_test_add_func("/shared-slots/refused/not-said", test_not_said);
    g_test_add_func("/shared-slots/refused/persistent", test_persistent);
    g_test_add_func("/shared-slots/refused/over-what-passes", test_over_what_passes);
    g_test_add_func("/shared-slots/refused/goes-on", test_goes_on);
    g_test_add_func("/shared-slots/refused/hidden-use", test_hidden_use);
    return g_test_run();
}
