#include "exec/course/schedule.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/typed.h"

/* --- learning rate --- */

bool
mw_lr_shape_parse(const char *name, enum mw_lr_shape *shape)
{
    bool constant = !strcmp(name, "constant"), cosine = !strcmp(name, "cosine");

    if (constant || cosine)
        *shape = constant ? MW_LR_CONSTANT : MW_LR_COSINE;
    return constant || cosine;
}

bool
mw_lr_schedule_check(const struct mw_lr_schedule *schedule, GError **error)
{
    const struct mw_lr_schedule *s = schedule;

    g_autofree char *lr = mw_typed(s->lr);
    g_autofree char *lr_min = mw_typed(s->lr_min);

    if (!(s->lr > 0 && isfinite(s->lr)))
        mw_refuse(error, "{lr=%s}: must be above 0", lr);
    else if (!(s->lr_min >= 0 && s->lr_min <= s->lr))
        mw_refuse(error, "{lr-min=%s}: must be a number from 0 to {lr}, %s", lr_min, lr);
    else if (s->warmup_steps < 0 || s->total_steps < 0)
        mw_refuse(error, "{warmup=%" PRId64 "} of {steps=%" PRId64 "}: neither may be below 0",
                  s->warmup_steps, s->total_steps);
    else if (s->shape == MW_LR_COSINE && s->warmup_steps > s->total_steps)
        mw_refuse(error,
                  "{warmup=%" PRId64 "}: must be at most {steps}, %" PRId64
                  ", with {lr-schedule=cosine}",
                  s->warmup_steps, s->total_steps);
    else
        return true;
    return false;
}

double
mw_lr_at(const struct mw_lr_schedule *schedule, int64_t step)
{
    int64_t after = step - schedule->warmup_steps;
    int64_t length = schedule->total_steps - schedule->warmup_steps;

    if (after < 0)
        return schedule->lr * ((double)(step + 1) / (double)schedule->warmup_steps);
    if (schedule->shape == MW_LR_CONSTANT)
        return schedule->lr;
    if (after >= length)
        return schedule->lr_min;
    double share = (1 + cos(G_PI * ((double)after / (double)length))) / 2;
    return schedule->lr_min + (schedule->lr - schedule->lr_min) * share;
}

/* --- loss scale --- */

struct mw_loss_scaling
mw_loss_scaling_none(void)
{
    return (struct mw_loss_scaling){.start = 1, .min = 1, .max = 1};
}

struct mw_loss_scaling
mw_loss_scaling_dynamic(double start)
{
    return (struct mw_loss_scaling){.start = start, .min = 1, .max = 0x1p24, .double_after = 1000};
}

struct mw_loss_scaling
mw_loss_scaling_default(enum mw_dtype dtype)
{
    return mw_dtype_row((int)dtype)->scales_loss ? mw_loss_scaling_dynamic(65536)
                                                 : mw_loss_scaling_none();
}

bool
mw_loss_scale_is_one(double value)
{
    int exponent;

    return value > 0 && isfinite(value) && frexp(value, &exponent) == 0.5;
}

bool
mw_loss_scaling_check(const struct mw_loss_scaling *scaling, GError **error)
{
    const struct mw_loss_scaling *s = scaling;

    if (!mw_loss_scale_is_one(s->start) || !mw_loss_scale_is_one(s->min) ||
        !mw_loss_scale_is_one(s->max))
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "loss scale %g within [%g, %g]: all three are powers of two, such as 65536",
                    s->start, s->min, s->max);
    else if (s->start < s->min || s->start > s->max)
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "loss scale %g: must lie within [%g, %g]",
                    s->start, s->min, s->max);
    else if (s->double_after < 0)
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "loss scale doubled after %" PRId64
                    " steps: must be at least 1, or 0 for never",
                    s->double_after);
    else
        return true;
    return false;
}

struct mw_loss_scale
mw_loss_scale_start(const struct mw_loss_scaling *scaling)
{
    return (struct mw_loss_scale){.scale = scaling->start};
}

bool
mw_loss_scale_step(const struct mw_loss_scaling *scaling, struct mw_loss_scale *scale,
                   bool overflow)
{
    if (overflow) {
        scale->scale = MAX(scale->scale / 2, scaling->min);
        scale->good_steps = 0;
        scale->skipped++;
        scale->skipped_in_row++;
        return true;
    }
    scale->skipped_in_row = 0;
    scale->good_steps++;
    if (scaling->double_after && scale->good_steps >= scaling->double_after) {
        scale->scale = MIN(scale->scale * 2, scaling->max);
        scale->good_steps = 0;
    }
    return false;
}
