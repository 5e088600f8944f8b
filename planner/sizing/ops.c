/*
 * Counts the ops that the builder would make for a sizing, before it makes any.  A plan takes half
 * a kilobyte and some microseconds per op, so a plan with too many ops is refused, with the nearest
 * setting that is quick.  test_planner_random compares the count with what is built.
 */
#include <glib.h>

#include "base/error.h"
#include "base/arithmetic.h"
#include "planner/sizing/internal.h"

/* A unit of a class, and how often a step passes through it. */
struct passage {
    const struct mw_class_info *class;
    const struct mw_unit *unit;
    int64_t loads; /* of its parameters per micro-batch, each in as many parts as it has tiles */
};

/* --- one micro-batch ------------------------------------------------------------------------- */

/* Ops that move a tensor's parameters from where they live to the GPU, and from there to all
 * ranks. */
static int64_t
fetch_ops(const struct mw_sizing *s, const struct mw_unit_tensor *tensor, enum mw_tier home,
          int64_t loads)
{
    if (!s->params_partitioned)
        return 0;
    return loads * tensor->tiles *
           ((home == MW_TIER_NVME) + (home != MW_TIER_GPU) + (tensor->ranks > 1));
}

/* How often a step fetches what a micro-batch needs. */
static int64_t
fetches(const struct mw_sizing *s)
{
    return mw_settings_layer_order(&s->settings) ? 1 : mw_sizing_micro_batches(s);
}

/* From forward of the logits to their backward their weight stays, in chunks or layer by layer. */
static int64_t
logits_loads(const struct mw_sizing *s)
{
    return s->settings.logits_chunks > 1 || mw_settings_layer_order(&s->settings) ? 1 : 2;
}

/* The ops that move the gradient of one part in a micro-batch, but for sums over replicas. */
static int64_t
moving_ops(const struct mw_sizing *s, const struct mw_unit_tensor *tensor, enum mw_tier home,
           bool first, bool last)
{
    bool sums = s->gradients_summed, nvme = home == MW_TIER_NVME, reduced = tensor->ranks > 1;

    if (!s->gradients_partitioned)
        return (home != MW_TIER_GPU || sums) + (reduced && last && !s->reduced_at_end);
    if (home == MW_TIER_GPU)
        return reduced + sums;
    if (mw_sizing_sums_passing(s))
        return reduced + 1 +
               (last ? 1 + (nvme ? 1 + !mw_settings_update_beside(&s->settings) : 0) : 0);
    if (s->sums_on_host && nvme)
        return reduced + 2 + (last ? 1 + !mw_settings_update_beside(&s->settings) : 0);
    return reduced + 1 + (sums ? 1 + (nvme && !first) : 0) +
           (nvme ? 1 + (last && !mw_settings_update_beside(&s->settings)) : 0);
}

/* Of sums over the groups that hold replicas: of each micro-batch where it goes to the host. */
static int64_t
replica_ops(const struct mw_sizing *s, enum mw_tier home, bool last)
{
    bool stays = !s->gradients_partitioned || home == MW_TIER_GPU || mw_sizing_sums_passing(s);

    return s->replicas > 1 && (last || !stays);
}

static int64_t
part_gradient_ops(const struct mw_sizing *s, const struct mw_unit_tensor *tensor, enum mw_tier home,
                  bool first, bool last)
{
    return moving_ops(s, tensor, home, first, last) + replica_ops(s, home, last);
}

/* The same over all micro-batches of a step. */
static int64_t
gradient_ops(const struct mw_sizing *s, const struct mw_unit_tensor *tensor, enum mw_tier home)
{
    int64_t accum = mw_sizing_micro_batches(s), ops = 0;

    if (!tensor->params || !tensor->trained)
        return 0;
    if (mw_settings_stashes(&s->settings))
        return accum * part_gradient_ops(s, tensor, home, true, true) * tensor->tiles;
    ops = part_gradient_ops(s, tensor, home, true, accum == 1);
    if (accum > 1)
        ops += part_gradient_ops(s, tensor, home, false, true) +
               (accum - 2) * part_gradient_ops(s, tensor, home, false, false);
    return ops * tensor->tiles;
}

static bool
is_tiled(const struct passage *p, int operator_)
{
    const struct mw_unit_tensor *tiled = &p->class->tensors[p->unit->first_tensor + p->unit->tiled];

    return p->unit->tiles > 1 && operator_ >= tiled->first &&
           operator_ < tiled->first + tiled->count;
}

