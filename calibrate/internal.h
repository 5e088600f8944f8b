/* internal.h - shared within calibrate/ only. */
#ifndef MW_CALIBRATE_INTERNAL_H
#define MW_CALIBRATE_INTERNAL_H

#include "calibrate/calibrate.h"
#include "exec/device/backend.h"
#include "exec/device/cpu/kernels.h"
#include "exec/host/steal.h"
#include "exec/memory/memory.h"
#include "exec/nvme/nvme.h"

enum { MW_CALIBRATE_SAMPLES_MAX = 128, MW_CALIBRATE_VALUES_MAX = 6 };

/* The parts of a calibration, in the order of calibrate/budget.c's table: each gets a share of the
 * time that is left when it begins. */
enum mw_calibrate_part {
    MW_CALIBRATE_WARM,
    MW_CALIBRATE_PRODUCTS,
    MW_CALIBRATE_PRODUCTS_AGAIN,
    MW_CALIBRATE_PRODUCTS_FP32,
    MW_CALIBRATE_OPERATORS,
    MW_CALIBRATE_UPDATE,
    MW_CALIBRATE_LAYER,
    MW_CALIBRATE_ATTENTION,
    MW_CALIBRATE_ATTENTION_AGAIN,
    MW_CALIBRATE_HEADS,
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

/* Sizes of what is measured: larger for a device that needs more work to be busy. */
struct mw_calibrate_scale {
    int64_t arena_bytes;  /* of the device: operands move through it */
    const int64_t *sizes; /* of products */
    int product_points;
    int64_t beside;             /* size of the products beside other works */
    double product_s, launch_s; /* seconds per sample of products, of small kernels */
    double warm_s;              /* seconds of products before anything is measured */
    int64_t rows, columns;      /* of memory-bound operators */
    int64_t loss_rows, loss_stride;
    int64_t layer_rows, layer_seq, layer_columns;
    int64_t attention_tokens, attention_columns; /* tokens: at least one sequence */
    const int64_t *seqs;
    int seq_points;
    int64_t device_params; /* per update on the device; 0: the host's update counts */
    int64_t params;        /* per update on the host */
    int64_t copy_bytes;
    int handoffs;            /* per sample */
    const int64_t *messages; /* sizes of collectives between devices, rising: all ranks' shards */
    int message_points;
};

/* The sizes for a device with memory of its own, or for cores. */
const struct mw_calibrate_scale *mw_calibrate_scale(bool apart, bool quick);

/* The wished size, halved until there is time for it at this rate. */
int64_t mw_calibrate_arena_bytes(int64_t wished_bytes, double s_per_byte, double most_s);

/* Bytes of a rank through which operands move that are to come from memory: some processors' last
 * cache holds the whole state of a small model.  Of the machine's memory no more than a part. */
int64_t mw_calibrate_beyond_caches(int64_t cache_bytes, int64_t memory_bytes, int ranks);

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
    struct mw_calibrate_scale own_scale; /* used if getting memory for the table's takes too long */
    struct mw_arena memory;              /* of the host, pinned if the device wants that */
    struct mw_arena device, host; /* of the operands; the first has addresses of the device */
    struct {
        char *device, *host;
    } ends[2];            /* of copies: to the device, to the host */
    int32_t *targets;     /* of the loss, on the device */
    float *angles;        /* of rotary positions, on the device */
    double *loss;         /* in pinned memory */
    void *peers;          /* of the backend's collectives; NULL: none were needed yet */
    int rounds;           /* wished samples per figure */
    int cores;            /* per team */
    double window_s;      /* of a sample of works side by side, in this part */
    double window_wish_s; /* the same if there is time for it */
    double patience_s;    /* left in this step for taking samples again */
    int64_t beside;       /* size of the products beside other works; smaller if they are slow */
    int64_t move_bytes;   /* of a transfer beside other works, likewise */
    int64_t region_bytes; /* of the drives' file that have been written */
    struct {
        double end_s;    /* when all must be done, by this rank's clock */
        double until_s;  /* when this part must be done */
        int measures;    /* how many this part still has */
        double sample_s; /* the longest sample of the last measure */
        bool begun[MW_CALIBRATE_PARTS];
    } budget;
    struct mw_calibration_steal steal;
    struct mw_calibration_disturbances disturbances;
    /* Of the last sample: the fraction of its time that threads waited for cores, the fraction of
     * the cores that they had, and a lower bound of the work's rate with all cores. */
    double waited, left, undisturbed;
    double fastest;    /* highest rate of a sample since this was set to 0 */
    pid_t *team;       /* its threads, once other programs had cores; NULL: not known */
    double cores_left; /* the fraction of the cores that it last had */
    double peak_flops; /* all cores, estimated from one thread; 0: no team has waited */
    struct mw_nvme *nvme;
    uint32_t *sums; /* of its pages: transfers are checked, as in a run */
    bool has_files; /* which must be removed */
    GMutex mutex;   /* protects error */
    GError *error;  /* the first one of a work; figures measured after it are void */
};

