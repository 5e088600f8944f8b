#include "planner/stage_replicas.h"

#include <glib.h>
#include <math.h>

#include "planner/sizing/sizing.h"
#include "planner/stage_split.h"

/* --- one stage ------------------------------------------------------------------------------- */

struct part {
    double work_s; /* of a micro-batch */
    double sum_s;  /* 2 w / B: m replicas take (m - 1) / m of it for m micro-batches */
};

static double
replicated_s(struct part part, int64_t replicas)
{
    double m = (double)replicas;

    return replicas == 1 ? part.work_s : fmax(part.work_s / m, part.sum_s * (m - 1) / (m * m));
}

/* The fewest replicas that take no longer, or more than `most`.  From two on more of them are never
 * slower. */
static int64_t
replicas_within(struct part part, double limit_s, int64_t most)
{
    int64_t least = 2, over = most;

    if (replicated_s(part, 1) <= limit_s)
        return 1;
    if (most < 2 || replicated_s(part, most) > limit_s)
        return most + 1;
    while (least < over) {
        int64_t middle = least + (over - least) / 2;
        if (replicated_s(part, middle) <= limit_s)
            over = middle;
        else
            least = middle + 1;
    }
    return least;
}

/* --- all stages ------------------------------------------------------------------------------ */

struct search {
    const struct mw_stage_costs *costs;
    double *until_s; /* [layers + 1] of the layers before */
    int64_t *until_bytes;
    int64_t *gpus, *stages, *from; /* [layers + 1] of the stages that end there: the fewest GPUs */
};

static void
add_up(struct search *it)
{
    it->until_s[0] = 0;
    it->until_bytes[0] = 0;
    for (int64_t l = 0; l < it->costs->layers; l++) {
        it->until_s[l + 1] = it->until_s[l] + it->costs->layer_s[l];
        it->until_bytes[l + 1] = it->until_bytes[l] + it->costs->layer_bytes[l];
    }
}

static struct part
part_of(const struct search *it, int64_t begin, int64_t end)
{
    const struct mw_stage_costs *costs = it->costs;
    double work_s = it->until_s[end] - it->until_s[begin];
    int64_t bytes = it->until_bytes[end] - it->until_bytes[begin];

    if (begin == 0) {
        work_s += costs->head_s;
        bytes += costs->head_bytes;
    }
    if (end == costs->layers) {
        work_s += costs->tail_s;
        bytes += costs->tail_bytes;
    }
    return (struct part){work_s, 2 * (double)bytes / costs->bytes_per_s};
}

/* The fewest GPUs for the layers until each one, where no stage takes longer; of as many the fewest
 * stages. */
static int64_t
fewest_gpus(struct search *it, double limit_s, int64_t most)
{
    int64_t layers = it->costs->layers;

    it->gpus[0] = it->stages[0] = 0;
    for (int64_t end = 1; end <= layers; end++) {
        it->gpus[end] = most + 1;
        for (int64_t begin = end - 1; begin >= 0; begin--) {
            if ((begin && it->costs->hop_s > limit_s) || it->gpus[begin] >= most ||
                it->stages[begin] >= MW_REPLICATED_STAGES_MAX)
                continue;
            int64_t own = replicas_within(part_of(it, begin, end), limit_s, most);
            int64_t all = it->gpus[begin] + own;
            bool fewer = all == it->gpus[end] && it->stages[begin] + 1 < it->stages[end];
            if (all > most || (all >= it->gpus[end] && !fewer))
                continue;
            it->gpus[end] = all;
            it->stages[end] = it->stages[begin] + 1;
            it->from[end] = begin;
        }
    }
    return it->gpus[layers];
}

static void
read_stages(const struct search *it, double limit_s, int64_t most, struct mw_replicated_stages *out)
{
    int64_t end = it->costs->layers;

    out->count = (int)it->stages[end];
    out->micro_batch_s = out->count > 1 ? it->costs->hop_s : 0;
    for (int s = out->count - 1; s >= 0; s--) {
        struct part part = part_of(it, it->from[end], end);
        out->begins[s] = it->from[end];
        out->replicas[s] = replicas_within(part, limit_s, most);
        out->micro_batch_s = fmax(out->micro_batch_s, replicated_s(part, out->replicas[s]));
        end = it->from[end];
    }
}

