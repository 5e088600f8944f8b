/*
 * kernels.h - what the operators of a GPT-2 or Llama decoder compute on CPU cores.
 *
 * One table of functions for each instruction set and type of elements; mw_cpu_kernels()
 * gives the best that this machine runs, or the forced one.  All tables of a type give the same
 * bits, except where dot products of pairs are taken (gemm and attention): there the order and the
 * rounding of sums follow the instructions.
 *
 * What each computes, of what shapes, and who owns the memory: exec/operators/kernel_list.h.
 * Threads.  Each function runs on the OpenMP team of its caller (omp_set_num_threads); several
 * threads may call at once.  Work is cut by shape alone and sums are combined in index order,
 * without atomics: results do not depend on the number of threads.
 * IEEE operations in the order written, no contraction, no fast-math; fused multiply-add is used in
 * gemm and attention only.
 */
#ifndef MW_EXEC_DEVICE_CPU_KERNELS_H
#define MW_EXEC_DEVICE_CPU_KERNELS_H

#include <stddef.h>

#include "exec/operators/kernel_types.h"
#include "plan/dtype.h"

/* The largest head_dim of attention. */
#define MW_CPU_HEAD_DIM_MAX 256

struct mw_cpu_kernels {
    enum mw_dtype dtype; /* of elements */

#define MW_KERNEL(name, parameters, arguments) void(*name) parameters;
#define MW_KERNEL_PASS MW_KERNEL
/* For the caller's number of threads. */
#define MW_KERNEL_SCRATCH(name, parameters, arguments)                                             \
    int64_t (*name)(MW_BARE parameters, int threads);
#define MW_KERNEL_EXPERTS MW_KERNEL
#define MW_KERNEL_EXPERTS_SCRATCH MW_KERNEL_SCRATCH
#define MW_KERNEL_RING MW_KERNEL
#include "exec/operators/kernel_list.h"

    /* The product by own code, where the matrix library lacks the type.  scratch:
     * gemm_scratch_bytes() for the caller's number of threads, 64-byte aligned. */
    int64_t (*gemm_scratch_bytes)(const struct mw_product *product, int threads);
    void (*gemm)(const struct mw_product *product, void *c, const void *a, const void *b,
                 const void *bias, void *scratch);

    /* An update by rows and columns (MW_UPDATE_SM3, MW_UPDATE_ADAFACTOR): w and m in place, m NULL
     * where the rule has none, param as of `update`. */
    void (*update_by_vectors)(const struct mw_update_step *step,
                              const struct mw_update_vectors *vectors, float *w, float *m,
                              void *param, const void *grad, bool grad_fp32, int64_t n);
    /* Adds the squares of n elements to the sums of their rows and columns, one call at a time. */
    void (*side_sums)(const struct mw_exact_sides *sides, const void *grad, bool grad_fp32,
                      int64_t n);
    /* Adds the squares of what an update by Adafactor would take, before lr, to a tensor's sum. */
    void (*update_squares)(const struct mw_update_step *step,
                           const struct mw_update_vectors *vectors, const void *grad,
                           bool grad_fp32, int64_t n, struct mw_exact_sum *sum);
};

/* From the slowest to the fastest; each machine runs all up to one.  Records keep the numbers. */
enum mw_cpu_isa {
    MW_CPU_ISA_GENERIC,
    MW_CPU_ISA_AVX2,
    MW_CPU_ISA_AVX512,
    MW_CPU_ISA_AVX512_BF16,
    MW_CPU_ISAS,
};

/* Environment variable that names the latest instruction set that kernels and matrix library may
 * use; read once. */
#define MW_CPU_ISA_VARIABLE "MEMWALL_ISA"

const char *mw_cpu_isa_name(enum mw_cpu_isa isa);
bool mw_cpu_isa_runs(enum mw_cpu_isa isa); /* on this machine */
/* The forced one, else the best that this machine runs.  forced may be NULL. */
enum mw_cpu_isa mw_cpu_isa_used(bool *forced);
/* Why the variable's value cannot be followed (then the best is used), one line; NULL: it can. */
const char *mw_cpu_isa_refusal(void);

/* Of a type that computes (plan/dtype.h): the table of the set in use, or of the best one before
 * it; and that of one set, NULL where it does not run here or adds nothing to the one before.
 * Static, never freed. */
const struct mw_cpu_kernels *mw_cpu_kernels(enum mw_dtype dtype);
const struct mw_cpu_kernels *mw_cpu_kernels_of(enum mw_cpu_isa isa, enum mw_dtype dtype);

#endif
