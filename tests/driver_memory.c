#include "tests/driver_memory.h"

#include <string.h>

#define ALIGNMENT 64
#define GUARD_BYTES 64 /* at least */

struct driver_guard {
    char *at;
    int64_t bytes;
};

struct driver_memory
driver_memory_start(const struct mw_drive_device *device)
{
    return (struct driver_memory){
        .device = device,
        .base = (char *)(uintptr_t)ALIGNMENT,
        .guards = g_array_new(false, false, sizeof(struct driver_guard)),
    };
}

void *
driver_memory_take(struct driver_memory *memory, int64_t bytes)
{
    char *taken = memory->base + memory->bytes;
    int64_t padded_bytes = (bytes + GUARD_BYTES + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    struct driver_guard guard = {taken + bytes, padded_bytes - bytes};

    g_array_append_val(memory->guards, guard);
    memory->bytes += padded_bytes;
    return taken;
}

void
driver_memory_reserve(struct driver_memory *memory)
{
    g_autofree char *poison = g_malloc((gsize)memory->bytes);

    memset(poison, DRIVER_POISON, (size_t)memory->bytes);
    memory->base = memory->device->allocate(memory->bytes);
    memory->device->write(memory->base, poison, memory->bytes);
    memory->bytes = 0;
    g_array_set_size(memory->guards, 0);
}

static const struct driver_guard *
guard_at(const struct driver_memory *memory, guint i)
{
    return &g_array_index(memory->guards, struct driver_guard, i);
}

void
driver_memory_forbid(struct driver_memory *memory)
{
    for (guint i = 0; i < memory->guards->len; i++)
        memory->device->forbid(guard_at(memory, i)->at, guard_at(memory, i)->bytes);
}

static void
check_guard(const struct driver_memory *memory, const struct driver_guard *guard)
{
    g_autofree unsigned char *content = g_malloc((gsize)guard->bytes);

    memory->device->read(content, guard->at, guard->bytes);
    for (int64_t i = 0; i < guard->bytes; i++)
        g_assert_cmphex(content[i], ==, DRIVER_POISON);
}

void
driver_memory_release(struct driver_memory *memory)
{
    memory->device->allow(memory->base, memory->bytes);
    for (guint i = 0; i < memory->guards->len; i++)
        check_guard(memory, guard_at(memory, i));
    memory->device->release(memory->base);
    g_array_unref(memory->guards);
}
