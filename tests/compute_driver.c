#include "tests/compute_driver.h"

#include "exec/data/convert.h"
#include "exec/operators/operators.h"
#include "tests/driver_unit.h"
#include "tests/reference_decoder.h"
#include "tests/whole_model.h"

#define BIT(operator_) (1u << MW_OPERATOR_##operator_)
#define FP16_LOSS_SCALE 1024.0

struct driver {
    const struct mw_drive *drive;
    struct mw_driven *driven;
    const struct mw_drive_device *table;
    void *device;
    struct mw_operators *operators;
    struct driver_memory memory;
    int64_t tokens, chunks;
    struct driver_unit head, *layers, tail; /* layers: four each */
    struct driver_unit *adapters;           /* as layers; of those that there are */
    struct mw_activation_layout layout;
    struct mw_layer_activations *activations;
    struct mw_shared_activations shared;
    void *logits;
    int32_t *ids, *targets;
    double *loss, *router_losses; /* the latter [layers, 2], of the host */
    char *checkpoints;            /* [layers, T, h], in memory of the host */
};

static const struct {
    uint32_t params;
    enum mw_operator operators[2];
    int tiled;                 /* which of them */
    enum mw_operator adapters; /* between them */
} layer_units[4] = {
    {BIT(NORM1) | BIT(QKV), {MW_OPERATOR_NORM1, MW_OPERATOR_QKV}, 1, MW_OPERATOR_QKV_LORA},
    {BIT(PROJECTION),
     {MW_OPERATOR_ATTENTION, MW_OPERATOR_PROJECTION},
     1,
     MW_OPERATOR_PROJECTION_LORA},
    {BIT(NORM2) | BIT(MLP_UP), {MW_OPERATOR_NORM2, MW_OPERATOR_MLP_UP}, 1, MW_OPERATOR_MLP_UP_LORA},
    {BIT(MLP_DOWN), {MW_OPERATOR_MLP_ACT, MW_OPERATOR_MLP_DOWN}, 1, MW_OPERATOR_MLP_DOWN_LORA},
};

enum mw_dtype
mw_drive_dtype(const struct mw_drive *drive)
{
    return drive->dtype == MW_DTYPE_NONE ? MW_DTYPE_BF16 : drive->dtype;
}

static double
loss_scale(const struct driver *driver)
{
    return mw_drive_dtype(driver->drive) == MW_DTYPE_FP16 ? FP16_LOSS_SCALE : 1;
}

static int64_t
bytes_of(const struct driver *driver, int64_t elements)
{
    return mw_dtype_bytes(mw_drive_dtype(driver->drive), elements);
}

/* --- one op ---------------------------------------------------------------------------------- */

static struct mw_compute
blank(const struct driver *driver, enum mw_operator operator_, bool backward)
{
    const struct mw_drive *drive = driver->drive;

    return (struct mw_compute){
        .decoder = drive->decoder,
        .operator_ = operator_,
        .backward = backward,
        .dtype = mw_drive_dtype(drive),
        .sequences = drive->sequences,
        .seq = drive->seq,
        .tokens = driver->tokens,
        .ids = driver->ids,
        .targets = driver->targets,
        .gradient_scale = (float)loss_scale(driver) / (float)driver->tokens,
        .loss = driver->loss,
        .shared = &driver->shared,
        .logits = driver->logits,
    };
}

static int64_t
scratch_bytes(const struct driver *driver)
{
    return driver->table->scratch_bytes ? driver->table->scratch_bytes(driver->device) : 0;
}

static void
watch(const struct driver *driver, const struct mw_compute *compute, bool behind)
{
    const struct mw_drive *drive = driver->drive;

    if (drive->watch)
        drive->watch(drive->watch_data, compute, behind, driver->memory.base, driver->memory.bytes);
}

