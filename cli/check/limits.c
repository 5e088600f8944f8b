/* Tolerances: shares that options give as 3% or 0.03. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/nearest.h"
#include "base/number.h"
#include "cli/check/check.h"

#define COUNT_MAX 1e6

/* "3%" or "0.03", from 0 to `most`.  3 alone may mean either, and is refused. */
static bool
read_share(const char *option, const char *text, double most, double *share, GError **error)
{
    double value;
    const char *end = mw_number_scan(text, &value);
    bool percent = end && !strcmp(end, "%");

    if (end && (percent || !*end)) {
        value = percent ? value / 100 : value;
        if (value >= 0 && value <= most &&
            (percent || value < 1 || !strcmp(option, "--min-of-predicted"))) {
            *share = value;
            return true;
        }
    }
    return mw_refuse(error, "%s %s: must be a share from 0 to %g%%, such as 3%% or 0.03", option,
                     text, 100 * most);
}

static bool
read_count(const char *option, const char *text, double least, int64_t *count, GError **error)
{
    const struct mw_number number = {.name = option, .min = least, .max = COUNT_MAX, .whole = true};
    double value;

    if (!text)
        return true;
    if (!mw_number_read(&number, text, &value, error))
        return false;
    *count = (int64_t)value;
    return true;
}

/* "FIGURE=SHARE". */
static bool
read_tolerance(const char *text, struct mw_gate_limits *limits, GError **error)
{
    const char *equals = strchr(text, '=');
    g_autofree char *name = g_strndup(text, equals ? (gsize)(equals - text) : strlen(text));
    const char *known[MW_GATE_FIGURES + 1] = {NULL};
    int figure = mw_gate_figure_find(name);

    for (int i = 0; i < MW_GATE_FIGURES; i++)
        known[i] = mw_gate_figures[i].name;
    if (equals && figure >= 0)
        return read_share("--tolerance", equals + 1, 10, &limits->worse[figure], error);
    g_autofree char *like = mw_names_like(name, known, "");
    g_autofree char *all = g_strjoinv(", ", (char **)known);
    return mw_refuse(error, "--tolerance %s: must be FIGURE=SHARE%s%s%s; figures are %s", text,
                     like ? "; did you mean " : "", like ? like : "", like ? "?" : "", all);
}

bool
cli_check_limits(const struct cli_check_wish *wish, struct mw_gate_limits *limits, GError **error)
{
    *limits = (struct mw_gate_limits){
        .drop = MW_GATE_WORSE, .of_predicted = NAN, .warm_up = -1, .steps_min = MW_GATE_STEPS_MIN};
    limits->either_way = wish->either_way;
    if ((wish->max_drop && !read_share("--max-drop", wish->max_drop, 0.99, &limits->drop, error)) ||
        (wish->of_predicted &&
         !read_share("--min-of-predicted", wish->of_predicted, 10, &limits->of_predicted, error)) ||
        !read_count("warm-up", wish->warm_up, 0, &limits->warm_up, error) ||
        !read_count("min-steps", wish->steps_min, 1, &limits->steps_min, error))
        return false;
    for (int i = 0; i < MW_GATE_FIGURES; i++)
        limits->worse[i] = limits->drop;
    limits->worse[mw_gate_figure_find("feasible")] = 0;
    for (char **text = wish->tolerances; text && *text; text++)
        if (!read_tolerance(*text, limits, error))
            return false;
    return true;
}
