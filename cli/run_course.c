#include "cli/run_course.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run_entry.h"
#include "exec/checkpoint.h"
#include "exec/run_files.h"
#include "exec/run_names.h"
#include "planner/error.h"
#include "planner/json.h"
#include "report/json_parts.h"

#define TOKENS "tokens"
#define DTYPE "dtype"     /* the trainer's own field */
#define SEQUENCES_MAX (UINT64_C(1) << 53) /* of which none is a number beyond int64 */
#define DIFFERENCES_MAX 5 /* of settings that place state */

enum kind { WHOLE, REAL, YES, SHAPE, LOSS_SCALE, DTYPE_NAME, FAMILY, ACTIVATION_NAME };

/* What has to be alike; their order is that of the fingerprint. */
enum fixed {
    KIND, ACTIVATION, LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, FFN, VOCAB, TIED, NORM_EPSILON,
    ROPE_THETA, BATCH, GRAD_ACCUM, SEQ, DPU_START, TYPE,
    /* What older versions do not record, behind the fingerprint. */
    POSITION_ROWS, ATTENTION_BIAS, PROJECTION_BIAS, MLP_BIAS, ROPE_FACTOR, ROPE_LOW, ROPE_HIGH,
    ROPE_POSITIONS, FIXED
};

static const struct {
    const char *field, *what; /* as messages name it */
    enum kind kind;
} fixed_rows[FIXED] = {
    [KIND] = {"decoder", "the model's family", FAMILY},
    [ACTIVATION] = {"activation", "the model's activation function", ACTIVATION_NAME},
    [LAYERS] = {"layers", "the model's number of layers", WHOLE},
    [HIDDEN] = {"hidden", "the model's hidden size", WHOLE},
    [HEADS] = {"heads", "the model's number of heads", WHOLE},
    [KV_HEADS] = {"kv-heads", "the model's number of key and value heads", WHOLE},
    [HEAD_DIM] = {"head-dim", "the model's head size", WHOLE},
    [FFN] = {"ffn", "the model's MLP size", WHOLE},
    [VOCAB] = {"vocab", "the model's vocabulary", WHOLE},
    [TIED] = {"tied", "whether the model's logits are tied", YES},
    [NORM_EPSILON] = {"norm-epsilon", "the model's norm epsilon", REAL},
    [ROPE_THETA] = {"rope-theta", "the model's rope theta", REAL},
    [BATCH] = {"batch", "--batch", WHOLE},
    [GRAD_ACCUM] = {"grad-accum", "--grad-accum", WHOLE},
    [SEQ] = {"seq", "--seq", WHOLE},
    [DPU_START] = {"dpu-start", "--dpu-start", WHOLE},
    [TYPE] = {DTYPE, "--dtype", DTYPE_NAME},
    [POSITION_ROWS] = {"position-rows", "the model's number of learned positions", WHOLE},
    [ATTENTION_BIAS] = {"attention-bias", "whether the model's q, k and v have biases", YES},
    [PROJECTION_BIAS] = {"projection-bias", "whether the model's projection has a bias", YES},
    [MLP_BIAS] = {"mlp-bias", "whether the model's MLP has biases", YES},
    [ROPE_FACTOR] = {"rope-factor", "the model's rope scaling factor", REAL},
    [ROPE_LOW] = {"rope-low", "the model's rope low_freq_factor", REAL},
    [ROPE_HIGH] = {"rope-high", "the model's rope high_freq_factor", REAL},
    [ROPE_POSITIONS] = {"rope-positions", "the model's rope original positions", WHOLE},
};

static bool
is_of_model(int which)
{
    return which < BATCH || which > TYPE;
}

