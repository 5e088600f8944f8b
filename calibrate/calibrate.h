/*
 * calibrate.h - measures this machine with a backend: the figures of a hardware profile.
 *
 * It measures primitives, never a plan: products, operators, copies, updates and transfers as a run
 * does them, on the OpenMP team that a run has (omp_set_num_threads), in arenas and files like a
 * run's.  With the `cpu` backend "device" and "host" are the same cores and the same memory; what
 * that costs is measured by running one beside the other.  A device that queues ops is timed by its
 * own events, and its copies use pinned memory and lanes of their own.  Takes about a minute.
 *
 * Several ranks of one machine (mpirun) measure together: each is a device of the profile, shared
 * parts are measured with all ranks at once, and collectives are measured between them.
 */
#ifndef MW_CALIBRATE_CALIBRATE_H
#define MW_CALIBRATE_CALIBRATE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "exec/device/backend.h"
#include "exec/ranks/ranks.h"
#include "hardware/hwprofile.h"

/* --- figures --- */

/* Median, and the 10th and 90th percentiles: low is the smaller number. */
struct mw_measure {
    double low, typical, high;
    int samples;   /* 0: left out; the figure, if there is one, comes from its neighbours */
    int wished;    /* number of samples wished; 0: all there are */
    double waited; /* fraction of its time that the middle sample waited for cores; 0 to 1 */
};

/* Sorts the samples.  Percentiles are linear between neighbours.  Without samples all is zero. */
struct mw_measure mw_measure_of(double *samples, int count);
/* Widens the range where there are fewer samples than wished. */
void mw_measure_widen(struct mw_measure *measure, int wished);
/* Limits a figure to its possible range. */
void mw_measure_clamp(struct mw_measure *measure, double least, double most);
/* Gives points without samples the value between their nearest measured neighbours; `dims` is
 * rising. */
void mw_calibrate_interpolate(const double *dims, struct mw_measure *rates, int points);
/* Finds, among samples whose kinds take turns, the one that the others of its kind contradict most:
 * its relative distance from their median is over 3.5 deviations, estimated from the median of all
 * distances (the modified z-score of Iglewicz and Hoaglin, How to Detect and Handle Outliers,
 * 1993), and over 5%.  Skips samples that have been judged.  Returns -1 if there is none, or if
 * there are too few samples. */
int mw_calibrate_outlier(const double *samples, int count, int kinds, const bool *judged);
double mw_calibrate_kind_median(const double *samples, int count, int kinds, int kind);

/* Half the distance from low to high, divided by typical; 0 if typical is 0. */
double mw_measure_spread(const struct mw_measure *measure);

/* Fits y = intercept + slope * x by least squares of the relative error (y > 0); both are at least
 * 0. */
void mw_calibrate_line(const double *x, const double *y, int count, double *intercept,
                       double *slope);

/* Two works run side by side, at fractions `x` and `y` of their speeds alone; the first asks for
 * all cores.  Returns the fraction of the cores that the second asks for, if they are shared
 * max-min fairly (sim/engine_share.c): 1 for x + y = 1, where they take turns; 0 for x + y = 2. */
double mw_calibrate_share(double x, double y);

/* The first window from which a drive's write rate is steady: the median of `span` windows is
 * within 5% of that of the `span` before.  -1 if it is not steady yet. */
int mw_calibrate_steady_from(const double *rates, int count, int span);

/* --- the machine --- */

/* Rates are of all ranks together. */
struct mw_calibration_drives {
    int count;
    int64_t free_bytes;  /* free bytes on all their file systems */
    int64_t block_bytes; /* the chosen block size */
    int depth;           /* chosen: blocks in flight per drive, direction and rank */
    bool direct, ram;    /* true for all drives; true for any drive */
    struct mw_measure read_bytes_per_s, write_bytes_per_s, burst_bytes_per_s;
    struct mw_measure latency_s; /* latency of a single request */
    struct mw_measure duplex;
    /* Parts of their rates alone that reads and writes keep while both are busy, and these rates;
     * no samples where there was no time */
    struct mw_measure mixed_kept[2], mixed_read_bytes_per_s, mixed_write_bytes_per_s;
    bool sustained;                              /* the write rate is the sustained one, with the
                                                  * burst rate beside it */
    bool steady;                                 /* the rate became steady before the limit */
    int64_t written_bytes;                       /* bytes written to find the sustained rate */
    int64_t cache_bytes;                         /* written before it became steady */
    int settings, settings_tried;                /* number of pairs of block size and depth */
    int64_t file_bytes, region_bytes;            /* reads and writes go through the region */
    int64_t request_bytes, request_bytes_wished; /* the longest request that was timed */
};

