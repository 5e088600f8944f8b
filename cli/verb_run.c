/* `memwall run`: trains by the plan on this machine, and says how close the prediction was. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/doubts.h"
#include "cli/run/alike.h"
#include "cli/run/backend.h"
#include "cli/run/begin.h"
#include "cli/run/data.h"
#include "cli/run/divided.h"
#include "model/model.h"
#include "cli/run/drives.h"
#include "cli/run/paths.h"
#include "cli/run/planned.h"
#include "cli/run/report.h"
#include "cli/run/request.h"
#include "cli/run/stop.h"
#include "cli/run/taken.h"
#include "cli/run/training.h"
#include "cli/runs/export.h"
#include "cli/unfit.h"
#include "exec/course/log.h"
#include "exec/nvme/run_names.h"
#include "lib/question.h"
#include "study/evaluate.h"
#include "study/set_result.h"

/* For each lane of collectives. */
#define COLLECTIVE_SCRATCH_BYTES ((int64_t)4 << 20)

enum phase { STARTING, BEGUN, TRAINING, STOPPING, SAVING, ENDING };

struct run {
    struct cli_training training;
    struct cli_run_stop *stop; /* NULL: signals are not handled */
    _Atomic int phase;         /* enum phase */
    GMutex lock;               /* protects trainer and log, which the thread that answers signals
                                * uses, from being closed */
    struct mw_log *log;
    struct cli_run_report *report;
    int64_t committed;            /* the last committed step, from 1; 0: none */
    _Atomic int64_t step_ns;      /* time of one step: by the plan, then a mean of the last few */
    int64_t steps;                /* done by this run so far */
    int64_t unlogged;             /* the first step, from 1, that the log lacks; 0: none */
    bool complete;                /* ranks end with one status, which may be another than 0 */
    bool agreed;                  /* ranks have agreed to end, before anything was written */
    _Atomic int64_t signalled_us; /* when the first signal came */
    _Atomic bool signalled;       /* it came; signalled_us is set */
    _Atomic bool answered;        /* and the user got an answer */
};

/* --- steps ----------------------------------------------------------------------------------- */

/* A training is worth more than its log: the run continues, and its exit status shows the
 * failure. */
static void
note_unlogged(struct run *run, int64_t step, const GError *why)
{
    g_autofree char *line = g_strdup_printf(
        "memwall: %s; the run continues, and its log ends before step %" G_GINT64_FORMAT,
        why->message, step);

    run->unlogged = step;
    mw_log_say(run->log, line);
}

static bool
on_step(void *data, const struct mw_trainer_step *step, GError **error)
{
    struct run *run = data;
    g_autoptr(GError) why = NULL;
    struct mw_log_row row = {
        .step = step->step,
        .loss = step->loss,
        .router_aux_loss = step->router_aux_loss,
        .router_z_loss = step->router_z_loss,
        .expert_imbalance = step->expert_imbalance,
        .expert_imbalance_most = step->expert_imbalance_most,
        .gradient_norm = step->gradient_norm,
        .lr = step->learning_rate,
        .loss_scale = step->loss_scale,
        .skipped = step->skipped,
    };

    (void)error;
    cli_run_drives_begun(run->training.drives, step->committed, step->skipped);
    if (step->committed)
        run->committed = step->step + 1;
    row.time_ns = cli_run_report_step(run->report, step, &row.stolen_ns);
    run->step_ns = run->steps++ ? (3 * run->step_ns + row.time_ns) / 4 : row.time_ns;
    if (!mw_log_step(run->log, &row, &why))
        note_unlogged(run, step->step + 1, why);
    return true;
}

/* A reader of the output may be stuck; what was trained must still be kept. */
#define READER_WAIT_US (2 * G_USEC_PER_SEC)

static bool
gives_up_reader(void *data)
{
    const struct run *run = data;

    return run->signalled && g_get_monotonic_time() - run->signalled_us > READER_WAIT_US;
}

