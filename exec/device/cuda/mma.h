/*
 * mma.h - the instructions of tensor cores from sm_80 on, and what feeds them: products of 16x16
 * and 16x8 tiles held in a warp's registers, loads of 8x8 tiles from shared memory, asynchronous
 * copies to it.  All lanes of a warp call together.  See the PTX ISA (mma, ldmatrix, cp.async).
 *
 * Layouts, with g = lane / 4 and t = lane % 4; a register holds two halves, the first one below:
 *   A 16x16   a[0] (g, 2t..2t+1)      a[1] (g+8, 2t..2t+1)
 *             a[2] (g, 2t+8..2t+9)    a[3] (g+8, 2t+8..2t+9)
 *   B 16x8    b[0] (2t..2t+1, g)      b[1] (2t+8..2t+9, g)
 *   D 16x8    d[0], d[1] (g, 2t..2t+1)    d[2], d[3] (g+8, 2t..2t+1)
 */
#ifndef MW_EXEC_DEVICE_CUDA_MMA_H
#define MW_EXEC_DEVICE_CUDA_MMA_H

#include "exec/device/cuda/device.h"

#if defined(MW_CUDA_EMULATED)
#define MW_MMA_PLACE , MW_EMULATED_PLACE
#else
#define MW_MMA_PLACE
#endif

/* d += a b, sums in fp32. */
MW_DEVICE void
mw_mma_m16n8k16(float d[4], const uint32_t a[4], const uint32_t b[2] MW_MMA_PLACE)
{
#if defined(MW_CUDA_EMULATED)
    float of_a[8], of_b[4];
    for (int i = 0; i < 8; i++)
        of_a[i] = i % 2 == 0 ? mw_half_low(a[i / 2]) : mw_half_high(a[i / 2]);
    for (int i = 0; i < 4; i++)
        of_b[i] = i % 2 == 0 ? mw_half_low(b[i / 2]) : mw_half_high(b[i / 2]);
    mw_emulated::mma_m16n8k16(d, of_a, of_b, file, line);
#else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." MW_HALF_PTX "." MW_HALF_PTX ".f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* Tile i of r[i], 8 rows of 16 bytes: row j at the address that lane 8i + j brings, on a 16-byte
 * boundary of shared memory.  r[i] of a lane is (g, 2t..2t+1); of the transposed loads
 * (2t..2t+1, g).  Of two tiles the addresses of lanes 16 to 31 are not read. */
#if defined(MW_CUDA_EMULATED)
#define MW_LDMATRIX(r, row, n, suffix, transposed)                                                 \
    mw_emulated::ldmatrix(r, row, n, transposed, file, line)
#define MW_LDMATRIX_4 MW_LDMATRIX
#define MW_LDMATRIX_2 MW_LDMATRIX
#else
MW_DEVICE uint32_t
mw_shared_address(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}
#define MW_LDMATRIX_4(r, row, n, suffix, transposed)                                               \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" suffix ".shared.b16 {%0, %1, %2, %3}, [%4];"      \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                  \
                 : "r"(mw_shared_address(row))                                                     \
                 : "memory")
#define MW_LDMATRIX_2(r, row, n, suffix, transposed)                                               \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2" suffix ".shared.b16 {%0, %1}, [%2];"              \
                 : "=r"(r[0]), "=r"(r[1])                                                          \
                 : "r"(mw_shared_address(row))                                                     \
                 : "memory")
#endif

MW_DEVICE void
mw_ldmatrix_x4(uint32_t r[4], const void *row MW_MMA_PLACE)
{
    MW_LDMATRIX_4(r, row, 4, "", false);
}

MW_DEVICE void
mw_ldmatrix_x4_trans(uint32_t r[4], const void *row MW_MMA_PLACE)
{
    MW_LDMATRIX_4(r, row, 4, ".trans", true);
}

MW_DEVICE void
mw_ldmatrix_x2(uint32_t r[2], const void *row MW_MMA_PLACE)
{
    MW_LDMATRIX_2(r, row, 2, "", false);
}

MW_DEVICE void
mw_ldmatrix_x2_trans(uint32_t r[2], const void *row MW_MMA_PLACE)
{
    MW_LDMATRIX_2(r, row, 2, ".trans", true);
}

/* 16 bytes from global to shared memory, both on 16-byte boundaries; only the first source_bytes (0
 * to 16) of the source are read, the rest becomes 0.  Visible to this thread after the wait for its
 * group, to others after a barrier that follows it. */
MW_DEVICE void
mw_copy_async_16(void *shared, const void *global, int source_bytes)
{
#if defined(MW_CUDA_EMULATED)
    mw_emulated::copy_async(shared, global, 16, source_bytes);
#else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(mw_shared_address(shared)), "l"(__cvta_generic_to_global(global)),
                   "r"(source_bytes)
                 : "memory");
#endif
}

/* 8 bytes likewise, on 8-byte boundaries, all of them read. */
MW_DEVICE void
mw_copy_async_8(void *shared, const void *global)
{
#if defined(MW_CUDA_EMULATED)
    mw_emulated::copy_async(shared, global, 8, 8);
#else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;"
                 :
                 : "r"(mw_shared_address(shared)), "l"(__cvta_generic_to_global(global))
                 : "memory");
#endif
}

/* Ends a group of this thread's copies. */
MW_DEVICE void
mw_copy_async_commit()
{
#if defined(MW_CUDA_EMULATED)
    mw_emulated::copy_async_commit();
#else
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Until at most the newest `pending` groups of this thread are under way. */
template <int pending>
MW_DEVICE void
mw_copy_async_wait()
{
#if defined(MW_CUDA_EMULATED)
    mw_emulated::copy_async_wait(pending);
#else
    asm volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory");
#endif
}

#endif
