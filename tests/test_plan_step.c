/* What the check of a step takes and refuses: every plan of the planner, and no plan that lacks an
 * op, an order or an element of it. */
#include <string.h>

#include "config.h"
#include "plan/internal.h"
#include "plan/optimizers.h"
#include "planner/build/build.h"
#include "planner/sizing/sizing.h"
#include "tests/cases.h"
#include "tests/random_request.h"

#define PLANS MW_CASES(1500)

/* --- plans of the planner -------------------------------------------------------------------- */

enum kind { ANY, DECODER, STAGES, LEFT_OUT, FOLDED };

static void
take_decoder(struct random_request *request)
{
    const char *name = request->seed % 2 ? "llama-small" : "gpt2-small";
    g_autofree char *path = g_strdup_printf(MW_SOURCE_DIR "/tests/fixtures/%s/config.json", name);

    if (!mw_model_load_config(path, &request->model, NULL))
        g_error("%s", path);
    request->model.layers = 1 + request->seed % 5;
    request->settings.seq = 8 + request->seed % 3 * 8;
    if (request->seed % 3 == 0)
        request->model.tied_embedding = !request->model.tied_embedding;
}

static void
ask_for(struct random_request *request, enum kind kind)
{
    struct mw_settings *s = &request->settings;
    int64_t ranks = s->nodes * s->gpus_per_node;

    if (kind != ANY)
        take_decoder(request);
    if (kind == LEFT_OUT)
        s->drop_layers = "0";
    if (kind == LEFT_OUT || kind == STAGES)
        s->dpu_start = MW_AUTO;
    if (kind == LEFT_OUT || kind == STAGES || kind == FOLDED)
        s->unfold = false;
    if (kind == STAGES || kind == FOLDED) {
        s->global_batch = MW_AUTO;
        s->grad_accum = 1 + request->seed % (kind == FOLDED ? 20 : 5);
    }
    if (kind == STAGES) {
        request->model.tied_embedding = false;
        s->update_beside = false;
        s->pp = 2 + request->seed % 3;
        while (s->pp > 1 && (ranks % (s->pp * s->tp) || s->pp > request->model.layers))
            s->pp--;
        s->partition = MW_PARTITION_BANDWIDTH;
        s->overlap = true;
        s->serialize = false;
    }
}

/* Some layers, never all; g_free it. */
static bool *
draw_layers(const struct mw_sizing *sizing, guint32 seed)
{
    bool *dropped = g_new0(bool, sizing->layers + 1);

    for (int64_t l = 0; l + 1 < sizing->layers; l++)
        dropped[l] = (l * 7 + seed) % 3 == 0;
    return dropped;
}

static struct mw_plan *
build(const struct mw_sizing *sizing, enum kind kind, guint32 seed)
{
    g_autofree bool *dropped = draw_layers(sizing, seed);

    if (kind == FOLDED) {
        struct mw_folds folds = {.micro_batches = sizing->settings.grad_accum > 8};
        return mw_build_plan_folded(sizing, folds);
    }
    return mw_build_plan_without(sizing, kind == LEFT_OUT ? dropped : NULL);
}

static void
check_planned(gconstpointer data)
{
    enum kind kind = (enum kind)GPOINTER_TO_INT(data);
    int most = kind == FOLDED ? 40 : PLANS, plans = 0;

    for (guint32 seed = 600000; plans < most; seed++) {
        struct random_request request;
        char why[512] = "";
        random_request_init(&request, seed);
        ask_for(&request, kind);
        g_autoptr(GPtrArray) found = random_request_candidates(&request, NULL);
        const struct mw_sizing *sizing = found ? found->pdata[0] : NULL;
        struct mw_plan *plan = sizing && sizing->fits ? build(sizing, kind, seed) : NULL;
        if (!plan)
            continue;
        if (!mw_plan_check_step(plan, kind == LEFT_OUT, why, sizeof why))
            g_error("request %u: %s", seed, why);
        mw_plan_free(plan);
        plans++;
    }
}

/* --- plans that were changed ----------------------------------------------------------------- */

