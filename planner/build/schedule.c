/* The order in which parts of fetch units are computed: forward through the model, backward by
 * checkpoint groups, each recomputed before its backward. */
#include <glib.h>

#include "planner/build/internal.h"

static uint32_t
add_visit(struct builder *b, struct visit visit)
{
    if (b->visit_count == b->visit_capacity) {
        b->visit_capacity = MAX(1024, b->visit_capacity * 2);
        b->visits = g_renew(struct visit, b->visits, b->visit_capacity);
    }
    for (int t = 0; t < MW_UNIT_TENSORS_MAX; t++)
        visit.pinned_slot[t] = visit.shard_slot[t] = visit.param_slot[t] = visit.gradient_slot[t] =
            MW_NONE;
    visit.adds_to = MW_NONE;
    b->visits[b->visit_count] = visit;
    return b->visit_count++;
}

/* --- tensors of a visit ---------------------------------------------------------------------- */

int
mw_turn_of(const struct mw_class_info *class, const struct mw_unit *unit, int operator_)
{
    int turn = 0;

    while (operator_ >= class->tensors[unit->first_tensor + turn].first +
                            class->tensors[unit->first_tensor + turn].count)
        turn++;
    return turn;
}

/* Tensors that are not cut come with the part whose operators are computed with theirs: the first
 * one if they are before the tiled tensor, else the last one. */
static bool
find_part(const struct mw_class_info *class, const struct mw_unit *unit, uint32_t number,
          uint32_t tile, struct part *part)
{
    int turn = part->turn;

    if (turn >= unit->tensor_count)
        return false;
    part->tiled = turn == unit->tiled;
    if (!part->tiled && tile != (turn < unit->tiled ? 0 : unit->tiles - 1))
        return false;
    part->tensor = &class->tensors[unit->first_tensor + turn];
    part->number = number + turn;
    part->tile = part->tiled ? tile : 0;
    return true;
}

/* Tied logits compute with the embedding. */
static const struct mw_class_info *
class_of(const struct builder *b, const struct visit *visit)
{
    return &b->sizing->classes[visit->tied == TIED_WEIGHT ? MW_CLASS_HEAD : visit->class_];
}

int
mw_visit_tensors(const struct builder *b, const struct visit *visit)
{
    return class_of(b, visit)->units[visit->unit].tensor_count;
}

bool
mw_visit_computes(const struct builder *b, struct visit *visit, int turn, struct part *part)
{
    const struct mw_class_info *class = class_of(b, visit);

    *part = (struct part){.visit = visit, .turn = turn};
    return find_part(class, &class->units[visit->unit], visit->first_tensor, visit->tile, part);
}

bool
mw_visit_fetches(const struct builder *b, struct visit *visit, int turn, struct part *part)
{
    const struct mw_class_info *class = class_of(b, visit);

    *part = (struct part){.visit = visit, .turn = turn};
    return visit->fetched_tensor != MW_NONE &&
           find_part(class, &class->units[visit->unit], visit->fetched_tensor, visit->fetched_tile,
                     part);
}

/* --- visits ---------------------------------------------------------------------------------- */

struct walk {
    enum mw_phase phase;
    uint16_t micro_batch, chunk;
    enum mw_class class;
    int32_t layer;
    uint32_t base; /* global number of the block's first tensor */
    bool fetches;
    bool of_weights;
};

static void
add_unit(struct builder *b, const struct walk *walk, int unit, bool first_of_group)
{
    const struct mw_class_info *class = &b->sizing->classes[walk->class];
    uint32_t first = walk->base + class->units[unit].first_tensor;
    int64_t tiles = class->units[unit].tiles;

    /* Backward visits parts in reverse: part 0, with the operators before the matrix, comes
     * last. */
    for (int64_t i = 0; i < tiles; i++) {
        int64_t t = walk->phase == MW_PHASE_BACKWARD ? tiles - 1 - i : i;
        add_visit(b, (struct visit){.phase = walk->phase,
                                    .class_ = walk->class,
                                    .unit = unit,
                                    .first_of_group = first_of_group && i == 0,
                                    .of_weights = walk->of_weights,
                                    .micro_batch = walk->micro_batch,
                                    .tile = t,
                                    .chunk = walk->chunk,
                                    .layer = walk->layer,
                                    .first_tensor = first,
                                    .fetched_tensor = walk->fetches ? first : MW_NONE,
                                    .fetched_tile = t,
                                    .reuses = MW_NONE});
    }
}

