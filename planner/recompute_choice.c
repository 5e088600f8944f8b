/* Which layers keep their activations, where they are unlike: dense ones and experts, with a window
 * or without. */
#include <glib.h>

#include "planner/planner.h"
#include "planner/recompute_choice.h"

/* More of them than are worth an estimate each. */
#define CHOICES_MAX 16

/* How many layers of each kind keep their activations: the last ones of the kind. */
struct choice {
    int64_t kept[MW_BLOCK_KIND_COUNT];
    double saved_s;
};

struct walk {
    const struct mw_request *request;
    const struct mw_sizing *all; /* recomputes all layers */
    int64_t logits_chunks;       /* as asked: cutting the logits leaves room for a layer more */
    int kinds;
    enum mw_class kind[MW_BLOCK_KIND_COUNT];
    double layer_s[MW_BLOCK_KIND_COUNT];
    struct choice best[CHOICES_MAX + 1]; /* by what they save, the most first */
    int count;
};

static void
find_kinds(struct walk *walk)
{
    for (int c = MW_CLASS_LAYERS; c < MW_CLASS_TAIL; c++)
        if (walk->all->classes[c].blocks) {
            walk->kind[walk->kinds] = (enum mw_class)c;
            walk->layer_s[walk->kinds++] = mw_sizing_forward_s(walk->all, (enum mw_class)c);
        }
}

static int64_t
layers_of(const struct walk *walk, int kind)
{
    return walk->all->classes[walk->kind[kind]].blocks;
}

bool
mw_planner_recompute_evenly(struct mw_settings *settings, int64_t layers, int64_t again)
{
    settings->recompute_layers = MW_AUTO;
    settings->recompute_set = (struct mw_layer_set){{0}};
    settings->whole_checkpoints = again < layers;
    if (again == 0)
        return settings->param_loads != 2 && settings->checkpoint_dtype == MW_DTYPE_NONE;
    if (again < layers && layers > MW_LAYER_SET_MAX)
        settings->recompute_layers = again;
    for (int64_t layer = 0; again < layers && layers <= MW_LAYER_SET_MAX && layer < layers; layer++)
        if (layer * again % layers < again)
            mw_layer_set_add(&settings->recompute_set, layer);
    return true;
}

/* Of each kind the first layers are recomputed.  Those of a kind cost alike and keep as much, so
 * which ones makes no difference. */
static struct mw_sizing *
size_choice(const struct walk *walk, const int64_t *kept)
{
    struct mw_settings s = walk->all->settings;
    int64_t left[MW_BLOCK_KIND_COUNT];

    s.logits_chunks = walk->logits_chunks;
    s.recompute_layers = MW_AUTO;
    s.recompute_set = (struct mw_layer_set){{0}};
    for (int k = 0; k < walk->kinds; k++)
        left[k] = layers_of(walk, k) - kept[k];
    for (int64_t layer = 0; layer < walk->all->layers; layer++)
        for (int k = 0; k < walk->kinds; k++)
            if (walk->kind[k] == mw_sizing_layer_class(walk->all, layer) && left[k]-- > 0)
                mw_layer_set_add(&s.recompute_set, layer);
    if (mw_layer_set_is_empty(&s.recompute_set))
        return NULL;
    return mw_planner_size_placement(walk->request, &s, NULL);
}

static bool
choice_fits(const struct walk *walk, const int64_t *kept)
{
    struct mw_sizing *sizing = size_choice(walk, kept);
    bool fits = sizing && sizing->fits;

    mw_sizing_free(sizing);
    return fits;
}

static void
take(struct walk *walk, const int64_t *kept)
{
    struct choice new = {.saved_s = 0};
    int place = walk->count;

    for (int k = 0; k < walk->kinds; k++) {
        new.kept[k] = kept[k];
        new.saved_s += (double)kept[k] * walk->layer_s[k];
    }
    for (; place > 0 && walk->best[place - 1].saved_s < new.saved_s; place--)
        walk->best[place] = walk->best[place - 1];
    walk->best[place] = new;
    walk->count = MIN(walk->count + 1, CHOICES_MAX);
}

/* For each number of layers of the last kind but one the most of the last kind: more of the one
 * never leaves room for more of the other, so the search goes down a staircase. */
static void
walk_stairs(struct walk *walk, int64_t *kept)
{
    int one = walk->kinds - 2, other = walk->kinds - 1;

    kept[other] = layers_of(walk, other);
    for (kept[one] = 0; kept[one] <= layers_of(walk, one); kept[one]++) {
        while (kept[other] >= 0 && !choice_fits(walk, kept))
            kept[other]--;
        if (kept[other] < 0)
            return;
        take(walk, kept);
    }
}

static void
walk_kinds(struct walk *walk, int kind, int64_t *kept)
{
    if (kind >= walk->kinds - 2) {
        walk_stairs(walk, kept);
        return;
    }
    for (kept[kind] = 0; kept[kind] <= layers_of(walk, kind); kept[kind]++)
        walk_kinds(walk, kind + 1, kept);
}

GPtrArray *
mw_planner_recompute_choices(const struct mw_request *request, const struct mw_settings *asked,
                             const struct mw_sizing *all)
{
    struct walk walk = {.request = request, .all = all, .logits_chunks = asked->logits_chunks};
    int64_t kept[MW_BLOCK_KIND_COUNT] = {0};
    GPtrArray *found = g_ptr_array_new_with_free_func((GDestroyNotify)mw_sizing_free);

    if (all->pp > 1 || all->layers > MW_LAYER_SET_MAX)
        return found;
    find_kinds(&walk);
    if (walk.kinds < 2)
        return found;
    walk_kinds(&walk, 0, kept);
    for (int i = 0; i < walk.count; i++) {
        struct mw_sizing *sizing = size_choice(&walk, walk.best[i].kept);
        if (sizing)
            g_ptr_array_add(found, sizing);
    }
    return found;
}
