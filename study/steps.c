#include "study/steps.h"

#include <math.h>
#include <string.h>

#include "base/number.h"
#include "base/spell.h"
#include "hardware/composed.h"
#include "hardware/priced.h"
#include "hardware/scale.h"

#define GIB 1073741824.0
/* Cards of a desktop board share the lanes of its socket (docs/MODEL.md 13.6): up to so many run
 * with 8 lanes each. */
#define DESKTOP_CARDS 3
#define SERVER_CARDS 8
#define DESKTOP_DRAM_BYTES_PER_S 150e9
/* Times that a drive may be written: consumer drives are rated at 600, those of data centers at
 * 1825 (one write a day for five years) and more. */
#define WRITES_OF_CONSUMERS 1000
/* Nominal rates of network adapters. */
static const double networks_gbit_per_s[] = {10, 25, 50, 100, 200, 400, 800, 1600, 3200};
#define FIRST_NETWORK 100
/* Of a nominal rate, and a hop, typically: docs/MODEL.md 13.10. */
#define NETWORK_SHARE 0.9
#define NETWORK_LATENCY "network.latency_us=11"
#define FASTER 1.5 /* than the present network, to be another one */
#define BETTER 1.1 /* in rate or memory than the present card, to be another one */

/* --- names and prices of parts ---------------------------------------------------------------- */

static const char *
after(const char *text, const char *prefix)
{
    return g_str_has_prefix(text, prefix) && text[strlen(prefix)] ? text + strlen(prefix) : NULL;
}

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

static const struct mw_part_price *
price_of(const char *part, const struct mw_part_price *prices, int count)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(prices[i].part, part))
            return &prices[i];
    return NULL;
}

static void
append(GString *text, const char *separator, const char *more)
{
    g_string_append_printf(text, "%s%s", text->len ? separator : "", more);
}

static void
lack(struct mw_stepped *machine, const char *what)
{
    append(machine->unpriced, " and ", what);
    machine->usd = machine->least = machine->most = NAN;
}

static void
pay(struct mw_stepped *machine, double usd, double least, double most, const char *from)
{
    machine->usd += usd;
    machine->least += least;
    machine->most += most;
    if (from && !strstr(machine->price_from->str, from))
        append(machine->price_from, "; ", from);
}

/* So many of a part for each of `nodes`. */
static void
buy(struct mw_stepped *machine, const char *part, double amount, int64_t nodes,
    const struct mw_part_price *prices, int count)
{
    const struct mw_part_price *price = price_of(part, prices, count);
    double all = amount * (double)nodes;

    if (price) {
        pay(machine, all * price->usd, all * price->least, all * price->most, price->from);
        return;
    }
    g_autofree char *name = g_strconcat(MW_PART_PREFIX, part, NULL);
    lack(machine, name);
}

/* --- the machine ------------------------------------------------------------------------------ */

static const struct mw_hardware *
now(const struct mw_question *question)
{
    return &question->hardware[MW_OUTLOOK_TYPICAL];
}

static int64_t
drives_of(const struct mw_hardware *hw)
{
    return hw->nvme_capacity_bytes > 0 ? MAX(1, hw->nvme_drives) : 0;
}

/* The word that -H takes. */
static const char *
machine_word(const struct mw_profile *profile)
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

    mw_spelled_append(text, "{hardware=%s}", machine_word(machine->profile));
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

static void
take_profile(struct mw_stepped *machine, struct mw_profile *profile)
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
    append(machine->sets, " ", flags->str);
    take_profile(machine, larger);
    return true;
}

static bool
add_memory(const struct mw_step *step, const struct mw_part_price *prices, int count,
           struct mw_stepped *machine)
{
    double gib = (double)now(&machine->question)->host_memory_bytes / GIB;

    (void)step;
    if (!enlarge(machine, MW_HW_PART_HOST_MEMORY))
        return false;
    g_autofree char *what = g_strdup_printf("%.4g GiB more host memory", gib);
    append(machine->what, ", ", what);
    buy(machine, "memory", gib, machine->question.settings.nodes, prices, count);
    return true;
}

