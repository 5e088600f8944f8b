#include "cli/plan_file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/input.h"
#include "cli/evaluate.h"
#include "cli/fill.h"
#include "cli/output.h"

/* Of a name that is longer no file could be called. */
#define MACHINE_LINE_BYTES 4096

static struct mw_plan *
read_plan(const char *path, GError **error)
{
    static const struct mw_input_kind kind = {CLI_PLAN_WANTED, MW_PLAN_TEXT_BYTES_MAX,
                                              MW_PLAN_TEXT_BEGIN};
    gsize length;
    g_autofree char *text = mw_input_read(path, &kind, &length, error);
    char why[256];

    if (!text)
        return NULL;
    struct mw_plan *plan = mw_plan_parse(text, length, why, sizeof why);
    if (plan)
        return plan;
    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT, "%s: %s", path, why);
    return NULL;
}

bool
cli_plan_file_check(const char *path, GError **error)
{
    struct mw_plan *plan = read_plan(path, error);
    bool good = plan != NULL;

    mw_plan_free(plan);
    return good;
}

/* Of the head alone. */
static char *
read_machine(FILE *in)
{
    char line[MACHINE_LINE_BYTES];

    for (int i = 0; i < 3 && fgets(line, sizeof line, in); i++)
        if (g_str_has_prefix(line, "machine "))
            return g_strstrip(g_strdup(line + strlen("machine ")));
    return NULL;
}

char *
cli_plan_file_machine(const char *path)
{
    FILE *in = g_file_test(path, G_FILE_TEST_IS_REGULAR) ? fopen(path, "re") : NULL;
    g_autofree char *name = in ? read_machine(in) : NULL;
    bool is_name =
        name && strcmp(name, "here") && !strchr(name, '/') && !g_str_has_suffix(name, ".ini");
    struct mw_hwprofile *profile = is_name ? mw_hwprofile_load(name, NULL) : NULL;

    if (in)
        fclose(in);
    if (!profile)
        return NULL;
    mw_hwprofile_free(profile);
    return g_steal_pointer(&name);
}

/* The communicator of all ranks says how many share a node. */
static int64_t
ranks_per_node(const struct mw_plan *plan)
{
    for (uint32_t c = 0; c < plan->comm_count; c++)
        if (plan->comms[c].size == plan->world_ranks)
            return plan->comms[c].ranks_per_node;
    return plan->world_ranks;
}

/* Ranks can sit only where there are GPUs. */
static bool
check_machine(const struct cli_request *request, const struct mw_plan *plan, GError **error)
{
    const struct mw_hardware *hw = &request->hardware[MW_OUTLOOK_TYPICAL];
    int64_t per_node = ranks_per_node(plan), nodes = plan->world_ranks / per_node;

    if (per_node <= hw->gpus_per_node && (!hw->nodes_max || nodes <= hw->nodes_max))
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "%s: the plan is for %" G_GINT64_FORMAT " node%s of %" G_GINT64_FORMAT
                " GPU%s, more than profile \"%s\" has; give another -H",
                request->plan_file, nodes, nodes == 1 ? "" : "s", per_node,
                per_node == 1 ? "" : "s", mw_hwprofile_name(request->profile));
    return false;
}

static void
fill_identity(const struct cli_request *request, const struct mw_plan *plan, struct mw_result *r)
{
    r->plan = plan;
    r->hardware = g_strdup(mw_hwprofile_name(request->profile));
    r->hardware_description = g_strdup(mw_hwprofile_description(request->profile));
    r->hardware_set = mw_hwprofile_changes(request->profile);
    r->provenance = g_strdup(mw_provenance_name(mw_hwprofile_worst_provenance(request->profile)));
    r->calibrated = mw_hwprofile_calibrated(request->profile);
    r->gpus_per_node = ranks_per_node(plan);
    r->nodes = plan->world_ranks / r->gpus_per_node;
    r->dpu_start = MW_AUTO;
}

/* The plan's peaks against this machine, which need not be the one it was planned for. */
static void
fill_memory(const struct mw_hardware *hw, const struct mw_plan *plan, struct mw_result *r)
{
    const int64_t whole[] = {hw->gpu_memory_bytes, hw->host_memory_bytes, hw->nvme_capacity_bytes};
    const int64_t reserve[] = {hw->gpu_reserve_bytes, hw->host_reserve_bytes,
                               hw->nvme_reserve_bytes};

    r->feasible = true;
    for (int t = 0; t < MW_TIER_COUNT; t++) {
        int64_t sharers = t == MW_TIER_GPU ? 1 : r->gpus_per_node;
        int64_t capacity = (whole[t] - reserve[t]) / sharers;
        r->tiers[t] =
            (struct mw_result_tier){capacity, reserve[t] / sharers, plan->peak_bytes[t], 0};
        if (plan->peak_bytes[t] <= capacity || !r->feasible)
            continue;
        r->feasible = false;
        r->limiting_tier = g_strdup(mw_tier_name(t));
        r->short_bytes = plan->peak_bytes[t] - capacity;
    }
    for (uint32_t s = 0; s < plan->slot_count; s++) {
        int64_t *largest = &r->tiers[plan->slots[s].tier].largest_request_bytes;
        *largest = MAX(*largest, plan->slots[s].size_bytes);
    }
}