#define SMALL_OPS 400
#define SMALL_PLANS MW_CASES(40)

/* What a copy lacks; MW_NONE: nothing. */
struct lack {
    uint32_t op;      /* those that waited for it wait for what it waited for */
    uint32_t deps_of; /* all dependencies of this op but those of the step before */
};

static void
add_deps(struct mw_plan *to, const struct mw_plan *from, uint32_t op, struct lack lack)
{
    const struct mw_op *it = &from->ops[op];

    for (uint32_t d = it->dep_begin; d < it->dep_begin + it->dep_count; d++) {
        uint32_t dep = from->deps[d], number = MW_DEP_INDEX(dep);
        if (number == lack.op && !(dep & MW_DEP_PREVIOUS_STEP)) {
            add_deps(to, from, lack.op, (struct lack){lack.op, MW_NONE});
        } else if (number != lack.op && (op != lack.deps_of || (dep & MW_DEP_PREVIOUS_STEP))) {
            number -= lack.op != MW_NONE && number > lack.op;
            mw_plan_add_dep(to, number | (dep & MW_DEP_PREVIOUS_STEP));
        }
    }
}

static struct mw_plan *
copy_without(const struct mw_plan *from, struct lack lack)
{
    struct mw_plan *to = mw_plan_new(from->title);

    mw_plan_copy_tables(to, from);
    for (uint32_t p = 0; p < from->program_count; p++)
        to->programs[p].in_flight = from->programs[p].in_flight;
    for (uint32_t i = 0; i < from->slot_count; i++)
        mw_plan_add_slot(to, from->slots[i]);
    for (uint32_t i = 0; i < from->tensor_count; i++)
        mw_plan_add_tensor(to, from->tensors[i]);
    for (uint32_t i = 0; i < from->chunk_count; i++)
        mw_plan_add_chunk(to, from->chunks[i]);
    for (uint32_t i = 0; i < from->op_count; i++) {
        if (i == lack.op)
            continue;
        mw_plan_add_op(to, from->ops[i]);
        add_deps(to, from, i, lack);
        for (uint32_t u = 0; u < from->ops[i].use_count; u++) {
            const struct mw_use *use = &from->uses[from->ops[i].use_begin + u];
            mw_plan_add_use(to, use->slot, use->mode, use->role);
        }
    }
    return to;
}

/* Takes the plan. */
static bool
is_refused(struct mw_plan *plan)
{
    char why[512] = "";
    bool good =
        mw_plan_check(plan, why, sizeof why) && mw_plan_check_step(plan, false, why, sizeof why);

    if (!good) {
        g_assert_cmpstr(why, !=, "");
        g_test_message("%s", why);
    }
    mw_plan_free(plan);
    return !good;
}

typedef void (*change)(const struct mw_plan *plan);

static void
for_small_plans(guint32 first_seed, change look)
{
    int looked = 0;

    for (guint32 seed = first_seed; looked < SMALL_PLANS; seed++) {
        struct random_request request;
        g_autoptr(GPtrArray) found = NULL;
        random_request_init(&request, seed);
        ask_for(&request, DECODER);
        request.settings.unfold = false;
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        struct mw_plan *plan = sizing ? mw_build_plan(sizing) : NULL;
        if (plan && plan->op_count <= SMALL_OPS) {
            g_assert_false(is_refused(copy_without(plan, (struct lack){MW_NONE, MW_NONE})));
            look(plan);
            looked++;
        }
        mw_plan_free(plan);
    }
}

/* A transfer that brings what its buffer still holds may be left out. */
static bool
may_lack(const struct mw_plan *plan, uint32_t op)
{
    int object = plan->works[plan->ops[op].work].object;

    return object == MW_OBJECT_PARAMETERS || object == MW_OBJECT_CHECKPOINT;
}

static void
lack_each_op(const struct mw_plan *plan)
{
    for (uint32_t op = 0; op < plan->op_count; op++)
        if (!is_refused(copy_without(plan, (struct lack){op, MW_NONE})) && !may_lack(plan, op))
            g_error("without op %u, %s of %s in phase %s: is taken", op,
                    mw_op_kind_name(plan->works[plan->ops[op].work].kind),
                    mw_work_name(&plan->works[plan->ops[op].work]),
                    mw_phase_name(plan->ops[op].phase));
}

