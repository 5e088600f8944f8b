/*
 * deepspeed.h - DeepSpeed's ds_config.json, read into settings and written from them.
 *
 * A file is read as DeepSpeed 0.19 reads it (tests/peer_deepspeed.py compares the two).  5e8 is an
 * integer.  null stands for an absent key, with a note where DeepSpeed refuses it.  "auto" is a
 * word of the Hugging Face trainer, which replaces it with its own arguments (transformers 5,
 * integrations/deepspeed.py): a micro-batch of 8 and no accumulation unless told otherwise.  For
 * other keys DeepSpeed then takes its default.  Notes say what a file leaves open, and what the
 * plan does otherwise than DeepSpeed would.
 *
 *   zero_optimization            true is stage 1 and false stage 0, as in old files
 *   zero_optimization.stage      0 ddp, 1 zero1, 2 zero2, 3 zero3; with offload to the CPU
 *                                zero-offload (1, 2) or zero-infinity-cpu (3); with NVMe anywhere
 *                                zero-infinity-nvme.  Absent, or without zero_optimization: 0
 *   offload_param.device         parameters; "none" is the GPU.  DeepSpeed ignores it below stage 3
 *   offload_optimizer.device     optimizer state and gradients.  At stage 3, where only one of the
 *                                two is offloaded, the other stays on the GPU, as in DeepSpeed.  At
 *                                stages 1 and 2 "nvme" means the CPU.  At stage 0 both are refused,
 *                                because DeepSpeed fails there
 *   cpu_offload, cpu_offload_param   older names of device = "cpu"
 *   pipeline_read, pipeline_write    buffer_sets = 1 + one for each that is true (on NVMe)
 *   sub_group_size               optimizer_chunk (stage 3; 0 has no effect)
 *   overlap_comm                 overlap; false also sets prefetch 0.  Absent: true at stage 3 and
 *                                where there is no stage, else false
 *   stage3_prefetch_bucket_size  0 sets prefetch 0.  How many units another size holds depends on
 *                                the model, so it has no effect
 *   activation_checkpointing.partition_activations   checkpoint_partition; absent: as the
 *                                software does
 *   activation_checkpointing.cpu_checkpointing   activation checkpoints on the CPU or the GPU
 *   train_batch_size, train_micro_batch_size_per_gpu, gradient_accumulation_steps   the batch; the
 *                                third follows from two of them and the world size
 *   tensor_parallel.autotp_size  tp, above 1.  Without an mpu of the training script DeepSpeed
 *                                counts GPUs that share a model as replicas: train_batch_size is
 *                                read so where that comes out, and is not written
 *   fp16, bf16, bfloat16         the plan's 16-bit type; at most one may be on.  With none on
 *                                DeepSpeed trains in fp32; a note says what the plan does
 *   data_types.grad_accum_dtype  the type in which DeepSpeed sums micro-batches; absent: the 16-bit
 *                                one.  A plan sums in fp32, and a written file says so.  For
 *                                another file a note says how many bytes that differs by
 *   optimizer.type               Adam or AdamW; for others a note says that the plan has AdamW
 *   sequence_parallel_size       refused above 1: DeepSpeed divides the GPUs by it
 *   offload_optimizer.ratio      the share of optimizer state and gradients on the CPU, at stage 3:
 *                                the rest is on the GPU, and updated there (ZeRO-Offload++); with
 *                                NVMe a note says that the plan has all of it offloaded
 *   memwall                      DeepSpeed ignores it.  A written file says here, by the names of
 *                                the settings, what DeepSpeed has no word for.  It is ignored, with
 *                                a note, where stage or devices no longer agree with it
 *
 * The types and bounds of gradient_clipping, of the other sizes and of the aio block (thread_count
 * is the older name of intra_op_parallelism) are checked.  These and all other keys have no effect
 * on a plan, and are listed.  In sections that DeepSpeed reads through its classes "3" is 3 and 1
 * is true.  Notes name keys that DeepSpeed has given up and refuses, and unknown names that
 * resemble a known one.
 */
