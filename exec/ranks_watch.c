#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "exec/ranks_internal.h"
#include "planner/error.h"

struct mw_ranks_watch {
    pthread_t thread;
    int wake_fd;        /* rings for SIGTERM and for the end of the watch */
    struct pollfd *fds; /* [0] wake_fd, then one a peer; -1 where it cannot be seen */
    struct mw_ranks_peer *peers;
    int peer_count, rank;
    struct sigaction before;
    bool takes_signal;
    atomic_bool stop, failed, cancelled;
    char *why; /* set before `failed` */
};

/* A signal handler has no other way to its watch. */
static atomic_int signal_fd = -1;

static void
wake(int fd)
{
    uint64_t one = 1;
    int reason = errno;

    while (write(fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
    errno = reason;
}

static void
on_signal(int number)
{
    if (atomic_load(&signal_fd) >= 0)
        wake(atomic_load(&signal_fd));
}

/* A second signal ends the process at once. */
static void
take_signal(struct mw_ranks_watch *watch)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_RESETHAND};

    if (sigaction(SIGTERM, NULL, &watch->before) || watch->before.sa_handler != SIG_DFL)
        return;
    atomic_store(&signal_fd, watch->wake_fd);
    watch->takes_signal = !sigaction(SIGTERM, &action, NULL);
}

static void
return_signal(struct mw_ranks_watch *watch)
{
    if (watch->takes_signal)
        sigaction(SIGTERM, &watch->before, NULL);
    atomic_store(&signal_fd, -1);
}

/* --- the thread --- */

static void
fail(struct mw_ranks_watch *watch)
{
    for (int i = 0; !watch->why && i < watch->peer_count; i++)
        if (watch->fds[1 + i].revents)
            watch->why = g_strdup_printf("rank %" PRId64 " (process %" PRId64
                                         ") has ended: rank %d cannot go on without it",
                                         watch->peers[i].rank, watch->peers[i].pid, watch->rank);
    if (!watch->why)
        watch->why = g_strdup_printf(
            "rank %d was told to end (SIGTERM), as the launcher does when another rank fails",
            watch->rank);
    atomic_store(&watch->failed, true);
}

/* mpirun sends SIGTERM to the others as soon as a rank is gone, so whatever wakes it, this looks
 * at the ranks first. */
static void *
look_after(void *data)
{
    struct mw_ranks_watch *watch = data;

    while (poll(watch->fds, 1 + watch->peer_count, -1) < 0 && errno == EINTR)
        ;
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

    watch->fds[0] = (struct pollfd){.fd = watch->wake_fd, .events = POLLIN};
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
    watch->wake_fd = eventfd(0, EFD_CLOEXEC);
    open_peers(watch);
    if (watch->wake_fd < 0 || pthread_create(&watch->thread, NULL, look_after, watch)) {
        atomic_store(&watch->stop, true); /* no thread: mpirun alone looks after the ranks */
        return watch;
    }
    take_signal(watch);
    return watch;
}

void
mw_ranks_watch_stop(struct mw_ranks_watch *watch)
{
    if (!watch)
        return;
    return_signal(watch);
    if (!atomic_exchange(&watch->stop, true)) {
        wake(watch->wake_fd);
        pthread_join(watch->thread, NULL);
    }
    for (int i = 0; i <= watch->peer_count; i++)
        if (watch->fds[i].fd >= 0)
            close(watch->fds[i].fd);
    g_free(watch->why);
    g_free(watch->peers);
    g_free(watch->fds);
    g_free(watch);
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
