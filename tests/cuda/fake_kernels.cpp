/* The kernels of exec/device/cuda by those of the cpu backend, queued in the streams of fake.h. */
#include <glib.h>

#include <functional>

#include <cuda_runtime_api.h>

extern "C" {
#include "exec/device/cpu/kernels.h"
#include "exec/device/cuda/half.h"
#include "tests/cuda/fake.h"
}

#if defined(_OPENMP)
#include <omp.h>
#endif

#include <cstring>

namespace
{

/* An address of the device's, as the kernels reach it. */
template <class T>
T *
at(T *memory)
{
    return static_cast<T *>(fake_at(memory));
}

struct mw_gradient
at(struct mw_gradient gradient)
{
    gradient.data = fake_at(gradient.data);
    return gradient;
}

template <class Body>
int
queue(void *stream, Body body)
{
    fake_push(
        stream,
        [](void *data) {
            std::function<void()> *work = static_cast<std::function<void()> *>(data);
#if defined(_OPENMP)
            omp_set_num_threads(fake_machine.threads);
#endif
            (*work)();
            delete work;
        },
        new std::function<void()>(body));
    return cudaGetLastError();
}

const struct mw_cpu_kernels &
cpu()
{
#if defined(MW_HALF_FP16)
    return *mw_cpu_kernels(MW_DTYPE_FP16);
#else
    return *mw_cpu_kernels(MW_DTYPE_BF16);
#endif
}

} // namespace

