/* Which batches of an objective are asked for, and which are worth an attempt. */
#include <math.h>

#include "base/error.h"
#include "base/spell.h"
#include "base/typed.h"
#include "study/objective_internal.h"

/* Micro-batches differ by this factor at least: rates of neighbours hardly do. */
#define APART 1.3
/* Of smaller micro-batches only the trained model's own choice is attempted: they take long to
 * plan, and the passes of the others favour larger ones. */
#define FILLED_MAX 32

/* The settings with nodes, GPUs and length, and one sequence per step and group; false: they make
 * no sense with the first strategy, as its attempt will say. */
static bool
complete(const struct mw_question *question, struct mw_settings *out)
{
    const struct mw_request request = {&question->model, &question->hardware[MW_OUTLOOK_TYPICAL]};
    struct mw_settings asked = question->settings;

    asked.strategy = mw_strategies_of(question->strategies[0]).one[0];
    asked.micro_batch = 1.0 / (double)MAX(1, asked.tp);
    asked.grad_accum = 1;
    asked.global_batch = MW_AUTO;
    return mw_settings_complete(&request, &asked, out, NULL);
}

static int64_t
groups_of(const struct mw_settings *s)
{
    return MAX(1, llround(mw_settings_batch_gpus(s) / (double)s->tp));
}

static bool
refuse_micro_batch(const struct mw_settings *s, GError **error)
{
    g_autofree char *batch = mw_typed(s->micro_batch);

    if (s->tp > 1)
        return mw_refuse(error, "{batch=%s}: a pair is two sequences: must be even, times {tp}",
                         batch);
    return mw_refuse(error,
                     "{batch=%s}: a pair is two sequences: must be even, and {batch=2} is one pair",
                     batch);
}

bool
mw_objective_check_batch(const struct mw_question *question, GError **error)
{
    const struct mw_settings *s = &question->settings;
    struct mw_settings all;

    if (!mw_objective_rows[s->objective].pairs)
        return true;
    if (s->micro_batch != MW_AUTO && fmod(s->micro_batch * (double)s->tp, 2) != 0)
        return refuse_micro_batch(s, error);
    if (s->global_batch == MW_AUTO || s->micro_batch != MW_AUTO || !complete(question, &all))
        return true;
    int64_t accum = s->grad_accum == MW_AUTO ? 1 : s->grad_accum;
    int64_t unit = 2 * groups_of(&all) * accum;
    if (s->global_batch % unit == 0)
        return true;
    g_autofree char *accumulated = accum > 1 ? mw_spelled(" and {grad-accum}") : g_strdup("");
    return mw_refuse(error,
                     "{global-batch=%" G_GINT64_FORMAT
                     "}: a pair is two sequences of one micro-batch: must be a multiple of "
                     "%" G_GINT64_FORMAT ", two for each of %" G_GINT64_FORMAT
                     " data-parallel GPUs%s",
                     s->global_batch, unit, groups_of(&all), accumulated);
}

static void
add(GArray *batches, const struct mw_settings *s, int64_t sequences, int64_t accum)
{
    const struct mw_objective_batch batch = {(double)sequences / (double)s->tp, accum};

    g_array_append_val(batches, batch);
}

/* Of all splits of a batch that was asked for. */
static void
split(GArray *batches, const struct mw_settings *s, int64_t least, int64_t sequences)
{
    double last = 0;

    for (int64_t one = least; one <= sequences; one += least)
        if (sequences % one == 0 && (double)one >= APART * last) {
            add(batches, s, one, sequences / one);
            last = (double)one;
        }
}

/* One micro-batch, which sums no gradients, and as many as the step takes. */
static void
fill(GArray *batches, struct mw_settings *s, int64_t least, int64_t accum)
{
    s->grad_accum = accum == MW_AUTO ? 1 : accum;
    int64_t most = mw_most_sequences(s);

    for (int64_t one = least; one <= most; one = MAX(one + least, one * 3 / 2 / least * least)) {
        s->micro_batch = (double)one / (double)s->tp;
        int64_t filled = accum == MW_AUTO ? mw_most_micro_batches(s) : accum;
        if (filled > 1 && filled <= FILLED_MAX)
            add(batches, s, one, filled);
        if (accum == MW_AUTO || filled == 1)
            add(batches, s, one, 1);
    }
}

GArray *
mw_objective_batches(const struct mw_question *question)
{
    const struct mw_settings *asked = &question->settings;
    const struct mw_objective_row *row = &mw_objective_rows[asked->objective];
    GArray *batches = g_array_new(FALSE, FALSE, sizeof(struct mw_objective_batch));
    struct mw_settings s;
    int64_t least = row->pairs ? 2 : 1;

    if (asked->micro_batch != MW_AUTO || !complete(question, &s))
        return batches;
    int64_t accum = asked->grad_accum;
    if (asked->global_batch != MW_AUTO) {
        int64_t sequences = asked->global_batch / groups_of(&s);
        if (accum == MW_AUTO)
            split(batches, &s, least, sequences);
        else if (sequences % accum == 0)
            add(batches, &s, sequences / accum, accum);
        return batches;
    }
    if (asked->step_tokens_max == MW_AUTO)
        s.step_tokens_max = row->sequences * (double)s.seq;
    fill(batches, &s, least, accum);
    return batches;
}
