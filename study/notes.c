/* Notes beside the figures of an answer. */
#include "base/format.h"
#include "base/spell.h"
#include "planner/batches.h"
#include "planner/check_strategy.h"
#include "planner/settings/table.h"
#include "planner/stage_replicas.h"
#include "sim/kernels.h"
#include "study/choose.h"
#include "study/lacks.h"
#include "study/set_result.h"

static bool
moves_checkpoints(const struct mw_settings *settings)
{
    const struct mw_placement *place = &settings->placement[MW_STATE_ACTIVATIONS];

    return mw_placement_has(place, MW_TIER_CPU) || mw_placement_has(place, MW_TIER_NVME);
}

void
mw_note_idle(const struct mw_settings *asked, const struct mw_sizing *sizing, GPtrArray *notes)
{
    const struct mw_strategy_traits *strategy = mw_strategy_traits(sizing->settings.strategy);
    const struct mw_placement *place = &asked->placement[MW_STATE_OPTIMIZER];
    bool shares_state = strategy->fills_gpu >> MW_STATE_OPTIMIZER & 1 && !strategy->updates_on_gpu;
    bool fetched = sizing->params_partitioned;
    const struct {
        const char *name;
        bool idle;
        const char *why;
    } settings[] = {
        {"{prefetch}", asked->prefetch > 0 && !fetched,
         "changes nothing: parameters are not fetched"},
        {"{param-loads}", asked->param_loads > 0 && !fetched,
         "changes nothing: parameters are not fetched"},
        {"{partition}", asked->partition != MW_PARTITION_AUTO && !fetched,
         "changes nothing: parameters are not partitioned"},
        {"{activation-device}",
         !sizing->settings.checkpoint_interval && moves_checkpoints(&sizing->settings),
         "changes nothing: no layer is recomputed, so there are no checkpoints"},
        {"{kept-bits}",
         asked->kept_as.dtype != MW_DTYPE_NONE && sizing->settings.checkpoint_interval &&
             !mw_sizing_kept_of_model(sizing),
         "changes nothing: there is no room to keep a layer's activations, and every layer is "
         "recomputed"},
        {"{logits-chunks}", asked->logits_chunks > 1 && !sizing->buffers[MW_BUFFER_LOGITS].bytes,
         "changes nothing: the model has no logits"},
        {"{share-slots=on}", asked->share_slots == MW_SHARE_ALL && !mw_sizing_shares(sizing),
         "changes nothing: of what is in one tier nothing ends before something else begins"},
        {"bf16 ({dtype} or the DeepSpeed file)",
         asked->dtype == MW_DTYPE_BF16 && sizing->settings.dtype != MW_DTYPE_BF16,
         "is not followed: this GPU has fp16 products only, and the plan is for them"},
        {"{dpu-start}", asked->dpu_start != MW_AUTO && sizing->settings.dpu_start == MW_AUTO,
         "changes nothing: the run ends before it"},
        {"{checkpoint-partition=off}", !asked->checkpoint_partition && sizing->tp == 1,
         "changes nothing: no tensors are sliced, so no rank has what another one has"},
        {"{cp-kind=all-to-all}", asked->cp_kind == MW_CONTEXT_ALL_TO_ALL && sizing->cp == 1,
         "changes nothing: no GPUs share sequences; {cp} says how many do"},
        {"{etp=1}", asked->etp == 1 && sizing->tp == 1,
         "changes nothing: no tensors are sliced, so experts are whole all the same"},
        {"{sequence-parallel}", asked->sequence_parallel != MW_AUTO && sizing->tp == 1,
         "changes nothing: no tensors are sliced, so no slices share tokens"},
        {"{expert-imbalance}",
         asked->expert_imbalance > 1 && mw_sizing_imbalance(sizing) < asked->expert_imbalance,
         mw_sizing_imbalance(sizing) > 1
             ? "is more than can come to one GPU, and counted is the most that can"
         : sizing->ep == 1
             ? "changes nothing: each GPU has all experts of its tokens; {ep} spreads "
               "them"
             : "changes nothing: with a capacity each GPU computes as many rows"},
        {"{activation-device}",
         strategy->state[MW_STATE_OPTIMIZER].deepest == MW_TIER_CPU &&
             mw_placement_has(&asked->placement[MW_STATE_ACTIVATIONS], MW_TIER_NVME),
         "keeps activation checkpoints on drives, on which the strategy keeps nothing"},
        {"{checkpoints=inputs}", asked->whole_checkpoints == 0 && strategy->whole_checkpoints,
         "leaves out a part of what the strategy is named for: layers are recomputed"},
        {"recomputation", strategy->whole_checkpoints && mw_sizing_mixes_checkpoints(sizing),
         "goes beyond what the strategy is named for, which has none"},
        {"{optimizer-device}", place->count == 1 && shares_state,
         "leaves out what the strategy is named for, state on CPU and GPU, each part updated where "
         "it is"},
        {"{optimizer-device}",
         place->count && mw_settings_is_below_strategy(&sizing->settings, MW_STATE_OPTIMIZER),
         "places state below all that the strategy is named for, since no other one has the rest "
         "of what is asked"},
        {"{commit=step}",
         asked->commit == 1 && !sizing->ledger[MW_TIER_NVME][MW_PURPOSE_OPTIMIZER_STATE],
         "commits nothing: no optimizer state is on NVMe"},
        {"{drop-layers}", asked->drop_layers,
         "changes the step time, which is the mean over its cycle; batch and placement were chosen "
         "by steps of all layers, and there are no closed forms and no advice"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(settings); i++)
        if (settings[i].idle) {
            g_autofree char *name = mw_spelled(settings[i].name);
            g_autofree char *why = mw_spelled(settings[i].why);
            g_ptr_array_add(notes, g_strdup_printf("%s %s", name, why));
        }
}

/* Why the chosen batch is smaller than the default; NULL: one more micro-batch would exceed it. */
static char *
why_less(const struct mw_question *question, enum mw_strategy strategy,
         const struct mw_sizing *sizing, const struct mw_result *r)
{
    static const char *const micro_batches[] = {
        [MW_BATCH_BOUND_MEMORY] = "more micro-batches do not fit",
        [MW_BATCH_BOUND_OPS] =
            "more micro-batches would be slow to plan; {grad-accum=N} requests them",
        [MW_BATCH_BOUND_RATE] = "more micro-batches are not faster; {grad-accum=N} requests them",
    };
    const struct mw_request planned = {&question->model, &question->hardware[MW_OUTLOOK_TYPICAL]};
    const struct mw_settings *s = &sizing->settings;
    struct mw_settings asked = question->settings;
    double sequences = s->micro_batch * (double)mw_settings_sharers(s), accum = s->grad_accum;
    bool fixed = question->settings.grad_accum != MW_AUTO;
    double more = fixed ? (sequences + 1) / sequences : (accum + 1) / accum;

    if (!sizing->fits || r->tokens_per_step >= r->default_step_tokens ||
        mw_exceeds_step_tokens(more * r->tokens_per_step, r->default_step_tokens))
        return NULL;
    asked.strategy = strategy;
    enum mw_batch_bound bound = mw_batches_bound(&planned, &asked, sizing);
    return fixed ? mw_spelled_printf(
                       "with {grad-accum=%" G_GINT64_FORMAT "} a larger batch %s", s->grad_accum,
                       bound == MW_BATCH_BOUND_MEMORY ? "does not fit" : "is not faster")
           : micro_batches[bound] ? mw_spelled(micro_batches[bound])
                                  : NULL;
}

/* The batch that was chosen, and the default by which it was chosen. */
static void
note_batch(const struct mw_question *question, enum mw_strategy strategy,
           const struct mw_sizing *sizing, const struct mw_result *r, GPtrArray *notes)
{
    const char *most = mw_format_count(r->default_step_tokens);
    g_autofree char *table = question->settings.step_tokens_max == MW_AUTO
                                 ? mw_default_step_source(&question->model, &sizing->settings)
                                 : g_strdup_printf("%s tokens that a run has by default", most);
    g_autofree char *step =
        g_strdup_printf("%.15g sequence%s, %s tokens per step", r->global_batch,
                        r->global_batch == 1 ? "" : "s", mw_format_count(r->tokens_per_step));
    g_autofree char *less = why_less(question, strategy, sizing, r);
    GString *note = g_string_new("default global batch: ");

    if (!sizing->fits)
        g_string_append_printf(note, "the %s", table);
    else if (mw_exceeds_step_tokens(r->tokens_per_step, r->default_step_tokens))
        g_string_append_printf(note,
                               "%s, one sequence for each of %" G_GINT64_FORMAT
                               " data-parallel GPUs, which is over the %s",
                               step, sizing->dp, table);
    else if (less)
        g_string_append_printf(note, "%s of the %s, as %s", step, table, less);
    else
        g_string_append_printf(note, "%s, by the %s", step, table);
    mw_spelled_append(note, "; {global-batch=N} sets another");
    g_ptr_array_add(notes, g_string_free(note, FALSE));
}

/* What a framework does not do by itself.  memwall's own executor does. */
static void
note_chunks(const struct mw_question *question, const struct mw_sizing *sizing, GPtrArray *notes)
{
    int64_t chunks = sizing->settings.logits_chunks;

    if (chunks == 1 || !question->software || !(sizing->hardware->memory_use.bytes_per_logit > 0))
        return;
    g_ptr_array_add(notes,
                    mw_spelled_printf("logits in %" G_GINT64_FORMAT
                                      " chunks: %s needs a loss that takes the tokens in parts for "
                                      "it, such as Liger Kernel's; {logits-chunks=1} plans without",
                                      chunks, mw_profile_name(question->software)));
}

/* Frameworks place buffers as they are asked for. */
static void
note_sharing(const struct mw_question *question, const struct mw_sizing *sizing, GPtrArray *notes)
{
    if (!question->software || !mw_sizing_shares(sizing) ||
        !(sizing->hardware->memory_use.bytes_per_logit > 0))
        return;
    g_ptr_array_add(notes, mw_spelled_printf("{share-slots=on} is what memwall's executor does: %s "
                                             "places buffers by an allocator of its own",
                                             mw_profile_name(question->software)));
}

/* Frameworks' data-parallel ranks wait for each other. */
static void
note_asynchronous(const struct mw_question *question, const struct mw_sizing *sizing,
                  GPtrArray *notes)
{
    if (!question->software || !mw_settings_asynchronous(&sizing->settings) ||
        !(sizing->hardware->memory_use.bytes_per_logit > 0))
        return;
    g_ptr_array_add(notes,
                    mw_spelled_printf("{data-parallel=async} is what memwall's executor does on "
                                      "cores: with %s GPUs wait for the sum of their gradients, "
                                      "and the rest of the plan is as that software computes",
                                      mw_profile_name(question->software)));
}

/* Rotary positions beyond those that the model was trained with can be computed, but mean
 * little. */
static void
note_length(const struct mw_sizing *sizing, GPtrArray *notes)
{
    const struct mw_model *model = sizing->model;
    int64_t seq = sizing->settings.seq;

    if (seq <= model->seq || model->learned_positions)
        return;
    g_ptr_array_add(notes,
                    mw_spelled_printf("{seq=%" G_GINT64_FORMAT "}: %s is made for %" G_GINT64_FORMAT
                                      " positions; beyond those rotary ones extrapolate "
                                      "poorly without scaling, which changes nothing here",
                                      seq, model->name, model->seq));
}

/* From this share of the FLOPs on, the assumed rate of attention decides the answer. */
#define MUCH_ATTENTION 0.25
/* Less is within what FLOPs and bytes alone say. */
#define REPLICAS_GAIN 0.95

static double
attention_share(const struct mw_plan *plan)
{
    double all = 0, attention = 0;

    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_work *work = &plan->works[plan->ops[i].work];
        if (work->kind != MW_OP_COMPUTE)
            continue;
        double flops = (double)work->flops * (double)mw_plan_op_rounds(plan, i);
        all += flops;
        if (work->attention.heads)
            attention += flops;
    }
    return all > 0 ? attention / all : 0;
}

