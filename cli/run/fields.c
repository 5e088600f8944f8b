#include "cli/run/fields.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "model/model.h"
#include "plan/optimizers.h"
#include "planner/settings/settings.h"

#define BATCH_MAX 1e9    /* sequences per step, as --global-batch takes them */
#define DEGREE_MAX 1024  /* slices, stages, and so on, as --tp and its like take them */
#define COUNT_MAX 0x1p53 /* beyond it a double cannot hold every whole number */

/* Ranges at least as wide as those of options and config.json, which refuse the rest. */
const struct cli_run_field cli_run_fixed[CLI_FIXEDS] = {
    [CLI_FIXED_KIND] = {"decoder", "the model's family", CLI_FIELD_FAMILY, MW_DECODER_GPT2,
                        MW_DECODER_LLAMA},
    [CLI_FIXED_ACTIVATION] = {"activation", "the model's activation function", CLI_FIELD_ACTIVATION,
                              MW_ACTIVATION_GELU_TANH, MW_ACTIVATION_SILU},
    [CLI_FIXED_LAYERS] = {"layers", "the model's number of layers", CLI_FIELD_DIMENSION, 1, 0},
    [CLI_FIXED_HIDDEN] = {"hidden", "the model's hidden size", CLI_FIELD_DIMENSION, 1, 0},
    [CLI_FIXED_HEADS] = {"heads", "the model's number of heads", CLI_FIELD_DIMENSION, 1, 0},
    [CLI_FIXED_KV_HEADS] = {"kv-heads", "the model's number of key and value heads",
                            CLI_FIELD_DIMENSION, 1, 0},
    [CLI_FIXED_HEAD_DIM] = {"head-dim", "the model's head size", CLI_FIELD_DIMENSION, 1, 0},
    [CLI_FIXED_FFN] = {"ffn", "the model's MLP size", CLI_FIELD_DIMENSION, 1, 0},
    [CLI_FIXED_VOCAB] = {"vocab", "the model's vocabulary", CLI_FIELD_DIMENSION, 1, 0},
    [CLI_FIXED_TIED] = {"tied", "whether the model's logits are tied", CLI_FIELD_YES, 0, 1},
    [CLI_FIXED_NORM_EPSILON] = {"norm-epsilon", "the model's norm epsilon", CLI_FIELD_REAL, 0,
                                MW_DECODER_EPSILON_MAX},
    [CLI_FIXED_ROPE_THETA] = {"rope-theta", "the model's rope theta", CLI_FIELD_REAL, 0,
                              MW_DECODER_THETA_MAX},
    [CLI_FIXED_BATCH] = {"batch", "--batch", CLI_FIELD_WHOLE, 1, BATCH_MAX},
    [CLI_FIXED_GRAD_ACCUM] = {"grad-accum", "--grad-accum", CLI_FIELD_WHOLE, 1, BATCH_MAX},
    [CLI_FIXED_SEQ] = {"seq", "--seq", CLI_FIELD_DIMENSION, 1, 0},
    [CLI_FIXED_DPU_START] = {"dpu-start", "--dpu-start", CLI_FIELD_WHOLE_OR_NONE, 0, 1e9},
    [CLI_FIXED_TYPE] = {"dtype", "--dtype", CLI_FIELD_TYPE, MW_DTYPE_BF16, MW_DTYPE_FP32},
    [CLI_FIXED_POSITION_ROWS] = {"position-rows", "the model's number of learned positions",
                                 CLI_FIELD_DIMENSION, 0, 0},
    [CLI_FIXED_ATTENTION_BIAS] = {"attention-bias", "whether the model's q, k and v have biases",
                                  CLI_FIELD_YES, 0, 1},
    [CLI_FIXED_PROJECTION_BIAS] = {"projection-bias", "whether the model's projection has a bias",
                                   CLI_FIELD_YES, 0, 1},
    [CLI_FIXED_MLP_BIAS] = {"mlp-bias", "whether the model's MLP has biases", CLI_FIELD_YES, 0, 1},
    [CLI_FIXED_ROPE_FACTOR] = {"rope-factor", "the model's rope scaling factor", CLI_FIELD_REAL, 1,
                               MW_DECODER_STRETCH_MAX},
    [CLI_FIXED_ROPE_LOW] = {"rope-low", "the model's rope low_freq_factor", CLI_FIELD_REAL,
                            MW_DECODER_STRETCH_MIN, MW_DECODER_STRETCH_MAX},
    [CLI_FIXED_ROPE_HIGH] = {"rope-high", "the model's rope high_freq_factor", CLI_FIELD_REAL,
                             MW_DECODER_STRETCH_MIN, MW_DECODER_STRETCH_MAX},
    [CLI_FIXED_ROPE_POSITIONS] = {"rope-positions", "the model's rope original positions",
                                  CLI_FIELD_WHOLE, 1, MW_DECODER_POSITIONS_MAX},
    [CLI_FIXED_DROPS] = {"drop-layers", "--drop-layers", CLI_FIELD_DIGEST, 0, 0},
    [CLI_FIXED_OPTIMIZER] = {"optimizer", "--optimizer", CLI_FIELD_OPTIMIZER, MW_OPTIMIZER_ADAMW,
                             MW_OPTIMIZER_COUNT - 1},
    [CLI_FIXED_CHECKPOINT_BITS] = {"checkpoint-bits", "--checkpoint-bits", CLI_FIELD_WHOLE, 8, 16},
    [CLI_FIXED_KEPT_BITS] = {"kept-bits", "--kept-bits", CLI_FIELD_WHOLE, 8, 16},
    [CLI_FIXED_WEIGHT_BITS] = {"weight-bits", "--weight-bits", CLI_FIELD_WEIGHT_BITS, MW_DTYPE_NONE,
                               MW_DTYPE_NF4_DOUBLE},
    [CLI_FIXED_SLICES] = {"tp", "--tp", CLI_FIELD_WHOLE, 1, DEGREE_MAX},
    [CLI_FIXED_STAGES] = {"pp", "--pp", CLI_FIELD_WHOLE, 1, DEGREE_MAX},
    [CLI_FIXED_SHARERS] = {"cp", "--cp", CLI_FIELD_WHOLE, 1, DEGREE_MAX},
    [CLI_FIXED_SPREAD] = {"ep", "--ep", CLI_FIELD_WHOLE, 1, DEGREE_MAX},
    [CLI_FIXED_SHARD_GROUP] = {"shard-group", "--shard-group", CLI_FIELD_WHOLE_OR_NONE, 2,
                               MW_PLAN_MAX_WORLD},
    [CLI_FIXED_QK_NORM] = {"qk-norm", "whether the model's q and k have norms", CLI_FIELD_YES, 0,
                           1},
    [CLI_FIXED_EXPERTS] = {"experts", "the model's number of experts", CLI_FIELD_WHOLE, 0,
                           MW_DECODER_EXPERTS_MAX},
    [CLI_FIXED_EXPERTS_PER_TOKEN] = {"experts-per-token",
                                     "the number of experts that a token visits", CLI_FIELD_WHOLE,
                                     0, MW_DECODER_EXPERTS_MAX},
    [CLI_FIXED_RENORMALIZES] = {"renormalizes", "whether the weights of a token's experts sum to 1",
                                CLI_FIELD_YES, 0, 1},
    [CLI_FIXED_CAPACITY] = {"capacity-factor", "--capacity-factor", CLI_FIELD_REAL_OR_NONE, 0,
                            MW_DECODER_EXPERTS_MAX},
    [CLI_FIXED_TRAINED] = {"trained", "--train", CLI_FIELD_TRAINED, 0, 0},
    [CLI_FIXED_AUX_LOSS] = {"router-aux-loss", "--router-aux-loss-coef", CLI_FIELD_REAL, 0,
                            MW_DECODER_LOSS_MAX},
    [CLI_FIXED_GATE] = {"gate", "--gate", CLI_FIELD_GATE, 0, MW_GATING_COUNT - 1},
    [CLI_FIXED_Z_LOSS] = {"router-z-loss", "--router-z-loss-coef", CLI_FIELD_REAL, 0,
                          MW_DECODER_LOSS_MAX},
};

