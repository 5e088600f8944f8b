#include "cli/run/planned.h"

#include "base/error.h"
#include "base/format.h"
#include "base/spell.h"
#include "cli/run/homes.h"
#include "plan/optimizers.h"
#include "study/evaluate.h"
#include "study/known_steps.h"
#include "study/plan_file.h"

static bool
refuse(const struct cli_request *request, const char *why, GError **error)
{
    return mw_refuse(error, "--plan %s: %s", request->plan_file, why);
}

static bool
can_run(const struct cli_request *request, const struct mw_plan *plan, GError **error)
{
    if (plan->shape.updates_beside)
        return refuse(request,
                      "run updates at the end of a step, and this plan beside backward; `memwall "
                      "simulate` takes it",
                      error);
    if (!mw_optimizer_row(plan->shape.optimizer)->runs)
        return refuse(
            request,
            "run does not update by this plan's optimizer; `memwall list optimizers` says "
            "by which, and `memwall simulate` takes it",
            error);
    if (plan->shape.decoder.gate != MW_GATING_TOP_K)
        return refuse(request,
                      "its gate is not the model's own, of which a plan does not tell: give -m and "
                      "--gate to run it; `memwall simulate` takes it",
                      error);
    if (!plan->shape.has_decoder)
        return refuse(request, "run cannot train its model; `memwall simulate` takes it", error);
    return true;
}

static bool
take_plan(const struct cli_request *request, struct mw_decoder *decoder, int64_t *seq,
          GError **error)
{
    struct mw_variants *variants = mw_plan_file_read(request->plan_file, error);
    const struct mw_plan *plan = variants ? variants->plans[0] : NULL;
    bool good = plan && can_run(request, plan, error);

    if (good) {
        *decoder = plan->shape.decoder;
        *seq = plan->shape.seq;
    }
    mw_variants_free(variants);
    return good;
}

static void
refuse_size(const struct cli_request *request, const struct mw_answer *answer, GError **error)
{
    const struct mw_result *r = answer->result;
    g_autofree char *why =
        g_strdup_printf("%s is %s short per GPU on %s; -H and --set name another machine",
                        r->limiting_tier, mw_format_gib((double)r->short_bytes), r->hardware);

    refuse(request, why, error);
}

bool
cli_run_decoder(const struct cli_request *request, struct mw_decoder *decoder, int64_t *seq,
                GError **error)
{
    const struct mw_question *question = &request->question;
    int64_t tokens = question->settings.seq;

    if (!mw_settings_run(&question->settings, error))
        return false;
    if (!request->plan_file && question->model.quantized)
        return mw_refuse(error,
                         "model %s: its config.json has a quantization_config (%s), which run does "
                         "not follow and a saved model would have beside weights that are not "
                         "quantized; leave the key out",
                         question->model.name,
                         *question->model.quantized_by ? question->model.quantized_by
                                                       : "no method named");
    if (request->plan_file ? !take_plan(request, decoder, &tokens, error)
                           : !mw_model_decoder(&question->model, decoder, error))
        return false;
    if (!request->plan_file) {
        mw_settings_adapt(&question->settings, decoder);
        decoder->router_aux_loss =
            mw_settings_router_aux_loss(&question->settings, &question->model);
        decoder->router_z_loss = mw_settings_router_z_loss(&question->settings, &question->model);
    }
    if (tokens == MW_AUTO)
        tokens = mw_settings_default_seq(&question->model);
    if (seq)
        *seq = tokens;
    return request->plan_file || mw_model_runs_seq(&question->model, tokens, error);
}

struct mw_answer *
cli_run_plan_answer(const struct cli_request *request, GError **error)
{
    struct mw_variants *variants = mw_plan_file_read(request->plan_file, error);

    if (!variants || !can_run(request, variants->plans[0], error)) {
        mw_variants_free(variants);
        return NULL;
    }
    struct mw_answer *answer =
        mw_answer_of_plan(&request->question, request->plan_file, variants, error);
    if (!answer)
        return NULL;
    const struct mw_plan *plan = answer->plan;
    if (!answer->result->feasible) {
        refuse_size(request, answer, error);
        mw_answer_free(answer);
        return NULL;
    }
    answer->result->model = g_strdup(plan->model ? plan->model : "unnamed");
    answer->result->strategy = g_strdup(plan->strategy ? plan->strategy : "plan");
    return answer;
}

