/* The chunks of the optimizer step: how the trained parameters of a rank are cut into them, and
 * where their state lives. */
#include <glib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/thread_memory.h"
#include "planner/sizing/internal.h"
#include "planner/sizing/tiers.h"

/* Most tensors of one chunk: the dependencies on them must fit into an op. */
#define CHUNK_TENSORS_MAX 40

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
        cutter->open = (struct mw_chunk){.first_tensor = tensor,
                                         .tensor_count = 1,
                                         .params = end - from,
                                         .times = 1,
                                         .matrix_params = of_matrices,
                                         .ranks = ranks};
        from = end;
    }
}

/* `first` is the number of the block's first tensor. */
static void
cut_block(struct cutter *cutter, const struct mw_class_info *class, uint32_t first)
{
    const struct mw_sizing *sizing = cutter->sizing;

    for (int t = 0; t < class->tensor_count; t++) {
        int64_t params = mw_sizing_state_of_rank(sizing, &class->tensors[t]);
        int64_t of_matrices = mw_sizing_matrices_of_rank(sizing, &class->tensors[t]);
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
place_run(const struct mw_chunk *chunks, const struct mw_chunk_run *run,
          struct mw_tier_filler *filler, struct cutter *placed)
{
    int64_t round_bytes = 0;
    uint32_t rounds;

    for (uint32_t c = 0; c < run->count; c++)
        round_bytes += chunks[run->first + c].state_bytes;
    for (uint32_t round = 0; round < run->times; round += rounds) {
        int64_t whole = mw_tiers_fill(filler, round_bytes, run->times - round);
        rounds = (uint32_t)MAX(1, whole);
        for (uint32_t c = 0; c < run->count; c++) {
            struct mw_chunk chunk = chunks[run->first + c];
            chunk.first_tensor += round * run->tensor_step;
            chunk.tier = mw_tiers_next(filler, whole ? 0 : chunk.state_bytes);
            g_array_append_val(placed->chunks, chunk);
        }
        end_run(placed, placed->chunks->len, rounds, run->tensor_step);
    }
}

static void
place_chunks(struct mw_sizing *sizing, const struct cutter *cut)
{
    struct cutter placed = begin_cut(sizing);
    struct mw_tier_filler filler;
    int64_t all = 0;

    for (guint c = 0; c < cut->chunks->len; c++) {
        struct mw_chunk *chunk = &g_array_index(cut->chunks, struct mw_chunk, c);
        chunk->state_bytes = mw_state_bytes(&sizing->settings, sizing->hardware, chunk->params,
                                            chunk->matrix_params);
        all += chunk->times * chunk->state_bytes;
    }
    mw_tiers_begin(&filler, &sizing->settings.placement[MW_STATE_OPTIMIZER], sizing->ranks_per_node,
                   all);
    mw_tiers_next(&filler, 0);
    for (guint r = 0; r < cut->runs->len; r++)
        place_run((const struct mw_chunk *)cut->chunks->data,
                  &g_array_index(cut->runs, struct mw_chunk_run, r), &filler, &placed);
    sizing->run_count = placed.runs->len;
    sizing->run_chunk_count = placed.chunks->len;
    sizing->runs = (struct mw_chunk_run *)g_array_free(placed.runs, FALSE);
    sizing->run_chunks = (struct mw_chunk *)g_array_free(placed.chunks, FALSE);
}

static void
cut_and_place(struct mw_sizing *sizing)
{
    struct cutter cutter = begin_cut(sizing);

    cut_tensors(&cutter);
    place_chunks(sizing, &cutter);
    g_array_unref(cutter.chunks);
    g_array_unref(cutter.runs);
}

/* --- cuts that are remembered ----------------------------------------------------------------- */

/* A search sizes one placement with many batches, which cut the same chunks.  Cuts of more are not
 * remembered. */
#define REMEMBERED_CHUNKS 1024

/* All that chunks and their tiers depend on where no parameter or gradient is split; the rest of
 * `words` is not set. */
struct cut_key {
    struct mw_placement placement;
    int64_t count;
    int64_t words[5 + MW_CLASS_COUNT * (2 + 4 * MW_CLASS_TENSORS_MAX)];
};

struct cut {
    struct mw_chunk_run *runs;
    struct mw_chunk *chunks;
    uint32_t run_count, chunk_count;
};

static void
clear_cut(void *value)
{
    struct cut *cut = value;

    g_free(cut->runs);
    g_free(cut->chunks);
}

static struct mw_thread_memory cuts = MW_THREAD_MEMORY(struct cut_key, struct cut, 1, 8, clear_cut);

static void
add_class(const struct mw_sizing *sizing, const struct mw_class_info *class, struct cut_key *key)
{
    key->words[key->count++] = class->blocks;
    key->words[key->count++] = class->tensor_count;
    for (int t = 0; class->blocks && t < class->tensor_count; t++) {
        const struct mw_unit_tensor *tensor = &class->tensors[t];
        key->words[key->count++] = tensor->trained;
        key->words[key->count++] = mw_sizing_state_of_rank(sizing, tensor);
        key->words[key->count++] = mw_sizing_matrices_of_rank(sizing, tensor);
        key->words[key->count++] = tensor->ranks;
    }
}

static void
set_key(const struct mw_sizing *sizing, struct cut_key *key)
{
    const struct mw_settings *s = &sizing->settings;

    memcpy(&key->placement, &s->placement[MW_STATE_OPTIMIZER], sizeof key->placement);
    key->count = 0;
    key->words[key->count++] = sizing->ranks_per_node;
    key->words[key->count++] = s->optimizer_chunk;
    key->words[key->count++] = s->drop_layers != NULL;
    key->words[key->count++] = s->optimizer;
    key->words[key->count++] = mw_updates_in_place(s, sizing->hardware);
    for (int c = 0; c < MW_CLASS_COUNT; c++)
        add_class(sizing, &sizing->classes[c], key);
}

static size_t
key_bytes(const struct cut_key *key)
{
    return offsetof(struct cut_key, words) + (size_t)key->count * sizeof *key->words;
}

static bool
take_known(struct mw_sizing *sizing, const struct cut_key *key)
{
    const struct cut *cut = mw_thread_memory_find(&cuts, key, key_bytes(key));

    if (!cut)
        return false;
    sizing->run_count = cut->run_count;
    sizing->run_chunk_count = cut->chunk_count;
    sizing->runs = g_memdup2(cut->runs, cut->run_count * sizeof *cut->runs);
    sizing->run_chunks = g_memdup2(cut->chunks, cut->chunk_count * sizeof *cut->chunks);
    return true;
}

static void
remember(const struct mw_sizing *sizing, const struct cut_key *key)
{
    if (!sizing->run_chunk_count || sizing->run_chunk_count > REMEMBERED_CHUNKS)
        return;
    *(struct cut *)mw_thread_memory_keep(&cuts, key, key_bytes(key)) = (struct cut){
        g_memdup2(sizing->runs, sizing->run_count * sizeof *sizing->runs),
        g_memdup2(sizing->run_chunks, sizing->run_chunk_count * sizeof *sizing->run_chunks),
        sizing->run_count, sizing->run_chunk_count};
}

void
mw_sizing_cut_chunks(struct mw_sizing *sizing)
{
    bool splits = mw_sizing_splits(sizing, MW_STATE_PARAMETERS) ||
                  mw_sizing_splits(sizing, MW_STATE_GRADIENTS);
    struct cut_key key;

    if (!splits)
        set_key(sizing, &key);
    if (splits || !take_known(sizing, &key)) {
        cut_and_place(sizing);
        if (!splits)
            remember(sizing, &key);
    }
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

/* --- what there is ---------------------------------------------------------------------------- */

bool
mw_sizing_commits_chunk(const struct mw_sizing *sizing, const struct mw_chunk *chunk)
{
    return chunk->tier == MW_TIER_NVME && chunk->state_bytes > 0 && sizing->settings.commit == 1;
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
