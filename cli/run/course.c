#include "cli/run/course_internal.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/run/drives.h"
#include "cli/run/entry.h"
#include "exec/commit/run_files.h"
#include "exec/nvme/run_names.h"
#include "exec/trainer/checkpoint.h"
#include "report/json_result.h"

/* A setting of the plan has the name of its option. */
static bool
is_of_model(int which)
{
    return !g_str_has_prefix(cli_run_fixed[which].what, "--");
}

G_STATIC_ASSERT((int)CLI_FIXEDS + (int)CLI_COURSES + (int)CLI_DIGITS + 1 <= CLI_RUN_COURSE_FIELDS);

/* --- values ---------------------------------------------------------------------------------- */

static uint64_t
bits_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void
take_model(const struct mw_decoder *d, uint64_t now[CLI_FIXEDS])
{
    const uint64_t values[CLI_FIXEDS] = {
        [CLI_FIXED_KIND] = d->kind,
        [CLI_FIXED_ACTIVATION] = d->activation,
        [CLI_FIXED_LAYERS] = (uint64_t)d->layers,
        [CLI_FIXED_HIDDEN] = (uint64_t)d->hidden,
        [CLI_FIXED_HEADS] = (uint64_t)d->heads,
        [CLI_FIXED_KV_HEADS] = (uint64_t)d->kv_heads,
        [CLI_FIXED_HEAD_DIM] = (uint64_t)d->head_dim,
        [CLI_FIXED_FFN] = (uint64_t)d->ffn,
        [CLI_FIXED_VOCAB] = (uint64_t)d->vocab,
        [CLI_FIXED_TIED] = d->tied_embedding,
        [CLI_FIXED_NORM_EPSILON] = bits_of(d->norm_epsilon),
        [CLI_FIXED_ROPE_THETA] = bits_of(d->rope_theta),
        [CLI_FIXED_POSITION_ROWS] = (uint64_t)d->position_rows,
        [CLI_FIXED_ATTENTION_BIAS] = d->attention_bias,
        [CLI_FIXED_PROJECTION_BIAS] = d->projection_bias,
        [CLI_FIXED_MLP_BIAS] = d->mlp_bias,
        [CLI_FIXED_QK_NORM] = d->qk_norm,
        [CLI_FIXED_EXPERTS] = (uint64_t)d->experts,
        [CLI_FIXED_EXPERTS_PER_TOKEN] = (uint64_t)d->experts_per_token,
        [CLI_FIXED_RENORMALIZES] = d->router_renormalizes,
        [CLI_FIXED_ROPE_FACTOR] = bits_of(d->rope_scaling.factor),
        [CLI_FIXED_ROPE_LOW] = bits_of(d->rope_scaling.low_frequency_factor),
        [CLI_FIXED_ROPE_HIGH] = bits_of(d->rope_scaling.high_frequency_factor),
        [CLI_FIXED_ROPE_POSITIONS] = (uint64_t)d->rope_scaling.original_positions,
    };

    memcpy(now, values, sizeof values);
}

/* Appends the numbers of the layers that the plan leaves out; returns whether there are any. */
static bool
append_left_out(const struct mw_plan *plan, GArray *numbers)
{
    g_autofree bool *computed = g_new0(bool, plan->shape.decoder.layers + 1);
    bool drops = false;

    for (uint32_t i = 0; i < mw_plan_unfolded_ops(plan); i++) {
        int32_t layer = mw_plan_numbered_op(plan, i).layer;
        if (layer >= 0 && layer < plan->shape.decoder.layers)
            computed[layer] = true;
    }
    for (int64_t layer = 0; layer < plan->shape.decoder.layers; layer++) {
        drops |= !computed[layer];
        if (!computed[layer])
            g_array_append_val(numbers, layer);
    }
    return drops;
}

/* A digest of which layers each step leaves out; 0: no step leaves out any. */
static uint64_t
drops_digest(const struct mw_variants *variants)
{
    g_autoptr(GArray) numbers = g_array_new(FALSE, FALSE, sizeof(int64_t));
    bool drops = false;

    for (uint32_t s = 0; s < variants->span_count; s++) {
        const struct mw_variant_span *span = &variants->spans[s];
        const int64_t begin = -2 - span->first_step, turn = -1;
        g_array_append_val(numbers, begin);
        for (uint32_t t = 0; t < span->turn_count; t++) {
            g_array_append_val(numbers, turn);
            drops |=
                append_left_out(variants->plans[variants->turns[span->first_turn + t]], numbers);
        }
    }
    return drops
               ? mw_commit_checksum(numbers->data, (int64_t)numbers->len * (int64_t)sizeof(int64_t))
               : 0;
}

