/* internal.h - shared within calibrate/ only. */
#ifndef MW_CALIBRATE_INTERNAL_H
#define MW_CALIBRATE_INTERNAL_H

#include "calibrate/calibrate.h"
#include "exec/device/backend.h"
#include "exec/device/cpu/kernels.h"
#include "exec/host/steal.h"
#include "exec/memory/memory.h"
#include "exec/nvme/nvme.h"

enum { MW_CALIBRATE_SAMPLES_MAX = 128, MW_CALIBRATE_VALUES_MAX = 2 };

/* What is measured, in the order of calibrate/budget.c's table: each has a share of the time that
 * is left when it begins. */
enum mw_calibrate_part {
    MW_CALIBRATE_WARM,
    MW_CALIBRATE_PRODUCTS,
    MW_CALIBRATE_PRODUCTS_AGAIN,
    MW_CALIBRATE_OPERATORS,
    MW_CALIBRATE_UPDATE,
    MW_CALIBRATE_LAYER,
    MW_CALIBRATE_ATTENTION,
    MW_CALIBRATE_ATTENTION_AGAIN,
    MW_CALIBRATE_COPIES_IN,
    MW_CALIBRATE_COPIES_BACK,
    MW_CALIBRATE_COPIES_BOTH,
    MW_CALIBRATE_FILE,
    MW_CALIBRATE_BLOCKS,
    MW_CALIBRATE_READS,
    MW_CALIBRATE_WRITES,
    MW_CALIBRATE_READS_AND_WRITES,
    MW_CALIBRATE_BESIDE_UPDATES,
    MW_CALIBRATE_BESIDE_COPIES,
    MW_CALIBRATE_BESIDE_TRANSFERS,
    MW_CALIBRATE_SMALL_REQUESTS,
    MW_CALIBRATE_COLLECTIVES,
    MW_CALIBRATE_BESIDE_COLLECTIVES,
    MW_CALIBRATE_COLLECTIVE_KINDS,
    MW_CALIBRATE_COLLECTIVE_KINDS_AGAIN,
    MW_CALIBRATE_DRIFT,
    MW_CALIBRATE_PARTS
};

/* How much is done at once: more on a device that it takes more to keep busy. */
struct mw_calibrate_scale {
    int64_t arena_bytes;  /* of the device: operands move through it */
    const int64_t *sizes; /* of products */
    int product_points;
    int64_t beside;             /* size of the products beside other works */
    double product_s, launch_s; /* a sample's: of products, of small kernels */
    double warm_s;              /* of products, before anything is measured */
    int64_t rows, columns;      /* of memory-bound operators */
    int64_t loss_rows, loss_stride;
    int64_t layer_rows, layer_seq, layer_columns;
    int64_t attention_tokens, attention_columns; /* tokens: at least one sequence */
    const int64_t *seqs;
    int seq_points;
    int64_t device_params;         /* of an update on the device; 0: the host's is the device's */
    int64_t params, params_beside; /* of one on the host, and beside products */
    int64_t copy_bytes;
    int handoffs;            /* of a sample */
    const int64_t *messages; /* of collectives between devices, rising: all ranks' shards */
    int message_points;
};

/* Of a device that is apart, or of cores. */
const struct mw_calibrate_scale *mw_calibrate_scale(bool apart, bool quick);

/* So much of what is wished, by halves, as there is time for at this rate. */
int64_t mw_calibrate_arena_bytes(int64_t wished_bytes, double s_per_byte, double room_s);

/* Lanes of a device that queues ops. */
enum mw_calibrate_lane {
    MW_CALIBRATE_COMPUTE,
    MW_CALIBRATE_H2D,
    MW_CALIBRATE_D2H,
    MW_CALIBRATE_COLLECTIVE
};

