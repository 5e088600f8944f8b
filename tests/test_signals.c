/* Who gets SIGINT, SIGTERM and SIGHUP: with several listeners, for an ignored signal, for a second
 * one; and that nothing late is written to a descriptor of others. */
#include <glib.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/host/signals.h"

#define ALL (MW_SIGNALS_INT | MW_SIGNALS_TERM | MW_SIGNALS_HUP)
#define LATER_US 300000

static bool
is_taken(int number)
{
    struct sigaction now;

    sigaction(number, NULL, &now);
    return now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN;
}

static void
test_heard(void)
{
    struct pollfd own;
    struct mw_signals *signals = mw_signals_begin(ALL);

    g_assert_cmpint(mw_signals_heard(signals), ==, 0);
    raise(SIGTERM);
    g_assert_cmpint(mw_signals_heard(signals), ==, SIGTERM);
    mw_signals_wait(signals, &own, 1, -1);
    mw_signals_end(signals);
    g_assert_cmpint(mw_signals_heard(signals), ==, SIGTERM);
    g_assert_false(is_taken(SIGINT) || is_taken(SIGTERM));
    signals = mw_signals_begin(MW_SIGNALS_INT);
    g_assert_cmpint(mw_signals_heard(signals), ==, 0);
    g_assert_true(is_taken(SIGINT) && !is_taken(SIGTERM));
    mw_signals_wake(signals);
    mw_signals_wait(signals, &own, 1, -1);
    mw_signals_end(signals);
    g_assert_cmpint(mw_signals_heard(NULL), ==, 0);
    mw_signals_end(NULL);
    mw_signals_tell(NULL, SIGINT);
}

static void
test_several(void)
{
    struct mw_signals *first = mw_signals_begin(MW_SIGNALS_TERM);
    struct mw_signals *second = mw_signals_begin(MW_SIGNALS_INT);

    raise(SIGTERM);
    g_assert_cmpint(mw_signals_heard(first), ==, SIGTERM);
    g_assert_cmpint(mw_signals_heard(second), ==, 0);
    mw_signals_end(second);
    mw_signals_end(first);
    first = mw_signals_begin(MW_SIGNALS_TERM);
    second = mw_signals_begin(ALL);
    raise(SIGTERM);
    g_assert_cmpint(mw_signals_heard(first), ==, 0);
    g_assert_cmpint(mw_signals_heard(second), ==, SIGTERM);
    mw_signals_tell(first, SIGTERM);
    g_assert_cmpint(mw_signals_heard(first), ==, SIGTERM);
    mw_signals_end(second);
    g_assert_true(is_taken(SIGTERM) && !is_taken(SIGINT));
    mw_signals_end(first);
    g_assert_false(is_taken(SIGTERM));
}

static void
test_ignored(void)
{
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    struct mw_signals *signals = mw_signals_begin(ALL);
    raise(SIGINT);
    raise(SIGHUP);
    g_assert_cmpint(mw_signals_heard(signals), ==, 0);
    mw_signals_end(signals);
    g_assert_true(signal(SIGINT, SIG_DFL) == SIG_IGN);
    g_assert_true(signal(SIGHUP, SIG_DFL) == SIG_IGN);
    signals = mw_signals_begin(ALL);
    raise(SIGHUP);
    g_assert_cmpint(mw_signals_heard(signals), ==, SIGHUP);
    mw_signals_end(signals);
}

/* The signal that ends a process which is told twice, the second time so much later. */
static int
end_of(gulong later_us)
{
    int status;
    pid_t child = fork();

    if (!child) {
        mw_signals_begin(ALL);
        raise(SIGTERM);
        g_usleep(later_us);
        raise(SIGINT);
        _exit(0);
    }
    g_assert_cmpint(waitpid(child, &status, 0), ==, child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void
test_again(void)
{
    int tries = 20;

    g_assert_cmpint(end_of(LATER_US), ==, SIGINT);
    while (end_of(0) && --tries) /* a busy machine may take its time between the two */
        continue;
    g_assert_cmpint(tries, >, 0);
}

/* Warnings come again and again, and what comes behind them is the first of its kind. */
static void
warned_child(void)
{
    struct mw_signals *signals = mw_signals_begin(ALL | MW_SIGNALS_WARNINGS);

    for (int i = 0; i < 2; i++, g_usleep(LATER_US))
        raise(SIGXCPU);
    bool good = mw_signals_heard(signals) == SIGXCPU;
    raise(SIGTERM);
    good = good && mw_signals_heard(signals) == SIGTERM;
    g_usleep(LATER_US);
    raise(SIGUSR1);
    good = good && mw_signals_heard(signals) == SIGTERM;
    if (good)
        raise(SIGINT);
    _exit(1);
}

static void
test_warned(void)
{
    int status;
    pid_t child = fork();

    if (!child)
        warned_child();
    g_assert_cmpint(waitpid(child, &status, 0), ==, child);
    g_assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
}

static char *
descriptor(int fd)
{
    g_autofree char *link = g_strdup_printf("/proc/self/fd/%d", fd);
    return g_file_read_link(link, NULL);
}

/* A handler in another thread may write when its listener has ended: to what was opened for it. */
static void
test_descriptor(void)
{
    struct pollfd own;

    for (int i = 0; i < 3; i++) {
        struct mw_signals *signals = mw_signals_begin(ALL);
        int before = i ? own.fd : -1;
        mw_signals_wait(signals, &own, 1, 0);
        mw_signals_end(signals);
        g_autofree char *name = descriptor(own.fd);
        g_assert_cmpstr(name, ==, "anon_inode:[eventfd]");
        g_assert_true(i == 0 || own.fd == before);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/signals/heard", test_heard);
    g_test_add_func("/signals/several", test_several);
    g_test_add_func("/signals/ignored", test_ignored);
    g_test_add_func("/signals/again", test_again);
    g_test_add_func("/signals/warned", test_warned);
    g_test_add_func("/signals/descriptor", test_descriptor);
    return g_test_run();
}
