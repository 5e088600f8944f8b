#include "cli/run/training.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/run/checkpoint_place.h"
#include "cli/run/course.h"
#include "cli/run/data.h"
#include "model/model.h"
#include "cli/run/drives.h"
#include "cli/run/planned.h"
#include "cli/run/stop.h"
#include "cli/runs/export.h"
#include "exec/commit/commit.h"
#include "exec/commit/run_files.h"
#include "exec/data/weights.h"
#include "exec/nvme/run_names.h"
#include "exec/trainer/checkpoint.h"
#include "exec/trainer/frozen.h"
#include "plan/optimizers.h"
#include "study/plan_file.h"

#define SEQUENCES CLI_RUN_SEQUENCES

bool
cli_training_has_frozen(const struct cli_training *run)
{
    return mw_frozen_is_there(run->homes ? run->homes : run->answer->plan);
}

/* --- the trainer's callbacks ------------------------------------------------------------------ */

static bool
batch(void *data, int64_t step, int64_t micro_batch, int32_t *ids, int32_t *targets, GError **error)
{
    struct cli_training *run = data;

    run->used_sequences = cli_run_data_used(run, step);
    return cli_run_data_batch(run->data, step, micro_batch, ids, targets, error);
}

/* The position in the data, whatever the batch of the run that resumes; and the course. */
static int
record_fields(void *data, struct mw_commit_field *fields)
{
    struct cli_training *run = data;

    if (run->commits++) /* the previous commit is durable */
        cli_run_drives_note_step(run->drives);
    fields[0] = mw_commit_field(SEQUENCES, (uint64_t)run->used_sequences);
    return 1 + cli_run_course_fields(run, fields + 1);
}

G_STATIC_ASSERT(1 + CLI_RUN_COURSE_FIELDS <= MW_TRAINER_FIELDS_MAX);

static int
wish(void *data)
{
    const struct cli_training *run = data;

    return cli_run_data_fails(run->data) ? CLI_RUN_DATA_WISH : cli_run_stop_wish();
}

static double
learning_rate(void *data, int64_t step)
{
    return mw_lr_at(&((struct cli_training *)data)->options.schedule, step);
}

/* --- the trainer's options -------------------------------------------------------------------- */

static bool
check_save(const struct cli_training *run, GError **error)
{
    const struct cli_run_options *o = &run->options;

    return !o->save ||
           cli_checkpoint_place_check("--save", o->save, &run->decoder, o->steps, error);
}

/* The stripe size was decided when the run began, by a profile that may have changed.  0: use the
 * present profile. */
static int64_t
recorded_stripe_bytes(const struct cli_training *run)
{
    const struct cli_run_options *o = &run->options;
    struct mw_run_record found;

    if (!o->resume || !o->nvme || !mw_run_files_record(o->nvme[0], run->stem, o->previous, &found))
        return 0;
    mw_commit_record_clear(&found.record);
    return found.stripe_bytes;
}

static struct mw_nvme_options
drive_options(const struct cli_training *run)
{
    const struct mw_hardware *hw = &run->request->question.hardware[MW_OUTLOOK_TYPICAL];
    char **directories = run->options.nvme;
    int64_t block_bytes = (int64_t)hw->nvme_block_bytes / 4096 * 4096;
    int64_t stripe_bytes = recorded_stripe_bytes(run);

    if (stripe_bytes > 0 && block_bytes > 0 && stripe_bytes % block_bytes)
        block_bytes = stripe_bytes; /* a stripe is a whole number of blocks */

    return (struct mw_nvme_options){
        .directories = (const char *const *)directories,
        .directory_count = directories ? (int)g_strv_length(directories) : 0,
        .stem = run->stem,
        .block_bytes = block_bytes,
        .stripe_bytes = stripe_bytes,
        .depth = (int)hw->nvme_queue_depth,
    };
}

static bool
open_tokens(struct cli_training *run, int64_t seq, GError **error)
{
    run->tokens = mw_tokens_open(run->options.data, run->decoder.vocab, seq,
                                 run->options.shuffle ? run->options.seed + 1 : 0, error);
    return run->tokens && mw_tokens_check(run->tokens, error);
}

