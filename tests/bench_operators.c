/*
 * bench_operators [--smoke]: one layer and the ends of GPT-2 124M, T = 1024, operator by operator,
 * forward and backward: median milliseconds of ROUNDS, those of its matrix products alone, run in
 * turn with it, and what the rest is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/device/cpu/device.h"
#include "exec/operators/internal.h"
#include "tests/bench.h"

#define ROUNDS 9
#define BIT(operator_) (1u << MW_OPERATOR_##operator_)

static const struct {
    enum mw_operator operator_;
    uint32_t unit;
} rows[] = {
    {MW_OPERATOR_EMBEDDING, BIT(EMBEDDING)},        {MW_OPERATOR_NORM1, BIT(NORM1) | BIT(QKV)},
    {MW_OPERATOR_QKV, BIT(NORM1) | BIT(QKV)},       {MW_OPERATOR_ATTENTION, BIT(PROJECTION)},
    {MW_OPERATOR_PROJECTION, BIT(PROJECTION)},      {MW_OPERATOR_NORM2, BIT(NORM2) | BIT(MLP_UP)},
    {MW_OPERATOR_MLP_UP, BIT(NORM2) | BIT(MLP_UP)}, {MW_OPERATOR_MLP_ACT, BIT(MLP_DOWN)},
    {MW_OPERATOR_MLP_DOWN, BIT(MLP_DOWN)},          {MW_OPERATOR_FINAL_NORM, BIT(FINAL_NORM)},
    {MW_OPERATOR_LOGITS, BIT(EMBEDDING)},           {MW_OPERATOR_LOSS, BIT(EMBEDDING)},
};
#define ROW_COUNT (int)(sizeof rows / sizeof *rows)

struct bench {
    struct mw_decoder decoder;
    int64_t seq;
    struct mw_cpu_device *device;
    struct mw_operators *operators;
    struct mw_layer_activations layer;
    struct mw_shared_activations shared;
    int32_t *ids;
    uint16_t *params, *gradient, *logits;
    double loss;
    void *base;
};

/* bf16 values around 0.1, all alike in size. */
static void *
buffer(int64_t bytes)
{
    uint16_t *p = bench_buffer(bytes);

    for (int64_t i = 0; i < bytes / 2; i++)
        p[i] = (uint16_t)(0x3d80 + (uint64_t)i * 2654435761u % 64 + (i % 3 == 0) * 0x8000);
    return p;
}

static void
set_up(struct bench *b, bool smoke)
{
    b->decoder = (struct mw_decoder){.family = mw_family_find("gpt2"),
                                     .kind = MW_DECODER_GPT2,
                                     .layers = 1,
                                     .hidden = 768,
                                     .heads = 12,
                                     .kv_heads = 12,
                                     .head_dim = 64,
                                     .ffn = 3072,
                                     .vocab = 50257,
                                     .position_rows = 1024,
                                     .tied_embedding = true,
                                     .attention_bias = true,
                                     .projection_bias = true,
                                     .mlp_bias = true,
                                     .norm_epsilon = 1e-5};
    b->seq = 1024;
    if (smoke) {
        b->decoder.hidden = 24;
        b->decoder.head_dim = 2;
        b->decoder.ffn = 40;
        b->decoder.vocab = 101;
        b->seq = 70;
    }
    struct mw_activation_layout layout =
        mw_activation_layout(&b->decoder, MW_DTYPE_BF16, 1, b->seq, 1, 0);
    b->base = buffer(layout.bytes);
    int64_t table = (b->decoder.vocab + b->decoder.position_rows) * b->decoder.hidden;
    int64_t largest = table > 9 * b->decoder.hidden * b->decoder.ffn
                          ? table
                          : 9 * b->decoder.hidden * b->decoder.ffn;
    b->layer = mw_activations_of_layer(&b->decoder, 1, b->seq, &layout, b->base, 0);
    b->shared = mw_activations_shared(&b->decoder, 1, b->seq, &layout, b->base);
    b->params = buffer(2 * largest);
    b->gradient = buffer(2 * largest);
    b->logits = buffer(2 * b->seq * mw_logits_stride(&b->decoder, MW_DTYPE_BF16));
    b->ids = buffer(4 * b->seq);
    for (int64_t t = 0; t < b->seq; t++)
        b->ids[t] = (int32_t)(t * 7919 % b->decoder.vocab);
    b->device = mw_cpu_device_create(bench_team(), MW_DTYPE_BF16, NULL);
    if (b->device)
        b->operators =
            mw_operators_create(&mw_cpu_device_kernels, b->device, &b->decoder, 1, b->seq, NULL);
}

