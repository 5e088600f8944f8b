/* The operators of a device against a decoder in fp64, itself checked by finite
 * differences: odd shapes, biases, activations, tied or not, stretched rotary positions. */
#include <math.h>

#include "tests/cases.h"
#include "tests/compute_driver.h"
#include "tests/reference_decoder.h"
#include "tests/whole_model.h"

struct variant {
    const char *name;
    struct mw_decoder decoder;
};

#define GPT2(act, h, a, f, v)                                                                      \
    .kind = MW_DECODER_GPT2, .activation = MW_ACTIVATION_##act, .layers = 2, .hidden = h,          \
    .heads = a, .kv_heads = a, .head_dim = (h) / (a), .ffn = f, .vocab = v,                        \
    .attention_bias = true, .projection_bias = true, .mlp_bias = true, .norm_epsilon = 1e-5,       \
    .rope_scaling = {1, 0, 0, 0}

#define LLAMA(h, a, g, d, f, v)                                                                    \
    .kind = MW_DECODER_LLAMA, .activation = MW_ACTIVATION_SILU, .layers = 2, .hidden = h,          \
    .heads = a, .kv_heads = g, .head_dim = d, .ffn = f, .vocab = v, .norm_epsilon = 1e-6,          \
    .rope_theta = 10000, .rope_scaling = {1, 0, 0, 0}

#define LORA(r, alpha, operators) .lora_rank = r, .lora_alpha = alpha, .lora_adapted = operators
#define BARE(target) (UINT32_C(1) << MW_TARGET_##target)
#define ADAPTED(operator_) (UINT32_C(1) << MW_OPERATOR_##operator_)
#define ALL_ADAPTED (ADAPTED(QKV) | ADAPTED(PROJECTION) | ADAPTED(MLP_UP) | ADAPTED(MLP_DOWN))

#define EXPERTS(count, visits) .experts = count, .experts_per_token = visits
#define LOSSES(aux, z) .router_aux_loss = aux, .router_z_loss = z

#define SEQ_MAX 16

/* For finite differences: a few thousand parameters. */
static struct variant tiny[] = {
    {"gpt2", {GPT2(GELU_TANH, 8, 2, 12, 11), .position_rows = 7, .tied_embedding = true}},
    {"gpt2-erf-untied", {GPT2(GELU_ERF, 8, 4, 9, 7), .position_rows = SEQ_MAX}},
    {"gpt2-relu", {GPT2(RELU, 6, 3, 5, 5), .position_rows = 7, .tied_embedding = true}},
    {"llama", {LLAMA(7, 4, 2, 4, 9, 11)}},
    {"qwen3", {LLAMA(7, 4, 2, 4, 9, 11), .qk_norm = true}},
    {"gpt2-lora",
     {GPT2(GELU_TANH, 8, 2, 12, 11), .position_rows = 7, .tied_embedding = true,
      LORA(2, 3, ALL_ADAPTED)}},
    {"llama-lora", {LLAMA(7, 4, 2, 4, 9, 11), LORA(3, 6, ALL_ADAPTED)}},
    {"qwen3-lora", {LLAMA(7, 4, 2, 4, 9, 11), .qk_norm = true, LORA(2, 2, ALL_ADAPTED)}},
    {"llama-lora-q-v", {LLAMA(7, 4, 2, 4, 9, 11), LORA(3, 6, ADAPTED(QKV)), .lora_bare = BARE(K)}},
    {"llama-lora-k-gate",
     {LLAMA(7, 4, 2, 4, 9, 11), LORA(2, 5, ADAPTED(QKV) | ADAPTED(MLP_UP)),
      .lora_bare = BARE(Q) | BARE(V) | BARE(UP)}},
    {"qwen3-lora-v-up",
     {LLAMA(7, 4, 2, 4, 9, 11), .qk_norm = true, LORA(2, 2, ALL_ADAPTED),
      .lora_bare = BARE(Q) | BARE(K) | BARE(GATE)}},
    {"llama-tied-bias",
     {LLAMA(5, 2, 1, 6, 7, 9), .tied_embedding = true, .attention_bias = true,
      .projection_bias = true, .mlp_bias = true}},
    {"mixtral", {LLAMA(7, 2, 1, 4, 5, 9), EXPERTS(4, 2), .router_renormalizes = true}},
    {"switch", {LLAMA(7, 2, 1, 4, 5, 9), EXPERTS(3, 1)}},
    {"mixtral-as-it-is", {LLAMA(7, 2, 1, 4, 5, 9), EXPERTS(5, 3)}},
    {"mixtral-drops",
     {LLAMA(7, 2, 1, 4, 5, 9), EXPERTS(4, 2), .rows_of_expert = 3, .router_renormalizes = true}},
    {"switch-drops", {LLAMA(7, 2, 1, 4, 5, 9), EXPERTS(3, 1), .rows_of_expert = 2}},
    {"mixtral-balanced",
     {LLAMA(7, 2, 1, 4, 5, 9), EXPERTS(4, 2), .router_renormalizes = true, LOSSES(0.5, 0.125)}},
    {"switch-balanced",
     {LLAMA(7, 2, 1, 4, 5, 9), EXPERTS(3, 1), .rows_of_expert = 2, LOSSES(2, 0)}},
    {"mixtral-small-scores", {LLAMA(7, 2, 1, 4, 5, 9), EXPERTS(5, 3), LOSSES(0, 0.5)}},
    {"gshard",
     {LLAMA(7, 2, 1, 4, 5, 9), EXPERTS(4, 2), .gate = MW_GATING_GSHARD, .rows_of_expert = 4,
      .router_renormalizes = true, LOSSES(0.5, 0)}},
};