/* Path of the record that a resume continues from. */
static char *
record_path(const struct cli_training *run)
{
    const char *stem = run->stem ? run->stem : MW_RUN_BASE;

    return run->checkpoint ? g_strdup(mw_checkpoint_file(run->checkpoint))
                           : mw_run_record_path(run->options.nvme[0], stem);
}

static bool
check_record(const struct cli_training *run, const struct mw_commit_record *record, GError **error)
{
    g_autofree char *path = record_path(run);
    uint64_t sequences;

    return cli_run_course_check(path, record, &sequences, error);
}

/* A file without r is of PEFT's default rank, which its tensors may not have: then the shape of one
 * is no reason that a user could follow. */
static bool
check_rank(const struct mw_safetensors *adapters, const char *config, GError **error)
{
    struct mw_adapter_config said;

    if (!mw_model_read_adapter_config(config, &said, error))
        return false;
    for (size_t i = 0; said.unranked && i < mw_safetensors_count(adapters); i++) {
        const struct mw_safetensor *tensor = mw_safetensors_at(adapters, i);
        if (!strstr(tensor->name, ".lora_A.") || tensor->rank != 2 || tensor->shape[0] == said.rank)
            continue;
        return mw_refuse(error,
                         "%s: r: missing, which PEFT reads as %" G_GINT64_FORMAT "; tensor \"%s\" "
                         "has rank %" G_GINT64_FORMAT ": give \"r\": %" G_GINT64_FORMAT " in it",
                         config, said.rank, tensor->name, tensor->shape[0], tensor->shape[0]);
    }
    return true;
}

/* A folder as PEFT writes it. */
static bool
open_adapters(struct cli_training *run, GError **error)
{
    const char *folder = run->options.adapter;

    if (!folder)
        return true;
    if (!run->decoder.lora_rank)
        return mw_refuse(error,
                         "--adapter %s: no adapters are trained; give --train lora:RANK, or leave "
                         "--train out",
                         folder);
    g_autofree char *config = g_build_filename(folder, "adapter_config.json", NULL);
    g_autofree char *tensors = g_build_filename(folder, "adapter_model.safetensors", NULL);
    if (!mw_model_check_adapter_config(config, &run->decoder, error))
        return false;
    run->adapters = mw_safetensors_open(tensors, error);
    return run->adapters && check_rank(run->adapters, config, error);
}

/* A resume reads nothing but what is not trained; before there is a plan, it may be. */
static bool
check_weights(const struct cli_training *run, GError **error)
{
    const struct cli_run_options *o = &run->options;

    return !o->resume || !o->weights || !run->answer || cli_training_has_frozen(run) ||
           mw_refuse(error, "--weights, --resume: the run trains all its parameters, and has them: "
                            "leave out --weights");
}

/* The checkpoint's own description of its adapters says more than their digest in its record.  An
 * older checkpoint has none. */
static bool
check_adapters_of(const struct cli_training *run, GError **error)
{
    g_autofree char *config = g_build_filename(run->options.from, "adapter_config.json", NULL);

    if (!g_file_test(config, G_FILE_TEST_EXISTS))
        return true;
    return run->decoder.lora_rank ? mw_model_check_adapter_config(config, &run->decoder, error)
                                  : mw_model_refuse_adapter_config(config, &run->decoder, error);
}

static bool
open_start(struct cli_training *run, GError **error)
{
    const char *folder = run->options.from ? run->options.from : run->options.weights;

    if (!check_weights(run, error) || (folder && !cli_checkpoint_place_repair(folder, error)))
        return false;
    if (run->options.from) {
        if (!check_adapters_of(run, error))
            return false;
        run->checkpoint = mw_checkpoint_open(run->options.from, &run->decoder, error);
        return run->checkpoint && check_record(run, mw_checkpoint_record(run->checkpoint), error);
    }
    if (run->options.weights) {
        run->weights = mw_safetensors_open(run->options.weights, error);
        if (!run->weights)
            return false;
    }
    return open_adapters(run, error) &&
           mw_weights_check_sets(&run->decoder,
                                 (struct mw_weights_sets){run->weights, run->adapters}, "", error);
}