/* Halves what is between times that are enough, and those that are not, until no time of any stage
 * lies between them. */
static void
search_within(struct search *it, int64_t gpus, struct mw_replicated_stages *out)
{
    double low_s = 0, high_s = replicated_s(part_of(it, 0, it->costs->layers), 1);

    fewest_gpus(it, high_s, gpus);
    read_stages(it, high_s, gpus, out);
    for (high_s = out->micro_batch_s; high_s - low_s > 1e-12 * high_s;) {
        double middle_s = low_s + (high_s - low_s) / 2;
        if (fewest_gpus(it, middle_s, gpus) <= gpus) {
            read_stages(it, middle_s, gpus, out);
            high_s = out->micro_batch_s;
        } else {
            low_s = middle_s;
        }
    }
}

void
mw_stage_replicas_find(const struct mw_stage_costs *costs, int64_t gpus,
                       struct mw_replicated_stages *out)
{
    int64_t count = costs->layers + 1;
    g_autofree double *until_s = g_new0(double, count);
    g_autofree int64_t *until_bytes = g_new0(int64_t, count);
    g_autofree int64_t *of_gpus = g_new0(int64_t, count), *stages = g_new0(int64_t, count);
    g_autofree int64_t *from = g_new0(int64_t, count);
    struct search it = {costs, until_s, until_bytes, of_gpus, stages, from};

    add_up(&it);
    search_within(&it, gpus, out);
}

double
mw_stage_replicated_s(const struct mw_stage_costs *costs, int64_t begin, int64_t end,
                      int64_t replicas)
{
    double work_s = begin == 0 ? costs->head_s : 0;
    int64_t bytes = begin == 0 ? costs->head_bytes : 0;

    for (int64_t l = begin; l < end; l++) {
        work_s += costs->layer_s[l];
        bytes += costs->layer_bytes[l];
    }
    if (end == costs->layers) {
        work_s += costs->tail_s;
        bytes += costs->tail_bytes;
    }
    struct part part = {work_s, 2 * (double)bytes / costs->bytes_per_s};
    return replicated_s(part, replicas);
}

/* --- where stages of given replicas begin ---------------------------------------------------- */

struct given {
    const struct search *search;
    const struct mw_stage_replicas *replicas;
};

static double
given_s(const void *data, int64_t stage, int64_t begin, int64_t end)
{
    const struct given *given = data;

    return replicated_s(part_of(given->search, begin, end), given->replicas->of[stage]);
}

double
mw_stage_replicas_split(const struct mw_stage_costs *costs,
                        const struct mw_stage_replicas *replicas, int64_t *begins)
{
    int64_t count = costs->layers + 1;
    g_autofree double *until_s = g_new(double, count);
    g_autofree int64_t *until_bytes = g_new(int64_t, count);
    struct search it = {.costs = costs, .until_s = until_s, .until_bytes = until_bytes};
    const struct given given = {&it, replicas};
    const struct mw_split_costs split = {costs->layers, replicas->stages, 1, NULL, given_s, &given};

    add_up(&it);
    return mw_split_find(&split, begins);
}

/* --- a model on a machine -------------------------------------------------------------------- */

static int64_t
gradient_bytes(const struct mw_operator_info *operators, int count, const struct mw_shape *shape)
{
    int64_t params = 0;

    for (int i = 0; i < count; i++)
        params += operators[i].trained ? operators[i].params : 0;
    return params * mw_dtype_element_bytes(shape->dtype);
}

/* clear_costs it.  Hops and sums are over the slowest link there is between the GPUs: the paper's
 * lower levels are left out. */
