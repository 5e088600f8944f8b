/* Whether this machine has the memory that a training takes. */
#include <math.h>

#include "base/format.h"
#include "cli/cli.h"
#include "cli/run/training.h"
#include "exec/host/machine.h"
#include "exec/memory/memory.h"

/* NULL, or a line with the numbers: `lacks` bytes of `need` are missing. */
static char *
lack_text(int64_t need, int64_t lacks, const char *where, const char *bound)
{
    if (lacks <= 0)
        return NULL;
    g_autofree char *wanted = g_strdup(mw_format_gib(need));
    g_autofree char *lacking = g_strdup(mw_format_gib(lacks));
    return g_strdup_printf("the plan needs %s of memory %s, %s more than there is: %s", wanted,
                           where, lacking, bound);
}

/* Rounded down to two decimals, so that it is no more than there is. */
static double
gib_below(double bytes)
{
    return floor(bytes / 0x1p30 * 100) / 100;
}

/* What to do about it, in words that follow the line with the numbers.  Proposes the plan's machine
 * with the memory that is here: `own_bytes` per device, if it has memory of its own. */
static char *
ways_out(const struct cli_training *run, int64_t host_bytes, int64_t own_bytes)
{
    const struct mw_hardware *hw = &run->request->question.hardware[MW_OUTLOOK_TYPICAL];
    const char *measured = mw_profile_word(run->request->question.profile, "machine");
    g_autofree char *here = mw_machine_name();
    bool other = g_strcmp0(measured, here) != 0;
    double host = (double)host_bytes, device = (double)own_bytes;

    if (!run->options.backend->apart) {
        host /= 2;
        device = host / mw_ranks_node_count(run->ranks);
    }
    return g_strdup_printf(
        "%s, or plan with what there is, and more on drives: --set gpu.memory_gib=%.10g --set "
        "host.memory_gib=%.10g",
        other ? "leave -H out, to plan for this machine" : "close what else uses memory",
        gib_below((double)hw->gpu_reserve_bytes + device),
        gib_below((double)hw->host_reserve_bytes + host));
}

/* Host memory is this machine's, shared by all its ranks; device memory is part of it, or the
 * device's own. */
static char *
find_lack(const struct cli_training *run)
{
    const int64_t *peaks = run->answer->plan->peak_bytes;
    const struct mw_backend *backend = run->options.backend;
    int64_t own = backend->apart ? peaks[MW_TIER_GPU] : 0;
    int64_t need =
        (peaks[MW_TIER_GPU] - own + peaks[MW_TIER_CPU]) * mw_ranks_node_count(run->ranks);
    struct mw_memory_available available;
    struct mw_backend_device device = {0};

    mw_memory_available_to_run(&available);
    g_autofree char *lack =
        lack_text(need, mw_memory_short_bytes(&available, need), "here", available.bound);
    /* A device that cannot be described is refused with its reason when it is opened. */
    bool described =
        own && mw_backend_describe_own(backend, mw_ranks_node_index(run->ranks), &device, NULL);
    if (!lack && described)
        lack = lack_text(own, own - device.memory_bytes, "on the device", device.name);
    if (!lack)
        return NULL;
    g_autofree char *ways = ways_out(run, available.bytes, described ? device.memory_bytes : own);
    return g_strdup_printf("%s; %s", lack, ways);
}

/* No rank reserves memory before all have checked. */
bool
cli_training_fits(const struct cli_training *run, bool *fits, GError **error)
{
    g_autofree char *lack = find_lack(run);
    int worst, first;

    if (!mw_ranks_worst(run->ranks, 0, lack != NULL, &worst, &first, error))
        return false;
    *fits = !worst;
    if (lack && mw_ranks_index(run->ranks) == first)
        cli_say("%s", lack);
    return true;
}
