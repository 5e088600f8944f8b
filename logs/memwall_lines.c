/* memwall's own log (exec/course/log.h): a JSON object on a line for each step.  A step from which
 * the hypervisor took time is left out, unless all of them lost some. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "logs/formats.h"
#include "logs/lines.h"
#include "logs/values.h"

#define BEGIN "{\"step\": "

bool
mw_log_is_lines(const struct mw_log_text *in)
{
    g_autofree char *line = g_strndup(in->text, strcspn(in->text, "\r\n"));

    return g_str_has_prefix(line, BEGIN) && strstr(line, "\"step_time_s\": ");
}

/* The prediction that the share of its speed is of. */
static double
predicted_of(JsonObject *row)
{
    return mw_value_number(row, "of_predicted_speed") * mw_value_number(row, "step_time_s");
}

/* A line is a text of its own, whose only line is not worth naming beside its number. */
static JsonNode *
parse(const char *line, const char *where, GError **error)
{
    g_autofree char *text = mw_json_from_python(line, strlen(line), NULL);
    g_autofree char *again = g_strconcat(where, ": line 1", NULL);
    g_autoptr(GError) wrong = NULL;
    JsonNode *root = mw_json_parse(text, -1, where, &wrong);

    if (root)
        return root;
    if (g_str_has_prefix(wrong->message, again)) {
        const char *rest = wrong->message + strlen(again);
        mw_fail(error, MW_ERROR_FORMAT, "%s: %s", where, rest + strspn(rest, ",: "));
    } else {
        g_propagate_error(error, g_steal_pointer(&wrong));
    }
    return NULL;
}

static bool
read_line(struct mw_log_builder *builder, const struct mw_log_text *in,
          const struct mw_log_lines *lines, bool with_stolen, GError **error)
{
    g_autofree char *where = g_strdup_printf("%s:%" G_GINT64_FORMAT, in->path, lines->number);
    JsonNode *root = parse(lines->line, where, error);
    if (!root)
        return false;
    JsonObject *row = json_node_get_object(root);
    double step = mw_value_number(row, "step");
    bool stolen = mw_value_number(row, "stolen_s") > 0;
    bool good = (step >= 1 && step < MW_LOG_STEP_MAX) ||
                mw_fail(error, MW_ERROR_FORMAT, "%s: step: must be a number from 1 on", where);
    good = good && mw_log_add_step(
                       builder, lines->number, (int64_t)step,
                       stolen && !with_stolen ? NAN : mw_value_number(row, "step_time_s"), error);
    double predicted_s = predicted_of(row);
    if (good && predicted_s > 0)
        mw_log_builder_steps(builder)->predicted_s = predicted_s;
    json_node_unref(root);
    return good;
}

static struct mw_log_builder *
read_all(const struct mw_log_text *in, const char *format, bool with_stolen, GError **error)
{
    struct mw_log_lines lines = {.text = in->text, .end = in->text + in->length};
    struct mw_log_builder *builder = mw_log_builder_new(in, format, MW_GATE_STEP_TIME);
    bool good = true;

    while (good && mw_log_next_line(&lines))
        good =
            !*lines.line || read_line(builder, in, &lines, with_stolen, error); /* \r\n ends two */
    g_free(lines.line);
    mw_log_builder_steps(builder)->cut = lines.cut;
    if (good)
        return builder;
    mw_log_builder_free(builder);
    return NULL;
}

bool
mw_log_read_lines(const struct mw_log_text *in, struct mw_log *out, GError **error)
{
    static const char wants[] = "lines have step and step_time_s";
    struct mw_log_builder *builder = read_all(in, out->format, false, error);
    if (!builder)
        return false;
    if (mw_log_builder_end(builder, NULL, wants, out, NULL))
        return true;
    builder = read_all(in, out->format, true, error);
    return builder && mw_log_builder_end(builder, NULL, wants, out, error);
}
