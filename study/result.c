#include "study/result.h"

#include <glib.h>
#include <math.h>

static double
or_nothing(double usd)
{
    return isfinite(usd) ? usd : 0;
}

double
mw_result_owned_usd(const struct mw_result_owned *owned)
{
    if (owned->node_price_usd <= 0)
        return NAN;
    return owned->machine_usd + or_nothing(owned->energy_usd) + or_nothing(owned->drives_usd);
}

struct mw_result_owned
mw_result_owned_at(const struct mw_result_owned *owned, double times, double usd_per_kwh)
{
    struct mw_result_owned at = *owned;

    at.share *= times;
    at.machine_usd *= times;
    at.electricity.usd_per_kwh = usd_per_kwh;
    if (owned->electricity.usd_per_kwh > 0)
        at.energy_usd *= times * usd_per_kwh / owned->electricity.usd_per_kwh;
    at.drives_usd = owned->drives_price_usd * fmax(0, owned->drives_worn - at.share);
    at.pay_usd += or_nothing(at.energy_usd) - or_nothing(owned->energy_usd);
    return at;
}

struct mw_result_ends
mw_result_ends(const double of_outlook[3])
{
    return (struct mw_result_ends){fmin(of_outlook[1], fmin(of_outlook[0], of_outlook[2])),
                                   fmax(of_outlook[1], fmax(of_outlook[0], of_outlook[2]))};
}

struct mw_result *
mw_result_new(void)
{
    struct mw_result *r = g_new0(struct mw_result, 1);
    double *const of_outlook[] = {r->step_time_s, r->tflops_per_gpu, r->efficiency,
                                  r->paper_efficiency};
    double *const numbers[] = {
        &r->micro_batch,
        &r->global_batch,
        &r->tokens_per_step,
        &r->mfu,
        &r->mfu_published,
        &r->engine_step_time_s,
        &r->first_step_time_s,
        &r->undelayed_step_time_s,
        &r->ideal_step_time_s,
        &r->tokens_per_s,
        &r->bottleneck_share,
        &r->collective_latency_s,
        &r->critical_path_s,
        &r->smaller_batch,
        &r->closed_form_paper_s,
        &r->closed_form_plan_s,
        &r->drive_life_steps,
        &r->drive_sets,
        &r->default_step_tokens,
        &r->smaller_batch_tokens_per_s,
        &r->tokens,
        &r->days,
        &r->energy_kwh,
        &r->cost_usd,
        &r->owned.machine_usd,
        &r->owned.energy_usd,
        &r->owned.drives_worn,
        &r->owned.drives_price_usd,
        &r->owned.drives_usd,
        &r->owned.replaced_usd,
        &r->owned.pay_usd,
    };

    for (size_t i = 0; i < G_N_ELEMENTS(of_outlook); i++)
        for (int k = 0; k < 3; k++)
            of_outlook[i][k] = NAN;
    for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++)
        *numbers[i] = NAN;
    return r;
}

static void
free_texts(struct mw_result *result)
{
    g_free(result->model);
    g_free(result->hardware);
    g_free(result->hardware_description);
    g_free(result->hardware_set);
    g_strfreev(result->asked);
    g_free(result->software);
    g_free(result->gains);
    g_free(result->beside);
    g_free(result->software_set);
    g_free(result->hardware_date);
    g_free(result->software_date);
    g_free(result->strategy);
    g_free(result->param_device);
    g_free(result->optimizer_device);
    g_free(result->gradient_device);
    g_free(result->activation_device);
    g_free(result->partition);
    g_free(result->commit);
    g_free(result->prefetch_stages);
    g_free(result->stage_replicas);
    g_free(result->stage_split);
    g_free(result->trained);
    g_free(result->optimizer);
    g_free(result->matmul_dtype);
    g_free(result->frozen_dtype);
    g_free(result->state_layout);
    g_free(result->dtype);
    g_free(result->limiting_tier);
    g_free(result->remedy);
    g_free(result->bottleneck);
    g_free(result->change.what);
    g_free(result->change.flags);
    g_free(result->paid_change.what);
    g_free(result->paid_change.flags);
    g_free(result->provenance);
    g_strfreev(result->notes);
}

/* Frees an array of structs, each with one owned string `text`. */
#define FREE_ARRAY(array, count, text)                                                             \
    do {                                                                                           \
        for (size_t i = 0; i < (count); i++)                                                       \
            g_free((array)[i].text);                                                               \
        g_free(array);                                                                             \
    } while (0)

void
mw_result_free(struct mw_result *result)
{
    if (!result)
        return;
    free_texts(result);
    g_free(result->ledger);
    g_free(result->stages);
    g_free(result->variant_step_time_s);
    FREE_ARRAY(result->lanes, result->lane_count, name);
    FREE_ARRAY(result->channels, result->channel_count, name);
    FREE_ARRAY(result->phases, result->phase_count, name);
    FREE_ARRAY(result->terms, result->term_count, what);
    FREE_ARRAY(result->what_ifs, result->what_if_count, what);
    FREE_ARRAY(result->needs, result->need_count, what);
    g_free(result);
}

double
mw_result_shown_step_s(const struct mw_result *result)
{
    return result->variant_count ? result->variant_step_time_s[0] : result->step_time_s[1];
}
