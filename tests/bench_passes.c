/*
 * bench_passes [--smoke | --serve] [--elements N] [--rounds N] [ISA...]: rates of the passes over
 * memory, for each instruction set that runs here, or those named, and each type of 16-bit
 * elements. A pass stands beside a copy of arrays as large, past the caches and run in turn with
 * it, or beside reading them where it writes next to nothing: memory that is read and written at
 * once moves more. Medians and quartiles of the rounds.  Rates count the bytes that must move,
 * those of operands and results. Arrays of 16-bit elements are over four times the last cache,
 * unless --elements says otherwise.
 *
 * --serve answers each line "ISA DTYPE PASS" with the seconds of one pass, for a peer to stand
 * beside.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/data/blocks.h"
#include "exec/data/convert.h"
#include "exec/device/cpu/cache.h"
#include "exec/device/cpu/kernels.h"
#include "tests/bench.h"

#define ROUNDS_MAX 101
#define HALVES 5
#define FULLS 3
/* Of GPT-2 124M. */
#define COLUMNS 768
#define HEAD_DIM 64
#define VOCAB 50257
#define VOCAB_STRIDE 50304

struct arrays {
    enum mw_dtype dtype;
    int64_t n;               /* elements of each of: */
    uint16_t *half[HALVES];  /* the first three are read, or what a pass changes a little */
    float *full[FULLS];      /* likewise the first two; none of the last is negative */
    int64_t rows, columns;   /* rows * columns <= n */
    uint16_t *weight, *bias; /* [columns] */
    float *mean, *rstd;      /* [rows] */
    int64_t loss_rows, vocab, stride;
    int32_t *tokens, *targets; /* [rows], [loss_rows] */
    double *row_loss, *partial;
    float *rope;                  /* [rows][HEAD_DIM] */
    void *mxfp8, *nf4, *dynamic8; /* n elements in blocks */
};

typedef void pass_fn(const struct mw_cpu_kernels *k, const struct arrays *a);

static void
pass_widen(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->widen(a->full[0], a->half[0], a->n);
}

static void
pass_widen_mxfp8(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->widen_blocks(a->half[3], a->mxfp8, MW_DTYPE_MXFP8, a->n);
}

static void
pass_widen_nf4(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->widen_blocks(a->half[3], a->nf4, MW_DTYPE_NF4, a->n);
}

static void
pass_narrow(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->narrow(a->half[3], a->full[0], a->n);
}

static void
pass_accumulate(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->accumulate(a->full[0], a->half[0], a->n);
}

static void
pass_add(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->add(a->half[3], a->half[0], a->half[1], a->n);
}

static void
pass_add_in_place(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->add(a->half[3], a->half[3], a->half[1], a->n);
}

static void
pass_relu(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->relu_forward(a->half[3], a->half[0], a->n);
}

static void
pass_relu_backward(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->relu_backward(a->half[3], a->half[1], a->half[0], a->n);
}

static void
pass_layernorm(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->layernorm_forward(a->half[3], a->mean, a->rstd, a->half[0], a->weight, a->bias, a->rows,
                         a->columns, 1e-5f);
}

static void
pass_layernorm_backward(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->layernorm_backward(a->half[3], NULL, a->half[1], a->half[0], a->weight, a->mean, a->rstd,
                          a->rows, a->columns);
}

static void
pass_layernorm_backward_add(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->layernorm_backward(a->half[3], a->half[2], a->half[1], a->half[0], a->weight, a->mean,
                          a->rstd, a->rows, a->columns);
}

static void
pass_rmsnorm(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->rmsnorm_forward(a->half[3], a->rstd, a->half[0], a->weight, a->rows, a->columns, 1e-5f);
}

static void
pass_rmsnorm_backward(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->rmsnorm_backward(a->half[3], NULL, a->half[1], a->half[0], a->weight, a->rstd, a->rows,
                        a->columns);
}

static void
pass_norm_weight(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->norm_weight_gradient((struct mw_gradient){a->half[3], false, false}, a->half[1], a->half[0],
                            a->mean, a->rstd, a->rows, a->columns, NULL);
}

static void
pass_bias(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->bias_gradient((struct mw_gradient){a->half[3], false, false}, a->half[1], a->columns,
                     a->rows, a->columns, NULL);
}

