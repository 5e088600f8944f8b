/* A run whose numbers become infinite fails, and keeps none of them. */
#include <float.h>
#include <math.h>

#include "exec/trainer/internal.h"
#include "tests/nvme_faults.h"
#include "tests/says.h"
#include "tests/trained_commits.h"
#include "tests/weights_fixture.h"

#define GREAT_LR 1e3     /* parameters after the first update make a loss that is no number */
#define INFINITE_LR 1e39 /* infinite as fp32, so are they */

static char *directory;
static struct mw_faults calls; /* none: what it syncs need not reach a disk */

static void
note(void *data, const struct mw_trainer_step *step)
{
    const char *kind = step->diverged ? "!" : step->committed ? "c" : "-";
    g_string_append(data, kind);
}

/* What became of each step: committed, not, diverged. */
static char *
fail(const struct trained_case *what, int64_t steps, bool resume, const char *part)
{
    g_autoptr(GString) seen = g_string_new(NULL);
    g_autoptr(GError) error = NULL;
    struct trained_course course = trained_commit_course(directory, resume);
    struct trained trained;

    course.buffered = true;
    course.calls = &calls.calls;
    course.commit = what->commit || what->save_every;
    course.steps = steps;
    course.on_step = note;
    course.data = seen;
    if (trained_train(what, &course, &trained, &error))
        g_error("%s: trained well, though it should say \"%s\"", what->name, part);
    mw_test_says(error->message, part);
    mw_test_says(error->message, "the run has diverged");
    g_assert_true(g_error_matches(error, MW_ERROR, MW_ERROR_DEVICE));
    trained_clear(&trained);
    return g_string_free(g_steal_pointer(&seen), FALSE);
}

static void
assert_fails(const struct trained_case *what, int64_t steps, bool resume, const char *part,
             const char *wanted)
{
    g_autofree char *seen = fail(what, steps, resume, part);
    if (!g_str_equal(seen, wanted))
        g_error("%s: steps went %s, not %s", what->name, seen, wanted);
}

/* The previous step is the last that is kept, wherever state lives, and a run continues there. */
static void
test_loss(void)
{
    const char *wanted[TRAINED_COMMITS] = {"c!!!!!!!!", "c!!!!!!!!",  "-!!!!!!!!",
                                           "-!!!!!!!!", "c!!!!!!!!!", "--!!!!!!!!!"};

    for (int i = 0; i < TRAINED_COMMITS; i++) {
        struct trained_case what = trained_commits[i];
        what.lr = GREAT_LR;
        assert_fails(&what, TRAINED_STEPS, false, ", as in the 7 steps before", wanted[i]);
    }
    struct trained_case first = trained_commits[0];
    first.lr = GREAT_LR;
    g_free(fail(&first, TRAINED_STEPS, false,
                "step 1 is the last that is durable, and leads here again: start anew"));
    assert_fails(&first, TRAINED_STEPS, true, "step 9", "!!!!!!!!");
}

/* What is said to mend it: a resume where the steps after it can be others, else a new start. */
static void
test_advice(void)
{
    struct trained_case what = trained_commits[0];

    what.lr = INFINITE_LR;
    g_free(fail(&what, TRAINED_STEPS, false, "no step is durable: start anew, or from"));
    what.lr = GREAT_LR;
    what = trained_placed(&what, 0);
    what.commit = what.save_every = 0;
    g_free(fail(&what, TRAINED_STEPS, false, "diverged; start anew, or from"));
}

/* Or with the last step alone; or with fewer, if fewer are wanted. */
static void
test_end(void)
{
    struct trained_case what = trained_commits[0];

    what.lr = GREAT_LR;
    assert_fails(&what, 2, false, "step 2: the loss is not finite: ", "c!");
    what.skipped_in_row_max = 3;
    assert_fails(&what, TRAINED_STEPS, false, ", as in the 2 steps before", "c!!!");
    what = trained_placed(&what, 0);
    what.commit = 0;
    assert_fails(&what, 2, false, "step 2: the loss is not finite: ", "-!");
}

/* A loss scale is halved as often as it can be before a step is given up; the loss of those before
 * may be finite: these are kept. */
static void
test_fp16(void)
{
    struct trained_case what = trained_commits[0];

    what.dtype = MW_DTYPE_FP16;
    what.lr = GREAT_LR;
    what.loss_scaling = mw_loss_scaling_dynamic(4);
    what.loss_scaling.max = 8;
    assert_fails(&what, TRAINED_STEPS + 4, false, ", as in the 10 steps before", "c!!!!!!!!!!!");
}

/* Finite losses and gradients, and an update that is not: what it wrote is not kept.  A step may
 * fail before the one before it was told of. */