/* Each row takes the option's name and range. */
const struct cli_run_field cli_run_courses[CLI_COURSES] = {
    [CLI_COURSE_LR] = {"lr", "--lr", CLI_FIELD_REAL, CLI_RANGE_LR},
    [CLI_COURSE_LR_MIN] = {"lr-min", "--lr-min", CLI_FIELD_REAL, CLI_RANGE_LR_MIN},
    [CLI_COURSE_SHAPE] = {"lr-schedule", "--lr-schedule", CLI_FIELD_SHAPE, MW_LR_CONSTANT,
                          MW_LR_COSINE},
    [CLI_COURSE_WARMUP] = {"warmup", "--warmup", CLI_FIELD_WHOLE, CLI_RANGE_WARMUP},
    [CLI_COURSE_BETA1] = {"beta1", "--beta1", CLI_FIELD_REAL, CLI_RANGE_BETA1},
    [CLI_COURSE_BETA2] = {"beta2", "--beta2", CLI_FIELD_REAL, CLI_RANGE_BETA2},
    [CLI_COURSE_EPSILON] = {"epsilon", "--epsilon", CLI_FIELD_REAL, CLI_RANGE_EPSILON},
    [CLI_COURSE_DECAY] = {"weight-decay", "--weight-decay", CLI_FIELD_REAL, CLI_RANGE_DECAY},
    [CLI_COURSE_CLIP] = {"clip", "--clip", CLI_FIELD_REAL, CLI_RANGE_CLIP},
    [CLI_COURSE_LOSS_SCALE] = {"scaling", "--loss-scale", CLI_FIELD_LOSS_SCALE, 0, 0},
    [CLI_COURSE_SEED] = {"seed", "--seed", CLI_FIELD_WHOLE, CLI_RANGE_SEED},
    [CLI_COURSE_SHUFFLE] = {"shuffle", "--shuffle", CLI_FIELD_YES, 0, 1},
};