static void
test_every_op_is_needed(void)
{
    for_small_plans(700000, lack_each_op);
}

/* The norm is of all gradients, the commit is last, and what begins a lane waits for begin.  With
 * updates beside backward there is no norm, and lanes may order the ranks' meeting already; so may
 * the commit's own lane, if it updates or writes the last of the state before it. */
static void
lack_orders(const struct mw_plan *plan)
{
    g_autofree bool *begun = g_new0(bool, plan->lane_count);
    g_autofree bool *wrote = g_new0(bool, plan->lane_count);

    for (uint32_t op = 0; op < plan->op_count; op++) {
        const struct mw_work *work = &plan->works[plan->ops[op].work];
        uint32_t lane = plan->ops[op].lane;
        int kind = work->kind;
        bool first = kind != MW_OP_BEGIN && !begun[lane];
        begun[lane] = true;
        bool meets = kind == MW_OP_AGREE && !plan->shape.updates_beside;
        bool commits = kind == MW_OP_COMMIT && !wrote[lane];
        wrote[lane] =
            (kind == MW_OP_UPDATE || kind == MW_OP_NVME_WRITE) && work->object == MW_OBJECT_STATE;
        if (!meets && !commits && !first)
            continue;
        if (!is_refused(copy_without(plan, (struct lack){MW_NONE, op})))
            g_error("without what op %u waits for, %s of %s in phase %s: is taken", op,
                    mw_op_kind_name(kind), mw_work_name(&plan->works[plan->ops[op].work]),
                    mw_phase_name(plan->ops[op].phase));
    }
}

static void
test_orders_are_needed(void)
{
    for_small_plans(710000, lack_orders);
}

/* --- numbers --------------------------------------------------------------------------------- */

static struct mw_plan *
copy(const struct mw_plan *plan)
{
    return copy_without(plan, (struct lack){MW_NONE, MW_NONE});
}

static void
change_shape(const struct mw_plan *plan)
{
    int64_t layers = plan->shape.decoder.layers - plan->shape.kept_layers;
    int64_t interval = plan->shape.checkpoint_interval;

    for (int i = 0; i < 7; i++) {
        struct mw_plan *it = copy(plan);
        int64_t intervals[] = {0, 1, 2, 64};
        if (i < 4)
            it->shape.checkpoint_interval = intervals[i];
        else if (i == 4)
            it->shape.micro_batches++;
        else if (i == 5)
            it->shape.token_chunks++;
        else
            it->shape.seq--;
        bool same = i < 4 && (intervals[i] == interval ||
                              (interval && intervals[i] >= layers && interval >= layers));
        g_assert_true(is_refused(it) != same);
    }
}

static void
change_homes(const struct mw_plan *plan)
{
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        const struct mw_tensor *tensor = &plan->tensors[t];
        for (int i = 0; i < 4; i++) {
            struct mw_plan *it = copy(plan);
            struct mw_tensor *changed = &it->tensors[t];
            if (i == 0)
                changed->gradient_slot = changed->param_slot;
            else if (i == 1)
                changed->param_slot = it->tensors[(t + 1) % plan->tensor_count].param_slot;
            else if (i == 2)
                changed->state_stride *= 2;
            else
                changed->shard_elements /= 2;
            bool frozen = !tensor->trainable && i == 2;
            g_assert_true(is_refused(it) || frozen);
        }
    }
    for (uint32_t c = 0; c < plan->chunk_count; c++)
        for (int i = 0; i < 3; i++) {
            struct mw_plan *it = copy(plan);
            struct mw_chunk_content *changed = &it->chunks[c];
            if (i == 0)
                changed->elements = changed->elements > 2 ? 2 : 1;
            else if (i == 1)
                changed->first_element++;
            else
                changed->first_tensor = (changed->first_tensor + 1) % plan->tensor_count;
            g_assert_true(is_refused(it));
        }
}