static void
run(const struct driver *driver, const struct mw_compute *compute)
{
    GError *error = NULL;

    mw_operators_prepare(driver->operators, compute, &error);
    g_assert_no_error(error);
    int64_t bytes = scratch_bytes(driver);
    watch(driver, compute, false);
    mw_operators_run(driver->operators, compute, &error);
    g_assert_no_error(error);
    driver->table->synchronize(driver->device);
    watch(driver, compute, true);
    g_assert_cmpint(scratch_bytes(driver), ==, bytes);
}

static void
run_part(const struct driver *driver, const struct driver_unit *unit, int64_t tile, bool adds,
         struct mw_compute compute)
{
    compute.part = &unit->parts[tile];
    compute.params = unit->params[tile];
    if (compute.backward) {
        compute.gradient = unit->gradients[tile];
        compute.gradient_adds = adds;
    }
    run(driver, &compute);
}

/* --- passes ---------------------------------------------------------------------------------- */

static bool
adds_now(struct driver_unit *unit, enum mw_operator operator_, bool last_tile)
{
    bool adds = unit->made >> operator_ & 1;

    if (last_tile)
        unit->made |= 1u << operator_;
    return adds;
}

static struct mw_layer_activations *
activations_of(const struct driver *driver, int64_t layer)
{
    return &driver->activations[driver->drive->recompute ? 0 : layer];
}

static bool
is_adapted(const struct driver *driver, int u)
{
    int adapted = (int)mw_operator_row((int)layer_units[u].adapters)->adapts;

    return mw_decoder_adapts(driver->drive->decoder, adapted);
}

static void
run_adapters(struct driver *driver, int64_t layer, int u, bool backward, void *output)
{
    struct driver_unit *unit = &driver->adapters[4 * layer + u];
    struct mw_compute compute = blank(driver, layer_units[u].adapters, backward);

    if (!is_adapted(driver, u))
        return;
    compute.layer = activations_of(driver, layer);
    compute.output = output;
    run_part(driver, unit, 0, backward && adds_now(unit, layer_units[u].adapters, true), compute);
}

static void
run_layer_unit(struct driver *driver, int64_t layer, int u, bool backward, void *output)
{
    struct driver_unit *unit = &driver->layers[4 * layer + u];
    int64_t tiles = unit->tensor.tiles;

    for (int64_t i = 0; i < tiles; i++) {
        int64_t tile = backward ? tiles - 1 - i : i;
        for (int step = 0; step < 2; step++) {
            int at = backward ? 1 - step : step;
            enum mw_operator operator_ = layer_units[u].operators[at];
            bool tiled = at == layer_units[u].tiled;
            if (step == 1 && !tile)
                run_adapters(driver, layer, u, backward, output);
            if (!tiled && tile)
                continue;
            struct mw_compute compute = blank(driver, operator_, backward);
            compute.layer = activations_of(driver, layer);
            compute.output = output;
            compute.draw = MW_DRIVE_DRAW + (uint64_t)layer;
            compute.router_losses = backward ? NULL : driver->router_losses + 2 * layer;
            bool adds = backward && adds_now(unit, operator_, !tiled || i == tiles - 1);
            if (operator_ == MW_OPERATOR_ATTENTION || operator_ == MW_OPERATOR_MLP_ACT)
                run(driver, &compute);
            else
                run_part(driver, unit, tile, adds, compute);
        }
    }
}

/* From the device. */
static void
widen(const struct driver *driver, double *out, const void *from, int64_t n)
{
    g_autofree void *elements = g_malloc((gsize)bytes_of(driver, n));

    driver->table->read(elements, from, bytes_of(driver, n));
    for (int64_t i = 0; i < n; i++)
        out[i] = (double)mw_fp32_of_element(elements, i, mw_drive_dtype(driver->drive));
}

