/*
 * mirrors.h - host buffers as a kernel on a device gets them: each is mirrored by device memory
 * between two guard zones, which at the end of the call must be untouched, as must be what the
 * kernel only reads.
 *
 * In a third of the calls all mirrors lie at multiples of 256 bytes, in another third all but one,
 * in the others anywhere that their elements can lie: so kernels take all their paths.  Buffers
 * that lie in one another on the host do so on the device; the larger one is to be mirrored first.
 */
#ifndef MW_TESTS_CUDA_MIRRORS_H
#define MW_TESTS_CUDA_MIRRORS_H

#include <glib.h>
#include <stdint.h>

struct mw_mirrors {
    GArray *all;
    guint anywhere_from, anywhere_to; /* which mirrors lie anywhere */
};

void mw_mirrors_begin(struct mw_mirrors *mirrors);
/* All at multiples of 256 bytes. */
void mw_mirrors_begin_aligned(struct mw_mirrors *mirrors);
/* Of `bytes` bytes in elements of `element_bytes`: what kernels read; read and write; and scratch,
 * full of NaN, always aligned.  NULL has the mirror NULL. */
const void *mw_mirror_in(struct mw_mirrors *mirrors, const void *host, int64_t bytes,
                         int element_bytes);
void *mw_mirror_out(struct mw_mirrors *mirrors, void *host, int64_t bytes, int element_bytes);
void *mw_mirror_scratch(struct mw_mirrors *mirrors, int64_t bytes);
/* status: what the launch returned.  Reads back what kernels wrote. */
void mw_mirrors_end(struct mw_mirrors *mirrors, int status);

/* In halves. */
#define MW_IN_HALF(mirrors, x, n) ((const uint16_t *)mw_mirror_in(mirrors, x, 2 * (n), 2))
#define MW_OUT_HALF(mirrors, x, n) ((uint16_t *)mw_mirror_out(mirrors, x, 2 * (n), 2))

#endif
