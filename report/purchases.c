/* What to buy for a machine: study/purchases.h. */
#include <math.h>

#include "base/format.h"
#include "base/json_writer.h"
#include "base/spell.h"
#include "report/grid.h"
#include "report/report.h"
#include "report/table.h"

static bool
fits(const struct mw_purchase *it)
{
    return it->result && it->result->feasible;
}

static char *
usd_text(const struct mw_purchase *it)
{
    const struct mw_stepped *m = &it->machine;

    if (isfinite(it->usd_per_hour))
        return g_strdup_printf("%.4g", it->usd_per_hour);
    if (isnan(m->usd))
        return g_strdup("-");
    if (m->least == m->most)
        return g_strdup(mw_format_count(m->usd));
    g_autofree char *least = g_strdup(mw_format_count(m->least));
    return g_strdup_printf("%s .. %s", least, mw_format_count(m->most));
}

static char *
times_text(const struct mw_purchase *it)
{
    return !fits(it)          ? g_strdup("does not fit")
           : isinf(it->times) ? g_strdup("now fits")
                              : g_strdup_printf("%.2fx", it->times);
}

static char *
per_usd_text(const struct mw_purchases *all, const struct mw_purchase *it)
{
    double worth = mw_purchase_worth(it);

    if (!fits(it) || isnan(worth))
        return g_strdup("-");
    return g_strdup(all->rented ? mw_format_count(worth) : mw_format_significant(worth));
}

/* A drive that lasts longer than this is not what decides. */
#define LASTS_S (36500 * 86400.0)

static char *
drives_text(const struct mw_purchase *it)
{
    return isfinite(it->drives_last_s) && it->drives_last_s < LASTS_S
               ? g_strdup(mw_format_duration(it->drives_last_s))
               : g_strdup("-");
}

/* Of the budget: what is bought, or the rent of the training; NAN: not known. */
static double
spent(const struct mw_purchases *all, const struct mw_purchase *it)
{
    return all->rented ? it->cost_usd : it->machine.usd;
}

static char *
within_text(const struct mw_purchases *all, const struct mw_purchase *it)
{
    GString *text = g_string_new(NULL);

    if (it->why)
        g_string_append(text, it->why);
    if (fits(it) && it->days > all->days)
        g_string_append(text, "late");
    if (spent(all, it) > all->usd)
        g_string_append_printf(text, "%sover the budget", text->len ? ", " : "");
    return g_string_free(text, FALSE);
}

static void
add_row(struct mw_grid *grid, const struct mw_purchases *all, const struct mw_purchase *it,
        const char *what)
{
    g_autofree char *usd = it == &all->now && !all->rented ? g_strdup("") : usd_text(it);
    g_autofree char *times = it == &all->now && fits(it) ? g_strdup("") : times_text(it);
    g_autofree char *per_usd =
        it == &all->now && !all->rented ? g_strdup("") : per_usd_text(all, it);
    g_autofree char *drives = drives_text(it);
    g_autofree char *within = within_text(all, it);
    g_autofree char *step =
        g_strdup(fits(it) ? mw_format_seconds(it->result->step_time_s[1]) : "-");
    g_autofree char *days = g_strdup(fits(it) ? mw_format_duration(it->days * 86400) : "-");
    g_autofree char *rate = g_strdup(fits(it) ? mw_format_count(it->result->tokens_per_s) : "-");

    mw_grid_row(grid, what, usd, step, days, rate, times, per_usd, drives,
                fits(it) ? it->result->strategy : "-", within, NULL);
}

static void
print_rows(FILE *out, const struct mw_purchases *all, const char *heading,
           const struct mw_purchase *rows, int count, bool with_now)
{
    struct mw_grid *grid = mw_grid_new("lrrrrrrrll");

    mw_table_heading(out, heading);
    mw_grid_row(grid, "", all->rented ? "USD an hour" : "USD", "step", "takes", "tokens/s", "gain",
                all->rented ? "tokens/USD" : "per 1000 USD", "drives last", "strategy", "", NULL);
    if (with_now)
        add_row(grid, all, &all->now, "as it is");
    for (int i = 0; i < count; i++)
        add_row(grid, all, &rows[i], rows[i].machine.what->str);
    mw_grid_print(grid, out, 2);
}

/* --- the best of them ------------------------------------------------------------------------- */

static bool
is_within(const struct mw_purchases *all, const struct mw_purchase *it)
{
    return !(spent(all, it) > all->usd) && !(it->days > all->days);
}

/* The first that gains within the limits: a step, else a pair; NULL: none does. */
static const struct mw_purchase *
best_of(const struct mw_purchases *all)
{
    for (int i = 0; i < all->step_count; i++)
        if (mw_purchase_gains(&all->steps[i]) && is_within(all, &all->steps[i]))
            return &all->steps[i];
    for (int i = 0; i < all->pair_count; i++)
        if (is_within(all, &all->pairs[i]))
            return &all->pairs[i];
    return NULL;
}

static void
print_best(FILE *out, const struct mw_purchases *all)
{
    const struct mw_purchase *best = best_of(all);

    if (!best) {
        mw_table_line(out, "buy", "nothing: no step gains%s",
                      isfinite(all->days) || isfinite(all->usd) ? " within the limits" : "");
        return;
    }
    g_autofree char *options = mw_stepped_options(&best->machine);
    g_autofree char *usd = usd_text(best), *times = times_text(best);
    bool priced = isfinite(best->usd_per_hour) || isfinite(best->machine.usd);
    mw_table_line(out, all->rented ? "rent" : "buy", "%s: %s, %s%s", best->machine.what->str, times,
                  priced ? usd : "no price known",
                  all->rented ? " USD an hour"
                  : priced    ? " USD"
                              : "");
    mw_table_line(out, "options", "%s", options);
    if (best->machine.price_from->len)
        mw_table_line(out, "price", "%s", best->machine.price_from->str);
}