/* An optimizer without state leaves none to be written, to drives or on its way there. */
static void
test_no_state(void)
{
    static const int stateless[] = {MW_OPTIMIZER_SGD_PURE, MW_OPTIMIZER_ADAFACTOR_PURE};
    int looked = 0, commits = 0;

    for (guint32 seed = 718000; looked < SMALL_PLANS; seed++) {
        struct random_request request;
        g_autoptr(GPtrArray) found = NULL;
        random_request_init(&request, seed);
        ask_for(&request, DECODER);
        request.settings.unfold = false;
        request.settings.optimizer = stateless[seed % 2];
        request.settings.strategy = MW_STRATEGY_ZERO_INFINITY_NVME;
        request.settings.placement[MW_STATE_OPTIMIZER] =
            (struct mw_placement){.count = 1, .part = {{MW_TIER_NVME, INT64_MAX, 0}}};
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        struct mw_plan *plan = sizing ? mw_build_plan(sizing) : NULL;
        if (plan && plan->op_count <= 4 * SMALL_OPS) {
            g_assert_cmpint(mw_sizing_op_count(sizing), ==, plan->op_count);
            for (uint32_t op = 0; op < plan->op_count; op++) {
                const struct mw_work *work = &plan->works[plan->ops[op].work];
                bool writes = work->kind == MW_OP_NVME_WRITE || work->kind == MW_OP_D2H;
                g_assert_true(!writes || work->bytes > 0);
            }
            g_assert_false(is_refused(copy(plan)));
            commits += sizing->settings.commit == 1;
            looked++;
        }
        mw_plan_free(plan);
    }
    g_assert_cmpint(commits, >, 0);
}

/* Lanes are those of their ops' kinds: no other kind of lane takes an op, and no two are one. */
static void
change_lanes(const struct mw_plan *plan)
{
    for (uint32_t op = 0; op < plan->op_count; op++)
        for (uint32_t l = 0; l < plan->lane_count; l++) {
            struct mw_plan *it = copy(plan);
            bool same = plan->lanes[l].kind == plan->lanes[plan->ops[op].lane].kind;
            it->ops[op].lane = (uint16_t)l;
            g_assert_true(same || is_refused(it));
            if (same)
                mw_plan_free(it);
        }
    for (uint32_t l = 0; l < plan->lane_count; l++)
        for (uint32_t other = 0; other < plan->lane_count; other++) {
            struct mw_plan *it = copy(plan);
            bool one = false;
            it->lanes[l].index = plan->lanes[other].index;
            for (uint32_t i = 0; i < plan->lane_count; i++)
                one |= i != l && plan->lanes[i].kind == plan->lanes[l].kind &&
                       plan->lanes[i].index == plan->lanes[other].index;
            g_assert_true(is_refused(it) == one);
        }
}

static void
test_lanes(void)
{
    for_small_plans(715000, change_lanes);
}

/* Stages agree on the norm in lanes of one index, and what goes one way has one lane. */
static void
test_stages_lanes(void)
{
    int looked = 0;

    for (guint32 seed = 716000; looked < SMALL_PLANS; seed++) {
        struct random_request request;
        random_request_init(&request, seed);
        ask_for(&request, STAGES);
        g_autoptr(GPtrArray) found = random_request_candidates(&request, NULL);
        const struct mw_sizing *sizing = found ? found->pdata[0] : NULL;
        struct mw_plan *plan = sizing && sizing->fits ? mw_build_plan(sizing) : NULL;
        if (plan && plan->program_count > 1 && plan->op_count <= SMALL_OPS) {
            g_assert_false(is_refused(copy(plan)));
            for (uint32_t op = 0; op < plan->op_count; op++) {
                const struct mw_work *work = &plan->works[plan->ops[op].work];
                bool hops = work->kind == MW_OP_SEND && plan->ops[op].micro_batch == 1;
                if (work->kind != MW_OP_AGREE && !hops)
                    continue;
                struct mw_plan *it = copy(plan);
                const struct mw_lane *was = &plan->lanes[plan->ops[op].lane];
                it->ops[op].lane = (uint16_t)mw_plan_add_lane(
                    it, (struct mw_lane){was->program, was->kind, 9, 1, 0});
                g_assert_true(is_refused(it));
            }
            looked++;
        }
        mw_plan_free(plan);
    }
}

