/* The points of parallel.h, and what depends on less than a whole point. */
#include "study/parallel_internal.h"

#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/error.h"
#include "study/evaluate.h"

/* A closed form needs no list of ops. */
#define OPS_ANY (INT64_C(1) << 50)

/* --- axes ------------------------------------------------------------------------------------- */

static const char *const axes[] = {"tp",
                                   "pp",
                                   "batch",
                                   "sequence-parallel",
                                   "schedule",
                                   "virtual-stages",
                                   "activation-checkpoint-interval",
                                   "recompute-layers",
                                   "checkpoints",
                                   "checkpoint-partition",
                                   "shard-group",
                                   "param-device",
                                   "gradient-device",
                                   "optimizer-device",
                                   "activation-device",
                                   NULL};

const char *
mw_parallel_axis(int number)
{
    return axes[number];
}

static bool
is_same(const struct mw_setting *setting, const struct mw_settings *one,
        const struct mw_settings *other)
{
    const char *a = (const char *)one + setting->offset, *b = (const char *)other + setting->offset;

    if (setting->kind == MW_SETTING_REAL) /* a third of a sequence may be typed */
        return fabs(*(const double *)(const void *)a - *(const double *)(const void *)b) < 1e-6;
    if (setting->kind != MW_SETTING_PLACEMENT)
        return !memcmp(a, b, setting->size);
    const struct mw_placement *p = (const void *)a, *q = (const void *)b;
    return p->count == q->count && p->part[0].tier == q->part[0].tier;
}

/* Whether the question leaves this value of an axis to the search. */
static bool
is_open(const struct mw_parallel_question *asked, const char *name,
        const struct mw_settings *settings)
{
    for (int i = 0; i < asked->only_count; i++) {
        const struct mw_parallel_only *only = &asked->only[i];
        bool any = false;
        if (strcmp(only->setting->name, name))
            continue;
        for (int v = 0; v < only->count; v++)
            any = any || is_same(only->setting, settings, &only->values[v]);
        return any;
    }
    return true;
}

/* All whole numbers that divide `number`, from 1 on. */
static GArray *
divisors_of(int64_t number)
{
    GArray *all = g_array_new(FALSE, FALSE, sizeof(int64_t));
    int64_t d = 1;

    for (; d * d < number; d++)
        if (number % d == 0)
            g_array_append_val(all, d);
    for (; d > 0; d--) {
        int64_t other = number / d;
        if (number % d == 0 && other >= d)
            g_array_append_val(all, other);
    }
    return all;
}

/* --- what backward computes again ------------------------------------------------------------- */

static void
choose(struct mw_settings *s, const struct mw_parallel_choice *choice)
{
    s->checkpoint_interval = choice->interval;
    s->recompute_layers = choice->layers;
    s->checkpoint_partition = choice->partition;
    s->whole_checkpoints = choice->whole;
}

static void
add_choice(const struct mw_parallel_space *space, GArray *choices, struct mw_parallel_choice choice)
{
    struct mw_settings s = space->base;

    choose(&s, &choice);
    if (is_open(space->asked, "activation-checkpoint-interval", &s) &&
        is_open(space->asked, "recompute-layers", &s) && is_open(space->asked, "checkpoints", &s) &&
        is_open(space->asked, "checkpoint-partition", &s))
        g_array_append_val(choices, choice);
}

/* None, whose activations stay or leave; all layers, in groups of all numbers that divide the
 * longest stretch; or the first few. */
