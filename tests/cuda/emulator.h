/*
 * emulator.h - CUDA's device language for kernels that run on a CPU: what exec/cuda/device.h
 * includes where MW_CUDA_EMULATED is set.  C++17, no CUDA toolkit.
 *
 * A grid runs block by block when it is launched; a block's threads are fibers that go on until
 * they meet a barrier or an exchange within their warp.  Blocks, warps and lanes are taken upwards
 * or downwards, which changes with every launch: threads that do not wait for each other meet
 * wrong values.  Found out, with a line that names kernel, block and places, and abort():
 *   threads that wait at different barriers, or for threads that have ended or stand elsewhere;
 *   addresses of tiles and asynchronous copies that are not aligned as hardware wants them.
 * Shared memory is full of NaN (all bits set) when a block starts; under the address sanitizer
 * accesses beyond an array are found, in shared memory and in what tests allocate.
 * What it cannot show: speed, bank conflicts, races that each order happens to win, the rounding of
 * a tensor core's sums (here fp32, in order), and what a compiler for a device makes of the code.
 *
 * One grid at a time: several threads of the host take turns (deliver).
 */
#ifndef MW_TESTS_CUDA_EMULATOR_H
#define MW_TESTS_CUDA_EMULATOR_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmath>
#include <type_traits>

#if defined(__SANITIZE_ADDRESS__)
#define MW_EMULATED_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MW_EMULATED_ASAN 1
#endif
#endif

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __constant__ static const
#define __grid_constant__
#define __align__(n) alignas(n)

/* --- types --- */

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};

#define MW_EMULATED_VECTORS(type, name, n2, n4)                                                    \
    struct alignas(n2) name##2                                                                     \
    {                                                                                              \
        type x, y;                                                                                 \
    };                                                                                             \
    struct alignas(n4) name##4                                                                     \
    {                                                                                              \
        type x, y, z, w;                                                                           \
    };                                                                                             \
    static inline name##2 make_##name##2(type x, type y)                                           \
    {                                                                                              \
        return {x, y};                                                                             \
    }                                                                                              \
    static inline name##4 make_##name##4(type x, type y, type z, type w)                           \
    {                                                                                              \
        return {x, y, z, w};                                                                       \
    }
MW_EMULATED_VECTORS(float, float, 8, 16)
MW_EMULATED_VECTORS(int, int, 8, 16)
MW_EMULATED_VECTORS(unsigned, uint, 8, 16)
MW_EMULATED_VECTORS(unsigned short, ushort, 4, 8)
MW_EMULATED_VECTORS(double, double, 16, 16)

/* --- the host's side: the few calls that launching needs --- */

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorInvalidConfiguration = 9,
};
enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9,
};
typedef struct CUstream_st *cudaStream_t;

/* The first error since the last call; launches check their limits: 1,024 threads a block, 65,535
 * in y and z of a grid, and of shared memory 48 KiB, or what the kernel was allowed. */
cudaError_t cudaGetLastError();
/* At most 99 KiB in all, which every architecture from sm_80 on has. */
cudaError_t mw_emulated_attribute(const void *kernel, cudaFuncAttribute attribute, int value);
template <class Kernel>
cudaError_t
cudaFuncSetAttribute(Kernel *kernel, cudaFuncAttribute attribute, int value)
{
    return mw_emulated_attribute(reinterpret_cast<const void *>(kernel), attribute, value);
}
static inline cudaError_t
cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream = nullptr)
{
    (void)stream;
    memset(to, value, bytes);
    return cudaSuccess;
}

