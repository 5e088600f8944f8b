/*
 * profile.h - files of figures with units, ranges and sources.
 *
 * A profile is a GKeyFile.  Keys carry their unit in the name (`read_gb_per_s`, `memory_gib`).
 * A value is `typical` or a range `low; typical; high`, where low is the smaller number.
 * `KEY.source = KIND: where from` gives its provenance, KIND one of datasheet, published,
 * measured, derived, estimate, user.  `[profile] inherits = NAME` takes all keys of another
 * profile that are not given here; cycles are refused.  Folders, in this order: that of the file
 * that inherits, that of the kind in $XDG_CONFIG_HOME/memwall, the data folders (base/datadir.h).
 *
 * What keys there are is a table, one per kind of profile: hardware/keys.c, software/keys.c.  A
 * profile holds one value per row; mw_profile_store turns them into one flat struct in SI units.
 * MW_OUTLOOK_LOW takes the value of each range that makes a step slower (the small bandwidth, the
 * large latency), MW_OUTLOOK_HIGH the one that makes it faster.
 */
#ifndef MW_PROFILE_PROFILE_H
#define MW_PROFILE_PROFILE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum mw_outlook { MW_OUTLOOK_LOW, MW_OUTLOOK_TYPICAL, MW_OUTLOOK_HIGH, MW_OUTLOOK_COUNT };

enum mw_provenance {
    MW_PROVENANCE_ESTIMATE, /* worst first */
    MW_PROVENANCE_USER,
    MW_PROVENANCE_DERIVED,
    MW_PROVENANCE_DATASHEET,
    MW_PROVENANCE_PUBLISHED,
    MW_PROVENANCE_MEASURED,
    MW_PROVENANCE_COUNT
};

#define MW_PROFILE_LIST_MAX 12 /* numbers of a list */

enum mw_value_kind {
    MW_VALUE_REAL,    /* double */
    MW_VALUE_COUNT,   /* int64_t, a whole number */
    MW_VALUE_BYTES,   /* int64_t, from a number with a unit */
    MW_VALUE_FLAG,    /* bool: true or false */
    MW_VALUE_CHOICE,  /* int: the number of a word in the row's list */
    MW_VALUE_CHOICES, /* int[MW_PROFILE_LIST_MAX]: such words, separated by commas, the first one
                       * preferred; -1 after the last one */
    MW_VALUE_LIST,    /* double[MW_PROFILE_LIST_MAX], separated by semicolons; the ends of its range
                      * are lists of their own, KEY_low and KEY_high */
    MW_VALUE_TEXT,    /* stored nowhere */
};

/* A row of a key table: reading, checking, printing, `--set` and help all come from it. */
struct mw_profile_key {
    const char *group, *key; /* as in the file */
    const char *unit;        /* of the file, to print; "" for a bare number */
    const char *help;
    double scale;    /* file unit -> SI unit */
    double min, max; /* in the file's unit, inclusive */
    bool required;   /* where the kind needs its group */
    int better;      /* +1: larger is faster, -1: smaller is faster, 0: no range allowed */
    enum mw_value_kind kind;
    size_t offset;            /* into the struct of the kind; rows may share a field */
    unsigned part, rate;      /* for the kind's own use: hardware/hwprofile.h */
    const char *const *words; /* of MW_VALUE_CHOICE and CHOICES, NULL at the end */
};

struct mw_profile; /* opaque */

/* What people call a group. */
struct mw_profile_synonym {
    const char *word, *group;
};

/* A kind of profiles. */
struct mw_profile_kind {
    const char *folder;     /* of its files, and of `memwall list` */
    const char *noun;       /* "hardware profile" */
    const char *set_prefix; /* of its keys where they are set, "" or "software." */
    const char *example;    /* of a key that is set, without that */
    const struct mw_profile_key *keys;
    size_t key_count;
    const struct mw_profile_synonym *synonyms; /* a NULL word ends them; NULL: none */
    /* Whether the profile needs the required keys of a group; NULL: of every group. */
    bool (*needs)(const struct mw_profile *profile, const char *group);
    /* Whether a key means nothing beside what the profile says, and is not inherited; NULL: no
     * key. */
    bool (*leaves_out)(const struct mw_profile *profile, const struct mw_profile_key *row);
    /* Whether a list says more of another one, beside the ends of its range, and goes with it:
     * where the other is given anew, it is no longer; NULL: none does. */
    bool (*goes_with)(const struct mw_profile_key *row, const struct mw_profile_key *list);
    /* What keys must satisfy together; NULL: nothing. */
    bool (*check)(const struct mw_profile *profile, GError **error);
};

/* NULL: there is none. */
const struct mw_profile_key *mw_profile_key(const struct mw_profile_kind *kind, const char *group,
                                            const char *key);

/* Whether a row is the first of its group: a group's keys need not stand together. */
bool mw_profile_begins_group(const struct mw_profile_kind *kind, size_t key);
/* What a value of the key must be: "a number from 0.001 to 1e5 GiB"; NULL: any text.  g_free it. */
char *mw_profile_accepted(const struct mw_profile_key *key);

