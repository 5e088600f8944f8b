#include "study/capacity.h"

#include <math.h>

#include "base/progress.h"
#include "hardware/priced.h"
#include "study/answers.h"
#include "study/bound.h"
#include "study/capacity_internal.h"
#include "study/set_result.h"

/* Candidates that are answered at once, whatever the number of cores: what an answer leaves out of
 * the search is decided between waves, so that it is the same on every machine. */
#define WAVE 4

const char *
mw_capacity_fate_text(enum mw_capacity_fate fate)
{
    static const char *const texts[MW_CAPACITY_FATES] = {
        [MW_CAPACITY_OPEN] = "not examined",
        [MW_CAPACITY_WITHIN] = "within the limits",
        [MW_CAPACITY_LATE] = "end after the deadline",
        [MW_CAPACITY_COSTLY] = "cost more than the budget",
        [MW_CAPACITY_WORN] = "wear out their drives sooner than they may",
        [MW_CAPACITY_UNFIT] = "do not fit",
        [MW_CAPACITY_REFUSED] = "cannot be planned",
        [MW_CAPACITY_NO_ROOM] = "have no room for the state, by the bound",
        [MW_CAPACITY_TOO_SLOW] = "cannot end before the deadline, by the bound",
        [MW_CAPACITY_TOO_DEAR] = "cannot keep to the budget, by the bound",
        [MW_CAPACITY_POWER] = "take more power than the limit, or state none",
        [MW_CAPACITY_NODES] = "have more nodes than there may be",
        [MW_CAPACITY_BEATEN] = "cannot be faster or cheaper than another, by the bound",
        [MW_CAPACITY_UNPRICED] = "have no price",
        [MW_CAPACITY_GONE] = "are no longer sold at the price that is known",
    };

    return texts[fate];
}

const char *
mw_capacity_pick_name(enum mw_capacity_pick pick)
{
    static const char *const names[MW_PICKS] = {
        [MW_PICK_CHEAPEST] = "cheapest",
        [MW_PICK_FASTEST] = "fastest",
        [MW_PICK_SAFEST] = "least risk",
    };

    return names[pick];
}

const char *
mw_budget_name(enum mw_budget budget)
{
    static const char *const names[MW_BUDGETS] = {
        [MW_BUDGET_CASH] = "cash",
        [MW_BUDGET_SHARE] = "share",
    };

    return names[budget];
}

double
mw_capacity_spent(const struct mw_capacity_bill *bill, const struct mw_capacity_limits *limits)
{
    return limits->budget == MW_BUDGET_CASH ? bill->pay : bill->usd;
}

/* --- candidates ------------------------------------------------------------------------------- */

static const struct mw_hardware *
hardware_of(const struct mw_capacity_row *row)
{
    return &row->machine->question.hardware[MW_OUTLOOK_TYPICAL];
}

static int64_t
most_nodes(const struct mw_capacity_machine *machine, const struct mw_capacity_limits *limits)
{
    int64_t there_are = machine->question.hardware[MW_OUTLOOK_TYPICAL].nodes_max;

    return there_are > 0 ? MIN(there_are, limits->nodes_max) : limits->nodes_max;
}

/* 1, 2, 4 and so on, and as many as there may be. */
static int64_t
more_nodes(int64_t nodes, int64_t most)
{
    return nodes < most ? MIN(2 * nodes, most) : most + 1;
}

static void
add_machine(const struct mw_capacity_machine *machine, const struct mw_capacity_limits *limits,
            GArray *rows)
{
    int64_t most = machine->why ? 1 : most_nodes(machine, limits);

    for (int64_t nodes = 1; nodes <= most; nodes = more_nodes(nodes, most)) {
        struct mw_capacity_row row = {.machine = machine,
                                      .nodes = nodes,
                                      .least = {NAN, NAN, NAN},
                                      .why = g_strdup(machine->why),
                                      .fate = machine->why ? MW_CAPACITY_REFUSED : MW_CAPACITY_OPEN,
                                      .drives_last_s = INFINITY,
                                      .typical = {NAN, NAN, NAN},
                                      .slow = {NAN, NAN, NAN},
                                      .margin = NAN};
        g_array_append_val(rows, row);
    }
}

