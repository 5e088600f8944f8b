#include "cli/advice.h"

#include <math.h>

#include "cli/evaluate.h"

/* A change that gains less than this is not worth a line. */
#define WORTHWHILE 1.01
#define SEARCH_STEPS 14
#define LARGEST_FACTOR 1024.0

/* --- changes
 * --------------------------------------------------------------------------------------- */

/* Of the best change so far, in tokens a second. */
static double
gain_to_beat(const struct mw_result *result)
{
    return result->change.what ? result->change.tokens_per_s / result->tokens_per_s : WORTHWHILE;
}

static void
consider(struct mw_result *result, char *what, double step_s, double tokens)
{
    double rate = tokens / step_s;

    if (rate <= result->tokens_per_s * gain_to_beat(result)) {
        g_free(what);
        return;
    }
    g_free(result->change.what);
    result->change = (struct mw_result_change){what, step_s, rate};
}

static double
busy_s(const struct mw_result *result, const char *lane)
{
    double sum = 0;

    for (size_t l = 0; l < result->lane_count; l++)
        if (g_str_has_prefix(result->lanes[l].name, lane))
            sum += result->lanes[l].busy_s;
    return sum;
}

/* Then no schedule and no transfer that is hidden gains anything. */
static bool
always_computes(const struct mw_result *result)
{
    return busy_s(result, "compute") * WORTHWHILE > result->step_time_s[MW_OUTLOOK_TYPICAL];
}

/* Twice the rate saves at most half the time of the lanes that it serves; of hidden collectives
 * only the multiprocessors that they take from compute. */
static bool
may_gain(const struct mw_result *result, const struct mw_hardware *hw, const struct cli_knob *knob)
{
    double busy = 0, step_s = result->step_time_s[MW_OUTLOOK_TYPICAL];

    for (size_t l = 0; l < G_N_ELEMENTS(knob->lanes) && knob->lanes[l]; l++)
        busy += busy_s(result, knob->lanes[l]);
    if (always_computes(result))
        busy *= g_strcmp0(knob->lanes[0], "collective") ? 0 : hw->gpu_collective_sm_share;
    return step_s / fmax(step_s - busy / 2, step_s * 1e-3) > gain_to_beat(result);
}

/* "2x NVMe bandwidth (a node): 16 drives for 8"; g_free it. */
static char *
doubled_name(const struct mw_hardware *hw, int knob)
{
    if (knob != CLI_KNOB_NVME || hw->nvme_drives <= 0)
        return g_strdup_printf("2x %s", cli_knobs[knob].name);
    return g_strdup_printf("2x %s: %" G_GINT64_FORMAT " drives for %" G_GINT64_FORMAT,
                           cli_knobs[knob].name, 2 * hw->nvme_drives, hw->nvme_drives);
}

static void
consider_knobs(const struct cli_request *request, const struct cli_answer *answer)
{
    const struct mw_hardware *hw = &request->hardware[MW_OUTLOOK_TYPICAL];

    for (int k = 0; k < cli_knob_count; k++) {
        struct mw_hardware faster = *hw;
        if (!cli_knobs[k].value || cli_knobs[k].value(hw) <= 0 ||
            !may_gain(answer->result, hw, &cli_knobs[k]))
            continue;
        cli_knobs[k].scale(&faster, 2);
        consider(answer->result, doubled_name(hw, k),
                 cli_step_s(answer->plan, &faster, false), cli_tokens_per_step(answer->sizing));
    }
}

static void
consider_settings(const struct cli_request *request, const struct cli_answer *answer,
                  const struct mw_settings *settings, const struct mw_hardware *hw, char *what)
{
    struct mw_request planned = {&request->model, hw};
    struct mw_sizing *sizing = mw_planner_size(&planned, settings, NULL);

    if (sizing && sizing->fits) {
        struct mw_plan *plan = mw_build_plan(sizing);
        consider(answer->result, g_strdup(what), cli_step_s(plan, hw, false),
                 cli_tokens_per_step(sizing));
        mw_plan_free(plan);
    }
    mw_sizing_free(sizing);
    g_free(what);
}

/* Tokens a second by the closed form, to screen changes that amount to another batch. */
static double
estimated_rate(const struct mw_sizing *sizing, const struct mw_hardware *hw)
{
    struct mw_closed_form form;

    cli_closed_form(sizing, hw, &form);
    return cli_tokens_per_step(sizing) / form.plan_total_s;
}

