#include <math.h>
#include <stdlib.h>

#include "base/format.h"
#include "base/spell.h"
#include "report/report.h"
#include "report/table.h"

/* " (41.0 s .. 55.3 s)" if the profile's ranges give one, faster end first; else "".  g_free it. */
static char *
range_text(const double values[3], const char *(*format)(double))
{
    struct mw_result_ends ends = mw_result_ends(values);

    if (!isfinite(values[0]) || !isfinite(values[2]) || ends.low == ends.high)
        return g_strdup("");
    return g_strdup_printf(" (%s .. %s)", format(ends.low), format(ends.high));
}

static void
print_rates(FILE *out, const struct mw_result *r, bool details)
{
    g_autofree char *tflops_range = range_text(r->tflops_per_gpu, mw_format_significant);
    g_autofree char *batch = mw_table_batch(r, r->micro_batch);
    g_autofree char *speed = details ? g_strdup("")
                                     : g_strdup_printf(" (%s TFLOP/s per GPU, MFU %s)",
                                                       mw_format_significant(r->tflops_per_gpu[1]),
                                                       mw_format_percent(r->mfu));

    if (details)
        mw_table_line(out, "speed", "%s%s TFLOP/s per GPU, %s of achievable, MFU %s",
                      mw_format_significant(r->tflops_per_gpu[1]), tflops_range,
                      mw_format_percent(r->efficiency[1]), mw_format_percent(r->mfu));
    mw_table_line(out, "throughput", "%s tokens/s%s, %s tokens per step (%s, %s in all)",
                  mw_format_count(r->tokens_per_s), speed, mw_format_count(r->tokens_per_step),
                  batch, mw_format_batch(r->global_batch));
}

/* ", 1.40 times faster; alone: fusion 1.20, attention 1.10", or less. */
static char *
possible_text(const struct mw_result *r)
{
    double factor = r->step_time_s[1] / r->ideal_step_time_s;
    GString *text = g_string_new("");

    if (factor > 1.005)
        g_string_append_printf(text, ", %s times faster", mw_format_significant(factor));
    for (size_t i = 0; i < r->gain_count && factor > 1.005; i++)
        g_string_append_printf(text, "%s %s %s", i ? "," : "; alone:", r->gains[i].part,
                               mw_format_significant(r->gains[i].factor));
    return g_string_free(text, FALSE);
}

static void
print_software(FILE *out, const struct mw_result *r)
{
    g_autofree char *possible = possible_text(r);

    mw_table_line(out, "software", "%s%s%s; ideal software takes %s for this plan%s", r->software,
                  r->software_set ? "; set: " : "", r->software_set ? r->software_set : "",
                  mw_format_seconds(r->ideal_step_time_s), possible);
}

static void
print_speed(FILE *out, const struct mw_result *r, bool details)
{
    g_autofree char *step_range = range_text(r->step_time_s, mw_format_seconds);

    mw_table_line(out, "step time", "%s%s, first step %s%s%s", mw_format_seconds(r->step_time_s[1]),
                  step_range, mw_format_seconds(r->first_step_time_s),
                  r->undelayed_step_time_s > 0 ? ", before the delay " : "",
                  r->undelayed_step_time_s > 0 ? mw_format_seconds(r->undelayed_step_time_s) : "");
    if (isfinite(r->ideal_step_time_s))
        print_software(out, r);
    if (isfinite(r->tokens_per_s))
        print_rates(out, r, details);
    mw_table_line(out, "bottleneck", "%s, %s%s of the step", mw_table_text(r->bottleneck),
                  r->bottleneck && g_str_has_suffix(r->bottleneck, " latency") ? "" : "busy ",
                  mw_format_percent(r->bottleneck_share));
}

static int
compare_exposed(const void *a, const void *b)
{
    const struct mw_result_lane *x = *(const struct mw_result_lane *const *)a;
    const struct mw_result_lane *y = *(const struct mw_result_lane *const *)b;

    if (x->exposed_s != y->exposed_s)
        return x->exposed_s < y->exposed_s ? 1 : -1;
    return x < y ? -1 : 1;
}

