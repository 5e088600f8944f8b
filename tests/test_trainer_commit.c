/* Stopped after any step and resumed, a run ends with the bits of the undisturbed one. */
#include <string.h>

#include "tests/trained.h"
#include "tests/weights_fixture.h"

#define STEPS 12
#define GPT2 FIXTURES "gpt2-small/config.json"

static char *directory;

static const struct trained_case nvme = {.name = "nvme",
                                         .model = GPT2,
                                         .strategy = MW_STRATEGY_ZERO_INFINITY_NVME,
                                         .params = "nvme",
                                         .gradients = "nvme",
                                         .optimizer = "nvme",
                                         .activations = "cpu",
                                         .sequences = 2,
                                         .seq = 24,
                                         .grad_accum = 1,
                                         .interval = 1,
                                         .commit = 1};
static const struct trained_case host_params = {.name = "parameters in host memory",
                                                .model = GPT2,
                                                .strategy = MW_STRATEGY_ZERO_INFINITY_NVME,
                                                .params = "cpu",
                                                .gradients = "cpu",
                                                .optimizer = "nvme",
                                                .activations = "gpu",
                                                .sequences = 2,
                                                .seq = 24,
                                                .grad_accum = 2,
                                                .interval = 1,
                                                .commit = 1,
                                                .tiles = 2};
static const struct trained_case split = {.name = "split",
                                          .model = GPT2,
                                          .strategy = MW_STRATEGY_ZERO_INFINITY_NVME,
                                          .params = "cpu:0.04MB,nvme",
                                          .gradients = "cpu:0.06MB,nvme",
                                          .optimizer = "gpu:0.23MB,cpu:0.1MB,nvme",
                                          .activations = "cpu",
                                          .sequences = 2,
                                          .seq = 24,
                                          .grad_accum = 1,
                                          .interval = 1,
                                          .commit = 1,
                                          .save_every = 3};
static const struct trained_case in_memory = {.name = "in memory",
                                              .model = GPT2,
                                              .strategy = MW_STRATEGY_ZERO_OFFLOAD,
                                              .sequences = 2,
                                              .seq = 24,
                                              .grad_accum = 1,
                                              .interval = 1,
                                              .save_every = 4};

static struct trained_course
course_to(int64_t stop, bool resume)
{
    return (struct trained_course){.steps = STEPS,
                                   .stop = stop,
                                   .threads = 1,
                                   .directory = directory,
                                   .commit = true,
                                   .resume = resume,
                                   .buffered = true,
                                   .fingerprint = 5};
}

static struct trained
train(const struct trained_case *what, const struct trained_course *course)
{
    struct trained trained;
    GError *error = NULL;

    if (!trained_train(what, course, &trained, &error))
        g_error("%s: %s", what->name, error->message);
    return trained;
}

static void
assert_same(const char *name, const struct trained *a, const struct trained *b)
{
    g_assert_cmpint(a->elements, ==, b->elements);
    for (int64_t s = b->first_step; s < STEPS; s++)
        if (a->losses[s] != b->losses[s] || a->norms[s] != b->norms[s])
            g_error("%s: step %d has loss %.17g, norm %.17g, not %.17g, %.17g", name, (int)s,
                    b->losses[s], b->norms[s], a->losses[s], a->norms[s]);
    if (memcmp(a->state, b->state, 3 * a->elements * sizeof(float)))
        g_error("%s: other weights", name);
}

static void
stop_everywhere(gconstpointer data)
{
    const struct trained_case *what = data;
    struct trained undisturbed = trained_run(what, STEPS, 1, directory);

    for (int64_t stop = 1; stop < STEPS; stop++) {
        struct trained_course first = course_to(stop, false), second = course_to(0, true);
        struct trained trained = train(what, &first);
        trained_clear(&trained);
        trained = train(what, &second);
        g_assert_cmpint(trained.first_step, ==, stop);
        g_assert_cmpuint(trained.cursor, ==, stop * 1000);
        assert_same(what->name, &undisturbed, &trained);
        trained_clear(&trained);
    }
    trained_clear(&undisturbed);
}

/* One run of as many parts as there are steps. */
static void
stop_every_time(gconstpointer data)
{
    const struct trained_case *what = data;
    struct trained undisturbed = trained_run(what, STEPS, 1, directory), trained = {0};

    for (int64_t stop = 1; stop <= STEPS; stop++) {
        struct trained_course course = course_to(stop, stop > 1);
        trained_clear(&trained);
        trained = train(what, &course);
        g_assert_cmpint(trained.first_step, ==, stop - 1);
    }
    assert_same(what->name, &undisturbed, &trained);
    trained_clear(&trained);
    trained_clear(&undisturbed);
}

/* --- what is refused ---------------------------------------------------------------------------
 */

static void
refuse(const struct trained_case *what, const struct trained_course *course, const char *part)
{
    struct trained trained;
    g_autoptr(GError) error = NULL;

    if (trained_train(what, course, &trained, &error))
        g_error("%s: not refused, though it should say \"%s\"", what->name, part);
    if (!strstr(error->message, part))
        g_error("\"%s\" does not say \"%s\"", error->message, part);
    trained_clear(&trained);
}

static void
test_refused(void)
{
    struct trained_course course = course_to(3, false);
    struct trained trained = train(&nvme, &course);
    struct trained_case other = nvme;

    trained_clear(&trained);
    course.resume = true;
    course.fingerprint = 6;
    refuse(&nvme, &course, "of another model or other settings");
    course.fingerprint = 5;
    other.optimizer_chunk = 10000;
    refuse(&other, &course, "other settings");
    other = nvme;
    other.model = FIXTURES "llama-small/config.json";
    refuse(&other, &course, "other settings");
    course.resume = false;
    other = split;
    other.save_every = 0;
    refuse(&other, &course, "--save-every K");
    other = nvme;
    other.commit = 0;
    refuse(&other, &course, "one extent");
    course.resume = true;
    course.stop = 0;
    trained = train(&nvme, &course);
    g_assert_cmpint(trained.first_step, ==, 3);
    trained_clear(&trained);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    directory = trained_directory();
    g_test_add_data_func("/trainer-commit/nvme", &nvme, stop_everywhere);
    g_test_add_data_func("/trainer-commit/host-params", &host_params, stop_everywhere);
    g_test_add_data_func("/trainer-commit/split", &split, stop_everywhere);
    g_test_add_data_func("/trainer-commit/in-memory", &in_memory, stop_everywhere);
    g_test_add_data_func("/trainer-commit/nvme-every-time", &nvme, stop_every_time);
    g_test_add_data_func("/trainer-commit/split-every-time", &split, stop_every_time);
    g_test_add_func("/trainer-commit/refused", test_refused);
    int result = g_test_run();
    trained_remove(directory);
    return result;
}