/* The type of frozen weights that are held in fewer bits; MW_DTYPE_NONE: there are none. */
static enum mw_dtype
narrow_dtype(const struct mw_plan *plan)
{
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        if (!mw_dtype_row(plan->tensors[t].dtype)->computes)
            return (enum mw_dtype)plan->tensors[t].dtype;
    return MW_DTYPE_NONE;
}

/* Rows of a micro-batch that an expert takes by a factor; 0: all. */
static int64_t
rows_by(double factor, const uint64_t fixed[CLI_FIXEDS])
{
    double visits = (double)(fixed[CLI_FIXED_BATCH] * fixed[CLI_FIXED_SEQ] *
                             fixed[CLI_FIXED_EXPERTS_PER_TOKEN]);

    return factor > 0 && fixed[CLI_FIXED_EXPERTS]
               ? MAX(1, (int64_t)ceil(factor * visits / (double)fixed[CLI_FIXED_EXPERTS] - 1e-9))
               : 0;
}

/* The factor that was asked for; of a plan from a file, which has rows, one that gives these.  0:
 * experts take all. */
static double
capacity_factor(const struct cli_training *training, const uint64_t fixed[CLI_FIXEDS])
{
    const struct mw_decoder *d = &training->answer->plan->shape.decoder;
    double asked = mw_settings_capacity_factor(&training->request->question.settings);

    if (!d->rows_of_expert || rows_by(asked, fixed) == d->rows_of_expert)
        return d->rows_of_expert ? asked : 0;
    return (double)(d->rows_of_expert * d->experts) /
           (double)(fixed[CLI_FIXED_BATCH] * fixed[CLI_FIXED_SEQ] * (uint64_t)d->experts_per_token);
}

/* Ranks that divide a state, if there are groups of them that have the same. */
static uint64_t
shard_group(const struct mw_plan *plan)
{
    return mw_plan_degree(plan, MW_AXIS_RP) > 1 ? mw_plan_degree(plan, MW_AXIS_DP)
                                                : (uint64_t)MW_AUTO;
}

/* Of a part of the model: bits of its operators whose own parameters are trained, and one that says
 * that there are others. */
static uint64_t
trained_bits(const struct mw_plan *plan)
{
    uint64_t trained = 0;
    bool some = false;

    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        some |= !plan->tensors[t].trainable;
        for (int o = 0; plan->tensors[t].trainable && o < MW_OPERATOR_COUNT; o++)
            if (plan->tensors[t].operators >> o & 1 && mw_operator_names_params(o) &&
                !mw_operator_row(o)->adapts)
                trained |= UINT64_C(1) << o;
    }
    return some ? trained | CLI_RUN_TRAINED_SOME : 0;
}

static bool
is_known(int which, uint64_t value)
{
    return which != CLI_FIXED_TRAINED || value != CLI_RUN_TRAINED_UNKNOWN;
}

