#include "cli/run/taken.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/calibration/calibrate.h"
#include "cli/options.h"
#include "cli/run/adapter.h"
#include "cli/runs/aside.h"
#include "cli/runs/runs.h"
#include "exec/commit/run_files.h"
#include "exec/ranks/ranks.h"
#include "lib/question.h"

/* --- writing a description -------------------------------------------------------------------- */

/* Follows the rule by which models and profiles are loaded: text that is not a path is a name. */
static bool
is_path(const char *name)
{
    return strchr(name, '/') || g_str_has_suffix(name, ".json") || g_str_has_suffix(name, ".ini");
}

static void
put_path(struct mw_json_writer *json, const char *key, const char *path)
{
    g_autofree char *absolute = path ? g_canonicalize_filename(path, NULL) : NULL;

    if (path)
        mw_json_string(json, key, is_path(path) ? absolute : path);
}

static void
put_option(void *json, const char *name, const char *text)
{
    mw_json_string(json, name, text);
}

void
cli_run_taken_write(struct mw_json_writer *json, const struct cli_training *training)
{
    const struct cli_request *request = training->request;
    g_autofree char *here = cli_here_path();
    enum mw_strategy strategy = request->question.strategies[0];

    mw_json_begin(json, "options", '{', false);
    if (request->plan_file) {
        g_autofree char *plan = g_canonicalize_filename(request->plan_file, NULL);
        mw_json_string(json, "plan", plan);
    } else {
        put_path(json, "model", request->model_name);
    }
    if (strcmp(request->hardware_name, here))
        put_path(json, "hardware", request->hardware_name);
    if (request->sets && *request->sets) {
        mw_json_begin(json, "set", '[', true);
        for (char **set = request->sets; *set; set++)
            mw_json_string(json, NULL, *set);
        mw_json_end(json, ']');
    }
    if (strategy != MW_STRATEGY_AUTO)
        mw_json_string(json, "strategy", mw_strategy_name(strategy));
    if (request->deepspeed_file) {
        g_autofree char *path = g_canonicalize_filename(request->deepspeed_file, NULL);
        mw_json_string(json, "deepspeed", path);
    }
    cli_options_each(put_option, json);
    mw_json_end(json, '}');
}

/* --- reading a description -------------------------------------------------------------------- */

struct taking {
    const char *name; /* name of the run */
    JsonObject *root, *options, *settings, *training;
    GString *asked; /* options that the run was given, and that are taken */
    GString *found; /* values that the plan chose, and that are taken */
    char *save;     /* not taken, because it would replace the checkpoint there; NULL */
};

/* The value as it is typed; NULL: there is none.  g_free it. */
static char *
text_of(JsonObject *object, const char *key)
{
    JsonNode *node = object ? json_object_get_member(object, key) : NULL;

    if (!node || !JSON_NODE_HOLDS_VALUE(node))
        return NULL;
    if (json_node_get_value_type(node) == G_TYPE_STRING)
        return g_strdup(json_node_get_string(node));
    return g_strdup_printf("%.15g", json_node_get_double(node));
}

static void
append_option(GString *text, const char *option, const char *value)
{
    g_string_append_printf(text, "%s%s %s", text->len ? ", " : "", option, value);
}

/* Sets *to, unless it was given. */
static bool
take_file(struct taking *taking, const char *option, JsonObject *from, const char *key, char **to,
          GError **error)
{
    g_autofree char *value = *to ? NULL : text_of(from, key);

    if (!value || !*value)
        return true;
    if (is_path(value) && !g_file_test(value, G_FILE_TEST_EXISTS))
        return mw_refuse(error,
                         "--resume: run %s was started with %s %s, which no longer exists: "
                         "give %s",
                         taking->name, option, value, option);
    append_option(taking->asked, option, value);
    *to = g_steal_pointer(&value);
    return true;
}

