/* The models of an attempt: what each keeps, where the trained ones are placed, and the room for
 * passes forward. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/spell.h"
#include "study/evaluate.h"
#include "study/objective_internal.h"

/* Two trained models each need the room that the other leaves: the first round guesses it. */
#define ROUNDS 2

/* A score is one number, by a product that is not the embedding's. */
static void
make_score(struct mw_model *model)
{
    model->classes = 1;
    model->tied_embedding = model->logits_bias = false;
}

/* Settings that count layers count the policy's: a critic with fewer has no more than all. */
static void
count_layers(const struct mw_model *model, struct mw_settings *s)
{
    int64_t most = mw_settings_most_layers(model, s);

    s->checkpoint_interval = MIN(s->checkpoint_interval, model->layers);
    s->recompute_layers = MIN(s->recompute_layers, most);
}

bool
mw_objective_begin(const struct mw_question *question, const struct mw_objective_part *part,
                   struct mw_objective_member *member, GError **error)
{
    struct mw_question *own = &member->question;

    member->part = part;
    *own = *question;
    if (part->judges && question->settings.critic &&
        !mw_model_load(question->settings.critic, &own->model, error)) {
        g_autofree char *option = mw_spelled("{critic}");
        g_prefix_error(error, "%s: ", option);
        return false;
    }
    if (!mw_model_logits(&own->model) || own->model.classes || own->model.described)
        return mw_refuse(error, "{critic=%s}: must be a language model that this version knows",
                         question->settings.critic);
    if (part->scores)
        make_score(&own->model);
    own->settings.objective = MW_OBJECTIVE_CAUSAL;
    if (part->judges && question->settings.critic)
        count_layers(&own->model, &own->settings);
    if (own->settings.seq == MW_AUTO) /* all read the same sequences */
        own->settings.seq = mw_settings_default_seq(&question->model);
    if (own->settings.step_tokens_max == MW_AUTO && own->settings.micro_batch == MW_AUTO &&
        own->settings.global_batch == MW_AUTO)
        own->settings.step_tokens_max =
            mw_objective_rows[question->settings.objective].sequences * (double)own->settings.seq;
    member->without_adapters =
        part->compares && mw_objective_only_adapters(&question->settings.trained);
    return true;
}

/* Bytes that all but one keep. */
void
mw_objective_others_keep(const struct mw_objective_attempt *attempt, int member,
                         int64_t bytes[MW_TIER_COUNT])
{
    memset(bytes, 0, MW_TIER_COUNT * sizeof *bytes);
    for (int m = 0; m < attempt->row->part_count; m++)
        for (int tier = 0; m != member && tier < MW_TIER_COUNT; tier++)
            bytes[tier] += attempt->members[m].resident[tier];
}

/* The question's machine with what the others leave of it. */
static void
leave_room(struct mw_objective_attempt *attempt, int member)
{
    struct mw_question *own = &attempt->members[member].question;
    int64_t bytes[MW_TIER_COUNT];

    mw_objective_others_keep(attempt, member, bytes);
    memcpy(own->hardware, attempt->question->hardware, sizeof own->hardware);
    mw_objective_reserve(own, bytes);
}

void
mw_objective_set_lack(struct mw_objective_attempt *attempt, int member,
                      const struct mw_sizing *sizing)
{
    attempt->out.fits = false;
    attempt->out.limiting_tier = sizing->limiting_tier;
    attempt->out.short_bytes = sizing->short_bytes;
    attempt->out.short_of = attempt->members[member].part->role;
}

/* --- trained members ------------------------------------------------------------------------- */

static bool
has_whole_pairs(const struct mw_objective_attempt *attempt, const struct mw_sizing *sizing)
{
    return !attempt->row->pairs || sizing->sequences % 2 == 0;
}

/* The largest even number of sequences below the chosen one, or 2. */
static bool
choose_pairs(const struct mw_objective_attempt *attempt, struct mw_objective_member *member,
             GError **error)
{
    struct mw_settings *s = &member->question.settings;
    const struct mw_sizing *odd = member->choice.sizing;
    int64_t sequences = MAX(2, odd->sequences - 1);

    s->micro_batch = (double)sequences / (double)mw_settings_sharers(s);
    if (s->global_batch == MW_AUTO && s->grad_accum == MW_AUTO) {
        struct mw_settings even = odd->settings;
        even.micro_batch = s->micro_batch;
        s->grad_accum = even.step_tokens_max > 0 ? mw_most_micro_batches(&even) : 1;
    }
    mw_choice_clear(&member->choice);
    return mw_choose(&member->question, attempt->strategy, false, &member->choice, error);
}

/* Later members train on the sequences of the first one. */
static void
take_batch(const struct mw_objective_attempt *attempt, struct mw_settings *s)
{
    const struct mw_sizing *first = attempt->members[0].choice.sizing;
    const struct mw_settings *asked = &attempt->question->settings;

    s->global_batch = llround(mw_tokens_per_step(first) / (double)first->settings.seq);
    s->micro_batch = asked->micro_batch;
    s->grad_accum = asked->grad_accum;
}

