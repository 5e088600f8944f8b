/*
 * Slots that share bytes (--share-slots on; gradients of an update beside backward always).
 *
 * A step has four stretches: the layers forward, the model's end forward and backward (logits and
 * loss), the layers backward with what they recompute, and the update.  Buffers that hold something
 * in different ones may lie over each other.  So each tier has a room in which a buffer begins at
 * the first place where it meets no other that lives when it does.
 *
 * That is a choice of places alone.  The builder adds the edges that it needs, and the plan's check
 * proves it (plan/check_content.c).
 *
 * A buffer stays out of the room where its edges would hold something up: state that is read ahead
 * of the update, for example, while the drives have nothing else to do.
 */
#include <glib.h>

#include "base/arithmetic.h"
#include "planner/sizing/internal.h"

enum {
    LIVES_FORWARD = 1,
    LIVES_ENDS = 2,
    LIVES_BACKWARD = 4,
    LIVES_UPDATE = 8,
    LIVES_LAYERS = LIVES_FORWARD | LIVES_BACKWARD,
    LIVES_PASSES = LIVES_LAYERS | LIVES_ENDS,
    LIVES_ALWAYS = LIVES_PASSES | LIVES_UPDATE
};

/* In the order in which they take their places.  Rooms go on where the activations end. */
static const struct {
    enum mw_buffer_kind kind;
    unsigned lives;
} rows[] = {
    {MW_BUFFER_ACTIVATIONS, LIVES_ALWAYS},
    {MW_BUFFER_ROOMS, LIVES_LAYERS},
    {MW_BUFFER_GRADIENTS, LIVES_BACKWARD | LIVES_UPDATE},
    {MW_BUFFER_WIDENED, LIVES_LAYERS},
    {MW_BUFFER_LOGITS, LIVES_ENDS},
    {MW_BUFFER_PARAMETERS_PINNED, LIVES_PASSES},
    {MW_BUFFER_PARAMETERS_PINNED_SMALL, LIVES_PASSES},
    {MW_BUFFER_GRADIENTS_PINNED, LIVES_PASSES},
    {MW_BUFFER_GRADIENTS_PINNED_SMALL, LIVES_PASSES},
    {MW_BUFFER_CHECKPOINTS_PINNED, LIVES_PASSES},
    {MW_BUFFER_STATE_PINNED, LIVES_UPDATE},
    {MW_BUFFER_STATE_GPU, LIVES_UPDATE},
    {MW_BUFFER_UPDATE_GRADIENTS_PINNED, LIVES_UPDATE},
    {MW_BUFFER_UPDATE_GRADIENTS_GPU, LIVES_UPDATE},
    {MW_BUFFER_UPDATED_PINNED, LIVES_UPDATE},
    {MW_BUFFER_UPDATED_GPU, LIVES_UPDATE},
};

/* More slots that share bytes would make a plan's check slow (plan/check_memory.c). */
#define HOMES_MAX 768

/* Nothing holds more; sums of a few of these are whole numbers still. */
#define BLOCK_MOST (INT64_MAX / 64)

struct block {
    enum mw_buffer_kind kind;
    unsigned lives;
    struct mw_extent at;
};

struct room {
    struct block blocks[G_N_ELEMENTS(rows)];
    int count;
    int64_t end;
    bool shared; /* two of them lie over each other */
};

/* Of homes, those of gradients on the GPU. */
static enum mw_tier
tier_of(const struct mw_sizing *sizing, enum mw_buffer_kind kind)
{
    return kind == MW_BUFFER_GRADIENTS ? MW_TIER_GPU : sizing->buffers[kind].tier;
}

/* --- which buffers may ----------------------------------------------------------------------- */

/* Whether gradients of the class's tensors are made after the logits' end.  Tied logits begin the
 * embedding's. */
static bool
is_made_behind_logits(const struct mw_sizing *sizing, enum mw_class class)
{
    return mw_class_is_of_layers(class) || (class == MW_CLASS_HEAD && !mw_sizing_tied(sizing));
}

/* Of the class's blocks those whose tensor has its gradient there; `tiers`: of the first one's. */
static int64_t
blocks_on_gpu(const struct mw_sizing *sizing, const struct mw_class_info *class,
              const uint8_t *tiers)
{
    int64_t blocks = 0;

    if (!class->blocks || !mw_sizing_splits(sizing, MW_STATE_GRADIENTS))
        return class->blocks && tiers[0] == MW_TIER_GPU ? class->blocks : 0;
    for (int64_t b = 0; b < class->blocks; b++)
        blocks += tiers[b * class->tensor_count] == MW_TIER_GPU;
    return blocks;
}

