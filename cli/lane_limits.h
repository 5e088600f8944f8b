/*
 * lane_limits.h - links and drives that are slower than this machine's own: `--limit LANE=RATE`.
 * The run delays the lane's ops, and the prediction uses the rate as the machine's.
 */
#ifndef MW_CLI_LANE_LIMITS_H
#define MW_CLI_LANE_LIMITS_H

#include <glib.h>
#include <stdbool.h>

#include "hardware/hwprofile.h"
#include "plan/plan.h"

/* Bytes per second for each kind of lane; 0: not limited. */
struct cli_limits {
    double bytes_per_s[MW_LANE_KIND_COUNT];
};

/* Reads texts such as "nvme-read=0.5GB/s"; NULL means none.  Fails with one line. */
bool cli_limits_parse(struct cli_limits *limits, char *const *texts, GError **error);
/* `ranks`: the number of ranks on a node. */
void cli_limits_apply(const struct cli_limits *limits, int ranks, struct mw_hardware *hardware);

#endif
