/* Who says what parts cost: each source once, and whole. */
#include "study/steps_internal.h"

static void
test_sources(void)
{
    static char memory[] = "memory", drive[] = "drive", network[] = "network:100";
    static char line_12[] = "p.csv, line 12", line_1[] = "p.csv, line 1", other[] = "line 1";
    static const struct mw_part_price prices[] = {
        {memory, 1, 1, 1, line_12}, {drive, 1, 1, 1, line_1}, {network, 1, 1, 1, other}};
    static const char *const bought[] = {"memory", "drive", "network:100", "drive", "memory"};
    struct mw_stepped machine = {.price_from = g_string_new(NULL)};

    for (size_t i = 0; i < G_N_ELEMENTS(bought); i++)
        mw_stepped_buy(&machine, bought[i], 1, 1, prices, G_N_ELEMENTS(prices));
    g_assert_cmpstr(machine.price_from->str, ==, "p.csv, line 12; p.csv, line 1; line 1");
    g_assert_cmpfloat(machine.usd, ==, G_N_ELEMENTS(bought));
    g_string_free(machine.price_from, TRUE);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/price-sources/whole", test_sources);
    return g_test_run();
}