struct mw_calibrator {
    const struct mw_calibration_options *options;
    const struct mw_backend *backend;
    void *handle;                        /* of the backend */
    void *on;                            /* what its kernels run on */
    const struct mw_kernels *kernels;    /* of the device */
    const struct mw_cpu_kernels *passes; /* of the host's lanes */
    const struct mw_calibrate_scale *scale;
    struct mw_calibrate_scale own_scale; /* where memory was too slow to get for the table's */
    struct mw_arena memory;              /* of the host, pinned where the device wants it so */
    struct mw_arena device, host; /* where operands are; the first's addresses are the device's */
    struct {
        char *device, *host;
    } ends[2];            /* of copies: to the device, to the host */
    int32_t *targets;     /* of the loss, on the device */
    double *loss;         /* in pinned memory */
    void *peers;          /* of the backend's collectives; NULL: none were needed yet */
    int rounds;           /* samples wished of a figure */
    int cores;            /* of a team */
    double window_s;      /* of a sample of works side by side, in this part */
    double window_wish_s; /* where there is time for it */
    double patience_s;    /* left in this step for samples taken again */
    int64_t beside;       /* size of the products beside other works: less where they are slow */
    int64_t move_bytes;   /* of a transfer beside other works, likewise */
    int64_t region_bytes; /* of the drives' file: it has been written */
    struct {
        double end_s;    /* when all must be done, by this rank's clock */
        double until_s;  /* when this part must be */
        int measures;    /* that this part still has */
        double sample_s; /* the longest sample of the last measure */
        bool begun[MW_CALIBRATE_PARTS];
    } budget;
    struct mw_calibration_steal steal;
    struct mw_calibration_disturbances disturbances;
    /* Of the last sample: part of its time that threads waited for cores that others had, the part
     * of the cores that was left to them, and the rate that its work has with all, at least. */
    double waited, left, undisturbed;
    double fastest;    /* rate of samples since this was 0 */
    pid_t *team;       /* its threads, once others had cores, where each can have one; NULL */
    double cores_left; /* the part of the cores that it had when last seen */
    double peak_flops; /* of all cores, by what one thread does; 0: no team has waited */
    struct mw_nvme *nvme;
    uint32_t *sums; /* of its pages: what it moves is checked, as a run's is */
    bool has_files; /* to be removed */
    GMutex mutex;   /* of the error */
    GError *error;  /* the first that a work met; what is measured from then on is worth nothing */
};

double mw_calibrate_now_s(void);
/* For tests; NULL: the system's. */
void mw_calibrate_set_clock(double (*now_s)(void));
/* Seconds that threads which could run have waited for a core so far. */
double mw_calibrate_waited_s(void);
void mw_calibrate_set_waited(double (*seconds)(void));

/* Gives the calling thread's teams their size, and the thread the device. */
void mw_calibrate_enter(const struct mw_calibrator *c);

/* Keeps the first error of works, and takes each: the next step says it. */
void mw_calibrate_fail(struct mw_calibrator *c, GError *error);
bool mw_calibrate_failed(struct mw_calibrator *c);
/* False with *error where one has failed.  While no work goes on. */
bool mw_calibrate_good(struct mw_calibrator *c, GError **error);

/* Tells what comes next, and waits for the other ranks; false with *error where a work has failed
 * or the caller stops. */
bool mw_calibrate_step(struct mw_calibrator *c, const char *what, GError **error);

/* --- the budget --- */

void mw_calibrate_budget_open(struct mw_calibrator *c, double seconds);
/* A part's first step: gives it its time, to be shared by so many measures. */
bool mw_calibrate_begin(struct mw_calibrator *c, enum mw_calibrate_part part, const char *what,
                        int measures, GError **error);
/* Seconds that the next measure of this part has; at least 0. */
double mw_calibrate_share_s(const struct mw_calibrator *c);
/* Whether what takes so long, and can be left out, ends in the budget; where not, the part is over
 * and its time the others'. */
bool mw_calibrate_has_time(struct mw_calibrator *c, enum mw_calibrate_part part, double needs_s,
                           bool *yes, GError **error);
/* A figure that was left out: of this range, and named. */
struct mw_measure mw_calibrate_left_out(const struct mw_calibrator *c, double low, double typical,
                                        double high);
/* The value becomes rank 0's on all: they decide alike. */
bool mw_calibrate_agree(struct mw_calibrator *c, double *value, GError **error);
/* The value becomes the least of all ranks'. */
bool mw_calibrate_least(struct mw_calibrator *c, double *value, GError **error);

