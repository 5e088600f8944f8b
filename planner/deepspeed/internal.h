/*
 * internal.h - a ds_config.json as read, before it is applied to settings.
 */
#ifndef MW_PLANNER_DEEPSPEED_INTERNAL_H
#define MW_PLANNER_DEEPSPEED_INTERNAL_H

#include <json-glib/json-glib.h>

#include "planner/deepspeed/deepspeed.h"

/* Values; each has one or more names in the file.  DS_CHECKED: only its type is checked. */
enum mw_ds_key {
    DS_UNKNOWN,
    DS_CHECKED,
    DS_TRAIN_BATCH,
    DS_MICRO_BATCH,
    DS_GRAD_ACCUM,
    DS_SLICING, /* GPUs that a tensor is sliced over; 0 and 1: no slicing */
    DS_FP16,
    DS_BF16,
    DS_ZERO, /* the section is present */
    DS_STAGE,
    DS_OVERLAP,
    DS_SUB_GROUP,
    DS_PREFETCH,
    DS_PARAM_DEVICE, /* an enum mw_tier, like the next three */
    DS_PARAM_DEVICE_OLD,
    DS_OPTIMIZER_DEVICE,
    DS_OPTIMIZER_DEVICE_OLD,
    DS_SEQUENCE_PARALLEL,
    DS_AUTOCAST,
    DS_RATIO, /* of the optimizer state that is offloaded, in millionths */
    DS_PIPELINE_READ,
    DS_PIPELINE_WRITE,
    DS_CPU_CHECKPOINTING,
    DS_PARTITION_ACTIVATIONS,
    DS_SUM_DTYPE,    /* for sums of micro-batches; an enum mw_dtype */
    DS_MASTER16,     /* the optimizer keeps parameters and gradients in 16 bits */
    DS_MOMENTS16,    /* and its momentum and variance */
    DS_OPTIMIZER,    /* 1: Adam or AdamW, 0: another */
    DS_OWN_STRATEGY, /* an enum mw_strategy; this and all below are in memwall's own section */
    DS_OWN_PARAM,    /* a placement, like the next three */
    DS_OWN_GRADIENT,
    DS_OWN_OPTIMIZER,
    DS_OWN_ACTIVATION,
    DS_OWN_INTERVAL,
    DS_OWN_RECOMPUTE_LAYERS,
    DS_OWN_RECOMPUTE_LIST,
    DS_OWN_STAGE_SPLIT,
    DS_OWN_STAGE_REPLICAS,
    DS_OWN_PARAM_LOADS,
    DS_OWN_TILES,
    DS_OWN_LOGITS_CHUNKS,
    DS_OWN_PREFETCH,
    DS_OWN_PREFETCH_NC, /* the stages in order */
    DS_OWN_PREFETCH_CG,
    DS_OWN_PREFETCH_GG,
    DS_OWN_OVERLAP,
    DS_OWN_CHUNK,
    DS_OWN_BUFFER_SETS,
    DS_OWN_OWNER,
    DS_OWN_FP32_GRADIENTS,
    DS_OWN_COMMIT,
    DS_OWN_SAVE_EVERY,
    DS_OWN_DPU_START,
    DS_OWN_UPDATE_BESIDE,
    DS_OWN_UPDATE_ON_GPU,
    DS_OWN_ASYNCHRONOUS,
    DS_OWN_SCHEDULE,
    DS_OWN_WEIGHTS_LATER,
    DS_OWN_NO_FLUSH,
    DS_OWN_STASHES,
    DS_OWN_VERTICAL_SYNC,
    DS_OWN_VIRTUAL_STAGES,
    DS_OWN_SHARD_GROUP,
    DS_OWN_LAYER_ORDER,
    DS_OWN_WHOLE_CHECKPOINTS,
    DS_KEY_COUNT
};

#define DS_WHOLE INT64_C(1000000) /* all, of a share */
#define DS_ABSENT (-2)            /* beside MW_AUTO; all given values are >= 0 */

enum mw_ds_kind {
    KIND_SECTION,
    KIND_CLOSED, /* a section of a class of DeepSpeed's, which refuses a name that it does not know
                    and takes "3" for 3 and 1 for true */
    KIND_BOOL,
    KIND_WHOLE,
    KIND_NUMBER,
    KIND_SHARE, /* a number from 0 to 1, as millionths */
    KIND_DEVICE,
    KIND_CPU_OFFLOAD,
    KIND_OPTIMIZER,
    KIND_SUM_DTYPE,
    KIND_STRATEGY,
    KIND_PLACEMENT,
    KIND_LAYERS,   /* a set of layers, by the GQuark of its text */
    KIND_REPLICAS, /* of stages, likewise */
    KIND_REMOVED,  /* DeepSpeed had it once, and refuses it now */
    KIND_ANY       /* known to DeepSpeed, not examined */
};

struct mw_ds_row {
    const char *name; /* dotted */
    enum mw_ds_key key;
    enum mw_ds_kind kind;
    int64_t min, max; /* of memwall's own section 0: the setting's of that name */
};

struct mw_ds_name {
    char *name; /* dotted */
    enum mw_ds_key key;
};

struct mw_ds_file {
    const char *origin;
    GArray *names;     /* struct mw_ds_name, in the order of the file */
    GPtrArray *notes;  /* char * */
    int64_t sum_bytes; /* as in struct mw_deepspeed_said */
    int unknown;       /* keys that DeepSpeed refuses */
    int passed;        /* keys that DeepSpeed ignores */
    int looked, near;  /* of those: compared with the known names, and near to one */
    struct {
        int64_t value;
        const char *name;              /* the name under which it was found; NULL: absent */
        char *text;                    /* as JSON */
        bool used;                     /* it has had an effect */
        struct mw_placement placement; /* for keys whose value is a placement */
    } key[DS_KEY_COUNT];
};

void mw_ds_note(struct mw_ds_file *file, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* Sets `error`: file, key, value, what is accepted; returns false. */
bool mw_ds_refuse(const char *origin, const char *name, const char *text, const char *accepted,
                  GError **error);

/* planner/deepspeed/value.c: reads one value as the row says; `lax`: in a section of kind
 * KIND_CLOSED.  False: the value does not match. */
bool mw_ds_read_value(JsonNode *node, const struct mw_ds_row *row, bool lax, int64_t *out,
                      struct mw_placement *placement);
char *mw_ds_accepted(const struct mw_ds_row *row); /* for a refusal; g_free it */
bool mw_ds_is_text(JsonNode *node, const char *text);

/* Checks the values against each other, and applies them. */
bool mw_ds_apply(struct mw_ds_file *file, int64_t world_size, struct mw_settings *settings,
                 GError **error);

/* The slowest tier of a placement: DeepSpeed has no splits over tiers, except parameters kept in
 * CPU memory beside NVMe. */
enum mw_tier mw_ds_slowest(const struct mw_placement *placement);

/* planner/deepspeed/own.c: memwall's own section, which DeepSpeed ignores. */
void mw_ds_apply_own(struct mw_ds_file *file, struct mw_settings *settings);
/* `sets`: sets of optimizer buffers that DeepSpeed's keys give. */
void mw_ds_write_own(JsonBuilder *json, const struct mw_settings *settings, int64_t sets);

#endif
