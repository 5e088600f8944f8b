/* How many configurations the closed form answers per second, starting from a model's dimensions:
 * bench_closed_form [--smoke].  Products take the curve of their size; on a machine that knows
 * tiles they have shapes of their own, and attention its heads and length. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "hardware/hwprofile.h"
#include "sim/closed_form.h"

/* A GPT of `layers` blocks, hidden size `hidden`, on `nodes` nodes of the machine. */
static struct mw_closed_dims
dimensions(double layers, double hidden, double sequences, double nodes, int placement)
{
    double tokens = sequences * 1024, gpus = 16;
    double weights = 12 * layers * hidden * hidden;
    struct mw_closed_dims dims = {
        .updates = 1,
        .gpus_per_node = gpus,
        .nodes = nodes,
        .shards = gpus * nodes,
        .shards_per_node = gpus,
        .replicas = 1,
        .replicas_per_node = 1,
        .tp = 1,
        .tp_per_node = 1,
        .micro_batches = 1,
        .tokens = tokens,
        .hidden = hidden,
        .layers = layers,
        .checkpoint_interval = 1,
        .checkpoint_parts = 1,
        .paper_params = weights,
        .layer_loads = 3,
        .head_loads = 1,
        .tail_loads = 2,
        .params_fetched = true,
        .gradients_partitioned = true,
        .optimizer_partitioned = true,
        .element_bytes = 2,
        .gradient_bytes = 2,
        .state_bytes = 12,
    };

    dims.layer_block.trained_params = weights;
    dims.layer_block.weights = (struct mw_closed_products){
        2 * tokens * weights, 4 * tokens * weights, 2 * tokens * weights, hidden, 0};
    dims.layer_block.attention = (struct mw_closed_products){
        4 * tokens * 1024 * hidden * layers, 8 * tokens * 1024 * hidden * layers, 0, 512, 128};
    dims.layer_block.forward_bytes = 34 * tokens * hidden * layers;
    dims.layer_block.backward_bytes = 68 * tokens * hidden * layers;
    dims.layer_block.forward_launches = 12 * layers;
    dims.params_in[placement % 3] = 1;
    dims.layer_block.param_bytes_in[placement % 3] = 2 * weights;
    dims.gradients_in[placement / 3 % 3] = 1;
    dims.fetches = dims.micro_batches;
    dims.state_in[placement / 3 % 3] = 1;
    dims.checkpoints_in[placement / 9 % 2] = 1;
    return dims;
}

#define SEQ 1024
#define HEAD_DIM 128
#define OPERATORS 5 /* with products: QKV, attention, projection, two of the MLP */
#define SHAPES ((size_t)2 * OPERATORS)

/* Forward and backward of a block's operators. */
static void
shapes_of(const struct mw_closed_dims *dims, struct mw_closed_shape shapes[SHAPES])
{
    const double hidden = dims->hidden, tokens = dims->tokens;
    const double widths[OPERATORS][2] = {
        {3 * hidden, hidden}, {0, 0}, {hidden, hidden}, {4 * hidden, hidden}, {hidden, 4 * hidden}};

    memset(shapes, 0, SHAPES * sizeof *shapes);
    for (size_t i = 0; i < SHAPES; i++) {
        const double *width = widths[i / 2];
        struct mw_closed_shape *shape = &shapes[i];
        shape->backward = i % 2;
        shape->product_count = 1;
        shape->flops = (shape->backward ? 4 : 2) * tokens * width[0] * width[1] * dims->layers;
        shape->products[0] = (struct mw_work_product){
            (int64_t)tokens, (int64_t)width[0], (int64_t)width[1], 1, MW_DTYPE_BF16, 0};
        if (width[0] > 0)
            continue;
        shape->flops = (shape->backward ? 8 : 4) * tokens * SEQ * hidden * dims->layers;
        shape->products[0] = (struct mw_work_product){SEQ, SEQ, HEAD_DIM, 1, MW_DTYPE_BF16, 0};
        shape->attention = (struct mw_work_attention){
            SEQ, SEQ, (int64_t)hidden / HEAD_DIM, (int64_t)hidden / HEAD_DIM, HEAD_DIM, HEAD_DIM,
            0,   1};
    }
}

static double
now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double
sweep(const struct mw_hardware *hardware, bool by_shape, long count)
{
    double sum = 0;

    for (long i = 0; i < count; i++) {
        struct mw_closed_dims dims = dimensions(24 + i % 100, 1024 * (double)(1 + i % 64),
                                                1 + i % 16, 1 + i / 16 % 32, (int)(i % 18));
        struct mw_closed_shape shapes[SHAPES];
        struct mw_closed_form form;
        if (by_shape) {
            shapes_of(&dims, shapes);
            dims.layer_block.shapes = shapes;
            dims.layer_block.shape_count = SHAPES;
        }
        mw_closed_form(&dims, hardware, &form);
        sum += form.plan_total_s + form.paper_total_s;
    }
    return sum;
}

static bool
measure(const char *machine, bool by_shape, int runs, long count)
{
    struct mw_profile *profile = mw_hwprofile_load(machine, NULL);

    if (!profile)
        return false;
    struct mw_hardware hardware = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);
    for (int run = 0; run < runs; run++) {
        double start = now_s(), sum = sweep(&hardware, by_shape, count), spent = now_s() - start;
        printf("closed form%s: %ld configurations, %.2f million a second (checksum %.6g)\n",
               by_shape ? " by shapes" : "", count, (double)count / spent * 1e-6, sum);
    }
    mw_profile_free(profile);
    return true;
}

int
main(int argc, char **argv)
{
    bool smoke = argc > 1 && !strcmp(argv[1], "--smoke");
    int runs = smoke ? 1 : 5;

    return !measure("dgx2", false, runs, smoke ? 1000 : 5000000) ||
           !measure("dgx-h100", true, runs, smoke ? 1000 : 1000000);
}