static bool
has_causal_attention(const struct mw_plan *plan)
{
    for (uint32_t w = 0; w < plan->work_count; w++)
        if (plan->works[w].attention.heads && plan->works[w].attention.causal)
            return true;
    return false;
}

/* MODEL.md, 7.1c and 7.2. */
static void
note_attention(const struct mw_answer *answer, GPtrArray *notes)
{
    if (!answer->plan)
        return;
    const struct mw_hardware *hardware = answer->sizing->hardware;
    double share = attention_share(answer->plan);
    bool kernel = hardware->attention_kernel.forward_flops[0] > 0;
    bool curve = hardware->attention_points > 0; /* of a kernel, whatever that skips */
    if (share >= MUCH_ATTENTION && !kernel && !curve)
        g_ptr_array_add(notes, g_strdup_printf("attention is %.0f%% of the FLOPs, and the profile "
                                               "does not say its rate (gpu.attention_tflops): that "
                                               "of matrix products is taken",
                                               100 * share));
    if (share >= MUCH_ATTENTION && hardware->attention_skips && (kernel || !curve) &&
        has_causal_attention(answer->plan))
        g_ptr_array_add(notes,
                        g_strdup_printf("attention is %.0f%% of the FLOPs: TFLOP/s and MFU count "
                                        "all of it, as is usual, though kernels skip the half "
                                        "that a causal mask hides",
                                        100 * share));
}

