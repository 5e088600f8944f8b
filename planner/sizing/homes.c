/* Where every tensor, checkpoint and chunk of the optimizer step lives. */
#include <glib.h>
#include <math.h>
#include <string.h>

#include "plan/optimizers.h"
#include "base/arithmetic.h"
#include "planner/sizing/internal.h"

/* Most tensors of one chunk: the dependencies on them must fit into an op. */
#define CHUNK_TENSORS_MAX 40

struct tier_filler {
    const struct mw_placement *placement;
    int64_t ranks_per_node;
    int64_t all; /* bytes of a rank, for shares of them */
    int part;
    int64_t left;
};

static void
begin_tiers(struct tier_filler *filler, const struct mw_placement *placement,
            int64_t ranks_per_node, int64_t all)
{
    *filler = (struct tier_filler){placement, ranks_per_node, all, -1, 0};
}

static int64_t
limit_of(const struct tier_filler *filler, int part)
{
    int64_t bytes = filler->placement->part[part].bytes;
    double share = filler->placement->part[part].share;

    if (share > 0)
        return llround(share * (double)filler->all);
    return bytes == INT64_MAX ? bytes : bytes / filler->ranks_per_node;
}

/* A split state fills its faster tier first. */
static enum mw_tier
next_tier(struct tier_filler *filler, int64_t bytes)
{
    while (filler->part < 0 ||
           (filler->left < bytes && filler->part + 1 < filler->placement->count))
        filler->left = limit_of(filler, ++filler->part);
    if (filler->left != INT64_MAX)
        filler->left -= bytes;
    return filler->placement->part[filler->part].tier;
}

bool
mw_sizing_splits(const struct mw_sizing *sizing, enum mw_state state)
{
    return sizing->settings.placement[state].count > 1;
}

int64_t
mw_sizing_part_stride(const struct mw_sizing *sizing, const struct mw_unit_tensor *tensor,
                      bool partitioned)
{
    int64_t block = mw_dtype_row(tensor->dtype)->block_elements;

    if (partitioned)
        return tensor->shard_stride;
    /* Ranks exchange shards in it, and the last one's is as long there. */
    if (mw_settings_asynchronous(&sizing->settings) && tensor->trained)
        return tensor->ranks * tensor->shard_params;
    return mw_round_up(tensor->tile_params, block);
}

bool
mw_sizing_owners_broadcast(const struct mw_sizing *sizing)
{
    return sizing->settings.partition == MW_PARTITION_OWNER && sizing->shards > 1;
}

int64_t
mw_sizing_carried_params(const struct mw_sizing *sizing, const struct mw_unit_tensor *tensor)
{
    return mw_sizing_owners_broadcast(sizing) ? tensor->tile_params : tensor->shard_params;
}

int64_t
mw_sizing_state_stride(const struct mw_sizing *sizing, const struct mw_unit_tensor *tensor)
{
    return mw_round_up(mw_sizing_part_stride(sizing, tensor, sizing->optimizer_partitioned),
                       mw_optimizer_block(sizing->settings.optimizer));
}

/* Elements of a trained tensor's state on one rank. */
static int64_t
state_of_rank(const struct mw_sizing *sizing, const struct mw_unit_tensor *tensor)
{
    return tensor->tiles * mw_sizing_state_stride(sizing, tensor);
}

/* Of them those that Muon updates.  What it leaves to AdamW is divided over ranks apart, so each
 * has its share of it. */
static int64_t
matrices_of_rank(const struct mw_sizing *sizing, const struct mw_unit_tensor *tensor)
{
    int64_t others = tensor->params - tensor->matrix_params;

    if (!tensor->matrix_params || !mw_optimizer_orthogonalizes(sizing->settings.optimizer))
        return 0;
    if (sizing->optimizer_partitioned)
        others = mw_divide_up(others, tensor->ranks);
    return MAX(0, state_of_rank(sizing, tensor) - others);
}

/* Elements of a tensor's parameters, or of a trained one's gradients, on one rank. */
static int64_t
params_of_rank(const struct mw_sizing *sizing, const struct mw_unit_tensor *tensor,
               bool partitioned)
{
    return tensor->tiles * mw_sizing_part_stride(sizing, tensor, partitioned);
}