static void
fill_ledger(const struct mw_plan *plan, struct mw_result *r)
{
    r->ledger = g_new0(struct mw_result_ledger_row, MW_TIER_COUNT * MW_PURPOSE_COUNT);
    for (int t = 0; t < MW_TIER_COUNT; t++)
        for (int p = 0; p < MW_PURPOSE_COUNT; p++) {
            int64_t bytes = 0;
            for (uint32_t s = 0; s < plan->slot_count; s++)
                if (plan->slots[s].rank == 0 && plan->slots[s].tier == t &&
                    plan->slots[s].purpose == p)
                    bytes += plan->slots[s].size_bytes;
            if (bytes)
                r->ledger[r->ledger_count++] = (struct mw_result_ledger_row){t, p, bytes};
        }
}

static bool
fill_speed(const struct cli_request *request, struct cli_answer *answer, GError **error)
{
    struct mw_result *r = answer->result;
    const struct mw_hardware *hw = request->hardware;
    struct mw_engine_result engine;

    if (!cli_engine(answer->plan, &hw[MW_OUTLOOK_TYPICAL], true, &engine, error))
        return false;
    r->simulated = true;
    for (int o = 0; o < MW_OUTLOOK_COUNT; o++)
        r->step_time_s[o] = o == MW_OUTLOOK_TYPICAL ? engine.step_ns * 1e-9
                                                    : cli_step_s(answer->plan, &hw[o], false);
    r->first_step_time_s = engine.first_step_ns * 1e-9;
    r->critical_path_s = cli_step_s(answer->plan, &hw[MW_OUTLOOK_TYPICAL], true);
    cli_fill_use(answer->plan, &hw[MW_OUTLOOK_TYPICAL], &engine, r);
    cli_fill_drives(answer->plan, &hw[MW_OUTLOOK_TYPICAL], 0, r);
    cli_fill_burst_step(answer->plan, &hw[MW_OUTLOOK_TYPICAL], r);
    answer->timeline = engine.timeline;
    engine.timeline = (struct mw_timeline){0};
    mw_engine_result_clear(&engine);
    r->timeline = &answer->timeline;
    return true;
}

/* Figures of the same machine agree to rounding, but for what a profile was set to. */
#define SAME_MEMORY 0.01

static const char *
other_memory(const struct mw_plan *plan, const struct mw_result *r)
{
    for (int t = 0; t < MW_TIER_COUNT; t++) {
        double then = (double)plan->tiers[t].capacity_bytes,
               now = (double)r->tiers[t].capacity_bytes;
        if (fabs(then - now) > SAME_MEMORY * fmax(then, now))
            return mw_tier_name(t);
    }
    return NULL;
}

/* The user may mean to ask about another machine, or not know that it is one. */
static void
tell_machine(const struct cli_request *request, const struct mw_plan *plan,
             const struct mw_result *r)
{
    const char *name = mw_hwprofile_name(request->profile), *tier = other_memory(plan, r);

    if (plan->machine && strcmp(plan->machine, name))
        cli_say("%s: the plan was made for machine %s; this answer is for %s, -H names another",
                request->plan_file, plan->machine, name);
    else if (tier)
        cli_say("%s: the plan was made for another amount of %s memory than %s has; this answer is "
                "for %s, -H and --set name another",
                request->plan_file, tier, name, name);
}

/* What does not fit here is not timed. */
struct cli_answer *
cli_plan_answer(const struct cli_request *request, struct mw_plan *plan, GError **error)
{
    const struct mw_hardware *hw = &request->hardware[MW_OUTLOOK_TYPICAL];
    struct cli_answer *answer = g_new0(struct cli_answer, 1);

    answer->plan = plan;
    answer->result = mw_result_new();
    fill_identity(request, plan, answer->result);
    fill_memory(hw, plan, answer->result);
    fill_ledger(plan, answer->result);
    if (check_machine(request, plan, error) &&
        (!answer->result->feasible || fill_speed(request, answer, error)))
        return answer;
    cli_answer_free(answer);
    return NULL;
}

int
cli_plan_file(const struct cli_request *request)
{
    g_autoptr(GError) error = NULL;
    struct mw_plan *plan = read_plan(request->plan_file, &error);
    struct cli_answer *answer = plan ? cli_plan_answer(request, plan, &error) : NULL;

    if (!answer)
        return cli_fail(error);
    tell_machine(request, plan, answer->result);
    int status = cli_answers_print(request, &answer, 1, false);
    cli_answer_free(answer);
    return status;
}
