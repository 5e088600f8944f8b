/* Errors of the library: GLib's, with the setting that they blame. */
#include <string.h>

#include "base/error.h"
#include "lib/question.h"

struct memwall_error {
    enum memwall_code code;
    char *message;
    const char *setting; /* lives as long as the process, or NULL */
};

static enum memwall_code
code_of(const GError *error)
{
    static const enum memwall_code codes[] = {
        [MW_ERROR_INVALID] = MEMWALL_INVALID, [MW_ERROR_FORMAT] = MEMWALL_FORMAT,
        [MW_ERROR_IO] = MEMWALL_IO,           [MW_ERROR_DEVICE] = MEMWALL_DEVICE,
        [MW_ERROR_LARGE] = MEMWALL_LARGE,
    };
    bool known =
        error->domain == MW_ERROR && error->code >= 0 && error->code < (int)G_N_ELEMENTS(codes);

    return known ? codes[error->code] : MEMWALL_IO;
}

static bool
is_key(const char *name)
{
    g_auto(GStrv) keys = memwall_names("keys");

    return g_strv_contains((const char *const *)keys, name);
}

/* A message begins with the setting that it blames: "batch=0: must be", "gpu.memory_gib=x: ". */
static const char *
setting_of(const char *message)
{
    static const char *const others[] = {"model", "hardware", "strategy", "outlook", NULL};
    size_t length = strcspn(message, "=: ");
    g_autofree char *name = g_strndup(message, length);

    if (message[length] != '=' && message[length] != ':')
        return NULL;
    if (strchr(name, '.'))
        return is_key(name) ? g_intern_string(name) : NULL;
    return mw_setting_find(name) || g_strv_contains(others, name) ? g_intern_string(name) : NULL;
}

bool
mw_lib_fail(GError *failed, const char *setting, struct memwall_error **error)
{
    const char *named = setting_of(failed->message);

    if (error) {
        *error = g_new(struct memwall_error, 1);
        **error = (struct memwall_error){code_of(failed), g_strdup(failed->message),
                                         named ? named : g_intern_string(setting)};
    }
    g_error_free(failed);
    return false;
}

enum memwall_code
memwall_error_code(const struct memwall_error *error)
{
    return error->code;
}

const char *
memwall_error_message(const struct memwall_error *error)
{
    return error->message;
}

const char *
memwall_error_setting(const struct memwall_error *error)
{
    return error->setting;
}

void
memwall_error_free(struct memwall_error *error)
{
    if (!error)
        return;
    g_free(error->message);
    g_free(error);
}
