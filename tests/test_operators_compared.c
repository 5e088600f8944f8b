/* Operators of a device beside those of cores, one by one: a step of a random decoder continues
 * with the results of cores; before each operator its outputs are poisoned, and after it the other
 * device runs it on the same operands.  Every output is then within its bound, and no other byte of
 * the operands' memory has changed. */
#include <math.h>
#include <string.h>

#include "exec/operators/operators.h"
#include "tests/compute_driver.h"
#include "tests/driver_memory.h"
#include "tests/operator_outputs.h"
#include "tests/whole_model.h"

#if defined(MW_TEST_EMULATED)
#define ROUNDS 5
#define WIDTH_MAX 48
#define TOKENS_MAX 160
#define VOCAB_MAX 150
#define LAYERS 1
#else
#define ROUNDS 8
#define WIDTH_MAX 200
#define TOKENS_MAX 300
#define VOCAB_MAX 1000
#define LAYERS 2
#endif

struct beside {
    const struct mw_drive *drive;
    enum mw_dtype dtype;
    void *device;
    struct mw_operators *operators;
    char *memory;       /* of the device */
    char *before, *got; /* all operands; of the host */
    int64_t bytes;
    GArray *outputs;  /* of the op that runs */
    int64_t compared; /* elements */
    double most;      /* of what an element is off, as a share of its bound */
    char worst[96];   /* where */
};

/* --- the same op elsewhere ------------------------------------------------------------------- */

static void *
moved(const void *pointer, ptrdiff_t by)
{
    return pointer ? (char *)pointer + by : NULL;
}

static struct mw_layer_gradients
moved_gradients(const struct mw_layer_gradients *g, ptrdiff_t by)
{
    return (struct mw_layer_gradients){.out = moved(g->out, by),
                                       .up = moved(g->up, by),
                                       .n2 = moved(g->n2, by),
                                       .x2 = moved(g->x2, by),
                                       .heads = moved(g->heads, by),
                                       .qkv = moved(g->qkv, by),
                                       .n1 = moved(g->n1, by),
                                       .x = moved(g->x, by)};
}

static struct mw_layer_activations
moved_layer(const struct mw_layer_activations *r, ptrdiff_t by)
{
    return (struct mw_layer_activations){.x = moved(r->x, by),
                                         .n1 = moved(r->n1, by),
                                         .qkv = moved(r->qkv, by),
                                         .raw = moved(r->raw, by),
                                         .o = moved(r->o, by),
                                         .lse = moved(r->lse, by),
                                         .x2 = moved(r->x2, by),
                                         .n2 = moved(r->n2, by),
                                         .up = moved(r->up, by),
                                         .act = moved(r->act, by),
                                         .gradient = moved_gradients(&r->gradient, by)};
}

static struct mw_shared_activations
shared_moved(const struct mw_shared_activations *r, ptrdiff_t by)
{
    return (struct mw_shared_activations){.hidden = moved(r->hidden, by),
                                          .final = moved(r->final, by),
                                          .gradient = moved(r->gradient, by),
                                          .branch = moved(r->branch, by),
                                          .wide = moved(r->wide, by),
                                          .wide_elements = r->wide_elements};
}

static void
run_there(struct beside *b, const struct mw_compute *compute, const char *memory)
{
    ptrdiff_t by = b->memory - memory;
    struct mw_compute there = *compute;
    struct mw_layer_activations layer;
    struct mw_shared_activations shared = shared_moved(compute->shared, by);
    GError *error = NULL;

    if (compute->layer)
        layer = moved_layer(compute->layer, by);
    there.layer = compute->layer ? &layer : NULL;
    there.shared = &shared;
    there.ids = moved(compute->ids, by);
    there.targets = moved(compute->targets, by);
    there.loss = moved(compute->loss, by);
    there.params = moved(compute->params, by);
    there.gradient = moved(compute->gradient, by);
    there.input = moved(compute->input, by);
    there.output = moved(compute->output, by);
    there.logits = moved(compute->logits, by);
    mw_operators_prepare(b->operators, &there, &error);
    g_assert_no_error(error);
    MW_TEST_DEVICE.write(b->memory, b->before, b->bytes);
    mw_operators_run(b->operators, &there, &error);
    g_assert_no_error(error);
    MW_TEST_DEVICE.synchronize(b->device);
    MW_TEST_DEVICE.read(b->got, b->memory, b->bytes);
}

/* --- comparing ------------------------------------------------------------------------------- */

static struct mw_operator_output *
output_at(const struct beside *b, guint i)
{
    return &g_array_index(b->outputs, struct mw_operator_output, i);
}