static struct variant variants[] = {
    {"gpt2", {GPT2(GELU_TANH, 48, 4, 192, 101), .position_rows = 29, .tied_embedding = true}},
    {"gpt2-exact", {GPT2(GELU_ERF, 34, 17, 61, 53), .position_rows = SEQ_MAX}},
    {"gpt2-relu", {GPT2(RELU, 36, 3, 144, 97), .position_rows = 17, .tied_embedding = true}},
    {"llama", {LLAMA(33, 6, 2, 10, 41, 89)}},
    {"llama-wide-heads", {LLAMA(24, 4, 1, 16, 90, 67), .tied_embedding = true}},
    {"qwen2", {LLAMA(40, 5, 5, 8, 77, 79), .tied_embedding = true, .attention_bias = true}},
    {"qwen3", {LLAMA(40, 6, 2, 8, 77, 79), .qk_norm = true}},
    {"qwen3-biases",
     {LLAMA(32, 4, 4, 16, 64, 64), .qk_norm = true, .attention_bias = true,
      .projection_bias = true}},
    {"llama-biases",
     {LLAMA(32, 4, 2, 8, 64, 64), .attention_bias = true, .projection_bias = true,
      .mlp_bias = true}},
    {"gpt2-lora",
     {GPT2(GELU_TANH, 48, 4, 192, 101), .position_rows = 29, .tied_embedding = true,
      LORA(5, 10, ALL_ADAPTED)}},
    {"llama-lora", {LLAMA(33, 6, 2, 10, 41, 89), LORA(8, 4, ALL_ADAPTED)}},
    {"qwen3-lora", {LLAMA(40, 6, 2, 8, 77, 79), .qk_norm = true, LORA(4, 6, ALL_ADAPTED)}},
    {"phi3-lora", {LLAMA(32, 4, 2, 8, 64, 64), LORA(7, 7, ALL_ADAPTED)}},
    {"llama-lora-of-some",
     {LLAMA(32, 4, 2, 8, 64, 64), LORA(4, 8, ADAPTED(QKV) | ADAPTED(MLP_DOWN))}},
};

/* Experts run on cores alone.  A score that is 0.2% off may choose another expert: so types of 16
 * bits meet those mixtures whose tokens visit all. */