/* What may change; by enum cli_course. */
static const struct {
    const char *field; /* and option */
    enum kind kind;
} course_rows[CLI_COURSES] = {
    [CLI_COURSE_LR] = {"lr", REAL},
    [CLI_COURSE_LR_MIN] = {"lr-min", REAL},
    [CLI_COURSE_SHAPE] = {"lr-schedule", SHAPE},
    [CLI_COURSE_WARMUP] = {"warmup", WHOLE},
    [CLI_COURSE_BETA1] = {"beta1", REAL},
    [CLI_COURSE_BETA2] = {"beta2", REAL},
    [CLI_COURSE_EPSILON] = {"epsilon", REAL},
    [CLI_COURSE_DECAY] = {"weight-decay", REAL},
    [CLI_COURSE_CLIP] = {"clip", REAL},
    [CLI_COURSE_LOSS_SCALE] = {"scaling", LOSS_SCALE},
    [CLI_COURSE_SEED] = {"seed", WHOLE},
    [CLI_COURSE_SHUFFLE] = {"shuffle", YES},
};

G_STATIC_ASSERT((int)FIXED + (int)CLI_COURSES + 1 <= CLI_RUN_COURSE_FIELDS);

/* Bits, as in a record. */
struct cli_run_course {
    uint64_t fixed[FIXED], course[CLI_COURSES], tokens;
    bool has_fixed[FIXED], has_course[CLI_COURSES], has_tokens;
    bool is_known;      /* there was a record */
    bool of_checkpoint; /* that is started from, and not a run that is resumed */
};

/* --- values ---------------------------------------------------------------------------------- */