static GArray *
choices_of(const struct mw_parallel_space *space, int64_t layers, bool interleaved, bool parted)
{
    GArray *choices = g_array_new(FALSE, FALSE, sizeof(struct mw_parallel_choice));
    g_autoptr(GArray) intervals = divisors_of(layers);

    add_choice(space, choices, (struct mw_parallel_choice){0, MW_AUTO, 1, false});
    if (space->leaves && !interleaved)
        add_choice(space, choices, (struct mw_parallel_choice){1, MW_AUTO, 1, true});
    for (int partition = 1; partition >= (parted ? 0 : 1); partition--) {
        for (guint i = 0; i < intervals->len; i++)
            add_choice(space, choices,
                       (struct mw_parallel_choice){g_array_index(intervals, int64_t, i), MW_AUTO,
                                                   partition, false});
        for (int64_t some = 1; !interleaved && some < layers; some++)
            add_choice(space, choices, (struct mw_parallel_choice){1, some, partition, false});
    }
    return choices;
}

static const GArray *
find_choices(struct mw_parallel_space *space, int64_t layers, bool interleaved, bool parted)
{
    guint key = (guint)(4 * layers + 2 * interleaved + parted);

    if (key >= space->choices->len)
        g_ptr_array_set_size(space->choices, (gint)key + 1);
    if (!space->choices->pdata[key])
        space->choices->pdata[key] = choices_of(space, layers, interleaved, parted);
    return space->choices->pdata[key];
}

/* --- what is partitioned, and where it rests -------------------------------------------------- */

static const char *const devices[MW_STATE_COUNT] = {
    [MW_STATE_PARAMETERS] = "param-device",
    [MW_STATE_GRADIENTS] = "gradient-device",
    [MW_STATE_OPTIMIZER] = "optimizer-device",
    [MW_STATE_ACTIVATIONS] = "activation-device",
};

static void
place(struct mw_settings *s, const struct mw_parallel_variant *variant)
{
    s->strategy = variant->strategy;
    s->shard_group = variant->shard_group;
    for (int state = 0; state < MW_STATE_COUNT; state++)
        s->placement[state] = (struct mw_placement){
            .count = 1, .part = {{(enum mw_tier)variant->tier[state], INT64_MAX, 0}}};
}

static void
add_variant(const struct mw_parallel_space *space, GArray *variants,
            struct mw_parallel_variant variant)
{
    struct mw_settings s = space->base;
    bool open;

    place(&s, &variant);
    open = is_open(space->asked, "shard-group", &s);
    for (int state = 0; state < MW_STATE_COUNT; state++)
        open = open && is_open(space->asked, devices[state], &s);
    if (open)
        g_array_append_val(variants, variant);
}

/* Tiers that the machine has, of states that the strategy may offload: the last state goes
 * fastest, and the first point has all on the GPU. */
static void
add_placements(const struct mw_parallel_space *space, GArray *variants,
               struct mw_parallel_variant variant, int state)
{
    const struct mw_strategy_traits *traits = mw_strategy_traits(variant.strategy);
    const struct mw_hardware *hw = space->hardware;

    if (state == MW_STATE_COUNT) {
        add_variant(space, variants, variant);
        return;
    }
    for (int tier = MW_TIER_GPU; tier < MW_TIER_COUNT; tier++) {
        bool has = tier == MW_TIER_GPU ||
                   (tier == MW_TIER_CPU ? hw->host_memory_bytes > 0 : hw->nvme_capacity_bytes > 0);
        if (!has || (tier != MW_TIER_GPU && !traits->state[state].offloadable))
            continue;
        variant.tier[state] = (uint8_t)tier;
        add_placements(space, variants, variant, state + 1);
    }
}

bool
mw_parallel_tries(int schedule)
{
    return !mw_schedule_row(schedule)->weights_later && !mw_schedule_row(schedule)->no_flush;
}

struct mw_strategies
mw_parallel_strategies(void)
{
    const struct mw_strategies all = mw_strategies_of(MW_STRATEGY_AUTO);
    struct mw_strategies some = {.count = 0};

    for (int i = 0; i < all.count; i++) {
        const struct mw_strategy_traits *traits = mw_strategy_traits(all.one[i]);
        bool stays = true;
        for (int state = 0; state < MW_STATE_COUNT; state++)
            stays = stays && traits->state[state].deepest == MW_TIER_GPU;
        if (stays)
            some.one[some.count++] = all.one[i];
    }
    return some;
}

