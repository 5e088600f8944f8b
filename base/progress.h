/*
 * progress.h - how far a long question is, told to whoever listens: a terminal, a notebook.
 *
 * Each thread has a listener of its own.
 */
#ifndef MW_BASE_PROGRESS_H
#define MW_BASE_PROGRESS_H

#include <glib.h>

/* `doing`: what is done now, NULL when the question ends; `simulated`: plans, since it began. */
typedef void (*mw_progress_listener)(void *data, const char *doing, int simulated);

/* From now on `listener` (NULL: nobody) hears of this thread's questions. */
void mw_progress_listen(mw_progress_listener listener, void *data);

/* What is done now. */
void mw_progress(const char *format, ...) G_GNUC_PRINTF(1, 2);
/* One more plan is simulated, for what was said last. */
void mw_progress_simulates(void);
/* The question ends. */
void mw_progress_end(void);

#endif