double mw_calibrate_now_s(void);
/* For tests; NULL: the system's clock. */
void mw_calibrate_set_clock(double (*now_s)(void));
/* Seconds that runnable threads have waited for a core so far. */
double mw_calibrate_waited_s(void);
void mw_calibrate_set_waited(double (*seconds)(void));

/* Sets the size of the calling thread's teams, and its device. */
void mw_calibrate_enter(const struct mw_calibrator *c);

/* Takes an error of a work, and keeps the first: the next step reports it. */
void mw_calibrate_fail(struct mw_calibrator *c, GError *error);
bool mw_calibrate_failed(struct mw_calibrator *c);
/* False with *error if one has failed.  Call it while nothing is being measured. */
bool mw_calibrate_good(struct mw_calibrator *c, GError **error);

/* Tells what comes next, and waits for the other ranks; false with *error where a work has failed
 * or the caller stops. */
bool mw_calibrate_step(struct mw_calibrator *c, const char *what, GError **error);

/* --- the budget --- */

void mw_calibrate_budget_open(struct mw_calibrator *c, double seconds);
/* The first step of a part: gives it its time, which its measures share. */
bool mw_calibrate_begin(struct mw_calibrator *c, enum mw_calibrate_part part, const char *what,
                        int measures, GError **error);
/* Seconds for the next measure of this part; at least 0. */
double mw_calibrate_share_s(const struct mw_calibrator *c);
/* Whether a part that takes `needs_s`, and can be left out, ends within the budget; if not, the
 * part is over and the others get its time. */
bool mw_calibrate_has_time(struct mw_calibrator *c, enum mw_calibrate_part part, double needs_s,
                           bool *yes, GError **error);
/* A figure that was left out, with this range. */
struct mw_measure mw_calibrate_left_out(const struct mw_calibrator *c, double low, double typical,
                                        double high);
/* All ranks get rank 0's value, so that they decide alike. */
bool mw_calibrate_agree(struct mw_calibrator *c, double *value, GError **error);
/* All ranks begin at once with what they share, as they do in a step: its rate depends on what the
 * others do at the time. */
bool mw_calibrate_meet(struct mw_calibrator *c, GError **error);
/* All ranks get the smallest of their values. */
bool mw_calibrate_least(struct mw_calibrator *c, double *value, GError **error);

/* A sample that was measured before the others: its time, and the time stolen from it, belong to
 * the first batch. */
struct mw_calibrate_first {
    double began_s, took_s;
    struct mw_steal stolen; /* as it was when the sample began */
};

/* Samples of one measure: at least `least`, at most as many as are wished, as long as the
 * measure's time lasts.  They are judged in batches of 200 ms or more, because steal is counted
 * in ticks: a batch that the hypervisor took time from is taken again.  So are single samples
 * that the others contradict (mw_calibrate_outlier), at most a quarter of them.  The range is
 * widened by the time that the hypervisor took from a batch that was kept, and that a typical
 * sample waited for cores. */
struct mw_calibrate_samples {
    /* Takes sample `number` into values[]; false with *error stops. */
    bool (*take)(void *state, int number, double *values, GError **error);
    void *state;
    int values;        /* per sample, each for a measure; at most MW_CALIBRATE_VALUES_MAX */
    int wished, least; /* 0: c->rounds; 1 */
    int kinds;         /* of samples, which take turns; 0: one */
    bool together;     /* ranks meet in each sample: all take as many */
    bool rates;        /* the first value comes from mw_calibrate_quiet_rate */
    /* The first sample, if it was measured before, or NULL.  take() is called for it too. */
    const struct mw_calibrate_first *first;
};
bool mw_calibrate_take_samples(struct mw_calibrator *c, const struct mw_calibrate_samples *samples,
                               struct mw_measure *measures, GError **error);
/* What of their rate products keep beside collectives, by samples that take() says. */
bool mw_calibrate_collective_share(struct mw_calibrator *c,
                                   bool (*take)(void *state, int number, double *share,
                                                GError **error),
                                   void *state, struct mw_calibration *out, GError **error);