/* A run that was killed after its last step has not reached its --save. */
static char *
export_text(const struct cli_training *run, int64_t done)
{
    const struct cli_run_options *options = &run->options;

    if (!options->save || options->from)
        return g_strdup("");
    g_autofree char *called = cli_run_drives_called(run->drives);
    return g_strdup_printf("; `memwall export %s%s -o %s` writes the checkpoint of step "
                           "%" G_GINT64_FORMAT,
                           called, options->previous ? " --at previous" : "", options->save, done);
}

/* Checks a record, a run's or a checkpoint's, before anything is written because of it. */
static bool
goes_on(void *data, const struct mw_commit_record *record, GError **error)
{
    const struct cli_training *run = data;
    const struct cli_run_options *o = &run->options;

    if (!check_record(run, record, error))
        return false;
    if (o->steps > record->step + 1)
        return true;
    g_autofree char *way = export_text(run, record->step + 1);
    return mw_refuse(error,
                     "--steps %" G_GINT64_FORMAT ": counts all steps of %s, and %" G_GINT64_FORMAT
                     " %s done: give more than %" G_GINT64_FORMAT "%s",
                     o->steps, o->from ? o->from : "the run", record->step + 1,
                     record->step ? "are" : "is", record->step + 1, way);
}

static bool
open_data(struct cli_training *run, GError **error)
{
    const struct mw_step_shape *s = &run->answer->plan->shape;

    run->sequences = s->sequences;
    /* Ranks count slices first and stages last. */
    int slices = (int)run->slices, parts = slices * (int)run->stages;
    int ranks =
        MAX(1, mw_ranks_count(run->ranks) / parts); /* the trainer says if there are fewer */
    int sharers = (int)MAX(1, run->share.count);
    run->place =
        (struct mw_batch_place){.rank = mw_ranks_index(run->ranks) / slices % ranks / sharers,
                                .ranks = MAX(1, ranks / sharers),
                                .sequences = run->sequences,
                                .share = run->share};
    if (!open_tokens(run, s->seq, error))
        return false;
    const struct mw_commit_record *record =
        run->checkpoint ? mw_checkpoint_record(run->checkpoint) : NULL;
    return !record || goes_on(run, record, error);
}

bool
cli_training_check_inputs(const struct cli_request *request, const struct cli_run_options *options,
                          GError **error)
{
    struct cli_training trial = {.request = request, .options = *options};
    int64_t seq;

    bool good = cli_run_decoder(request, &trial.decoder, &seq, error) &&
                check_save(&trial, error) && open_tokens(&trial, seq, error) &&
                open_start(&trial, error);
    mw_tokens_close(trial.tokens);
    mw_safetensors_close(trial.weights);
    mw_checkpoint_close(trial.checkpoint);
    return good;
}

/* --- durable steps ---------------------------------------------------------------------------- */

static uint32_t
chunks_on_drives(const struct mw_plan *plan)
{
    uint32_t count = 0;

    for (uint32_t c = 0; c < plan->chunk_count; c++)
        count += plan->slots[plan->chunks[c].slot].tier == MW_TIER_NVME;
    return count;
}

/* State on drives can have a second extent, other state a place to be saved to. */
static bool
can_be_durable(const struct mw_plan *plan)
{
    uint32_t on_drives = chunks_on_drives(plan);

    return (!on_drives || plan->shape.commits) &&
           (on_drives == plan->chunk_count || plan->shape.save_every > 0);
}

bool
cli_training_is_durable(const struct cli_training *run)
{
    return run->options.backend != &mw_backend_null && can_be_durable(run->answer->plan);
}

uint64_t
cli_training_fingerprint(const struct cli_training *run)
{
    return cli_run_course_fingerprint(run);
}

static struct mw_trainer_commit
durable_steps(const struct cli_training *run)
{
    return (struct mw_trainer_commit){
        .on = cli_training_is_durable(run),
        .resume = run->options.resume,
        .previous = run->options.previous,
        .save_every = run->answer->plan->shape.save_every,
        .fields = record_fields,
        .resumes = goes_on,
        .anew = cli_run_drives_anew(run->drives),
        .fingerprint = cli_training_fingerprint(run),
    };
}

static int
thread_count(const struct cli_training *run, int asked)
{
    return asked ? asked : mw_ranks_cores(run->ranks);
}

