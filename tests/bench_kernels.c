/*
 * bench_kernels [--smoke | --adamw PARAMETERS | --sides PARAMETERS]: rates of the kernels on this
 * machine, each beside what bounds it, in turn, medians of ROUNDS.
 *
 * adamw: 28 bytes a parameter, against copying and scaling as many bytes in DRAM.
 * products: the wrapper against bare oneDNN calls, shapes of GPT-2 124M: of the same type, or in
 * fp32 where oneDNN does not multiply it; ratios are of pairs of calls, with quartiles.
 * experts: grouped products of a mixture beside the wrapper's, one group after the other.
 * attention: forward and backward, of the FLOPs that a causal mask leaves.
 * Products, experts and attention in bf16, then in fp16.
 *
 * --adamw prints the median seconds of an update, for a peer to stand beside.
 * --sides: Adafactor's passes over gradients of bf16, 2 bytes each, beside the norm's and a copy.
 */
#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/device/cpu/matmul.h"
#include "tests/bench.h"

#define ROUNDS 11

/* Touched. */
static void *
buffer(size_t bytes)
{
    return memset(bench_buffer((int64_t)bytes), 0, bytes);
}

/* --- AdamW and DRAM --- */

struct optimizer {
    float *w, *m, *v;
    uint16_t *grad, *param;
    int64_t n;
};

static struct optimizer
optimizer_create(int64_t n)
{
    struct optimizer o = {buffer((size_t)n * 4), buffer((size_t)n * 4), buffer((size_t)n * 4),
                          buffer((size_t)n * 2), buffer((size_t)n * 2), n};
    for (int64_t i = 0; i < n; i++) {
        o.grad[i] = (uint16_t)(0x3c00 + i % 256);
        o.w[i] = 1e-3f * (float)(i % 977);
    }
    return o;
}

static void
optimizer_destroy(struct optimizer *o)
{
    free(o->w);
    free(o->m);
    free(o->v);
    free(o->grad);
    free(o->param);
}

static double
time_adamw(const struct optimizer *o)
{
    const struct mw_update_step step = mw_adamw_step(1e-3, 0.9, 0.999, 1e-8, 0.01, 10, 1.0);
    double start_s = bench_now_s();
    mw_cpu_kernels(MW_DTYPE_BF16)->update(&step, o->w, o->m, o->v, o->param, o->grad, false, o->n);
    return bench_now_s() - start_s;
}

/* w, m, v *= s in place: 24 bytes an element, read and written as the update does. */
static double
time_scale(const struct optimizer *o)
{
    double start_s = bench_now_s();
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < o->n; i += 16384) {
        int64_t end = o->n < i + 16384 ? o->n : i + 16384;
        for (int64_t j = i; j < end; j++) {
            o->w[j] *= 0.999f;
            o->m[j] *= 0.999f;
            o->v[j] *= 0.999f;
        }
    }
    return bench_now_s() - start_s;
}

static void
bench_adamw(int64_t n)
{
    struct optimizer o = optimizer_create(n);
    double update[ROUNDS], copy[ROUNDS], scale[ROUNDS];
    time_adamw(&o);
    for (int i = 0; i < ROUNDS; i++) {
        update[i] = time_adamw(&o);
        copy[i] = bench_copy_s(o.w, o.m, n);
        scale[i] = time_scale(&o);
    }
    double update_rate = 28.0 * (double)n / bench_median(update, ROUNDS) / 1e9;
    double copy_rate = 8.0 * (double)n / bench_median(copy, ROUNDS) / 1e9;
    double scale_rate = 24.0 * (double)n / bench_median(scale, ROUNDS) / 1e9;
    printf("adamw %lld parameters: %.2f GB/s (28 B each); DRAM copy %.2f, scale %.2f GB/s; "
           "of the larger %.2f\n",
           (long long)n, update_rate, copy_rate, scale_rate,
           update_rate / fmax(copy_rate, scale_rate));
    optimizer_destroy(&o);
}