/* A rate at each of several sizes: first every second one, then those between, as long as the
 * part's time lasts.  If the first ones waited for cores, large sizes come before small ones, which
 * say least.  A size is left out if its smallest sample would take more than half of the time that
 * is left.  Sizes that others contradict are measured again (calibrate/curve.c), in a part of their
 * own. */
struct mw_calibrate_curve {
    int points;
    const double *dims;
    double (*units)(const void *state, int point); /* of the smallest sample, with warming up */
    bool (*measure)(void *state, int point, struct mw_measure *rate, GError **error);
    void *state;
    bool flops; /* units are FLOPs */
    const char *what;
    enum mw_calibrate_part again;
    bool *contradicts; /* set for points that are left out because others contradict them */
};
/* A lower bound of a point's rate by the other sizes; 0: there is none. */
double mw_calibrate_least_rate(const struct mw_calibrate_curve *curve,
                               const struct mw_measure *rates, int point);
bool mw_calibrate_take_curve(struct mw_calibrator *c, const struct mw_calibrate_curve *curve,
                             struct mw_measure *rates, GError **error);
/* The two halves of mw_calibrate_take_curve, for several curves that share a part: `behind` more
 * points follow these; then each curve is checked.  The caller closes the part `again`. */
bool mw_calibrate_take_points(struct mw_calibrator *c, const struct mw_calibrate_curve *curve,
                              struct mw_measure *rates, int behind, GError **error);
/* Predicts the seconds of a work from the measured points: the start of the smallest work, and its
 * units at the fastest rate; 0: none was measured.  A small work that waits for cores says nothing
 * of a large one's rate. */
struct mw_calibrate_pace {
    double start_s, rate;
};
/* Takes points in rising order, at the slow end of their range: others may take the cores again. */
void mw_calibrate_pace_add(struct mw_calibrate_pace *pace, double units,
                           const struct mw_measure *rate);
/* For FLOPs: the rate is at least half of that of one thread times the cores that were free. */
void mw_calibrate_pace_of_cores(struct mw_calibrate_pace *pace, const struct mw_calibrator *c);
double mw_calibrate_pace_s(const struct mw_calibrate_pace *pace, double units);
/* Whether a work of this many units fits into this many seconds.  If the start alone exceeds them,
 * a smaller work would too: then the units may take half of them. */
bool mw_calibrate_pace_fits(const struct mw_calibrate_pace *pace, double units, double seconds);
bool mw_calibrate_measure_curve(struct mw_calibrator *c, const struct mw_calibrate_curve *curve,
                                struct mw_measure *rates, GError **error);
/* Completes all figures at the end: sizes that were not measured, and a layer smaller than wished,
 * are at least as fast as their start and the fastest measured work imply.  Leaves out a size with
 * less than half the rate of a smaller one. */
void mw_calibrate_bound(struct mw_calibration *measured);
/* The pace of products, in FLOPs, by those measured so far. */
struct mw_calibrate_pace mw_calibrate_products_pace(const struct mw_calibrator *c,
                                                    const struct mw_calibration *out);

/* Choose sizes that there is time for, by the pace of products: c->beside for products beside other
 * works, and the layer's in *out. */
bool mw_calibrate_choose_beside(struct mw_calibrator *c, const struct mw_calibration *out,
                                GError **error);
bool mw_calibrate_choose_layer(struct mw_calibrator *c, struct mw_calibration *out, int64_t *seq,
                               GError **error);

/* --- operands --- */

/* Fills the device's memory with operands and the host's with state, which has positive
 * variances. */
bool mw_calibrate_fill(struct mw_calibrator *c, GError **error);
void mw_calibrate_fill_host(struct mw_calibrator *c);
/* Fills the device's memory with state. */
bool mw_calibrate_fill_state(struct mw_calibrator *c, GError **error);

/* Of elements from *at on, which moves on, and back to the start at the end.  Each array has a part
 * of the arena of its own: the lower half of an fp32 word, read as a gradient, would be any number,
 * and some processors are many times as slow with one whose square is below the normal range. */
struct mw_calibrate_state {
    float *w, *m, *v;
    uint16_t *param, *gradient;
};
struct mw_calibrate_state mw_calibrate_state(const struct mw_arena *arena, int64_t *at,
                                             int64_t elements);

/* Where the next operand and the next result of products are.  Both move through a half of the
 * device's memory: those of a step are not in the caches either. */
struct mw_calibrate_places {
    int64_t operand, result;
};
void *mw_calibrate_operand(struct mw_calibrator *c, struct mw_calibrate_places *places,
                           int64_t bytes);