/* Files of other programs have no checksums: damage to them is not noticed. */
static void
say_unchecked(const struct cli_training *run)
{
    if (run->weights && !mw_safetensors_has_sums(run->weights))
        cli_say("%s: has no checksums: its weights are not checked for damage",
                mw_safetensors_path(run->weights));
    if (run->adapters && !mw_safetensors_has_sums(run->adapters))
        cli_say("%s: has no checksums: its adapters are not checked for damage",
                mw_safetensors_path(run->adapters));
    if (run->checkpoint && !mw_checkpoint_has_sums(run->checkpoint))
        cli_say("%s: has no checksums: what it holds is not checked for damage", run->options.from);
    else if (run->checkpoint && !mw_checkpoint_is_bound(run->checkpoint))
        cli_say("%s: an older memwall wrote it, and its files do not say that they belong "
                "together: this is not checked",
                run->options.from);
}

/* Adapters are of the weights that they were trained with. */
static void
say_no_weights(const struct cli_training *run)
{
    if (run->adapters && !run->weights && !run->options.resume)
        cli_say("--adapter %s: without --weights the model that it adapts begins from random "
                "weights",
                run->options.adapter);
}

static void
say_text(const struct cli_training *run)
{
    if (mw_tokens_are_text(run->tokens) && run->decoder.vocab > MW_TEXT_VOCAB)
        cli_say("%s: text is read as bytes: %d of the model's %" G_GINT64_FORMAT
                " tokens; a .bin file has a tokenizer's tokens",
                run->options.data, MW_TEXT_VOCAB, run->decoder.vocab);
}

/* A checkpoint has no gradient that waits for a delayed update; a record has. */
static void
say_pending(const struct cli_training *run)
{
    int64_t from = mw_variants_delayed_from(run->answer->variants);
    int64_t step = run->checkpoint ? mw_checkpoint_record(run->checkpoint)->step : -1;

    if (from >= 0 && step >= from)
        cli_say("--from %s: the gradient of step %" PRId64
                ", which waited for its update, is not in "
                "a checkpoint: step %" PRId64 " updates nothing",
                run->options.from, step + 1, step + 2);
}

static void
say_notices(const struct cli_training *run)
{
    const char *line = mw_trainer_notice(run->trainer);

    if (line)
        cli_say("%s", line);
    for (int i = 0; mw_ranks_index(run->ranks) == 0 && (line = mw_trainer_lack(run->trainer, i));
         i++)
        cli_say("%s", line);
    if (mw_ranks_index(run->ranks) == 0) {
        say_pending(run);
        say_text(run);
        say_no_weights(run);
        say_unchecked(run);
    }
}

static void
find_data(struct cli_training *run)
{
    const struct mw_commit_record *resumed = mw_trainer_resumed(run->trainer);
    uint64_t sequences = 0;

    if (resumed)
        mw_commit_find(resumed, SEQUENCES, &sequences);
    run->first_step = mw_trainer_next_step(run->trainer);
    run->first_sequence = run->used_sequences = (int64_t)sequences;
}

struct mw_loss_scaling
cli_training_loss_scaling(const struct cli_training *run)
{
    return run->options.loss_scaling.start
               ? run->options.loss_scaling
               : mw_loss_scaling_default((enum mw_dtype)run->answer->plan->shape.dtype);
}

static bool
begin_drives(void *data, GError **error)
{
    return cli_run_drives_begin(((struct cli_training *)data)->drives, error);
}

static bool
delete_set_aside(void *data)
{
    return cli_run_drives_delete_set_aside(((struct cli_training *)data)->drives);
}

static bool
make_trainer(struct cli_training *run, const struct mw_trainer_options *options, GError **error)
{
    GError *why = NULL;

    run->trainer = mw_trainer_new(options, &why);
    if (run->trainer)
        return true;
    if (run->options.resume && g_error_matches(why, MW_ERROR, MW_ERROR_FORMAT))
        cli_run_course_explain(run, why);
    else if (run->request->plan_file && g_error_matches(why, MW_ERROR, MW_ERROR_INVALID))
        mw_plan_file_blame(run->request->plan_file, &why);
    g_propagate_error(error, why);
    return false;
}