static void
add_block(struct builder *b, const struct walk *walk, bool first_of_group)
{
    int count = b->sizing->classes[walk->class].unit_count;

    for (int u = 0; u < count; u++) {
        int unit = walk->phase == MW_PHASE_BACKWARD ? count - 1 - u : u;
        add_unit(b, walk, unit, first_of_group && unit == 0);
    }
}

static void
add_layer(struct builder *b, enum mw_phase phase, uint16_t mb, int64_t layer, bool first_of_group)
{
    struct walk walk = {phase, mb,
                        0,     mw_sizing_layer_class(b->sizing, layer),
                        layer, mw_sizing_layer_tensor(b->sizing, layer),
                        true,  false};

    add_block(b, &walk, first_of_group);
}

bool
mw_drops_layer(const struct builder *b, int64_t layer)
{
    return b->dropped && b->dropped[layer];
}

/* Those of a stretch, from number `group` on.  A layer whose activations are a checkpoint is a
 * group. */
static void
find_groups_of(struct builder *b, int64_t stretch, int64_t group)
{
    const struct mw_recomputed recomputed = mw_sizing_recomputed_in(b->sizing, stretch);
    int64_t begin = recomputed.begin, first = b->sizing->stretch[stretch].first;

    for (int64_t layer = begin, behind; layer < recomputed.end; layer = behind) {
        bool has = mw_recomputed_has(&recomputed, layer);
        behind = layer + 1;
        if (has)
            mw_recomputed_group(&recomputed, layer, &behind);
        has = has || mw_settings_keeps_whole(&b->sizing->settings);
        for (int64_t l = layer; l < behind; l++)
            b->group_of[first + l - begin] = has ? group : -1;
        if (has)
            b->group_first[group++] = first + layer - begin;
    }
}

/* Forward and backward ask for each layer.  All stretches have as many numbers of groups as the one
 * with most; a number without a group begins behind the layers. */
static void
find_groups(struct builder *b)
{
    const struct mw_sizing *s = b->sizing;
    int64_t of_stretch = s->checkpoint_count / s->stretches;

    b->group_of = g_renew(int64_t, b->group_of, s->layers + 1);
    b->group_first = g_renew(int64_t, b->group_first, s->checkpoint_count + 1);
    for (int64_t group = 0; group <= s->checkpoint_count; group++)
        b->group_first[group] = s->layers;
    for (int64_t stretch = 0; stretch < s->stretches; stretch++)
        find_groups_of(b, stretch, stretch * of_stretch);
}

static int64_t
behind_group(const struct builder *b, int64_t group)
{
    int64_t layer = b->group_first[group];

    while (layer < b->sizing->layers && b->group_of[layer] == group)
        layer++;
    return layer;
}

int64_t
mw_first_of_group(const struct builder *b, int64_t group)
{
    int64_t layer = b->group_first[group], behind = behind_group(b, group);

    while (layer < behind && mw_drops_layer(b, layer))
        layer++;
    return layer < behind ? layer : -1;
}

/* A tied embedding is the logits' weight: visits one part of the vocabulary after the other. */
static void
add_tied_logits(struct builder *b, const struct walk *walk)
{
    int64_t tiles = b->sizing->classes[MW_CLASS_HEAD].units[0].tiles;

    for (int64_t i = 0; i < tiles; i++) {
        int64_t t = walk->phase == MW_PHASE_BACKWARD ? tiles - 1 - i : i;
        add_visit(b, (struct visit){.phase = walk->phase,
                                    .class_ = MW_CLASS_TAIL,
                                    .micro_batch = walk->micro_batch,
                                    .tile = t,
                                    .chunk = walk->chunk,
                                    .layer = -1,
                                    .fetched_tile = t,
                                    .reuses = MW_NONE,
                                    .tied = TIED_WEIGHT});
    }
}

/* What a tied tail has beside the embedding. */
static void
add_tied_rest(struct builder *b, const struct walk *walk)
{
    uint32_t first = b->visit_count;

    if (!mw_sizing_tied(b->sizing) || !b->sizing->classes[MW_CLASS_TAIL].params)
        return;
    add_block(b, walk, false);
    for (uint32_t v = first; v < b->visit_count; v++)
        b->visits[v].tied = TIED_REST;
}