double
mw_capacity_row_power_w(const struct mw_capacity_row *row)
{
    double each = hardware_of(row)->power_w;

    return each > 0 ? each * (double)row->nodes : NAN;
}

static struct mw_question
question_of(const struct mw_capacity_row *row)
{
    struct mw_question question = row->machine->question;

    question.settings.nodes = row->nodes;
    question.ends = true;
    return question;
}

/* --- bounds ----------------------------------------------------------------------------------- */

/* Of all strategies that the question compares: what one saves, another may not. */
static double
bound_s(struct mw_capacity_row *row, double tokens, GError **error)
{
    struct mw_question question = question_of(row);
    const struct mw_request request = {&question.model, hardware_of(row)};
    struct mw_settings asked = question.settings, complete;
    double least = INFINITY;
    bool any = false;

    for (int i = 0; i < question.strategy_count; i++) {
        const struct mw_strategies all = mw_strategies_of(question.strategies[i]);
        for (int s = 0; s < all.count; s++) {
            struct mw_bound bound;
            asked.strategy = all.one[s];
            if (!mw_settings_complete(&request, &asked, &complete, any || *error ? NULL : error))
                continue;
            any = true;
            mw_bound_of(&request, &complete, &bound);
            row->state_bytes = (int64_t)bound.trained_bytes;
            least = fmin(least,
                         mw_bound_step_s(&bound, tokens, complete.nodes, complete.gpus_per_node));
        }
    }
    if (any)
        g_clear_error(error);
    return any ? least : NAN;
}

/* Steps of one batch each, if it is given; else as if all tokens were one step. */
static double
run_bound_s(struct mw_capacity_row *row, GError **error)
{
    const struct mw_settings *s = &row->machine->question.settings;
    int64_t seq =
        s->seq == MW_AUTO ? mw_settings_default_seq(&row->machine->question.model) : s->seq;
    double batch = s->global_batch == MW_AUTO ? s->tokens : (double)(s->global_batch * seq);

    return fmax(1, s->tokens / batch) * bound_s(row, batch, error);
}

static void
bound_row(struct mw_capacity_row *row, const struct mw_capacity_limits *limits)
{
    const struct mw_question *question = &row->machine->question;
    g_autoptr(GError) refused = NULL;
    double seconds = run_bound_s(row, &refused);

    row->least.days = seconds / 86400;
    row->least.usd = row->least.days * mw_usd_per_day(question, row->nodes);
    row->least.pay = mw_pay_usd(question, row->nodes, row->least.days);
    if (refused) {
        row->why = g_strdup(refused->message);
        row->fate = MW_CAPACITY_REFUSED;
    } else if (isinf(seconds)) {
        row->fate = MW_CAPACITY_NO_ROOM;
    } else if (isfinite(limits->power_w) && !(mw_capacity_row_power_w(row) <= limits->power_w)) {
        row->fate = MW_CAPACITY_POWER;
    } else if (row->least.days > limits->days) {
        row->fate = MW_CAPACITY_TOO_SLOW;
    } else if (mw_capacity_spent(&row->least, limits) > limits->usd) {
        row->fate = MW_CAPACITY_TOO_DEAR;
    }
}

bool
mw_capacity_may_buy(const struct mw_capacity *it)
{
    bool any = false;

    for (int i = 0; i < it->row_count; i++)
        any = any || mw_price_kind(hardware_of(&it->rows[i])) == MW_PRICE_OWN;
    return any;
}

/* What is rented need not be for sale. */
static bool
is_gone(const struct mw_capacity_row *row)
{
    return row->machine->gone && mw_price_kind(hardware_of(row)) == MW_PRICE_OWN;
}

static bool
is_priced(const struct mw_capacity_row *row)
{
    return !is_gone(row) && mw_usd_per_day(&row->machine->question, 1) > 0;
}

/* Where some have a price, cost is compared. */
static void
leave_out_unpriced(struct mw_capacity *it)
{
    bool priced = false;

    for (int i = 0; i < it->row_count; i++)
        priced = priced || is_priced(&it->rows[i]);
    for (int i = 0; i < it->row_count; i++) {
        struct mw_capacity_row *row = &it->rows[i];
        if (row->fate == MW_CAPACITY_OPEN && is_gone(row))
            row->fate = MW_CAPACITY_GONE;
        else if (row->fate == MW_CAPACITY_OPEN && priced && !is_priced(row))
            row->fate = MW_CAPACITY_UNPRICED;
    }
}