/* A sample that was measured before the others are: its time, and what was stolen from it, are the
 * first batch's. */
struct mw_calibrate_first {
    double began_s, took_s;
    struct mw_steal stolen; /* as it was when the sample began */
};

/* Samples of one measure: as many as are wished and the measure's share of time has room for, at
 * least `least`.  They are judged in batches of 200 ms or more, for steal is counted in ticks: one
 * that the hypervisor took time from is taken again.  So are, one by one, samples that the others
 * contradict (mw_calibrate_outlier), a quarter of them at most.  The range widens by what the
 * hypervisor took of a batch that was kept, and by what a sample of the middle waited for cores. */
struct mw_calibrate_samples {
    /* The `number`th into values[]; false with *error stops. */
    bool (*take)(void *state, int number, double *values, GError **error);
    void *state;
    int values;        /* of a sample, a measure each; at most MW_CALIBRATE_VALUES_MAX */
    int wished, least; /* 0: c->rounds; 1 */
    int kinds;         /* that samples are of in turn; 0: one */
    bool together;     /* ranks meet in each: all take as many */
    bool rates;        /* values are of mw_calibrate_quiet_rate */
    /* The first, where it was measured before; NULL: not.  take() is asked for it, too. */
    const struct mw_calibrate_first *first;
};
bool mw_calibrate_take_samples(struct mw_calibrator *c, const struct mw_calibrate_samples *samples,
                               struct mw_measure *measures, GError **error);

/* A rate at each of several sizes: every second one first, then those between, as far as the part's
 * time goes; where the first waited for cores, the largest before smaller ones, which tell least.
 * Sizes whose least sample would take more than half of what is left are left out. Those that
 * others contradict are measured again (calibrate/curve.c), in a part of their own. */
struct mw_calibrate_curve {
    int points;
    const double *dims;
    double (*units)(const void *state, int point); /* of the least sample, warming up included */
    bool (*measure)(void *state, int point, struct mw_measure *rate, GError **error);
    void *state;
    bool flops; /* are the units */
    const char *what;
    enum mw_calibrate_part again;
    bool *contradicts; /* set of points that are left out for it */
};
/* What the other sizes say that a point's rate is at least; 0: nothing. */
double mw_calibrate_least_rate(const struct mw_calibrate_curve *curve,
                               const struct mw_measure *rates, int point);
bool mw_calibrate_take_curve(struct mw_calibrator *c, const struct mw_calibrate_curve *curve,
                             struct mw_measure *rates, GError **error);
/* The two halves of it, for several curves that share a part: so many points are to be measured
 * behind these; then each is held to itself.  The caller closes the part `again`. */
bool mw_calibrate_take_points(struct mw_calibrator *c, const struct mw_calibrate_curve *curve,
                              struct mw_measure *rates, int behind, GError **error);
/* Seconds of so many units, by the measured points: what the least work took to start, and the
 * units at the fastest rate that was seen; 0: none was measured.  A small work that waits for cores
 * says nothing of a large one's rate. */
struct mw_calibrate_pace {
    double start_s, rate;
};
/* Points in rising order; by the slow end of the range, for others may have the cores again. */
void mw_calibrate_pace_add(struct mw_calibrate_pace *pace, double units,
                           const struct mw_measure *rate);
/* Of FLOPs: the rate is at least half of what one thread tells of all, on the cores that it had. */
void mw_calibrate_pace_of_cores(struct mw_calibrate_pace *pace, const struct mw_calibrator *c);
double mw_calibrate_pace_s(const struct mw_calibrate_pace *pace, double units);
/* Whether a work of so many units is short enough for so many seconds.  What the start alone takes
 * of them a smaller one takes too: then half of them are the units'. */
bool mw_calibrate_pace_fits(const struct mw_calibrate_pace *pace, double units, double seconds);
bool mw_calibrate_measure_curve(struct mw_calibrator *c, const struct mw_calibrate_curve *curve,
                                struct mw_measure *rates, GError **error);
/* Of all figures, at the end: sizes that were not measured, and a layer smaller than wished, are at
 * least as fast as what they cost to start and the fastest measured work tell.  A size with under
 * half of a smaller one's rate is left out. */
