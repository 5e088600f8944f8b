#include "base/thread_memory.h"

#include <stdint.h>
#include <string.h>

/* What one thread has of a memory. */
struct held {
    const struct mw_thread_memory *memory;
    size_t *sizes; /* [places * ways] of keys; 0: there is none */
    char *keys, *values;
    guint *next; /* [places] the way to be forgotten */
};

static void
clear_value(const struct held *held, size_t entry)
{
    const struct mw_thread_memory *memory = held->memory;

    if (held->sizes[entry] && memory->clear)
        memory->clear(held->values + entry * memory->value_bytes);
}

void
mw_thread_memory_free(void *data)
{
    struct held *held = data;

    for (size_t i = 0; i < (size_t)held->memory->places * held->memory->ways; i++)
        clear_value(held, i);
    g_free(held->sizes);
    g_free(held->keys);
    g_free(held->values);
    g_free(held->next);
    g_free(held);
}

static struct held *
held_here(struct mw_thread_memory *memory)
{
    struct held *held = g_private_get(&memory->of_thread);
    size_t entries = (size_t)memory->places * memory->ways;

    if (held)
        return held;
    held = g_new(struct held, 1);
    *held = (struct held){memory, g_new0(size_t, entries), g_malloc0_n(entries, memory->key_bytes),
                          g_malloc0_n(entries, memory->value_bytes), g_new0(guint, memory->places)};
    g_private_set(&memory->of_thread, held);
    return held;
}

/* Multiplicative, by words: 2^64 divided by the golden ratio (Knuth, The Art of Computer
 * Programming, vol. 3, 6.4). */
static size_t
place_of(const struct mw_thread_memory *memory, const void *key, size_t key_bytes)
{
    uint64_t word, sum = 0;

    if (memory->places == 1)
        return 0;
    for (size_t at = 0; at + sizeof word <= key_bytes; at += sizeof word) {
        memcpy(&word, (const char *)key + at, sizeof word);
        sum = (sum ^ word ^ sum >> 29) * UINT64_C(0x9e3779b97f4a7c15);
    }
    return (size_t)(sum >> 32) & (memory->places - 1);
}

void *
mw_thread_memory_find(struct mw_thread_memory *memory, const void *key, size_t key_bytes)
{
    const struct held *held = held_here(memory);
    size_t first = place_of(memory, key, key_bytes) * memory->ways;

    for (size_t i = first; i < first + memory->ways; i++)
        if (held->sizes[i] == key_bytes &&
            !memcmp(held->keys + i * memory->key_bytes, key, key_bytes))
            return held->values + i * memory->value_bytes;
    return NULL;
}

void *
mw_thread_memory_keep(struct mw_thread_memory *memory, const void *key, size_t key_bytes)
{
    struct held *held = held_here(memory);
    size_t place = place_of(memory, key, key_bytes);
    size_t entry = place * memory->ways + held->next[place];

    g_return_val_if_fail(key_bytes && key_bytes <= memory->key_bytes, NULL);
    held->next[place] = (held->next[place] + 1) % memory->ways;
    clear_value(held, entry);
    held->sizes[entry] = key_bytes;
    memcpy(held->keys + entry * memory->key_bytes, key, key_bytes);
    return held->values + entry * memory->value_bytes;
}