static bool
is_asked(const struct mw_question *question, enum mw_strategy strategy)
{
    for (int i = 0; i < question->strategy_count; i++)
        if (question->strategies[i] == strategy || question->strategies[i] == MW_STRATEGY_AUTO)
            return true;
    return false;
}

static GArray *
variants_of(const struct mw_parallel_space *space, bool groups)
{
    GArray *variants = g_array_new(FALSE, TRUE, sizeof(struct mw_parallel_variant));

    for (int i = 0; i < space->strategies.count; i++) {
        struct mw_parallel_variant variant = {.strategy = space->strategies.one[i],
                                              .strategy_number = i,
                                              .shard_group = MW_SHARD_ALL};
        bool partitions =
            mw_strategy_traits(variant.strategy)->state[MW_STATE_OPTIMIZER].partitioned;
        if (!is_asked(space->asked->question, variant.strategy))
            continue;
        add_placements(space, variants, variant, 0);
        variant.shard_group = MW_SHARD_NODE;
        if (groups && partitions)
            add_placements(space, variants, variant, 0);
    }
    return variants;
}

/* --- settings --------------------------------------------------------------------------------- */

static void
divide(struct mw_settings *s, const struct mw_parallel_pair *pair)
{
    s->tp = pair->tp;
    s->pp = pair->pp;
    s->sequence_parallel = pair->tp > 1 ? 0 : MW_AUTO;
    s->schedule = MW_SCHEDULE_1F1B;
    s->virtual_stages = MW_AUTO;
}

static void
shape(struct mw_settings *s, const struct mw_parallel_pair *pair,
      const struct mw_parallel_shape *of)
{
    divide(s, pair);
    s->micro_batch = (double)of->sequences / (double)pair->tp;
    s->grad_accum = of->micro_batches;
    s->sequence_parallel = pair->tp > 1 ? of->sequence_parallel : MW_AUTO;
    s->schedule = of->schedule;
    s->virtual_stages = of->schedule == MW_SCHEDULE_INTERLEAVED ? of->stretches : MW_AUTO;
}

bool
mw_parallel_settings(const struct mw_parallel_space *space, const struct mw_parallel_block *block,
                     const struct mw_parallel_variant *variant, struct mw_settings *out)
{
    const struct mw_request request = {space->model, space->hardware};
    const struct mw_parallel_shape *of =
        &g_array_index(space->shapes, struct mw_parallel_shape, block->shape);
    const struct mw_parallel_choice *choice =
        &g_array_index(of->choices, struct mw_parallel_choice, block->choice);
    struct mw_settings s = space->base;

    shape(&s, mw_parallel_pair_of(space, of), of);
    choose(&s, choice);
    place(&s, variant);
    if (!mw_settings_complete(&request, &s, out, NULL))
        return false;
    /* The options of a row name it where it is not the default. */
    out->whole_checkpoints = choice->whole ? 1 : MW_AUTO;
    return true;
}

/* What the software lacks is no point of its space. */
static bool
is_offered(const struct mw_offers *offers, const struct mw_sizing *sizing)
{
    const struct mw_placement *placed = sizing->settings.placement;
    bool drives = false;

    for (int state = 0; state < MW_STATE_COUNT; state++)
        drives = drives || mw_placement_has(&placed[state], MW_TIER_NVME);
    return (offers->drives || !drives) &&
           (offers->host_parameters ||
            !mw_placement_has(&placed[MW_STATE_PARAMETERS], MW_TIER_CPU)) &&
           (offers->host_gradients ||
            !mw_placement_has(&placed[MW_STATE_GRADIENTS], MW_TIER_CPU)) &&
           (offers->host_activations ||
            !mw_placement_has(&placed[MW_STATE_ACTIVATIONS], MW_TIER_CPU)) &&
           (offers->partitioned_stages || sizing->pp == 1 || !sizing->gradients_partitioned) &&
           (offers->hybrid_shard || sizing->replicas == 1 || !sizing->optimizer_partitioned) &&
           (!offers->gpus || sizing->ranks <= offers->gpus);
}

