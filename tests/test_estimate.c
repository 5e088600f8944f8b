/* Estimates that share what a figure does not enter have the bits of estimates that do not: with
 * each figure of machine and software changed in turn, and at each end of each range. */
#include <math.h>

#include "lib/answer.h"
#include "study/evaluate.h"

#define FACTOR 1.25 /* of a figure that is changed */

static const struct {
    const char *model, *hardware, *strategy, *name, *value;
} cases[] = {
    {"gpt2-xl", "dgx2", "zero3", NULL, NULL}, /* curves */
    {"llama-3.1-8b", "dgx-h100", "zero3", "matmul-dtype", "fp8"},
    {"gpt2-xl", "dgx-h100", "zero3", "optimizer", "muon"}, /* products in the update */
    {"llama-3.2-3b", "rtx4090", "zero-infinity-cpu", NULL, NULL},
    {"llama-3.1-8b", "dgx-a100", "zero3", "train", "lora:16"},
    {"gpt2-xl", "dgx-h100", "zero-infinity-nvme", "dtype", "fp32"},
};

static struct memwall_answer *
ask(size_t i)
{
    struct memwall_question *question = memwall_question_new();
    struct memwall_error *error = NULL;
    bool set =
        memwall_question_set(question, "model", cases[i].model, &error) &&
        memwall_question_set(question, "hardware", cases[i].hardware, &error) &&
        memwall_question_set(question, "strategy", cases[i].strategy, &error) &&
        memwall_question_set(question, "batch", "2", &error) &&
        (!cases[i].name || memwall_question_set(question, cases[i].name, cases[i].value, &error));
    struct memwall_answer *answer = set ? memwall_ask(question, MEMWALL_ESTIMATE, &error) : NULL;

    g_assert_null(error);
    g_assert_true(answer->answers[0]->sizing->fits);
    memwall_question_free(question);
    return answer;
}

/* Returns whether the figure counts. */
static bool
check(const struct mw_estimate *estimate, const struct mw_hardware *other)
{
    double own_s = mw_estimate_own_s(estimate), shared_s = mw_estimate_on_s(estimate, other);

    g_assert_cmpfloat(shared_s, ==, mw_estimate_s(mw_estimate_sizing(estimate), other));
    return shared_s != own_s;
}

/* Multiplies what a row stores; false: it is no rate. */
static bool
change(void *figures, const struct mw_profile_key *row)
{
    double *field = (double *)(void *)((char *)figures + row->offset);
    int count = row->kind == MW_VALUE_LIST ? MW_PROFILE_LIST_MAX : 1;

    if (row->kind == MW_VALUE_FLAG) {
        bool *flag = (bool *)((char *)figures + row->offset);
        *flag = !*flag;
        return true;
    }
    if (row->kind != MW_VALUE_REAL && row->kind != MW_VALUE_LIST)
        return false;
    for (int i = 0; i < count; i++)
        field[i] *= FACTOR;
    return true;
}

static int
change_each_of_machine(const struct mw_question *question, const struct mw_estimate *estimate)
{
    struct mw_software figures = mw_software_read(question->software, MW_OUTLOOK_TYPICAL);
    size_t count;
    const struct mw_profile_key *keys = mw_hw_keys(&count);
    int counted = 0;

    for (size_t i = 0; i < count; i++) {
        struct mw_hardware used = mw_hwprofile_read(question->profile, MW_OUTLOOK_TYPICAL);
        mw_software_apply(&figures, question->uses, &used);
        if (change(&used, &keys[i]))
            counted += check(estimate, &used);
    }
    return counted;
}

static int
change_each_of_software(const struct mw_question *question, const struct mw_estimate *estimate)
{
    const struct mw_profile_kind *kind = &mw_software_kind;
    int counted = 0;

    for (size_t i = 0; i < kind->key_count; i++) {
        struct mw_hardware used = mw_hwprofile_read(question->profile, MW_OUTLOOK_TYPICAL);
        struct mw_software figures = mw_software_read(question->software, MW_OUTLOOK_TYPICAL);
        if (!change(&figures, &kind->keys[i]))
            continue;
        mw_software_apply(&figures, question->uses, &used);
        counted += check(estimate, &used);
    }
    return counted;
}

static void
test_figures(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct memwall_answer *answer = ask(i);
        const struct mw_question *question = &answer->question;
        struct mw_estimate *estimate =
            mw_estimate_new(answer->answers[0]->sizing, &question->hardware[MW_OUTLOOK_TYPICAL]);
        g_assert_cmpint(change_each_of_machine(question, estimate), >=, 2);
        g_assert_cmpint(change_each_of_software(question, estimate), >=, 2);
        mw_estimate_free(estimate);
        memwall_answer_free(answer);
    }
}

/* The ranges that are there are those that move a reading, one for each. */
static void
test_ranges(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct memwall_answer *answer = ask(i);
        const struct mw_question *question = &answer->question;
        struct mw_estimate *estimate =
            mw_estimate_new(answer->answers[0]->sizing, &question->hardware[MW_OUTLOOK_TYPICAL]);
        for (int o = 0; o < MW_OUTLOOK_COUNT; o += 2) {
            struct mw_machine_ranges ranges;
            struct mw_hardware one;
            int counted = 0, all = 0;
            mw_machine_ranges_init(&ranges, question->profile, question->software, question->uses,
                                   (enum mw_outlook)o);
            for (; mw_machine_ranges_next(&ranges, &one); all++)
                counted += check(estimate, &one);
            g_assert_cmpint(all, >=, 2);
            g_assert_cmpint(counted, >=, 2);
            check(estimate, &question->hardware[o]);
        }
        mw_estimate_free(estimate);
        memwall_answer_free(answer);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/estimate/shared/figures", test_figures);
    g_test_add_func("/estimate/shared/ranges", test_ranges);
    return g_test_run();
}
