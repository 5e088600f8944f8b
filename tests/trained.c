#include "tests/trained.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

#include "model/model.h"
#include "exec/trainer/internal.h"
#include "planner/settings/drops.h"
#include "tests/weights_fixture.h"

const struct mw_backend *trained_backend = &mw_backend_cpu;

/* --- the plan -------------------------------------------------------------------------------- */

static void
place(struct mw_settings *settings, enum mw_state state, const char *words)
{
    if (words && !mw_placement_parse(words, NULL, &settings->placement[state], NULL))
        g_error("placement %s", words);
}

static void
ask(const struct trained_case *what, struct mw_settings *settings)
{
    mw_settings_init(settings);
    settings->strategy = what->strategy;
    settings->gpus_per_node = what->ranks ? mw_ranks_count(what->ranks) : 1;
    settings->partition = what->partition;
    settings->shard_group = what->shard_group;
    settings->tp = what->tp ? what->tp : 1;
    settings->pp = what->pp ? what->pp : 1;
    settings->schedule = what->schedule;
    settings->micro_batch = what->sequences;
    settings->seq = what->seq;
    settings->grad_accum = what->grad_accum;
    settings->tiles = what->tiles ? what->tiles : 1;
    settings->logits_chunks = what->logits_chunks ? what->logits_chunks : 1;
    settings->prefetch = what->prefetch;
    settings->checkpoint_interval = what->interval;
    settings->checkpoint_dtype = what->checkpoint_dtype;
    settings->kept_as.dtype = what->kept_dtype;
    settings->share_slots = what->share_slots;
    settings->data_parallel = what->asynchronous ? MW_DATA_PARALLEL_ASYNC : MW_DATA_PARALLEL_SYNC;
    settings->update_on = what->update_on ? what->update_on : MW_AUTO;
    settings->recompute_layers = what->recompute_layers ? what->recompute_layers : MW_AUTO;
    settings->param_loads = what->param_loads ? what->param_loads : 3;
    settings->optimizer_chunk = what->optimizer_chunk ? what->optimizer_chunk : 20000;
    settings->commit = what->commit;
    settings->save_every = what->save_every;
    settings->optimizer = what->kind;
    settings->dtype = what->dtype ? what->dtype : MW_DTYPE_BF16;
    if (what->delayed)
        settings->dpu_start = what->undelayed_steps;
    settings->drop_layers = what->drop_layers;
    place(settings, MW_STATE_PARAMETERS, what->params);
    place(settings, MW_STATE_GRADIENTS, what->gradients);
    place(settings, MW_STATE_OPTIMIZER, what->optimizer);
    place(settings, MW_STATE_ACTIVATIONS, what->activations);
}

static struct mw_plan *
build(const struct trained_case *what, const struct mw_sizing *sizing)
{
    struct mw_plan *plan = mw_build_plan(sizing), *own = plan;
    char why[256];

    if (what->pp > 1) {
        own = mw_plan_extract(plan, (uint32_t)mw_ranks_index(what->ranks), why, sizeof why);
        mw_plan_free(plan);
    }
    return own;
}

static struct mw_variants *
variants_of(const struct trained_case *what, const struct mw_sizing *sizing)
{
    g_autofree bool *dropped =
        what->one_plan ? mw_drops_of_turn(what->drop_layers, 0, sizing->layers) : NULL;
    bool folded = what->folds.micro_batches || what->folds.layers;
    struct mw_plan *plan = folded           ? mw_build_plan_folded(sizing, what->folds)
                           : what->one_plan ? mw_build_plan_without(sizing, dropped)
                                            : build(what, sizing);

    if (!plan)
        g_error("%s cannot be folded", what->name);
    return what->one_plan ? mw_variants_new(plan) : mw_build_variants(sizing, plan);
}

static struct mw_variants *
make_variants(const struct trained_case *what, const struct mw_model *model)
{
    struct mw_profile *profile = mw_hwprofile_load(what->ranks ? "dgx-a100" : "rtx4090", NULL);
    struct mw_settings asked, resolved;
    GError *error = NULL;

    if (!profile)
        g_error("no profile");
    struct mw_hardware hardware = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);
    struct mw_request request = {model, &hardware};
    ask(what, &asked);
    if (!mw_settings_complete(&request, &asked, &resolved, &error))
        g_error("%s: %s", what->name, error->message);
    GPtrArray *candidates = mw_planner_candidates(&request, &resolved, &error);
    if (!candidates)
        g_error("%s: %s", what->name, error->message);
    const struct mw_sizing *sizing = candidates->pdata[0];
    if (!sizing->fits)
        g_error("%s does not fit", what->name);
    struct mw_variants *variants = variants_of(what, sizing);
    g_ptr_array_unref(candidates);
    mw_profile_free(profile);
    return variants;
}

