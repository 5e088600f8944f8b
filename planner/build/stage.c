/* Between pipeline stages: activations go forward, their gradients backward, each in lanes of their
 * own so that neither waits for the other. */
#include <glib.h>

#include "base/arithmetic.h"
#include "planner/build/internal.h"

/* One direction: from the previous stage through this one to the next, or back. */
struct way {
    int receive_lane, send_lane;
    enum mw_buffer_kind input, output;
    int32_t to; /* stages further */
};

static const struct way *
way_of(const struct visit *v)
{
    static const struct way forward = {LANE_STAGE_INPUT, LANE_STAGE_OUTPUT, MW_BUFFER_STAGE_INPUT,
                                       MW_BUFFER_STAGE_OUTPUT, 1};
    static const struct way backward = {LANE_STAGE_GRADIENT_INPUT, LANE_STAGE_GRADIENT_OUTPUT,
                                        MW_BUFFER_STAGE_GRADIENT_INPUT,
                                        MW_BUFFER_STAGE_GRADIENT_OUTPUT, -1};

    return v->phase == MW_PHASE_BACKWARD ? &backward : &forward;
}

/* How many members further a micro-batch goes: to the stage's rank with the number of this one, or
 * to the one whose turn it is. */
static int32_t
hop_to(const struct builder *b, int32_t to, bool sends, uint32_t micro_batch)
{
    const struct mw_stage_replicas *replicas = &b->sizing->settings.stage_replicas;

    if (!replicas->stages)
        return to;
    uint32_t stage = (uint32_t)((int32_t)b->turn.stage + (sends ? to : -to));
    uint32_t peer = mw_stage_replicas_first(replicas, stage) + micro_batch % replicas->of[stage];
    return sends ? (int32_t)(peer - b->rank) : (int32_t)(b->rank - peer);
}

static void
hop(struct builder *b, const struct visit *v, bool sends, uint32_t slot)
{
    const struct way *way = way_of(v);
    bool parts = b->sizing->shape.sequence_parallel || mw_sizing_scatters_stages(b->sizing);
    int64_t bytes =
        b->sizing->element_bytes *
        mw_divide_up(b->sizing->tokens * b->sizing->model->hidden, parts ? b->sizing->tp : 1);
    struct identity id = {v->phase, v->layer, v->micro_batch, 0, 0};
    int32_t further = hop_to(b, way->to, sends, mw_build_micro_batch(b, v->micro_batch));

    mw_build_op(b, sends ? way->send_lane : way->receive_lane,
                mw_work_hop(b, sends ? MW_OP_SEND : MW_OP_RECV, further, bytes), id);
    mw_build_use(b, slot, sends ? MW_USE_READ : MW_USE_DEFINE,
                 sends ? MW_ROLE_SOURCE : MW_ROLE_DESTINATION);
}

/* Each slice has got its part of what all of them need (Narayanan et al. 2021, arXiv 2104.04473,
 * Sec. 4.1). */
static void
gather(struct builder *b, const struct visit *v, uint32_t slot)
{
    int64_t bytes = b->sizing->element_bytes * b->sizing->tokens * b->sizing->model->hidden;
    struct subject activations = {MW_OBJECT_ACTIVATIONS, MW_OPERATOR_NONE};

    mw_build_op(b, LANE_SLICING,
                mw_work_collective(b, MW_OP_ALL_GATHER, activations, b->tp_comm, bytes),
                (struct identity){v->phase, v->layer, v->micro_batch, 0, 0});
    mw_build_use(b, slot, MW_USE_MODIFY, MW_ROLE_DESTINATION);
}

/* Whether it comes from the same stage: from the group of layers before, or to the logits from the
 * last layer. */
static bool
comes_from_here(const struct builder *b, const struct visit *v)
{
    return b->fetching ||
           (v->phase == MW_PHASE_FORWARD && v->class_ == MW_CLASS_TAIL && b->sizing->layers);
}

static bool
stays_here(const struct builder *b, const struct visit *v)
{
    return b->fetching ||
           (v->phase == MW_PHASE_FORWARD && b->sizing->classes[MW_CLASS_TAIL].blocks &&
            mw_sizing_model_layer(b->sizing, v->layer) + 1 == b->sizing->model->layers);
}

/* Whether the step before has received it. */
static bool
is_carried(const struct builder *b, const struct visit *v)
{
    return v->phase == MW_PHASE_FORWARD && b->carried_taken < b->carried_count;
}

void
mw_stage_receive(struct builder *b, uint32_t visit)
{
    const struct visit *v = &b->visits[visit];
    uint32_t waiting = b->slots[MW_BUFFER_BOUNDARIES].first + v->micro_batch;

    b->stage_input = b->stage_output = MW_NONE;
    if (v->enters && comes_from_here(b, v)) {
        b->stage_input = waiting;
    } else if (v->enters && is_carried(b, v)) {
        b->stage_input = b->carried + b->carried_taken++;
    } else if (v->enters) {
        b->stage_input = mw_build_ring_next(&b->slots[way_of(v)->input]);
        hop(b, v, false, b->stage_input);
        if (mw_sizing_scatters_stages(b->sizing))
            gather(b, v, b->stage_input);
    }
    if (v->leaves)
        b->stage_output =
            stays_here(b, v) ? waiting : mw_build_ring_next(&b->slots[way_of(v)->output]);
}

void
mw_stage_carry(struct builder *b)
{
    for (uint32_t visit = 0, taken = 0; taken < b->carried_count; visit++)
        if (b->visits[visit].enters && b->visits[visit].phase == MW_PHASE_FORWARD)
            hop(b, &b->visits[visit], false, b->carried + taken++);
}

void
mw_stage_use(struct builder *b, bool first, bool last)
{
    if (first && b->stage_input != MW_NONE)
        mw_build_use(b, b->stage_input, MW_USE_READ, MW_ROLE_RECEIVED);
    if (last && b->stage_output != MW_NONE)
        mw_build_use(b, b->stage_output, MW_USE_DEFINE, MW_ROLE_SENT);
}

void
mw_stage_send(struct builder *b, uint32_t visit)
{
    if (b->stage_output != MW_NONE && !stays_here(b, &b->visits[visit]))
        hop(b, &b->visits[visit], true, b->stage_output);
}