char *
cli_run_plan_model(const char *path)
{
    struct mw_variants *variants = mw_plan_file_read(path, NULL);
    const char *model = variants ? variants->plans[0]->model : NULL;
    char *word = g_strdup(model ? model : "plan");

    mw_variants_free(variants);
    return g_strcanon(word, G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "-_", '-');
}

/* --- the program of a rank ------------------------------------------------------------------- */

/* Keeps the predicted rows of the program's ops, under their numbers in it. */
static void
narrow_timeline(struct mw_answer *answer, uint32_t program)
{
    const struct mw_plan *plan = answer->plan;
    struct mw_timeline *timeline = &answer->timeline;
    g_autofree uint32_t *numbers = g_new(uint32_t, plan->op_count);
    uint32_t next = 0;
    size_t kept = 0;

    for (uint32_t i = 0; i < plan->op_count; i++) {
        bool here = plan->lanes[plan->ops[i].lane].program == program;
        numbers[i] = here ? next++ : MW_NONE;
    }
    for (size_t i = 0; i < timeline->row_count; i++) {
        struct mw_timeline_row row = timeline->rows[i];
        row.op = numbers[row.op];
        if (row.op != MW_NONE)
            timeline->rows[kept++] = row;
    }
    timeline->row_count = kept;
}

/* Of several stretches of layers the executor keeps all activations, or recomputes each layer
 * (exec/trainer/passes.c).  What the plan has to be without; NULL: nothing. */
static const char *
keeps_stretches_from_running(const struct mw_answer *answer)
{
    const struct mw_step_shape *shape = &answer->plan->shape;
    bool several = false;

    for (size_t s = 0; s < answer->result->stage_count; s++)
        several |= answer->result->stages[s].stretches > 1;
    return !several                                     ? NULL
           : shape->kept_encodings                      ? "give {kept-bits=16}"
           : shape->whole_checkpoints                   ? "leave out {checkpoints}"
           : !mw_layer_set_is_empty(&shape->recomputed) ? "leave out {recompute-list}"
           : shape->kept_layers                         ? "leave out {recompute-layers}"
           : shape->checkpoint_interval > 1 ? "give {activation-checkpoint-interval=0} or 1"
                                            : NULL;
}

/* Stages whose steps go on over their ends: each updates by itself, and has passes of two steps in
 * hand. */
static bool
can_run_without_flush(const struct cli_training *run, GError **error)
{
    const struct mw_step_shape *shape = &run->answer->plan->shape;
    const struct cli_run_options *o = &run->options;
    const char *optimizer = mw_optimizer_name(shape->optimizer);
    bool spread = false;

    for (uint32_t t = 0; t < run->answer->plan->tensor_count; t++)
        spread |= !run->answer->plan->tensors[t].state_whole;
    if (run->request->plan_file)
        return refuse(run->request,
                      "run takes a pipeline without a flush as it plans it, and not "
                      "from a file: give its settings",
                      error);
    if (o->from || o->resume)
        return mw_refuse(error,
                         "--%s: no checkpoint has what a pipeline without a flush has under way; "
                         "give --weights, which starts from weights alone, or {schedule=1f1b}",
                         o->from ? "from" : "resume");
    if (mw_optimizer_has_vectors(shape->optimizer))
        return mw_refuse(error,
                         "{optimizer=%s}: stages agree on its sums, and without a flush they do "
                         "not wait for each other; give {schedule=1f1b}",
                         optimizer);
    struct mw_loss_scaling scaling = cli_training_loss_scaling(run);
    if (scaling.min < scaling.max)
        return mw_refuse(error, "--loss-scale dynamic: stages agree on each scale, and without a "
                                "flush they do not wait for each other; give a number, or "
                                "{schedule=1f1b}");
    if (mw_plan_degree(run->answer->plan, MW_AXIS_TP) > 1)
        return mw_refuse(error, "{tp}: tensor slices agree on the norm of their stage, which run "
                                "does not without a flush; give {tp=1}, or {schedule=1f1b}");
    if (shape->context_ranks > 1)
        return mw_refuse(error,
                         "{cp=%u}: run shares no sequences between ranks without a flush; "
                         "give {cp=1}, or {schedule=1f1b}",
                         shape->context_ranks);
    if (mw_plan_degree(run->answer->plan, MW_AXIS_DP) > 1 && spread)
        return mw_refuse(error, "{strategy=zero1}: run divides no optimizer state without a flush; "
                                "give {strategy=ddp}");
    if (shape->decoder.tied_embedding && o->optimizer.clip_norm > 0)
        return mw_refuse(error, "{clip}: each stage clips by its own norm without a flush, and "
                                "two stages have the tied embedding; give {clip=0}, or "
                                "{schedule=1f1b}");
    return true;
}