/* PyTorch's kernels of attention take no cap; that of FlashAttention does since version 2.6
 * (huggingface/transformers pull 31887). */
static void
note_caps(const struct mw_question *question, const struct mw_sizing *sizing, GPtrArray *notes)
{
    const struct mw_hardware *hardware = sizing->hardware;

    if (!question->software || !sizing->model->capped_scores || !hardware->gpu_flash_attention ||
        !(hardware->memory_use.bytes_per_logit > 0))
        return;
    g_ptr_array_add(
        notes, g_strdup_printf("%s caps attention's scores by tanh, which "
                               "scaled_dot_product_attention leaves out: transformers recommends "
                               "eager attention to train it, which stores the scores "
                               "(software.attention.kernel=unfused plans that); FlashAttention has "
                               "the cap since version 2.6",
                               sizing->model->name));
}

/* A training has whole steps. */
static void
note_tokens(const struct mw_result *r, double tokens, GPtrArray *notes)
{
    if (tokens > 0 && tokens < r->tokens_per_step)
        g_ptr_array_add(
            notes, mw_spelled_printf("{tokens=%s}: less than one step of %s tokens; time and "
                                     "cost are of one step",
                                     mw_format_count(tokens), mw_format_count(r->tokens_per_step)));
}

/* Who keeps more activations than a fused backward needs: "deepspeed keeps". */
static char *
keeper(const struct mw_question *question, const struct mw_sizing *sizing)
{
    bool says = question->software && sizing->hardware->memory_use.activations_kept > 0;

    return says ? g_strdup_printf("%s keeps", mw_profile_name(question->software))
                : g_strdup("eager frameworks keep");
}

/* That some layers keep their activations. */
static void
note_kept(const struct mw_question *question, const struct mw_sizing *sizing, int64_t kept,
          GPtrArray *notes)
{
    g_autofree char *layers = mw_setting_text(mw_setting_find("recompute-list"), &sizing->settings);
    GString *note = g_string_new(NULL);

    g_string_printf(note,
                    "%" G_GINT64_FORMAT " of %" G_GINT64_FORMAT
                    " layers are recomputed, the others %s their activations",
                    sizing->model->layers - kept, sizing->model->layers,
                    mw_settings_keeps_whole(&sizing->settings) ? "send away" : "keep");
    if (question->settings.recompute_layers == MW_RECOMPUTE_FASTEST && layers) {
        g_autofree char *named = mw_spelled_printf("; {recompute-list=%s} names them", layers);
        g_string_append(note, named);
    }
    g_ptr_array_add(notes, g_string_free(note, FALSE));
}

