/* Which machines to train on: study/capacity.h. */
#include <math.h>
#include <string.h>

#include "base/format.h"
#include "base/json_writer.h"
#include "base/schemas.h"
#include "base/spell.h"
#include "report/grid.h"
#include "report/json_result.h"
#include "report/report.h"
#include "report/table.h"
#include "report/wrap.h"

#define LEFT_OUT_NAMED 3 /* machines that a reason names */

static const char *
machine_of(const struct mw_capacity_row *row)
{
    return mw_profile_name(row->machine->question.profile);
}

static const char *
usd(double amount)
{
    return isfinite(amount) ? mw_format_count(amount) : "-";
}

static const char *
days(double of)
{
    return isfinite(of) ? mw_format_duration(of * 86400) : "-";
}

/* --- what was asked, and what was searched ---------------------------------------------------- */

static char *
limits_text(const struct mw_capacity_limits *limits)
{
    GString *text = g_string_new(NULL);

    if (isfinite(limits->days))
        g_string_append_printf(text, ", within %s", days(limits->days));
    if (isfinite(limits->usd))
        g_string_append_printf(text, ", for %s USD", usd(limits->usd));
    if (isfinite(limits->power_w))
        g_string_append_printf(text, ", with %s kW", mw_format_significant(limits->power_w / 1000));
    if (limits->drives_last_s > 0)
        g_string_append_printf(text, ", on drives that last %s",
                               mw_format_duration(limits->drives_last_s));
    return g_string_free(text, FALSE);
}

/* Of the rows of the first settings that vary: the others have the same machines. */
static int
machine_count(const struct mw_capacity *it)
{
    const char *first = it->rows[0].machine->over;
    int count = 0;

    for (int i = 0; i < it->row_count && !g_strcmp0(it->rows[i].machine->over, first); i++)
        count += i == 0 || it->rows[i].machine != it->rows[i - 1].machine;
    return count;
}

static int
settings_count(const struct mw_capacity *it)
{
    int count = 0;

    for (int i = 0; i < it->row_count; i++)
        count += i == 0 || g_strcmp0(it->rows[i].machine->over, it->rows[i - 1].machine->over) != 0;
    return count;
}

static int
count_of(const struct mw_capacity *it, enum mw_capacity_fate fate)
{
    int count = 0;

    for (int i = 0; i < it->row_count; i++)
        count += it->rows[i].fate == fate;
    return count;
}

/* What the limit of USD bounds. */
static void
print_budget(FILE *out, const struct mw_capacity *it)
{
    g_autofree char *other = mw_spelled_printf(
        "{budget-of=%s}",
        mw_budget_name(it->limits.budget == MW_BUDGET_CASH ? MW_BUDGET_SHARE : MW_BUDGET_CASH));

    if (!isfinite(it->limits.usd) || !mw_capacity_may_buy(it))
        return;
    if (it->limits.budget == MW_BUDGET_CASH)
        mw_table_line(
            out, "budget",
            "bounds what has to be paid: the rent, or the price of all nodes, electricity "
            "and replaced drives; %s bounds an owner's share of the price",
            other);
    else
        mw_table_line(
            out, "budget",
            "bounds the rent, or an owner's share of the price with electricity and wear, "
            "not what all nodes cost; %s does",
            other);
}

/* An open batch is each machine's own: who compares machines by their answers should know. */
static void
print_batches(FILE *out, const struct mw_capacity *it)
{
    double least = INFINITY, most = 0;

    for (int i = 0; i < it->front_count; i++) {
        least = fmin(least, it->front[i]->result->global_batch);
        most = fmax(most, it->front[i]->result->global_batch);
    }
    if (!it->picks[0] || !(least < most) || !(it->picks[0]->result->default_step_tokens > 0))
        return;
    g_autofree char *option = mw_spelled("{global-batch=N}");
    mw_table_line(
        out, "global batch",
        "each machine has the one that is best on it, of some %s tokens at most, or one sequence "
        "per GPU: %.0f to %.0f sequences below; %s compares all with one, where their GPUs "
        "divide it",
        mw_format_count(it->picks[0]->result->default_step_tokens), least, most, option);
}