static void
compare_element(struct beside *b, const struct mw_compute *compute,
                const struct mw_operator_output *output, const void *there, int64_t row,
                int64_t column)
{
    double expected = mw_operator_output_value(output, b->dtype, output->at, row, column);
    double got = mw_operator_output_value(output, b->dtype, there, row, column);
    double bound = mw_operator_output_bound(output, b->dtype, expected, row, column);
    double off = fabs(got - expected);
    const char *way = compute->backward ? "backward" : "forward";

    b->compared++;
    if (isnan(got) && isnan(expected) && output->exact) /* rows of tokens of other parts */
        return;
    if (got == expected) /* fp16 may have overflowed */
        return;
    if (!(off <= bound))
        g_error("%s %s on the %s: %s[%d][%d] is %g; on cores it is %g, and the bound %.3g",
                mw_operator_name((int)compute->operator_), way, MW_TEST_DEVICE.kernels->device_name,
                output->name, (int)row, (int)column, got, expected, bound);
    if (bound > 0 && off / bound > b->most) {
        b->most = off / bound;
        g_snprintf(b->worst, sizeof b->worst, "%s %s: %s",
                   mw_operator_name((int)compute->operator_), way, output->name);
    }
}

static void
compare_output(struct beside *b, const struct mw_compute *compute,
               const struct mw_operator_output *output, const char *memory)
{
    const char *there = b->got + ((char *)output->at - memory);

    for (int64_t r = 0; r < output->rows; r++)
        for (int64_t c = 0; c < output->columns; c++)
            compare_element(b, compute, output, there, r, c);
}

/* `now`, but for outputs, is what was there before. */
static void
expect_rest(const struct beside *b, const struct mw_compute *compute, const char *now,
            const char *memory, const char *whose)
{
    g_autofree char *expected = g_memdup2(b->before, (gsize)b->bytes);

    for (guint i = 0; i < b->outputs->len; i++) {
        const struct mw_operator_output *output = output_at(b, i);
        size_t bytes = (size_t)mw_operator_output_bytes(output, output->columns);
        ptrdiff_t at = (char *)output->at - memory;
        for (int64_t r = 0; r < output->rows; r++) {
            ptrdiff_t row = (char *)mw_operator_output_row(output, expected + at, r) - expected;
            memcpy(expected + row, now + row, bytes);
        }
    }
    if (memcmp(expected, now, (size_t)b->bytes) != 0)
        g_error("%s %s on %s: writes what it does not put out",
                mw_operator_name((int)compute->operator_),
                compute->backward ? "backward" : "forward", whose);
}

static void
poison(const struct mw_operator_output *output)
{
    size_t bytes = (size_t)mw_operator_output_bytes(output, output->columns - output->fresh);

    for (int64_t r = 0; r < output->rows; r++)
        memset((char *)mw_operator_output_row(output, output->at, r) +
                   mw_operator_output_bytes(output, output->fresh),
               DRIVER_POISON, bytes);
}

static void
begin(struct beside *b, const char *memory, int64_t bytes)
{
    b->bytes = bytes;
    b->memory = MW_TEST_DEVICE.allocate(bytes);
    b->before = g_malloc((gsize)bytes);
    b->got = g_malloc((gsize)bytes);
}

static void
watch(void *data, const struct mw_compute *compute, bool behind, void *memory, int64_t bytes)
{
    struct beside *b = data;

    if (!b->memory)
        begin(b, memory, bytes);
    if (!behind) {
        b->outputs = mw_operator_outputs(compute, b->dtype);
        for (guint i = 0; i < b->outputs->len; i++)
            poison(output_at(b, i));
        memcpy(b->before, memory, (size_t)bytes);
        return;
    }
    run_there(b, compute, memory);
    for (guint i = 0; i < b->outputs->len; i++)
        compare_output(b, compute, output_at(b, i), memory);
    expect_rest(b, compute, memory, memory, "cores");
    expect_rest(b, compute, b->got, memory, MW_TEST_DEVICE.kernels->device_name);
    mw_operator_outputs_free(b->outputs);
}

/* --- random steps ---------------------------------------------------------------------------- */

static int64_t
between(int64_t least, int64_t most)
{
    return g_test_rand_int_range((gint32)least, (gint32)most + 1);
}

/* Grouped queries; the wider they are, the fewer. */
static void
choose_heads(struct mw_decoder *d)
{
    int64_t group = between(1, 3);

    d->head_dim = 2 * between(1, WIDTH_MAX / 4);
    d->kv_heads = between(1, MAX(1, WIDTH_MAX / (2 * d->head_dim)));
    d->heads = d->kv_heads * group;
}

static struct mw_decoder
random_gpt2(void)
{
    struct mw_decoder d = {
        .family = mw_family_find("gpt2"), .kind = MW_DECODER_GPT2, .norm_epsilon = 1e-5};

    choose_heads(&d);
    d.kv_heads = d.heads;
    d.activation = (enum mw_decoder_activation)between(MW_ACTIVATION_GELU_TANH, MW_ACTIVATION_RELU);
    d.hidden = d.heads * d.head_dim;
    d.attention_bias = d.projection_bias = d.mlp_bias = true;
    return d;
}

