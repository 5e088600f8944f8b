#include "cli/run/adapter.h"

#include <string.h>

#include "base/error.h"
#include "base/typed.h"
#include "cli/options.h"
#include "cli/run/options.h"
#include "model/model.h"

static void
take(const char *name, const char *value, GString *said)
{
    if (cli_options_take(name, value, false))
        g_string_append_printf(said, "%s--%s %s", said->len ? ", " : "", name, value);
}

static void
find_adapters(void *data, const char *name, const char *text)
{
    bool *has = data;

    *has = *has || (!strcmp(name, "train") && strstr(text, "lora:"));
}

static void
find_train(void *data, const char *name, const char *text)
{
    bool *given = data;

    *given = *given || !strcmp(name, "train");
}

bool
cli_run_adapter_trains(void)
{
    bool has = false;

    cli_options_each(find_adapters, &has);
    return has;
}

/* Without adapters to train there is nothing that an alpha could be of. */
static void
take_open(const struct mw_adapter_config *config, GString *said)
{
    g_autofree char *train = mw_model_adapter_config_text(config), *alpha = mw_typed(config->alpha);

    if (config->adapted)
        take("train", train, said);
    if (cli_run_adapter_trains())
        take("lora-alpha", alpha, said);
}

bool
cli_run_adapter_complete(bool planned, GError **error)
{
    g_autofree char *folder = cli_run_options_adapter();
    struct mw_adapter_config config;

    if (!folder)
        return true;
    if (!*folder)
        return mw_refuse(error, "--adapter: must name the folder that PEFT wrote");
    g_autofree char *path = g_build_filename(folder, "adapter_config.json", NULL);
    if (!mw_model_read_adapter_config(path, &config, error))
        return false;
    g_autoptr(GString) said = g_string_new(NULL);
    bool trained = planned;
    cli_options_each(find_train, &trained);
    if (!config.adapted && !trained)
        return mw_refuse(error,
                         "%s: target_modules: names no matrix that has adapters here: must be "
                         "\"all-linear\" or a list of modules such as [\"q_proj\", \"v_proj\"]; or "
                         "give {train=lora:%" G_GINT64_FORMAT "}",
                         path, config.rank);
    if (!planned)
        take_open(&config, said);
    if (said->len)
        g_string_prepend(said, "taken from its adapter_config.json: ");
    if (config.dropout > 0)
        g_string_append_printf(said,
                               "%slora_dropout %.15g is not followed: trained on without "
                               "dropout",
                               said->len ? "; " : "", config.dropout);
    if (said->len)
        cli_run_options_say(g_strdup_printf("--adapter %s: %s", folder, said->str));
    return true;
}
