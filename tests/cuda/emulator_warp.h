/*
 * emulator_warp.h - barriers of a block, and exchanges within a warp; of emulator.h.
 */
#ifndef MW_TESTS_CUDA_EMULATOR_WARP_H
#define MW_TESTS_CUDA_EMULATOR_WARP_H

#include <stdint.h>
#include <string.h>

#include <type_traits>

namespace mw_emulated
{
/* All threads of the block; returns for how many `predicate` is not 0. */
int barrier(int predicate, const char *file, int line);

/* --- exchanges within a warp --- */
/* The lanes of `mask` bring `in`; when the last one has come, combine makes out[lane] of in[lane]
 * for all of them. */
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
} // namespace mw_emulated

/* Where a device function was called from. */
#define MW_EMULATED_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()

#define __syncthreads() ((void)mw_emulated::barrier(0, __FILE__, __LINE__))
#define __syncthreads_count(predicate) mw_emulated::barrier(predicate, __FILE__, __LINE__)
#define __syncthreads_or(predicate) (mw_emulated::barrier(predicate, __FILE__, __LINE__) != 0)
#define __syncthreads_and(predicate) (mw_emulated::barrier(!(predicate), __FILE__, __LINE__) == 0)

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

#endif