static void
test_state(void)
{
    for (int i = 0; i < TRAINED_COMMITS; i++) {
        struct trained_case what = trained_commits[i];
        what.lr = INFINITE_LR;
        what.save_every = what.save_every ? 1 : 0;
        what.undelayed_steps = 0;
        g_autofree char *seen =
            fail(&what, TRAINED_STEPS, false,
                 what.delayed ? "step 2: its update made state from transformer."
                              : "step 1: its update made state from transformer.");
        g_assert_true(g_str_has_prefix(what.delayed ? "c" : "", seen));
    }
}

/* What is in memory alone is not saved. */
static void
test_save(void)
{
    g_autofree char *path = g_build_filename(directory, "point", NULL);
    struct mw_checkpoint_options save = {
        .path = path, .dtype = MW_SAFETENSORS_F32, .optimizer = true};
    struct trained_case common = {
        .model = FIXTURES "gpt2-small/config.json", TRAINED_BATCHES(2, 24, 1), .lr = INFINITE_LR};
    struct trained_case what = trained_placed(&common, 0);
    struct trained_course course = {
        .steps = 1, .threads = 1, .directory = directory, .save = &save};
    struct trained trained;
    GError *error = NULL;

    g_assert_false(trained_train(&what, &course, &trained, &error));
    mw_test_error_says(error, "point: not written: \"transformer.", "is not finite");
    g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
    trained_clear(&trained);
}

/* --- numbers --------------------------------------------------------------------------------- */

static bool
is_finite(enum mw_dtype dtype, float param, float momentum, float variance)
{
    float state[3 * 5] = {1, -2, 0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    struct mw_chunk_content chunk = {.elements = 5};
    struct mw_plan plan = {.chunks = &chunk, .chunk_count = 1};
    struct mw_trainer trainer = {.plan = &plan, .kernels = mw_cpu_kernels(dtype)};
    bool all, parts = true;

    state[4] = param;
    state[9] = momentum;
    state[14] = variance;
    all = mw_trainer_is_finite(&trainer, 0, 0, sizeof state, state);
    for (int i = 0; i < 15; i += 3)
        parts &= mw_trainer_is_finite(&trainer, 0, 4 * i, 12, state + i);
    g_assert_true(all == parts);
    return all;
}

static void
test_numbers(void)
{
    const float bad[] = {INFINITY, -INFINITY, NAN, -NAN};

    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_assert_false(is_finite(MW_DTYPE_BF16, bad[i], 1, 1));
        g_assert_false(is_finite(MW_DTYPE_BF16, 1, bad[i], 1));
        g_assert_false(is_finite(MW_DTYPE_BF16, 1, 1, bad[i]));
        g_assert_false(mw_trainer_are_finite(&bad[i], 1));
    }
    /* The largest that 16 bits round to a number, and the next. */
    g_assert_true(is_finite(MW_DTYPE_FP16, nextafterf(65520, 0), 65520, 3e38F));
    g_assert_false(is_finite(MW_DTYPE_FP16, -65520, 1, 1));
    g_assert_true(is_finite(MW_DTYPE_BF16, nextafterf(0x1.ffp127F, 0), -0x1.fffffep127F, 1));
    g_assert_false(is_finite(MW_DTYPE_BF16, 0x1.ffp127F, 1, 1));
    g_assert_true(mw_trainer_fits(1e19));
    g_assert_false(mw_trainer_fits(2e19)); /* its square is no fp32 */
    g_assert_false(mw_trainer_fits(INFINITY));
    g_assert_false(mw_trainer_fits(NAN));
}

/* Wherever they stand, in vectors and behind them. */
static void
test_squares(void)
{
    const float bad[] = {INFINITY, -INFINITY, NAN, -NAN, -1, -1e-45F, -FLT_MAX};
    const float good[] = {0, -0.0F, 1e-45F, 1, FLT_MAX};
    float values[19] = {0};

    for (int at = 0; at < 19; at++) {
        for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
            values[at] = bad[i];
            g_assert_false(mw_trainer_are_squares(values, 19));
            g_assert_cmpint(mw_trainer_first_invalid(2, values, 19), ==, at);
            g_assert_cmpint(mw_trainer_first_invalid(1, values, 19), ==,
                            isfinite(bad[i]) ? -1 : at);
        }
        for (size_t i = 0; i < G_N_ELEMENTS(good); i++) {
            values[at] = good[i];
            g_assert_true(mw_trainer_are_squares(values, 19));
        }
        values[at] = 0;
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    directory = trained_directory();
    mw_faults_init(&calls, MW_FAULT_NONE, 0, 0);
    g_test_add_func("/trainer-diverges/numbers", test_numbers);
    g_test_add_func("/trainer-diverges/squares", test_squares);
    g_test_add_func("/trainer-diverges/loss", test_loss);
    g_test_add_func("/trainer-diverges/advice", test_advice);
    g_test_add_func("/trainer-diverges/end", test_end);
    g_test_add_func("/trainer-diverges/fp16", test_fp16);
    g_test_add_func("/trainer-diverges/state", test_state);
    g_test_add_func("/trainer-diverges/save", test_save);
    int result = g_test_run();
    mw_faults_finish(&calls);
    trained_remove(directory);
    return result;
}
