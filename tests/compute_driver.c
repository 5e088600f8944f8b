#include "tests/compute_driver.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/convert.h"
#include "exec/cpu/device.h"
#include "exec/operators.h"
#include "tests/driver_unit.h"
#include "tests/whole_model.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

#define BIT(operator_) (1u << MW_OPERATOR_##operator_)

struct driver {
    const struct mw_drive *drive;
    struct mw_driven *driven;
    struct mw_cpu_device *device;
    struct mw_operators *operators;
    int64_t tokens, chunks;
    struct driver_unit head, *layers, tail; /* layers: four each */
    void *base;
    struct mw_room_layout layout;
    struct mw_layer_room *rooms;
    struct mw_shared_room shared;
    uint16_t *checkpoints; /* [layers, T, h] */
    uint16_t *logits;
};

static const struct {
    uint32_t params;
    enum mw_operator operators[2];
    int tiled; /* which of them */
} layer_units[4] = {
    {BIT(NORM1) | BIT(QKV), {MW_OPERATOR_NORM1, MW_OPERATOR_QKV}, 1},
    {BIT(PROJECTION), {MW_OPERATOR_ATTENTION, MW_OPERATOR_PROJECTION}, 1},
    {BIT(NORM2) | BIT(MLP_UP), {MW_OPERATOR_NORM2, MW_OPERATOR_MLP_UP}, 1},
    {BIT(MLP_DOWN), {MW_OPERATOR_MLP_ACT, MW_OPERATOR_MLP_DOWN}, 1},
};

/* --- one op ---------------------------------------------------------------------------------- */

static struct mw_compute
blank(const struct driver *driver, enum mw_operator operator_, bool backward)
{
    const struct mw_drive *drive = driver->drive;

    return (struct mw_compute){
        .decoder = drive->decoder,
        .operator_ = operator_,
        .backward = backward,
        .sequences = drive->sequences,
        .seq = drive->seq,
        .tokens = driver->tokens,
        .ids = drive->ids,
        .targets = drive->targets,
        .gradient_scale = 1.0f / (float)driver->tokens,
        .loss = &driver->driven->loss,
        .room = &driver->shared,
        .logits = driver->logits,
    };
}

