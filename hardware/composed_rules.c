/*
 * What follows from the parts of a composed machine: Sec. 13 of docs/MODEL.md.  Each figure that
 * the parts change gets its rule as its source; all others stay the base's.
 */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "hardware/composed.h"
#include "hardware/internal.h"

struct range {
    double at[MW_OUTLOOK_COUNT]; /* low, typical, high: rising */
};

#define GIB 1073741824.0
#define BY_OUTLOOK(o) for (int o = 0; o < MW_OUTLOOK_COUNT; o++)

/* --- figures of a profile -------------------------------------------------------------------- */

static struct mw_profile_value *
value_of(struct mw_profile *machine, const char *group, const char *key)
{
    return &machine->value[mw_profile_find_key(machine->kind, group, key)];
}

static bool
has(const struct mw_profile *machine, const char *group, const char *key)
{
    return mw_profile_value_of(machine, group, key)->given;
}

static struct range
range_of(const struct mw_profile *machine, const char *group, const char *key)
{
    const struct mw_profile_value *value = mw_profile_value_of(machine, group, key);
    struct range range;

    BY_OUTLOOK(o) range.at[o] = value->number[value->count == 3 ? o : 0];
    return range;
}

static double
figures(double number, int digits)
{
    g_autofree char *text = g_strdup_printf("%.*g", digits, number);

    return g_ascii_strtod(text, NULL);
}

G_GNUC_PRINTF(6, 7)
static void
set(struct mw_profile *machine, const char *group, const char *key, struct range range,
    enum mw_provenance provenance, const char *source, ...)
{
    struct mw_profile_value *value = value_of(machine, group, key);
    va_list arguments;

    mw_profile_value_clear(value);
    value->given = true;
    value->count = range.at[0] == range.at[2] ? 1 : 3;
    for (int i = 0; i < value->count; i++)
        value->number[i] = range.at[value->count == 1 ? 1 : i];
    value->provenance = provenance;
    va_start(arguments, source);
    value->source = g_strdup_vprintf(source, arguments);
    va_end(arguments);
}

static struct range
one(double number)
{
    return (struct range){{number, number, number}};
}

static struct range
rounded(struct range range)
{
    BY_OUTLOOK(o) range.at[o] = figures(range.at[o], 3);
    return range;
}

static struct range
times(struct range range, double factor)
{
    BY_OUTLOOK(o) range.at[o] *= factor;
    return range;
}

/* Keeps source and provenance: more of the same thing. */
static void
multiply(struct mw_profile *machine, const char *group, const char *key, double factor)
{
    if (!has(machine, group, key) || factor == 1)
        return;
    g_autofree char *was = g_strdup(mw_profile_value_of(machine, group, key)->source);
    struct range range = times(range_of(machine, group, key), factor);
    g_autofree char *shown = g_strdup_printf("%.3g", factor);

    BY_OUTLOOK(o) range.at[o] = figures(range.at[o], 6);
    set(machine, group, key, range, MW_PROVENANCE_DERIVED, "%s times: %s", shown,
        was ? was : "of the base");
}

/* --- GPUs ------------------------------------------------------------------------------------ */

/* NCCL's buffers take 0.1 GiB a rank, as in the profile dgx-h100. */
#define NCCL_GIB_PER_RANK 0.1

/* Of the 68 to 188 multiprocessors that GPUs have. */
static const struct range sm_share_host = {{0.02, 0.06, 0.2}};   /* 4, 8, 16 of NCCL's blocks */
static const struct range sm_share_nvlink = {{0.05, 0.12, 0.3}}; /* 8, 16, 32 */

