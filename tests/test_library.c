/* libmemwall through its header alone. */
#include <glib.h>
#include <locale.h>
#include <math.h>
#include <string.h>

#include "lib/memwall.h"

static struct memwall_question *
question_of(const char *const *pairs)
{
    struct memwall_question *question = memwall_question_new();

    for (; *pairs; pairs += 2)
        g_assert_true(memwall_question_set(question, pairs[0], pairs[1], NULL));
    return question;
}

static const char *const small[] = {"model", "tiny",  "hardware", "rtx4090", "strategy",
                                    "zero3", "batch", "2",        NULL};

static struct memwall_answer *
answer_small(enum memwall_depth depth)
{
    struct memwall_question *question = question_of(small);
    struct memwall_error *error = NULL;
    struct memwall_answer *answer = memwall_ask(question, depth, &error);

    memwall_question_free(question); /* the answer does not need it */
    g_assert_null(error);
    g_assert_nonnull(answer);
    return answer;
}

static double
number(const struct memwall_answer *answer, const char *name)
{
    double value = -1;

    g_assert_true(memwall_answer_number(answer, name, &value));
    return value;
}

static void
test_figures(void)
{
    struct memwall_answer *answer = answer_small(MEMWALL_SIMULATE);
    double value = 7;

    g_assert_true(memwall_answer_fits(answer));
    g_assert_cmpfloat(number(answer, "step_time_s"), >, 0);
    g_assert_cmpfloat(number(answer, "peak_bytes.gpu"), >, 1e6);
    g_assert_cmpfloat(number(answer, "lanes.0.busy_s"), >, 0);
    g_assert_cmpfloat(number(answer, "feasible"), ==, 1);
    g_assert_true(isnan(number(answer, "limiting_tier")));
    g_assert_cmpstr(memwall_answer_string(answer, "strategy"), ==, "zero3");
    g_assert_null(memwall_answer_string(answer, "remedy"));
    static const char *const none[] = {
        "",         ".",       "step",          "lanes",   "lanes.x", "lanes.99.busy_s",
        "strategy", "answers", "step_time_s.0", "lanes.0."};
    for (size_t i = 0; i < G_N_ELEMENTS(none); i++)
        g_assert_false(memwall_answer_number(answer, none[i], &value));
    g_assert_cmpfloat(value, ==, 7);
    g_assert_true(g_str_has_prefix(memwall_answer_plan(answer), "memwall-plan"));
    g_assert_nonnull(strstr(memwall_answer_text(answer), "zero3"));
    g_assert_nonnull(strstr(memwall_answer_json(answer), "\"schema\": \"memwall-answer/"));
    memwall_answer_free(answer);
}

static void
test_depths(void)
{
    struct memwall_answer *plan = answer_small(MEMWALL_PLAN);
    struct memwall_answer *full = answer_small(MEMWALL_WHAT_IF);

    g_assert_cmpfloat(number(plan, "simulated"), ==, 0);
    g_assert_true(isnan(number(plan, "step_time_s")));
    g_assert_cmpfloat(number(full, "what_if.0.step_time_s"), >, 0);
    memwall_answer_free(plan);
    memwall_answer_free(full);
}

static void
test_does_not_fit(void)
{
    static const char *const large[] = {"model",    "gpt3-175b", "hardware", "rtx4090",
                                        "strategy", "ddp",       NULL};
    struct memwall_question *question = question_of(large);
    struct memwall_error *error = NULL;
    struct memwall_answer *answer = memwall_ask(question, MEMWALL_SIMULATE, &error);

    g_assert_null(error);
    g_assert_false(memwall_answer_fits(answer));
    g_assert_null(memwall_answer_plan(answer));
    g_assert_cmpfloat(number(answer, "short_bytes"), >, 0);
    g_assert_cmpstr(memwall_answer_string(answer, "limiting_tier"), ==, "gpu");
    /* By the names of the library, not as options. */
    g_assert_null(strstr(memwall_answer_json(answer), "--"));
    g_assert_nonnull(strchr(memwall_answer_string(answer, "remedy"), '='));
    memwall_answer_free(answer);
    memwall_question_free(question);
}

