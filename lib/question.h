/*
 * question.h - the content of a question: texts by name, and their meaning.
 *
 * The command asks through lib/memwall.h.  Its verbs that train or compare, which the library does
 * not do, read their model, machine and settings from the same question through this header.
 */
#ifndef MW_LIB_QUESTION_H
#define MW_LIB_QUESTION_H

#include "lib/loaded.h"
#include "lib/memwall.h"
#include "base/number.h"
#include "planner/settings/table.h"
#include "study/capacity.h"
#include "study/purchases.h"

/* What a search for machines may not exceed; each is a row of mw_lib_limits. */
enum mw_lib_limit {
    MW_LIB_MAX_NODES,
    MW_LIB_DEADLINE,
    MW_LIB_BUDGET,
    MW_LIB_MAX_POWER,
    MW_LIB_MIN_DRIVE_LIFE,
    MW_LIB_INTERRUPTIONS,
    MW_LIB_CHECKPOINT_EVERY,
    MW_LIB_LIMITS
};

/* All texts are those of `texts`, which keeps replaced ones too: a caller may have them. */
struct memwall_question {
    GStringChunk *texts;
    char *model, *hardware, *software, *strategy, *outlook, *deepspeed, *deepspeed_notes, *plan;
    char *machines, *prices, *region, *pay, *over, *budget_of, *include, *search,
        *limits[MW_LIB_LIMITS]; /* of MEMWALL_ADVISE */
    char *settings[MW_SETTINGS_COUNT];
    GPtrArray *keys; /* "nvme.drives=2", in the order in which they were set */
    int64_t ranks; /* of a run, that were launched; 0: as many GPUs as settings and profile have */
    struct mw_loaded *loaded; /* NULL: files are read whenever it is asked */
    memwall_listener listener;
    void *data;
};

extern const struct mw_number mw_lib_limits[MW_LIB_LIMITS];

/* Names that are neither settings of the planner nor keys; ends with NULL. */
extern const char *const mw_lib_names[];

/* A question with the same texts and no listener, to be changed and asked many times: it reads
 * every model and profile once. */
struct memwall_question *mw_lib_copy(const struct memwall_question *question);

/* What is set, as "NAME=TEXT"; g_strfreev it. */
char **mw_lib_texts(const struct memwall_question *question);

/* Turns `failed`, which it frees, into *error; returns false.  `setting` is the setting to name if
 * the message names none; may be NULL. */
bool mw_lib_fail(GError *failed, const char *setting, struct memwall_error **error);
/* The name of the setting that a message begins with; static, or NULL. */
const char *mw_lib_setting_of(const char *message);

/* Interpret the texts of a question.  Each fills its part of `out`; call mw_lib_clear for it, on
 * failure too. */
bool mw_lib_profile(const struct memwall_question *question, struct mw_question *out,
                    GError **error);
/* After profile and settings: the software, and the machine as it uses it.  `otherwise`: its name
 * if none is requested; NULL: by machine and strategy. */
bool mw_lib_software(const struct memwall_question *question, struct mw_question *out,
                     const char *otherwise, GError **error);
/* Settings and strategies, including those of a DeepSpeed file.  Takes the number of its ranks from
 * out->profile, if there is one. */
bool mw_lib_settings(const struct memwall_question *question, struct mw_question *out,
                     GError **error);
/* Reads everything of a question without a plan.  *blamed: the setting that was being read when it
 * failed, or NULL. */
bool mw_lib_read(const struct memwall_question *question, struct mw_question *out,
                 const char **blamed, GError **error);
/* The same of a question with a plan, and the plan's file; NULL with *error. */
struct mw_variants *mw_lib_read_plan(const struct memwall_question *question,
                                     struct mw_question *out, const char **blamed, GError **error);
void mw_lib_clear(struct mw_question *question);

/* The same question for every machine that "machines" names and every point of "over", and the
 * limits. */
struct mw_lib_machines {
    struct mw_capacity_machine *all; /* [count] */
    int count;
    GPtrArray *points; /* questions whose texts the others have; NULL: none vary */
    struct mw_capacity_limits limits;
    char *note; /* on lines of "prices" that are passed over; NULL: none are */
};
bool mw_lib_read_machines(const struct memwall_question *question, struct mw_lib_machines *out,
                          const char **blamed, GError **error);
void mw_lib_machines_clear(struct mw_lib_machines *machines);

/* The question on the machine that "hardware" names, which its owner may enlarge, and what parts
 * cost by "prices" and by what is known. */
struct mw_lib_owned {
    struct mw_question question;
    struct mw_part_price *prices; /* [count], with their texts owned */
    int count;
    char *price_from; /* who says what a node of it costs; NULL: its profile does */
    char *note;       /* on lines of "prices" that are passed over; NULL: none are */
    double days, usd; /* limits; INFINITY: none */
};
bool mw_lib_read_owned(const struct memwall_question *question, struct mw_lib_owned *out,
                       const char **blamed, GError **error);
void mw_lib_owned_clear(struct mw_lib_owned *owned);
/* Reads the model alone. */
bool mw_lib_model(const struct memwall_question *question, struct mw_model *model, GError **error);

/* Whether some strategy accepts the settings; `hardware` may be NULL. */
bool mw_lib_check(const struct mw_question *question, const struct mw_hardware *hardware,
                  GError **error);
/* If a message names a setting that came from the DeepSpeed file, puts the file's name before
 * it. */
void mw_lib_blame_deepspeed(const struct memwall_question *question,
                            const struct mw_settings *settings, GError **error);

/* Parses "low", "typical" or "high". */
bool mw_lib_outlook(const char *text, int *outlook, GError **error);
/* Parses one strategy, or several separated by commas. */
bool mw_lib_strategies(const char *text, struct mw_question *out, GError **error);
/* Whether GPUs share a micro-batch: each may then have a fraction of a sequence. */
bool mw_lib_is_sliced(const struct memwall_question *question);

#endif
