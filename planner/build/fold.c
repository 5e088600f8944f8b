/* A step with sections: few micro-batches and few layers are built, and the rest follows from those
 * in the middle. */
#include <glib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "planner/build/internal.h"

/* Where rings turn slowly, fewer rounds than that are compared: the check proves the rest. */
#define ROUNDS_ALIKE_MOST 4

/* What is built, and what it leaves out. */
struct few {
    struct mw_sizing sizing;     /* of the few; what it points to is the whole's or layers' */
    struct mw_few_layers layers; /* without a sizing: it has all of them */
    uint32_t micro_batches_left_out;
    struct builder b, tables;
    struct mw_slot_ring *rings;
    uint32_t *slots;   /* NULL: only the order of ops is wanted */
    GArray *rounds;    /* struct mw_fold_rounds */
    GPtrArray *begins; /* uint32_t *, of the rounds */
};

/* --- rings ----------------------------------------------------------------------------------- */

/* Slots that take turns, of each slot. */
static struct mw_slot_ring *
find_rings(const struct builder *b)
{
    struct mw_slot_ring *rings = g_new0(struct mw_slot_ring, b->plan->slot_count + 1);

    for (int kind = MW_BUFFER_HOME_KINDS; kind < MW_BUFFER_KIND_COUNT; kind++)
        for (uint32_t i = 0; i < b->slots[kind].count; i++)
            rings[b->slots[kind].first + i] =
                (struct mw_slot_ring){b->slots[kind].first, b->slots[kind].count};
    return rings;
}

/* How many rounds it takes until each slot of a ring has had its turn, where a round uses so many
 * of them, and the next one begins so much further on. */
static uint32_t
rounds_of_ring(uint32_t count, uint32_t used, uint32_t by)
{
    uint32_t way = MIN(by, count - by);

    return used >= count || !way ? 1 : 1 + (count - used + way - 1) / way;
}

/* Of all rings, by a round and the next one, which `begins` has first: rounds that are alike, as
 * the first ones of a step are not where less was there before them. */
static uint32_t
rounds_of_rings(const struct few *few, const uint32_t *begins)
{
    const struct mw_plan *plan = few->b.plan;
    g_autofree bool *seen = g_new0(bool, plan->slot_count + 1);
    g_autofree uint32_t *used = g_new0(uint32_t, plan->slot_count + 1); /* by first slot */
    g_autofree uint32_t *by = g_new0(uint32_t, plan->slot_count + 1);
    uint32_t first = plan->ops[begins[0]].use_begin, next = plan->ops[begins[1]].use_begin;
    uint32_t rounds = 1;

    for (uint32_t u = first; u < next; u++) {
        uint32_t slot = plan->uses[u].slot;
        struct mw_slot_ring ring = few->rings[slot];
        if (!ring.count || seen[slot])
            continue;
        seen[slot] = true;
        used[ring.first]++;
        if (u - first + next < plan->use_count)
            by[ring.first] = (plan->uses[u - first + next].slot + ring.count - slot) % ring.count;
    }
    for (int kind = MW_BUFFER_HOME_KINDS; kind < MW_BUFFER_KIND_COUNT; kind++) {
        const struct ring *ring = &few->b.slots[kind];
        if (ring->count && used[ring->first])
            rounds = MAX(rounds, rounds_of_ring(ring->count, used[ring->first], by[ring->first]));
    }
    return rounds;
}

/* --- rounds ---------------------------------------------------------------------------------- */

/* Takes the begins.  Rounds are alike once each slot of a ring has had its turn. */
static void
add_rounds(struct few *few, GArray *begins, uint32_t cut, uint32_t more)
{
    struct mw_fold_rounds rounds = {.count = begins->len - 1, .cut = cut, .more = more};

    rounds.begins = (uint32_t *)g_array_free(begins, FALSE);
    g_ptr_array_add(few->begins, (gpointer)rounds.begins);
    if (cut > 0 && cut < rounds.count)
        rounds.before = rounds_of_rings(few, rounds.begins + cut - 1);
    rounds.alike = MIN(rounds.before + 2, ROUNDS_ALIKE_MOST);
    g_array_append_val(few->rounds, rounds);
}

static GArray *
begins_new(void)
{
    return g_array_new(FALSE, FALSE, sizeof(uint32_t));
}

