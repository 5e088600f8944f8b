#include "exec/device/cuda/pinned.h"

#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <stdio.h>

const char *mw_cuda_mappings = "/proc/self/smaps";

struct range {
    char *memory; /* that was pinned */
    char *at;     /* of the range in it */
};

struct mw_cuda_pinned {
    const struct mw_cuda_gpu *gpu;
    GArray *ranges; /* struct range */
};

struct mw_cuda_pinned *
mw_cuda_pinned_create(const struct mw_cuda_gpu *gpu)
{
    struct mw_cuda_pinned *pinned = g_new0(struct mw_cuda_pinned, 1);

    pinned->gpu = gpu;
    pinned->ranges = g_array_new(FALSE, FALSE, sizeof(struct range));
    return pinned;
}

void
mw_cuda_pinned_destroy(struct mw_cuda_pinned *pinned)
{
    if (!pinned)
        return;
    g_array_free(pinned->ranges, TRUE);
    g_free(pinned);
}

/* The size of the pages at `at`, and where their mapping ends; 0: not known. */
static int64_t
find_page_kib(const char *at, const char **end)
{
    FILE *file = fopen(mw_cuda_mappings, "re");
    char text[512];
    uint64_t first, last = 0;
    bool inside = false;
    int64_t kib = 0;

    while (file && !kib && fgets(text, sizeof text, file)) {
        if (sscanf(text, "%" SCNx64 "-%" SCNx64 " ", &first, &last) == 2)
            inside = first <= (uintptr_t)at && (uintptr_t)at < last;
        else if (inside && sscanf(text, "KernelPageSize: %" SCNd64, &kib) == 1)
            *end = (const char *)(uintptr_t)last;
    }
    if (file)
        fclose(file);
    return kib;
}

/* Of the bytes from `at` on, how many are on pages of one size; which, or 0 where that is not
 * known. */
static int64_t
same_pages(const char *at, int64_t bytes, int64_t *kib)
{
    const char *end = at, *beyond = at;

    *kib = find_page_kib(at, &end);
    while (*kib && end < at + bytes && find_page_kib(end, &beyond) == *kib)
        end = beyond;
    return *kib ? MIN(end - at, bytes) : bytes;
}

static cudaError_t
take(struct mw_cuda_pinned *pinned, char *memory, char *at, int64_t bytes)
{
    struct range range = {memory, at};
    cudaError_t status =
        cudaHostRegister(at, (size_t)bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);

    if (status == cudaSuccess)
        g_array_append_val(pinned->ranges, range);
    return status;
}

static bool
refuse(const struct mw_cuda_pinned *pinned, cudaError_t status, int64_t bytes, int64_t kib,
       GError **error)
{
    g_autofree char *text = g_strdup_printf(
        "cudaHostRegister of %" PRId64 " bytes on pages of %" PRId64 " KiB", bytes, kib);

    return mw_cuda_check(pinned->gpu, status, text, error);
}

bool
mw_cuda_pin(struct mw_cuda_pinned *pinned, void *memory, int64_t bytes, GError **error)
{
    char *start = memory;
    cudaError_t status = take(pinned, start, start, bytes);

    if (status == cudaSuccess)
        return true;
    int64_t kib, span = same_pages(start, bytes, &kib);
    if (span == bytes)
        return refuse(pinned, status, bytes, kib, error);
    cudaGetLastError(); /* by ranges it may yet do */
    for (int64_t at = 0; at < bytes; at += span) {
        span = same_pages(start + at, bytes - at, &kib);
        status = take(pinned, start, start + at, span);
        if (status == cudaSuccess)
            continue;
        mw_cuda_unpin(pinned, memory);
        return refuse(pinned, status, span, kib, error);
    }
    return true;
}

void
mw_cuda_unpin(struct mw_cuda_pinned *pinned, void *memory)
{
    for (guint i = pinned->ranges->len; i-- > 0;) {
        struct range range = g_array_index(pinned->ranges, struct range, i);
        if (range.memory != memory)
            continue;
        cudaHostUnregister(range.at);
        g_array_remove_index(pinned->ranges, i);
    }
}

int64_t
mw_cuda_pinned_span(const struct mw_cuda_pinned *pinned, const void *at, int64_t bytes)
{
    const char *from = at;

    for (guint i = 0; i < pinned->ranges->len; i++) {
        const char *border = g_array_index(pinned->ranges, struct range, i).at;
        if (from < border && border < from + bytes)
            bytes = border - from;
    }
    return bytes;
}