static struct variant mixtures[] = {
    {"mixtral", {LLAMA(33, 6, 2, 10, 41, 89), EXPERTS(4, 2), .router_renormalizes = true}},
    {"mixtral-many", {LLAMA(24, 4, 2, 8, 17, 67), EXPERTS(37, 8), .router_renormalizes = true}},
    {"switch", {LLAMA(40, 5, 5, 8, 23, 79), EXPERTS(8, 1), .tied_embedding = true}},
    {"mixtral-as-it-is", {LLAMA(32, 4, 4, 8, 64, 64), EXPERTS(16, 3), .attention_bias = true}},
    {"mixtral-few-tokens", {LLAMA(24, 4, 2, 8, 9, 67), EXPERTS(200, 1)}},
    {"mixtral-drops",
     {LLAMA(33, 6, 2, 10, 41, 89), EXPERTS(4, 2), .rows_of_expert = 5,
      .router_renormalizes = true}},
    {"switch-drops", {LLAMA(40, 5, 5, 8, 23, 79), EXPERTS(8, 1), .rows_of_expert = 1}},
    {"mixtral-with-room", {LLAMA(32, 4, 4, 8, 64, 64), EXPERTS(6, 3), .rows_of_expert = 40}},
    {"mixtral-balanced",
     {LLAMA(33, 6, 2, 10, 41, 89), EXPERTS(4, 2), .router_renormalizes = true, LOSSES(0.5, 0.125)}},
    {"switch-balanced",
     {LLAMA(40, 5, 5, 8, 23, 79), EXPERTS(8, 1), .rows_of_expert = 3, LOSSES(2, 0)}},
    {"mixtral-small-scores", {LLAMA(32, 4, 4, 8, 64, 64), EXPERTS(16, 3), LOSSES(0, 0.5)}},
    {"gshard",
     {LLAMA(33, 6, 2, 10, 41, 89), EXPERTS(8, 2), .gate = MW_GATING_GSHARD, .rows_of_expert = 10,
      .router_renormalizes = true, LOSSES(0.5, 0)}},
    {"gshard-with-room",
     {LLAMA(24, 4, 2, 8, 17, 67), EXPERTS(5, 2), .gate = MW_GATING_GSHARD, .rows_of_expert = 78,
      .router_renormalizes = true}},
};
static struct variant of_all_experts[] = {
    {"mixtral", {LLAMA(33, 6, 2, 10, 41, 89), EXPERTS(3, 3), .router_renormalizes = true}},
    {"mixtral-as-it-is", {LLAMA(32, 4, 2, 8, 40, 64), EXPERTS(5, 5)}},
    {"one", {LLAMA(32, 4, 2, 8, 40, 64), EXPERTS(1, 1), .router_renormalizes = true}},
    {"mixtral-balanced", {LLAMA(32, 4, 2, 8, 40, 64), EXPERTS(5, 5), LOSSES(0.5, 0.125)}},
};

static void
set_families(struct variant *all, size_t count)
{
    for (size_t i = 0; i < count; i++)
        all[i].decoder.family = mw_family_find(all[i].decoder.experts                   ? "mixtral"
                                               : all[i].decoder.kind == MW_DECODER_GPT2 ? "gpt2"
                                               : g_str_has_prefix(all[i].name, "phi3")  ? "phi3"
                                                                                        : "llama");
}

struct inputs {
    double *params;
    int32_t *ids, *targets;
    int64_t sequences, seq;
};

static struct inputs
make_inputs(const struct mw_decoder *decoder, enum mw_dtype dtype, int64_t sequences, int64_t seq,
            guint32 seed)
{
    GRand *random = g_rand_new_with_seed(seed);
    int64_t tokens = sequences * seq;
    struct inputs in = {
        .params = mw_whole_random(decoder, dtype, random),
        .ids = g_new(int32_t, tokens),
        .targets = g_new(int32_t, tokens),
        .sequences = sequences,
        .seq = seq,
    };

    for (int64_t t = 0; t < tokens; t++) {
        in.ids[t] = g_rand_int_range(random, 0, (int)decoder->vocab);
        in.targets[t] = t % 9 == 4 ? -1 : g_rand_int_range(random, 0, (int)decoder->vocab);
    }
    g_rand_free(random);
    return in;
}

static void
clear_inputs(struct inputs *in)
{
    g_free(in->params);
    g_free(in->ids);
    g_free(in->targets);
}

static struct mw_reference
reference_of(const struct mw_decoder *decoder, const struct inputs *in)
{
    return (struct mw_reference){.decoder = decoder,
                                 .params = in->params,
                                 .ids = in->ids,
                                 .targets = in->targets,
                                 .sequences = in->sequences,
                                 .seq = in->seq};
}

/* --- the reference by finite differences ------------------------------------------------------ */

#define STEP 1e-5
#define DIFFERENCE_TOLERANCE 1e-6 /* of the largest gradient */
/* Elements that move at once, each up or down by chance: a wrong gradient stands out as it does
 * alone, and each element is among some. */
#define TOGETHER (8 * MW_CASES_STEP)

/* The loss where every `groups`-th parameter from `first` is moved along `signs` by `step`. */
static double
loss_beside(struct mw_reference *reference, struct inputs *in, int64_t elements, int64_t first,
            int64_t groups, const double *signs, double step)
{
    g_autofree double *kept = g_memdup2(in->params, (size_t)elements * sizeof *kept);

    for (int64_t i = first; i < elements; i += groups)
        in->params[i] += signs[i] * step;
    double loss = mw_reference_run(reference, NULL, NULL, NULL);
    memcpy(in->params, kept, (size_t)elements * sizeof *kept);
    return loss;
}