int64_t
mw_sizing_home_bytes(const struct mw_sizing *sizing, enum mw_buffer_kind kind,
                     const struct mw_unit_tensor *tensor)
{
    if (kind == MW_BUFFER_SUMS)
        return sizing->sums_on_host && tensor->trained
                   ? sizing->gradient_element_bytes *
                         params_of_rank(sizing, tensor, sizing->gradients_partitioned)
                   : 0;
    if (kind == MW_BUFFER_PARAMETERS)
        return mw_sizing_param_bytes(tensor,
                                     params_of_rank(sizing, tensor, sizing->params_partitioned));
    return tensor->trained ? sizing->gradient_rest_bytes *
                                 params_of_rank(sizing, tensor, sizing->gradients_partitioned)
                           : 0;
}

bool
mw_updates_in_place(const struct mw_settings *settings, const struct mw_hardware *hardware)
{
    return settings->dtype == MW_DTYPE_FP32 && hardware->memory_use.updates_fp32_in_place &&
           mw_optimizer_keeps(settings->optimizer, MW_KEPT_PARAMETER);
}

int64_t
mw_state_bytes(const struct mw_settings *settings, const struct mw_hardware *hardware,
               int64_t elements, int64_t of_matrices)
{
    int64_t bytes = mw_optimizer_mixed_bytes(settings->optimizer, elements, of_matrices);

    return mw_updates_in_place(settings, hardware) ? bytes - mw_dtype_bytes(MW_DTYPE_FP32, elements)
                                                   : bytes;
}

double
mw_update_bytes(const struct mw_settings *settings, const struct mw_hardware *hardware,
                double state_bytes)
{
    double element = (double)mw_dtype_element_bytes(settings->dtype);
    bool reads_parameter = mw_updates_in_place(settings, hardware) ||
                           !mw_optimizer_keeps(settings->optimizer, MW_KEPT_PARAMETER);

    return 2 * state_bytes + (reads_parameter ? 3 : 2) * element;
}

double
mw_sizing_state_element_bytes(const struct mw_sizing *sizing)
{
    int64_t elements = MW_KEPT_BLOCK, of_matrices = 0;

    if (sizing->shard_matrix_params) {
        elements = sizing->shard_params;
        of_matrices = sizing->shard_matrix_params;
    }
    return (double)mw_state_bytes(&sizing->settings, sizing->hardware, elements, of_matrices) /
           (double)elements;
}

double
mw_sizing_state_elements(const struct mw_sizing *sizing, enum mw_tier tier)
{
    double each = mw_sizing_state_element_bytes(sizing), elements = 0;

    if (each > 0)
        return (double)sizing->ledger[tier][MW_PURPOSE_OPTIMIZER_STATE] / each;
    for (uint32_t c = 0; c < sizing->run_chunk_count; c++)
        if (sizing->run_chunks[c].tier == tier)
            elements += (double)sizing->run_chunks[c].times * (double)sizing->run_chunks[c].params;
    return elements;
}

int64_t
mw_sizing_state_bytes(const struct mw_sizing *sizing, const struct mw_chunk *chunk)
{
    return mw_state_bytes(&sizing->settings, sizing->hardware, chunk->params, chunk->matrix_params);
}

void
mw_sizing_sum_shards(struct mw_sizing *sizing)
{
    for (int c = 0; c < MW_CLASS_COUNT; c++) {
        const struct mw_class_info *class = &sizing->classes[c];
        for (int t = 0; t < class->tensor_count; t++) {
            const struct mw_unit_tensor *tensor = &class->tensors[t];
            if (!tensor->trained)
                continue;
            sizing->shard_params += class->blocks * state_of_rank(sizing, tensor);
            sizing->shard_matrix_params += class->blocks * matrices_of_rank(sizing, tensor);
        }
    }
}

/* How many blocks of so many bytes go into the tier that is being filled, and takes their bytes;
 * the next tensor finds its own. */
static int64_t
fill_tier(struct tier_filler *filler, int64_t block_bytes, int64_t blocks)
{
    bool last = filler->part + 1 >= filler->placement->count;

    if (filler->part < 0)
        return 0;
    if (!last && block_bytes)
        blocks = MIN(blocks, filler->left / block_bytes);
    if (filler->left != INT64_MAX)
        filler->left -= blocks * block_bytes;
    return blocks;
}

