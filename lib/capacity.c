/* A question about many machines: which of them, and within what limits. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "lib/machines.h"
#include "lib/prices.h"
#include "lib/question.h"
#include "lib/space.h"
#include "study/set_result.h"

#define NODES_MOST 100000
#define NODES_DEFAULT 8
#define DAYS_DEFAULT 365 /* who waits longer, asks for it */

const struct mw_number mw_lib_limits[MW_LIB_LIMITS] = {
    [MW_LIB_MAX_NODES] = {.name = "max-nodes", .min = 1, .max = NODES_MOST, .whole = true},
    [MW_LIB_DEADLINE] = {.name = "deadline", .min = 1e-3, .max = 1e5, .noun = "number of days"},
    [MW_LIB_BUDGET] =
        {.name = "budget", .min = 1e-2, .max = 1e12, .counts = true, .noun = "number of USD"},
    [MW_LIB_MAX_POWER] = {.name = "max-power", .min = 1e-2, .max = 1e7, .noun = "number of kW"},
    [MW_LIB_MIN_DRIVE_LIFE] = {.name = "min-drive-life",
                               .min = 1e-3,
                               .max = 1e5,
                               .noun = "number of days"},
    [MW_LIB_INTERRUPTIONS] = {.name = "interruptions",
                              .min = 0,
                              .max = 1000,
                              .noun = "number a day, of a node"},
    [MW_LIB_CHECKPOINT_EVERY] = {.name = "checkpoint-every",
                                 .min = 1e-2,
                                 .max = 1e5,
                                 .noun = "number of minutes"},
};

/* --- which machines --------------------------------------------------------------------------- */

static bool
is_pattern(const char *name)
{
    return strpbrk(name, "*?") != NULL;
}

static void
add_once(GPtrArray *names, const char *name)
{
    for (guint i = 0; i < names->len; i++)
        if (!strcmp(names->pdata[i], name))
            return;
    g_ptr_array_add(names, g_strdup(name));
}

/* All profiles that the pattern matches. */
static bool
add_matching(GPtrArray *names, const char *pattern, GError **error)
{
    g_auto(GStrv) all = mw_hwprofile_list();
    bool any = false;

    for (char **name = all; *name; name++)
        if (g_pattern_match_simple(pattern, *name)) {
            add_once(names, *name);
            any = true;
        }
    return any || mw_refuse(error,
                            "{machines=%s}: no profile has such a name; `memwall list hwprofiles` "
                            "names them",
                            pattern);
}

/* All but those that only simulations are of, and those that are made up.  Those that nobody rents
 * or sells, such as papers', have no price, and so no place where cost is compared. */
static bool
add_any(GPtrArray *names)
{
    g_auto(GStrv) all = mw_hwprofile_list();
    g_autoptr(GPtrArray) profiles = mw_profile_load_all(&mw_hwprofile_kind, all);

    for (guint i = 0; i < profiles->len; i++)
        if (!mw_profile_gives(profiles->pdata[i], "profile", "only_simulated") &&
            !mw_profile_gives(profiles->pdata[i], "profile", "made_up"))
            add_once(names, mw_profile_name(profiles->pdata[i]));
    return true;
}

/* Those that the file of prices has in this region, and that are known here. */
static bool
add_priced(GPtrArray *names, const GArray *prices, const char *region, GError **error)
{
    guint before = names->len;
    const char *unknown = NULL;

    if (!prices)
        return mw_refuse(error, "{machines=priced}: needs a file of prices, which {prices} names");
    for (guint i = 0; i < prices->len; i++) {
        const struct mw_lib_price *price = &g_array_index(prices, struct mw_lib_price, i);
        if (mw_lib_price_is_part(price) || !mw_lib_price_of(prices, price->profile, region, NULL))
            continue;
        if (mw_lib_price_is_known(price))
            add_once(names, price->profile);
        else
            unknown = price->profile;
    }
    if (names->len > before)
        return true;
    return unknown ? mw_refuse(error,
                               "{machines=priced}: the file of prices has no machine that is known "
                               "here: %s: no such profile; `memwall list hwprofiles` names them",
                               unknown)
           : region
               ? mw_refuse(error, "{region=%s}: the file of prices has no machine in it", region)
               : mw_refuse(error, "{machines=priced}: the file of prices has parts alone");
}

static GPtrArray *
machine_names(const char *text, const GArray *prices, const char *region, GError **error)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    g_auto(GStrv) words = g_strsplit(text, ",", -1);
    bool good = true;

    for (char **word = words; good && *word; word++) {
        if (!strcmp(*word, "any"))
            good = add_any(names);
        else if (!strcmp(*word, "priced"))
            good = add_priced(names, prices, region, error);
        else if (is_pattern(*word))
            good = add_matching(names, *word, error);
        else
            add_once(names, *word);
    }
    if (good && !names->len)
        good = mw_refuse(error, "{machines=%s}: must name at least one machine", text);
    return good ? g_steal_pointer(&names) : NULL;
}