static void
take_fixed(const struct cli_training *training, uint64_t now[CLI_FIXEDS])
{
    const struct mw_step_shape *s = &training->answer->plan->shape;

    take_model(&training->decoder, now);
    now[CLI_FIXED_BATCH] = (uint64_t)s->sequences;
    now[CLI_FIXED_GRAD_ACCUM] = (uint64_t)s->micro_batches;
    now[CLI_FIXED_SEQ] = (uint64_t)s->seq;
    now[CLI_FIXED_DPU_START] = (uint64_t)mw_variants_delayed_from(training->answer->variants);
    now[CLI_FIXED_TYPE] = s->dtype;
    now[CLI_FIXED_OPTIMIZER] = s->optimizer;
    now[CLI_FIXED_CHECKPOINT_BITS] = s->checkpoint_dtype == MW_DTYPE_NONE ? 16 : 8;
    now[CLI_FIXED_KEPT_BITS] = s->kept_encodings ? 8 : 16;
    now[CLI_FIXED_WEIGHT_BITS] = narrow_dtype(training->answer->plan);
    now[CLI_FIXED_CAPACITY] = bits_of(capacity_factor(training, now));
    now[CLI_FIXED_TRAINED] =
        training->stages > 1 ? CLI_RUN_TRAINED_UNKNOWN : trained_bits(training->answer->plan);
    now[CLI_FIXED_GATE] = s->decoder.gate;
    now[CLI_FIXED_AUX_LOSS] = bits_of(s->decoder.router_aux_loss);
    now[CLI_FIXED_Z_LOSS] = bits_of(s->decoder.router_z_loss);
    now[CLI_FIXED_SLICES] = (uint64_t)mw_plan_degree(training->answer->plan, MW_AXIS_TP);
    now[CLI_FIXED_STAGES] = (uint64_t)mw_plan_degree(training->answer->plan, MW_AXIS_PP);
    now[CLI_FIXED_SHARERS] = MAX(1, s->context_ranks);
    now[CLI_FIXED_SPREAD] = (uint64_t)mw_plan_spread(training->answer->plan);
    now[CLI_FIXED_SHARD_GROUP] = shard_group(training->answer->plan);
    /* A pipeline's stage has a part of the layers, and no schedule. */
    now[CLI_FIXED_DROPS] = training->stages > 1 ? 0 : drops_digest(training->answer->variants);
}

static uint64_t
scaling_bits(const struct mw_loss_scaling *scaling)
{
    return bits_of(scaling->min == scaling->max ? scaling->start : 0);
}

static void
take_course(const struct cli_training *training, uint64_t now[CLI_COURSES])
{
    const struct cli_run_options *o = &training->options;
    const struct mw_loss_scaling scaling = cli_training_loss_scaling(training);
    const uint64_t values[CLI_COURSES] = {
        [CLI_COURSE_LR] = bits_of(o->schedule.lr),
        [CLI_COURSE_LR_MIN] = bits_of(o->schedule.lr_min),
        [CLI_COURSE_SHAPE] = o->schedule.shape,
        [CLI_COURSE_WARMUP] = (uint64_t)o->schedule.warmup_steps,
        [CLI_COURSE_BETA1] = bits_of(o->optimizer.beta1),
        [CLI_COURSE_BETA2] = bits_of(o->optimizer.beta2),
        [CLI_COURSE_EPSILON] = bits_of(o->optimizer.epsilon),
        [CLI_COURSE_DECAY] = bits_of(o->optimizer.weight_decay),
        [CLI_COURSE_CLIP] = bits_of(o->optimizer.clip_norm),
        [CLI_COURSE_LOSS_SCALE] = scaling_bits(&scaling),
        [CLI_COURSE_SEED] = o->seed,
        [CLI_COURSE_SHUFFLE] = o->shuffle,
    };

    memcpy(now, values, sizeof values);
}

static void
put_course(struct cli_training *training, enum cli_course which, uint64_t bits)
{
    struct cli_run_options *o = &training->options;
    double *const reals[CLI_COURSES] = {
        [CLI_COURSE_LR] = &o->schedule.lr,
        [CLI_COURSE_LR_MIN] = &o->schedule.lr_min,
        [CLI_COURSE_BETA1] = &o->optimizer.beta1,
        [CLI_COURSE_BETA2] = &o->optimizer.beta2,
        [CLI_COURSE_EPSILON] = &o->optimizer.epsilon,
        [CLI_COURSE_DECAY] = &o->optimizer.weight_decay,
        [CLI_COURSE_CLIP] = &o->optimizer.clip_norm,
    };

    if (reals[which])
        *reals[which] = cli_run_field_real(bits);
    else if (which == CLI_COURSE_SHAPE)
        o->schedule.shape = bits == MW_LR_COSINE ? MW_LR_COSINE : MW_LR_CONSTANT;
    else if (which == CLI_COURSE_WARMUP)
        o->schedule.warmup_steps = (int64_t)bits;
    else if (which == CLI_COURSE_SEED)
        o->seed = bits;
    else if (which == CLI_COURSE_SHUFFLE)
        o->shuffle = bits;
    else if (cli_run_field_real(bits) > 0)
        o->loss_scaling = (struct mw_loss_scaling){
            cli_run_field_real(bits), cli_run_field_real(bits), cli_run_field_real(bits), 0};
    else
        o->loss_scaling = mw_loss_scaling_dynamic(65536);
}