/* Sums of tensor slices in a pass, and what backward has beside them. */
static int64_t
slicing_ops(const struct mw_sizing *s, const struct passage *p, bool backward)
{
    int64_t ops = 0;

    for (int i = p->unit->first; s->tp > 1 && i < p->unit->first + p->unit->count; i++) {
        const struct mw_operator_info *info = &p->class->operators[i];
        ops += mw_sizing_all_reduces(info->operator_, backward) *
               mw_sizing_sum_parts(s, info->operator_);
        ops += !is_tiled(p, i) && mw_sizing_in_pieces(s, info->operator_, backward);
        if (backward)
            ops += mw_sizing_splits_backward(s, info) + mw_sizing_gathers_input(s, info) +
                   mw_sizing_gathers_gradient(s, info->operator_) + mw_sizing_sums_norm(s, info);
        else
            ops += mw_sizing_gathers_result(s, info->operator_);
    }
    return ops;
}

/* All-to-alls in a pass, as many forward as back; and what passes around a ring, beside attention
 * that forward has in two ops. */
static int64_t
exchange_ops(const struct mw_sizing *s, const struct passage *p, bool backward)
{
    int64_t ops = 0;

    if (!mw_sizing_shares_layers(s))
        return 0;
    for (int i = p->unit->first; i < p->unit->first + p->unit->count; i++) {
        enum mw_operator operator_ = p->class->operators[i].operator_;
        ops += (mw_sizing_exchange_bytes(s, operator_, true) > 0) +
               (mw_sizing_exchange_bytes(s, operator_, false) > 0);
        ops += (mw_sizing_expert_slices_bytes(s, operator_, true) > 0) +
               (mw_sizing_expert_slices_bytes(s, operator_, false) > 0);
        ops += mw_sizing_rings(s, operator_) * (backward ? 1 : 2);
    }
    return ops;
}

static int64_t
recompute_ops(const struct mw_sizing *s, const struct passage *p)
{
    return p->unit->tiles + p->unit->count - 1 + slicing_ops(s, p, false) +
           exchange_ops(s, p, false);
}

/* Ops of the gradients of weights that come later. */
static int64_t
weights_ops(const struct mw_sizing *s, const struct passage *p)
{
    int tiled = mw_sizing_largest_operator(p->class, p->unit->first, p->unit->count);
    int64_t ops = 0;

    for (int i = p->unit->first; i < p->unit->first + p->unit->count; i++)
        if (mw_sizing_weights_later(s, &p->class->operators[i]))
            ops += i == tiled ? p->unit->tiles : 1;
    return ops;
}

static int64_t
layer_unit_ops(const struct mw_sizing *s, struct passage *p)
{
    bool recomputes = s->settings.checkpoint_interval > 0; /* kept layers are counted apart */
    int64_t pass = p->unit->tiles + p->unit->count - 1;

    p->loads = recomputes ? s->settings.param_loads : 2;
    return 2 * pass + exchange_ops(s, p, false) + exchange_ops(s, p, true) +
           slicing_ops(s, p, false) + slicing_ops(s, p, true) +
           (recomputes ? recompute_ops(s, p) : 0) + weights_ops(s, p);
}

static int64_t
head_unit_ops(const struct mw_sizing *s, struct passage *p)
{
    int64_t pass = p->unit->tiles + p->unit->count - 1;

    p->loads = 1;
    return pass + slicing_ops(s, p, false) +
           mw_sizing_trains_head(s) * (pass + slicing_ops(s, p, true));
}

/* What tied logits have beside the embedding, forward and backward. */
static int64_t
tied_rest_ops(const struct mw_sizing *s, struct passage *p)
{
    int64_t pass = p->class->params ? p->unit->tiles - 1 : 0;
    int64_t sums = slicing_ops(s, p, false) + slicing_ops(s, p, true);

    for (int i = p->unit->first; i < p->unit->first + p->unit->count; i++)
        pass += p->class->operators[i].params > 0;
    p->loads = !p->class->params ? 0 : mw_settings_layer_order(&s->settings) ? 1 : 2;
    return 2 * pass + sums;
}