static void
print_adamw(int64_t n)
{
    struct optimizer o = optimizer_create(n);
    double update[ROUNDS];
    time_adamw(&o);
    for (int i = 0; i < ROUNDS; i++)
        update[i] = time_adamw(&o);
    printf("%.9f\n", bench_median(update, ROUNDS));
    optimizer_destroy(&o);
}

/* --- passes of Adafactor --- */

#define COLUMNS 4096

enum pass { PASS_NORM, PASS_SIDES, PASS_UPDATE, PASSES };

static double
time_pass(enum pass pass, const struct optimizer *o, struct mw_exact_sum *sums)
{
    const struct mw_cpu_kernels *k = mw_cpu_kernels(MW_DTYPE_BF16);
    const struct mw_update_step step =
        mw_update_step_of(MW_UPDATE_ADAFACTOR, 1e-3, 0.9, 0.999, 1e-8, 0.01, 10, 1.0);
    const struct mw_exact_sides sides = {sums + COLUMNS, sums, COLUMNS, 0};
    const struct mw_update_vectors vectors = {
        .row = o->w + COLUMNS, .column = o->w, .columns = COLUMNS};
    double start_s = bench_now_s();

    if (pass == PASS_NORM)
        k->square_sums((double *)(void *)o->m, o->grad, false, o->n);
    else if (pass == PASS_SIDES)
        k->side_sums(&sides, o->grad, false, o->n);
    else
        k->update_squares(&step, &vectors, o->grad, false, o->n, sums);
    return bench_now_s() - start_s;
}

static void
print_sides(int64_t n)
{
    static const char *const names[PASSES] = {"norm", "rows and columns", "update"};
    struct optimizer o = optimizer_create(n);
    size_t count = (size_t)(COLUMNS + n / COLUMNS + 1);
    struct mw_exact_sum *sums = buffer(count * sizeof *sums);
    double seconds[ROUNDS], copy[ROUNDS];

    for (int i = 0; i < ROUNDS; i++)
        copy[i] = bench_copy_s(o.w, o.m, n);
    for (int p = 0; p < PASSES; p++) {
        for (int i = 0; i < ROUNDS; i++)
            seconds[i] = time_pass((enum pass)p, &o, sums);
        double median = bench_median(seconds, ROUNDS);
        printf("%s: %.2f ns an element, %.2f GB/s; DRAM copy %.2f GB/s\n", names[p],
               1e9 * median / (double)n, 2e-9 * (double)n / median,
               8e-9 * (double)n / bench_median(copy, ROUNDS));
    }
    free(sums);
    optimizer_destroy(&o);
}

/* --- products --- */

static enum mw_dtype dtype = MW_DTYPE_BF16; /* of products and attention */

struct bare {
    dnnl_data_type_t type;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_memory_t a, b, c;
};

static void
must(dnnl_status_t status)
{
    if (status == dnnl_success)
        return;
    fprintf(stderr, "bench_kernels: oneDNN says %d\n", (int)status);
    exit(1);
}

static void
bare_memory(struct bare *bare, dnnl_memory_t *memory, dnnl_memory_desc_t *desc, int64_t rows,
            int64_t columns, bool transposed, void *data)
{
    dnnl_dims_t dims = {rows, columns};
    must(dnnl_memory_desc_init_by_tag(desc, 2, dims, bare->type, transposed ? dnnl_ba : dnnl_ab));
    must(dnnl_memory_create(memory, desc, bare->engine, data));
}

static void
bare_create(struct bare *bare, dnnl_data_type_t type, const struct mw_product *p, void *c, void *a,
            void *b)
{
    dnnl_memory_desc_t a_desc, b_desc, c_desc;
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd;
    bare->type = type;
    must(dnnl_engine_create(&bare->engine, dnnl_cpu, 0));
    must(dnnl_stream_create(&bare->stream, bare->engine, dnnl_stream_default_flags));
    bare_memory(bare, &bare->a, &a_desc, p->m, p->k, p->a_transposed, a);
    bare_memory(bare, &bare->b, &b_desc, p->k, p->n, p->b_transposed, b);
    bare_memory(bare, &bare->c, &c_desc, p->m, p->n, false, c);
    must(dnnl_matmul_desc_init(&desc, &a_desc, &b_desc, NULL, &c_desc));
    must(dnnl_primitive_desc_create(&pd, &desc, NULL, bare->engine, NULL));
    must(dnnl_primitive_create(&bare->primitive, pd));
    must(dnnl_primitive_desc_destroy(pd));
}

