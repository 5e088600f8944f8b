/* Invariant 4: "does not fit" is an answer: which tier, how many bytes short, and what would make
 * it fit.  On random requests. */
#include <stdio.h>
#include <string.h>

#include "tests/cases.h"
#include "tests/random_request.h"
#include "tests/remedy_text.h"

#define ANSWERS MW_CASES(600)

/* Gives every rank `bytes` more of a tier, in one piece. */
static void
add_memory(struct mw_hardware *hw, enum mw_tier tier, int64_t bytes, int64_t ranks_per_node)
{
    if (tier == MW_TIER_GPU) {
        hw->gpu_memory_bytes += bytes;
        hw->gpu_largest_request_bytes += hw->gpu_largest_request_bytes ? bytes : 0;
    } else if (tier == MW_TIER_CPU) {
        hw->host_memory_bytes += bytes * ranks_per_node;
        hw->host_largest_request_bytes += hw->host_largest_request_bytes ? bytes : 0;
    } else {
        hw->nvme_capacity_bytes += bytes * ranks_per_node;
    }
}

static struct mw_sizing *
size_again(const struct mw_sizing *sizing, int64_t more_bytes)
{
    struct mw_hardware hardware = *sizing->hardware;

    add_memory(&hardware, sizing->limiting_tier, more_bytes, sizing->ranks_per_node);
    struct mw_sizing *again = mw_sizing_new(sizing->model, &hardware, &sizing->settings, NULL);
    again->hardware = sizing->hardware; /* outlives this one */
    return again;
}

/* Exactly what is short makes the tier fit, and a byte less does not. */
static void
check_short(const struct mw_sizing *sizing)
{
    struct mw_sizing *enough = size_again(sizing, sizing->short_bytes);
    struct mw_sizing *less = size_again(sizing, sizing->short_bytes - 1);
    enum mw_tier tier = sizing->limiting_tier;

    g_assert_cmpint(sizing->short_bytes, >, 0);
    g_assert_nonnull(mw_tier_name(tier));
    g_assert_true(enough->fits || enough->limiting_tier != tier ||
                  (enough->fragmentation && !sizing->fragmentation));
    g_assert_false(less->fits);
    g_assert_cmpint(less->need_bytes[tier], ==, sizing->need_bytes[tier]);
    mw_sizing_free(enough);
    mw_sizing_free(less);
}

/* --- the remedy, applied --------------------------------------------------------------------- */

/* People's numbers: "170 GiB", never "1.7e+02 GiB". */
static double
read_bytes(const char *text, char tier[8])
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
    char number[16], unit[4];

    g_assert_cmpint(sscanf(text, "%15[0-9.] %3[A-Za-z] more %7[a-z] memory", number, unit, tier),
                    ==, 3);
    for (size_t u = 0; u < G_N_ELEMENTS(units); u++)
        if (!strcmp(units[u].name, unit))
            return g_ascii_strtod(number, NULL) * units[u].bytes;
    g_assert_not_reached();
}

/* "one more drive of that kind per node", "3 more drives ..."; 0: the text is of memory. */
static int64_t
read_drives(const char *text)
{
    if (!strstr(text, " more drive"))
        return 0;
    return g_str_has_prefix(text, "one ") ? 1 : g_ascii_strtoll(text, NULL, 10);
}

static void
add_drives(struct mw_hardware *hardware, int64_t drives)
{
    hardware->nvme_capacity_bytes += hardware->nvme_capacity_bytes / hardware->nvme_drives * drives;
    hardware->nvme_drives += drives;
}

static void
add_said_memory(const char *text, struct random_request *request, const struct mw_sizing *sizing)
{
    const char *with = strstr(text, "with ");
    g_assert_nonnull(with);
    g_auto(GStrv) parts = g_strsplit(with + strlen("with "), ", ", -1);

    for (char **part = parts; *part; part++) {
        char tier[8];
        int64_t drives = read_drives(*part);
        if (drives) {
            add_drives(&request->hardware, drives);
            continue;
        }
        double bytes = read_bytes(*part, tier);
        for (int t = 0; t < MW_TIER_COUNT; t++)
            if (!strcmp(tier, mw_tier_name(t)))
                add_memory(&request->hardware, (enum mw_tier)t, (int64_t)bytes + 1,
                           sizing->ranks_per_node);
    }
}