static void
test_differences(gconstpointer data)
{
    const struct variant *variant = data;
    struct inputs in = make_inputs(&variant->decoder, MW_DTYPE_BF16, 2, 5, 7);
    struct mw_reference reference = reference_of(&variant->decoder, &in);
    int64_t elements = mw_weights_elements(&variant->decoder);
    int64_t groups = (elements + TOGETHER - 1) / TOGETHER;
    g_autofree double *gradients = g_new(double, elements), *signs = g_new(double, elements);
    g_autoptr(GRand) random = g_rand_new_with_seed(5);
    double largest = 0, off = 0;

    mw_reference_run(&reference, NULL, NULL, gradients);
    for (int64_t i = 0; i < elements; i++)
        signs[i] = g_rand_boolean(random) ? 1 : -1;
    for (int64_t first = 0; first < groups; first++) {
        double above = loss_beside(&reference, &in, elements, first, groups, signs, STEP);
        double below = loss_beside(&reference, &in, elements, first, groups, signs, -STEP);
        double slope = 0;
        for (int64_t i = first; i < elements; i += groups) {
            slope += signs[i] * gradients[i];
            largest = MAX(largest, fabs(gradients[i]));
        }
        off = MAX(off, fabs((above - below) / (2 * STEP) - slope));
    }
    g_test_message("%d gradients up to %.3g, %.2g off at most", (int)elements, largest, off);
    g_assert_cmpfloat(off, <, DIFFERENCE_TOLERANCE * largest);
    clear_inputs(&in);
}

/* --- the backend by the reference ------------------------------------------------------------- */

/* Root mean square of the difference as a share of that of the values: bf16 keeps 8 bits, 2^-9 =
 * 0.2% at most an operation, some forty follow each other.  fp16 keeps 11 bits. */
#define HIDDEN_TOLERANCE 0.015
#define GRADIENT_TOLERANCE 0.04
/* What rounds to the other side of zero has another slope: of inputs that are 0.6% off, one in some
 * 200; of the few of fp16 each counts for much. */
#define RELU_TOLERANCE 0.08
#define RELU_GPU_TOLERANCE 0.1 /* its library rounds once more */
#define LOSS_TOLERANCE 0.003

/* fp32 keeps 24 bits; what activations take from tables of series is 1e-6 off (test_kernels.c). */
#define FP32_TOLERANCE 1e-5

static double
tolerance(const struct mw_drive *drive, double of_bf16)
{
    if (drive->dtype == MW_DTYPE_FP32)
        return FP32_TOLERANCE;
    return drive->dtype == MW_DTYPE_FP16 ? of_bf16 / 8 : of_bf16;
}

static double
gradient_tolerance(const struct mw_drive *drive)
{
    if (drive->decoder->activation == MW_ACTIVATION_RELU && drive->dtype != MW_DTYPE_FP32)
        return mw_drive_tests(&mw_drive_cpu) ? RELU_TOLERANCE : RELU_GPU_TOLERANCE;
    return tolerance(drive, GRADIENT_TOLERANCE);
}

static double
difference(const double *got, const double *expected, int64_t n)
{
    double off = 0, size = 0;

    for (int64_t i = 0; i < n; i++) {
        off += (got[i] - expected[i]) * (got[i] - expected[i]);
        size += expected[i] * expected[i];
    }
    return sqrt(off / size);
}

struct expected {
    double *logits, *hidden, *gradients, loss;
};

static void
check(const struct mw_drive *drive, const struct expected *expected)
{
    const struct mw_decoder *d = drive->decoder;
    struct mw_driven driven = mw_drive(drive);
    int64_t tokens = drive->sequences * drive->seq;
    char worst[MW_WEIGHTS_NAME_MAX] = "none";

    double hidden =
        difference(driven.hidden, expected->hidden, (d->layers + 1) * tokens * d->hidden);
    double logits = difference(driven.logits, expected->logits, tokens * d->vocab);
    double gradients = mw_whole_difference(d, driven.gradients, expected->gradients, worst);
    g_test_message("%d tiles, %d chunks: hidden %.4f off, logits %.4f, loss %.5f, gradients at "
                   "most %.4f in %s",
                   (int)drive->tiles, (int)drive->chunks, hidden, logits,
                   fabs(driven.loss / expected->loss - 1), gradients, worst);
    g_assert_cmpfloat(hidden, <, tolerance(drive, HIDDEN_TOLERANCE));
    g_assert_cmpfloat(logits, <, tolerance(drive, HIDDEN_TOLERANCE));
    g_assert_cmpfloat(fabs(driven.loss / expected->loss - 1), <, tolerance(drive, LOSS_TOLERANCE));
    g_assert_cmpfloat(gradients, <, gradient_tolerance(drive));
    mw_driven_clear(&driven);
}