static void
print_asked(FILE *out, const struct mw_capacity *it)
{
    const struct mw_question *question = &it->rows[0].machine->question;
    g_autofree char *limits = limits_text(&it->limits);
    g_autofree char *over = it->rows[0].machine->over
                                ? g_strdup_printf(", each with %d settings", settings_count(it))
                                : g_strdup("");
    g_autofree char *not_tried =
        mw_spelled("tensor slices and pipelines, on any machine, and what else has a default: "
                   "{over=tp=1,2,4,8}, {over=pp=1,2} and the like do");

    mw_table_line(out, "training", "%s on %s tokens%s", question->model.name,
                  mw_format_count(question->settings.tokens), limits);
    print_budget(out, it);
    mw_table_line(out, "searched",
                  "%d machine%s of up to %" G_GINT64_FORMAT " nodes%s: %d candidates, of which %d "
                  "were simulated with the best strategy, placement and batch of each",
                  machine_count(it), machine_count(it) == 1 ? "" : "s", it->limits.nodes_max, over,
                  it->row_count, it->answered);
    if (!it->rows[0].machine->over)
        mw_table_line(out, "not tried", "%s", not_tried);
    print_batches(out, it);
}

/* --- candidates ------------------------------------------------------------------------------- */

/* " --tp 2": the settings that vary. */
static char *
over_text(const struct mw_capacity_row *row)
{
    g_autofree char *over = row->machine->over ? mw_spelled(row->machine->over) : NULL;

    return over ? g_strconcat(" ", over, NULL) : g_strdup("");
}

/* Whether something is bought: its cost is a share, and another sum is to be paid. */
static bool
buys(const struct mw_capacity *it)
{
    bool any = false;

    for (int i = 0; i < it->front_count; i++)
        any = any || (!it->front[i]->result->rented && isfinite(it->front[i]->typical.pay));
    return any;
}

static void
add_row(struct mw_grid *grid, const struct mw_capacity *it, const char *what,
        const struct mw_capacity_row *row)
{
    const struct mw_result *r = row->result;
    g_autofree char *machines = mw_table_machines(r);
    g_autofree char *took = g_strdup(days(row->typical.days));
    g_autofree char *at_most = g_strdup(days(row->slow.days));
    g_autofree char *cost = g_strdup(usd(row->typical.usd));
    g_autofree char *pay = g_strdup(usd(row->typical.pay));
    g_autofree char *over = over_text(row);
    g_autofree char *how = g_strconcat(r->strategy, over, NULL);
    g_autofree char *margin = g_strdup(mw_format_percent(row->margin));
    const char *bottleneck = mw_table_text(r->bottleneck);

    mw_grid_row(grid, what, machines, how, mw_format_seconds(r->step_time_s[1]), took, at_most,
                cost,
                isnan(row->typical.usd) ? ""
                : row->machine->spot    ? "spot"
                : r->rented             ? "rent"
                                        : "owned",
                buys(it) ? pay : margin, buys(it) ? margin : bottleneck,
                buys(it) ? bottleneck : NULL, NULL);
}

static struct mw_grid *
new_grid(const struct mw_capacity *it)
{
    bool pay = buys(it);
    struct mw_grid *grid = mw_grid_new(pay ? "lllrrrrlrrl" : "lllrrrrlrl");

    mw_grid_row(grid, "", "machines", "strategy", "step", "takes", "at most", "USD", "",
                pay ? "to pay" : "margin", pay ? "margin" : "bottleneck", pay ? "bottleneck" : NULL,
                NULL);
    return grid;
}

static void
print_picks(FILE *out, const struct mw_capacity *it)
{
    struct mw_grid *grid = new_grid(it);

    for (int p = 0; p < MW_PICKS; p++)
        add_row(grid, it, mw_capacity_pick_name(p), it->picks[p]);
    fputc('\n', out);
    mw_grid_print(grid, out, 0);
}