static struct mw_decoder
random_llama(void)
{
    struct mw_decoder d = {.family = mw_family_find("llama"),
                           .kind = MW_DECODER_LLAMA,
                           .norm_epsilon = 1e-6,
                           .activation = MW_ACTIVATION_SILU};

    choose_heads(&d);
    d.hidden = between(1, WIDTH_MAX);
    d.attention_bias = g_test_rand_bit();
    d.projection_bias = g_test_rand_bit();
    d.mlp_bias = g_test_rand_bit();
    d.rope_theta = 10000;
    return d;
}

static void
choose_step(struct mw_drive *drive, struct mw_decoder *d)
{
    drive->sequences = between(1, 4);
    drive->seq = between(1, TOKENS_MAX / drive->sequences);
    drive->tiles = between(1, 4);
    drive->chunks = between(1, 3);
    drive->micro_batches = between(1, 2);
    drive->recompute = g_test_rand_bit();
    d->layers = LAYERS;
    d->ffn = between(1, 2 * WIDTH_MAX);
    d->vocab = between(2, VOCAB_MAX);
    d->tied_embedding = g_test_rand_bit();
    d->rope_scaling.factor = 1;
    if (d->kind == MW_DECODER_GPT2)
        d->position_rows = drive->seq + between(0, 9);
}

static int32_t *
random_tokens(int64_t tokens, int64_t least, int64_t vocab)
{
    int32_t *ids = g_new(int32_t, tokens);

    for (int64_t t = 0; t < tokens; t++)
        ids[t] = (int32_t)between(least, vocab - 1);
    return ids;
}

static double *
random_params(const struct mw_decoder *decoder, enum mw_dtype dtype)
{
    GRand *random = g_rand_new_with_seed((guint32)g_test_rand_int());
    double *params = mw_whole_random(decoder, dtype, random);

    g_rand_free(random);
    return params;
}

static void
open_beside(struct beside *b)
{
    const struct mw_drive *drive = b->drive;
    GError *error = NULL;

    b->device = MW_TEST_DEVICE.open(b->dtype);
    b->operators = mw_operators_create(MW_TEST_DEVICE.kernels, b->device, drive->decoder,
                                       drive->sequences, drive->seq, &error);
    g_assert_no_error(error);
}

static void
close_beside(struct beside *b)
{
    MW_TEST_DEVICE.release(b->memory);
    mw_operators_destroy(b->operators);
    MW_TEST_DEVICE.close(b->device);
    g_free(b->before);
    g_free(b->got);
}

static void
compare_step(struct mw_decoder decoder, enum mw_dtype dtype)
{
    struct mw_drive drive = {
        .decoder = &decoder, .dtype = dtype, .device = &mw_drive_cpu, .watch = watch};
    struct beside beside = {.drive = &drive, .dtype = dtype};

    choose_step(&drive, &decoder);
    int64_t tokens = drive.sequences * drive.seq;
    g_autofree double *params = random_params(&decoder, dtype);
    g_autofree int32_t *ids = random_tokens(tokens, 0, decoder.vocab);
    g_autofree int32_t *targets = random_tokens(tokens, -1, decoder.vocab);
    drive.params = params;
    drive.ids = ids;
    drive.targets = targets;
    drive.watch_data = &beside;
    g_test_message(
        "%d x %d tokens, hidden %d, %d heads of %d, %d of keys, ffn %d, vocabulary %d%s, "
        "%d tiles, %d chunks, %d micro-batches",
        (int)drive.sequences, (int)drive.seq, (int)decoder.hidden, (int)decoder.heads,
        (int)decoder.head_dim, (int)decoder.kv_heads, (int)decoder.ffn, (int)decoder.vocab,
        decoder.tied_embedding ? ", tied" : "", (int)drive.tiles, (int)drive.chunks,
        (int)drive.micro_batches);
    open_beside(&beside);
    struct mw_driven driven = mw_drive(&drive);
    mw_driven_clear(&driven);
    close_beside(&beside);
    g_test_message("%d elements, at most %.2f of the bound, in %s", (int)beside.compared,
                   beside.most, beside.worst);
}

static void
test_bf16(void)
{
    for (int round = 0; round < ROUNDS; round++)
        compare_step(round % 2 ? random_gpt2() : random_llama(), MW_DTYPE_BF16);
}

static void
test_fp16(void)
{
    for (int round = 0; round < ROUNDS; round++)
        compare_step(round % 2 ? random_gpt2() : random_llama(), MW_DTYPE_FP16);
}

static void
skip(gconstpointer why)
{
    g_test_skip(why);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    if (mw_drive_skips("/operators/compared", skip))
        return g_test_run();
    g_test_add_func("/operators/compared/bf16", test_bf16);
    g_test_add_func("/operators/compared/fp16", test_fp16);
    return g_test_run();
}
