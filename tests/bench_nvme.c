/*
 * How fast the NVMe tier moves data: bench_nvme [--directory DIR] [--mib N] [--block-kib N]
 * [--depth N] [--smoke] [--serve].
 *
 * Moves the whole file in requests of 256 MiB (two under way) and of 16 MiB (four), each direction.
 * With --serve it reads lines "read BYTES" and "write BYTES" (of a request) and answers each with
 * the bytes per second; the first line that it prints is the file's path and what its buffers are.
 */
#include <glib.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/memory/memory.h"
#include "exec/nvme/nvme.h"

static char *directory;
static int size_mib = 1024, block_kib = 1024, depth = 32;
static gboolean smoke, serve;

static const GOptionEntry entries[] = {
    {"directory", 0, 0, G_OPTION_ARG_FILENAME, &directory, "on the drive to measure", "DIR"},
    {"mib", 0, 0, G_OPTION_ARG_INT, &size_mib, "size of the file", "N"},
    {"block-kib", 0, 0, G_OPTION_ARG_INT, &block_kib, "longest transfer", "N"},
    {"depth", 0, 0, G_OPTION_ARG_INT, &depth, "transfers in flight", "N"},
    {"smoke", 0, 0, G_OPTION_ARG_NONE, &smoke, "small and once", NULL},
    {"serve", 0, 0, G_OPTION_ARG_NONE, &serve, "take orders from standard input", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

enum { SLOTS_MAX = 4 };

static void
check(bool ok, GError *error)
{
    if (ok)
        return;
    fprintf(stderr, "bench_nvme: %s\n", error->message);
    exit(1);
}

/* Requests of `bytes` over the whole file, in order; as many under way as the arena has slots for,
 * the next submitted when the oldest is done. */
static double
measure(struct mw_nvme *nvme, enum mw_nvme_direction direction, int64_t bytes,
        const struct mw_arena *arena)
{
    const int slots = (int)MIN(arena->bytes / bytes, SLOTS_MAX);
    const int64_t count = mw_nvme_capacity_bytes(nvme) / bytes;
    struct mw_nvme_request requests[SLOTS_MAX] = {0};
    GError *error = NULL;
    const int64_t began_us = g_get_monotonic_time();

    for (int64_t i = 0; i < count + slots; i++) {
        const int64_t slot = i % slots;

        if (i >= slots && i - slots < count)
            check(mw_nvme_wait(&requests[slot], &error), error);
        if (i < count)
            mw_nvme_submit(nvme, &requests[slot], direction, i * bytes, bytes,
                           arena->base + slot * bytes);
    }
    return (double)(count * bytes) * 1e6 / (double)(g_get_monotonic_time() - began_us);
}

static void
answer(struct mw_nvme *nvme, const struct mw_arena *arena)
{
    char line[128], verb[16];
    int64_t bytes;

    printf("%s %s, %" PRId64 " MiB of %" PRId64 " on huge pages, %s\n", mw_nvme_drive(nvme, 0).path,
           mw_nvme_drive(nvme, 0).direct ? "O_DIRECT" : "buffered", arena->huge_bytes >> 20,
           arena->bytes >> 20, arena->locked ? "locked" : "not locked");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "%15s %" SCNd64, verb, &bytes) != 2 || bytes < 1 || bytes > arena->bytes)
            return;
        printf("%.0f\n",
               measure(nvme, strcmp(verb, "read") ? MW_NVME_WRITE : MW_NVME_READ, bytes, arena));
        fflush(stdout);
    }
}

static void
print_all(struct mw_nvme *nvme, const struct mw_arena *arena, int64_t large_bytes, int rounds)
{
    for (int i = 0; i < rounds; i++)
        for (int part = 1; part <= 16; part *= 16)
            printf("requests of %" PRId64 " MiB: write %.2f GB/s, read %.2f GB/s\n",
                   large_bytes / part >> 20,
                   measure(nvme, MW_NVME_WRITE, large_bytes / part, arena) / 1e9,
                   measure(nvme, MW_NVME_READ, large_bytes / part, arena) / 1e9);
}

int
main(int argc, char **argv)
{
    g_autoptr(GOptionContext) context = g_option_context_new(NULL);
    GError *error = NULL;
    struct mw_arena arena;

    g_option_context_add_main_entries(context, entries, NULL);
    check(g_option_context_parse(context, &argc, &argv, &error), error);
    if (smoke)
        size_mib = 64;
    const int64_t large_bytes = smoke ? 16 << 20 : 256 << 20;
    const char *const place = directory ? directory : ".";
    const struct mw_nvme_options options = {
        .directories = &place,
        .directory_count = 1,
        .stem = "bench-nvme",
        .capacity_bytes = (int64_t)size_mib << 20,
        .block_bytes = (int64_t)block_kib << 10,
        .depth = depth,
    };
    struct mw_nvme *nvme = mw_nvme_open(&options, &error);
    check(nvme, error);
    check(mw_arena_reserve(&arena, "bench", 2 * large_bytes, &error), error);
    if (arena.notice && !serve)
        printf("%s\n", arena.notice);
    /* Blocks that were reserved but never written are slower to write and read as zeros. */
    measure(nvme, MW_NVME_WRITE, large_bytes, &arena);
    if (serve)
        answer(nvme, &arena);
    else
        print_all(nvme, &arena, large_bytes, smoke ? 1 : 5);
    mw_nvme_close(nvme);
    mw_arena_release(&arena);
    g_free(directory);
    return 0;
}
