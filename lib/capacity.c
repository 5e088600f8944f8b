/* A question about many machines: which of them, and within what limits. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "lib/question.h"

#define NODES_MOST 100000
#define NODES_DEFAULT 8

const struct mw_number mw_lib_limits[MW_LIB_LIMITS] = {
    [MW_LIB_MAX_NODES] = {.name = "max-nodes", .min = 1, .max = NODES_MOST, .whole = true},
    [MW_LIB_DEADLINE] = {.name = "deadline", .min = 1e-3, .max = 1e5, .noun = "number of days"},
    [MW_LIB_BUDGET] =
        {.name = "budget", .min = 1e-2, .max = 1e12, .counts = true, .noun = "number of USD"},
    [MW_LIB_MAX_POWER] = {.name = "max-power", .min = 1e-2, .max = 1e7, .noun = "number of kW"},
};

/* --- which machines ---------------------------------------------------------------------------- */

static bool
is_pattern(const char *name)
{
    return strpbrk(name, "*?") != NULL;
}

static void
add_once(GPtrArray *names, const char *name)
{
    for (guint i = 0; i < names->len; i++)
        if (!strcmp(names->pdata[i], name))
            return;
    g_ptr_array_add(names, g_strdup(name));
}

/* All profiles that the pattern matches. */
static bool
add_matching(GPtrArray *names, const char *pattern, GError **error)
{
    g_auto(GStrv) all = mw_hwprofile_list();
    bool any = false;

    for (char **name = all; *name; name++)
        if (g_pattern_match_simple(pattern, *name)) {
            add_once(names, *name);
            any = true;
        }
    return any || mw_refuse(error,
                            "{machines=%s}: no profile has such a name; `memwall list hwprofiles` "
                            "names them",
                            pattern);
}

/* Every machine that can be rented or bought: those that no one prices are papers' and tests'. */
static bool
add_any(GPtrArray *names)
{
    g_auto(GStrv) all = mw_hwprofile_list();

    for (char **name = all; *name; name++)
        add_once(names, *name);
    return true;
}

static GPtrArray *
machine_names(const char *text, GError **error)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    g_auto(GStrv) words = g_strsplit(text, ",", -1);
    bool good = true;

    for (char **word = words; good && *word; word++) {
        if (!strcmp(*word, "any"))
            good = add_any(names);
        else if (is_pattern(*word))
            good = add_matching(names, *word, error);
        else
            add_once(names, *word);
    }
    return good ? g_steal_pointer(&names) : NULL;
}

/* --- the question on each of them ------------------------------------------------------------- */

static bool
read_on(const struct memwall_question *question, const struct mw_model *model, char *name,
        struct mw_question *out, GError **error)
{
    struct memwall_question one = *question;

    one.hardware = name;
    *out = (struct mw_question){.model = *model, .strategy_count = 1, .ends = true};
    return mw_lib_profile(&one, out, error) && mw_lib_settings(&one, out, error) &&
           mw_lib_software(&one, out, NULL, error);
}

/* A name that is typed must be one; a machine that the settings do not suit is a row of the
 * answer. */
static bool
read_each(const struct memwall_question *question, const struct mw_model *model, GPtrArray *names,
          struct mw_lib_machines *out, GError **error)
{
    out->questions = g_new0(struct mw_question, names->len);
    out->why = g_new0(char *, names->len + 1);
    for (guint i = 0; i < names->len; i++) {
        g_autoptr(GError) refused = NULL;
        struct mw_question *one = &out->questions[out->count++];
        if (read_on(question, model, names->pdata[i], one, &refused))
            continue;
        if (!one->profile || !one->hardware[MW_OUTLOOK_TYPICAL].gpus_per_node) {
            g_propagate_error(error, g_steal_pointer(&refused));
            return false;
        }
        out->why[i] = g_strdup(refused->message);
    }
    return true;
}

static double
limit_of(const struct memwall_question *question, enum mw_lib_limit limit, double otherwise)
{
    double value = otherwise;

    if (question->limits[limit])
        mw_number_read(&mw_lib_limits[limit], question->limits[limit], &value, NULL);
    return value;
}

static bool
check_settings(const struct memwall_question *question, GError **error)
{
    struct mw_question trial = {.strategy_count = 1};
    bool good = mw_lib_settings(question, &trial, error);

    mw_deepspeed_said_clear(&trial.deepspeed);
    if (good && trial.settings.tokens <= 0)
        return mw_refuse(error, "{tokens}: is missing; how many to train on decides days and cost");
    if (good && (trial.settings.serve || trial.settings.objective != MW_OBJECTIVE_CAUSAL))
        return mw_refuse(error, "{machines}: are compared for training by next tokens alone; leave "
                                "out {serve} and {objective}");
    return good;
}

bool
mw_lib_read_machines(const struct memwall_question *question, struct mw_lib_machines *out,
                     const char **blamed, GError **error)
{
    struct mw_model model;

    *out = (struct mw_lib_machines){
        .limits = {.days = limit_of(question, MW_LIB_DEADLINE, INFINITY),
                   .usd = limit_of(question, MW_LIB_BUDGET, INFINITY),
                   .power_w = 1000 * limit_of(question, MW_LIB_MAX_POWER, INFINITY),
                   .nodes_max = (int64_t)limit_of(question, MW_LIB_MAX_NODES, NODES_DEFAULT)}};
    *blamed = "model";
    if (!mw_lib_model(question, &model, error))
        return false;
    *blamed = NULL;
    if (!check_settings(question, error))
        return false;
    *blamed = "machines";
    g_autoptr(GPtrArray) names =
        machine_names(question->machines ? question->machines : "any", error);
    return names && read_each(question, &model, names, out, error);
}

void
mw_lib_machines_clear(struct mw_lib_machines *machines)
{
    for (int i = 0; i < machines->count; i++)
        mw_lib_clear(&machines->questions[i]);
    g_free(machines->questions);
    g_strfreev(machines->why);
    *machines = (struct mw_lib_machines){0};
}
