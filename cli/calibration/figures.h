/* figures.h - the measured figures, one row each. */
#ifndef MW_CLI_CALIBRATION_FIGURES_H
#define MW_CLI_CALIBRATION_FIGURES_H

#include <stddef.h>

#include "calibrate/calibrate.h"

struct cli_figure {
    const char *group, *key; /* of the profile */
    const char *label;       /* of the table; NULL: not in it, another row has it */
    const char *unit;
    double scale;    /* SI unit -> the profile's */
    size_t offset;   /* of a struct mw_measure in struct mw_calibration */
    const char *how; /* cli_figure_how */
};

extern const struct cli_figure cli_figures[];
extern const int cli_figure_count;

/* "matrix products of 64 cubed", "attention of 128 tokens": points of the curves.  g_free it. */
char *cli_product_name(double dim);
char *cli_attention_name(double dim);

extern const char *const cli_collective_names[]; /* by enum mw_calibration_collective */

/* How it was measured; NULL: another place says so. */
const char *cli_figure_how(const struct cli_figure *figure, const struct mw_calibration *measured);

/* Whether a profile has it; other figures are only in the table. */
bool cli_figure_kept(const struct cli_figure *figure);

/* In the profile's unit. */
struct mw_measure cli_figure_of(const struct cli_figure *figure,
                                const struct mw_calibration *measured);

#endif
