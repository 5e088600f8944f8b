/* Layers of a program that follow each other. */
#include <stdlib.h>

#include "plan/internal.h"
#include "plan/plan.h"

bool
mw_plan_all_have_layers(const struct mw_plan *plan)
{
    uint8_t *has = mw_plan_allocate(plan->program_count, sizeof *has);
    uint32_t count = 0;

    for (uint32_t t = 0; t < plan->tensor_count; t++)
        if (plan->tensors[t].layer >= 0 && !has[plan->tensors[t].program]) {
            has[plan->tensors[t].program] = 1;
            count++;
        }
    free(has);
    return count == plan->program_count;
}

int64_t
mw_plan_find_stretches(const struct mw_plan *plan, uint32_t program, int64_t layers,
                       int64_t *first_of, int64_t *behind)
{
    int64_t stretches = 0;

    for (int64_t layer = 0; layer < layers; layer++)
        behind[layer] = 0;
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        if (plan->tensors[t].program == program && plan->tensors[t].layer >= 0 &&
            plan->tensors[t].layer < layers)
            behind[plan->tensors[t].layer] = 1;
    for (int64_t layer = 0, first = 0; layer < layers; layer++) {
        bool begins = behind[layer] && (layer == 0 || !behind[layer - 1]);
        first = begins ? layer : first;
        first_of[layer] = first;
        stretches += begins;
    }
    for (int64_t layer = layers - 1; layer >= 0; layer--)
        if (behind[layer])
            behind[layer] = layer + 1 < layers && behind[layer + 1] ? behind[layer + 1] : layer + 1;
    return stretches;
}
