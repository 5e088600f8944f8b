/* CUDA's runtime over threads (fake.h): copies, those that streams make and those that a thread
 * does. */
#include <string.h>

#include "tests/cuda/fake_internal.h"

struct copy {
    void *to;
    const void *from; /* NULL: filled with value */
    int value;
    size_t bytes;
};

static void
run_copy(void *data)
{
    struct copy *copy = data;

    if (copy->from)
        memmove(copy->to, copy->from, copy->bytes);
    else
        memset(copy->to, copy->value, copy->bytes);
    g_free(copy);
}

/* Whether host memory, where it is registered, is so in one range. */
static bool
is_whole(const void *memory, size_t bytes)
{
    fake_lock();
    const struct fake_range *range = fake_range_of(fake.registered, memory);
    bool whole = !range || (const char *)memory + bytes <= range->at + range->bytes;
    fake_unlock();
    return whole;
}

/* Whether both ends are what the kind says. */
static bool
suits(const void *to, const void *from, enum cudaMemcpyKind kind)
{
    fake_lock();
    bool to_device = fake_range_of(fake.allocated, to) != NULL;
    bool from_device = fake_range_of(fake.allocated, from) != NULL;
    fake_unlock();
    return kind == cudaMemcpyDefault ||
           (to_device == (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) &&
            from_device == (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice));
}

cudaError_t
cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                cudaStream_t stream)
{
    FAKE_MAY_FAIL();
    char *to_reached = fake_reached(to), *from_reached = fake_reached(from);
    bool pageable = !to_reached || !from_reached;

    /* CUDA would stage it, and wait. */
    if (!suits(to, from, kind) || !is_whole(to, bytes) || !is_whole(from, bytes) ||
        (pageable && stream != cudaStreamPerThread))
        return fake_keep(cudaErrorInvalidValue);
    struct copy copy = {to_reached ? to_reached : to, from_reached ? from_reached : from, 0, bytes};
    fake_push(stream, run_copy, g_memdup2(&copy, sizeof copy));
    return cudaSuccess;
}

/* Copies that are on their way, of struct copy; `from` is their own. */
static GQueue late = G_QUEUE_INIT;

void
fake_arrive(void)
{
    struct copy *copy;

    fake_lock();
    while ((copy = g_queue_pop_head(&late))) {
        void *from = (void *)copy->from;
        run_copy(copy);
        g_free(from);
    }
    fake_unlock();
}

/* What is pageable may have left the host when it returns, and not be there: streams but those that
 * wait for the default one do not see it. */
cudaError_t
cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    if (suits(to, from, kind) && kind == cudaMemcpyHostToDevice && !fake_reached(from)) {
        FAKE_MAY_FAIL();
        struct copy copy = {fake_reached(to), g_memdup2(from, bytes), 0, bytes};
        fake_lock();
        g_queue_push_tail(&late, g_memdup2(&copy, sizeof copy));
        fake_unlock();
        return cudaSuccess;
    }
    return cudaMemcpyAsync(to, from, bytes, kind, cudaStreamPerThread);
}

cudaError_t
cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    FAKE_MAY_FAIL();
    struct copy copy = {fake_at(memory), NULL, value, bytes};

    fake_push(stream, run_copy, g_memdup2(&copy, sizeof copy));
    return cudaSuccess;
}

cudaError_t
cudaMemset(void *memory, int value, size_t bytes)
{
    return cudaMemsetAsync(memory, value, bytes, cudaStreamPerThread);
}