static uint64_t
bits_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double
real_of(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static void
take_model(const struct mw_decoder *d, uint64_t now[FIXED])
{
    const uint64_t values[FIXED] = {
        [KIND] = d->kind,
        [ACTIVATION] = d->activation,
        [LAYERS] = (uint64_t)d->layers,
        [HIDDEN] = (uint64_t)d->hidden,
        [HEADS] = (uint64_t)d->heads,
        [KV_HEADS] = (uint64_t)d->kv_heads,
        [HEAD_DIM] = (uint64_t)d->head_dim,
        [FFN] = (uint64_t)d->ffn,
        [VOCAB] = (uint64_t)d->vocab,
        [TIED] = d->tied_embedding,
        [NORM_EPSILON] = bits_of(d->norm_epsilon),
        [ROPE_THETA] = bits_of(d->rope_theta),
        [POSITION_ROWS] = (uint64_t)d->position_rows,
        [ATTENTION_BIAS] = d->attention_bias,
        [PROJECTION_BIAS] = d->projection_bias,
        [MLP_BIAS] = d->mlp_bias,
        [ROPE_FACTOR] = bits_of(d->rope_scaling.factor),
        [ROPE_LOW] = bits_of(d->rope_scaling.low_frequency_factor),
        [ROPE_HIGH] = bits_of(d->rope_scaling.high_frequency_factor),
        [ROPE_POSITIONS] = (uint64_t)d->rope_scaling.original_positions,
    };

    memcpy(now, values, sizeof values);
}

static void
take_fixed(const struct cli_training *training, uint64_t now[FIXED])
{
    const struct mw_settings *s = &training->answer->sizing->settings;

    take_model(&training->decoder, now);
    now[BATCH] = (uint64_t)s->micro_batch;
    now[GRAD_ACCUM] = (uint64_t)s->grad_accum;
    now[SEQ] = (uint64_t)s->seq;
    now[DPU_START] = (uint64_t)s->dpu_start;
    now[TYPE] = s->dtype == MW_DTYPE_FP16 ? MW_DTYPE_FP16 : MW_DTYPE_BF16;
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
        *reals[which] = real_of(bits);
    else if (which == CLI_COURSE_SHAPE)
        o->schedule.shape = bits == MW_LR_COSINE ? MW_LR_COSINE : MW_LR_CONSTANT;
    else if (which == CLI_COURSE_WARMUP)
        o->schedule.warmup_steps = (int64_t)bits;
    else if (which == CLI_COURSE_SEED)
        o->seed = bits;
    else if (which == CLI_COURSE_SHUFFLE)
        o->shuffle = bits;
    else if (real_of(bits) > 0)
        o->loss_scaling = (struct mw_loss_scaling){real_of(bits), real_of(bits), real_of(bits), 0};
    else
        o->loss_scaling = mw_loss_scaling_dynamic(65536);
}

static char *
text_of(enum kind kind, uint64_t bits)
{
    switch (kind) {
    case WHOLE:
        return (int64_t)bits == MW_AUTO ? g_strdup("none")
                                        : g_strdup_printf("%" G_GINT64_FORMAT, (int64_t)bits);
    case LOSS_SCALE:
        if (!bits)
            return g_strdup("dynamic");
        G_GNUC_FALLTHROUGH;
    case REAL:
        return g_strdup_printf("%g", real_of(bits));
    case YES:
        return g_strdup(bits ? "yes" : "no");
    case SHAPE:
        return g_strdup(bits == MW_LR_COSINE ? "cosine" : "constant");
    case FAMILY:
        return g_strdup(bits == MW_DECODER_GPT2    ? "GPT-2"
                        : bits == MW_DECODER_LLAMA ? "Llama"
                                                   : "unknown");
    case ACTIVATION_NAME:
        return g_strdup(bits == MW_ACTIVATION_GELU_TANH  ? "gelu_new"
                        : bits == MW_ACTIVATION_GELU_ERF ? "gelu"
                        : bits == MW_ACTIVATION_RELU     ? "relu"
                        : bits == MW_ACTIVATION_SILU     ? "silu"
                                                         : "unknown");
    case DTYPE_NAME:
        return g_strdup(mw_dtype_name(bits == MW_DTYPE_FP16 ? MW_DTYPE_FP16 : MW_DTYPE_BF16));
    }
    return NULL;
}

/* --- to a record ----------------------------------------------------------------------------- */

int
cli_run_course_fields(const struct cli_training *training, struct mw_commit_field *fields)
{
    uint64_t fixed[FIXED], course[CLI_COURSES];
    int count = 0;

    take_fixed(training, fixed);
    take_course(training, course);
    for (int i = 0; i < FIXED; i++)
        if (i != TYPE)
            fields[count++] = mw_commit_field(fixed_rows[i].field, fixed[i]);
    for (int i = 0; i < CLI_COURSES; i++)
        fields[count++] = mw_commit_field(course_rows[i].field, course[i]);
    fields[count++] = mw_commit_field(TOKENS, (uint64_t)mw_tokens_count(training->tokens));
    return count;
}

uint64_t
cli_run_course_fingerprint(const struct cli_training *training)
{
    uint64_t fixed[FIXED];

    take_fixed(training, fixed);
    return mw_commit_checksum(fixed, (int64_t)(TYPE * sizeof fixed[0]));
}

/* --- from a record --------------------------------------------------------------------------- */

static void
take_record(struct cli_run_course *then, const struct mw_commit_record *record)
{
    then->is_known = true;
    for (int i = 0; i < FIXED; i++)
        then->has_fixed[i] = mw_commit_find(record, fixed_rows[i].field, &then->fixed[i]);
    for (int i = 0; i < CLI_COURSES; i++)
        then->has_course[i] = mw_commit_find(record, course_rows[i].field, &then->course[i]);
    then->has_tokens = mw_commit_find(record, TOKENS, &then->tokens);
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

static bool
refuse_fixed(const struct cli_training *training, const char *differences, const char *again,
             bool model, GError **error)
{
    const char *directory = training->options.nvme[0];

    if (model)
        return mw_refuse(error,
                         "%s/%s" MW_RUN_RECORD ": is of another model: %s: give the run's model, "
                         "or another directory",
                         directory, training->stem, differences);
    return mw_refuse(error,
                     "%s/%s" MW_RUN_RECORD ": the run goes on as it began: %s: give %s; or "
                     "`memwall export %s -o FOLDER`, and a new run --from FOLDER in another "
                     "directory has it otherwise",
                     directory, training->stem, differences, again, directory);
}

static void
add(GString *changes, const char *option, const char *is, const char *was)
{
    g_string_append_printf(changes, "%s%s is %s, it was %s", changes->len ? "; " : "", option, is,
                           was);
}

/* `was` NULL: it was not given. */
static void
add_again(GString *again, const char *option, const char *was)
{
    g_string_append_printf(again, "%s%s%s%s%s", again->len ? " " : "", was ? "" : "no ", option,
                           was ? " " : "", was ? was : "");
}

/* What is fixed in a run and differs; of options, how to have them as they were.  Returns whether
 * the model is another. */
static bool
compare_fixed(const struct cli_training *training, GString *differences, GString *again)
{
    const struct cli_run_course *then = training->then;
    uint64_t now[FIXED];
    bool model = false;

    take_fixed(training, now);
    for (int i = 0; i < FIXED; i++) {
        if (!then->has_fixed[i] || then->fixed[i] == now[i])
            continue;
        g_autofree char *is = text_of(fixed_rows[i].kind, now[i]);
        g_autofree char *was = text_of(fixed_rows[i].kind, then->fixed[i]);
        bool none = i == DPU_START && (int64_t)then->fixed[i] == MW_AUTO;
        add(differences, fixed_rows[i].what, is, was);
        add_again(again, fixed_rows[i].what, none ? NULL : was);
        model |= is_of_model(i);
    }
    return model;
}

static bool
check_fixed(const struct cli_training *training, GError **error)
{
    g_autoptr(GString) differences = g_string_new(NULL), again = g_string_new(NULL);
    bool model = compare_fixed(training, differences, again);

    return !differences->len ||
           refuse_fixed(training, differences->str, again->str, model, error);
}

/* Values that no option takes are those of damage or of another program. */
static bool
check_course(const struct cli_training *training, GError **error)
{
    const struct cli_run_options *o = &training->options;

    if (o->schedule.warmup_steps >= 0 && o->optimizer.beta1 >= 0 && o->optimizer.beta1 < 1 &&
        o->optimizer.beta2 >= 0 && o->optimizer.beta2 < 1 && o->optimizer.epsilon > 0 &&
        o->optimizer.weight_decay >= 0 && o->optimizer.clip_norm >= 0 &&
        (!o->loss_scaling.start || mw_loss_scaling_check(&o->loss_scaling, NULL)))
        return mw_lr_schedule_check(&o->schedule, error);
    g_autofree char *record =
        training->then->of_checkpoint
            ? g_strdup(o->from)
            : g_strdup_printf("%s/%s" MW_RUN_RECORD, o->nvme[0], training->stem);
    return mw_refuse(error, "%s: has options of the course that none can be", record);
}

/* The scale of the loss goes with the type that is computed in, which a new run may have another
 * of. */
static bool
has_other_type(const struct cli_training *training)
{
    uint64_t now[FIXED];

    take_fixed(training, now);
    return training->then->has_fixed[TYPE] && training->then->fixed[TYPE] != now[TYPE];
}

/* What is not given stays as it was; the end of a cosine is a tenth of a rate that is given, where
 * it was. */
static void
settle(struct cli_training *training)
{
    struct cli_run_course *then = training->then;
    const double lr = real_of(then->course[CLI_COURSE_LR]);
    then->has_course[CLI_COURSE_LOSS_SCALE] &= !has_other_type(training);
    const bool tenth = real_of(then->course[CLI_COURSE_LR_MIN]) == lr / 10;

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
    settle(training);
    return check_fixed(training, error) && check_course(training, error);
}

bool
cli_run_course_from(struct cli_training *training, GError **error)
{
    struct cli_run_course *then = training->then = g_new0(struct cli_run_course, 1);

    then->of_checkpoint = true;
    take_record(then, mw_checkpoint_record(training->checkpoint));
    settle(training);
    return check_course(training, error);
}

/* --- of a run that has ended ----------------------------------------------------------------- */

static bool
refuse_model(const char *path, int which, uint64_t was, uint64_t is, GError **error)
{
    g_autofree char *recorded = text_of(fixed_rows[which].kind, was);
    g_autofree char *described = text_of(fixed_rows[which].kind, is);

    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT,
                "%s: %s was %s, the run's description says %s: it was changed, and nothing is made "
                "of it",
                path, fixed_rows[which].what, recorded, described);
    return false;
}

bool
cli_run_course_sequences(const char *path, const struct mw_commit_record *record,
                         uint64_t *sequences, GError **error)
{
    const bool there = mw_commit_find(record, CLI_RUN_SEQUENCES, sequences);

    if (there && *sequences <= SEQUENCES_MAX)
        return true;
    g_autofree char *wrong =
        there ? g_strdup_printf("%" G_GUINT64_FORMAT ": must be at most %" G_GUINT64_FORMAT,
                                *sequences, SEQUENCES_MAX)
              : g_strdup("missing: must be there once");
    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT, "%s: field \"" CLI_RUN_SEQUENCES "\" is %s", path,
                wrong);
    return false;
}