/* The homes on the GPU that may share bytes: their number, and their bytes in whole pages. */
static int64_t
count_gradients(const struct mw_sizing *sizing, int64_t *bytes)
{
    const uint8_t *tiers = sizing->gradient_home;
    int64_t count = 0;

    *bytes = 0;
    for (int c = 0; c < MW_CLASS_COUNT; c++) {
        const struct mw_class_info *class = &sizing->classes[c];
        int64_t tensors = class->blocks * class->tensor_count;
        for (int t = 0; t < class->tensor_count && is_made_behind_logits(sizing, c); t++) {
            int64_t blocks = blocks_on_gpu(sizing, class, tiers + t);
            int64_t home = mw_sizing_home_bytes(sizing, MW_BUFFER_GRADIENTS, &class->tensors[t]);
            *bytes += blocks * mw_round_up(home, MW_SLOT_ALIGNMENT_BYTES);
            count += home ? blocks : 0;
        }
        tiers += tensors;
    }
    return count;
}

/* Where layers are said once, and chunks with them, slots move on from round to round, which none
 * may that shares bytes (plan/check_sections.c).  Counting ops takes long: it is done once. */
static bool
says_layers_once(const struct mw_sizing *sizing)
{
    return mw_sizing_folds(sizing).layers;
}

/* Later micro-batches have logits while gradients of earlier ones are kept. */
static bool
may_gradients(const struct mw_sizing *sizing)
{
    const struct mw_settings *settings = &sizing->settings;
    int64_t bytes;

    return settings->share_slots == MW_SHARE_ALL && settings->dpu_start == MW_AUTO &&
           !sizing->gradient_sets && settings->grad_accum == 1 &&
           count_gradients(sizing, &bytes) <= HOMES_MAX;
}

/* The ends have narrow weights in no model; else they would be widened while there are logits. */
static bool
may_widened(const struct mw_sizing *sizing)
{
    const struct mw_class_info *classes = sizing->classes;

    for (int c = 0; c < MW_CLASS_COUNT; c++)
        for (int t = 0; t < classes[c].tensor_count; t++)
            if (!mw_class_is_of_layers(c) && !mw_dtype_row(classes[c].tensors[t].dtype)->computes)
                return false;
    return true;
}

/* Whether the chunks of the update are all moved alike. */
static bool
moves_alike(const struct mw_sizing *sizing)
{
    return !mw_sizing_splits(sizing, MW_STATE_PARAMETERS) &&
           !mw_sizing_splits(sizing, MW_STATE_GRADIENTS) &&
           !mw_sizing_splits(sizing, MW_STATE_OPTIMIZER);
}

/* What the update reads begins with the first chunk, which has the embedding's gradients: the last
 * that backward makes.  So transfers behind these have nothing to wait for; those of state alone
 * would. */
static bool
may_update(const struct mw_sizing *sizing, enum mw_buffer_kind kind)
{
    enum mw_tier gradients = sizing->gradient_home[0];

    if (mw_settings_update_apart(&sizing->settings) || !mw_sizing_trains_head(sizing) ||
        !moves_alike(sizing))
        return false;
    if (kind == MW_BUFFER_STATE_PINNED)
        return gradients == MW_TIER_NVME;
    return kind != MW_BUFFER_STATE_GPU || gradients != MW_TIER_GPU;
}

/* Rings turn where micro-batches are said once. */
static bool
turns(const struct mw_sizing *sizing, enum mw_buffer_kind kind)
{
    return tier_of(sizing, kind) == MW_TIER_CPU &&
           mw_sizing_micro_batches(sizing) > MW_FOLDED_LEAST;
}

static bool
may_share(const struct mw_sizing *sizing, enum mw_buffer_kind kind, unsigned lives, bool once)
{
    bool moves = kind == MW_BUFFER_GRADIENTS || lives == LIVES_UPDATE ||
                 tier_of(sizing, kind) == MW_TIER_CPU;

    if (sizing->settings.share_slots == MW_SHARE_NONE || (once && moves) || turns(sizing, kind))
        return false;
    if (kind == MW_BUFFER_ACTIVATIONS)
        return sizing->buffers[MW_BUFFER_ROOMS].count > 0;
    if (kind == MW_BUFFER_GRADIENTS)
        return may_gradients(sizing);
    if (kind == MW_BUFFER_WIDENED)
        return may_widened(sizing);
    return lives != LIVES_UPDATE || may_update(sizing, kind);
}

/* --- their places ---------------------------------------------------------------------------- */

static bool
meet(const struct mw_extent *a, const struct mw_extent *b)
{
    return a->begin < b->end && b->begin < a->end;
}

/* The block in the way of one that lives in these stretches; NULL: none is. */
static const struct block *
find_in_way(const struct room *room, const struct mw_extent *at, unsigned lives)
{
    for (int i = 0; i < room->count; i++)
        if (room->blocks[i].lives & lives && meet(&room->blocks[i].at, at))
            return &room->blocks[i];
    return NULL;
}