/* The first visit at or after `begin` that fetches the same part. */
static uint32_t
find_fetch(const struct builder *b, uint32_t begin, const struct visit *visit)
{
    while (b->visits[begin].fetched_tensor != visit->fetched_tensor ||
           b->visits[begin].fetched_tile != visit->fetched_tile)
        begin++;
    return begin;
}

/* What the first chunk's forward fetches serves every pass until the last chunk's backward, and
 * each part's gradient accumulates from chunk to chunk. */
static void
link_chunks(struct builder *b, uint32_t begin, uint32_t pass)
{
    for (uint32_t v = begin; v < b->visit_count; v++) {
        struct visit *visit = &b->visits[v];
        bool backward = visit->phase == MW_PHASE_BACKWARD;
        uint32_t before = v - 2 * pass; /* in the previous chunk */
        if (visit->chunk)
            visit->reuses = visit->chunk == 1 && !backward ? before : b->visits[before].reuses;
        else if (backward)
            visit->reuses = find_fetch(b, begin, visit);
        visit->keeps = v + pass < b->visit_count;
        visit->gradient_stays = backward && visit->keeps;
        if (backward && visit->chunk)
            visit->adds_to = before;
    }
}

/* Without backward, what the first chunk fetches serves all others. */
static void
link_forward_chunks(struct builder *b, uint32_t begin, uint32_t pass)
{
    for (uint32_t v = begin; v < b->visit_count; v++) {
        struct visit *visit = &b->visits[v];
        if (visit->chunk)
            visit->reuses = visit->chunk == 1 ? v - pass : b->visits[v - pass].reuses;
        visit->keeps = v + pass < b->visit_count;
    }
}

/* One chunk after the other: its logits, the loss, and their gradients, so that one buffer serves
 * all chunks.  With a single chunk the weight is fetched for forward and for backward, like any
 * other. */
static void
add_logits(struct builder *b, struct walk walk)
{
    int64_t chunks = b->sizing->settings.logits_chunks;
    uint32_t begin = b->visit_count;

    int64_t passes = b->sizing->settings.forward_only ? 1 : 2; /* of a chunk */

    for (int64_t pass = 0; pass < passes * chunks; pass++) {
        walk.chunk = pass / passes;
        walk.phase = pass % passes ? MW_PHASE_BACKWARD : MW_PHASE_FORWARD;
        if (mw_sizing_tied(b->sizing))
            add_tied_logits(b, &walk);
        else
            add_block(b, &walk, false);
    }
    uint32_t pass_visits = (b->visit_count - begin) / (uint32_t)(passes * chunks);
    if (chunks > 1 && passes == 2)
        link_chunks(b, begin, pass_visits);
    else if (chunks > 1)
        link_forward_chunks(b, begin, pass_visits);
}

/* The final norm comes before the logits; in backward, after them. */
static void
add_tail(struct builder *b, uint16_t mb)
{
    const struct mw_sizing *s = b->sizing;
    uint32_t base = mw_sizing_layer_tensor(s, s->layers);
    struct walk walk = {MW_PHASE_FORWARD, mb, 0, MW_CLASS_TAIL, -1, base, true, false};

    if (!s->classes[MW_CLASS_TAIL].blocks)
        return;
    add_tied_rest(b, &walk);
    add_logits(b, walk);
    walk.phase = MW_PHASE_BACKWARD;
    if (!s->settings.forward_only)
        add_tied_rest(b, &walk);
}

/* The gradient of an embedding does not need the embedding itself, and a frozen one has none. */
static void
add_head(struct builder *b, enum mw_phase phase, uint16_t mb)
{
    struct walk walk = {phase, mb, 0, MW_CLASS_HEAD, -1, 0, phase == MW_PHASE_FORWARD, false};

    if (b->sizing->classes[MW_CLASS_HEAD].blocks &&
        (phase == MW_PHASE_FORWARD || mw_sizing_trains_head(b->sizing)))
        add_block(b, &walk, false);
}

/* With two loads, the recompute's gathered parameters serve the backward.  Tensors of one group
 * have consecutive numbers, and the visits of one unit's tiles follow each other. */