static void
test_shapes(void)
{
    for_small_plans(720000, change_shape);
}

static void
test_homes(void)
{
    for_small_plans(730000, change_homes);
}

/* --- slots ----------------------------------------------------------------------------------- */

static struct mw_plan *
copy_with_mode(const struct mw_plan *plan, uint32_t use, uint8_t mode)
{
    struct mw_plan *it = copy(plan);

    it->uses[use].mode = mode;
    return it;
}

static struct mw_plan *
copy_with_slot(const struct mw_plan *plan, uint32_t use, uint32_t slot)
{
    struct mw_plan *it = copy(plan);

    it->uses[use].slot = slot;
    return it;
}

/* A gradient is added from where it was made and from no other slot, such as one that holds a home
 * that no op has written. */
static void
move_gradients(const struct mw_plan *plan)
{
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_op *op = &plan->ops[i];
        if (plan->works[op->work].kind != MW_OP_ACCUMULATE)
            continue;
        for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++)
            for (uint32_t s = 0; s < plan->slot_count; s++)
                if (plan->uses[u].role == MW_ROLE_GRADIENT && s != plan->uses[u].slot)
                    g_assert_true(is_refused(copy_with_slot(plan, u, s)));
    }
}

static bool
is_kept(const struct mw_plan *plan, const struct mw_work *work, uint32_t use)
{
    int role = plan->uses[use].role;

    return role == MW_ROLE_LOGITS || role == MW_ROLE_CHECKPOINT || role == MW_ROLE_SENT ||
           (work->object == MW_OBJECT_CHECKPOINT && role == MW_ROLE_SOURCE);
}

/* A buffer may still hold the checkpoint that went through it. */
static int
kept_as(const struct mw_plan *plan, uint32_t slot)
{
    int purpose = plan->slots[slot].purpose;
    return purpose == MW_PURPOSE_CHECKPOINT_BUFFERS ? MW_PURPOSE_ACTIVATION_CHECKPOINTS : purpose;
}

/* Logits, checkpoints and what a stage sends are where the step put them, and not among the
 * activations. */
static void
move_kept(const struct mw_plan *plan)
{
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_op *op = &plan->ops[i];
        for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++)
            for (uint32_t s = 0; s < plan->slot_count; s++)
                if (is_kept(plan, &plan->works[op->work], u) &&
                    kept_as(plan, s) != kept_as(plan, plan->uses[u].slot))
                    g_assert_true(is_refused(copy_with_slot(plan, u, s)));
    }
}

/* What an op writes it may not call read: no order of such a write is proved. */
static void
only_read(const struct mw_plan *plan)
{
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_op *op = &plan->ops[i];
        int kind = plan->works[op->work].kind;
        for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++) {
            int role = plan->uses[u].role;
            bool writes = role == MW_ROLE_DESTINATION || role == MW_ROLE_SUM ||
                          kind == MW_OP_UPDATE ||
                          (kind == MW_OP_COMPUTE && role == MW_ROLE_GRADIENT);
            if (!writes || plan->uses[u].mode == MW_USE_READ)
                continue;
            struct mw_plan *it = copy(plan);
            it->uses[u].mode = MW_USE_READ;
            g_assert_true(is_refused(it));
        }
    }
}

static void
test_slots(void)
{
    for_small_plans(770000, only_read);
    for_small_plans(750000, move_gradients);
    for_small_plans(760000, move_kept);
}

/* --- gradients of weights that come later --------------------------------------------------- */

static bool
is_operand(const struct mw_plan *plan, uint32_t slot)
{
    return plan->slots[slot].purpose == MW_PURPOSE_PRODUCT_INPUTS ||
           plan->slots[slot].purpose == MW_PURPOSE_RESULT_GRADIENTS;
}

/* Each op is needed, and finds what the gradients of weights take among its own micro-batch's, and
 * no op throws that away before. */
