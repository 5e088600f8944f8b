/* CUDA's runtime over threads (fake.h): memory of the device, and what of the host's it reaches. */
#include <string.h>

#include "tests/cuda/fake_internal.h"

#define ALIGNMENT 256

const struct fake_range *
fake_range_of(const GArray *ranges, const char *at)
{
    for (guint i = 0; i < ranges->len; i++) {
        const struct fake_range *range = &g_array_index(ranges, struct fake_range, i);
        if (at >= range->at && at < range->at + range->bytes)
            return range;
    }
    return NULL;
}

/* The first gap that is large enough. */
cudaError_t
cudaMalloc(void **memory, size_t bytes)
{
    FAKE_MAY_FAIL();
    struct fake_range range = {fake.device, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT};
    guint i;

    fake_lock();
    for (i = 0; i < fake.allocated->len; i++) {
        const struct fake_range *next = &g_array_index(fake.allocated, struct fake_range, i);
        if (range.at + range.bytes <= next->at)
            break;
        range.at = next->at + next->bytes;
    }
    bool fits = range.at + range.bytes <= fake.device + fake_machine.memory_bytes;
    if (fits)
        g_array_insert_val(fake.allocated, i, range);
    fake_unlock();
    *memory = fits ? range.at : NULL;
    if (fits) /* NaN in bf16 and fp32: nobody may count on zeros */
        memset(fake.reach + (range.at - fake.device), 0xff, range.bytes);
    return fake_keep(fits ? cudaSuccess : cudaErrorMemoryAllocation);
}

static cudaError_t
forget(GArray *ranges, void *memory)
{
    cudaError_t status = memory ? cudaErrorInvalidValue : cudaSuccess;

    fake_lock();
    for (guint i = 0; memory && i < ranges->len; i++) {
        if (g_array_index(ranges, struct fake_range, i).at != memory)
            continue;
        g_array_remove_index(ranges, i);
        status = cudaSuccess;
        break;
    }
    fake_unlock();
    return fake_keep(status);
}

cudaError_t
cudaFree(void *memory)
{
    return memory ? forget(fake.allocated, memory) : cudaSuccess;
}

cudaError_t
cudaMemGetInfo(size_t *left, size_t *all)
{
    *all = *left = fake_machine.memory_bytes;
    fake_lock();
    for (guint i = 0; i < fake.allocated->len; i++)
        *left -= g_array_index(fake.allocated, struct fake_range, i).bytes;
    fake_unlock();
    return cudaSuccess;
}

cudaError_t
cudaHostRegister(void *memory, size_t bytes, unsigned flags)
{
    struct fake_range range = {memory, bytes};

    FAKE_MAY_FAIL();
    (void)flags;
    fake_lock();
    const char *border = fake_machine.border;
    bool refused = fake_range_of(fake.registered, memory) != NULL ||
                   (border && range.at < border && border < range.at + bytes);
    if (!refused)
        g_array_append_val(fake.registered, range);
    fake_unlock();
    return fake_keep(refused ? cudaErrorInvalidValue : cudaSuccess);
}

cudaError_t
cudaHostUnregister(void *memory)
{
    return forget(fake.registered, memory);
}

char *
fake_reached(const void *memory)
{
    char *at = (char *)memory;

    fake_lock();
    bool device = fake_range_of(fake.allocated, at) != NULL;
    bool host = fake_range_of(fake.registered, at) != NULL;
    fake_unlock();
    return device ? fake.reach + (at - fake.device) : host ? at : NULL;
}

void *
fake_at(const void *memory)
{
    char *at = memory ? fake_reached(memory) : NULL;

    if (memory && !at)
        g_error("a kernel was given %p, which is neither the device's nor registered", memory);
    return at;
}
