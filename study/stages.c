/* The stages of a pipeline: what each program of a plan has, and how busy it is. */
#include <glib.h>

#include "study/stages.h"

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

void
mw_result_set_stages(const struct mw_plan *plan, struct mw_result *result)
{
    if (plan->program_count < 2)
        return;
    g_free(result->stages);
    result->stages = g_new0(struct mw_result_stage, plan->program_count);
    result->stage_count = plan->program_count;
    for (uint32_t p = 0; p < plan->program_count; p++) {
        const struct mw_program *program = &plan->programs[p];
        struct mw_result_stage *stage = &result->stages[p];
        stage->gpus = mw_members_count(&program->ranks);
        stage->micro_batches = program->in_flight;
        for (int tier = 0; tier < MW_TIER_COUNT; tier++)
            stage->bytes[tier] =
                program->peak_bytes[tier] - (tier == MW_TIER_GPU ? program->apart_bytes : 0);
    }
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        add_tensor(&result->stages[plan->tensors[t].program], &plan->tensors[t]);
}

void
mw_result_set_stage_times(const struct mw_plan *plan, const struct mw_timeline *timeline,
                          struct mw_result *result)
{
    for (size_t s = 0; s < result->stage_count; s++)
        result->stages[s].compute_s = 0;
    for (size_t i = 0; i < timeline->row_count && result->stage_count; i++) {
        const struct mw_timeline_row *row = &timeline->rows[i];
        const struct mw_lane *lane = &plan->lanes[plan->ops[row->op].lane];
        if (lane->kind == MW_LANE_COMPUTE)
            result->stages[lane->program].compute_s += (double)(row->end_ns - row->start_ns) * 1e-9;
    }
}
