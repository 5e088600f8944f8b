#include "cli/run/checkpoint_config.h"

#include <string.h>

/* The config.json that a model was read from is copied, if it can still be read. */
static char *
copy_of(const char *model_name)
{
    g_autofree char *file = NULL;
    gsize length;
    bool path = strchr(model_name, '/') || g_str_has_suffix(model_name, ".json");

    return path ? mw_model_read_config(model_name, &file, &length, NULL) : NULL;
}

char *
cli_checkpoint_config(const char *model_name, const struct mw_decoder *decoder)
{
    char *text = copy_of(model_name);

    return text ? text : mw_model_write_config(decoder);
}