/* The embedding's parts as the logits' weight, and the loss, in each chunk of the tokens. */
static int64_t
tied_logits_ops(const struct mw_sizing *s)
{
    const struct mw_class_info *head = &s->classes[MW_CLASS_HEAD];
    int64_t chunks = s->settings.logits_chunks;
    const struct mw_unit_tensor *weight = &head->tensors[head->units[0].tiled];

    return mw_sizing_micro_batches(s) * 2 * chunks * (head->units[0].tiles + 1) +
           fetches(s) * fetch_ops(s, weight, (enum mw_tier)s->param_home[0], logits_loads(s));
}

static int64_t
tail_unit_ops(const struct mw_sizing *s, struct passage *p)
{
    int tiled = mw_sizing_largest_operator(p->class, p->unit->first, p->unit->count);
    int64_t pass = 0;

    if (mw_sizing_tied(s))
        return tied_rest_ops(s, p);
    for (int i = p->unit->first; i < p->unit->first + p->unit->count; i++)
        pass += mw_sizing_token_parts(s, p->class->operators[i].operator_) *
                (i == tiled ? p->unit->tiles : 1);
    p->loads = logits_loads(s);
    return 2 * pass + slicing_ops(s, p, false) + slicing_ops(s, p, true);
}

/* --- the whole step -------------------------------------------------------------------------- */

/* Transfers of tensor t in some blocks of a class: blocks where its parameters live in one tier,
 * and its gradients do, have equally many, so they are counted and only one of them is examined. */
static int64_t
transfers_of_blocks(const struct mw_sizing *s, const struct mw_class_info *class, uint32_t first,
                    int t, struct mw_range blocks, int64_t loads)
{
    const struct mw_unit_tensor *tensor = &class->tensors[t];
    bool splits =
        mw_sizing_splits(s, MW_STATE_PARAMETERS) || mw_sizing_splits(s, MW_STATE_GRADIENTS);
    int64_t alike[MW_TIER_COUNT][MW_TIER_COUNT] = {0}, ops = 0;
    int64_t each = splits ? 1 : blocks.elements;

    for (int64_t block = 0; block < blocks.elements; block += each) {
        uint32_t number = first + (uint32_t)((blocks.first + block) * class->tensor_count + t);
        alike[s->param_home[number]][s->gradient_home[number]] += each;
    }
    for (int param = 0; param < MW_TIER_COUNT; param++)
        for (int gradient = 0; gradient < MW_TIER_COUNT; gradient++)
            if (alike[param][gradient])
                ops += alike[param][gradient] *
                       (fetches(s) * fetch_ops(s, tensor, (enum mw_tier)param, loads) +
                        gradient_ops(s, tensor, (enum mw_tier)gradient));
    return ops;
}

/* From block `first` on of a class: how many are recomputed, or keep their activations, one after
 * the other.  Each class's layers follow those of the class before it; where kinds alternate
 * instead, they have the same units, and the sum over classes is right. */
static int64_t
alike_blocks(const struct mw_sizing *s, enum mw_class class, int64_t first, bool *kept)
{
    int64_t begin = 0, blocks = s->classes[class].blocks, behind = first + 1;

    *kept = false;
    if (!mw_class_is_of_layers(class) || !mw_sizing_kept_layers(s))
        return blocks - first;
    for (int c = MW_CLASS_LAYERS; c < (int)class; c++)
        begin += s->classes[c].blocks;
    *kept = !mw_sizing_recomputes(s, begin + first);
    while (behind < blocks && mw_sizing_recomputes(s, begin + behind) == !*kept)
        behind++;
    return behind - first;
}

/* Ops of unit u in all blocks of a class. */
static int64_t
unit_ops_of_blocks(const struct mw_sizing *s, enum mw_class c, uint32_t first, int u)
{
    int64_t (*of_unit)(const struct mw_sizing *, struct passage *) =
        c == MW_CLASS_HEAD   ? head_unit_ops
        : c == MW_CLASS_TAIL ? tail_unit_ops
                             : layer_unit_ops;
    const struct mw_class_info *class = &s->classes[c];
    const struct mw_unit *unit = &class->units[u];
    struct passage p = {class, unit, 0};
    int64_t ops = class->blocks * mw_sizing_micro_batches(s) * of_unit(s, &p);
    bool kept;

    for (int64_t block = 0, blocks; block < class->blocks; block += blocks) {
        blocks = alike_blocks(s, c, block, &kept);
        ops -= kept ? blocks * mw_sizing_micro_batches(s) * recompute_ops(s, &p) : 0;
        for (int t = unit->first_tensor; t < unit->first_tensor + unit->tensor_count; t++)
            ops += transfers_of_blocks(s, class, first, t, (struct mw_range){block, blocks},
                                       kept ? 2 : p.loads);
    }
    return ops;
}

