#include "study/largest.h"

#include <math.h>

#include "base/error.h"
#include "base/progress.h"
#include "base/spell.h"

static bool
find_row(const struct mw_question *question, enum mw_strategy strategy, struct mw_largest *row,
         GError **error)
{
    const struct mw_request request = {&question->model, &question->hardware[MW_OUTLOOK_TYPICAL]};
    struct mw_settings asked = question->settings, complete;
    struct mw_model model = question->model;
    bool more;

    asked.strategy = strategy;
    if (!mw_layer_set_is_empty(&asked.stage_begins))
        return mw_refuse(error, "{stage-split}: is of one number of layers, and {largest} tries "
                                "many; leave it out");
    if (!mw_settings_complete(&request, &asked, &complete, error))
        return false;
    model.layers = mw_planner_largest_layers(&request, &complete, &more, error);
    *row = (struct mw_largest){strategy, model.layers, NAN, NAN, more};
    if (model.layers > 0) {
        model.dense_layers = MIN(model.dense_layers, model.layers);
        row->params = (double)mw_model_gate_params(&model, asked.gate);
        row->paper_params = (double)mw_model_params_paper(&model);
    }
    return model.layers >= 0;
}

/* For "auto", a strategy that refuses the other settings has no row, unless all refuse them. */
static bool
append_rows(const struct mw_question *question, enum mw_strategy strategy, GArray *rows,
            GError **error)
{
    const struct mw_strategies asked = mw_strategies_of(strategy);

    for (int s = 0; s < asked.count; s++) {
        g_autoptr(GError) refused = NULL;
        struct mw_largest row;

        mw_progress("most layers that fit: %s, strategy %d of %d", mw_strategy_name(asked.one[s]),
                    s + 1, asked.count);
        if (find_row(question, asked.one[s], &row, &refused)) {
            g_array_append_val(rows, row);
        } else if (asked.count == 1 || (s + 1 == asked.count && !rows->len)) {
            g_propagate_error(error, g_steal_pointer(&refused));
            return false;
        }
    }
    return true;
}

GArray *
mw_largest_find(const struct mw_question *question, GError **error)
{
    GArray *rows = g_array_new(FALSE, FALSE, sizeof(struct mw_largest));

    for (int i = 0; i < question->strategy_count; i++)
        if (!append_rows(question, question->strategies[i], rows, error)) {
            g_array_unref(rows);
            return NULL;
        }
    return rows;
}
