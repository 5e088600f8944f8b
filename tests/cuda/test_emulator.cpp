/* The emulator of CUDA: what it computes, and what it finds out. */
#include <glib.h>

#include "exec/device/cuda/mma.h"

#define THREADS 96
#define ORDERS 8

/* --- grids and barriers --- */

__global__ void
write_indices(uint32_t *out)
{
    uint32_t block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    uint32_t thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] += block << 16 | thread;
}

static void
test_indices(void)
{
    const dim3 grid(3, 2, 4), block(5, 7, 3);
    const uint32_t blocks = 24, threads = 105;
    for (int order = 0; order < ORDERS; order++) {
        mw_emulated::set_order(order);
        g_autofree uint32_t *out = g_new0(uint32_t, blocks * threads);
        MW_LAUNCH(write_indices, grid, block, 0, NULL, out);
        g_assert_cmpint(cudaGetLastError(), ==, cudaSuccess);
        for (uint32_t i = 0; i < blocks * threads; i++)
            g_assert_cmphex(out[i], ==, i / threads << 16 | i % threads);
    }
}

/* out[i] = in[the element `by` further on], through shared memory. */
template <bool waits>
__global__ void
rotate(float *out, const float *in, int by)
{
    MW_SHARED(float, row, [THREADS]);
    row[threadIdx.x] = in[threadIdx.x];
    if (waits)
        __syncthreads();
    out[threadIdx.x] = row[(threadIdx.x + (unsigned)by) % THREADS];
}

/* The same in place, twice: there are two barriers in each round. */
template <bool waits>
__global__ void
rotate_twice(float *out, const float *in, int by)
{
    MW_DYNAMIC_SHARED(float, row);
    row[threadIdx.x] = in[threadIdx.x];
    for (int i = 0; i < 2; i++) {
        __syncthreads();
        float x = row[(threadIdx.x + (unsigned)by) % THREADS];
        if (waits)
            __syncthreads();
        row[threadIdx.x] = x;
    }
    out[threadIdx.x] = row[threadIdx.x];
}

/* In how many elements a rotation is wrong, over all orders. */
static int
wrong_elements(void (*kernel)(float *, const float *, int), int by, int times)
{
    int wrong = 0;
    float in[THREADS], out[THREADS];
    for (int i = 0; i < THREADS; i++)
        in[i] = (float)i;
    for (int order = 0; order < ORDERS; order++) {
        mw_emulated::set_order(order);
        MW_LAUNCH(kernel, 1, THREADS, THREADS * sizeof(float), NULL, out, in, by);
        for (int i = 0; i < THREADS; i++)
            wrong += out[i] == in[(i + times * by) % THREADS] ? 0 : 1;
    }
    return wrong;
}

static void
test_barriers(void)
{
    for (int by = 1; by < THREADS; by++) {
        g_assert_cmpint(wrong_elements(rotate<true>, by, 1), ==, 0);
        g_assert_cmpint(wrong_elements(rotate_twice<true>, by, 2), ==, 0);
        g_assert_cmpint(wrong_elements(rotate<false>, by, 1), >, 0);
        g_assert_cmpint(wrong_elements(rotate_twice<false>, by, 2), >, 0);
    }
}

__global__ void
count_barrier(int *out)
{
    int n = __syncthreads_count(threadIdx.x % 3 == 0);
    int some = __syncthreads_or(threadIdx.x == 7), every = __syncthreads_and(threadIdx.x != 7);
    out[threadIdx.x] = n + 1000 * some + 10000 * every;
}

static void
test_barrier_counts(void)
{
    int out[THREADS];
    MW_LAUNCH(count_barrier, 1, THREADS, 0, NULL, out);
    for (int i = 0; i < THREADS; i++)
        g_assert_cmpint(out[i], ==, THREADS / 3 + 1000);
}

