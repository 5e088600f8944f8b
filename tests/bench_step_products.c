#include "tests/bench_step.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/device/cpu/device.h"
#include "exec/device/cpu/kernels.h"
#include "exec/operators/operators.h"
#include "tests/bench.h"

#define SHAPES_MAX 64

/* Operands of the bare call: dense, and its own, so that they are no warmer than the step's; in
 * bf16, or in fp32 where the library multiplies no bf16. */
struct bare {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[4];
    int arg_count;
};

struct shape {
    struct mw_product product;
    struct bare bare;
    int64_t calls;
    double step_ms[4096], bare_ms[4096], ratio[4096];
};

static struct {
    void *device;
    struct mw_cpu_device *cores;
    struct mw_kernels kernels; /* those of the cores, products timed */
    struct mw_operators *operators;
    struct shape *shapes[SHAPES_MAX];
    int shape_count;
    bool compares;
    dnnl_data_type_t type; /* of the bare calls */
    dnnl_engine_t engine;
    dnnl_stream_t stream;
} bench;

/* --- the bare call --------------------------------------------------------------------------- */

static void
must(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "bench_step: %s\n", what);
    exit(1);
}

static dnnl_memory_desc_t
describe(dnnl_data_type_t type, int64_t rows, int64_t columns, bool transposed)
{
    dnnl_memory_desc_t desc;
    dnnl_dims_t dims = {rows, columns};

    must(dnnl_memory_desc_init_by_tag(&desc, 2, dims, type, transposed ? dnnl_ba : dnnl_ab) ==
             dnnl_success,
         "oneDNN describes no operand");
    return desc;
}

static void
add_operand(struct bare *bare, int arg, const dnnl_memory_desc_t *desc)
{
    size_t bytes = dnnl_memory_desc_get_size(desc);
    uint16_t *data = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    dnnl_memory_t memory;

    must(data != NULL, "no memory");
    /* Ordinary numbers, as bf16 and in pairs as fp32. */
    for (size_t i = 0; i < bytes / 2; i++)
        data[i] = (uint16_t)(0x3d80 + i * 2654435761u % 64 + (i % 3 == 0) * 0x8000);
    must(dnnl_memory_create(&memory, desc, bench.engine, data) == dnnl_success, "no operand");
    bare->args[bare->arg_count++] = (dnnl_exec_arg_t){arg, memory};
}

/* NULL: the library has none of this type. */
static dnnl_primitive_desc_t
describe_bare(const struct mw_product *p, dnnl_data_type_t type, dnnl_memory_desc_t operands[4])
{
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t ops;
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd = NULL;

    operands[0] = describe(type, p->m, p->k, p->a_transposed);
    operands[1] = describe(type, p->k, p->n, p->b_transposed);
    operands[2] = describe(p->c_fp32 ? dnnl_f32 : type, p->m, p->n, false);
    operands[3] = describe(type, 1, p->n, false);
    dnnl_primitive_attr_create(&attr);
    dnnl_post_ops_create(&ops);
    if (p->accumulate)
        dnnl_post_ops_append_sum(ops, 1.0f);
    dnnl_primitive_attr_set_post_ops(attr, ops);
    if (dnnl_matmul_desc_init(&desc, &operands[0], &operands[1], p->bias ? &operands[3] : NULL,
                              &operands[2]) != dnnl_success ||
        dnnl_primitive_desc_create(&pd, &desc, attr, bench.engine, NULL) != dnnl_success)
        pd = NULL;
    dnnl_primitive_attr_destroy(attr);
    dnnl_post_ops_destroy(ops);
    return pd;
}

static void
make_bare(struct bare *bare, const struct mw_product *p)
{
    dnnl_memory_desc_t operands[4];
    dnnl_primitive_desc_t pd = describe_bare(p, bench.type, operands);

    must(pd && dnnl_primitive_create(&bare->primitive, pd) == dnnl_success,
         "oneDNN has no such product");
    dnnl_primitive_desc_destroy(pd);
    add_operand(bare, DNNL_ARG_SRC, &operands[0]);
    add_operand(bare, DNNL_ARG_WEIGHTS, &operands[1]);
    add_operand(bare, DNNL_ARG_DST, &operands[2]);
    if (p->bias)
        add_operand(bare, DNNL_ARG_BIAS, &operands[3]);
}

static void
run_bare(const struct bare *bare)
{
    must(dnnl_primitive_execute(bare->primitive, bench.stream, bare->arg_count, bare->args) ==
                 dnnl_success &&
             dnnl_stream_wait(bench.stream) == dnnl_success,
         "oneDNN does not compute");
}

/* --- inside the step ------------------------------------------------------------------------- */

static struct shape *
shape_of(const struct mw_product *product)
{
    for (int i = 0; i < bench.shape_count; i++)
        if (!memcmp(&bench.shapes[i]->product, product, sizeof *product))
            return bench.shapes[i];
    must(bench.shape_count < SHAPES_MAX, "too many shapes");
    struct shape *shape = g_new0(struct shape, 1);
    shape->product = *product;
    make_bare(&shape->bare, product);
    run_bare(&shape->bare);
    bench.shapes[bench.shape_count++] = shape;
    return shape;
}