static void
add_block(struct room *room, enum mw_buffer_kind kind, unsigned lives, int64_t bytes)
{
    const struct block *in_way;
    struct mw_extent at = {0, bytes};

    while ((in_way = find_in_way(room, &at, lives)))
        at = (struct mw_extent){in_way->at.end, in_way->at.end + bytes};
    room->shared |= find_in_way(room, &at, ~lives) != NULL;
    room->blocks[room->count++] = (struct block){kind, lives, at};
    room->end = MAX(room->end, at.end);
}

static int64_t
block_bytes(const struct mw_sizing *sizing, enum mw_buffer_kind kind)
{
    int64_t bytes;

    if (kind != MW_BUFFER_GRADIENTS)
        return mw_sizing_buffer_bytes(sizing, kind);
    count_gradients(sizing, &bytes);
    return bytes;
}

/* Gradients that take turns lie over each other, whatever else does.  Those of the model's end are
 * among them, which are made while there are logits. */
static void
add_gradient_sets(const struct mw_sizing *sizing, struct room *room)
{
    int64_t bytes = sizing->gradient_sets ? mw_sizing_gradient_sets_bytes(sizing) : 0;

    if (!bytes)
        return;
    add_block(room, MW_BUFFER_GRADIENTS, LIVES_ENDS | LIVES_BACKWARD | LIVES_UPDATE, bytes);
    room->shared = true;
}

static void
share_tier(struct mw_sizing *sizing, enum mw_tier tier, bool once)
{
    struct room room = {.count = 0};

    if (tier == MW_TIER_GPU)
        add_gradient_sets(sizing, &room);
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        enum mw_buffer_kind kind = rows[i].kind;
        if (tier_of(sizing, kind) != tier || !sizing->buffers[kind].count ||
            !may_share(sizing, kind, rows[i].lives, once))
            continue;
        int64_t bytes = block_bytes(sizing, kind);
        if (bytes > 0 && bytes < BLOCK_MOST)
            add_block(&room, kind, rows[i].lives, bytes);
    }
    sizing->shared[tier].end = room.shared ? room.end : 0;
    for (int i = 0; i < room.count && room.shared; i++) {
        struct mw_buffer *buffer = &sizing->buffers[room.blocks[i].kind];
        buffer->shares = true;
        buffer->at = room.blocks[i].at;
    }
}

void
mw_sizing_share_slots(struct mw_sizing *sizing)
{
    if (sizing->settings.forward_only ||
        (sizing->settings.share_slots == MW_SHARE_NONE && !sizing->gradient_sets))
        return;
    bool once = says_layers_once(sizing);
    share_tier(sizing, MW_TIER_GPU, once);
    share_tier(sizing, MW_TIER_CPU, once);
}

/* --- what others ask ------------------------------------------------------------------------- */

bool
mw_sizing_shares(const struct mw_sizing *sizing)
{
    for (int kind = 0; kind < MW_BUFFER_KIND_COUNT; kind++)
        if (kind != MW_BUFFER_GRADIENTS && sizing->buffers[kind].shares)
            return true;
    return false;
}

bool
mw_sizing_shares_gradient(const struct mw_sizing *sizing, uint32_t tensor)
{
    int32_t layer;
    int index;

    return sizing->buffers[MW_BUFFER_GRADIENTS].shares &&
           sizing->gradient_home[tensor] == MW_TIER_GPU &&
           (sizing->gradient_sets ||
            is_made_behind_logits(sizing, mw_sizing_locate(sizing, tensor, &layer, &index))) &&
           mw_sizing_tensor(sizing, tensor)->trained;
}

/* The room's other buffers that come before `end` in the plan's order. */
static size_t
list_others(const struct mw_sizing *sizing, enum mw_buffer_kind kind, int end,
            struct mw_extent others[MW_BUFFER_KIND_COUNT])
{
    size_t count = 0;

    for (int other = 0; other < end; other++)
        if (other != (int)kind && sizing->buffers[other].shares &&
            tier_of(sizing, other) == tier_of(sizing, kind))
            others[count++] = sizing->buffers[other].at;
    return count;
}

bool
mw_sizing_meets_others(const struct mw_sizing *sizing, enum mw_buffer_kind kind,
                       struct mw_extent extent)
{
    struct mw_extent others[MW_BUFFER_KIND_COUNT];
    size_t count = list_others(sizing, kind, MW_BUFFER_KIND_COUNT, others);

    return mw_extent_own_bytes(extent, others, count) < extent.end - extent.begin;
}

int64_t
mw_sizing_own_bytes(const struct mw_sizing *sizing, enum mw_buffer_kind kind)
{
    struct mw_extent others[MW_BUFFER_KIND_COUNT];
    size_t count = list_others(sizing, kind, kind, others);

    return mw_extent_own_bytes(sizing->buffers[kind].at, others, count);
}
