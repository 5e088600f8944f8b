#include "cli/plan_file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/input.h"
#include "cli/output.h"

/* Of a name that is longer no file could be called. */
#define MACHINE_LINE_BYTES 4096

struct mw_plan *
cli_plan_file_read(const char *path, GError **error)
{
    static const struct mw_input_kind kind = {CLI_PLAN_WANTED, MW_PLAN_TEXT_BYTES_MAX,
                                              MW_PLAN_TEXT_BEGIN};
    gsize length;
    g_autofree char *text = mw_input_read(path, &kind, &length, error);
    char why[256];

    if (!text)
        return NULL;
    struct mw_plan *plan = mw_plan_parse(text, length, why, sizeof why);
    if (plan)
        return plan;
    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT, "%s: %s", path, why);
    return NULL;
}

char *
cli_plan_file_model(const char *path)
{
    struct mw_plan *plan = cli_plan_file_read(path, NULL);
    char *word = g_strdup(plan && plan->model ? plan->model : "plan");

    mw_plan_free(plan);
    return g_strcanon(word, G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "-_", '-');
}

bool
cli_plan_file_check(const char *path, GError **error)
{
    struct mw_plan *plan = cli_plan_file_read(path, error);
    bool good = plan != NULL;

    mw_plan_free(plan);
    return good;
}

/* Of the head alone. */
static char *
read_machine(FILE *in)
{
    char line[MACHINE_LINE_BYTES];

    for (int i = 0; i < 3 && fgets(line, sizeof line, in); i++)
        if (g_str_has_prefix(line, "machine "))
            return g_strstrip(g_strdup(line + strlen("machine ")));
    return NULL;
}

char *
cli_plan_file_machine(const char *path)
{
    FILE *in = g_file_test(path, G_FILE_TEST_IS_REGULAR) ? fopen(path, "re") : NULL;
    g_autofree char *name = in ? read_machine(in) : NULL;
    bool is_name =
        name && strcmp(name, "here") && !strchr(name, '/') && !g_str_has_suffix(name, ".ini");
    struct mw_hwprofile *profile = is_name ? mw_hwprofile_load(name, NULL) : NULL;

    if (in)
        fclose(in);
    if (!profile)
        return NULL;
    mw_hwprofile_free(profile);
    return g_steal_pointer(&name);
}

/* Figures of the same machine agree to rounding, but for what a profile was set to. */
#define SAME_MEMORY 0.01

static const char *
other_memory(const struct mw_plan *plan, const struct mw_result *r)
{
    for (int t = 0; t < MW_TIER_COUNT; t++) {
        double then = (double)plan->tiers[t].capacity_bytes,
               now = (double)r->tiers[t].capacity_bytes;
        if (fabs(then - now) > SAME_MEMORY * fmax(then, now))
            return mw_tier_name(t);
    }
    return NULL;
}

/* The user may mean to ask about another machine, or not know that it is one. */
static void
tell_machine(const struct cli_request *request, const struct mw_plan *plan,
             const struct mw_result *r)
{
    const char *name = mw_hwprofile_name(request->question.profile), *tier = other_memory(plan, r);

    if (plan->machine && strcmp(plan->machine, name))
        cli_say("%s: the plan was made for machine %s; this answer is for %s, -H names another",
                request->plan_file, plan->machine, name);
    else if (tier)
        cli_say("%s: the plan was made for another amount of %s memory than %s has; this answer is "
                "for %s, -H and --set name another",
                request->plan_file, tier, name, name);
}

int
cli_plan_file(const struct cli_request *request)
{
    g_autoptr(GError) error = NULL;
    struct mw_plan *plan = cli_plan_file_read(request->plan_file, &error);
    struct mw_answer *answer =
        plan ? mw_answer_of_plan(&request->question, request->plan_file, plan, &error) : NULL;

    if (!answer)
        return cli_fail(error);
    tell_machine(request, plan, answer->result);
    int status = cli_answers_print(request, &answer, 1, false);
    mw_answer_free(answer);
    return status;
}