void mw_calibrate_bound(struct mw_calibration *measured);
/* Of products, in FLOPs, by those measured so far. */
struct mw_calibrate_pace mw_calibrate_products_pace(const struct mw_calibrator *c,
                                                    const struct mw_calibration *out);

/* Sizes that there is time for, by the pace of products: of products beside other works, c->beside;
 * of the layer, in *out. */
bool mw_calibrate_choose_beside(struct mw_calibrator *c, const struct mw_calibration *out,
                                GError **error);
bool mw_calibrate_choose_layer(struct mw_calibrator *c, struct mw_calibration *out, int64_t *seq,
                               GError **error);

/* A part of an arena, on a 64-byte border; *at moves on, back to the start where there is no room.
 */
void *mw_calibrate_take(const struct mw_arena *arena, int64_t *at, int64_t bytes);

/* Units of work: `run` does a piece and returns its units. */
struct mw_calibrate_work {
    double (*run)(void *state);
    void *state;
    struct mw_calibrator *of; /* whose device does it; NULL: the host */
    enum mw_calibrate_lane lane;
};

/* Units a second, repeated for at least `seconds`.  Where the device queues ops `run` only queues a
 * piece; enough of them are, and the time is the device's own. */
double mw_calibrate_rate(const struct mw_calibrate_work *work, double seconds);
/* A piece: what is needed once is there then. */
void mw_calibrate_once(const struct mw_calibrate_work *work);

/* --- works of a device with queues --- */
bool mw_calibrate_queues(const struct mw_calibrate_work *work);
double mw_calibrate_queued_rate(const struct mw_calibrate_work *work, double seconds);
void mw_calibrate_queued_once(const struct mw_calibrate_work *work);
/* Seconds of so many pieces, behind one more in which the ranks meet: what ranks do together they
 * do equally often. */
double mw_calibrate_counted_s(const struct mw_calibrate_work *work, int pieces);
/* Seconds from a copy of next to nothing to the next, in the other direction's lane, which waits
 * for it. */
double mw_calibrate_chain_s(struct mw_calibrator *c, int count);

/* The same where nothing is queued; and the rate of the fastest piece. */
double mw_calibrate_rate_of_pieces(const struct mw_calibrate_work *work, double seconds,
                                   double *fastest);

/* Of a sample's time, its threads together: one that waited more for cores is disturbed. */
#define MW_CALIBRATE_WAITED 0.05
/* Of the cores, that threads had on average: where they had less, others have them. */
#define MW_CALIBRATE_LEFT 0.9
/* Alone on the machine.  A sample in which a thread waited for a core that others had is
 * taken again, as long as patience_s lasts; the least disturbed one counts. */
double mw_calibrate_quiet_rate(struct mw_calibrator *c, const struct mw_calibrate_work *work,
                               double seconds);
/* Samples of it. */
struct mw_measure mw_calibrate_measure(struct mw_calibrator *c,
                                       const struct mw_calibrate_work *work, double seconds);
/* Seconds of processor time of all threads. */
double mw_calibrate_used_s(void);
/* A thread beside this one, to be joined; NULL where there is none: a work has failed. */
GThread *mw_calibrate_thread(struct mw_calibrator *c, GThreadFunc run, void *data);
/* Two works at once, each in a thread of its own. */
void mw_calibrate_rates(struct mw_calibrator *c, const struct mw_calibrate_work works[2],
                        double seconds, double rates[2]);

/* What two works keep of their speeds alone, side by side, added up: 1 to 2. */
struct mw_calibrate_pair {
    struct mw_calibrator *c;
    struct mw_calibrate_work works[2];
};
bool mw_calibrate_duplex(struct mw_calibrate_pair *pair, struct mw_measure *duplex, GError **error);

/* The share of the compute that a work takes beside products, both at the parts `x` (of products)
 * and `y` of their speeds alone. */
double mw_calibrate_felt(const struct mw_calibrator *c, double x, double y);

