/* The stages of a pipeline: what each program of a plan has, and how busy it is. */
#include <glib.h>

#include "study/stages.h"

/* Ranks that take turns have a program each. */
static uint32_t
stage_of(const struct mw_plan *plan, uint32_t program)
{
    const struct mw_stage_replicas *replicas = &plan->shape.replicas;

    return replicas->stages ? mw_stage_replica(replicas, plan->programs[program].ranks.base).stage
                            : program;
}

static void
add_tensor(struct mw_result_stage *stage, const struct mw_tensor *tensor)
{
    stage->params += tensor->elements;
    if (tensor->layer < 0)
        return;
    stage->first_layer = stage->layers ? MIN(stage->first_layer, tensor->layer) : tensor->layer;
    if (!stage->layers || tensor->layer > stage->last_layer) {
        stage->stretches += !stage->layers || tensor->layer > stage->last_layer + 1;
        stage->last_layer = tensor->layer;
        stage->layers++;
    }
}

/* Replicas are alike, but for what waits for the next step in some of them. */
static void
add_program(const struct mw_program *program, struct mw_result_stage *stage)
{
    stage->gpus += mw_members_count(&program->ranks);
    stage->micro_batches = program->in_flight;
    for (int tier = 0; tier < MW_TIER_COUNT; tier++)
        stage->bytes[tier] =
            MAX(stage->bytes[tier],
                program->peak_bytes[tier] - (tier == MW_TIER_GPU ? program->apart_bytes : 0));
}

void
mw_result_set_stages(const struct mw_plan *plan, struct mw_result *result)
{
    uint32_t last = MW_NONE;

    if (plan->program_count < 2)
        return;
    g_free(result->stages);
    result->stage_count = stage_of(plan, plan->program_count - 1) + 1;
    result->stages = g_new0(struct mw_result_stage, result->stage_count);
    g_autofree bool *first = g_new0(bool, plan->program_count); /* of its stage */
    for (uint32_t p = 0; p < plan->program_count; p++) {
        first[p] = stage_of(plan, p) != last;
        last = stage_of(plan, p);
        add_program(&plan->programs[p], &result->stages[last]);
    }
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        if (first[plan->tensors[t].program])
            add_tensor(&result->stages[stage_of(plan, plan->tensors[t].program)],
                       &plan->tensors[t]);
}

void
mw_result_set_stage_times(const struct mw_plan *plan, const struct mw_timeline *timeline,
                          struct mw_result *result)
{
    g_autofree double *compute_s = g_new0(double, plan->program_count);

    for (size_t s = 0; s < result->stage_count; s++)
        result->stages[s].compute_s = 0;
    for (size_t i = 0; i < timeline->row_count && result->stage_count; i++) {
        const struct mw_timeline_row *row = &timeline->rows[i];
        const struct mw_lane *lane = &plan->lanes[plan->ops[row->op].lane];
        if (lane->kind == MW_LANE_COMPUTE)
            compute_s[lane->program] += (double)(row->end_ns - row->start_ns) * 1e-9;
    }
    for (uint32_t p = 0; p < plan->program_count && result->stage_count; p++) {
        double *most_s = &result->stages[stage_of(plan, p)].compute_s;
        *most_s = MAX(*most_s, compute_s[p]);
    }
}
