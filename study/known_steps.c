#include "study/known_steps.h"

#include "base/error.h"
#include "base/progress.h"
#include "sim/cost.h"

#include <math.h>

#define NO_LIMIT 1e30
/* In a plan that stands for one with more micro-batches: so many for each stage, which fills the
 * pipeline and turns it over once and a half, and so many beside them. */
#define FEW_PER_STAGE 2.5
#define FEW_MICRO_BATCHES 8
/* Of stages with several stretches, rounds of as many micro-batches as there are stages. */
#define FEW_ROUNDS 6

static void
costs_of(const struct mw_plan *plan, const struct mw_hardware *hardware, bool uncontended,
         struct mw_costs *costs)
{
    mw_costs_init(costs, plan, hardware);
    for (uint32_t c = 0; uncontended && c < plan->channel_count; c++)
        costs->capacity[c] = NO_LIMIT;
}

bool
mw_evaluate_plan(const struct mw_plan *plan, const struct mw_hardware *hardware, bool keep_timeline,
                 struct mw_engine_result *result, GError **error)
{
    return mw_known_evaluate(NULL, plan, hardware, keep_timeline, result, error);
}

/* --- steps by fewer micro-batches ------------------------------------------------------------- */

/* Enough that all stages take turns at once, and have done so before. */
static int64_t
fewer_micro_batches(const struct mw_sizing *sizing)
{
    int64_t all = sizing->settings.grad_accum;
    int64_t rounds = MAX(FEW_ROUNDS, (int64_t)sizing->stretches + 2);

    return sizing->stretches > 1
               ? MIN(all, rounds * sizing->pp)
               : (int64_t)(FEW_PER_STAGE * (double)sizing->pp) + FEW_MICRO_BATCHES;
}

/* Every stage begins and ends a step with micro-batches of its own, and between them does the same
 * for each.  Once a state has recurred, a step with more micro-batches is longer by the time
 * between. */
double
mw_step_by_few_s(const struct mw_sizing *sizing)
{
    int64_t fewer = fewer_micro_batches(sizing), missing = sizing->settings.grad_accum - fewer;
    struct mw_sizing *few = missing >= fewer / 3 ? mw_sizing_fewer(sizing, fewer) : NULL;
    struct mw_plan *plan = few ? mw_build_small_plan(few) : NULL;
    struct mw_engine_result engine = {0};
    double step_s = 0;

    if (plan && mw_cost_lateness(plan, sizing->hardware) == 1 &&
        mw_evaluate_plan(plan, sizing->hardware, false, &engine, NULL) &&
        engine.period_micro_batches && missing % engine.period_micro_batches == 0)
        step_s =
            (double)(engine.step_ns + missing / engine.period_micro_batches * engine.period_ns) *
            1e-9;
    mw_engine_result_clear(&engine);
    mw_plan_free(plan);
    mw_sizing_free_fewer(few);
    return step_s;
}

/* --- steps that are known --------------------------------------------------------------------- */

struct known_step {
    const struct mw_plan *plan;
    struct mw_costs costs;
    double step_s;
};

struct mw_known_steps {
    GArray *steps;      /* struct known_step */
    GPtrArray *graphs;  /* of plans that were run, */
    GPtrArray *planned; /* and the plans */
};

static void
clear_step(void *data)
{
    struct known_step *step = data;

    mw_costs_clear(&step->costs);
}

struct mw_known_steps *
mw_known_steps_new(void)
{
    struct mw_known_steps *known = g_new(struct mw_known_steps, 1);

    known->steps = g_array_new(FALSE, FALSE, sizeof(struct known_step));
    g_array_set_clear_func(known->steps, clear_step);
    known->graphs = g_ptr_array_new_with_free_func((GDestroyNotify)mw_engine_graph_free);
    known->planned = g_ptr_array_new();
    return known;
}

