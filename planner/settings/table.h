/*
 * table.h - what may be requested of a plan, by name: one row each, from which parsing, checks and
 * help are made.  The command's options are these rows, and so are the settings of the library
 * (lib/memwall.h).
 */
#ifndef MW_PLANNER_SETTINGS_TABLE_H
#define MW_PLANNER_SETTINGS_TABLE_H

#include <glib.h>
#include <stdbool.h>

#include "model/model.h"
#include "planner/settings/settings.h"

/* A count may end in k, M, B or T, as counts are printed: thousands, never 1,024.  Lengths and
 * sizes, where 4k could be either, take no such ending. */
enum mw_setting_kind {
    MW_SETTING_INTEGER,
    MW_SETTING_WHOLE_COUNT,
    MW_SETTING_REAL,
    MW_SETTING_COUNT,
    MW_SETTING_PLACEMENT,
    MW_SETTING_CHOICE,
    MW_SETTING_DEPTHS,    /* one number, or one for each stage of a fetch: nc:cg:gg */
    MW_SETTING_OPTIMIZER, /* a name of plan/optimizers.h */
    MW_SETTING_GATE,      /* a name of plan/gates.h */
    MW_SETTING_DROPS,     /* a schedule of layers (drops.h) */
    MW_SETTING_LAYERS,    /* a set of layers: 0-3,8 */
    MW_SETTING_REPLICAS,  /* of each stage of a pipeline: 2,1,1 */
    MW_SETTING_NAME,      /* of a model */
    MW_SETTING_TRAIN      /* names of operators, and adapters: lora:RANK[@OPERATOR|MATRIX+...] */
};

/* The groups of settings, in the order of the help. */
enum mw_settings_group {
    MW_SETTINGS_BATCH,
    MW_SETTINGS_PLACES,
    MW_SETTINGS_MEMORY,
    MW_SETTINGS_SCHEDULE,
    MW_SETTINGS_DURABLE,
    MW_SETTINGS_OBJECTIVE,
    MW_SETTINGS_COST,
    MW_SETTINGS_GROUPS
};

struct mw_setting_choice {
    const char *name;
    int value;
};

struct mw_setting {
    enum mw_settings_group group;
    const char *name;
    enum mw_setting_kind kind;
    size_t offset; /* in struct mw_settings */
    size_t size;
    double min, max;
    const char *open;                        /* the word for its open value; NULL: it has none */
    const struct mw_setting_choice *choices; /* ended by a NULL name; NULL: not a choice.  Of a
                                              * number the first names one */
    const char *argument;                    /* what stands for the value in help */
    const char *help;                        /* settings in braces: see mw_setting_help;
                                              * MW_SETTING_TRAIN: operators follow */
};

#define MW_SETTINGS_COUNT 68

extern const struct mw_setting mw_settings_table[MW_SETTINGS_COUNT];
extern const char *const mw_settings_group_titles[MW_SETTINGS_GROUPS];

/* The row of that name; NULL: there is none. */
const struct mw_setting *mw_setting_find(const char *name);

/* The help text, with settings spelled as this program spells them (base/spell.h).  g_free it. */
char *mw_setting_help(const struct mw_setting *setting);

/* Whether the setting has its default value. */
bool mw_setting_is_usual(const struct mw_setting *setting, const struct mw_settings *settings);

/* Parses the text into `settings`; fails with one line that names setting, value and range.
 * `sliced`: GPUs share a micro-batch (tp, cp), and each may have a fraction of a sequence. */
bool mw_setting_read(const struct mw_setting *setting, const char *text, bool sliced,
                     struct mw_settings *settings, GError **error);

/* The setting's value as mw_setting_read takes it; NULL: it has its default.  g_free it. */
char *mw_setting_text(const struct mw_setting *setting, const struct mw_settings *settings);

/* Whether the model has all these modules (mw_settings.trained_modules), if it is known what it
 * calls them. */
bool mw_setting_check_modules(const struct mw_model *model, uint64_t named, GError **error);

/* What is trained, as {train} takes it; NULL: all.  g_free it. */
char *mw_setting_trained_text(const struct mw_trained *trained);

#endif