static void
bare_destroy(struct bare *bare)
{
    dnnl_primitive_destroy(bare->primitive);
    dnnl_memory_destroy(bare->a);
    dnnl_memory_destroy(bare->b);
    dnnl_memory_destroy(bare->c);
    dnnl_stream_destroy(bare->stream);
    dnnl_engine_destroy(bare->engine);
}

static double
time_bare(const struct bare *bare)
{
    const dnnl_exec_arg_t args[] = {
        {DNNL_ARG_SRC, bare->a}, {DNNL_ARG_WEIGHTS, bare->b}, {DNNL_ARG_DST, bare->c}};
    double start_s = bench_now_s();
    must(dnnl_primitive_execute(bare->primitive, bare->stream, 3, args));
    must(dnnl_stream_wait(bare->stream));
    return bench_now_s() - start_s;
}

static double
time_product(struct mw_cpu_matmul *matmul, const struct mw_product *p, void *c, void *a, void *b)
{
    double start_s = bench_now_s();
    if (!mw_cpu_matmul_run(matmul, p, c, a, b, NULL)) {
        fprintf(stderr, "bench_kernels: %s\n", mw_cpu_matmul_error(matmul));
        exit(1);
    }
    return bench_now_s() - start_s;
}

static void
bench_product(const char *use, int64_t m, int64_t n, int64_t k, bool a_transposed,
              bool b_transposed)
{
    const struct mw_product product = {
        .m = m, .n = n, .k = k, .a_transposed = a_transposed, .b_transposed = b_transposed};
    double own[ROUNDS], bare_s[ROUNDS], ratio[ROUNDS];
    double flops = 2.0 * (double)m * (double)n * (double)k;
    struct mw_cpu_matmul *matmul = mw_cpu_matmul_create(dtype);
    bool halves = mw_cpu_matmul_by_library(matmul);
    dnnl_data_type_t half = dtype == MW_DTYPE_FP16 ? dnnl_f16 : dnnl_bf16;
    size_t element_bytes = halves ? 2 : 4;
    void *a = buffer((size_t)(m * k) * element_bytes), *b = buffer((size_t)(k * n) * element_bytes);
    void *c = buffer((size_t)(m * n) * element_bytes);
    struct bare bare;
    bare_create(&bare, halves ? half : dnnl_f32, &product, c, a, b);
    for (int i = -1; i < ROUNDS; i++) {
        int at = i < 0 ? 0 : i;
        own[at] = time_product(matmul, &product, c, a, b);
        bare_s[at] = time_bare(&bare);
        ratio[at] = bare_s[at] / own[at];
    }
    struct bench_spread r = bench_spread_of(ratio, ROUNDS);
    printf("%-22s %5lld %5lld %5lld: %6.1f GFLOP/s; bare oneDNN, %s %6.1f; ratio %.2f (%.2f to "
           "%.2f)\n",
           use, (long long)m, (long long)n, (long long)k, flops / bench_median(own, ROUNDS) / 1e9,
           halves ? "16-bit" : "fp32", flops / bench_median(bare_s, ROUNDS) / 1e9, r.median, r.low,
           r.high);
    bare_destroy(&bare);
    mw_cpu_matmul_destroy(matmul);
    free(a);
    free(b);
    free(c);
}

static void
bench_products(int64_t tokens, int64_t hidden, int64_t vocab)
{
    bench_product("qkv, forward", tokens, 3 * hidden, hidden, false, false);
    bench_product("qkv, dx", tokens, hidden, 3 * hidden, false, true);
    bench_product("qkv, dW", hidden, 3 * hidden, tokens, true, false);
    bench_product("mlp up, forward", tokens, 4 * hidden, hidden, false, false);
    bench_product("mlp up, Linear", tokens, 4 * hidden, hidden, false, true);
    bench_product("mlp down, forward", tokens, hidden, 4 * hidden, false, false);
    bench_product("head, forward", tokens, vocab, hidden, false, true);
    bench_product("head, dx", tokens, hidden, vocab, false, false);
    bench_product("head, dW", vocab, hidden, tokens, true, false);
}

