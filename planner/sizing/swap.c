/* Sub-groups of whole parameters, as DeepSpeed divides those that a rank updates, and the buffers
 * through which it moves them to and from the drives. */
#include <glib.h>
#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/thread_memory.h"
#include "planner/sizing/internal.h"

#define ADAM_STATES 4 /* parameter, gradient, momentum, variance */

double
mw_sizing_rounded_up_by(double bytes)
{
    int power;

    return bytes >= 1 && frexp(bytes, &power) > 0.5 ? ldexp(1, power) - bytes : 0;
}

/* Elements of a rank's part of a parameter, how many are alike, and their type. */
struct alike {
    int64_t elements, count, dtype; /* enum mw_dtype, as wide: keys are compared as bytes */
};
#define ALIKE_MAX (MW_LAYER_OPERATORS_MAX * (MW_OPERATOR_MATRICES_MAX + 1))

/* Each matrix of an operator is a parameter, and all else of it one more. */
static int
add_operator(const struct mw_operator_info *info, enum mw_dtype dtype, int64_t ranks,
             struct alike *parts, int count)
{
    int64_t rest = info->params;

    for (int m = 0; m < info->matrix_count; m++) {
        const struct mw_matrix *matrix = &info->matrices[m];
        int64_t elements = matrix->rows * matrix->columns;
        rest -= elements * matrix->count;
        parts[count++] = (struct alike){mw_divide_up(elements, ranks), matrix->count, dtype};
    }
    if (rest > 0)
        parts[count++] = (struct alike){mw_divide_up(rest, ranks), 1, dtype};
    return count;
}

/* The trained or frozen parameters of a block, in walk order; returns how many are set. */
static int
parts_of_block(const struct mw_class_info *class, bool trained, int64_t ranks,
               struct alike parts[ALIKE_MAX])
{
    int count = 0;

    for (int t = 0; t < class->tensor_count; t++) {
        const struct mw_unit_tensor *tensor = &class->tensors[t];
        int end = tensor->trained == trained ? tensor->first + tensor->count : 0;
        for (int o = tensor->first; o < end; o++)
            count = add_operator(&class->operators[o], tensor->dtype, ranks, parts, count);
    }
    return count;
}

/* The groups so far, and the elements of the one that is still open. */
struct filling {
    struct mw_sub_groups groups;
    int64_t open, enough;
    double bytes_each;
};

static void
close_groups(struct filling *filling, int64_t elements, int64_t count)
{
    struct mw_sub_groups *groups = &filling->groups;

    if (count <= 0 || elements <= 0)
        return;
    groups->largest = MAX(groups->largest, elements);
    groups->rounded_up_by +=
        (double)count * mw_sizing_rounded_up_by((double)elements * filling->bytes_each);
}

static void
add_alike(struct filling *filling, struct alike part)
{
    int64_t wanted = mw_divide_up(filling->enough - filling->open, part.elements);

    if (part.count < wanted) {
        filling->open += part.count * part.elements;
        return;
    }
    close_groups(filling, filling->open + wanted * part.elements, 1);
    int64_t left = part.count - wanted, whole = mw_divide_up(filling->enough, part.elements);
    close_groups(filling, whole * part.elements, left / whole);
    filling->open = left % whole * part.elements;
}

/* All that sub-groups depend on; parts behind the last are not set. */
struct sub_group_key {
    int64_t enough;
    double bytes_each;
    int64_t blocks[MW_CLASS_COUNT], counts[MW_CLASS_COUNT], count;
    struct alike parts[MW_CLASS_COUNT * ALIKE_MAX]; /* [count], class by class */
};

static struct mw_sub_groups
fill_groups(const struct sub_group_key *key)
{
    struct filling filling = {{.largest = 1}, 0, key->enough, key->bytes_each};
    const struct alike *parts = key->parts;

    for (int c = 0; c < MW_CLASS_COUNT; parts += key->counts[c++])
        for (int64_t block = 0; key->counts[c] && block < key->blocks[c]; block++)
            for (int64_t p = 0; p < key->counts[c]; p++)
                add_alike(&filling, parts[p]);
    close_groups(&filling, filling.open, 1);
    return filling.groups;
}

/* A search sizes one cut with many batches. */
static struct mw_thread_memory groups_known =
    MW_THREAD_MEMORY(struct sub_group_key, struct mw_sub_groups, 1, 4, NULL);

static void
set_key(const struct mw_sizing *sizing, int64_t enough, int64_t ranks, double bytes_each,
        struct sub_group_key *key)
{
    key->enough = enough;
    key->bytes_each = bytes_each;
    key->count = 0;
    for (int c = 0; c < MW_CLASS_COUNT; c++) {
        key->blocks[c] = sizing->classes[c].blocks;
        key->counts[c] = parts_of_block(&sizing->classes[c], true, ranks, key->parts + key->count);
        key->count += key->counts[c];
    }
}

