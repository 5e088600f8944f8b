/* Layers that are left out of steps by a schedule: what it says, its plans, and that a run has
 * the bits of one plan at a time, wherever its state lives and wherever it is stopped. */
#include <glib/gstdio.h>
#include <string.h>

#include "planner/settings/drops.h"
#include "tests/nvme_fixture.h"
#include "tests/trained_commits.h"
#include "tests/weights_fixture.h"

#define LAYERS 5
#define STEPS 9
#define SCHEDULE "1,3/0,2-4/-@2"

static char *directory, *model;

/* What SCHEDULE leaves out of a step. */
static const char *
turn_of(int64_t step)
{
    static const char *const cycle[] = {"1,3", "0,2-4", "-"};
    return step < 2 ? "-" : cycle[(step - 2) % 3];
}

/* --- the schedule ----------------------------------------------------------------------------- */

static void
test_texts(void)
{
    static const char *const good[] = {"-", "0", "1,3", "1,3/5-7/-", "-/-/2", "4-4@7", "-@0"};
    static const char *const bad[] = {"",      "/",
                                      "1/",    "/1",
                                      "1//2",  "1,",
                                      ",1",    "a",
                                      "3-1",   "1-",
                                      "--",    "-1",
                                      "1@",    "1@-1",
                                      "@3",    "1x",
                                      "1, 3",  "1,-",
                                      "1@2@3", "1-2-3",
                                      "1/-2",  "1@9999999999999"};

    for (size_t i = 0; i < G_N_ELEMENTS(good); i++)
        g_assert_true(mw_drops_check(good[i], NULL));
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;
        if (mw_drops_check(bad[i], &error))
            g_error("'%s' was taken", bad[i]);
        g_assert_nonnull(strstr(error->message, "drop-layers"));
    }
    g_assert_true(mw_drops_check_layers("0-3/4", 5, NULL));
    g_assert_false(mw_drops_check_layers("0-3/5", 5, NULL));
    g_assert_false(mw_drops_check_layers("1/0-4", 5, NULL));
}

static void
test_turns(void)
{
    static const char *const wanted[] = {".x.x.", "x.xxx", "....."};

    g_assert_cmpuint(mw_drops_turns(SCHEDULE), ==, 3);
    g_assert_cmpint(mw_drops_first_step(SCHEDULE), ==, 2);
    g_assert_cmpint(mw_drops_first_step("1"), ==, 0);
    for (uint32_t turn = 0; turn < 3; turn++) {
        g_autofree bool *dropped = mw_drops_of_turn(SCHEDULE, turn, LAYERS);
        for (int64_t layer = 0; layer < LAYERS; layer++)
            g_assert_cmpint(dropped ? dropped[layer] : false, ==, wanted[turn][layer] == 'x');
    }
}

/* --- the runs --------------------------------------------------------------------------------- */

static const struct trained_case cases[] = {
    {.name = "on the device", .strategy = MW_STRATEGY_DDP, TRAINED_BATCHES(2, 16, 2)},
    {.name = "in host memory",
     .strategy = MW_STRATEGY_ZERO_INFINITY_CPU,
     .params = "cpu",
     .gradients = "cpu",
     .optimizer = "cpu",
     .activations = "cpu",
     .prefetch = 1,
     .sequences = 2,
     .seq = 16,
     .grad_accum = 2,
     .interval = 2,
     .param_loads = 2,
     .save_every = 1},
    {.name = "on drives",
     TRAINED_ON_DRIVES("nvme"),
     .prefetch = 2,
     TRAINED_BATCHES(2, 16, 2),
     .tiles = 2,
     .commit = 1},
    {.name = "on drives without checkpoints",
     TRAINED_ON_DRIVES("gpu"),
     .sequences = 2,
     .seq = 16,
     .grad_accum = 1,
     .prefetch = 1,
     .commit = 1},
    {.name = "offloaded",
     .strategy = MW_STRATEGY_ZERO2,
     .optimizer = "cpu:0.5MB,nvme",
     TRAINED_BATCHES(2, 16, 1),
     .commit = 1,
     .save_every = 3},
};

static struct trained_case
scheduled(size_t index)
{
    struct trained_case what = cases[index];

    what.model = model;
    what.drop_layers = SCHEDULE;
    return what;
}

static struct trained
run_to(const struct trained_case *what, int64_t stop, const char *from,
       const struct mw_checkpoint_options *save)
{
    struct trained_course course = {.steps = STEPS, .stop = stop, .threads = 1,
                                    .directory = directory, .from = from, .save = save};

    return trained_well(what, &course);
}

/* Each step is a run of its own, by the plan of that step alone, from the checkpoint of the step
 * before. */
static struct trained
run_one_by_one(size_t index)
{
    struct trained_case what = scheduled(index);
    g_autofree char *from = NULL;
    struct trained all = {0};

    what.one_plan = true;
    for (int64_t step = 0; step < STEPS; step++) {
        char *to = g_strdup_printf("%s/step-%d", directory, (int)step);
        struct mw_checkpoint_options save = {to, MW_SAFETENSORS_F32, .optimizer = true};
        what.drop_layers = turn_of(step);
        struct trained one = run_to(&what, step + 1, from, &save);
        g_assert_cmpint(one.first_step, ==, step);
        for (int64_t before = 0; before < step; before++) {
            one.losses[before] = all.losses[before];
            one.norms[before] = all.norms[before];
        }
        trained_clear(&all);
        all = one;
        if (from)
            mw_nvme_fixture_remove(from);
        g_free(from);
        from = to;
    }
    mw_nvme_fixture_remove(from);
    all.first_step = 0;
    return all;
}

