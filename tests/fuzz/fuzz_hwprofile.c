#include <glib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hardware/hwprofile.h"
#include "tests/fuzz/fuzz.h"

static void
check_message(GError *error)
{
    g_assert_nonnull(error);
    g_assert_null(strchr(error->message, '\n'));
    g_assert_true(g_utf8_validate(error->message, -1, NULL));
    g_error_free(error);
}

static char *
printed(const struct mw_profile *profile)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    mw_profile_print(out, profile);
    fclose(out);
    return text;
}

/* What was accepted prints as text that is accepted and prints the same. */
static void
check_accepted(struct mw_profile *profile)
{
    GError *error = NULL;
    char *first = printed(profile);
    struct mw_profile *again =
        *first ? mw_profile_parse(&mw_hwprofile_kind, first, strlen(first), "again", &error) : NULL;

    if (again) {
        char *second = printed(again);
        g_assert_cmpstr(first, ==, second);
        free(second);
    }
    g_assert_no_error(error);
    mw_profile_free(again);
    free(first);
    for (int outlook = 0; outlook < MW_OUTLOOK_COUNT; outlook++) {
        struct mw_hardware at = mw_hwprofile_read(profile, (enum mw_outlook)outlook);
        g_assert_true(isfinite(at.gpu_memory_bytes_per_s));
        g_assert_cmpint(at.nvme_capacity_bytes, >=, 0);
        g_assert_cmpint(at.matmul_points, <=, MW_MATMUL_POINTS_MAX);
    }
    mw_profile_worst_provenance(profile);
    mw_profile_has_range(profile);
}

/* The first line also serves as an assignment of --set. */
static void
check_set(struct mw_profile *profile, const char *text)
{
    GError *error = NULL;
    g_autofree char *line = g_strndup(text, strcspn(text, "\n"));

    if (g_utf8_validate(line, -1, NULL) && !mw_profile_set(profile, line, &error))
        check_message(error);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    GError *error = NULL;
    struct mw_profile *profile =
        mw_profile_parse(&mw_hwprofile_kind, (const char *)data, size, "fuzz", &error);

    if (!profile) {
        check_message(error);
        return 0;
    }
    g_assert_no_error(error);
    check_accepted(profile);
    g_autofree char *text = g_strndup((const char *)data, size);
    check_set(profile, text[0] == '#' ? text + 1 : text);
    mw_profile_free(profile);
    return 0;
}