/* --- the run --------------------------------------------------------------------------------- */

struct run {
    const struct trained_case *what;
    const struct mw_plan *plan;
    int64_t rank, ranks;
    const struct trained_course *course;
    int64_t cursor;
    int64_t tokens, micro_batches, vocab;
    struct trained *out;
    int64_t *first; /* [tensor] */
};

void
trained_batch(int64_t step, int64_t micro_batch, int64_t tokens, int64_t vocab, int32_t *ids,
              int32_t *targets)
{
    GRand *rand = g_rand_new_with_seed((guint32)(1000 * step + micro_batch));
    int32_t at = g_rand_int_range(rand, 0, (int32_t)vocab);

    for (int64_t i = 0; i < tokens; i++) {
        ids[i] = at;
        at = g_rand_int_range(rand, 0, 4) ? (int32_t)((at * 3 + 1) % vocab)
                                          : g_rand_int_range(rand, 0, (int32_t)vocab);
        targets[i] = at;
    }
    g_rand_free(rand);
}

/* Two kinds of sequences, so that there is something to learn.  Ranks take turns in the
 * micro-batches of one rank that has as many as all. */
static bool
batch(void *data, int64_t step, int64_t micro_batch, int32_t *ids, int32_t *targets, GError **error)
{
    struct run *run = data;

    if (run->what->before_batch && !run->what->before_batch(run->what, step, error))
        return false;
    if (run->what->weights) {
        memcpy(ids, run->what->inputs + step * run->tokens, run->tokens * sizeof *ids);
        memcpy(targets, run->what->targets + step * run->tokens, run->tokens * sizeof *ids);
        return true;
    }
    trained_batch(step, micro_batch * run->ranks + run->rank, run->tokens, run->vocab, ids,
                  targets);
    run->cursor = (step + 1) * 1000;
    return true;
}

static double
learning_rate(void *data, int64_t step)
{
    const struct run *run = data;

    return run->what->lr > 0 ? run->what->lr : 1e-2;
}

static int
fields(void *data, struct mw_commit_field *fields)
{
    const struct run *run = data;

    fields[0] = mw_commit_field("cursor", run->cursor);
    return 1;
}

static bool
on_step(void *data, const struct mw_trainer_step *step, GError **error)
{
    struct run *run = data;

    (void)error;
    run->out->losses[step->step] = step->loss;
    run->out->norms[step->step] = step->gradient_norm;
    if (run->course->on_step)
        run->course->on_step(run->course->data, step);
    return true;
}

static bool
keep(void *data, const struct mw_decoder *decoder, const struct mw_tensor *tensor, int64_t tile,
     int64_t first, int64_t count, const float *const state[3], GError **error)
{
    struct run *run = data;
    int64_t at = run->first[tensor - run->plan->tensors] + tile * tensor->tile_elements + first;

    (void)decoder, (void)error;
    for (int s = 0; s < 3; s++)
        memcpy(run->out->state + s * run->out->elements + at, state[s], count * sizeof(float));
    return true;
}

static void
count_elements(struct run *run)
{
    const struct mw_plan *plan = run->plan;

    run->first = g_new(int64_t, plan->tensor_count);
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        run->first[t] = run->out->elements;
        run->out->elements += plan->tensors[t].tiles * plan->tensors[t].tile_elements;
    }
    run->out->state = g_new0(float, 3 * run->out->elements);
}

static void
copy_out(const struct mw_trainer *trainer, void *to, const void *from, int64_t bytes)
{
    GError *error = NULL;

    trainer->storage.backend->copy(trainer->storage.device, to, from, bytes, &error);
    g_assert_no_error(error);
}

/* What lies in homes that are whole. */
static void
keep_params(struct run *run, const struct mw_trainer *trainer)
{
    const struct mw_plan *plan = run->plan;

    run->out->params = g_new0(uint16_t, run->out->elements);
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        const struct mw_tensor *tensor = &plan->tensors[t];
        for (uint32_t tile = 0; tile < tensor->tiles; tile++)
            copy_out(trainer, run->out->params + run->first[t] + tile * tensor->tile_elements,
                     mw_storage_address(&trainer->storage, tensor->param_slot,
                                        2 * tile * tensor->param_stride),
                     2 * mw_tensor_part_elements(tensor, tile));
    }
}

