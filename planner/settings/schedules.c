/* The orders of micro-batches in a stage of a pipeline. */
#include <glib.h>

#include "planner/settings/settings.h"

static const struct mw_schedule_row rows[MW_SCHEDULE_COUNT] = {
    [MW_SCHEDULE_1F1B] = {.name = "1f1b",
                          .runs = true,
                          .order = "one forward, one backward in turn; stage s keeps p - s",
                          .bubble = "(p - 1)/m",
                          .source = "PipeDream-flush, arXiv 2104.04473, Sec. 2.2.1"},
    [MW_SCHEDULE_GPIPE] = {.name = "gpipe",
                           .runs = true,
                           .order = "all forward, then all backward; each stage keeps m",
                           .bubble = "(p - 1)/m",
                           .source = "GPipe, arXiv 1811.06965, Sec. 2.3",
                           .way = "all micro-batches forward before any goes back",
                           .all_forward = true},
    [MW_SCHEDULE_INTERLEAVED] = {.name = "interleaved",
                                 .runs = true,
                                 .order = "1f1b over v stretches of layers in each stage",
                                 .bubble = "(p - 1)/(v m)",
                                 .source = "arXiv 2104.04473, Sec. 2.2.2",
                                 .interleaved = true},
    [MW_SCHEDULE_ZB_H1] = {.name = "zb-h1",
                           .runs = true,
                           .order = "1f1b, with gradients of weights s micro-batches later",
                           .bubble = "(p - 1) (T_F + T_B - T_W)/(m (T_F + T_B + T_W))",
                           .source = "zero-bubble, arXiv 2401.10241, Sec. 2.1",
                           .way = "gradients of weights fill bubbles",
                           .weights_later = true},
    [MW_SCHEDULE_2BW] = {.name = "2bw",
                         .runs = true,
                         .order = "1f1b without a flush, two versions of parameters, updates with "
                                  "gradients one step old",
                         .bubble = "none",
                         .source = "PipeDream-2BW, arXiv 2006.09503",
                         .way = "two versions of parameters, gradients one step old, and no flush",
                         .no_flush = true},
    [MW_SCHEDULE_PIPEDREAM] = {.name = "pipedream",
                               .runs = true,
                               .order = "1f1b without a flush, an update after each micro-batch, "
                                        "p - s versions of parameters (weight stashing)",
                               .bubble = "none",
                               .source = "PipeDream, Narayanan et al., SOSP 2019",
                               .way = "an update after each micro-batch, and no flush",
                               .no_flush = true,
                               .stashes = true},
    [MW_SCHEDULE_VERTICAL_SYNC] = {.name = "vertical-sync",
                                   .runs = true,
                                   .order = "as pipedream, each micro-batch by one version of the "
                                            "parameters in all stages, so p versions in each",
                                   .bubble = "none",
                                   .source = "PipeDream, Narayanan et al., SOSP 2019, Sec. 3.3",
                                   .way = "an update after each micro-batch, one version of the "
                                          "parameters for it in all stages, and no flush",
                                   .no_flush = true,
                                   .stashes = true,
                                   .vertical_sync = true},
};

const struct mw_schedule_row *
mw_schedule_row(int schedule)
{
    g_assert(schedule >= 0 && schedule < MW_SCHEDULE_COUNT);
    return &rows[schedule];
}
