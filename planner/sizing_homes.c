/* Where every unit, checkpoint and chunk of the optimizer step lives. */
#include <glib.h>
#include <string.h>

#include "planner/arithmetic.h"
#include "planner/sizing_internal.h"

/* Units of one chunk at most: its dependencies must fit into an op. */
#define CHUNK_UNITS_MAX 40

struct filler {
    const struct mw_placement *placement;
    int64_t ranks_per_node;
    int part;
    int64_t left;
};

static void
filler_start(struct filler *filler, const struct mw_placement *placement, int64_t ranks_per_node)
{
    *filler = (struct filler){placement, ranks_per_node, -1, 0};
}

/* A split state fills its faster tier first. */
static enum mw_tier
filler_take(struct filler *filler, int64_t bytes)
{
    while (filler->part < 0 ||
           (filler->left < bytes && filler->part + 1 < filler->placement->count)) {
        int64_t limit = filler->placement->part[++filler->part].bytes;
        filler->left = limit == INT64_MAX ? limit : limit / filler->ranks_per_node;
    }
    if (filler->left != INT64_MAX)
        filler->left -= bytes;
    return filler->placement->part[filler->part].tier;
}

static int64_t
unit_shard(const struct mw_sizing *sizing, const struct mw_unit *unit, bool partitioned)
{
    return unit->tiles * (partitioned ? unit->shard_stride : unit->tile_params);
}

int64_t
mw_sizing_sum_shards(const struct mw_sizing *sizing)
{
    int64_t sum = 0;

    for (int c = 0; c < MW_CLASS_COUNT; c++) {
        const struct mw_class_info *class = &sizing->classes[c];
        for (int u = 0; u < class->unit_count; u++)
            sum += class->blocks *
                   unit_shard(sizing, &class->units[u], sizing->optimizer_partitioned);
    }
    return sum;
}

/* All units in walk order. */
struct walk {
    int class_;
    int64_t block;
    int unit;
};

static const struct mw_unit *
walk_next(const struct mw_sizing *sizing, struct walk *walk)
{
    while (walk->class_ < MW_CLASS_COUNT) {
        const struct mw_class_info *class = &sizing->classes[walk->class_];
        if (walk->block < class->blocks && walk->unit < class->unit_count)
            return &class->units[walk->unit++];
        walk->unit = 0;
        if (++walk->block >= class->blocks) {
            walk->block = 0;
            walk->class_++;
        }
    }
    return NULL;
}

/* The homes of one state of the units; what is not split is all in one place. */
static void
place_state(struct mw_sizing *sizing, enum mw_state state, enum mw_purpose purpose,
            int64_t element_bytes, bool partitioned, uint8_t *home)
{
    const struct mw_placement *placement = &sizing->settings.placement[state];
    struct filler filler;
    struct walk walk = {0};

    filler_start(&filler, placement, sizing->ranks_per_node);
    for (uint32_t u = 0; placement->count > 1 && u < sizing->unit_count; u++) {
        int64_t bytes = element_bytes * unit_shard(sizing, walk_next(sizing, &walk), partitioned);
        home[u] = filler_take(&filler, bytes);
        mw_sizing_account(sizing, home[u], purpose, bytes, 1);
    }
    if (placement->count > 1)
        return;
    memset(home, placement->part[0].tier, sizing->unit_count);
    for (int c = 0; c < MW_CLASS_COUNT; c++)
        for (int u = 0; u < sizing->classes[c].unit_count; u++)
            mw_sizing_account(
                sizing, placement->part[0].tier, purpose,
                element_bytes * unit_shard(sizing, &sizing->classes[c].units[u], partitioned),
                sizing->classes[c].blocks);
}

void
mw_sizing_place_units(struct mw_sizing *sizing)
{
    sizing->param_home = g_new0(uint8_t, sizing->unit_count + 1);
    sizing->gradient_home = g_new0(uint8_t, sizing->unit_count + 1);
    place_state(sizing, MW_STATE_PARAMETERS, MW_PURPOSE_PARAMETERS, 2, sizing->params_partitioned,
                sizing->param_home);
    place_state(sizing, MW_STATE_GRADIENTS, MW_PURPOSE_GRADIENTS, sizing->gradient_rest_bytes,
                sizing->gradients_partitioned, sizing->gradient_home);
}

void
mw_sizing_place_checkpoints(struct mw_sizing *sizing)
{
    struct filler filler;

    filler_start(&filler, &sizing->settings.placement[MW_STATE_ACTIVATIONS],
                 sizing->ranks_per_node);
    sizing->checkpoint_home = g_new0(uint8_t, sizing->checkpoint_count + 1);
    for (int64_t c = 0; c < sizing->checkpoint_count; c++) {
        sizing->checkpoint_home[c] = filler_take(&filler, sizing->checkpoint_bytes);
        mw_sizing_account(sizing, sizing->checkpoint_home[c], MW_PURPOSE_ACTIVATION_CHECKPOINTS,
                          sizing->checkpoint_bytes, 1);
    }
}