/* The tiers of a class's tensors.  Returns the end of them. */
static uint8_t *
place_class(const struct mw_sizing *sizing, const struct mw_class_info *class,
            enum mw_buffer_kind kind, struct tier_filler *filler, uint8_t *next)
{
    int64_t bytes[MW_CLASS_TENSORS_MAX], block_bytes = 0;

    for (int t = 0; t < class->tensor_count; t++)
        block_bytes += bytes[t] = mw_sizing_home_bytes(sizing, kind, &class->tensors[t]);
    for (int64_t block = 0; block < class->blocks; block++) {
        int64_t whole = fill_tier(filler, block_bytes, class->blocks - block);
        if (whole) {
            memset(next, filler->placement->part[filler->part].tier,
                   (size_t)(whole * class->tensor_count));
            next += whole * class->tensor_count;
            block += whole - 1;
            continue;
        }
        for (int t = 0; t < class->tensor_count; t++)
            *next++ = next_tier(filler, bytes[t]);
    }
    return next;
}

/* Of one state of all tensors. */
static int64_t
bytes_of_tensors(const struct mw_sizing *sizing, enum mw_buffer_kind kind)
{
    int64_t bytes = 0;

    for (int c = 0; c < MW_CLASS_COUNT; c++)
        for (int t = 0; t < sizing->classes[c].tensor_count; t++)
            bytes += sizing->classes[c].blocks *
                     mw_sizing_home_bytes(sizing, kind, &sizing->classes[c].tensors[t]);
    return bytes;
}

/* The tiers of one state of all tensors, in walk order: one, of a state that is not split. */
static uint8_t *
place_state(const struct mw_sizing *sizing, enum mw_state state, enum mw_buffer_kind kind)
{
    const struct mw_placement *placement = &sizing->settings.placement[state];
    uint8_t *home = g_new0(uint8_t, sizing->tensor_count + 1), *next = home;
    struct tier_filler filler;

    if (placement->count == 1) {
        memset(home, placement->part[0].tier, sizing->tensor_count);
        return home;
    }
    begin_tiers(&filler, placement, sizing->ranks_per_node, bytes_of_tensors(sizing, kind));
    for (int c = 0; c < MW_CLASS_COUNT; c++)
        next = place_class(sizing, &sizing->classes[c], kind, &filler, next);
    return home;
}

void
mw_sizing_place_tensors(struct mw_sizing *sizing)
{
    sizing->param_home = place_state(sizing, MW_STATE_PARAMETERS, MW_BUFFER_PARAMETERS);
    sizing->gradient_home = place_state(sizing, MW_STATE_GRADIENTS, MW_BUFFER_GRADIENTS);
}

static enum mw_dtype
checkpoint_dtype(const struct mw_sizing *sizing)
{
    const struct mw_settings *settings = &sizing->settings;

    if (settings->checkpoint_dtype != MW_DTYPE_NONE)
        return settings->checkpoint_dtype;
    return mw_sizing_stream_bytes(sizing) > sizing->element_bytes ? MW_DTYPE_FP32 : settings->dtype;
}

int64_t
mw_sizing_checkpoint_bytes(const struct mw_sizing *sizing, int64_t checkpoint)
{
    return mw_sizing_leaves_whole(sizing, checkpoint % sizing->checkpoint_count)
               ? sizing->checkpoint_layer_bytes
               : sizing->checkpoint_bytes;
}

int64_t
mw_sizing_all_checkpoint_bytes(const struct mw_sizing *sizing)
{
    int64_t layers = mw_settings_keeps_whole(&sizing->settings) ? mw_sizing_kept_layers(sizing) : 0;
    int64_t inputs = sizing->checkpoint_count / sizing->stretches - layers;

    return sizing->micro_batches_in_flight *
           (inputs * sizing->checkpoint_bytes + layers * sizing->checkpoint_layer_bytes);
}

