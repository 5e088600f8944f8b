#include "base/clock.h"
#include "exec/host/signals.h"

#include <errno.h>
#include <glib.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* By bit. */
static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGXCPU, SIGUSR1, SIGUSR2};

/* `timeout` and shells send a signal to the process and to its group: that counts as one signal. */
#define TWICE_MS 200
#define NUMBER_BITS 8
#define NUMBER_MASK ((1 << NUMBER_BITS) - 1)

struct mw_signals {
    unsigned which;
    _Atomic int64_t heard; /* ms of the monotonic clock << NUMBER_BITS | number; 0: nothing */
    int fd;                /* rings; + 1, 0: it was never opened */
    struct sigaction before[G_N_ELEMENTS(numbers)];
};

/* A handler can reach nothing else, and a handler in another thread may still use a listener that
 * has ended: so listeners and their descriptors stay for the life of the process. */
static struct mw_signals all[MW_SIGNALS_LISTENERS_MAX];
static atomic_int count;

void
mw_signals_wake(struct mw_signals *signals)
{
    uint64_t one = 1;

    while (signals && write(signals->fd - 1, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

/* --- in a handler ---------------------------------------------------------------------------- */

static struct mw_signals *
listener_to(int number)
{
    for (int i = atomic_load(&count) - 1; i >= 0; i--)
        for (size_t bit = 0; bit < G_N_ELEMENTS(numbers); bit++)
            if (numbers[bit] == number && all[i].which >> bit & 1)
                return &all[i];
    return NULL;
}

static bool
is_warning(int number)
{
    return number == SIGXCPU || number == SIGUSR1 || number == SIGUSR2;
}

/* False: another signal was heard before this one. */
static bool
hear(struct mw_signals *signals, int number)
{
    int64_t before = 0, now_ms = mw_clock_now_ns() / 1000000, this = now_ms << NUMBER_BITS | number;

    if (!atomic_compare_exchange_strong(&signals->heard, &before, this)) {
        if (is_warning(number))
            return true;
        if (!is_warning(before & NUMBER_MASK) ||
            !atomic_compare_exchange_strong(&signals->heard, &before, this))
            return now_ms - (before >> NUMBER_BITS) < TWICE_MS;
    }
    mw_signals_wake(signals);
    return true;
}

/* A signal raised here comes after this returns.  Where the listener has just ended, it goes to
 * whatever handled it before. */
static void
on_signal(int number)
{
    int reason = errno;
    struct mw_signals *listener = listener_to(number);

    if (!listener) {
        raise(number);
    } else if (!hear(listener, number)) {
        signal(number, SIG_DFL);
        raise(number);
    }
    errno = reason;
}

/* --- who listens ----------------------------------------------------------------------------- */

static bool
open_once(struct mw_signals *signals)
{
    if (!signals->fd)
        signals->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) + 1;
    return signals->fd > 0;
}

struct mw_signals *
mw_signals_begin(unsigned which)
{
    struct sigaction mine = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    int index = atomic_load(&count);
    struct mw_signals *signals = &all[index];

    g_assert(index < MW_SIGNALS_LISTENERS_MAX);
    if (!open_once(signals))
        return NULL;
    signals->which = which;
    atomic_store(&signals->heard, 0);
    atomic_store(&count, index + 1);
    for (size_t bit = 0; bit < G_N_ELEMENTS(numbers); bit++) {
        sigaction(numbers[bit], NULL, &signals->before[bit]);
        if (which >> bit & 1 && signals->before[bit].sa_handler != SIG_IGN)
            sigaction(numbers[bit], &mine, NULL);
    }
    return signals;
}

void
mw_signals_end(struct mw_signals *signals)
{
    if (!signals)
        return;
    int index = atomic_load(&count) - 1;
    g_assert(signals == &all[index]);
    for (size_t bit = 0; bit < G_N_ELEMENTS(numbers); bit++)
        if (signals->which >> bit & 1)
            sigaction(numbers[bit], &signals->before[bit], NULL);
    atomic_store(&count, index);
}

int
mw_signals_heard(const struct mw_signals *signals)
{
    return signals ? (int)(atomic_load(&signals->heard) & ((1 << NUMBER_BITS) - 1)) : 0;
}

void
mw_signals_tell(struct mw_signals *signals, int number)
{
    if (signals)
        hear(signals, number);
}

void
mw_signals_wait(struct mw_signals *signals, struct pollfd *fds, int count_fds, int timeout_ms)
{
    uint64_t rings;

    fds[0] = (struct pollfd){.fd = signals->fd - 1, .events = POLLIN};
    while (poll(fds, (nfds_t)count_fds, timeout_ms) < 0 && errno == EINTR)
        continue;
    while (fds[0].revents && read(signals->fd - 1, &rings, sizeof rings) < 0 && errno == EINTR)
        continue;
}