/* Whether the plan's stages can be run: with only activations and gradients between them. */
static bool
can_run_programs(const struct cli_training *run, GError **error)
{
    const struct mw_step_shape *shape = &run->answer->plan->shape;
    const char *without = keeps_stretches_from_running(run->answer);
    g_autofree char *advice = without ? mw_spelled(without) : NULL;

    if (!mw_plan_all_have_layers(run->answer->plan))
        return mw_refuse(error, "{stage-split}: run has a layer in each stage, not the embedding "
                                "or the logits alone; give first layers from 1 on");
    if (advice)
        return mw_refuse(error,
                         "{schedule=interleaved}: run keeps all activations of its stages as they "
                         "are, or recomputes each layer alone; %s",
                         advice);
    if (mw_optimizer_has_vectors(shape->optimizer) && (run->options.save || run->options.from))
        return mw_refuse(error,
                         "{optimizer=%s}: checkpoints have its sums over rows and columns of a "
                         "whole model, not those of stages: no --save and no --from, or {pp=1}",
                         mw_optimizer_name(shape->optimizer));
    return true;
}

/* --- the slice of a rank --------------------------------------------------------------------- */

static bool
can_run_slices(const struct cli_training *run, GError **error)
{
    const struct mw_plan *plan = run->answer->plan;

    if (plan->shape.sequence_parallel && plan->shape.weights_later)
        return mw_refuse(error, "{schedule=zb-h1}: run has no zero-bubble schedule where tensor "
                                "slices share tokens; give {schedule=1f1b}, or "
                                "{sequence-parallel=off}");
    if (plan->shape.tensor_overlap)
        return mw_refuse(error, "tensor slices: this plan sums up beside products, as its software "
                                "does, and run sums up first; plan with {software=memwall}");
    if (plan->shape.sequence_parallel && !plan->shape.tensor_parts)
        return mw_refuse(error, "{sequence-parallel=on}: this plan keeps the whole inputs of "
                                "products, as its software does, and run keeps each slice's own "
                                "tokens; plan with {software=memwall}, or give "
                                "{sequence-parallel=off}");
    if (mw_optimizer_has_vectors(plan->shape.optimizer))
        return mw_refuse(error,
                         "{optimizer=%s}: run takes its sums over the rows and columns of whole "
                         "matrices, which tensor slices do not have; give {tp=1}",
                         mw_optimizer_name(plan->shape.optimizer));
    return true;
}

/* The plan of all slices becomes that of the rank's own. */
static bool
take_slice(struct cli_training *run, GError **error)
{
    struct mw_variants *variants = run->answer->variants;
    int64_t slices = mw_plan_degree(run->answer->plan, MW_AXIS_TP);

    if (!can_run_slices(run, error))
        return false;
    for (uint32_t v = 0; v < variants->plan_count; v++) {
        struct mw_decoder *decoder = &variants->plans[v]->shape.decoder, slice;
        const char *why =
            mw_decoder_slice(decoder, slices, mw_ranks_index(run->ranks) % slices, &slice);
        if (why)
            return mw_refuse(error, "{tp=%" G_GINT64_FORMAT "}: run %s; give {tp=1}", slices, why);
        slice.slice.shares_tokens = variants->plans[v]->shape.tensor_parts;
        *decoder = slice;
    }
    run->slices = slices;
    return true;
}

/* --- the share of a rank --------------------------------------------------------------------- */

static bool
can_run_share(const struct mw_step_shape *shape, GError **error)
{
    if (shape->weights_later)
        return mw_refuse(error, "{schedule=zb-h1}: run computes the gradients of weights with the "
                                "others where ranks share sequences; give {schedule=1f1b} or "
                                "gpipe");
    return true;
}

