/* Variants of a step: which one a step takes, which can follow which, and their text. */
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "planner/planner.h"

/* --- the rule -------------------------------------------------------------------------------- */

static struct mw_plan *
empty_plan(void)
{
    struct mw_plan *plan = mw_plan_new("empty");

    g_assert_true(mw_plan_check(plan, NULL, 0));
    return plan;
}

static struct mw_variants *
empty_variants(uint32_t count)
{
    struct mw_variants *variants = mw_variants_new(empty_plan());

    while (variants->plan_count < count)
        mw_variants_add(variants, empty_plan());
    return variants;
}

static void
assert_steps(const struct mw_variants *variants, const char *wanted)
{
    for (int64_t step = 0; wanted[step]; step++) {
        uint32_t variant = mw_variant_of(variants, step);
        int64_t alike = 1, left = (int64_t)strlen(wanted) - step;
        g_assert_cmpuint(variant, ==, wanted[step] - '0');
        while (alike < left && wanted[step + alike] == wanted[step])
            alike++;
        g_assert_cmpint(mw_variants_alike(variants, step, left), ==, alike);
    }
}

static void
test_rule(void)
{
    struct mw_variants *variants = empty_variants(4);
    uint32_t count;

    assert_steps(variants, "00000");
    mw_variants_from(variants, 3, (const uint32_t[]){1, 2, 2}, 3);
    assert_steps(variants, "000122122122");
    mw_variants_from(variants, 8, (const uint32_t[]){3}, 1);
    assert_steps(variants, "0001221233333");
    g_assert_cmpuint(*mw_variants_last(variants, &count), ==, 3);
    g_assert_cmpuint(count, ==, 1);
    mw_variants_from(variants, 0, (const uint32_t[]){2, 0}, 2);
    assert_steps(variants, "202020");
    mw_variants_free(variants);
    g_assert_null(mw_variants_new(NULL));
}

/* --- plans of the planner -------------------------------------------------------------------- */

static struct mw_settings
ask(int64_t dpu_start)
{
    struct mw_settings asked;

    mw_settings_init(&asked);
    asked.strategy = MW_STRATEGY_ZERO_OFFLOAD;
    asked.gpus_per_node = 1;
    asked.micro_batch = 2;
    asked.seq = 64;
    asked.grad_accum = 2;
    asked.dpu_start = dpu_start;
    return asked;
}

static struct mw_variants *
plan(const struct mw_settings *asked)
{
    struct mw_profile *profile = mw_hwprofile_load("rtx4090", NULL);
    struct mw_hardware hardware = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);
    struct mw_settings resolved;
    struct mw_model model;
    g_autoptr(GError) error = NULL;

    g_assert_true(mw_model_load("gpt2", &model, &error));
    struct mw_request request = {&model, &hardware};
    g_assert_true(mw_settings_complete(&request, asked, &resolved, &error));
    GPtrArray *found = mw_planner_candidates(&request, &resolved, &error);
    g_assert_no_error(error);
    const struct mw_sizing *sizing = found->pdata[0];
    g_assert_true(sizing->fits);
    struct mw_variants *variants = mw_build_variants(sizing, mw_build_plan(sizing));
    g_ptr_array_unref(found);
    mw_profile_free(profile);
    return variants;
}

static void
test_delayed(void)
{
    struct mw_settings asked = ask(3);
    struct mw_variants *variants = plan(&asked);
    char why[256] = "";

    g_assert_cmpuint(variants->plan_count, ==, 2);
    assert_steps(variants, "0001111");
    g_assert_false(mw_plan_is_delayed(variants->plans[0]));
    g_assert_true(mw_plan_is_delayed(variants->plans[1]));
    g_assert_cmpint(mw_variants_delayed_from(variants), ==, 3);
    g_assert_true(mw_variants_check(variants, why, sizeof why));
    mw_variants_free(variants);

    asked = ask(MW_AUTO);
    variants = plan(&asked);
    g_assert_cmpuint(variants->plan_count, ==, 1);
    g_assert_cmpint(mw_variants_delayed_from(variants), ==, -1);
    mw_variants_free(variants);
}

/* The first takes the second's plans; steps take them in turn. */
static void
join(struct mw_variants *variants, struct mw_variants *others)
{
    uint32_t cycle[] = {0, variants->plan_count};

    for (uint32_t v = 0; v < others->plan_count; v++)
        mw_variants_add(variants, others->plans[v]);
    others->plan_count = 0;
    mw_variants_free(others);
    mw_variants_from(variants, 0, cycle, 2);
}

static void
assert_refused(const struct mw_settings *asked, const char *variant, const char *what)
{
    struct mw_settings first = ask(MW_AUTO);
    struct mw_variants *variants = plan(&first);
    char why[256] = "";

    join(variants, plan(asked));
    g_assert_false(mw_variants_check(variants, why, sizeof why));
    if (!g_str_has_prefix(why, variant) || !strstr(why, what))
        g_error("\"%s\" has no %s: ... %s", why, variant, what);
    mw_variants_free(variants);
}

