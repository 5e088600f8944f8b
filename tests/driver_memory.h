/*
 * driver_memory.h - the operands of compute_driver.c in memory of its device: one range, in which
 * every buffer is exactly as large as asked for, with a guard after it that nobody may use.
 *
 * Buffers are taken twice, in the same order: first to be counted, then, at the same distances, in
 * memory, which is full of NaN.
 */
#ifndef MW_TESTS_DRIVER_MEMORY_H
#define MW_TESTS_DRIVER_MEMORY_H

#include "tests/drive_device.h"

#define DRIVER_POISON 0xff /* a NaN in bf16, fp16, fp32 and fp64 */

struct driver_memory {
    const struct mw_drive_device *device;
    char *base;
    int64_t bytes;  /* taken so far */
    GArray *guards; /* of struct driver_guard */
};

struct driver_memory driver_memory_start(const struct mw_drive_device *device);
/* At a multiple of 64 bytes; while they are counted, an address of no memory. */
void *driver_memory_take(struct driver_memory *memory, int64_t bytes);
/* Counting is over. */
void driver_memory_reserve(struct driver_memory *memory);
/* All have been taken again: from here on nobody may use guards. */
void driver_memory_forbid(struct driver_memory *memory);
/* Aborts if somebody has. */
void driver_memory_release(struct driver_memory *memory);

#endif