static void
print_front(FILE *out, const struct mw_capacity *it)
{
    struct mw_grid *grid = new_grid(it);

    for (int i = 0; i < it->front_count; i++)
        add_row(grid, it, "", it->front[i]);
    mw_table_heading(out, "Front of cost against time (whatever is cheaper than one of these is "
                          "slower)");
    mw_grid_print(grid, out, 0);
}

/* --- the picks -------------------------------------------------------------------------------- */

static bool
is_named_before(const struct mw_capacity *it, int pick)
{
    for (int before = 0; before < pick; before++)
        if (it->picks[before] == it->picks[pick])
            return true;
    return false;
}

static char *
names_of_pick(const struct mw_capacity *it, int pick)
{
    GString *text = g_string_new(mw_capacity_pick_name(pick));

    for (int p = pick + 1; p < MW_PICKS; p++)
        if (it->picks[p] == it->picks[pick])
            g_string_append_printf(text, ", %s", mw_capacity_pick_name(p));
    return g_string_free(text, FALSE);
}

static void
print_price(FILE *out, const struct mw_capacity_row *row)
{
    const char *key = row->result->rented ? "price_usd_per_hour" : "price_usd", *source = NULL;
    g_autofree char *price = mw_profile_text(row->machine->question.profile, "node", key);

    mw_profile_provenance(row->machine->question.profile, "node", key, &source);
    source = row->machine->price_from ? row->machine->price_from : source;
    if (price)
        mw_table_line(out, "price", "%s USD%s a node: %s", price,
                      row->result->rented ? " per hour" : "", source ? source : "set by the user");
}

/* An owner's cost is a share; this is the whole sum. */
static void
print_pay(FILE *out, const struct mw_capacity_row *row)
{
    const struct mw_result_owned *owned = &row->result->owned;
    GString *text;

    if (row->result->rented || isnan(owned->pay_usd))
        return;
    text = g_string_new(usd(owned->pay_usd));
    g_string_append_printf(text, " USD: %s USD", usd(owned->node_price_usd * (double)row->nodes));
    g_string_append_printf(text, " for %" G_GINT64_FORMAT " node%s", row->nodes,
                           row->nodes == 1 ? "" : "s");
    if (owned->energy_usd > 0)
        g_string_append_printf(text, ", %s USD of electricity", usd(owned->energy_usd));
    if (owned->replaced_usd > 0)
        g_string_append_printf(text, ", %s USD of drives beyond the first",
                               usd(owned->replaced_usd));
    mw_table_line(out, "to pay", "%s", text->str);
    g_string_free(text, TRUE);
}

static void
print_interrupted(FILE *out, const struct mw_capacity_row *row)
{
    const struct mw_interrupted *by = &row->interrupted;
    g_autofree char *every = g_strdup(mw_format_seconds(by->every_s));
    g_autofree char *save = g_strdup(mw_format_seconds(by->save_s));
    g_autofree char *restart = g_strdup(mw_format_seconds(by->restart_s));

    if (!row->machine->spot || !(by->per_day > 0))
        return;
    mw_table_line(
        out, "interrupted",
        "%s times a day, saved every %s in %s, restarts in %s: takes %s, %.1f%% more, and %s USD; "
        "without the time until another node is to be had",
        mw_format_significant(by->per_day), every, save, restart, days(row->typical.days),
        100 * (by->times - 1), usd(row->typical.usd));
}

static void
print_wear(FILE *out, const struct mw_capacity_row *row)
{
    g_autofree char *last = g_strdup(mw_format_duration(row->drives_last_s));

    if (row->drives_last_s < row->typical.days * 86400)
        mw_table_line(out, "wear", "the drives last %s of the %s", last, days(row->typical.days));
}

