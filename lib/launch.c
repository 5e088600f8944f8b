#include "lib/launch.h"

#include <string.h>

#include "base/error.h"
#include "base/format.h"
#include "base/spell.h"
#include "lib/answer.h"

/* Notes on a written ds_config.json, without the option's name before them. */
static char **
deepspeed_notes(char *const *notes)
{
    g_autofree char *begin = mw_spelled("{write-deepspeed}: ");
    GPtrArray *found = g_ptr_array_new();

    for (; notes && *notes; notes++)
        if (g_str_has_prefix(*notes, begin))
            g_ptr_array_add(found, g_strdup(*notes + strlen(begin)));
    g_ptr_array_add(found, NULL);
    return (char **)g_ptr_array_free(found, FALSE);
}

bool
mw_lib_launch(const struct memwall_answer *answer, const char *target, struct mw_launch *out,
              GError **error)
{
    const struct mw_answer *one = answer->count == 1 ? answer->answers[0] : NULL;

    if (!one || !one->sizing || !one->result->asked)
        return mw_refuse(error, "{for=%s}: takes the plan of one strategy", target);
    g_auto(GStrv) notes = deepspeed_notes(one->result->notes);
    struct mw_launch_plan plan = {
        .sizing = one->sizing, .asked = one->result->asked, .notes = notes};
    const char *model = mw_launch_asked(&plan, "model");
    plan.is_path = g_file_test(model, G_FILE_TEST_EXISTS) &&
                   (strchr(model, '/') || g_str_has_suffix(model, ".json"));
    return mw_launch_make(target, &plan, out, error);
}

char *
mw_lib_launch_title(const struct memwall_answer *answer)
{
    const struct mw_result *r = answer->answers[0]->result;
    g_autofree char *tokens = g_strdup(mw_format_count(r->tokens_per_step));
    int64_t gpus = r->nodes * r->gpus_per_node;

    return g_strdup_printf(
        "%s on %" G_GINT64_FORMAT " x %s (%" G_GINT64_FORMAT " GPU%s) with %s, %s tokens per step",
        r->model, r->nodes, r->hardware, gpus, gpus == 1 ? "" : "s", r->strategy, tokens);
}