static char *
lines_of(const struct mw_trainer *trainer)
{
    GString *lines = g_string_new(NULL);
    const char *line;

    for (int i = 0; (line = mw_trainer_lack(trainer, i)); i++)
        g_string_append_printf(lines, "%s\n", line);
    return g_string_free(lines, FALSE);
}

static bool
go(struct run *run, const struct mw_trainer_options *options, GError **error)
{
    struct mw_trainer *trainer = mw_trainer_new(options, error);

    if (!trainer)
        return false;
    int64_t stop = run->course->stop ? run->course->stop : run->course->steps;
    run->out->first_step = mw_trainer_next_step(trainer);
    if (mw_trainer_resumed(trainer))
        mw_commit_find(mw_trainer_resumed(trainer), "cursor", &run->out->cursor);
    run->cursor = (int64_t)run->out->cursor;
    run->out->notice = g_strdup(mw_trainer_notice(trainer));
    run->out->told = lines_of(trainer);
    if (run->course->on_start)
        run->course->on_start(run->course->data, run->out->first_step);
    bool good = mw_trainer_run(trainer, MAX(stop - run->out->first_step, 0), on_step, run, error);
    run->plan = trainer->plan; /* it may have stopped before a delay */
    count_elements(run);
    good = good && mw_trainer_visit_state(trainer, keep, run, error);
    good = good && (!run->course->save || mw_checkpoint_save(trainer, run->course->save, error));
    if (good && run->plan->tensors[0].params_whole)
        keep_params(run, trainer);
    if (good || run->ranks == 1)
        mw_trainer_free(trainer);
    return good;
}

bool
trained_train(const struct trained_case *what, const struct trained_course *course,
              struct trained *trained, GError **error)
{
    struct mw_model model;
    struct mw_decoder decoder;
    GError *bad = NULL;

    *trained = (struct trained){.steps = course->steps,
                                .losses = g_new0(double, course->steps),
                                .norms = g_new0(double, course->steps)};
    if (!mw_model_load(what->model, &model, &bad) || !mw_model_decoder(&model, &decoder, &bad))
        g_error("%s: %s", what->name, bad->message);
    struct mw_variants *variants = make_variants(what, &model);
    uint32_t turns;
    const struct mw_plan *plan = variants->plans[*mw_variants_last(variants, &turns)];
    struct run run = {.what = what,
                      .plan = plan,
                      .rank = what->ranks && !what->pp ? mw_ranks_index(what->ranks) : 0,
                      .ranks = what->ranks && !what->pp ? mw_ranks_count(what->ranks) : 1,
                      .course = course,
                      .tokens = what->sequences * what->seq,
                      .micro_batches = what->grad_accum,
                      .vocab = decoder.vocab,
                      .out = trained};
    g_autofree char *stem = g_strdup_printf("memwall-rank%d", (int)run.rank);
    struct mw_trainer_options options = {
        .variants = variants,
        .ranks = what->ranks,
        .backend = what->backend ? what->backend : trained_backend,
        .device_threads = course->threads,
        .host_threads = course->threads,
        .optimizer = {0.9, 0.99, 1e-8, 0.1, 0.5},
        .drives = {.directories = &course->directory,
                   .directory_count = 1,
                   .stem = what->ranks ? stem : NULL,
                   .block_bytes = 1 << 16,
                   .buffered = course->buffered,
                   .calls = course->calls},
        .commit = {.on = course->commit,
                   .resume = course->resume,
                   .previous = course->previous,
                   .save_every = what->save_every,
                   .fingerprint = course->fingerprint,
                   .fields = fields},
        .seed = 7,
        .weights = what->weights,
        .loss_scaling = what->loss_scaling,
        .patience_s = what->patience_s,
        .unchecked = course->unchecked,
        .skipped_in_row_max = what->skipped_in_row_max,
        .lane_bytes_per_s =
            {[MW_LANE_H2D] = what->link_bytes_per_s, [MW_LANE_D2H] = what->link_bytes_per_s},
        .batch = batch,
        .learning_rate = learning_rate,
        .data = &run,
    };
    if (what->weights)
        options.optimizer = (struct mw_optimizer){0.9, 0.95, 1e-8, 0.1, 1};
    if (course->on_plan)
        course->on_plan(course->data, plan);
    struct mw_checkpoint *from = NULL;
    bool good = !course->from || (from = mw_checkpoint_open(course->from, &decoder, error));
    options.checkpoint = from;
    good = good && go(&run, &options, error);
    mw_checkpoint_close(from);
    mw_variants_free(variants);
    g_free(run.first);
    return good;
}

