/* answer.h - what lies behind an answer of the library. */
#ifndef MW_LIB_ANSWER_H
#define MW_LIB_ANSWER_H

#include <json-glib/json-glib.h>

#include "lib/memwall.h"
#include "study/largest.h"

struct memwall_answer {
    struct mw_question question; /* which the answers refer to */
    enum memwall_depth depth;
    bool compares; /* several strategies were asked for */
    struct mw_answer *answers[MW_STRATEGY_COUNT];
    size_t count;
    GArray *largest;     /* of struct mw_largest; NULL but for MEMWALL_LARGEST */
    GPtrArray *warnings; /* of strings */

    GMutex lock; /* of what is made when it is first wanted, and then stays */
    char *json, *text, *plan;
    JsonNode *figures; /* of `json` */
    GHashTable *keys;  /* of the profile, from name to text */
};

/* The answer in one form as a string; NULL with *error.  g_free it. */
char *mw_lib_string(const struct memwall_answer *answer, enum memwall_form form, GError **error);

#endif
