#include "study/objective.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/progress.h"
#include "base/spell.h"
#include "base/typed.h"
#include "study/evaluate.h"
#include "study/objective_internal.h"
#include "study/set_result.h"
#include "study/serving.h"

/* Of plans about as fast the one with the simpler strategy and the nearer copies is taken. */
#define WORTH_COMPLEXITY 1.02
/* Two trained models each need the room that the other leaves: the first round guesses it. */
#define ROUNDS 2

struct row {
    const char *name;
    bool pairs;       /* a pair is two sequences of one micro-batch */
    double sequences; /* per step, if no batch is requested, by what was published */
    int part_count;
    struct mw_objective_part parts[MW_OBJECTIVE_MODELS_MAX];
};

/* Batches: DPO's of 64 pairs (arXiv 2305.18290, App. B), which is also the reward model's of
 * InstructGPT, 64 prompts with at least one pair each; InstructGPT's of 512 answers for PPO (arXiv
 * 2203.02155, App. C.2 and C.4). */
static const struct row rows[MW_OBJECTIVE_COUNT] = {
    [MW_OBJECTIVE_CAUSAL] = {"causal", false, 0, 0, {{0}}},
    [MW_OBJECTIVE_DPO] = {"dpo",
                          true,
                          128,
                          2,
                          {{.role = "policy", .trained = true},
                           {.role = "reference", .compares = true}}},
    [MW_OBJECTIVE_REWARD] =
        {"reward", true, 128, 1, {{.role = "reward", .trained = true, .scores = true}}},
    [MW_OBJECTIVE_PPO] = {"ppo",
                          false,
                          512,
                          4,
                          {{.role = "actor", .trained = true},
                           {.role = "critic", .trained = true, .scores = true, .judges = true},
                           {.role = "reference", .compares = true},
                           {.role = "reward", .scores = true, .judges = true}}},
};

const char *
mw_objective_name(enum mw_objective_kind kind)
{
    return rows[kind].name;
}

/* --- what is refused ------------------------------------------------------------------------- */

bool
mw_objective_check_settings(const struct mw_settings *s, GError **error)
{
    enum mw_objective_kind kind = (enum mw_objective_kind)s->objective;
    bool dpo = kind == MW_OBJECTIVE_DPO, ppo = kind == MW_OBJECTIVE_PPO;
    const char *alien = s->frozen_device != MW_AUTO && !dpo && !ppo ? "frozen-device"
                        : s->reference_before && !dpo               ? "reference-logprobs"
                        : s->response != MW_AUTO && !ppo            ? "response"
                        : s->critic && !ppo                         ? "critic"
                                                                    : NULL;

    return !alien ||
           mw_refuse(error, "{%s}: there is none with {objective=%s}; give {objective=%s}", alien,
                     rows[kind].name,
                     !strcmp(alien, "response") || !strcmp(alien, "critic") ? "ppo" : "dpo");
}

static bool
refuse_setting(const struct mw_question *question, const char *setting, const char *why,
               GError **error)
{
    return mw_refuse(error, "{objective=%s}: %s; leave out {%s}",
                     rows[question->settings.objective].name, why, setting);
}

static bool
check_batch(const struct mw_question *question, GError **error)
{
    const struct mw_settings *s = &question->settings;
    double sequences = s->micro_batch * (double)s->tp;

    if (!rows[s->objective].pairs || s->micro_batch == MW_AUTO || fmod(sequences, 2) == 0)
        return true;
    g_autofree char *batch = mw_typed(s->micro_batch);
    return mw_refuse(error, "{batch=%s}: a pair is two sequences: must be even%s", batch,
                     s->tp > 1 ? ", times {tp}" : "");
}

static bool
check(const struct mw_question *question, GError **error)
{
    const struct mw_settings *s = &question->settings;
    const struct mw_model *model = &question->model;

    if (s->pp > 1)
        return refuse_setting(question, "pp", "phases of several models are not cut into stages",
                              error);
    if (s->dpu_start != MW_AUTO)
        return refuse_setting(question, "dpu-start",
                              "an update cannot run beside another model's pass", error);
    if (s->drop_layers)
        return refuse_setting(question, "drop-layers", "all layers are computed", error);
    if (s->tokens > 0)
        return refuse_setting(question, "tokens", "days are those of training on texts", error);
    if (s->serve)
        return refuse_setting(question, "serve", "it trains", error);
    if (!mw_model_logits(model) || model->classes || model->described)
        return mw_refuse(error,
                         "{objective=%s}: takes a language model that this version knows, and %s "
                         "%s",
                         rows[s->objective].name, model->name,
                         model->described ? "is a described one"
                                          : "has no vocabulary to answer in");
    return check_batch(question, error);
}

