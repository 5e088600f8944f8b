/* Stopped after any step and resumed, a run ends with the bits of the undisturbed one. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "exec/trainer/internal.h"
#include "tests/nvme_faults.h"
#include "tests/says.h"
#include "tests/trained_commits.h"
#include "tests/weights_fixture.h"

#define STEPS TRAINED_STEPS

static char *directory;
static struct mw_faults calls; /* none: what it syncs need not reach a disk */

static struct trained_course
course_to(int64_t stop, bool resume)
{
    struct trained_course course = trained_commit_course(directory, resume);

    course.stop = stop;
    course.buffered = true;
    course.calls = &calls.calls;
    return course;
}

static void
stop_everywhere(gconstpointer data)
{
    const struct trained_case *what = data;
    struct trained undisturbed = trained_run(what, STEPS, 1, directory);

    for (int64_t stop = 1; stop < STEPS; stop++) {
        struct trained_course first = course_to(stop, false), second = course_to(0, true);
        struct trained trained = trained_well(what, &first);
        trained_clear(&trained);
        trained = trained_well(what, &second);
        g_assert_cmpint(trained.first_step, ==, stop);
        g_assert_cmpuint(trained.cursor, ==, stop * 1000);
        g_assert_null(trained.notice);
        trained_assert_same(what->name, &undisturbed, &trained);
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
        trained = trained_well(what, &course);
        g_assert_cmpint(trained.first_step, ==, stop - 1);
    }
    trained_assert_same(what->name, &undisturbed, &trained);
    trained_clear(&trained);
    trained_clear(&undisturbed);
}

/* --- steps that update nothing --------------------------------------------------------------- */

static int64_t lost_step; /* whose first micro-batch cannot be had; -1: none */

static bool
lose(const struct trained_case *what, int64_t step, GError **error)
{
    if (step != lost_step)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_IO, "step %d of %s is lost", (int)step + 1, what->name);
    return false;
}

/* Whether the step that the run continues from updated nothing, and a later one, which was lost,
 * did. */
static bool
worked_behind(const struct trained *undisturbed, int64_t from, int64_t lost)
{
    bool worked = false;

    for (int64_t step = from; step < lost; step++)
        worked |= isfinite(undisturbed->norms[step]);
    return worked && !isfinite(undisturbed->norms[from - 1]);
}

static int64_t
lose_and_resume(const struct trained_case *what, int64_t lost, const struct trained *undisturbed)
{
    struct trained_course first = course_to(0, false), second = course_to(0, true);
    struct trained trained;

    lost_step = lost;
    g_assert_false(trained_train(what, &first, &trained, NULL));
    trained_clear(&trained);
    lost_step = -1;
    trained = trained_well(what, &second);
    int64_t from = trained.first_step;
    g_assert_cmpint(from % what->save_every, ==, 0);
    g_assert_cmpint(from + what->save_every, >=, lost);
    trained_assert_same(what->name, undisturbed, &trained);
    trained_clear(&trained);
    return from;
}

/* Lost in any step, not stopped: what the steps behind the last record wrote lies on the drives.
 * fp16, whose scale grows after every good step until it is too large again, at two phases: records
 * are of steps that update nothing, too, and steps behind them must leave alone what they name. */
static void
test_lost_behind_no_update(void)
{
    int worked = 0;

    for (int phase = 0; phase < 2; phase++) {
        struct trained_case what = {
            .name = "split, fp16",
            .model = FIXTURES "gpt2-small/config.json",
            TRAINED_SPLIT("cpu"),
            .dtype = MW_DTYPE_FP16,
            .before_batch = lose,
            .loss_scaling = {
                .start = ldexp(1, 21 + phase), .min = 1, .max = ldexp(1, 30), .double_after = 1}};
        lost_step = -1;
        struct trained undisturbed = trained_run(&what, STEPS, 1, directory);
        for (int64_t lost = what.save_every + 1; lost < STEPS; lost++) {
            int64_t from = lose_and_resume(&what, lost, &undisturbed);
            worked += worked_behind(&undisturbed, from, lost);
        }
        trained_clear(&undisturbed);
    }
    g_assert_cmpint(worked, >, 0);
}

/* --- which steps are durable ----------------------------------------------------------------- */

static void
note(void *data, const struct mw_trainer_step *step)
{
    g_string_append_c(data, step->committed ? 'c' : '-');
}