static void
layer_forward(struct driver *driver, int64_t layer)
{
    const struct mw_drive *drive = driver->drive;
    int64_t elements = driver->tokens * drive->decoder->hidden;
    bool last = layer == drive->decoder->layers - 1;
    void *input = activations_of(driver, layer)->x;
    void *output = last ? driver->shared.hidden : activations_of(driver, layer + 1)->x;

    widen(driver, driver->driven->hidden + layer * elements, input, elements);
    driver->table->read(driver->checkpoints + bytes_of(driver, layer * elements), input,
                        bytes_of(driver, elements));
    for (int u = 0; u < 4; u++)
        run_layer_unit(driver, layer, u, false, output);
    if (last)
        widen(driver, driver->driven->hidden + (layer + 1) * elements, output, elements);
}

static void
layer_backward(struct driver *driver, int64_t layer)
{
    int64_t elements = driver->tokens * driver->drive->decoder->hidden;

    if (driver->drive->recompute) {
        driver->table->write(activations_of(driver, layer)->x,
                             driver->checkpoints + bytes_of(driver, layer * elements),
                             bytes_of(driver, elements));
        for (int u = 0; u < 4; u++)
            run_layer_unit(driver, layer, u, false, driver->shared.hidden);
    }
    for (int u = 3; u >= 0; u--)
        run_layer_unit(driver, layer, u, true, NULL);
}

static void
embedding(struct driver *driver, bool backward)
{
    int64_t tiles = driver->head.tensor.tiles;

    for (int64_t i = 0; i < tiles; i++) {
        struct mw_compute compute = blank(driver, MW_OPERATOR_EMBEDDING, backward);
        compute.input = activations_of(driver, 0)->x;
        bool adds = backward && adds_now(&driver->head, MW_OPERATOR_EMBEDDING, i == tiles - 1);
        run_part(driver, &driver->head, backward ? tiles - 1 - i : i, adds, compute);
    }
}

static void
final_norm(struct driver *driver, bool backward)
{
    bool adds = backward && adds_now(&driver->tail, MW_OPERATOR_FINAL_NORM, true);

    run_part(driver, &driver->tail, 0, adds, blank(driver, MW_OPERATOR_FINAL_NORM, backward));
}

static void
copy_logits(struct driver *driver, int64_t first, int64_t count)
{
    int64_t vocab = driver->drive->decoder->vocab;
    int64_t stride = mw_logits_stride(driver->drive->decoder, mw_drive_dtype(driver->drive));

    for (int64_t t = 0; t < count; t++)
        widen(driver, driver->driven->logits + (first + t) * vocab,
              (char *)driver->logits + bytes_of(driver, t * stride), vocab);
}

/* Tied logits' gradient is the embedding's, begun here. */
static void
logits_chunk(struct driver *driver, int64_t first, int64_t count)
{
    bool tied = driver->drive->decoder->tied_embedding;
    struct driver_unit *unit = tied ? &driver->head : &driver->tail;
    enum mw_operator whose = tied ? MW_OPERATOR_EMBEDDING : MW_OPERATOR_LOGITS;
    int64_t tiles = unit->tensor.tiles;
    struct mw_compute compute = blank(driver, MW_OPERATOR_LOGITS, false);

    compute.first_token = first;
    compute.tokens = count;
    for (int64_t t = 0; t < tiles; t++)
        run_part(driver, unit, t, false, compute);
    copy_logits(driver, first, count);
    compute.operator_ = MW_OPERATOR_LOSS;
    run(driver, &compute);
    compute.backward = true;
    run(driver, &compute);
    compute.operator_ = MW_OPERATOR_LOGITS;
    for (int64_t t = tiles - 1; t >= 0; t--)
        run_part(driver, unit, t, adds_now(unit, whose, t == 0), compute);
}

static void
micro_batch(struct driver *driver)
{
    int64_t layers = driver->drive->decoder->layers;

    embedding(driver, false);
    for (int64_t layer = 0; layer < layers; layer++)
        layer_forward(driver, layer);
    final_norm(driver, false);
    for (int64_t c = 0; c < driver->chunks; c++) {
        int64_t first = driver->tokens * c / driver->chunks;
        logits_chunk(driver, first, driver->tokens * (c + 1) / driver->chunks - first);
    }
    final_norm(driver, true);
    for (int64_t layer = layers - 1; layer >= 0; layer--)
        layer_backward(driver, layer);
    embedding(driver, true);
}

