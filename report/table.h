/*
 * table.h - pieces that several tables share.
 */
#ifndef MW_REPORT_TABLE_H
#define MW_REPORT_TABLE_H

#include <glib.h>
#include <stdbool.h>
#include <stdio.h>

#include "study/result.h"

/* "label         text": the lines of a verdict. */
void mw_table_line(FILE *out, const char *label, const char *format, ...) G_GNUC_PRINTF(3, 4);
void mw_table_heading(FILE *out, const char *heading);
void mw_table_stages(FILE *out, const struct mw_result *r); /* of a pipeline; else prints nothing */

/* "2 x dgx2 (32 GPUs)".  g_free it. */
char *mw_table_machines(const struct mw_result *result);
/* "gpt2 trains on 1 x h100 (1 GPU) with ddp", `does` being "trains " or ""; a plan that was read
 * from a file is named by its title.  g_free it. */
char *mw_table_subject(const struct mw_result *result, const char *does);
/* `value` of `whole` as a percentage, "-" if it is unknown. */
const char *mw_table_share(double value, double whole);
/* `text`, or "-" for NULL. */
const char *mw_table_text(const char *text);

/* What computes a micro-batch: "GPU", or "group of 8 GPUs" that share each layer.  g_free it. */
char *mw_table_batch_share(const struct mw_result *result);
/* "batch 7 per GPU"; for such a group, in whole sequences: "batch 12 per group of 8 GPUs, --batch
 * 1.5", because the option counts per GPU.  g_free it. */
char *mw_table_batch(const struct mw_result *result, double micro_batch);

/* The note about a smaller batch that is faster; NULL if there is none.  g_free it. */
char *mw_table_smaller_batch(const struct mw_result *result);

/* Reasons to doubt a prediction; NULL-terminated, may be empty.  g_strfreev it. */
char **mw_table_cautions(const struct mw_result *result);

/* The cost of --tokens: "1B tokens in 5.01 hours, 247 kWh", followed by an owner's cost if
 * `with_owner`; NULL without --tokens.  g_free it. */
char *mw_table_training(const struct mw_result *result, bool with_owner);

/* The whole need and the capacity in the capacity's unit: "24.1 of 30.5 GiB".  g_free it. */
char *mw_table_used_of_capacity(const struct mw_result_tier *tier);
/* "1.29 GiB of the GPU taken by deepspeed", and what each part is for; "": none.  g_free it. */
char *mw_table_beside(const struct mw_result *result, bool each);
/* How the model is made before the first step, if that is known. */
void mw_table_start(FILE *out, const struct mw_result *result);

/* Parts of several tables. */
/* With what was set of the machine; all of it with `details`. */
void mw_table_first_lines(FILE *out, const struct mw_result *result, bool details);
void mw_table_memory(FILE *out, const struct mw_result *result); /* a line and a bar per tier */
void mw_table_states(FILE *out, const struct mw_result *result);
void mw_table_notes(FILE *out, const struct mw_result *result);
/* The labelled lines: those that a decision needs; all of them with `details`. */
void mw_table_verdict_body(FILE *out, const struct mw_result *result, bool details);
void mw_table_last_lines(FILE *out, const struct mw_result *result); /* what to change */

#endif