/* --- what they cost --------------------------------------------------------------------------- */

static bool
set_key(struct mw_profile *profile, const char *key, double value, GError **error)
{
    char number[G_ASCII_DTOSTR_BUF_SIZE];
    g_autofree char *assignment =
        g_strdup_printf("node.%s=%s", key, g_ascii_dtostr(number, sizeof number, value));

    return mw_profile_set(profile, assignment, error);
}

/* Leaves out a price that nobody asks for. */
static bool
forget_price(struct mw_profile *profile, const char *key, GError **error)
{
    return !mw_profile_gives(profile, "node", key) || set_key(profile, key, 0, error);
}

/* The line of the file that counts for a machine; NULL: it has none. */
static const struct mw_lib_price *
price_of(const struct memwall_question *question, const GArray *prices,
         const struct mw_profile *profile)
{
    return prices
               ? mw_lib_price_of(prices, mw_profile_name(profile), question->region, question->pay)
               : NULL;
}

/* A line of the file says all that is known of the price; *from: who says so. */
bool
mw_lib_take_price(const struct memwall_question *question, const GArray *prices,
                  struct mw_profile *profile, char **from, GError **error)
{
    const struct mw_lib_price *price = price_of(question, prices, profile);

    if (!price)
        return true;
    *from = mw_lib_price_source(price, question->prices);
    if (!forget_price(profile, "price_usd_per_hour", error) ||
        !forget_price(profile, "spot_price_usd_per_hour", error) ||
        !forget_price(profile, "price_usd", error))
        return false;
    return (!(price->usd_per_hour > 0) ||
            set_key(profile, "price_usd_per_hour", price->usd_per_hour, error)) &&
           (!(price->usd_per_hour_spot > 0) ||
            set_key(profile, "spot_price_usd_per_hour", price->usd_per_hour_spot, error)) &&
           (!(price->usd_to_buy > 0) || set_key(profile, "price_usd", price->usd_to_buy, error)) &&
           (!price->available || set_key(profile, "nodes_max", (double)price->available, error));
}

/* The price of a machine that may be taken back is its rent then; without one it has no price. */
static bool
take_spot(struct mw_profile *profile, GError **error)
{
    double usd = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL).spot_price_usd_per_hour;

    return forget_price(profile, "price_usd", error) &&
           (usd > 0 ? set_key(profile, "price_usd_per_hour", usd, error)
                    : forget_price(profile, "price_usd_per_hour", error));
}

static void
note_spot(struct mw_capacity_machine *machine)
{
    const char *source = NULL;

    mw_profile_provenance(machine->question.profile, "node", "spot_price_usd_per_hour", &source);
    if (machine->spot && !machine->price_from)
        machine->price_from = g_strdup(source);
}

/* Only one of the ways to pay. */
bool
mw_lib_take_pay(const char *pay, struct mw_profile *profile, GError **error)
{
    if (!g_strcmp0(pay, "spot"))
        return take_spot(profile, error);
    if (!g_strcmp0(pay, "rent"))
        return forget_price(profile, "price_usd", error);
    return g_strcmp0(pay, "buy") || forget_price(profile, "price_usd_per_hour", error);
}

/* Whether the price to buy it is one at which nobody sells it any more.  A price that the user
 * gives is one at which it can be had, unless the user says otherwise. */
static bool
is_gone(const struct memwall_question *question, const GArray *prices,
        const struct mw_profile *profile)
{
    const struct mw_lib_price *price = price_of(question, prices, profile);

    if (question->include)
        return false;
    return price ? price->condition == MW_CONDITION_DISCONTINUED
                 : mw_hwprofile_is_discontinued(profile);
}

/* --- the question on each of them ------------------------------------------------------------- */

static bool
read_on(const struct memwall_question *question, const struct mw_model *model, char *name,
        const GArray *prices, struct mw_capacity_machine *out, GError **error)
{
    struct memwall_question one = *question;
    struct mw_question *on = &out->question;

    one.hardware = name;
    out->spot = !g_strcmp0(question->pay, "spot");
    *on = (struct mw_question){.model = *model,
                               .model_called = question->model,
                               .hardware_called = g_intern_string(name),
                               .strategy_count = 1,
                               .ends = true};
    if (!mw_lib_profile(&one, on, error))
        return false;
    out->gone = is_gone(question, prices, on->profile);
    if (!mw_lib_take_price(question, prices, on->profile, &out->price_from, error))
        return false;
    note_spot(out);
    if (!mw_lib_drive_prices(prices, question->prices, question->region, on, error))
        return false;
    return mw_lib_take_pay(question->pay, on->profile, error) && mw_lib_settings(&one, on, error) &&
           mw_lib_software(&one, on, NULL, error);
}