static const struct {
    const char *name, *value, *setting, *message;
    enum memwall_code code;
} refused[] = {
    {"batch", "0", "batch", "batch=0: must be ", MEMWALL_INVALID},
    {"sequ", "1", NULL, "sequ: no setting of this name; did you mean seq?", MEMWALL_INVALID},
    {"--batch", "1", NULL, "--batch: no setting of this name", MEMWALL_INVALID},
    {"nvme.drives", "x", "nvme.drives", "nvme.drives=x: must be ", MEMWALL_INVALID},
    {"nvm.drives", "1", "nvm.drives", "nvm.drives=1: ", MEMWALL_INVALID},
    {"strategy", "zero9", "strategy", "", MEMWALL_INVALID},
    {"outlook", "worst", "outlook", "outlook=worst: must be low, typical or high", MEMWALL_INVALID},
};

static void
check_error(struct memwall_error *error, enum memwall_code code, const char *setting,
            const char *message)
{
    g_assert_nonnull(error);
    g_assert_cmpint(memwall_error_code(error), ==, code);
    g_assert_cmpstr(memwall_error_setting(error), ==, setting);
    g_assert_nonnull(strstr(memwall_error_message(error), message));
    g_assert_null(strchr(memwall_error_message(error), '\n'));
    memwall_error_free(error);
}

static void
test_set(void)
{
    struct memwall_question *question = question_of(small);

    for (size_t i = 0; i < G_N_ELEMENTS(refused); i++) {
        struct memwall_error *error = NULL;
        g_assert_false(memwall_question_set(question, refused[i].name, refused[i].value, &error));
        g_assert_false(memwall_question_set(question, refused[i].name, refused[i].value, NULL));
        check_error(error, refused[i].code, refused[i].setting, refused[i].message);
    }
    g_assert_cmpstr(memwall_question_get(question, "batch"), ==, "2");
    g_assert_null(memwall_question_get(question, "seq"));
    g_assert_null(memwall_question_get(question, "sequ"));
    g_assert_true(memwall_question_set(question, "nvme.drives", "2", NULL));
    g_assert_true(memwall_question_set(question, "nvme.drives", "4", NULL));
    g_assert_cmpstr(memwall_question_get(question, "nvme.drives"), ==, "4");
    g_assert_true(memwall_question_set(question, "nvme.drives", NULL, NULL));
    g_assert_null(memwall_question_get(question, "nvme.drives"));
    g_assert_true(memwall_question_set(question, "batch", NULL, NULL));
    g_assert_null(memwall_question_get(question, "batch"));
    memwall_question_free(question);
}

static const struct {
    const char *pairs[7];
    const char *setting, *message;
} unanswered[] = {
    {{NULL}, "model", "model: is missing"},
    {{"model", "gpt5", "hardware", "dgx2", NULL}, "model", "gpt5"},
    {{"model", "tiny", "hardware", "dgx9", NULL}, "hardware", "dgx9"},
    {{"model", "tiny", NULL}, "hardware", "hardware=here: this machine was not measured"},
    {{"model", "tiny", "hardware", "rtx4090", "nodes", "3", NULL}, "nodes", "nodes=3: the profile"},
    {{"model", "tiny", "hardware", "rtx4090", "batch", "0.5", NULL}, "batch", "batch=0.5: must be"},
    {{"model", "tiny", "hardware", "rtx4090", "gpu.reserve_gib", "99", NULL},
     "gpu.reserve_gib",
     "gpu.reserve_gib=99: must be less than"},
};

static void
test_ask_refuses(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(unanswered); i++) {
        struct memwall_question *question = question_of(unanswered[i].pairs);
        struct memwall_error *error = NULL;
        g_assert_null(memwall_ask(question, MEMWALL_PLAN, &error));
        g_assert_null(memwall_ask(question, MEMWALL_PLAN, NULL));
        check_error(error, MEMWALL_INVALID, unanswered[i].setting, unanswered[i].message);
        memwall_question_free(question);
    }
    struct memwall_question *question = question_of(small);
    struct memwall_error *error = NULL;
    g_assert_null(memwall_ask(question, (enum memwall_depth)9, &error));
    check_error(error, MEMWALL_INVALID, NULL, "depth 9");
    memwall_question_free(question);
}

static void
test_free_of_nothing(void)
{
    memwall_question_free(NULL);
    memwall_answer_free(NULL);
    memwall_error_free(NULL);
    memwall_names_free(NULL);
}

