/*
 * hwprofile.h - hardware profiles: one machine each, read from hwprofiles/NAME.ini.
 *
 * A profile is a GKeyFile.  Keys carry their unit in the name (`read_gb_per_s`, `memory_gib`).
 * A value is `typical` or a range `low; typical; high`, where low is the smaller number.
 * `KEY.source = KIND: where from` gives its provenance, KIND one of datasheet, published,
 * measured, derived, estimate, user.  `[profile] inherits = NAME` takes all keys of another
 * profile that are not given here; cycles are refused.  Folders, in this order: that of the file
 * that inherits, $XDG_CONFIG_HOME/memwall/hwprofiles, the data folders (base/datadir.h).
 *
 * mw_hwprofile is the file as read; mw_hardware is one flat reading of it, in SI units, that the
 * planner and the cost model use.  MW_OUTLOOK_LOW takes the value of each range that makes a step
 * slower (the small bandwidth, the large latency), MW_OUTLOOK_HIGH the one that makes it faster.
 * Capacities and reserves have no range.
 */
#ifndef MW_HARDWARE_HWPROFILE_H
#define MW_HARDWARE_HWPROFILE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum mw_outlook { MW_OUTLOOK_LOW, MW_OUTLOOK_TYPICAL, MW_OUTLOOK_HIGH, MW_OUTLOOK_COUNT };

enum mw_provenance {
    MW_PROVENANCE_ESTIMATE, /* worst first */
    MW_PROVENANCE_USER,
    MW_PROVENANCE_DERIVED,
    MW_PROVENANCE_DATASHEET,
    MW_PROVENANCE_PUBLISHED,
    MW_PROVENANCE_MEASURED,
    MW_PROVENANCE_COUNT
};

#define MW_MATMUL_POINTS_MAX 12

struct mw_hardware {
    /* [node] */
    int64_t gpus_per_node;
    int64_t nodes_max;              /* available nodes; 0: not stated */
    double price_usd_per_hour;      /* a node; 0: not stated */
    double price_usd;               /* to buy a node; 0: not stated */
    double amortisation_years;      /* over which a bought node is written off */
    double electricity_usd_per_kwh; /* 0: not stated */
    double power_w;                 /* a node under load; 0: not stated */

    /* [gpu], each */
    int64_t gpu_memory_bytes;
    int64_t gpu_reserve_bytes;         /* driver context, libraries, display */
    int64_t gpu_largest_request_bytes; /* fragmentation; default: memory less reserve */
    double gpu_memory_bytes_per_s;     /* achievable, not nominal */
    double gpu_operator_bytes_per_s;   /* what norms, activations and sums reach of it; 0: all */
    double gpu_peak_flops;             /* dense 16-bit, datasheet: the base of MFU */
    double gpu_fp32_flops;             /* products of fp32, no tensor cores; 0: not stated */
    double gpu_achievable_flops;       /* of whole layers without communication: the base of
                                          "efficiency" */
    int64_t matmul_points;             /* curve: rate over the size (m·n·k)^(1/3) of a product */
    double matmul_dim[MW_MATMUL_POINTS_MAX];
    double matmul_flops[MW_MATMUL_POINTS_MAX];
    int64_t attention_points; /* the same of attention, m·n·k = seq·seq·head; 0: as products */
    double attention_dim[MW_MATMUL_POINTS_MAX];
    double attention_flops[MW_MATMUL_POINTS_MAX];
    double gpu_launch_s;            /* per kernel, not hidden */
    double gpu_collective_sm_share; /* of the multiprocessors, taken by a running collective */
    double gpu_host_sm_share; /* by an update or a pass on the host: its cores are the device's */
    double gpu_copy_sm_share; /* by each copy between host and device */
    double gpu_nvme_sm_share; /* by each transfer to or from the drives */
    bool gpu_flash_attention; /* attention that never writes the score matrix */
    bool gpu_bf16;            /* else fp16 */

    /* [pcie] */
    double pcie_h2d_bytes_per_s, pcie_d2h_bytes_per_s;           /* one GPU alone */
    double pcie_node_h2d_bytes_per_s, pcie_node_d2h_bytes_per_s; /* all GPUs of a node at once */
    double pcie_latency_s;

