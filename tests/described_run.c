#include "tests/described_run.h"

#include <glib.h>
#include <stdio.h>
#include <stdlib.h>

void
described_run_write(void *data, const struct mw_plan *plan)
{
    struct described_run *described = data;
    FILE *out = open_memstream(&described->text, &described->bytes);

    g_assert_true(mw_plan_write(plan, out));
    g_assert_cmpint(fclose(out), ==, 0);
}

void
described_run_read(struct described_run *described, const char *path)
{
    struct mw_model model;
    char why[256];

    described->plan = mw_plan_parse(described->text, described->bytes, why, sizeof why);
    g_assert_nonnull(described->plan);
    g_assert_true(mw_model_load(path, &model, NULL));
    g_assert_true(mw_model_decoder(&model, &described->decoder, NULL));
}

void
described_run_clear(struct described_run *described)
{
    mw_plan_free(described->plan);
    free(described->text);
}