static bool
is_shape_offered(const struct mw_offers *offers, const struct mw_parallel_shape *of)
{
    return offers->sequence_parallel || of->sequence_parallel != 1;
}

/* Where nothing is recomputed, activations that leave do so whole, and only then; and some software
 * recomputes all layers or none. */
enum mw_parallel_fate
mw_parallel_fate_of(const struct mw_parallel_space *space, const struct mw_parallel_block *block,
                    guint variant)
{
    const struct mw_parallel_shape *of =
        &g_array_index(space->shapes, struct mw_parallel_shape, block->shape);
    const struct mw_parallel_pair *pair = mw_parallel_pair_of(space, of);
    const struct mw_parallel_choice *choice =
        &g_array_index(of->choices, struct mw_parallel_choice, block->choice);
    bool some = choice->interval && choice->layers != MW_AUTO;
    bool recomputes = choice->interval && !choice->whole;
    enum mw_parallel_fate fate = mw_parallel_state_of(of, pair, variant)->fate;
    const struct mw_parallel_variant *places =
        &g_array_index(pair->variants, struct mw_parallel_variant, variant);

    if (!recomputes && choice->whole != (places->tier[MW_STATE_ACTIVATIONS] != MW_TIER_GPU))
        return MW_PARALLEL_REFUSED;
    return fate == MW_PARALLEL_OPEN && some && !space->hardware->offers.recomputed_layers
               ? MW_PARALLEL_LACKING
               : fate;
}

/* --- what a variant takes beside compute ----------------------------------------------------- */

static bool
any_leaves(const GArray *variants)
{
    bool any = false;

    for (guint v = 0; v < variants->len; v++)
        any = any ||
              g_array_index(variants, struct mw_parallel_variant, v).tier[MW_STATE_ACTIVATIONS] !=
                  MW_TIER_GPU;
    return any;
}

static struct mw_sizing *
size_state(const struct mw_parallel_space *space, const struct mw_parallel_pair *pair,
           const struct mw_parallel_variant *variant, int64_t micro_batches)
{
    const struct mw_request request = {space->model, space->hardware};
    struct mw_settings s = space->base, resolved;

    divide(&s, pair);
    s.global_batch = MW_AUTO;
    s.step_tokens_max = 0;
    s.micro_batch = 1.0 / (double)pair->tp;
    s.grad_accum = micro_batches;
    s.checkpoint_interval = 0;
    place(&s, variant);
    return mw_settings_complete(&request, &s, &resolved, NULL)
               ? mw_sizing_new_distinct(space->model, space->hardware, &resolved, NULL)
               : NULL;
}

static struct mw_pipeline_beside
beside_of(const struct mw_sizing *stage, const struct mw_hardware *hw)
{
    struct mw_step_parts parts;

    mw_step_parts_of(stage, hw, &parts);
    return (struct mw_pipeline_beside){parts.compute_s - parts.own_s, parts.lanes_s,
                                       parts.after_s + parts.update_s};
}

static void
set_lines(const struct mw_sizing *some, const struct mw_sizing *more, const struct mw_hardware *hw,
          struct mw_parallel_state *out)
{
    for (int kind = 0; some && kind < MW_PIPELINE_KINDS; kind++, some = some->next_stage) {
        struct mw_parallel_line *line = &out->of[kind];
        line->at = beside_of(some, hw);
        for (int t = 0; t < MW_TIER_COUNT; t++) {
            bool stay = t != MW_TIER_GPU || mw_sizing_gradients_stay(some);
            int64_t gradients = some->ledger[t][MW_PURPOSE_GRADIENTS];
            line->home_bytes[t] = some->ledger[t][MW_PURPOSE_PARAMETERS] +
                                  some->ledger[t][MW_PURPOSE_OPTIMIZER_STATE] +
                                  (stay ? gradients : 0) -
                                  (t == MW_TIER_GPU ? mw_sizing_lacking_bytes(some) : 0);
            line->made_bytes[t] = stay ? 0 : gradients;
        }
        if (!more)
            continue;
        struct mw_pipeline_beside next = beside_of(more, hw);
        line->more = (struct mw_pipeline_beside){next.compute_s - line->at.compute_s,
                                                 next.lanes_s - line->at.lanes_s,
                                                 next.behind_s - line->at.behind_s};
        more = more->next_stage;
    }
}