static bool
open_log(struct run *run, GError **error)
{
    const struct cli_training *training = &run->training;
    const struct mw_result *r = training->answer->result;
    const struct mw_hardware *hw = &training->request->question.hardware[MW_OUTLOOK_TYPICAL];
    int ranks = mw_ranks_count(training->ranks);
    bool talks = mw_ranks_index(training->ranks) == 0, json = training->request->json;
    g_autofree char *title = cli_run_begin_text(training);
    const struct mw_decoder *decoder = &training->answer->plan->shape.decoder;
    struct mw_log_options options = {
        .title = title,
        .table = json || !talks ? NULL : stdout,
        .router_aux_loss = decoder->router_aux_loss > 0,
        .router_z_loss = decoder->router_z_loss > 0,
        .expert_imbalance = mw_decoder_is_spread(decoder),
        .progress = talks ? stderr : NULL,
        .path = talks ? training->options.log : NULL,
        .resume = training->options.resume,
        .run = cli_run_drives_name(training->drives),
        .first_step = mw_trainer_next_step(training->trainer),
        .steps = training->options.steps,
        .tokens = (int64_t)r->tokens_per_step,
        .flops = cli_run_flops(training->answer) * ranks,
        .peak_flops = mw_peak_flops(training->answer->plan, hw) * ranks,
        .loss_scale = cli_training_loss_scaling(training).max > 1,
        .gives_up = gives_up_reader,
        .data = run,
        .predicted_ns = (int64_t)(r->step_time_s[MW_OUTLOOK_TYPICAL] * 1e9),
    };

    if (talks && json && isatty(STDERR_FILENO))
        cli_say("%s", title);
    struct mw_log *log = mw_log_open(&options, error);
    g_mutex_lock(&run->lock);
    run->log = log;
    g_mutex_unlock(&run->lock);
    return log != NULL;
}

/* --- before the first step -------------------------------------------------------------------- */

/* Prefix of this rank's files.  A run that trains nothing has file names of its own. */
static char *
stem_of(const struct cli_training *training)
{
    bool null = training->options.backend == &mw_backend_null;

    return mw_run_stem(null ? MW_RUN_BASE_NULL : MW_RUN_BASE, mw_ranks_index(training->ranks),
                       mw_ranks_count(training->ranks));
}

/* --- ending early ----------------------------------------------------------------------------- */

/* A launcher ends all ranks once one has failed: then no rank can continue. */
#define FAILURE_LOOKS 10
#define FAILURE_LOOK_US 30000

static bool
others_fail(const struct cli_training *training)
{
    bool lost = false;

    for (int i = 0; !lost && mw_ranks_count(training->ranks) > 1 && i < FAILURE_LOOKS; i++) {
        g_usleep(FAILURE_LOOK_US);
        lost = mw_ranks_lost(training->ranks, NULL);
    }
    return lost;
}

static void
answer_signal(struct run *run, int number)
{
    /* The ranks agree on that step when it ends. */
    static const char *const answers[] = {
        [STARTING] = "stops before the first step",
        [BEGUN] = "stops after its first step",
        [TRAINING] = "stops after the step that it is in",
        [STOPPING] = "stops after the step that it is in",
        [SAVING] = "all steps are done: writes the requested files, and ends",
        [ENDING] = "writes what is kept, and ends",
    };
    const char *reason = number == SIGINT ? "interrupted" : "asked to end";
    const bool ends = number == SIGINT || number == SIGTERM || number == SIGHUP;
    const char *again = ends ? "; again to stop at once" : "";

    g_mutex_lock(&run->lock);
    g_autofree char *line =
        g_strdup_printf("memwall: %s: %s%s", reason, answers[run->phase], again);
    if (run->log) /* keeps the answer out of the log's progress line */
        mw_log_say(run->log, line);
    else
        cli_say("%s: %s%s", reason, answers[run->phase], again);
    g_mutex_unlock(&run->lock);
}

static void
tell_stop(void *data, int number)
{
    struct run *run = data;
    const struct cli_training *training = &run->training;

    run->signalled_us = g_get_monotonic_time();
    run->signalled = true;
    if (mw_ranks_index(training->ranks) == 0 && !others_fail(training))
        answer_signal(run, number);
    run->answered = true;
}

/* The answer must come before the last line. */
#define ANSWER_WAITS 1000
#define ANSWER_WAIT_US 1000

static void
wait_for_answer(const struct run *run)
{
    for (int i = 0; i < ANSWER_WAITS && cli_run_stop_wish() && !run->answered; i++)
        g_usleep(ANSWER_WAIT_US);
}