static void
test_one_by_one(gconstpointer data)
{
    size_t index = GPOINTER_TO_SIZE(data);
    struct trained_case what = scheduled(index);
    struct trained alone = run_one_by_one(index), trained = run_to(&what, 0, NULL, NULL);

    trained_assert_same(what.name, &alone, &trained);
    what.drop_layers = "-";
    struct trained full = run_to(&what, 0, NULL, NULL);
    g_assert_true(full.losses[0] == trained.losses[0]);
    g_assert_true(full.losses[2] != trained.losses[2]);
    trained_clear(&full);
    trained_clear(&alone);
    trained_clear(&trained);
}

static void
test_places(void)
{
    struct trained_case first = scheduled(2), second = scheduled(1);

    first.tiles = 0;
    second.save_every = 0;
    struct trained on_drives = run_to(&first, 0, NULL, NULL);
    struct trained in_memory = run_to(&second, 0, NULL, NULL);
    trained_assert_same("places", &on_drives, &in_memory);
    trained_clear(&on_drives);
    trained_clear(&in_memory);
}

/* Stopped behind each step of the cycle, and resumed. */
static void
test_resumed(gconstpointer data)
{
    struct trained_case what = scheduled(GPOINTER_TO_SIZE(data));
    struct trained undisturbed = run_to(&what, 0, NULL, NULL);

    for (int64_t stop = 1; stop < STEPS; stop++) {
        struct trained_course course = {.steps = STEPS, .stop = stop, .threads = 1,
                                        .directory = directory, .commit = true};
        struct trained trained = trained_well(&what, &course);
        trained_clear(&trained);
        course.resume = true;
        course.stop = 0;
        trained = trained_well(&what, &course);
        g_assert_cmpint(trained.first_step, ==, stop);
        trained_assert_same(what.name, &undisturbed, &trained);
        trained_clear(&trained);
    }
    trained_clear(&undisturbed);
}

/* Each step is a run of its own, and layers are left out from the first one on: a record then names
 * state that its run has not written. */
static void
test_step_by_step(gconstpointer data)
{
    struct trained_case what = scheduled(GPOINTER_TO_SIZE(data));

    what.drop_layers = "1,3/0,2-4/-";
    struct trained undisturbed = run_to(&what, 0, NULL, NULL);
    for (int64_t stop = 1; stop <= STEPS; stop++) {
        struct trained_course course = {.steps = STEPS,
                                        .stop = stop < STEPS ? stop : 0,
                                        .threads = 1,
                                        .directory = directory,
                                        .commit = true,
                                        .resume = stop > 1};
        struct trained trained = trained_well(&what, &course);
        g_assert_cmpint(trained.first_step, ==, stop - 1);
        if (stop == STEPS)
            trained_assert_same(what.name, &undisturbed, &trained);
        trained_clear(&trained);
    }
    trained_clear(&undisturbed);
}

/* --- a layer that is left out is left alone --------------------------------------------------- */

static void
see_plan(void *data, const struct mw_trainer_step *step)
{
    const struct mw_plan *plan = step->plan;
    const char *text = turn_of(step->step);
    g_autofree bool *dropped = mw_drops_of_turn(text, 0, LAYERS);

    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_op *op = &plan->ops[i];
        const struct mw_work *work = &plan->works[op->work];
        int32_t layer = op->layer;
        if (work->object == MW_OBJECT_STATE && work->kind != MW_OP_AGREE)
            layer = plan->tensors[plan->chunks[op->shard].first_tensor].layer;
        if (layer >= 0 && dropped)
            g_assert_false(dropped[layer]);
        ++*(int64_t *)data;
    }
}

static void
test_left_alone(void)
{
    struct trained_case what = scheduled(2);
    int64_t seen = 0;
    struct trained_course course = {.steps = STEPS, .threads = 1, .directory = directory,
                                    .on_step = see_plan, .data = &seen};
    struct trained trained = trained_well(&what, &course);

    g_assert_cmpint(seen, >, 0);
    trained_clear(&trained);
}

/* --- */

static void
write_model(void)
{
    g_autofree char *text = NULL;

    g_assert_true(g_file_get_contents(FIXTURES "gpt2-small/config.json", &text, NULL, NULL));
    char *layers = strstr(text, "\"n_layer\": 2");
    g_assert_nonnull(layers);
    layers[strlen("\"n_layer\": ")] = '0' + LAYERS;
    model = g_build_filename(directory, "config.json", NULL);
    g_assert_true(g_file_set_contents(model, text, -1, NULL));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    directory = trained_directory();
    write_model();
    g_test_add_func("/drops/texts", test_texts);
    g_test_add_func("/drops/turns", test_turns);
    g_test_add_func("/drops/left-alone", test_left_alone);
    g_test_add_func("/drops/places", test_places);
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *one = g_strdup_printf("/drops/one-by-one/%s", cases[i].name);
        g_autofree char *resumed = g_strdup_printf("/drops/resumed/%s", cases[i].name);
        g_autofree char *stepped = g_strdup_printf("/drops/step-by-step/%s", cases[i].name);
        g_test_add_data_func(one, GSIZE_TO_POINTER(i), test_one_by_one);
        if (cases[i].commit == 1 || cases[i].save_every == 1) {
            g_test_add_data_func(resumed, GSIZE_TO_POINTER(i), test_resumed);
            g_test_add_data_func(stepped, GSIZE_TO_POINTER(i), test_step_by_step);
        }
    }
    int status = g_test_run();
    g_unlink(model);
    g_free(model);
    trained_remove(directory);
    return status;
}
