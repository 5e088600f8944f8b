#include "study/steps.h"

#include <math.h>
#include <string.h>

#include "base/number.h"
#include "base/spell.h"
#include "hardware/composed.h"
#include "hardware/priced.h"
#include "hardware/scale.h"
#include "study/steps_internal.h"

/* Times that a drive may be written: consumer drives are rated at 600, those of data centers at
 * 1825 (one write a day for five years) and more. */
#define WRITES_OF_CONSUMERS 1000
/* Nominal rates of network adapters. */
static const double networks_gbit_per_s[] = {10, 25, 50, 100, 200, 400, 800, 1600, 3200};
#define FIRST_NETWORK 100
/* A hop, typically: docs/MODEL.md 13.10. */
#define NETWORK_LATENCY "network.latency_us=11"
#define FASTER 1.5 /* than the present network, to be another one */

/* --- names and prices of parts ---------------------------------------------------------------- */

bool
mw_part_name_check(const char *name)
{
    const char *gbits = after(name, "network:"), *end;
    double rate;

    if (!strcmp(name, "memory") || !strcmp(name, "drive") || !strcmp(name, "drive:datacenter") ||
        after(name, "card:"))
        return true;
    end = gbits ? mw_number_scan(gbits, &rate) : NULL;
    return end && !*end && rate > 0;
}

const struct mw_part_price *
mw_part_price_of(const char *part, const struct mw_part_price *prices, int count)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(prices[i].part, part))
            return &prices[i];
    return NULL;
}

void
mw_stepped_append(GString *text, const char *separator, const char *more)
{
    g_string_append_printf(text, "%s%s", text->len ? separator : "", more);
}

static void
lack(struct mw_stepped *machine, const char *what)
{
    mw_stepped_append(machine->unpriced, " and ", what);
    machine->usd = machine->least = machine->most = NAN;
}

#define SOURCES_BETWEEN "; "

/* Each source once. */
static void
note_source(GString *sources, const char *from)
{
    g_autofree char *all = g_strconcat(SOURCES_BETWEEN, sources->str, SOURCES_BETWEEN, NULL);
    g_autofree char *one = g_strconcat(SOURCES_BETWEEN, from, SOURCES_BETWEEN, NULL);

    if (!strstr(all, one))
        mw_stepped_append(sources, SOURCES_BETWEEN, from);
}

static void
pay(struct mw_stepped *machine, double usd, double least, double most, const char *from)
{
    machine->usd += usd;
    machine->least += least;
    machine->most += most;
    if (from)
        note_source(machine->price_from, from);
}

/* So many of a part for each of `nodes`. */
void
mw_stepped_buy(struct mw_stepped *machine, const char *part, double amount, int64_t nodes,
               const struct mw_part_price *prices, int count)
{
    const struct mw_part_price *price = mw_part_price_of(part, prices, count);
    double all = amount * (double)nodes;

    if (price) {
        pay(machine, all * price->usd, all * price->least, all * price->most, price->from);
        return;
    }
    g_autofree char *name = g_strconcat(MW_PART_PREFIX, part, NULL);
    lack(machine, name);
}

/* --- the machine ------------------------------------------------------------------------------ */

int64_t
mw_stepped_drives(const struct mw_hardware *hw)
{
    return hw->nvme_capacity_bytes > 0 ? MAX(1, hw->nvme_drives) : 0;
}

/* The word that -H takes. */
const char *
mw_stepped_word(const struct mw_profile *profile)
{
    return mw_machine_is_composed(mw_profile_name(profile)) ? mw_profile_name(profile)
                                                            : mw_profile_called(profile);
}

void
mw_stepped_init(const struct mw_question *question, struct mw_stepped *out)
{
    *out = (struct mw_stepped){.question = *question,
                               .profile = mw_profile_copy(question->profile),
                               .sets = g_string_new(NULL),
                               .what = g_string_new(NULL),
                               .price_from = g_string_new(NULL),
                               .unpriced = g_string_new(NULL)};
    out->question.profile = out->profile;
}