/* Time that the hypervisor took; samples are counted in batches of 200 ms or more. */
struct mw_calibration_steal {
    bool told;                /* the system reports it */
    int samples, again, kept; /* all; taken again; kept although the hypervisor took time from
                               * them */
};

enum mw_calibration_collective {
    MW_CALIBRATION_ALL_GATHER,
    MW_CALIBRATION_REDUCE_SCATTER,
    MW_CALIBRATION_ALL_REDUCE,
    MW_CALIBRATION_BROADCAST,
    MW_CALIBRATION_COLLECTIVES
};
#define MW_CALIBRATION_MESSAGES_MAX 6

/* Kinds of memory-bound operators. */
enum mw_calibration_passes {
    MW_CALIBRATION_SUMS, /* residual additions and gradients of biases: stand for all others too */
    MW_CALIBRATION_LAYER_NORM,
    MW_CALIBRATION_RMS_NORM,
    MW_CALIBRATION_ACTIVATION, /* GELU */
    MW_CALIBRATION_GATED,      /* SwiGLU */
    MW_CALIBRATION_ROTARY,     /* of q and k */
    MW_CALIBRATION_PASSES
};
#define MW_CALIBRATION_HEAD_DIM 64 /* head size of the attention that is measured by length */
/* FLOPs of attention per pair of tokens and column (docs/MODEL.md 3.2). */
#define MW_CALIBRATION_FORWARD_FLOPS 4.0
#define MW_CALIBRATION_BACKWARD_FLOPS 10.0
/* The head sizes that are measured at one length, the first MW_CALIBRATION_HEAD_DIM. */
extern const int64_t mw_calibration_head_dims[MW_ATTENTION_HEADS];

/* The three products of a linear layer: result, gradient of the input, gradient of the weights. */
#define MW_CALIBRATION_DIRECTIONS MW_PRODUCT_OF_COUNT

/* Disturbances by other programs, and figures that contradict the others. */
struct mw_calibration_disturbances {
    int samples, waited;        /* samples of works alone; those kept although threads waited for
                                 * cores */
    int samples_again;          /* taken again because others of their measure contradict them */
    int sizes_again, sizes_out; /* the same for sizes of a curve, and sizes left out because of
                                 * it */
};

/* Ratio of the speed at the end to that at the begin; 1: their ranges overlap; 0: there was no time
 * to measure it. */
struct mw_calibration_drift {
    double products, updates;
};
bool mw_calibrate_has_drifted(double speed);

