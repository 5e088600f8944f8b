/*
 * entry.h - the description of a run, by which it can be found, resumed and exported:
 * DIRECTORY/memwall-run.json, in each of its directories.
 */
#ifndef MW_CLI_RUN_ENTRY_H
#define MW_CLI_RUN_ENTRY_H

#include <glib.h>
#include <json-glib/json-glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/json_writer.h"

struct cli_run_entry {
    char *name;                     /* NULL: the directory has no description */
    char *model, *strategy;         /* may be NULL, as the next ones */
    char *created, *updated, *host; /* ISO 8601, UTC */
    char **directories;             /* absolute, in the order of the drives; at least one */
    bool made;     /* the directories were made for the run, and are deleted with it */
    bool durable;  /* the run makes steps durable: what it left may be resumed */
    bool deleting; /* in the list: what is left of the run must be deleted */
    int64_t ranks, steps; /* as requested */
    int64_t ranks_here;   /* ranks on the machine that wrote this; 0: not recorded */
    int64_t last_step;    /* the last durable step when this was written, from 1; 0: none */
};

/* A word for the model that can be part of a folder's name: "gpt-text" for
 * models/gpt-text/config.json.  g_free it. */
char *cli_run_entry_model_word(const char *model);

/* Reads it from a directory.  False with *error: there is none (G_FILE_ERROR_NOENT), or it is
 * damaged. */
bool cli_run_entry_read(const char *directory, struct cli_run_entry *entry, GError **error);
/* The description as JSON; json_node_unref it. */
JsonNode *cli_run_entry_parse(const char *directory, GError **error);
/* The object under that key, such as "training"; NULL: there is none, or `root` is NULL.
 * Borrowed. */
JsonObject *cli_run_entry_part(JsonNode *root, const char *key);
/* Writes it whole or not at all; `more` adds further keys. */
bool cli_run_entry_write(const char *directory, const struct cli_run_entry *entry,
                         void (*more)(struct mw_json_writer *json, const void *data),
                         const void *data, GError **error);
/* Notes in a description that its run is being deleted.  Returns the previous text, for _restore;
 * NULL: it is noted already, or cannot be written.  g_free it. */
char *cli_run_entry_mark_deleting(const char *directory);
void cli_run_entry_restore(const char *directory, const char *text);
void cli_run_entry_clear(struct cli_run_entry *entry);

#endif
