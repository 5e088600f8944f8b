#include "report/memory_curve.h"

#include <glib.h>
#include <stdlib.h>

#define DIGIT_BITS 12
#define DIGITS (1 << DIGIT_BITS)

/* One use of a slot at the time when its op ran. */
struct timed_use {
    uint32_t slot;
    bool defines;
    int64_t start_ns, end_ns;
};

static int
compare_uses(const void *a, const void *b)
{
    const struct timed_use *x = a, *y = b;

    if (x->slot != y->slot)
        return x->slot < y->slot ? -1 : 1;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    if (x->defines != y->defines)
        return x->defines ? -1 : 1;
    return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

static void
sort_uses_of_slot(struct timed_use *uses, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (compare_uses(&uses[i - 1], &uses[i]) > 0) {
            qsort(uses, count, sizeof *uses, compare_uses);
            return;
        }
}

/* Sorts by slot, then time: the uses of one slot are mostly in order already. */
static void
sort_uses(struct timed_use *uses, size_t count, uint32_t slot_count)
{
    g_autofree struct timed_use *from = g_memdup2(uses, count * sizeof *uses);
    g_autofree size_t *begin = g_new0(size_t, slot_count + 2);

    for (size_t i = 0; i < count; i++)
        begin[from[i].slot + 2]++;
    for (uint32_t s = 2; s < slot_count + 2; s++)
        begin[s] += begin[s - 1];
    for (size_t i = 0; i < count; i++)
        uses[begin[from[i].slot + 1]++] = from[i];
    for (uint32_t s = 0; s < slot_count; s++)
        sort_uses_of_slot(uses + begin[s], begin[s + 1] - begin[s]);
}

static void
find_span(const struct mw_timeline *timeline, struct mw_memory_lives *lives)
{
    int64_t end = INT64_MIN;

    lives->begin_ns = timeline->row_count ? INT64_MAX : 0;
    for (size_t i = 0; i < timeline->row_count; i++) {
        lives->begin_ns = MIN(lives->begin_ns, timeline->rows[i].start_ns);
        end = MAX(end, timeline->rows[i].end_ns);
    }
    lives->span_ns = timeline->row_count ? end - lives->begin_ns : 0;
}

static GArray *
timed_uses(const struct mw_plan *plan, const struct mw_timeline *timeline, uint32_t program,
           int64_t begin_ns)
{
    GArray *uses = g_array_new(FALSE, FALSE, sizeof(struct timed_use));

    for (size_t i = 0; i < timeline->row_count; i++) {
        const struct mw_timeline_row *row = &timeline->rows[i];
        if (plan->lanes[plan->ops[row->op].lane].program != program)
            continue;
        const struct mw_op op =
            mw_plan_op_at(plan, (struct mw_op_place){row->op, {row->round[0], row->round[1]}});
        for (uint32_t u = 0; u < op.use_count; u++) {
            const struct mw_use use = mw_plan_op_use(plan, &op, u);
            struct timed_use timed = {use.slot, use.mode == MW_USE_DEFINE, row->start_ns - begin_ns,
                                      row->end_ns - begin_ns};
            if (!plan->slots[use.slot].persistent)
                g_array_append_val(uses, timed);
        }
    }
    sort_uses((struct timed_use *)uses->data, uses->len, plan->slot_count);
    return uses;
}

/* The contents of one slot, from its `count` uses in order of time. */
static void
append_lives(GArray *lives, const struct timed_use *uses, size_t count, int64_t span_ns)
{
    bool wraps = !uses[0].defines;
    struct mw_memory_life life = {uses[0].slot, wraps ? 0 : uses[0].start_ns, 0};

    for (size_t i = 0; i < count; i++) {
        if (uses[i].defines && i > 0) {
            g_array_append_val(lives, life);
            life.start_ns = uses[i].start_ns;
            life.end_ns = 0;
        }
        life.end_ns = MAX(life.end_ns, uses[i].end_ns);
    }
    if (wraps)
        life.end_ns = span_ns;
    g_array_append_val(lives, life);
}

struct mw_memory_lives
mw_memory_lives_find(const struct mw_plan *plan, const struct mw_timeline *timeline,
                     uint32_t program)
{
    struct mw_memory_lives lives = {.program = program};
    GArray *found = g_array_new(FALSE, FALSE, sizeof(struct mw_memory_life));
    guint next = 0;

    find_span(timeline, &lives);
    GArray *uses = timed_uses(plan, timeline, program, lives.begin_ns);
    for (uint32_t slot = 0; slot < plan->slot_count; slot++) {
        struct mw_memory_life always = {slot, 0, lives.span_ns};
        guint first = next;
        while (next < uses->len && g_array_index(uses, struct timed_use, next).slot == slot)
            next++;
        if (next > first)
            append_lives(found, &g_array_index(uses, struct timed_use, first), next - first,
                         lives.span_ns);
        else if (plan->slots[slot].program == program && plan->slots[slot].persistent)
            g_array_append_val(found, always);
    }
    g_array_free(uses, TRUE);
    lives.count = found->len;
    lives.life = (struct mw_memory_life *)g_array_free(found, FALSE);
    return lives;
}

void
mw_memory_lives_clear(struct mw_memory_lives *lives)
{
    g_free(lives->life);
    *lives = (struct mw_memory_lives){0};
}

struct change {
    int64_t time_ns;
    int64_t bytes;
    uint8_t tier;
};

/* Sorts by one digit of the times; what has the same digit stays in its order. */
static void
sort_by_digit(const struct change *from, struct change *to, size_t count, int shift)
{
    g_autofree size_t *begin = g_new0(size_t, DIGITS + 1);

    for (size_t i = 0; i < count; i++)
        begin[(from[i].time_ns >> shift) % DIGITS + 1]++;
    for (size_t digit = 1; digit < DIGITS; digit++)
        begin[digit] += begin[digit - 1];
    for (size_t i = 0; i < count; i++)
        to[begin[(from[i].time_ns >> shift) % DIGITS]++] = from[i];
}

/* Times are from 0 to the step's end: digit by digit is a fraction of what comparisons take, and a
 * step has millions of changes. */
static void
sort_by_time(GArray *changes, int64_t last_ns)
{
    GArray *other = g_array_sized_new(FALSE, FALSE, sizeof(struct change), changes->len);

    g_array_set_size(other, changes->len);
    for (int shift = 0; shift < 63 && last_ns >> shift; shift += 2 * DIGIT_BITS) {
        sort_by_digit((struct change *)changes->data, (struct change *)other->data, changes->len,
                      shift);
        sort_by_digit((struct change *)other->data, (struct change *)changes->data, changes->len,
                      shift + DIGIT_BITS);
    }
    g_array_free(other, TRUE);
}

static GArray *
find_changes(const struct mw_plan *plan, const struct mw_memory_lives *lives,
             enum mw_purpose purpose)
{
    GArray *changes = g_array_new(FALSE, FALSE, sizeof(struct change));

    for (size_t i = 0; i < lives->count; i++) {
        const struct mw_memory_life *life = &lives->life[i];
        const struct mw_slot *slot = &plan->slots[life->slot];
        struct change begins = {life->start_ns, slot->size_bytes, slot->tier};
        struct change ends = {life->end_ns, -slot->size_bytes, slot->tier};
        if (slot->size_bytes == 0 || (purpose != MW_PURPOSE_COUNT && purpose != slot->purpose))
            continue;
        g_array_append_val(changes, begins);
        if (life->end_ns < lives->span_ns)
            g_array_append_val(changes, ends);
    }
    sort_by_time(changes, lives->span_ns);
    return changes;
}

/* Software that gives the bytes of slots to others never has more than it needs. */
static void
cut_apart(GArray *points, const struct mw_program *program)
{
    int64_t most = program->peak_bytes[MW_TIER_GPU] - program->apart_bytes;

    for (guint i = 0; i < points->len && program->apart_bytes > 0 && most > 0; i++) {
        int64_t *bytes = &g_array_index(points, struct mw_memory_point, i).bytes[MW_TIER_GPU];
        *bytes = MIN(*bytes, most);
    }
}

struct mw_memory_curve
mw_memory_curve_find(const struct mw_plan *plan, const struct mw_memory_lives *lives,
                     enum mw_purpose purpose)
{
    GArray *changes = find_changes(plan, lives, purpose);
    GArray *points = g_array_new(FALSE, FALSE, sizeof(struct mw_memory_point));
    struct mw_memory_point now = {0};
    struct mw_memory_curve curve;

    for (guint i = 0; i < changes->len; i++) {
        const struct change *change = &g_array_index(changes, struct change, i);
        if (change->time_ns != now.time_ns) {
            g_array_append_val(points, now);
            now.time_ns = change->time_ns;
        }
        now.bytes[change->tier] += change->bytes;
    }
    g_array_append_val(points, now);
    if (now.time_ns < lives->span_ns) {
        now.time_ns = lives->span_ns;
        g_array_append_val(points, now);
    }
    g_array_free(changes, TRUE);
    if (purpose == MW_PURPOSE_COUNT && lives->program < plan->program_count)
        cut_apart(points, &plan->programs[lives->program]);
    curve.count = points->len;
    curve.point = (struct mw_memory_point *)g_array_free(points, FALSE);
    return curve;
}

void
mw_memory_curve_clear(struct mw_memory_curve *curve)
{
    g_free(curve->point);
    *curve = (struct mw_memory_curve){0};
}
