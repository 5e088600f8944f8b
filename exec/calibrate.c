/* The order of the measurements, and what they all need. */
#include "exec/calibrate.h"

#include <string.h>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "exec/calibrate_internal.h"
#include "planner/error.h"

#define ARENA_BYTES (INT64_C(256) << 20)
#define QUICK_ARENA_BYTES (INT64_C(24) << 20)
#define ROUNDS 9
#define QUICK_ROUNDS 3
#define PATIENCE_S 3.0
#define STEPS 36 /* about; for the display alone */

/* As a run's: ranks of one machine share its cores. */
static int
team(const struct mw_ranks *ranks)
{
#if defined(_OPENMP)
    int threads = omp_get_max_threads();
    return ranks ? MIN(threads, mw_ranks_cores(ranks)) : threads;
#else
    return 1;
#endif
}

void
mw_calibrate_enter(const struct mw_calibrator *c)
{
#if defined(_OPENMP)
    omp_set_num_threads(c->cores);
#endif
}

bool
mw_calibrate_step(struct mw_calibrator *c, const char *what, GError **error)
{
    const struct mw_calibration_options *o = c->options;
    int done = MIN(c->step, STEPS - 1);

    c->step++;
    c->patience_s = o->quick ? 0 : PATIENCE_S;
    if (o->ranks && !mw_ranks_barrier(o->ranks, 0, error))
        return false;
    if (!o->progress || o->progress(o->data, what, done, STEPS))
        return true;
    g_set_error_literal(error, MW_ERROR, MW_ERROR_DEVICE, "calibrate: stopped");
    return false;
}

void *
mw_calibrate_take(const struct mw_arena *arena, int64_t *at, int64_t bytes)
{
    int64_t place = (*at + 63) / 64 * 64;

    if (place + bytes > arena->bytes)
        place = 0;
    *at = place + bytes;
    return arena->base + place;
}

/* bf16 numbers of about 1/64: nothing overflows, and no drive makes them smaller. */
static void
fill(const struct mw_arena *arena)
{
    uint64_t state = 0x9e3779b97f4a7c15u;
    uint64_t *words = (uint64_t *)(void *)arena->base;

    for (int64_t i = 0; i < arena->bytes / 8; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        words[i] = (state & 0x00ff00ff00ff00ffu) | 0x3c003c003c003c00u;
    }
}

static bool
reserve(struct mw_calibrator *c, GError **error)
{
    int64_t bytes = c->options->quick ? QUICK_ARENA_BYTES : ARENA_BYTES;

    if (!mw_arena_reserve(&c->device, "calibrate: device", bytes, error) ||
        !mw_arena_reserve(&c->host, "calibrate: host", bytes, error))
        return false;
    fill(&c->device);
    fill(&c->host);
    c->matmul = mw_cpu_matmul_create();
    if (!c->matmul)
        g_set_error_literal(error, MW_ERROR, MW_ERROR_DEVICE,
                            "calibrate: the matrix library has no engine here");
    return c->matmul != NULL;
}

bool
mw_calibrate(const struct mw_calibration_options *options, struct mw_calibration *out,
             GError **error)
{
    struct mw_calibrator c = {.options = options,
                              .kernels = mw_cpu_kernels(),
                              .rounds = options->quick ? QUICK_ROUNDS : ROUNDS,
                              .window_s = options->quick ? 0.01 : 0.3};
    struct mw_memory_room room;

    memset(out, 0, sizeof *out);
    mw_memory_room(&room);
    out->memory_bytes = room.bytes;
    out->cores = c.cores = team(options->ranks);
    mw_calibrate_enter(&c);
    out->ranks = mw_calibrate_ranks(&c);
    bool good = mw_calibrate_open_drives(&c, out, error) && reserve(&c, error) &&
                mw_calibrate_matmul(&c, out, error) &&
                mw_calibrate_attention(&c, out, error) &&
                mw_calibrate_layer(&c, out, error) && mw_calibrate_memory(&c, out, error) &&
                mw_calibrate_drives(&c, out, error) && mw_calibrate_shares(&c, out, error) &&
                mw_calibrate_collectives(&c, out, error) && mw_calibrate_unite(&c, out, error);
    mw_calibrate_close_drives(&c);
    mw_cpu_matmul_destroy(c.matmul);
    mw_arena_release(&c.device);
    mw_arena_release(&c.host);
    return good;
}
