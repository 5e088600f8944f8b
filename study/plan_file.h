/* plan_file.h - plans as files: the text that `memwall plan -o` and memwall_answer_write write. */
#ifndef MW_STUDY_PLAN_FILE_H
#define MW_STUDY_PLAN_FILE_H

#include <glib.h>

#include "plan/variants.h"

#define MW_PLAN_FILE_WANTED "a plan, as `memwall plan -o` writes it"

/* The checked plans of a file; NULL with *error.  mw_variants_free them. */
struct mw_variants *mw_plan_file_read(const char *path, GError **error);

/* Names the file in a refusal of its plan, and where that names an op, a slot, a tensor or a chunk
 * the line of it: of a file with one plan of one program, without sections. */
void mw_plan_file_blame(const char *path, GError **error);

/* Refuses a plan that names no machine, one that no profile here has, or one that does not take
 * what was set of it; of_all: also a pipe, which is not read. */
bool mw_plan_file_check_machine(const char *path, bool of_all, GError **error);
/* The name of the profile that the plans were made for, which is known, and what was set of it, as
 * mw_profile_set takes it (*keys; g_strfreev them).  "here": the machine at hand.  NULL: another
 * one, or the file does not say.  Pipes are not read.  g_free it. */
char *mw_plan_file_machine(const char *path, char ***keys);

#endif