static void
link_reuse(struct builder *b, uint32_t recompute_begin, uint32_t backward_begin)
{
    uint32_t base = b->visits[recompute_begin].fetched_tensor;
    uint32_t tensors = b->visits[backward_begin - 1].fetched_tensor - base + 1;
    g_autofree uint32_t *first = g_new(uint32_t, tensors);

    for (uint32_t r = recompute_begin; r < backward_begin; r++)
        if (b->visits[r].fetched_tile == 0)
            first[b->visits[r].fetched_tensor - base] = r;
    for (uint32_t v = backward_begin; v < b->visit_count; v++) {
        uint32_t r = first[b->visits[v].fetched_tensor - base] + b->visits[v].fetched_tile;
        b->visits[v].reuses = r;
        b->visits[r].keeps = true;
    }
}

/* Its activations come back whole. */
static void
add_whole_backward(struct builder *b, uint16_t mb, int64_t layer)
{
    uint32_t begin = b->visit_count;

    add_layer(b, MW_PHASE_BACKWARD, mb, layer, false);
    b->visits[begin].keeps_layer = true;
}

/* A group is recomputed from its checkpoint, all its layers before the backward of any. */
static void
add_group_backward(struct builder *b, uint16_t mb, int64_t group)
{
    int64_t first = mw_first_of_group(b, group), behind = behind_group(b, group);

    if (first < 0)
        return;
    uint32_t recompute_begin = b->visit_count;
    for (int64_t layer = first; layer < behind; layer++)
        if (!mw_drops_layer(b, layer))
            add_layer(b, MW_PHASE_RECOMPUTE, mb, layer, layer == first);
    uint32_t backward_begin = b->visit_count;
    for (int64_t layer = behind - 1; layer >= first; layer--)
        if (!mw_drops_layer(b, layer))
            add_layer(b, MW_PHASE_BACKWARD, mb, layer, false);
    if (b->sizing->settings.param_loads == 2)
        link_reuse(b, recompute_begin, backward_begin);
}

/* Of the stage's layers from `first` up to `end`, the last one first. */
static void
add_backward(struct builder *b, uint16_t mb, int64_t first, int64_t end)
{
    for (int64_t layer = end - 1; layer >= first; layer--) {
        int64_t group = b->group_of[layer];
        if (mw_sizing_leaves_whole(b->sizing, layer)) {
            add_whole_backward(b, mb, layer);
        } else if (group >= 0) {
            add_group_backward(b, mb, group);
            layer = b->group_first[group];
        } else if (!mw_drops_layer(b, layer)) {
            add_layer(b, MW_PHASE_BACKWARD, mb, layer, false);
        }
    }
}

static void
add_forward(struct builder *b, uint16_t mb, int64_t stretch, bool next)
{
    const struct mw_sizing *s = b->sizing;
    uint32_t begin = b->visit_count;
    bool last = stretch + 1 == s->stretches;
    int64_t first = s->stretch[stretch].first, behind = s->stretch[stretch + 1].first;

    if (stretch == 0)
        add_head(b, MW_PHASE_FORWARD, mb);
    for (int64_t layer = first; layer < behind; layer++)
        if (!mw_drops_layer(b, layer)) {
            bool whole = mw_sizing_leaves_whole(s, layer);
            add_layer(b, MW_PHASE_FORWARD, mb, layer,
                      !whole && b->group_of[layer] >= 0 &&
                          layer == mw_first_of_group(b, b->group_of[layer]));
            b->visits[b->visit_count - 1].keeps_layer = whole;
        }
    if (begin == b->visit_count) /* logits alone, which come next */
        return;
    for (uint32_t v = begin; v < b->visit_count; v++)
        b->visits[v].next = next;
    b->visits[begin].enters = s->stage > 0 || stretch > 0;
    b->visits[b->visit_count - 1].leaves =
        s->next_stage != NULL || !last || mw_sizing_waits_for_logits(s);
}

/* Backward from the logits, or from where its gradients enter the stage, to where the micro-batch
 * entered it. */
static void
add_return(struct builder *b, uint16_t mb, int64_t stretch)
{
    const struct mw_sizing *s = b->sizing;
    uint32_t begin = b->visit_count;
    bool last = stretch + 1 == s->stretches;
    if (last)
        add_tail(b, mb);
    if (mw_sizing_waits_for_logits(s) || (last && !s->layers && s->stage > 0))
        b->visits[begin].enters = true;
    if (s->settings.forward_only)
        return;
    add_backward(b, mb, s->stretch[stretch].first, s->stretch[stretch + 1].first);
    if (stretch == 0)
        add_head(b, MW_PHASE_BACKWARD, mb);
    while (b->visits[begin].phase != MW_PHASE_BACKWARD)
        begin++;
    b->visits[begin].enters = s->next_stage != NULL || !last;
    b->visits[b->visit_count - 1].leaves = s->stage > 0 || stretch > 0;
    b->visits[b->visit_count - 1].updates = mw_settings_stashes(&s->settings);
}

