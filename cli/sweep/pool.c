/* Threads compute rows ahead of the one that takes them in order. */
#include "cli/sweep/sweep.h"
#include "lib/question.h"

#define AHEAD 4096 /* rows that may wait to be taken */

struct cli_pool {
    const struct cli_sweep *sweep;
    const int64_t *points;
    int64_t count;
    bool simulates;

    GMutex lock; /* protects what follows */
    GCond changed;
    int64_t next, taken; /* to compute, to take */
    char *rows[AHEAD];   /* by index modulo AHEAD; NULL: not computed yet */
    bool ends;

    int thread_count;
    GThread **threads;
};

/* The index of the next point to compute; -1: there are no more. */
static int64_t
begin_point(struct cli_pool *pool)
{
    g_mutex_lock(&pool->lock);
    while (!pool->ends && pool->next < pool->count && pool->next - pool->taken >= AHEAD)
        g_cond_wait(&pool->changed, &pool->lock);
    int64_t index = pool->ends || pool->next == pool->count ? -1 : pool->next++;
    g_mutex_unlock(&pool->lock);
    return index;
}

static void
end_point(struct cli_pool *pool, int64_t index, char *row)
{
    g_mutex_lock(&pool->lock);
    pool->rows[index % AHEAD] = row;
    g_cond_broadcast(&pool->changed);
    g_mutex_unlock(&pool->lock);
}

static void *
compute(void *data)
{
    struct cli_pool *pool = data;
    struct memwall_question *question = mw_lib_copy(pool->sweep->base);

    for (int64_t index; (index = begin_point(pool)) >= 0;)
        end_point(pool, index,
                  cli_sweep_row(pool->sweep, pool->points[index], pool->simulates, question));
    memwall_question_free(question);
    return NULL;
}

struct cli_pool *
cli_pool_new(const struct cli_sweep *sweep, const int64_t *points, int64_t count, bool simulates,
             int threads)
{
    struct cli_pool *pool = g_new0(struct cli_pool, 1);

    pool->sweep = sweep;
    pool->points = points;
    pool->count = count;
    pool->simulates = simulates;
    g_mutex_init(&pool->lock);
    g_cond_init(&pool->changed);
    pool->thread_count = (int)MIN(threads, count);
    pool->threads = g_new0(GThread *, pool->thread_count + 1);
    for (int i = 0; i < pool->thread_count; i++)
        pool->threads[i] = g_thread_new("sweep", compute, pool);
    return pool;
}

char *
cli_pool_take(struct cli_pool *pool)
{
    g_mutex_lock(&pool->lock);
    char **place = &pool->rows[pool->taken % AHEAD];
    while (!*place)
        g_cond_wait(&pool->changed, &pool->lock);
    char *row = g_steal_pointer(place);
    pool->taken++;
    g_cond_broadcast(&pool->changed);
    g_mutex_unlock(&pool->lock);
    return row;
}

void
cli_pool_free(struct cli_pool *pool)
{
    g_mutex_lock(&pool->lock);
    pool->ends = true;
    g_cond_broadcast(&pool->changed);
    g_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->thread_count; i++)
        g_thread_join(pool->threads[i]);
    for (int i = 0; i < AHEAD; i++)
        g_free(pool->rows[i]);
    g_free(pool->threads);
    g_mutex_clear(&pool->lock);
    g_cond_clear(&pool->changed);
    g_free(pool);
}
