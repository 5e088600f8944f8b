/* nvme_fixture.h - directories and aligned buffers for tests of the NVMe tier. */
#ifndef MW_TESTS_NVME_FIXTURE_H
#define MW_TESTS_NVME_FIXTURE_H

#include <stdint.h>

#include "exec/nvme/nvme.h"

enum { MW_FIXTURE_DRIVES = 5 };

struct mw_nvme_fixture {
    char *root;
    char *directories[MW_FIXTURE_DRIVES];
};

/* New directories in the current one, which is on a disk. */
void mw_nvme_fixture_init(struct mw_nvme_fixture *fixture);
void mw_nvme_fixture_finish(struct mw_nvme_fixture *fixture);

/* Options with these directories, blocks of 8 KiB and depth 4. */
struct mw_nvme_options mw_nvme_fixture_options(const struct mw_nvme_fixture *fixture, int drives,
                                               int64_t capacity_bytes);

/* Zeroed memory on a 4 KiB border; free(). */
char *mw_nvme_fixture_buffer(int64_t bytes);
void mw_nvme_fixture_fill(char *buffer, int64_t bytes, GRand *random);

/* on_done of a request: sets a gint. */
void mw_nvme_fixture_mark(void *flag);

/* Removes what is at the path, a folder with all in it. */
void mw_nvme_fixture_remove(const char *path);

#endif
