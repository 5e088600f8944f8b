/*
 * matmul_internal.h - a product with its operands, whole or in blocks; for
 * exec/device/cpu/matmul*.c alone.
 */
#ifndef MW_EXEC_DEVICE_CPU_MATMUL_INTERNAL_H
#define MW_EXEC_DEVICE_CPU_MATMUL_INTERNAL_H

#include "exec/device/cpu/matmul.h"

/* Blocks have a multiple of this many rows or columns of the result. */
#define MW_CPU_MATMUL_BLOCK 64

struct mw_cpu_call {
    struct mw_product product;
    void *c;
    const void *a, *b, *bias;
};

int64_t mw_cpu_matmul_element_bytes(const struct mw_cpu_matmul *matmul);
/* In how many blocks of its result the product is to be computed, now that its primitive is made
 * (where that is 1); 0: it cannot be. */
int64_t mw_cpu_matmul_blocks(struct mw_cpu_matmul *matmul, const struct mw_product *product);
/* Of a product that mw_cpu_matmul_blocks gives one block for. */
bool mw_cpu_matmul_run_whole(struct mw_cpu_matmul *matmul, const struct mw_cpu_call *call);

#endif