/* `name_or_path`: a name under the profile folders, or a path ending in .ini.
 * Returns NULL with one line naming file, key, value and what would be accepted. */
struct mw_profile *mw_profile_load(const struct mw_profile_kind *kind, const char *name_or_path,
                                   GError **error);
/* The file that such a name or path leads to; NULL: no profile has that name.  g_free it. */
char *mw_profile_path(const struct mw_profile_kind *kind, const char *name_or_path);
/* The profiles of these names (NULL-terminated) that load; each file is read once.  An array of
 * struct mw_profile *, which it owns. */
GPtrArray *mw_profile_load_all(const struct mw_profile_kind *kind, char **names);
/* The same, without those whose own text `may_be_wanted` says no to, before it is parsed: some of
 * them may be there nonetheless. */
GPtrArray *mw_profile_load_some(const struct mw_profile_kind *kind, char **names,
                                bool (*may_be_wanted)(const char *text));
void mw_profile_free(struct mw_profile *profile); /* NULL is allowed */

struct mw_profile *mw_profile_copy(const struct mw_profile *profile);

/* One profile from text, without looking up what it inherits (keys may then be missing).
 * `origin` is what messages call the text. */
struct mw_profile *mw_profile_parse(const struct mw_profile_kind *kind, const char *text,
                                    size_t length, const char *origin, GError **error);

/* `--set SECTION.KEY=VALUE`, same syntax and checks as the file; provenance becomes "user".
 * Keys that depend on each other need several calls, so mw_profile_check is to be called after the
 * last one. */
bool mw_profile_set(struct mw_profile *profile, const char *assignment, GError **error);
/* Whether some profile could take the assignment: key, syntax and range. */
bool mw_profile_set_check(const struct mw_profile_kind *kind, const char *assignment,
                          GError **error);

/* What was set, and what the profile has: "gpu.memory_gib 8 (24 in the profile), ..."; NULL:
 * nothing was.  g_free it. */
char *mw_profile_set_text(const struct mw_profile *profile);

/* What was set, as mw_profile_set takes it; g_strfreev it. */
char **mw_profile_assignments(const struct mw_profile *profile);

/* "network.gb_per_s and network.latency_us": what a group must have; g_free it. */
char *mw_profile_required(const struct mw_profile_kind *kind, const char *group);

/* The assignment that makes a key's number at one outlook `factor` times what it is, without a
 * range, a count rounded up; NULL if it is not given or 0.  g_free it. */
char *mw_profile_scaled(const struct mw_profile *profile, const char *group, const char *key,
                        enum mw_outlook outlook, double factor);

/* Whether every required key is there and keys agree; mw_profile_load checks that. */
bool mw_profile_check(const struct mw_profile *profile, GError **error);

size_t mw_profile_key_count(const struct mw_profile *profile); /* of its kind */
const char *mw_profile_name(const struct mw_profile *profile);
/* The name or path by which it was loaded. */
const char *mw_profile_called(const struct mw_profile *profile);
const char *mw_profile_description(const struct mw_profile *profile);
/* The text of a key of [profile]; NULL: not given. */
const char *mw_profile_word(const struct mw_profile *profile, const char *key);
bool mw_profile_has_range(const struct mw_profile *profile);
/* Writes what is given into the kind's struct, of which the other fields stay as they are. */
void mw_profile_store(const struct mw_profile *profile, enum mw_outlook outlook, void *out);
/* The same without one group's keys, whose fields stay as they are. */
void mw_profile_store_without(const struct mw_profile *profile, const char *group,
                              enum mw_outlook outlook, void *out);
/* The first key from `from` on whose range has an end at the outlook (LOW or HIGH); the kind's
 * key_count: there is none. */
size_t mw_profile_next_range(const struct mw_profile *profile, size_t from,
                             enum mw_outlook outlook);
/* Writes one key alone, which is given. */
void mw_profile_store_key(const struct mw_profile *profile, size_t key, enum mw_outlook outlook,
                          void *out);
/* How many numbers a list has; 0: not given. */
int mw_profile_list_length(const struct mw_profile *profile, const char *group, const char *key);

/* Provenance of one key, or of the profile as a whole: the worst of the keys that carry time. */
enum mw_provenance mw_profile_provenance(const struct mw_profile *profile, const char *group,
                                         const char *key, const char **source);
/* The text of a key's value, a range included; NULL: it is not given, or there is no such key.
 * g_free it. */
char *mw_profile_text(const struct mw_profile *profile, const char *group, const char *key);
bool mw_profile_gives(const struct mw_profile *profile, const char *group, const char *key);
/* Whether mw_profile_set gave the key its value. */
bool mw_profile_is_set(const struct mw_profile *profile, const char *group, const char *key);
enum mw_provenance mw_profile_worst_provenance(const struct mw_profile *profile);
const char *mw_provenance_name(enum mw_provenance provenance);

/* All keys with value, range and provenance, as a profile that reads back to the same one. */
void mw_profile_print(FILE *out, const struct mw_profile *profile);

/* Names of all profiles found, sorted; free with g_strfreev. */
char **mw_profile_list(const struct mw_profile_kind *kind);

#endif
