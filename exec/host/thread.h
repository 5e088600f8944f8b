/*
 * thread.h - threads where the system may refuse one: then an error says so, and the program goes
 * on.
 */
#ifndef MW_EXEC_HOST_THREAD_H
#define MW_EXEC_HOST_THREAD_H

#include <glib.h>
#include <stdbool.h>

/* To be joined.  `name`: of the thread, and of what it does in the error, MW_ERROR_DEVICE; NULL
 * then. */
GThread *mw_thread_start(const char *name, GThreadFunc run, void *data, GError **error);

/* Whether so many threads more can live at once: they are started and ended.  For libraries that
 * end the program where they cannot start theirs. */
bool mw_thread_room(int count, GError **error);

#endif