static bool
choose_trained(struct mw_objective_attempt *attempt, int m, GError **error)
{
    struct mw_objective_member *member = &attempt->members[m];

    leave_room(attempt, m);
    mw_choice_clear(&member->choice);
    if (m)
        take_batch(attempt, &member->question.settings);
    if (!mw_choose(&member->question, attempt->strategy, false, &member->choice, error) ||
        (!has_whole_pairs(attempt, member->choice.sizing) && !choose_pairs(attempt, member, error)))
        return false;
    const struct mw_sizing *sizing = member->choice.sizing;
    /* Gradients that are still summed up are kept while the reference works. */
    mw_objective_trained_bytes(sizing, attempt->row->pairs && sizing->settings.grad_accum > 1,
                               member->resident);
    if (!sizing->fits)
        mw_objective_set_lack(attempt, m, sizing);
    return true;
}

bool
mw_objective_choose_trained(struct mw_objective_attempt *attempt, GError **error)
{
    int trained = 0;

    for (int m = 0; m < attempt->row->part_count; m++)
        trained += attempt->row->parts[m].trained;
    for (int round = 0; round < (trained > 1 ? ROUNDS : 1) && attempt->out.fits; round++)
        for (int m = 0; m < attempt->row->part_count && attempt->out.fits; m++)
            if (attempt->row->parts[m].trained && !choose_trained(attempt, m, error))
                return false;
    return true;
}

/* --- frozen members and passes forward ------------------------------------------------------- */

/* What a frozen copy keeps does not depend on the batch. */
bool
mw_objective_size_copy(struct mw_objective_attempt *attempt, int m, GError **error)
{
    struct mw_objective_member *member = &attempt->members[m];
    const struct mw_request request = {&member->question.model,
                                       &member->question.hardware[MW_OUTLOOK_TYPICAL]};
    struct mw_placement placement = {.count = 1,
                                     .part = {{.tier = attempt->tier, .bytes = INT64_MAX}}};
    struct mw_settings asked = member->question.settings, complete;

    if (member->without_adapters || attempt->question->settings.reference_before)
        return true;
    asked.strategy = mw_objective_frozen_strategy(attempt->strategy, attempt->tier);
    asked.micro_batch = 1;
    asked.grad_accum = 1;
    asked.global_batch = MW_AUTO;
    for (int state = 0; state < MW_STATE_COUNT; state++)
        asked.placement[state] = (struct mw_placement){0};
    if (!mw_settings_complete(&request, &asked, &complete, error))
        return false;
    complete = mw_objective_forward(&complete, asked.strategy, &placement);
    struct mw_sizing *sizing = mw_sizing_new(request.model, request.hardware, &complete, error);
    if (sizing)
        mw_objective_frozen_bytes(sizing, member->resident);
    mw_sizing_free(sizing);
    return sizing != NULL;
}

/* What all keep but the parameters that the pass itself counts: a copy's own, a trained member's
 * where they live, and without adapters those of the first member. */
static void
leave_room_for_pass(struct mw_objective_attempt *attempt, int m, const struct mw_sizing *pass)
{
    struct mw_question *machine = &attempt->members[m].machine;
    int64_t bytes[MW_TIER_COUNT], own[MW_TIER_COUNT];
    bool before = attempt->question->settings.reference_before;

    mw_objective_others_keep(attempt, -1, bytes);
    mw_objective_frozen_bytes(pass, own);
    for (int tier = 0; tier < MW_TIER_COUNT; tier++)
        bytes[tier] = before ? 0 : MAX(0, bytes[tier] - own[tier]);
    memcpy(machine->hardware, attempt->question->hardware, sizeof machine->hardware);
    mw_objective_reserve(machine, bytes);
}

static struct mw_settings
pass_settings(const struct mw_objective_attempt *attempt, int m)
{
    const struct mw_objective_member *member = &attempt->members[m];
    const struct mw_settings *batch = &attempt->members[0].choice.sizing->settings;
    const struct mw_settings *own =
        member->choice.sizing ? &member->choice.sizing->settings : batch;
    const struct mw_placement copy = {.count = 1,
                                      .part = {{.tier = attempt->tier, .bytes = INT64_MAX}}};
    bool copied = !member->part->trained && !member->without_adapters;

    return mw_objective_forward(
        batch,
        copied ? mw_objective_frozen_strategy(attempt->strategy, attempt->tier) : own->strategy,
        copied ? &copy : &own->placement[MW_STATE_PARAMETERS]);
}

static bool
size_pass(struct mw_objective_attempt *attempt, int m, GError **error)
{
    struct mw_objective_member *member = &attempt->members[m];
    const struct mw_model *model = &member->question.model;
    struct mw_settings settings = pass_settings(attempt, m);
    struct mw_sizing *alone =
        mw_sizing_new(model, &attempt->question->hardware[MW_OUTLOOK_TYPICAL], &settings, error);

    if (!alone)
        return false;
    member->machine = member->question;
    leave_room_for_pass(attempt, m, alone);
    mw_sizing_free(alone);
    member->pass =
        mw_sizing_new(model, &member->machine.hardware[MW_OUTLOOK_TYPICAL], &settings, error);
    if (member->pass && !member->pass->fits)
        mw_objective_set_lack(attempt, m, member->pass);
    return member->pass != NULL;
}

/* Of ppo's step all go forward; of another one's those that are not trained. */
bool
mw_objective_size_passes(struct mw_objective_attempt *attempt, GError **error)
{
    for (int m = 0; m < attempt->row->part_count && attempt->out.fits; m++)
        if ((!attempt->row->pairs || !attempt->row->parts[m].trained) &&
            !size_pass(attempt, m, error))
            return false;
    return true;
}
