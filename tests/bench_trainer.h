/*
 * bench_trainer.h - a trainer for benchmarks of steps: a model, a plan of it on one device that has
 * room for all, and tokens of no meaning.
 */
#ifndef MW_TESTS_BENCH_TRAINER_H
#define MW_TESTS_BENCH_TRAINER_H

#include "exec/trainer/trainer.h"
#include "planner/planner.h"

struct bench_model {
    struct mw_model model;
    struct mw_decoder decoder;
    struct mw_variants *variants; /* one, */
    const struct mw_plan *plan;   /* this */
    int64_t sequences, seq;
};

/* Each ends the program with a line where it fails. */
void bench_model_load(struct bench_model *b, const char *name);
/* Of next to nothing, for a smoke test. */
void bench_model_shrink(struct bench_model *b);

/* One micro-batch of the model's sequences, in bf16, no step durable: the caller's strategy and
 * placement are to be set. */
struct mw_settings bench_settings(const struct bench_model *b);
void bench_make_plan(struct bench_model *b, const struct mw_settings *asked);

/* Of that plan, on cores; `batch` and `learning_rate` are there, with `b` as data. */
struct mw_trainer_options bench_trainer_options(struct bench_model *b);
struct mw_trainer *bench_trainer_new(const struct mw_trainer_options *options);
/* A step; its seconds.  on_step gets `data`. */
double bench_trainer_step(struct mw_trainer *trainer, mw_trainer_on_step on_step, void *data);

_Noreturn void bench_die(const GError *error);

#endif
