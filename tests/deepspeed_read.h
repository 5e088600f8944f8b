/*
 * deepspeed_read.h - a ds_config.json of a few words, read into default settings.
 */
#ifndef MW_TESTS_DEEPSPEED_READ_H
#define MW_TESTS_DEEPSPEED_READ_H

#include <glib.h>
#include <string.h>

#include "base/error.h"
#include "planner/deepspeed/deepspeed.h"

#define ORIGIN "ds.json"

static inline struct mw_settings
defaults(void)
{
    struct mw_settings settings;

    mw_settings_init(&settings);
    return settings;
}

/* An object with this content, which has single quotes for double ones.  g_free it. */
G_GNUC_PRINTF(1, 2)
static inline char *
object_of(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    g_autofree char *content = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    return g_strdelimit(g_strdup_printf("{%s}", content), "'", '"');
}

static inline struct mw_settings
parse(const char *text, int64_t world)
{
    struct mw_settings settings = defaults();
    GError *error = NULL;

    mw_deepspeed_parse(text, -1, ORIGIN, world, &settings, NULL, &error);
    g_assert_no_error(error);
    return settings;
}

/* Of parameters, gradients, optimizer state, activations; g_free it. */
static inline char *
devices(const struct mw_settings *settings)
{
    GString *text = g_string_new(NULL);

    for (int state = 0; state < MW_STATE_COUNT; state++) {
        g_autofree char *one = mw_placement_text(&settings->placement[state]);
        g_string_append_printf(text, "%s%s", state ? " " : "", *one ? one : "-");
    }
    return g_string_free(text, FALSE);
}

#endif