namespace mw_emulated
{
extern dim3 grid_dim, block_dim;
extern uint3 block_index;
extern const uint3 *thread_index;

/* The order of all further launches: bit 0 blocks, 1 warps, 2 lanes downwards; -1 (at first):
 * another one with every launch. */
void set_order(int order);

struct grid {
    const char *name;
    const void *kernel;
    dim3 blocks, threads;
    size_t shared_bytes;
};
void run(const grid &g, void (*body)(void *), void *data);

/* Takes what a launch does, to call it once, when the stream has come to it, and never two at once.
 * NULL, at first: it is done at once. */
extern void (*deliver)(cudaStream_t stream, void (*call)(void *data), void *data);

template <class Body> struct launched {
    grid g;
    Body body;

    static void call(void *data)
    {
        launched *it = static_cast<launched *>(data);
        run(
            it->g, [](void *of) { (*static_cast<Body *>(of))(); }, &it->body);
        delete it;
    }
};

template <class... P, class... A>
void
launch(const char *name, void (*kernel)(P...), dim3 blocks, dim3 threads, size_t shared_bytes,
       cudaStream_t stream, A... arguments)
{
    auto body = [=] { kernel(static_cast<P>(arguments)...); };
    const grid g = {name, reinterpret_cast<const void *>(kernel), blocks, threads, shared_bytes};
    auto it = new launched<decltype(body)>{g, body};
    if (deliver)
        deliver(stream, it->call, it);
    else
        it->call(it);
}

/* A block's array of static shared memory, by the address of something that is there once for each
 * array; and its dynamic one. */
void *shared_array(const void *key, size_t bytes);
void *dynamic_shared();

/* All threads of the block; returns for how many `predicate` is not 0. */
int barrier(int predicate, const char *file, int line);

/* --- exchanges within a warp: the lanes of `mask` bring `in`; when the last one has come, combine
 * makes out[lane] of in[lane] for all of them. --- */
constexpr int exchange_bytes = 64;
struct exchange {
    alignas(16) unsigned char in[32][exchange_bytes], out[32][exchange_bytes];
};
struct place {
    const char *what, *file;
    int line;
};
int lane();
exchange &warp_exchange();
void meet(uint32_t mask, const place &where, void (*combine)(exchange &, uint32_t mask));

template <class Out, class In>
Out
exchanged(uint32_t mask, const place &where, const In &in, void (*combine)(exchange &, uint32_t))
{
    static_assert(sizeof(In) <= exchange_bytes && sizeof(Out) <= exchange_bytes, "room of a lane");
    Out out;
    memcpy(warp_exchange().in[lane()], &in, sizeof in);
    meet(mask, where, combine);
    memcpy(&out, warp_exchange().out[lane()], sizeof out);
    return out;
}

template <class T> struct shuffled {
    T value;
    int from;
};

template <class T>
void
combine_shuffle(exchange &x, uint32_t mask)
{
    for (int i = 0; i < 32; i++) {
        shuffled<T> own, other;
        memcpy(&own, x.in[i], sizeof own);
        if ((mask >> i & 1) == 0)
            continue;
        /* Of a lane that takes no part the value is undefined. */
        memset(x.out[i], 0xff, sizeof(T));
        if ((mask >> own.from & 1) == 0)
            continue;
        memcpy(&other, x.in[own.from], sizeof other);
        memcpy(x.out[i], &other.value, sizeof(T));
    }
}

template <class T>
T
shuffle(const char *what, uint32_t mask, T value, int from, const char *file, int line)
{
    static_assert(std::is_arithmetic<T>::value && (sizeof(T) == 4 || sizeof(T) == 8), "of words");
    shuffled<T> in;
    memset(&in, 0, sizeof in);
    in.value = value;
    in.from = from;
    return exchanged<T>(mask, {what, file, line}, in, combine_shuffle<T>);
}

uint32_t ballot(const char *what, uint32_t mask, int predicate, const char *file, int line);

/* Gives up where address is no multiple of `bytes`. */
void check_aligned(const void *address, uintptr_t bytes, const char *what);

/* --- asynchronous copies of a thread: where `to` is undefined until the copy is waited for, it is
 * NaN here. --- */
void copy_async(void *to, const void *from, int bytes, int source_bytes);
void copy_async_commit();
void copy_async_wait(int groups);

/* --- tensor cores --- */
void mma_m16n8k16_bf16(float d[4], const uint32_t a[4], const uint32_t b[2], const char *file,
                       int line);
void ldmatrix(uint32_t *r, const void *row, int matrices, bool transposed, const char *file,
              int line);
} // namespace mw_emulated

