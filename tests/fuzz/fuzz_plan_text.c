#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "tests/fuzz/fuzz.h"

static struct mw_plan *
read_text(const void *text, size_t size)
{
    char why[200];
    FILE *in = size ? fmemopen((void *)text, size, "r") : NULL;
    struct mw_plan *plan = in ? mw_plan_read(in, why, sizeof why) : NULL;

    if (in)
        fclose(in);
    return plan;
}

/* What was read can be written. */
static char *
write_text(const struct mw_plan *plan)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (!out || !mw_plan_write(plan, out))
        abort();
    fclose(out);
    return text;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[200];
    struct mw_plan *plan = read_text(data, size);

    if (!plan)
        return 0;
    bool good = mw_plan_check(plan, why, sizeof why);
    char *first = write_text(plan);
    struct mw_plan *copy = read_text(first, strlen(first));
    if (!copy)
        abort();
    char *second = write_text(copy);
    if (strcmp(first, second) || mw_plan_check(copy, why, sizeof why) != good)
        abort();
    mw_plan_free(plan);
    mw_plan_free(copy);
    free(first);
    free(second);
    return 0;
}