/* Ranks that share sequences are neighbours among those that have the same slice. */
static bool
take_share(struct cli_training *run, GError **error)
{
    struct mw_variants *variants = run->answer->variants;
    const struct mw_step_shape *shape = &run->answer->plan->shape;
    uint32_t ranks = shape->context_ranks;

    if (!can_run_share(shape, error))
        return false;
    run->share = (struct mw_context_share){
        .count = ranks,
        .index = (uint32_t)(mw_ranks_index(run->ranks) / run->slices % ranks),
        .kind = shape->context};
    for (uint32_t v = 0; v < variants->plan_count; v++)
        variants->plans[v]->shape.decoder.context = run->share;
    return true;
}

static bool
take_stage(struct cli_training *run, GError **error)
{
    struct mw_answer *answer = run->answer;
    uint32_t rank = (uint32_t)mw_ranks_index(run->ranks);
    char why[256];

    if (answer->variants->plan_count > 1)
        return mw_refuse(error, "pipeline: run takes stages whose steps are all alike, and this "
                                "plan has several variants of a step");
    if (!can_run_programs(run, error))
        return false;
    if (answer->plan->world_ranks != (uint32_t)mw_ranks_count(run->ranks))
        return mw_refuse(error,
                         "pipeline: the plan is for %u GPUs, and %d rank%s started; mpirun -n "
                         "%u starts as many",
                         answer->plan->world_ranks, mw_ranks_count(run->ranks),
                         mw_ranks_count(run->ranks) == 1 ? " was" : "s were",
                         answer->plan->world_ranks);
    struct mw_plan *own = mw_plan_extract(answer->plan, rank, why, sizeof why);
    if (!own)
        return mw_refuse(error, "pipeline: %s", why);
    run->homes = cli_run_homes_of(answer->plan);
    narrow_timeline(answer, mw_plan_program_of(answer->plan, rank));
    run->stages = answer->plan->program_count;
    own->shape.decoder.copies_embedding = own->shape.decoder.tied_embedding;
    own->shape.decoder.tied_embedding = false;
    g_clear_pointer(&answer->known, mw_known_steps_free);
    mw_variants_free(answer->variants);
    answer->variants = mw_variants_new(own);
    answer->plan = own;
    answer->result->plan = own;
    return true;
}

/* --- mixtures of experts --------------------------------------------------------------------- */

#define MIXTURE "run trains all of a mixture's experts, and cuts none"

static bool
can_run_experts(const struct mw_tensor *tensor, GError **error)
{
    const uint32_t of_experts = 1u << MW_OPERATOR_MLP_UP | 1u << MW_OPERATOR_MLP_DOWN |
                                1u << MW_OPERATOR_EXPERTS_UP | 1u << MW_OPERATOR_EXPERTS_DOWN;
    uint32_t adapters = 0;

    for (int i = 0; i < MW_OPERATOR_COUNT; i++)
        adapters |= mw_operator_row(i)->adapts ? 1u << i : 0;
    if (tensor->operators & adapters)
        return mw_refuse(error, "{train}: " MIXTURE ", and no adapters beside them; leave it "
                                "out, or give operators such as qkv,mlp-up,mlp-down");
    if (!(tensor->operators & of_experts))
        return true;
    if (tensor->tiles > 1)
        return mw_refuse(error, "{tiles=%u}: " MIXTURE "; give {tiles=1}", tensor->tiles);
    return tensor->trainable ||
           mw_refuse(error, "{train}: " MIXTURE "; leave it out, or give mlp-up and mlp-down "
                            "too");
}

/* Losses of routers are reported with the step whose passes they are of, and statistics are of
 * whole sequences, as capacities are. */
static bool
can_run_losses(const struct mw_step_shape *shape, GError **error)
{
    const struct mw_decoder *d = &shape->decoder;

    if (mw_gate_row((int)d->gate)->may_skip && shape->no_flush)
        return mw_refuse(error,
                         "{gate=%s}: run draws a second expert by the step's number, and without a "
                         "flush a pass may span two steps; give {schedule=1f1b}",
                         mw_gate_name((int)d->gate));
    if (mw_decoder_has_router_losses(d) && shape->no_flush)
        return mw_refuse(error,
                         "{router-aux-loss-coef=%.15g}, {router-z-loss-coef=%.15g}: run "
                         "adds no losses of routers without a flush; give 0, or "
                         "{schedule=1f1b}",
                         d->router_aux_loss, d->router_z_loss);
    return !(d->router_aux_loss > 0) || shape->context_ranks <= 1 ||
           mw_refuse(error,
                     "{router-aux-loss-coef=%.15g}: run balances experts over whole sequences; "
                     "give {cp=1}, or {router-aux-loss-coef=0}",
                     d->router_aux_loss);
}

