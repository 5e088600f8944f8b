/* Walks over a model's operators that the thread remembers: a search sizes each micro-batch in many
 * placements, tiles and chunks. */
#include <glib.h>
#include <string.h>

#include "base/thread_memory.h"
#include "planner/sizing/internal.h"

/* Models that have numbers, the newest. */
#define MODELS 2

struct numbers {
    struct mw_model models[MODELS];
    int64_t count; /* all that were met: the number of the next one */
};

static GPrivate numbers_of_thread = G_PRIVATE_INIT(g_free);

int64_t
mw_sizing_model_number(const struct mw_model *model)
{
    struct numbers *numbers = g_private_get(&numbers_of_thread);

    if (!numbers) {
        numbers = g_new0(struct numbers, 1);
        g_private_set(&numbers_of_thread, numbers);
    }
    for (int64_t i = numbers->count - 1; i >= MAX(0, numbers->count - MODELS); i--)
        if (mw_model_is_same(&numbers->models[i % MODELS], model))
            return i;
    numbers->models[numbers->count % MODELS] = *model;
    return numbers->count++;
}

struct walk_key {
    int64_t model; /* its number */
    struct mw_shape shape;
};

static struct mw_thread_memory walks =
    MW_THREAD_MEMORY(struct walk_key, struct mw_model_walk, 1, 8, NULL);

/* Operators behind the last are not set. */
static void
copy_operators(const struct mw_operators *from, struct mw_operators *to)
{
    to->count = from->count;
    memcpy(to->info, from->info, (size_t)from->count * sizeof *from->info);
}

static void
copy_walk(const struct mw_model_walk *from, struct mw_model_walk *to)
{
    copy_operators(&from->head, &to->head);
    copy_operators(&from->tail, &to->tail);
    for (int kind = 0; kind < MW_BLOCK_KIND_COUNT; kind++)
        copy_operators(&from->blocks[kind], &to->blocks[kind]);
}

bool
mw_sizing_walk(const struct mw_model *model, const struct mw_shape *shape,
               struct mw_model_walk *walk, GError **error)
{
    struct walk_key key;

    memset(&key, 0, sizeof key);
    key.model = mw_sizing_model_number(model);
    memcpy(&key.shape, shape, sizeof key.shape);
    const struct mw_model_walk *known = mw_thread_memory_find(&walks, &key, sizeof key);
    if (known) {
        copy_walk(known, walk);
        return true;
    }
    if (!mw_model_walk_checked(model, shape, walk, error))
        return false;
    copy_walk(walk, mw_thread_memory_keep(&walks, &key, sizeof key));
    return true;
}