static void
take_sets(struct taking *taking, struct cli_request *request)
{
    JsonNode *node = taking->options ? json_object_get_member(taking->options, "set") : NULL;
    JsonArray *array = node && JSON_NODE_HOLDS_ARRAY(node) ? json_node_get_array(node) : NULL;
    g_autoptr(GPtrArray) sets = g_ptr_array_new();

    for (guint i = 0; array && i < json_array_get_length(array); i++) {
        JsonNode *set = json_array_get_element(array, i);
        if (json_node_get_value_type(set) != G_TYPE_STRING)
            continue;
        g_ptr_array_add(sets, g_strdup(json_node_get_string(set)));
        append_option(taking->asked, "--set", json_node_get_string(set));
    }
    if (!sets->len)
        return;
    g_ptr_array_add(sets, NULL);
    request->sets = (char **)g_ptr_array_steal(sets, NULL);
}

static bool
take_hardware(struct taking *taking, struct cli_request *request, GError **error)
{
    if (request->hardware_name)
        return true;
    if (!request->sets)
        take_sets(taking, request);
    return take_file(taking, "-H", taking->options, "hardware", &request->hardware_name, error);
}

static void
take_option(struct taking *taking, GString *said, const char *name, const char *value)
{
    g_autofree char *option = g_strconcat("--", name, NULL);

    if (cli_options_take(name, value, said == taking->found))
        append_option(said, option, value);
}

/* Whether other options already give this, or leave nothing that it could be of: three options give
 * the number of sequences, and two of them determine it. */
static bool
is_said_otherwise(const char *name)
{
    if (!strcmp(name, "lora-alpha"))
        return cli_options_is_given("train") && !cli_run_adapter_trains();
    if (!strcmp(name, "global-batch"))
        return cli_options_is_given("batch") || cli_options_is_given("grad-accum");
    return (!strcmp(name, "batch") || !strcmp(name, "grad-accum")) &&
           cli_options_is_given("global-batch");
}

/* Settings that are of another one, or say otherwise what that says: where the other is given, and
 * not as the run had it, nobody has asked for these. */
static const struct {
    const char *name, *beside;
} companions[] = {{"virtual-stages", "schedule"},
                  {"recompute-list", "recompute-layers"},
                  {"recompute-layers", "recompute-list"},
                  {"stage-split", "stage-replicas"}};

static bool
goes_with_another(const struct taking *taking, const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(companions); i++) {
        const char *given = cli_options_text(companions[i].beside);
        g_autofree char *was = text_of(taking->options, companions[i].beside);
        if (!strcmp(companions[i].name, name) && given && g_strcmp0(given, was) != 0)
            return true;
    }
    return false;
}

/* What is taken does not keep others from being taken. */
static void
take_asked(struct taking *taking)
{
    g_autoptr(GList) names = taking->options ? json_object_get_members(taking->options) : NULL;
    g_autoptr(GList) wanted = NULL;

    for (GList *each = names; each; each = each->next)
        if (!goes_with_another(taking, each->data))
            wanted = g_list_prepend(wanted, each->data);
    wanted = g_list_reverse(wanted);
    for (GList *each = wanted; each; each = each->next) {
        g_autofree char *value = text_of(taking->options, each->data);
        if (value && strcmp(value, "auto") && !is_said_otherwise(each->data))
            take_option(taking, taking->asked, each->data, value);
    }
}

/* Takes what the state and its place in the data depend on; gradients go with the optimizer
 * state. */
static void
take_found(struct taking *taking)
{
    static const struct {
        const char *key, *option;
    } rows[] = {{"micro_batch", "batch"},
                {"grad_accum", "grad-accum"},
                {"seq", "seq"},
                {"param_device", "param-device"},
                {"optimizer_device", "optimizer-device"},
                {"commit", "commit"},
                {"tiles", "tiles"}};

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *value = text_of(taking->settings, rows[i].key);
        /* A split that was not requested was made for one machine. */
        if (value && *value && !strchr(value, ':') && !is_said_otherwise(rows[i].option))
            take_option(taking, taking->found, rows[i].option, value);
    }
}