/* Checkpoints: bsz·seq·hd elements every ci blocks (ZeRO-Infinity Sec. 3, Eq. 3); with tensor
 * slicing each rank keeps 1/tp of them (ZeRO-R, Pa), unless all keep the whole. */
void
mw_sizing_place_checkpoints(struct mw_sizing *sizing)
{
    struct tier_filler filler;

    sizing->checkpoint_parts =
        sizing->settings.checkpoint_partition || sizing->shape.sequence_parallel ? sizing->tp : 1;
    if (sizing->settings.checkpoint_interval) {
        sizing->checkpoint_count = sizing->stretches * mw_sizing_groups_in_pass(sizing);
        sizing->checkpoint_bytes = mw_dtype_bytes(
            checkpoint_dtype(sizing),
            mw_divide_up(sizing->tokens * sizing->model->hidden, sizing->checkpoint_parts));
        sizing->checkpoint_whole_bytes =
            mw_dtype_bytes(checkpoint_dtype(sizing), sizing->tokens * sizing->model->hidden);
    }
    if (mw_settings_keeps_whole(&sizing->settings)) {
        sizing->checkpoint_count += mw_sizing_kept_layers(sizing);
        sizing->checkpoint_layer_bytes = mw_sizing_layer_bytes(sizing);
    }
    sizing->checkpoint_slots =
        sizing->checkpoint_count / sizing->stretches * sizing->micro_batches_in_flight;
    begin_tiers(&filler, &sizing->settings.placement[MW_STATE_ACTIVATIONS], sizing->ranks_per_node,
                mw_sizing_all_checkpoint_bytes(sizing));
    sizing->checkpoint_home = g_new0(uint8_t, sizing->checkpoint_slots + 1);
    if (!mw_sizing_splits(sizing, MW_STATE_ACTIVATIONS))
        memset(sizing->checkpoint_home, next_tier(&filler, 0), sizing->checkpoint_slots);
    else
        for (int64_t c = 0; c < sizing->checkpoint_slots; c++)
            sizing->checkpoint_home[c] = next_tier(&filler, mw_sizing_checkpoint_bytes(sizing, c));
}

bool
mw_sizing_gathers_checkpoints(const struct mw_sizing *sizing)
{
    bool of_inputs = !mw_settings_keeps_whole(&sizing->settings) ||
                     mw_sizing_kept_layers(sizing) < sizing->layers;

    return sizing->checkpoint_count && sizing->checkpoint_parts > 1 &&
           !sizing->shape.sequence_parallel && of_inputs;
}

int64_t
mw_sizing_checkpoint_coded_bytes(const struct mw_sizing *sizing, bool restores)
{
    int64_t elements = sizing->tokens * sizing->model->hidden;

    if (sizing->settings.checkpoint_dtype == MW_DTYPE_NONE ||
        sizing->settings.checkpoint_dtype == sizing->settings.dtype)
        return 0;
    if (restores && !sizing->shape.sequence_parallel)
        return sizing->checkpoint_whole_bytes + sizing->element_bytes * elements;
    return sizing->element_bytes * mw_divide_up(elements, sizing->checkpoint_parts) +
           sizing->checkpoint_bytes;
}

/* --- optimizer chunks ----------------------------------------------------------------------- */

static bool
joins_chunk(const struct mw_sizing *sizing, const struct mw_chunk *chunk, uint32_t tensor,
            int64_t params, int64_t ranks)
{
    return chunk->tensor_count && chunk->ranks == ranks &&
           chunk->tensor_count < CHUNK_TENSORS_MAX &&
           chunk->params + params <= sizing->settings.optimizer_chunk &&
           sizing->param_home[chunk->first_tensor] == sizing->param_home[tensor] &&
           sizing->gradient_home[chunk->first_tensor] == sizing->gradient_home[tensor];
}

/* This many elements fill at least a page, whatever their type. */
#define PAGE_PARAMS (MW_SLOT_ALIGNMENT_BYTES / 2)

/* Pieces are about equal, and begin at whole pages. */
static int64_t
piece_end(int64_t all, int64_t piece, int64_t pieces)
{
    int64_t end = (double)all * piece / pieces;
    return piece == pieces ? all : MIN(all, mw_round_up(end, PAGE_PARAMS));
}

