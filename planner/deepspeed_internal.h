/*
 * deepspeed_internal.h - a ds_config.json as read, before it is applied to settings.
 */
#ifndef MW_PLANNER_DEEPSPEED_INTERNAL_H
#define MW_PLANNER_DEEPSPEED_INTERNAL_H

#include "planner/deepspeed.h"

/* Values, one or more names of the file each.  DS_CHECKED: only its type is looked at. */
enum mw_ds_key {
    DS_UNKNOWN,
    DS_CHECKED,
    DS_TRAIN_BATCH,
    DS_MICRO_BATCH,
    DS_GRAD_ACCUM,
    DS_FP16,
    DS_BF16,
    DS_ZERO, /* the section is there */
    DS_STAGE,
    DS_OVERLAP,
    DS_SUB_GROUP,
    DS_PREFETCH,
    DS_PARAM_DEVICE, /* an enum mw_tier, as the next three */
    DS_PARAM_DEVICE_OLD,
    DS_OPTIMIZER_DEVICE,
    DS_OPTIMIZER_DEVICE_OLD,
    DS_RATIO, /* rounded down: 1, or 0 for a part of the optimizer */
    DS_PIPELINE_READ,
    DS_PIPELINE_WRITE,
    DS_CPU_CHECKPOINTING,
    DS_OPTIMIZER, /* its type: 1 Adam or AdamW, 0 another */
    DS_KEY_COUNT
};

#define DS_ABSENT (-2) /* beside MW_AUTO; every value given is >= 0 */

struct mw_ds_name {
    char *name; /* dotted */
    enum mw_ds_key key;
};

struct mw_ds_file {
    const char *origin;
    GArray *names;    /* struct mw_ds_name, in the order of the file */
    GPtrArray *notes; /* char * */
    struct {
        int64_t value;
        const char *name; /* under which it was found; NULL when absent */
        char *text;       /* as JSON */
        bool used;        /* it had an effect */
    } key[DS_KEY_COUNT];
};

void mw_ds_note(struct mw_ds_file *file, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* Sets `error`: file, key, value, what is accepted; returns false. */
bool mw_ds_refuse(const char *origin, const char *name, const char *text, const char *accepted,
                  GError **error);

/* Checks the values against each other and carries them over. */
bool mw_ds_apply(struct mw_ds_file *file, int64_t world_size, struct mw_settings *settings,
                 GError **error);

#endif