static void
add_micro_batches(struct few *few)
{
    GArray *begins = begins_new();
    const struct builder *b = &few->b;
    uint32_t count = (uint32_t)few->sizing.settings.grad_accum;

    for (uint32_t v = 0; v < b->visit_count; v++)
        if (!v || b->visits[v].micro_batch != b->visits[v - 1].micro_batch)
            g_array_append_val(begins, b->visit_ops[v]);
    g_array_append_val(begins, b->visit_ops[b->visit_count]);
    add_rounds(few, begins, (count + 1) / 2, few->micro_batches_left_out);
}

/* The layers whose rounds become a section, in whole checkpoint groups.  Beside another stretch
 * with one they fetch ahead what lives there: two sections of a pass have no home in common. */
static struct mw_layer_gap
without_ends(const struct few *few, const struct mw_layer_gap *gap)
{
    const struct mw_few_layers *layers = &few->layers;
    int number = (int)(gap - layers->gaps);
    struct mw_layer_gap inner = *gap;
    int64_t ahead = 1, interval = MAX(1, few->sizing.settings.checkpoint_interval);

    for (int stage = 0; stage < MW_FETCH_STAGES; stage++)
        ahead = MAX(ahead, 1 + few->sizing.settings.prefetch_stage[stage]);
    ahead = MAX(ahead, 1 + few->sizing.settings.prefetch);
    if (number > 0 && layers->gaps[number - 1].end + ahead > gap->first)
        inner.first += ahead;
    if (number + 1 < layers->gap_count && layers->gaps[number + 1].first < gap->end + ahead)
        inner.end -= ahead;
    inner.first = mw_round_up(inner.first, interval);
    inner.end -= inner.end < few->sizing.layers ? inner.end % interval : 0;
    return inner;
}

/* Chunks of the logits go forward and back, and pass no layer. */
static bool
passes(const struct builder *b, int64_t layer, uint32_t first_visit, uint32_t end_visit)
{
    uint32_t v = first_visit;

    while (v < end_visit && b->visits[v].layer != layer)
        v++;
    return v < end_visit;
}

/* Of a pass through the layers, forward or back, the rounds of a stretch: one for each checkpoint
 * group.  False: none of them is where layers are left out. */
static bool
add_pass(struct few *few, const struct mw_layer_gap *gap, uint32_t first_visit, uint32_t end_visit,
         bool back)
{
    const struct builder *b = &few->b;
    const struct mw_layer_gap inner = without_ends(few, gap);
    int64_t interval = MAX(1, few->sizing.settings.checkpoint_interval);
    int64_t before = -1; /* the group of the visit before */
    uint32_t cut = MW_NONE, v = first_visit;

    if (!passes(b, gap->cut, first_visit, end_visit))
        return true;
    GArray *begins = begins_new();

    while (v < end_visit && (b->visits[v].layer < inner.first || b->visits[v].layer >= inner.end))
        v++;
    for (; v < end_visit && b->visits[v].layer >= inner.first && b->visits[v].layer < inner.end;
         v++) {
        int64_t layer = b->visits[v].layer, group = layer / interval;
        if (group == before)
            continue;
        if (cut == MW_NONE && (back ? layer < gap->cut : layer >= gap->cut))
            cut = begins->len;
        g_array_append_val(begins, b->visit_ops[v]);
        before = group;
    }
    g_array_append_val(begins, b->visit_ops[v]);
    if (cut == MW_NONE)
        g_array_unref(begins);
    else
        add_rounds(few, begins, cut, (uint32_t)(gap->left_out / interval));
    return cut != MW_NONE;
}

/* The stretches in the order in which the pass comes to them. */
static bool
add_stretches(struct few *few, uint32_t first_visit, uint32_t end_visit, bool back)
{
    int count = few->layers.gap_count;
    bool good = true;

    for (int i = 0; i < count && good; i++)
        good = add_pass(few, &few->layers.gaps[back ? count - 1 - i : i], first_visit, end_visit,
                        back);
    return good;
}

static bool
add_passes(struct few *few)
{
    const struct builder *b = &few->b;
    uint32_t first = 0;
    bool back = false;

    for (uint32_t v = 0; v <= b->visit_count; v++) {
        const struct visit *visit = v < b->visit_count ? &b->visits[v] : NULL;
        bool goes_back = visit && visit->phase != MW_PHASE_FORWARD;
        if (visit && goes_back == back)
            continue;
        if (v > first && !add_stretches(few, first, v, back))
            return false;
        first = v;
        back = goes_back;
    }
    return true;
}

