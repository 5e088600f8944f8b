/* enlarge.h - more of what a machine has: host memory, drives. */
#ifndef MW_HARDWARE_ENLARGE_H
#define MW_HARDWARE_ENLARGE_H

#include "hardware/hwprofile.h"

/* The profile with `factor` times as much of "host" or "nvme": of all its keys that count what
 * there is or how fast all of it is, at one outlook.  It is what the assignments make that are
 * appended to `flags`, each behind "--set ".  NULL: it has none, or that many cannot be.  The
 * caller frees it. */
struct mw_hwprofile *mw_hwprofile_enlarge(const struct mw_hwprofile *profile, const char *group,
                                          enum mw_outlook outlook, double factor, GString *flags);

/* Makes the assignment and appends it to `flags`; false: it cannot be made. */
bool mw_hwprofile_assign(struct mw_hwprofile *profile, const char *assignment, GString *flags);

#endif