static void
consider_batch(const struct cli_request *request, const struct cli_answer *answer,
               const struct mw_settings *settings, const struct mw_hardware *hw, char *what)
{
    struct mw_request planned = {&request->model, hw};
    struct mw_sizing *sizing = mw_planner_size(&planned, settings, NULL);
    bool promising = sizing && sizing->fits &&
                     estimated_rate(sizing, hw) >
                         gain_to_beat(answer->result) * estimated_rate(answer->sizing, hw);

    mw_sizing_free(sizing);
    if (promising)
        consider_settings(request, answer, settings, hw, what);
    else
        g_free(what);
}

/* The largest batch may have cost many tiles: the largest with the fewest may be faster. */
static void
consider_fewer_tiles(const struct cli_request *request, const struct cli_answer *answer)
{
    const struct mw_hardware *hw = &request->hardware[MW_OUTLOOK_TYPICAL];
    struct mw_request planned = {&request->model, hw};
    struct mw_settings s = answer->sizing->settings;
    int64_t tiles = s.tiles;
    double batch = 0;

    s.logits_chunks = request->settings.logits_chunks; /* as many as the batch then takes */
    if (request->settings.tiles != MW_AUTO || request->settings.micro_batch != MW_AUTO)
        return;
    for (s.tiles = 1; s.tiles < tiles; s.tiles *= 2)
        if ((batch = mw_planner_largest_batch(&planned, &s)) > 0)
            break;
    s.micro_batch = batch;
    if (batch > 0)
        consider_settings(request, answer, &s, hw,
                          g_strdup_printf("--batch %g --tiles %" G_GINT64_FORMAT, batch, s.tiles));
}

static void
consider_batches(const struct cli_request *request, const struct cli_answer *answer)
{
    const struct mw_hardware *hw = &request->hardware[MW_OUTLOOK_TYPICAL];
    struct mw_request planned = {&request->model, hw};
    struct mw_settings s = answer->sizing->settings;
    s.logits_chunks = request->settings.logits_chunks; /* as many as the batch then takes */
    double largest = mw_planner_largest_batch(&planned, &s);

    double other = largest > s.micro_batch ? largest : floor(s.micro_batch * s.tp / 2) / s.tp;
    if (other > 0) { /* a smaller one is faster where it needs no offload or fewer tiles */
        double planned_batch = s.micro_batch;
        s.micro_batch = other;
        consider_batch(request, answer, &s, hw, g_strdup_printf("--batch %g", other));
        s.micro_batch = fmax(other, planned_batch);
    }
    struct mw_hardware larger = *hw;
    larger.gpu_memory_bytes *= 2;
    larger.gpu_largest_request_bytes = 0;
    larger.host_memory_bytes *= 2;
    larger.host_largest_request_bytes = 0;
    planned.hardware = &larger;
    double doubled = mw_planner_largest_batch(&planned, &s);
    if (doubled > s.micro_batch) {
        s.micro_batch = doubled;
        consider_batch(request, answer, &s, &larger,
                       g_strdup_printf("2x GPU and host memory, --batch %g", doubled));
    }
}

/* More micro-batches share one optimizer step; the global batch grows with them. */
static void
consider_accumulation(const struct cli_request *request, const struct cli_answer *answer)
{
    struct mw_settings s = answer->sizing->settings;

    if (always_computes(answer->result))
        return; /* nothing that the micro-batches could share */
    s.grad_accum *= 2;
    consider_settings(request, answer, &s, &request->hardware[MW_OUTLOOK_TYPICAL],
                      g_strdup_printf("--grad-accum %" G_GINT64_FORMAT
                                      " (twice the sequences a step)",
                                      s.grad_accum));
}

static void
consider_schedule(const struct cli_request *request, const struct cli_answer *answer)
{
    const struct mw_hardware *hw = &request->hardware[MW_OUTLOOK_TYPICAL];
    struct mw_settings s = answer->sizing->settings;

    if (!answer->sizing->params_partitioned || always_computes(answer->result))
        return;
    s.prefetch++;
    consider_settings(request, answer, &s, hw,
                      g_strdup_printf("--prefetch %" G_GINT64_FORMAT, s.prefetch));
    s = answer->sizing->settings;
    if (s.param_loads == 3 && s.checkpoint_interval) {
        s.param_loads = 2;
        consider_settings(request, answer, &s, hw, g_strdup("--param-loads 2"));
    }
}

