/* Answers that an actor generates: how many at once, and with whole layers or sliced ones. */
#include <math.h>

#include "base/error.h"
#include "study/objective_internal.h"

static int64_t
response_of(const struct mw_settings *asked, int64_t seq)
{
    return asked->response == MW_AUTO ? MAX(1, seq / 2) : asked->response;
}

/* Sequences per GPU and step. */
static int64_t
share_of_batch(const struct mw_objective_attempt *attempt)
{
    const struct mw_settings *s = &attempt->members[0].choice.sizing->settings;

    return llround(ceil(s->micro_batch * (double)s->grad_accum));
}

static struct mw_question *
generating(const struct mw_objective_attempt *attempt, int64_t prompt, int64_t batch)
{
    const struct mw_objective_member *actor = &attempt->members[0];
    struct mw_question *question = g_new(struct mw_question, 1);
    int64_t bytes[MW_TIER_COUNT];

    mw_objective_others_keep(attempt, -1, bytes);
    for (int tier = 0; tier < MW_TIER_COUNT; tier++)
        bytes[tier] -= actor->choice.sizing->ledger[tier][MW_PURPOSE_PARAMETERS];
    *question = *attempt->question;
    question->settings.seq = prompt;
    question->settings.micro_batch = (double)batch;
    question->settings.tp = 1;
    for (int state = 0; state < MW_STATE_COUNT; state++)
        question->settings.placement[state].count = 0;
    mw_objective_reserve(question, bytes);
    return question;
}

static int64_t
waves_of(const struct mw_serving_row *row, int64_t share)
{
    return (share + row->batch - 1) / row->batch;
}

static double
generation_s(const struct mw_serving_row *row, int64_t tokens)
{
    return row->prompt_s + row->token_s * (double)(tokens - 1);
}

/* Bytes of the actor's parameters that stay on a GPU beside those that generate: partitioned ones
 * beside whole or sliced layers; replicas, and what is streamed, generate themselves. */
static int64_t
stays_beside(const struct mw_objective_attempt *attempt, const struct mw_serving_row *row,
             int64_t slices)
{
    const struct mw_sizing *sizing = attempt->members[0].choice.sizing;
    bool parts = !row->shared && sizing->params_partitioned && sizing->shards > 1;

    return slices > 1 || parts ? sizing->ledger[MW_TIER_GPU][MW_PURPOSE_PARAMETERS] : 0;
}

/* Takes the number of sequences at once with which a GPU's share is generated fastest. */
static bool
try_generation(struct mw_objective_attempt *attempt, const struct mw_question *question,
               int64_t tokens, int64_t slices, GError **error)
{
    struct mw_serving_row *best = &attempt->generation;
    int64_t share = share_of_batch(attempt);
    struct mw_serving serving;

    if (!mw_serving_find_sliced(question, tokens, slices, &serving, error))
        return false;
    for (int i = 0; i < serving.row_count; i++) {
        const struct mw_serving_row *row = &serving.rows[i];
        double all_s = (double)waves_of(row, share) * generation_s(row, tokens);
        int64_t need = row->need[MW_TIER_GPU] + stays_beside(attempt, row, slices);
        if (!row->fits || need > serving.capacity[MW_TIER_GPU] || row->batch > share ||
            (best->fits && all_s >= (double)waves_of(best, share) * generation_s(best, tokens)))
            continue;
        *best = *row;
        attempt->out.generation_slices = slices;
    }
    mw_serving_clear(&serving);
    return true;
}

static bool
may_slice(const struct mw_objective_attempt *attempt, int64_t slices)
{
    const struct mw_sizing *sizing = attempt->members[0].choice.sizing;

    return slices == 1 ||
           (sizing->ranks_per_node % slices == 0 && sizing->model->heads % slices == 0);
}

/* All of a GPU's sequences at once or fewer, with whole layers or sliced ones: what is fastest. */
bool
mw_objective_size_generation(struct mw_objective_attempt *attempt, GError **error)
{
    const struct mw_sizing *sizing = attempt->members[0].choice.sizing;
    int64_t seq = sizing->settings.seq, tokens = response_of(&attempt->question->settings, seq);
    bool good = true;

    if (tokens >= seq)
        return mw_refuse(error,
                         "{response=%" G_GINT64_FORMAT "}: {seq} has %" G_GINT64_FORMAT
                         " tokens, prompt and response: give less",
                         tokens, seq);
    attempt->out.prompt = seq - tokens;
    struct mw_question *question = generating(attempt, seq - tokens, share_of_batch(attempt));
    for (int open = 0; open < 2; open++) {
        for (int64_t slices = 1; good && slices <= sizing->ranks_per_node; slices *= 2)
            if (may_slice(attempt, slices))
                good = try_generation(attempt, question, tokens, slices, error);
        question->settings.micro_batch = MW_AUTO;
    }
    g_free(question);
    if (good && !attempt->generation.fits) {
        attempt->out.fits = false;
        attempt->out.limiting_tier = MW_TIER_GPU;
        attempt->out.short_of = attempt->row->parts[0].role;
        attempt->out.short_bytes = 0;
    }
    return good;
}

void
mw_objective_add_generation(struct mw_objective_attempt *attempt)
{
    const struct mw_objective_member *actor = &attempt->members[0];
    const struct mw_sizing *sizing = actor->choice.sizing;
    const struct mw_serving_row *row = &attempt->generation;
    int64_t share = share_of_batch(attempt), all[MW_TIER_COUNT];
    double each_s = generation_s(row, sizing->settings.seq - attempt->out.prompt);
    struct mw_objective_phase *phase = &attempt->out.phases[attempt->out.phase_count];

    attempt->out.generated_at_once = MIN(row->batch, share);
    mw_objective_add_phase(attempt, "generation", 0, NULL, waves_of(row, share), each_s);
    mw_objective_others_keep(attempt, -1, all);
    for (int tier = 0; tier < MW_TIER_COUNT; tier++) {
        int64_t sharers = tier == MW_TIER_GPU ? 1 : sizing->ranks_per_node;
        phase->need_bytes[tier] =
            all[tier] - sizing->ledger[tier][MW_PURPOSE_PARAMETERS] + row->need[tier] / sharers;
    }
    phase->need_bytes[MW_TIER_GPU] += stays_beside(attempt, row, attempt->out.generation_slices);
}

double
mw_objective_generation_at(const struct mw_objective_attempt *attempt, enum mw_outlook outlook)
{
    int64_t tokens = attempt->out.seq - attempt->out.prompt;
    struct mw_question *question =
        generating(attempt, attempt->out.prompt, attempt->generation.batch);
    struct mw_serving serving;
    double all_s = NAN;

    struct mw_hardware *hw = &question->hardware[MW_OUTLOOK_TYPICAL], room = *hw;
    *hw = question->hardware[outlook];
    hw->gpu_memory_bytes = room.gpu_memory_bytes; /* what fits is of the typical machine */
    hw->gpu_reserve_bytes = room.gpu_reserve_bytes;
    hw->host_memory_bytes = room.host_memory_bytes;
    hw->host_reserve_bytes = room.host_reserve_bytes;
    hw->nvme_capacity_bytes = room.nvme_capacity_bytes;
    hw->nvme_reserve_bytes = room.nvme_reserve_bytes;
    if (mw_serving_find_sliced(question, tokens, attempt->out.generation_slices, &serving, NULL)) {
        all_s = generation_s(serving.rows, tokens);
        mw_serving_clear(&serving);
    }
    g_free(question);
    return all_s;
}