/* --- answers ---------------------------------------------------------------------------------- */

/* The share of it that is left at the slow end of the ranges. */
static double
left(double used, double limit)
{
    return isfinite(limit) && limit > 0 && isfinite(used) ? 1 - used / limit : 1;
}

static double
drives_last_of(const struct mw_result *r)
{
    double seconds = r->drive_life_steps * r->step_time_s[MW_OUTLOOK_TYPICAL];

    return isfinite(seconds) ? seconds : INFINITY;
}

static double
margin_of(const struct mw_capacity_row *row, const struct mw_capacity_limits *limits)
{
    double margin = fmin(left(row->slow.days, limits->days),
                         left(mw_capacity_spent(&row->slow, limits), limits->usd));

    for (int t = 0; t < MW_TIER_COUNT; t++) {
        const struct mw_result_tier *tier = &row->result->tiers[t];
        if (tier->need_bytes > 0)
            margin = fmin(margin, left((double)tier->need_bytes, (double)tier->capacity_bytes));
    }
    return margin;
}

/* Of a run that takes `times` as long as without interruptions, at a price of electricity. */
static struct mw_capacity_bill
bill_of(const struct mw_result *r, double times, double usd_per_kwh)
{
    struct mw_result_owned owned = mw_result_owned_at(&r->owned, times, usd_per_kwh);

    return r->rented ? (struct mw_capacity_bill){r->days * times, r->cost_usd * times,
                                                 r->cost_usd * times}
                     : (struct mw_capacity_bill){r->days * times, mw_result_owned_usd(&owned),
                                                 owned.pay_usd};
}

/* Both bills: at the typical figures, and at the slow end of every range. */
static void
set_bills(struct mw_capacity_row *row, const struct mw_capacity_limits *limits)
{
    const struct mw_result *r = row->result;
    const struct mw_electricity *electricity = &r->owned.electricity;
    const struct mw_interruptions *interruptions =
        row->machine->spot ? &limits->interruptions : NULL;
    double start_s = r->start.known && isfinite(r->start.time_s) ? r->start.time_s : 0;
    double slower = r->step_time_s[MW_OUTLOOK_LOW] / r->step_time_s[MW_OUTLOOK_TYPICAL];

    row->interrupted =
        mw_interrupted_of(interruptions, row->nodes, row->state_bytes, MW_BOOT_S + start_s);
    double at_most =
        mw_interrupted_of(interruptions, row->nodes, row->state_bytes, MW_BOOT_MOST_S + start_s)
            .times;
    row->typical = bill_of(r, row->interrupted.times, electricity->usd_per_kwh);
    row->slow = bill_of(r, at_most * fmax(1, slower), electricity->most);
}

static void
settle(struct mw_capacity_row *row, const struct mw_capacity_limits *limits)
{
    const struct mw_result *r = row->result;

    if (!r->feasible) {
        row->fate = MW_CAPACITY_UNFIT;
        return;
    }
    row->drives_last_s = drives_last_of(r);
    set_bills(row, limits);
    row->margin = margin_of(row, limits);
    row->fate = row->typical.days > limits->days                         ? MW_CAPACITY_LATE
                : mw_capacity_spent(&row->typical, limits) > limits->usd ? MW_CAPACITY_COSTLY
                : row->drives_last_s < limits->drives_last_s             ? MW_CAPACITY_WORN
                                                                         : MW_CAPACITY_WITHIN;
}

struct wave {
    struct mw_capacity_row *rows[WAVE];
    int count;
};

/* Promising candidates first: their answers leave out the most. */
static double
promise(const struct mw_capacity_row *row, const struct mw_capacity *it)
{
    if (it->toward == MW_LIMIT_POWER || it->toward == MW_LIMIT_NODES)
        return mw_capacity_excess(row, &row->least, it);
    return isnan(row->least.usd) ? row->least.days : row->least.days * row->least.usd;
}