/* The gradients of a micro-batch's weights: their products need no weights. */
static void
add_weights(struct builder *b, uint16_t mb)
{
    for (int64_t layer = b->sizing->layers - 1; layer >= 0; layer--) {
        struct walk walk = {.phase = MW_PHASE_BACKWARD,
                            .micro_batch = mb,
                            .class = mw_sizing_layer_class(b->sizing, layer),
                            .layer = (int32_t)layer,
                            .base = mw_sizing_layer_tensor(b->sizing, layer),
                            .of_weights = true};
        add_block(b, &walk, false);
    }
}

/* --- layer by layer -------------------------------------------------------------------------- */

/* All micro-batches' visits of a group, or of an end of the model: the first of a part fetches it
 * for all of them. */
static void
link_stop(struct builder *b, uint32_t begin)
{
    g_autofree uint32_t *last = g_new0(uint32_t, b->visit_count - begin + 1);

    for (uint32_t v = begin; v < b->visit_count; v++)
        if (b->visits[v].fetched_tensor != MW_NONE)
            last[find_fetch(b, begin, &b->visits[v]) - begin] = v;
    for (uint32_t v = begin; v < b->visit_count; v++) {
        struct visit *visit = &b->visits[v];
        if (visit->fetched_tensor == MW_NONE)
            continue;
        uint32_t first = find_fetch(b, begin, visit);
        visit->reuses = first == v ? MW_NONE : first;
        visit->keeps = last[first - begin] != v;
    }
}

/* A micro-batch's part of a stop, forward or back. */
static void
mark_part(struct builder *b, uint32_t begin, bool enters, bool leaves)
{
    while (begin < b->visit_count && enters && b->visits[begin].phase == MW_PHASE_RECOMPUTE)
        begin++;
    if (begin < b->visit_count) {
        b->visits[begin].enters = enters;
        b->visits[b->visit_count - 1].leaves = leaves;
    }
}

static bool
has_end(const struct builder *b, enum mw_class class)
{
    return b->sizing->classes[class].blocks > 0;
}

static void
forward_group(struct builder *b, int64_t first, int64_t end)
{
    bool enters = first > 0 || has_end(b, MW_CLASS_HEAD);
    bool leaves = end < b->sizing->layers || has_end(b, MW_CLASS_TAIL);
    uint32_t stop = b->visit_count;

    for (int64_t mb = 0; mb < b->sizing->settings.grad_accum; mb++) {
        uint32_t begin = b->visit_count;
        for (int64_t layer = first; layer < end; layer++)
            add_layer(b, MW_PHASE_FORWARD, (uint16_t)mb, layer, layer == first);
        mark_part(b, begin, enters, leaves);
    }
    link_stop(b, stop);
}

static void
backward_group(struct builder *b, int64_t first, int64_t end)
{
    bool enters = end < b->sizing->layers || has_end(b, MW_CLASS_TAIL);
    bool leaves = first > 0 || mw_sizing_trains_head(b->sizing);
    uint32_t stop = b->visit_count;

    for (int64_t mb = 0; mb < b->sizing->settings.grad_accum; mb++) {
        uint32_t begin = b->visit_count;
        for (int64_t layer = first; layer < end; layer++)
            add_layer(b, MW_PHASE_RECOMPUTE, (uint16_t)mb, layer, layer == first);
        for (int64_t layer = end - 1; layer >= first; layer--)
            add_layer(b, MW_PHASE_BACKWARD, (uint16_t)mb, layer, false);
        mark_part(b, begin, enters, leaves);
    }
    link_stop(b, stop);
}

/* One of the two ends of the model. */
static void
add_end(struct builder *b, bool tail, enum mw_phase phase)
{
    uint32_t stop = b->visit_count;

    for (int64_t mb = 0; mb < b->sizing->settings.grad_accum; mb++) {
        uint32_t begin = b->visit_count;
        if (tail)
            add_tail(b, (uint16_t)mb);
        else
            add_head(b, phase, (uint16_t)mb);
        mark_part(b, begin, tail || phase == MW_PHASE_BACKWARD, tail || phase == MW_PHASE_FORWARD);
    }
    link_stop(b, stop);
}