    /* [host], a node */
    int64_t host_memory_bytes;
    int64_t host_reserve_bytes;
    int64_t host_largest_request_bytes;
    double host_memory_bytes_per_s;   /* achievable, reads and writes together */
    double host_checksum_bytes_per_s; /* of one core; 0: not given */
    double host_norm_bytes_per_s;     /* what the gradient norm reaches of it; 0: all */
    double host_update_params_per_s;  /* fused Adam, all cores of a node */

    /* [nvme], a node; capacity 0: no drives */
    int64_t nvme_drives;         /* alike; for what one more would gain (rates are of all) */
    int64_t nvme_capacity_bytes; /* usable, all drives */
    int64_t nvme_reserve_bytes;  /* file system, free space kept */
    double nvme_read_bytes_per_s;
    double nvme_write_bytes_per_s;       /* sustained */
    double nvme_write_burst_bytes_per_s; /* until the cache is full */
    int64_t nvme_cache_bytes;
    double nvme_duplex; /* 1: reads and writes share the drives' time; 2: independent */
    double nvme_latency_s;
    int64_t nvme_queue_depth;     /* requests in flight in one direction, all drives */
    int64_t nvme_block_bytes;     /* of a request; default 1 MiB */
    int64_t nvme_endurance_bytes; /* rated, all drives; 0: not stated */
    double nvme_price_usd;        /* to replace all drives; 0: not stated */

    /* [fabric], between the GPUs of a node; [network], between nodes */
    double fabric_bytes_per_s; /* one GPU, each direction, as a ring uses it */
    double fabric_latency_s;   /* a hop */
    double nic_bytes_per_s;    /* a node, each direction; 0: one node only */
    double nic_latency_s;
};

struct mw_hwprofile; /* opaque */

enum mw_hw_kind {
    MW_HW_REAL,  /* double */
    MW_HW_COUNT, /* int64_t, a whole number */
    MW_HW_BYTES, /* int64_t, from a number with a unit */
    MW_HW_FLAG,  /* bool: true or false */
    MW_HW_LIST,  /* double[MW_MATMUL_POINTS_MAX], separated by semicolons */
    MW_HW_TEXT,  /* of [profile]; not part of mw_hardware */
};

/* What a machine may have more of, or a rank only a share of: figures of that part go with it
 * (hardware/scale.h).  A new figure says here what it is of, and all that enlarges, shares or
 * varies a machine knows. */
enum mw_hw_part {
    MW_HW_PART_NONE,        /* a latency, a share, a link, a node as a whole */
    MW_HW_PART_GPU,         /* of one GPU: of a part of its memory and cores so much less */
    MW_HW_PART_HOST_MEMORY, /* of a node's memory modules */
    MW_HW_PART_DRIVES,      /* of all drives of a node, which are alike */
};

/* What what-if varies: the figures of one rate vary together. */
enum mw_hw_rate {
    MW_HW_RATE_NONE,
    MW_HW_RATE_GPU_MEMORY,
    MW_HW_RATE_PRODUCTS, /* matrix products and attention */
    MW_HW_RATE_PCIE,
    MW_HW_RATE_HOST, /* memory and cores */
    MW_HW_RATE_NVME, /* and the requests in flight that it takes */
    MW_HW_RATE_FABRIC,
    MW_HW_RATE_NETWORK,
    MW_HW_RATE_HOP, /* not a rate but the latency of a collective's hop */
};

/* A row of the key table: reading, checking, printing, `--set` and help all come from it. */
struct mw_hw_key {
    const char *group, *key; /* as in the file */
    const char *unit;        /* of the file, to print; "" for a bare number */
    const char *help;
    double scale;    /* file unit -> SI unit */
    double min, max; /* in the file's unit, inclusive */
    bool required;   /* in [nvme], [fabric], [network]: where the group is present */
    int better;      /* +1: larger is faster, -1: smaller is faster, 0: no range allowed */
    enum mw_hw_kind kind;
    size_t offset;        /* into struct mw_hardware */
    enum mw_hw_part part; /* of rows that share a field, one has part and rate */
    enum mw_hw_rate rate;
};
const struct mw_hw_key *mw_hw_keys(size_t *count);
const struct mw_hw_key *mw_hw_key(const char *group, const char *key); /* NULL: there is none */

/* `name_or_path`: a name under the profile folders, or a path ending in .ini.
 * Returns NULL with one line naming file, key, value and what would be accepted. */
