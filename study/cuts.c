#include "study/cuts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/evaluate.h"

static const struct {
    const char *name;
    int64_t bytes;
} nodes[MW_CUT_NODES] = {
    [MW_CUT_FORWARD] = {"forward", 0}, [MW_CUT_BACKWARD] = {"backward", 0},
    [MW_CUT_UPDATE] = {"update", 0},   [MW_CUT_CAST] = {"cast", 0},
    [MW_CUT_P16] = {"p16", 2},         [MW_CUT_G16] = {"g16", 2},
    [MW_CUT_P32] = {"p32", 4},         [MW_CUT_M32] = {"m32", 4},
    [MW_CUT_V32] = {"v32", 4},
};

/* Between a node that computes and one that holds state; it carries all of that state.  Activations
 * go from forward to backward, too: both stay where they are, so that edge is never cut. */
static const struct edge {
    enum mw_cut_node from, to;
} edges[] = {
    {MW_CUT_P16, MW_CUT_FORWARD}, {MW_CUT_P16, MW_CUT_BACKWARD}, {MW_CUT_BACKWARD, MW_CUT_G16},
    {MW_CUT_G16, MW_CUT_UPDATE},  {MW_CUT_P32, MW_CUT_UPDATE},   {MW_CUT_M32, MW_CUT_UPDATE},
    {MW_CUT_V32, MW_CUT_UPDATE},  {MW_CUT_UPDATE, MW_CUT_P32},   {MW_CUT_UPDATE, MW_CUT_M32},
    {MW_CUT_UPDATE, MW_CUT_V32},  {MW_CUT_P32, MW_CUT_CAST},     {MW_CUT_CAST, MW_CUT_P16},
};

static int64_t
edge_bytes(const struct edge *edge)
{
    return MAX(nodes[edge->from].bytes, nodes[edge->to].bytes);
}

const char *
mw_cut_node_name(enum mw_cut_node node)
{
    return nodes[node].name;
}

int64_t
mw_cut_node_bytes(enum mw_cut_node node)
{
    return nodes[node].bytes;
}

/* --- two tiers -------------------------------------------------------------------------------- */

struct mw_cut
mw_cut_of(uint32_t hosted)
{
    struct mw_cut cut = {0};

    for (int n = 0; n < MW_CUT_NODES; n++) {
        cut.on_host[n] = hosted >> n & 1;
        cut.gpu_bytes += cut.on_host[n] ? 0 : nodes[n].bytes;
    }
    for (size_t e = 0; e < G_N_ELEMENTS(edges); e++)
        if (cut.on_host[edges[e].from] != cut.on_host[edges[e].to])
            cut.link_bytes += edge_bytes(&edges[e]);
    return cut;
}

static bool
keeps_passes(const struct mw_cut *cut)
{
    return !cut->on_host[MW_CUT_FORWARD] && !cut->on_host[MW_CUT_BACKWARD];
}

static int64_t
whole_bytes(void)
{
    int64_t bytes = 0;

    for (int n = 0; n < MW_CUT_NODES; n++)
        bytes += nodes[n].bytes;
    return bytes;
}

static int
by_memory(const void *one, const void *other)
{
    int64_t a = ((const struct mw_cut *)one)->gpu_bytes;
    int64_t b = ((const struct mw_cut *)other)->gpu_bytes;

    return (a < b) - (a > b);
}

static bool
is_on_front(const struct mw_cut *cut)
{
    for (uint32_t i = 0; i < MW_CUTS; i++) {
        struct mw_cut other = mw_cut_of(i);
        bool better = other.gpu_bytes < cut->gpu_bytes || other.link_bytes < cut->link_bytes;
        if (keeps_passes(&other) && better && other.gpu_bytes <= cut->gpu_bytes &&
            other.link_bytes <= cut->link_bytes)
            return false;
    }
    return true;
}

struct mw_cuts
mw_cuts_count(void)
{
    struct mw_cuts it = {.all = MW_CUTS, .least_link_bytes = INT64_MAX};

    for (uint32_t i = 0; i < MW_CUTS; i++) {
        struct mw_cut cut = mw_cut_of(i);
        if (!keeps_passes(&cut))
            continue;
        it.passes_on_gpu++;
        if (cut.gpu_bytes < whole_bytes())
            it.least_link_bytes = MIN(it.least_link_bytes, cut.link_bytes);
    }
    for (uint32_t i = 0; i < MW_CUTS; i++) {
        struct mw_cut cut = mw_cut_of(i);
        if (!keeps_passes(&cut))
            continue;
        if (cut.link_bytes <= it.least_link_bytes && it.least_count < (int)G_N_ELEMENTS(it.least))
            it.least[it.least_count++] = cut;
        if (is_on_front(&cut) && it.front_count < (int)G_N_ELEMENTS(it.front))
            it.front[it.front_count++] = cut;
    }
    qsort(it.least, (size_t)it.least_count, sizeof *it.least, by_memory);
    qsort(it.front, (size_t)it.front_count, sizeof *it.front, by_memory);
    return it;
}