static int64_t
units_ops(const struct mw_sizing *s)
{
    int64_t ops = 0;
    uint32_t first = 0;

    for (int c = 0; c < MW_CLASS_COUNT; c++) {
        for (int u = 0; u < s->classes[c].unit_count; u++)
            ops += unit_ops_of_blocks(s, (enum mw_class)c, first, u);
        first += (uint32_t)(s->classes[c].blocks * s->classes[c].tensor_count);
    }
    return ops + (mw_sizing_tied(s) ? tied_logits_ops(s) : 0);
}

/* How many passes of a step have each checkpoint's slot, [checkpoint_slots]; g_free it. */
static int64_t *
passes_of_slots(const struct mw_sizing *s)
{
    int64_t of_pass = s->checkpoint_count / s->stretches, count;
    int64_t *times = g_new0(int64_t, s->checkpoint_slots + 1);
    g_autofree struct mw_pass *passes = mw_sizing_passes(s, &count);

    for (int64_t i = 0; i < count; i++) {
        struct mw_recomputed recomputed = mw_sizing_recomputed_in(s, passes[i].stretch);
        int64_t groups = passes[i].back || !of_pass ? 0 : mw_recomputed_groups(&recomputed);
        for (int64_t group = 0; group < groups; group++)
            times[passes[i].place * of_pass + group]++;
    }
    return times;
}

/* Ops that store a checkpoint and load it, and with tensor slicing gather it. */
static int64_t
checkpoint_ops(const struct mw_sizing *s)
{
    int64_t of_pass = s->checkpoint_count / s->stretches, ops = 0;
    bool unlike = mw_sizing_splits(s, MW_STATE_ACTIVATIONS) || mw_sizing_mixes_checkpoints(s);
    int64_t alike = unlike || s->stretches > 1 ? 1 : of_pass;
    g_autofree int64_t *passes = s->stretches > 1 ? passes_of_slots(s) : NULL;

    for (int64_t c = 0; c < s->checkpoint_slots; c += alike) {
        int64_t turn = c / of_pass; /* turn among the micro-batches in flight */
        int64_t times =
            passes ? passes[c]
                   : mw_divide_up(mw_sizing_micro_batches(s) - turn, s->micro_batches_in_flight);
        ops += alike * times *
               (2 * (s->checkpoint_home[c] != MW_TIER_GPU) +
                2 * (s->checkpoint_home[c] == MW_TIER_NVME) +
                (mw_sizing_gathers_checkpoints(s) && !mw_sizing_leaves_whole(s, c % of_pass)));
    }
    return ops;
}

static bool
gathers_params(const struct mw_sizing *s, const struct mw_chunk *chunk)
{
    return !s->params_partitioned && s->optimizer_partitioned && chunk->ranks > 1;
}

static int64_t
chunk_ops(const struct mw_sizing *s, const struct mw_chunk *chunk)
{
    struct mw_chunk_moves moves = mw_sizing_chunk_moves(s, chunk);
    int64_t ops = s->gradient_home[chunk->first_tensor] != MW_TIER_NVME &&
                  !mw_settings_update_beside(&s->settings); /* the norm */

    int64_t ways = 1 + (chunk->state_bytes > 0); /* an update may leave no state */

    ops += (chunk->tier == MW_TIER_NVME ? ways : 0) + (moves.state_streams ? ways : 0);
    ops += (moves.gradient_read || moves.gradient_d2h) + moves.gradient_h2d + 1;
    ops += moves.param_d2h ? 1 + moves.param_write : moves.param_h2d || moves.param_write;
    return ops + gathers_params(s, chunk) + mw_sizing_gathers_momentum(s, chunk);
}

/* Whether chunks have as many ops: most do as the one before them. */
static bool
are_alike(const struct mw_sizing *s, const struct mw_chunk *one, const struct mw_chunk *other)
{
    return one->tier == other->tier && (one->state_bytes > 0) == (other->state_bytes > 0) &&
           one->ranks == other->ranks && !one->matrix_params && !other->matrix_params &&
           s->gradient_home[one->first_tensor] == s->gradient_home[other->first_tensor] &&
           s->param_home[one->first_tensor] == s->param_home[other->first_tensor];
}