extern "C" {

#define ACTIVATION(name)                                                                           \
    int MW_CUDA(name##_forward)(void *stream, uint16_t *y, const uint16_t *x, int64_t n)           \
    {                                                                                              \
        return queue(stream, [y = at(y), x = at(x), n] { cpu().name##_forward(y, x, n); });        \
    }                                                                                              \
    int MW_CUDA(name##_backward)(void *stream, uint16_t *dx, const uint16_t *dy,                   \
                                 const uint16_t *x, int64_t n)                                     \
    {                                                                                              \
        return queue(stream, [dx = at(dx), dy = at(dy), x = at(x), n] {                            \
            cpu().name##_backward(dx, dy, x, n);                                                   \
        });                                                                                        \
    }
ACTIVATION(gelu)
ACTIVATION(gelu_erf)
ACTIVATION(relu)

int
MW_CUDA(swiglu_forward)(void *stream, uint16_t *y, const uint16_t *gate, const uint16_t *up,
                        int64_t n)
{
    return queue(stream, [y = at(y), gate = at(gate), up = at(up), n] {
        cpu().swiglu_forward(y, gate, up, n);
    });
}

int
MW_CUDA(swiglu_backward)(void *stream, uint16_t *dgate, uint16_t *dup, const uint16_t *dy,
                         const uint16_t *gate, const uint16_t *up, int64_t n)
{
    return queue(stream, [dgate = at(dgate), dup = at(dup), dy = at(dy), gate = at(gate),
                          up = at(up), n] { cpu().swiglu_backward(dgate, dup, dy, gate, up, n); });
}

/* --- elementwise --- */

int
MW_CUDA(widen)(void *stream, float *out, const uint16_t *x, int64_t n)
{
    return queue(stream, [out = at(out), x = at(x), n] { cpu().widen(out, x, n); });
}

int
MW_CUDA(narrow)(void *stream, uint16_t *out, const float *x, int64_t n)
{
    return queue(stream, [out = at(out), x = at(x), n] { cpu().narrow(out, x, n); });
}

int
MW_CUDA(accumulate)(void *stream, float *sum, const uint16_t *x, int64_t n)
{
    return queue(stream, [sum = at(sum), x = at(x), n] { cpu().accumulate(sum, x, n); });
}

int
MW_CUDA(add)(void *stream, uint16_t *out, const uint16_t *a, const uint16_t *b, int64_t n)
{
    return queue(stream, [out = at(out), a = at(a), b = at(b), n] { cpu().add(out, a, b, n); });
}

/* --- norms --- */

int
MW_CUDA(layernorm_forward)(void *stream, uint16_t *y, float *mean, float *rstd, const uint16_t *x,
                           const uint16_t *weight, const uint16_t *bias, int64_t rows,
                           int64_t columns, float eps)
{
    return queue(stream, [y = at(y), mean = at(mean), rstd = at(rstd), x = at(x),
                          weight = at(weight), bias = at(bias), rows, columns, eps] {
        cpu().layernorm_forward(y, mean, rstd, x, weight, bias, rows, columns, eps);
    });
}

int
MW_CUDA(layernorm_backward)(void *stream, uint16_t *dx, const uint16_t *dx_add, const uint16_t *dy,
                            const uint16_t *x, const uint16_t *weight, const float *mean,
                            const float *rstd, int64_t rows, int64_t columns)
{
    return queue(stream, [dx = at(dx), dx_add = at(dx_add), dy = at(dy), x = at(x),
                          weight = at(weight), mean = at(mean), rstd = at(rstd), rows, columns] {
        cpu().layernorm_backward(dx, dx_add, dy, x, weight, mean, rstd, rows, columns);
    });
}

int
MW_CUDA(rmsnorm_forward)(void *stream, uint16_t *y, float *rstd, const uint16_t *x,
                         const uint16_t *weight, int64_t rows, int64_t columns, float eps)
{
    return queue(stream, [y = at(y), rstd = at(rstd), x = at(x), weight = at(weight), rows, columns,
                          eps] { cpu().rmsnorm_forward(y, rstd, x, weight, rows, columns, eps); });
}

int
MW_CUDA(rmsnorm_backward)(void *stream, uint16_t *dx, const uint16_t *dx_add, const uint16_t *dy,
                          const uint16_t *x, const uint16_t *weight, const float *rstd,
                          int64_t rows, int64_t columns)
{
    return queue(stream, [dx = at(dx), dx_add = at(dx_add), dy = at(dy), x = at(x),
                          weight = at(weight), rstd = at(rstd), rows, columns] {
        cpu().rmsnorm_backward(dx, dx_add, dy, x, weight, rstd, rows, columns);
    });
}

/* --- sums over rows; scratch is asked for, and must be there --- */

int64_t
MW_CUDA(row_sums_scratch_bytes)(int64_t rows, int64_t columns)
{
    return 8 * rows + columns;
}

int
MW_CUDA(norm_weight_gradient)(void *stream, struct mw_gradient dweight, const uint16_t *dy,
                              const uint16_t *x, const float *mean, const float *rstd, int64_t rows,
                              int64_t columns, void *scratch)
{
    return queue(stream, [dweight = at(dweight), dy = at(dy), x = at(x), mean = at(mean),
                          rstd = at(rstd), rows, columns, scratch = at(scratch)] {
        memset(scratch, 0xff, (size_t)MW_CUDA(row_sums_scratch_bytes)(rows, columns));
        cpu().norm_weight_gradient(dweight, dy, x, mean, rstd, rows, columns);
    });
}

int
MW_CUDA(bias_gradient)(void *stream, struct mw_gradient dbias, const uint16_t *dy, int64_t ld_dy,
                       int64_t rows, int64_t columns, void *scratch)
{
    return queue(stream,
                 [dbias = at(dbias), dy = at(dy), ld_dy, rows, columns, scratch = at(scratch)] {
                     memset(scratch, 0xff, (size_t)MW_CUDA(row_sums_scratch_bytes)(rows, columns));
                     cpu().bias_gradient(dbias, dy, ld_dy, rows, columns);
                 });
}

/* --- embeddings --- */

int
MW_CUDA(embedding_forward)(void *stream, uint16_t *y, const uint16_t *weight, const int32_t *tokens,
                           int64_t rows, int64_t columns, int32_t first, int32_t count)
{
    return queue(
        stream, [y = at(y), weight = at(weight), tokens = at(tokens), rows, columns, first, count] {
            cpu().embedding_forward(y, weight, tokens, rows, columns, first, count);
        });
}

int64_t
MW_CUDA(embedding_scratch_bytes)(int64_t rows)
{
    return 8 * rows;
}

int
MW_CUDA(embedding_backward)(void *stream, struct mw_gradient dweight, const uint16_t *dy,
                            const int32_t *tokens, int64_t rows, int64_t columns, int32_t first,
                            int32_t count, void *scratch)
{
    return queue(stream, [dweight = at(dweight), dy = at(dy), tokens = at(tokens), rows, columns,
                          first, count, scratch = at(scratch)] {
        cpu().embedding_backward(dweight, dy, tokens, rows, columns, first, count,
                                 static_cast<uint64_t *>(scratch));
    });
}

int
MW_CUDA(position_forward)(void *stream, uint16_t *y, const uint16_t *weight, int64_t batch,
                          int64_t seq, int64_t columns)
{
    return queue(stream, [y = at(y), weight = at(weight), batch, seq, columns] {
        cpu().position_forward(y, weight, batch, seq, columns);
    });
}

int
MW_CUDA(position_backward)(void *stream, struct mw_gradient dweight, const uint16_t *dy,
                           int64_t batch, int64_t seq, int64_t columns, int64_t positions)
{
    return queue(stream, [dweight = at(dweight), dy = at(dy), batch, seq, columns, positions] {
        cpu().position_backward(dweight, dy, batch, seq, columns, positions);
    });
}

int
MW_CUDA(rope)(void *stream, uint16_t *x, const float *table, int64_t batch, int64_t seq,
              int64_t heads, int64_t head_dim, int64_t ld, bool inverse)
{
    return queue(stream, [x = at(x), table = at(table), batch, seq, heads, head_dim, ld, inverse] {
        cpu().rope(x, table, batch, seq, heads, head_dim, ld, inverse);
    });
}

/* --- attention --- */

int64_t
MW_CUDA(attention_scratch_bytes)(const struct mw_attention *shape)
{
    return cpu().attention_scratch_bytes(shape, fake_machine.threads);
}

int
MW_CUDA(attention_forward)(void *stream, const struct mw_attention *shape, uint16_t *o, float *lse,
                           const uint16_t *q, const uint16_t *k, const uint16_t *v, void *scratch)
{
    return queue(stream, [shape = *shape, o = at(o), lse = at(lse), q = at(q), k = at(k), v = at(v),
                          scratch = at(scratch)] {
        cpu().attention_forward(&shape, o, lse, q, k, v, scratch);
    });
}

int
MW_CUDA(attention_backward)(void *stream, const struct mw_attention *shape, uint16_t *dq,
                            uint16_t *dk, uint16_t *dv, const uint16_t *d_o, const uint16_t *o,
                            const float *lse, const uint16_t *q, const uint16_t *k,
                            const uint16_t *v, void *scratch)
{
    return queue(stream,
                 [shape = *shape, dq = at(dq), dk = at(dk), dv = at(dv), d_o = at(d_o), o = at(o),
                  lse = at(lse), q = at(q), k = at(k), v = at(v), scratch = at(scratch)] {
                     cpu().attention_backward(&shape, dq, dk, dv, d_o, o, lse, q, k, v, scratch);
                 });
}

/* --- loss, optimizer --- */

int
MW_CUDA(cross_entropy)(void *stream, double *loss, double *row_loss, uint16_t *dlogits,
                       int64_t ld_dlogits, const void *logits, bool logits_fp32, int64_t ld_logits,
                       const int32_t *targets, int64_t rows, int64_t vocab, float scale)
{
    return queue(stream, [loss = at(loss), row_loss = at(row_loss), dlogits = at(dlogits),
                          ld_dlogits, logits = at(logits), logits_fp32, ld_logits,
                          targets = at(targets), rows, vocab, scale] {
        *loss += cpu().cross_entropy(dlogits, ld_dlogits, row_loss, logits, logits_fp32, ld_logits,
                                     targets, rows, vocab, scale);
    });
}

int
MW_CUDA(adamw)(void *stream, const struct mw_adamw *step, float *w, float *m, float *v,
               uint16_t *param, const void *grad, bool grad_fp32, int64_t n)
{
    return queue(stream,
                 [step = *step, w = at(w), m = at(m), v = at(v), param = at(param), grad = at(grad),
                  grad_fp32, n] { cpu().adamw(&step, w, m, v, param, grad, grad_fp32, n); });
}

int
MW_CUDA(square_sums)(void *stream, double *partial, const void *grad, bool grad_fp32, int64_t n)
{
    return queue(stream, [partial = at(partial), grad = at(grad), grad_fp32, n] {
        cpu().square_sums(partial, grad, grad_fp32, n);
    });
}

} /* extern "C" */