/* The lanes that make the compute lane wait for more than a thousandth of the step. */
static GPtrArray *
exposed_lanes(const struct mw_result *r)
{
    GPtrArray *lanes = g_ptr_array_new();

    for (size_t i = 0; i < r->lane_count; i++)
        if (r->lanes[i].exposed_s > 0.001 * r->step_time_s[1])
            g_ptr_array_add(lanes, &r->lanes[i]);
    if (lanes->len)
        qsort(lanes->pdata, lanes->len, sizeof *lanes->pdata, compare_exposed);
    return lanes;
}

/* Prints the worst few; the table of lanes has them all. */
static void
print_exposed(FILE *out, const struct mw_result *r)
{
    GString *text = g_string_new(NULL);
    GPtrArray *lanes = exposed_lanes(r);

    for (guint i = 0; i < MIN(lanes->len, 3); i++) {
        const struct mw_result_lane *lane = g_ptr_array_index(lanes, i);
        g_string_append_printf(text, "%s%s %s (%s)", i ? ", " : "", lane->name,
                               mw_format_seconds(lane->exposed_s),
                               mw_table_share(lane->exposed_s, r->step_time_s[1]));
    }
    if (lanes->len > 3)
        g_string_append_printf(text, " and %u more", lanes->len - 3);
    mw_table_line(out, "exposed", "%s", text->len ? text->str : "nothing: compute never waits");
    g_ptr_array_free(lanes, TRUE);
    g_string_free(text, TRUE);
}

static void
print_closed_form(FILE *out, const struct mw_result *r)
{
    if (!isfinite(r->closed_form_plan_s)) {
        mw_table_line(out, "critical path", "%s", mw_format_seconds(r->critical_path_s));
        return;
    }
    if (!isfinite(r->closed_form_paper_s)) {
        mw_table_line(out, "closed form", "plan %s; critical path %s",
                      mw_format_seconds(r->closed_form_plan_s),
                      mw_format_seconds(r->critical_path_s));
        return;
    }
    mw_table_line(out, "closed form", "paper %s, plan %s; critical path %s",
                  mw_format_seconds(r->closed_form_paper_s),
                  mw_format_seconds(r->closed_form_plan_s), mw_format_seconds(r->critical_path_s));
}

static void
print_drives(FILE *out, const struct mw_result *r)
{
    if (r->nvme_written_bytes <= 0 && r->nvme_read_bytes <= 0)
        return;
    if (isfinite(r->drive_life_steps))
        mw_table_line(out, "drives", "%s read and %s written per step and node, life %s steps (%s)",
                      mw_format_bytes(r->nvme_read_bytes), mw_format_bytes(r->nvme_written_bytes),
                      mw_format_count(r->drive_life_steps),
                      mw_format_duration(r->drive_life_steps * r->step_time_s[1]));
    else
        mw_table_line(out, "drives", "%s read and %s written per step and node",
                      mw_format_bytes(r->nvme_read_bytes), mw_format_bytes(r->nvme_written_bytes));
}

/* The cost of a short training is not shown as 0. */
static const char *
amount(double value)
{
    return value > 0 && value < 0.005 ? "under 0.01" : mw_format_count(value);
}

/* "75 USD of it electricity at 0.16 USD per kWh (default; 0.078 .. 0.31)" */
static char *
electricity_text(const struct mw_result_owned *owned)
{
    const struct mw_electricity *price = &owned->electricity;
    g_autofree char *usd = g_strdup(amount(owned->energy_usd));
    g_autofree char *each = g_strdup(mw_format_significant(price->usd_per_kwh));
    g_autofree char *least = g_strdup(mw_format_significant(price->least));
    g_autofree char *range =
        price->least < price->most
            ? g_strdup_printf("; %s .. %s", least, mw_format_significant(price->most))
            : g_strdup("");

    return isfinite(owned->energy_usd)
               ? g_strdup_printf("%s USD of it electricity at %s USD per kWh (%s%s)", usd, each,
                                 price->from, range)
               : mw_spelled("without electricity: nobody says what power it takes "
                            "({key node.power_w})");
}

#define WORN_LITTLE 0.01 /* is not worth a line that says that its price is not known */