/* --- optimizer chunks ----------------------------------------------------------------------- */

static bool
joins_chunk(const struct mw_sizing *sizing, const struct mw_chunk *chunk, uint32_t unit,
            int64_t params)
{
    return chunk->unit_count && chunk->unit_count < CHUNK_UNITS_MAX &&
           chunk->params + params <= sizing->settings.optimizer_chunk &&
           sizing->param_home[chunk->first_unit] == sizing->param_home[unit] &&
           sizing->gradient_home[chunk->first_unit] == sizing->gradient_home[unit];
}

/* Pieces are about equal, and begin at whole pages of 16-bit elements. */
static int64_t
piece_end(int64_t all, int64_t piece, int64_t pieces)
{
    int64_t end = (double)all * piece / pieces;
    return piece == pieces ? all : MIN(all, mw_round_up(end, MW_SLOT_ALIGNMENT_BYTES / 2));
}

/* A unit that does not join `open`: all of both is cut but the last piece, which takes more. */
static struct mw_chunk
cut_unit(const struct mw_sizing *sizing, GArray *chunks, struct mw_chunk open, uint32_t unit,
         int64_t params)
{
    /* Smaller ones than a page would only be looked at and left out. */
    int64_t piece_params = MAX(sizing->settings.optimizer_chunk, MW_SLOT_ALIGNMENT_BYTES / 2);
    int64_t pieces = MAX(1, mw_divide_up(params, piece_params));

    for (int64_t p = 0; p < pieces; p++) {
        int64_t piece = piece_end(params, p + 1, pieces) - piece_end(params, p, pieces);
        if (!piece)
            continue;
        if (open.unit_count)
            g_array_append_val(chunks, open);
        open = (struct mw_chunk){unit, 1, piece, MW_TIER_GPU};
    }
    return open;
}

/* A search for placements does this thousands of times: the open chunk stays in registers. */
static GArray *
cut_units(const struct mw_sizing *sizing)
{
    GArray *chunks = g_array_new(FALSE, FALSE, sizeof(struct mw_chunk));
    struct mw_chunk open = {0};
    uint32_t unit = 0;

    for (int c = 0; c < MW_CLASS_COUNT; c++)
        for (int64_t block = 0; block < sizing->classes[c].blocks; block++)
            for (int u = 0; u < sizing->classes[c].unit_count; u++, unit++) {
                int64_t params = unit_shard(sizing, &sizing->classes[c].units[u],
                                            sizing->optimizer_partitioned);
                if (params && !joins_chunk(sizing, &open, unit, params)) {
                    open = cut_unit(sizing, chunks, open, unit, params);
                } else if (open.unit_count) {
                    open.unit_count++;
                    open.params += params;
                }
            }
    if (open.unit_count)
        g_array_append_val(chunks, open);
    return chunks;
}

void
mw_sizing_cut_chunks(struct mw_sizing *sizing)
{
    GArray *chunks = cut_units(sizing);
    struct filler filler;

    sizing->chunk_count = chunks->len;
    sizing->chunks = (struct mw_chunk *)g_array_free(chunks, FALSE);
    filler_start(&filler, &sizing->settings.placement[MW_STATE_OPTIMIZER], sizing->ranks_per_node);
    for (uint32_t c = 0; c < sizing->chunk_count; c++) {
        struct mw_chunk *chunk = &sizing->chunks[c];
        int64_t bytes = chunk->params * sizing->optimizer_element_bytes;
        chunk->tier = filler_take(&filler, bytes);
        mw_sizing_account(sizing, chunk->tier, MW_PURPOSE_OPTIMIZER_STATE, bytes, 1);
        if (chunk->tier == MW_TIER_NVME && sizing->settings.commit == 1)
            mw_sizing_account(sizing, chunk->tier, MW_PURPOSE_OPTIMIZER_STATE_OTHER, bytes, 1);
    }
}

struct mw_chunk_moves
mw_sizing_chunk_moves(const struct mw_sizing *sizing, uint32_t index)
{
    const struct mw_chunk *chunk = &sizing->chunks[index];
    enum mw_tier gradient = sizing->gradient_home[chunk->first_unit];
    enum mw_tier param = sizing->param_home[chunk->first_unit];
    bool host = chunk->tier != MW_TIER_GPU;

    return (struct mw_chunk_moves){
        .host = host,
        .gradient_read = gradient == MW_TIER_NVME && chunk->tier != MW_TIER_NVME,
        .gradient_h2d = gradient != MW_TIER_GPU && !host,
        .gradient_d2h = gradient == MW_TIER_GPU && host,
        .param_h2d = param == MW_TIER_GPU && host,
        .param_d2h = param != MW_TIER_GPU && !host,
        .param_write = param == MW_TIER_NVME,
    };
}
