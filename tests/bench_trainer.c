#include "tests/bench_trainer.h"

#include <stdio.h>
#include <stdlib.h>

#include "model/model.h"

void
bench_die(const GError *error)
{
    fprintf(stderr, "%s: %s\n", g_get_prgname(), error->message);
    exit(1);
}

void
bench_model_load(struct bench_model *b, const char *name)
{
    GError *error = NULL;

    if (!mw_model_load(name, &b->model, &error) ||
        !mw_model_decoder(&b->model, &b->decoder, &error))
        bench_die(error);
}

void
bench_model_shrink(struct bench_model *b)
{
    b->decoder.layers = b->model.layers = 2;
    b->decoder.hidden = b->model.hidden = b->model.embedding_dim = 48;
    b->decoder.heads = b->decoder.kv_heads = b->model.heads = b->model.kv_heads = 4;
    b->decoder.head_dim = b->model.head_dim = b->model.value_dim = 12;
    b->decoder.ffn = b->model.ffn = 192;
    b->decoder.vocab = b->model.vocab = 501;
}

struct mw_settings
bench_settings(const struct bench_model *b)
{
    struct mw_settings settings;

    mw_settings_init(&settings);
    settings.gpus_per_node = 1;
    settings.micro_batch = b->sequences;
    settings.seq = b->seq;
    settings.grad_accum = 1;
    settings.dtype = MW_DTYPE_BF16;
    settings.commit = 0;
    return settings;
}

void
bench_make_plan(struct bench_model *b, const struct mw_settings *asked)
{
    struct mw_profile *profile = mw_hwprofile_load("rtx4090", NULL);
    struct mw_settings resolved;
    GError *error = NULL;

    if (!profile)
        g_error("no profile rtx4090");
    struct mw_hardware hardware = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);
    struct mw_request request = {&b->model, &hardware};
    if (!mw_settings_complete(&request, asked, &resolved, &error))
        bench_die(error);
    GPtrArray *candidates = mw_planner_candidates(&request, &resolved, &error);
    if (!candidates)
        bench_die(error);
    const struct mw_sizing *sizing = candidates->pdata[0];
    if (!sizing->fits)
        g_error("does not fit");
    b->variants = mw_build_variants(sizing, mw_build_plan(sizing));
    b->plan = b->variants->plans[0];
    g_ptr_array_unref(candidates);
    mw_profile_free(profile);
}

static bool
batch(void *data, int64_t step, int64_t micro_batch, int32_t *ids, int32_t *targets, GError **error)
{
    const struct bench_model *b = data;
    int64_t at = 7919 * (step + 1);

    for (int64_t i = 0; i < b->sequences * b->seq; i++) {
        ids[i] = (int32_t)(at % b->decoder.vocab);
        at = at * 48271 % 2147483647;
        targets[i] = (int32_t)(at % b->decoder.vocab);
    }
    return true;
}

static double
learning_rate(void *data, int64_t step)
{
    return 1e-4;
}

struct mw_trainer_options
bench_trainer_options(struct bench_model *b)
{
    return (struct mw_trainer_options){
        .variants = b->variants,
        .backend = &mw_backend_cpu,
        .optimizer = {0.9, 0.95, 1e-8, 0.1, 1},
        .seed = 1,
        .batch = batch,
        .learning_rate = learning_rate,
        .data = b,
    };
}

struct mw_trainer *
bench_trainer_new(const struct mw_trainer_options *options)
{
    GError *error = NULL;
    struct mw_trainer *trainer = mw_trainer_new(options, &error);

    if (!trainer)
        bench_die(error);
    return trainer;
}

double
bench_trainer_step(struct mw_trainer *trainer, mw_trainer_on_step on_step, void *data)
{
    GError *error = NULL;
    int64_t begin = g_get_monotonic_time();

    if (!mw_trainer_run(trainer, 1, on_step, data, &error))
        bench_die(error);
    return (double)(g_get_monotonic_time() - begin) / 1e6;
}
