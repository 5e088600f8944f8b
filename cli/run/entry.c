#include "cli/run/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/input.h"
#include "base/json.h"
#include "base/own_file.h"
#include "base/whole_file.h"
#include "exec/commit/run_files.h"
#include "exec/nvme/nvme.h"

#define VERSION 1
#define NAME_BYTES_MAX 128
#define DELETING "deleting"

/* --- names ----------------------------------------------------------------------------------- */

/* The folder of a config.json says more than the file's name. */
char *
cli_run_entry_model_word(const char *model)
{
    g_autofree char *base = g_path_get_basename(model);
    g_autofree char *folder = g_path_get_dirname(model);
    char *word = !strcmp(base, "config.json") && strcmp(folder, ".") ? g_path_get_basename(folder)
                                                                     : g_steal_pointer(&base);

    if (g_str_has_suffix(word, ".json"))
        word[strlen(word) - strlen(".json")] = '\0';
    g_strcanon(word, G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "._-", '-');
    if (strlen(word) > 64)
        word[64] = '\0';
    if (*word && *word != '.' && *word != '-')
        return word;
    g_free(word);
    return g_strdup("model");
}

/* --- reading ---------------------------------------------------------------------------------- */

static char *
read_own(const char *path, gsize *length, GError **error)
{
    struct stat info;
    const char *why;
    int fd = mw_own_open_at(AT_FDCWD, path, O_RDONLY, 0, &info, &why);

    if (fd < 0) {
        g_set_error(error, errno == ENOENT ? G_FILE_ERROR : MW_ERROR,
                    errno == ENOENT ? (int)G_FILE_ERROR_NOENT : (int)MW_ERROR_IO, "%s: %s", path,
                    why);
        return NULL;
    }
    *length = (gsize)MIN(info.st_size, MW_JSON_BYTES_MAX + 1);
    char *text = g_malloc(*length + 1);
    bool good = mw_input_read_at(fd, path, 0, (int64_t)*length, text, error);
    close(fd);
    text[*length] = '\0';
    if (!good)
        g_clear_pointer(&text, g_free);
    return text;
}

static bool
get_text(JsonObject *object, const char *key, const char *origin, char **out, GError **error)
{
    const char *text = NULL;

    if (!mw_json_get_string(object, key, origin, &text, error))
        return false;
    *out = g_strdup(text);
    return true;
}

/* NULL: it is not a path, or repeats one before it. */
static const char *
path_of(JsonNode *node, const GPtrArray *before)
{
    const char *path =
        json_node_get_value_type(node) == G_TYPE_STRING ? json_node_get_string(node) : NULL;

    if (!path || !g_path_is_absolute(path) || strlen(path) >= PATH_MAX ||
        g_ptr_array_find_with_equal_func((GPtrArray *)before, path, g_str_equal, NULL))
        return NULL;
    return path;
}

/* Limits the directories to as many as a run can have, because each is examined, with its
 * description. */
static bool
get_directories(JsonObject *object, const char *origin, char ***out, GError **error)
{
    JsonNode *node = json_object_get_member(object, "directories");
    JsonArray *array = node && JSON_NODE_HOLDS_ARRAY(node) ? json_node_get_array(node) : NULL;
    guint count = array ? json_array_get_length(array) : 0;
    g_autoptr(GPtrArray) list = g_ptr_array_new_with_free_func(g_free);

    for (guint i = 0; i < count && count <= MW_NVME_DRIVES_MAX; i++) {
        const char *path = path_of(json_array_get_element(array, i), list);
        if (!path)
            break;
        g_ptr_array_add(list, g_strdup(path));
    }
    if (!count || list->len < count)
        return mw_refuse(error,
                         "%s: key \"directories\": must be an array of 1 to %d absolute paths, "
                         "each once",
                         origin, MW_NVME_DRIVES_MAX);
    g_ptr_array_add(list, NULL);
    *out = (char **)g_ptr_array_steal(list, NULL);
    return true;
}

/* Whether a name is valid: a file name of plain characters that neither begins with a dot nor has a
 * slash. */
static bool
is_name(const char *name)
{
    size_t length = name ? strlen(name) : 0;

    return length && length <= NAME_BYTES_MAX && *name != '.' && *name != '-' &&
           strspn(name, G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "._-") == length;
}

/* Refuses a directory that claims to be made for the run, and would be deleted with it, without
 * having the run's name. */
static bool
check_made(const struct cli_run_entry *entry, const char *origin, GError **error)
{
    for (char **each = entry->directories; entry->made && *each; each++) {
        g_autofree char *base = g_path_get_basename(*each);
        if (strcmp(base, entry->name))
            return mw_refuse(error, "%s: key \"directories\": %s was not made for run %s", origin,
                             *each, entry->name);
    }
    return true;
}

