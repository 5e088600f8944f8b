/* What a thread remembers of settings, walks, chunks and groups never changes an answer: a thread
 * that has been asked for much else finds what one finds that knows nothing. */
#include "planner/planner.h"
#include "tests/cases.h"
#include "tests/random_request.h"

#define REQUESTS MW_CASES(200)
#define FIRST_SEED 700000

static gpointer
find(gpointer request)
{
    return random_request_candidates(request, NULL);
}

static GPtrArray *
find_afresh(struct random_request *request)
{
    return g_thread_join(g_thread_new("afresh", find, request));
}

static void
check_same(const struct mw_sizing *one, const struct mw_sizing *other)
{
    g_assert_cmpint(one->fits, ==, other->fits);
    g_assert_cmpint(one->short_bytes, ==, other->short_bytes);
    g_assert_cmpint(one->settings.strategy, ==, other->settings.strategy);
    g_assert_cmpint(one->settings.tiles, ==, other->settings.tiles);
    g_assert_cmpint(one->settings.logits_chunks, ==, other->settings.logits_chunks);
    g_assert_cmpint(one->settings.commit, ==, other->settings.commit);
    g_assert_cmpint(one->settings.grad_accum, ==, other->settings.grad_accum);
    g_assert_cmpint(one->chunk_count, ==, other->chunk_count);
    for (int t = 0; t < MW_TIER_COUNT; t++) {
        g_assert_cmpint(one->need_bytes[t], ==, other->need_bytes[t]);
        g_assert_cmpint(one->beside_bytes[t], ==, other->beside_bytes[t]);
    }
    g_assert_cmpint(mw_planner_ops(one), ==, mw_planner_ops(other));
}

static int
compare(struct random_request *request)
{
    g_autoptr(GPtrArray) here = random_request_candidates(request, NULL);
    g_autoptr(GPtrArray) afresh = find_afresh(request);

    g_assert_cmpint(here != NULL, ==, afresh != NULL);
    for (guint i = 0; here && i < here->len; i++) {
        g_assert_cmpuint(here->len, ==, afresh->len);
        check_same(here->pdata[i], afresh->pdata[i]);
    }
    return here ? (int)here->len : 0;
}

/* Each of all strategies, then on a machine with less memory, then of a deeper model. */
static void
test_requests(void)
{
    const struct mw_strategies all = mw_strategies_all();
    int compared = 0;

    for (guint32 seed = FIRST_SEED; seed < FIRST_SEED + REQUESTS; seed++) {
        struct random_request request;
        random_request_init(&request, seed);
        for (int s = 0; s < 3 * all.count; s++) {
            request.settings.strategy = all.one[s % all.count];
            request.hardware.gpu_memory_bytes -= s == all.count ? (1 << 20) : 0;
            request.model.layers += s == 2 * all.count;
            compared += compare(&request);
        }
    }
    g_assert_cmpint(compared, >, REQUESTS);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/known/answers-as-if-new", test_requests);
    return g_test_run();
}