static void
pass_embedding(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->embedding_forward(a->half[3], a->half[0], a->tokens, a->rows, a->columns, 0,
                         (int32_t)a->rows);
}

static void
pass_positions(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->position_forward(a->half[3], a->half[0], a->rows, 1, a->columns);
}

static void
pass_rope(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->rope(a->half[3], a->rope, 1, a->rows, a->columns / HEAD_DIM, HEAD_DIM, a->columns, false);
}

static void
pass_adamw(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    const struct mw_update_step step = mw_adamw_step(1e-3, 0.9, 0.999, 1e-8, 0.01, 10, 1.0);

    k->update(&step, a->full[0], a->full[1], a->full[2], a->half[3], a->half[0], false, a->n);
}

static void
pass_widen_dynamic8(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->widen_dynamic8(a->full[0], a->dynamic8, mw_dynamic8_of(false), 0, a->n);
}

static void
pass_narrow_dynamic8(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->narrow_dynamic8(a->dynamic8, a->full[1], mw_dynamic8_of(false), a->n);
}

static void
pass_square_sums(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->square_sums(a->partial, a->half[0], false, a->n);
}

static void
pass_gelu(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->gelu_forward(a->half[3], a->half[0], a->n);
}

static void
pass_gelu_backward(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->gelu_backward(a->half[3], a->half[1], a->half[0], a->n);
}

static void
pass_gelu_erf(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->gelu_erf_forward(a->half[3], a->half[0], a->n);
}

static void
pass_gelu_erf_backward(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->gelu_erf_backward(a->half[3], a->half[1], a->half[0], a->n);
}

static void
pass_swiglu(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->swiglu_forward(a->half[3], a->half[0], a->half[1], a->n);
}

static void
pass_swiglu_backward(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->swiglu_backward(a->half[3], a->half[4], a->half[2], a->half[0], a->half[1], a->n);
}

/* The loss alone, as evaluation wants it, and with the gradient. */
static void
pass_loss(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    double loss = 0.0;

    k->cross_entropy(&loss, a->row_loss, NULL, 0, a->half[0], false, a->stride, a->targets,
                     a->loss_rows, a->vocab, 1e-3f);
}

static void
pass_cross_entropy(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    double loss = 0.0;

    k->cross_entropy(&loss, a->row_loss, a->half[3], a->stride, a->half[0], false, a->stride,
                     a->targets, a->loss_rows, a->vocab, 1e-3f);
}

enum bar {
    NO_BAR,
    BAR_MEMORY, /* 0.7 of the copy, or of reading */
    BAR_PEER,   /* passes with exp: tests/peer_passes.py tells */
};

static const struct {
    const char *name;
    pass_fn *run;
    int element_bytes; /* that must move */
    enum bar bar;
    bool reads_only;
} passes[] = {
    {"widen", pass_widen, 6, BAR_MEMORY, false},
    {"widen-mxfp8", pass_widen_mxfp8, 3, NO_BAR, false}, /* and 1/32 */
    {"widen-nf4", pass_widen_nf4, 2, NO_BAR, false},     /* and 9/16 */
    {"narrow", pass_narrow, 6, BAR_MEMORY, false},
    {"accumulate", pass_accumulate, 10, BAR_MEMORY, false},
    {"add", pass_add, 6, BAR_MEMORY, false},
    {"add-in-place", pass_add_in_place, 6, BAR_MEMORY, false},
    {"relu", pass_relu, 4, NO_BAR, false},
    {"relu-backward", pass_relu_backward, 6, NO_BAR, false},
    {"layernorm", pass_layernorm, 4, BAR_MEMORY, false},
    {"layernorm-backward", pass_layernorm_backward, 6, BAR_MEMORY, false},
    {"layernorm-backward-add", pass_layernorm_backward_add, 8, BAR_MEMORY, false},
    {"rmsnorm", pass_rmsnorm, 4, BAR_MEMORY, false},
    {"rmsnorm-backward", pass_rmsnorm_backward, 6, BAR_MEMORY, false},
    {"norm-weight-gradient", pass_norm_weight, 4, BAR_MEMORY, true},
    {"bias-gradient", pass_bias, 2, NO_BAR, true},
    {"embedding", pass_embedding, 4, NO_BAR, false},
    {"positions", pass_positions, 4, NO_BAR, false},
    {"rope", pass_rope, 4, NO_BAR, false},
    {"adamw", pass_adamw, 28, BAR_MEMORY, false},
    {"widen-dynamic8", pass_widen_dynamic8, 5, NO_BAR, false},   /* and 4/2048 */
    {"narrow-dynamic8", pass_narrow_dynamic8, 5, NO_BAR, false}, /* likewise */
    {"square-sums", pass_square_sums, 2, NO_BAR, true},
    {"gelu", pass_gelu, 4, BAR_PEER, false},
    {"gelu-backward", pass_gelu_backward, 6, BAR_PEER, false},
    {"gelu-erf", pass_gelu_erf, 4, BAR_PEER, false},
    {"gelu-erf-backward", pass_gelu_erf_backward, 6, BAR_PEER, false},
    {"swiglu", pass_swiglu, 6, BAR_PEER, false},
    {"swiglu-backward", pass_swiglu_backward, 10, BAR_PEER, false},
    {"loss", pass_loss, 2, BAR_PEER, true},
    {"cross-entropy", pass_cross_entropy, 4, BAR_PEER, false},
};
#define PASSES (int)(sizeof passes / sizeof *passes)

