/*
 * internal.h - shared within hardware/ only.
 *
 * A profile holds one mw_hw_value per row of the key table, in the file's units; SI units appear
 * in mw_hwprofile_read alone.
 */
#ifndef MW_HARDWARE_INTERNAL_H
#define MW_HARDWARE_INTERNAL_H

#include "hardware/hwprofile.h"

#define MW_HW_FILE_BYTES_MAX (1 << 20) /* a profile is a few KiB */
#define MW_HW_SET "{set}"              /* source of a value that was set, as it is spelled */

struct mw_hw_value {
    bool given;
    int count; /* 1, 3 for a range, or the length of a list */
    double number[MW_MATMUL_POINTS_MAX];
    char *text; /* MW_HW_TEXT */
    enum mw_provenance provenance;
    char *source; /* NULL: not stated */
    char *was;    /* of one that was set: the text before; NULL: there was none */
};

struct mw_hwprofile {
    char *origin; /* what messages call it: the file's base name */
    char *name;
    struct mw_hw_value *value; /* one per row of the key table */
};

/* Row of group and key, or -1. */
int mw_hw_key_find(const char *group, const char *key);

/* Row of a key that must exist: for rules that name keys. */
const struct mw_hw_value *mw_hw_value_of(const struct mw_hwprofile *profile, const char *group,
                                         const char *key);

/* " (did you mean ...?)", or the accepted names; for the end of a message.  g_free it. */
char *mw_hw_suggest_group(const char *group);
char *mw_hw_suggest_key(const char *group, const char *key);
char *mw_hw_suggest_profile(const char *name);

bool mw_hw_group_exists(const char *group);

/* Reads `text` by the rules of `row`; on failure `value` is unchanged and the message says only
 * what would be accepted. */
bool mw_hw_value_parse(struct mw_hw_value *value, const struct mw_hw_key *row, const char *text,
                       GError **error);
bool mw_hw_value_parse_source(struct mw_hw_value *value, const char *text, GError **error);
char *mw_hw_value_text(const struct mw_hw_value *value); /* its numbers; g_free it */
bool mw_hw_value_is_set(const struct mw_hw_value *value);
void mw_hw_value_clear(struct mw_hw_value *value);

/* The file's text into `profile`: syntax and each value, nothing across keys. */
bool mw_hw_file_parse(struct mw_hwprofile *profile, const char *text, size_t length,
                      GError **error);

#endif
