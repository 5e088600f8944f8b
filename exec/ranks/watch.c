#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "exec/host/signals.h"
#include "exec/ranks/internal.h"

struct mw_ranks_watch {
    pthread_t thread;
    struct mw_signals *signals; /* SIGTERM; NULL: there is no thread */
    struct pollfd *fds;         /* [0] of signals, then one a peer; -1 where it cannot be seen */
    struct mw_ranks_peer *peers;
    int peer_count, rank;
    atomic_bool stop, failed, cancelled;
    atomic_bool told; /* by this process, not by the launcher */
    char *why;        /* set before `failed` */
};

/* --- the thread --- */

static void
fail(struct mw_ranks_watch *watch)
{
    for (int i = 0; !watch->why && i < watch->peer_count; i++)
        if (watch->fds[1 + i].revents)
            watch->why = g_strdup_printf("rank %" PRId64 " (process %" PRId64
                                         ") has ended: rank %d cannot continue without it",
                                         watch->peers[i].rank, watch->peers[i].pid, watch->rank);
    if (!watch->why)
        watch->why = g_strdup_printf(
            "rank %d was asked to end (%s), %s", watch->rank,
            mw_signals_heard(watch->signals) == SIGINT ? "SIGINT" : "SIGTERM",
            atomic_load(&watch->told)
                ? "and cannot end in order: another rank does not reach the point where it waits"
                : "as the launcher does when another rank fails");
    atomic_store(&watch->failed, true);
}

static bool
sees_end(const struct mw_ranks_watch *watch)
{
    bool seen = mw_signals_heard(watch->signals) != 0;

    for (int i = 0; i < watch->peer_count; i++)
        seen |= watch->fds[1 + i].revents != 0;
    return seen;
}

/* mpirun sends SIGTERM to the others as soon as a rank is gone, so whatever wakes it, this looks
 * at the ranks first. */
static void *
look_after(void *data)
{
    struct mw_ranks_watch *watch = data;

    do
        mw_signals_wait(watch->signals, watch->fds, 1 + watch->peer_count, -1);
    while (!atomic_load(&watch->stop) && !sees_end(watch));
    if (!atomic_load(&watch->stop))
        fail(watch);
    return NULL;
}

/* --- start and stop --- */

struct mw_ranks_peer
mw_ranks_watch_self(int rank)
{
    struct mw_ranks_peer self = {.pid = getpid(), .rank = rank};
    struct stat info;

    if (!stat("/proc/self/ns/pid", &info))
        self.pid_namespace = info.st_ino;
    return self;
}

static void
open_peers(struct mw_ranks_watch *watch)
{
    uint64_t pid_namespace = mw_ranks_watch_self(0).pid_namespace;

    for (int i = 0; i < watch->peer_count; i++) {
        const struct mw_ranks_peer *peer = &watch->peers[i];
        bool seen = peer->pid_namespace == pid_namespace && peer->pid != getpid();
        int fd = seen ? (int)syscall(SYS_pidfd_open, (pid_t)peer->pid, 0) : -1;

        watch->fds[1 + i] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
}

struct mw_ranks_watch *
mw_ranks_watch_start(const struct mw_ranks_peer *peers, int count, int self_rank)
{
    struct mw_ranks_watch *watch = g_new0(struct mw_ranks_watch, 1);

    watch->rank = self_rank;
    watch->peer_count = count;
    watch->peers = g_memdup2(peers, count * sizeof *peers);
    watch->fds = g_new0(struct pollfd, 1 + count);
    open_peers(watch);
    watch->signals = mw_signals_begin(MW_SIGNALS_TERM);
    if (watch->signals && pthread_create(&watch->thread, NULL, look_after, watch))
        mw_signals_end(g_steal_pointer(&watch->signals)); /* mpirun alone looks after the ranks */
    return watch;
}

void
mw_ranks_watch_stop(struct mw_ranks_watch *watch)
{
    if (!watch)
        return;
    mw_signals_end(watch->signals);
    atomic_store(&watch->stop, true);
    mw_signals_wake(watch->signals);
    if (watch->signals)
        pthread_join(watch->thread, NULL);
    for (int i = 0; i < watch->peer_count; i++)
        if (watch->fds[1 + i].fd >= 0)
            close(watch->fds[1 + i].fd);
    g_free(watch->why);
    g_free(watch->peers);
    g_free(watch->fds);
    g_free(watch);
}

void
mw_ranks_watch_tell(struct mw_ranks_watch *watch, int number)
{
    atomic_store(&watch->told, true);
    mw_signals_tell(watch->signals, number);
}

void
mw_ranks_watch_cancel(struct mw_ranks_watch *watch)
{
    atomic_store(&watch->cancelled, true);
}

bool
mw_ranks_watch_saw_end(const struct mw_ranks_watch *watch)
{
    return atomic_load(&watch->failed);
}

bool
mw_ranks_watch_failed(const struct mw_ranks_watch *watch, GError **error)
{
    bool failed = atomic_load(&watch->failed);

    if (!failed && !atomic_load(&watch->cancelled))
        return false;
    if (failed)
        g_set_error_literal(error, MW_ERROR, MW_ERROR_DEVICE, watch->why);
    else
        g_set_error(error, MW_ERROR, MW_ERROR_DEVICE, "rank %d has failed and waits for no other",
                    watch->rank);
    return true;
}