static void
take_digits(const struct cli_training *training, uint64_t now[CLI_DIGITS])
{
    const struct mw_step_shape *s = &training->answer->plan->shape;

    now[CLI_DIGITS_LOGITS_CHUNKS] = (uint64_t)s->token_chunks;
    now[CLI_DIGITS_TILES] = (uint64_t)s->tiles;
    now[CLI_DIGITS_CONTEXT] = s->context_ranks > 1 ? s->context : 0;
}

/* The options of a cosine do not matter while the rate is constant. */
static bool
has_effect(const struct cli_training *training, int which)
{
    return which != CLI_COURSE_LR_MIN || training->options.schedule.shape == MW_LR_COSINE;
}

/* --- to a record ----------------------------------------------------------------------------- */

int
cli_run_course_fields(const struct cli_training *training, struct mw_commit_field *fields)
{
    uint64_t fixed[CLI_FIXEDS], course[CLI_COURSES], digits[CLI_DIGITS];
    int count = 0;

    take_fixed(training, fixed);
    take_course(training, course);
    take_digits(training, digits);
    for (int i = 0; i < CLI_FIXEDS; i++)
        if (i != CLI_FIXED_TYPE && i != CLI_FIXED_OPTIMIZER && /* the trainer's own */
            is_known(i, fixed[i]))
            fields[count++] = mw_commit_field(cli_run_fixed[i].field, fixed[i]);
    for (int i = 0; i < CLI_COURSES; i++)
        fields[count++] = mw_commit_field(cli_run_courses[i].field, course[i]);
    for (int i = 0; i < CLI_DIGITS; i++)
        fields[count++] = mw_commit_field(cli_run_digits[i].field, digits[i]);
    fields[count++] = mw_commit_field(CLI_RUN_TOKENS, (uint64_t)mw_tokens_count(training->tokens));
    return count;
}

/* --- as phrases ------------------------------------------------------------------------------- */

/* Slices of a model train on the same sequences, and so do ranks that share them: --batch is of one
 * of these. */
static uint64_t
ranks_of_batch(const uint64_t fixed[CLI_FIXEDS])
{
    return fixed[CLI_FIXED_SLICES] * fixed[CLI_FIXED_SHARERS];
}

static char *
fixed_text(int which, const uint64_t fixed[CLI_FIXEDS])
{
    return which == CLI_FIXED_BATCH
               ? g_strdup_printf("%.15g", (double)fixed[which] / (double)ranks_of_batch(fixed))
               : cli_run_field_text(&cli_run_fixed[which], fixed[which]);
}

/* Nothing can be given for it; other options have a word for none of it, or all. */
static bool
has_no_word(const struct cli_run_field *row, uint64_t value)
{
    return cli_run_field_is_none(row, value) && row->kind != CLI_FIELD_TRAINED &&
           row->kind != CLI_FIELD_REAL_OR_NONE;
}

static char *
phrase_of(const struct cli_run_field *row, uint64_t value, const char *text)
{
    bool option = g_str_has_prefix(row->what, "--");

    if (has_no_word(row, value) || (option && row->kind == CLI_FIELD_YES && !value))
        return g_strdup_printf("no %s", row->what);
    if (option && row->kind == CLI_FIELD_YES)
        return g_strdup(row->what);
    return g_strdup_printf("%s%s%s", row->what, option ? " " : ": ", text);
}

void
cli_run_course_list_fixed(const struct cli_training *training, GPtrArray *phrases)
{
    uint64_t fixed[CLI_FIXEDS];

    take_fixed(training, fixed);
    for (int i = 0; i < CLI_FIXEDS; i++) {
        g_autofree char *text = fixed_text(i, fixed);
        if (is_known(i, fixed[i]))
            g_ptr_array_add(phrases, phrase_of(&cli_run_fixed[i], fixed[i], text));
    }
}