void *mw_calibrate_result(struct mw_calibrator *c, struct mw_calibrate_places *places,
                          int64_t bytes);

/* A piece of an arena at a multiple of 64 bytes; *at moves on, and back to the start at the end. */
void *mw_calibrate_take(const struct mw_arena *arena, int64_t *at, int64_t bytes);

/* Units of work: `run` does a piece and returns its units. */
struct mw_calibrate_work {
    double (*run)(void *state);
    void *state;
    struct mw_calibrator *of; /* whose device does it; NULL: the host */
    enum mw_calibrate_lane lane;
    int kernels; /* that a piece starts on a device, about */
};

/* Units per second, repeated for at least `seconds`.  If the device queues ops, `run` only queues a
 * piece; enough pieces are queued, and the device's own clock counts. */
double mw_calibrate_rate(const struct mw_calibrate_work *work, double seconds);
/* Does one piece, so that what is needed once has been made. */
void mw_calibrate_once(const struct mw_calibrate_work *work);

/* --- works of a device with queues --- */
bool mw_calibrate_queues(const struct mw_calibrate_work *work);
double mw_calibrate_queued_rate(const struct mw_calibrate_work *work, double seconds);
void mw_calibrate_queued_once(const struct mw_calibrate_work *work);
/* Seconds of this many pieces, after one more in which the ranks meet: ranks do what they do
 * together equally often. */
double mw_calibrate_counted_s(const struct mw_calibrate_work *work, int pieces);
/* Seconds from one tiny copy to the next, in the lane of the other direction, which waits for
 * it. */
double mw_calibrate_chain_s(struct mw_calibrator *c, int count);

/* The same without queues; also the rate of the fastest piece. */
double mw_calibrate_rate_of_pieces(const struct mw_calibrate_work *work, double seconds,
                                   double *fastest);

/* A sample is disturbed if its threads waited for cores for more than this fraction of its time. */
#define MW_CALIBRATE_WAITED 0.05
/* If threads had less than this fraction of the cores on average, others have them. */
#define MW_CALIBRATE_LEFT 0.9
/* If the middle sample waited for more than this fraction, what works reach of each other's rates
 * is not known: waits would differ by more than they do. */
#define MW_CALIBRATE_COMPARED 0.25
/* The rate alone on the machine.  A sample in which a thread waited for a core is taken again, as
 * long as patience_s lasts; the least disturbed one counts. */
double mw_calibrate_quiet_rate(struct mw_calibrator *c, const struct mw_calibrate_work *work,
                               double seconds);
/* Samples of it. */
struct mw_measure mw_calibrate_measure(struct mw_calibrator *c,
                                       const struct mw_calibrate_work *work, double seconds);
/* The same of a work that takes what the ranks of a machine share, as its memory: in each sample
 * all begin at once, as in a step, and do the same.  Where others have the cores its fastest pieces
 * are no estimate: a rank that had a core while another waited for one had more of what they
 * share. */
bool mw_calibrate_measure_together(struct mw_calibrator *c, const struct mw_calibrate_work *work,
                                   struct mw_measure *figure, GError **error);
/* Seconds of processor time of all threads. */
double mw_calibrate_used_s(void);
/* Starts a thread beside this one, to be joined; NULL: none could be started, the work fails. */
GThread *mw_calibrate_thread(struct mw_calibrator *c, GThreadFunc run, void *data);
/* Two works at once, each in a thread of its own. */
void mw_calibrate_rates(struct mw_calibrator *c, const struct mw_calibrate_work works[2],
                        double seconds, double rates[2]);

/* The sum of the fractions of their speeds alone that two works keep side by side: 1 to 2. */
struct mw_calibrate_pair {
    struct mw_calibrator *c;
    struct mw_calibrate_work works[2];
    struct mw_measure *each; /* [2] gets the fraction of each; NULL: not wanted */
};
bool mw_calibrate_duplex(struct mw_calibrate_pair *pair, struct mw_measure *duplex, GError **error);

/* The share of the compute that a work takes beside products, if products run at the fraction `x`
 * of their speed alone and the work at `y`. */
double mw_calibrate_felt(const struct mw_calibrator *c, double x, double y);

/* A product on the device, queued if the device queues. */
void mw_calibrate_multiply(struct mw_calibrator *c, const struct mw_product *product, void *to,
                           const uint16_t *a, const uint16_t *b, const uint16_t *bias);