void
mw_known_steps_free(struct mw_known_steps *known)
{
    if (!known)
        return;
    g_array_unref(known->steps);
    g_ptr_array_unref(known->graphs);
    g_ptr_array_unref(known->planned);
    g_free(known);
}

static const struct known_step *
find_step(const struct mw_known_steps *known, const struct mw_plan *plan,
          const struct mw_costs *costs)
{
    for (guint i = 0; known && i < known->steps->len; i++) {
        const struct known_step *step = &g_array_index(known->steps, struct known_step, i);
        if (step->plan == plan && mw_costs_are_equal(plan, &step->costs, costs))
            return step;
    }
    return NULL;
}

/* Takes the costs. */
static void
keep_step(struct mw_known_steps *known, const struct mw_plan *plan, struct mw_costs *costs,
          double step_s)
{
    struct known_step step = {plan, *costs, step_s};

    if (known)
        g_array_append_val(known->steps, step);
    else
        mw_costs_clear(costs);
}

/* False with *error if the engine refuses the plan. */
static bool
run(struct mw_known_steps *known, const struct mw_plan *plan, const struct mw_costs *costs,
    bool keep_timeline, struct mw_engine_result *result, GError **error)
{
    struct mw_engine_options options = {.keep_timeline = keep_timeline};
    const struct mw_engine_graph *graph = NULL;
    char why[256];
    guint at;

    mw_progress_simulates();
    if (known && !g_ptr_array_find(known->planned, plan, &at)) {
        at = known->graphs->len;
        g_ptr_array_add(known->graphs, mw_engine_graph_new(plan, why, sizeof why));
        g_ptr_array_add(known->planned, (gpointer)plan);
    }
    if (known)
        graph = known->graphs->pdata[at];
    if (graph ? mw_engine_run_graph(graph, costs, options, result, why, sizeof why)
              : mw_engine_run(plan, costs, options, result, why, sizeof why))
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "this plan on this machine: %s", why);
    return false;
}

bool
mw_known_evaluate(struct mw_known_steps *known, const struct mw_plan *plan,
                  const struct mw_hardware *hardware, bool keep_timeline,
                  struct mw_engine_result *result, GError **error)
{
    struct mw_costs costs;

    costs_of(plan, hardware, false, &costs);
    bool done = run(known, plan, &costs, keep_timeline, result, error);
    keep_step(known, plan, &costs, done ? (double)result->step_ns * 1e-9 : INFINITY);
    return done;
}

double
mw_known_step_s(struct mw_known_steps *known, const struct mw_plan *plan,
                const struct mw_hardware *hardware, bool uncontended)
{
    struct mw_engine_result result;
    struct mw_costs costs;

    costs_of(plan, hardware, uncontended, &costs);
    const struct known_step *step = find_step(known, plan, &costs);
    if (step) {
        mw_costs_clear(&costs);
        return step->step_s;
    }
    double step_s =
        run(known, plan, &costs, false, &result, NULL) ? (double)result.step_ns * 1e-9 : INFINITY;
    mw_engine_result_clear(&result);
    keep_step(known, plan, &costs, step_s);
    return step_s;
}

double
mw_step_s(const struct mw_plan *plan, const struct mw_hardware *hardware, bool uncontended)
{
    return mw_known_step_s(NULL, plan, hardware, uncontended);
}

double
mw_cycle_s(struct mw_known_steps *known, const struct mw_variants *variants,
           const struct mw_hardware *hardware, bool uncontended)
{
    g_autofree double *step_s = g_new0(double, variants->plan_count);
    uint32_t count;
    const uint32_t *cycle = mw_variants_last(variants, &count);
    double all_s = 0;

    for (uint32_t t = 0; t < count; t++) {
        if (step_s[cycle[t]] <= 0)
            step_s[cycle[t]] =
                mw_known_step_s(known, variants->plans[cycle[t]], hardware, uncontended);
        all_s += step_s[cycle[t]];
    }
    return all_s / count;
}