/* Every name that there is can be set, or refused for its value alone. */
static void
test_names(void)
{
    static const char *const lists[] = {"models", "hardware", "strategies", "settings", "keys"};
    struct memwall_question *question = memwall_question_new();

    for (size_t i = 0; i < G_N_ELEMENTS(lists); i++) {
        char **names = memwall_names(lists[i]);
        g_assert_nonnull(names);
        g_assert_cmpuint(g_strv_length(names), >, 3);
        for (char **name = names; i >= 3 && *name; name++) {
            struct memwall_error *error = NULL;
            if (!memwall_question_set(question, *name, "", &error))
                g_assert_cmpstr(memwall_error_setting(error), ==, *name);
            memwall_error_free(error);
        }
        memwall_names_free(names);
    }
    g_assert_null(memwall_names("animals"));
    g_assert_nonnull(strchr(memwall_version(), '.'));
    memwall_question_free(question);
}

/* --- a program with threads, a locale, a notebook -------------------------------------------- */

#define THREADS 4

static gpointer
answer_in_thread(gpointer data)
{
    const struct memwall_question *question = data;
    struct memwall_answer *answer = memwall_ask(question, MEMWALL_SIMULATE, NULL);
    char *json = g_strdup(memwall_answer_json(answer));

    memwall_answer_free(answer);
    return json;
}

/* The same question and others beside it: each has the answer that it has alone. */
static void
test_threads(void)
{
    static const char *const other[] = {
        "model", "llama-3.1-8b", "hardware", "dgx2", "nvme.drives", "4", NULL};
    struct memwall_question *questions[2] = {question_of(small), question_of(other)};
    char *alone[2];
    GThread *threads[THREADS];

    for (int i = 0; i < 2; i++)
        alone[i] = answer_in_thread(questions[i]);
    for (int i = 0; i < THREADS; i++)
        threads[i] = g_thread_new("asks", answer_in_thread, questions[i % 2]);
    for (int i = 0; i < THREADS; i++) {
        g_autofree char *json = g_thread_join(threads[i]);
        g_assert_cmpstr(json, ==, alone[i % 2]);
    }
    for (int i = 0; i < 2; i++) {
        g_free(alone[i]);
        memwall_question_free(questions[i]);
    }
}

/* Where a comma is the point: skipped where the machine has no such locale. */
static void
test_locale(void)
{
    struct memwall_answer *before = answer_small(MEMWALL_SIMULATE);

    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8")) {
        g_test_skip("no locale with a decimal comma");
    } else {
        struct memwall_answer *after = answer_small(MEMWALL_SIMULATE);
        g_assert_cmpstr(memwall_answer_json(after), ==, memwall_answer_json(before));
        g_assert_cmpstr(memwall_answer_text(after), ==, memwall_answer_text(before));
        g_assert_cmpstr(memwall_answer_plan(after), ==, memwall_answer_plan(before));
        g_assert_cmpstr(localeconv()->decimal_point, ==, ",");
        memwall_answer_free(after);
        setlocale(LC_NUMERIC, "C");
    }
    memwall_answer_free(before);
}

static void
listen(void *data, const char *doing, int simulated)
{
    g_assert_nonnull(doing);
    g_assert_cmpint(simulated, >=, 0);
    ++*(int *)data;
}

static void
test_listener(void)
{
    static const char *const open[] = {"model", "llama-3.1-8b", "hardware", "rtx4090", NULL};
    struct memwall_question *question = question_of(open);
    int heard = 0, before;

    memwall_question_listen(question, listen, &heard);
    memwall_answer_free(memwall_ask(question, MEMWALL_SIMULATE, NULL));
    g_assert_cmpint(heard, >, 0);
    before = heard;
    memwall_answer_free(answer_small(MEMWALL_SIMULATE)); /* of another question it hears nothing */
    g_assert_cmpint(heard, ==, before);
    memwall_question_free(question);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_setenv("XDG_CONFIG_HOME", "/nonexistent", TRUE);
    g_test_add_func("/library/figures", test_figures);
    g_test_add_func("/library/depths", test_depths);
    g_test_add_func("/library/does-not-fit", test_does_not_fit);
    g_test_add_func("/library/set", test_set);
    g_test_add_func("/library/ask-refuses", test_ask_refuses);
    g_test_add_func("/library/free-of-nothing", test_free_of_nothing);
    g_test_add_func("/library/names", test_names);
    g_test_add_func("/library/threads", test_threads);
    g_test_add_func("/library/locale", test_locale);
    g_test_add_func("/library/listener", test_listener);
    return g_test_run();
}
