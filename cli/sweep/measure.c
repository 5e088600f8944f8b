#include "cli/sweep/measure.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/json_value.h"
#include "cli/cli.h"
#include "lib/question.h"
#include "report/rows.h"

#define LOOK_US 2000                /* between looks at a run, which takes seconds */
#define END_NS INT64_C(10000000000) /* that a run has to end in, once it was told to */
#define OUTPUT_BYTES_MAX (256 << 20)

/* --- its command ------------------------------------------------------------------------------ */

static void
add(GPtrArray *line, const char *option, const char *text)
{
    if (text)
        g_ptr_array_add(line, g_strdup_printf("--%s=%s", option, text));
}

/* The batch of the predicted plan: run itself would take a small one where none is given. */
static void
add_batch(GPtrArray *line, const struct memwall_question *question, const struct mw_result *chosen)
{
    if (memwall_question_get(question, "global-batch"))
        return;
    if (!memwall_question_get(question, "batch"))
        add(line, "batch", mw_format_exact(chosen->micro_batch));
    if (!memwall_question_get(question, "grad-accum"))
        add(line, "grad-accum", mw_format_exact((double)chosen->grad_accum));
}

static GPtrArray *
command_of(const struct cli_measure *measure, const struct memwall_question *question,
           const struct mw_result *chosen)
{
    GPtrArray *line = g_ptr_array_new_with_free_func(g_free);
    g_auto(GStrv) names = memwall_names("settings");

    g_ptr_array_add(line, g_file_read_link("/proc/self/exe", NULL));
    g_ptr_array_add(line, g_strdup("run"));
    g_ptr_array_add(line, g_strdup("--json"));
    for (char **name = names; *name; name++)
        if (strcmp(*name, "strategy") && !cli_request_refuses(&cli_verb_run, *name))
            add(line, *name, memwall_question_get(question, *name));
    add(line, "strategy", chosen->strategy);
    for (guint i = 0; i < question->keys->len; i++)
        add(line, "set", question->keys->pdata[i]);
    add_batch(line, question, chosen);
    for (char **option = measure->options; *option; option++)
        g_ptr_array_add(line, g_strdup(*option));
    g_ptr_array_add(line, NULL);
    return line;
}

/* --- the process ------------------------------------------------------------------------------ */

struct child {
    GPid pid;
    FILE *out, *err; /* files, so that nobody must read while it writes */
};

/* In the child, before it becomes another program: it ends if this process does. */
static void
follow_parent(void *data)
{
    const pid_t *parent = data;

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != *parent)
        _exit(CLI_FAILED);
}

/* A launcher's variables would make it a rank of this process's group. */
static char **
environment_of_child(void)
{
    static const char *const prefixes[] = {"OMPI_", "PMIX_", "PMI_"};
    char **all = g_get_environ();
    g_auto(GStrv) names = g_listenv();

    for (char **name = names; *name; name++)
        for (size_t i = 0; i < G_N_ELEMENTS(prefixes); i++)
            if (g_str_has_prefix(*name, prefixes[i]))
                all = g_environ_unsetenv(all, *name);
    return all;
}

static bool
start(char **line, struct child *child, GError **error)
{
    g_auto(GStrv) environment = environment_of_child();
    pid_t parent = getpid();

    child->out = tmpfile();
    child->err = tmpfile();
    if (!child->out || !child->err)
        return mw_refuse(error, "no temporary file for what memwall run prints");
    signal(SIGCHLD, SIG_DFL); /* who started this process may have it ignored: no status then */
    return g_spawn_async_with_fds(NULL, line, environment, G_SPAWN_DO_NOT_REAP_CHILD, follow_parent,
                                  &parent, &child->pid, -1, fileno(child->out), fileno(child->err),
                                  error);
}

/* Waits for its end; false: it was ended after so long.  It is told once, and killed if it does not
 * end then. */
static bool
wait_for(const struct child *child, double limit_s, int *status)
{
    int64_t begun_ns = mw_clock_now_ns(), told_ns = 0;

    while (waitpid(child->pid, status, WNOHANG) == 0) {
        int64_t now_ns = mw_clock_now_ns();
        if (!told_ns && (double)(now_ns - begun_ns) * 1e-9 > limit_s) {
            kill(child->pid, SIGTERM);
            told_ns = now_ns;
        } else if (told_ns && now_ns - told_ns > END_NS) {
            kill(child->pid, SIGKILL);
        }
        g_usleep(LOOK_US);
    }
    return !told_ns;
}

/* All that it wrote; g_free it. */
static char *
text_of(FILE *file, gsize *length)
{
    long end = fseek(file, 0, SEEK_END) ? 0 : MAX(0, ftell(file));
    char *text = g_malloc((gsize)MIN(end, OUTPUT_BYTES_MAX) + 1);

    rewind(file);
    *length = fread(text, 1, (gsize)MIN(end, OUTPUT_BYTES_MAX), file);
    text[*length] = '\0';
    return text;
}

/* The last line, which says why it failed. */
static bool
refuse_as_it_said(const struct child *child, int status, GError **error)
{
    gsize length;
    g_autofree char *said = text_of(child->err, &length);
    const char *line = strrchr(g_strchomp(said), '\n'), *own = "memwall: ";

    line = line ? line + 1 : said;
    line += g_str_has_prefix(line, own) ? strlen(own) : 0;
    if (*line)
        return mw_refuse(error, "run: %s", line);
    return WIFSIGNALED(status)
               ? mw_refuse(error, "run: signal %d ended it", WTERMSIG(status))
               : mw_refuse(error, "run: it ended with status %d", WEXITSTATUS(status));
}

/* --- what it measured ------------------------------------------------------------------------- */