static void
add_chunks(struct few *few, const uint32_t *ops)
{
    for (int g = 0; g < few->layers.gap_count; g++) {
        const struct mw_layer_gap *gap = &few->layers.gaps[g];
        if (ops[gap->first_chunk] == ops[gap->chunks_until])
            continue; /* the norm of gradients on NVMe is taken on their way */
        uint32_t round = gap->chunks_of_round, before = gap->chunk_cut - gap->first_chunk;
        GArray *begins = begins_new();
        for (uint32_t c = gap->first_chunk + before % round; c <= gap->chunks_until; c += round)
            g_array_append_val(begins, ops[c]);
        add_rounds(few, begins, before / round, gap->chunks_left_out / round);
    }
}

/* --- what they are in the whole step --------------------------------------------------------- */

/* How much further on than `layer` its number is in the whole step, in layers and in chunks. */
static int64_t
layers_before(const struct mw_few_layers *few, int64_t layer)
{
    int64_t left_out = 0;

    for (int g = 0; g < few->gap_count; g++)
        if (layer >= few->gaps[g].cut)
            left_out += few->gaps[g].left_out;
    return left_out;
}

static uint32_t
chunks_before(const struct mw_few_layers *few, int64_t chunk)
{
    uint32_t left_out = 0;

    for (int g = 0; g < few->gap_count; g++)
        if (chunk >= few->gaps[g].chunk_cut)
            left_out += few->gaps[g].chunks_left_out;
    return left_out;
}

/* Homes of tensors; a layer has as many as any other. */
static int64_t
tensors_before(const struct few *few, int64_t tensor)
{
    const struct mw_few_layers *layers = &few->layers;
    int64_t left_out = 0;

    for (int g = 0; g < layers->gap_count; g++) {
        const struct mw_layer_gap *gap = &layers->gaps[g];
        uint32_t first = mw_sizing_layer_tensor(&few->sizing, gap->cut);
        if (tensor >= first)
            left_out +=
                gap->left_out * (first - mw_sizing_layer_tensor(&few->sizing, gap->cut - 1));
    }
    return left_out;
}

/* Where a home of the few is among all of its kind. */
static int64_t
home_of(const struct few *few, int kind, int64_t place)
{
    int64_t interval = MAX(1, few->sizing.settings.checkpoint_interval);

    switch (kind) {
    case MW_BUFFER_PARAMETERS:
    case MW_BUFFER_GRADIENTS:
    case MW_BUFFER_SUMS:
        return place + tensors_before(few, place);
    case MW_BUFFER_CHECKPOINTS:
        return place + layers_before(&few->layers, place * interval) / interval;
    case MW_BUFFER_STATE:
        return place + chunks_before(&few->layers, place);
    default:
        return place;
    }
}

static uint32_t *
find_slots(const struct few *few)
{
    uint32_t *slots = g_new0(uint32_t, few->b.plan->slot_count + 1);

    for (int kind = 0; kind < MW_BUFFER_KIND_COUNT; kind++)
        for (uint32_t i = 0; i < few->b.slots[kind].count; i++) {
            int64_t place = few->layers.sizing ? home_of(few, kind, i) : i;
            slots[few->b.slots[kind].first + i] = few->tables.slots[kind].first + (uint32_t)place;
        }
    for (uint32_t c = 0; c < few->sizing.chunk_count; c++) /* not all chunks have another extent */
        if (few->b.chunk_other[c] != MW_NONE)
            slots[few->b.chunk_other[c]] =
                few->tables.chunk_other[c + chunks_before(&few->layers, c)];
    return slots;
}

/* --- the whole ------------------------------------------------------------------------------- */

/* What is only timed is rated and thrown away: what its slots hold is looked at in the plan that is
 * chosen, and in tests. */
static bool
has_order(struct mw_plan *flat)
{
    return mw_plan_check_order_alone(flat) || mw_plan_check(flat, NULL, 0);
}