/* --- what is missing -------------------------------------------------------------------------- */

static void
print_unpriced(FILE *out, const struct mw_purchases *all)
{
    for (int i = 0; i < all->step_count; i++) {
        const struct mw_stepped *m = &all->steps[i].machine;
        if (!m->unpriced->len || all->rented)
            continue;
        g_autofree char *text = mw_spelled_printf(
            "no price of %s: a line of a file of prices ({prices}) whose profile is %s gives one "
            "(usd_to_buy)",
            m->what->str, m->unpriced->str);
        mw_table_line(out, "note", "%s", text);
    }
}

static void
print_wear(FILE *out, const struct mw_purchases *all)
{
    const struct mw_purchase *now = &all->now;

    if (!fits(now) || !(now->drives_last_s < now->days * 86400))
        return;
    g_autofree char *last = g_strdup(mw_format_duration(now->drives_last_s));
    mw_table_line(out, "wear",
                  "the drives last %s of %s: each drive more shares the writing, and lasts as much "
                  "longer",
                  last, mw_format_duration(now->days * 86400));
}

void
mw_table_purchases(FILE *out, const struct mw_purchases *all)
{
    const struct mw_question *question = &all->now.machine.question;
    g_autofree char *machines = mw_table_machines(all->now.result);

    mw_table_line(out, "training", "%s on %s tokens", question->model.name,
                  mw_format_count(question->settings.tokens));
    mw_table_line(out, "machine", "%s%s", machines, fits(&all->now) ? "" : ": does not fit");
    mw_table_line(out, "searched",
                  "%d step%s and %d pair%s of steps that gain nothing alone, each "
                  "simulated with the best strategy, placement and batch",
                  all->step_count, all->step_count == 1 ? "" : "s", all->pairs_tried,
                  all->pairs_tried == 1 ? "" : "s");
    print_best(out, all);
    print_wear(out, all);
    print_unpriced(out, all);
    print_rows(out, all, "Each step, by what it brings per USD", all->steps, all->step_count, true);
    if (all->pair_count)
        print_rows(out, all, "Pairs of steps that gain, of which neither gains alone", all->pairs,
                   all->pair_count, false);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void
write_purchase(struct mw_json_writer *json, const struct mw_purchase *it)
{
    g_autofree char *options = mw_stepped_options(&it->machine);
    const struct mw_stepped *m = &it->machine;

    mw_json_string(json, "what", m->what->len ? m->what->str : NULL);
    mw_json_string(json, "options", options);
    mw_json_boolean(json, "fits", fits(it));
    mw_json_string(json, "why", it->why);
    mw_json_number(json, "usd", m->usd);
    mw_json_number(json, "usd_least", m->least);
    mw_json_number(json, "usd_most", m->most);
    mw_json_number(json, "usd_per_hour", it->usd_per_hour);
    mw_json_string(json, "price_from", m->price_from->len ? m->price_from->str : NULL);
    mw_json_string(json, "unpriced", m->unpriced->len ? m->unpriced->str : NULL);
    mw_json_boolean(json, "gains", mw_purchase_gains(it));
    mw_json_number(json, "times_tokens_per_s", it->times);
    mw_json_number(json, "tokens_per_s_per_1000_usd", it->tokens_per_s_per_1000_usd);
    mw_json_number(json, "tokens_per_usd", it->tokens_per_usd);
    mw_json_number(json, "days", it->days);
    mw_json_number(json, "cost_usd", it->cost_usd);
    mw_json_number(json, "drive_days", it->drives_last_s / 86400);
    if (!fits(it))
        return;
    mw_json_string(json, "strategy", it->result->strategy);
    mw_json_number(json, "step_time_s", it->result->step_time_s[1]);
    mw_json_number(json, "tokens_per_s", it->result->tokens_per_s);
    mw_json_string(json, "bottleneck", it->result->bottleneck);
}

static void
write_purchases(struct mw_json_writer *json, const char *key, const struct mw_purchase *rows,
                int count)
{
    mw_json_begin(json, key, '[', false);
    for (int i = 0; i < count; i++) {
        mw_json_begin(json, NULL, '{', true);
        write_purchase(json, &rows[i]);
        mw_json_end(json, '}');
    }
    mw_json_end(json, ']');
}

void
mw_json_purchases_write(FILE *out, const struct mw_purchases *all)
{
    const struct mw_question *question = &all->now.machine.question;
    struct mw_json_writer json = {.out = out};

    mw_json_begin_answer(&json, "memwall-purchases/1");
    mw_json_string(&json, "model", question->model.name);
    mw_json_string(&json, "hardware", mw_profile_name(question->profile));
    mw_json_integer(&json, "nodes", question->settings.nodes);
    mw_json_number(&json, "tokens", question->settings.tokens);
    mw_json_boolean(&json, "feasible", mw_purchases_fit(all));
    mw_json_boolean(&json, "rented", all->rented);
    mw_json_begin(&json, "limits", '{', true);
    mw_json_number(&json, "days", all->days);
    mw_json_number(&json, "usd", all->usd);
    mw_json_end(&json, '}');
    mw_json_begin(&json, "now", '{', true);
    write_purchase(&json, &all->now);
    mw_json_end(&json, '}');
    write_purchases(&json, "steps", all->steps, all->step_count);
    write_purchases(&json, "pairs", all->pairs, all->pair_count);
    mw_json_integer(&json, "pairs_tried", all->pairs_tried);
    mw_json_end(&json, '}');
}
