/*
 * signals.h - SIGINT (Ctrl-C), SIGTERM (of launchers, batch schedulers and systemd, before they
 * kill), SIGHUP (of a terminal that is closed, a connection that is lost), and what batch
 * schedulers warn with while there is time left: SIGXCPU, SIGUSR1, SIGUSR2.  One owner of their
 * handlers in a process, for all that want to hear of them.
 *
 * Of those that listen to a signal, the one that began last hears it, and may tell another one.
 * Only the first signal is heard: another one, 200 ms later or more, ends the process at once, as
 * it does where nobody listens.  Warnings end nothing at once, however many there are (SIGXCPU
 * comes every second), and the first other signal behind one is heard as the first.  A signal that
 * is ignored stays so.
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
 * did before.  Those that listen begin and end in one thread, the last one first. */
struct mw_signals *mw_signals_begin(unsigned which);
/* Signals are again what they were before.  What was heard can be asked for, and who waits can be
 * woken, until the next one begins.  NULL is allowed, as it is below. */
void mw_signals_end(struct mw_signals *signals);

/* The number of the signal; 0: none so far.  Any thread. */
int mw_signals_heard(const struct mw_signals *signals);
/* As if the signal had come to that one.  Any thread. */
void mw_signals_tell(struct mw_signals *signals, int number);

/* Until a signal is heard or who waits is woken, one of `fds` (`count`, the first of which is for
 * this one's own use) has an event, or timeout_ms are over (-1: for ever).  It may return for
 * nothing.  One thread of each that listens; not NULL. */
void mw_signals_wait(struct mw_signals *signals, struct pollfd *fds, int count, int timeout_ms);
void mw_signals_wake(struct mw_signals *signals);

#endif