#ifndef MW_PLANNER_DEEPSPEED_DEEPSPEED_H
#define MW_PLANNER_DEEPSPEED_DEEPSPEED_H

#include <glib.h>

#include "planner/settings/settings.h"
#include "planner/sizing/sizing.h"

/* Facts of a file for the notes.  Arrays end with NULL; pointers are NULL before a file is read. */
struct mw_deepspeed_said {
    char **ignored;   /* dotted names of keys that the plan does not follow */
    char **notes;     /* one line each, without the file's name */
    char *stage_said; /* "zero_optimization.stage 2"; NULL: the file does not say */
    int stage;
    enum mw_strategy strategy; /* the strategy that the file asks for */
    int64_t sum_bytes; /* per element of DeepSpeed's sum of micro-batches, 2 or 4; 0: no file was
                          read, or it trains in fp32 */
};

/* The strategy's stage, or the lowest one at which DeepSpeed can place the states in this way. */
int mw_deepspeed_stage(const struct mw_settings *settings);
/* Whether fp32 sums of micro-batches, planned in host memory, would be on the GPU: DeepSpeed has
 * those of stage 2 there (stage_1_and_2.py, _build_compact_grad_partition_buffer).  A written file
 * then leaves them in 16 bits, which stay in host memory (accumulated_grads_in_cpu). */
bool mw_deepspeed_sums_leave(const struct mw_sizing *sizing);

void mw_deepspeed_said_clear(struct mw_deepspeed_said *said);

/* Applies the file to `settings` (fields that it does not name stay as they are).  On success sets
 * `said`, if not NULL.  `world_size`, the number of data-parallel ranks for the settings->tp passed
 * in, is used to check train_batch_size = micro-batch * accumulation * ranks; 0: unknown. */
bool mw_deepspeed_load(const char *path, int64_t world_size, struct mw_settings *settings,
                       struct mw_deepspeed_said *said, GError **error);
bool mw_deepspeed_parse(const char *text, gssize length, const char *origin, int64_t world_size,
                        struct mw_settings *settings, struct mw_deepspeed_said *said,
                        GError **error);

/* What a rank of DeepSpeed has for states on drives: as many sets of state as in the plan; only
 * one, without pipelining, if host memory holds no more. */
struct mw_deepspeed_buffers {
    struct mw_swap_buffers swap;
    int64_t gradient_bytes;         /* that it keeps in host memory; 0: as planned */
    int64_t planned_gradient_bytes; /* that the plan does */
    int64_t host_bytes;             /* all that a rank then has there */
};
struct mw_deepspeed_buffers mw_deepspeed_buffers(const struct mw_sizing *sizing);

/* What a written file says beside the settings.  Whole numbers. */
struct mw_deepspeed_facts {
    double micro_batch;
    int64_t grad_accum;
    bool sums_leave;   /* mw_deepspeed_sums_leave */
    bool sums_as_made; /* in the model's type, as DeepSpeed does where no file says another */
    double train_batch;
    int64_t prefetch_elements;     /* parameters fetched ahead */
    int64_t live_elements;         /* most parameters held on a GPU at a time */
    int64_t largest_unit_elements; /* the largest fetch unit */
    struct mw_deepspeed_buffers buffers;
    int64_t nvme_queue_depth;
    int64_t nvme_block_bytes;
};

/* The text of a ds_config.json for complete settings, which reads back to the same settings; g_free
 * it.  DeepSpeed has no splits over tiers: the file names the slowest part, and max_in_cpu for
 * parameters on NVMe.  It has no activation checkpoints on NVMe: the file names the CPU.  It
 * offloads only from certain stages on: the file names the lowest stage that can. */
char *mw_deepspeed_text(const struct mw_settings *settings, const struct mw_deepspeed_facts *facts);
/* The same for the sizing of a plan; computes the facts from it. */
char *mw_deepspeed_text_of(const struct mw_sizing *sizing);

#endif
