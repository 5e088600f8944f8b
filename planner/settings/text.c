/* Settings as texts: the other direction of table.c. */
#include <string.h>

#include "base/typed.h"
#include "plan/optimizers.h"
#include "planner/settings/table.h"

static int64_t
load_integer(const struct mw_setting *setting, const char *field)
{
    int64_t value;

    if (setting->size == sizeof(int64_t)) {
        memcpy(&value, field, sizeof value);
        return value;
    }
    return setting->size == sizeof(int) ? *(const int *)(const void *)field
                                        : *(const bool *)(const void *)field;
}

/* A number that has a name is written by it. */
static char *
integer_text(const struct mw_setting *setting, const char *field)
{
    int64_t value = load_integer(setting, field);

    for (const struct mw_setting_choice *choice = setting->choices; choice && choice->name;
         choice++)
        if (choice->value == value)
            return g_strdup(choice->name);
    return setting->kind == MW_SETTING_CHOICE ? NULL : g_strdup_printf("%" G_GINT64_FORMAT, value);
}

static char *
real_text(const struct mw_setting *setting, const char *field)
{
    double value;

    memcpy(&value, field, sizeof value);
    for (const struct mw_setting_choice *choice = setting->choices; choice && choice->name;
         choice++)
        if ((double)choice->value == value)
            return g_strdup(choice->name);
    return mw_typed(value);
}

static char *
depths_text(const struct mw_settings *settings)
{
    const int64_t *stage = settings->prefetch_stage;

    if (!mw_settings_has_fetch_stages(settings))
        return g_strdup_printf("%" G_GINT64_FORMAT, settings->prefetch);
    return g_strdup_printf("%" G_GINT64_FORMAT ":%" G_GINT64_FORMAT ":%" G_GINT64_FORMAT,
                           stage[MW_FETCH_NC], stage[MW_FETCH_CG], stage[MW_FETCH_GG]);
}

static char *
replicas_text(const char *field)
{
    char text[MW_STAGE_REPLICAS_TEXT_MAX];

    mw_stage_replicas_write((const struct mw_stage_replicas *)(const void *)field, text);
    return g_strdup(text);
}

static char *
layers_text(const char *field)
{
    char text[MW_LAYER_SET_TEXT_MAX];

    mw_layer_set_write((const struct mw_layer_set *)(const void *)field, text);
    return g_strdup(text);
}

static char *
word_text(const char *field)
{
    const char *word;

    memcpy(&word, field, sizeof word);
    return g_strdup(word);
}

char *
mw_setting_text(const struct mw_setting *setting, const struct mw_settings *settings)
{
    const char *field = (const char *)settings + setting->offset;

    if (mw_setting_is_usual(setting, settings))
        return NULL;
    switch (setting->kind) {
    case MW_SETTING_INTEGER:
    case MW_SETTING_WHOLE_COUNT:
    case MW_SETTING_CHOICE:
        return integer_text(setting, field);
    case MW_SETTING_REAL:
    case MW_SETTING_COUNT:
        return real_text(setting, field);
    case MW_SETTING_PLACEMENT:
        return mw_placement_text((const struct mw_placement *)(const void *)field);
    case MW_SETTING_DEPTHS:
        return depths_text(settings);
    case MW_SETTING_OPTIMIZER:
        return g_strdup(mw_optimizer_name(settings->optimizer));
    case MW_SETTING_GATE:
        return g_strdup(mw_gate_name((int)settings->gate));
    case MW_SETTING_DROPS:
    case MW_SETTING_NAME:
        return word_text(field);
    case MW_SETTING_LAYERS:
        return setting->choices && mw_settings_balances_stages(settings)
                   ? g_strdup(setting->choices->name)
                   : layers_text(field);
    case MW_SETTING_REPLICAS:
        return replicas_text(field);
    case MW_SETTING_TRAIN:
        return mw_setting_trained_text(&settings->trained);
    }
    return NULL;
}