static void
print_wear(FILE *out, const struct mw_result_owned *owned)
{
    g_autofree char *worn = g_strdup(mw_format_percent(owned->drives_worn));
    g_autofree char *usd = g_strdup(amount(owned->drives_usd));
    g_autofree char *key = mw_spelled("{key nvme.price_usd}");

    if (owned->drives_usd > 0)
        mw_table_line(out, "drive wear",
                      "%s USD of it: %s of the life of drives of %s USD (%s), less what the price "
                      "per node has of them",
                      usd, worn, mw_format_count(owned->drives_price_usd), owned->drives_from);
    else if (isnan(owned->drives_usd) && owned->drives_worn > WORN_LITTLE)
        mw_table_line(out, "drive wear",
                      "not in it: %s of the life of drives whose price is not known (%s, of all "
                      "drives of a node)",
                      worn, key);
}

static void
print_owned(FILE *out, const struct mw_result_owned *owned)
{
    g_autofree char *energy = electricity_text(owned);

    mw_table_line(out, "as the owner", "%s USD: %s USD per node over %s years (%s); %s",
                  amount(mw_result_owned_usd(owned)), mw_format_count(owned->node_price_usd),
                  mw_format_count(owned->years), owned->years_from, energy);
    print_wear(out, owned);
}

char *
mw_table_training(const struct mw_result *r, bool with_owner)
{
    double owned_usd = mw_result_owned_usd(&r->owned);
    GString *text;

    if (!r->simulated || !(r->tokens > 0))
        return NULL;
    text = g_string_new(NULL);
    g_string_append_printf(text, "%s token%s in %s", mw_format_count(r->tokens),
                           r->tokens == 1 ? "" : "s", mw_format_duration(r->days * 86400));
    if (r->rented && isfinite(r->cost_usd))
        g_string_append_printf(text, ", %s USD of rent", amount(r->cost_usd));
    if (isfinite(r->energy_kwh))
        g_string_append_printf(text, ", %s kWh", amount(r->energy_kwh));
    if (with_owner && isfinite(owned_usd))
        g_string_append_printf(text, ", %s USD as the owner", amount(owned_usd));
    if (r->drive_sets > 1)
        g_string_append_printf(text, ", %s sets of drives", mw_format_count(r->drive_sets));
    if (!isfinite(r->cost_usd))
        g_string_append(text, ", no price known");
    return g_string_free(text, FALSE);
}

static void
print_cost(FILE *out, const struct mw_result *r)
{
    g_autofree char *training = mw_table_training(r, false);

    if (!training)
        return;
    g_autofree char *keys = mw_spelled(" ({key node.price_usd_per_hour} or node.price_usd)");
    mw_table_line(out, "training", "%s%s", training, isfinite(r->cost_usd) ? "" : keys);
    if (isfinite(mw_result_owned_usd(&r->owned)))
        print_owned(out, &r->owned);
}

/* All tiers in use, in one line. */
static void
print_memory(FILE *out, const struct mw_result *r)
{
    g_autoptr(GString) text = g_string_new("per GPU");
    g_autofree char *beside = mw_table_beside(r, false);

    for (int i = 0; i < MW_TIER_COUNT; i++) {
        const struct mw_result_tier *tier = &r->tiers[i];
        g_autofree char *used = mw_table_used_of_capacity(tier);
        if (tier->need_bytes > 0)
            g_string_append_printf(text, "%s %s %s (%s)",
                                   text->str[text->len - 1] == ')' ? "," : ":", mw_tier_name(i),
                                   used, mw_table_share(tier->need_bytes, tier->capacity_bytes));
    }
    if (*beside)
        g_string_append_printf(text, ", of it %s", beside);
    mw_table_line(out, "memory", "%s", text->str);
}

void
mw_table_verdict_body(FILE *out, const struct mw_result *result, bool details)
{
    mw_table_first_lines(out, result, details);
    if (result->simulated)
        print_speed(out, result, details);
    if (details) {
        mw_table_memory(out, result);
        mw_table_start(out, result);
    } else {
        print_memory(out, result);
    }
    mw_table_states(out, result);
    if (result->simulated && details) {
        print_exposed(out, result);
        print_closed_form(out, result);
    }
    if (details || isfinite(result->drive_life_steps))
        print_drives(out, result);
    print_cost(out, result);
    mw_table_notes(out, result);
}