/* Takes nothing if another strategy or a file with settings is given: the plan then follows from
 * those. */
static bool
take_plan(struct taking *taking, struct cli_request *request, char **strategies, GError **error)
{
    g_autofree char *strategy = text_of(taking->root, "strategy");
    g_autofree char *asked = text_of(taking->options, "strategy");
    bool given = *strategies != NULL || request->deepspeed_file != NULL;

    if (!given && !take_file(taking, "--deepspeed", taking->options, "deepspeed",
                             &request->deepspeed_file, error))
        return false;
    /* refused later if it must be */
    if (*strategies ? g_strcmp0(*strategies, strategy) != 0 : given)
        return true;
    if (!*strategies && strategy && !request->deepspeed_file) {
        append_option(asked ? taking->asked : taking->found, "-s", strategy);
        *strategies = g_strdup(strategy);
    }
    take_asked(taking);
    if (!request->deepspeed_file)
        take_found(taking);
    return true;
}

static void
take_value(struct taking *taking, enum cli_run_option option, const char *name, JsonObject *from,
           const char *key)
{
    g_autofree char *value = text_of(from, key);

    if (cli_run_options_take(option, value))
        append_option(taking->asked, name, value);
}

static bool
take_training(struct taking *taking, GError **error)
{
    g_autofree char *data = cli_run_options_data();

    if (!take_file(taking, "--data", taking->training, "data", &data, error))
        return false;
    cli_run_options_take(CLI_RUN_DATA, data);
    g_autofree char *weights = cli_run_options_weights();
    if (!take_file(taking, "--weights", taking->training, "weights", &weights, error))
        return false;
    cli_run_options_take(CLI_RUN_WEIGHTS, weights);
    take_value(taking, CLI_RUN_STEPS, "--steps", taking->root, "steps");
    take_value(taking, CLI_RUN_LOG, "--log", taking->training, "log");
    taking->save = cli_run_options_saves() ? NULL : text_of(taking->training, "save");
    return true;
}

static bool
take_all(struct taking *taking, struct cli_request *request, char **strategies, GError **error)
{
    JsonObject *has_model =
        json_object_has_member(taking->root, "options") ? taking->options : taking->root;

    if (!request->model_name &&
        !take_file(taking, "--plan", taking->options, "plan", &request->plan_file, error))
        return false;
    if (request->plan_file)
        return take_training(taking, error) && take_hardware(taking, request, error);
    return take_file(taking, "-m", has_model, "model", &request->model_name, error) &&
           take_training(taking, error) && take_hardware(taking, request, error) &&
           take_plan(taking, request, strategies, error);
}

/* A description of an older memwall, which had no slices or stages, need not say them. */
static void
note_division(const struct taking *taking)
{
    struct cli_run_division was = {.slices = 1, .stages = 1};
    const struct {
        const char *key;
        int64_t *to;
    } rows[] = {{"ranks", &was.ranks}, {"slices", &was.slices}, {"stages", &was.stages}};

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        JsonNode *node = json_object_get_member(taking->root, rows[i].key);
        if (node && JSON_NODE_HOLDS_VALUE(node) && json_node_get_value_type(node) == G_TYPE_INT64 &&
            json_node_get_int(node) > 0)
            *rows[i].to = json_node_get_int(node);
    }
    cli_run_options_divided(&was);
}

/* --- the run --------------------------------------------------------------------------------- */

/* Directory of the run's description.  NULL with *error; or NULL without, if nothing names a run.
 * g_free it. */
static char *
find_description(GError **error)
{
    struct cli_run_resuming asked = cli_run_options_resuming();
    g_autofree char *note = NULL;

    if (asked.nvme)
        return cli_runs_end_replacing(asked.nvme[0], false, NULL) ? g_strdup(asked.nvme[0]) : NULL;
    struct cli_run *run =
        asked.run ? cli_runs_find(asked.run, error) : cli_runs_newest(&note, error);
    if (!run)
        return NULL;
    if (!asked.run)
        cli_run_options_found(run->entry.name, note);
    char *directory = cli_runs_described(&run->entry);
    cli_run_free(run);
    return directory;
}