/* Whether activations are kept, considering the room that the software needs for its own; and that
 * its profile says how much that is, where what was asked for lacks just that. */
static void
note_eager(const struct mw_question *question, const struct mw_sizing *sizing, GPtrArray *notes)
{
    g_autofree char *who = keeper(question, sizing);
    double times = mw_sizing_kept_times(sizing);
    int64_t kept = mw_sizing_kept_of_model(sizing);
    bool sought = question->settings.checkpoint_interval == MW_AUTO;
    bool all = !sizing->settings.checkpoint_interval;
    const char *why = NULL;

    if (!sizing->fits && mw_fits_if_kept_once(sizing))
        why = "kept activations would fit once, not %g times over, as %s them "
              "(software.memory.activations_kept)";
    else if (all && sought && times == 1)
        why = "no recomputation: kept activations fit; {activation-checkpoint-interval=1} "
              "recomputes";
    else if (all && sought)
        why = "no recomputation: kept activations fit %g times over, as %s them; "
              "{activation-checkpoint-interval=1} recomputes";
    else if (sizing->fits && mw_recomputes_for_eager(question, sizing))
        why = "recomputation: kept activations would fit once, not %g times over, as %s them";
    if (kept)
        note_kept(question, sizing, kept, notes);
    if (why && (!kept || !sizing->fits))
        g_ptr_array_add(notes, mw_spelled_printf(why, times, who));
}

/* Nobody expects a larger batch to be slower. */
static void
note_left_out(const struct mw_question *question, enum mw_strategy strategy,
              const struct mw_sizing *sizing, GPtrArray *notes)
{
    double times = 0;
    struct mw_sizing *out = mw_choice_left_out(question, strategy, sizing, &times);

    if (!out)
        return;
    const struct mw_settings *s = &out->settings, *asked = &question->settings;
    int64_t most = mw_planner_most_micro_batches(out);
    bool global = asked->global_batch != MW_AUTO;
    int64_t most_asked =
        global || asked->batch_source ? most * (s->global_batch / s->grad_accum) : most;
    g_autofree char *opens =
        asked->batch_source ? g_strdup_printf("; a global batch of %" G_GINT64_FORMAT, most_asked)
        : global            ? mw_spelled_printf("; {global-batch=%" G_GINT64_FORMAT "}", most_asked)
                            : mw_spelled_printf("; {grad-accum=%" G_GINT64_FORMAT "}", most_asked);
    g_ptr_array_add(notes, mw_spelled_printf(
                               "left out as slow to plan: %s, {batch=%.15g}%s, %.2f times as fast, "
                               "in %" G_GINT64_FORMAT " micro-batches of %" G_GINT64_FORMAT
                               " ops, more than %" G_GINT64_FORMAT "%s%s",
                               mw_strategy_name(s->strategy), s->micro_batch,
                               s->checkpoint_interval ? "" : " without recomputation", times,
                               s->grad_accum, mw_planner_ops(out), s->ops_max, most ? opens : "",
                               most ? " or fewer plans it" : ""));
    mw_sizing_free(out);
}

/* Fewer checkpoints, and the activations of more layers at once: short sequences and narrow layers
 * may keep more so than with a checkpoint for each layer (MODEL.md, 5.2 and 5.3). */
static void
note_interval(const struct mw_settings *asked, const struct mw_sizing *sizing, GPtrArray *notes)
{
    struct mw_settings each = sizing->settings;

    if (asked->checkpoint_interval != MW_INTERVAL_SQRT || each.checkpoint_interval < 2)
        return;
    each.checkpoint_interval = 1;
    struct mw_sizing *other = mw_sizing_new(sizing->model, sizing->hardware, &each, NULL);
    int64_t less =
        other ? mw_sizing_peak(sizing, MW_TIER_GPU) - mw_sizing_peak(other, MW_TIER_GPU) : 0;
    if (other && less > 0)
        g_ptr_array_add(notes,
                        mw_spelled_printf("{activation-checkpoint-interval=sqrt} takes %s more of "
                                          "the GPU than {activation-checkpoint-interval=1}: what "
                                          "%" G_GINT64_FORMAT " layers keep at once is more than "
                                          "the checkpoints that it saves",
                                          mw_format_gib((double)less),
                                          sizing->settings.checkpoint_interval));
    mw_sizing_free(other);
}

static void
note_pieces(const struct mw_sizing *sizing, GPtrArray *notes)
{
    if (!sizing->fits && sizing->fragmentation && sizing->hardware->offers.tiled_operators)
        g_ptr_array_add(notes, mw_spelled("what is short is memory in one piece, not the sum: "
                                          "more {tiles} cut it"));
}

/* Tokens of an expert in a micro-batch. */
static double
tokens_of_expert(const struct mw_sizing *sizing)
{
    const struct mw_model *model = sizing->model;

    return (double)(mw_model_expert_rows(model, &sizing->shape) * sizing->ep) /
           (double)model->experts;
}

/* GShard, Sec. 2.2: a token's second expert is taken with a probability of twice its weight, which
 * no dimension says: what is counted is that all are. */