struct cutter {
    const struct mw_sizing *sizing;
    GArray *chunks;       /* struct mw_chunk */
    GArray *runs;         /* struct mw_chunk_run */
    guint ended;          /* chunks that are already in runs */
    struct mw_chunk open; /* the last one, which may still grow */
};

static struct cutter
begin_cut(const struct mw_sizing *sizing)
{
    return (struct cutter){.sizing = sizing,
                           .chunks = g_array_new(FALSE, FALSE, sizeof(struct mw_chunk)),
                           .runs = g_array_new(FALSE, FALSE, sizeof(struct mw_chunk_run))};
}

static void
close_chunk(struct cutter *cutter)
{
    if (cutter->open.tensor_count)
        g_array_append_val(cutter->chunks, cutter->open);
    cutter->open.tensor_count = 0;
}

/* Ends a run at chunk `end`: the chunks since the last run, each repeated `times` times. */
static void
end_run(struct cutter *cutter, guint end, uint32_t times, uint32_t tensor_step)
{
    struct mw_chunk_run run = {cutter->ended, end - cutter->ended, times, tensor_step};

    if (run.count)
        g_array_append_val(cutter->runs, run);
    cutter->ended = end;
    for (guint c = run.first; c < end; c++)
        g_array_index(cutter->chunks, struct mw_chunk, c).times = times;
}

/* A tensor that does not join the open chunk: cuts all of both but the last piece, which may still
 * grow.  Matrices that are updated as a whole are not cut. */
static void
cut_tensor(struct cutter *cutter, uint32_t tensor, int64_t params, int64_t of_matrices,
           int64_t ranks)
{
    /* Smaller pieces than a page would be examined for nothing. */
    int64_t piece_params = MAX(cutter->sizing->settings.optimizer_chunk, PAGE_PARAMS);
    int64_t pieces = of_matrices ? 1 : MAX(1, mw_divide_up(params, piece_params)), from = 0;

    for (int64_t p = 1; p <= pieces; p++) {
        int64_t end = piece_end(params, p, pieces);
        if (end == from)
            continue;
        close_chunk(cutter);
        cutter->open = (struct mw_chunk){tensor, 1, end - from, MW_TIER_GPU, 1, of_matrices, ranks};
        from = end;
    }
}

/* `first` is the number of the block's first tensor. */
static void
cut_block(struct cutter *cutter, const struct mw_class_info *class, uint32_t first)
{
    const struct mw_sizing *sizing = cutter->sizing;

    for (int t = 0; t < class->tensor_count; t++) {
        int64_t params = state_of_rank(sizing, &class->tensors[t]);
        int64_t of_matrices = matrices_of_rank(sizing, &class->tensors[t]);
        int64_t ranks = class->tensors[t].ranks;
        if (!class->tensors[t].trained)
            continue;
        if (params && !joins_chunk(sizing, &cutter->open, first + t, params, ranks)) {
            cut_tensor(cutter, first + t, params, of_matrices, ranks);
        } else if (cutter->open.tensor_count) {
            cutter->open.tensor_count = first + t - cutter->open.first_tensor + 1;
            cutter->open.params += params;
            cutter->open.matrix_params += of_matrices;
        }
    }
    if (sizing->settings.drop_layers) /* a layer's state is left alone without its neighbours' */
        close_chunk(cutter);
}

static bool
has_same_homes(const struct mw_sizing *sizing, uint32_t one, uint32_t other, size_t tensors)
{
    return !memcmp(sizing->param_home + one, sizing->param_home + other, tensors) &&
           !memcmp(sizing->gradient_home + one, sizing->gradient_home + other, tensors);
}

/* Chunks may run through several blocks: where one is open that was open so many blocks before, as
 * many blocks further on, they are cut alike from there on. */
#define ROUND_BLOCKS_MAX 64
/* In so many blocks, in times of that. */
#define ROUNDS_LOOKED_FOR 4

struct cut_state {
    struct mw_chunk open; /* behind a block */
    guint ended;          /* chunks up to there */
};