static void
assert_committed(const struct trained_case *what, const char *wanted)
{
    g_autoptr(GString) seen = g_string_new(NULL);
    struct trained_course course = course_to(0, false);

    course.on_step = note;
    course.data = seen;
    struct trained trained = trained_well(what, &course);
    g_assert_cmpstr(seen->str, ==, wanted);
    trained_clear(&trained);
}

static void
test_committed(void)
{
    assert_committed(&trained_commits[0], "cccccccccccc");
    assert_committed(&trained_commits[2], "--c--c--c--c");
    struct trained_case what = trained_commits[3];
    what.save_every = 5;
    assert_committed(&what, "----c----c-c");
}

/* --- what is refused ------------------------------------------------------------------------- */

static void
refuse(const struct trained_case *what, const struct trained_course *course, const char *part)
{
    struct trained trained;
    g_autoptr(GError) error = NULL;

    if (trained_train(what, course, &trained, &error))
        g_error("%s: not refused, though it should say \"%s\"", what->name, part);
    mw_test_says(error->message, part);
    trained_clear(&trained);
}

static void
test_other_runs(void)
{
    struct trained_course course = course_to(3, false);
    struct trained trained = trained_well(&trained_commits[0], &course);
    struct trained_case other = trained_commits[0];

    trained_clear(&trained);
    course.resume = true;
    course.fingerprint = 6;
    refuse(&trained_commits[0], &course, "of another model or other settings");
    course.fingerprint = 5;
    other.optimizer_chunk = 10000;
    refuse(&other, &course, "other settings");
    other = trained_commits[0];
    other.model = FIXTURES "llama-small/config.json";
    refuse(&other, &course, "other settings");
    course.stop = 0;
    trained = trained_well(&trained_commits[0], &course);
    g_assert_cmpint(trained.first_step, ==, 3);
    trained_clear(&trained);
}

static void
test_plans_that_cannot(void)
{
    struct trained_course course = course_to(0, false);
    struct trained_case other = trained_commits[2];

    other.save_every = 0;
    refuse(&other, &course, "save-every=K");
    other = trained_commits[0];
    other.commit = 0;
    refuse(&other, &course, "one extent");
    other = trained_commits[5];
    other.save_every = 0;
    refuse(&other, &course, "gradients of a delayed update");
}

/* What waits for an update that is delayed is not forgotten by one that is not. */
static void
test_other_delay(void)
{
    struct trained_course course = course_to(6, false);
    struct trained trained = trained_well(&trained_commits[5], &course);
    struct trained_case other = trained_commits[5];

    trained_clear(&trained);
    course.stop = 0;
    course.resume = true;
    other.undelayed_steps = 7;
    refuse(&other, &course, "gradients for a delayed update");
    trained = trained_well(&trained_commits[5], &course);
    g_assert_cmpint(trained.first_step, ==, 6);
    trained_clear(&trained);
}

/* A field in both records of a run gets another name and number, under a right checksum. */
static void
change_field(const char *name, const char *other, uint64_t value)
{
    enum { CHECKSUM_AT = 8, EXTENTS_AT = 24 };
    g_autofree char *path = g_build_filename(directory, "memwall.record", NULL), *text = NULL;
    uint64_t extents, checksum = 0;
    gsize length;

    g_assert_true(g_file_get_contents(path, &text, &length, NULL));
    for (gsize slot = 0; slot < length; slot += length / 2) {
        char *field = memmem(text + slot, 4096, name, strlen(name) + 1);
        g_assert_nonnull(field);
        memset(field, 0, MW_COMMIT_NAME_BYTES);
        memcpy(field, other, strlen(other));
        memcpy(field + MW_COMMIT_NAME_BYTES, &value, sizeof value);
        memcpy(&extents, text + slot + EXTENTS_AT, sizeof extents);
        memset(text + slot + CHECKSUM_AT, 0, sizeof checksum);
        checksum = mw_commit_checksum(text + slot, mw_commit_record_bytes((int64_t)extents));
        memcpy(text + slot + CHECKSUM_AT, &checksum, sizeof checksum);
    }
    g_assert_true(g_file_set_contents(path, text, (gssize)length, NULL));
}

static void
change_records(const char *name, uint64_t value)
{
    change_field(name, name, value);
}

