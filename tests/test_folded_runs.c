/* A plan with sections trains as the flat plan of the same step: to the bit, wherever its state
 * lives, and op by op. */
#include <string.h>

#include "tests/trained.h"
#include "tests/weights_fixture.h"

#define MICRO_BATCHES 21
#define LAYERS 60
#define STEPS 2
#define THREADS 2

static char *directory, *deep_model;

/* What was seen of a run's plan and rows. */
struct seen {
    bool has_sections;
    int64_t ops;
    GArray *identities; /* struct op_identity, of each row of the last step */
};

/* An op of the unfolded plan. */
struct op_identity {
    int64_t kind, lane, phase, layer, micro_batch, tile, shard;
};

static void
see_plan(void *data, const struct mw_plan *plan)
{
    struct seen *seen = data;

    seen->has_sections = plan->section_count > 0;
    seen->ops = mw_plan_unfolded_ops(plan);
}

static void
see_step(void *data, const struct mw_trainer_step *step)
{
    struct seen *seen = data;
    const struct mw_plan *plan = step->plan;

    g_assert_cmpint((int64_t)step->timeline->row_count, ==, seen->ops);
    g_array_set_size(seen->identities, 0);
    for (size_t i = 0; i < step->timeline->row_count; i++) {
        const struct mw_timeline_row *row = &step->timeline->rows[i];
        struct mw_op_place place = {row->op, {row->round[0], row->round[1]}};
        g_assert_cmpint(mw_plan_unfolded_number(plan, place), ==, (int64_t)i);
        struct mw_op op = mw_plan_op_at(plan, place);
        struct op_identity identity = {plan->works[op.work].kind, op.lane, op.phase, op.layer,
                                       op.micro_batch, op.tile, op.shard};
        g_array_append_val(seen->identities, identity);
    }
}

static struct trained
run(const struct trained_case *what, struct seen *seen)
{
    struct trained_course course = {.steps = STEPS,
                                    .threads = THREADS,
                                    .directory = directory,
                                    .on_plan = see_plan,
                                    .on_step = see_step,
                                    .data = seen};
    struct trained trained;
    GError *error = NULL;

    seen->identities = g_array_new(FALSE, FALSE, sizeof(struct op_identity));
    if (!trained_train(what, &course, &trained, &error))
        g_error("%s: %s", what->name, error->message);
    return trained;
}

static void
assert_same_rows(const struct seen *folded, const struct seen *flat)
{
    g_assert_true(folded->has_sections);
    g_assert_false(flat->has_sections);
    g_assert_cmpint(folded->ops, ==, flat->ops);
    g_assert_cmpmem(folded->identities->data,
                    folded->identities->len * sizeof(struct op_identity), flat->identities->data,
                    flat->identities->len * sizeof(struct op_identity));
}

static void
compare(struct trained_case what, struct mw_folds folds)
{
    struct seen of_folded = {0}, of_flat = {0};
    struct trained flat = run(&what, &of_flat);

    what.folds = folds;
    struct trained folded = run(&what, &of_folded);
    trained_assert_same(what.name, &flat, &folded);
    assert_same_rows(&of_folded, &of_flat);
    trained_clear(&flat);
    trained_clear(&folded);
    g_array_unref(of_folded.identities);
    g_array_unref(of_flat.identities);
}

/* What is split over tiers has layers of several kinds. */
static bool
splits_a_state(const struct trained_case *what)
{
    const char *const states[] = {what->params, what->gradients, what->optimizer,
                                  what->activations};

    for (size_t i = 0; i < G_N_ELEMENTS(states); i++)
        if (states[i] && strchr(states[i], ','))
            return true;
    return false;
}

static void
test_micro_batches(void)
{
    static const struct trained_case common = {.model = FIXTURES "gpt2-small/config.json",
                                               TRAINED_BATCHES(1, 12, MICRO_BATCHES)};

    for (int i = 0; i < TRAINED_PLACEMENTS; i++)
        compare(trained_placed(&common, i), (struct mw_folds){.micro_batches = true});
}

static void
test_layers(void)
{
    const struct trained_case common = {.model = deep_model, TRAINED_BATCHES(1, 8, 1)};
    int compared = 0;

    for (int i = 0; i < TRAINED_PLACEMENTS; i++) {
        struct trained_case what = trained_placed(&common, i);
        if (splits_a_state(&what))
            continue;
        compare(what, (struct mw_folds){.layers = true});
        compared++;
    }
    g_assert_cmpint(compared, >, TRAINED_PLACEMENTS / 3);
}

static void
test_both(void)
{
    const struct trained_case common = {.model = deep_model,
                                        TRAINED_BATCHES(1, 8, MICRO_BATCHES)};

    compare(trained_placed(&common, 0),
            (struct mw_folds){.micro_batches = true, .layers = true});
}

static void
write_deep_model(void)
{
    g_autofree char *text = NULL, *deep = NULL;

    g_assert_true(g_file_get_contents(FIXTURES "gpt2-small/config.json", &text, NULL, NULL));
    char **parts = g_strsplit(text, "\"n_layer\": 2", 2);
    deep = g_strdup_printf("%s\"n_layer\": %d%s", parts[0], LAYERS, parts[1]);
    deep_model = g_build_filename(directory, "config.json", NULL);
    g_assert_true(g_file_set_contents(deep_model, deep, -1, NULL));
    g_strfreev(parts);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    directory = trained_directory();
    write_deep_model();
    g_test_add_func("/folded-runs/micro-batches", test_micro_batches);
    g_test_add_func("/folded-runs/layers", test_layers);
    g_test_add_func("/folded-runs/both", test_both);
    int status = g_test_run();
    trained_remove(directory);
    g_free(deep_model);
    return status;
}