/* --- three tiers: bytes ----------------------------------------------------------------------- */

const char *
mw_cut_lane_name(enum mw_cut_lane lane)
{
    static const char *const names[MW_CUT_LANES] = {
        [MW_CUT_LANE_GPU] = "GPU",
        [MW_CUT_LANE_H2D] = "link to the GPU",
        [MW_CUT_LANE_D2H] = "link to the host",
        [MW_CUT_LANE_READ] = "drives, read",
        [MW_CUT_LANE_WRITE] = "drives, written",
        [MW_CUT_LANE_HOST] = "update on the host",
        [MW_CUT_LANE_RANKS] = "between GPUs",
    };

    return names[lane];
}

/* What all placements share. */
struct at_hand {
    const struct mw_sizing *sizing;
    struct mw_closed_rates rates;
    double whole, trained;       /* bytes of parameters of the model; elements that are trained */
    double spread_bytes, spread; /* of these those of experts that are spread over ranks */
    double part, shard;          /* of both, what a rank keeps */
    double compute_s;            /* of all micro-batches */
    double micro_batches, loads;
    double rest[MW_TIER_COUNT]; /* activations, their checkpoints, logits */
};

static void
count_params(const struct mw_sizing *sizing, struct at_hand *it)
{
    for (int c = 0; c < MW_CLASS_COUNT; c++) {
        const struct mw_class_info *class = &sizing->classes[c];
        for (int t = 0; class->blocks && t < class->tensor_count; t++) {
            const struct mw_unit_tensor *tensor = &class->tensors[t];
            double bytes = (double)mw_dtype_bytes(tensor->dtype, tensor->params);
            double blocks = (double)class->blocks, ranks = (double)tensor->ranks;
            double trained = tensor->trained ? blocks * (double)tensor->params : 0;
            bool spread = tensor->ranks < sizing->shards;
            it->whole += blocks * bytes;
            it->part += blocks * bytes / ranks;
            it->trained += trained;
            it->shard += trained / ranks;
            it->spread_bytes += spread ? blocks * bytes : 0;
            it->spread += spread ? trained : 0;
        }
    }
}

static struct at_hand
at_hand(const struct mw_sizing *sizing, const struct mw_hardware *hardware)
{
    const struct mw_settings *settings = &sizing->settings;
    static const enum mw_purpose rest[] = {MW_PURPOSE_ACTIVATIONS, MW_PURPOSE_LOGITS,
                                           MW_PURPOSE_ACTIVATION_CHECKPOINTS};
    struct mw_closed_form form;
    struct at_hand it = {
        .sizing = sizing,
        .micro_batches = (double)settings->grad_accum,
        .loads = settings->checkpoint_interval ? (double)settings->param_loads : 2,
    };

    mw_closed_form_of(sizing, hardware, &form);
    mw_closed_rates_of(sizing, hardware, &it.rates);
    it.compute_s = form.plan_s[MW_TERM_PRODUCTS] + form.plan_s[MW_TERM_MEMORY_BOUND];
    count_params(sizing, &it);
    for (int tier = 0; tier < MW_TIER_COUNT; tier++)
        for (size_t p = 0; p < G_N_ELEMENTS(rest); p++)
            it.rest[tier] += (double)sizing->ledger[tier][rest[p]];
    return it;
}

/* Parameters on the GPU are whole there, as in ZeRO-Offload; elsewhere, and all other state, each
 * rank has its share. */
static void
count_bytes(const struct at_hand *hand, struct mw_cut_placement *it)
{
    it->fits = true;
    for (int tier = 0; tier < MW_TIER_COUNT; tier++)
        it->bytes[tier] = hand->rest[tier];
    it->bytes[it->in[MW_CUT_P16]] += it->in[MW_CUT_P16] == MW_TIER_GPU ? hand->whole : hand->part;
    for (int n = MW_CUT_G16; n < MW_CUT_NODES; n++)
        it->bytes[it->in[n]] += (double)nodes[n].bytes * hand->shard;
    for (int tier = 0; tier < MW_TIER_COUNT; tier++)
        it->fits &= it->bytes[tier] <= (double)hand->sizing->tiers[tier].capacity_bytes;
}

/* --- three tiers: time ------------------------------------------------------------------------ */