/* The profile's own price goes before that of all drives of a kind. */
static void
pay_drive(const struct mw_hardware *hw, const struct mw_part_price *prices, int count,
          struct mw_stepped *machine)
{
    double drives = (double)drives_of(hw), nodes = (double)machine->question.settings.nodes;
    double writes = (double)hw->nvme_endurance_bytes / (double)hw->nvme_capacity_bytes;
    const char *source = NULL;

    if (!(hw->nvme_price_usd > 0)) {
        buy(machine, writes > WRITES_OF_CONSUMERS ? "drive:datacenter" : "drive",
            (double)hw->nvme_capacity_bytes / 1e12 / drives, machine->question.settings.nodes,
            prices, count);
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
    if (!drives_of(&hw) || !enlarge(machine, MW_HW_PART_DRIVES))
        return false;
    double tb = (double)hw.nvme_capacity_bytes / 1e12 / (double)drives_of(&hw);
    g_autofree char *what = g_strdup_printf("one more drive of %.3g TB", tb);
    append(machine->what, ", ", what);
    pay_drive(&hw, prices, count, machine);
    return true;
}

/* --- cards ------------------------------------------------------------------------------------ */

/* The profile after "4x"; NULL: it does not begin so. */
static const char *
after_count(const char *word)
{
    const char *end = word + strspn(word, "0123456789");

    return end > word && g_ascii_tolower(*end) == 'x' && end[1] ? end + 1 : NULL;
}

#define GENERATIONS 6

/* The slowest generation of which 16 lanes carry what this card reaches; 6: none does. */
static int
generation_of(const struct mw_profile *card)
{
    static const double lane_bytes_per_s[GENERATIONS] = {[3] = 0.985e9, 1.97e9, 3.94e9};
    double rate = mw_hwprofile_read(card, MW_OUTLOOK_TYPICAL).pcie_h2d_bytes_per_s;
    int generation = 3;

    while (generation < GENERATIONS && 16 * 0.85 * lane_bytes_per_s[generation] < rate)
        generation++;
    return generation;
}

static int
generation_of_card(const char *name)
{
    struct mw_profile *profile = mw_profile_load(&mw_hwprofile_kind, name, NULL);
    int generation = profile ? generation_of(profile) : 3;

    mw_profile_free(profile);
    return generation;
}

/* A GPU with links of its own is a module of its board, which nobody buys alone. */
static bool
is_card(const char *name)
{
    struct mw_profile *profile = mw_profile_load(&mw_hwprofile_kind, name, NULL);
    bool card = profile && mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL).gpus_per_node == 1 &&
                !mw_profile_gives(profile, "fabric", "gb_per_s") && generation_of(profile) <= 5;

    mw_profile_free(profile);
    return card;
}

/* "rtx4090" of "rtx4090-2x". */
static char *
without_count(const char *name)
{
    const char *dash = strrchr(name, '-');
    size_t digits = dash ? strspn(dash + 1, "0123456789") : 0;

    return digits && !strcmp(dash + 1 + digits, "x") ? g_strndup(name, (gsize)(dash - name))
                                                     : g_strdup(name);
}

char *
mw_card_of(const struct mw_question *question)
{
    const char *name = machine_word(question->profile);
    g_autofree char *card = NULL;

    if (mw_price_kind(now(question)) == MW_PRICE_RENT || g_str_has_suffix(name, ".ini"))
        return NULL;
    if (mw_machine_is_composed(name)) {
        g_auto(GStrv) words = g_strsplit(name, ",", 2);
        const char *of = after_count(g_strstrip(words[0]));
        card = of ? g_strdup(of) : without_count(words[0]);
    } else {
        card = without_count(name);
    }
    return is_card(card) ? g_steal_pointer(&card) : NULL;
}

static bool
is_desktop(const struct mw_hardware *hw)
{
    return hw->host_memory_bytes_per_s < DESKTOP_DRAM_BYTES_PER_S;
}

static void
append_drives(GString *text, const struct mw_hardware *hw)
{
    int64_t drives = drives_of(hw);

    if (drives)
        g_string_append_printf(text, ",nvme=%" G_GINT64_FORMAT "x%.6gTB", drives,
                               (double)hw->nvme_capacity_bytes / 1e12 / (double)drives);
}