/* A name that is typed must be one; a machine that the settings do not suit is a row of the
 * answer. */
static bool
read_each(const struct memwall_question *question, const struct mw_model *model, const char *over,
          GPtrArray *names, const GArray *prices, struct mw_lib_machines *out, GError **error)
{
    out->all = g_renew(struct mw_capacity_machine, out->all, (guint)out->count + names->len);
    for (guint i = 0; i < names->len; i++) {
        g_autoptr(GError) refused = NULL;
        struct mw_capacity_machine *one = &out->all[out->count++];
        *one = (struct mw_capacity_machine){.over = g_strdup(over)};
        if (read_on(question, model, names->pdata[i], prices, one, &refused))
            continue;
        if (!one->question.profile || !one->question.hardware[MW_OUTLOOK_TYPICAL].gpus_per_node) {
            g_propagate_error(error, g_steal_pointer(&refused));
            return false;
        }
        one->why = g_strdup(refused->message);
    }
    return true;
}

/* --- settings that vary ----------------------------------------------------------------------- */

#define POINTS_MOST 1000

/* Those of a plan alone: of machines, nodes and training the search has options of its own. */
static bool
check_over(const struct mw_space *space, GError **error)
{
    static const char *const own[] = {"nodes", "gpus", "tokens", "strategy", NULL};

    for (size_t c = 0; c < mw_space_columns(space); c++) {
        const char *name = mw_space_name(space, c);
        if (!mw_setting_find(name) || g_strv_contains(own, name))
            return mw_refuse(error,
                             "{over}: %s: must be a setting of the plan, such as tp, pp, tiles, "
                             "prefetch or grad-accum",
                             name);
    }
    return mw_space_points(space) <= POINTS_MOST ||
           mw_refuse(error, "{over}: has %" G_GINT64_FORMAT " points, must have at most %d",
                     mw_space_points(space), POINTS_MOST);
}

/* "tp=1,2 prefetch=1,8"; NULL with *error. */
static struct mw_space *
space_of(const char *text, GError **error)
{
    struct mw_space *space = mw_space_new();
    g_auto(GStrv) axes = g_strsplit(text, " ", -1);
    bool good = true;

    for (char **axis = axes; *axis && good; axis++)
        good = !**axis || mw_space_add(space, *axis, error);
    if (good && !mw_space_points(space))
        good = mw_refuse(error, "{over}: must be KEY=VALUE,VALUE... or KEY=LO..HI:STEP");
    if (good && check_over(space, error))
        return space;
    mw_space_free(space);
    return NULL;
}

static char *
point_text(const struct mw_space *space, int64_t point)
{
    GString *text = g_string_new(NULL);

    for (size_t c = 0; c < mw_space_columns(space); c++)
        g_string_append_printf(text, "%s{%s=%s}", text->len ? " " : "", mw_space_name(space, c),
                               mw_space_value(space, point, c));
    return g_string_free(text, FALSE);
}

static void
free_question(gpointer question)
{
    memwall_question_free(question);
}

static bool
read_point(const struct memwall_question *question, const struct mw_space *space, int64_t point,
           const struct mw_model *model, GPtrArray *names, const GArray *prices,
           struct mw_lib_machines *out, GError **error)
{
    struct memwall_question *one = mw_lib_copy(question);
    struct memwall_error *refused = NULL;
    g_autofree char *over = point_text(space, point);

    g_ptr_array_add(out->points, one);
    if (mw_space_set(space, point, question, one, &refused))
        return read_each(one, model, over, names, prices, out, error);
    mw_refuse(error, "%s", memwall_error_message(refused));
    memwall_error_free(refused);
    return false;
}

/* Every machine with every point. */
static bool
read_points(const struct memwall_question *question, const struct mw_model *model, GPtrArray *names,
            const GArray *prices, struct mw_lib_machines *out, GError **error)
{
    struct mw_space *space;
    bool good = true;

    if (!question->over)
        return read_each(question, model, NULL, names, prices, out, error);
    space = space_of(question->over, error);
    if (!space)
        return false;
    out->points = g_ptr_array_new_with_free_func(free_question);
    for (int64_t p = 0; p < mw_space_points(space) && good; p++)
        good = read_point(question, space, p, model, names, prices, out, error);
    mw_space_free(space);
    return good;
}

double
mw_lib_limit_of(const struct memwall_question *question, enum mw_lib_limit limit, double otherwise)
{
    double value = otherwise;

    if (question->limits[limit])
        mw_number_read(&mw_lib_limits[limit], question->limits[limit], &value, NULL);
    return value;
}

