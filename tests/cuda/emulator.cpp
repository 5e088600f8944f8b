/* Fibers, barriers and memory of the emulator; the tensor cores are in emulator_mma.cpp. */
#include "tests/cuda/emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <map>
#include <vector>

#if defined(MW_EMULATED_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif
#if !defined(__x86_64__) || defined(MW_EMULATOR_UCONTEXT)
#define MW_UCONTEXT 1
#include <ucontext.h>
#endif

namespace mw_emulated
{
dim3 grid_dim, block_dim;
uint3 block_index;
const uint3 *thread_index;

namespace
{
constexpr unsigned threads_max = 1024, grid_yz_max = 65535;
constexpr size_t shared_plain_bytes = 48 << 10, shared_most_bytes = 99 << 10;
constexpr size_t stack_bytes = 256 << 10;

struct context {
#if defined(MW_UCONTEXT)
    ucontext_t ucontext;
#else
    void *stack_pointer = nullptr;
#endif
    void *stack = nullptr; /* the lowest address */
    size_t bytes = 0;
    void *fake_stack = nullptr; /* the address sanitizer's */
};

struct copy {
    void *to;
    const void *from;
    int bytes, source_bytes;
};

struct thread {
    context at;
    uint3 index;
    place waits; /* what == NULL: it does not */
    uint32_t mask;
    std::vector<std::vector<copy>> copies; /* by group, the oldest first; the last is open */
};

struct warp {
    uint32_t ready, meeting; /* lanes; the others wait at a barrier or have ended */
    exchange lanes;
};

thread threads[threads_max];
warp warps[threads_max / 32];
context host;
unsigned count, warp_count, current, ended;
struct {
    unsigned arrived;
    int sum, result;
} block_barrier;
int fixed_order = -1, order;
unsigned launches;
const grid *running;
void (*body)(void *);
void *body_data;
cudaError_t last_error = cudaSuccess;
std::map<const void *, size_t> allowed_bytes; /* by kernel */

struct array {
    void *memory, *at;
};
std::map<const void *, array> arrays; /* of the running block */
size_t arrays_bytes;

/* --- complaints --- */

void
say_where(unsigned i)
{
    const place &p = threads[i].waits;
    if (p.what != nullptr)
        fprintf(stderr, "  thread %u waits at %s, %s:%d, mask %08x\n", i, p.what, p.file, p.line,
                threads[i].mask);
    else
        fprintf(stderr, "  thread %u has ended\n", i);
}

[[noreturn]] void
give_up(const char *why)
{
    fprintf(stderr, "%s: block (%u, %u, %u): %s\n", running->name, block_index.x, block_index.y,
            block_index.z, why);
    for (unsigned i = 0; i < count; i++) {
        const place &p = threads[i].waits, &before = threads[i - (i > 0)].waits;
        if (i == 0 || p.what != before.what || p.line != before.line)
            say_where(i);
    }
    abort();
}

/* --- fibers --- */

#if defined(MW_UCONTEXT)
void
jump(context &from, context &to)
{
    swapcontext(&from.ucontext, &to.ucontext);
}
#else
/* Keeps what a called function must keep on its stack, and the stack's pointer at *from. */
extern "C" void mw_emulated_jump(void **from, void *to);
__asm__(".text\n"
        ".globl mw_emulated_jump\n"
        ".type mw_emulated_jump, @function\n"
        "mw_emulated_jump:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  ret\n"
        ".size mw_emulated_jump, .-mw_emulated_jump\n"
        ".section .note.GNU-stack, \"\", @progbits\n"
        ".text\n");

void
jump(context &from, context &to)
{
    mw_emulated_jump(&from.stack_pointer, to.stack_pointer);
}
#endif

void
begin_switch(context &from, const context &to)
{
#if defined(MW_EMULATED_ASAN)
    __sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.bytes);
#else
    (void)from;
    (void)to;
#endif
}

/* In `own`, which was switched to: from the host, its stack is kept to find the way back. */
void
end_switch(context &own, bool from_host)
{
#if defined(MW_EMULATED_ASAN)
    const void *stack;
    size_t bytes;
    __sanitizer_finish_switch_fiber(own.fake_stack, &stack, &bytes);
    if (from_host) {
        host.stack = const_cast<void *>(stack);
        host.bytes = bytes;
    }
#else
    (void)own;
    (void)from_host;
#endif
}

bool came_from_host;

void
switch_to(context &from, context &to)
{
    came_from_host = &from == &host;
    begin_switch(from, to);
    jump(from, to);
    end_switch(from, came_from_host);
}

void
resume_thread(context &from, unsigned i)
{
    if (&from == &threads[i].at)
        return;
    current = i;
    thread_index = &threads[i].index;
    switch_to(from, threads[i].at);
}

/* The next of `set` after `own` in the order of lanes or warps, going round. */
int
next_of(uint32_t set, unsigned own, bool downwards)
{
    uint32_t later = downwards ? set & ((1u << own) - 1) : set & ~((2u << own) - 1);
    if (later == 0)
        later = set;
    return downwards ? 31 - __builtin_clz(later) : __builtin_ctz(later);
}

/* A thread that can go on: of the same warp as long as there is one. */
unsigned
next_ready()
{
    bool warps_down = order & 2, lanes_down = order & 4;
    unsigned w = current / 32;
    for (unsigned i = 0; i < warp_count; i++) {
        if (warps[w].ready != 0)
            return w * 32 + (unsigned)next_of(warps[w].ready, current % 32, lanes_down);
        w = warps_down ? (w + warp_count - 1) % warp_count : (w + 1) % warp_count;
    }
    give_up(ended > 0 ? "threads wait for others that have ended or wait elsewhere"
                      : "threads wait for each other in different places");
}

void
wait_for_others()
{
    thread &own = threads[current];
    warps[current / 32].ready &= ~(1u << current % 32);
    resume_thread(own.at, next_ready());
}

void
end_thread()
{
    thread &own = threads[current];
    own.waits.what = nullptr;
    warps[current / 32].ready &= ~(1u << current % 32);
    own.copies.clear();
    ended++;
    if (ended == count)
        switch_to(own.at, host);
    else
        resume_thread(own.at, next_ready());
}

/* A fiber is there once, and does a thread's work in one block after the other. */
void
fiber()
{
    end_switch(threads[current].at, came_from_host);
    for (;;) {
        body(body_data);
        end_thread();
    }
}

void
make_fiber(context &c)
{
    void *stack = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, 4096, PROT_NONE) != 0)
        give_up("no memory for its threads");
    c.stack = stack;
    c.bytes = stack_bytes;
