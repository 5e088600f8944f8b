#include "study/purchases.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/progress.h"
#include "hardware/priced.h"
#include "study/answers.h"
#include "study/improvements.h"
#include "study/set_result.h"

static bool
fits(const struct mw_purchase *purchase)
{
    return purchase->result && purchase->result->feasible;
}

bool
mw_purchase_gains(const struct mw_purchase *purchase)
{
    return fits(purchase) && purchase->times > MW_WORTH_MONEY;
}

bool
mw_purchases_fit(const struct mw_purchases *it)
{
    bool any = fits(&it->now) || it->pair_count > 0;

    for (int i = 0; i < it->step_count && !any; i++)
        any = fits(&it->steps[i]);
    return any;
}

/* --- what it brings --------------------------------------------------------------------------- */

static void
settle(struct mw_purchase *it)
{
    const struct mw_hardware *hw = &it->machine.question.hardware[MW_OUTLOOK_TYPICAL];
    const struct mw_result *r = it->result;

    it->days = it->cost_usd = it->drives_last_s = it->usd_per_hour = NAN;
    it->tokens_per_s_per_1000_usd = it->tokens_per_usd = NAN;
    if (mw_price_kind(hw) == MW_PRICE_RENT)
        it->usd_per_hour = hw->price_usd_per_hour * (double)it->machine.question.settings.nodes;
    if (!fits(it))
        return;
    it->days = r->days;
    it->cost_usd = r->cost_usd;
    if (isfinite(it->usd_per_hour))
        it->tokens_per_usd = r->tokens_per_s * 3600 / it->usd_per_hour;
    it->drives_last_s = r->drive_life_steps * r->step_time_s[MW_OUTLOOK_TYPICAL];
}

static void
compare_with(const struct mw_purchase *now, struct mw_purchase *it)
{
    settle(it);
    if (!fits(it)) {
        it->times = 0;
        return;
    }
    double before = fits(now) ? now->result->tokens_per_s : 0;
    double gained = it->result->tokens_per_s - before;
    it->times = it->result->tokens_per_s / before;
    if (isnan(it->usd_per_hour) && it->machine.usd > 0)
        it->tokens_per_s_per_1000_usd = gained / it->machine.usd * 1000;
}

double
mw_purchase_worth(const struct mw_purchase *it)
{
    return isnan(it->tokens_per_usd) ? it->tokens_per_s_per_1000_usd : it->tokens_per_usd;
}

/* What gains before what does not; what has a price before what has none. */
static int
by_worth(const void *a, const void *b)
{
    const struct mw_purchase *x = a, *y = b;
    double p = mw_purchase_worth(x), q = mw_purchase_worth(y);

    if (mw_purchase_gains(x) != mw_purchase_gains(y))
        return mw_purchase_gains(x) ? -1 : 1;
    if (isnan(p) != isnan(q))
        return isnan(p) ? 1 : -1;
    p = isnan(p) ? x->times : p;
    q = isnan(q) ? y->times : q;
    return p > q ? -1 : p < q ? 1 : strcmp(x->machine.what->str, y->machine.what->str);
}

/* --- steps ------------------------------------------------------------------------------------ */

static bool
make_both(const struct mw_question *question, const struct mw_step *first,
          const struct mw_step *second, const struct mw_part_price *prices, int count,
          struct mw_purchase *out)
{
    *out = (struct mw_purchase){0};
    mw_stepped_init(question, &out->machine);
    if ((!first || mw_step_make(first, prices, count, &out->machine)) &&
        (!second || mw_step_make(second, prices, count, &out->machine))) {
        mw_stepped_read(&out->machine);
        return true;
    }
    mw_stepped_clear(&out->machine);
    return false;
}

static void
clear_purchase(struct mw_purchase *it)
{
    mw_stepped_clear(&it->machine);
    mw_result_free(it->result);
    g_free(it->why);
}

/* Asks about all of them at once. */
static void
answer_all(GArray *purchases)
{
    g_autofree struct mw_asked *asked = g_new0(struct mw_asked, purchases->len);

    for (guint i = 0; i < purchases->len; i++) {
        struct mw_purchase *it = &g_array_index(purchases, struct mw_purchase, i);
        it->machine.question.profile = it->machine.profile;
        asked[i].question = it->machine.question;
    }
    mw_answer_each(asked, (int)purchases->len);
    for (guint i = 0; i < purchases->len; i++) {
        struct mw_purchase *it = &g_array_index(purchases, struct mw_purchase, i);
        it->result = asked[i].result;
        it->why = asked[i].why;
    }
}

static struct mw_purchase *
sorted(GArray *purchases, const struct mw_purchase *now, int *count)
{
    for (guint i = 0; i < purchases->len; i++)
        compare_with(now, &g_array_index(purchases, struct mw_purchase, i));
    g_array_sort(purchases, by_worth);
    *count = (int)purchases->len;
    return (struct mw_purchase *)g_array_free(purchases, FALSE);
}