static void
print_pick(FILE *out, const struct mw_capacity *it, int pick)
{
    const struct mw_capacity_row *row = it->picks[pick];
    const struct mw_result *r = it->deep[pick] ? it->deep[pick] : row->result;
    g_autofree char *names = names_of_pick(it, pick);
    g_autofree char *machines = mw_table_machines(r);
    g_autofree char *heading = g_strdup_printf("%s: %s", names, machines);

    mw_table_heading(out, heading);
    g_autofree char *options =
        mw_spelled_printf("{hardware=%s} {nodes=%" G_GINT64_FORMAT "} {strategy=%s}",
                          machine_of(row), row->nodes, r->strategy);
    g_autofree char *over = over_text(row);
    mw_table_line(out, "options", "%s%s", options, over);
    mw_table_verdict_body(out, r, false);
    print_price(out, row);
    print_pay(out, row);
    print_interrupted(out, row);
    print_wear(out, row);
    mw_table_last_lines(out, r);
}

/* --- why the others are left out -------------------------------------------------------------- */

static char *
some_of(const struct mw_capacity *it, enum mw_capacity_fate fate)
{
    GString *text = g_string_new(NULL);
    const struct mw_capacity_row *last = NULL;
    int named = 0;

    for (int i = 0; i < it->row_count && named <= LEFT_OUT_NAMED; i++) {
        const struct mw_capacity_row *row = &it->rows[i];
        if (row->fate != fate || (last && !strcmp(machine_of(row), machine_of(last))))
            continue;
        last = row;
        if (named++ < LEFT_OUT_NAMED)
            g_string_append_printf(text, "%s%s", named > 1 ? ", " : "", machine_of(row));
        else
            g_string_append(text, " and others");
        if (named == 1 && row->why)
            g_string_append_printf(text, " (%s)", row->why);
    }
    return g_string_free(text, FALSE);
}

static void
print_left_out(FILE *out, const struct mw_capacity *it)
{
    struct mw_grid *grid = mw_grid_new("rl");
    int beaten = count_of(it, MW_CAPACITY_WITHIN) - it->front_count;

    mw_table_heading(out, "Candidates that are left out");
    for (int fate = MW_CAPACITY_LATE; fate < MW_CAPACITY_FATES; fate++) {
        g_autofree char *count = g_strdup_printf("%d", count_of(it, fate));
        g_autofree char *some = some_of(it, fate);
        g_autofree char *text = g_strdup_printf("%s: %s", mw_capacity_fate_text(fate), some);
        if (count_of(it, fate))
            mw_grid_row(grid, count, text, NULL);
    }
    if (beaten > 0) {
        g_autofree char *count = g_strdup_printf("%d", beaten);
        mw_grid_row(grid, count, "are slower and cost more than another, as simulated", NULL);
    }
    mw_grid_print(grid, out, 2);
    if (count_of(it, MW_CAPACITY_GONE)) {
        g_autofree char *note =
            mw_spelled("{include=discontinued} ranks what is no longer sold too; "
                       "a price of today in a line of a file ({prices}) counts "
                       "before the one that is known");
        mw_table_line(out, "note", "%s", note);
    }
}

/* --- nothing is within the limits ------------------------------------------------------------- */

/* What a row has of that which a limit counts. */
static char *
measure_text(const struct mw_capacity_row *row, enum mw_capacity_limit limit,
             const struct mw_capacity_limits *limits)
{
    switch (limit) {
    case MW_LIMIT_USD:
        return g_strdup_printf("%s USD%s", usd(mw_capacity_spent(&row->typical, limits)),
                               row->result->rented                ? " of rent"
                               : limits->budget == MW_BUDGET_CASH ? " to pay"
                                                                  : " of an owner's share");
    case MW_LIMIT_DAYS:
        return g_strdup(days(row->typical.days));
    case MW_LIMIT_POWER:
        return g_strdup_printf("%s kW", mw_format_significant(mw_capacity_row_power_w(row) / 1000));
    case MW_LIMIT_NODES:
        return g_strdup_printf("%" G_GINT64_FORMAT " nodes", row->nodes);
    case MW_LIMIT_DRIVES:
        return g_strdup(isinf(row->drives_last_s) ? "no wear"
                                                  : mw_format_duration(row->drives_last_s));
    case MW_CAPACITY_LIMITS:
        break;
    }
    return g_strdup("");
}