/* Values between -2 and 2, in no order. */
static void
fill(struct arrays *a)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < a->n; i++) {
        for (int j = 0; j < HALVES; j++) {
            uint32_t bits = (uint32_t)(i * 5 + j) * 2654435761u;
            a->half[j][i] = mw_half_of_fp32((float)(bits >> 8) * 0x1p-22f - 2.0f, a->dtype);
        }
        for (int j = 0; j < FULLS; j++)
            a->full[j][i] = 1e-3f * (float)((i * 3 + j) % 977);
    }
    mw_blocks_encode(MW_DTYPE_MXFP8, a->full[0], a->n, 0, a->mxfp8);
    mw_blocks_encode(MW_DTYPE_NF4, a->full[0], a->n, 0, a->nf4);
    for (int64_t c = 0; c < a->columns; c++) {
        a->weight[c] = mw_half_of_fp32(1.0f + (float)(c % 16) / 64.0f, a->dtype);
        a->bias[c] = mw_half_of_fp32((float)(c % 32) / 64.0f, a->dtype);
    }
    for (int64_t r = 0; r < a->rows; r++) {
        a->mean[r] = 0.0f;
        a->rstd[r] = 0.86f;
        a->tokens[r] = (int32_t)((uint64_t)r * 7919 % (uint64_t)a->rows);
        for (int i = 0; i < HEAD_DIM; i++)
            a->rope[r * HEAD_DIM + i] = i < HEAD_DIM / 2 ? 0.8f : 0.6f;
    }
    for (int64_t r = 0; r < a->loss_rows; r++)
        a->targets[r] = (int32_t)(r * 7919 % a->vocab);
}

static struct arrays
arrays_create(int64_t n, bool smoke)
{
    struct arrays a = {.n = n, .columns = smoke ? 2 * HEAD_DIM + 3 : COLUMNS};

    a.vocab = smoke ? 101 : VOCAB;
    a.stride = smoke ? 112 : VOCAB_STRIDE;
    a.rows = n / a.columns;
    a.loss_rows = n / a.stride;
    for (int i = 0; i < HALVES; i++)
        a.half[i] = bench_buffer(n * (int64_t)sizeof *a.half[i]);
    for (int i = 0; i < FULLS; i++)
        a.full[i] = bench_buffer(n * (int64_t)sizeof *a.full[i]);
    a.weight = bench_buffer(a.columns * (int64_t)sizeof *a.weight);
    a.bias = bench_buffer(a.columns * (int64_t)sizeof *a.bias);
    a.mean = bench_buffer(a.rows * (int64_t)sizeof *a.mean);
    a.rstd = bench_buffer(a.rows * (int64_t)sizeof *a.rstd);
    a.tokens = bench_buffer(a.rows * (int64_t)sizeof *a.tokens);
    a.targets = bench_buffer(a.loss_rows * (int64_t)sizeof *a.targets);
    a.row_loss = bench_buffer(a.loss_rows * (int64_t)sizeof *a.row_loss);
    a.partial = bench_buffer((n / MW_NORM_BLOCK + 1) * (int64_t)sizeof *a.partial);
    a.rope = bench_buffer(a.rows * HEAD_DIM * (int64_t)sizeof *a.rope);
    a.mxfp8 = bench_buffer(mw_dtype_bytes(MW_DTYPE_MXFP8, n));
    a.nf4 = bench_buffer(mw_dtype_bytes(MW_DTYPE_NF4, n));
    a.dynamic8 = bench_buffer(mw_dtype_bytes(MW_DTYPE_DYNAMIC8, n));
    return a;
}