struct mw_hwprofile *mw_hwprofile_load(const char *name_or_path, GError **error);
/* The file that such a name or path leads to; NULL: no profile has that name.  g_free it. */
char *mw_hwprofile_path(const char *name_or_path);
/* The profiles of these names (NULL-terminated) that load; each file is read once.  An array of
 * struct mw_hwprofile *, which it owns. */
GPtrArray *mw_hwprofile_load_all(char **names);
void mw_hwprofile_free(struct mw_hwprofile *profile); /* NULL is allowed */

struct mw_hwprofile *mw_hwprofile_copy(const struct mw_hwprofile *profile);

/* One profile from text, without looking up what it inherits (keys may then be missing).
 * `origin` is what messages call the text. */
struct mw_hwprofile *mw_hwprofile_parse(const char *text, size_t length, const char *origin,
                                        GError **error);

/* `--set SECTION.KEY=VALUE`, same syntax and checks as the file; provenance becomes "user".
 * Keys that depend on each other (a whole [nvme] group, the two lists of the matrix-product
 * curve) need several calls, so mw_hwprofile_check is to be called after the last one. */
bool mw_hwprofile_set(struct mw_hwprofile *profile, const char *assignment, GError **error);
/* Whether some profile could take the assignment: key, syntax and range. */
bool mw_hwprofile_set_check(const char *assignment, GError **error);

/* What was set, and what the profile has: "gpu.memory_gib 8 (24 in the profile), ..."; NULL:
 * nothing was.  g_free it. */
char *mw_hwprofile_set_text(const struct mw_hwprofile *profile);

/* "network.gb_per_s and network.latency_us": what a group must have; g_free it. */
char *mw_hwprofile_required(const char *group);

/* The assignment that makes a key's number at one outlook `factor` times what it is, without a
 * range, a count rounded up; NULL if it is not given or 0.  g_free it. */
char *mw_hwprofile_scaled(const struct mw_hwprofile *profile, const char *group, const char *key,
                          enum mw_outlook outlook, double factor);

/* Whether every required key is there and keys agree; mw_hwprofile_load checks that. */
bool mw_hwprofile_check(const struct mw_hwprofile *profile, GError **error);

const char *mw_hwprofile_name(const struct mw_hwprofile *profile);
const char *mw_hwprofile_description(const struct mw_hwprofile *profile);
const char *mw_hwprofile_machine(const struct mw_hwprofile *profile); /* NULL: not stated */
const char *mw_hwprofile_backend(const struct mw_hwprofile *profile); /* NULL: not stated */
/* "avx2": what its cores computed with; NULL: not stated. */
const char *mw_hwprofile_instruction_set(const struct mw_hwprofile *profile);
/* What disturbed its machine during the measurement; NULL: not stated. */
const char *mw_hwprofile_disturbed(const struct mw_hwprofile *profile);
/* The machine's last rate as a part of its first rate; 1: unchanged, or not stated. */
double mw_hwprofile_rate_left(const struct mw_hwprofile *profile);
bool mw_hwprofile_has_range(const struct mw_hwprofile *profile);
struct mw_hardware mw_hwprofile_read(const struct mw_hwprofile *profile, enum mw_outlook outlook);

/* Provenance of one key, or of the profile as a whole: the worst of the keys that carry time. */
enum mw_provenance mw_hwprofile_provenance(const struct mw_hwprofile *profile, const char *group,
                                           const char *key, const char **source);
/* The text of a key's value, a range included; NULL: it is not given, or there is no such key.
 * g_free it. */
char *mw_hwprofile_text(const struct mw_hwprofile *profile, const char *group, const char *key);
bool mw_hwprofile_gives(const struct mw_hwprofile *profile, const char *group, const char *key);
/* Whether mw_hwprofile_set gave the key its value. */
bool mw_hwprofile_is_set(const struct mw_hwprofile *profile, const char *group, const char *key);
enum mw_provenance mw_hwprofile_worst_provenance(const struct mw_hwprofile *profile);
/* Whether the whole profile was measured: `[profile] calibrated` says when, and every figure that
 * carries time is measured.  A profile that inherits or changes such a profile does not count. */
bool mw_hwprofile_calibrated(const struct mw_hwprofile *profile);
const char *mw_provenance_name(enum mw_provenance provenance);

/* All keys with value, range and provenance, as a profile that reads back to the same one. */
void mw_hwprofile_print(FILE *out, const struct mw_hwprofile *profile);

/* Names of all profiles found, sorted; free with g_strfreev. */
char **mw_hwprofile_list(void);

#endif