bool
cli_training_start(struct cli_training *run, GError **error)
{
    struct mw_trainer_options options = {
        .variants = run->answer->variants,
        .ranks = run->ranks,
        .backend = run->options.backend,
        .device_threads = thread_count(run, run->options.device_threads),
        .host_threads = thread_count(run, run->options.host_threads),
        .optimizer = run->options.optimizer,
        .loss_scaling = cli_training_loss_scaling(run),
        .skipped_in_row_max = run->options.max_skipped,
        .drives = drive_options(run),
        .patience_s = run->options.patience_s,
        .seed = run->options.seed,
        .weights = run->weights,
        .adapters = run->adapters,
        .checkpoint = run->checkpoint,
        .batch = batch,
        .learning_rate = learning_rate,
        .ready = begin_drives,
        .wish = wish,
        .make_space = run->options.overwrite ? delete_set_aside : NULL,
        .try_start = run->options.overwrite,
        .data = run,
    };

    options.commit = durable_steps(run);
    memcpy(options.lane_bytes_per_s, run->options.limits.bytes_per_s,
           sizeof options.lane_bytes_per_s);
    if (!make_trainer(run, &options, error) ||
        !cli_run_drives_resumed(run->drives, cli_run_course_tell(run), error))
        return false;
    say_notices(run);
    find_data(run);
    run->data = cli_run_data_new(run, error);
    return run->data != NULL;
}

/* --- life ------------------------------------------------------------------------------------ */

static bool
open_drives(struct cli_training *run, GError **error)
{
    run->drives = cli_run_drives_open(run, error);
    return run->drives != NULL;
}

static bool
check_resume(const struct cli_training *run, GError **error)
{
    return !run->options.resume || cli_training_is_durable(run) ||
           mw_refuse(error, "--resume: this plan makes no step durable; that needs optimizer state "
                            "on NVMe and --commit step, or --save-every K");
}

static bool
apply_recorded_course(struct cli_training *run, GError **error)
{
    if (run->checkpoint)
        return cli_run_course_from(run, error);
    return !run->options.resume || !run->options.nvme || cli_run_course_resume(run, error);
}

/* The first rank looks, before any rank makes a trainer. */
static bool
look_whether_done(struct cli_training *run, GError **error)
{
    const struct cli_run_options *o = &run->options;
    int done = 0;

    if (!o->resume || !o->save || !o->nvme)
        return true;
    if (mw_ranks_index(run->ranks) == 0)
        done = cli_export_steps(o->nvme, o->previous) == o->steps;
    if (!mw_ranks_worst(run->ranks, 0, done, &done, NULL, error))
        return false;
    run->is_done = done;
    return true;
}

/* Betas that were not given are the optimizer's. */
static void
take_default_betas(struct cli_training *run)
{
    const struct mw_optimizer_row *row = mw_optimizer_row(run->answer->plan->shape.optimizer);
    struct mw_optimizer *o = &run->options.optimizer;

    o->beta1 = isnan(o->beta1) ? row->beta1 : o->beta1;
    o->beta2 = isnan(o->beta2) ? row->beta2 : o->beta2;
}

bool
cli_training_open(struct cli_training *run, GError **error)
{
    const struct cli_request *request = run->request;

    take_default_betas(run);
    return cli_run_take_program(run, error) &&
           mw_trainer_takes(run->answer->variants, run->options.backend, error) &&
           cli_run_decoder(request, &run->decoder, NULL, error) && check_save(run, error) &&
           (!run->answer->sizing || mw_settings_run(&run->answer->sizing->settings, error)) &&
           check_resume(run, error) && open_drives(run, error) && open_start(run, error) &&
           apply_recorded_course(run, error) && open_data(run, error) &&
           look_whether_done(run, error);
}

void
cli_training_close(struct cli_training *run, bool together)
{
    run->diverged = run->trainer && mw_trainer_has_diverged(run->trainer);
    mw_trainer_free(run->trainer);
    cli_run_data_free(run->data);
    cli_run_drives_close(run->drives, together);
    mw_tokens_close(run->tokens);
    mw_safetensors_close(run->weights);
    mw_safetensors_close(run->adapters);
    mw_checkpoint_close(run->checkpoint);
    for (int i = 0; i < run->held_count; i++)
        close(run->held[i]);
    g_free(run->held);
    g_free(run->then);
    g_free(run->saved);
    g_free(run->explained);
    mw_plan_free(run->homes);
    mw_answer_free(run->answer);
    cli_run_options_clear(&run->options);
    g_free(run->stem);
}