static void
arrays_destroy(struct arrays *a)
{
    for (int i = 0; i < HALVES; i++)
        free(a->half[i]);
    for (int i = 0; i < FULLS; i++)
        free(a->full[i]);
    free(a->weight);
    free(a->bias);
    free(a->mean);
    free(a->rstd);
    free(a->tokens);
    free(a->targets);
    free(a->row_loss);
    free(a->partial);
    free(a->rope);
    free(a->mxfp8);
    free(a->nf4);
    free(a->dynamic8);
}

static volatile uint64_t read_bits;

/* 4 bytes an element. */
static double
time_read(const struct arrays *a)
{
    const uint64_t *x = (const uint64_t *)(const void *)a->full[1];
    uint64_t bits = 0;
    double start_s = bench_now_s();
#pragma omp parallel for schedule(static) reduction(^ : bits)
    for (int64_t i = 0; i < a->n / 16; i++) {
        const uint64_t *line = x + 8 * i;
        bits ^=
            (line[0] ^ line[1]) ^ (line[2] ^ line[3]) ^ (line[4] ^ line[5]) ^ (line[6] ^ line[7]);
    }
    double seconds = bench_now_s() - start_s;
    read_bits = bits;
    return seconds;
}

/* Bytes a second of what the pass stands beside. */
static double
plain_rate(const struct arrays *a, bool reads_only)
{
    return reads_only ? 4.0 * (double)a->n / time_read(a)
                      : 8.0 * (double)a->n / bench_copy_s(a->full[0], a->full[1], a->n);
}

static double
time_pass(const struct mw_cpu_kernels *k, const struct arrays *a, int pass)
{
    double start_s = bench_now_s();

    passes[pass].run(k, a);
    return bench_now_s() - start_s;
}

static const char *
bar_text(enum bar bar, double ratio)
{
    if (bar == BAR_PEER)
        return "PyTorch's time";
    if (bar == NO_BAR)
        return "none";
    return ratio >= 0.7 ? "0.70" : "0.70, MISSED";
}

static void
bench_pass(const struct mw_cpu_kernels *k, const struct arrays *a, int pass, int rounds)
{
    double rate[ROUNDS_MAX], plain[ROUNDS_MAX], ratio[ROUNDS_MAX];

    time_pass(k, a, pass);
    for (int i = 0; i < rounds; i++) {
        plain[i] = plain_rate(a, passes[pass].reads_only) / 1e9;
        rate[i] = passes[pass].element_bytes * (double)a->n / time_pass(k, a, pass) / 1e9;
        ratio[i] = rate[i] / plain[i];
    }
    struct bench_spread r = bench_spread_of(rate, rounds), c = bench_spread_of(plain, rounds),
                        q = bench_spread_of(ratio, rounds);
    printf("%-23s %6.2f (%6.2f to %6.2f)  %6.2f (%6.2f to %6.2f)  %5.2f (%.2f to %.2f)  %s\n",
           passes[pass].name, r.median, r.low, r.high, c.median, c.low, c.high, q.median, q.low,
           q.high, bar_text(passes[pass].bar, q.median));
    fflush(stdout);
}

/* -1: none */
static int
isa_of(const char *name)
{
    for (int isa = 0; isa < MW_CPU_ISAS; isa++)
        if (strcmp(name, mw_cpu_isa_name((enum mw_cpu_isa)isa)) == 0)
            return isa;
    return -1;
}

static int
pass_of(const char *name)
{
    for (int pass = 0; pass < PASSES; pass++)
        if (strcmp(name, passes[pass].name) == 0)
            return pass;
    return -1;
}

