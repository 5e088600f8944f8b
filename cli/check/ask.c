/* Questions of a baseline, and their answers as cases. */
#include <string.h>

#include "base/error.h"
#include "cli/check/check.h"
#include "cli/paths.h"
#include "cli/question.h"
#include "lib/question.h"

/* All that is set, as "NAME=VALUE". */
static GPtrArray *
texts_of(const struct memwall_question *question)
{
    GPtrArray *texts = g_ptr_array_new_with_free_func(g_free);
    char **names = memwall_names("settings");

    for (char **name = names; *name; name++) {
        const char *text = memwall_question_get(question, *name);
        if (text)
            g_ptr_array_add(texts, g_strdup_printf("%s=%s", *name, text));
    }
    for (guint i = 0; i < question->keys->len; i++)
        g_ptr_array_add(texts, g_strdup(question->keys->pdata[i]));
    memwall_names_free(names);
    return texts;
}

static struct mw_gate_case *
refused_case(struct memwall_error *refused)
{
    struct mw_gate_case *one = mw_gate_case_new();

    one->error = g_strdup(memwall_error_message(refused));
    memwall_error_free(refused);
    return one;
}

/* The only answer, as a reader of its JSON takes it. */
static struct mw_gate_case *
answered_case(const struct memwall_answer *answer)
{
    const char *json = memwall_answer_json(answer);
    const struct mw_log_text in = {"the answer", json, strlen(json)};
    g_autoptr(GError) error = NULL;
    struct mw_log log;

    if (!mw_log_parse(&in, &log, &error))
        g_error("%s", error->message);
    struct mw_gate_case *one = g_ptr_array_steal_index(log.cases, 0);
    mw_log_clear(&log);
    return one;
}

/* A question that is refused has an answer too: why. */
static struct mw_gate_case *
ask(const struct memwall_question *question)
{
    struct memwall_error *refused = NULL;
    struct memwall_answer *answer = memwall_ask(question, MEMWALL_SIMULATE, &refused);
    struct mw_gate_case *one = answer ? answered_case(answer) : refused_case(refused);

    memwall_answer_free(answer);
    one->question = texts_of(question);
    return one;
}

/* --- the first time -------------------------------------------------------------------------- */

/* By what the point sets; without points by model and machine, as an answer is named. */
static char *
name_of(const struct memwall_question *question, const struct mw_space *space, int64_t point)
{
    GString *name = g_string_new(NULL);

    for (size_t i = 0; i < mw_space_columns(space); i++) {
        const char *value = mw_space_value(space, point, i);
        if (*value)
            g_string_append_printf(name, "%s%s=%s", name->len ? " " : "", mw_space_name(space, i),
                                   value);
    }
    if (!name->len)
        g_string_printf(name, "%s on %s", memwall_question_get(question, "model"),
                        memwall_question_get(question, "hardware"));
    return g_string_free(name, FALSE);
}

static bool
add(GPtrArray *cases, const struct memwall_question *question, char *name, GError **error)
{
    struct mw_gate_case *one = ask(question);

    one->name = (g_free(one->name), name);
    for (guint i = 0; i < cases->len; i++) {
        const struct mw_gate_case *other = cases->pdata[i];
        if (strcmp(other->name, name))
            continue;
        mw_refuse(error, "--over, --points: %s is there twice", name);
        mw_gate_case_free(one);
        return false;
    }
    g_ptr_array_add(cases, one);
    return true;
}

GPtrArray *
cli_check_ask(const struct memwall_question *base, const struct mw_space *space, GError **error)
{
    GPtrArray *cases = g_ptr_array_new_with_free_func(mw_gate_case_free);
    struct memwall_question *question = mw_lib_copy(base);
    int64_t points = mw_space_points(space);
    bool good = true;

    if (!points)
        good = add(cases, question, name_of(question, space, 0), error);
    for (int64_t point = 0; good && point < points; point++) {
        struct memwall_error *refused = NULL;
        good = mw_space_set(space, point, base, question, &refused)
                   ? add(cases, question, name_of(question, space, point), error)
                   : cli_take_error(refused, error);
    }
    memwall_question_free(question);
    if (good)
        return cases;
    g_ptr_array_unref(cases);
    return NULL;
}

/* --- and again ------------------------------------------------------------------------------- */

static bool
set_texts(struct memwall_question *question, const char *path, const struct mw_gate_case *one,
          GError **error)
{
    for (guint i = 0; one->question && i < one->question->len; i++) {
        const char *text = one->question->pdata[i], *value = strchr(text, '=');
        g_autofree char *name = g_strndup(text, (gsize)(value - text));
        if (cli_question_set(question, name, value + 1, error))
            continue;
        g_prefix_error(error, "%s: \"%s\": ", path, one->name);
        return false;
    }
    return memwall_question_get(question, "model") ||
           mw_refuse(error,
                     "%s: \"%s\": does not have its question; name a second file to compare it "
                     "with, or make a baseline by --write-baseline",
                     path, one->name);
}

/* --junit must not replace what the question reads. */
static bool
check_files(const struct memwall_question *question, const struct cli_check_wish *wish,
            GError **error)
{
    const struct cli_path files[] = {
        {CLI_PATH_WRITES, "--junit", wish->junit},
        {CLI_PATH_READS_MODEL, "the baseline's model", memwall_question_get(question, "model")},
        {CLI_PATH_READS_PROFILE, "the baseline's hardware",
         memwall_question_get(question, "hardware")},
        {CLI_PATH_READS, "the baseline's deepspeed", memwall_question_get(question, "deepspeed")},
    };

    return cli_paths_check(files, G_N_ELEMENTS(files), error);
}

GPtrArray *
cli_check_ask_again(const struct cli_check_wish *wish, const GPtrArray *cases, GError **error)
{
    GPtrArray *again = g_ptr_array_new_with_free_func(mw_gate_case_free);
    bool good = true;

    for (guint i = 0; good && i < cases->len; i++) {
        const struct mw_gate_case *before = cases->pdata[i];
        struct memwall_question *question = memwall_question_new();
        good = set_texts(question, wish->baseline, before, error) &&
               check_files(question, wish, error) &&
               add(again, question, g_strdup(before->name), error);
        memwall_question_free(question);
    }
    if (good)
        return again;
    g_ptr_array_unref(again);
    return NULL;
}