void
mw_stepped_read(struct mw_stepped *machine)
{
    struct mw_question *q = &machine->question;

    for (int outlook = 0; outlook < MW_OUTLOOK_COUNT; outlook++)
        q->hardware[outlook] = mw_machine_read(
            machine->profile, q->software, q->uses,
            q->outlook == MW_OUTLOOK_TYPICAL ? (enum mw_outlook)outlook : q->outlook);
}

char *
mw_stepped_options(const struct mw_stepped *machine)
{
    const struct mw_question *q = &machine->question;
    GString *text = g_string_new(NULL);

    mw_spelled_append(text, "{hardware=%s}", mw_stepped_word(machine->profile));
    if (q->settings.nodes > 1)
        mw_spelled_append(text, " {nodes=%" G_GINT64_FORMAT "}", q->settings.nodes);
    if (machine->sets->len)
        g_string_append_printf(text, " %s", machine->sets->str);
    return g_string_free(text, FALSE);
}

void
mw_stepped_clear(struct mw_stepped *machine)
{
    mw_profile_free(machine->profile);
    g_string_free(machine->sets, TRUE);
    g_string_free(machine->what, TRUE);
    g_string_free(machine->price_from, TRUE);
    g_string_free(machine->unpriced, TRUE);
    *machine = (struct mw_stepped){0};
}

void
mw_stepped_take(struct mw_stepped *machine, struct mw_profile *profile)
{
    mw_profile_free(machine->profile);
    machine->profile = profile;
    machine->question.profile = profile;
    mw_stepped_read(machine);
}

/* --- memory and drives ------------------------------------------------------------------------ */

/* One more drive; twice as much of everything else. */
struct mw_profile *
mw_step_part(const struct mw_question *question, enum mw_hw_part part, GString *flags)
{
    int64_t drives = now(question)->nvme_drives;
    double factor =
        part == MW_HW_PART_DRIVES && drives > 0 ? (double)(drives + 1) / (double)drives : 2;

    return mw_hwprofile_enlarge(question->profile, part, question->outlook, factor, flags);
}

static bool
enlarge(struct mw_stepped *machine, enum mw_hw_part part)
{
    g_autoptr(GString) flags = g_string_new(NULL);
    struct mw_profile *larger = mw_step_part(&machine->question, part, flags);

    if (!larger)
        return false;
    mw_stepped_append(machine->sets, " ", flags->str);
    mw_stepped_take(machine, larger);
    return true;
}

static bool
add_memory(const struct mw_step *step, const struct mw_part_price *prices, int count,
           struct mw_stepped *machine)
{
    double gib = (double)now(&machine->question)->host_memory_bytes / MW_GIB;

    (void)step;
    if (!enlarge(machine, MW_HW_PART_HOST_MEMORY))
        return false;
    g_autofree char *what = g_strdup_printf("%.4g GiB more host memory", gib);
    mw_stepped_append(machine->what, ", ", what);
    mw_stepped_buy(machine, "memory", gib, machine->question.settings.nodes, prices, count);
    return true;
}

enum mw_drive_kind
mw_drive_kind_of(const struct mw_hardware *hw)
{
    double writes = (double)hw->nvme_endurance_bytes / (double)hw->nvme_capacity_bytes;

    return writes > WRITES_OF_CONSUMERS ? MW_DRIVE_DATACENTER : MW_DRIVE_CONSUMER;
}

const char *
mw_drive_part(enum mw_drive_kind kind)
{
    return kind == MW_DRIVE_DATACENTER ? "drive:datacenter" : "drive";
}

/* The profile's own price goes before that of all drives of a kind. */
static void
pay_drive(const struct mw_hardware *hw, const struct mw_part_price *prices, int count,
          struct mw_stepped *machine)
{
    double drives = (double)mw_stepped_drives(hw), nodes = (double)machine->question.settings.nodes;
    const char *source = NULL;

    if (!(hw->nvme_price_usd > 0)) {
        mw_stepped_buy(machine, mw_drive_part(mw_drive_kind_of(hw)),
                       (double)hw->nvme_capacity_bytes / 1e12 / drives,
                       machine->question.settings.nodes, prices, count);
        return;
    }
    double usd = nodes * hw->nvme_price_usd / drives;
    mw_profile_provenance(machine->profile, "nvme", "price_usd", &source);
    pay(machine, usd, usd, usd, source ? source : "set by the user");
}

