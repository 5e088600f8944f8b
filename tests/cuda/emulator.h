/*
 * emulator.h - CUDA's device language for kernels that run on a CPU: what the build includes before
 * exec/device/cuda/device.h where it sets MW_CUDA_EMULATED.  C++17, no CUDA toolkit.
 *
 * A grid runs block by block when it is launched; a block's threads are fibers that go on until
 * they meet a barrier or an exchange within their warp.  Blocks, warps and lanes are taken upwards
 * or downwards, which changes with every launch: threads that do not wait for each other meet
 * wrong values.  It finds, with a line that names kernel, block and places, and abort():
 *   threads that wait at different barriers, or for threads that have ended or stand elsewhere;
 *   addresses of tiles and asynchronous copies that are not aligned as hardware wants them.
 * Shared memory is full of NaN (all bits set) when a block starts; under the address sanitizer
 * accesses beyond an array are found, in shared memory and in what tests allocate.
 * Functions that a GPU approaches (emulator_math.h) and sums of tensor cores are as far off as they
 * may be there.
 * What it cannot show: speed, bank conflicts, races that each order happens to win, lanes that come
 * to a tile or a product apart (here they wait for each other), registers that a block has too many
 * of, addresses of the host's memory, and what a compiler for a device makes of the code.
 *
 * One grid at a time: several threads of the host take turns (deliver).
 */
#ifndef MW_TESTS_CUDA_EMULATOR_H
#define MW_TESTS_CUDA_EMULATOR_H

#include "tests/cuda/emulator_launch.h"
#include "tests/cuda/emulator_math.h"
#include "tests/cuda/emulator_types.h"
#include "tests/cuda/emulator_warp.h"

#if defined(__SANITIZE_ADDRESS__)
#define MW_EMULATED_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MW_EMULATED_ASAN 1
#endif
#endif

namespace mw_emulated
{
/* Gives up where address is no multiple of `bytes`. */
void check_aligned(const void *address, uintptr_t bytes, const char *what);

/* --- asynchronous copies of a thread --- */
/* Where `to` is undefined until the copy is waited for, it is NaN here. */
void copy_async(void *to, const void *from, int bytes, int source_bytes);
void copy_async_commit();
void copy_async_wait(int groups);

/* --- tensor cores; a and b as numbers, the lower half of a word before the upper one --- */
void mma_m16n8k16(float d[4], const float a[8], const float b[4], const char *file, int line);
void ldmatrix(uint32_t *r, const void *row, int matrices, bool transposed, const char *file,
              int line);
} // namespace mw_emulated

#endif