static void
note_draws(const struct mw_sizing *sizing, GPtrArray *notes)
{
    const struct mw_gate_row *gate = mw_gate_row((int)sizing->shape.gate);
    double even = (double)mw_shape_tokens(&sizing->shape) / (double)sizing->model->experts;

    if (gate->may_skip)
        g_ptr_array_add(
            notes,
            mw_spelled_printf("{gate=%s}: between %.0f and %.0f tokens of a micro-batch of a "
                              "GPU go to an expert on average, as second experts are drawn; "
                              "counted is %s",
                              gate->name, even, 2 * even,
                              sizing->shape.capacity_factor > 0 ? "its capacity" : "the most"));
}

/* Whose experts a gate of their own chooses. */
static void
note_groups(const struct mw_sizing *sizing, GPtrArray *notes)
{
    const struct mw_gate_row *gate = mw_gate_row((int)sizing->shape.gate);
    int64_t groups = mw_model_gate_groups(sizing->model, sizing->shape.gate);

    if (groups)
        g_ptr_array_add(notes,
                        mw_spelled_printf(
                            "{gate=%s}: a token goes to %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT
                            " groups of %" G_GINT64_FORMAT
                            " experts, once to each, and there to %" G_GINT64_FORMAT " experts",
                            gate->name, gate->group_visits, groups, sizing->model->experts / groups,
                            mw_gate_copies((int)sizing->shape.gate)));
}

/* What is dropped, as far as it follows from the capacity. */
static void
note_gate(const struct mw_sizing *sizing, GPtrArray *notes)
{
    const struct mw_gate_row *gate = mw_gate_row((int)sizing->shape.gate);

    if (sizing->shape.gate == MW_GATING_TOP_K || !sizing->fits)
        return;
    int64_t rows = mw_model_expert_rows(sizing->model, &sizing->shape) / sizing->model->experts;
    double share = mw_model_dropped_share(sizing->model, &sizing->shape);
    if (gate->experts_choose)
        g_ptr_array_add(
            notes, mw_spelled_printf(
                       "{gate=%s}: each expert takes %" G_GINT64_FORMAT " of the %" G_GINT64_FORMAT
                       " tokens of a micro-batch of a GPU, and all-to-alls are even; which ones "
                       "depends on later tokens too, which a model that generates does not have",
                       gate->name, rows, mw_shape_tokens(&sizing->shape)));
    if (gate->features & MW_HAS(ROUTER_FP32) && !(sizing->hardware->gpu_fp32_flops > 0))
        g_ptr_array_add(notes, mw_spelled_printf("{gate=%s}: the profile has no gpu.fp32_tflops: "
                                                 "the router's products in fp32 are as fast as "
                                                 "all others",
                                                 gate->name));
    note_draws(sizing, notes);
    note_groups(sizing, notes);
    if (share > 0)
        g_ptr_array_add(
            notes, mw_spelled_printf(
                       "{gate=%s}: an expert takes at most %" G_GINT64_FORMAT
                       " of the %" G_GINT64_FORMAT " tokens of a micro-batch of a GPU; "
                       "where tokens choose independently of each other%s, at least %.2g%% "
                       "of what they send is dropped",
                       gate->name, rows, mw_shape_tokens(&sizing->shape),
                       gate->may_skip ? " and all second experts are drawn" : "", 100 * share));
}

/* What a capacity drops even where experts are visited evenly, and what it leaves of a tile. */
static void
note_capacity(const struct mw_sizing *sizing, GPtrArray *notes)
{
    double factor = sizing->shape.capacity_factor;
    int64_t least = mw_kernel_least_rows(sizing->hardware);

    if (!sizing->fits || !(factor > 0))
        return;
    if (factor < 1 && !mw_gate_row((int)sizing->shape.gate)->experts_choose)
        g_ptr_array_add(notes,
                        mw_spelled_printf("{capacity-factor=%.15g}: at least %.3g%% of what tokens "
                                          "send to experts is dropped",
                                          factor, 100 * (1 - factor)));
    double most =
        (double)sizing->model->experts / (double)mw_model_visits(sizing->model, sizing->shape.gate);
    if (factor > most)
        g_ptr_array_add(notes,
                        mw_spelled_printf("{capacity-factor=%.15g}: above %.3g an expert has more "
                                          "rows than there are tokens",
                                          factor, most));
    if (tokens_of_expert(sizing) < (double)least)
        g_ptr_array_add(notes,
                        mw_spelled_printf("an expert has %.0f rows of a micro-batch, and the "
                                          "smallest tile of a product %" G_GINT64_FORMAT
                                          ": the rest of it is computed for nothing; a larger "
                                          "{batch} or {capacity-factor} fills it",
                                          tokens_of_expert(sizing), least));
}

/* A product of m rows takes 2 m n k FLOPs and reads n k weights: with fewer rows than this, reading
 * takes longer than the products.  The more experts there are, the fewer each has: the shrinking
 * batch of Shazeer et al., arXiv 1701.06538, Sec. 3.1. */