/* --- the members of an attempt --------------------------------------------------------------- */

struct attempt {
    const struct mw_question *question;
    const struct row *row;
    enum mw_strategy strategy;
    enum mw_tier tier; /* of frozen copies */
    struct mw_objective_member members[MW_OBJECTIVE_MODELS_MAX];
    struct mw_serving_row generation;
    struct mw_objective out;
};

static void
attempt_free(struct attempt *attempt)
{
    if (!attempt)
        return;
    for (int m = 0; m < attempt->row->part_count; m++) {
        mw_choice_clear(&attempt->members[m].choice);
        mw_sizing_free(attempt->members[m].pass);
    }
    g_free(attempt);
}

/* A score is one number, by a product that is not the embedding's. */
static void
make_score(struct mw_model *model)
{
    model->classes = 1;
    model->tied_embedding = model->logits_bias = false;
}

static bool
begin_member(const struct mw_question *question, const struct mw_objective_part *part,
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
    if (part->scores)
        make_score(&own->model);
    own->settings.objective = MW_OBJECTIVE_CAUSAL;
    if (own->settings.step_tokens_max == MW_AUTO && own->settings.micro_batch == MW_AUTO &&
        own->settings.global_batch == MW_AUTO) {
        int64_t seq = own->settings.seq == MW_AUTO ? mw_settings_default_seq(&question->model)
                                                   : own->settings.seq;
        own->settings.seq = seq;
        own->settings.step_tokens_max = rows[question->settings.objective].sequences * (double)seq;
    }
    member->without_adapters = part->compares && question->settings.trained.rank > 0;
    return true;
}

/* Bytes that all but one keep. */
static void
others_keep(const struct attempt *attempt, int member, int64_t bytes[MW_TIER_COUNT])
{
    memset(bytes, 0, MW_TIER_COUNT * sizeof *bytes);
    for (int m = 0; m < attempt->row->part_count; m++)
        for (int tier = 0; m != member && tier < MW_TIER_COUNT; tier++)
            bytes[tier] += attempt->members[m].resident[tier];
}

/* The question's machine with what the others leave of it. */
static void
leave_room(struct attempt *attempt, int member)
{
    struct mw_question *own = &attempt->members[member].question;
    int64_t bytes[MW_TIER_COUNT];

    others_keep(attempt, member, bytes);
    memcpy(own->hardware, attempt->question->hardware, sizeof own->hardware);
    mw_objective_reserve(own, bytes);
}

static void
set_lack(struct attempt *attempt, int member, const struct mw_sizing *sizing)
{
    attempt->out.fits = false;
    attempt->out.limiting_tier = sizing->limiting_tier;
    attempt->out.short_bytes = sizing->short_bytes;
    attempt->out.short_of = attempt->members[member].part->role;
}

/* --- trained members ------------------------------------------------------------------------- */

static bool
has_whole_pairs(const struct attempt *attempt, const struct mw_sizing *sizing)
{
    return !attempt->row->pairs || sizing->sequences % 2 == 0;
}

/* The largest even number of sequences below the chosen one, or 2. */
static bool
choose_pairs(const struct attempt *attempt, struct mw_objective_member *member, GError **error)
{
    struct mw_settings *s = &member->question.settings;
    const struct mw_sizing *odd = member->choice.sizing;
    int64_t sequences = MAX(2, odd->sequences - 1);

    s->micro_batch = (double)sequences / (double)s->tp;
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
take_batch(const struct attempt *attempt, struct mw_settings *s)
{
    const struct mw_sizing *first = attempt->members[0].choice.sizing;
    const struct mw_settings *asked = &attempt->question->settings;

    s->global_batch = llround(mw_tokens_per_step(first) / (double)first->settings.seq);
    s->micro_batch = asked->micro_batch;
    s->grad_accum = asked->grad_accum;
}

static bool
choose_trained(struct attempt *attempt, int m, GError **error)
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
        set_lack(attempt, m, sizing);
    return true;
}