static void
test_fields(void)
{
    struct trained_course course = course_to(4, false);
    struct trained trained = trained_well(&trained_commits[0], &course);
    uint64_t one = mw_commit_field_real("", 1).value, not_one = mw_commit_field_real("", NAN).value;

    trained_clear(&trained);
    course.resume = true;
    course.stop = 6;
    change_records("loss-scale", not_one);
    refuse(&trained_commits[0], &course,
           "the record of step 4: field \"loss-scale\" is nan: must be a power");
    change_records("loss-scale", one);
    change_records("good-steps", UINT64_MAX);
    refuse(&trained_commits[0], &course, "\"good-steps\" is 18446744073709551615: must be at most");
    change_records("good-steps", 4);
    trained = trained_well(&trained_commits[0], &course);
    g_assert_cmpint(trained.first_step, ==, 4);
    trained_clear(&trained);
}

/* Goes on by one step; what the user is told of instructions: this, or nothing. */
static void
go_on_told(int64_t stop, const char *told)
{
    struct trained_course course = course_to(stop, true);
    struct trained trained = trained_well(&trained_commits[0], &course);

    g_assert_cmpint(trained.first_step, ==, stop - 1);
    if (told ? !strstr(trained.told, told) : strstr(trained.told, "was computed with") != NULL)
        g_error("told \"%s\", not \"%s\"", trained.told, told ? told : "");
    trained_clear(&trained);
}

/* Other instructions than those of the record: reported, and the run continues. */
static void
test_instructions(void)
{
    struct trained_course course = course_to(4, false);
    struct trained trained = trained_well(&trained_commits[0], &course);
    const uint64_t used = mw_cpu_isa_used(NULL), other = (used + 1) % MW_CPU_ISAS;
    const char *here = mw_cpu_isa_name((enum mw_cpu_isa)used);
    g_autofree char *told =
        g_strdup_printf("this run was computed with %s until step 5; it continues with %s: its "
                        "losses will differ in their last digits\n",
                        mw_cpu_isa_name((enum mw_cpu_isa)other), here);

    trained_clear(&trained);
    go_on_told(5, NULL);
    change_records(MW_TRAINER_ISA, other);
    go_on_told(6, told);
    go_on_told(7, NULL);
    change_records(MW_TRAINER_ISA, UINT64_MAX);
    go_on_told(8, "with instructions that this version does not know until step 7; ");
    change_field(MW_TRAINER_ISA, MW_TRAINER_ON_GPU, 1);
    go_on_told(9, "with a GPU until step 8; ");
    go_on_told(10, NULL);
    change_field(MW_TRAINER_FORMAT, "former", 1); /* a record that does not say it */
    change_field(MW_TRAINER_ISA, "older", 0);
    go_on_told(11, NULL);
}

static void
test_nothing_there(void)
{
    g_autofree char *empty = trained_directory();
    struct trained_course course = course_to(0, true);

    course.directory = empty;
    refuse(&trained_commits[0], &course, "nothing to resume in this directory");
    trained_remove(g_steal_pointer(&empty));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    directory = trained_directory();
    mw_faults_init(&calls, MW_FAULT_NONE, 0, 0);
    for (int i = 0; i < TRAINED_COMMITS; i++) {
        g_autofree char *path =
            g_strdup_printf("/trainer-commit/%s/stopped-anywhere", trained_commits[i].name);
        g_autofree char *every =
            g_strdup_printf("/trainer-commit/%s/stopped-every-time", trained_commits[i].name);
        g_test_add_data_func(path, &trained_commits[i], stop_everywhere);
        g_test_add_data_func(every, &trained_commits[i], stop_every_time);
    }
    g_test_add_func("/trainer-commit/which-steps", test_committed);
    g_test_add_func("/trainer-commit/lost-behind-no-update", test_lost_behind_no_update);
    g_test_add_func("/trainer-commit/other-runs", test_other_runs);
    g_test_add_func("/trainer-commit/plans-that-cannot", test_plans_that_cannot);
    g_test_add_func("/trainer-commit/other-delay", test_other_delay);
    g_test_add_func("/trainer-commit/fields", test_fields);
    g_test_add_func("/trainer-commit/instructions", test_instructions);
    g_test_add_func("/trainer-commit/nothing-there", test_nothing_there);
    int result = g_test_run();
    mw_faults_finish(&calls);
    trained_remove(directory);
    return result;
}
