/* The orders of micro-batches in a stage of a pipeline. */
#include <glib.h>

#include "planner/settings/settings.h"

/* PipeDream-flush (Narayanan et al. 2021, arXiv 2104.04473, Sec. 2.2.1), GPipe (arXiv 1811.06965),
 * interleaved stages (arXiv 2104.04473, Sec. 2.2.2), zero-bubble (Qi et al. 2023, arXiv 2401.10241,
 * Sec. 2.1). */
static const struct mw_schedule_row rows[MW_SCHEDULE_COUNT] = {
    [MW_SCHEDULE_1F1B] = {.name = "1f1b"},
    [MW_SCHEDULE_GPIPE] = {.name = "gpipe",
                           .way = "all micro-batches forward before any goes back",
                           .all_forward = true},
    [MW_SCHEDULE_INTERLEAVED] = {.name = "interleaved", .interleaved = true},
    [MW_SCHEDULE_ZB_H1] = {.name = "zb-h1",
                           .way = "gradients of weights fill bubbles",
                           .weights_later = true},
};

const struct mw_schedule_row *
mw_schedule_row(int schedule)
{
    g_assert(schedule >= 0 && schedule < MW_SCHEDULE_COUNT);
    return &rows[schedule];
}
