#include "nvme_fixture.h"

#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>

void
mw_nvme_fixture_init(struct mw_nvme_fixture *fixture)
{
    g_autofree char *here = g_get_current_dir();

    fixture->root = g_build_filename(here, "nvme-test-XXXXXX", NULL);
    g_assert_nonnull(g_mkdtemp(fixture->root));
    for (int i = 0; i < MW_FIXTURE_DRIVES; i++) {
        fixture->directories[i] = g_strdup_printf("%s/drive%d", fixture->root, i);
        g_assert_cmpint(g_mkdir(fixture->directories[i], 0700), ==, 0);
    }
}

void
mw_nvme_fixture_remove(const char *path)
{
    g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
    const char *name;

    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *inner = g_build_filename(path, name, NULL);
        mw_nvme_fixture_remove(inner);
    }
    g_remove(path);
}

void
mw_nvme_fixture_finish(struct mw_nvme_fixture *fixture)
{
    mw_nvme_fixture_remove(fixture->root);
    for (int i = 0; i < MW_FIXTURE_DRIVES; i++)
        g_free(fixture->directories[i]);
    g_free(fixture->root);
}

struct mw_nvme_options
mw_nvme_fixture_options(const struct mw_nvme_fixture *fixture, int drives, int64_t capacity_bytes)
{
    return (struct mw_nvme_options){
        .directories = (const char *const *)fixture->directories,
        .directory_count = drives,
        .capacity_bytes = capacity_bytes,
        .block_bytes = 8192,
        .depth = 4,
    };
}

void
mw_nvme_fixture_mark(void *flag)
{
    g_atomic_int_set((gint *)flag, true);
}

char *
mw_nvme_fixture_buffer(int64_t bytes)
{
    char *buffer = aligned_alloc(4096, (size_t)((bytes + 4095) / 4096 * 4096));

    g_assert_nonnull(buffer);
    memset(buffer, 0, (size_t)bytes);
    return buffer;
}

void
mw_nvme_fixture_fill(char *buffer, int64_t bytes, GRand *random)
{
    for (int64_t i = 0; i < bytes; i += 4) {
        const guint32 word = g_rand_int(random);
        memcpy(buffer + i, &word, (size_t)MIN(4, bytes - i));
    }
}
