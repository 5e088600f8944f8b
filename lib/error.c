/* Errors of the library: GLib's, with the name of the setting that is wrong. */
#include <string.h>

#include "base/error.h"
#include "base/spell.h"
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

/* The rest of a message that begins with a name as this program spells it; else NULL. */
static const char *
rest_of_message(const char *message, const char *name)
{
    g_autofree char *braced = g_strdup_printf("{%s}", name);
    g_autofree char *spelled = mw_spelled(braced);
    size_t length = strlen(spelled);

    return g_str_has_prefix(message, spelled) && strchr("= :,", message[length]) && message[length]
               ? message + length
               : NULL;
}

/* "gpu.memory_gib=x: ", or as a command spells that. */
static const char *
key_of(const char *message)
{
    g_autofree char *before = mw_spelled("{key a.b}");
    size_t length = strlen(before) - strlen("a.b");

    if (strncmp(message, before, length))
        return NULL;
    message += length;
    g_autofree char *name = g_strndup(message, strcspn(message, "=: "));
    return is_key(name) ? g_intern_string(name) : NULL;
}

const char *
mw_lib_setting_of(const char *message)
{
    for (int i = 0; i < MW_SETTINGS_COUNT; i++)
        if (rest_of_message(message, mw_settings_table[i].name))
            return mw_settings_table[i].name;
    for (int i = 0; mw_lib_names[i]; i++)
        if (rest_of_message(message, mw_lib_names[i]))
            return mw_lib_names[i];
    return key_of(message);
}

bool
mw_lib_fail(GError *failed, const char *setting, struct memwall_error **error)
{
    const char *named = mw_lib_setting_of(failed->message);

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