/* Those of which nothing is known last. */
static int
by_promise(const void *a, const void *b, void *capacity)
{
    const struct mw_capacity_row *one = *(struct mw_capacity_row *const *)a;
    const struct mw_capacity_row *other = *(struct mw_capacity_row *const *)b;
    double x = promise(one, capacity), y = promise(other, capacity);

    if (isnan(x) != isnan(y))
        return isnan(x) ? 1 : -1;
    return x < y ? -1 : x > y ? 1 : one < other ? -1 : one > other;
}

/* Whether `row` cannot be better than `answered` in days or in cost; where one limit is lifted, not
 * nearer to it. */
static bool
is_beaten(const struct mw_capacity_row *row, const struct mw_capacity_row *answered,
          const struct mw_capacity *it)
{
    if (answered->fate != MW_CAPACITY_WITHIN || it->toward == MW_LIMIT_DRIVES)
        return false;
    if (it->toward != MW_CAPACITY_LIMITS)
        return mw_capacity_excess(row, &row->least, it) >=
               mw_capacity_excess(answered, &answered->typical, it);
    return answered->typical.days <= row->least.days &&
           (isnan(row->least.usd) || answered->typical.usd <= row->least.usd);
}

static void
leave_out_beaten(struct mw_capacity *it, const struct mw_capacity_row *answered)
{
    for (int i = 0; i < it->row_count; i++)
        if (it->rows[i].fate == MW_CAPACITY_OPEN && is_beaten(&it->rows[i], answered, it)) {
            it->rows[i].fate = MW_CAPACITY_BEATEN;
            it->rows[i].beaten_by = answered;
        }
}

static void
answer_wave(struct mw_capacity *it, struct wave *wave)
{
    struct mw_asked asked[WAVE] = {0};

    for (int i = 0; i < wave->count; i++)
        asked[i].question = question_of(wave->rows[i]);
    mw_answer_each(asked, wave->count);
    for (int i = 0; i < wave->count; i++) {
        wave->rows[i]->result = asked[i].result;
        wave->rows[i]->why = asked[i].why;
        if (asked[i].result)
            settle(wave->rows[i], &it->limits);
        else
            wave->rows[i]->fate = MW_CAPACITY_REFUSED;
    }
    for (int i = 0; i < wave->count; i++) {
        leave_out_beaten(it, wave->rows[i]);
        it->answered += wave->rows[i]->result != NULL;
    }
}

static void
answer_all(struct mw_capacity *it)
{
    g_autofree struct mw_capacity_row **order = g_new(struct mw_capacity_row *, it->row_count);
    struct wave wave = {.count = 0};

    for (int i = 0; i < it->row_count; i++)
        order[i] = &it->rows[i];
    g_qsort_with_data(order, it->row_count, sizeof(struct mw_capacity_row *), by_promise, it);
    for (int next = 0; next < it->row_count;) {
        for (wave.count = 0; next < it->row_count && wave.count < WAVE; next++)
            if (order[next]->fate == MW_CAPACITY_OPEN)
                wave.rows[wave.count++] = order[next];
        if (!wave.count)
            break;
        mw_progress("%d of %d candidates: %s", it->answered, it->row_count,
                    mw_profile_name(wave.rows[0]->machine->question.profile));
        answer_wave(it, &wave);
    }
}

/* --- the front and the picks ------------------------------------------------------------------ */

static int
by_days(const void *a, const void *b)
{
    const struct mw_capacity_row *one = *(struct mw_capacity_row *const *)a;
    const struct mw_capacity_row *other = *(struct mw_capacity_row *const *)b;

    if (one->typical.days != other->typical.days)
        return one->typical.days < other->typical.days ? -1 : 1;
    if (one->typical.usd != other->typical.usd)
        return one->typical.usd < other->typical.usd ? -1 : 1;
    return one < other ? -1 : one > other;
}

static void
find_front(struct mw_capacity *it)
{
    double least_usd = INFINITY;
    int within = 0;

    g_free(it->front);
    it->front = g_new(const struct mw_capacity_row *, it->row_count + 1);
    it->front_count = 0;
    for (int i = 0; i < it->row_count; i++)
        if (it->rows[i].fate == MW_CAPACITY_WITHIN)
            it->front[within++] = &it->rows[i];
    qsort(it->front, (size_t)within, sizeof(struct mw_capacity_row *), by_days);
    for (int i = 0; i < within; i++) {
        const struct mw_capacity_row *row = it->front[i];
        double usd = isnan(row->typical.usd) ? 0 : row->typical.usd;
        if (usd < least_usd) {
            it->front[it->front_count++] = row;
            least_usd = usd;
        }
    }
}

