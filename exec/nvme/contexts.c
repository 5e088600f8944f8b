/* Contexts of the kernel's queues.  The kernel takes tens of milliseconds to end one, since it
 * waits for all processors.  So the contexts of a tier that has ended well are kept for the next
 * tier of this process. */
#include <pthread.h>
#include <unistd.h>

#include "exec/nvme/internal.h"

enum { KEPT_MAX = MW_NVME_DIRECTIONS }; /* as many as a tier has */

struct kept {
    io_context_t context;
    int in_flight; /* room for this many transfers */
};

static struct {
    pthread_mutex_t mutex; /* guards the fields below */
    struct kept kept[KEPT_MAX];
    int count;
    pid_t owner; /* a forked process has none of them */
} pool = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Call with the mutex held. */
static io_context_t
find(int in_flight)
{
    if (pool.owner != getpid())
        pool.count = 0;
    for (int i = 0; i < pool.count; i++) {
        const struct kept kept = pool.kept[i];
        if (kept.in_flight < in_flight)
            continue;
        pool.kept[i] = pool.kept[--pool.count];
        return kept.context;
    }
    return NULL;
}

int
mw_nvme_context_take(int in_flight, io_context_t *context)
{
    pthread_mutex_lock(&pool.mutex);
    *context = find(in_flight);
    pthread_mutex_unlock(&pool.mutex);
    return *context ? 0 : io_setup(in_flight, context);
}

void
mw_nvme_context_give(int in_flight, io_context_t context)
{
    pthread_mutex_lock(&pool.mutex);
    if (pool.owner != getpid())
        pool.count = 0;
    pool.owner = getpid();
    const bool keeps = pool.count < KEPT_MAX;
    if (keeps)
        pool.kept[pool.count++] = (struct kept){context, in_flight};
    pthread_mutex_unlock(&pool.mutex);
    if (!keeps)
        io_destroy(context);
}