static bool
add_drive(const struct mw_step *step, const struct mw_part_price *prices, int count,
          struct mw_stepped *machine)
{
    struct mw_hardware hw = *now(&machine->question);

    (void)step;
    if (!mw_stepped_drives(&hw) || !enlarge(machine, MW_HW_PART_DRIVES))
        return false;
    double tb = (double)hw.nvme_capacity_bytes / 1e12 / (double)mw_stepped_drives(&hw);
    g_autofree char *what = g_strdup_printf("one more drive of %.3g TB", tb);
    mw_stepped_append(machine->what, ", ", what);
    pay_drive(&hw, prices, count, machine);
    return true;
}

/* --- nodes and networks ----------------------------------------------------------------------- */

static bool
set_network(struct mw_stepped *machine, double gbit_per_s)
{
    struct mw_profile *profile = mw_profile_copy(machine->profile);
    g_autoptr(GString) flags = g_string_new(NULL);
    g_autofree char *of_rate =
        g_strdup_printf("network.gb_per_s=%.4g", gbit_per_s / 8 * MW_NETWORK_SHARE);

    if (!mw_hwprofile_assign(profile, of_rate, flags) ||
        (!mw_profile_gives(profile, "network", "latency_us") &&
         !mw_hwprofile_assign(profile, NETWORK_LATENCY, flags)) ||
        !mw_profile_check(profile, NULL)) {
        mw_profile_free(profile);
        return false;
    }
    mw_stepped_append(machine->sets, " ", flags->str);
    mw_stepped_take(machine, profile);
    return true;
}

static void
buy_network(struct mw_stepped *machine, double gbit_per_s, const struct mw_part_price *prices,
            int count)
{
    g_autofree char *part = g_strdup_printf("network:%g", gbit_per_s);

    mw_stepped_buy(machine, part, 1, machine->question.settings.nodes, prices, count);
}

static bool
change_network(const struct mw_step *step, const struct mw_part_price *prices, int count,
               struct mw_stepped *machine)
{
    if (!set_network(machine, step->gbit_per_s))
        return false;
    g_autofree char *what = g_strdup_printf("a network of %g Gb/s", step->gbit_per_s);
    mw_stepped_append(machine->what, ", ", what);
    buy_network(machine, step->gbit_per_s, prices, count);
    return true;
}

/* Rent is no purchase; an owned node costs what its machine does. */
static void
pay_node(struct mw_stepped *machine)
{
    enum mw_price_kind kind = mw_price_kind(now(&machine->question));
    double usd = mw_price_usd(now(&machine->question), kind);
    const char *source = NULL;

    if (kind == MW_PRICE_RENT)
        return;
    mw_profile_provenance(machine->profile, "node", "price_usd", &source);
    if (kind == MW_PRICE_OWN)
        pay(machine, usd, usd, usd, source ? source : "set by the user");
    else
        lack(machine, mw_stepped_word(machine->profile));
}

static bool
allow_nodes(struct mw_stepped *machine, int64_t nodes)
{
    int64_t most = now(&machine->question)->nodes_max;
    g_autofree char *set = g_strdup_printf("node.nodes_max=%" G_GINT64_FORMAT, nodes);
    g_autoptr(GString) flags = g_string_new(NULL);

    if (most == 0 || nodes <= most)
        return true;
    struct mw_profile *profile = mw_profile_copy(machine->profile);
    if (!mw_hwprofile_assign(profile, set, flags)) {
        mw_profile_free(profile);
        return false;
    }
    mw_stepped_append(machine->sets, " ", flags->str);
    mw_stepped_take(machine, profile);
    return true;
}

static bool
add_node(const struct mw_step *step, const struct mw_part_price *prices, int count,
         struct mw_stepped *machine)
{
    struct mw_settings *s = &machine->question.settings;

