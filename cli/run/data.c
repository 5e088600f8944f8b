#include "base/error.h"
#include "cli/run/data.h"

#include <stdatomic.h>
#include <string.h>

G_STATIC_ASSERT(CLI_RUN_DATA_WISH == MW_TRAINER_WISHES);

struct cli_run_data {
    const struct cli_training *training;
    int64_t ahead;         /* steps whose data is read before they begin */
    int64_t last;          /* the last step whose data is read */
    int64_t micro_batches; /* micro-batches per step */
    int64_t count;         /* tokens per micro-batch */
    int32_t *tokens;       /* [1 + ahead][micro_batches][2][count]: ids, then targets */
    int64_t *next;         /* [micro_batches] the first step that has not been read */
    GError *error;
    atomic_bool fails; /* the step after `last` cannot be read */
};

/* The trainer asks for a wish when a step ends.  That step is then the last, or the one after it,
 * which may have begun by then (trainer.h). */
static int64_t
steps_ahead(const struct cli_training *training)
{
    const struct mw_plan *plan = training->answer->plan;

    /* Where there are several variants, each is barriered.  Without a flush of the pipeline ranks
     * learn of a wish a step later. */
    return plan->barriered && !plan->shape.no_flush ? 1 : 2;
}

struct cli_run_data *
cli_run_data_new(const struct cli_training *training, GError **error)
{
    const struct mw_step_shape *s = &training->answer->plan->shape;
    struct cli_run_data *data = g_new0(struct cli_run_data, 1);
    int64_t micro_batches = (1 + steps_ahead(training)) * s->micro_batches;

    data->training = training;
    data->ahead = steps_ahead(training);
    data->last = training->options.steps - 1;
    data->micro_batches = s->micro_batches;
    data->count = training->sequences * mw_step_shape_seq(s);
    data->tokens = g_try_malloc0_n(micro_batches, 2 * data->count * sizeof *data->tokens);
    data->next = g_try_malloc_n(data->micro_batches, sizeof *data->next);
    if (!data->tokens || !data->next) {
        g_set_error(error, MW_ERROR, MW_ERROR_IO,
                    "no memory for %" G_GINT64_FORMAT " micro-batches of %" G_GINT64_FORMAT
                    " tokens",
                    micro_batches, data->count);
        cli_run_data_free(data);
        return NULL;
    }
    for (int64_t m = 0; m < data->micro_batches; m++)
        data->next[m] = training->first_step;
    return data;
}

void
cli_run_data_free(struct cli_run_data *data)
{
    if (!data)
        return;
    g_free(data->tokens);
    g_free(data->next);
    g_clear_error(&data->error);
    g_free(data);
}

/* --- batches --------------------------------------------------------------------------------- */

static int32_t *
place_of(const struct cli_run_data *data, int64_t step, int64_t micro_batch)
{
    int64_t at = step % (1 + data->ahead) * data->micro_batches + micro_batch;

    return data->tokens + at * 2 * data->count;
}

int64_t
cli_run_data_used(const struct cli_training *training, int64_t step)
{
    const struct mw_step_shape *s = &training->answer->plan->shape;
    int64_t each = training->sequences * s->micro_batches * training->place.ranks;

    return training->first_sequence + (step + 1 - training->first_step) * each;
}

static bool
read_step(const struct cli_run_data *data, int64_t step, int64_t micro_batch, GError **error)
{
    const struct cli_training *training = data->training;
    int64_t first = cli_run_data_used(training, step - 1);
    struct mw_cursor cursor = mw_tokens_advance(training->tokens, (struct mw_cursor){0}, first);
    struct mw_batch_place place = training->place;
    int32_t *ids = place_of(data, step, micro_batch);

    place.micro_batch = micro_batch;
    return mw_tokens_batch(training->tokens, &cursor, &place, ids, ids + data->count, error);
}

/* A failure concerns a later step, which then does not begin. */
static bool
read_ahead(struct cli_run_data *data, int64_t step, int64_t micro_batch, GError **error)
{
    int64_t *next = &data->next[micro_batch];
    GError *why = NULL;

    while (*next <= MIN(step + data->ahead, data->last) &&
           read_step(data, *next, micro_batch, &why))
        ++*next;
    if (!why)
        return true;
    if (*next < step + data->ahead) {
        g_propagate_error(error, why);
        return false;
    }
    data->last = *next - 1;
    data->error = why;
    atomic_store(&data->fails, true);
    return true;
}

/* Of a step after `last` it has any tokens: what goes forward by them is not used. */
bool
cli_run_data_batch(struct cli_run_data *data, int64_t step, int64_t micro_batch, int32_t *ids,
                   int32_t *targets, GError **error)
{
    const int32_t *place = place_of(data, step, micro_batch);
    size_t bytes = (size_t)data->count * sizeof *ids;

    if (!read_ahead(data, step, micro_batch, error))
        return false;
    memcpy(ids, place, bytes);
    memcpy(targets, place + data->count, bytes);
    return true;
}

bool
cli_run_data_fails(const struct cli_run_data *data)
{
    return data && atomic_load(&data->fails);
}

const GError *
cli_run_data_error(const struct cli_run_data *data)
{
    return data->error;
}
