/* A remedy: tensors sliced over another number of GPUs. */
#include <glib.h>

#include "planner/remedy/internal.h"

static int64_t
gpus_of_node(const struct mw_unfit *unfit)
{
    int64_t asked = unfit->asked->gpus_per_node;

    return asked == MW_AUTO ? unfit->request->hardware->gpus_per_node : asked;
}

bool
mw_may_slice(const struct mw_unfit *unfit, int64_t tp)
{
    const struct mw_model *model = unfit->request->model;

    return tp != unfit->asked->tp && !unfit->asked->tp_fixed && gpus_of_node(unfit) % tp == 0 &&
           model->heads % tp == 0 && model->hidden % tp == 0;
}

int
mw_slicings(const struct mw_unfit *unfit, int64_t tp[MW_SLICINGS_MAX])
{
    int64_t asked = unfit->asked->tp, gpus = gpus_of_node(unfit);
    int count = 0;

    for (int64_t more = asked + 1; more <= gpus && count < MW_SLICINGS_MAX; more++)
        if (mw_may_slice(unfit, more))
            tp[count++] = more;
    for (int64_t less = MIN(asked - 1, gpus); less >= 1 && count < MW_SLICINGS_MAX; less--)
        if (mw_may_slice(unfit, less))
            tp[count++] = less;
    return count;
}

/* The first slicing with which the changes keep the batch, else the one that leaves most sequences;
 * NULL: none fits. */
static char *
find_slicing(const struct mw_unfit *unfit, const struct mw_relaxation *changes)
{
    struct mw_relaxation best = {.batch = 0};
    int64_t tp[MW_SLICINGS_MAX];
    int count = mw_slicings(unfit, tp);

    for (int i = 0; i < count; i++) {
        struct mw_relaxation one = *changes;
        one.tp = tp[i];
        if (!mw_relaxation_minimize(unfit, &one))
            continue;
        if (one.batch == MW_AUTO)
            return mw_relaxation_text(unfit, &one, "", NULL);
        if (one.batch > best.batch)
            best = one;
    }
    return best.batch > 0 ? mw_relaxation_text(unfit, &best, "", NULL) : NULL;
}

/* With the requested strategy if it then fits, else with another one. */
char *
mw_remedy_slicing(const struct mw_unfit *unfit)
{
    struct mw_relaxation changes = mw_relaxation_none(unfit);

    changes.strategy = MW_STRATEGY_AUTO;
    return find_slicing(unfit, &changes);
}

char *
mw_remedy_slicing_and_settings(const struct mw_unfit *unfit)
{
    struct mw_relaxation changes;

    return mw_relaxation_of_all(unfit, &changes) ? find_slicing(unfit, &changes) : NULL;
}
