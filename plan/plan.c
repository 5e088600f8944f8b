#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "plan/internal.h"

struct mw_plan_capacity {
    uint32_t programs, comms, lanes, channels, draws, works, slots, ops, deps, uses, tensors,
        chunks, sections;
};

static _Noreturn void
die(const char *function, const char *reason)
{
    fprintf(stderr, "memwall: %s: %s\n", function, reason);
    abort();
}

void *
mw_plan_allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);

    if (!memory)
        die(__func__, "out of memory");
    return memory;
}

uint32_t *
mw_plan_allocate_nones(uint32_t count)
{
    uint32_t *array = mw_plan_allocate(count, sizeof *array);

    for (uint32_t i = 0; i < count; i++)
        array[i] = MW_NONE;
    return array;
}

static void
require_open(const struct mw_plan *plan, const char *function)
{
    if (plan->checked)
        die(function, "the plan was checked and may not change");
}

static void *
grow(void *array, uint64_t wanted, uint32_t *capacity, size_t size)
{
    uint64_t grown = *capacity;

    if (wanted >= MW_NONE)
        die(__func__, "more elements than an index can name");
    grown = grown * 2 > wanted ? grown * 2 : wanted;
    grown = grown < 16 ? 16 : grown > MW_NONE ? MW_NONE : grown;
    array = realloc(array, grown * size);
    if (!array)
        die(__func__, "out of memory");
    *capacity = (uint32_t)grown;
    return array;
}

/* Returns `array` with room for `extra` more elements after the first `count`. */
static inline void *
reserve(void *array, uint32_t count, uint32_t extra, uint32_t *capacity, size_t size)
{
    uint64_t wanted = (uint64_t)count + extra;

    return wanted <= *capacity ? array : grow(array, wanted, capacity, size);
}