static void
derive_gpus(struct mw_profile *machine, int gpus)
{
    double reserve = mw_profile_typical(machine, "gpu", "reserve_gib");
    bool nvlink = has(machine, "fabric", "gb_per_s");

    set(machine, "node", "gpus", one(gpus), MW_PROVENANCE_USER, "the machine's parts");
    set(machine, "gpu", "reserve_gib", one(figures(reserve + NCCL_GIB_PER_RANK * gpus, 4)),
        MW_PROVENANCE_ESTIMATE, "that of one GPU, and NCCL's buffers for %d ranks", gpus);
    mw_profile_value_clear(value_of(machine, "gpu", "largest_request_gib"));
    if (mw_profile_typical(machine, "gpu", "collective_sm_share") <= 0)
        set(machine, "gpu", "collective_sm_share", nvlink ? sm_share_nvlink : sm_share_host,
            MW_PROVENANCE_ESTIMATE, "NCCL on %s multiprocessors, of 80 to 190",
            nvlink ? "8, 16 and 32" : "4, 8 and 16");
}

/* --- PCIe ------------------------------------------------------------------------------------ */

/* A lane's GB/s, each direction: 8, 16 and 32 GT/s in 128 of 130 bits; PCIe 6 in flits of 256
 * bytes with 236 of packets. */
static const double lane_gb_per_s[] = {[3] = 0.9846, [4] = 1.969, [5] = 3.938, [6] = 7.375};

/* What copies reach of it: 24 to 26.2 of 31.5 GB/s, 50 to 55 of 63 (the profiles rtx4090, rtx5090).
 */
static const struct range pcie_share = {{0.76, 0.825, 0.85}};

static void
derive_slot(struct mw_profile *machine, const struct mw_machine_parts *parts, const char *key)
{
    struct range own = range_of(machine, "pcie", key);
    double raw = lane_gb_per_s[parts->pcie_generation] * parts->pcie_lanes;
    struct range slot = times(pcie_share, raw);

    /* A card in a wider or faster slot stays as fast as it is. */
    if (slot.at[MW_OUTLOOK_TYPICAL] >= 0.99 * own.at[MW_OUTLOOK_TYPICAL])
        return;
    BY_OUTLOOK(o) slot.at[o] = MIN(slot.at[o], own.at[o]);
    set(machine, "pcie", key, rounded(slot), MW_PROVENANCE_DERIVED,
        "PCIe %d.0 x%d, %.3g GB/s; 0.76, 0.825, 0.85 of it are practical (profiles rtx4090 and "
        "rtx5090)",
        parts->pcie_generation, parts->pcie_lanes, raw);
}

/* All GPUs at once.  Known lanes are each GPU's own; else two GPUs may share an uplink. */
static void
derive_node_pcie(struct mw_profile *machine, const struct mw_machine_parts *parts, const char *key,
                 const char *node_key)
{
    struct range each = range_of(machine, "pcie", key);
    struct range dram = range_of(machine, "host", "memory_gb_per_s");
    struct range all = times(each, parts->gpus);
    bool lanes = parts->pcie_lanes > 0;

    if (!lanes) {
        all.at[MW_OUTLOOK_LOW] = each.at[MW_OUTLOOK_LOW] * ((parts->gpus + 1) / 2);
        all.at[MW_OUTLOOK_TYPICAL] = sqrt(all.at[MW_OUTLOOK_LOW] * all.at[MW_OUTLOOK_HIGH]);
    }
    BY_OUTLOOK(o) all.at[o] = MIN(all.at[o], dram.at[o]);
    set(machine, "pcie", node_key, rounded(all),
        lanes ? MW_PROVENANCE_DERIVED : MW_PROVENANCE_ESTIMATE, "%d GPUs%s; no more than DRAM",
        parts->gpus,
        lanes ? ", each on lanes of its own"
              : ", two on an uplink to each its own; typical: geometric mean");
}

static void
derive_pcie(struct mw_profile *machine, const struct mw_machine_parts *parts, bool more)
{
    if (parts->pcie_lanes) {
        derive_slot(machine, parts, "h2d_gb_per_s");
        derive_slot(machine, parts, "d2h_gb_per_s");
    }
    if (!parts->pcie_lanes && !more)
        return;
    derive_node_pcie(machine, parts, "h2d_gb_per_s", "node_h2d_gb_per_s");
    derive_node_pcie(machine, parts, "d2h_gb_per_s", "node_d2h_gb_per_s");
}