__global__ void
poison(uint32_t *out)
{
    MW_SHARED(uint32_t, words, [2][THREADS]);
    MW_DYNAMIC_SHARED(uint32_t, dynamic);
    out[threadIdx.x] = words[0][threadIdx.x] & words[1][threadIdx.x] & dynamic[threadIdx.x];
    words[0][threadIdx.x] = words[1][threadIdx.x] = dynamic[threadIdx.x] = 0;
}

/* Shared memory has no value at the start of any block. */
static void
test_poison(void)
{
    uint32_t out[THREADS];
    for (int blocks = 1; blocks < 4; blocks++) {
        MW_LAUNCH(poison, (unsigned)blocks, THREADS, sizeof out, NULL, out);
        for (int i = 0; i < THREADS; i++)
            g_assert_cmphex(out[i], ==, 0xffffffff);
    }
}

/* --- what is refused --- */

__global__ void
diverge(int *out)
{
    if (threadIdx.x < 40)
        __syncthreads();
    else
        __syncthreads();
    *out = 1;
}

__global__ void
leave_early(int *out)
{
    if (threadIdx.x >= 64)
        return;
    __syncthreads();
    *out = 1;
}

__global__ void
shuffle_alone(int *out)
{
    if (threadIdx.x % 2 == 0)
        *out = __shfl_xor_sync(0xffffffff, 1, 1);
}

__global__ void
load_unaligned(int *out)
{
    MW_SHARED(uint4, tile, [THREADS + 1]);
    uint32_t r[4];
    mw_ldmatrix_x4(r, reinterpret_cast<unsigned char *>(tile + threadIdx.x) + 8);
    *out = (int)r[0];
}

/* A compiler may put these bytes anywhere. */
__global__ void
load_of_bytes(int *out)
{
    MW_SHARED(unsigned char, tile, [16 * THREADS]);
    uint32_t r[4];
    mw_ldmatrix_x4(r, tile + 16 * threadIdx.x);
    *out = (int)r[0];
}

__global__ void
go_beyond(int *out)
{
    MW_SHARED(int, row, [THREADS]);
    int *at = row;
    at[threadIdx.x + 1] = 1;
    *out = row[0];
}

/* Each in a process of its own. */
static void
expect_abort(void (*kernel)(int *), const char *said)
{
    if (g_test_subprocess()) {
        int out;
        MW_LAUNCH(kernel, 1, THREADS, 0, NULL, &out);
        return;
    }
    g_test_trap_subprocess(NULL, 0, (GTestSubprocessFlags)0);
    g_test_trap_assert_failed();
    g_test_trap_assert_stderr(said);
}

static void
test_diverge(void)
{
    expect_abort(diverge, "*kernel: block (0, 0, 0): *different barriers*test_emulator.cpp:*");
}

static void
test_leave_early(void)
{
    expect_abort(leave_early, "*threads wait for others that have ended*thread 64 has ended*");
}

static void
test_shuffle_alone(void)
{
    expect_abort(shuffle_alone, "*__shfl_xor_sync, *test_emulator.cpp:*");
}

static void
test_unaligned(void)
{
    expect_abort(load_unaligned, "*ldmatrix: *boundary of 16 bytes*");
}

static void
test_unaligned_array(void)
{
    expect_abort(load_of_bytes, "*ldmatrix: *boundary of 16 bytes*");
}

static void
test_beyond(void)
{
#if defined(MW_EMULATED_ASAN)
    expect_abort(go_beyond, "*AddressSanitizer: heap-buffer-overflow*");
#else
    g_test_skip("found by the address sanitizer");
    (void)go_beyond;
#endif
}

