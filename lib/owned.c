/* A question about what to buy for one machine, and what parts cost. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "lib/machines.h"
#include "lib/prices.h"

/* The first of a name counts: the user's go before those that are known. */
static void
add_parts(const struct memwall_question *question, const GArray *prices, const char *path,
          const char *region, struct mw_lib_owned *out)
{
    for (guint i = 0; i < prices->len; i++) {
        const struct mw_lib_price *price = &g_array_index(prices, struct mw_lib_price, i);
        const char *part = price->profile + strlen(MW_PART_PREFIX);
        bool known = !mw_lib_price_is_part(price) || !(price->usd_to_buy > 0) ||
                     mw_lib_price_of(prices, price->profile, region, "buy") != price ||
                     (price->condition == MW_CONDITION_DISCONTINUED && !question->include) ||
                     !mw_lib_price_is_known(price);
        for (int p = 0; p < out->count && !known; p++)
            known = !strcmp(out->prices[p].part, part);
        if (known)
            continue;
        out->prices = g_renew(struct mw_part_price, out->prices, out->count + 1);
        out->prices[out->count++] = (struct mw_part_price){
            .part = g_strdup(part),
            .usd = price->usd_to_buy,
            .least = price->usd_to_buy_least > 0 ? price->usd_to_buy_least : price->usd_to_buy,
            .most = price->usd_to_buy_most > 0 ? price->usd_to_buy_most : price->usd_to_buy,
            .from = mw_lib_price_source(price, path)};
    }
}

/* What compares machines has no place where one is given. */
static bool
check_owned(const struct memwall_question *question, GError **error)
{
    const char *other = question->machines    ? "machines"
                        : question->over      ? "over"
                        : question->budget_of ? "budget-of"
                                              : NULL;

    for (int l = 0; l < MW_LIB_LIMITS && !other; l++)
        if (l != MW_LIB_DEADLINE && l != MW_LIB_BUDGET && question->limits[l])
            other = mw_lib_limits[l].name;

    if (!g_strcmp0(question->pay, "spot"))
        return mw_refuse(error,
                         "{pay=spot}: is of the comparison of machines; with {hardware=%s} "
                         "must be rent, buy or any",
                         question->hardware);
    return !other || mw_refuse(error,
                               "{%s}: is of the comparison of machines; {hardware=%s} asks what to "
                               "buy for that machine: leave one of them out",
                               other, question->hardware);
}

static bool
read_part_prices(const struct memwall_question *question, struct mw_lib_owned *out, GError **error)
{
    struct mw_profile *profile = out->question.profile;
    g_autoptr(GArray) prices =
        question->prices ? mw_lib_prices_read(question->prices, error) : NULL;
    g_autoptr(GArray) known = question->prices && !prices ? NULL : mw_lib_prices_known(error);

    if (!known || !mw_lib_take_price(question, prices, profile, &out->price_from, error))
        return false;
    out->note = prices ? mw_lib_prices_unknown(prices, question->prices) : NULL;
    if (!mw_lib_drive_prices(prices, question->prices, question->region, &out->question, error))
        return false;
    if (prices)
        add_parts(question, prices, question->prices, question->region, out);
    add_parts(question, known, MW_LIB_PARTS_FILE, NULL, out);
    return mw_lib_take_pay(question->pay, profile, error);
}

bool
mw_lib_read_owned(const struct memwall_question *question, struct mw_lib_owned *out,
                  const char **blamed, GError **error)
{
    *out = (struct mw_lib_owned){.days = mw_lib_limit_of(question, MW_LIB_DEADLINE, INFINITY),
                                 .usd = mw_lib_limit_of(question, MW_LIB_BUDGET, INFINITY)};
    struct mw_question *on = &out->question;
    *on = (struct mw_question){.strategy_count = 1, .ends = true};
    *blamed = "model";
    if (!mw_lib_model(question, &on->model, error))
        return false;
    *blamed = NULL;
    if (!check_owned(question, error) || !mw_lib_check_training(question, error))
        return false;
    *blamed = "hardware";
    if (!mw_lib_profile(question, on, error))
        return false;
    *blamed = "prices";
    if (!read_part_prices(question, out, error))
        return false;
    *blamed = NULL;
    if (!mw_lib_settings(question, on, error))
        return false;
    *blamed = "software";
    return mw_lib_software(question, on, NULL, error);
}

void
mw_lib_owned_clear(struct mw_lib_owned *owned)
{
    mw_lib_clear(&owned->question);
    g_free(owned->price_from);
    g_free(owned->note);
    for (int i = 0; i < owned->count; i++) {
        g_free(owned->prices[i].part);
        g_free(owned->prices[i].from);
    }
    g_free(owned->prices);
    *owned = (struct mw_lib_owned){0};
}
