/*
 * driver_unit.h - a fetch unit of compute_driver.c: its parts' parameters and gradients.
 */
#ifndef MW_TESTS_DRIVER_UNIT_H
#define MW_TESTS_DRIVER_UNIT_H

#include "exec/operators/compute.h"
#include "tests/compute_driver.h"
#include "tests/driver_memory.h"

struct driver_unit {
    struct mw_tensor tensor;
    struct mw_part *parts;
    void **params;
    void **gradients;
    int64_t element_bytes;
    uint32_t made; /* operators whose gradients are begun */
};

struct driver_unit driver_unit_make(const struct mw_drive *drive, int64_t layer,
                                    uint32_t operators);
/* Where they are; and its parameters there, from those of the whole model. */
void driver_unit_place(struct driver_unit *unit, struct driver_memory *memory);
void driver_unit_fill(const struct driver_unit *unit, const struct mw_drive *drive,
                      const struct driver_memory *memory);
/* Its gradients go into those of the whole model, and the unit is gone. */
void driver_unit_take(struct driver_unit *unit, const struct mw_drive *drive,
                      const struct driver_memory *memory, double *gradients);

#endif
