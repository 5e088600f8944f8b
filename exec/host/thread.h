/*
 * thread.h - starts threads where the system may refuse one: then an error says so, and the program
 * continues.
 */
#ifndef MW_EXEC_HOST_THREAD_H
#define MW_EXEC_HOST_THREAD_H

#include <glib.h>
#include <stdbool.h>

/* The caller joins it.  `name` names the thread, and in the error what the thread does.  NULL with
 * *error (MW_ERROR_DEVICE) if the system refuses. */
GThread *mw_thread_start(const char *name, GThreadFunc run, void *data, GError **error);

/* Whether this many more threads can live at once: starts them and lets them end.  For libraries
 * that end the program if they cannot start theirs. */
bool mw_thread_can_start(int count, GError **error);

#endif