static void
check_variant(const struct variant *variant, enum mw_dtype dtype)
{
    const struct mw_decoder *d = &variant->decoder;
    struct inputs in = make_inputs(d, dtype, 3, 13, 11);
    struct mw_reference reference = reference_of(d, &in);
    int64_t tokens = in.sequences * in.seq;
    g_autofree double *logits = g_new(double, tokens * d->vocab);
    g_autofree double *hidden = g_new(double, (d->layers + 1) * tokens * d->hidden);
    g_autofree double *gradients = g_new(double, mw_weights_elements(d));
    struct expected expected = {logits, hidden, gradients, 0};
    int64_t tiles_most = d->qk_norm || d->experts ? 1 : 4; /* heads are normed whole */
    struct mw_drive drive = {.decoder = d,
                             .dtype = dtype,
                             .params = in.params,
                             .ids = in.ids,
                             .targets = in.targets,
                             .sequences = in.sequences,
                             .seq = in.seq};

    expected.loss = mw_reference_run(&reference, logits, hidden, gradients);
    for (drive.tiles = MIN(mw_drive_stride(3), tiles_most); drive.tiles <= tiles_most;
         drive.tiles += mw_drive_stride(3)) {
        drive.chunks = 1 + drive.tiles % 3;
        drive.recompute = drive.tiles % 2;
        check(&drive, &expected);
    }
    clear_inputs(&in);
}

static void
test_bf16(gconstpointer variant)
{
    check_variant(variant, MW_DTYPE_BF16);
}

static void
test_fp16(gconstpointer variant)
{
    check_variant(variant, MW_DTYPE_FP16);
}

static void
test_fp32(gconstpointer variant)
{
    check_variant(variant, MW_DTYPE_FP32);
}

/* --- Llama 3.1's rotary positions ------------------------------------------------------------- */

/* All three kinds of waves: kept, blended, slowed down. */
static struct variant
stretched(void)
{
    struct variant variant = {"llama-stretched", {LLAMA(32, 4, 2, 16, 64, 64)}};

    set_families(&variant, 1);
    variant.decoder.rope_theta = 100;
    variant.decoder.rope_scaling = (struct mw_rope_scaling){8, 1, 4, 32};
    return variant;
}

static void
test_stretched(void)
{
    struct variant variant = stretched();

    check_variant(&variant, MW_DTYPE_BF16);
}

static void
skip(gconstpointer why)
{
    g_test_skip(why);
}

/* Of the reference alone: a few where each takes long. */
static void
add_differences(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(tiny); i += (size_t)mw_drive_stride(6)) {
        g_autofree char *name = g_strconcat("/operators/differences/", tiny[i].name, NULL);
        g_test_add_data_func(name, &tiny[i], test_differences);
    }
}

static void
add(const char *type, const struct variant *variant, GTestDataFunc test)
{
    g_autofree char *name = g_strdup_printf("/operators/reference/%s/%s", type, variant->name);

    g_test_add_data_func(name, variant, test);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    set_families(tiny, G_N_ELEMENTS(tiny));
    set_families(variants, G_N_ELEMENTS(variants));
    set_families(mixtures, G_N_ELEMENTS(mixtures));
    set_families(of_all_experts, G_N_ELEMENTS(of_all_experts));
    if (mw_drive_tests(&mw_drive_cpu))
        add_differences();
    if (mw_drive_skips("/operators/reference", skip))
        return g_test_run();
    for (size_t i = 0; i < G_N_ELEMENTS(variants); i += (size_t)mw_drive_stride(2))
        add("bf16", &variants[i], test_bf16);
    for (size_t i = 0; i < G_N_ELEMENTS(variants); i += (size_t)mw_drive_stride(3))
        add("fp16", &variants[i], test_fp16);
    /* Where not all do, those that bf16 left out. */
    for (size_t i = (size_t)mw_drive_stride(2) - 1;
         i < G_N_ELEMENTS(variants) && mw_drive_tests(&mw_drive_cpu);
         i += (size_t)mw_drive_stride(2))
        add("fp32", &variants[i], test_fp32);
    for (size_t i = 0; i < G_N_ELEMENTS(mixtures) && mw_drive_tests(&mw_drive_cpu); i++)
        add("fp32/experts", &mixtures[i], test_fp32);
    for (size_t i = 0; i < G_N_ELEMENTS(of_all_experts) && mw_drive_tests(&mw_drive_cpu); i++) {
        add("bf16/all-experts", &of_all_experts[i], test_bf16);
        add("fp16/all-experts", &of_all_experts[i], test_fp16);
    }
    g_test_add_func("/operators/reference/bf16/llama-stretched", test_stretched);
    return g_test_run();
}
