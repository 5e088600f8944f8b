/*
 * kernels_plain.h - the kernels (exec/operators/kernels.h) that a backend hands on as it is called:
 * for the functions that do so, and for tables.
 */
#ifndef MW_EXEC_OPERATORS_KERNELS_PLAIN_H
#define MW_EXEC_OPERATORS_KERNELS_PLAIN_H

#include "exec/operators/kernels.h"

/* X(NAME, (PARAMETERS), ARGUMENTS...): all parameters but the device. */
#define MW_PLAIN_ACTIVATION(X, name)                                                               \
    X(name##_forward, (void *device, uint16_t *y, const uint16_t *x, int64_t n), y, x, n)          \
    X(name##_backward,                                                                             \
      (void *device, uint16_t *dx, const uint16_t *dy, const uint16_t *x, int64_t n), dx, dy, x,   \
      n)

#define MW_PLAIN_KERNELS(X)                                                                        \
    X(add, (void *device, uint16_t *out, const uint16_t *a, const uint16_t *b, int64_t n), out, a, \
      b, n)                                                                                        \
    MW_PLAIN_ACTIVATION(X, gelu)                                                                   \
    MW_PLAIN_ACTIVATION(X, gelu_erf)                                                               \
    MW_PLAIN_ACTIVATION(X, relu)                                                                   \
    X(swiglu_forward,                                                                              \
      (void *device, uint16_t *y, const uint16_t *gate, const uint16_t *up, int64_t n), y, gate,   \
      up, n)                                                                                       \
    X(swiglu_backward,                                                                             \
      (void *device, uint16_t *dgate, uint16_t *dup, const uint16_t *dy, const uint16_t *gate,     \
       const uint16_t *up, int64_t n),                                                             \
      dgate, dup, dy, gate, up, n)                                                                 \
    X(layernorm_forward,                                                                           \
      (void *device, uint16_t *y, float *mean, float *rstd, const uint16_t *x,                     \
       const uint16_t *weight, const uint16_t *bias, int64_t rows, int64_t columns, float eps),    \
      y, mean, rstd, x, weight, bias, rows, columns, eps)                                          \
    X(layernorm_backward,                                                                          \
      (void *device, uint16_t *dx, const uint16_t *dx_add, const uint16_t *dy, const uint16_t *x,  \
       const uint16_t *weight, const float *mean, const float *rstd, int64_t rows,                 \
       int64_t columns),                                                                           \
      dx, dx_add, dy, x, weight, mean, rstd, rows, columns)                                        \
    X(rmsnorm_forward,                                                                             \
      (void *device, uint16_t *y, float *rstd, const uint16_t *x, const uint16_t *weight,          \
       int64_t rows, int64_t columns, float eps),                                                  \
      y, rstd, x, weight, rows, columns, eps)                                                      \
    X(rmsnorm_backward,                                                                            \
      (void *device, uint16_t *dx, const uint16_t *dx_add, const uint16_t *dy, const uint16_t *x,  \
       const uint16_t *weight, const float *rstd, int64_t rows, int64_t columns),                  \
      dx, dx_add, dy, x, weight, rstd, rows, columns)                                              \
    X(embedding_forward,                                                                           \
      (void *device, uint16_t *y, const uint16_t *weight, const int32_t *tokens, int64_t rows,     \
       int64_t columns, int32_t first, int32_t count),                                             \
      y, weight, tokens, rows, columns, first, count)                                              \
    X(embedding_backward,                                                                          \
      (void *device, struct mw_gradient dweight, const uint16_t *dy, const int32_t *tokens,        \
       int64_t rows, int64_t columns, int32_t first, int32_t count, void *scratch),                \
      dweight, dy, tokens, rows, columns, first, count, scratch)                                   \
    X(position_forward,                                                                            \
      (void *device, uint16_t *y, const uint16_t *weight, int64_t batch, int64_t seq,              \
       int64_t columns),                                                                           \
      y, weight, batch, seq, columns)                                                              \
    X(position_backward,                                                                           \
      (void *device, struct mw_gradient dweight, const uint16_t *dy, int64_t batch, int64_t seq,   \
       int64_t columns, int64_t positions),                                                        \
      dweight, dy, batch, seq, columns, positions)                                                 \
    X(rope,                                                                                        \
      (void *device, uint16_t *x, const float *table, int64_t batch, int64_t seq, int64_t heads,   \
       int64_t head_dim, int64_t ld, bool inverse),                                                \
      x, table, batch, seq, heads, head_dim, ld, inverse)

/* Of a table whose functions have the kernels' names. */
#define MW_PLAIN_ENTRY(name, ...) .name = name,

#endif
