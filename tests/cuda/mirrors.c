#include "tests/cuda/mirrors.h"

#include <string.h>

#include "tests/cuda/device_memory.h"

#define GUARD_BYTES 256
#define GUARD 0xff /* NaN, for kernels that read it */

struct mirror {
    const char *host; /* NULL: scratch */
    gboolean written;
    char *memory, *device;
    int64_t bytes, memory_bytes;
};

void
mw_mirrors_begin_aligned(struct mw_mirrors *mirrors)
{
    mirrors->all = g_array_new(FALSE, FALSE, sizeof(struct mirror));
    mirrors->anywhere_from = mirrors->anywhere_to = 0;
}

void
mw_mirrors_begin(struct mw_mirrors *mirrors)
{
    int kind = g_test_rand_int_range(0, 3);

    mw_mirrors_begin_aligned(mirrors);
    if (kind == 0)
        return;
    mirrors->anywhere_from = kind == 1 ? (guint)g_test_rand_int_range(0, 6) : 0;
    mirrors->anywhere_to = kind == 1 ? mirrors->anywhere_from + 1 : G_MAXUINT;
}

static struct mirror *
mirror_at(const struct mw_mirrors *mirrors, guint i)
{
    return &g_array_index(mirrors->all, struct mirror, i);
}

/* That a host buffer lies in, NULL: none. */
static struct mirror *
find(const struct mw_mirrors *mirrors, const char *host, int64_t bytes)
{
    for (guint i = 0; i < mirrors->all->len; i++) {
        struct mirror *mirror = mirror_at(mirrors, i);
        if (!mirror->host || host + bytes <= mirror->host || host >= mirror->host + mirror->bytes)
            continue;
        if (host < mirror->host || host + bytes > mirror->host + mirror->bytes)
            g_error("a buffer lies partly in another");
        return mirror;
    }
    return NULL;
}

static void
forbid_guards(const struct mirror *mirror)
{
    const char *behind = mirror->device + mirror->bytes;

    mw_test_device_forbid(mirror->memory, mirror->device - mirror->memory);
    mw_test_device_forbid(behind, mirror->memory + mirror->memory_bytes - behind);
}

static struct mirror *
add(struct mw_mirrors *mirrors, const void *host, int64_t bytes, int64_t shift_bytes)
{
    int64_t all_bytes = 2 * GUARD_BYTES + shift_bytes + bytes;
    struct mirror mirror = {.host = host, .bytes = bytes, .memory_bytes = all_bytes};
    g_autofree char *content = g_malloc((gsize)all_bytes);

    memset(content, GUARD, (size_t)all_bytes);
    if (host)
        memcpy(content + GUARD_BYTES + shift_bytes, host, (size_t)bytes);
    mirror.memory = mw_test_device_alloc(all_bytes);
    mirror.device = mirror.memory + GUARD_BYTES + shift_bytes;
    mw_test_device_write(mirror.memory, content, all_bytes);
    forbid_guards(&mirror);
    g_array_append_val(mirrors->all, mirror);
    return mirror_at(mirrors, mirrors->all->len - 1);
}

static char *
mirror_of(struct mw_mirrors *mirrors, const void *host, int64_t bytes, int element_bytes,
          gboolean written)
{
    if (!host)
        return NULL;
    struct mirror *mirror = find(mirrors, host, bytes);
    guint own = mirrors->all->len;
    gboolean anywhere = own >= mirrors->anywhere_from && own < mirrors->anywhere_to;
    if (!mirror)
        mirror =
            add(mirrors, host, bytes, anywhere ? element_bytes * g_test_rand_int_range(0, 16) : 0);
    mirror->written |= written;
    return mirror->device + ((const char *)host - mirror->host);
}

const void *
mw_mirror_in(struct mw_mirrors *mirrors, const void *host, int64_t bytes, int element_bytes)
{
    return mirror_of(mirrors, host, bytes, element_bytes, FALSE);
}

void *
mw_mirror_out(struct mw_mirrors *mirrors, void *host, int64_t bytes, int element_bytes)
{
    return mirror_of(mirrors, host, bytes, element_bytes, TRUE);
}

void *
mw_mirror_scratch(struct mw_mirrors *mirrors, int64_t bytes)
{
    return add(mirrors, NULL, bytes, 0)->device;
}

static void
expect_guard(const char *guard, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++)
        if ((unsigned char)guard[i] != GUARD)
            g_error("a kernel wrote outside of its buffer");
}

static void
end(struct mirror *mirror)
{
    g_autofree char *content = g_malloc((gsize)mirror->memory_bytes);
    int64_t before = mirror->device - mirror->memory;
    char *host = (char *)(uintptr_t)mirror->host;

    mw_test_device_allow(mirror->memory, mirror->memory_bytes);
    mw_test_device_read(content, mirror->memory, mirror->memory_bytes);
    expect_guard(content, before);
    expect_guard(content + before + mirror->bytes, mirror->memory_bytes - before - mirror->bytes);
    if (mirror->written)
        memcpy(host, content + before, (size_t)mirror->bytes);
    else if (host && memcmp(host, content + before, (size_t)mirror->bytes) != 0)
        g_error("a kernel wrote what it should only read");
    mw_test_device_free(mirror->memory);
}

void
mw_mirrors_end(struct mw_mirrors *mirrors, int status)
{
    g_assert_cmpint(status, ==, 0);
    for (guint i = 0; i < mirrors->all->len; i++)
        end(mirror_at(mirrors, i));
    g_array_unref(mirrors->all);
}