/* A rank that is lost where this one cannot see it, on another machine or among other processes,
 * never arrives where this one waits, and the step never ends.  Nobody knows how long a rank may
 * take to start, or to save after its last step: another signal ends those. */
#define WAIT_LEAST_NS INT64_C(1500000000)
#define WAIT_STEPS 3

static bool
waits_in_vain(const struct run *run)
{
    int64_t since_ns = (g_get_monotonic_time() - run->signalled_us) * 1000;

    return mw_ranks_count(run->training.ranks) > 1 && run->phase == TRAINING &&
           MIN(mw_trainer_idle_ns(run->training.trainer), since_ns) >=
               MAX(WAIT_LEAST_NS, WAIT_STEPS * run->step_ns);
}

static void
look_for_end(void *data, int number)
{
    struct run *run = data;

    g_mutex_lock(&run->lock);
    if (waits_in_vain(run))
        mw_ranks_tell_end(run->training.ranks, number);
    g_mutex_unlock(&run->lock);
}

/* Where the last step is kept, and which command continues from there. */
static char *
kept_text(const struct run *run)
{
    const struct cli_training *training = &run->training;
    const struct cli_run_options *o = &training->options;
    bool own = run->committed && cli_run_drives_are_own(training->drives);
    g_autofree char *kept = own ? cli_run_drives_kept_text(training->drives) : NULL;
    g_autoptr(GString) text = g_string_new(kept);

    if (run->committed && !own)
        g_string_append_printf(text, "it is durable in %s: --resume %s continues it", o->nvme[0],
                               o->nvme[0]);
    /* What is under way between two steps of a pipeline without a flush, or of ranks that update
     * one after the other, is in no checkpoint. */
    const struct mw_step_shape *shape = &training->answer->plan->shape;
    bool parameters = shape->no_flush || shape->asynchronous;
    if (training->saved)
        g_string_append_printf(text,
                               parameters
                                   ? "%scheckpoint %s has its parameters: --weights %s "
                                     "starts from them"
                                   : "%scheckpoint %s has it: --from %s continues from there",
                               text->len ? "; " : "", training->saved, training->saved);
    if (o->backend == &mw_backend_null)
        g_string_append(text, "nothing was computed, and nothing is kept");
    else if (!text->len)
        g_string_append(text, "nothing is kept: no step was durable (--commit, --save-every), and "
                              "there was no --save");
    return g_strdup(text->str);
}

static int
end_early(struct run *run)
{
    struct cli_training *training = &run->training;
    int wish = mw_trainer_ended_by(training->trainer);
    g_autofree char *kept = kept_text(run);

    training->stopped = true;
    wait_for_answer(run);
    if (mw_ranks_index(training->ranks) == 0)
        cli_say("stopped by %s after step %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT "; %s",
                cli_run_stop_name(wish), mw_trainer_next_step(training->trainer),
                training->options.steps, kept);
    return CLI_SIGNALLED + cli_run_stop_signal(wish);
}

/* Prints the reason in one line if all ranks failed for the same reason: settings that differ are
 * one, though each rank's line names a file of its own. */
static int
fail(const struct run *run, const GError *error)
{
    const char *reason = run->training.explained ? run->training.explained : error->message;

    return mw_ranks_tells(run->training.ranks, reason) ? cli_fail(error) : cli_exit_of(error);
}

/* All ranks have trained and saved the same steps; one of the ranks that lack data says why. */
static int
end_without_data(struct run *run)
{
    struct cli_training *training = &run->training;
    const GError *why = cli_run_data_error(training->data);
    g_autofree char *kept = kept_text(run);
    g_autoptr(GError) error = NULL;
    int lacks, rank;

    training->stopped = true;
    if (!mw_ranks_worst(training->ranks, 0, why != NULL, &lacks, &rank, &error))
        return fail(run, error);
    if (rank == mw_ranks_index(training->ranks))
        cli_say("%s; stopped after step %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT "; %s",
                why->message, mw_trainer_next_step(training->trainer), training->options.steps,
                kept);
    return CLI_FAILED;
}

/* --- the run ---------------------------------------------------------------------------------- */