static void
tear_down(struct bench *b)
{
    free(b->base);
    free(b->params);
    free(b->gradient);
    free(b->logits);
    free(b->ids);
}

static bool
products_alone(const struct bench *b, const struct mw_compute *compute)
{
    struct mw_multiply multiplies[MW_MULTIPLIES_MAX];
    int count = mw_operator_products(compute, multiplies);

    for (int i = 0; i < count; i++)
        if (!mw_cpu_device_kernels.multiply(b->device, &multiplies[i].product, multiplies[i].c,
                                            multiplies[i].a, multiplies[i].b, multiplies[i].bias,
                                            NULL))
            return false;
    return true;
}

/* Operator and products in turn, so that both see the same machine. */
static bool
time_operator(const struct bench *b, const struct mw_compute *compute, double *all_ms,
              double *products_ms)
{
    double all[ROUNDS], products[ROUNDS];

    for (int r = -1; r < ROUNDS; r++) { /* the first makes primitives */
        double begin = 1e3 * bench_now_s();
        if (!mw_operators_run(b->operators, compute, NULL))
            return false;
        double between = 1e3 * bench_now_s();
        if (!products_alone(b, compute))
            return false;
        all[r < 0 ? 0 : r] = between - begin;
        products[r < 0 ? 0 : r] = 1e3 * bench_now_s() - between;
    }
    *all_ms = bench_median(all, ROUNDS);
    *products_ms = bench_median(products, ROUNDS);
    return true;
}

static bool
bench_row(struct bench *b, int row, bool backward)
{
    struct mw_tensor tensor = {.operators = rows[row].unit, .tiles = 1};
    struct mw_part part = mw_part_of(&b->decoder, &tensor, 0);
    struct mw_compute compute = {
        .decoder = &b->decoder,
        .operator_ = rows[row].operator_,
        .backward = backward,
        .sequences = 1,
        .seq = b->seq,
        .tokens = b->seq,
        .ids = b->ids,
        .targets = b->ids,
        .gradient_scale = 1.0f / (float)b->seq,
        .loss = &b->loss,
        .part = &part,
        .params = b->params,
        .gradient = backward ? b->gradient : NULL,
        .layer = &b->layer,
        .shared = &b->shared,
        .input = b->layer.x,
        .output = b->shared.hidden,
        .logits = b->logits,
    };
    double all, products;

    if (!time_operator(b, &compute, &all, &products))
        return false;
    printf("%-12s %-9s %8.2f %8.2f %8.2f\n", mw_operator_name((int)rows[row].operator_),
           backward ? "backward" : "forward", all, products, all - products);
    return true;
}

int
main(int argc, char **argv)
{
    struct bench b = {0};
    bool good = true;

    set_up(&b, argc > 1 && strcmp(argv[1], "--smoke") == 0);
    if (!b.operators)
        return 1;
    printf("%-12s %-9s %8s %8s %8s\n", "operator", "", "all ms", "products", "rest");
    for (int row = 0; row < ROW_COUNT; row++)
        good = good && bench_row(&b, row, false);
    for (int row = ROW_COUNT - 1; row >= 0; row--)
        good = good && bench_row(&b, row, true);
    mw_operators_destroy(b.operators);
    mw_cpu_device_destroy(b.device);
    tear_down(&b);
    return !good;
}