/* What is said of machines that may be taken back is of no others. */
static bool
check_spot(const struct memwall_question *question, GError **error)
{
    bool spot = !g_strcmp0(question->pay, "spot");

    for (int l = MW_LIB_INTERRUPTIONS; l <= MW_LIB_CHECKPOINT_EVERY && !spot; l++)
        if (question->limits[l])
            return mw_refuse(error,
                             "{%s=%s}: is of machines that may be taken back: give {pay=spot} too",
                             mw_lib_limits[l].name, question->limits[l]);
    return true;
}

bool
mw_lib_check_training(const struct memwall_question *question, GError **error)
{
    struct mw_question trial = {.strategy_count = 1};
    bool good = mw_lib_settings(question, &trial, error);

    mw_deepspeed_said_clear(&trial.deepspeed);
    if (good && trial.settings.tokens <= 0)
        return mw_refuse(error, "{tokens}: is missing; how many to train on decides days and cost");
    if (good && (trial.settings.serve || trial.settings.objective != MW_OBJECTIVE_CAUSAL))
        return mw_refuse(error, "{machines}: are compared for training by next tokens alone; leave "
                                "out {serve} and {objective}");
    return good;
}

/* Who asks for one way to pay, compares costs. */
static bool
check_priced(const struct memwall_question *question, const struct mw_lib_machines *machines,
             GError **error)
{
    const char *pay = question->pay ? question->pay : "any";
    const char *column = !strcmp(pay, "spot")   ? "usd_per_hour_spot"
                         : !strcmp(pay, "rent") ? "usd_per_hour"
                                                : "usd_to_buy";
    bool priced = !strcmp(pay, "any");

    for (int i = 0; i < machines->count && !priced; i++)
        priced = machines->all[i].why || mw_usd_per_day(&machines->all[i].question, 1) > 0;
    return priced ||
           mw_refuse(error,
                     "{pay=%s}: none of the machines has such a price; a line of a file of prices, "
                     "which {prices} names, gives one (%s)",
                     pay, column);
}

bool
mw_lib_read_machines(const struct memwall_question *question, struct mw_lib_machines *out,
                     const char **blamed, GError **error)
{
    struct mw_model model;

    *out = (struct mw_lib_machines){
        .limits = {.days = mw_lib_limit_of(question, MW_LIB_DEADLINE, DAYS_DEFAULT),
                   .usd = mw_lib_limit_of(question, MW_LIB_BUDGET, INFINITY),
                   .budget =
                       g_strcmp0(question->budget_of, "share") ? MW_BUDGET_CASH : MW_BUDGET_SHARE,
                   .power_w = 1000 * mw_lib_limit_of(question, MW_LIB_MAX_POWER, INFINITY),
                   .nodes_max = (int64_t)mw_lib_limit_of(question, MW_LIB_MAX_NODES, NODES_DEFAULT),
                   .drives_last_s = 86400 * mw_lib_limit_of(question, MW_LIB_MIN_DRIVE_LIFE, 0),
                   .interruptions = {
                       .per_node_day =
                           mw_lib_limit_of(question, MW_LIB_INTERRUPTIONS, MW_INTERRUPTIONS_A_DAY),
                       .every_s = 60 * mw_lib_limit_of(question, MW_LIB_CHECKPOINT_EVERY, 0)}}};
    *blamed = "model";
    if (!mw_lib_model(question, &model, error))
        return false;
    *blamed = NULL;
    if (!mw_lib_check_training(question, error) || !check_spot(question, error))
        return false;
    *blamed = "prices";
    g_autoptr(GArray) prices =
        question->prices ? mw_lib_prices_read(question->prices, error) : NULL;
    if (question->prices && !prices)
        return false;
    out->note = prices ? mw_lib_prices_unknown(prices, question->prices) : NULL;
    *blamed = "machines";
    g_autoptr(GPtrArray) names = machine_names(question->machines ? question->machines : "any",
                                               prices, question->region, error);
    if (!names || !read_points(question, &model, names, prices, out, error))
        return false;
    *blamed = "pay";
    return check_priced(question, out, error);
}

void
mw_lib_machines_clear(struct mw_lib_machines *machines)
{
    for (int i = 0; i < machines->count; i++) {
        mw_lib_clear(&machines->all[i].question);
        g_free(machines->all[i].why);
        g_free(machines->all[i].price_from);
        g_free(machines->all[i].over);
    }
    g_free(machines->all);
    g_free(machines->note);
    if (machines->points)
        g_ptr_array_unref(machines->points);
    *machines = (struct mw_lib_machines){0};
}
