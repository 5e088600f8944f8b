/* `memwall run`: trains by the plan, here, and says how near the prediction was. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/decoder.h"
#include "cli/evaluate.h"
#include "cli/output.h"
#include "cli/run_options.h"
#include "exec/log.h"
#include "exec/memory.h"
#include "exec/tokens.h"
#include "exec/weights.h"
#include "planner/error.h"

/* A run, from its plan on. */
struct run {
    const struct cli_request *request;
    struct cli_run_options options;
    struct cli_answer *answer;
    struct mw_decoder decoder;
    struct mw_tokens *tokens;
    struct mw_safetensors *weights;
    struct mw_trainer *trainer;
    struct mw_log *log;
    int64_t sequences;
    struct mw_batch_place place;
    int64_t *times_ns; /* [steps] */
    int64_t done;
};

/* --- what the trainer asks for --------------------------------------------------------------- */

static bool
batch(void *data, int64_t step, int64_t micro_batch, int32_t *ids, int32_t *targets, GError **error)
{
    struct run *run = data;
    const struct mw_settings *s = &run->answer->sizing->settings;
    int64_t each = run->sequences * s->grad_accum * run->place.ranks;
    struct mw_cursor cursor = mw_tokens_advance(run->tokens, (struct mw_cursor){0}, step * each);
    struct mw_batch_place place = run->place;

    place.micro_batch = micro_batch;
    return mw_tokens_batch(run->tokens, &cursor, &place, ids, targets, error);
}

static double
learning_rate(void *data, int64_t step)
{
    return mw_lr_at(&((struct run *)data)->options.schedule, step);
}

static int64_t
duration_ns(const struct mw_timeline *timeline)
{
    int64_t begin = INT64_MAX, end = 0;

    for (size_t i = 0; i < timeline->row_count; i++) {
        begin = MIN(begin, timeline->rows[i].start_ns);
        end = MAX(end, timeline->rows[i].end_ns);
    }
    return end - begin;
}

static bool
on_step(void *data, const struct mw_trainer_step *step, GError **error)
{
    struct run *run = data;
    struct mw_log_row row = {
        .step = step->step,
        .loss = step->loss,
        .gradient_norm = step->gradient_norm,
        .lr = step->learning_rate,
        .time_ns = duration_ns(step->timeline),
        .skipped = step->skipped,
    };

    run->times_ns[run->done++] = row.time_ns;
    return mw_log_step(run->log, &row, error);
}

/* --- before the first step --------------------------------------------------------------------- */

static bool G_GNUC_PRINTF(2, 3)
refuse(GError **error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    g_autofree char *text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error_literal(error, MW_ERROR, MW_ERROR_INVALID, text);
    return false;
}

/* What a plan may ask for that is simulated alone. */
static bool
check_settings(const struct mw_settings *s, GError **error)
{
    if (s->tp > 1)
        return refuse(error, "--tp %" G_GINT64_FORMAT ": run does not slice tensors", s->tp);
    if (s->layout == MW_LAYOUT_PAPER20)
        return refuse(error, "--state-layout paper20: run keeps state as zero16 does");
    if (s->dtype == MW_DTYPE_FP16)
        return refuse(error, "fp16: run computes in bf16");
    if (s->micro_batch != (int64_t)s->micro_batch)
        return refuse(error, "--batch %g: run takes whole sequences", s->micro_batch);
    return true;
}

/* Without --gpus and --nodes a plan is for this one process. */
static struct cli_request
for_this_machine(const struct cli_request *request)
{
    struct cli_request mine = *request;

    if (mine.settings.gpus_per_node == MW_AUTO)
        mine.settings.gpus_per_node = 1;
    if (mine.settings.dtype == MW_DTYPE_NONE)
        mine.settings.dtype = MW_DTYPE_BF16;
    return mine;
}

static char *
drives_directory(GError **error)
{
    const char *set = g_getenv("MEMWALL_NVME");
    char *directory = set && *set ? g_strdup(set)
                                  : g_build_filename(g_get_user_cache_dir(), "memwall", NULL);

    if (g_mkdir_with_parents(directory, 0700) == 0)
        return directory;
    g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: cannot be made; --nvme DIR names another",
                directory);
    g_free(directory);
    return NULL;
}

static bool
find_drives(struct run *run, GError **error)
{
    bool needed = run->answer->plan->peak_bytes[MW_TIER_NVME] > 0;

    if (run->options.nvme || !needed)
        return true;
    char *directory = drives_directory(error);
    if (!directory)
        return false;
    run->options.nvme = g_new0(char *, 2);
    run->options.nvme[0] = directory;
    return true;
}

static struct mw_nvme_options
drive_options(const struct run *run)
{
    const struct mw_hardware *hw = run->answer->sizing->hardware;
    char **directories = run->options.nvme;

    return (struct mw_nvme_options){
        .directories = (const char *const *)directories,
        .directory_count = directories ? (int)g_strv_length(directories) : 0,
        .block_bytes = (int64_t)hw->nvme_block_bytes / 4096 * 4096,
        .depth = (int)hw->nvme_queue_depth,
    };
}

/* Device and host memory are both this machine's. */
static bool
check_memory(const struct run *run)
{
    const int64_t *peaks = run->answer->plan->peak_bytes;
    int64_t need = peaks[MW_TIER_GPU] + peaks[MW_TIER_CPU];
    struct mw_memory_room room;

    mw_memory_room(&room);
    int64_t lacks = mw_memory_short_bytes(&room, need);
    if (!lacks)
        return true;
    g_autofree char *wanted = g_strdup(mw_format_gib(need));
    g_autofree char *lacking = g_strdup(mw_format_gib(lacks));
    cli_say("the plan needs %s of memory here, %s more than there is: %s", wanted, lacking,
            room.bound);
    return false;
}

