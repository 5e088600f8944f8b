/*
 * stop.h - SIGINT (Ctrl-C), SIGTERM (of batch schedulers and systemd, before they kill), SIGHUP
 * (of a terminal that is closed) and schedulers' warnings end a run after the step that it is in.
 * Another one that is no warning ends the process at once, as it does elsewhere.
 */
#ifndef MW_CLI_RUN_STOP_H
#define MW_CLI_RUN_STOP_H

/* Of signals; mw_trainer_options has one more. */
#define CLI_RUN_STOP_WISHES 6

struct cli_run_stop;

/* Both in a thread of their own. */
struct cli_run_stop_calls {
    void (*tell)(void *data, int signal); /* the first signal, and the first behind a warning */
    void (*look)(void *data, int signal); /* ten times a second from then on, until the end */
    void *data;
};

/* From now on signals are noted (exec/host/signals.h).  One at a time in a process. */
struct cli_run_stop *cli_run_stop_begin(const struct cli_run_stop_calls *calls);
/* Signals are as they were before; what was called has returned. */
void cli_run_stop_end(struct cli_run_stop *stop);

/* A wish of mw_trainer_options: of the signal that was noted, of any in this process; 0: none. */
int cli_run_stop_wish(void);
int cli_run_stop_signal(int wish);
const char *cli_run_stop_name(int wish); /* of its signal, for messages */

#endif
