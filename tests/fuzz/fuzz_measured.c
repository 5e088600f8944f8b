#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"
#include "report/run.h"
#include "study/lanes.h"
#include "tests/fuzz/fuzz.h"

static struct mw_measured *
read_text(const char *text, size_t size, struct mw_plan **plan, char **machine)
{
    g_autoptr(GError) error = NULL;

    return mw_measured_parse(text, size, "input", plan, machine, &error);
}

static char *
write_text(const struct mw_measured *measured, const struct mw_plan *plan, const char *machine,
           size_t *size)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, size);

    if (!out || !mw_measured_write(measured, plan, machine, out))
        abort();
    fclose(out);
    return text;
}

/* What was read is written as it was, and can be set beside itself. */
static void
check(const struct mw_measured *measured, struct mw_plan *plan)
{
    struct mw_result predicted = {.plan = plan, .step_time_s = {1, 1, 1}};

    predicted.timeline = &measured->first.timeline;
    mw_summary_lanes(plan, predicted.timeline, &predicted);
    struct mw_compare *compare = mw_compare_new(&predicted, measured, 1);
    FILE *out = fopen("/dev/null", "w");
    mw_table_run(out, &(struct mw_run){&predicted, measured, compare, NULL, ""});
    fclose(out);
    mw_compare_free(compare);
    for (size_t i = 0; i < predicted.lane_count; i++)
        g_free(predicted.lanes[i].name);
    for (size_t i = 0; i < predicted.phase_count; i++)
        g_free(predicted.phases[i].name);
    g_free(predicted.lanes);
    g_free(predicted.phases);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mw_plan *plan, *plan_again;
    char *machine, *machine_again;
    size_t first_size, second_size;
    struct mw_measured *measured = read_text((const char *)data, size, &plan, &machine);

    if (!measured)
        return 0;
    char *first = write_text(measured, plan, machine, &first_size);
    struct mw_measured *again = read_text(first, first_size, &plan_again, &machine_again);
    if (!again)
        abort();
    char *second = write_text(again, plan_again, machine_again, &second_size);
    if (first_size != second_size || memcmp(first, second, first_size))
        abort();
    check(measured, plan);
    mw_measured_free(measured);
    mw_measured_free(again);
    mw_plan_free(plan);
    mw_plan_free(plan_again);
    g_free(machine);
    g_free(machine_again);
    free(first);
    free(second);
    return 0;
}
