#include "cli/run/report.h"

#include <math.h>
#include <string.h>

#include "base/whole_file.h"
#include "cli/compare.h"
#include "cli/run/unite.h"
#include "cli/run/log.h"
#include "cli/run/paths.h"
#include "exec/host/machine.h"
#include "exec/host/steal.h"
#include "exec/memory/memory.h"

struct cli_run_report {
    const struct cli_training *training;
    struct mw_measured *measured; /* of the plan that was predicted */
    struct mw_measured **others;  /* [variant] of the other plans; NULL: no step had it */
    struct mw_run_facts facts;
    struct mw_trainer_use before;
    struct mw_steal steal; /* at the end of the previous step */
    int64_t steal_us;      /* time of that reading */
    GArray *imbalances;    /* double: of each step that counts */
};

/* --- before training -------------------------------------------------------------------------- */

static bool
check_writable(struct cli_training *training, const char *path, GError **error)
{
    int held;

    if (!path)
        return true;
    if (!mw_file_hold(path, &held, error))
        return false;
    if (held >= 0) {
        training->held = g_renew(int, training->held, training->held_count + 1);
        training->held[training->held_count++] = held;
    }
    return true;
}

static bool
write_plan(const char *path, const struct mw_variants *variants, GError **error)
{
    struct mw_file *file = mw_file_open(path, error);

    if (!file)
        return false;
    mw_variants_write(variants, file->stream);
    return mw_file_commit(file, error);
}

static bool
write_deepspeed(const char *path, const struct mw_sizing *sizing, GError **error)
{
    g_autofree char *text = mw_deepspeed_text_of(sizing);

    return mw_file_write(path, text, strlen(text), error);
}

static bool
write_plan_files(const struct cli_request *request, const struct mw_answer *answer, GError **error)
{
    return (!request->output || write_plan(request->output, answer->variants, error)) &&
           (!request->write_deepspeed ||
            write_deepspeed(request->write_deepspeed, answer->sizing, error));
}

bool
cli_run_report_prepare(struct cli_training *training, GError **error)
{
    const struct cli_request *request = training->request;

    if (mw_ranks_index(training->ranks) != 0)
        return true;
    return cli_run_paths_check(request, &training->options, error) &&
           check_writable(training, request->trace, error) &&
           check_writable(training, request->plot, error) &&
           check_writable(training, training->options.save_timeline, error) &&
           cli_run_log_check(training, error) && write_plan_files(request, training->answer, error);
}

/* --- during training -------------------------------------------------------------------------- */

struct cli_run_report *
cli_run_report_new(const struct cli_training *training)
{
    struct cli_run_report *report = g_new0(struct cli_run_report, 1);

    report->training = training;
    report->facts.backend = training->options.backend->name;
    report->measured = mw_measured_new((uint32_t)mw_plan_unfolded_ops(training->answer->plan));
    report->others = g_new0(struct mw_measured *, training->answer->variants->plan_count);
    report->before = mw_trainer_use(training->trainer);
    mw_steal_read(&report->steal);
    report->steal_us = g_get_monotonic_time();
    report->imbalances = g_array_new(false, false, sizeof(double));
    return report;
}

void
cli_run_report_free(struct cli_run_report *report)
{
    if (!report)
        return;
    mw_measured_free(report->measured);
    for (uint32_t v = 0; v < report->training->answer->variants->plan_count; v++)
        mw_measured_free(report->others[v]);
    g_free(report->others);
    g_free(report->facts.layer_imbalance);
    g_array_free(report->imbalances, true);
    g_free(report);
}

/* The prediction is for one plan; other steps may have another plan. */
static struct mw_measured *
place_for(struct cli_run_report *report, const struct mw_plan *plan)
{
    const struct mw_variants *variants = report->training->answer->variants;
    uint32_t v = 0;

    if (plan == report->training->answer->plan)
        return report->measured;
    while (variants->plans[v] != plan)
        v++;
    if (!report->others[v])
        report->others[v] = mw_measured_new((uint32_t)mw_plan_unfolded_ops(plan));
    return report->others[v];
}

/* Time stolen since the previous step.  Rank 0 reports for all: its typical step is also theirs. */
static int64_t
stolen_since(struct cli_run_report *report)
{
    const struct mw_steal before = report->steal;
    int64_t before_us = report->steal_us;

    if (mw_ranks_index(report->training->ranks) != 0)
        return 0;
    mw_steal_read(&report->steal);
    report->steal_us = g_get_monotonic_time();
    double stolen_s = mw_steal_s(&before, &report->steal);
    double elapsed_s = 1e-6 * (double)(report->steal_us - before_us);
    bool disturbs = mw_steal_disturbs(stolen_s, elapsed_s, report->steal.cores);
    return disturbs ? (int64_t)(stolen_s * 1e9) : 0;
}