/* --- the whole ------------------------------------------------------------------------------- */

/* They are never cut. */
static void
make_adapters(struct driver *driver)
{
    struct mw_drive whole = *driver->drive;

    whole.tiles = 1;
    driver->adapters = g_new0(struct driver_unit, 4 * whole.decoder->layers);
    for (int64_t i = 0; i < 4 * whole.decoder->layers; i++)
        if (is_adapted(driver, (int)(i % 4)))
            driver->adapters[i] =
                driver_unit_make(&whole, i / 4, 1u << layer_units[i % 4].adapters);
}

static void
make_units(struct driver *driver)
{
    const struct mw_decoder *decoder = driver->drive->decoder;

    driver->head = driver_unit_make(driver->drive, -1, BIT(EMBEDDING));
    driver->tail = driver_unit_make(driver->drive, -1,
                                    BIT(FINAL_NORM) | (decoder->tied_embedding ? 0 : BIT(LOGITS)));
    driver->layers = g_new(struct driver_unit, 4 * decoder->layers);
    for (int64_t layer = 0; layer < decoder->layers; layer++)
        for (int u = 0; u < 4; u++)
            driver->layers[4 * layer + u] =
                driver_unit_make(driver->drive, layer, layer_units[u].params);
    make_adapters(driver);
}

static void
place_activations(struct driver *driver)
{
    const struct mw_drive *drive = driver->drive;
    void *base = driver_memory_take(&driver->memory, driver->layout.bytes);

    for (int64_t layer = 0; layer < driver->layout.layers; layer++)
        driver->activations[layer] = mw_activations_of_layer(
            drive->decoder, drive->sequences, drive->seq, &driver->layout, base, layer);
    driver->shared =
        mw_activations_shared(drive->decoder, drive->sequences, drive->seq, &driver->layout, base);
}

/* Where everything is. */
static void
place(struct driver *driver)
{
    struct driver_memory *memory = &driver->memory;
    int64_t chunk = (driver->tokens + driver->chunks - 1) / driver->chunks;

    place_activations(driver);
    driver->logits = driver_memory_take(
        memory, bytes_of(driver, chunk * mw_logits_stride(driver->drive->decoder,
                                                          mw_drive_dtype(driver->drive))));
    driver->ids = driver_memory_take(memory, driver->tokens * (int64_t)sizeof *driver->ids);
    driver->targets = driver_memory_take(memory, driver->tokens * (int64_t)sizeof *driver->targets);
    driver->loss = driver_memory_take(memory, sizeof *driver->loss);
    driver_unit_place(&driver->head, memory);
    for (int64_t u = 0; u < 4 * driver->drive->decoder->layers; u++)
        driver_unit_place(&driver->layers[u], memory);
    for (int64_t u = 0; u < 4 * driver->drive->decoder->layers; u++)
        driver_unit_place(&driver->adapters[u], memory);
    driver_unit_place(&driver->tail, memory);
}

static void
fill(struct driver *driver)
{
    const struct mw_drive *drive = driver->drive;
    int64_t bytes = driver->tokens * (int64_t)sizeof(int32_t);

    driver->table->write(driver->ids, drive->ids, bytes);
    driver->table->write(driver->targets, drive->targets, bytes);
    driver->table->write(driver->loss, &driver->driven->loss, sizeof *driver->loss);
    driver_unit_fill(&driver->head, drive, &driver->memory);
    for (int64_t u = 0; u < 4 * drive->decoder->layers; u++)
        driver_unit_fill(&driver->layers[u], drive, &driver->memory);
    for (int64_t u = 0; u < 4 * drive->decoder->layers; u++)
        driver_unit_fill(&driver->adapters[u], drive, &driver->memory);
    driver_unit_fill(&driver->tail, drive, &driver->memory);
}