static int64_t
optimizer_ops(const struct mw_sizing *s)
{
    bool apart = s->spread_params && s->dp > s->spread; /* reduced over other ranks */
    int64_t ops = 1 + s->reduced_at_end * (1 + apart);  /* all ranks agree on the norm */
    int64_t each = 0;

    for (uint32_t c = 0; c < s->run_chunk_count; c++) {
        const struct mw_chunk *chunk = &s->run_chunks[c];
        each = c && are_alike(s, chunk - 1, chunk) ? each : chunk_ops(s, chunk);
        ops += chunk->times * each;
    }
    return mw_settings_stashes(&s->settings) ? mw_sizing_micro_batches(s) * ops : ops;
}

/* Of a pass forward alone a bound: it has no more than the step that it is part of. */
int64_t
mw_sizing_op_count(const struct mw_sizing *sizing)
{
    int64_t ends = 2; /* begin and commit */
    int64_t neighbours =
        2 * sizing->stretches - (sizing->stage == 0) - (sizing->stage + 1 == sizing->pp);
    int64_t copies = mw_sizing_copied_tensor(sizing) != MW_NONE;
    int64_t of_rank =
        units_ops(sizing) + checkpoint_ops(sizing) + optimizer_ops(sizing) + ends +
        (2 + mw_sizing_scatters_stages(sizing)) * neighbours * mw_sizing_micro_batches(sizing) +
        copies;

    return of_rank * (mw_settings_unfolds(&sizing->settings) ? sizing->tp * sizing->dp : 1);
}

bool
mw_sizing_has_equal_layers(const struct mw_sizing *sizing)
{
    return sizing->layers &&
           sizing->classes[mw_sizing_layer_class(sizing, 0)].blocks == sizing->layers;
}

bool
mw_sizing_folds_layers(const struct mw_sizing *sizing)
{
    const struct mw_settings *s = &sizing->settings;

    return s->folds && !s->unfold && sizing->pp == 1 && !mw_settings_update_apart(s) &&
           !s->drop_layers && !mw_settings_layer_order(s) && !mw_settings_keeps_whole(s) &&
           mw_sizing_has_equal_layers(sizing) && !mw_sizing_kept_layers(sizing);
}

/* With few micro-batches, where they are said once. */
static int64_t
count_few(const struct mw_sizing *sizing)
{
    struct mw_sizing few = *sizing;

    few.settings.grad_accum = MW_FOLDED_LEAST;
    return mw_sizing_op_count(&few);
}

struct mw_folds
mw_sizing_most_folds(const struct mw_sizing *sizing)
{
    const struct mw_settings *s = &sizing->settings;

    return (struct mw_folds){
        .micro_batches = s->folds && !s->unfold && sizing->pp == 1 && !mw_settings_layer_order(s) &&
                         s->grad_accum > MW_FOLDED_LEAST &&
                         s->grad_accum <= MW_PLAN_MICRO_BATCHES_MAX,
        .layers = mw_sizing_folds_layers(sizing),
    };
}

/* What is folded, and how many ops that leaves, layers unfolded. */
static struct mw_folds
fold_and_count(const struct mw_sizing *sizing, int64_t *ops)
{
    struct mw_folds folds = mw_sizing_most_folds(sizing);
    int64_t most = sizing->settings.ops_max;

    *ops = mw_sizing_op_count(sizing);
    folds.micro_batches = folds.micro_batches && *ops > most;
    if (folds.micro_batches)
        *ops = count_few(sizing);
    folds.layers = folds.layers && *ops > most;
    return folds;
}

struct mw_folds
mw_sizing_folds(const struct mw_sizing *sizing)
{
    int64_t ops;

    return fold_and_count(sizing, &ops);
}

int64_t
mw_sizing_built_ops(const struct mw_sizing *sizing)
{
    int64_t ops;
    struct mw_folds folds = fold_and_count(sizing, &ops);
    int64_t built = MW_FOLDED_LAYERS * MAX(1, sizing->settings.checkpoint_interval);

    return folds.layers && built < sizing->layers ? ops / sizing->layers * built : ops;
}