void
cli_run_course_list(const struct cli_training *training, GPtrArray *phrases)
{
    uint64_t course[CLI_COURSES];

    take_course(training, course);
    for (int i = 0; i < CLI_COURSES; i++) {
        g_autofree char *text = cli_run_field_text(&cli_run_courses[i], course[i]);
        if (has_effect(training, i))
            g_ptr_array_add(phrases, phrase_of(&cli_run_courses[i], course[i], text));
    }
}

/* --- the fingerprint ------------------------------------------------------------------------- */

uint64_t
cli_run_course_fingerprint(const struct cli_training *training)
{
    uint64_t fixed[CLI_FIXEDS];

    take_fixed(training, fixed);
    return mw_commit_checksum(fixed, (int64_t)(CLI_FIXED_TYPE * sizeof fixed[0]));
}

/* --- from a record --------------------------------------------------------------------------- */

static void
take_record(struct cli_run_course *then, const struct mw_commit_record *record)
{
    then->is_known = true;
    for (int i = 0; i < CLI_FIXEDS; i++)
        then->has_fixed[i] = mw_commit_find(record, cli_run_fixed[i].field, &then->fixed[i]);
    for (int i = 0; i < CLI_COURSES; i++)
        then->has_course[i] = mw_commit_find(record, cli_run_courses[i].field, &then->course[i]);
    for (int i = 0; i < CLI_DIGITS; i++)
        then->has_digits[i] = mw_commit_find(record, cli_run_digits[i].field, &then->digits[i]);
    /* Older versions had none of these. */
    for (int i = CLI_FIXED_SLICES; i <= CLI_FIXED_SPREAD; i++) {
        then->fixed[i] = then->has_fixed[i] ? then->fixed[i] : 1;
        then->has_fixed[i] = true;
    }
    for (int i = CLI_FIXED_AUX_LOSS; i <= CLI_FIXED_GATE; i++) {
        then->fixed[i] = then->has_fixed[i] ? then->fixed[i] : 0;
        then->has_fixed[i] = true;
    }
    if (!then->has_fixed[CLI_FIXED_SHARD_GROUP])
        then->fixed[CLI_FIXED_SHARD_GROUP] = (uint64_t)MW_AUTO;
    then->has_fixed[CLI_FIXED_SHARD_GROUP] = true;
    then->has_tokens = mw_commit_find(record, CLI_RUN_TOKENS, &then->tokens);
}

static void
read_record(const struct cli_training *training, struct cli_run_course *then)
{
    const struct cli_run_options *o = &training->options;
    struct mw_run_record found;

    if (!mw_run_files_record(o->nvme[0], training->stem, o->previous, &found))
        return;
    take_record(then, &found.record);
    mw_commit_record_clear(&found.record);
}

/* Fixed settings that differ: in words, and as options with their present and with their recorded
 * values ("--batch 2 no --dpu-start"). */
struct fixed_differences {
    GString *all, *now, *then;
    bool model; /* the model differs */
    bool state; /* the optimizer does, which begins with a state of its own */
};

static bool
refuse_fixed(const struct cli_training *training, const struct fixed_differences *d, GError **error)
{
    const char *directory = training->options.nvme[0];

    if (d->model)
        return mw_refuse(error,
                         "%s/%s" MW_RUN_RECORD ": is of another model: %s: give the run's model, "
                         "or another directory",
                         directory, training->stem, d->all->str);
    g_autofree char *called = cli_run_drives_called(training->drives);
    return mw_refuse(error,
                     "cannot resume with %s: the run was started with %s; give %s, or `memwall "
                     "export %s -o FOLDER` and a new run with %s FOLDER",
                     d->now->str, d->then->str, d->then->str, called,
                     d->state ? "--weights" : "--from");
}

/* A batch is compared by what each of the ranks that share it has, a capacity by its rows. */
static bool
is_another(int which, const uint64_t was[CLI_FIXEDS], const uint64_t is[CLI_FIXEDS])
{
    if (!is_known(which, was[which]) || !is_known(which, is[which]))
        return false;
    if (which == CLI_FIXED_CAPACITY)
        return rows_by(cli_run_field_real(was[which]), is) !=
               rows_by(cli_run_field_real(is[which]), is);
    return which == CLI_FIXED_BATCH
               ? was[which] * ranks_of_batch(is) != is[which] * ranks_of_batch(was)
               : was[which] != is[which];
}