/* Bytes that go from one tier to another, through the host. */
static void
carry(const struct at_hand *hand, enum mw_tier from, enum mw_tier to, double bytes, double *lanes)
{
    if (from == to)
        return;
    if (from == MW_TIER_NVME)
        lanes[MW_CUT_LANE_READ] += bytes / hand->rates.read;
    if (to == MW_TIER_NVME)
        lanes[MW_CUT_LANE_WRITE] += bytes / hand->rates.write;
    if (to == MW_TIER_GPU)
        lanes[MW_CUT_LANE_H2D] += bytes / hand->rates.h2d;
    if (from == MW_TIER_GPU)
        lanes[MW_CUT_LANE_D2H] += bytes / hand->rates.d2h;
}

/* How often an edge carries its state in a step. */
static double
times_of(const struct at_hand *hand, const struct edge *edge)
{
    if (edge->to == MW_CUT_FORWARD || edge->from == MW_CUT_BACKWARD)
        return hand->micro_batches;
    return edge->to == MW_CUT_BACKWARD ? hand->micro_batches * (hand->loads - 1) : 1;
}

static void
time_edges(const struct at_hand *hand, struct mw_cut_placement *it)
{
    for (size_t e = 0; e < G_N_ELEMENTS(edges); e++) {
        const struct edge *edge = &edges[e];
        bool passes = edge->to == MW_CUT_FORWARD || edge->to == MW_CUT_BACKWARD ||
                      edge->from == MW_CUT_BACKWARD;
        bool fetches = edge->from == MW_CUT_P16;
        double bytes = fetches ? hand->part : (double)edge_bytes(edge) * hand->shard;
        carry(hand, it->in[edge->from], it->in[edge->to], bytes * times_of(hand, edge),
              passes ? it->passes_s : it->update_s);
    }
}

/* Of experts that are spread, over the ranks that have the same ones. */
static double
both_s(const struct at_hand *hand, double bytes, double spread)
{
    return mw_ring_s(&hand->rates.shards, bytes - spread) +
           (spread > 0 ? mw_ring_s(&hand->rates.expert_replicas, spread) : 0);
}

/* Gradients are reduced to shards; parameters are gathered before each use, or once. */
static void
time_ranks(const struct at_hand *hand, struct mw_cut_placement *it)
{
    double gathered = both_s(hand, hand->whole, hand->spread_bytes);
    double made_bytes = (double)nodes[MW_CUT_G16].bytes;

    if (hand->sizing->shards < 2)
        return;
    it->passes_s[MW_CUT_LANE_RANKS] =
        hand->micro_batches * both_s(hand, made_bytes * hand->trained, made_bytes * hand->spread);
    if (it->in[MW_CUT_P16] == MW_TIER_GPU)
        it->update_s[MW_CUT_LANE_RANKS] = gathered;
    else
        it->passes_s[MW_CUT_LANE_RANKS] += hand->micro_batches * hand->loads * gathered;
}

static double
busiest(const double lanes[MW_CUT_LANES], enum mw_cut_lane *which)
{
    *which = MW_CUT_LANE_GPU;
    for (int lane = 0; lane < MW_CUT_LANES; lane++)
        if (lanes[lane] > lanes[*which])
            *which = (enum mw_cut_lane)lane;
    return lanes[*which];
}

static void
time_placement(const struct at_hand *hand, struct mw_cut_placement *it)
{
    bool host = it->in[MW_CUT_UPDATE] == MW_TIER_CPU;
    enum mw_cut_lane passes, update;

    it->passes_s[MW_CUT_LANE_GPU] = hand->compute_s;
    it->update_s[host ? MW_CUT_LANE_HOST : MW_CUT_LANE_GPU] =
        hand->shard * hand->rates.update_s_per_param[host];
    time_edges(hand, it);
    time_ranks(hand, it);
    double passes_s = busiest(it->passes_s, &passes), update_s = busiest(it->update_s, &update);
    it->least_s = passes_s + update_s;
    it->limit = passes_s >= update_s ? passes : update;
}

/* --- which strategy places state so ----------------------------------------------------------- */

static bool
allows(const struct mw_state_traits *row, enum mw_tier tier)
{
    return tier >= row->nearest && tier <= row->deepest;
}

/* Strategies update where the state of 32 bits lives, on the host if that is off the GPU, and move
 * gradients with it. */
