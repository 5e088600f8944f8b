/*
 * deepspeed.h - DeepSpeed's ds_config.json, read into settings and written from them.
 *
 * Read: zero_optimization.stage, offload_param, offload_optimizer (device, pin_memory, buffer
 * sizes), overlap_comm, stage3_prefetch_bucket_size, train_batch_size,
 * train_micro_batch_size_per_gpu, gradient_accumulation_steps, fp16 / bf16, gradient_clipping,
 * activation_checkpointing, aio.  "auto" leaves a setting to the planner; 5e8 is a fine integer;
 * aio.thread_count is the older name of intra_op_parallelism.  Keys that have no effect on a plan
 * are listed, unknown ones too.
 */
#ifndef MW_PLANNER_DEEPSPEED_H
#define MW_PLANNER_DEEPSPEED_H

#include <glib.h>

#include "planner/settings.h"

/* Applies the file to `settings` (fields that it does not name stay as they are).  `ignored`, if
 * not NULL, gets the dotted names of keys without effect, NULL-terminated; g_strfreev.
 * `world_size` checks train_batch_size = micro-batch * accumulation * data-parallel ranks;
 * 0: not known. */
bool mw_deepspeed_load(const char *path, int64_t world_size, struct mw_settings *settings,
                       char ***ignored, GError **error);
bool mw_deepspeed_parse(const char *text, gssize length, const char *origin, int64_t world_size,
                        struct mw_settings *settings, char ***ignored, GError **error);

/* What the plan needs to be written.  Whole numbers; devices of the resolved settings. */
struct mw_deepspeed_facts {
    double micro_batch;
    int64_t grad_accum;
    double train_batch;
    int64_t prefetch_elements;    /* parameters that are fetched ahead */
    int64_t live_elements;        /* parameters held on a GPU at most */
    int64_t largest_unit_elements; /* the largest fetch unit */
    int64_t buffer_count;         /* pinned slots of the parameter path */
    int64_t nvme_queue_depth;
    bool bf16;
};

/* Text of a ds_config.json for these (resolved) settings; g_free it. */
char *mw_deepspeed_text(const struct mw_settings *settings, const struct mw_deepspeed_facts *facts);

#endif