/* How many blocks a round has that ends here, `most` at most; 0: none does. */
static int64_t
find_round(const struct cutter *cutter, const struct cut_state *states, int64_t most, int64_t block,
           uint32_t first, int tensors)
{
    const struct mw_chunk *open = &cutter->open;

    for (int64_t back = 1; back < ROUND_BLOCKS_MAX && back <= most; back++) {
        const struct mw_chunk *before = &states[(block - back) % ROUND_BLOCKS_MAX].open;
        uint32_t begin = first - (uint32_t)(back - 1) * tensors; /* of the round */
        if (!open->tensor_count && !before->tensor_count)
            return back;
        if (open->first_tensor >= begin && before->tensor_count &&
            before->tensor_count == open->tensor_count && before->params == open->params &&
            before->first_tensor + back * tensors == open->first_tensor)
            return has_same_homes(cutter->sizing, before->first_tensor, open->first_tensor, 1)
                       ? back
                       : 0;
    }
    return 0;
}

/* Rounds behind one that are cut just as it was, in so many blocks at most: their tensors live in
 * the same tiers. */
static int64_t
rounds_alike(const struct cutter *cutter, uint32_t begin, int64_t tensors, int64_t left)
{
    const struct mw_sizing *sizing = cutter->sizing;
    int64_t alike = 0;

    if (!mw_sizing_splits(sizing, MW_STATE_PARAMETERS) &&
        !mw_sizing_splits(sizing, MW_STATE_GRADIENTS))
        return left;
    while (alike < left && has_same_homes(sizing, begin, begin + (alike + 1) * tensors, tensors))
        alike++;
    return alike;
}

/* A search for placements does this thousands of times: of rounds that are alike one is cut. */
static void
cut_class(struct cutter *cutter, const struct mw_class_info *class, uint32_t first)
{
    struct cut_state states[ROUND_BLOCKS_MAX];
    int tensors = class->tensor_count;
    int64_t since = 0; /* the newest run */

    for (int64_t block = 0; block < class->blocks; block++, first += tensors) {
        cut_block(cutter, class, first);
        states[block % ROUND_BLOCKS_MAX] = (struct cut_state){cutter->open, cutter->chunks->len};
        bool looks = block - since < ROUNDS_LOOKED_FOR * ROUND_BLOCKS_MAX;
        int64_t round =
            looks ? find_round(cutter, states, block - since, block, first, tensors) : 0;
        int64_t left = round ? (class->blocks - block - 1) / round : 0;
        int64_t alike =
            left ? rounds_alike(cutter, first - (round - 1) * tensors, round * tensors, left) : 0;
        if (!alike)
            continue;
        end_run(cutter, states[(block - round) % ROUND_BLOCKS_MAX].ended, 1, 0);
        end_run(cutter, cutter->chunks->len, 1 + alike, round * tensors);
        block += alike * round;
        first += alike * round * tensors;
        cutter->open.first_tensor += alike * round * tensors;
        since = block + 1;
    }
}

static void
cut_tensors(struct cutter *cutter)
{
    uint32_t first = 0;

    for (int c = 0; c < MW_CLASS_COUNT; c++) {
        const struct mw_class_info *class = &cutter->sizing->classes[c];
        cut_class(cutter, class, first);
        first += class->blocks * class->tensor_count;
    }
    close_chunk(cutter);
    end_run(cutter, cutter->chunks->len, 1, 0);
}

/* Puts the chunks of a run into their tiers: the rounds that go into one stay a run, and one in
 * which a tier becomes full is a run of its own. */
static void
place_run(const struct mw_sizing *sizing, const struct mw_chunk *chunks,
          const struct mw_chunk_run *run, struct tier_filler *filler, struct cutter *placed)
{
    int64_t round_bytes = 0;
    uint32_t rounds;

    for (uint32_t c = 0; c < run->count; c++)
        round_bytes += mw_sizing_state_bytes(sizing, &chunks[run->first + c]);
    for (uint32_t round = 0; round < run->times; round += rounds) {
        int64_t whole = fill_tier(filler, round_bytes, run->times - round);
        rounds = (uint32_t)MAX(1, whole);
        for (uint32_t c = 0; c < run->count; c++) {
            struct mw_chunk chunk = chunks[run->first + c];
            chunk.first_tensor += round * run->tensor_step;
            chunk.tier = next_tier(filler, whole ? 0 : mw_sizing_state_bytes(sizing, &chunk));
            g_array_append_val(placed->chunks, chunk);
        }
        end_run(placed, placed->chunks->len, rounds, run->tensor_step);
    }
}

