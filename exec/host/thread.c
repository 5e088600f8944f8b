#include "exec/host/thread.h"

#include <pthread.h> /* whose locks the thread sanitizer sees */

#include "base/error.h"

#define LIMITS "see ulimit -u, and pids.max of its cgroup"

GThread *
mw_thread_start(const char *name, GThreadFunc run, void *data, GError **error)
{
    GThread *thread = g_thread_try_new(name, run, data, NULL);

    /* GLib has one reason to return: EAGAIN. */
    if (!thread)
        g_set_error(error, MW_ERROR, MW_ERROR_DEVICE,
                    "the system lets this process start no thread for \"%s\": " LIMITS, name);
    return thread;
}

/* Lives until the gate is opened. */
static gpointer
pass(gpointer gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

bool
mw_thread_can_start(int count, GError **error)
{
    g_autofree GThread **threads = g_new(GThread *, count);
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    int started = 0;

    pthread_mutex_lock(&gate);
    while (started < count && (threads[started] = g_thread_try_new("room", pass, &gate, NULL)))
        started++;
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < started; i++)
        g_thread_join(threads[i]);
    pthread_mutex_destroy(&gate);
    if (started == count)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE,
                "the system lets this process start %d of the %d threads that it needs: " LIMITS,
                started, count);
    return false;
}
