/*
 * run_stop.h - SIGINT (Ctrl-C) and SIGTERM (of batch schedulers and systemd, before they kill) end
 * a run after the step that it is in.  Another one ends the process at once, as they do elsewhere.
 */
#ifndef MW_CLI_RUN_STOP_H
#define MW_CLI_RUN_STOP_H

struct cli_run_stop;

/* From now on the first signal is noted, and told to `tell`, in a thread of its own.  One that is
 * ignored stays so.  One at a time in a process. */
struct cli_run_stop *cli_run_stop_begin(void (*tell)(void *data, int signal), void *data);
/* Signals are as they were before; `tell` has returned. */
void cli_run_stop_end(struct cli_run_stop *stop);

/* A wish of mw_trainer_options: of the signal that was noted, of any in this process; 0: none. */
int cli_run_stop_wish(void);
int cli_run_stop_signal(int wish);

#endif