/* "1.4k USD of rent", "61.9 USD as the owner, 4.1k USD to pay" */
static char *
cost_text(const struct mw_capacity_row *row)
{
    g_autofree char *cost = g_strdup(usd(row->typical.usd));

    return isnan(row->typical.usd) ? g_strdup("no price known")
           : row->result->rented
               ? g_strdup_printf("%s USD of rent", cost)
               : g_strdup_printf("%s USD as the owner, %s USD to pay", cost, usd(row->typical.pay));
}

static void
print_nearest(FILE *out, const struct mw_capacity *it)
{
    static const char *const labels[MW_CAPACITY_LIMITS] = {
        [MW_LIMIT_USD] = "budget",  [MW_LIMIT_DAYS] = "deadline",     [MW_LIMIT_POWER] = "power",
        [MW_LIMIT_NODES] = "nodes", [MW_LIMIT_DRIVES] = "drive life",
    };
    g_autofree char *limits = limits_text(&it->limits);
    bool any = false;

    mw_table_line(out, "NONE", "no machine trains it%s", limits);
    for (int l = 0; l < MW_CAPACITY_LIMITS; l++) {
        const struct mw_capacity_row *row = it->nearest[l];
        if (!row)
            continue;
        any = true;
        g_autofree char *measure = measure_text(row, (enum mw_capacity_limit)l, &it->limits);
        g_autofree char *cost = cost_text(row);
        mw_table_line(out, labels[l],
                      "would have to be %s, all other limits kept: %s x%" G_GINT64_FORMAT
                      ", %s, %s",
                      measure, machine_of(row), row->nodes, days(row->typical.days), cost);
    }
    if (!any)
        mw_table_line(out, "nearest", "no one limit alone makes room: lift two of them");
}

