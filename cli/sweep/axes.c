#include "cli/sweep/axes.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "cli/options.h"
#include "report/rows.h"

/* A list of names, or all: a text with "=" is a model's dimensions or a machine's parts. */
static bool
is_list(const char *text)
{
    return text && !strchr(text, '=') && (strchr(text, ',') || !strcmp(text, "all"));
}

/* Makes an axis of an option that names several, which is then open. */
static bool
take_list(struct mw_space *space, const char *name, char **text, GError **error)
{
    if (!is_list(*text))
        return true;
    g_autofree char *axis = g_strdup_printf("%s=%s", name, *text);
    g_clear_pointer(text, g_free);
    return mw_space_add(space, axis, error);
}

static bool
fill(const struct cli_axes *axes, struct mw_space *space, struct cli_request *request,
     char **strategies, GError **error)
{
    struct {
        const char *name;
        char **text;
    } lists[] = {{"model", &request->model_name},
                 {"hardware", &request->hardware_name},
                 {"software", &request->software_name},
                 {"strategy", strategies}};

    for (size_t i = 0; i < G_N_ELEMENTS(lists); i++)
        if (!take_list(space, lists[i].name, lists[i].text, error))
            return false;
    if (axes->points_file && !mw_space_add_file(space, axes->points_file, error))
        return false;
    for (char **over = axes->over; over && *over; over++)
        if (!mw_space_add(space, *over, error))
            return false;
    return true;
}

static bool
is_set_by_key(const struct cli_request *request, const char *name)
{
    size_t length = strlen(name);

    for (char **key = request->sets; key && *key; key++)
        if (!strncmp(*key, name, length) && (*key)[length] == '=')
            return true;
    return false;
}

static bool
check_open(const struct cli_axes *axes, const struct mw_space *space,
           const struct cli_request *request, const char *strategies, GError **error)
{
    for (size_t column = 0; column < mw_space_columns(space); column++) {
        const char *name = mw_space_name(space, column);
        bool given = (!strcmp(name, "model") && request->model_name) ||
                     (!strcmp(name, "hardware") && request->hardware_name) ||
                     (!strcmp(name, "software") && request->software_name) ||
                     (!strcmp(name, "strategy") && strategies) ||
                     (!strcmp(name, "deepspeed") && request->deepspeed_file) ||
                     cli_options_is_given(name) || is_set_by_key(request, name);
        /* An empty value of a file is what the option has. */
        if (given && (!axes->points_file || *mw_space_first(space, name)))
            return mw_refuse(error,
                             "--over: %s is swept, and set by an option of its own: leave "
                             "one of them out",
                             name);
    }
    return true;
}

/* The first point's model and machine stand for all where one is needed to begin. */
static void
take_first(const struct mw_space *space, char **text, const char *name)
{
    const char *first = mw_space_first(space, name);

    if (!*text && first && *first)
        *text = g_strdup(first);
}

static bool
is_of_numbers(const struct mw_space *space, size_t column)
{
    const char *first = mw_space_value(space, 0, column);
    bool differs = false, numbers = true;

    for (int64_t point = 0; numbers && point < mw_space_points(space); point++) {
        const char *value = mw_space_value(space, point, column);
        differs = differs || strcmp(value, first) != 0;
        numbers = isfinite(mw_rows_number(value));
    }
    return differs && numbers;
}

int
cli_axes_of_numbers(const struct mw_space *space)
{
    int count = 0;

    for (size_t column = 0; column < mw_space_columns(space); column++)
        count += is_of_numbers(space, column);
    return count;
}

bool
cli_axes_fill(const struct cli_axes *axes, struct mw_space *space, struct cli_request *request,
              char **strategies, GError **error)
{
    if (!fill(axes, space, request, strategies, error) ||
        !check_open(axes, space, request, *strategies, error))
        return false;
    take_first(space, &request->model_name, "model");
    take_first(space, &request->hardware_name, "hardware");
    return true;
}