static void
test_refusals(void)
{
    struct mw_settings other = ask(MW_AUTO);

    other.micro_batch = 3;
    assert_refused(&other, "variant 1: \"step\" is another", "variant 0");
    other = ask(MW_AUTO);
    other.optimizer_chunk = 1 << 20;
    assert_refused(&other, "variant 1: \"chunk ", "is another");
    other = ask(MW_AUTO);
    g_assert_true(mw_placement_parse("gpu", NULL, &other.placement[MW_STATE_GRADIENTS], NULL));
    assert_refused(&other, "variant 1: \"slot ", "is another");
    other = ask(0);
    assert_refused(&other, "variant 0: follows variant 1", "wait");
}

/* --- text ------------------------------------------------------------------------------------ */

static char *
text_of(const struct mw_variants *variants)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    g_assert_true(mw_variants_write(variants, out));
    fclose(out);
    return text;
}

static void
assert_reads_back(const struct mw_variants *variants)
{
    char why[256] = "", *text = text_of(variants), *again;
    struct mw_variants *read = mw_variants_parse(text, strlen(text), why, sizeof why);

    g_assert_cmpstr(why, ==, "is empty");
    g_assert_nonnull(read);
    again = text_of(read);
    g_assert_cmpstr(again, ==, text);
    mw_variants_free(read);
    free(text);
    free(again);
}

static void
test_text(void)
{
    struct mw_settings asked = ask(3);
    struct mw_variants *variants = plan(&asked);

    assert_reads_back(variants);
    mw_variants_free(variants);
    asked = ask(MW_AUTO);
    variants = plan(&asked);
    assert_reads_back(variants);
    join(variants, plan(&asked));
    assert_reads_back(variants);
    mw_variants_free(variants);
}

static void
assert_text_refused(const char *text, const char *line, const char *what)
{
    char why[256] = "";

    g_assert_null(mw_variants_parse(text, strlen(text), why, sizeof why));
    if (!g_str_has_prefix(why, line) || !strstr(why, what))
        g_error("\"%s\" is not %s ... %s", why, line, what);
}

static void
test_bad_texts(void)
{
    struct mw_variants *variants = empty_variants(2);
    char *two = text_of(variants);
    gsize rule = (gsize)(strstr(two, "from 0") - two);
    int lines = 0;
    for (gsize i = 0; i < rule; i++)
        lines += two[i] == '\n';

    static const struct {
        const char *rule, *what;
        int line; /* behind the plans */
    } rows[] = {
        {"", "'from 0 variants", 1},
        {"end\n", "'from 0 variants", 1},
        {"from 1 variants 0\nend\n", "'from 0'", 1},
        {"from 0 variants\nend\n", "a number", 1},
        {"from 0 variants 2\nend\n", "numbers of the plans above", 1},
        {"from 0 variants 0\nfrom 0 variants 1\nend\n", "a later step", 2},
        {"from 0 variants 0 1\n", "'end'", 2},
        {"from 0 variants 0 1\nend\nmore\n", "nothing after 'end'", 3},
    };
    for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *plans = g_strndup(two, rule);
        g_autofree char *text = g_strconcat(plans, rows[i].rule, NULL);
        g_autofree char *line = g_strdup_printf("line %d: ", lines + rows[i].line);
        assert_text_refused(text, line, rows[i].what);
    }
    assert_text_refused("memwall-plan 6\n", "line 1: ", "version 7");
    free(two);
    mw_variants_free(variants);
}

/* A fault of the second plan is said with its line in the file. */
static void
test_line_of_second(void)
{
    struct mw_settings asked = ask(3);
    struct mw_variants *variants = plan(&asked);
    char *text = text_of(variants);
    char *second = strstr(text + 1, "\nmemwall-plan") + 1;
    char *offset = strstr(strstr(second, "\nslot 2 "), "offset ") + strlen("offset ");
    long line = 1;
    char why[256] = "";

    for (const char *c = text; c < second; c++)
        line += *c == '\n';
    *offset = *offset == '7' ? '6' : '7';
    g_assert_null(mw_variants_parse(text, strlen(text), why, sizeof why));
    g_assert_true(g_str_has_prefix(why, "line "));
    g_assert_cmpint(strtol(why + strlen("line "), NULL, 10), >, line);
    free(text);
    mw_variants_free(variants);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/variants/rule", test_rule);
    g_test_add_func("/variants/delayed", test_delayed);
    g_test_add_func("/variants/refusals", test_refusals);
    g_test_add_func("/variants/text", test_text);
    g_test_add_func("/variants/bad-texts", test_bad_texts);
    g_test_add_func("/variants/line-of-second", test_line_of_second);
    return g_test_run();
}