static void
set_state(const struct mw_parallel_space *space, struct mw_parallel_pair *pair, int count,
          guint number)
{
    const struct mw_parallel_variant *variant =
        &g_array_index(pair->variants, struct mw_parallel_variant, number);
    struct mw_parallel_state *state = &pair->states[count][number];
    int64_t least = count == ALONE ? 1 : 2;
    struct mw_sizing *some = size_state(space, pair, variant, least);
    struct mw_sizing *more =
        some && count != ALONE ? size_state(space, pair, variant, least + 1) : NULL;

    state->fate = !some                                         ? MW_PARALLEL_REFUSED
                  : !is_offered(&space->hardware->offers, some) ? MW_PARALLEL_LACKING
                                                                : MW_PARALLEL_OPEN;
    set_lines(some, more, space->hardware, state);
    mw_sizing_free(some);
    mw_sizing_free(more);
}

static void
set_states(void *data, int number)
{
    const struct mw_parallel_space *space = data;
    struct mw_parallel_pair *pair = &g_array_index(space->pairs, struct mw_parallel_pair, number);

    for (int count = 0; count < COUNTS; count++) {
        pair->states[count] = g_new0(struct mw_parallel_state, pair->variants->len + 1);
        for (guint v = 0; v < pair->variants->len; v++)
            set_state(space, pair, count, v);
    }
}

/* --- shapes ----------------------------------------------------------------------------------- */

static void
add_shape(struct mw_parallel_space *space, struct mw_parallel_shape of)
{
    const struct mw_parallel_pair *pair = mw_parallel_pair_of(space, &of);
    int64_t layers = mw_divide_up(space->model->layers, pair->pp);
    struct mw_settings s = space->base;

    shape(&s, pair, &of);
    if (!is_open(space->asked, "batch", &s) || !is_open(space->asked, "sequence-parallel", &s) ||
        !is_open(space->asked, "schedule", &s) || !is_open(space->asked, "virtual-stages", &s))
        return;
    of.choices = find_choices(space, mw_divide_up(layers, of.stretches), of.stretches > 1,
                              pair->tp > 1 && of.sequence_parallel != 1);
    of.order = mw_pipeline_order_of(&s, space->model->layers, of.micro_batches);
    g_array_append_val(space->shapes, of);
}

/* Interleaved stages have all numbers of stretches of at least a layer each. */
static void
add_schedules(struct mw_parallel_space *space, struct mw_parallel_shape of)
{
    int64_t pp = mw_parallel_pair_of(space, &of)->pp, layers = space->model->layers;

    of.stretches = 1;
    of.schedule = MW_SCHEDULE_1F1B;
    add_shape(space, of);
    if (pp == 1)
        return;
    of.schedule = MW_SCHEDULE_GPIPE;
    add_shape(space, of);
    of.schedule = MW_SCHEDULE_INTERLEAVED;
    for (of.stretches = 2; of.stretches <= MIN(MW_STRETCHES_MAX, layers / pp); of.stretches++)
        add_shape(space, of);
}

