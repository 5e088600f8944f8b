/*
 * internal.h - a profile as its kinds' checks and its own files see it.
 *
 * A profile holds one mw_profile_value per row of its kind's key table, in the file's units; SI
 * units appear in mw_profile_store alone.
 */
#ifndef MW_PROFILE_INTERNAL_H
#define MW_PROFILE_INTERNAL_H

#include "profile/profile.h"

#define MW_PROFILE_BYTES_MAX (1 << 20) /* a profile is a few KiB */
#define MW_PROFILE_SET "{set}"         /* source of a value that was set, as it is spelled */

struct mw_profile_value {
    bool given;
    int count; /* 1, 3 for a range, or the length of a list */
    double number[MW_PROFILE_LIST_MAX];
    char *text; /* MW_VALUE_TEXT */
    enum mw_provenance provenance;
    char *source; /* NULL: not stated */
    char *was;    /* of one that was set: the text before; NULL: there was none */
};

struct mw_profile {
    const struct mw_profile_kind *kind;
    char *origin; /* what messages call it: the file's base name */
    char *name;
    char *called;                   /* the name or path by which it was loaded; NULL: by none */
    struct mw_profile_value *value; /* one per row of the key table */
};

/* Row of group and key, or -1. */
int mw_profile_find_key(const struct mw_profile_kind *kind, const char *group, const char *key);

/* Row of a key that must exist: for rules that name keys. */
const struct mw_profile_value *mw_profile_value_of(const struct mw_profile *profile,
                                                   const char *group, const char *key);
/* Its typical number; 0: not given. */
double mw_profile_typical(const struct mw_profile *profile, const char *group, const char *key);
bool mw_profile_gives_group(const struct mw_profile *profile, const char *group);

/* False with *error: file or setting, group, key and value, then `rule`. */
bool mw_profile_refuse(const struct mw_profile *profile, const char *group, const char *key,
                       const char *rule, GError **error);
/* `rule` ends with the name and the value of another key of the group. */
bool mw_profile_refuse_beside(const struct mw_profile *profile, const char *group, const char *key,
                              const char *rule, const char *other, GError **error);

/* A text of the group "profile" that means something. */
struct mw_profile_text_rule {
    const char *key;
    bool (*is)(const char *text);
    const char *must; /* be */
};
bool mw_profile_check_texts(const struct mw_profile *profile,
                            const struct mw_profile_text_rule *rules, size_t count, GError **error);
bool mw_profile_is_day(const char *text);  /* YYYY-MM-DD */
bool mw_profile_is_date(const char *text); /* or a month, or a year */

/* " (did you mean ...?)", or the accepted names; for the end of a message.  g_free it. */
char *mw_profile_suggest_group(const struct mw_profile_kind *kind, const char *group);
char *mw_profile_suggest_key(const struct mw_profile_kind *kind, const char *group,
                             const char *key);
char *mw_profile_suggest_profile(const struct mw_profile_kind *kind, const char *name);

bool mw_profile_has_group(const struct mw_profile_kind *kind, const char *group);

/* The end of a list's range (KEY_low, KEY_high): -1 or 1; 0: no such end. */
int mw_profile_list_end(const struct mw_profile_key *row);

/* Reads `text` by the rules of `row`; on failure `value` is unchanged and the message says only
 * what would be accepted. */
bool mw_profile_value_parse(struct mw_profile_value *value, const struct mw_profile_key *row,
                            const char *text, GError **error);
bool mw_profile_value_parse_source(struct mw_profile_value *value, const char *text,
                                   GError **error);
char *mw_profile_value_numbers(const struct mw_profile_value *value); /* g_free it */
/* As a file has it. */
char *mw_profile_value_text(const struct mw_profile_value *value,
                            const struct mw_profile_key *row); /* g_free it */
bool mw_profile_value_is_set(const struct mw_profile_value *value);
void mw_profile_value_clear(struct mw_profile_value *value);

/* The file's text into `profile`: syntax and each value, nothing across keys. */
bool mw_profile_parse_text(struct mw_profile *profile, const char *text, size_t length,
                           GError **error);

#endif
