/*
 * question.h - what lies behind a question: texts by name, and what they come to.
 *
 * The command asks through lib/memwall.h.  Its verbs that train or compare, which no library can do
 * for it, read their model, machine and settings from the same question through this header.
 */
#ifndef MW_LIB_QUESTION_H
#define MW_LIB_QUESTION_H

#include "lib/memwall.h"
#include "planner/settings/table.h"
#include "study/study.h"

/* Owns its texts. */
struct memwall_question {
    char *model, *hardware, *strategy, *outlook, *deepspeed, *deepspeed_notes, *plan;
    char *settings[MW_SETTINGS_COUNT];
    GPtrArray *keys; /* "nvme.drives=2", in the order in which they were set */
    memwall_listener listener;
    void *data;
};

/* Names that are neither settings of the planner nor keys; up to NULL. */
extern const char *const mw_lib_names[];

/* Turns `failed`, which it takes, into *error; false.  `setting` is the name to blame where the
 * message names none; or NULL. */
bool mw_lib_fail(GError *failed, const char *setting, struct memwall_error **error);
/* The name of the setting that a message begins with; static, or NULL. */
const char *mw_lib_setting_of(const char *message);

/* What the texts of a question come to.  Each fills in its part of `out`, which is for
 * mw_lib_clear, on failure too. */
bool mw_lib_profile(const struct memwall_question *question, struct mw_question *out,
                    GError **error);
/* Settings and strategies, those of a DeepSpeed file among them; for the number of its ranks it
 * looks at out->profile, if there is one. */
bool mw_lib_settings(const struct memwall_question *question, struct mw_question *out,
                     GError **error);
/* All of it: *blamed is the setting that was read when it failed, or NULL. */
bool mw_lib_read(const struct memwall_question *question, struct mw_question *out,
                 const char **blamed, GError **error);
void mw_lib_clear(struct mw_question *question);

/* Whether some strategy takes the settings; `hardware` may be NULL. */
bool mw_lib_check(const struct mw_question *question, const struct mw_hardware *hardware,
                  GError **error);
/* Says before a message which blames a setting that the DeepSpeed file gave: the file's name. */
void mw_lib_blame_deepspeed(const struct memwall_question *question,
                            const struct mw_settings *settings, GError **error);

/* Of "low", "typical" or "high". */
bool mw_lib_outlook(const char *text, int *outlook, GError **error);
/* Of one strategy, or of several with commas between them. */
bool mw_lib_strategies(const char *text, struct mw_question *out, GError **error);
/* Whether GPUs share a micro-batch: each may then have a part of a sequence. */
bool mw_lib_is_sliced(const struct memwall_question *question);

#endif
