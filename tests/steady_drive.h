/*
 * steady_drive.h - a drive made of memory, behind the NVMe tier's system calls: reads and writes
 * have a rate each that nothing changes, one transfer of a direction after the other.  For
 * benchmarks of what drives bound, on machines whose own drives do not keep still.
 */
#ifndef MW_TESTS_STEADY_DRIVE_H
#define MW_TESTS_STEADY_DRIVE_H

#include "exec/nvme/calls.h"

struct steady_drive;

/* Of one file; its tier is closed before it is freed.  It takes as much memory as is written. */
struct steady_drive *steady_drive_new(double bytes_per_s);
void steady_drive_free(struct steady_drive *drive); /* NULL is allowed */
/* As long as the drive lives. */
const struct mw_nvme_calls *steady_drive_calls(const struct steady_drive *drive);

#endif
