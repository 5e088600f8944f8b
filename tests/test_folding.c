/* Invariant 9: one program that stands for all ranks, with its part of each shared channel, gives
 * the step of a program for every rank.  On random requests of 2 to 16 ranks. */
#include "tests/cases.h"
#include "tests/random_request.h"
#include "tests/says.h"
#include "tests/simulated.h"

#define REQUESTS MW_CASES(1000)

/* Owners of parameters are not alike. */
static bool
takes_turns(const struct mw_sizing *sizing)
{
    return sizing->settings.partition == MW_PARTITION_OWNER && sizing->shards > 1;
}

static void
test_folded_and_unfolded(void)
{
    int compared = 0;

    for (guint32 seed = 300000; compared < REQUESTS; seed++) {
        struct random_request request;
        random_request_init(&request, seed);
        request.settings.unfold = false;
        random_request_software(&request);
        g_autoptr(GPtrArray) found = NULL;
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        if (!sizing || sizing->ranks < 2 || takes_turns(sizing))
            continue;
        mw_test_folded_as_unfolded(sizing, &request.hardware, 1);
        compared++;
    }
}

/* Each with a turn of its own. */
static void
test_owners(void)
{
    int refused = 0;

    for (guint32 seed = 300000; refused < 20; seed++) {
        struct random_request request;
        g_autoptr(GError) error = NULL;

        random_request_init(&request, seed);
        request.settings.partition = MW_PARTITION_OWNER;
        request.settings.unfold = false;
        g_autoptr(GPtrArray) found = NULL;
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        if (!sizing || !takes_turns(sizing))
            continue;
        request.settings.unfold = true;
        g_assert_null(random_request_candidates(&request, &error));
        mw_test_error_says(g_steal_pointer(&error), "owners take turns", "partition=bandwidth");
        refused++;
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/folding/invariant-9/folded-and-unfolded", test_folded_and_unfolded);
    g_test_add_func("/folding/owners", test_owners);
    return g_test_run();
}
