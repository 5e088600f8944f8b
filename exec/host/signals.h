/*
 * signals.h - SIGINT (Ctrl-C), SIGTERM (sent by launchers, batch schedulers and systemd before they
 * kill), SIGHUP (a terminal was closed, a connection was lost), and the warnings that batch
 * schedulers send while there is time left: SIGXCPU, SIGUSR1, SIGUSR2.  This is the only owner of
 * their handlers in a process; whatever wants to hear of them listens here.
 *
 * Of the listeners to a signal, the one that began last hears it, and may pass it on to another
 * one. Only the first signal is heard: a second one, 200 ms later or more, ends the process at
 * once, as it does where nobody listens.  Warnings never end the process at once, however many
 * there are (SIGXCPU comes every second), and the first other signal after a warning is heard as
 * the first.  A signal that is ignored stays ignored.
 */
#ifndef MW_EXEC_HOST_SIGNALS_H
#define MW_EXEC_HOST_SIGNALS_H

#include <poll.h>

/* Bits of those to listen to. */
#define MW_SIGNALS_INT 1u
#define MW_SIGNALS_TERM 2u
#define MW_SIGNALS_HUP 4u
#define MW_SIGNALS_WARNINGS 56u

#define MW_SIGNALS_LISTENERS_MAX 4

struct mw_signals;

/* Listens from now on.  NULL where the system has no descriptor for it: then signals do what they
 * did before.  Listeners begin and end in one thread, the last one first. */
struct mw_signals *mw_signals_begin(unsigned which);
/* Restores what signals did before.  mw_signals_heard and mw_signals_wake may still be called,
 * until the next listener begins.  NULL is allowed, as it is below. */
void mw_signals_end(struct mw_signals *signals);

/* The number of the signal; 0: none so far.  Any thread. */
int mw_signals_heard(const struct mw_signals *signals);
/* As if this listener had heard the signal.  Any thread. */
void mw_signals_tell(struct mw_signals *signals, int number);

/* Waits until a signal arrives, mw_signals_wake is called, one of `fds` has an event, or timeout_ms
 * have passed (-1: no limit); it may return early.  `count` counts `fds`, the first of which is
 * reserved for this function.  One thread per listener; not NULL. */
void mw_signals_wait(struct mw_signals *signals, struct pollfd *fds, int count, int timeout_ms);
void mw_signals_wake(struct mw_signals *signals);

#endif
