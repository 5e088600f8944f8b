#include "cli/lane_limits.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/number.h"

static const int kinds[] = {MW_LANE_H2D, MW_LANE_D2H, MW_LANE_NVME_READ, MW_LANE_NVME_WRITE};

static bool
parse_rate(const char *text, double *bytes_per_s)
{
    double value;
    const char *unit = mw_number_scan(text, &value);
    double scale = !g_strcmp0(unit, "GB/s") ? 1e9 : !g_strcmp0(unit, "MB/s") ? 1e6 : 0;

    *bytes_per_s = value * scale;
    return unit && isfinite(*bytes_per_s) && *bytes_per_s >= 1e3;
}

static bool
parse(struct cli_limits *limits, const char *text, GError **error)
{
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        const char *name = mw_lane_kind_name(kinds[i]);
        size_t length = strlen(name);
        if (!strncmp(text, name, length) && text[length] == '=' &&
            parse_rate(text + length + 1, &limits->bytes_per_s[kinds[i]]))
            return true;
    }
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "--limit %s: must be LANE=RATE, a lane of h2d, d2h, nvme-read, nvme-write, a rate "
                "such as 0.5GB/s or 200MB/s",
                text);
    return false;
}

bool
cli_limits_parse(struct cli_limits *limits, char *const *texts, GError **error)
{
    memset(limits, 0, sizeof *limits);
    for (; texts && *texts; texts++)
        if (!parse(limits, *texts, error))
            return false;
    return true;
}

/* Returns the fraction of the rate that remains. */
static double
limit(double *bytes_per_s, double limit)
{
    double before = *bytes_per_s;

    if (limit <= 0 || limit >= before)
        return 1;
    *bytes_per_s = limit;
    return limit / before;
}

/* Limited reads and writes do not compete for the drive, and limited copies leave the cores to
 * others while they wait.  A node's rates are shared by all its ranks, each of which has such a
 * lane. */
void
cli_limits_apply(const struct cli_limits *limits, int ranks, struct mw_hardware *hw)
{
    const double *rates = limits->bytes_per_s;

    double h2d = limit(&hw->pcie_h2d_bytes_per_s, rates[MW_LANE_H2D]);
    double d2h = limit(&hw->pcie_d2h_bytes_per_s, rates[MW_LANE_D2H]);
    limit(&hw->pcie_node_h2d_bytes_per_s, ranks * rates[MW_LANE_H2D]);
    limit(&hw->pcie_node_d2h_bytes_per_s, ranks * rates[MW_LANE_D2H]);
    hw->gpu_copy_sm_share *= fmax(h2d, d2h);
    if (rates[MW_LANE_NVME_READ] > 0 || rates[MW_LANE_NVME_WRITE] > 0) {
        hw->nvme_duplex = 2;
        hw->nvme_mixed_read_bytes_per_s = hw->nvme_mixed_write_bytes_per_s = 0;
    }
    double reads = limit(&hw->nvme_read_bytes_per_s, ranks * rates[MW_LANE_NVME_READ]);
    double writes = limit(&hw->nvme_write_bytes_per_s, ranks * rates[MW_LANE_NVME_WRITE]);
    limit(&hw->nvme_write_burst_bytes_per_s, ranks * rates[MW_LANE_NVME_WRITE]);
    hw->gpu_nvme_sm_share *= fmax(reads, writes);
}
