/*
 * compute_driver.h - a whole step op by op, without a plan: forward and backward of a decoder in
 * the order and with the parts that the planner has, on any device (drive_device.h).
 */
#ifndef MW_TESTS_COMPUTE_DRIVER_H
#define MW_TESTS_COMPUTE_DRIVER_H

#include <glib.h>

#include "exec/operators/compute.h"
#include "tests/drive_device.h"

/* Called before an op and behind it, all of whose operands are among `bytes` bytes at `memory`, of
 * the device. */
typedef void (*mw_drive_watch)(void *data, const struct mw_compute *compute, bool behind,
                               void *memory, int64_t bytes);

struct mw_drive {
    const struct mw_decoder *decoder;
    enum mw_dtype dtype;  /* of parameters and activations; MW_DTYPE_NONE: bf16 */
    const double *params; /* of the whole model (whole_model.h) */
    const int32_t *ids, *targets;
    int64_t sequences, seq;
    int64_t tiles;         /* of every fetch unit; 0 counts as 1, as below */
    int64_t chunks;        /* of logits and loss; at most the tokens */
    int64_t micro_batches; /* the same tokens again, gradients added up */
    bool recompute;        /* one layer's room serves all; each is computed again for backward */
    const struct mw_drive_device *device; /* NULL: MW_TEST_DEVICE */
    mw_drive_watch watch;                 /* NULL: nobody does */
    void *watch_data;
};

struct mw_driven {
    double *logits;    /* [T, V] */
    double *hidden;    /* [layers + 1, T, h]: before each layer, and behind the last */
    double *gradients; /* of the whole model: of the mean loss over a micro-batch's tokens, summed
                        * over micro-batches */
    double loss;       /* mean, with losses of routers */
};

/* With fp16, losses are scaled on their way to gradients, so that these are no subnormal numbers.
 */
enum mw_dtype mw_drive_dtype(const struct mw_drive *drive);

/* Aborts where an operator fails, or writes where it must not. */
struct mw_driven mw_drive(const struct mw_drive *drive);
void mw_driven_clear(struct mw_driven *driven);

#endif