void
cli_advise(const struct cli_request *request, const struct cli_answer *answer)
{
    if (!answer->plan)
        return;
    consider_knobs(request, answer);
    consider_fewer_tiles(request, answer);
    consider_batches(request, answer);
    consider_accumulation(request, answer);
    consider_schedule(request, answer);
}

/* --- what if
 * ------------------------------------------------------------------------------------------ */

static double
scaled_step_s(const struct cli_request *request, const struct cli_answer *answer, int knob,
              double factor)
{
    struct mw_hardware hw = request->hardware[MW_OUTLOOK_TYPICAL];

    cli_knobs[knob].scale(&hw, factor);
    return cli_step_s(answer->plan, &hw, false);
}

/* The smallest factor that brings the step to `target_s`: NAN if this knob alone cannot, 0 if next
 * to nothing will do (a network that one node does not use). */
static double
needed_factor(const struct cli_request *request, const struct cli_answer *answer, int knob,
              double target_s)
{
    double low = log(1 / LARGEST_FACTOR), high = log(LARGEST_FACTOR);

    if (scaled_step_s(request, answer, knob, 1 / LARGEST_FACTOR) <= target_s)
        return 0;
    if (scaled_step_s(request, answer, knob, LARGEST_FACTOR) > target_s)
        return NAN;
    for (int i = 0; i < SEARCH_STEPS; i++) {
        double middle = (low + high) / 2;
        if (scaled_step_s(request, answer, knob, exp(middle)) > target_s)
            low = middle;
        else
            high = middle;
    }
    return exp(high);
}

static void
add_needs(const struct cli_request *request, const struct cli_answer *answer, GArray *needs)
{
    static const double efficiencies[] = {0.5, 0.7, 0.9};
    const struct mw_hardware *hw = &request->hardware[MW_OUTLOOK_TYPICAL];
    double ideal_s = cli_flops(answer->sizing, true) / hw->gpu_achievable_flops;

    for (int k = 0; k < cli_knob_count; k++) {
        double present = cli_knobs[k].value ? cli_knobs[k].value(hw) : 0;
        if (present <= 0)
            continue;
        for (size_t e = 0; e < G_N_ELEMENTS(efficiencies); e++) {
            double factor = needed_factor(request, answer, k, ideal_s / efficiencies[e]);
            if (factor == 0)
                continue;
            struct mw_result_need need = {g_strdup(cli_knobs[k].name), efficiencies[e],
                                          factor * present, present};
            g_array_append_val(needs, need);
        }
    }
}

/* Drives are what can be bought: one more like those that are there. */
static void
add_drive_row(const struct cli_request *request, const struct cli_answer *answer, GArray *rows)
{
    int64_t drives = request->hardware[MW_OUTLOOK_TYPICAL].nvme_drives;
    struct mw_result_what_if row = {.factor = (double)(drives + 1) / drives};

    if (drives <= 0)
        return;
    row.what = g_strdup_printf("one more drive (%" G_GINT64_FORMAT " for %" G_GINT64_FORMAT ")",
                               drives + 1, drives);
    row.step_time_s = scaled_step_s(request, answer, CLI_KNOB_NVME, row.factor);
    g_array_append_val(rows, row);
}

void
cli_what_if(const struct cli_request *request, const struct cli_answer *answer)
{
    static const double factors[] = {0.5, 2, 4};
    struct mw_result *result = answer->result;
    GArray *rows = g_array_new(FALSE, FALSE, sizeof(struct mw_result_what_if));
    GArray *needs = g_array_new(FALSE, FALSE, sizeof(struct mw_result_need));

    for (int k = 0; k < cli_knob_count; k++) {
        const struct mw_hardware *hw = &request->hardware[MW_OUTLOOK_TYPICAL];
        if (cli_knobs[k].value && cli_knobs[k].value(hw) <= 0)
            continue;
        for (size_t f = 0; f < G_N_ELEMENTS(factors); f++) {
            struct mw_result_what_if row = {g_strdup(cli_knobs[k].name), factors[f],
                                            scaled_step_s(request, answer, k, factors[f])};
            g_array_append_val(rows, row);
        }
    }
    add_drive_row(request, answer, rows);
    add_needs(request, answer, needs);
    result->what_if_count = rows->len;
    result->what_ifs = (struct mw_result_what_if *)g_array_free(rows, FALSE);
    result->need_count = needs->len;
    result->needs = (struct mw_result_need *)g_array_free(needs, FALSE);
}