/* --- fabric ---------------------------------------------------------------------------------- */

/* What a GPU of a ring reaches of its own PCIe rate where there is no NVLink: low through host
 * memory, high from GPU to GPU behind one switch.  All-gather and all-reduce of 64 MiB and more, of
 * rates/collectives.csv. */
static const struct fabric_row {
    int gpus; /* up to as many */
    struct range share;
    const char *source;
} fabric_rows[] = {
    {2,
     {{0.36, 0.62, 0.99}},
     "0.36 on Arc Pro B60, 0.62 on RTX PRO 6000 (ai-dynamo/aiconfigurator)"},
    {4,
     {{0.17, 0.45, 0.99}},
     "0.17 on Arc Pro B60 and 0.18 on L40S, 0.45 on RTX PRO 6000 (ai-dynamo/aiconfigurator), 0.67 "
     "on RTX 5090 (NVIDIA/nccl issue 1639)"},
    {1024,
     {{0.045, 0.44, 0.99}},
     "0.045 on L40S, 0.44 on RTX PRO 6000 (ai-dynamo/aiconfigurator), 0.54 on RTX 5090 "
     "(NVIDIA/nccl issue 1639)"},
};

static void
derive_fabric(struct mw_profile *machine, int gpus)
{
    const struct fabric_row *row = fabric_rows;
    double pcie = MIN(mw_profile_typical(machine, "pcie", "h2d_gb_per_s"),
                      mw_profile_typical(machine, "pcie", "d2h_gb_per_s"));

    if (has(machine, "fabric", "gb_per_s"))
        return;
    while (row->gpus < gpus)
        row++;
    set(machine, "fabric", "gb_per_s", rounded(times(row->share, pcie)), MW_PROVENANCE_ESTIMATE,
        "no NVLink: of %.3g GB/s of PCIe %s; high: 0.99 between RTX 4090 behind one switch "
        "(tinygrad/open-gpu-kernel-modules issue 36)",
        pcie, row->source);
    set(machine, "fabric", "latency_us", (struct range){{2, 2.9, 4}}, MW_PROVENANCE_ESTIMATE,
        "all-gather of 512 B on L40S, 2 and 2.9 a step (ai-dynamo/aiconfigurator)");
}

/* --- host ------------------------------------------------------------------------------------ */

static const struct range dram_share = {{0.70, 0.82, 0.85}}; /* microway.com; Micron */

/* Sockets of desktops have 24 lanes for cards (AMD AM5) and two channels; more lanes need that of a
 * server: 4 x DDR4-3200 to 12 x DDR5-4800, typically 8 x DDR4-3200, in practice.  64 lanes are as
 * many as every server socket has beside its drives and NICs. */
#define DESKTOP_LANES 24
#define SOCKET_LANES 64
static const struct range server_dram_gb_per_s = {{72, 168, 392}};

/* The host's own passes over memory go with its bandwidth. */
static void
set_dram(struct mw_profile *machine, struct range now, enum mw_provenance provenance,
         const char *source)
{
    static const char *const with[] = {"norm_gb_per_s", "update_gparams_per_s"};
    struct range was = range_of(machine, "host", "memory_gb_per_s");

    for (size_t i = 0; i < G_N_ELEMENTS(with); i++) {
        struct range range = range_of(machine, "host", with[i]);
        if (!has(machine, "host", with[i]))
            continue;
        BY_OUTLOOK(o) range.at[o] *= now.at[o] / was.at[o];
        set(machine, "host", with[i], rounded(range), MW_PROVENANCE_DERIVED,
            "that of the base, scaled by DRAM bandwidth");
    }
    set(machine, "host", "memory_gb_per_s", rounded(now), provenance, "%s", source);
}