/* --- experts --- */

#define GROUPS 4

/* Groups of a mixture's copies, all as large, beside one product of the same shape by the wrapper:
 * of one group, which GROUPS of them take in turn. */
static void
bench_groups(const char *use, int64_t rows, const struct mw_product *of_all)
{
    struct mw_product one = *of_all;
    const struct mw_cpu_kernels *kernels = mw_cpu_kernels(dtype);
    struct mw_cpu_matmul *matmul = mw_cpu_matmul_create(dtype);
    int32_t begin[GROUPS + 1];
    double own[ROUNDS], library[ROUNDS], ratio[ROUNDS];

    *(of_all->m ? &one.k : &one.m) = rows;
    for (int i = 0; i <= GROUPS; i++)
        begin[i] = (int32_t)(i * rows);
    uint16_t *a = buffer((size_t)(GROUPS * one.m * one.k) * 2);
    uint16_t *b = buffer((size_t)(GROUPS * one.k * one.n) * 2);
    uint16_t *c = buffer((size_t)(GROUPS * one.m * one.n) * 2);
    void *scratch = buffer((size_t)kernels->groups_scratch_bytes(GROUPS, bench_team()));
    for (int i = -1; i < ROUNDS; i++) {
        int at = i < 0 ? 0 : i;
        double start_s = bench_now_s();
        kernels->multiply_groups(of_all, begin, GROUPS, c, a, b, scratch);
        own[at] = bench_now_s() - start_s;
        library[at] = 0;
        for (int g = 0; g < GROUPS; g++)
            library[at] += time_product(matmul, &one, c + g * one.m * one.n, a + g * one.m * one.k,
                                        b + g * one.k * one.n);
        ratio[at] = library[at] / own[at];
    }
    double flops = 2.0 * GROUPS * (double)one.m * (double)one.n * (double)one.k;
    struct bench_spread r = bench_spread_of(ratio, ROUNDS);
    printf("%-22s %5lld %5lld %5lld: %6.1f GFLOP/s; one by one %6.1f; ratio %.2f (%.2f to %.2f)\n",
           use, (long long)one.m, (long long)one.n, (long long)one.k,
           flops / bench_median(own, ROUNDS) / 1e9, flops / bench_median(library, ROUNDS) / 1e9,
           r.median, r.low, r.high);
    mw_cpu_matmul_destroy(matmul);
    free(a);
    free(b);
    free(c);
    free(scratch);
}

/* Rows of an expert. */
static void
bench_experts(int64_t rows, int64_t hidden, int64_t ffn)
{
    bench_groups("experts up, forward", rows,
                 &(struct mw_product){.n = ffn, .k = hidden, .b_transposed = true});
    bench_groups("experts up, dx", rows, &(struct mw_product){.n = hidden, .k = ffn});
    bench_groups("experts up, dW", rows,
                 &(struct mw_product){.m = ffn, .n = hidden, .a_transposed = true});
}

/* --- attention --- */

struct attention {
    struct mw_attention shape;
    uint16_t *qkv, *d_qkv, *o, *d_o;
    float *lse;
    void *scratch;
};

static struct attention
attention_create(int64_t seq, int64_t heads, int64_t kv_heads)
{
    int64_t dim = 64, ld = (heads + 2 * kv_heads) * dim;
    size_t n = (size_t)(seq * ld);
    struct attention a = {
        .shape = {.batch = 1,
                  .seq = seq,
                  .heads = heads,
                  .kv_heads = kv_heads,
                  .head_dim = dim,
                  .ld_q = ld,
                  .ld_k = ld,
                  .ld_v = ld,
                  .ld_o = heads * dim,
                  .scale = 0.125f},
        .qkv = buffer(n * 2),
        .d_qkv = buffer(n * 2),
        .o = buffer(n * 2),
        .d_o = buffer(n * 2),
        .lse = buffer((size_t)(heads * seq) * 4),
    };
    for (size_t i = 0; i < n; i++) {
        a.qkv[i] = (uint16_t)(0x3e00 + i * 2654435761u % 0x200);
        a.d_o[i] = (uint16_t)(0x3c00 + i * 2654435761u % 0x200);
    }
    a.scratch =
        buffer((size_t)mw_cpu_kernels(dtype)->attention_scratch_bytes(&a.shape, bench_team()));
    return a;
}