static void
costs_of(const struct mw_model *model, const struct mw_hardware *hardware,
         const struct mw_settings *settings, struct mw_stage_costs *costs)
{
    struct mw_operator_info operators[MW_LAYER_OPERATORS_MAX];
    struct mw_shape shape = mw_sizing_shape(model, settings, hardware);
    bool again = settings->checkpoint_interval != 0, nodes = settings->nodes > 1;
    double per_gpu = hardware->nic_gpu_bytes_per_s > 0
                         ? hardware->nic_gpu_bytes_per_s
                         : hardware->nic_bytes_per_s / (double)hardware->gpus_per_node;
    double passes = 2 * (double)mw_dtype_element_bytes(shape.dtype) * (double)model->hidden;

    *costs = (struct mw_stage_costs){
        .layers = model->layers,
        .layer_s = g_new(double, model->layers),
        .layer_bytes = g_new(int64_t, model->layers),
        .bytes_per_s = nodes ? per_gpu : hardware->fabric_bytes_per_s,
    };
    for (int64_t l = 0; l < model->layers; l++) {
        int count = mw_model_layer(model, l, &shape, operators);
        costs->layer_s[l] = mw_stage_operators_s(operators, count, again, hardware);
        costs->layer_bytes[l] = gradient_bytes(operators, count, &shape);
    }
    int head = mw_model_head(model, &shape, operators);
    costs->head_s = mw_stage_operators_s(operators, head, false, hardware);
    costs->head_bytes = gradient_bytes(operators, head, &shape);
    int tail = mw_model_tail(model, &shape, operators);
    costs->tail_s = mw_stage_operators_s(operators, tail, false, hardware);
    costs->tail_bytes = gradient_bytes(operators, tail, &shape);
    costs->hop_s = passes * (double)mw_shape_tokens(&shape) / costs->bytes_per_s;
}

static void
clear_costs(struct mw_stage_costs *costs)
{
    g_clear_pointer(&costs->layer_s, g_free);
    g_clear_pointer(&costs->layer_bytes, g_free);
}

void
mw_stage_replicas_choose(const struct mw_model *model, const struct mw_hardware *hardware,
                         struct mw_settings *settings)
{
    struct mw_settings one = *settings;
    int64_t begins[MW_REPLICATED_STAGES_MAX];
    struct mw_stage_costs costs;

    if (!mw_settings_balances_stages(settings) || !mw_settings_takes_turns(settings) ||
        settings->pp != settings->stage_replicas.stages || settings->pp > model->layers ||
        model->layers > MW_LAYER_SET_MAX)
        return; /* which is said elsewhere */
    settings->stage_begins = (struct mw_layer_set){{0}};
    one.micro_batch = one.micro_batch == MW_AUTO ? 1 : one.micro_batch;
    costs_of(model, hardware, &one, &costs);
    mw_stage_replicas_split(&costs, &settings->stage_replicas, begins);
    clear_costs(&costs);
    for (int64_t stage = 1; stage < settings->pp; stage++)
        mw_layer_set_add(&settings->stage_begins, begins[stage]);
}

/* GPUs that no stage needs go to the first one that is replicated anyway: it is no slower. */
static void
take_all_gpus(struct mw_replicated_stages *found, int64_t gpus)
{
    for (int i = 0; i < found->count; i++)
        gpus -= found->replicas[i];
    for (int i = 0; i < found->count && gpus; i++)
        if (found->replicas[i] > 1) {
            found->replicas[i] += gpus;
            return;
        }
}

double
mw_stage_replicas_gain(const struct mw_model *model, const struct mw_hardware *hardware,
                       const struct mw_settings *settings, struct mw_replicated_stages *out)
{
    int64_t gpus = settings->nodes * settings->gpus_per_node / settings->tp;
    struct mw_stage_costs costs;
    double now_s = 0;

    costs_of(model, hardware, settings, &costs);
    for (int64_t stage = 0; stage < settings->pp; stage++) {
        int64_t begin = mw_settings_stretch_begin(settings, model->layers, stage);
        int64_t end = mw_settings_stretch_begin(settings, model->layers, stage + 1);
        int64_t replicas = mw_settings_stage_ranks(settings, stage);
        double own_s = mw_stage_replicated_s(&costs, begin, end, replicas);
        now_s = fmax(now_s, fmax(own_s, costs.hop_s));
    }
    mw_stage_replicas_find(&costs, gpus, out);
    clear_costs(&costs);
    double share = out->micro_batch_s / now_s;
    take_all_gpus(out, gpus);
    return share;
}
