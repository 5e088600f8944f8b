/* calibrate_internal.h - shared by exec/calibrate*.c only. */
#ifndef MW_EXEC_CALIBRATE_INTERNAL_H
#define MW_EXEC_CALIBRATE_INTERNAL_H

#include "exec/calibrate.h"
#include "exec/cpu/matmul.h"
#include "exec/memory.h"
#include "exec/nvme.h"

enum { MW_CALIBRATE_ROUNDS_MAX = 32 };

struct mw_calibrator {
    const struct mw_calibration_options *options;
    struct mw_arena device, host;
    struct mw_cpu_matmul *matmul;
    const struct mw_cpu_kernels *kernels;
    int rounds;
    int cores;         /* of a team */
    double window_s;   /* of a sample of works side by side */
    double patience_s; /* left in this step for samples taken again */
    struct mw_nvme *nvme;
    bool has_files; /* to be removed */
    int step;
};

double mw_calibrate_now_s(void);

/* Gives the calling thread's teams their size. */
void mw_calibrate_enter(const struct mw_calibrator *c);

/* Tells what comes next, and waits for the other ranks; false with *error where the caller stops. */
bool mw_calibrate_step(struct mw_calibrator *c, const char *what, GError **error);

/* A part of an arena, on a 64-byte border; *at moves on, back to the start where there is no room. */
void *mw_calibrate_take(const struct mw_arena *arena, int64_t *at, int64_t bytes);

/* Units of work a second, repeated for at least `seconds`: `run` does a piece and returns its
 * units. */
struct mw_calibrate_work {
    double (*run)(void *state);
    void *state;
};
double mw_calibrate_rate(const struct mw_calibrate_work *work, double seconds);
/* The same, alone on the machine.  A sample in which a thread waited for a core that others had is
 * taken again, as long as patience_s lasts; the least disturbed one counts. */
double mw_calibrate_quiet_rate(struct mw_calibrator *c, const struct mw_calibrate_work *work,
                               double seconds);
/* Seconds of processor time of all threads. */
double mw_calibrate_used_s(void);
/* Two works at once, each in a thread of its own. */
void mw_calibrate_rates(const struct mw_calibrator *c, const struct mw_calibrate_work works[2],
                        double seconds, double rates[2]);

/* Products of the size of a small layer's, to run beside other things; a product a call. */
struct mw_calibrate_products {
    struct mw_calibrator *c;
    int64_t at;
    bool failed;
};
double mw_calibrate_run_product(void *products);

/* Requests of `bytes`, one after the other, round and round in the half of the file that is the
 * direction's.  An error is kept, and no more is moved. */
struct mw_calibrate_mover {
    struct mw_calibrator *c;
    enum mw_nvme_direction direction;
    int64_t bytes, at;
    GError *error;
};
double mw_calibrate_move(void *mover); /* bytes; a struct mw_calibrate_mover */

bool mw_calibrate_transfers(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
bool mw_calibrate_sustained(struct mw_calibrator *c, struct mw_calibration *out, GError **error);

/* --- several ranks --- */

int mw_calibrate_ranks(const struct mw_calibrator *c);
int mw_calibrate_rank(const struct mw_calibrator *c);
/* data[i] = the sum over all ranks. */
bool mw_calibrate_sum(struct mw_calibrator *c, double *data, int count, GError **error);
bool mw_calibrate_collectives(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
/* Every rank's figures into those of the machine. */
bool mw_calibrate_unite(struct mw_calibrator *c, struct mw_calibration *out, GError **error);

/* The parts, each in its own file. */
bool mw_calibrate_matmul(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
bool mw_calibrate_layer(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
bool mw_calibrate_attention(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
bool mw_calibrate_memory(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
bool mw_calibrate_open_drives(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
void mw_calibrate_close_drives(struct mw_calibrator *c);
bool mw_calibrate_drives(struct mw_calibrator *c, struct mw_calibration *out, GError **error);
bool mw_calibrate_shares(struct mw_calibrator *c, struct mw_calibration *out, GError **error);

/* Memory-bound operators of one layer over `rows` tokens of `columns`, forward twice (recompute)
 * and backward; returns their bytes as the planner counts them. */
double mw_calibrate_layer_passes(struct mw_calibrator *c, int64_t rows, int64_t columns);

#endif
