#include "tests/checkpoint_fixture.h"

#include "tests/says.h"

char *checkpoint_directory;

const struct trained_case checkpoint_on_device = {.name = "device", .strategy = MW_STRATEGY_ZERO3};

struct trained_case
checkpoint_of_model(const struct trained_case *common, const char *model)
{
    struct trained_case what = *common;

    what.model = model;
    what.sequences = 2;
    what.seq = 16;
    what.grad_accum = 1;
    what.interval = 1;
    return what;
}

struct trained_course
checkpoint_course_to(int64_t stop, const char *from, const struct mw_checkpoint_options *save)
{
    return (struct trained_course){.steps = STEPS,
                                   .stop = stop,
                                   .threads = 1,
                                   .directory = checkpoint_directory,
                                   .from = from,
                                   .save = save};
}

char *
checkpoint_place(const char *name)
{
    return g_build_filename(checkpoint_directory, name, NULL);
}

void
checkpoint_save(const char *path, const char *model, int64_t stop, bool optimizer,
                const char *config)
{
    struct trained_case what = checkpoint_of_model(&checkpoint_on_device, model);
    struct mw_checkpoint_options options = {
        .path = path, .dtype = MW_SAFETENSORS_BF16, .optimizer = optimizer, .config = config};
    struct trained_course course = checkpoint_course_to(stop, NULL, &options);
    struct trained trained = trained_well(&what, &course);

    trained_clear(&trained);
}

void
checkpoint_refuse(const char *model, const char *from, const char *to, const char *part)
{
    struct trained_case what = checkpoint_of_model(&checkpoint_on_device, model);
    struct mw_checkpoint_options options = {.path = to, .dtype = MW_SAFETENSORS_F32};
    struct trained_course course = checkpoint_course_to(1, from, to ? &options : NULL);
    struct trained trained;
    g_autoptr(GError) error = NULL;

    if (trained_train(&what, &course, &trained, &error))
        g_error("not refused, though it should say \"%s\"", part);
    mw_test_says(error->message, part);
    trained_clear(&trained);
}