static void
test_limits(void)
{
    int out[THREADS];
    MW_LAUNCH(count_barrier, 1, 1025, 0, NULL, out);
    g_assert_cmpint(cudaGetLastError(), ==, cudaErrorInvalidConfiguration);
    g_assert_cmpint(cudaGetLastError(), ==, cudaSuccess);
    MW_LAUNCH(count_barrier, dim3(1, 65536), 32, 0, NULL, out);
    g_assert_cmpint(cudaGetLastError(), ==, cudaErrorInvalidConfiguration);
    MW_LAUNCH(count_barrier, 1, THREADS, 49153, NULL, out);
    g_assert_cmpint(cudaGetLastError(), ==, cudaErrorInvalidValue);
    g_assert_cmpint(
        cudaFuncSetAttribute(count_barrier, cudaFuncAttributeMaxDynamicSharedMemorySize, 49153), ==,
        cudaSuccess);
    MW_LAUNCH(count_barrier, 1, THREADS, 49153, NULL, out);
    g_assert_cmpint(cudaGetLastError(), ==, cudaSuccess);
    g_assert_cmpint(
        cudaFuncSetAttribute(count_barrier, cudaFuncAttributeMaxDynamicSharedMemorySize, 101377),
        ==, cudaErrorInvalidValue);
}

/* --- exchanges within a warp --- */

__global__ void
shuffles(int *out)
{
    int id = (int)threadIdx.x;
    int *own = out + 8 * id;
    own[0] = __shfl_sync(0xffffffff, id, 5);
    own[1] = __shfl_xor_sync(0xffffffff, id, 9);
    own[2] = __shfl_down_sync(0xffffffff, id, 3);
    own[3] = __shfl_up_sync(0xffffffff, id, 3);
    own[4] = __shfl_sync(0xffffffff, id, 11, 8);
    own[5] = (int)__shfl_down_sync(0xffffffff, (double)id, 3, 8);
    own[6] = (int)__ballot_sync(0xffffffff, id % 5 == 0);
    /* Both halves of a warp for themselves. */
    if (id % 32 < 16)
        own[7] = __shfl_xor_sync(0x0000ffff, id, 1);
    else
        own[7] = (int)__ballot_sync(0xffff0000, 1);
}

static void
test_shuffles(void)
{
    for (int order = 0; order < ORDERS; order++) {
        int out[THREADS][8];
        mw_emulated::set_order(order);
        MW_LAUNCH(shuffles, 1, THREADS, 0, NULL, &out[0][0]);
        for (int id = 0; id < THREADS; id++) {
            int lane = id % 32, warp = id - lane;
            uint32_t votes = 0;
            for (int i = 0; i < 32; i++)
                votes |= (uint32_t)((warp + i) % 5 == 0) << i;
            g_assert_cmpint(out[id][0], ==, warp + 5);
            g_assert_cmpint(out[id][1], ==, warp + (lane ^ 9));
            g_assert_cmpint(out[id][2], ==, lane < 29 ? id + 3 : id);
            g_assert_cmpint(out[id][3], ==, lane >= 3 ? id - 3 : id);
            g_assert_cmpint(out[id][4], ==, warp + lane / 8 * 8 + 3);
            g_assert_cmpint(out[id][5], ==, lane % 8 < 5 ? id + 3 : id);
            g_assert_cmphex((uint32_t)out[id][6], ==, votes);
            g_assert_cmphex((uint32_t)out[id][7], ==, lane < 16 ? (uint32_t)(id ^ 1) : 0xffff0000u);
        }
    }
}

/* --- tensor cores --- */

/* Where the PTX ISA says that element i of a lane's fragments is (figures of mma.m16n8k16). */
static int
a_row(int lane, int i)
{
    return i < 2 || (i >= 4 && i < 6) ? lane >> 2 : (lane >> 2) + 8;
}

static int
a_column(int lane, int i)
{
    return i < 4 ? (lane & 3) * 2 + (i & 1) : (lane & 3) * 2 + (i & 1) + 8;
}

static int
b_row(int lane, int i)
{
    return i < 2 ? (lane & 3) * 2 + (i & 1) : (lane & 3) * 2 + (i & 1) + 8;
}

