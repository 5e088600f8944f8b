/* Walks over a model's operators that the thread remembers: a search sizes each micro-batch in many
 * placements, tiles and chunks. */
#include <glib.h>
#include <string.h>

#include "planner/sizing/internal.h"

#define REMEMBERED 8

/* Of one model, the newest one. */
struct walks {
    struct mw_model model;
    struct mw_shape shapes[REMEMBERED];
    struct mw_model_walk walks[REMEMBERED];
    int count, next; /* to be forgotten */
};

static GPrivate walks_of_thread = G_PRIVATE_INIT(g_free);

static struct walks *
remembered(const struct mw_model *model)
{
    struct walks *walks = g_private_get(&walks_of_thread);

    if (!walks) {
        walks = g_new0(struct walks, 1);
        g_private_set(&walks_of_thread, walks);
    }
    if (!mw_model_is_same(&walks->model, model)) {
        walks->model = *model;
        walks->count = walks->next = 0;
    }
    return walks;
}

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
    struct walks *walks = remembered(model);

    for (int i = 0; i < walks->count; i++)
        if (!memcmp(&walks->shapes[i], shape, sizeof *shape)) {
            copy_walk(&walks->walks[i], walk);
            return true;
        }
    if (!mw_model_walk_checked(model, shape, walk, error))
        return false;
    walks->shapes[walks->next] = *shape;
    copy_walk(walk, &walks->walks[walks->next]);
    walks->next = (walks->next + 1) % REMEMBERED;
    walks->count = MIN(walks->count + 1, REMEMBERED);
    return true;
}