static void
note_few_tokens(const struct mw_sizing *sizing, GPtrArray *notes)
{
    const struct mw_hardware *hw = sizing->hardware;
    double flops = hw->gpu_achievable_flops * mw_kernel_dtype_share(hw, sizing->settings.dtype);
    double rows = flops * (double)sizing->element_bytes / 2 / hw->gpu_memory_bytes_per_s;

    g_autofree char *spread = mw_spelled(", or {ep},");
    if (sizing->fits && sizing->model->experts && tokens_of_expert(sizing) < rows)
        g_ptr_array_add(
            notes,
            mw_spelled_printf("an expert has %.0f tokens of a micro-batch, and with fewer "
                              "than %.0f a GPU waits for its weights rather than for its "
                              "products: a larger {batch}%s gives it more",
                              tokens_of_expert(sizing), rows,
                              mw_model_can_spread(sizing->model) && sizing->ep < sizing->dp ? spread
                                                                                            : ""));
}

/* "{stage-replicas=2,1} {stage-split=8}"; g_free it. */
static char *
replicated_text(const struct mw_replicated_stages *found)
{
    g_autoptr(GString) replicas = g_string_new(NULL), begins = g_string_new(NULL);

    bool alike = true;

    if (found->count == 1)
        return mw_spelled("{pp=1}");
    for (int i = 0; i < found->count; i++) {
        g_string_append_printf(replicas, "%s%" G_GINT64_FORMAT, i ? "," : "", found->replicas[i]);
        alike = alike && found->replicas[i] == found->replicas[0];
        if (i)
            g_string_append_printf(begins, "%s%" G_GINT64_FORMAT, i > 1 ? "," : "",
                                   found->begins[i]);
    }
    if (alike)
        return mw_spelled_printf("{pp=%d} {stage-split=%s}", found->count, begins->str);
    return mw_spelled_printf("{stage-replicas=%s} {stage-split=%s}", replicas->str, begins->str);
}

/* Where stages with other numbers of replicas would pass micro-batches faster. */
static void
note_replicas(const struct mw_sizing *sizing, GPtrArray *notes)
{
    const struct mw_settings *s = &sizing->settings;
    struct mw_replicated_stages found;

    if (s->schedule != MW_SCHEDULE_PIPEDREAM || sizing->pp == 1 || s->tp > 1 ||
        sizing->optimizer_partitioned) /* which other numbers of replicas are refused with */
        return;
    double share = mw_stage_replicas_gain(sizing->model, sizing->hardware, s, &found);
    if (share > REPLICAS_GAIN)
        return;
    g_autofree char *stages = replicated_text(&found);
    g_ptr_array_add(
        notes, mw_spelled_printf(
                   "{schedule=pipedream}: PipeDream's planner would divide the GPUs by %s "
                   "and pass a micro-batch in %.2f of the time, by FLOPs and bytes alone, "
                   "whatever memory that takes and however long GPUs wait for each other, which "
                   "asking for it says",
                   stages, share));
}

/* MaxVio of Wang et al., arXiv 2408.15664, Table 2: how much more than the mean the fullest of 64
 * experts has, balanced by a bias, and by an auxiliary loss (1B; 0.52 with 3B). */
#define EXPERTS_OF_MAXVIO 64
#define MAXVIO_BIAS 0.04
#define MAXVIO_LOSS 0.72

/* Of ranks with so many experts each, whose loads are independent of each other. */
static double
fullest_of(const struct mw_sizing *sizing, double maxvio)
{
    double deviation = maxvio / mw_kernel_largest_of(EXPERTS_OF_MAXVIO);
    double here = (double)sizing->model->experts / (double)sizing->ep;

    return 1 + deviation / sqrt(here) * mw_kernel_largest_of((double)sizing->ep);
}

static void
note_imbalance(const struct mw_sizing *sizing, GPtrArray *notes)
{
    if (sizing->fits && sizing->ep > 1 && !(sizing->shape.capacity_factor > 0) &&
        sizing->settings.expert_imbalance == 1)
        g_ptr_array_add(
            notes,
            mw_spelled_printf("experts are visited evenly here: as a published training balanced "
                              "them, the fullest of %" G_GINT64_FORMAT " GPUs has %.2f times the "
                              "mean by a bias, and %.2f by an auxiliary loss, unless the software "
                              "pads or drops; {expert-imbalance} predicts so",
                              sizing->ep, fullest_of(sizing, MAXVIO_BIAS),
                              fullest_of(sizing, MAXVIO_LOSS)));
}

/* What plans of mixtures do that software does not, and the other way round. */
static void
note_experts(const struct mw_question *question, const struct mw_sizing *sizing, GPtrArray *notes)
{
    const char *software = question->software ? mw_profile_name(question->software) : NULL;

    /* 91.2 s per step with ZeRO-3, 9.6 s with Megatron (documentation of ms-swift). */
    if (sizing->model->experts > 1 && software && !sizing->hardware->offers.grouped_experts)
        g_ptr_array_add(notes,
                        g_strdup_printf("%s computes the experts of a layer one after the other, "
                                        "and with zero3 gathers each by itself, which is not "
                                        "planned: Qwen3-30B-A3B took 9.5 times as long as with "
                                        "Megatron (16 A100, ms-swift's documentation)",
                                        software));
    if (sizing->fits && sizing->dp > 1 && sizing->ep == 1 && mw_model_can_spread(sizing->model))
        g_ptr_array_add(notes, mw_spelled("every GPU computes with all experts of a layer; {ep} "
                                          "spreads them over GPUs, which then move and hold fewer "
                                          "parameters"));
    if (sizing->ep > 1) /* experiments/today/result_experts.md */
        g_ptr_array_add(notes, g_strdup("experts over GPUs are predicted less well than the range "
                                        "says: a quarter of 58 published rows lie in theirs, and "
                                        "in bf16 predictions were 23 to 77% too fast"));
    note_imbalance(sizing, notes);
    note_few_tokens(sizing, notes);
    note_capacity(sizing, notes);
    note_gate(sizing, notes);
}

