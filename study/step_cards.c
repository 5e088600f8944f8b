/* Steps that add or change cards: the machine is composed anew of its parts. */
#include <string.h>

#include "hardware/composed.h"
#include "hardware/priced.h"
#include "study/steps_internal.h"

/* Cards of a desktop board share the lanes of its socket (docs/MODEL.md 13.6): up to so many run
 * with 8 lanes each. */
#define DESKTOP_CARDS 3
#define SERVER_CARDS 8
#define DESKTOP_DRAM_BYTES_PER_S 150e9
#define BETTER 1.1 /* in rate or memory than the present card, to be another one */

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
    const char *name = mw_stepped_word(question->profile);
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
    int64_t drives = mw_stepped_drives(hw);

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
    const char *name = mw_stepped_word(question->profile);
    GString *text = g_string_new(NULL);

    g_string_append_printf(text, "%" G_GINT64_FORMAT "x%s", cards, card);
    if (mw_machine_is_composed(name)) {
        const char *rest = strchr(name, ',');
        g_string_append(text, rest ? rest : "");
        return g_string_free(text, FALSE);
    }
    g_string_append_printf(text, ",ram=%.6g", (double)hw->host_memory_bytes / MW_GIB);
    append_drives(text, hw);
    g_string_append_printf(text, ",pcie=%dx%d", generation_of_card(board),
                           is_desktop(hw) && cards > 1 ? 8 : 16);
    if (hw->nic_bytes_per_s > 0 && !mw_profile_is_set(question->profile, "network", "gb_per_s"))
        g_string_append_printf(text, ",net=%.6g", hw->nic_bytes_per_s * 8e-9 / MW_NETWORK_SHARE);
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
    mw_stepped_take(machine, profile);
    return true;
}

bool
mw_step_add_card(const struct mw_step *step, const struct mw_part_price *prices, int count,
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
    mw_stepped_append(machine->what, ", ", what);
    mw_stepped_buy(machine, part, 1, machine->question.settings.nodes, prices, count);
    return true;
}

bool
mw_step_change_card(const struct mw_step *step, const struct mw_part_price *prices, int count,
                    struct mw_stepped *machine)
{
    g_autofree char *card = mw_card_of(&machine->question);
    int64_t cards = now(&machine->question)->gpus_per_node;

    if (!card || !recompose(machine, card, step->name, cards))
        return false;
    g_autofree char *what =
        g_strdup_printf("%" G_GINT64_FORMAT " x %s in place of %s", cards, step->name, card);
    g_autofree char *part = g_strconcat("card:", step->name, NULL);
    mw_stepped_append(machine->what, ", ", what);
    mw_stepped_buy(machine, part, (double)cards, machine->question.settings.nodes, prices, count);
    return true;
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
void
mw_steps_add_cards(const struct mw_question *question, const struct mw_part_price *prices,
                   int count, GArray *steps)
{
    g_autofree char *card = mw_card_of(question);
    g_autofree char *part = card ? g_strconcat("card:", card, NULL) : NULL;

    if (!card || (!is_desktop(now(question)) && !mw_part_price_of(part, prices, count)))
        return;
    for (int i = 0; i < count && !sets_gpu(question->profile); i++) {
        const char *name = after(prices[i].part, "card:");
        if (name && is_better_card(name, card, now(question)))
            mw_steps_add(steps, MW_STEP_OTHER_CARD, name, 0);
    }
    mw_steps_add(steps, MW_STEP_CARD, NULL, 0);
}