static bool
multiply(void *device, const struct mw_product *product, void *c, const void *a, const void *b,
         const void *bias, GError **error)
{
    struct shape *shape = bench.compares ? shape_of(product) : NULL;
    int64_t begin = g_get_monotonic_time();

    if (!mw_cpu_device_kernels.multiply(device, product, c, a, b, bias, error))
        return false;
    if (!shape)
        return true;
    int64_t between = g_get_monotonic_time();
    run_bare(&shape->bare);
    if (shape->calls < (int64_t)G_N_ELEMENTS(shape->step_ms)) {
        shape->step_ms[shape->calls] = (double)(between - begin) / 1e3;
        shape->bare_ms[shape->calls] = (double)(g_get_monotonic_time() - between) / 1e3;
        shape->ratio[shape->calls] = shape->bare_ms[shape->calls] / shape->step_ms[shape->calls];
        shape->calls++;
    }
    return true;
}

static bool
compute(void *backend, const struct mw_compute *compute, GError **error)
{
    (void)backend;
    return mw_operators_run(bench.operators, compute, error);
}

/* --- the backend ----------------------------------------------------------------------------- */

static void *
open_products(const struct mw_backend_options *options, int64_t bytes, void **memory,
              GError **error)
{
    bench.device = mw_backend_cpu.open(options, bytes, memory, error);
    bench.cores = mw_cpu_device_create((int)g_get_num_processors(), MW_DTYPE_BF16, error);
    must(bench.cores != NULL, "no device");
    bench.kernels = mw_cpu_device_kernels;
    bench.kernels.multiply = multiply;
    bench.operators = mw_operators_create(&bench.kernels, bench.cores, options->decoder,
                                          options->sequences, options->seq, error);
    must(dnnl_engine_create(&bench.engine, dnnl_cpu, 0) == dnnl_success &&
             dnnl_stream_create(&bench.stream, bench.engine, dnnl_stream_default_flags) ==
                 dnnl_success,
         "no engine");
    bench.type = dnnl_bf16;
    dnnl_memory_desc_t operands[4];
    dnnl_primitive_desc_t pd =
        describe_bare(&(struct mw_product){.m = 16, .n = 16, .k = 16}, dnnl_bf16, operands);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    else
        bench.type = dnnl_f32;
    return bench.operators ? bench.device : NULL;
}

static void
close_products(void *backend)
{
    mw_operators_destroy(bench.operators);
    mw_cpu_device_destroy(bench.cores);
    mw_backend_cpu.close(backend);
}

static bool
copy(void *backend, void *to, const void *from, int64_t bytes, GError **error)
{
    return mw_backend_cpu.copy(backend, to, from, bytes, error);
}

static bool
accumulate(void *backend, float *sum, const void *x, int64_t n, bool first, GError **error)
{
    return mw_backend_cpu.accumulate(backend, sum, x, n, first, error);
}

static bool
square_sums(void *backend, double *partial, const void *gradient, bool fp32, int64_t n,
            GError **error)
{
    return mw_backend_cpu.square_sums(backend, partial, gradient, fp32, n, error);
}

static bool
update(void *backend, const struct mw_update_step *step, float *w, float *m, float *v, void *param,
      const void *gradient, bool fp32, int64_t n, GError **error)
{
    return mw_backend_cpu.update(backend, step, w, m, v, param, gradient, fp32, n, error);
}

static bool
narrow(void *backend, void *out, const float *x, int64_t n, GError **error)
{
    return mw_backend_cpu.narrow(backend, out, x, n, error);
}

const struct mw_backend bench_products_backend = {
    .name = "cpu, products timed",
    .dtypes = 1 << MW_DTYPE_BF16 | 1 << MW_DTYPE_FP16,
    .open = open_products,
    .close = close_products,
    .compute = compute,
    .copy = copy,
    .accumulate = accumulate,
    .square_sums = square_sums,
    .update = update,
    .narrow = narrow,
};

/* --- what came of it ------------------------------------------------------------------------- */

void
bench_products_compare(bool on)
{
    bench.compares = on;
}

/* Of sorted ones: which part of them is below it. */
static double
quantile(const double *x, int64_t count, double part)
{
    return x[(int64_t)(part * (double)(count - 1) + 0.5)];
}

void
bench_products_print(void)
{
    double step_sum = 0, bare_sum = 0;

    printf("instruction set %s; bare: oneDNN in %s\n", mw_cpu_isa_name(mw_cpu_isa_used(NULL)),
           bench.type == dnnl_bf16 ? "bf16" : "fp32, for it has no bf16 here");
    printf("%6s %6s %6s %-22s %6s %9s %9s %6s %13s\n", "m", "n", "k", "", "calls", "step ms",
           "bare ms", "ratio", "10% to 90%");
    for (int i = 0; i < bench.shape_count; i++) {
        struct shape *s = bench.shapes[i];
        const struct mw_product *p = &s->product;
        g_autofree char *what = g_strdup_printf(
            "%s%s%s%s%s", p->a_transposed ? "At " : "", p->b_transposed ? "Bt " : "",
            p->bias ? "bias " : "", p->accumulate ? "+= " : "", p->c_fp32 ? "fp32" : "");
        double step = bench_median(s->step_ms, s->calls), bare = bench_median(s->bare_ms, s->calls);
        double ratio = bench_median(s->ratio, s->calls);
        step_sum += step * (double)s->calls;
        bare_sum += bare * (double)s->calls;
        printf("%6lld %6lld %6lld %-22s %6lld %9.3f %9.3f %6.3f %5.2f to %5.2f\n", (long long)p->m,
               (long long)p->n, (long long)p->k, what, (long long)s->calls, step, bare, ratio,
               quantile(s->ratio, s->calls, 0.1), quantile(s->ratio, s->calls, 0.9));
    }
    printf("all: bare over inside the step %.3f\n", bare_sum / step_sum);
}
