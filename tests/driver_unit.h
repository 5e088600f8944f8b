/*
 * driver_unit.h - a fetch unit of compute_driver.c: its parts' parameters and gradients, each with
 * padding behind the end that nobody may use.
 */
#ifndef MW_TESTS_DRIVER_UNIT_H
#define MW_TESTS_DRIVER_UNIT_H

#include "exec/compute.h"
#include "tests/compute_driver.h"

#define DRIVER_POISON 0xff /* a NaN in bf16 */

struct driver_unit {
    struct mw_tensor tensor;
    struct mw_part *parts;
    uint16_t **params;
    uint16_t **gradients;
    uint32_t made; /* operators whose gradients are begun */
};

struct driver_unit driver_unit_make(const struct mw_drive *drive, int64_t layer,
                                    uint32_t operators);
/* Its gradients go into those of the whole model, and the unit is gone. */
void driver_unit_take(struct driver_unit *unit, const struct mw_drive *drive, double *gradients);

#endif
