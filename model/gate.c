/* What a gate makes of a mixture's experts and of the tokens that visit them (docs/MODEL.md
 * 2.17). */
#include <math.h>

#include "base/arithmetic.h"
#include "model/model.h"

int64_t
mw_model_visits(const struct mw_model *model, enum mw_gating gate)
{
    int64_t visits = mw_gate_row((int)gate)->visits;

    return visits && model->experts ? visits : model->experts_per_token;
}

/* Shazeer et al., arXiv 1701.06538, Appendix C.1: 16 groups of 256 experts. */
int64_t
mw_model_gate_groups(const struct mw_model *model, enum mw_gating gate)
{
    int64_t groups = 1;

    if (!mw_gate_row((int)gate)->group_visits || !model->experts)
        return 0;
    while (groups < model->experts / groups + (model->experts % groups > 0) ||
           model->experts % groups)
        groups++;
    return groups;
}

int64_t
mw_model_gate_scores(const struct mw_model *model, enum mw_gating gate)
{
    int64_t groups = mw_model_gate_groups(model, gate);

    if (!groups)
        return model->experts;
    return MW_SUM(groups,
                  MW_PRODUCT(mw_gate_row((int)gate)->group_visits, model->experts / groups));
}

int64_t
mw_model_sent_rows(const struct mw_shape *shape, int64_t rows)
{
    return rows / mw_gate_copies((int)shape->gate);
}

int64_t
mw_shape_tokens(const struct mw_shape *shape)
{
    return mw_divide_up(MW_PRODUCT(shape->sequences, shape->seq), MAX(1, shape->cp));
}

int64_t
mw_shape_expert_tokens(const struct mw_shape *shape)
{
    return mw_divide_up(mw_shape_tokens(shape), shape->whole_experts ? shape->tp : 1);
}

int64_t
mw_shape_expert_groups(const struct mw_shape *shape)
{
    return shape->ep > 1 && shape->sequence_parallel && !shape->whole_experts ? shape->tp : 1;
}

/* --- what a capacity drops -------------------------------------------------------------------- */

/* Of n tokens that come with probability p each. */
static double
probability_of(double n, double p, double k)
{
    int sign;

    return exp(lgamma_r(n + 1, &sign) - lgamma_r(k + 1, &sign) - lgamma_r(n - k + 1, &sign) +
               k * log(p) + (n - k) * log1p(-p));
}

/* The mean of what of a binomial number is above `most`; summed up on the side of `most` away from
 * the mean, where terms fall fast. */
static double
mean_above(double n, double p, double most)
{
    bool up = most >= n * p;
    double k = up ? most + 1 : most - 1, sum = 0;
    double term = k >= 0 && k <= n ? probability_of(n, p, k) : 0;

    for (; k >= 0 && k <= n && term > 1e-18 * (1e-18 + sum); k += up ? 1 : -1) {
        sum += fabs(k - most) * term;
        term *= up ? (n - k) / (k + 1) * p / (1 - p) : k / (n - k + 1) * (1 - p) / p;
    }
    return up ? sum : n * p - most + sum;
}

double
mw_model_dropped_share(const struct mw_model *model, const struct mw_shape *shape)
{
    int64_t groups = mw_shape_expert_groups(shape);
    double tokens = (double)mw_shape_expert_tokens(shape) / (double)groups;
    double visits = (double)mw_model_visits(model, shape->gate), experts = (double)model->experts;
    double most = (double)(mw_model_expert_rows(model, shape) / model->experts / groups);

    if (!(shape->capacity_factor > 0) || mw_gate_row((int)shape->gate)->experts_choose ||
        most >= tokens)
        return 0;
    if (visits >= experts)
        return 1 - most / tokens;
    return experts * mean_above(floor(tokens), visits / experts, most) / (floor(tokens) * visits);
}

/* --- parameters ------------------------------------------------------------------------------ */

/* By the gate's own parameters more, and by the experts that a token visits. */
int64_t
mw_model_gate_active_params(const struct mw_model *model, enum mw_gating gate)
{
    int64_t of_gate = mw_model_gate_params(model, gate) - mw_model_params(model);
    int64_t visits = mw_model_visits(model, gate);
    g_autofree struct mw_model *visited = g_memdup2(model, sizeof *model);

    visited->experts_per_token = visits;
    for (int i = 0; i < visited->tensor_count; i++) {
        struct mw_model_tensor *tensor = &visited->tensors[i];
        if (tensor->met == model->experts_per_token && tensor->met < tensor->count)
            tensor->met = (int32_t)visits;
    }
    return MW_SUM(mw_model_active_params(visited), of_gate);
}