static int
d_row(int lane, int i)
{
    return i < 2 ? lane >> 2 : (lane >> 2) + 8;
}

struct matrices {
    uint16_t a[16][16], b[16][8], b_turned[8][16];
    float d[16][8];
};

__global__ void
multiply_by_elements(struct matrices *m)
{
    int lane = (int)threadIdx.x;
    uint16_t a[8], b[4];
    uint32_t a_words[4], b_words[2];
    float d[4];
    for (int i = 0; i < 8; i++)
        a[i] = m->a[a_row(lane, i)][a_column(lane, i)];
    for (int i = 0; i < 4; i++)
        b[i] = m->b[b_row(lane, i)][lane >> 2];
    for (int i = 0; i < 4; i++)
        d[i] = m->d[d_row(lane, i)][(lane & 3) * 2 + (i & 1)];
    memcpy(a_words, a, sizeof a);
    memcpy(b_words, b, sizeof b);
    mw_mma_m16n8k16(d, a_words, b_words);
    for (int i = 0; i < 4; i++)
        m->d[d_row(lane, i)][(lane & 3) * 2 + (i & 1)] = d[i];
}

/* As kernels do it: tiles in shared memory, B as [k][n] or as [n][k]. */
template <bool turned>
__global__ void
multiply_by_tiles(struct matrices *m)
{
    MW_SHARED(uint4, a, [32]);
    MW_SHARED(uint4, b, [16]);
    int lane = (int)threadIdx.x;
    const uint4 *from = reinterpret_cast<const uint4 *>(turned ? m->b_turned[0] : m->b[0]);
    a[lane] = reinterpret_cast<const uint4 *>(m->a[0])[lane];
    if (lane < 16)
        b[lane] = from[lane];
    __syncwarp();
    uint32_t a_words[4], b_words[2];
    mw_ldmatrix_x4(a_words, &a[lane % 16 * 2 + lane / 16]);
    if (turned)
        mw_ldmatrix_x2(b_words, &b[lane % 8 * 2 + lane / 8 % 2]);
    else
        mw_ldmatrix_x2_trans(b_words, &b[lane % 16]);
    float d[4];
    for (int i = 0; i < 4; i++)
        d[i] = m->d[d_row(lane, i)][(lane & 3) * 2 + (i & 1)];
    mw_mma_m16n8k16(d, a_words, b_words);
    for (int i = 0; i < 4; i++)
        m->d[d_row(lane, i)][(lane & 3) * 2 + (i & 1)] = d[i];
}

static void
fill_matrices(struct matrices *m)
{
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 16; k++)
            m->a[i][k] = mw_float_to_half((float)g_test_rand_double_range(-1.0, 1.0));
    for (int k = 0; k < 16; k++)
        for (int j = 0; j < 8; j++) {
            m->b[k][j] = mw_float_to_half((float)g_test_rand_double_range(-1.0, 1.0));
            m->b_turned[j][k] = m->b[k][j];
            m->d[k][j] = (float)g_test_rand_double_range(-1.0, 1.0);
        }
}

static void
test_mma(void)
{
    void (*const kernels[])(struct matrices *) = {multiply_by_elements, multiply_by_tiles<true>,
                                                  multiply_by_tiles<false>};
    for (auto kernel : kernels) {
        alignas(16) struct matrices m;
        double expected[16][8];
        fill_matrices(&m);
        for (int i = 0; i < 16; i++)
            for (int j = 0; j < 8; j++) {
                expected[i][j] = (double)m.d[i][j];
                for (int k = 0; k < 16; k++)
                    expected[i][j] +=
                        (double)mw_half_to_float(m.a[i][k]) * (double)mw_half_to_float(m.b[k][j]);
            }
        MW_LAUNCH(kernel, 1, 32, 0, NULL, &m);
        for (int i = 0; i < 16; i++)
            for (int j = 0; j < 8; j++)
                g_assert_cmpfloat_with_epsilon((double)m.d[i][j], expected[i][j], 1e-5);
    }
}