static void
compare_fixed(const struct cli_training *training, struct fixed_differences *d)
{
    const struct cli_run_course *then = training->then;
    uint64_t now[CLI_FIXEDS];

    *d = (struct fixed_differences){
        .all = g_string_new(NULL), .now = g_string_new(NULL), .then = g_string_new(NULL)};
    take_fixed(training, now);
    for (int i = 0; i < CLI_FIXEDS; i++) {
        if (!then->has_fixed[i] || !is_another(i, then->fixed, now))
            continue;
        if (i == CLI_FIXED_TRAINED && !then->of_checkpoint) /* the run's description says more */
            continue;
        const struct cli_run_field *row = &cli_run_fixed[i];
        const char *what = row->what;
        g_autofree char *is = fixed_text(i, now);
        g_autofree char *was = fixed_text(i, then->fixed);
        cli_run_course_add(d->all, what, is, was);
        cli_run_course_add_again(d->now, what, has_no_word(row, now[i]) ? NULL : is);
        cli_run_course_add_again(d->then, what, has_no_word(row, then->fixed[i]) ? NULL : was);
        d->model |= is_of_model(i);
        d->state |= i == CLI_FIXED_OPTIMIZER;
    }
}

static void
clear_differences(struct fixed_differences *d)
{
    g_string_free(d->all, TRUE);
    g_string_free(d->now, TRUE);
    g_string_free(d->then, TRUE);
}

/* A record has no more than a digest of the schedule; the run's description has it. */
static bool
check_drops(const struct cli_training *training, GError **error)
{
    const struct cli_run_course *then = training->then;
    const char *asked = training->request->question.settings.drop_layers;
    uint64_t now[CLI_FIXEDS];

    take_fixed(training, now);
    if (!then->has_fixed[CLI_FIXED_DROPS] || then->fixed[CLI_FIXED_DROPS] == now[CLI_FIXED_DROPS])
        return true;
    g_autofree char *is = now[CLI_FIXED_DROPS] && asked ? g_strdup_printf("--drop-layers %s", asked)
                          : now[CLI_FIXED_DROPS]        ? g_strdup("this --drop-layers")
                                                        : g_strdup("no --drop-layers");
    return mw_refuse(error, "cannot resume with %s: the run was started with %s --drop-layers; %s",
                     is, then->fixed[CLI_FIXED_DROPS] ? "another" : "no",
                     then->fixed[CLI_FIXED_DROPS]
                         ? "give its own, or leave the option out where the run's description "
                           "says it"
                         : "leave it out");
}

static bool
check_fixed(const struct cli_training *training, GError **error)
{
    struct fixed_differences d;

    if (!check_drops(training, error))
        return false;
    compare_fixed(training, &d);
    bool good = !d.all->len || refuse_fixed(training, &d, error);
    clear_differences(&d);
    return good;
}

/* Checks the first rank's record on all ranks. */
static bool
check_taken(const struct cli_training *training, GError **error)
{
    const struct cli_run_course *then = training->then;
    bool good = true;

    for (int i = 0; good && i < CLI_FIXEDS; i++)
        good = !then->has_fixed[i] || cli_run_field_check(&cli_run_fixed[i], then->fixed[i], error);
    for (int i = 0; good && i < CLI_COURSES; i++)
        good = !then->has_course[i] ||
               cli_run_field_check(&cli_run_courses[i], then->course[i], error);
    if (!good)
        g_prefix_error(error, "%s/%s" MW_RUN_RECORD ": ", training->options.nvme[0],
                       training->stem);
    return good;
}

/* The loss scale belongs to the data type, and a new run may have another type. */
static bool
has_other_type(const struct cli_training *training)
{
    uint64_t now[CLI_FIXEDS];

    take_fixed(training, now);
    return training->then->has_fixed[CLI_FIXED_TYPE] &&
           training->then->fixed[CLI_FIXED_TYPE] != now[CLI_FIXED_TYPE];
}

/* Sets the options that were not given to the recorded values.  A cosine that ended at a tenth of
 * the recorded rate ends at a tenth of a new rate too. */