/* LLM.int8() (bitsandbytes, autograd/_functions.py, MatMul8bitLt): forward makes int8 of its input,
 * multiplies that and takes outliers' columns apart; backward widens the weight to the type of the
 * input and multiplies in that.  Planned is what MXFP8 takes: a pass that widens to 16 bits. */
static void
note_int8(const struct mw_question *question, const struct mw_sizing *sizing, GPtrArray *notes)
{
    bool int8 = sizing->settings.frozen_dtype == MW_DTYPE_MXFP8 &&
                sizing->hardware->memory_use.int8_inputs_kept;

    if (question->software && int8)
        g_ptr_array_add(notes,
                        g_strdup_printf("products with weights in 8 bits are timed as in 16 bits "
                                        "behind a pass that widens them; %s (bitsandbytes' "
                                        "LLM.int8) multiplies int8 in forward, outliers apart, "
                                        "and in backward in the type of what came, which is fp32 "
                                        "under autocast where PEFT has cast norms and embedding: "
                                        "such steps are slower",
                                        mw_profile_name(question->software)));
}

/* What slicing in use may have and this plan does not. */
static void
note_slicing(const struct mw_question *question, const struct mw_sizing *sizing, GPtrArray *notes)
{
    bool asked = question->settings.checkpoint_partition != MW_AUTO;

    if (sizing->tp > 1 && !sizing->shape.sequence_parallel)
        g_ptr_array_add(notes, mw_spelled("each slice keeps all that norms and residuals keep; "
                                          "with {sequence-parallel=on} its part of it, where the "
                                          "software has that"));
    if (sizing->tp > 1 && !asked && !sizing->settings.checkpoint_partition &&
        sizing->checkpoint_count && !mw_settings_keeps_whole(&sizing->settings))
        g_ptr_array_add(notes, mw_spelled("each slice keeps whole activation checkpoints, as this "
                                          "software does; with {checkpoint-partition=on} its part "
                                          "of them, where the software has that"));
}

/* ParallelLinearAdapter of NeMo and of Megatron Bridge: A's result is gathered, and B's of products
 * whose input is sliced, all of a token's elements (docs/MODEL.md 8.2d). */
static void
note_sliced_adapters(const struct mw_sizing *sizing, GPtrArray *notes)
{
    const struct mw_trained *trained = &sizing->settings.trained;
    int rows = (trained->adapted >> MW_OPERATOR_PROJECTION & 1) +
               (int)(trained->adapted >> MW_OPERATOR_MLP_DOWN & 1);
    double tokens = (double)mw_shape_tokens(&sizing->shape);
    double bytes = rows * tokens * (double)(sizing->model->hidden * sizing->element_bytes);

    if (!trained->rank || sizing->tp == 1 || !sizing->shape.sequence_parallel)
        return;
    g_autofree char *results =
        rows ? g_strdup_printf(", and %s of results of %s per layer and micro-batch",
                               mw_format_bytes(bytes),
                               rows > 1                                         ? "o and down"
                               : trained->adapted >> MW_OPERATOR_PROJECTION & 1 ? "o"
                                                                                : "down")
             : g_strdup("");
    g_ptr_array_add(
        notes,
        mw_spelled_printf("{sequence-parallel=on}: what slices exchange for adapters alone is "
                          "not counted: in NeMo and Megatron Bridge gathers of %" G_GINT64_FORMAT
                          " elements per token%s",
                          trained->rank, results));
}

double
mw_save_s(const struct mw_sizing *sizing)
{
    int64_t bytes = sizing->buffers[MW_BUFFER_SAVES].bytes;

    if (!bytes || sizing->saves_in_step)
        return 0;
    return (double)bytes * (double)sizing->ranks_per_node /
           sizing->hardware->nvme_write_bytes_per_s;
}

/* What commits would lack with states where they are; g_free it. */
static char *
why_not_durable(const struct mw_question *question, const struct mw_sizing *sizing)
{
    struct mw_settings settings = sizing->settings;

    settings.commit = 1;
    struct mw_sizing *durable =
        mw_sizing_new(&question->model, &question->hardware[MW_OUTLOOK_TYPICAL], &settings, NULL);
    enum mw_tier tier = durable && !durable->fits ? durable->limiting_tier : MW_TIER_NVME;
    char *why =
        tier == MW_TIER_NVME
            ? g_strdup("the drives lack room for a second copy of the optimizer state")
            : mw_spelled_printf(
                  "commits take %s of %s memory, %s more than there is; "
                  "{commit=step} asks for states in other places",
                  mw_format_gib((double)(durable->need_bytes[tier] - sizing->need_bytes[tier])),
                  mw_tier_name(tier),
                  mw_format_gib((double)(mw_sizing_whole_need(durable, tier) -
                                         durable->tiers[tier].capacity_bytes)));

    mw_sizing_free(durable);
    return why;
}