const struct cli_run_field cli_run_digits[CLI_DIGITS] = {
    [CLI_DIGITS_LOGITS_CHUNKS] = {"logits-chunks", "--logits-chunks", CLI_FIELD_WHOLE, 1,
                                  BATCH_MAX},
    [CLI_DIGITS_TILES] = {"tiles", "--tiles", CLI_FIELD_WHOLE, 1, BATCH_MAX},
    [CLI_DIGITS_CONTEXT] = {"cp-kind", "--cp-kind", CLI_FIELD_CONTEXT, 0, MW_CONTEXT_COUNT - 1},
};

/* Where the data is. */
static const struct cli_run_field counts[] = {
    {CLI_RUN_SEQUENCES, "the sequences used", CLI_FIELD_WHOLE, 0, COUNT_MAX},
    {CLI_RUN_TOKENS, "the tokens of --data", CLI_FIELD_WHOLE, 0, COUNT_MAX},
};

/* --- values ---------------------------------------------------------------------------------- */

double
cli_run_field_real(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static const char *
name_of(enum cli_field_kind kind, uint64_t value)
{
    static const char *const families[] = {
        [MW_DECODER_GPT2] = "GPT-2", [MW_DECODER_LLAMA] = "Llama"};

    switch (kind) {
    case CLI_FIELD_YES:
        return value ? "yes" : "no";
    case CLI_FIELD_SHAPE:
        return value == MW_LR_COSINE ? "cosine" : "constant";
    case CLI_FIELD_TYPE:
        return mw_dtype_name((enum mw_dtype)value);
    case CLI_FIELD_WEIGHT_BITS:
        return value == MW_DTYPE_MXFP8        ? "8"
               : value == MW_DTYPE_NF4        ? "4"
               : value == MW_DTYPE_NF4_DOUBLE ? "4-double"
                                              : "16";
    case CLI_FIELD_OPTIMIZER:
        return mw_optimizer_name((int)value);
    case CLI_FIELD_FAMILY:
        return families[value];
    case CLI_FIELD_ACTIVATION:
        return mw_activation_name((int)value);
    case CLI_FIELD_CONTEXT:
        return mw_context_name((int)value);
    case CLI_FIELD_GATE:
        return mw_gate_name((int)value);
    default:
        return NULL;
    }
}

static bool
is_real(enum cli_field_kind kind)
{
    return kind == CLI_FIELD_REAL || kind == CLI_FIELD_REAL_OR_NONE || kind == CLI_FIELD_LOSS_SCALE;
}

/* Shows a value even if it is out of range. */
static char *
number_text(enum cli_field_kind kind, uint64_t bits)
{
    return is_real(kind) ? g_strdup_printf("%g", cli_run_field_real(bits))
                         : g_strdup_printf("%" PRIu64, bits);
}

/* The operators that are trained; adapters are compared by their own names. */
static char *
trained_text(uint64_t trained)
{
    GString *text = g_string_new(NULL);

    for (int i = 0; i < MW_OPERATOR_COUNT; i++)
        if (trained >> i & 1)
            g_string_append_printf(text, "%s%s", text->len ? "," : "", mw_operator_name(i));
    return g_string_free(text->len ? text : g_string_assign(text, "lora"), FALSE);
}

bool
cli_run_field_is_none(const struct cli_run_field *row, uint64_t bits)
{
    return row->kind == CLI_FIELD_DIGEST || row->kind == CLI_FIELD_TRAINED ||
                   row->kind == CLI_FIELD_REAL_OR_NONE
               ? !bits
               : row->kind == CLI_FIELD_WHOLE_OR_NONE && (int64_t)bits == MW_AUTO;
}

char *
cli_run_field_text(const struct cli_run_field *row, uint64_t bits)
{
    if (row->kind >= CLI_FIELD_YES)
        return g_strdup(name_of(row->kind, bits));
    if (cli_run_field_is_none(row, bits))
        return g_strdup(row->kind == CLI_FIELD_TRAINED ? "all" : "none");
    if (row->kind == CLI_FIELD_DIGEST)
        return g_strdup_printf("of digest %016" PRIx64, bits);
    if (row->kind == CLI_FIELD_TRAINED)
        return trained_text(bits);
    return row->kind == CLI_FIELD_LOSS_SCALE && !bits ? g_strdup("dynamic")
                                                      : number_text(row->kind, bits);
}

/* --- ranges ---------------------------------------------------------------------------------- */

static uint64_t
most_of(const struct cli_run_field *row)
{
    g_autofree char *name = g_strdelimit(g_strdup(row->field), "-", '_');

    return row->kind == CLI_FIELD_DIMENSION ? (uint64_t)mw_model_dimension_max(name)
                                            : (uint64_t)row->most;
}

static bool
is_in_range(const struct cli_run_field *row, uint64_t bits)
{
    const double real = cli_run_field_real(bits);
    const uint64_t operator_bits = (UINT64_C(1) << MW_OPERATOR_COUNT) - 1;

    if (row->kind == CLI_FIELD_DIGEST)
        return true;
    if (row->kind == CLI_FIELD_TRAINED)
        return bits == CLI_RUN_TRAINED_UNKNOWN || !(bits & ~CLI_RUN_TRAINED_SOME & ~operator_bits);
    if (row->kind == CLI_FIELD_LOSS_SCALE)
        return !bits || mw_loss_scale_is_one(real);
    if (row->kind == CLI_FIELD_REAL || row->kind == CLI_FIELD_REAL_OR_NONE)
        return real >= row->least && real <= row->most; /* NaN is not */
    return cli_run_field_is_none(row, bits) ||
           (bits >= (uint64_t)row->least && bits <= most_of(row));
}

/* "0 (no) or 1 (yes)", "from 0 to 1". */
static char *
accepted(const struct cli_run_field *row)
{
    GString *text = g_string_new(NULL);

    if (row->kind == CLI_FIELD_LOSS_SCALE)
        g_string_append(text, "a power of two, such as 1024, or 0 (dynamic)");
    else if (row->kind == CLI_FIELD_REAL || row->kind == CLI_FIELD_REAL_OR_NONE)
        g_string_append_printf(text, "a number from %g to %.15g", row->least, row->most);
    else if (row->kind == CLI_FIELD_TRAINED)
        g_string_append(text, "bits of operators that are trained, or 0 (all)");
    else if (row->kind < CLI_FIELD_YES)
        g_string_append_printf(text, "a whole number from %.0f to %" PRIu64 "%s", row->least,
                               most_of(row),
                               row->kind == CLI_FIELD_WHOLE_OR_NONE ? ", or none" : "");
    for (uint64_t i = (uint64_t)row->least; row->kind >= CLI_FIELD_YES && i <= most_of(row); i++)
        g_string_append_printf(text, "%s%" PRIu64 " (%s)", text->len ? " or " : "", i,
                               name_of(row->kind, i));
    return g_string_free(text, FALSE);
}

bool
cli_run_field_check(const struct cli_run_field *row, uint64_t bits, GError **error)
{
    if (is_in_range(row, bits))
        return true;
    g_autofree char *value = number_text(row->kind, bits), *wanted = accepted(row);
    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT, "field \"%s\" is %s: must be %s", row->field,
                value, wanted);
    return false;
}

static bool
check_rows(const struct cli_run_field *rows, size_t count, const struct mw_commit_record *record,
           GError **error)
{
    uint64_t bits;

    for (size_t i = 0; i < count; i++)
        if (mw_commit_find(record, rows[i].field, &bits) &&
            !cli_run_field_check(&rows[i], bits, error))
            return false;
    return true;
}

bool
cli_run_fields_check(const struct mw_commit_record *record, GError **error)
{
    return check_rows(cli_run_fixed, CLI_FIXEDS, record, error) &&
           check_rows(cli_run_courses, CLI_COURSES, record, error) &&
           check_rows(cli_run_digits, CLI_DIGITS, record, error) &&
           check_rows(counts, G_N_ELEMENTS(counts), record, error);
}