struct mw_calibration {
    const char *backend;
    enum mw_dtype dtype; /* the type in which it computed */
    bool apart;          /* its devices have memory of their own */
    /* For devices with memory of their own; rank 0's: */
    char device[256];
    const char *direct_storage;               /* in words; NULL: there is none */
    int64_t device_bytes, device_taken_bytes; /* its memory, and the part that is used by other
                                               * things than slots */
    int ranks;
    int cores;            /* cores of a rank's team */
    double cores_had;     /* fraction of the cores that products had; below 1: others are busy */
    int64_t memory_bytes; /* host memory for a run; includes devices that have no memory of their
                           * own */
    int points;
    double dim[MW_MATMUL_POINTS_MAX]; /* cube root of m * n * k */
    struct mw_measure matmul_flops[MW_MATMUL_POINTS_MAX];
    bool matmul_contradicts[MW_MATMUL_POINTS_MAX]; /* left out because other sizes contradict it */
    /* The same by direction (enum mw_product_of).  Of a point that was left out it comes from its
     * neighbours, like its rate. */
    struct mw_measure direction_flops[MW_CALIBRATION_DIRECTIONS][MW_MATMUL_POINTS_MAX];
    double peak_flops; /* all cores, estimated from one thread; 0: no team waited for cores */
    struct mw_measure fp32_share; /* fraction of the rate in 16 bits that products in fp32 reach;
                                   * all 0: the backend has no fp32 */
    int attention_points;
    int64_t attention_tokens; /* tokens per piece, at least: several short sequences */
    double attention_dim[MW_MATMUL_POINTS_MAX];              /* cube root of seq * seq * head_dim */
    struct mw_measure attention_flops[MW_MATMUL_POINTS_MAX]; /* with all FLOPs counted */
    bool attention_contradicts[MW_MATMUL_POINTS_MAX];
    /* By head size, at one length; without samples: there was no time or no room. */
    struct mw_measure heads_forward_flops[MW_ATTENTION_HEADS],
        heads_backward_flops[MW_ATTENTION_HEADS];
    int64_t heads_tokens, heads_seq, heads_count; /* of a piece, of a sequence, and its heads */
    struct mw_measure layer_flops;     /* a GPT-2 layer, forward and backward, with all of attention
                                        * counted */
    int64_t layer_rows, layer_columns; /* its tokens and hidden size */
    int64_t layer_rows_wished, layer_columns_wished; /* the size if there were time */
    struct mw_measure device_bytes_per_s;            /* an update, by the planner's bytes; */
    struct mw_measure loss_bytes_per_s; /* the loss, by those of one that keeps fp32 logits */
    struct mw_measure pass_bytes_per_s[MW_CALIBRATION_PASSES]; /* by the planner's bytes */
    struct mw_measure launch_s;
    struct mw_measure h2d_bytes_per_s, d2h_bytes_per_s, copy_latency_s; /* by one thread */
    struct mw_measure node_h2d_bytes_per_s, node_d2h_bytes_per_s;       /* with all ranks at once */
    struct mw_measure update_params_per_s;                              /* with all ranks at once */
    struct mw_measure host_bytes_per_s;  /* with all ranks at once; the fastest of update,
                                         * accumulation and norm */
    struct mw_measure norm_bytes_per_s;  /* with all ranks at once, over gradients */
    struct mw_measure exact_bytes_per_s; /* exact sums over gradients, likewise */
    struct mw_measure copy_duplex;       /* of devices that are apart, both ways at once; 1 to 2 */
    struct mw_measure host_share, copy_share, nvme_share;   /* share of the cores, beside
                                                             * products */
    struct mw_measure fabric_bytes_per_s, fabric_latency_s; /* between several ranks, MODEL.md
                                                             * 7.5 */
    struct mw_measure collective_share;
    /* For several devices with memory of their own: bytes per second that a rank passes on, by the
     * bytes of all ranks' shards. */
    int messages;
    int64_t message_bytes[MW_CALIBRATION_MESSAGES_MAX];
    struct mw_measure collective_bytes_per_s[MW_CALIBRATION_COLLECTIVES]
                                            [MW_CALIBRATION_MESSAGES_MAX];
    bool collective_contradicts[MW_CALIBRATION_COLLECTIVES][MW_CALIBRATION_MESSAGES_MAX];
    char collectives_by[128];                /* name of the library; "": the ranks' own
                                              * collectives */
    int64_t arena_bytes, arena_bytes_wished; /* operands move through it */
    double budget_s, took_s;                 /* without the writes of --sustained */
    double opened_s;                         /* part of that time that making memory and the drives'
                                              * file took */
    struct mw_calibration_steal steal;
    struct mw_calibration_disturbances disturbances;
    struct mw_calibration_drift drift;
    struct mw_calibration_drives drives;
};

struct mw_calibration_options {
    const struct mw_backend *backend; /* a backend that computes */
    enum mw_dtype dtype;              /* the type to compute in: MW_DTYPE_BF16 or MW_DTYPE_FP16 */
    const char *const *directories;   /* one per drive; they exist */
    int directory_count;
    bool sustained;
    int64_t sustained_limit_bytes;           /* the most bytes that may be written; 0: 64 GiB */
    bool quick;                              /* tiny and noisy: for tests */
    double budget_s;                         /* 0: 60; the writes of `sustained` come on top */
    const struct mw_nvme_calls *drive_calls; /* NULL: those of the system */
    struct mw_ranks *ranks; /* with one lane, on one machine; NULL: one rank alone */
    /* Called with the current measurement and the seconds left; returning false stops.  May be
     * NULL. */
    bool (*progress)(void *data, const char *what, double left_s);
    /* A line for the user. */
    void (*notice)(void *data, const char *line);
    void *data;
};

#define MW_CALIBRATION_BUDGET_S 60.0
/* If products have a smaller fraction of the cores than this, other programs are running. */
#define MW_CALIBRATION_QUIET 0.9

/* Returns false with *error if a directory cannot be written or is too small, memory is short,
 * progress() stopped it, or a device is missing or fails. */
bool mw_calibrate(const struct mw_calibration_options *options, struct mw_calibration *out,
                  GError **error);

/* What products of one direction reach of the rate of all three at that point; 0: not known. */
double mw_calibration_direction_share(const struct mw_calibration *measured, enum mw_product_of of,
                                      int point);
/* What a direction of attention with heads of that size (mw_calibration_head_dims) reaches of what
 * heads of the first size do twice forward and backward; 0: not known. */
double mw_calibration_heads_share(const struct mw_calibration *measured, bool backward, int head);

#endif
