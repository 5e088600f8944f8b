/*
 * emulator_launch.h - grids, and the shared memory of their blocks; of emulator.h.
 */
#ifndef MW_TESTS_CUDA_EMULATOR_LAUNCH_H
#define MW_TESTS_CUDA_EMULATOR_LAUNCH_H

#include <stddef.h>

#include "tests/cuda/emulator_types.h"

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
 * array, no better aligned than its type wants; and its dynamic one. */
void *shared_array(const void *key, size_t bytes, size_t alignment);
void *dynamic_shared();
} // namespace mw_emulated

#define threadIdx (*mw_emulated::thread_index)
#define blockIdx mw_emulated::block_index
#define blockDim mw_emulated::block_dim
#define gridDim mw_emulated::grid_dim

#define MW_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                  \
    mw_emulated::launch(#kernel, kernel, grid, block, shared_bytes, (cudaStream_t)(stream),        \
                        __VA_ARGS__)
#define MW_SHARED(type, name, dims)                                                                \
    type(&name) dims = *static_cast<type(*) dims>(mw_emulated::shared_array(                       \
        []() -> const void * {                                                                     \
            static char mw_key;                                                                    \
            return &mw_key;                                                                        \
        }(),                                                                                       \
        sizeof(type dims), alignof(type)))
#define MW_DYNAMIC_SHARED(type, name)                                                              \
    type *const name = static_cast<type *>(mw_emulated::dynamic_shared())

#endif