static void
place_chunks(struct mw_sizing *sizing, const struct cutter *cut)
{
    struct cutter placed = begin_cut(sizing);
    struct tier_filler filler;
    int64_t all = 0;

    for (guint c = 0; c < cut->chunks->len; c++) {
        const struct mw_chunk *chunk = &g_array_index(cut->chunks, struct mw_chunk, c);
        all += chunk->times * mw_sizing_state_bytes(sizing, chunk);
    }
    begin_tiers(&filler, &sizing->settings.placement[MW_STATE_OPTIMIZER], sizing->ranks_per_node,
                all);
    next_tier(&filler, 0);
    for (guint r = 0; r < cut->runs->len; r++)
        place_run(sizing, (const struct mw_chunk *)cut->chunks->data,
                  &g_array_index(cut->runs, struct mw_chunk_run, r), &filler, &placed);
    sizing->run_count = placed.runs->len;
    sizing->run_chunk_count = placed.chunks->len;
    sizing->runs = (struct mw_chunk_run *)g_array_free(placed.runs, FALSE);
    sizing->run_chunks = (struct mw_chunk *)g_array_free(placed.chunks, FALSE);
}

void
mw_sizing_cut_chunks(struct mw_sizing *sizing)
{
    struct cutter cutter = begin_cut(sizing);

    cut_tensors(&cutter);
    place_chunks(sizing, &cutter);
    g_array_unref(cutter.chunks);
    g_array_unref(cutter.runs);
    for (uint32_t c = 0; c < sizing->run_chunk_count; c++)
        sizing->chunk_count += sizing->run_chunks[c].times;
}

void
mw_sizing_take_chunks(struct mw_sizing *sizing, struct mw_chunk *chunks)
{
    g_free(sizing->runs);
    g_free(sizing->run_chunks);
    sizing->runs = g_new(struct mw_chunk_run, 1);
    sizing->runs[0] = (struct mw_chunk_run){0, sizing->chunk_count, 1, 0};
    sizing->run_count = 1;
    sizing->run_chunks = chunks;
    sizing->run_chunk_count = sizing->chunk_count;
}

bool
mw_sizing_commits_chunk(const struct mw_sizing *sizing, const struct mw_chunk *chunk)
{
    return chunk->tier == MW_TIER_NVME && sizing->settings.commit == 1;
}

struct mw_chunk *
mw_sizing_chunks(const struct mw_sizing *sizing)
{
    struct mw_chunk *chunks = g_new(struct mw_chunk, sizing->chunk_count + 1), *next = chunks;

    for (const struct mw_chunk_run *run = sizing->runs; run < sizing->runs + sizing->run_count;
         run++)
        for (uint32_t block = 0; block < run->times; block++)
            for (uint32_t c = run->first; c < run->first + run->count; c++, next++) {
                *next = sizing->run_chunks[c];
                next->first_tensor += block * run->tensor_step;
                next->times = 1;
            }
    return chunks;
}

struct mw_chunk_moves
mw_sizing_chunk_moves(const struct mw_sizing *sizing, const struct mw_chunk *chunk)
{
    enum mw_tier gradient = sizing->gradient_home[chunk->first_tensor];
    enum mw_tier param = sizing->param_home[chunk->first_tensor];
    bool off = chunk->tier != MW_TIER_GPU;
    bool host = off && !mw_settings_updates_on_gpu(&sizing->settings), streams = off && !host;

    return (struct mw_chunk_moves){
        .host = host,
        .state_streams = streams,
        .gradient_streams = streams && gradient != MW_TIER_GPU,
        .gradient_read = gradient == MW_TIER_NVME && chunk->tier != MW_TIER_NVME,
        .gradient_h2d = gradient != MW_TIER_GPU && !off,
        .gradient_d2h = gradient == MW_TIER_GPU && host,
        .param_h2d = param == MW_TIER_GPU && host,
        .param_d2h = param != MW_TIER_GPU && !host,
        .param_write = param == MW_TIER_NVME,
    };
}