static void
keep_recorded_options(struct cli_training *training)
{
    struct cli_run_course *then = training->then;
    const double lr = cli_run_field_real(then->course[CLI_COURSE_LR]);
    then->has_course[CLI_COURSE_LOSS_SCALE] &= !has_other_type(training);
    const bool tenth = cli_run_field_real(then->course[CLI_COURSE_LR_MIN]) == lr / 10;

    for (int i = 0; i < CLI_COURSES; i++)
        if (then->has_course[i] && !(training->options.given >> i & 1) &&
            !(i == CLI_COURSE_LR_MIN && tenth && training->options.given >> CLI_COURSE_LR & 1))
            put_course(training, i, then->course[i]);
}

bool
cli_run_course_resume(struct cli_training *training, GError **error)
{
    struct cli_run_course *then = training->then = g_new0(struct cli_run_course, 1);

    if (mw_ranks_index(training->ranks) == 0)
        read_record(training, then);
    if (mw_ranks_count(training->ranks) > 1 &&
        !mw_ranks_broadcast(training->ranks, 0, then, sizeof *then, 0, error))
        return false;
    if (!then->is_known)
        return true;
    if (!check_taken(training, error))
        return false;
    keep_recorded_options(training);
    return check_fixed(training, error) && mw_lr_schedule_check(&training->options.schedule, error);
}

/* Positions may be stretched: that is how a model learns to read longer texts. */
static bool
is_of_positions(int which)
{
    return which == CLI_FIXED_ROPE_THETA || which == CLI_FIXED_POSITION_ROWS ||
           which == CLI_FIXED_ROPE_FACTOR || which == CLI_FIXED_ROPE_LOW ||
           which == CLI_FIXED_ROPE_HIGH || which == CLI_FIXED_ROPE_POSITIONS;
}

/* Weights of one kind of model mean nothing to another, even if their shapes fit. */
static bool
check_model(const struct cli_training *training, GError **error)
{
    const struct cli_run_course *then = training->then;
    uint64_t now[CLI_FIXEDS];

    take_fixed(training, now);
    for (int i = 0; i < CLI_FIXEDS; i++) {
        if (!is_of_model(i) || is_of_positions(i) || !then->has_fixed[i] ||
            then->fixed[i] == now[i])
            continue;
        g_autofree char *is = cli_run_field_text(&cli_run_fixed[i], now[i]);
        g_autofree char *was = cli_run_field_text(&cli_run_fixed[i], then->fixed[i]);
        return mw_refuse(error,
                         "--from %s: is of another model: %s is %s, it was %s: give -m the "
                         "config.json that it was trained with",
                         training->options.from, cli_run_fixed[i].what, is, was);
    }
    return true;
}

bool
cli_run_course_from(struct cli_training *training, GError **error)
{
    struct cli_run_course *then = training->then = g_new0(struct cli_run_course, 1);

    then->of_checkpoint = true;
    take_record(then, mw_checkpoint_record(training->checkpoint));
    keep_recorded_options(training);
    return check_model(training, error) && mw_lr_schedule_check(&training->options.schedule, error);
}

/* --- the record of a run that has ended ------------------------------------------------------- */

static bool
refuse_model(const char *path, int which, uint64_t was, uint64_t is, GError **error)
{
    g_autofree char *recorded = cli_run_field_text(&cli_run_fixed[which], was);
    g_autofree char *described = cli_run_field_text(&cli_run_fixed[which], is);

    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT,
                "%s: %s was %s, the run's description says %s: it was changed, and is not used",
                path, cli_run_fixed[which].what, recorded, described);
    return false;
}

bool
cli_run_course_check(const char *path, const struct mw_commit_record *record, uint64_t *sequences,
                     GError **error)
{
    if (!cli_run_fields_check(record, error)) {
        g_prefix_error(error, "%s: ", path);
        return false;
    }
    if (mw_commit_find(record, CLI_RUN_SEQUENCES, sequences))
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT,
                "%s: field \"" CLI_RUN_SEQUENCES "\" is missing: must be there once", path);
    return false;
}

