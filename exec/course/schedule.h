/*
 * schedule.h - what changes from step to step: the learning rate, and the scale of the loss.
 *
 * Pure functions of small states, the same on every rank.  Steps count from 0.
 */
#ifndef MW_EXEC_COURSE_SCHEDULE_H
#define MW_EXEC_COURSE_SCHEDULE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "plan/dtype.h"

/* --- learning rate --- */

enum mw_lr_shape { MW_LR_CONSTANT, MW_LR_COSINE };

/* It rises in equal parts over warmup_steps, of which the last has `lr`.  Then it stays, or falls
 * by half a cosine (arXiv 1608.03983, eq. 5, without restarts) until step total_steps, from which
 * on it is lr_min. */
struct mw_lr_schedule {
    enum mw_lr_shape shape;
    double lr, lr_min; /* lr > 0; 0 <= lr_min <= lr */
    int64_t warmup_steps, total_steps;
};

/* The names of shapes: "constant", "cosine".  False for another. */
bool mw_lr_shape_parse(const char *name, enum mw_lr_shape *shape);
bool mw_lr_schedule_check(const struct mw_lr_schedule *schedule, GError **error);
double mw_lr_at(const struct mw_lr_schedule *schedule, int64_t step);

/* --- loss scale (arXiv 1710.03740, section 3.2) --- */

/* Powers of two, so that scaling rounds nothing but what becomes subnormal. */
struct mw_loss_scaling {
    double start, min, max;
    int64_t double_after; /* good steps in a row; 0: it never grows */
};

/* Part of what a step commits. */
struct mw_loss_scale {
    double scale;
    int64_t good_steps;     /* since the scale changed or a step was skipped */
    int64_t skipped;        /* in all */
    int64_t skipped_in_row; /* up to now */
};

/* Scale 1 in all steps: what bf16 needs.  A step that overflows is skipped nevertheless. */
struct mw_loss_scaling mw_loss_scaling_none(void);
/* From `start` on, halved and doubled within [1, 2^24]; doubled after 1000 good steps. */
struct mw_loss_scaling mw_loss_scaling_dynamic(double start);
/* Of a run that computes in bf16 (none) or fp16 (dynamic, from 65536). */
struct mw_loss_scaling mw_loss_scaling_default(enum mw_dtype dtype);

/* A power of two, positive and finite. */
bool mw_loss_scale_is_one(double scale);
bool mw_loss_scaling_check(const struct mw_loss_scaling *scaling, GError **error);
struct mw_loss_scale mw_loss_scale_start(const struct mw_loss_scaling *scaling);
/* After a step of which some gradient overflowed or none.  Returns whether its update is left out;
 * *scale is the next step's. */
bool mw_loss_scale_step(const struct mw_loss_scaling *scaling, struct mw_loss_scale *scale,
                        bool overflow);

#endif
