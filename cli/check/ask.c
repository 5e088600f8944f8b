/* Questions of a baseline, and their answers as cases. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli/check/check.h"
#include "cli/cli.h"
#include "cli/paths.h"
#include "cli/progress_line.h"
#include "cli/question.h"
#include "cli/sweep/job.h"
#include "lib/question.h"

#define PREDICTIONS_MAX 4000 /* of a few KB each, so that check reads the baseline back */

/* --- one question ---------------------------------------------------------------------------- */

static struct mw_gate_case *
refused_case(const char *why)
{
    struct mw_gate_case *one = mw_gate_case_new();

    one->error = g_strdup(why);
    return one;
}

/* The only answer, as a reader of its JSON takes it; one that cannot be read is as good as
 * refused. */
static struct mw_gate_case *
answered_case(const struct memwall_answer *answer)
{
    const char *json = memwall_answer_json(answer);
    const struct mw_log_text in = {"the answer", json, strlen(json)};
    g_autoptr(GError) error = NULL;
    struct mw_log log;

    if (!mw_log_parse(&in, &log, &error))
        return refused_case(error->message);
    struct mw_gate_case *one = log.cases && log.cases->len == 1
                                   ? g_ptr_array_steal_index(log.cases, 0)
                                   : refused_case("strategy: must be one for each prediction");
    mw_log_clear(&log);
    return one;
}

/* A question that is refused has an answer too: why. */
static struct mw_gate_case *
ask(const struct memwall_question *question)
{
    struct memwall_error *refused = NULL;
    struct memwall_answer *answer = memwall_ask(question, MEMWALL_SIMULATE, &refused);
    struct mw_gate_case *one =
        answer ? answered_case(answer) : refused_case(memwall_error_message(refused));

    memwall_error_free(refused);
    memwall_answer_free(answer);
    one->question = mw_lib_texts(question);
    return one;
}

/* --- one after the other --------------------------------------------------------------------- */

struct asking {
    GPtrArray *cases;  /* of struct mw_gate_case */
    GHashTable *names; /* theirs; borrowed */
    int64_t count;     /* that there will be */
    int64_t begun_ns;
};

static bool
begin(struct asking *asking, const char *from, int64_t count, GError **error)
{
    *asking = (struct asking){.count = count, .begun_ns = mw_clock_now_ns()};
    if (count > PREDICTIONS_MAX)
        return mw_refuse(error, "%s: %" PRId64 " predictions; a baseline has at most %d", from,
                         count, PREDICTIONS_MAX);
    asking->cases = g_ptr_array_new_with_free_func(mw_gate_case_free);
    asking->names = g_hash_table_new(g_str_hash, g_str_equal);
    return true;
}

/* Takes the name. */
static bool
add(struct asking *asking, const struct memwall_question *question, char *name, GError **error)
{
    if (g_hash_table_contains(asking->names, name)) {
        mw_refuse(error, "--over, --points: %s is there twice", name);
        g_free(name);
        return false;
    }
    struct mw_gate_case *one = ask(question);
    g_free(one->name);
    one->name = name;
    g_hash_table_add(asking->names, name);
    g_ptr_array_add(asking->cases, one);
    cli_sweep_progress(asking->cases->len, asking->count, asking->begun_ns, 0);
    return true;
}

static GPtrArray *
end(struct asking *asking, bool good)
{
    cli_progress_line_clear();
    g_clear_pointer(&asking->names, g_hash_table_unref);
    if (!good)
        g_clear_pointer(&asking->cases, g_ptr_array_unref);
    return asking->cases;
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

GPtrArray *
cli_check_ask(const struct memwall_question *base, const struct mw_space *space, GError **error)
{
    int64_t points = mw_space_points(space);
    struct asking asking;
    bool good = begin(&asking, "--over, --points", MAX(points, 1), error);
    struct memwall_question *question = mw_lib_copy(base);

    if (good && !points)
        good = add(&asking, question, name_of(question, space, 0), error);
    for (int64_t point = 0; good && point < points; point++) {
        struct memwall_error *refused = NULL;
        good = mw_space_set(space, point, base, question, &refused)
                   ? add(&asking, question, name_of(question, space, point), error)
                   : cli_take_error(refused, error);
    }
    memwall_question_free(question);
    return end(&asking, good);
}

/* --- and again ------------------------------------------------------------------------------- */

/* "NAME=VALUE", as simulate takes it where check does. */
static bool
set_text(struct memwall_question *question, const char *text, GError **error)
{
    const char *value = strchr(text, '=');
    g_autofree char *name = g_strndup(text, (gsize)(value - text));

    if (cli_request_refuses(&cli_verb_check, name))
        return mw_refuse(error, "%s: check does not take it: its answers are not steps", name);
    if (!strcmp(name, "strategy") && strchr(value, ','))
        return mw_refuse(error, "%s: must be one strategy", text);
    return cli_question_set(question, name, value + 1, error);
}

static bool
set_texts(struct memwall_question *question, const char *path, const struct mw_gate_case *one,
          GError **error)
{
    for (char **text = one->question; text && *text; text++)
        if (!set_text(question, *text, error)) {
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
    struct asking asking;
    bool good = begin(&asking, wish->baseline, cases->len, error);

    for (guint i = 0; good && i < cases->len; i++) {
        const struct mw_gate_case *before = cases->pdata[i];
        struct memwall_question *question = memwall_question_new();
        good = set_texts(question, wish->baseline, before, error) &&
               check_files(question, wish, error) &&
               add(&asking, question, g_strdup(before->name), error);
        memwall_question_free(question);
    }
    return end(&asking, good);
}
