/* figures.h - the measured figures, one row each. */
#ifndef MW_CLI_CALIBRATION_FIGURES_H
#define MW_CLI_CALIBRATION_FIGURES_H

#include <stddef.h>

#include "calibrate/calibrate.h"

struct cli_figure {
    const char *group, *key; /* in the profile */
    const char *label;       /* in the table; NULL: another row of the table shows it */
    const char *unit;
    double scale;    /* SI unit -> the profile's unit */
    size_t offset;   /* of a struct mw_measure in struct mw_calibration */
    const char *how; /* cli_figure_how */
};

extern const struct cli_figure cli_figures[];
extern const int cli_figure_count;

/* "matrix products of 64 cubed", "attention of 128 tokens": points of the curves.  g_free it. */
char *cli_product_name(double dim);
char *cli_attention_name(double dim);

/* "forward, heads of 128"; g_free it. */
char *cli_heads_name(bool backward, int head);

/* Over the sizes of products: the least, median and greatest share of the rate of all three that
 * those of one direction reach; zeros: not known. */
struct mw_measure cli_direction_share(const struct mw_calibration *measured, enum mw_product_of of);
extern const char *const cli_direction_names[MW_CALIBRATION_DIRECTIONS];

extern const char *const cli_collective_names[]; /* by enum mw_calibration_collective */

/* How the figure was measured; NULL: that is said elsewhere. */
const char *cli_figure_how(const struct cli_figure *figure, const struct mw_calibration *measured);

/* Whether the profile has this figure; others are in the table only. */
bool cli_figure_kept(const struct cli_figure *figure);

/* The figure in the profile's unit. */
struct mw_measure cli_figure_of(const struct cli_figure *figure,
                                const struct mw_calibration *measured);

#endif
