/*
 * remedy_text.h - follows a remedy as its reader would: its proposals one by one, and what each
 * changes in a request.
 */
#ifndef MW_TESTS_REMEDY_TEXT_H
#define MW_TESTS_REMEDY_TEXT_H

#include "hardware/hwprofile.h"
#include "planner/settings/settings.h"

enum remedy {
    REMEDY_TILES,
    REMEDY_CHUNKS,
    REMEDY_SHARING, /* of bytes */
    REMEDY_BATCH,
    REMEDY_STRATEGY,
    REMEDY_NODES,
    REMEDY_DEVICES, /* given up */
    REMEDY_USUAL,
    REMEDY_SLICING,
    REMEDY_CHECKPOINTS, /* to another tier */
    REMEDY_MACHINE,
    REMEDY_SET,
    REMEDY_SEVERAL,
    REMEDY_MEMORY, /* in words */
    REMEDY_KINDS
};

struct remedy_request {
    struct mw_settings settings;
    struct mw_profile *profile; /* owned; NULL: no option may be of a machine */
};

/* From now on remedies name settings as a command line does, and so they are followed here. */
void remedy_text_spell(void);

/* "A fits (x), B fits" are A and B; free with g_strfreev. */
char **remedy_ways(const char *text);

/* Makes the options of one way; what it says in words is not done.  Aborts on what it does not
 * know. */
enum remedy remedy_follow(const char *way, struct remedy_request *request);

#endif