/* d = 1 and sixteen products of 2^-24: each alone is cut off beside d; two together are not. */
static void
test_mma_cuts(void)
{
    alignas(16) struct matrices m;
    memset(&m, 0, sizeof m);
    for (int k = 0; k < 16; k++) {
        m.a[0][k] = m.a[1][k] = mw_float_to_half(0x1p-12f);
        m.b[k][0] = mw_float_to_half(0x1p-12f);
        m.b[k][1] = mw_float_to_half(0x1p-11f);
    }
    m.d[0][0] = m.d[0][1] = 1.0f;
    MW_LAUNCH(multiply_by_elements, 1, 32, 0, NULL, &m);
    g_assert_true(m.d[0][0] == 1.0f && m.d[0][1] == 1.0f + 0x1p-19f);
    g_assert_true(m.d[1][0] == 0x1p-20f);
}

template <bool waits>
__global__ void
load_rotated(const uint16_t *in, uint32_t *out)
{
    MW_SHARED(uint4, tile, [32]);
    int lane = (int)threadIdx.x;
    tile[(lane + 5) % 32] = reinterpret_cast<const uint4 *>(in)[lane];
    if (waits)
        __syncwarp();
    mw_ldmatrix_x4(out + 4 * lane, &tile[lane]);
}

/* Whether all lanes have what other lanes wrote before, in every order. */
static bool
rotated(void (*kernel)(const uint16_t *, uint32_t *))
{
    alignas(16) uint16_t in[256];
    bool all = true;
    for (int i = 0; i < 256; i++)
        in[i] = (uint16_t)i;
    for (int order = 0; order < ORDERS; order++) {
        uint32_t out[32][4];
        mw_emulated::set_order(order);
        MW_LAUNCH(kernel, 1, 32, 0, NULL, in, &out[0][0]);
        for (uint32_t lane = 0; lane < 32; lane++)
            for (uint32_t tile = 0; tile < 4; tile++) {
                uint32_t row = (8 * tile + lane / 4 + 27) % 32;
                all = all && (out[lane][tile] & 0xffff) == 8 * row + 2 * (lane % 4);
            }
    }
    return all;
}

static void
test_ldmatrix_waits(void)
{
    g_assert_true(rotated(load_rotated<true>));
    g_assert_false(rotated(load_rotated<false>));
}

__global__ void
load_tiles(const uint16_t *in, uint32_t *out)
{
    MW_SHARED(uint4, tile, [32]);
    int lane = (int)threadIdx.x;
    tile[lane] = reinterpret_cast<const uint4 *>(in)[lane];
    __syncwarp();
    mw_ldmatrix_x4(out + 4 * lane, &tile[lane]);
    mw_ldmatrix_x4_trans(out + 128 + 4 * lane, &tile[lane]);
}

/* Four tiles of 8x8, whose elements are numbered. */
static void
test_ldmatrix(void)
{
    alignas(16) uint16_t in[256];
    uint32_t out[2][32][4];
    for (int i = 0; i < 256; i++)
        in[i] = (uint16_t)i;
    MW_LAUNCH(load_tiles, 1, 32, 0, NULL, in, &out[0][0][0]);
    for (uint32_t lane = 0; lane < 32; lane++)
        for (uint32_t tile = 0; tile < 4; tile++) {
            uint32_t first = 64 * tile + 8 * (lane >> 2) + 2 * (lane & 3);
            uint32_t turned = 64 * tile + 16 * (lane & 3) + (lane >> 2);
            g_assert_cmphex(out[0][lane][tile], ==, first | (first + 1) << 16);
            g_assert_cmphex(out[1][lane][tile], ==, turned | (turned + 8) << 16);
        }
}

/* --- asynchronous copies --- */