/* What the next stop needs may come during this one.  Without fetching ahead a visit's own part
 * comes just before it. */
static void
plan_fetches(struct builder *b, const uint32_t *stops, uint32_t stop_count)
{
    bool ahead = mw_settings_fetch_depth(&b->sizing->settings,
                                         b->sizing->shards > 1 ? MW_FETCH_GG : MW_FETCH_CG) > 0;
    uint32_t count = 0;

    b->fetching = g_new(uint32_t, b->visit_count + 1);
    b->fetches_by = g_new(uint32_t, b->visit_count + 1);
    for (uint32_t s = 0; s < stop_count; s++) {
        for (uint32_t v = stops[s]; v < stops[s + 1]; v++) {
            if (b->visits[v].fetched_tensor != MW_NONE && b->visits[v].reuses == MW_NONE)
                b->fetching[count++] = v;
            b->fetches_by[v] = count;
        }
    }
    b->fetching_count = count;
    for (uint32_t s = 0; ahead && s < stop_count; s++)
        for (uint32_t v = stops[s]; v < stops[s + 1]; v++)
            b->fetches_by[v] =
                s + 1 < stop_count ? b->fetches_by[stops[s + 2] - 1] : b->fetching_count;
}

/* A layer is loaded for all micro-batches (L2L, arXiv 2002.05645, Sec. 3): they pass each group of
 * layers one after the other, and wait behind it for the next. */
static void
schedule_layer_by_layer(struct builder *b)
{
    int64_t interval = b->sizing->settings.checkpoint_interval, layers = b->sizing->layers;
    g_autofree uint32_t *stops = g_new(uint32_t, 2 * b->sizing->checkpoint_count + 4);
    uint32_t count = 0;

    stops[count++] = b->visit_count;
    add_end(b, false, MW_PHASE_FORWARD);
    for (int64_t first = 0; first < layers; first += interval) {
        stops[count++] = b->visit_count;
        forward_group(b, first, MIN(layers, first + interval));
    }
    stops[count++] = b->visit_count;
    add_end(b, true, MW_PHASE_FORWARD);
    for (int64_t group = b->sizing->checkpoint_count - 1; group >= 0; group--) {
        stops[count++] = b->visit_count;
        backward_group(b, group * interval, MIN(layers, (group + 1) * interval));
    }
    stops[count] = b->visit_count;
    add_end(b, false, MW_PHASE_BACKWARD);
    plan_fetches(b, stops, count);
    for (uint32_t v = stops[count]; v < b->visit_count; v++) /* the embedding's gradient */
        b->fetches_by[v] = b->fetching_count;
}

/* --- places ---------------------------------------------------------------------------------- */

uint32_t
mw_place_of(const struct builder *b, uint32_t micro_batch, int64_t stretch)
{
    return b->place_of[micro_batch * b->sizing->stretches + stretch];
}

uint32_t
mw_visit_place(const struct builder *b, const struct visit *visit)
{
    int64_t stretch = visit->class_ == MW_CLASS_HEAD ? 0 : b->sizing->stretches - 1;

    if (visit->layer >= 0)
        stretch = mw_sizing_stretch_of(b->sizing, visit->layer);
    return mw_place_of(b, visit->micro_batch, stretch);
}

/* As many forward passes as may be in flight, then one backward and one forward in turn.
 * Micro-batches go back in the order in which they came, with any schedule: so gradients are summed
 * in one order. */
void
mw_schedule_visits(struct builder *b)
{
    int64_t count;
    g_autofree struct mw_pass *passes = mw_sizing_passes(b->sizing, &count);

    b->place_of = g_renew(uint32_t, b->place_of, count);
    for (int64_t i = 0; i < count; i++)
        if (!passes[i].back)
            b->place_of[passes[i].micro_batch * b->sizing->stretches + passes[i].stretch] =
                passes[i].place;
    find_groups(b);
    if (mw_settings_layer_order(&b->sizing->settings)) {
        schedule_layer_by_layer(b);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        if (passes[i].of_weights)
            add_weights(b, passes[i].micro_batch);
        else if (passes[i].back)
            add_return(b, passes[i].micro_batch, passes[i].stretch);
        else
            add_forward(b, passes[i].micro_batch, passes[i].stretch, passes[i].next);
}