struct trained
trained_run(const struct trained_case *what, int64_t steps, int threads, const char *directory)
{
    struct trained_course course = {.steps = steps, .threads = threads, .directory = directory};
    struct trained trained;
    GError *error = NULL;

    if (!trained_train(what, &course, &trained, &error))
        g_error("%s: %s", what->name, error->message);
    return trained;
}

void
trained_clear(struct trained *trained)
{
    g_free(trained->state);
    g_free(trained->params);
    g_free(trained->losses);
    g_free(trained->norms);
    g_free(trained->notice);
    g_free(trained->told);
}

/* --- placements ------------------------------------------------------------------------------ */

static const struct trained_case placements[TRAINED_PLACEMENTS] = {
    {.name = "all on the device", .strategy = MW_STRATEGY_ZERO3},
    {.name = "ddp", .strategy = MW_STRATEGY_DDP},
    {.name = "zero1", .strategy = MW_STRATEGY_ZERO1},
    {.name = "zero2", .strategy = MW_STRATEGY_ZERO2},
    {.name = "zero-offload", .strategy = MW_STRATEGY_ZERO_OFFLOAD},
    {.name = "cpu",
     .strategy = MW_STRATEGY_ZERO_INFINITY_CPU,
     .params = "cpu",
     .gradients = "cpu",
     .optimizer = "cpu",
     .activations = "cpu"},
    {.name = "nvme", TRAINED_ON_DRIVES("nvme")},
    {.name = "nvme, committed", TRAINED_ON_DRIVES("cpu"), .commit = 1},
    {.name = "split",
     .strategy = MW_STRATEGY_ZERO_INFINITY_NVME,
     .params = "cpu:0.04MB,nvme",
     .gradients = "cpu:0.06MB,nvme",
     .optimizer = "gpu:0.23MB,cpu:0.1MB,nvme",
     .activations = "gpu:0.002MB,cpu"},
    {.name = "gradients on the device",
     .strategy = MW_STRATEGY_ZERO_INFINITY_NVME,
     .params = "cpu",
     .gradients = "gpu",
     .optimizer = "nvme",
     .activations = "gpu"},
    {.name = "gradients on drives",
     .strategy = MW_STRATEGY_ZERO_INFINITY_NVME,
     .params = "gpu",
     .gradients = "nvme",
     .optimizer = "gpu",
     .activations = "gpu"},
    {.name = "params on drives",
     .strategy = MW_STRATEGY_ZERO_INFINITY_NVME,
     .params = "nvme",
     .gradients = "cpu",
     .optimizer = "gpu",
     .activations = "gpu"},
};

struct trained_case
trained_placed(const struct trained_case *common, int index)
{
    struct trained_case what = *common;

    what.name = placements[index].name;
    what.strategy = placements[index].strategy;
    what.params = placements[index].params;
    what.gradients = placements[index].gradients;
    what.optimizer = placements[index].optimizer;
    what.activations = placements[index].activations;
    what.commit = placements[index].commit;
    what.prefetch = index % 4;
    return what;
}

/* The norm of gradients that overflowed may be a NaN. */
static bool
differ(double a, double b)
{
    return a != b && !(isnan(a) && isnan(b));
}

void
trained_assert_same(const char *name, const struct trained *a, const struct trained *b)
{
    g_assert_cmpint(a->elements, ==, b->elements);
    g_assert_cmpint(a->steps, ==, b->steps);
    for (int64_t s = b->first_step; s < b->steps; s++)
        if (differ(a->losses[s], b->losses[s]) || differ(a->norms[s], b->norms[s]))
            g_error("%s: step %d has loss %.17g, norm %.17g, not %.17g, %.17g", name, (int)s,
                    b->losses[s], b->norms[s], a->losses[s], a->norms[s]);
    if (memcmp(a->state, b->state, 3 * a->elements * sizeof(float)))
        g_error("%s: other weights", name);
}

char *
trained_directory(void)
{
    return g_dir_make_tmp("memwall-trained-XXXXXX", NULL);
}

void
trained_remove(char *directory)
{
    GDir *dir = g_dir_open(directory, 0, NULL);

    for (const char *name; dir && (name = g_dir_read_name(dir));) {
        g_autofree char *path = g_build_filename(directory, name, NULL);
        g_remove(path);
    }
    g_clear_pointer(&dir, g_dir_close);
    g_rmdir(directory);
    g_free(directory);
}