static double
time_forward(const struct attention *a)
{
    int64_t k = a->shape.heads * 64, v = k + a->shape.kv_heads * 64;
    double start_s = bench_now_s();
    mw_cpu_kernels(dtype)->attention_forward(&a->shape, a->o, a->lse, a->qkv, a->qkv + k,
                                             a->qkv + v, a->scratch);
    return bench_now_s() - start_s;
}

static double
time_backward(const struct attention *a)
{
    int64_t k = a->shape.heads * 64, v = k + a->shape.kv_heads * 64;
    double start_s = bench_now_s();
    mw_cpu_kernels(dtype)->attention_backward(&a->shape, a->d_qkv, a->d_qkv + k, a->d_qkv + v,
                                              a->d_o, a->o, a->lse, a->qkv, a->qkv + k, a->qkv + v,
                                              a->scratch);
    return bench_now_s() - start_s;
}

static void
bench_attention(int64_t seq, int64_t heads, int64_t kv_heads)
{
    struct attention a = attention_create(seq, heads, kv_heads);
    double forward[ROUNDS], backward[ROUNDS];
    for (int i = -1; i < ROUNDS; i++) {
        forward[i < 0 ? 0 : i] = time_forward(&a);
        backward[i < 0 ? 0 : i] = time_backward(&a);
    }
    /* Two products of 2 * 64 FLOPs for each query and key that it sees; five in the other pass. */
    double flops = 4.0 * 64.0 * (double)heads * (double)seq * (double)(seq + 1) / 2.0;
    double forward_s = bench_median(forward, ROUNDS), backward_s = bench_median(backward, ROUNDS);
    printf("attention seq %lld, heads %lld of %lld: forward %.2f ms, %.1f GFLOP/s; "
           "backward %.2f ms, %.1f GFLOP/s\n",
           (long long)seq, (long long)heads, (long long)kv_heads, forward_s * 1e3,
           flops / forward_s / 1e9, backward_s * 1e3, 2.5 * flops / backward_s / 1e9);
    free(a.qkv);
    free(a.d_qkv);
    free(a.o);
    free(a.d_o);
    free(a.lse);
    free(a.scratch);
}

int
main(int argc, char **argv)
{
    bool smoke = argc > 1 && strcmp(argv[1], "--smoke") == 0;
    if (argc > 2 && strcmp(argv[1], "--adamw") == 0) {
        print_adamw(atoll(argv[2]));
        return 0;
    }
    if (argc > 2 && strcmp(argv[1], "--sides") == 0) {
        print_sides(atoll(argv[2]));
        return 0;
    }
    printf("%d threads, instruction set %s\n", bench_team(),
           mw_cpu_isa_name(mw_cpu_isa_used(NULL)));
    bench_adamw(smoke ? 10000 : 60000000);
    for (int fp16 = 0; fp16 < 2; fp16++) {
        dtype = fp16 ? MW_DTYPE_FP16 : MW_DTYPE_BF16;
        printf("in %s:\n", fp16 ? "fp16" : "bf16");
        bench_products(smoke ? 32 : 1024, smoke ? 48 : 768, smoke ? 101 : 50257);
        for (int rows = 64; rows <= (smoke ? 64 : 1024); rows *= 4)
            bench_experts(rows, smoke ? 48 : 512, smoke ? 101 : 1024);
        bench_attention(smoke ? 70 : 1024, smoke ? 2 : 12, smoke ? 1 : 12);
        bench_attention(smoke ? 70 : 2048, smoke ? 2 : 16, smoke ? 1 : 4);
    }
    return 0;
}