/* The error for a directory without the description of a run. */
static bool
refuse_undescribed(const char *directory, GError **error)
{
    struct mw_run_files files;
    bool holds = mw_run_files_look(directory, &files, NULL) && files.record;

    mw_run_files_clear(&files);
    return holds ? mw_refuse(error,
                             "%s/" MW_RUN_DESCRIPTION
                             ": is missing, and with it the options of the run: give them again, "
                             "with -m MODEL and --data FILE",
                             directory)
                 : mw_refuse(error,
                             "%s: holds no run to resume: `memwall list runs` shows where runs are",
                             directory);
}

/* The line that lists what was taken.  g_free it. */
static char *
taken_text(const struct taking *taking)
{
    g_autofree char *save =
        taking->save ? g_strdup_printf("; without --save, no checkpoint is written (%s stays as "
                                       "it is)",
                                       taking->save)
                     : g_strdup("");

    return g_strdup_printf("--resume: taken from run %s: %s%s%s%s", taking->name,
                           taking->asked->str, taking->found->len ? ", " : "", taking->found->str,
                           save);
}

/* No step of a pipeline without a flush is durable: nothing that the run had helps. */
static bool
check_schedule(GError **error)
{
    const char *text = cli_options_text("schedule");

    for (int i = 0; text && i < MW_SCHEDULE_COUNT; i++)
        if (mw_schedule_row(i)->no_flush && !strcmp(mw_schedule_row(i)->name, text))
            return mw_refuse(error,
                             "--schedule %s: no checkpoint has what a pipeline without a flush has "
                             "under way, so it cannot --resume; leave out --schedule",
                             text);
    return true;
}

static bool
take_from_description(const char *directory, struct cli_request *request, char **strategies,
                      GError **error)
{
    JsonNode *root = cli_run_entry_parse(directory, NULL);
    struct taking taking = {.asked = g_string_new(NULL), .found = g_string_new(NULL)};
    bool good = true;

    g_autofree char *data = cli_run_options_data();
    if (!root && !((request->model_name || request->plan_file) && data))
        good = refuse_undescribed(directory, error);
    if (root && JSON_NODE_HOLDS_OBJECT(root)) {
        taking.root = json_node_get_object(root);
        taking.options = cli_run_entry_part(root, "options");
        taking.settings = cli_run_entry_part(root, "settings");
        taking.training = cli_run_entry_part(root, "training");
        g_autofree char *name = text_of(taking.root, "name");
        taking.name = name ? name : directory;
        note_division(&taking);
        good = take_all(&taking, request, strategies, error);
        if (good && taking.asked->len)
            cli_run_options_say(taken_text(&taking));
    }
    g_free(taking.save);
    g_string_free(taking.asked, TRUE);
    g_string_free(taking.found, TRUE);
    if (root)
        json_node_unref(root);
    return good;
}

bool
cli_run_taken_complete(struct cli_request *request, char **strategies, GError **error)
{
    GError *why = NULL;

    if (!cli_run_options_check_start(error))
        return false;
    request->asked->ranks = mw_ranks_launched();
    request->plan_file = g_strdup(cli_run_options_plan());
    if (!cli_run_options_resuming().resume)
        return cli_run_adapter_complete(request->plan_file, error);
    if (!check_schedule(error))
        return false;
    g_autofree char *directory = find_description(&why);
    if (directory)
        return take_from_description(directory, request, strategies, error);
    /* The list of another machine need not have the run: there the first rank finds it for all. */
    if (why && mw_ranks_is_launched_first()) {
        g_propagate_error(error, why);
        return false;
    }
    g_clear_error(&why);
    return true;
}