void
mw_table_capacity(FILE *out, const struct mw_capacity *it)
{
    print_asked(out, it);
    if (it->picks[0]) {
        print_picks(out, it);
        for (int p = 0; p < MW_PICKS; p++)
            if (!is_named_before(it, p))
                print_pick(out, it, p);
    } else {
        print_nearest(out, it);
    }
    if (it->front_count)
        print_front(out, it);
    print_left_out(out, it);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void
write_row(struct mw_json_writer *json, const struct mw_capacity_row *row)
{
    g_autofree char *over = row->machine->over ? mw_spelled(row->machine->over) : NULL;

    mw_json_string(json, "machine", machine_of(row));
    mw_json_integer(json, "nodes", row->nodes);
    mw_json_string(json, "over", over);
    mw_json_string(json, "verdict", mw_capacity_fate_text(row->fate));
    mw_json_string(json, "why", row->why);
    mw_json_string(json, "price_from", row->machine->price_from);
    mw_json_number(json, "least_days", row->least.days);
    mw_json_number(json, "least_cost_usd", row->least.usd);
    mw_json_number(json, "least_pay_usd", row->least.pay);
    if (row->beaten_by) {
        mw_json_begin(json, "beaten_by", '{', true);
        mw_json_string(json, "machine", machine_of(row->beaten_by));
        mw_json_integer(json, "nodes", row->beaten_by->nodes);
        g_autofree char *of =
            row->beaten_by->machine->over ? mw_spelled(row->beaten_by->machine->over) : NULL;
        mw_json_string(json, "over", of);
        mw_json_end(json, '}');
    }
    if (!row->result)
        return;
    mw_json_string(json, "strategy", row->result->strategy);
    mw_json_number(json, "step_time_s", row->result->step_time_s[1]);
    mw_json_number(json, "days", row->typical.days);
    mw_json_number(json, "days_at_most", row->slow.days);
    mw_json_number(json, "cost_usd", row->typical.usd);
    mw_json_number(json, "cost_usd_at_most", row->slow.usd);
    mw_json_number(json, "pay_usd", row->typical.pay);
    mw_json_number(json, "pay_usd_at_most", row->slow.pay);
    mw_json_number(json, "global_batch", row->result->global_batch);
    mw_json_boolean(json, "rented", row->result->rented);
    mw_json_number(json, "margin", row->margin);
    mw_json_number(json, "drive_days", row->drives_last_s / 86400);
    if (row->machine->spot) {
        mw_json_begin(json, "interruptions", '{', true);
        mw_json_number(json, "per_day", row->interrupted.per_day);
        mw_json_number(json, "save_s", row->interrupted.save_s);
        mw_json_number(json, "restart_s", row->interrupted.restart_s);
        mw_json_number(json, "every_s", row->interrupted.every_s);
        mw_json_number(json, "times", row->interrupted.times);
        mw_json_end(json, '}');
    }
    mw_json_string(json, "bottleneck", row->result->bottleneck);
    mw_json_asked(json, row->result->asked);
}

static void
write_rows(struct mw_json_writer *json, const char *key, const struct mw_capacity_row *const *rows,
           int count)
{
    mw_json_begin(json, key, '[', false);
    for (int i = 0; i < count; i++) {
        mw_json_begin(json, NULL, '{', true);
        write_row(json, rows[i]);
        mw_json_end(json, '}');
    }
    mw_json_end(json, ']');
}

static void
write_picks(struct mw_json_writer *json, const struct mw_capacity *it)
{
    mw_json_begin(json, "picks", '{', false);
    for (int p = 0; p < MW_PICKS && it->picks[p]; p++) {
        mw_json_begin(json, mw_capacity_pick_name(p), '{', false);
        write_row(json, it->picks[p]);
        if (it->deep[p]) {
            mw_json_begin(json, "answer", '{', false);
            mw_json_result(json, it->deep[p]);
            mw_json_end(json, '}');
        }
        mw_json_end(json, '}');
    }
    mw_json_end(json, '}');
}

static const char *const nearest_keys[MW_CAPACITY_LIMITS] = {
    [MW_LIMIT_USD] = "nearest_budget",        [MW_LIMIT_DAYS] = "nearest_deadline",
    [MW_LIMIT_POWER] = "nearest_power",       [MW_LIMIT_NODES] = "nearest_nodes",
    [MW_LIMIT_DRIVES] = "nearest_drive_life",
};

void
mw_json_capacity_write(FILE *out, const struct mw_capacity *it)
{
    g_autofree const struct mw_capacity_row **all =
        g_new(const struct mw_capacity_row *, it->row_count);
    struct mw_json_writer json = {.out = out};

    for (int i = 0; i < it->row_count; i++)
        all[i] = &it->rows[i];
    mw_json_begin_answer(&json, MW_SCHEMA_ADVICE);
    mw_json_string(&json, "model", it->rows[0].machine->question.model.name);
    mw_json_number(&json, "tokens", it->rows[0].machine->question.settings.tokens);
    mw_json_boolean(&json, "feasible", it->picks[0] != NULL);
    mw_json_begin(&json, "limits", '{', true);
    mw_json_number(&json, "days", it->limits.days);
    mw_json_number(&json, "cost_usd", it->limits.usd);
    mw_json_string(&json, "budget_of", mw_budget_name(it->limits.budget));
    mw_json_number(&json, "power_kw", it->limits.power_w / 1000);
    mw_json_integer(&json, "nodes", it->limits.nodes_max);
    mw_json_number(&json, "drive_days",
                   it->limits.drives_last_s > 0 ? it->limits.drives_last_s / 86400 : NAN);
    mw_json_end(&json, '}');
    write_picks(&json, it);
    write_rows(&json, "front", it->front, it->front_count);
    for (int l = 0; l < MW_CAPACITY_LIMITS; l++)
        write_rows(&json, nearest_keys[l], &it->nearest[l], it->nearest[l] != NULL);
    write_rows(&json, "candidates", all, it->row_count);
    mw_json_end(&json, '}');
}
