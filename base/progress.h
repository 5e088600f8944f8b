/*
 * progress.h - reports how far a long question is, to a listener: a terminal, a notebook.
 *
 * Each thread has a listener of its own.
 */
#ifndef MW_BASE_PROGRESS_H
#define MW_BASE_PROGRESS_H

#include <glib.h>

/* `doing`: the current activity, NULL when the question ends; `simulated`: plans since it began. */
typedef void (*mw_progress_listener)(void *data, const char *doing, int simulated);

/* Sets the listener for this thread's questions (NULL: none). */
void mw_progress_listen(mw_progress_listener listener, void *data);

/* Reports the current activity. */
void mw_progress(const char *format, ...) G_GNUC_PRINTF(1, 2);
/* Reports one more simulated plan of the current activity. */
void mw_progress_simulates(void);
/* Reports the end of the question. */
void mw_progress_end(void);

#endif