static enum remedy
apply(const char *way, struct random_request *request, const struct mw_sizing *sizing)
{
    struct remedy_request followed = {request->settings, NULL};
    enum remedy kind = remedy_follow(way, &followed);

    request->settings = followed.settings;
    if (kind == REMEDY_MEMORY)
        add_said_memory(way, request, sizing);
    return kind;
}

/* Where the remedy is more nodes alone, a node less, where it can be asked for, is too few. */
static void
check_fewest(const char *text, const struct random_request *asked,
             const struct random_request *with)
{
    struct random_request less = *with;
    g_autoptr(GPtrArray) found = NULL;

    less.settings.nodes--;
    if (!g_str_has_prefix(text, "--nodes ") || less.settings.nodes <= asked->settings.nodes)
        return;
    if (random_request_fitting(&less, &found))
        g_error("%s, and so does a node less", text);
}

static enum remedy
check_way(const char *way, const struct random_request *asked, const struct mw_sizing *sizing)
{
    struct random_request request = *asked;
    g_autoptr(GError) error = NULL;
    enum remedy kind = apply(way, &request, sizing);
    g_autoptr(GPtrArray) found = random_request_candidates(&request, &error);

    g_assert_no_error(error);
    const struct mw_sizing *first = found->pdata[0];
    if (!first->fits)
        g_error("not a remedy: %s", way);
    if (kind == REMEDY_NODES)
        check_fewest(way, asked, &request);
    return kind;
}

static enum remedy
check_remedy(const struct random_request *asked, const struct mw_sizing *sizing)
{
    struct mw_request planned = {&asked->model, &asked->hardware};
    g_autofree char *text = mw_planner_remedy(&planned, &asked->settings, sizing, NULL);
    enum remedy kind = REMEDY_KINDS;

    g_assert_nonnull(text);
    g_assert_null(strchr(text, '\n'));
    g_auto(GStrv) ways = remedy_ways(text);
    for (char **way = ways; *way; way++) {
        enum remedy one = check_way(*way, asked, sizing);
        kind = way == ways ? one : kind;
    }
    return kind;
}

/* With tiles and chunks open again, whether the quick answer misses room that the whole search
 * finds; it never finds what that does not. */
static int
misses_room(const struct random_request *asked, const struct mw_sizing *sizing)
{
    const struct mw_request planned = {&asked->model, &asked->hardware};
    struct mw_settings settings = sizing->settings;

    settings.tiles = settings.logits_chunks = MW_AUTO;
    struct mw_sizing *whole = mw_planner_size_placement(&planned, &settings, NULL);
    bool fits = whole && whole->fits;
    struct mw_sizing *one = mw_sizing_new(planned.model, planned.hardware, &settings, NULL);
    bool quick = mw_planner_has_room(&planned, &settings, one);
    g_assert_true(fits || !quick);
    mw_sizing_free(whole);
    return fits && !quick;
}

static void
test_random_requests(void)
{
    /* Of a machine without a profile no other one is named; of tiny models hardly a checkpoint is
     * what is too large (tests/test_remedies.c). */
    const bool elsewhere[REMEDY_KINDS] = {
        [REMEDY_MACHINE] = true, [REMEDY_SET] = true, [REMEDY_CHECKPOINTS] = true};
    int answers = 0, kinds[REMEDY_KINDS] = {0}, missed = 0;

    for (guint32 seed = 400000; answers < ANSWERS; seed++) {
        struct random_request request;
        random_request_init(&request, seed);
        g_autoptr(GPtrArray) found = random_request_candidates(&request, NULL);
        const struct mw_sizing *first = found ? found->pdata[0] : NULL;
        missed += first ? misses_room(&request, first) : 0;
        if (!first || first->fits)
            continue;
        check_short(first);
        kinds[check_remedy(&request, first)]++;
        answers++;
    }
    g_assert_cmpint(missed, <=, answers / 100 + 1);
    for (int i = 0; i < REMEDY_KINDS; i++) {
        g_test_message("remedies of kind %d: %d", i, kinds[i]);
        g_assert_true(kinds[i] > 0 || elsewhere[i] || MW_FEW_CASES);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    remedy_text_spell();
    g_test_add_func("/fits/invariant-4/random-requests", test_random_requests);
    return g_test_run();
}