/* Replaces control characters with blanks, since the text form gives each text one line. */
static char *
copy_line(const char *text)
{
    char *copy = strdup(text ? text : "");

    if (!copy)
        die(__func__, "out of memory");
    for (char *c = copy; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
    return copy;
}

struct mw_plan *
mw_plan_new(const char *title)
{
    struct mw_plan *plan = mw_plan_allocate(1, sizeof *plan);

    plan->capacity = mw_plan_allocate(1, sizeof *plan->capacity);
    plan->title = copy_line(title);
    mw_plan_set_world(plan, 1, 1, true);
    plan->shape = (struct mw_step_shape){
        .micro_batches = 1, .tiles = 1, .token_chunks = 1, .dtype = MW_DTYPE_NONE};
    return plan;
}

static void
set_name(char **name, const char *text)
{
    free(*name);
    *name = text && text[strspn(text, " ")] ? copy_line(text) : NULL;
}

void
mw_plan_set_machine(struct mw_plan *plan, const char *machine)
{
    set_name(&plan->machine, machine);
}

void
mw_plan_set_software(struct mw_plan *plan, const char *software)
{
    set_name(&plan->software, software);
}

void
mw_plan_set_model(struct mw_plan *plan, const char *model)
{
    set_name(&plan->model, model);
}

void
mw_plan_set_strategy(struct mw_plan *plan, const char *strategy)
{
    set_name(&plan->strategy, strategy);
}

void
mw_plan_set_asked(struct mw_plan *plan, const char *asked)
{
    set_name(&plan->asked, asked);
}

void
mw_plan_set_chosen(struct mw_plan *plan, const char *chosen)
{
    set_name(&plan->chosen, chosen);
}

void
mw_plan_free(struct mw_plan *plan)
{
    if (!plan)
        return;
    free(plan->title);
    free(plan->machine);
    free(plan->software);
    free(plan->model);
    free(plan->strategy);
    free(plan->asked);
    free(plan->chosen);
    free(plan->programs);
    free(plan->comms);
    free(plan->lanes);
    free(plan->channels);
    free(plan->draws);
    free(plan->works);
    free(plan->slots);
    free(plan->ops);
    free(plan->deps);
    free(plan->uses);
    free(plan->tensors);
    free(plan->chunks);
    free(plan->sections);
    free(plan->dep_strides);
    free(plan->use_strides);
    free(plan->capacity);
    free(plan);
}

void
mw_plan_clear_programs(struct mw_plan *plan)
{
    require_open(plan, __func__);
    plan->program_count = 0;
}

uint32_t
mw_plan_add_program(struct mw_plan *plan, struct mw_members ranks)
{
    require_open(plan, __func__);
    plan->programs = reserve(plan->programs, plan->program_count, 1, &plan->capacity->programs,
                             sizeof *plan->programs);
    plan->programs[plan->program_count] = (struct mw_program){.ranks = ranks, .in_flight = 1};
    return plan->program_count++;
}

void
mw_plan_set_world(struct mw_plan *plan, uint32_t ranks, uint32_t ranks_per_node, bool folded)
{
    struct mw_members all = mw_members_of_one(0);

    mw_plan_clear_programs(plan);
    plan->world_ranks = ranks;
    plan->ranks_per_node = ranks_per_node;
    if (ranks > 1)
        all.spans[MW_AXIS_DP] = (struct mw_axis_span){1, ranks};
    if (folded)
        mw_plan_add_program(plan, all);
    for (uint32_t r = 0; !folded && r < ranks; r++)
        mw_plan_add_program(plan, mw_members_of_one(r));
}

uint32_t
mw_plan_add_comm(struct mw_plan *plan, struct mw_comm comm)
{
    require_open(plan, __func__);
    plan->comms = reserve(plan->comms, plan->comm_count, 1, &plan->capacity->comms, sizeof comm);
    plan->comms[plan->comm_count] = comm;
    return plan->comm_count++;
}

uint32_t
mw_plan_add_lane(struct mw_plan *plan, struct mw_lane lane)
{
    require_open(plan, __func__);
    plan->lanes = reserve(plan->lanes, plan->lane_count, 1, &plan->capacity->lanes, sizeof lane);
    plan->lanes[plan->lane_count] = lane;
    return plan->lane_count++;
}

uint32_t
mw_plan_add_channel(struct mw_plan *plan, struct mw_channel channel)
{
    require_open(plan, __func__);
    plan->channels =
        reserve(plan->channels, plan->channel_count, 1, &plan->capacity->channels, sizeof channel);
    plan->channels[plan->channel_count] = channel;
    return plan->channel_count++;
}

void
mw_plan_expect_homes(struct mw_plan *plan, uint32_t slots, uint32_t tensors, uint32_t chunks)
{
    struct mw_plan_capacity *capacity = plan->capacity;

    require_open(plan, __func__);
    plan->slots =
        reserve(plan->slots, plan->slot_count, slots, &capacity->slots, sizeof *plan->slots);
    plan->tensors = reserve(plan->tensors, plan->tensor_count, tensors, &capacity->tensors,
                            sizeof *plan->tensors);
    plan->chunks =
        reserve(plan->chunks, plan->chunk_count, chunks, &capacity->chunks, sizeof *plan->chunks);
}

uint32_t
mw_plan_add_slot(struct mw_plan *plan, struct mw_slot slot)
{
    require_open(plan, __func__);
    plan->slots = reserve(plan->slots, plan->slot_count, 1, &plan->capacity->slots, sizeof slot);
    plan->slots[plan->slot_count] = slot;
    return plan->slot_count++;
}

uint32_t
mw_plan_add_tensor(struct mw_plan *plan, struct mw_tensor tensor)
{
    require_open(plan, __func__);
    plan->tensors =
        reserve(plan->tensors, plan->tensor_count, 1, &plan->capacity->tensors, sizeof tensor);
    plan->tensors[plan->tensor_count] = tensor;
    return plan->tensor_count++;
}

uint32_t
mw_plan_add_chunk(struct mw_plan *plan, struct mw_chunk_content chunk)
{
    require_open(plan, __func__);
    plan->chunks =
        reserve(plan->chunks, plan->chunk_count, 1, &plan->capacity->chunks, sizeof chunk);
    plan->chunks[plan->chunk_count] = chunk;
    return plan->chunk_count++;
}

uint32_t
mw_plan_add_work(struct mw_plan *plan, struct mw_work work, const struct mw_draw *draws,
                 uint32_t draw_count)
{
    require_open(plan, __func__);
    if (draw_count > MW_MAX_DRAWS_PER_WORK)
        die(__func__, "more draws than a work may have");
    plan->works = reserve(plan->works, plan->work_count, 1, &plan->capacity->works, sizeof work);
    plan->draws =
        reserve(plan->draws, plan->draw_count, draw_count, &plan->capacity->draws, sizeof *draws);
    if (draw_count)
        memcpy(plan->draws + plan->draw_count, draws, draw_count * sizeof *draws);
    work.draw_begin = plan->draw_count;
    work.draw_count = draw_count;
    plan->draw_count += draw_count;
    plan->works[plan->work_count] = work;
    return plan->work_count++;
}

uint32_t
mw_plan_add_op(struct mw_plan *plan, struct mw_op op)
{
    require_open(plan, __func__);
    if (plan->section_count)
        die(__func__, "all ops come before the sections");
    if (plan->op_count == MW_PLAN_MAX_OPS)
        die(__func__, "more ops than an index can name");
    plan->ops = reserve(plan->ops, plan->op_count, 1, &plan->capacity->ops, sizeof op);
    op.dep_begin = plan->dep_count;
    op.dep_count = 0;
    op.use_begin = plan->use_count;
    op.use_count = 0;
    memset(op.round, 0, sizeof op.round);
    plan->ops[plan->op_count] = op;
    return plan->op_count++;
}

static struct mw_op *
newest_op(struct mw_plan *plan, const char *function)
{
    require_open(plan, function);
    if (!plan->op_count)
        die(function, "the plan has no op yet");
    return &plan->ops[plan->op_count - 1];
}

void
mw_plan_add_dep(struct mw_plan *plan, uint32_t dep)
{
    struct mw_op *op = newest_op(plan, __func__);

    if (dep == MW_NONE)
        return;
    for (uint32_t i = 0; i < op->dep_count; i++)
        if (plan->deps[op->dep_begin + i] == dep)
            return;
    if (op->dep_count == MW_MAX_DEPS_PER_OP)
        die(__func__, "more dependencies than an op may have");
    plan->deps = reserve(plan->deps, plan->dep_count, 1, &plan->capacity->deps, sizeof dep);
    plan->deps[plan->dep_count++] = dep;
    op->dep_count++;
}

struct mw_recomputed
mw_step_shape_recomputed(const struct mw_step_shape *shape, int64_t begin, int64_t end)
{
    bool none = shape->whole_checkpoints && !shape->kept_layers;

    return (struct mw_recomputed){
        .begin = begin,
        .end = end,
        .interval = shape->checkpoint_interval,
        .kept = none ? end - begin : shape->kept_layers,
        .set = mw_layer_set_is_empty(&shape->recomputed) ? NULL : &shape->recomputed};
}

void
mw_plan_add_use(struct mw_plan *plan, uint32_t slot, enum mw_use_mode mode, enum mw_role role)
{
    struct mw_op *op = newest_op(plan, __func__);

    if (op->use_count == MW_MAX_USES_PER_OP)
        die(__func__, "more uses than an op may have");
    plan->uses = reserve(plan->uses, plan->use_count, 1, &plan->capacity->uses, sizeof *plan->uses);
    plan->uses[plan->use_count++] =
        (struct mw_use){.slot = slot, .mode = (uint8_t)mode, .role = (uint8_t)role};
    op->use_count++;
}

/* An inner section adds to the span of the section around it. */
void
mw_plan_put_section(struct mw_plan *plan, struct mw_section section)
{
    section.span = section.op_count;
    plan->sections[plan->section_count] = section;
    if (section.parent != MW_NONE)
        plan->sections[section.parent].span += (section.rounds - 1) * section.span;
    plan->section_count++;
}

uint32_t
mw_plan_add_section(struct mw_plan *plan, struct mw_section section)
{
    require_open(plan, __func__);
    plan->sections =
        reserve(plan->sections, plan->section_count, 1, &plan->capacity->sections, sizeof section);
    if (!plan->section_count) {
        plan->dep_strides = mw_plan_allocate(plan->dep_count, sizeof *plan->dep_strides);
        plan->use_strides = mw_plan_allocate(plan->use_count, sizeof *plan->use_strides);
    }
    mw_plan_put_section(plan, section);
    return plan->section_count - 1;
}
