/*
 * thread_memory.h - what a thread remembers: values by key, of which the newest stay.
 *
 * A key is bytes, padding among them, so all of it is set; whole words of it are hashed.  What is
 * found was kept with the same bytes, whatever else was kept since: what a thread remembers never
 * changes an answer.  It is freed with the thread.
 */
#ifndef MW_BASE_THREAD_MEMORY_H
#define MW_BASE_THREAD_MEMORY_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>

/* Static, one for each use. */
struct mw_thread_memory {
    size_t key_bytes, value_bytes; /* the most that a key has; each value */
    guint places, ways;            /* a power of two, found by the hash; values of a place */
    void (*clear)(void *value);    /* frees what a value owns; NULL: nothing */
    GPrivate of_thread;
};
#define MW_THREAD_MEMORY(key_type, value_type, places, ways, clear)                                \
    {                                                                                              \
        sizeof(key_type), sizeof(value_type), places, ways, clear,                                 \
            G_PRIVATE_INIT(mw_thread_memory_free)                                                  \
    }

/* The value that was kept with this key; NULL: none was, or it was forgotten for others.  It is
 * there until the thread keeps another one here. */
void *mw_thread_memory_find(struct mw_thread_memory *memory, const void *key, size_t key_bytes);
/* Room for the value of a key that was not found: it is filled at once. */
void *mw_thread_memory_keep(struct mw_thread_memory *memory, const void *key, size_t key_bytes);

void mw_thread_memory_free(void *held); /* of a thread that ends */

#endif
