#include "base/clock.h"
#include "exec/device/cuda/clock.h"

#include <cuda_runtime_api.h>
#include <pthread.h>

/* At this age single precision resolves 30 ns, and quartz has drifted by less than 50 us. */
#define RENEW_NS INT64_C(500000000)
/* Number of readings of the clocks; the shortest one counts. */
#define LOOKS 3

struct mw_cuda_mark {
    cudaEvent_t event;
    int64_t at_ns;
    int users; /* the clock itself while it is the newest */
};

struct mw_cuda_clock {
    const struct mw_cuda_gpu *gpu;
    cudaStream_t stream;
    pthread_mutex_t mutex;
    struct mw_cuda_mark *newest;
};

struct mw_cuda_clock *
mw_cuda_clock_create(const struct mw_cuda_gpu *gpu, GError **error)
{
    struct mw_cuda_clock *clock = g_new0(struct mw_cuda_clock, 1);

    clock->gpu = gpu;
    pthread_mutex_init(&clock->mutex, NULL);
    if (mw_cuda_stream_create(gpu, true, (void **)&clock->stream, error))
        return clock;
    mw_cuda_clock_destroy(clock);
    return NULL;
}

/* The mutex is held, or nobody else is left. */
static void
drop(struct mw_cuda_mark *mark)
{
    if (!mark || --mark->users)
        return;
    cudaEventDestroy(mark->event);
    g_free(mark);
}

void
mw_cuda_clock_destroy(struct mw_cuda_clock *clock)
{
    if (!clock)
        return;
    drop(clock->newest);
    if (clock->stream)
        cudaStreamDestroy(clock->stream);
    pthread_mutex_destroy(&clock->mutex);
    g_free(clock);
}

/* The error of its time is at most half of what passes here. */
static bool
look(const struct mw_cuda_clock *clock, struct mw_cuda_mark *mark, int64_t *took_ns, GError **error)
{
    int64_t before_ns = mw_clock_now_ns();

    if (!mw_cuda_check(clock->gpu, cudaEventRecord(mark->event, clock->stream), "cudaEventRecord",
                       error) ||
        !mw_cuda_check(clock->gpu, cudaEventSynchronize(mark->event), "cudaEventSynchronize",
                       error))
        return false;
    int64_t after_ns = mw_clock_now_ns();
    mark->at_ns = before_ns + (after_ns - before_ns) / 2;
    *took_ns = after_ns - before_ns;
    return true;
}

static struct mw_cuda_mark *
new_mark(const struct mw_cuda_clock *clock, GError **error)
{
    struct mw_cuda_mark *best = NULL;
    int64_t best_ns = INT64_MAX;

    for (int i = 0; i < LOOKS; i++) {
        struct mw_cuda_mark *mark = g_new0(struct mw_cuda_mark, 1);
        int64_t took_ns = INT64_MAX;
        mark->users = 1;
        /* Spins, since the time to wake up would count. */
        if (!mw_cuda_check(clock->gpu, cudaEventCreateWithFlags(&mark->event, cudaEventDefault),
                           "cudaEventCreateWithFlags", error) ||
            !look(clock, mark, &took_ns, error)) {
            drop(mark);
            drop(best);
            return NULL;
        }
        bool better = took_ns < best_ns;
        drop(better ? best : mark);
        best = better ? mark : best;
        best_ns = MIN(best_ns, took_ns);
    }
    return best;
}

struct mw_cuda_mark *
mw_cuda_clock_mark(struct mw_cuda_clock *clock, GError **error)
{
    pthread_mutex_lock(&clock->mutex);
    if (!clock->newest || mw_clock_now_ns() - clock->newest->at_ns > RENEW_NS) {
        struct mw_cuda_mark *mark = new_mark(clock, error);
        drop(clock->newest);
        clock->newest = mark;
    }
    struct mw_cuda_mark *mark = clock->newest;
    if (mark)
        mark->users++;
    pthread_mutex_unlock(&clock->mutex);
    return mark;
}

void
mw_cuda_clock_drop(struct mw_cuda_clock *clock, struct mw_cuda_mark *mark)
{
    pthread_mutex_lock(&clock->mutex);
    drop(mark);
    pthread_mutex_unlock(&clock->mutex);
}

bool
mw_cuda_clock_time(const struct mw_cuda_clock *clock, const struct mw_cuda_mark *mark, void *event,
                   int64_t *at_ns, GError **error)
{
    float passed_ms = 0;

    if (!mw_cuda_check(clock->gpu, cudaEventElapsedTime(&passed_ms, mark->event, event),
                       "cudaEventElapsedTime", error))
        return false;
    *at_ns = mark->at_ns + (int64_t)((double)passed_ms * 1e6);
    return true;
}
