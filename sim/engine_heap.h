/* engine_heap.h - an indexed binary heap of (time, item), for the next completion of every work
 * that has ops in flight.  A key is changed in place, so there are no stale entries to drop. */
#ifndef MW_SIM_ENGINE_HEAP_H
#define MW_SIM_ENGINE_HEAP_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define MW_HEAP_ABSENT UINT32_MAX

struct mw_heap_entry {
    int64_t time_ns;
    uint32_t item;
};

struct mw_heap {
    struct mw_heap_entry *entries;
    uint32_t *position; /* [items] in `entries`, or MW_HEAP_ABSENT */
    uint32_t count;
};

static inline void
mw_heap_init(struct mw_heap *heap, uint32_t items)
{
    heap->entries = g_new(struct mw_heap_entry, items);
    heap->position = g_new(uint32_t, items);
    heap->count = 0;
    for (uint32_t i = 0; i < items; i++)
        heap->position[i] = MW_HEAP_ABSENT;
}

static inline void
mw_heap_clear(struct mw_heap *heap)
{
    g_free(heap->entries);
    g_free(heap->position);
}

/* Orders equal times by item, so that the order does not depend on history. */
static inline bool
mw_heap_before(struct mw_heap_entry a, struct mw_heap_entry b)
{
    return a.time_ns < b.time_ns || (a.time_ns == b.time_ns && a.item < b.item);
}

static inline void
mw_heap_place(struct mw_heap *heap, uint32_t at, struct mw_heap_entry entry)
{
    heap->entries[at] = entry;
    heap->position[entry.item] = at;
}

static inline void
mw_heap_sift_up(struct mw_heap *heap, uint32_t at, struct mw_heap_entry entry)
{
    while (at > 0) {
        uint32_t parent = (at - 1) / 2;
        if (!mw_heap_before(entry, heap->entries[parent]))
            break;
        mw_heap_place(heap, at, heap->entries[parent]);
        at = parent;
    }
    mw_heap_place(heap, at, entry);
}

static inline void
mw_heap_sift_down(struct mw_heap *heap, uint32_t at, struct mw_heap_entry entry)
{
    for (uint32_t child; (child = 2 * at + 1) < heap->count; at = child) {
        if (child + 1 < heap->count &&
            mw_heap_before(heap->entries[child + 1], heap->entries[child]))
            child++;
        if (!mw_heap_before(heap->entries[child], entry))
            break;
        mw_heap_place(heap, at, heap->entries[child]);
    }
    mw_heap_place(heap, at, entry);
}

/* Inserts `item`, or moves it to its new time. */
static inline void
mw_heap_set(struct mw_heap *heap, uint32_t item, int64_t time_ns)
{
    struct mw_heap_entry entry = {time_ns, item};
    uint32_t at = heap->position[item];

    if (at == MW_HEAP_ABSENT)
        mw_heap_sift_up(heap, heap->count++, entry);
    else if (mw_heap_before(entry, heap->entries[at]))
        mw_heap_sift_up(heap, at, entry);
    else
        mw_heap_sift_down(heap, at, entry);
}

static inline uint32_t
mw_heap_pop(struct mw_heap *heap)
{
    uint32_t item = heap->entries[0].item;

    heap->position[item] = MW_HEAP_ABSENT;
    if (--heap->count > 0)
        mw_heap_sift_down(heap, 0, heap->entries[heap->count]);
    return item;
}

#endif