static void
test_weights_later(void)
{
    int looked = 0, moved = 0;

    for (guint32 seed = 780000; looked < 2; seed++) {
        struct random_request request;
        g_autoptr(GPtrArray) found = NULL;
        random_request_init(&request, seed);
        ask_for(&request, STAGES);
        random_request_fill_bubbles(&request);
        request.model.layers = request.settings.pp;
        const struct mw_sizing *sizing =
            request.settings.pp == 2 ? random_request_fitting(&request, &found) : NULL;
        struct mw_plan *plan = sizing ? mw_build_plan(sizing) : NULL;
        if (plan && plan->op_count <= SMALL_OPS && plan->shape.micro_batches > 1) {
            g_assert_false(is_refused(copy_without(plan, (struct lack){MW_NONE, MW_NONE})));
            lack_each_op(plan);
            for (uint32_t u = 0; u < plan->use_count; u++)
                if (is_operand(plan, plan->uses[u].slot) && plan->uses[u].mode != MW_USE_DEFINE)
                    g_assert_true(is_refused(copy_with_mode(plan, u, MW_USE_DEFINE)));
            for (uint32_t u = 0; u < plan->use_count; u++)
                for (uint32_t s = 0; s < plan->slot_count; s++)
                    if (s != plan->uses[u].slot && is_operand(plan, s) &&
                        is_operand(plan, plan->uses[u].slot) &&
                        plan->slots[s].program == plan->slots[plan->uses[u].slot].program) {
                        g_assert_true(is_refused(copy_with_slot(plan, u, s)));
                        moved++;
                    }
            looked++;
        }
        mw_plan_free(plan);
    }
    g_assert_cmpint(moved, >, 0);
}

/* --- one program without its layers ---------------------------------------------------------- */

/* A layer may be left out as a whole, where the caller says so. */
static void
test_left_out(void)
{
    struct random_request request;
    g_autoptr(GPtrArray) found = NULL;
    char why[512];
    guint32 seed = 740000;
    const struct mw_sizing *sizing = NULL;

    for (; !sizing || sizing->layers < 3; seed++) {
        g_clear_pointer(&found, g_ptr_array_unref);
        random_request_init(&request, seed);
        ask_for(&request, LEFT_OUT);
        sizing = random_request_fitting(&request, &found);
    }
    g_autofree bool *dropped = draw_layers(sizing, 0);
    struct mw_plan *plan = mw_build_plan_without(sizing, dropped);
    g_assert_true(mw_plan_check_step(plan, true, why, sizeof why));
    g_assert_false(mw_plan_check_step(plan, false, why, sizeof why));
    mw_plan_free(plan);
}

/* --- experts over ranks ---------------------------------------------------------------------- */

/* Whether an op is of parameters or gradients of spread experts, by all ranks that have them. */
static bool
is_of_experts(const struct mw_plan *plan, uint32_t op)
{
    const struct mw_work *work = &plan->works[plan->ops[op].work];

    return (work->operator_ == MW_OPERATOR_EXPERTS_UP ||
            work->operator_ == MW_OPERATOR_EXPERTS_DOWN) &&
           (work->object == MW_OBJECT_PARAMETERS || work->object == MW_OBJECT_GRADIENTS) &&
           mw_op_traits(work->kind)->joins == MW_JOINS_GROUP;
}

/* The same plan, in which works of this one's kind are of all data-parallel ranks. */
static struct mw_plan *
over_all_ranks(const struct mw_plan *plan, uint32_t op)
{
    struct mw_plan *changed = copy_without(plan, (struct lack){MW_NONE, MW_NONE});

    changed->works[changed->ops[op].work].comm = 0; /* dp */
    return changed;
}

/* Whether slices of experts gather tokens by the op, or scatter sums of results. */
static bool
is_of_expert_slices(const struct mw_plan *plan, uint32_t op)
{
    const struct mw_work *work = &plan->works[plan->ops[op].work];

    return (work->operator_ == MW_OPERATOR_EXPERTS_UP ||
            work->operator_ == MW_OPERATOR_EXPERTS_DOWN) &&
           work->object == MW_OBJECT_ACTIVATIONS &&
           (work->kind == MW_OP_ALL_GATHER || work->kind == MW_OP_REDUCE_SCATTER);
}