/* Ranks agree on whether a signal has come to one of them. */
static bool
hear_before_first_step(struct run *run, GError **error)
{
    struct cli_training *training = &run->training;

    return mw_ranks_worst(training->ranks, 0, cli_run_stop_wish(), &training->unstarted, NULL,
                          error);
}

/* True also if the run ends before its first step. */
static bool
start(struct run *run, GError **error)
{
    if (cli_training_start(&run->training, error))
        return hear_before_first_step(run, error);
    if (!run->training.unstarted)
        return false;
    g_clear_error(error);
    return true;
}

/* Says which settings change nothing, and what a DeepSpeed file asks for and the plan does
 * differently: a run shows no other notes of its answer. */
static void
tell_notes(const struct cli_training *training)
{
    const struct mw_question *question = &training->request->question;
    g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);

    if (!training->answer->sizing) /* a plan from a file has no DeepSpeed file */
        return;
    mw_note_idle(&question->settings, training->answer->sizing, notes);
    mw_note_deepspeed(question, question->strategies[0], training->answer->sizing, notes);
    for (guint i = 0; i < notes->len; i++)
        cli_say("%s", (const char *)notes->pdata[i]);
}

/* What options were not given and are taken from the run that is resumed, which may explain why it
 * is refused; or from an adapter's file, once that is known to be good. */
static void
tell_taken(const struct cli_training *training)
{
    if (training->options.taken)
        cli_say("%s", training->options.taken);
}

static bool
train(struct run *run, GError **error)
{
    if (!start(run, error))
        return false;
    if (run->training.unstarted)
        return true;
    run->phase = BEGUN;
    if (mw_ranks_index(run->training.ranks) == 0) {
        if (!run->training.options.resume)
            tell_taken(&run->training);
        cli_doubts_tell(run->training.request->question.profile);
        if (!run->training.request->json)
            tell_notes(&run->training);
    }
    run->report = cli_run_report_new(&run->training);
    int64_t left = run->training.options.steps - mw_trainer_next_step(run->training.trainer);
    if (!open_log(run, error))
        return false;
    run->step_ns = (int64_t)(run->training.answer->result->step_time_s[MW_OUTLOOK_TYPICAL] * 1e9);
    run->phase = TRAINING;
    bool good = mw_trainer_run(run->training.trainer, left, on_step, run, error);
    const bool stopped = mw_trainer_ended_by(run->training.trainer) != 0;
    run->phase = stopped ? STOPPING : SAVING;
    if (good)
        cli_run_drives_ended(run->training.drives, run->committed || !stopped);
    return good;
}

static int
end_unstarted(struct run *run)
{
    struct cli_training *training = &run->training;
    const char *name = cli_run_stop_name(training->unstarted);
    int64_t done = training->trainer ? mw_trainer_next_step(training->trainer) : 0;
    bool spared = cli_run_drives_spare(training->drives) ||
                  (!training->trainer && !cli_run_drives_are_own(training->drives));

    training->stopped = true;
    wait_for_answer(run);
    if (mw_ranks_index(training->ranks) == 0 && done)
        cli_say("stopped by %s before step %" G_GINT64_FORMAT "; what was durable stays as it was",
                name, done + 1);
    else if (mw_ranks_index(training->ranks) == 0)
        cli_say("stopped by %s before the first step; nothing was trained, and %s", name,
                spared ? "what --overwrite was to delete stays as it was" : "nothing is kept");
    return CLI_SIGNALLED + cli_run_stop_signal(training->unstarted);
}

/* The ranks agree on a status: that of a rank that could not print or log everything, if any. */
static bool
agree_on_status(struct run *run, int *status, GError **error)
{
    struct mw_ranks *ranks = run->training.ranks;
    int own = cli_flush();

    if (run->unlogged) {
        cli_say("log %s: ends before step %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT,
                run->training.options.log, run->unlogged, run->training.options.steps);
        own = CLI_FAILED;
    }
    if (run->training.displaced)
        own = CLI_FAILED;
    run->complete = mw_ranks_worst(ranks, 0, own, status, NULL, error);
    return run->complete;
}

/* The status that the ranks have agreed on. */
static int
end_agreed(struct run *run, int status)
{
    run->agreed = true;
    return status;
}