static void
make_operands(struct driver *driver)
{
    const struct mw_drive *drive = driver->drive;
    int64_t layers = drive->decoder->layers, activations = drive->recompute ? 1 : layers;

    driver->layout = mw_activation_layout(drive->decoder, mw_drive_dtype(drive), drive->sequences,
                                          drive->seq, activations, 0);
    driver->activations = g_new(struct mw_layer_activations, activations);
    driver->checkpoints =
        g_malloc((gsize)bytes_of(driver, layers * driver->tokens * drive->decoder->hidden));
    make_units(driver);
    driver->memory = driver_memory_start(driver->table);
    place(driver);
    driver_memory_reserve(&driver->memory);
    place(driver);
    fill(driver);
    if (!drive->watch)
        driver_memory_forbid(&driver->memory);
}

static void
open_device(struct driver *driver)
{
    const struct mw_drive *drive = driver->drive;
    GError *error = NULL;

    driver->table = drive->device ? drive->device : &MW_TEST_DEVICE;
    driver->device = driver->table->open(mw_drive_dtype(drive));
    driver->operators = mw_operators_create(driver->table->kernels, driver->device, drive->decoder,
                                            drive->sequences, drive->seq, &error);
    g_assert_no_error(error);
}

static void
take_results(struct driver *driver)
{
    const struct mw_drive *drive = driver->drive;
    struct mw_driven *driven = driver->driven;

    driver->table->read(&driven->loss, driver->loss, sizeof driven->loss);
    driver_unit_take(&driver->head, drive, &driver->memory, driven->gradients);
    for (int64_t u = 0; u < 4 * drive->decoder->layers; u++)
        driver_unit_take(&driver->layers[u], drive, &driver->memory, driven->gradients);
    for (int64_t u = 0; u < 4 * drive->decoder->layers; u++)
        driver_unit_take(&driver->adapters[u], drive, &driver->memory, driven->gradients);
    driver_unit_take(&driver->tail, drive, &driver->memory, driven->gradients);
    for (int64_t i = 0; i < mw_weights_elements(drive->decoder); i++)
        driven->gradients[i] /= loss_scale(driver);
}

static void
tear_down(struct driver *driver)
{
    driver_memory_release(&driver->memory);
    mw_operators_destroy(driver->operators);
    driver->table->close(driver->device);
    g_free(driver->layers);
    g_free(driver->adapters);
    g_free(driver->activations);
    g_free(driver->checkpoints);
}

struct mw_driven
mw_drive(const struct mw_drive *drive)
{
    const struct mw_decoder *decoder = drive->decoder;
    int64_t tokens = drive->sequences * drive->seq, batches = MAX(1, drive->micro_batches);
    struct mw_driven driven = {
        .logits = g_new(double, tokens * decoder->vocab),
        .hidden = g_new(double, (decoder->layers + 1) * tokens * decoder->hidden),
        .gradients = g_new(double, mw_weights_elements(decoder)),
    };
    g_autofree double *router_losses = g_new0(double, 2 * decoder->layers);
    struct driver driver = {
        .drive = drive, .driven = &driven, .tokens = tokens, .router_losses = router_losses};

    driver.chunks = CLAMP(drive->chunks, 1, tokens);
    open_device(&driver);
    make_operands(&driver);
    for (int64_t b = 0; b < batches; b++)
        micro_batch(&driver);
    take_results(&driver);
    tear_down(&driver);
    driven.loss /= (double)(tokens * batches);
    for (int64_t layer = 0; layer < decoder->layers; layer++)
        driven.loss += (decoder->router_aux_loss * router_losses[2 * layer] +
                        decoder->router_z_loss * router_losses[2 * layer + 1]) /
                       (double)decoder->layers;
    return driven;
}

void
mw_driven_clear(struct mw_driven *driven)
{
    g_free(driven->logits);
    g_free(driven->hidden);
    g_free(driven->gradients);
}