    if ((step->gbit_per_s > 0 && now(&machine->question)->nic_bytes_per_s <= 0 &&
         !set_network(machine, step->gbit_per_s)) ||
        !allow_nodes(machine, s->nodes + 1))
        return false;
    s->nodes++;
    g_autofree char *what =
        step->gbit_per_s > 0
            ? g_strdup_printf("one more node, %g Gb/s between them", step->gbit_per_s)
            : g_strdup("one more node");
    mw_stepped_append(machine->what, ", ", what);
    if (step->gbit_per_s > 0)
        buy_network(machine, step->gbit_per_s, prices, count);
    pay_node(machine);
    return true;
}

static bool
change_instance(const struct mw_step *step, const struct mw_part_price *prices, int count,
                struct mw_stepped *machine)
{
    struct mw_profile *profile = mw_hwprofile_load(step->name, NULL);

    (void)prices;
    (void)count;
    if (!profile)
        return false;
    mw_stepped_append(machine->what, ", ", step->name);
    mw_stepped_take(machine, profile);
    return true;
}

/* --- the table -------------------------------------------------------------------------------- */

static bool (*const makers[MW_STEP_KINDS])(const struct mw_step *, const struct mw_part_price *,
                                           int, struct mw_stepped *) = {
    [MW_STEP_OTHER_CARD] = mw_step_change_card,
    [MW_STEP_CARD] = mw_step_add_card,
    [MW_STEP_INSTANCE] = change_instance,
    [MW_STEP_MEMORY] = add_memory,
    [MW_STEP_DRIVE] = add_drive,
    [MW_STEP_NETWORK] = change_network,
    [MW_STEP_NODE] = add_node,
};

bool
mw_step_make(const struct mw_step *step, const struct mw_part_price *prices, int price_count,
             struct mw_stepped *machine)
{
    return makers[step->kind](step, prices, price_count, machine);
}

static void
clear_step(gpointer data)
{
    g_free(((struct mw_step *)data)->name);
}

void
mw_steps_add(GArray *steps, enum mw_step_kind kind, const char *name, double gbit_per_s)
{
    struct mw_step step = {kind, g_strdup(name), gbit_per_s};

    g_array_append_val(steps, step);
}

static void
add_nodes(const struct mw_question *question, GArray *steps)
{
    double gbits = now(question)->nic_bytes_per_s * 8e-9 / MW_NETWORK_SHARE;

    mw_steps_add(steps, MW_STEP_NODE, NULL, gbits > 0 ? 0 : FIRST_NETWORK);
    if (question->settings.nodes < 2 || mw_price_kind(now(question)) == MW_PRICE_RENT)
        return;
    for (size_t i = 0; i < G_N_ELEMENTS(networks_gbit_per_s); i++)
        if (networks_gbit_per_s[i] >= FASTER * gbits) {
            mw_steps_add(steps, MW_STEP_NETWORK, NULL, networks_gbit_per_s[i]);
            return;
        }
}

/* "aws-" of "aws-p4d-24xlarge". */
static void
add_instances(const struct mw_question *question, GArray *steps)
{
    const char *name = mw_profile_name(question->profile), *dash = strchr(name, '-');

    if (!dash)
        return;
    g_autofree char *family = g_strndup(name, (gsize)(dash - name) + 1);
    g_autoptr(GPtrArray) all = mw_priced_new(MW_PRICE_RENT, name, question->outlook);
    for (guint i = 0; i < all->len; i++) {
        const struct mw_priced *one = all->pdata[i];
        if (g_str_has_prefix(mw_profile_name(one->profile), family))
            mw_steps_add(steps, MW_STEP_INSTANCE, mw_profile_name(one->profile), 0);
    }
}

GArray *
mw_steps_of(const struct mw_question *question, const struct mw_part_price *prices, int price_count)
{
    GArray *steps = g_array_new(FALSE, FALSE, sizeof(struct mw_step));

    g_array_set_clear_func(steps, clear_step);
    bool rented = mw_price_kind(now(question)) == MW_PRICE_RENT;
    if (rented)
        add_instances(question, steps);
    add_nodes(question, steps);
    if (rented)
        return steps; /* a rented machine cannot be upgraded */
    mw_steps_add_cards(question, prices, price_count, steps);
    mw_steps_add(steps, MW_STEP_MEMORY, NULL, 0);
    mw_steps_add(steps, MW_STEP_DRIVE, NULL, 0);
    return steps;
}