/* Micro-batches of all numbers of sequences that divide a replica's. */
static void
add_batches(struct mw_parallel_space *space, int number)
{
    const struct mw_parallel_pair pair =
        g_array_index(space->pairs, struct mw_parallel_pair, number);
    int64_t all = space->base.global_batch;
    g_autoptr(GArray) sequences = divisors_of(all % pair.dp ? 1 : all / pair.dp);

    for (guint i = 0; i < sequences->len; i++)
        for (int parallel = 0; parallel < (pair.tp > 1 ? 2 : 1); parallel++) {
            int64_t each = g_array_index(sequences, int64_t, i);
            add_schedules(space, (struct mw_parallel_shape){.pair = number,
                                                            .sequences = each,
                                                            .micro_batches = all / pair.dp / each,
                                                            .sequence_parallel = parallel});
        }
}

static void
add_pairs(struct mw_parallel_space *space)
{
    int64_t gpus = space->base.nodes * space->base.gpus_per_node;
    g_autoptr(GArray) slices = divisors_of(gpus);

    for (guint t = 0; t < slices->len; t++) {
        int64_t tp = g_array_index(slices, int64_t, t);
        g_autoptr(GArray) stages = divisors_of(gpus / tp);
        for (guint p = 0; p < stages->len; p++) {
            int64_t pp = g_array_index(stages, int64_t, p), dp = gpus / tp / pp;
            struct mw_parallel_pair pair = {.tp = tp, .pp = pp, .dp = dp};
            struct mw_settings s = space->base;
            divide(&s, &pair);
            pair.variants =
                space->variants[dp > mw_sizing_node_group(&s) && mw_sizing_node_group(&s) > 1];
            if (is_open(space->asked, "tp", &s) && is_open(space->asked, "pp", &s))
                g_array_append_val(space->pairs, pair);
        }
    }
}

static bool
floor_of(const struct mw_parallel_space *space, const struct mw_parallel_shape *of,
         struct mw_pipeline_floor *floor, GError **error)
{
    struct mw_settings s = space->base;

    shape(&s, mw_parallel_pair_of(space, of), of);
    return mw_pipeline_floor_of(space->model, space->hardware, &s, space->leaves, floor, error);
}

void
mw_parallel_refuse_first(const struct mw_parallel_space *space, GError **error)
{
    struct mw_pipeline_floor floor;

    floor_of(space, &g_array_index(space->shapes, struct mw_parallel_shape, 0), &floor, error);
}

static void
set_floor(void *data, int number)
{
    const struct mw_parallel_space *space = data;
    struct mw_parallel_shape *of = &g_array_index(space->shapes, struct mw_parallel_shape, number);
    bool good = floor_of(space, of, &of->floor, NULL);

    of->fate = !good                                             ? MW_PARALLEL_REFUSED
               : !is_shape_offered(&space->hardware->offers, of) ? MW_PARALLEL_LACKING
                                                                 : MW_PARALLEL_OPEN;
}

/* Numbers the blocks. */
static void
count(struct mw_parallel_space *space)
{
    for (guint i = 0; i < space->shapes->len; i++) {
        struct mw_parallel_shape *of = &g_array_index(space->shapes, struct mw_parallel_shape, i);
        const struct mw_parallel_pair *pair = mw_parallel_pair_of(space, of);
        int64_t points = (int64_t)of->choices->len * pair->variants->len;
        space->points += points;
        space->refused += of->fate == MW_PARALLEL_REFUSED ? points : 0;
        space->lacking += of->fate == MW_PARALLEL_LACKING ? points : 0;
        of->first_block = space->blocks;
        space->blocks += of->fate == MW_PARALLEL_OPEN ? of->choices->len : 0;
    }
}

struct mw_parallel_block *
mw_parallel_blocks(const struct mw_parallel_space *space)
{
    struct mw_parallel_block *blocks = g_new(struct mw_parallel_block, space->blocks + 1), *next;

    next = blocks;
    for (guint i = 0; i < space->shapes->len; i++) {
        const struct mw_parallel_shape *of =
            &g_array_index(space->shapes, struct mw_parallel_shape, i);
        for (guint c = 0; of->fate == MW_PARALLEL_OPEN && c < of->choices->len; c++)
            *next++ = (struct mw_parallel_block){
                .floor_s = mw_parallel_bound_s(
                    of, &g_array_index(of->choices, struct mw_parallel_choice, c), NULL, NULL),
                .shape = (int32_t)i,
                .choice = (int32_t)c};
    }
    return blocks;
}