/* The first step counts only where there is no other. */
static void
note_imbalance(struct cli_run_report *report, const struct mw_trainer_step *step)
{
    struct mw_run_facts *facts = &report->facts;

    if (!step->layer_imbalance)
        return;
    if (!facts->layer_imbalance)
        facts->layer_imbalance = g_new0(double, step->layers);
    if (facts->steps == 1) {
        g_array_set_size(report->imbalances, 0);
        memset(facts->layer_imbalance, 0, (size_t)step->layers * sizeof(double));
        facts->expert_imbalance_most = 0;
    }
    facts->layers = step->layers;
    for (int64_t l = 0; l < step->layers; l++)
        facts->layer_imbalance[l] += step->layer_imbalance[l];
    facts->expert_imbalance_most = fmax(facts->expert_imbalance_most, step->expert_imbalance_most);
    g_array_append_val(report->imbalances, step->expert_imbalance);
}

static int
compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void
find_imbalance(struct cli_run_report *report)
{
    struct mw_run_facts *facts = &report->facts;
    GArray *steps = report->imbalances;

    if (!steps->len)
        return;
    for (int64_t l = 0; l < facts->layers; l++)
        facts->layer_imbalance[l] /= steps->len;
    g_array_sort(steps, compare_doubles);
    facts->expert_imbalance = (g_array_index(steps, double, steps->len / 2) +
                               g_array_index(steps, double, (steps->len - 1) / 2)) /
                              2;
}

int64_t
cli_run_report_step(struct cli_run_report *report, const struct mw_trainer_step *step,
                    int64_t *stolen_ns)
{
    struct mw_run_facts *facts = &report->facts;
    *stolen_ns = stolen_since(report);
    int64_t time_ns = mw_measured_add_step(place_for(report, step->plan), step->timeline,
                                           step->let_in_ns, *stolen_ns > 0);

    note_imbalance(report, step);
    if (!facts->steps++)
        facts->first_loss = step->loss;
    facts->last_loss = step->loss;
    facts->skipped += step->skipped;
    facts->seconds += time_ns * 1e-9;
    return time_ns;
}

bool
cli_run_report_unite(struct cli_run_report *report, GError **error)
{
    const struct cli_training *training = report->training;

    return training->stages > 1 ||
           cli_unite_ranks(report->measured, training->answer->plan, training->ranks, error);
}

/* --- after training --------------------------------------------------------------------------- */

static bool
save(const struct cli_run_report *report, const char *machine, GError **error)
{
    const struct cli_training *training = report->training;
    struct mw_file *file = mw_file_open(training->options.save_timeline, error);

    if (!file)
        return false;
    mw_measured_write(report->measured, training->answer->plan, machine, file->stream);
    return mw_file_commit(file, error);
}

/* What the plan has in this rank's host memory. */
static int64_t
planned_bytes(const struct cli_training *training)
{
    const struct mw_variants *variants = training->answer->variants;
    int64_t most = 0;

    for (uint32_t v = 0; v < variants->plan_count; v++) {
        const int64_t *peaks = variants->plans[v]->peak_bytes;
        most = MAX(most, peaks[MW_TIER_CPU] +
                             (training->options.backend->apart ? 0 : peaks[MW_TIER_GPU]));
    }
    return most;
}

static void
find_use(struct cli_run_report *report)
{
    struct mw_trainer_use now = mw_trainer_use(report->training->trainer);
    struct mw_run_facts *facts = &report->facts;

    for (int t = 0; t < MW_TIER_COUNT; t++)
        facts->peak_bytes[t] = now.reserved_bytes[t];
    facts->scratch_bytes = now.scratch_bytes;
    facts->program_bytes = now.program_bytes;
    facts->planned_bytes = now.program_bytes < 0 ? -1
                                                 : planned_bytes(report->training) +
                                                       now.scratch_bytes + now.program_bytes;
    facts->resident_bytes = mw_memory_resident_peak_bytes();
    facts->nvme_read_bytes = now.nvme_read_bytes - report->before.nvme_read_bytes;
    facts->nvme_written_bytes = now.nvme_written_bytes - report->before.nvme_written_bytes;
}

static char *
machine_of(const struct cli_training *training)
{
    const struct mw_backend *backend = training->options.backend;
    char *name = mw_machine_name();
    struct mw_backend_device device;

    if (backend == &mw_backend_cpu)
        return name;
    bool described =
        backend->apart &&
        mw_backend_describe_own(backend, mw_ranks_node_index(training->ranks), &device, NULL);
    char *both = g_strdup_printf("%s%s%s, %s backend", described ? device.name : "",
                                 described ? "; " : "", name, backend->name);
    g_free(name);
    return both;
}

bool
cli_run_report_end(struct cli_run_report *report, GError **error)
{
    const struct cli_training *training = report->training;
    g_autofree char *machine = machine_of(training);
    struct cli_measured it = {training->answer->result, report->measured, &report->facts, machine};

    find_use(report);
    find_imbalance(report);
    if (!report->measured->seen) {
        cli_say("no step had the plan of the prediction (--dpu-start, --drop-layers): there is "
                "nothing to "
                "compare with it");
        return true;
    }
    if (training->options.save_timeline && !save(report, machine, error))
        return false;
    if (!training->request->json)
        putchar('\n');
    return cli_compare_report(training->request, &it, !training->options.compare, error);
}