static int
train_and_save(struct run *run)
{
    g_autoptr(GError) error = NULL;
    bool fits, alike;
    int status;

    if (!cli_training_open(&run->training, &error) ||
        !cli_run_alike_trained(&run->training, &alike, &error) ||
        (alike && !cli_run_divided_files(&run->training, &alike, &error)))
        return fail(run, error);
    if (!alike)
        return end_agreed(run, CLI_USAGE);
    if (!cli_run_report_prepare(&run->training, &error))
        return fail(run, error);
    if (run->training.is_done)
        return end_agreed(run, CLI_DONE);
    if (!cli_training_fits(&run->training, &fits, &error))
        return fail(run, error);
    if (!fits)
        return end_agreed(run, CLI_DOES_NOT_FIT);
    if (!train(run, &error))
        return fail(run, error);
    if (run->training.unstarted)
        return end_unstarted(run);
    if (!cli_training_save(&run->training, &error) || !cli_run_report_unite(run->report, &error))
        return fail(run, error);
    if (mw_ranks_index(run->training.ranks) == 0 && !cli_run_report_end(run->report, &error))
        return fail(run, error);
    if (!agree_on_status(run, &status, &error))
        return fail(run, error);
    int wish = mw_trainer_ended_by(run->training.trainer);
    if (wish == CLI_RUN_DATA_WISH)
        return end_without_data(run);
    return wish ? end_early(run) : status; /* Ctrl-C may have ended who reads, too */
}

/* From the first file that the run makes to the last that it writes, a signal leaves nothing half
 * done: close_run ends what begins here. */
static int
run_plan(struct run *run)
{
    struct cli_run_stop_calls calls = {tell_stop, look_for_end, run};

    run->stop = cli_run_stop_begin(&calls);
    return train_and_save(run);
}

/* Profiles of ranks may differ: if the plan does not fit on one rank, none runs. */
static int
end_without_plan(struct run *run, int rank)
{
    const struct cli_training *training = &run->training;

    if (mw_ranks_index(training->ranks) != rank)
        return end_agreed(run, CLI_DOES_NOT_FIT);
    if (rank)
        cli_say("the plan of rank 0 fits, that of rank %d does not, by its profile %s:", rank,
                mw_profile_name(training->request->question.profile));
    int status = cli_unfit_print(training->request, training->answer, false);
    return status == CLI_DOES_NOT_FIT ? end_agreed(run, status) : status;
}

static int
run_alike(struct run *run)
{
    g_autoptr(GError) error = NULL;
    bool alike;

    if (!cli_run_alike_planned(&run->training, &alike, &error))
        return fail(run, error);
    return alike ? run_plan(run) : end_agreed(run, CLI_USAGE);
}

static struct mw_answer *
plan(const struct cli_request *request, GError **error)
{
    const struct mw_question *question = &request->question;

    if (request->plan_file)
        return cli_run_plan_answer(request, error);
    struct mw_answer *answer =
        mw_answer_new(question, question->strategies[0],
                      request->json ? MW_DEPTH_VERDICT : MW_DEPTH_ROW, true, error);
    mw_lib_blame_deepspeed(request->asked, &question->settings, error);
    return answer;
}

static int
plan_and_run(struct run *run)
{
    struct cli_training *training = &run->training;
    g_autoptr(GError) error = NULL;
    bool alike;
    int lacks, rank;

    if (!cli_run_alike_asked(training, &alike, &error) ||
        (alike && !cli_run_divided_asked(training, &alike, &error)))
        return fail(run, error);
    if (!alike)
        return end_agreed(run, CLI_USAGE);
    if (!cli_run_backend_choose(&training->options.backend, training->ranks, &error))
        return fail(run, error);
    cli_run_request_tell_backend(training);
    training->stem = stem_of(training);
    training->answer = plan(training->request, &error);
    if (!training->answer)
        return fail(run, error);
    cli_run_request_tell_dtype(training);
    if (!mw_ranks_worst(training->ranks, 0, !training->answer->plan, &lacks, &rank, &error))
        return fail(run, error);
    return lacks ? end_without_plan(run, rank) : run_alike(run);
}

/* A run that was killed after its last step has not reached its --save.  The durable state is
 * written as it is: no step used the settings of this run. */