bool
cli_run_course_fits(const struct mw_decoder *decoder, uint64_t fingerprint, const char *path,
                    const struct mw_commit_record *record, GError **error)
{
    uint64_t is[FIXED], was[FIXED], sequences;
    bool all = true;

    if (!cli_run_course_sequences(path, record, &sequences, error))
        return false;
    take_model(decoder, is);
    for (int i = 0; i < FIXED; i++) {
        const bool has = mw_commit_find(record, fixed_rows[i].field, &was[i]);
        if (has && is_of_model(i) && was[i] != is[i])
            return refuse_model(path, i, was[i], is[i], error);
        all &= has || i >= TYPE;
    }
    if (!all || mw_commit_checksum(was, (int64_t)(TYPE * sizeof was[0])) == fingerprint)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT,
                "%s: its fingerprint is not what the run's description says: nothing is exported",
                path);
    return false;
}

/* --- what changes ---------------------------------------------------------------------------- */

static JsonObject *
object_in(JsonNode *root, const char *key)
{
    JsonNode *node = root ? json_object_get_member(json_node_get_object(root), key) : NULL;

    return node && JSON_NODE_HOLDS_OBJECT(node) ? json_node_get_object(node) : NULL;
}

/* As many tokens may be others: the description has the file's name. */
static void
add_data(const struct cli_training *training, GString *changes)
{
    const struct cli_run_course *then = training->then;
    int64_t tokens = mw_tokens_count(training->tokens);
    JsonNode *root = then->of_checkpoint
                         ? NULL /* says nothing of names */
                         : cli_run_entry_parse(training->options.nvme[0], NULL);
    JsonObject *described = object_in(root, "training");
    g_autofree char *now = g_canonicalize_filename(training->options.data, NULL);
    const char *was = NULL;

    if (described)
        mw_json_get_string(described, "data", "", &was, NULL);
    if (was && g_path_is_absolute(was) && strcmp(was, now))
        add(changes, "--data", now, was);
    else if (then->has_tokens && then->tokens != (uint64_t)tokens)
        g_string_append_printf(
            changes, "%s--data has %" G_GINT64_FORMAT " tokens, it had %" G_GUINT64_FORMAT,
            changes->len ? "; " : "", tokens, then->tokens);
    if (root)
        json_node_unref(root);
}

