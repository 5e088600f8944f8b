/*
 * stop.h - ends a run after its current step at SIGINT (Ctrl-C), SIGTERM (of batch schedulers and
 * systemd, before they kill), SIGHUP (of a terminal that is closed) and schedulers' warnings.  A
 * second signal that is no warning ends the process at once, as it does elsewhere.
 */
#ifndef MW_CLI_RUN_STOP_H
#define MW_CLI_RUN_STOP_H

/* Number of wishes that signals make; mw_trainer_options has one more. */
#define CLI_RUN_STOP_WISHES 6

struct cli_run_stop;

/* Both are called in a thread of their own. */
struct cli_run_stop_calls {
    void (*tell)(void *data, int signal); /* at the first, and the first after a warning */
    void (*look)(void *data, int signal); /* then ten times per second, until the end */
    void *data;
};

/* Starts noting signals (exec/host/signals.h).  One at a time per process. */
struct cli_run_stop *cli_run_stop_begin(const struct cli_run_stop_calls *calls);
/* Restores the signals' previous handling; calls that were under way have returned. */
void cli_run_stop_end(struct cli_run_stop *stop);

/* A wish of mw_trainer_options: that of the signal noted in this process; 0: none. */
int cli_run_stop_wish(void);
int cli_run_stop_signal(int wish);
const char *cli_run_stop_name(int wish); /* of its signal, for messages */

#endif