struct search {
    const struct mw_question *question;
    const struct mw_part_price *prices;
    int price_count;
    GArray *steps; /* of struct mw_step */
    bool *gains;   /* [steps->len] alone */
};

/* Kinds of which a second one can follow the first. */
static bool
may_repeat(enum mw_step_kind kind)
{
    return kind == MW_STEP_MEMORY || kind == MW_STEP_DRIVE || kind == MW_STEP_CARD;
}

/* Of two steps neither of which gains alone.  A faster network for a single node, and two cards in
 * place of one, are none. */
static bool
is_pair(const struct search *search, guint a, guint b)
{
    const struct mw_step *first = &g_array_index(search->steps, struct mw_step, a);
    const struct mw_step *second = &g_array_index(search->steps, struct mw_step, b);

    if (search->gains[a] || search->gains[b] || first->kind == MW_STEP_INSTANCE)
        return false;
    return first->kind != second->kind || (a == b && may_repeat(first->kind));
}

static GArray *
pairs_of(const struct search *search)
{
    GArray *pairs = g_array_new(FALSE, FALSE, sizeof(struct mw_purchase));
    struct mw_purchase one;

    for (guint a = 0; a < search->steps->len; a++)
        for (guint b = a; b < search->steps->len; b++)
            if (is_pair(search, a, b) &&
                make_both(search->question, &g_array_index(search->steps, struct mw_step, a),
                          &g_array_index(search->steps, struct mw_step, b), search->prices,
                          search->price_count, &one))
                g_array_append_val(pairs, one);
    return pairs;
}

/* Keeps the pairs that gain. */
static void
find_pairs(const struct search *search, struct mw_purchases *out)
{
    GArray *pairs = pairs_of(search);

    out->pairs_tried = (int)pairs->len;
    mw_progress("%u pairs of steps", pairs->len);
    answer_all(pairs);
    out->pairs = sorted(pairs, &out->now, &out->pair_count);
    while (out->pair_count && !mw_purchase_gains(&out->pairs[out->pair_count - 1]))
        clear_purchase(&out->pairs[--out->pair_count]);
}

/* Steps that this machine cannot make are taken off the list. */
static GArray *
singles_of(struct search *search)
{
    GArray *singles = g_array_new(FALSE, FALSE, sizeof(struct mw_purchase));
    struct mw_purchase one;

    for (guint i = 0; i < search->steps->len;) {
        if (make_both(search->question, &g_array_index(search->steps, struct mw_step, i), NULL,
                      search->prices, search->price_count, &one)) {
            g_array_append_val(singles, one);
            i++;
        } else {
            g_array_remove_index(search->steps, i);
        }
    }
    return singles;
}

static void
note_gains(struct search *search, const struct mw_purchase *now, GArray *singles)
{
    search->gains = g_new(bool, singles->len + 1);
    for (guint i = 0; i < singles->len; i++) {
        struct mw_purchase *it = &g_array_index(singles, struct mw_purchase, i);
        compare_with(now, it);
        search->gains[i] = mw_purchase_gains(it);
    }
}

static bool
answer_now(const struct mw_question *question, struct mw_purchases *out, GError **error)
{
    GArray *one = g_array_new(FALSE, FALSE, sizeof(struct mw_purchase));

    make_both(question, NULL, NULL, NULL, 0, &out->now);
    g_array_append_val(one, out->now);
    answer_all(one);
    out->now = g_array_index(one, struct mw_purchase, 0);
    g_array_free(one, TRUE);
    settle(&out->now);
    out->now.times = fits(&out->now) ? 1 : 0;
    out->rented = isfinite(out->now.usd_per_hour);
    return out->now.result ||
           (g_set_error_literal(error, MW_ERROR, MW_ERROR_INVALID, out->now.why), false);
}

bool
mw_purchases_find(const struct mw_question *question, const struct mw_part_price *prices,
                  int price_count, struct mw_purchases *out, GError **error)
{
    struct search search = {question, prices, price_count, NULL, NULL};

    *out = (struct mw_purchases){.days = INFINITY, .usd = INFINITY};
    if (!answer_now(question, out, error))
        return false;
    search.steps = mw_steps_of(question, prices, price_count);
    GArray *singles = singles_of(&search);
    mw_progress("%u steps", singles->len);
    answer_all(singles);
    note_gains(&search, &out->now, singles);
    out->steps = sorted(singles, &out->now, &out->step_count);
    find_pairs(&search, out);
    g_array_unref(search.steps);
    g_free(search.gains);
    return true;
}

void
mw_purchases_clear(struct mw_purchases *it)
{
    clear_purchase(&it->now);
    for (int i = 0; i < it->step_count; i++)
        clear_purchase(&it->steps[i]);
    for (int i = 0; i < it->pair_count; i++)
        clear_purchase(&it->pairs[i]);
    g_free(it->steps);
    g_free(it->pairs);
    *it = (struct mw_purchases){0};
}