#if defined(MW_UCONTEXT)
    getcontext(&c.ucontext);
    c.ucontext.uc_stack.ss_sp = stack;
    c.ucontext.uc_stack.ss_size = stack_bytes;
    makecontext(&c.ucontext, fiber, 0);
#else
    /* Six registers, the address to go to, and a word for where a caller's would be. */
    void **top = reinterpret_cast<void **>(static_cast<char *>(stack) + stack_bytes) - 8;
    top[6] = reinterpret_cast<void *>(fiber);
    c.stack_pointer = top;
#endif
}

/* --- a block --- */

void
free_arrays()
{
    for (auto &a : arrays)
        free(a.second.memory);
    arrays.clear();
    arrays_bytes = 0;
}

void
begin_threads()
{
    ended = 0;
    block_barrier = {0, 0, 0};
    for (unsigned i = 0; i < count; i++) {
        thread &t = threads[i];
        if (t.at.stack == nullptr)
            make_fiber(t.at);
        t.index = {i % block_dim.x, i / block_dim.x % block_dim.y, i / (block_dim.x * block_dim.y)};
        t.waits = {nullptr, nullptr, 0};
        t.copies.assign(1, {});
    }
    for (unsigned w = 0; w < warp_count; w++) {
        unsigned lanes = count - 32 * w;
        warps[w].ready = lanes >= 32 ? 0xffffffff : (1u << lanes) - 1;
        warps[w].meeting = 0;
    }
}