static bool
choose_all_trained(struct attempt *attempt, GError **error)
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
static bool
size_copy(struct attempt *attempt, int m, GError **error)
{
    struct mw_objective_member *member = &attempt->members[m];
    const struct mw_request request = {&member->question.model,
                                       &member->question.hardware[MW_OUTLOOK_TYPICAL]};
    struct mw_placement placement = {1, {{attempt->tier, INT64_MAX}}};
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
leave_room_for_pass(struct attempt *attempt, int m, const struct mw_sizing *pass)
{
    struct mw_question *machine = &attempt->members[m].machine;
    int64_t bytes[MW_TIER_COUNT], own[MW_TIER_COUNT];
    bool before = attempt->question->settings.reference_before;

    others_keep(attempt, -1, bytes);
    mw_objective_frozen_bytes(pass, own);
    for (int tier = 0; tier < MW_TIER_COUNT; tier++)
        bytes[tier] = before ? 0 : MAX(0, bytes[tier] - own[tier]);
    memcpy(machine->hardware, attempt->question->hardware, sizeof machine->hardware);
    mw_objective_reserve(machine, bytes);
}

static struct mw_settings
pass_settings(const struct attempt *attempt, int m)
{
    const struct mw_objective_member *member = &attempt->members[m];
    const struct mw_settings *batch = &attempt->members[0].choice.sizing->settings;
    const struct mw_settings *own =
        member->choice.sizing ? &member->choice.sizing->settings : batch;
    const struct mw_placement copy = {1, {{attempt->tier, INT64_MAX}}};
    bool copied = !member->part->trained && !member->without_adapters;

    return mw_objective_forward(
        batch,
        copied ? mw_objective_frozen_strategy(attempt->strategy, attempt->tier) : own->strategy,
        copied ? &copy : &own->placement[MW_STATE_PARAMETERS]);
}

static bool
size_pass(struct attempt *attempt, int m, GError **error)
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
        set_lack(attempt, m, member->pass);
    return member->pass != NULL;
}

/* Of ppo's step all go forward; of another one's those that are not trained. */
static bool
size_passes(struct attempt *attempt, GError **error)
{
    for (int m = 0; m < attempt->row->part_count && attempt->out.fits; m++)
        if ((!attempt->row->pairs || !attempt->row->parts[m].trained) &&
            !size_pass(attempt, m, error))
            return false;
    return true;
}

/* --- generation ------------------------------------------------------------------------------ */

static int64_t
response_of(const struct mw_settings *asked, int64_t seq)
{
    return asked->response == MW_AUTO ? MAX(1, seq / 2) : asked->response;
}

/* Sequences per GPU and step. */
static int64_t
share_of_batch(const struct attempt *attempt)
{
    const struct mw_settings *s = &attempt->members[0].choice.sizing->settings;

    return llround(ceil(s->micro_batch * (double)s->grad_accum));
}

static struct mw_question *
generating(const struct attempt *attempt, int64_t prompt, int64_t batch)
{
    const struct mw_objective_member *actor = &attempt->members[0];
    struct mw_question *question = g_new(struct mw_question, 1);
    int64_t bytes[MW_TIER_COUNT];

    others_keep(attempt, -1, bytes);
    for (int tier = 0; tier < MW_TIER_COUNT; tier++)
        bytes[tier] -= actor->choice.sizing->ledger[tier][MW_PURPOSE_PARAMETERS];
    *question = *attempt->question;
    question->settings.seq = prompt;
    question->settings.micro_batch = (double)batch;
    for (int state = 0; state < MW_STATE_COUNT; state++)
        question->settings.placement[state].count = 0;
    mw_objective_reserve(question, bytes);
    return question;
}

static bool
take_generation(struct attempt *attempt, struct mw_question *question, int64_t tokens,
                GError **error)
{
    struct mw_serving serving;

    if (!mw_serving_find(question, tokens, &serving, error))
        return false;
    if (serving.best >= 0)
        attempt->generation = serving.rows[serving.best];
    mw_serving_clear(&serving);
    return true;
}

