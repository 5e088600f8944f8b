#include "cli/run_stop.h"

#include <errno.h>
#include <glib.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "exec/thread.h"
#include "exec/trainer.h"

/* By wish; the later one is what several ranks end by where each has another. */
static const int signals[] = {0, SIGINT, SIGTERM};
G_STATIC_ASSERT(G_N_ELEMENTS(signals) == 1 + MW_TRAINER_WISHES);

/* `timeout` and shells send a signal to the process and to its group: that is one and not two. */
#define TWICE_MS 200
#define WISH_BITS 2

struct cli_run_stop {
    void (*tell)(void *data, int signal);
    void *data;
    GThread *thread;
    struct sigaction before[G_N_ELEMENTS(signals)];
    int fd;
};

/* A handler has no other way to them. */
static _Atomic int64_t heard; /* ms of the monotonic clock << WISH_BITS | wish; 0: nothing */
static atomic_int wake_fd = -1;

static int64_t
clock_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void
wake(int fd)
{
    uint64_t one = 1;

    while (fd >= 0 && write(fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

static void
on_signal(int number)
{
    int reason = errno;
    int64_t nothing = 0, now_ms = clock_ms();
    int wish = number == signals[1] ? 1 : 2;

    if (atomic_compare_exchange_strong(&heard, &nothing, now_ms << WISH_BITS | wish)) {
        wake(atomic_load(&wake_fd));
    } else if (now_ms - (nothing >> WISH_BITS) >= TWICE_MS) {
        signal(number, SIG_DFL);
        raise(number); /* once this returns */
    }
    errno = reason;
}

int
cli_run_stop_wish(void)
{
    return (int)(atomic_load(&heard) & ((1 << WISH_BITS) - 1));
}

int
cli_run_stop_signal(int wish)
{
    return signals[wish];
}

static gpointer
wait_for_it(gpointer data)
{
    struct cli_run_stop *stop = data;
    uint64_t count;

    while (read(stop->fd, &count, sizeof count) < 0 && errno == EINTR)
        continue;
    if (cli_run_stop_wish())
        stop->tell(stop->data, signals[cli_run_stop_wish()]);
    return NULL;
}

struct cli_run_stop *
cli_run_stop_begin(void (*tell)(void *data, int signal), void *data)
{
    struct cli_run_stop *stop = g_new0(struct cli_run_stop, 1);
    struct sigaction mine = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

    stop->tell = tell;
    stop->data = data;
    stop->fd = eventfd(0, EFD_CLOEXEC);
    if (stop->fd >= 0) /* else it ends all the same, and nothing is told before */
        stop->thread = mw_thread_start("signals", wait_for_it, stop, NULL);
    atomic_store(&heard, 0);
    atomic_store(&wake_fd, stop->fd);
    for (int i = 1; i <= MW_TRAINER_WISHES; i++) {
        sigaction(signals[i], NULL, &stop->before[i]);
        if (stop->before[i].sa_handler != SIG_IGN)
            sigaction(signals[i], &mine, NULL);
    }
    return stop;
}

void
cli_run_stop_end(struct cli_run_stop *stop)
{
    for (int i = 1; i <= MW_TRAINER_WISHES; i++)
        sigaction(signals[i], &stop->before[i], NULL);
    atomic_store(&wake_fd, -1);
    wake(stop->fd);
    if (stop->thread)
        g_thread_join(stop->thread);
    if (stop->fd >= 0)
        close(stop->fd);
    g_free(stop);
}