/* What no operator of a mixture does; others of the trainer's checks hold for it as for dense
 * models. */
static bool
can_run_mixture(const struct cli_training *run, GError **error)
{
    const struct mw_plan *plan = run->answer->plan;

    if (!plan->shape.decoder.experts)
        return true;
    if (!can_run_losses(&plan->shape, error))
        return false;
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        if (!can_run_experts(&plan->tensors[t], error))
            return false;
    if (plan->shape.kept_encodings)
        return mw_refuse(error, "{kept-bits=8}: run keeps a mixture's activations as they are; "
                                "give {kept-bits=16}");
    if (plan->shape.weights_later)
        return mw_refuse(error, "{schedule=zb-h1}: run computes the gradients of experts' weights "
                                "with the others; give {schedule=1f1b} or gpipe");
    if (mw_optimizer_has_vectors(plan->shape.optimizer))
        return mw_refuse(error,
                         "{optimizer=%s}: run takes its sums over rows and columns of whole "
                         "matrices, and a mixture's experts are many in one; give "
                         "{optimizer=adamw}",
                         mw_optimizer_name(plan->shape.optimizer));
    return true;
}

/* The plan of all ranks that share experts becomes that of the rank's own. */
static bool
take_experts(struct cli_training *run, GError **error)
{
    struct mw_variants *variants = run->answer->variants;
    int64_t spread = mw_plan_spread(run->answer->plan);

    if (run->answer->plan->shape.no_flush)
        return mw_refuse(error,
                         "{ep=%" G_GINT64_FORMAT "}: run spreads no experts over stages without a "
                         "flush; give {schedule=1f1b}, or {ep=1}",
                         spread);
    for (uint32_t v = 0; v < variants->plan_count; v++)
        variants->plans[v]->shape.decoder.spread =
            (struct mw_spread){.count = spread, .index = mw_ranks_index(run->ranks) % spread};
    return true;
}

/* Between two steps each rank has the parameters that its own update left, which no checkpoint
 * has. */
static bool
can_run_asynchronous(const struct cli_training *run, GError **error)
{
    const struct cli_run_options *o = &run->options;
    struct mw_loss_scaling scaling = cli_training_loss_scaling(run);

    if (o->from || o->resume)
        return mw_refuse(error,
                         "--%s: no checkpoint has the parameters that each rank goes on with by "
                         "{data-parallel=async}; give --weights, which starts from weights alone, "
                         "or {data-parallel=sync}",
                         o->from ? "from" : "resume");
    return scaling.min >= scaling.max ||
           mw_refuse(error, "--loss-scale dynamic: each update would have a scale of its own; give "
                            "a number, or {data-parallel=sync}");
}

bool
cli_run_take_program(struct cli_training *run, GError **error)
{
    run->stages = run->slices = 1;
    if (run->answer->plan->shape.replicas.stages)
        return mw_refuse(error,
                         "{stage-replicas=%s}: run has as many replicas of each stage, which "
                         "take micro-batches of their own; leave it out",
                         run->answer->result->stage_replicas);
    if (!can_run_mixture(run, error) ||
        (run->answer->plan->shape.no_flush && !can_run_without_flush(run, error)) ||
        (run->answer->plan->shape.asynchronous && !can_run_asynchronous(run, error)))
        return false;
    return (run->answer->plan->program_count == 1 || take_stage(run, error)) &&
           (mw_plan_degree(run->answer->plan, MW_AXIS_TP) == 1 || take_slice(run, error)) &&
           (mw_plan_spread(run->answer->plan) == 1 || take_experts(run, error)) &&
           (run->answer->plan->shape.context_ranks <= 1 || take_share(run, error));
}

double
cli_run_flops(const struct mw_answer *answer)
{
    const struct mw_plan *plan = answer->plan;
    double forward = 0;

    if (answer->sizing)
        return mw_flops_of_model(answer->sizing);
    for (uint32_t i = 0; i < plan->op_count; i++)
        if (plan->ops[i].phase == MW_PHASE_FORWARD)
            forward +=
                (double)plan->works[plan->ops[i].work].flops * (double)mw_plan_op_rounds(plan, i);
    return 3 * forward;
}