static bool
open_data(struct run *run, GError **error)
{
    const struct mw_settings *s = &run->answer->sizing->settings;

    run->sequences = s->micro_batch;
    run->place = (struct mw_batch_place){.rank = 0, .ranks = 1, .sequences = run->sequences};
    run->tokens = mw_tokens_open(run->options.data, run->decoder.vocab, s->seq,
                                 run->options.shuffle ? run->options.seed + 1 : 0, error);
    if (!run->tokens || !mw_tokens_check(run->tokens, error))
        return false;
    if (!run->options.weights)
        return true;
    run->weights = mw_safetensors_open(run->options.weights, error);
    return run->weights && mw_weights_check(&run->decoder, run->weights, "", error);
}

static bool
open_trainer(struct run *run, GError **error)
{
    const struct mw_settings *s = &run->answer->sizing->settings;
    struct mw_trainer_options options = {
        .plan = run->answer->plan,
        .decoder = &run->decoder,
        .backend = &mw_backend_cpu,
        .sequences = run->sequences,
        .seq = s->seq,
        .checkpoint_interval = s->checkpoint_interval,
        .device_threads = run->options.device_threads,
        .host_threads = run->options.host_threads,
        .optimizer = run->options.optimizer,
        .drives = drive_options(run),
        .seed = run->options.seed,
        .weights = run->weights,
        .batch = batch,
        .learning_rate = learning_rate,
        .data = run,
    };

    run->trainer = mw_trainer_new(&options, error);
    return run->trainer != NULL;
}

static bool
open_log(struct run *run, GError **error)
{
    const struct mw_result *r = run->answer->result;
    struct mw_log_options options = {
        .table = run->request->json ? NULL : stdout,
        .progress = stderr,
        .path = run->options.log,
        .steps = run->options.steps,
        .tokens = (int64_t)r->tokens_per_step,
        .flops = cli_flops(run->answer->sizing, false) * run->answer->sizing->ranks,
        .peak_flops = run->answer->sizing->hardware->gpu_peak_flops * run->answer->sizing->ranks,
        .predicted_ns = (int64_t)(r->step_time_s[MW_OUTLOOK_TYPICAL] * 1e9),
    };

    run->log = mw_log_open(&options, error);
    return run->log != NULL;
}

/* --- after the last ------------------------------------------------------------------------------ */

static int
compare_times(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The first step makes what later ones reuse: it counts only where it is alone. */
static double
median_s(const struct run *run)
{
    int64_t skip = run->done > 1, count = run->done - skip;
    g_autofree int64_t *times = g_memdup2(run->times_ns + skip, count * sizeof(int64_t));

    qsort(times, count, sizeof *times, compare_times);
    return (times[count / 2] + times[(count - 1) / 2]) / 2e9;
}

static void
print_summary(const struct run *run)
{
    const struct mw_result *r = run->answer->result;
    double measured = median_s(run), predicted = r->step_time_s[MW_OUTLOOK_TYPICAL];
    g_autofree char *m = g_strdup(mw_format_seconds(measured));
    g_autofree char *p = g_strdup(mw_format_seconds(predicted));

    printf("\nstep %s measured (median), %s predicted for %s%s: %+.1f%%\n", m, p, r->hardware,
           r->calibrated ? "" : " (not calibrated)", 100 * (predicted / measured - 1));
}

/* --- the whole ----------------------------------------------------------------------------------- */

static bool
prepare(struct run *run, GError **error)
{
    const struct cli_request *request = run->request;

    return mw_decoder_read(&request->model, request->model_name, &run->decoder, error) &&
           check_settings(&run->answer->sizing->settings, error) && find_drives(run, error) &&
           open_data(run, error);
}

static bool
train(struct run *run, GError **error)
{
    run->times_ns = g_new0(int64_t, run->options.steps);
    return open_trainer(run, error) && open_log(run, error) &&
           mw_trainer_run(run->trainer, run->options.steps, on_step, run, error);
}

static int
run_plan(struct run *run)
{
    g_autoptr(GError) error = NULL;

    if (!prepare(run, &error))
        return cli_fail(error);
    if (!check_memory(run))
        return CLI_DOES_NOT_FIT;
    if (!train(run, &error))
        return cli_fail(error);
    print_summary(run);
    return cli_flush();
}

static void
clear(struct run *run)
{
    mw_log_close(run->log);
    mw_trainer_free(run->trainer);
    mw_tokens_close(run->tokens);
    mw_safetensors_close(run->weights);
    cli_answer_free(run->answer);
    cli_run_options_clear(&run->options);
    g_free(run->times_ns);
}

static int
answer(const struct cli_request *request)
{
    struct cli_request mine = for_this_machine(request);
    struct run run = {.request = &mine};
    g_autoptr(GError) error = NULL;
    int status;

    if (cli_run_options_read(&run.options, &error))
        run.answer = cli_answer_new(&mine, mine.strategies[0], CLI_DEPTH_ROW, true, &error);
    if (!run.answer)
        status = cli_fail(error);
    else if (!run.answer->plan)
        status = cli_answers_print(&mine, &run.answer, 1, true);
    else
        status = run_plan(&run);
    clear(&run);
    return status;
}

static int
run(int argc, char **argv)
{
    return cli_request_run("run", cli_run_entries(), argc, argv, answer);
}

const struct cli_verb cli_verb_run = {"run", "train by the plan on this machine", run};