static void
pick(struct mw_capacity *it)
{
    if (!it->front_count)
        return;
    it->picks[MW_PICK_FASTEST] = it->front[0];
    it->picks[MW_PICK_CHEAPEST] = it->front[it->front_count - 1];
    it->picks[MW_PICK_SAFEST] = it->front[0];
    for (int i = 1; i < it->front_count; i++)
        if (it->front[i]->margin > it->picks[MW_PICK_SAFEST]->margin)
            it->picks[MW_PICK_SAFEST] = it->front[i];
}

static void
deepen(struct mw_capacity *it)
{
    for (int p = 0; p < MW_PICKS && it->picks[p]; p++) {
        for (int before = 0; before < p && !it->deep[p]; before++)
            if (it->picks[before] == it->picks[p])
                it->deep[p] = it->deep[before];
        if (it->deep[p])
            continue;
        struct mw_question question = question_of(it->picks[p]);
        question.modified = true; /* all other machines are compared already */
        struct mw_answer *answer = mw_answer_best(&question, MW_DEPTH_VERDICT, NULL);
        it->deep[p] = answer ? mw_answer_result(answer) : NULL;
    }
}

/* --- all of it -------------------------------------------------------------------------------- */

void
mw_capacity_add_machines(const struct mw_capacity_machine *machines, int count,
                         const struct mw_capacity_limits *limits, struct mw_capacity *out)
{
    GArray *rows = g_array_new(FALSE, FALSE, sizeof(struct mw_capacity_row));

    for (int m = 0; m < count; m++)
        add_machine(&machines[m], limits, rows);
    out->row_count = (int)rows->len;
    out->rows = (struct mw_capacity_row *)g_array_free(rows, FALSE);
}

/* What an earlier search found is taken as it is. */
static void
judge_row(struct mw_capacity *it, struct mw_capacity_row *row)
{
    row->beaten_by = NULL;
    if (row->machine->why)
        return;
    if (row->nodes > it->limits.nodes_max) {
        row->fate = MW_CAPACITY_NODES;
        return;
    }
    if (row->fate == MW_CAPACITY_REFUSED && row->why)
        return;
    row->fate = MW_CAPACITY_OPEN;
    bound_row(row, &it->limits);
    if (row->fate == MW_CAPACITY_OPEN && row->result)
        settle(row, &it->limits);
}

void
mw_capacity_search(const struct mw_capacity_limits *limits, struct mw_capacity *out)
{
    out->limits = *limits;
    for (int i = 0; i < out->row_count; i++)
        judge_row(out, &out->rows[i]);
    leave_out_unpriced(out);
    for (int i = 0; i < out->row_count; i++)
        if (out->rows[i].result)
            leave_out_beaten(out, &out->rows[i]);
    answer_all(out);
    find_front(out);
}

void
mw_capacity_find(const struct mw_capacity_machine *machines, int count,
                 const struct mw_capacity_limits *limits, struct mw_capacity *out)
{
    *out = (struct mw_capacity){.toward = MW_CAPACITY_LIMITS};
    mw_capacity_add_machines(machines, count, limits, out);
    mw_capacity_search(limits, out);
    if (!out->front_count) {
        mw_capacity_find_nearest(machines, count, limits, out);
        return;
    }
    pick(out);
    deepen(out);
}

void
mw_capacity_clear(struct mw_capacity *it)
{
    for (int p = 0; p < MW_PICKS; p++) {
        bool shared = false;
        for (int before = 0; before < p; before++)
            shared = shared || it->deep[before] == it->deep[p];
        if (!shared)
            mw_result_free(it->deep[p]);
    }
    for (int i = 0; i < it->row_count; i++) {
        g_free(it->rows[i].why);
        mw_result_free(it->rows[i].result);
    }
    g_free(it->rows);
    g_free(it->front);
    *it = (struct mw_capacity){0};
}