/* The same machine with other cards, by its parts: as composed before, or as its profile says. */
static char *
composed_text(const struct mw_question *question, const char *board, const char *card,
              int64_t cards)
{
    const struct mw_hardware *hw = now(question);
    const char *name = machine_word(question->profile);
    GString *text = g_string_new(NULL);

    g_string_append_printf(text, "%" G_GINT64_FORMAT "x%s", cards, card);
    if (mw_machine_is_composed(name)) {
        const char *rest = strchr(name, ',');
        g_string_append(text, rest ? rest : "");
        return g_string_free(text, FALSE);
    }
    g_string_append_printf(text, ",ram=%.6g", (double)hw->host_memory_bytes / GIB);
    append_drives(text, hw);
    g_string_append_printf(text, ",pcie=%dx%d", generation_of_card(board),
                           is_desktop(hw) && cards > 1 ? 8 : 16);
    if (hw->nic_bytes_per_s > 0 && !mw_profile_is_set(question->profile, "network", "gb_per_s"))
        g_string_append_printf(text, ",net=%.6g", hw->nic_bytes_per_s * 8e-9 / NETWORK_SHARE);
    return g_string_free(text, FALSE);
}

/* What was set stays set. */
static bool
set_again(const struct mw_profile *from, struct mw_profile *machine)
{
    g_auto(GStrv) sets = mw_profile_assignments(from);

    for (char **set = sets; set && *set; set++)
        if ((!g_str_has_prefix(*set, "node.") || g_str_has_prefix(*set, "node.nodes_max")) &&
            !mw_profile_set(machine, *set, NULL))
            return false;
    return mw_profile_check(machine, NULL);
}

static bool
recompose(struct mw_stepped *machine, const char *board, const char *card, int64_t cards)
{
    g_autofree char *text = composed_text(&machine->question, board, card, cards);
    struct mw_profile *profile = mw_hwprofile_load(text, NULL);

    if (!profile || !set_again(machine->profile, profile)) {
        mw_profile_free(profile);
        return false;
    }
    take_profile(machine, profile);
    return true;
}

static bool
add_card(const struct mw_step *step, const struct mw_part_price *prices, int count,
         struct mw_stepped *machine)
{
    g_autofree char *card = mw_card_of(&machine->question);
    const struct mw_hardware *hw = now(&machine->question);
    int64_t cards = hw->gpus_per_node + 1;

    (void)step;
    if (!card || cards > (is_desktop(hw) ? DESKTOP_CARDS : SERVER_CARDS) ||
        !recompose(machine, card, card, cards))
        return false;
    g_autofree char *what = g_strdup_printf("one more card (%s)", card);
    g_autofree char *part = g_strconcat("card:", card, NULL);
    append(machine->what, ", ", what);
    buy(machine, part, 1, machine->question.settings.nodes, prices, count);
    return true;
}

static bool
change_card(const struct mw_step *step, const struct mw_part_price *prices, int count,
            struct mw_stepped *machine)
{
    g_autofree char *card = mw_card_of(&machine->question);
    int64_t cards = now(&machine->question)->gpus_per_node;

    if (!card || !recompose(machine, card, step->name, cards))
        return false;
    g_autofree char *what =
        g_strdup_printf("%" G_GINT64_FORMAT " x %s in place of %s", cards, step->name, card);
    g_autofree char *part = g_strconcat("card:", step->name, NULL);
    append(machine->what, ", ", what);
    buy(machine, part, (double)cards, machine->question.settings.nodes, prices, count);
    return true;
}

/* --- nodes and networks ----------------------------------------------------------------------- */

static bool
set_network(struct mw_stepped *machine, double gbit_per_s)
{
    struct mw_profile *profile = mw_profile_copy(machine->profile);
    g_autoptr(GString) flags = g_string_new(NULL);
    g_autofree char *of_rate =
        g_strdup_printf("network.gb_per_s=%.4g", gbit_per_s / 8 * NETWORK_SHARE);

    if (!mw_hwprofile_assign(profile, of_rate, flags) ||
        (!mw_profile_gives(profile, "network", "latency_us") &&
         !mw_hwprofile_assign(profile, NETWORK_LATENCY, flags)) ||
        !mw_profile_check(profile, NULL)) {
        mw_profile_free(profile);
        return false;
    }
    append(machine->sets, " ", flags->str);
    take_profile(machine, profile);
    return true;
}

