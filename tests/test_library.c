/* libmemwall through its header alone. */
#include <glib.h>
#include <glib/gstdio.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Texts that were handed out stay, and may be set again. */
static void
test_texts_stay(void)
{
    struct memwall_question *question = question_of(small);

    memwall_question_set(question, "host.memory_gib", "256", NULL);
    const char *model = memwall_question_get(question, "model");
    const char *key = memwall_question_get(question, "host.memory_gib");
    g_assert_true(memwall_question_set(question, "model", model, NULL));
    g_assert_true(memwall_question_set(question, "host.memory_gib", key, NULL));
    g_assert_cmpstr(memwall_question_get(question, "model"), ==, "tiny");
    g_assert_cmpstr(memwall_question_get(question, "host.memory_gib"), ==, "256");
    g_assert_true(memwall_question_set(question, "model", "gpt2", NULL));
    g_assert_true(memwall_question_set(question, "host.memory_gib", NULL, NULL));
    g_assert_cmpstr(model, ==, "tiny");
    g_assert_cmpstr(key, ==, "256");
    memwall_question_free(question);
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

/* --- several strategies, layers, plans that were written -------------------------------------- */

static struct memwall_answer *
ask(const char *const *pairs, enum memwall_depth depth)
{
    struct memwall_question *question = question_of(pairs);
    struct memwall_error *error = NULL;
    struct memwall_answer *answer = memwall_ask(question, depth, &error);

    g_assert_cmpstr(error ? memwall_error_message(error) : NULL, ==, NULL);
    memwall_question_free(question);
    return answer;
}

/* What memwall_answer_print prints; NULL where it refuses, with a message that has the words. */
static char *
printed(const struct memwall_answer *answer, enum memwall_form form, const char *words)
{
    struct memwall_error *error = NULL;
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    bool good = memwall_answer_print(answer, form, out, &error);

    fclose(out);
    g_assert_true(good == !words);
    if (good)
        return text;
    g_assert_cmpint(memwall_error_code(error), ==, MEMWALL_INVALID);
    g_assert_nonnull(strstr(memwall_error_message(error), words));
    g_assert_cmpuint(length, ==, 0);
    memwall_error_free(error);
    free(text);
    return NULL;
}

/* A row has the step and its range without advice; an estimate is close to the engine's step of the
 * same plan, and does not know what only ops tell. */
static void
test_rows(void)
{
    struct memwall_answer *whole = answer_small(MEMWALL_SIMULATE);
    struct memwall_answer *row = answer_small(MEMWALL_ROW);
    struct memwall_answer *estimate = answer_small(MEMWALL_ESTIMATE_CHECKED);
    double engine_s = number(estimate, "engine_step_time_s");

    g_assert_cmpfloat(number(row, "step_time_s"), ==, number(whole, "step_time_s"));
    g_assert_cmpfloat(number(row, "range.step_time_s.low"), ==,
                      number(whole, "range.step_time_s.low"));
    g_assert_cmpfloat(engine_s, ==, number(whole, "step_time_s"));
    g_assert_cmpfloat(fabs(number(estimate, "step_time_s") / engine_s - 1), <, 0.3);
    g_assert_true(isnan(number(estimate, "nvme_written_bytes")));
    g_assert_null(memwall_answer_string(estimate, "bottleneck"));
    g_assert_null(printed(estimate, MEMWALL_TEXT, "an estimate is answered as JSON or CSV"));
    memwall_answer_free(whole);
    memwall_answer_free(row);
    memwall_answer_free(estimate);
}

/* Each strategy has the figures that it has alone, and the quick depth leaves out ranges. */
static void
test_several(void)
{
    static const char *const pairs[] = {"model",   "tiny",     "hardware",
                                        "rtx4090", "strategy", "zero3,zero-offload",
                                        "batch",   "2",        NULL};
    struct memwall_answer *both = ask(pairs, MEMWALL_SIMULATE), *alone = answer_small(1);
    struct memwall_answer *quick = ask(pairs, MEMWALL_STEP);
    char *csv = printed(both, MEMWALL_CSV, NULL);
    double none;

    g_assert_true(memwall_answer_fits(both));
    g_assert_cmpstr(memwall_answer_string(both, "strategy"), ==, "zero3");
    g_assert_cmpstr(memwall_answer_string(both, "answers.1.strategy"), ==, "zero-offload");
    g_assert_null(memwall_answer_string(both, "answers.2.strategy"));
    g_assert_cmpfloat(number(both, "step_time_s"), ==, number(alone, "step_time_s"));
    g_assert_cmpfloat(number(quick, "answers.1.step_time_s"), ==,
                      number(both, "answers.1.step_time_s"));
    g_assert_cmpfloat(number(both, "answers.1.range.step_time_s.low"), >, 0);
    g_assert_false(memwall_answer_number(quick, "answers.1.range.step_time_s.low", &none));
    g_assert_null(memwall_answer_warning(both, 0));
    g_assert_nonnull(strstr(csv, "zero-offload"));
    g_assert_null(printed(both, MEMWALL_PLAN_TEXT, "one strategy"));
    g_assert_null(memwall_answer_plan(both));
    free(csv);
    memwall_answer_free(both);
    memwall_answer_free(quick);
    memwall_answer_free(alone);
}

static void
test_largest(void)
{
    static const char *const pairs[] = {"model",    "gpt3-13b",         "hardware", "rtx4090",
                                        "strategy", "ddp,zero-offload", NULL};
    struct memwall_answer *largest = ask(pairs, MEMWALL_LARGEST);

    g_assert_true(memwall_answer_fits(largest));
    g_assert_cmpstr(memwall_answer_string(largest, "largest.0.strategy"), ==, "ddp");
    g_assert_cmpfloat(number(largest, "largest.1.layers"), >, number(largest, "largest.0.layers"));
    g_assert_nonnull(strstr(memwall_answer_text(largest), "zero-offload"));
    g_assert_null(printed(largest, MEMWALL_CSV, "text or JSON"));
    g_assert_null(memwall_answer_string(largest, "strategy"));
    memwall_answer_free(largest);
}

static char *
file_in(const char *folder, const char *name)
{
    return g_build_filename(folder, name, NULL);
}

static void
remove_file(char *path)
{
    g_assert_cmpint(g_unlink(path), ==, 0);
    g_free(path);
}

/* A plan that was written, on the machine that it was made for and on another. */
static void
test_written_plan(void)
{
    g_autofree char *folder = g_dir_make_tmp("memwall-library-XXXXXX", NULL);
    char *path = file_in(folder, "plan.txt");
    struct memwall_answer *made = answer_small(MEMWALL_PLAN), *first = answer_small(1);

    g_assert_true(memwall_answer_write(made, MEMWALL_PLAN_TEXT, path, NULL));
    const char *const there[] = {"plan", path, NULL};
    const char *const elsewhere[] = {"plan", path, "hardware", "dgx2", NULL};
    const char *const mixed[] = {"plan", path, "batch", "2", NULL};
    struct memwall_answer *read = ask(there, MEMWALL_SIMULATE);
    struct memwall_answer *moved = ask(elsewhere, MEMWALL_SIMULATE);
    struct memwall_question *question = question_of(mixed);
    struct memwall_error *error = NULL;

    g_assert_cmpfloat(number(read, "step_time_s"), ==, number(first, "step_time_s"));
    g_assert_cmpstr(memwall_answer_plan(read), ==, memwall_answer_plan(made));
    g_assert_null(memwall_answer_warning(read, 0));
    g_assert_nonnull(strstr(memwall_answer_warning(moved, 0), "made for machine rtx4090"));
    char *settings = printed(first, MEMWALL_DEEPSPEED, NULL),
         *same = printed(read, MEMWALL_DEEPSPEED, NULL);
    g_assert_cmpstr(same, ==, settings);
    free(settings);
    free(same);
    g_assert_null(memwall_ask(question, MEMWALL_SIMULATE, &error));
    check_error(error, MEMWALL_INVALID, "batch", "batch: cannot be set");
    g_assert_false(memwall_question_check(question, &error));
    check_error(error, MEMWALL_INVALID, "batch", "batch: cannot be set");
    memwall_question_free(question);
    memwall_answer_free(made);
    memwall_answer_free(first);
    memwall_answer_free(read);
    memwall_answer_free(moved);
    remove_file(path);
    g_rmdir(folder);
}

/* A plan without its question has no more than its ops tell. */
static void
test_bare_plan(void)
{
    g_autofree char *folder = g_dir_make_tmp("memwall-library-XXXXXX", NULL);
    char *path = file_in(folder, "plan.txt");
    struct memwall_answer *made = answer_small(MEMWALL_PLAN);
    g_autoptr(GRegex) question =
        g_regex_new("^(asked|chosen) .*\n", G_REGEX_MULTILINE, (GRegexMatchFlags)0, NULL);
    g_autofree char *bare = g_regex_replace_literal(question, memwall_answer_plan(made), -1, 0, "",
                                                    (GRegexMatchFlags)0, NULL);

    g_assert_true(g_file_set_contents(path, bare, -1, NULL));
    const char *const there[] = {"plan", path, NULL};
    struct memwall_answer *read = ask(there, MEMWALL_SIMULATE);
    g_assert_null(memwall_answer_string(read, "strategy"));
    g_assert_null(printed(read, MEMWALL_DEEPSPEED, "lacks its settings"));
    memwall_answer_free(made);
    memwall_answer_free(read);
    remove_file(path);
    g_rmdir(folder);
}

/* The settings of a DeepSpeed file that an answer wrote lead to the same step. */
static void
test_deepspeed(void)
{
    static const char *const offload[] = {
        "model", "tiny", "hardware", "rtx4090", "strategy", "zero-offload", "batch", "2", NULL};
    g_autofree char *folder = g_dir_make_tmp("memwall-library-XXXXXX", NULL);
    char *path = file_in(folder, "ds_config.json");
    struct memwall_answer *made = ask(offload, MEMWALL_SIMULATE);

    g_assert_true(memwall_answer_write(made, MEMWALL_DEEPSPEED, path, NULL));
    const char *const again[] = {"model", "tiny", "hardware", "rtx4090", "deepspeed", path, NULL};
    struct memwall_answer *read = ask(again, MEMWALL_SIMULATE);
    g_assert_cmpstr(memwall_answer_string(read, "strategy"), ==, "zero-offload");
    g_assert_cmpfloat(number(read, "step_time_s"), ==, number(made, "step_time_s"));
    memwall_answer_free(made);
    memwall_answer_free(read);
    remove_file(path);
    g_rmdir(folder);
}

static void
test_forms(void)
{
    struct memwall_answer *answer = answer_small(MEMWALL_SIMULATE);
    struct memwall_error *error = NULL;
    char *text = printed(answer, MEMWALL_TEXT, NULL),
         *more = printed(answer, MEMWALL_DETAILS, NULL);

    g_assert_cmpstr(text, ==, memwall_answer_text(answer));
    g_assert_cmpuint(strlen(more), >, strlen(text));
    g_assert_null(printed(answer, MEMWALL_TRACE, "goes to a file"));
    g_assert_null(printed(answer, (enum memwall_form)99, "form 99"));
    g_assert_false(memwall_answer_write(answer, MEMWALL_JSON, "/nonexistent/x", &error));
    g_assert_cmpint(memwall_error_code(error), ==, MEMWALL_IO);
    memwall_error_free(error);
    free(text);
    free(more);
    memwall_answer_free(answer);
}

static void
test_profile_keys(void)
{
    static const char *const pairs[] = {"model",          "tiny", "hardware", "rtx4090",
                                        "gpu.memory_gib", "20",   NULL};
    struct memwall_answer *answer = ask(pairs, MEMWALL_PLAN);
    const char *memory = memwall_answer_key(answer, "gpu.memory_gib");

    g_assert_cmpstr(memory, ==, "20");
    g_assert_true(memwall_answer_key(answer, "gpu.memory_gib") == memory);
    g_assert_cmpstr(memwall_answer_key(answer, "gpu.bf16"), ==, "true");
    g_assert_cmpstr(memwall_answer_key(answer, "profile.name"), ==, "rtx4090");
    g_assert_null(memwall_answer_key(answer, "profile.disturbed"));
    g_assert_null(memwall_answer_key(answer, "gpu.nothing"));
    g_assert_null(memwall_answer_key(answer, "gpu"));
    g_assert_null(memwall_answer_key(answer, ""));
    memwall_answer_free(answer);
}

/* A machine by its parts is any other machine. */
static void
test_composed(void)
{
    static const char *const pairs[] = {"model", "tiny", "hardware", "2xrtx4090,ram=64", NULL};
    struct memwall_answer *answer = ask(pairs, MEMWALL_PLAN);

    g_assert_cmpstr(memwall_answer_key(answer, "profile.name"), ==, "2xrtx4090,ram=64");
    g_assert_cmpstr(memwall_answer_key(answer, "host.memory_gib"), ==, "64");
    g_assert_cmpstr(memwall_answer_key(answer, "node.gpus"), ==, "2");
    memwall_answer_free(answer);
}

/* What is checked holds without a profile, whose name may be wrong. */
static void
test_check(void)
{
    static const char *const good[] = {"model", "tiny", "hardware", "dgx9", "batch", "2", NULL};
    static const char *const bad[] = {"model", "tiny", "batch", "3", "global-batch", "4", NULL};
    struct memwall_question *questions[] = {question_of(good), question_of(bad)};
    struct memwall_error *error = NULL;

    g_assert_true(memwall_question_check(questions[0], &error));
    g_assert_null(error);
    g_assert_false(memwall_question_check(questions[1], &error));
    check_error(error, MEMWALL_INVALID, "global-batch", "global-batch=4: ");
    for (size_t i = 0; i < G_N_ELEMENTS(questions); i++)
        memwall_question_free(questions[i]);
}

/* --- what is refused -------------------------------------------------------------------------- */

static const struct {
    const char *name, *value, *setting, *message;
    enum memwall_code code;
} refused[] = {
    {"batch", "0", "batch", "batch=0: must be ", MEMWALL_INVALID},
    {"seqs", "1", NULL, "seqs: no setting of this name; did you mean seq?", MEMWALL_INVALID},
    {"--batch", "1", NULL, "--batch: no setting of this name", MEMWALL_INVALID},
    {"nvme.drives", "x", "nvme.drives", "nvme.drives=x: must be ", MEMWALL_INVALID},
    {"nvm.drives", "1", "nvm.drives", "nvm.drives=1: ", MEMWALL_INVALID},
    {"strategy", "zero9", "strategy", "", MEMWALL_INVALID},
    {"strategy", "ddp,zero3,ddp", "strategy", "is named twice", MEMWALL_INVALID},
    {"strategy", "auto,zero3", "strategy", "give it alone", MEMWALL_INVALID},
    {"deepspeed-notes", "1", "deepspeed-notes", "must be on or off", MEMWALL_INVALID},
    {"outlook", "worst", "outlook", "outlook=worst: must be low, typical or high", MEMWALL_INVALID},
};

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
    g_assert_null(memwall_question_get(question, "seqs"));
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
    g_assert_null(memwall_ask(question, (enum memwall_depth)10, &error));
    check_error(error, MEMWALL_INVALID, NULL, "depth 10");
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

struct threads_ask {
    const struct memwall_question *question;
    enum memwall_depth depth;
};

static gpointer
answer_in_thread(gpointer data)
{
    const struct threads_ask *ask = data;
    struct memwall_answer *answer = memwall_ask(ask->question, ask->depth, NULL);
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
    struct threads_ask asks[] = {{questions[0], MEMWALL_SIMULATE},
                                 {questions[1], MEMWALL_SIMULATE},
                                 {questions[0], MEMWALL_ROW},
                                 {questions[1], MEMWALL_ESTIMATE_CHECKED}};
    char *alone[THREADS];
    GThread *threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        alone[i] = answer_in_thread(&asks[i]);
    for (int i = 0; i < THREADS; i++)
        threads[i] = g_thread_new("asks", answer_in_thread, &asks[i]);
    for (int i = 0; i < THREADS; i++) {
        g_autofree char *json = g_thread_join(threads[i]);
        g_assert_cmpstr(json, ==, alone[i]);
        g_free(alone[i]);
    }
    for (int i = 0; i < 2; i++)
        memwall_question_free(questions[i]);
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
    g_test_add_func("/library/texts-stay", test_texts_stay);
    g_test_add_func("/library/figures", test_figures);
    g_test_add_func("/library/depths", test_depths);
    g_test_add_func("/library/does-not-fit", test_does_not_fit);
    g_test_add_func("/library/several", test_several);
    g_test_add_func("/library/rows", test_rows);
    g_test_add_func("/library/largest", test_largest);
    g_test_add_func("/library/written-plan", test_written_plan);
    g_test_add_func("/library/bare-plan", test_bare_plan);
    g_test_add_func("/library/deepspeed", test_deepspeed);
    g_test_add_func("/library/forms", test_forms);
    g_test_add_func("/library/profile-keys", test_profile_keys);
    g_test_add_func("/library/composed", test_composed);
    g_test_add_func("/library/check", test_check);
    g_test_add_func("/library/set", test_set);
    g_test_add_func("/library/ask-refuses", test_ask_refuses);
    g_test_add_func("/library/free-of-nothing", test_free_of_nothing);
    g_test_add_func("/library/names", test_names);
    g_test_add_func("/library/threads", test_threads);
    g_test_add_func("/library/locale", test_locale);
    g_test_add_func("/library/listener", test_listener);
    return g_test_run();
}