#define threadIdx (*mw_emulated::thread_index)
#define blockIdx mw_emulated::block_index
#define blockDim mw_emulated::block_dim
#define gridDim mw_emulated::grid_dim
#define warpSize 32

#define MW_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                  \
    mw_emulated::launch(#kernel, kernel, grid, block, shared_bytes, (cudaStream_t)(stream),        \
                        __VA_ARGS__)
#define MW_SHARED(type, name, dims)                                                                \
    type(&name) dims = *static_cast<type(*) dims>(mw_emulated::shared_array(                       \
        []() -> const void * {                                                                     \
            static char mw_key;                                                                    \
            return &mw_key;                                                                        \
        }(),                                                                                       \
        sizeof(type dims)))
#define MW_DYNAMIC_SHARED(type, name)                                                              \
    type *const name = static_cast<type *>(mw_emulated::dynamic_shared())

/* Where a device function was called from. */
#define MW_EMULATED_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()

/* --- barriers and exchanges --- */

#define __syncthreads() ((void)mw_emulated::barrier(0, __FILE__, __LINE__))
#define __syncthreads_count(predicate) mw_emulated::barrier(predicate, __FILE__, __LINE__)
#define __syncthreads_or(predicate) (mw_emulated::barrier(predicate, __FILE__, __LINE__) != 0)
#define __syncthreads_and(predicate) (mw_emulated::barrier(!(predicate), __FILE__, __LINE__) == 0)
#define __threadfence() ((void)0)
#define __threadfence_block() ((void)0)

static inline void
__syncwarp(uint32_t mask = 0xffffffff, MW_EMULATED_PLACE)
{
    mw_emulated::meet(mask, {"__syncwarp", file, line}, [](mw_emulated::exchange &, uint32_t) {});
}

template <class T>
T
__shfl_sync(uint32_t mask, T value, int from, int width = 32, MW_EMULATED_PLACE)
{
    int own = mw_emulated::lane(), first = own & ~(width - 1);
    return mw_emulated::shuffle("__shfl_sync", mask, value, first | (from & (width - 1)), file,
                                line);
}

template <class T>
T
__shfl_xor_sync(uint32_t mask, T value, int bits, int width = 32, MW_EMULATED_PLACE)
{
    int own = mw_emulated::lane(), from = own ^ bits;
    bool beyond = from >= (own & ~(width - 1)) + width;
    return mw_emulated::shuffle("__shfl_xor_sync", mask, value, beyond ? own : from, file, line);
}

template <class T>
T
__shfl_down_sync(uint32_t mask, T value, unsigned by, int width = 32, MW_EMULATED_PLACE)
{
    int own = mw_emulated::lane(), from = own + (int)by;
    bool beyond = from >= (own & ~(width - 1)) + width;
    return mw_emulated::shuffle("__shfl_down_sync", mask, value, beyond ? own : from, file, line);
}

template <class T>
T
__shfl_up_sync(uint32_t mask, T value, unsigned by, int width = 32, MW_EMULATED_PLACE)
{
    int own = mw_emulated::lane(), from = own - (int)by;
    bool beyond = from < (own & ~(width - 1));
    return mw_emulated::shuffle("__shfl_up_sync", mask, value, beyond ? own : from, file, line);
}

static inline uint32_t
__ballot_sync(uint32_t mask, int predicate, MW_EMULATED_PLACE)
{
    return mw_emulated::ballot("__ballot_sync", mask, predicate, file, line);
}

static inline int
__any_sync(uint32_t mask, int predicate, MW_EMULATED_PLACE)
{
    return mw_emulated::ballot("__any_sync", mask, predicate, file, line) != 0;
}

static inline int
__all_sync(uint32_t mask, int predicate, MW_EMULATED_PLACE)
{
    return mw_emulated::ballot("__all_sync", mask, predicate, file, line) == mask;
}

/* --- atomics: one fiber runs at a time.  They return what was there. --- */