static void
run(const struct driver *driver, const struct mw_compute *compute)
{
    GError *error = NULL;

    mw_operators_prepare(driver->operators, compute, &error);
    g_assert_no_error(error);
    int64_t bytes = mw_cpu_device_scratch_bytes(driver->device);
    mw_operators_run(driver->operators, compute, &error);
    g_assert_no_error(error);
    g_assert_cmpint(mw_cpu_device_scratch_bytes(driver->device), ==, bytes);
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

static struct mw_layer_room *
room_of(const struct driver *driver, int64_t layer)
{
    return &driver->rooms[driver->drive->recompute ? 0 : layer];
}

static void
run_layer_unit(struct driver *driver, int64_t layer, int u, bool backward, uint16_t *output)
{
    struct driver_unit *unit = &driver->layers[4 * layer + u];
    int64_t tiles = unit->tensor.tiles;

    for (int64_t i = 0; i < tiles; i++) {
        int64_t tile = backward ? tiles - 1 - i : i;
        for (int step = 0; step < 2; step++) {
            int at = backward ? 1 - step : step;
            enum mw_operator operator_ = layer_units[u].operators[at];
            bool tiled = at == layer_units[u].tiled;
            if (!tiled && tile)
                continue;
            struct mw_compute compute = blank(driver, operator_, backward);
            compute.layer = room_of(driver, layer);
            compute.output = output;
            bool adds = backward && adds_now(unit, operator_, !tiled || i == tiles - 1);
            if (operator_ == MW_OPERATOR_ATTENTION || operator_ == MW_OPERATOR_MLP_ACT)
                run(driver, &compute);
            else
                run_part(driver, unit, tile, adds, compute);
        }
    }
}

static void
widen(double *out, const uint16_t *bf16, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = (double)mw_fp32_of_bf16(bf16[i]);
}

static void
layer_forward(struct driver *driver, int64_t layer)
{
    const struct mw_drive *drive = driver->drive;
    int64_t elements = driver->tokens * drive->decoder->hidden;
    bool last = layer == drive->decoder->layers - 1;
    uint16_t *output = last ? driver->shared.hidden : room_of(driver, layer + 1)->x;

    widen(driver->driven->hidden + layer * elements, room_of(driver, layer)->x, elements);
    memcpy(driver->checkpoints + layer * elements, room_of(driver, layer)->x, 2 * (size_t)elements);
    for (int u = 0; u < 4; u++)
        run_layer_unit(driver, layer, u, false, output);
    if (last)
        widen(driver->driven->hidden + (layer + 1) * elements, output, elements);
}

static void
layer_backward(struct driver *driver, int64_t layer)
{
    int64_t elements = driver->tokens * driver->drive->decoder->hidden;

    if (driver->drive->recompute) {
        memcpy(room_of(driver, layer)->x, driver->checkpoints + layer * elements,
               2 * (size_t)elements);
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
        compute.input = room_of(driver, 0)->x;
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
    int64_t stride = mw_logits_stride(driver->drive->decoder);

    for (int64_t t = 0; t < count; t++)
        widen(driver->driven->logits + (first + t) * vocab, driver->logits + t * stride, vocab);
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

/* Exactly as large as said: a sanitizer sees the first byte beyond. */
static void *
poisoned(int64_t bytes)
{
    void *room = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);

    g_assert_nonnull(room);
    memset(room, DRIVER_POISON, (size_t)bytes);
    return room;
}

static void
make_rooms(struct driver *driver)
{
    const struct mw_drive *drive = driver->drive;
    const struct mw_decoder *decoder = drive->decoder;
    int64_t rooms = drive->recompute ? 1 : decoder->layers;
    int64_t chunk = (driver->tokens + driver->chunks - 1) / driver->chunks;

    driver->layout = mw_room_layout(decoder, drive->sequences, drive->seq, rooms);
    driver->base = poisoned(driver->layout.bytes);
    driver->rooms = g_new(struct mw_layer_room, rooms);
    for (int64_t layer = 0; layer < rooms; layer++)
        driver->rooms[layer] = mw_room_layer(decoder, drive->sequences, drive->seq, &driver->layout,
                                             driver->base, layer);
    driver->shared =
        mw_room_shared(decoder, drive->sequences, drive->seq, &driver->layout, driver->base);
    driver->logits = poisoned(2 * chunk * mw_logits_stride(decoder));
    driver->checkpoints = g_new(uint16_t, decoder->layers * driver->tokens * decoder->hidden);
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
}

static void
tear_down(struct driver *driver)
{
    driver_unit_take(&driver->head, driver->drive, driver->driven->gradients);
    for (int64_t u = 0; u < 4 * driver->drive->decoder->layers; u++)
        driver_unit_take(&driver->layers[u], driver->drive, driver->driven->gradients);
    driver_unit_take(&driver->tail, driver->drive, driver->driven->gradients);
    mw_operators_destroy(driver->operators);
    mw_cpu_device_destroy(driver->device);
    free(driver->base);
    free(driver->logits);
    g_free(driver->layers);
    g_free(driver->rooms);
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
    struct driver driver = {.drive = drive, .driven = &driven, .tokens = tokens};
    GError *error = NULL;
    int threads = 1;

#if defined(_OPENMP)
    threads = omp_get_max_threads();
#endif
    driver.chunks = CLAMP(drive->chunks, 1, tokens);
    driver.device = mw_cpu_device_create(threads, &error);
    g_assert_no_error(error);
    driver.operators = mw_operators_create(&mw_cpu_device_kernels, driver.device, decoder,
                                           drive->sequences, drive->seq, &error);
    g_assert_no_error(error);
    make_rooms(&driver);
    make_units(&driver);
    for (int64_t b = 0; b < batches; b++)
        micro_batch(&driver);
    tear_down(&driver);
    driven.loss /= (double)(tokens * batches);
    return driven;
}

void
mw_driven_clear(struct mw_driven *driven)
{
    g_free(driven->logits);
    g_free(driven->hidden);
    g_free(driven->gradients);
}