/* --- the whole -------------------------------------------------------------------------------- */

static void
free_array(gpointer array)
{
    if (array)
        g_array_unref(array);
}

/* As many sequences as the default has tokens, in whole micro-batches of all GPUs. */
static int64_t
default_batch(const struct mw_model *model, const struct mw_settings *settings)
{
    int64_t gpus = settings->nodes * settings->gpus_per_node;
    int64_t sequences = (int64_t)(mw_default_step_tokens(model, settings) / (double)settings->seq);

    return MAX(gpus, sequences / gpus * gpus);
}

static bool
check_model(const struct mw_model *model, GError **error)
{
    return mw_model_count_blocks(model, mw_model_block_kind(model, 0), 0, model->layers) ==
               model->layers ||
           mw_refuse(error,
                     "{search=parallel}: model %s has layers that differ; the search takes models "
                     "whose layers are alike",
                     model->name);
}

static void
set_base(struct mw_parallel_space *space)
{
    struct mw_settings *s = &space->base;

    s->gpus_per_node =
        s->gpus_per_node == MW_AUTO ? space->hardware->gpus_per_node : s->gpus_per_node;
    s->seq = s->seq == MW_AUTO ? mw_settings_default_seq(space->model) : s->seq;
    s->tiles = s->tiles == MW_AUTO ? 1 : s->tiles;
    s->logits_chunks = s->logits_chunks == MW_AUTO ? 1 : s->logits_chunks;
    s->commit = s->commit == MW_AUTO ? 0 : s->commit;
    s->ops_max = OPS_ANY;
    if (s->global_batch == MW_AUTO)
        s->global_batch = default_batch(space->model, s);
}

struct mw_parallel_space *
mw_parallel_space_new(const struct mw_parallel_question *asked, GError **error)
{
    struct mw_parallel_space *space = g_new0(struct mw_parallel_space, 1);

    space->asked = asked;
    space->model = &asked->question->model;
    space->hardware = &asked->question->hardware[MW_OUTLOOK_TYPICAL];
    space->base = asked->question->settings;
    space->strategies = mw_parallel_strategies();
    if (!check_model(space->model, error)) {
        g_free(space);
        return NULL;
    }
    set_base(space);
    space->pairs = g_array_new(FALSE, TRUE, sizeof(struct mw_parallel_pair));
    space->shapes = g_array_new(FALSE, TRUE, sizeof(struct mw_parallel_shape));
    space->choices = g_ptr_array_new_with_free_func(free_array);
    for (int groups = 0; groups < 2; groups++)
        space->variants[groups] = variants_of(space, groups);
    space->leaves = any_leaves(space->variants[0]) || any_leaves(space->variants[1]);
    add_pairs(space);
    for (guint p = 0; p < space->pairs->len; p++)
        add_batches(space, (int)p);
    mw_parallel_each(set_floor, space, (int)space->shapes->len);
    mw_parallel_each(set_states, space, (int)space->pairs->len);
    count(space);
    return space;
}

void
mw_parallel_space_free(struct mw_parallel_space *space)
{
    if (!space)
        return;
    for (guint p = 0; p < space->pairs->len; p++)
        for (int c = 0; c < COUNTS; c++)
            g_free(g_array_index(space->pairs, struct mw_parallel_pair, p).states[c]);
    g_array_unref(space->pairs);
    g_array_unref(space->shapes);
    g_ptr_array_unref(space->choices);
    for (int groups = 0; groups < 2; groups++)
        g_array_unref(space->variants[groups]);
    g_free(space);
}