static bool
read_figures(JsonNode *root, const struct mw_result *predicted, struct cli_measured *out,
             GError **error)
{
    static const char origin[] = "memwall run --json";
    JsonArray *answers = mw_value_array(json_node_get_object(root), "answers");
    JsonObject *answer = mw_value_element(answers, 0);
    JsonObject *compare = mw_value_object(answer, "compare");
    JsonObject *step = mw_value_object(compare, "step");
    double planned_s = NAN;
    const char *plan = NULL;

    if (!step)
        return mw_refuse(error, "run: its answer has no step");
    *out = (struct cli_measured){NAN, NAN, NAN, NAN, NAN, 0};
    if (!mw_json_get_number(step, "measured_s", 0, INFINITY, origin, &out->step_s, error) ||
        !mw_json_get_number(step, "predicted_s", 0, INFINITY, origin, &planned_s, error) ||
        !mw_json_get_number(compare, "fastest_s", 0, INFINITY, origin, &out->fastest_s, error) ||
        !mw_json_get_number(compare, "slowest_s", 0, INFINITY, origin, &out->slowest_s, error) ||
        !mw_json_get_int(compare, "steps", 0, INT64_MAX, origin, &out->steps, error) ||
        !mw_json_get_number(answer, "tokens_per_s", 0, INFINITY, origin, &out->tokens_per_s,
                            error) ||
        !mw_json_get_string(answer, "plan", origin, &plan, error))
        return false;
    if (g_strcmp0(plan, predicted->plan->title))
        return mw_refuse(error, "run: its plan was %s; predicted is %s", plan,
                         predicted->plan->title);
    out->share = planned_s / out->step_s;
    return true;
}

static bool
read_answer(const struct child *child, const struct mw_result *predicted, struct cli_measured *out,
            GError **error)
{
    gsize length;
    g_autofree char *text = text_of(child->out, &length);
    JsonNode *root = mw_json_parse(text, (gssize)length, "memwall run --json", error);
    bool good = root && read_figures(root, predicted, out, error);

    g_clear_pointer(&root, json_node_unref);
    return good;
}

/* The first run was refused as a command line: so will the others be. */
static void
note_first(struct cli_measure_first *first, int status, const GError *error)
{
    bool refused = WIFEXITED(status) && WEXITSTATUS(status) == CLI_USAGE;

    if (refused && error && !first->is_over)
        g_atomic_pointer_set(&first->refused, g_error_copy(error));
    first->is_over = true;
}

bool
cli_measure_point(const struct cli_measure *measure, const struct memwall_question *question,
                  const struct mw_result *predicted, struct cli_measured *out, GError **error)
{
    if (measure->first->refused)
        return mw_refuse(error, "%s", measure->first->refused->message);
    g_autoptr(GPtrArray) line = command_of(measure, question, predicted);
    struct child child = {0};
    int status = W_EXITCODE(CLI_FAILED, 0); /* where its own cannot be learnt */
    bool good = start((char **)line->pdata, &child, error);

    if (good && !wait_for(&child, measure->limit_s, &status))
        good = mw_refuse(error, "run: was ended after %s (--measure-limit)",
                         mw_format_seconds(measure->limit_s));
    else if (good)
        good = WIFEXITED(status) && WEXITSTATUS(status) == CLI_DONE
                   ? read_answer(&child, predicted, out, error)
                   : refuse_as_it_said(&child, status, error);
    note_first(measure->first, status, good ? NULL : *error);
    if (child.out)
        fclose(child.out);
    if (child.err)
        fclose(child.err);
    return good;
}

/* --- options and columns ---------------------------------------------------------------------- */

/* Whether an option is of the question, which the sweep asks. */
static bool
is_of_question(const char *option)
{
    static const char *const others[] = {"-m", "-H", "-s", "--set", "--plan", NULL};
    g_auto(GStrv) names = memwall_names("settings");
    g_autofree char *name = g_strndup(option, strcspn(option, "="));

    return g_strv_contains(others, name) ||
           (g_str_has_prefix(name, "--") &&
            g_strv_contains((const char *const *)names, name + strlen("--")));
}

bool
cli_measure_check_options(const struct cli_measure *measure, GError **error)
{
    static const char *const own[] = {"--json", "--resume", "--from", "--help", "-h", NULL};

    for (char **option = measure->options; *option; option++) {
        if (is_of_question(*option))
            return mw_refuse(error, "--measure: %s is of the sweep: give it there, or as an axis",
                             *option);
        if (g_strv_contains(own, *option))
            return mw_refuse(error, "--measure: leave out %s", *option);
    }
    return true;
}

bool
cli_measure_check_axis(const char *name, GError **error)
{
    return !cli_request_refuses(&cli_verb_run, name) ||
           mw_refuse(error, "--measure: memwall run does not take %s: it cannot be swept", name);
}

/* In this order. */
static const char *const columns[] = {"step_time_s",  "step_time_s_low", "step_time_s_high",
                                      "tokens_per_s", "of_predicted",    "steps"};

void
cli_measure_names_write(FILE *out)
{
    for (size_t i = 0; i < G_N_ELEMENTS(columns); i++)
        fprintf(out, MW_ROWS_MEASURED "%s,", columns[i]);
}

void
cli_measure_cells_write(FILE *out, const struct cli_measured *measured)
{
    const double cells[G_N_ELEMENTS(columns)] = {
        measured ? measured->step_s : NAN,    measured ? measured->fastest_s : NAN,
        measured ? measured->slowest_s : NAN, measured ? measured->tokens_per_s : NAN,
        measured ? measured->share : NAN,     measured ? (double)measured->steps : NAN};

    for (size_t i = 0; i < G_N_ELEMENTS(columns); i++)
        fprintf(out, "%s,", isfinite(cells[i]) ? mw_format_exact(cells[i]) : "");
}
