#include "cli/run/stop.h"

#include <glib.h>
#include <signal.h>
#include <stdatomic.h>

#include "exec/host/signals.h"
#include "exec/host/thread.h"

/* In the order of wishes.  If ranks have different wishes, the highest ends the run. */
static const int signals[] = {0, SIGUSR2, SIGUSR1, SIGXCPU, SIGHUP, SIGINT, SIGTERM};
G_STATIC_ASSERT(G_N_ELEMENTS(signals) == 1 + CLI_RUN_STOP_WISHES);

#define LOOK_MS 100

struct cli_run_stop {
    struct cli_run_stop_calls calls;
    GThread *thread; /* NULL: the run still ends at a signal, but nothing is said before */
    atomic_bool over;
};

static const char *const names[] = {NULL,     "SIGUSR2", "SIGUSR1", "SIGXCPU",
                                    "SIGHUP", "SIGINT",  "SIGTERM"};
G_STATIC_ASSERT(G_N_ELEMENTS(names) == G_N_ELEMENTS(signals));

static struct mw_signals *listener;

int
cli_run_stop_wish(void)
{
    int number = mw_signals_heard(listener), wish = CLI_RUN_STOP_WISHES;

    while (wish && signals[wish] != number)
        wish--;
    return wish;
}

int
cli_run_stop_signal(int wish)
{
    return signals[wish];
}

const char *
cli_run_stop_name(int wish)
{
    return names[wish];
}

static gpointer
look_after(gpointer data)
{
    struct cli_run_stop *stop = data;
    struct pollfd own;
    int number, told = 0;

    do {
        number = mw_signals_heard(listener);
        if (number != told)
            stop->calls.tell(stop->calls.data, number);
        else if (number)
            stop->calls.look(stop->calls.data, number);
        told = number;
        mw_signals_wait(listener, &own, 1, number ? LOOK_MS : -1);
    } while (!atomic_load(&stop->over));
    number = mw_signals_heard(listener);
    if (number != told)
        stop->calls.tell(stop->calls.data, number);
    return NULL;
}

struct cli_run_stop *
cli_run_stop_begin(const struct cli_run_stop_calls *calls)
{
    struct cli_run_stop *stop = g_new0(struct cli_run_stop, 1);

    stop->calls = *calls;
    listener =
        mw_signals_begin(MW_SIGNALS_INT | MW_SIGNALS_TERM | MW_SIGNALS_HUP | MW_SIGNALS_WARNINGS);
    if (listener)
        stop->thread = mw_thread_start("signals", look_after, stop, NULL);
    return stop;
}

void
cli_run_stop_end(struct cli_run_stop *stop)
{
    mw_signals_end(listener);
    atomic_store(&stop->over, true);
    mw_signals_wake(listener);
    if (stop->thread)
        g_thread_join(stop->thread);
    listener = NULL;
    g_free(stop);
}
