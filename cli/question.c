#include "cli/question.h"

#include <string.h>

#include "base/error.h"
#include "software/software.h"

bool
cli_take_error(struct memwall_error *failed, GError **error)
{
    static const enum mw_error codes[] = {
        [MEMWALL_INVALID] = MW_ERROR_INVALID, [MEMWALL_FORMAT] = MW_ERROR_FORMAT,
        [MEMWALL_IO] = MW_ERROR_IO,           [MEMWALL_DEVICE] = MW_ERROR_DEVICE,
        [MEMWALL_LARGE] = MW_ERROR_LARGE,
    };

    g_set_error_literal(error, MW_ERROR, (int)codes[memwall_error_code(failed)],
                        memwall_error_message(failed));
    memwall_error_free(failed);
    return false;
}

bool
cli_question_set(struct memwall_question *question, const char *name, const char *text,
                 GError **error)
{
    struct memwall_error *failed = NULL;

    return memwall_question_set(question, name, text, &failed) || cli_take_error(failed, error);
}

bool
cli_question_set_key(struct memwall_question *question, const char *assignment, GError **error)
{
    const char *equals = strchr(assignment, '=');
    const struct mw_profile_kind *kind;
    const char *key = mw_key_of(assignment, &kind);

    if (!mw_profile_set_check(kind, key, error))
        return false;
    g_autofree char *name = g_strndup(assignment, (gsize)(equals - assignment));
    return cli_question_set(question, name, equals + 1, error);
}

bool
cli_question_check(const struct memwall_question *question, GError **error)
{
    struct memwall_error *failed = NULL;

    return memwall_question_check(question, &failed) || cli_take_error(failed, error);
}