/* All of a GPU's sequences at once, or as many as are fastest among those that fit. */
static bool
size_generation(struct attempt *attempt, GError **error)
{
    int64_t seq = attempt->members[0].choice.sizing->settings.seq;
    int64_t tokens = response_of(&attempt->question->settings, seq),
            share = share_of_batch(attempt);

    if (tokens >= seq)
        return mw_refuse(error,
                         "{response=%" G_GINT64_FORMAT "}: {seq} has %" G_GINT64_FORMAT
                         " tokens, prompt and response: give less",
                         tokens, seq);
    attempt->out.prompt = seq - tokens;
    struct mw_question *question = generating(attempt, seq - tokens, share);
    bool good = take_generation(attempt, question, tokens, error);
    if (good && !attempt->generation.fits) {
        question->settings.micro_batch = MW_AUTO;
        good = take_generation(attempt, question, tokens, error);
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

/* --- a whole attempt ------------------------------------------------------------------------- */

static int64_t
need_of(const struct mw_sizing *sizing, const struct mw_hardware *whole, enum mw_tier tier,
        int64_t gpus)
{
    const struct mw_hardware *left = sizing->hardware;
    int64_t reserved = tier == MW_TIER_GPU ? left->gpu_reserve_bytes - whole->gpu_reserve_bytes
                       : tier == MW_TIER_CPU
                           ? (left->host_reserve_bytes - whole->host_reserve_bytes) / gpus
                           : (left->nvme_reserve_bytes - whole->nvme_reserve_bytes) / gpus;

    return reserved + mw_sizing_whole_need(sizing, tier);
}

static void
add_phase(struct attempt *attempt, const char *name, int m, const struct mw_sizing *sizing,
          int64_t times, double each_s)
{
    struct mw_objective *out = &attempt->out;
    struct mw_objective_phase *phase = &out->phases[out->phase_count++];
    const struct mw_hardware *whole = &attempt->question->hardware[MW_OUTLOOK_TYPICAL];

    *phase =
        (struct mw_objective_phase){.name = name, .model = m, .times = times, .each_s = each_s};
    for (int tier = 0; sizing && tier < MW_TIER_COUNT; tier++)
        phase->need_bytes[tier] =
            need_of(sizing, whole, (enum mw_tier)tier, sizing->ranks_per_node);
}

/* INFINITY if the engine refuses the plan. */
static double
pass_s(const struct mw_sizing *pass, const struct mw_hardware *hardware)
{
    struct mw_plan *plan = mw_build_plan(pass);
    double step_s = mw_step_s(plan, hardware, false);

    mw_plan_free(plan);
    return step_s;
}

static void
add_generation(struct attempt *attempt)
{
    const struct mw_objective_member *actor = &attempt->members[0];
    const struct mw_sizing *sizing = actor->choice.sizing;
    const struct mw_serving_row *row = &attempt->generation;
    int64_t share = share_of_batch(attempt), all[MW_TIER_COUNT];
    double each_s =
        row->prompt_s + row->token_s * (double)(sizing->settings.seq - attempt->out.prompt - 1);
    struct mw_objective_phase *phase = &attempt->out.phases[attempt->out.phase_count];

    attempt->out.generated_at_once = MIN(row->batch, share);
    add_phase(attempt, "generation", 0, NULL, (share + row->batch - 1) / row->batch, each_s);
    others_keep(attempt, -1, all);
    for (int tier = 0; tier < MW_TIER_COUNT; tier++) {
        int64_t sharers = tier == MW_TIER_GPU ? 1 : sizing->ranks_per_node;
        phase->need_bytes[tier] =
            all[tier] - sizing->ledger[tier][MW_PURPOSE_PARAMETERS] + row->need[tier] / sharers;
    }
}

/* In the order of a step. */
static void
add_phases(struct attempt *attempt)
{
    int64_t micro_batches = attempt->members[0].choice.sizing->settings.grad_accum;
    bool before = attempt->question->settings.reference_before;

    if (attempt->row == &rows[MW_OBJECTIVE_PPO])
        add_generation(attempt);
    for (int m = 0; m < attempt->row->part_count; m++) {
        const struct mw_objective_member *member = &attempt->members[m];
        if (!member->pass)
            continue;
        double each_s = pass_s(member->pass, member->pass->hardware);
        if (before)
            attempt->out.before_s =
                each_s / ((double)member->pass->sequences / 2 * (double)member->pass->dp);
        else
            add_phase(attempt, "forward", m, member->pass, micro_batches, each_s);
    }
    for (int m = 0; m < attempt->row->part_count; m++) {
        struct mw_objective_member *member = &attempt->members[m];
        if (!member->part->trained)
            continue;
        mw_choice_rate(&member->choice); /* simulates it */
        add_phase(attempt, "training", m, member->choice.sizing, 1, member->choice.step_s);
    }
}

static void
set_models(struct attempt *attempt)
{
    struct mw_objective *out = &attempt->out;

    out->model_count = attempt->row->part_count;
    for (int m = 0; m < out->model_count; m++) {
        const struct mw_objective_member *member = &attempt->members[m];
        const struct mw_sizing *sizing = member->choice.sizing;
        struct mw_objective_model *model = &out->models[m];
        *model = (struct mw_objective_model){
            .role = member->part->role,
            .trained = member->part->trained,
            .scores = member->part->scores,
            .without_adapters = member->without_adapters,
            .params = mw_model_params(&member->question.model),
            .home = sizing ? (enum mw_tier)sizing->param_home[0] : attempt->tier,
        };
        memcpy(model->name, member->question.model.name, sizeof model->name);
        memcpy(model->resident_bytes, member->resident, sizeof model->resident_bytes);
        if (sizing)
            model->trained_params = sizing->trained_params * sizing->tp;
        if (member->without_adapters)
            model->home = out->models[0].home;
    }
}

static void
set_batch(struct attempt *attempt)
{
    const struct mw_sizing *sizing = attempt->members[0].choice.sizing;
    struct mw_objective *out = &attempt->out;
    const struct mw_hardware *hw = &attempt->question->hardware[MW_OUTLOOK_TYPICAL];

    out->gpus = sizing->ranks;
    out->seq = sizing->settings.seq;
    out->micro_batch = sizing->settings.micro_batch;
    out->grad_accum = sizing->settings.grad_accum;
    out->global_batch = mw_tokens_per_step(sizing) / (double)sizing->settings.seq;
    out->capacity_bytes[MW_TIER_GPU] = hw->gpu_memory_bytes - hw->gpu_reserve_bytes;
    out->capacity_bytes[MW_TIER_CPU] =
        (hw->host_memory_bytes - hw->host_reserve_bytes) / sizing->ranks_per_node;
    out->capacity_bytes[MW_TIER_NVME] =
        MAX(0, hw->nvme_capacity_bytes - hw->nvme_reserve_bytes) / sizing->ranks_per_node;
}

static double
step_of(const struct mw_objective *out)
{
    double step_s = 0;

    for (int p = 0; p < out->phase_count; p++)
        step_s += (double)out->phases[p].times * out->phases[p].each_s;
    return step_s;
}

/* NULL with *error: the settings make no sense with this strategy. */
static struct attempt *
attempt_new(const struct mw_question *question, enum mw_strategy strategy, enum mw_tier tier,
            GError **error)
{
    struct attempt *attempt = g_new0(struct attempt, 1);
    bool good = true;

    attempt->question = question;
    attempt->row = &rows[question->settings.objective];
    attempt->strategy = strategy;
    attempt->tier = tier;
    attempt->out.kind = (enum mw_objective_kind)question->settings.objective;
    attempt->out.strategy = mw_strategy_name((int)strategy);
    attempt->out.fits = true;
    for (int m = 0; good && m < attempt->row->part_count; m++)
        good = begin_member(question, &attempt->row->parts[m], &attempt->members[m], error) &&
               (attempt->row->parts[m].trained || size_copy(attempt, m, error));
    good = good && choose_all_trained(attempt, error) && size_passes(attempt, error);
    if (good && attempt->out.fits && attempt->row == &rows[MW_OBJECTIVE_PPO])
        good = size_generation(attempt, error);
    if (!good) {
        attempt_free(attempt);
        return NULL;
    }
    set_models(attempt);
    set_batch(attempt);
    if (attempt->out.fits)
        add_phases(attempt);
    attempt->out.step_s[MW_OUTLOOK_TYPICAL] = step_of(&attempt->out);
    return attempt;
}

/* --- the ends of its range, as of a training's step ------------------------------------------- */

static double
generation_at(const struct attempt *attempt, enum mw_outlook outlook)
{
    int64_t tokens = attempt->out.seq - attempt->out.prompt;
    struct mw_question *question =
        generating(attempt, attempt->out.prompt, attempt->generation.batch);
    struct mw_serving serving;
    double all_s = NAN;

    question->hardware[MW_OUTLOOK_TYPICAL] = question->hardware[outlook];
    if (mw_serving_find(question, tokens, &serving, NULL)) {
        const struct mw_serving_row *row = serving.rows;
        all_s = row->prompt_s + row->token_s * (double)(tokens - 1);
        mw_serving_clear(&serving);
    }
    g_free(question);
    return all_s;
}

static double
phase_at(const struct attempt *attempt, const struct mw_objective_phase *phase,
         enum mw_outlook outlook)
{
    const struct mw_objective_member *member = &attempt->members[phase->model];
    const struct mw_hardware *hw = &attempt->question->hardware[outlook];

    if (!strcmp(phase->name, "generation"))
        return generation_at(attempt, outlook);
    if (!strcmp(phase->name, "forward"))
        return pass_s(member->pass, hw);
    struct mw_plan *plan = mw_build_plan(member->choice.sizing);
    double step_s = mw_step_s(plan, hw, false);
    mw_plan_free(plan);
    return step_s;
}

static void
set_ends(struct attempt *attempt)
{
    struct mw_objective *out = &attempt->out;

    double typical_s = out->step_s[MW_OUTLOOK_TYPICAL];

    for (int o = 0; out->fits && o < MW_OUTLOOK_COUNT; o += 2) {
        double all_s = 0,
               part = mw_independent_part(&attempt->members[0].question,
                                          attempt->members[0].choice.sizing, (enum mw_outlook)o);
        for (int p = 0; p < out->phase_count; p++)
            all_s += (double)out->phases[p].times *
                     phase_at(attempt, &out->phases[p], (enum mw_outlook)o);
        out->step_s[o] = typical_s + part * (all_s - typical_s);
    }
}

/* --- the search ------------------------------------------------------------------------------ */

static double
lack_of(const struct mw_objective *out)
{
    return (double)out->short_bytes / (double)MAX(1, out->capacity_bytes[out->limiting_tier]);
}

static bool
is_better(const struct attempt *one, const struct attempt *than)
{
    const struct mw_objective *a = &one->out, *b = than ? &than->out : NULL;

    if (!b || a->fits != b->fits)
        return !b || a->fits;
    if (!a->fits)
        return lack_of(a) < lack_of(b);
    return a->global_batch / a->step_s[MW_OUTLOOK_TYPICAL] >
           WORTH_COMPLEXITY * b->global_batch / b->step_s[MW_OUTLOOK_TYPICAL];
}

/* A copy is tried in every tier that the machine has; without copies there is one attempt. */
static bool
tries_tier(const struct mw_question *question, enum mw_tier tier)
{
    const struct mw_settings *s = &question->settings;
    const struct row *row = &rows[s->objective];
    bool copies = false;

    for (int m = 0; m < row->part_count; m++)
        copies |= !row->parts[m].trained && !(row->parts[m].compares && s->trained.rank);
    if (!copies || s->reference_before)
        return tier == MW_TIER_GPU;
    if (s->frozen_device != MW_AUTO)
        return s->frozen_device == (int)tier;
    return tier != MW_TIER_NVME || question->hardware[MW_OUTLOOK_TYPICAL].nvme_capacity_bytes > 0;
}

/* Adds an attempt for each tier; keeps the better one.  The first refusal is kept too. */
static void
try_strategy(const struct mw_question *question, enum mw_strategy strategy, struct attempt **best,
             GError **refused)
{
    for (int tier = 0; tier < MW_TIER_COUNT; tier++) {
        if (!tries_tier(question, (enum mw_tier)tier))
            continue;
        mw_progress("%s, frozen copies on %s", mw_strategy_name((int)strategy), mw_tier_name(tier));
        struct attempt *next = attempt_new(question, strategy, (enum mw_tier)tier,
                                           refused && !*refused ? refused : NULL);
        if (next && is_better(next, *best)) {
            attempt_free(*best);
            *best = g_steal_pointer(&next);
        }
        attempt_free(next);
    }
}

bool
mw_objective_find(const struct mw_question *question, struct mw_objective *out, GError **error)
{
    g_autoptr(GError) refused = NULL;
    struct attempt *best = NULL;

    if (!check(question, error))
        return false;
    if (question->settings.frozen_device == MW_TIER_NVME &&
        question->hardware[MW_OUTLOOK_TYPICAL].nvme_capacity_bytes <= 0)
        return mw_refuse(error, "{frozen-device=nvme}: the profile has no drives");
    for (int i = 0; i < question->strategy_count; i++) {
        const struct mw_strategies asked = mw_strategies_of(question->strategies[i]);
        for (int s = 0; s < asked.count; s++)
            try_strategy(question, asked.one[s], &best, &refused);
    }
    mw_progress_end();
    if (!best) {
        g_propagate_error(error, g_steal_pointer(&refused));
        return false;
    }
    set_ends(best);
    *out = best->out;
    attempt_free(best);
    return true;
}