/* The same plan, which says that its slices share whole experts where they slice them, or the other
 * way round. */
static struct mw_plan *
of_other_experts(const struct mw_plan *plan)
{
    struct mw_plan *changed = copy_without(plan, (struct lack){MW_NONE, MW_NONE});

    changed->shape.whole_experts = !plan->shape.whole_experts;
    return changed;
}

static void
look_at_spread(const struct mw_plan *plan, int *exchanges, int *reductions, int *slices)
{
    bool sliced = mw_plan_degree(plan, MW_AXIS_TP) > 1;

    for (uint32_t i = 0; i < plan->op_count; i++) {
        if (is_of_expert_slices(plan, i)) {
            g_assert_true(is_refused(copy_without(plan, (struct lack){i, MW_NONE})));
            ++*slices;
        }
        bool exchange = plan->works[plan->ops[i].work].kind == MW_OP_ALL_TO_ALL;
        if (!exchange && !is_of_experts(plan, i))
            continue;
        bool gathers = plan->works[plan->ops[i].work].object == MW_OBJECT_PARAMETERS;
        if (!gathers) /* the pass before may have left them where they are */
            g_assert_true(is_refused(copy_without(plan, (struct lack){i, MW_NONE})));
        g_assert_true(is_refused(over_all_ranks(plan, i)));
        bool of_experts =
            exchange && plan->works[plan->ops[i].work].operator_ != MW_OPERATOR_ATTENTION;
        if (of_experts && sliced)
            g_assert_true(is_refused(of_other_experts(plan)));
        sliced &= !of_experts; /* once is enough */
        ++*(exchange ? exchanges : reductions);
    }
}

static void
test_spread(void)
{
    int exchanges = 0, reductions = 0, slices = 0, whole = 0;

    for (guint32 seed = 710000; exchanges < 200 || reductions < 100 || slices < 20 || whole < 5;
         seed++) {
        struct random_request request;
        g_autoptr(GPtrArray) found = NULL;
        random_request_init(&request, seed);
        request.settings.unfold = false;
        if (request.settings.ep == 1)
            continue;
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        struct mw_plan *plan = sizing ? mw_build_plan(sizing) : NULL;
        if (plan && plan->op_count <= SMALL_OPS)
            look_at_spread(plan, &exchanges, &reductions, &slices);
        whole += plan && plan->op_count <= SMALL_OPS && plan->shape.whole_experts;
        mw_plan_free(plan);
    }
}

/* --- sequences over ranks -------------------------------------------------------------------- */

/* The plan is refused without a collective around attention, or beside it, or if that is of all
 * data-parallel ranks. */
static void
look_at_context(const struct mw_plan *plan, int *exchanges, int *rings)
{
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_work *work = &plan->works[plan->ops[i].work];
        bool ring = work->kind == MW_OP_RING_PASS;
        if (!ring && (work->kind != MW_OP_ALL_TO_ALL || work->operator_ != MW_OPERATOR_ATTENTION))
            continue;
        g_assert_true(is_refused(copy_without(plan, (struct lack){i, MW_NONE})));
        g_assert_true(is_refused(over_all_ranks(plan, i)));
        ++*(ring ? rings : exchanges);
    }
}

static void
test_context(void)
{
    int exchanges = 0, rings = 0;

    for (guint32 seed = 720000; exchanges < 40 || rings < 40; seed++) {
        struct random_request request;
        g_autoptr(GPtrArray) found = NULL;
        random_request_init(&request, seed);
        request.settings.unfold = false;
        if (request.settings.cp == 1)
            continue;
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        struct mw_plan *plan = sizing ? mw_build_plan(sizing) : NULL;
        if (plan && plan->op_count <= SMALL_OPS)
            look_at_context(plan, &exchanges, &rings);
        mw_plan_free(plan);
    }
}

/* --- tokens over slices ---------------------------------------------------------------------- */