static int
export_done(char **directories, const char *folder, bool previous)
{
    g_autoptr(GError) error = NULL;
    int64_t steps;

    if (!cli_export(directories, "--save", folder, previous, &steps, &error))
        return cli_fail(error);
    cli_say("all %" G_GINT64_FORMAT " steps were done before: nothing is trained; checkpoint %s "
            "has them",
            steps, folder);
    return CLI_DONE;
}

static void
close_log(struct run *run)
{
    g_mutex_lock(&run->lock);
    struct mw_log *log = g_steal_pointer(&run->log);
    run->phase = ENDING;
    g_mutex_unlock(&run->lock);
    mw_log_close(log);
}

/* Writes descriptions, and deletes what is not kept. */
static void
close_run(struct run *run, bool together)
{
    close_log(run);
    cli_run_report_free(run->report);
    cli_training_close(&run->training, together);
    g_clear_pointer(&run->stop, cli_run_stop_end);
}

/* Closes the run, and lets its ranks disconnect. */
static int
end(struct run *run, int status)
{
    struct cli_training *training = &run->training;
    struct mw_ranks *ranks = training->ranks;
    bool all_alike = run->complete || run->agreed || status > CLI_SIGNALLED;
    bool exports = training->is_done && all_alike && mw_ranks_index(ranks) == 0;
    g_auto(GStrv) directories = exports ? g_strdupv(training->options.nvme) : NULL;
    g_autofree char *folder = g_strdup(training->options.save);
    bool previous = training->options.previous;

    if (!all_alike && mw_ranks_count(ranks) > 1) {
        g_clear_pointer(&run->stop, cli_run_stop_end); /* the ranks' own hears the launcher again */
        mw_ranks_abort(ranks, status);                 /* does not return */
    }
    close_run(run, all_alike);
    if (exports && (status = export_done(directories, folder, previous)))
        mw_ranks_abort(ranks, status);
    else
        mw_ranks_leave(ranks);
    return status;
}

static int
answer(const struct cli_request *request)
{
    g_autoptr(GError) error = NULL;
    struct run run = {0};
    struct cli_training *training = &run.training;

    cli_outlive_readers();
    if (!cli_run_options_read(&training->options, &error)) {
        cli_run_options_clear(&training->options);
        return cli_fail(error);
    }
    struct mw_ranks *ranks =
        mw_ranks_join(MW_TRAINER_COLLECTIVE_LANES, COLLECTIVE_SCRATCH_BYTES, &error);
    if (!ranks) {
        cli_run_options_clear(&training->options);
        mw_ranks_give_way();
        return cli_fail(error);
    }
    if (mw_ranks_index(ranks) == 0 && training->options.resume)
        tell_taken(training);
    struct cli_request mine = cli_run_request(request, ranks, &training->options.limits);
    training->request = &mine;
    training->ranks = ranks;
    g_mutex_init(&run.lock);
    int status = end(&run, plan_and_run(&run));
    g_mutex_clear(&run.lock);
    return status;
}

/* Before a machine is measured for the run: checks that its inputs are there, and that its outputs
 * can be written. */
static bool
check_before_measuring(const struct cli_request *request, const struct cli_run_options *options,
                       GError **error)
{
    const struct mw_backend_place alone = {.ranks = 1, .node_ranks = 1};

    return (!options->backend || mw_backend_takes(options->backend, &alone, error)) &&
           (!options->log || cli_as_usage_error(mw_log_check(options->log, NULL, error), error)) &&
           cli_training_check_inputs(request, options, error);
}

static bool
check(const struct cli_request *request, bool measures, GError **error)
{
    struct cli_run_options options;
    struct mw_decoder decoder;
    bool good = cli_run_options_read(&options, error) &&
                cli_run_paths_check(request, &options, error) &&
                cli_run_decoder(request, &decoder, NULL, error) &&
                (!measures || check_before_measuring(request, &options, error));

    cli_run_options_clear(&options);
    return good;
}

static int
run(int argc, char **argv)
{
    return cli_request_run(&cli_verb_run, cli_run_groups(), cli_run_taken_complete, check, argc,
                           argv, answer);
}

const struct cli_verb cli_verb_run = {
    .name = "run",
    .summary = "train on this machine, by the plan",
    .arguments = "-m MODEL --data FILE [-H HW]",
    .examples = "memwall run -m gpt2 --data tokens.bin --steps 100 --save gpt2-trained",
    .run = run,
};