void
run_block(uint64_t number)
{
    block_index = {(unsigned)(number % grid_dim.x), (unsigned)(number / grid_dim.x % grid_dim.y),
                   (unsigned)(number / grid_dim.x / grid_dim.y)};
    begin_threads();
    unsigned first_warp = order & 2 ? warp_count - 1 : 0;
    unsigned first_lane = order & 4 ? 31 - (unsigned)__builtin_clz(warps[first_warp].ready) : 0;
    resume_thread(host, 32 * first_warp + first_lane);
    free_arrays();
}

cudaError_t
refuse(const grid &g)
{
    unsigned n = g.threads.x * g.threads.y * g.threads.z;
    auto allowed = allowed_bytes.find(g.kernel);
    if (n == 0 || n > threads_max || g.threads.z > 64 || g.blocks.x == 0 || g.blocks.y == 0 ||
        g.blocks.z == 0 || g.blocks.x > 0x7fffffff || g.blocks.y > grid_yz_max ||
        g.blocks.z > grid_yz_max)
        return cudaErrorInvalidConfiguration;
    if (g.shared_bytes > (allowed != allowed_bytes.end() ? allowed->second : shared_plain_bytes))
        return cudaErrorInvalidValue;
    return cudaSuccess;
}

/* At an odd multiple of `alignment`. */
void *
poisoned(const void *key, size_t bytes, size_t alignment)
{
    void *memory;
    arrays_bytes += bytes;
    if (arrays_bytes > shared_most_bytes ||
        posix_memalign(&memory, 2 * (alignment < 8 ? 8 : alignment), alignment + bytes) != 0)
        give_up("more shared memory than there is");
    memset(memory, 0xff, alignment + bytes);
    arrays[key] = {memory, static_cast<char *>(memory) + alignment};
    return arrays[key].at;
}
} // namespace

void (*deliver)(cudaStream_t stream, void (*call)(void *data), void *data);

void
set_order(int new_order)
{
    fixed_order = new_order;
}

void
run(const grid &g, void (*new_body)(void *), void *data)
{
    cudaError_t error = refuse(g);
    if (error != cudaSuccess) {
        last_error = error;
        return;
    }
    running = &g;
    grid_dim = g.blocks;
    block_dim = g.threads;
    body = new_body;
    body_data = data;
    count = block_dim.x * block_dim.y * block_dim.z;
    warp_count = (count + 31) / 32;
    order = fixed_order >= 0 ? fixed_order : (int)(launches++ % 8);
    uint64_t blocks = (uint64_t)grid_dim.x * grid_dim.y * grid_dim.z;
    for (uint64_t i = 0; i < blocks; i++)
        run_block(order & 1 ? blocks - 1 - i : i);
    running = nullptr;
}

void *
shared_array(const void *key, size_t bytes, size_t alignment)
{
    auto found = arrays.find(key);
    return found != arrays.end() ? found->second.at : poisoned(key, bytes, alignment);
}

void *
dynamic_shared()
{
    return shared_array(running, running->shared_bytes, 128);
}

int
barrier(int predicate, const char *file, int line)
{
    thread &own = threads[current];
    own.waits = {"__syncthreads", file, line};
    own.mask = 0xffffffff;
    block_barrier.sum += predicate != 0;
    block_barrier.arrived++;
    if (block_barrier.arrived < count) {
        wait_for_others();
    } else {
        for (unsigned i = 0; i < count; i++)
            if (threads[i].waits.line != line || strcmp(threads[i].waits.file, file) != 0)
                give_up("threads wait at different barriers");
        block_barrier = {0, 0, block_barrier.sum};
        for (unsigned w = 0; w < warp_count; w++)
            warps[w].ready = count - 32 * w >= 32 ? 0xffffffff : (1u << (count - 32 * w)) - 1;
    }
    return block_barrier.result;
}

