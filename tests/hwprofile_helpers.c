#include "tests/hwprofile_helpers.h"

struct mw_profile *
mw_test_load(const char *name)
{
    g_autoptr(GError) error = NULL;
    struct mw_profile *profile = mw_hwprofile_load(name, &error);

    g_assert_no_error(error);
    g_assert_nonnull(profile);
    return profile;
}

char *
mw_test_printed(const struct mw_profile *profile)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    mw_profile_print(out, profile);
    fclose(out);
    return text;
}
