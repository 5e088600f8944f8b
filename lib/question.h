/*
 * question.h - what the library knows of a question: texts by name; and the command, which takes
 * its options and profile through it.
 */
#ifndef MW_LIB_QUESTION_H
#define MW_LIB_QUESTION_H

#include "lib/memwall.h"
#include "planner/settings/table.h"
#include "study/study.h"

/* Owns its texts. */
struct memwall_question {
    char *model, *hardware, *strategy, *outlook;
    char *settings[MW_SETTINGS_COUNT];
    GPtrArray *keys; /* "nvme.drives=2", in the order in which they were set */
    memwall_listener listener;
    void *data;
};

/* Takes `failed` into *error; false.  `setting` is blamed where the message names none; or NULL. */
bool mw_lib_fail(GError *failed, const char *setting, struct memwall_error **error);

/* The profile that the question names, with its keys, read at every outlook. */
bool mw_lib_profile(const struct memwall_question *question, struct mw_question *out,
                    GError **error);
/* What it sets, over `settings`. */
bool mw_lib_settings(const struct memwall_question *question, struct mw_settings *settings,
                     GError **error);
/* The whole, for mw_lib_clear, on failure too: `blamed` is the setting that was read then, or
 * NULL. */
bool mw_lib_read(const struct memwall_question *question, struct mw_question *out,
                 const char **blamed, GError **error);
void mw_lib_clear(struct mw_question *question);

#endif