static bool
read_object(JsonObject *object, const char *origin, struct cli_run_entry *entry, GError **error)
{
    int64_t version = 0;

    entry->durable = true; /* for descriptions of older versions, which do not say it */
    if (!mw_json_get_int(object, "memwall_run", 1, VERSION, origin, &version, error) ||
        !get_text(object, "name", origin, &entry->name, error) ||
        !get_text(object, "model", origin, &entry->model, error) ||
        !get_text(object, "strategy", origin, &entry->strategy, error) ||
        !get_text(object, "created", origin, &entry->created, error) ||
        !get_text(object, "updated", origin, &entry->updated, error) ||
        !get_text(object, "host", origin, &entry->host, error) ||
        !mw_json_get_bool(object, "made", origin, &entry->made, error) ||
        !mw_json_get_bool(object, "durable", origin, &entry->durable, error) ||
        !mw_json_get_bool(object, DELETING, origin, &entry->deleting, error) ||
        !mw_json_get_int(object, "ranks", 1, 1 << 20, origin, &entry->ranks, error) ||
        !mw_json_get_int(object, "ranks_here", 0, 1 << 20, origin, &entry->ranks_here, error) ||
        !mw_json_get_int(object, "steps", 0, INT64_MAX, origin, &entry->steps, error) ||
        !mw_json_get_int(object, "last_step", 0, INT64_MAX, origin, &entry->last_step, error) ||
        !get_directories(object, origin, &entry->directories, error))
        return false;
    if (!version || !is_name(entry->name))
        return mw_refuse(error, "%s: is not the description of a run", origin);
    return check_made(entry, origin, error);
}

JsonNode *
cli_run_entry_parse(const char *directory, GError **error)
{
    g_autofree char *path = g_build_filename(directory, MW_RUN_DESCRIPTION, NULL);
    gsize length;
    g_autofree char *text = read_own(path, &length, error);

    return text ? mw_json_parse(text, (gssize)length, path, error) : NULL;
}

JsonObject *
cli_run_entry_part(JsonNode *root, const char *key)
{
    JsonNode *node = root ? json_object_get_member(json_node_get_object(root), key) : NULL;

    return node && JSON_NODE_HOLDS_OBJECT(node) ? json_node_get_object(node) : NULL;
}

bool
cli_run_entry_read(const char *directory, struct cli_run_entry *entry, GError **error)
{
    g_autofree char *path = g_build_filename(directory, MW_RUN_DESCRIPTION, NULL);
    JsonNode *root = cli_run_entry_parse(directory, error);

    *entry = (struct cli_run_entry){0};
    bool good = root && read_object(json_node_get_object(root), path, entry, error);
    if (root)
        json_node_unref(root);
    if (!good)
        cli_run_entry_clear(entry);
    return good;
}

void
cli_run_entry_clear(struct cli_run_entry *entry)
{
    g_free(entry->name);
    g_free(entry->model);
    g_free(entry->strategy);
    g_free(entry->created);
    g_free(entry->updated);
    g_free(entry->host);
    g_strfreev(entry->directories);
    *entry = (struct cli_run_entry){0};
}

/* --- writing ---------------------------------------------------------------------------------- */

bool
cli_run_entry_write(const char *directory, const struct cli_run_entry *entry,
                    void (*more)(struct mw_json_writer *json, const void *data), const void *data,
                    GError **error)
{
    g_autofree char *path = g_build_filename(directory, MW_RUN_DESCRIPTION, NULL);
    struct mw_file *file = mw_file_open_own(path, error);

    if (!file)
        return false;
    struct mw_json_writer json = {.out = file->stream};
    mw_json_begin(&json, NULL, '{', false);
    mw_json_integer(&json, "memwall_run", VERSION);
    mw_json_string(&json, "name", entry->name);
    mw_json_string(&json, "model", entry->model);
    mw_json_string(&json, "strategy", entry->strategy);
    mw_json_string(&json, "created", entry->created);
    mw_json_string(&json, "updated", entry->updated);
    mw_json_string(&json, "host", entry->host);
    mw_json_begin(&json, "directories", '[', false);
    for (char **each = entry->directories; *each; each++)
        mw_json_string(&json, NULL, *each);
    mw_json_end(&json, ']');
    mw_json_boolean(&json, "made", entry->made);
    mw_json_boolean(&json, "durable", entry->durable);
    mw_json_integer(&json, "ranks", entry->ranks);
    mw_json_integer(&json, "ranks_here", entry->ranks_here);
    mw_json_integer(&json, "steps", entry->steps);
    mw_json_integer(&json, "last_step", entry->last_step);
    if (more)
        more(&json, data);
    mw_json_end(&json, '}');
    putc('\n', file->stream);
    return mw_file_commit(file, error);
}

/* --- marking a run as being deleted ----------------------------------------------------------- */

static bool
write_text(const char *directory, const char *text)
{
    g_autofree char *path = g_build_filename(directory, MW_RUN_DESCRIPTION, NULL);
    struct mw_file *file = mw_file_open_own(path, NULL);

    if (!file)
        return false;
    fputs(text, file->stream);
    return mw_file_commit(file, NULL);
}

/* Changes no other byte. */
char *
cli_run_entry_mark_deleting(const char *directory)
{
    g_autofree char *path = g_build_filename(directory, MW_RUN_DESCRIPTION, NULL);
    struct cli_run_entry entry;
    gsize length;

    if (!cli_run_entry_read(directory, &entry, NULL))
        return NULL;
    const bool marked = entry.deleting;
    cli_run_entry_clear(&entry);
    g_autofree char *text = marked ? NULL : read_own(path, &length, NULL);
    const char *brace = text ? strchr(text, '{') : NULL;
    if (!brace)
        return NULL;
    g_autofree char *now =
        g_strdup_printf("%.*s\"" DELETING "\": true,%s", (int)(brace + 1 - text), text, brace + 1);
    return write_text(directory, now) ? g_steal_pointer(&text) : NULL;
}

void
cli_run_entry_restore(const char *directory, const char *text)
{
    write_text(directory, text);
}