struct options {
    bool smoke, serve, isa[MW_CPU_ISAS], pass[PASSES], isas, passes;
    int64_t elements;
    int rounds;
};

static void
serve(struct arrays *a)
{
    char isa_name[32], dtype_name[8], pass_name[32];

    fill(a);
    while (scanf("%31s %7s %31s", isa_name, dtype_name, pass_name) == 3) {
        int isa = isa_of(isa_name), pass = pass_of(pass_name);
        enum mw_dtype dtype = strcmp(dtype_name, "fp16") == 0 ? MW_DTYPE_FP16 : MW_DTYPE_BF16;
        const struct mw_cpu_kernels *k =
            isa < 0 ? NULL : mw_cpu_kernels_of((enum mw_cpu_isa)isa, dtype);
        if (k == NULL || pass < 0) {
            fprintf(stderr, "bench_passes: no %s %s %s here\n", isa_name, dtype_name, pass_name);
            exit(1);
        }
        printf("%.9f\n", time_pass(k, a, pass));
        fflush(stdout);
    }
}

static void
add_name(struct options *o, const char *name)
{
    int isa = isa_of(name), pass = pass_of(name);

    if (isa >= 0)
        o->isas = o->isa[isa] = true;
    else if (pass >= 0)
        o->passes = o->pass[pass] = true;
    else {
        fprintf(stderr, "bench_passes: %s is no instruction set and no pass\n", name);
        exit(2);
    }
}

static struct options
options_of(int argc, char **argv)
{
    struct options o = {.elements = 4 * mw_cpu_last_cache_bytes() / (int64_t)sizeof(uint16_t) + 1,
                        .rounds = 11};

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--smoke") == 0) {
            o.smoke = true;
            o.elements = 10007;
            o.rounds = 2;
        } else if (strcmp(argv[i], "--serve") == 0) {
            o.serve = true;
        } else if (strcmp(argv[i], "--cpu-time") == 0) {
            bench_by_cpu_time = true;
        } else if (strcmp(argv[i], "--elements") == 0 && i + 1 < argc) {
            o.elements = atoll(argv[++i]);
        } else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
            o.rounds = atoi(argv[++i]);
        } else {
            add_name(&o, argv[i]);
        }
    }
    if (o.elements < 4096 || o.rounds < 1 || o.rounds > ROUNDS_MAX) {
        fprintf(stderr, "bench_passes: at least 4,096 elements, 1 to %d rounds\n", ROUNDS_MAX);
        exit(2);
    }
    return o;
}

static void
bench_table(const struct options *o, int isa, enum mw_dtype dtype, struct arrays *a)
{
    const struct mw_cpu_kernels *k = mw_cpu_kernels_of((enum mw_cpu_isa)isa, dtype);

    if (k == NULL || (o->isas && !o->isa[isa]))
        return;
    a->dtype = dtype;
    fill(a);
    printf("\n%s, %s\n%-23s %-26s  %-26s  %-20s  %s\n", mw_cpu_isa_name((enum mw_cpu_isa)isa),
           dtype == MW_DTYPE_FP16 ? "fp16" : "bf16", "pass", "GB/s (quartiles)",
           "copy or read, GB/s", "ratio", "bar");
    for (int pass = 0; pass < PASSES; pass++)
        if (!o->passes || o->pass[pass])
            bench_pass(k, a, pass, o->rounds);
}

int
main(int argc, char **argv)
{
    struct options o = options_of(argc, argv);
    struct arrays a = arrays_create(o.elements, o.smoke);

    if (o.serve) {
        serve(&a);
        arrays_destroy(&a);
        return 0;
    }
    printf("%d threads, %lld elements: %.0f MB in 16 bits; the last cache has %.0f MB\n",
           bench_team(), (long long)a.n, 2e-6 * (double)a.n,
           1e-6 * (double)mw_cpu_last_cache_bytes());
    for (int isa = 0; isa < MW_CPU_ISAS; isa++) {
        bench_table(&o, isa, MW_DTYPE_BF16, &a);
        bench_table(&o, isa, MW_DTYPE_FP16, &a);
    }
    arrays_destroy(&a);
    return 0;
}