/* Of slices alone: hidden states that are scattered or gathered, gradients of norms that are summed
 * up. */
static bool
is_of_slices(const struct mw_plan *plan, uint32_t op)
{
    const struct mw_work *work = &plan->works[plan->ops[op].work];

    return mw_op_traits(work->kind)->joins == MW_JOINS_GROUP && work->kind != MW_OP_AGREE &&
           plan->comms[work->comm].spans[MW_AXIS_TP].count > 1;
}

/* Whether its lane has another behind what is computed before it, which orders them. */
static bool
follows(const struct mw_plan *plan, uint32_t op)
{
    uint32_t before = op;

    while (before-- > 0 && plan->works[plan->ops[before].work].kind != MW_OP_COMPUTE)
        if (is_of_slices(plan, before))
            return true;
    return false;
}

/* The plan is refused without such a collective, or without what it waits for, or if it is of more
 * ranks. */
static void
look_at_slices(const struct mw_plan *plan, int *rows, int *norms)
{
    for (uint32_t i = 0; i < plan->op_count; i++) {
        if (!is_of_slices(plan, i))
            continue;
        g_assert_true(is_refused(copy_without(plan, (struct lack){i, MW_NONE})));
        if (!is_refused(copy_without(plan, (struct lack){MW_NONE, i})) && !follows(plan, i))
            g_error("without what op %u waits for, %s of %s in phase %s layer %d: is taken", i,
                    mw_op_kind_name(plan->works[plan->ops[i].work].kind),
                    mw_work_name(&plan->works[plan->ops[i].work]),
                    mw_phase_name(plan->ops[i].phase), plan->ops[i].layer);
        if (mw_plan_degree(plan, MW_AXIS_TP) < plan->world_ranks)
            g_assert_true(is_refused(over_all_ranks(plan, i)));
        ++*(plan->works[plan->ops[i].work].object == MW_OBJECT_GRADIENTS ? norms : rows);
    }
}

static void
test_shared_tokens(void)
{
    int rows = 0, norms = 0;

    for (guint32 seed = 730000; rows < 400 || norms < 60; seed++) {
        struct random_request request;
        g_autoptr(GPtrArray) found = NULL;
        random_request_init(&request, seed);
        ask_for(&request, DECODER);
        request.settings.unfold = false;
        if (request.settings.tp == 1)
            continue;
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        struct mw_plan *plan = sizing ? mw_build_plan(sizing) : NULL;
        if (plan && plan->shape.tensor_parts && plan->op_count <= SMALL_OPS)
            look_at_slices(plan, &rows, &norms);
        mw_plan_free(plan);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_data_func("/plan-step/planned/any", GINT_TO_POINTER(ANY), check_planned);
    g_test_add_data_func("/plan-step/planned/decoder", GINT_TO_POINTER(DECODER), check_planned);
    g_test_add_data_func("/plan-step/planned/stages", GINT_TO_POINTER(STAGES), check_planned);
    g_test_add_data_func("/plan-step/planned/left-out", GINT_TO_POINTER(LEFT_OUT), check_planned);
    g_test_add_data_func("/plan-step/planned/folded", GINT_TO_POINTER(FOLDED), check_planned);
    g_test_add_func("/plan-step/every-op-is-needed", test_every_op_is_needed);
    g_test_add_func("/plan-step/orders-are-needed", test_orders_are_needed);
    g_test_add_func("/plan-step/shapes", test_shapes);
    g_test_add_func("/plan-step/no-state", test_no_state);
    g_test_add_func("/plan-step/lanes", test_lanes);
    g_test_add_func("/plan-step/lanes/stages", test_stages_lanes);
    g_test_add_func("/plan-step/homes", test_homes);
    g_test_add_func("/plan-step/slots", test_slots);
    g_test_add_func("/plan-step/weights-later", test_weights_later);
    g_test_add_func("/plan-step/left-out", test_left_out);
    g_test_add_func("/plan-step/spread", test_spread);
    g_test_add_func("/plan-step/context", test_context);
    g_test_add_func("/plan-step/shared-tokens", test_shared_tokens);
    return g_test_run();
}