static void
derive_dram(struct mw_profile *machine, const struct mw_machine_parts *parts)
{
    int lanes = parts->gpus * (parts->pcie_lanes ? parts->pcie_lanes : 16);
    struct range base = range_of(machine, "host", "memory_gb_per_s");
    double nominal = parts->dram_channels * parts->dram_mega_transfers_per_s * 8e-3;
    bool desktop = base.at[MW_OUTLOOK_TYPICAL] < server_dram_gb_per_s.at[MW_OUTLOOK_TYPICAL];

    if (parts->dram_channels) {
        g_autofree char *source = g_strdup_printf(
            "%d channels of %d MT/s, %.4g GB/s; 0.70, 0.82, 0.85 of it are practical "
            "(microway.com; Micron)",
            parts->dram_channels, parts->dram_mega_transfers_per_s, nominal);
        set_dram(machine, times(dram_share, nominal), MW_PROVENANCE_DERIVED, source);
        return;
    }
    if (lanes <= (desktop ? DESKTOP_LANES : SOCKET_LANES))
        return;
    struct range now = desktop ? server_dram_gb_per_s : base;
    if (lanes > SOCKET_LANES) {
        now.at[MW_OUTLOOK_TYPICAL] *= sqrt(2);
        now.at[MW_OUTLOOK_HIGH] *= 2;
    }
    g_autofree char *source = g_strdup_printf(
        "%d lanes: %s%s; dram=8xDDR5-4800 would say which", lanes,
        desktop ? "a server, from 4 x DDR4-3200 to 12 x DDR5-4800, typically 8 x DDR4-3200"
                : "as the base",
        lanes > SOCKET_LANES ? ", one socket to two, typical: geometric mean" : "");
    set_dram(machine, now, MW_PROVENANCE_ESTIMATE, source);
}

/* Runtime and data loader of a rank, as in the profile dgx-h100; of a small memory an eighth. */
#define RANK_GIB 6

static void
derive_ram(struct mw_profile *machine, const struct mw_machine_parts *parts, int gpus_more)
{
    double reserve = mw_profile_typical(machine, "host", "reserve_gib") + RANK_GIB * gpus_more;

    if (parts->ram_bytes) {
        set(machine, "host", "memory_gib", one((double)parts->ram_bytes / GIB), MW_PROVENANCE_USER,
            "the machine's parts");
        mw_profile_value_clear(value_of(machine, "host", "largest_request_gib"));
    }
    double most = mw_profile_typical(machine, "host", "memory_gib") / 8;
    if (gpus_more || (parts->ram_bytes && reserve > most))
        set(machine, "host", "reserve_gib", one(figures(MIN(reserve, most), 4)),
            MW_PROVENANCE_ESTIMATE,
            "that of the base, and 6 GiB a further rank; at most an eighth of the memory");
}

/* --- drives ---------------------------------------------------------------------------------- */

static bool
derive_drives(struct mw_profile *machine, const struct mw_machine_parts *parts, GError **error)
{
    double drives = mw_profile_typical(machine, "nvme", "drives");
    double capacity = mw_profile_typical(machine, "nvme", "capacity_tb");
    double now = parts->drives * (double)parts->drive_bytes / 1e12;

    if (parts->no_drives)
        set(machine, "nvme", "capacity_tb", one(0), MW_PROVENANCE_USER, "the machine's parts");
    if (!parts->drives)
        return true;
    if (!(drives >= 1) || !(capacity > 0))
        return mw_refuse(error, "part nvme: the profile has no drive whose rates it could take; "
                                "must be left out, and {key nvme.capacity_tb=4} and the other "
                                "keys of [nvme] set");
    multiply(machine, "nvme", "read_gb_per_s", parts->drives / drives);
    multiply(machine, "nvme", "write_gb_per_s", parts->drives / drives);
    multiply(machine, "nvme", "write_burst_gb_per_s", parts->drives / drives);
    multiply(machine, "nvme", "reserve_tb", now / capacity);
    multiply(machine, "nvme", "cache_gb", now / capacity);
    multiply(machine, "nvme", "endurance_tbw", now / capacity);
    multiply(machine, "nvme", "price_usd", now / capacity);
    double depth = mw_profile_typical(machine, "nvme", "queue_depth") * parts->drives / drives;
    set(machine, "nvme", "queue_depth", one(CLAMP(round(depth), 1, 65536)), MW_PROVENANCE_DERIVED,
        "as many a drive as the base has");
    set(machine, "nvme", "drives", one(parts->drives), MW_PROVENANCE_USER, "the machine's parts");
    set(machine, "nvme", "capacity_tb", one(figures(now, 6)), MW_PROVENANCE_USER,
        "the machine's parts");
    return true;
}