bool
cli_run_course_fits(const struct mw_decoder *decoder, uint64_t fingerprint, const char *path,
                    const struct mw_commit_record *record, GError **error)
{
    uint64_t is[CLI_FIXEDS], was[CLI_FIXEDS], sequences;
    bool all = true;

    if (!cli_run_course_check(path, record, &sequences, error))
        return false;
    take_model(decoder, is);
    for (int i = 0; i < CLI_FIXEDS; i++) {
        const bool has = mw_commit_find(record, cli_run_fixed[i].field, &was[i]);
        if (has && is_of_model(i) && was[i] != is[i])
            return refuse_model(path, i, was[i], is[i], error);
        all &= has || i >= CLI_FIXED_TYPE;
    }
    if (!all || mw_commit_checksum(was, (int64_t)(CLI_FIXED_TYPE * sizeof was[0])) == fingerprint)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT,
                "%s: its fingerprint is not what the run's description says: nothing is exported",
                path);
    return false;
}

/* --- what changes ---------------------------------------------------------------------------- */

/* Another file may have as many tokens: the description names the file. */
static void
add_data(const struct cli_training *training, GString *changes)
{
    const struct cli_run_course *then = training->then;
    int64_t tokens = mw_tokens_count(training->tokens);
    JsonNode *root = then->of_checkpoint ? NULL /* says nothing of names */
                                         : cli_run_entry_parse(training->options.nvme[0], NULL);
    JsonObject *described = cli_run_entry_part(root, "training");
    g_autofree char *now = g_canonicalize_filename(training->options.data, NULL);
    const char *was = NULL;

    if (described)
        mw_json_get_string(described, "data", "", &was, NULL);
    if (was && g_path_is_absolute(was) && strcmp(was, now))
        cli_run_course_add(changes, "--data", now, was);
    else if (then->has_tokens && then->tokens != (uint64_t)tokens)
        g_string_append_printf(
            changes, "%s--data has %" G_GINT64_FORMAT " tokens, it had %" G_GUINT64_FORMAT,
            changes->len ? "; " : "", tokens, then->tokens);
    if (root)
        json_node_unref(root);
}

/* Says if sums are now added in another order; false if they are not. */
static bool
tell_digits(const struct cli_training *training)
{
    const struct cli_run_course *then = training->then;
    const int64_t steps = mw_trainer_next_step(training->trainer);
    g_autoptr(GString) was = g_string_new(NULL);
    g_autoptr(GString) is = g_string_new(NULL);
    uint64_t now[CLI_DIGITS];

    take_digits(training, now);
    for (int i = 0; i < CLI_DIGITS; i++) {
        if (!then->has_digits[i] || then->digits[i] == now[i])
            continue;
        g_autofree char *before = cli_run_field_text(&cli_run_digits[i], then->digits[i]);
        g_autofree char *after = cli_run_field_text(&cli_run_digits[i], now[i]);
        cli_run_course_add_again(was, cli_run_digits[i].what, before);
        cli_run_course_add_again(is, cli_run_digits[i].what, after);
    }
    if (was->len && steps)
        cli_say("this run was computed with %s until step %" G_GINT64_FORMAT "; it continues with "
                "%s: its losses will differ in their last digits",
                was->str, steps, is->str);
    return was->len > 0;
}

bool
cli_run_course_tell(struct cli_training *training)
{
    const struct cli_run_course *then = training->then;
    g_autoptr(GString) changes = g_string_new(NULL);
    struct fixed_differences fixed;
    uint64_t now[CLI_COURSES];

    if (!then || !then->is_known || mw_ranks_index(training->ranks) != 0)
        return false;
    take_course(training, now);
    for (int i = 0; i < CLI_COURSES; i++) {
        if (!then->has_course[i] || then->course[i] == now[i] || !has_effect(training, i))
            continue;
        g_autofree char *is = cli_run_field_text(&cli_run_courses[i], now[i]);
        g_autofree char *was = cli_run_field_text(&cli_run_courses[i], then->course[i]);
        cli_run_course_add(changes, cli_run_courses[i].what, is, was);
    }
    add_data(training, changes);
    if (then->of_checkpoint) {
        compare_fixed(training, &fixed);
        g_string_append_printf(changes, "%s%s", changes->len && fixed.all->len ? "; " : "",
                               fixed.all->str);
        clear_differences(&fixed);
    }
    if (changes->len && then->of_checkpoint)
        cli_say("--from %s: settings differ from those of its training: %s", training->options.from,
                changes->str);
    else if (changes->len)
        cli_say("resuming with changed settings: %s", changes->str);
    return tell_digits(training) || changes->len > 0;
}