/* What a constant rate does not use is no change. */
static bool
matters(const struct cli_training *training, int which)
{
    return which != CLI_COURSE_LR_MIN || training->options.schedule.shape == MW_LR_COSINE;
}

bool
cli_run_course_tell(struct cli_training *training)
{
    const struct cli_run_course *then = training->then;
    g_autoptr(GString) changes = g_string_new(NULL), again = g_string_new(NULL);
    uint64_t now[CLI_COURSES];

    if (!then || !then->is_known || mw_ranks_index(training->ranks) != 0)
        return false;
    take_course(training, now);
    for (int i = 0; i < CLI_COURSES; i++) {
        if (!then->has_course[i] || then->course[i] == now[i] || !matters(training, i))
            continue;
        const char *name = i == CLI_COURSE_LOSS_SCALE ? "loss-scale" : course_rows[i].field;
        g_autofree char *option = g_strconcat("--", name, NULL);
        g_autofree char *is = text_of(course_rows[i].kind, now[i]);
        g_autofree char *was = text_of(course_rows[i].kind, then->course[i]);
        add(changes, option, is, was);
    }
    add_data(training, changes);
    if (then->of_checkpoint)
        compare_fixed(training, changes, again);
    if (changes->len && then->of_checkpoint)
        cli_say("--from %s: the run goes on otherwise than this was trained: %s",
                training->options.from, changes->str);
    else if (changes->len)
        cli_say("the run goes on with another course: %s", changes->str);
    return changes->len > 0;
}