/* --- network and node ------------------------------------------------------------------------ */

static void
derive_network(struct mw_profile *machine, double gbit_per_s)
{
    static const struct range share = {{0.80, 0.90, 0.97}};

    if (!gbit_per_s)
        return;
    set(machine, "network", "gb_per_s", rounded(times(share, gbit_per_s / 8)),
        MW_PROVENANCE_DERIVED,
        "%.4g Gb/s; 0.90 usual (calculon), 0.97 measured on 3200 Gb/s (Perplexity), low 0.80",
        gbit_per_s);
    set(machine, "network", "latency_us", (struct range){{5, 11, 25}}, MW_PROVENANCE_ESTIMATE,
        "a step of NCCL's ring over InfiniBand to over TCP; typical: geometric mean");
    mw_profile_value_clear(value_of(machine, "node", "nodes_max"));
}

/* Prices are those of the base as it is, and so is what was measured of it. */
static void
forget(struct mw_profile *machine)
{
    static const char *const of_node[] = {"price_usd", "price_usd_per_hour",
                                          "spot_price_usd_per_hour"};
    static const char *const of_profile[] = {"calibrated", "machine",   "backend",
                                             "disturbed",  "rate_left", "instruction_set",
                                             "inherits"};

    for (size_t i = 0; i < G_N_ELEMENTS(of_node); i++)
        mw_profile_value_clear(value_of(machine, "node", of_node[i]));
    for (size_t i = 0; i < G_N_ELEMENTS(of_profile); i++)
        mw_profile_value_clear(value_of(machine, "profile", of_profile[i]));
}

static void
describe(struct mw_profile *machine, const struct mw_machine_parts *parts, const char *base)
{
    GString *text = g_string_new(NULL);
    double memory = mw_profile_typical(machine, "host", "memory_gib");
    double drives = mw_profile_typical(machine, "nvme", "drives");
    double capacity = mw_profile_typical(machine, "nvme", "capacity_tb");
    struct mw_profile_value *value = value_of(machine, "profile", "description");

    g_string_append_printf(text, "composed: %d x the GPU of %s, %.4g GiB of memory", parts->gpus,
                           base, memory);
    if (capacity > 0)
        g_string_append_printf(text, ", %.0f x %.4g TB", drives, capacity / drives);
    else
        g_string_append(text, ", no drives");
    if (parts->pcie_lanes)
        g_string_append_printf(text, ", PCIe %d.0 x%d", parts->pcie_generation, parts->pcie_lanes);
    mw_profile_value_clear(value);
    value->given = true;
    value->text = g_string_free(text, FALSE);
}

bool
mw_machine_derive(struct mw_profile *base, const struct mw_machine_parts *parts, GError **error)
{
    int more = parts->gpus - (int)mw_profile_typical(base, "node", "gpus");

    forget(base);
    if (!derive_drives(base, parts, error))
        return false;
    if (more) {
        derive_gpus(base, parts->gpus);
        multiply(base, "node", "power_w", parts->gpus);
    }
    derive_ram(base, parts, more);
    derive_dram(base, parts);
    derive_pcie(base, parts, more > 0);
    if (parts->gpus > 1)
        derive_fabric(base, parts->gpus);
    derive_network(base, parts->net_gbit_per_s);
    describe(base, parts, mw_profile_name(base));
    return true;
}
