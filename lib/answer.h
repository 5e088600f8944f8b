/* answer.h - the content of an answer of the library. */
#ifndef MW_LIB_ANSWER_H
#define MW_LIB_ANSWER_H

#include <json-glib/json-glib.h>

#include "lib/parallel.h"
#include "lib/question.h"
#include "study/cuts.h"
#include "study/largest.h"
#include "study/objective.h"
#include "study/serving.h"

struct memwall_answer {
    struct mw_question question; /* the question that was asked */
    enum memwall_depth depth;
    bool compares; /* several strategies were requested */
    struct mw_answer *answers[MW_STRATEGY_COUNT];
    size_t count;
    struct mw_cut_placements *cuts;  /* NULL except for MEMWALL_CUTS */
    struct mw_serving *serving;      /* NULL unless {serve} is given */
    struct mw_objective *objective;  /* NULL unless {objective} is another than causal */
    struct mw_lib_owned owned;       /* the machine that MEMWALL_ADVISE enlarges, */
    struct mw_purchases *purchases;  /* and how; else NULL */
    struct mw_lib_parallel divided;  /* the machine whose GPUs MEMWALL_ADVISE divides, */
    struct mw_parallel *parallel;    /* and how; else NULL */
    GArray *largest;                 /* of struct mw_largest; NULL except for MEMWALL_LARGEST */
    struct mw_lib_machines machines; /* asked about by MEMWALL_ADVISE, */
    struct mw_capacity *capacity;    /* and what they are worth; else NULL */
    GPtrArray *warnings;             /* of strings */

    GMutex lock; /* protects what is made when it is first requested, and then stays */
    char *json, *text, *plan;
    JsonNode *figures; /* parsed from `json` */
    GHashTable *keys;  /* of the profile, from name to text */
};

/* The answer in one form as a string; NULL with *error.  g_free it. */
char *mw_lib_string(const struct memwall_answer *answer, enum memwall_form form, GError **error);

#endif