static struct mw_plan *
fold(struct few *few)
{
    bool has_outer = few->micro_batches_left_out > 0, has_layers = few->layers.sizing != NULL;
    g_autofree int32_t *layers = has_layers ? g_new(int32_t, few->sizing.layers) : NULL;
    g_autofree uint32_t *chunks = has_layers ? g_new(uint32_t, few->sizing.chunk_count) : NULL;

    for (int64_t i = 0; has_layers && i < few->sizing.layers; i++)
        layers[i] = (int32_t)(i + layers_before(&few->layers, i));
    for (uint32_t c = 0; has_layers && c < few->sizing.chunk_count; c++)
        chunks[c] = c + chunks_before(&few->layers, c);
    if (has_outer)
        add_micro_batches(few);
    bool passed = !has_layers || add_passes(few);
    if (has_layers) {
        add_chunks(few, few->b.norm_ops);
        add_chunks(few, few->b.update_ops);
    }
    const struct mw_fold how = {
        .rounds = (const struct mw_fold_rounds *)(gpointer)few->rounds->data,
        .count = few->rounds->len,
        .has_outer = has_outer,
        .rings = few->rings,
        .slots = few->slots,
        .layers = layers,
        .chunks = chunks,
    };
    struct mw_plan *plan = few->tables.plan;
    bool good = passed && (few->slots || has_order(few->b.plan)) &&
                mw_plan_fold(few->b.plan, &how, plan) &&
                (!few->slots || mw_plan_check(plan, NULL, 0));
    if (good)
        return plan;
    mw_plan_free(plan);
    return NULL;
}

/* With so many micro-batches and rounds of layers; 0: all. */
static struct mw_plan *
build_few(const struct mw_sizing *sizing, const bool *dropped, bool with_slots,
          int64_t micro_batches, int64_t rounds)
{
    struct few few = {.sizing = *sizing, .tables = {.sizing = sizing}};

    if (rounds) {
        if (!mw_sizing_few_layers(sizing, rounds, &few.layers))
            return NULL;
        few.sizing = *few.layers.sizing;
    }
    if (micro_batches) {
        few.sizing.settings.grad_accum = micro_batches;
        few.micro_batches_left_out = (uint32_t)(sizing->settings.grad_accum - micro_batches);
    }
    few.b.sizing = &few.sizing;
    few.b.whole = sizing;
    few.b.dropped = dropped;
    few.rounds = g_array_new(FALSE, FALSE, sizeof(struct mw_fold_rounds));
    few.begins = g_ptr_array_new_with_free_func(g_free);
    mw_build_flat(&few.b);
    mw_build_tables(&few.tables, with_slots);
    few.rings = find_rings(&few.b);
    few.slots = with_slots ? find_slots(&few) : NULL;
    struct mw_plan *plan = fold(&few);
    mw_plan_free(few.b.plan);
    mw_build_clear(&few.b);
    mw_build_clear(&few.tables);
    g_free(few.rings);
    g_free(few.slots);
    g_array_unref(few.rounds);
    g_ptr_array_unref(few.begins);
    mw_sizing_free(few.layers.sizing);
    return plan;
}

static struct mw_plan *
build_rounds(const struct mw_sizing *sizing, const bool *dropped, bool with_slots,
             bool micro_batches, int64_t rounds)
{
    struct mw_plan *plan = micro_batches ? NULL : build_few(sizing, dropped, with_slots, 0, rounds);

    for (int64_t few = MW_FOLDED_LEAST;
         micro_batches && !plan && few <= MW_FOLDED_MOST && few < sizing->settings.grad_accum;
         few *= 2)
        plan = build_few(sizing, dropped, with_slots, few, rounds);
    return plan;
}

static struct mw_plan *
build_folded(const struct mw_sizing *sizing, struct mw_folds folds, const bool *dropped,
             bool with_slots)
{
    struct mw_plan *plan = NULL;

    g_return_val_if_fail(sizing->fits, NULL);
    if (sizing->settings.unfold || sizing->pp > 1)
        return NULL;
    if (!folds.layers)
        return folds.micro_batches ? build_rounds(sizing, dropped, with_slots, true, 0) : NULL;
    if (!with_slots)
        plan =
            build_rounds(sizing, dropped, with_slots, folds.micro_batches, MW_ORDER_ROUNDS_LEAST);
    for (int64_t rounds = MW_FOLDED_ROUNDS_LEAST; !plan && rounds <= MW_FOLDED_ROUNDS_MOST;
         rounds *= 2)
        plan = build_rounds(sizing, dropped, with_slots, folds.micro_batches, rounds);
    return plan;
}

struct mw_plan *
mw_build_folded(const struct mw_sizing *sizing, struct mw_folds folds, const bool *dropped)
{
    return build_folded(sizing, folds, dropped, true);
}

struct mw_plan *
mw_build_plan_folded(const struct mw_sizing *sizing, struct mw_folds folds)
{
    return build_folded(sizing, folds, NULL, true);
}

struct mw_plan *
mw_build_order(const struct mw_sizing *sizing, struct mw_folds folds)
{
    return build_folded(sizing, folds, NULL, false);
}