int
lane()
{
    return (int)(current % 32);
}

exchange &
warp_exchange()
{
    return warps[current / 32].lanes;
}

void
meet(uint32_t mask, const place &where, void (*combine)(exchange &, uint32_t mask))
{
    thread &own = threads[current];
    warp &w = warps[current / 32];
    own.waits = where;
    own.mask = mask;
    w.meeting |= 1u << lane();
    if ((mask >> lane() & 1) == 0)
        give_up("a lane is not in its own mask");
    bool all = (w.meeting & mask) == mask;
    for (uint32_t rest = mask; rest != 0 && all; rest &= rest - 1) {
        const thread &other = threads[current / 32 * 32 + (unsigned)__builtin_ctz(rest)];
        all = other.mask == mask && other.waits.line == where.line &&
              strcmp(other.waits.file, where.file) == 0 &&
              strcmp(other.waits.what, where.what) == 0;
    }
    if (!all) {
        wait_for_others();
        return;
    }
    w.meeting &= ~mask;
    w.ready |= mask;
    combine(w.lanes, mask);
}

static void
combine_ballot(exchange &x, uint32_t mask)
{
    uint32_t votes = 0;
    for (int i = 0; i < 32; i++)
        if ((mask >> i & 1) != 0 && x.in[i][0] != 0)
            votes |= 1u << i;
    /* Other lanes may be in an exchange of their own. */
    for (int i = 0; i < 32; i++)
        if ((mask >> i & 1) != 0)
            memcpy(x.out[i], &votes, sizeof votes);
}

uint32_t
ballot(const char *what, uint32_t mask, int predicate, const char *file, int line)
{
    unsigned char vote = predicate != 0;
    return exchanged<uint32_t>(mask, {what, file, line}, vote, combine_ballot);
}

/* --- asynchronous copies --- */

void
check_aligned(const void *address, uintptr_t bytes, const char *what)
{
    if ((uintptr_t)address % bytes == 0)
        return;
    fprintf(stderr, "%s: %p is not on a boundary of %d bytes\n", what, address, (int)bytes);
    give_up("an address that the hardware refuses");
}

void
copy_async(void *to, const void *from, int bytes, int source_bytes)
{
    check_aligned(to, (uintptr_t)bytes, "an asynchronous copy");
    check_aligned(from, (uintptr_t)bytes, "an asynchronous copy");
    if (source_bytes < 0 || source_bytes > bytes)
        give_up("an asynchronous copy of more than it holds");
    memset(to, 0xff, (size_t)bytes);
    threads[current].copies.back().push_back({to, from, bytes, source_bytes});
}

void
copy_async_commit()
{
    threads[current].copies.emplace_back();
}

void
copy_async_wait(int groups)
{
    auto &copies = threads[current].copies;
    while (copies.size() > (size_t)groups + 1) {
        for (const copy &c : copies.front()) {
            memset(c.to, 0, (size_t)c.bytes);
            memcpy(c.to, c.from, (size_t)c.source_bytes);
        }
        copies.erase(copies.begin());
    }
}
} // namespace mw_emulated

cudaError_t
cudaGetLastError()
{
    cudaError_t error = mw_emulated::last_error;
    mw_emulated::last_error = cudaSuccess;
    return error;
}

cudaError_t
mw_emulated_attribute(const void *kernel, cudaFuncAttribute attribute, int value)
{
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
        return cudaSuccess;
    if (value < 0 || (size_t)value > mw_emulated::shared_most_bytes)
        return cudaErrorInvalidValue;
    mw_emulated::allowed_bytes[kernel] = (size_t)value;
    return cudaSuccess;
}