/* Which steps are durable, and what that costs. */
static void
note_durable(const struct mw_question *question, const struct mw_sizing *sizing, GPtrArray *notes)
{
    if (sizing->fits && sizing->settings.commit == 0 &&
        sizing->ledger[MW_TIER_NVME][MW_PURPOSE_OPTIMIZER_STATE] &&
        question->settings.commit == MW_AUTO) {
        g_autofree char *why = why_not_durable(question, sizing);
        g_ptr_array_add(notes, mw_spelled_printf("steps are not durable ({commit=none}): %s", why));
    }
    if (mw_save_s(sizing) > 0)
        g_ptr_array_add(notes,
                        g_strdup_printf("a save every %" G_GINT64_FORMAT " step%s takes %s, not "
                                        "in the step time",
                                        sizing->settings.save_every,
                                        sizing->settings.save_every == 1 ? "" : "s",
                                        mw_format_seconds(mw_save_s(sizing))));
}

/* A file of weights of one type, planned in another. */
static void
note_stored_type(const struct mw_model *model, const struct mw_settings *s, GPtrArray *notes)
{
    if (!*model->stored_as || model->stored_dtype == s->dtype)
        return;
    if (model->stored_dtype == MW_DTYPE_NONE)
        g_ptr_array_add(notes, g_strdup_printf("config.json: weights of type %s are planned in %s",
                                               model->stored_as, mw_dtype_name(s->dtype)));
    else
        g_ptr_array_add(notes, mw_spelled_printf(
                                   "config.json: weights of type %s are planned in %s; {dtype=%s} "
                                   "plans them as they are",
                                   model->stored_as, mw_dtype_name(s->dtype),
                                   mw_dtype_name(model->stored_dtype)));
}

/* Weights that a file holds in a few bits: frozen ones can be planned so. */
static void
note_quantization(const struct mw_model *model, const struct mw_settings *s, GPtrArray *notes)
{
    const char *by = *model->quantized_by ? model->quantized_by : "no method named";
    int64_t bits = model->quantized_bits;

    if (!model->quantized)
        return;
    if (s->frozen_dtype != MW_DTYPE_NONE) {
        g_ptr_array_add(notes,
                        mw_spelled_printf("config.json: quantization_config (%s) is not followed: "
                                          "frozen weights of layers are %s, by {weight-bits}",
                                          by, mw_dtype_name(s->frozen_dtype)));
        return;
    }
    g_autofree char *how =
        bits == 4 || bits == 8
            ? g_strdup_printf("; {train} with {weight-bits=%s} plans frozen weights in %s bits",
                              bits == 4 ? "4" : "8", bits == 4 ? "4" : "8")
            : g_strdup("; {weight-bits} has 8 and 4 bits for frozen weights");
    g_autofree char *spelled = mw_spelled(how);
    g_ptr_array_add(notes, g_strdup_printf("config.json: quantization_config (%s) is not followed: "
                                           "weights are planned in %s%s",
                                           by, mw_dtype_name(s->dtype), spelled));
}

/* Where GPUs share sequences, a whole number is often meant for all of them. */
static void
note_batch_of_group(const struct mw_question *question, const struct mw_sizing *sizing,
                    GPtrArray *notes)
{
    const double asked = question->settings.micro_batch;
    const double sharers = (double)(sizing->tp * sizing->settings.cp);

    if (sharers > 1 && asked >= 1 && asked == floor(asked) && !question->deepspeed.notes)
        g_ptr_array_add(
            notes,
            mw_spelled_printf("{batch=%.15g}: is of each GPU, and the %.0f that share "
                              "sequences have %.15g in a micro-batch; {batch=%.15g} gives them "
                              "%.15g",
                              asked, sharers, asked * sharers, asked / sharers, asked));
}

void
mw_result_set_notes(const struct mw_question *question, enum mw_strategy strategy,
                    const struct mw_answer *answer)
{
    const struct mw_sizing *sizing = answer->sizing;
    struct mw_result *r = answer->result;
    GPtrArray *notes = g_ptr_array_new();

    if (r->default_step_tokens > 0)
        note_batch(question, strategy, sizing, r, notes);
    note_batch_of_group(question, sizing, notes);
    note_eager(question, sizing, notes);
    note_left_out(question, strategy, sizing, notes);
    note_pieces(sizing, notes);
    note_experts(question, sizing, notes);
    note_replicas(sizing, notes);
    note_slicing(question, sizing, notes);
    note_sliced_adapters(sizing, notes);
    mw_note_lacks(question, sizing, notes);
    mw_note_deepspeed(question, strategy, sizing, notes);
    note_length(sizing, notes);
    note_sharing(question, sizing, notes);
    note_chunks(question, sizing, notes);
    note_asynchronous(question, sizing, notes);
    if (*question->model.note)
        g_ptr_array_add(notes, g_strdup_printf("config.json: %s", question->model.note));
    note_quantization(&question->model, &sizing->settings, notes);
    note_stored_type(&question->model, &sizing->settings, notes);
    note_attention(answer, notes);
    note_caps(question, sizing, notes);
    note_int8(question, sizing, notes);
    note_tokens(r, question->settings.tokens, notes);
    mw_note_idle(&question->settings, sizing, notes);
    note_interval(&question->settings, sizing, notes);
    mw_note_keys(question, sizing, notes);
    note_durable(question, sizing, notes);
    g_ptr_array_add(notes, NULL);
    r->notes = (char **)g_ptr_array_free(notes, FALSE);
}