static bool
places_so(const struct mw_strategy_traits *row, const struct mw_cut_placement *it)
{
    const struct mw_state_traits *state = row->state;
    bool off = it->in[MW_CUT_P32] != MW_TIER_GPU;
    enum mw_tier updates = off ? MW_TIER_CPU : MW_TIER_GPU;

    for (int n = MW_CUT_P32; n < MW_CUT_NODES; n++)
        if (!allows(&state[MW_STATE_OPTIMIZER], it->in[n]) || (it->in[n] != MW_TIER_GPU) != off)
            return false;
    return it->in[MW_CUT_UPDATE] == updates && it->in[MW_CUT_CAST] == updates &&
           (it->in[MW_CUT_G16] != MW_TIER_GPU) == off &&
           allows(&state[MW_STATE_GRADIENTS], it->in[MW_CUT_G16]) &&
           allows(&state[MW_STATE_PARAMETERS], it->in[MW_CUT_P16]) &&
           state[MW_STATE_PARAMETERS].partitioned == (it->in[MW_CUT_P16] != MW_TIER_GPU) &&
           state[MW_STATE_GRADIENTS].partitioned && state[MW_STATE_OPTIMIZER].partitioned;
}

const char *
mw_cut_placement_strategy(const struct mw_cut_placement *it)
{
    const struct mw_strategies all = mw_strategies_of(MW_STRATEGY_AUTO);

    for (int s = 0; s < all.count; s++)
        if (places_so(mw_strategy_traits(all.one[s]), it))
            return mw_strategy_name((int)all.one[s]);
    return NULL;
}

/* --- three tiers: all placements -------------------------------------------------------------- */

#define STATES (MW_CUT_NODES - MW_CUT_P16)
#define PLACEMENTS (4 * 243) /* update and cast on GPU or host; five states in three tiers */
G_STATIC_ASSERT(STATES == 5 && MW_TIER_COUNT == 3);

static void
place(int number, struct mw_cut_placement *it)
{
    *it = (struct mw_cut_placement){0};
    it->in[MW_CUT_UPDATE] = number & 1 ? MW_TIER_CPU : MW_TIER_GPU;
    it->in[MW_CUT_CAST] = number & 2 ? MW_TIER_CPU : MW_TIER_GPU;
    number /= 4;
    for (int n = MW_CUT_P16; n < MW_CUT_NODES; n++, number /= MW_TIER_COUNT)
        it->in[n] = (enum mw_tier)(number % MW_TIER_COUNT);
}

static int
by_time(const void *one, const void *other)
{
    const struct mw_cut_placement *a = one, *b = other;

    if (a->least_s != b->least_s)
        return a->least_s < b->least_s ? -1 : 1;
    if (a->bytes[MW_TIER_GPU] != b->bytes[MW_TIER_GPU])
        return a->bytes[MW_TIER_GPU] < b->bytes[MW_TIER_GPU] ? -1 : 1;
    return (a->bytes[MW_TIER_NVME] > b->bytes[MW_TIER_NVME]) -
           (a->bytes[MW_TIER_NVME] < b->bytes[MW_TIER_NVME]);
}

/* By one of the front so far, all of which are as fast. */
static bool
is_beaten(const struct mw_cut_placements *so_far, const struct mw_cut_placement *it)
{
    for (int i = 0; i < so_far->front_count; i++)
        if (so_far->front[i].bytes[MW_TIER_GPU] <= it->bytes[MW_TIER_GPU] &&
            so_far->front[i].bytes[MW_TIER_CPU] <= it->bytes[MW_TIER_CPU])
            return true;
    return false;
}

static void
add_named(struct mw_cut_placements *all, const struct mw_cut_placement *it)
{
    const char *strategy = mw_cut_placement_strategy(it);

    for (int i = 0; strategy && i < all->named_count; i++)
        if (!strcmp(mw_cut_placement_strategy(&all->named[i]), strategy))
            return;
    if (strategy)
        all->named[all->named_count++] = *it;
}

struct mw_cut_placements
mw_cut_placements_of(struct mw_sizing *sizing, const struct mw_hardware *hardware)
{
    struct at_hand hand = at_hand(sizing, hardware);
    struct mw_cut_placements it = {
        .sizing = sizing,
        .params = hand.trained,
        .count = PLACEMENTS,
        .front = g_new0(struct mw_cut_placement, PLACEMENTS),
    };

    for (int i = 0; i < PLACEMENTS; i++) {
        struct mw_cut_placement *next = &it.front[it.fitting];
        place(i, next);
        count_bytes(&hand, next);
        time_placement(&hand, next);
        it.fitting += next->fits;
    }
    qsort(it.front, (size_t)it.fitting, sizeof *it.front, by_time);
    for (int64_t i = 0; i < it.fitting; i++)
        add_named(&it, &it.front[i]);
    for (int64_t i = 0; i < it.fitting; i++)
        if (!is_beaten(&it, &it.front[i]))
            it.front[it.front_count++] = it.front[i];
    return it;
}

void
mw_cut_placements_clear(struct mw_cut_placements *placements)
{
    g_clear_pointer(&placements->front, g_free);
}