/* --- settings that place state --------------------------------------------------------------- */

static JsonNode *
settings_now(const struct cli_training *training)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    struct mw_json_writer json = {.out = out};

    if (!out)
        return NULL;
    mw_json_begin(&json, NULL, '{', false);
    mw_json_settings(&json, training->answer->result);
    mw_json_end(&json, '}');
    JsonNode *node = fclose(out) ? NULL : mw_json_parse(text, (gssize)length, "settings", NULL);
    free(text);
    return node;
}

/* "--optimizer-device" of "optimizer_device"; NULL: it follows from others. */
static char *
option_of(const char *key)
{
    static const struct {
        const char *key, *option;
    } others[] = {{"gpus_per_node", "--gpus"},
                  {"micro_batch", "--batch"},
                  {"checkpoint_interval", "--activation-checkpoint-interval"},
                  {"tokens_per_step", NULL},
                  {"default_step_tokens", NULL}};

    for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
        if (!strcmp(key, others[i].key))
            return g_strdup(others[i].option);
    return g_strdelimit(g_strconcat("--", key, NULL), "_", '-');
}

/* As it is typed. */
static char *
value_of(JsonNode *node)
{
    if (!node || JSON_NODE_HOLDS_NULL(node))
        return g_strdup("none");
    return JSON_NODE_HOLDS_VALUE(node) && json_node_get_value_type(node) == G_TYPE_STRING
               ? g_strdup(json_node_get_string(node))
               : mw_json_text(node);
}

/* Of at most so many settings; `again`: how to have them as they were. */
static char *
differences_of(JsonObject *then, JsonObject *now, GString *again)
{
    g_autoptr(GList) keys = json_object_get_members(then);
    g_autoptr(GString) all = g_string_new(NULL);
    int count = 0;

    for (GList *key = keys; key && count < DIFFERENCES_MAX; key = key->next) {
        g_autofree char *was = value_of(json_object_get_member(then, key->data));
        g_autofree char *is = value_of(json_object_get_member(now, key->data));
        g_autofree char *option = option_of(key->data);
        if (!option || !strcmp(was, is))
            continue;
        count++;
        add(all, option, is, was);
        add_again(again, option, strcmp(was, "none") ? was : NULL);
    }
    return all->len ? g_strdup(all->str) : NULL;
}

void
cli_run_course_explain(const struct cli_training *training, GError *error)
{
    const char *directory = training->options.nvme[0];

    if (!training->then || !training->then->is_known)
        return;
    JsonNode *described = cli_run_entry_parse(directory, NULL), *current = settings_now(training);
    JsonObject *then = object_in(described, "settings"), *now = object_in(current, "settings");
    g_autoptr(GString) again = g_string_new(NULL);
    g_autofree char *differences = then && now ? differences_of(then, now, again) : NULL;

    if (differences) {
        char *all = g_strdup_printf("%s; of the settings, %s: give %s; or `memwall export %s -o "
                                    "FOLDER`, and a new run --from FOLDER in another directory has "
                                    "them otherwise",
                                    error->message, differences, again->str, directory);
        g_free(error->message);
        error->message = all;
    }
    g_clear_pointer(&described, json_node_unref);
    g_clear_pointer(&current, json_node_unref);
}