/* Two groups of copies; `pending` of them are not waited for. */
template <int pending>
__global__ void
copy_groups(const float *in, float *out, int bytes)
{
    MW_SHARED(float4, row, [2]);
    for (int i = 0; i < 2; i++) {
        row[i] = make_float4(1.0f, 1.0f, 1.0f, 1.0f);
        mw_copy_async_16(&row[i], in + 4 * i, bytes);
        mw_copy_async_commit();
    }
    mw_copy_async_wait<pending>();
    memcpy(out, row, 2 * sizeof *row);
}

static void
test_copies(void)
{
    alignas(16) const float in[8] = {1.5f, 2.5f, 3.5f, 4.5f, 5.5f, 6.5f, 7.5f, 8.5f};
    void (*const kernels[])(const float *, float *, int) = {copy_groups<0>, copy_groups<1>,
                                                            copy_groups<2>};
    for (int pending = 0; pending < 3; pending++)
        for (int bytes = 0; bytes <= 16; bytes += 4) {
            float out[8];
            MW_LAUNCH(kernels[pending], 1, 1, 0, NULL, in, out, bytes);
            for (int i = 0; i < 8; i++) {
                if (i / 4 >= 2 - pending)
                    g_assert_true(isnan(out[i]));
                else
                    g_assert_true(out[i] == (i % 4 * 4 < bytes ? in[i] : 0.0f));
            }
        }
}

/* --- numbers --- */

#if defined(MW_HALF_FP16)
static void
test_half(void)
{
    g_assert_cmphex(mw_float_to_half(1.0f), ==, 0x3c00);
    g_assert_cmphex(mw_float_to_half(1.00048828125f), ==, 0x3c00); /* ties to even */
    g_assert_cmphex(mw_float_to_half(1.00146484375f), ==, 0x3c02);
    g_assert_cmphex(mw_float_to_half(-INFINITY), ==, 0xfc00);
    g_assert_cmphex(mw_float_to_half(65519.996f), ==, 0x7bff);
    g_assert_cmphex(mw_float_to_half(65520.0f), ==, 0x7c00);
    g_assert_cmphex(mw_float_to_half(-3.4e38f), ==, 0xfc00);
    g_assert_cmphex(mw_float_to_half(-NAN), ==, 0x7fff);
    /* Subnormals are kept. */
    g_assert_cmphex(mw_float_to_half(0x1p-14f), ==, 0x0400);
    g_assert_cmphex(mw_float_to_half(-0x1p-24f), ==, 0x8001);
    g_assert_cmphex(mw_float_to_half(0x1p-25f), ==, 0x0000);
    g_assert_cmphex(mw_float_to_half(0x1.8p-24f), ==, 0x0002);
    g_assert_cmphex(mw_float_to_half(0x1.ff8p-15f), ==, 0x03ff);
    g_assert_cmphex(mw_floats_to_half(1.0f, -2.0f), ==, 0xc0003c00);
    g_assert_true(mw_half_low(0xc0003c00) == 1.0f && mw_half_high(0xc0003c00) == -2.0f);
    g_assert_true(mw_half_to_float(0x7bff) == 65504.0f && mw_half_to_float(0x8001) == -0x1p-24f);
    g_assert_true(isnan(mw_half_to_float(0x7c01)) && isinf(mw_half_to_float(0xfc00)));
}
#else
static void
test_half(void)
{
    g_assert_cmphex(mw_float_to_half(1.0f), ==, 0x3f80);
    g_assert_cmphex(mw_float_to_half(1.00390625f), ==, 0x3f80); /* ties to even */
    g_assert_cmphex(mw_float_to_half(1.01171875f), ==, 0x3f82);
    g_assert_cmphex(mw_float_to_half(-INFINITY), ==, 0xff80);
    g_assert_cmphex(mw_float_to_half(3.4e38f), ==, 0x7f80);
    g_assert_cmphex(mw_float_to_half(-NAN), ==, 0x7fff);
    g_assert_cmphex(mw_floats_to_half(1.0f, -2.0f), ==, 0xc0003f80);
    g_assert_true(mw_half_low(0xc0003f80) == 1.0f && mw_half_high(0xc0003f80) == -2.0f);
    g_assert_true(mw_half_to_float(0xc000) == -2.0f);
}
#endif

