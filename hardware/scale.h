/*
 * scale.h - more or less of what a machine has.
 *
 * Which figures go with which part, and which make up a rate, is said by the keys' rows
 * (hardware/keys.c) alone.  Of a figure in bytes what is left is rounded down; a count is rounded,
 * and stays 1 at least, unless there are to be 0 times as many.
 */
#ifndef MW_HARDWARE_SCALE_H
#define MW_HARDWARE_SCALE_H

#include "hardware/hwprofile.h"

/* `factor` times as much of a part: a share of a GPU, twice the drives. */
void mw_hardware_scale_part(struct mw_hardware *hardware, enum mw_hw_part part, double factor);
/* A rate, `factor` times as fast; for MW_HW_RATE_HOP, that many times as long. */
void mw_hardware_scale_rate(struct mw_hardware *hardware, enum mw_hw_rate rate, double factor);

/* The profile with `factor` times as much of a part, at one outlook.  It equals what the
 * assignments appended to `flags` make, each preceded by "--set ".  NULL: it has none, or that many
 * cannot be. The caller frees it. */
struct mw_profile *mw_hwprofile_enlarge(const struct mw_profile *profile, enum mw_hw_part part,
                                        enum mw_outlook outlook, double factor, GString *flags);

/* Makes the assignment and appends it to `flags`; false: it cannot be made. */
bool mw_hwprofile_assign(struct mw_profile *profile, const char *assignment, GString *flags);

/* "nvme.capacity_tb, nvme.read_gb_per_s and nvme.queue_depth": what a machine with that part must
 * have beside `but`; g_free it. */
char *mw_hw_part_required(enum mw_hw_part part, const char *but);

#endif