static void
buy_network(struct mw_stepped *machine, double gbit_per_s, const struct mw_part_price *prices,
            int count)
{
    g_autofree char *part = g_strdup_printf("network:%g", gbit_per_s);

    buy(machine, part, 1, machine->question.settings.nodes, prices, count);
}

static bool
change_network(const struct mw_step *step, const struct mw_part_price *prices, int count,
               struct mw_stepped *machine)
{
    if (!set_network(machine, step->gbit_per_s))
        return false;
    g_autofree char *what = g_strdup_printf("a network of %g Gb/s", step->gbit_per_s);
    append(machine->what, ", ", what);
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
        lack(machine, machine_word(machine->profile));
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
    append(machine->sets, " ", flags->str);
    take_profile(machine, profile);
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
    append(machine->what, ", ", what);
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
    append(machine->what, ", ", step->name);
    take_profile(machine, profile);
    return true;
}

/* --- the table -------------------------------------------------------------------------------- */

static bool (*const makers[MW_STEP_KINDS])(const struct mw_step *, const struct mw_part_price *,
                                           int, struct mw_stepped *) = {
    [MW_STEP_OTHER_CARD] = change_card,
    [MW_STEP_CARD] = add_card,
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

static void
add(GArray *steps, enum mw_step_kind kind, const char *name, double gbit_per_s)
{
    struct mw_step step = {kind, g_strdup(name), gbit_per_s};

    g_array_append_val(steps, step);
}

/* Whether a card is another, and computes faster or holds more. */
static bool
is_better_card(const char *name, const char *card, const struct mw_hardware *now_has)
{
    struct mw_profile *profile =
        strcmp(name, card) ? mw_profile_load(&mw_hwprofile_kind, name, NULL) : NULL;

    if (!profile)
        return false;
    struct mw_hardware hw = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);
    mw_profile_free(profile);
    return hw.gpus_per_node == 1 &&
           (hw.gpu_peak_flops > BETTER * now_has->gpu_peak_flops ||
            (double)hw.gpu_memory_bytes > BETTER * (double)now_has->gpu_memory_bytes);
}

static bool
sets_gpu(const struct mw_profile *profile)
{
    g_auto(GStrv) sets = mw_profile_assignments(profile);

    for (char **set = sets; set && *set; set++)
        if (g_str_has_prefix(*set, "gpu."))
            return true;
    return false;
}

/* Those whose price somebody knows are those that can be had; a desktop's own can anyway. */
static void
add_cards(const struct mw_question *question, const struct mw_part_price *prices, int count,
          GArray *steps)
{
    g_autofree char *card = mw_card_of(question);
    g_autofree char *part = card ? g_strconcat("card:", card, NULL) : NULL;

    if (!card || (!is_desktop(now(question)) && !price_of(part, prices, count)))
        return;
    for (int i = 0; i < count && !sets_gpu(question->profile); i++) {
        const char *name = after(prices[i].part, "card:");
        if (name && is_better_card(name, card, now(question)))
            add(steps, MW_STEP_OTHER_CARD, name, 0);
    }
    add(steps, MW_STEP_CARD, NULL, 0);
}

static void
add_nodes(const struct mw_question *question, GArray *steps)
{
    double gbits = now(question)->nic_bytes_per_s * 8e-9 / NETWORK_SHARE;

    add(steps, MW_STEP_NODE, NULL, gbits > 0 ? 0 : FIRST_NETWORK);
    if (question->settings.nodes < 2 || mw_price_kind(now(question)) == MW_PRICE_RENT)
        return;
    for (size_t i = 0; i < G_N_ELEMENTS(networks_gbit_per_s); i++)
        if (networks_gbit_per_s[i] >= FASTER * gbits) {
            add(steps, MW_STEP_NETWORK, NULL, networks_gbit_per_s[i]);
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
            add(steps, MW_STEP_INSTANCE, mw_profile_name(one->profile), 0);
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
    add_cards(question, prices, price_count, steps);
    add(steps, MW_STEP_MEMORY, NULL, 0);
    add(steps, MW_STEP_DRIVE, NULL, 0);
    return steps;
}