/* Products of the size of a small layer's, to run beside other works; one product per call. */
struct mw_calibrate_products {
    struct mw_calibrator *c;
    struct mw_calibrate_places at;
};
double mw_calibrate_run_product(void *products);
struct mw_calibrate_work mw_calibrate_products_work(struct mw_calibrate_products *products);

/* Copies between host and device, in one direction. */
struct mw_calibrate_copies {
    struct mw_calibrator *c;
    bool to_host;
};
struct mw_calibrate_work mw_calibrate_copies_work(struct mw_calibrate_copies *copies); /* bytes */

/* Requests of `bytes`, one after the other, round and round in the direction's half of the file.
 * After an error, which is kept, nothing more is moved. */
struct mw_calibrate_mover {
    struct mw_calibrator *c;
    enum mw_nvme_direction direction;
    int64_t bytes, at;
    GError *error;
};
double mw_calibrate_move(void *mover); /* bytes; a struct mw_calibrate_mover */

/* What the names of the files on the drives begin with; the rank's number follows. */
#define MW_CALIBRATE_STEM "memwall-calibrate-"
/* Removes such files of this user that no process uses. */
void mw_calibrate_remove_left(const char *directory);

/* Sets c->move_bytes so that a window has several transfers at this rate. */
void mw_calibrate_choose_move(struct mw_calibrator *c, double bytes_per_s);
bool mw_calibrate_transfers(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
bool mw_calibrate_sustained(struct mw_calibrator *c, struct mw_calibration *out, GError **error);

/* --- several ranks --- */

int mw_calibrate_ranks(const struct mw_calibrator *c);
int mw_calibrate_rank(const struct mw_calibrator *c);
/* data[i] = the sum over all ranks. */
bool mw_calibrate_sum(struct mw_calibrator *c, double *data, int count, GError **error);
bool mw_calibrate_collectives(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
/* The same between devices with memory of their own. */
bool mw_calibrate_fabric(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
/* Unites all ranks' figures into those of the machine. */
bool mw_calibrate_unite(struct mw_calibrator *c, struct mw_calibration *out, GError **error);

/* The parts, each in its own file. */
bool mw_calibrate_open_device(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
/* Measures what the device's memory holds beside the arena, after all else has run. */
bool mw_calibrate_memory_beside(struct mw_calibrator *c, struct mw_calibration *out,
                                GError **error);
void mw_calibrate_close_device(struct mw_calibrator *c);
bool mw_calibrate_matmul(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
/* Whether it can: else the figure stays empty. */
bool mw_calibrate_has_fp32(const struct mw_calibrator *c);
bool mw_calibrate_fp32(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
bool mw_calibrate_layer(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
bool mw_calibrate_attention(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
/* Attention by the size of heads, at one length. */
bool mw_calibrate_heads(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
/* Tokens of the sequences whose positions are rotated, and cosines and sines of their angles. */
int64_t mw_calibrate_rotary_seq(const struct mw_calibrate_scale *scale);
int64_t mw_calibrate_angles(const struct mw_calibrate_scale *scale);
bool mw_calibrate_memory(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
bool mw_calibrate_copies(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
bool mw_calibrate_open_drives(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
void mw_calibrate_close_drives(struct mw_calibrator *c);
bool mw_calibrate_drives(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
bool mw_calibrate_shares(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
/* Measures the first works again, last of all: whether the machine is as fast as it was. */
bool mw_calibrate_drift(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
/* Measure products of one size, and the host's update, as at first. */
bool mw_calibrate_products_again(struct mw_calibrator *c, struct mw_calibration *out, int point,
                                 struct mw_measure *flops, GError **error);
bool mw_calibrate_update_again(struct mw_calibrator *c, struct mw_measure *again, GError **error);
/* Seconds of a kernel that has almost nothing to do, by its least disturbed samples. */
struct mw_measure mw_calibrate_launch(struct mw_calibrator *c);
/* Seconds of all shapes of a size, at the measured rate; 0: it was not measured. */
double mw_calibrate_products_s(const struct mw_calibration *out, int point);

/* Memory-bound operators of one kind, forward twice (recompute) and backward: bytes, and kernels
 * started, as the planner counts them. */
double mw_calibrate_passes(struct mw_calibrator *c, enum mw_calibration_passes of);
double mw_calibrate_passes_bytes(const struct mw_calibrator *c, enum mw_calibration_passes of);
int mw_calibrate_passes_launches(enum mw_calibration_passes of);

/* For a device with memory of its own, when all is measured: removes from the rates what the
 * planner counts separately. */
void mw_calibrate_net(const struct mw_calibrator *c, struct mw_calibration *out);

#endif
