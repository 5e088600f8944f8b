/* The settings that decide where state lies, in words: those that differ between a resume and its
 * run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/options.h"
#include "cli/run/course_internal.h"
#include "cli/run/drives.h"
#include "cli/run/entry.h"
#include "report/json_result.h"

#define DIFFERENCES_MAX 5

void
cli_run_course_add(GString *changes, const char *option, const char *is, const char *was)
{
    g_string_append_printf(changes, "%s%s is %s, it was %s", changes->len ? "; " : "", option, is,
                           was);
}

void
cli_run_course_add_again(GString *again, const char *option, const char *was)
{
    g_string_append_printf(again, "%s%s%s%s%s", again->len ? " " : "", was ? "" : "no ", option,
                           was ? " " : "", was ? was : "");
}
static JsonNode *
settings_now(const struct cli_training *training)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    struct mw_json_writer json = {.out = out};

    if (!out)
        return NULL;
    mw_json_begin(&json, NULL, '{', false);
    mw_json_settings(&json, training->answer->result);
    mw_json_end(&json, '}');
    JsonNode *node = fclose(out) ? NULL : mw_json_parse(text, (gssize)length, "settings", NULL);
    free(text);
    return node;
}

/* "--optimizer-device" for "optimizer_device"; NULL: no option sets it alone. */
static char *
option_of(const char *key)
{
    static const struct {
        const char *key, *option;
    } others[] = {{"gpus_per_node", "--gpus"},
                  {"micro_batch", "--batch"},
                  {"checkpoint_interval", "--activation-checkpoint-interval"},
                  {"tokens_per_step", NULL},
                  {"trained_params", NULL},
                  {"kept_layers", NULL},
                  {"frozen_dtype", NULL}, /* --weight-bits: among the fixed */
                  {"default_step_tokens", NULL}};

    for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
        if (!strcmp(key, others[i].key))
            return g_strdup(others[i].option);
    return g_strdelimit(g_strconcat("--", key, NULL), "_", '-');
}

/* The value as it is typed. */
static char *
value_of(JsonNode *node)
{
    if (!node || JSON_NODE_HOLDS_NULL(node))
        return g_strdup("none");
    return JSON_NODE_HOLDS_VALUE(node) && json_node_get_value_type(node) == G_TYPE_STRING
               ? g_strdup(json_node_get_string(node))
               : mw_json_text(node);
}

/* Between a run's description and this resume. */
struct differences {
    JsonObject *then, *now; /* settings */
    JsonObject *typed_then; /* options as they were given; NULL: not known */
    GPtrArray *compared;    /* options that settings have */
    GString *all, *again;   /* in words; how to have them as they were */
};

/* NULL: it was not given. */
static void
add_difference(struct differences *d, const char *option, const char *is, const char *was)
{
    cli_run_course_add(d->all, option, is, was ? was : "not given");
    cli_run_course_add_again(d->again, option, was);
}

static void
compare_setting(struct differences *d, const char *key, int *count)
{
    g_autofree char *was = value_of(json_object_get_member(d->then, key));
    g_autofree char *is = value_of(json_object_get_member(d->now, key));
    g_autofree char *option = option_of(key);

    if (!option)
        return;
    if (strcmp(was, is) && (*count)++ < DIFFERENCES_MAX) {
        cli_run_course_add(d->all, option, is, was);
        cli_run_course_add_again(d->again, option, strcmp(was, "none") ? was : NULL);
    }
    g_ptr_array_add(d->compared, g_steal_pointer(&option));
}

/* A setting that is none need not be among those of a description. */
static void
compare_settings(struct differences *d)
{
    g_autoptr(GList) then = json_object_get_members(d->then);
    g_autoptr(GList) now = json_object_get_members(d->now);
    int count = 0;

    for (GList *key = then; key; key = key->next)
        compare_setting(d, key->data, &count);
    for (GList *key = now; key; key = key->next)
        if (!json_object_has_member(d->then, key->data))
            compare_setting(d, key->data, &count);
}

/* An option that no setting says, such as --optimizer-chunk, as it is typed. */
static void
compare_typed(void *data, const char *name, const char *text)
{
    struct differences *d = data;
    g_autofree char *option = g_strconcat("--", name, NULL);
    bool given = json_object_has_member(d->typed_then, name);
    g_autofree char *was = given ? value_of(json_object_get_member(d->typed_then, name)) : NULL;

    if (!g_ptr_array_find_with_equal_func(d->compared, option, g_str_equal, NULL) &&
        g_strcmp0(was, text))
        add_difference(d, option, text, was);
}

void
cli_run_course_list_settings(const struct cli_training *training, GPtrArray *phrases)
{
    JsonNode *current = settings_now(training);
    JsonObject *now = cli_run_entry_part(current, "settings");
    g_autoptr(GList) keys = now ? json_object_get_members(now) : NULL;

    g_ptr_array_add(phrases, g_strdup_printf("-s %s", training->answer->result->strategy));
    for (GList *key = keys; key; key = key->next) {
        g_autofree char *option = option_of(key->data);
        g_autofree char *value = value_of(json_object_get_member(now, key->data));
        if (option)
            g_ptr_array_add(phrases, g_strdup_printf("%s %s", option, value));
    }
    g_clear_pointer(&current, json_node_unref);
}

/* The chosen strategy: with another one, the same options may mean other settings. */
static void
compare_strategy(struct differences *d, const struct cli_training *training, JsonNode *described)
{
    const char *was = NULL, *is = training->answer->result->strategy;
    JsonObject *all = described ? json_node_get_object(described) : NULL;

    if (all && mw_json_get_string(all, "strategy", "", &was, NULL) && was && strcmp(was, is))
        add_difference(d, "-s", is, was);
}

static void
explain(const struct cli_training *training, const struct differences *d, GError *error)
{
    g_autofree char *called = cli_run_drives_called(training->drives);
    char *all = g_strdup_printf("%s; of the settings, %s: give %s; or `memwall export %s -o "
                                "FOLDER`, and a new run --from FOLDER in another directory has "
                                "them otherwise",
                                error->message, d->all->str, d->again->str, called);

    g_free(error->message);
    error->message = all;
}

void
cli_run_course_explain(struct cli_training *training, GError *error)
{
    if (!training->then || !training->then->is_known)
        return;
    JsonNode *described = cli_run_entry_parse(training->options.nvme[0], NULL);
    JsonNode *current = settings_now(training);
    struct differences d = {
        .then = cli_run_entry_part(described, "settings"),
        .now = cli_run_entry_part(current, "settings"),
        .typed_then = cli_run_entry_part(described, "options"),
        .compared = g_ptr_array_new_with_free_func(g_free),
        .all = g_string_new(NULL),
        .again = g_string_new(NULL),
    };

    compare_strategy(&d, training, described);
    if (d.then && d.now)
        compare_settings(&d);
    if (d.typed_then)
        cli_options_each(compare_typed, &d);
    if (d.all->len)
        explain(training, &d, error);
    g_ptr_array_unref(d.compared);
    g_free(training->explained);
    training->explained = g_string_free(d.all, d.all->len == 0);
    g_string_free(d.again, TRUE);
    g_clear_pointer(&described, json_node_unref);
    g_clear_pointer(&current, json_node_unref);
}