/* A product on the device, queued where it queues. */
void mw_calibrate_multiply(struct mw_calibrator *c, const struct mw_product *product, void *to,
                           const uint16_t *a, const uint16_t *b, const uint16_t *bias);

/* Products of the size of a small layer's, to run beside other things; a product a call. */
struct mw_calibrate_products {
    struct mw_calibrator *c;
    int64_t at;
};
double mw_calibrate_run_product(void *products);
struct mw_calibrate_work mw_calibrate_products_work(struct mw_calibrate_products *products);

/* Copies between host and device, in one direction. */
struct mw_calibrate_copies {
    struct mw_calibrator *c;
    bool to_host;
};
struct mw_calibrate_work mw_calibrate_copies_work(struct mw_calibrate_copies *copies); /* bytes */

/* Requests of `bytes`, one after the other, round and round in the half of the file that is the
 * direction's.  An error is kept, and no more is moved. */
struct mw_calibrate_mover {
    struct mw_calibrator *c;
    enum mw_nvme_direction direction;
    int64_t bytes, at;
    GError *error;
};
double mw_calibrate_move(void *mover); /* bytes; a struct mw_calibrate_mover */

/* Names the files on the drives, with the rank's number behind it. */
#define MW_CALIBRATE_STEM "memwall-calibrate-"
/* Removes such files of this user's that no process is at. */
void mw_calibrate_remove_left(const char *directory);

/* Sets c->move_bytes, of which a window has some at this rate. */
void mw_calibrate_choose_move(struct mw_calibrator *c, double bytes_per_s);
bool mw_calibrate_transfers(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
bool mw_calibrate_sustained(struct mw_calibrator *c, struct mw_calibration *out, GError **error);

/* --- several ranks --- */

int mw_calibrate_ranks(const struct mw_calibrator *c);
int mw_calibrate_rank(const struct mw_calibrator *c);
/* data[i] = the sum over all ranks. */
bool mw_calibrate_sum(struct mw_calibrator *c, double *data, int count, GError **error);
bool mw_calibrate_collectives(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
/* The same between devices that are apart. */
bool mw_calibrate_fabric(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
/* Every rank's figures into those of the machine. */
bool mw_calibrate_unite(struct mw_calibrator *c, struct mw_calibration *out, GError **error);

/* The parts, each in its own file. */
bool mw_calibrate_open_device(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
/* What the device's memory holds beside the arena, when all else has run. */
bool mw_calibrate_memory_beside(struct mw_calibrator *c, struct mw_calibration *out,
                                GError **error);
void mw_calibrate_close_device(struct mw_calibrator *c);
bool mw_calibrate_matmul(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
bool mw_calibrate_layer(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
bool mw_calibrate_attention(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
bool mw_calibrate_memory(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
bool mw_calibrate_copies(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
bool mw_calibrate_open_drives(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
void mw_calibrate_close_drives(struct mw_calibrator *c);
bool mw_calibrate_drives(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
bool mw_calibrate_shares(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
/* Whether the machine is as fast as it was: the first works again.  Last. */
bool mw_calibrate_drift(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
/* Products of one of the sizes, as they were measured first; likewise the host's update. */
bool mw_calibrate_products_again(struct mw_calibrator *c, struct mw_calibration *out, int point,
                                 struct mw_measure *flops, GError **error);
struct mw_measure mw_calibrate_update_again(struct mw_calibrator *c);
/* Seconds that a kernel with next to nothing to do takes: of its least disturbed samples. */
struct mw_measure mw_calibrate_launch(struct mw_calibrator *c);
/* Seconds of all shapes of a size, at the rate that was measured; 0: it was not. */
double mw_calibrate_products_s(const struct mw_calibration *out, int point);

/* Memory-bound operators of one layer over `rows` tokens of `columns`, forward twice (recompute)
 * and backward; returns their bytes as the planner counts them. */
double mw_calibrate_layer_passes(struct mw_calibrator *c, int64_t rows, int64_t columns);
double mw_calibrate_layer_bytes(int64_t rows, int64_t columns);

/* Of a device that is apart: rates without what the planner counts beside them, when all is
 * measured. */
void mw_calibrate_net(const struct mw_calibrator *c, struct mw_calibration *out);

#endif