template <class T>
T
atomicAdd(T *to, T value)
{
    T before = *to;
    *to = before + value;
    return before;
}

template <class T>
T
atomicMax(T *to, T value)
{
    T before = *to;
    *to = before > value ? before : value;
    return before;
}

template <class T>
T
atomicMin(T *to, T value)
{
    T before = *to;
    *to = before < value ? before : value;
    return before;
}

template <class T>
T
atomicOr(T *to, T value)
{
    T before = *to;
    *to = before | value;
    return before;
}

template <class T>
T
atomicExch(T *to, T value)
{
    T before = *to;
    *to = value;
    return before;
}

template <class T>
T
atomicCAS(T *to, T expected, T value)
{
    T before = *to;
    if (before == expected)
        *to = value;
    return before;
}

/* --- arithmetic --- */

template <class T>
T
__ldg(const T *from)
{
    return *from;
}

#define MW_EMULATED_MIN_MAX(type)                                                                  \
    static inline type min(type a, type b)                                                         \
    {                                                                                              \
        return a < b ? a : b;                                                                      \
    }                                                                                              \
    static inline type max(type a, type b)                                                         \
    {                                                                                              \
        return a > b ? a : b;                                                                      \
    }
MW_EMULATED_MIN_MAX(int)
MW_EMULATED_MIN_MAX(unsigned)
MW_EMULATED_MIN_MAX(long)
MW_EMULATED_MIN_MAX(unsigned long)
MW_EMULATED_MIN_MAX(long long)
MW_EMULATED_MIN_MAX(unsigned long long)
static inline float
min(float a, float b)
{
    return fminf(a, b);
}
static inline float
max(float a, float b)
{
    return fmaxf(a, b);
}
static inline double
min(double a, double b)
{
    return fmin(a, b);
}
static inline double
max(double a, double b)
{
    return fmax(a, b);
}

static inline float
rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}

static inline double
rsqrt(double x)
{
    return 1.0 / sqrt(x);
}

/* The C library declares functions of these names for itself. */
#define __expf expf
#define __logf logf
#define __log2f log2f
#define __sinf sinf
#define __cosf cosf

#define MW_EMULATED_UNARY(name, value)                                                             \
    static inline float name(float x)                                                              \
    {                                                                                              \
        return value;                                                                              \
    }
MW_EMULATED_UNARY(__frcp_rn, 1.0f / x)
MW_EMULATED_UNARY(__fsqrt_rn, sqrtf(x))
MW_EMULATED_UNARY(__frsqrt_rn, 1.0f / sqrtf(x))

#define MW_EMULATED_BINARY(type, name, value)                                                      \
    static inline type name(type a, type b)                                                        \
    {                                                                                              \
        return value;                                                                              \
    }
MW_EMULATED_BINARY(float, __fadd_rn, a + b)
MW_EMULATED_BINARY(float, __fsub_rn, a - b)
MW_EMULATED_BINARY(float, __fmul_rn, a *b)
MW_EMULATED_BINARY(float, __fdiv_rn, a / b)
MW_EMULATED_BINARY(float, __fdividef, a / b)
MW_EMULATED_BINARY(float, fdividef, a / b)
MW_EMULATED_BINARY(double, __dadd_rn, a + b)
MW_EMULATED_BINARY(double, __dmul_rn, a *b)

static inline float
__fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}

static inline double
__fma_rn(double a, double b, double c)
{
    return fma(a, b, c);
}

static inline uint32_t
__float_as_uint(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float
__uint_as_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline int
__float_as_int(float x)
{
    return (int)__float_as_uint(x);
}

static inline float
__int_as_float(int bits)
{
    return __uint_as_float((uint32_t)bits);
}

static inline int
__popc(uint32_t x)
{
    return __builtin_popcount(x);
}

static inline int
__clz(int x)
{
    return x == 0 ? 32 : __builtin_clz((uint32_t)x);
}

static inline int
__ffs(int x)
{
    return __builtin_ffs(x);
}

#endif