struct mw_sub_groups
mw_sizing_sub_groups(const struct mw_sizing *sizing, int64_t enough, int64_t ranks,
                     double bytes_each)
{
    struct sub_group_key key;

    set_key(sizing, enough, ranks, bytes_each, &key);
    size_t bytes = offsetof(struct sub_group_key, parts) + (size_t)key.count * sizeof *key.parts;
    const struct mw_sub_groups *known = mw_thread_memory_find(&groups_known, &key, bytes);
    if (known)
        return *known;
    struct mw_sub_groups groups = fill_groups(&key);
    *(struct mw_sub_groups *)mw_thread_memory_keep(&groups_known, &key, bytes) = groups;
    return groups;
}

int64_t
mw_sizing_largest_of_class(const struct mw_sizing *sizing, enum mw_class class, int64_t ranks)
{
    const struct mw_class_info *info = &sizing->classes[class];
    struct alike parts[ALIKE_MAX];
    int count = info->blocks ? parts_of_block(info, true, ranks, parts) : 0;
    int64_t largest = 0;

    for (int p = 0; p < count; p++)
        largest = MAX(largest, parts[p].elements);
    return largest;
}

int64_t
mw_sizing_largest_trained(const struct mw_sizing *sizing, int64_t ranks)
{
    int64_t largest = 0;

    for (int c = 0; c < MW_CLASS_COUNT; c++)
        largest = MAX(largest, mw_sizing_largest_of_class(sizing, c, ranks));
    return largest;
}

double
mw_sizing_frozen_rounding(const struct mw_sizing *sizing, int64_t ranks)
{
    struct alike parts[ALIKE_MAX];
    double own = 0, more = 0;

    for (int c = 0; c < MW_CLASS_COUNT; c++) {
        const struct mw_class_info *class = &sizing->classes[c];
        int count = class->blocks ? parts_of_block(class, false, ranks, parts) : 0;
        for (int p = 0; p < count; p++) {
            double times = (double)(class->blocks * parts[p].count);
            double bytes =
                (double)parts[p].elements * mw_dtype_bits((enum mw_dtype)parts[p].dtype) / 8;
            own += times * bytes;
            more += times * mw_sizing_rounded_up_by(bytes);
        }
    }
    return own > 0 ? more / own : 0;
}

/* An operator counts as one parameter, even if it has three tensors: some models join them, and no
 * buffer may be too small. */
static int64_t
largest_partition(const struct mw_sizing *sizing)
{
    int64_t largest = 1;

    for (int c = 0; c < MW_CLASS_COUNT; c++)
        for (int o = 0; sizing->classes[c].blocks && o < sizing->classes[c].operator_count; o++)
            largest = MAX(largest, sizing->classes[c].operators[o].params);
    return mw_divide_up(largest, sizing->shards);
}

struct mw_swap_buffers
mw_sizing_swap_buffers(const struct mw_sizing *sizing, int64_t sets)
{
    const struct mw_buffer *params = &sizing->buffers[MW_BUFFER_PARAMETERS_PINNED];
    const struct mw_buffer *state = &sizing->buffers[MW_BUFFER_STATE_PINNED];
    struct mw_swap_buffers swap = {.plan_bytes = MW_SUM(MW_PRODUCT(params->count, params->bytes),
                                                        MW_PRODUCT(state->count, state->bytes))};
    bool has_params = sizing->ledger[MW_TIER_NVME][MW_PURPOSE_PARAMETERS] > 0;
    bool has_state = sizing->ledger[MW_TIER_NVME][MW_PURPOSE_OPTIMIZER_STATE] > 0;

    if (!has_params && !has_state)
        return swap;
    int64_t group =
        mw_sizing_sub_groups(sizing, sizing->settings.optimizer_chunk, sizing->shards, 0).largest;
    if (has_params) {
        swap.param_count = MAX(1, params->count);
        swap.param_elements = largest_partition(sizing);
        swap.write_elements = MW_PRODUCT(group, sizing->shards);
    }
    if (has_state) {
        swap.state_sets = MAX(1, sets);
        swap.state_count = ADAM_STATES * swap.state_sets;
        swap.state_elements = group;
    }
    int64_t each = sizing->element_bytes;
    int64_t params_bytes = MW_PRODUCT(each, swap.param_count, swap.param_elements);
    int64_t state_bytes = MW_PRODUCT((int64_t)sizeof(float), swap.state_elements);
    int64_t write_bytes = MW_PRODUCT(each, swap.write_elements);
    swap.all_bytes = MW_SUM(params_bytes, write_bytes, MW_PRODUCT(swap.state_count, state_bytes));
    swap.rounded_up_by = mw_sizing_rounded_up_by((double)params_bytes) +
                         mw_sizing_rounded_up_by((double)write_bytes) +
                         (double)swap.state_count * mw_sizing_rounded_up_by((double)state_bytes);
    return swap;
}