/* Off, but by no more than CUDA says; as on a GPU where that is exact. */
static void
test_approaches(void)
{
    int off = 0;
    for (int i = 1; i <= 400; i++) {
        float x = 0.05f * (float)(i - 200), y = __expf(x), exact = (float)exp((double)x);
        off += y != exact;
        g_assert_true(fabsf(y - exact) <= exact * (4.0f + fabsf(x)) * 0x1p-22f);
        g_assert_true(fabsf(erff(x) - (float)erf((double)x)) <= 3 * 0x1p-23f);
    }
    g_assert_cmpint(off, >, 300);
    g_assert_true(__expf(0.0f) == 1.0f && __expf(-INFINITY) == 0.0f && isinf(__expf(89.0f)));
    g_assert_true(mw_emulated::exp2_approx(-127.0f) == 0.0f && isnan(__expf(NAN)));
    g_assert_true(__fdividef(1.0f, 0x1.8p126f) == 0.0f && __fdividef(1.0f, INFINITY) == 0.0f);
}

/* The PTX ISA's, whatever sign and payload went in. */
static void
test_nan(void)
{
    const uint32_t canonical = 0x7fffffff;
    const uint32_t nans[] = {0x7fc00000u, 0xffc01234u, 0x7f800001u, 0xffffffffu};
    for (uint32_t bits : nans) {
        float nan = __uint_as_float(bits);
        float made[] = {
            __fadd_rn(nan, 1.0f),          __fsub_rn(1.0f, nan), __fmul_rn(-2.0f, nan),
            __fdiv_rn(nan, nan),           __fsqrt_rn(nan),      __fmul_rn(INFINITY, 0.0f),
            __fsub_rn(INFINITY, INFINITY), __fsqrt_rn(-1.0f),    __expf(nan),
            fmaf(1.0f, nan, 2.0f),         fmaxf(nan, nan)};
        for (float y : made)
            g_assert_cmphex(mw_fp32_bits(y), ==, canonical);
        g_assert_true(fmaxf(nan, 1.0f) == 1.0f);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/cuda/emulator/indices", test_indices);
    g_test_add_func("/cuda/emulator/barriers", test_barriers);
    g_test_add_func("/cuda/emulator/barrier-counts", test_barrier_counts);
    g_test_add_func("/cuda/emulator/poison", test_poison);
    g_test_add_func("/cuda/emulator/diverge", test_diverge);
    g_test_add_func("/cuda/emulator/leave-early", test_leave_early);
    g_test_add_func("/cuda/emulator/shuffle-alone", test_shuffle_alone);
    g_test_add_func("/cuda/emulator/unaligned", test_unaligned);
    g_test_add_func("/cuda/emulator/unaligned-array", test_unaligned_array);
    g_test_add_func("/cuda/emulator/beyond", test_beyond);
    g_test_add_func("/cuda/emulator/limits", test_limits);
    g_test_add_func("/cuda/emulator/shuffles", test_shuffles);
    g_test_add_func("/cuda/emulator/mma", test_mma);
    g_test_add_func("/cuda/emulator/mma-cuts", test_mma_cuts);
    g_test_add_func("/cuda/emulator/ldmatrix", test_ldmatrix);
    g_test_add_func("/cuda/emulator/ldmatrix-waits", test_ldmatrix_waits);
    g_test_add_func("/cuda/emulator/copies", test_copies);
    g_test_add_func("/cuda/emulator/half", test_half);
    g_test_add_func("/cuda/emulator/approaches", test_approaches);
    g_test_add_func("/cuda/emulator/nan", test_nan);
    return g_test_run();
}
