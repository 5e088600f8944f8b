#include <glib.h>

#include "base/arithmetic.h"
#include "planner/sizing/internal.h"

/* Two slots let one gradient leave while the next is made. */
#define GRADIENT_RING 2
/* Two let one checkpoint travel while the next is made or used. */
#define CHECKPOINT_RING 2
/* Two let a chunk's gradients or parameters travel while another is updated on the GPU. */
#define GPU_UPDATE_RING 2
/* What a drive writes as one: records are aligned to it. */
#define BLOCK_BYTES 4096
/* Step, data cursor, random state, loss scale, checksum: less than a block. */
#define COMMIT_HEADER_BYTES BLOCK_BYTES
/* Place, size, checksum and name of an extent, 8 bytes each. */
#define EXTENT_ENTRY_BYTES 32

/* Checkpoints: 2·bsz·seq·hd bytes every ci blocks (ZeRO-Infinity Sec. 3, Eq. 3); with tensor
 * slicing each rank keeps 1/tp of them (ZeRO-R, Pa).  Working memory: what the backward of one
 * group needs (Eq. 5 with the saved activations of the operators), plus the gradients that flow
 * into and out of the widest operator. */
void
mw_sizing_activations(struct mw_sizing *sizing)
{
    const struct mw_class_info *classes = sizing->classes;
    int64_t interval = sizing->settings.checkpoint_interval;
    int64_t group = interval ? MIN(interval, sizing->model->layers) : sizing->model->layers;
    int64_t saved = 0, widest = 0;

    for (int c = MW_CLASS_DENSE; c <= MW_CLASS_EXPERT; c++)
        saved = MAX(saved, classes[c].saved_bytes);
    for (int c = 0; c < MW_CLASS_TAIL; c++)
        widest = MAX(widest, classes[c].widest_bytes);
    sizing->activation_bytes = group * saved + 2 * widest;
    sizing->activation_slots = CLAMP(sizing->activation_bytes / MAX(1, widest), 1, 64);
    sizing->activation_slot_bytes =
        mw_divide_up(sizing->activation_bytes, sizing->activation_slots);
    if (interval) {
        sizing->checkpoint_count = mw_divide_up(sizing->model->layers, interval);
        sizing->checkpoint_bytes =
            2 * mw_divide_up(sizing->tokens * sizing->model->hidden, sizing->tp);
    }
    /* 16-bit logits and their fp32 softmax, which becomes the gradient in place. */
    if (classes[MW_CLASS_TAIL].blocks)
        sizing->logits_bytes = 6 * mw_divide_up(sizing->tokens, sizing->settings.logits_chunks) *
                               mw_divide_up(sizing->model->vocab, sizing->tp);
    mw_sizing_account(sizing, MW_TIER_GPU, MW_PURPOSE_ACTIVATIONS, sizing->activation_slot_bytes,
                      sizing->activation_slots);
    mw_sizing_account(sizing, MW_TIER_GPU, MW_PURPOSE_LOGITS, sizing->logits_bytes, 1);
}

struct survey { /* what the homes ask for */
    bool params[MW_TIER_COUNT], gradients[MW_TIER_COUNT], chunks[MW_TIER_COUNT];
    bool checkpoints[MW_TIER_COUNT];
    struct mw_chunk_moves moves; /* of any chunk */
    bool gradient_with_state;    /* read from NVMe together */
    int64_t tile_params, shard_params, chunk_params, group_parts;
    int64_t logits_parts, logits_gradients; /* that stay over all chunks; 0 with one chunk */
};

static void
survey_chunk(const struct mw_sizing *sizing, struct survey *survey, const struct mw_chunk *chunk)
{
    struct mw_chunk_moves moves = mw_sizing_chunk_moves(sizing, chunk);

    survey->chunks[chunk->tier] = true;
    survey->chunk_params = MAX(survey->chunk_params, chunk->params);
    survey->gradient_with_state |=
        chunk->tier == MW_TIER_NVME && sizing->gradient_home[chunk->first_unit] == MW_TIER_NVME;
    survey->moves.gradient_read |= moves.gradient_read;
    survey->moves.gradient_h2d |= moves.gradient_h2d;
    survey->moves.gradient_d2h |= moves.gradient_d2h;
    survey->moves.param_h2d |= moves.param_h2d;
    survey->moves.param_d2h |= moves.param_d2h;
    survey->moves.param_write |= moves.param_write;
}

static int64_t
class_parts(const struct mw_class_info *class)
{
    int64_t parts = 0;

    for (int u = 0; u < class->unit_count; u++)
        parts += class->units[u].tiles;
    return parts;
}

/* The most parts that a checkpoint group has: all its layers dense, all with experts, or the group
 * in which the one kind follows the other. */
static int64_t
group_parts(const struct mw_sizing *sizing)
{
    const struct mw_class_info *dense = &sizing->classes[MW_CLASS_DENSE];
    const struct mw_class_info *expert = &sizing->classes[MW_CLASS_EXPERT];
    int64_t interval = MAX(1, sizing->settings.checkpoint_interval);
    int64_t before = dense->blocks % interval;
    int64_t most = MAX(MIN(interval, dense->blocks) * class_parts(dense),
                       MIN(interval, expert->blocks) * class_parts(expert));

    return MAX(most, before * class_parts(dense) +
                         MIN(interval - before, expert->blocks) * class_parts(expert));
}

static void
survey_homes(const struct mw_sizing *sizing, struct survey *survey)
{
    for (uint32_t u = 0; u < sizing->unit_count; u++) {
        survey->params[sizing->param_home[u]] = true;
        survey->gradients[sizing->gradient_home[u]] = true;
    }
    for (uint32_t c = 0; c < sizing->run_chunk_count; c++)
        survey_chunk(sizing, survey, &sizing->run_chunks[c]);
    for (int64_t c = 0; c < sizing->checkpoint_count; c++)
        survey->checkpoints[sizing->checkpoint_home[c]] = true;
    for (int c = 0; c < MW_CLASS_COUNT; c++) {
        const struct mw_class_info *class = &sizing->classes[c];
        for (int u = 0; u < class->unit_count; u++) {
            survey->tile_params = MAX(survey->tile_params, class->units[u].tile_params);
            survey->shard_params = MAX(survey->shard_params, class->units[u].shard_params);
        }
    }
    survey->group_parts = group_parts(sizing);
    if (sizing->settings.logits_chunks > 1) {
        survey->logits_parts = mw_sizing_logits_parts(sizing);
        survey->logits_gradients = mw_sizing_tied(sizing) ? 0 : survey->logits_parts;
    }
}

/* The fetch path: gg, cg and nc slots.  Owner-broadcast moves whole parts, not shards. */
static void
size_fetch(struct mw_sizing *sizing, const struct survey *survey)
{
    const struct mw_settings *settings = &sizing->settings;
    bool offloaded = survey->params[MW_TIER_CPU] || survey->params[MW_TIER_NVME];
    bool owner = settings->partition == MW_PARTITION_OWNER;
    int64_t ring = settings->prefetch + 1;
    int64_t part = 2 * (owner ? survey->tile_params : survey->shard_params);
    int64_t group = settings->param_loads == 2 ? survey->group_parts : 0;

    if (!sizing->params_partitioned || (!offloaded && sizing->dp == 1))
        return;
    /* With two loads the units of a checkpoint group stay from recompute to backward; in chunks the
     * logits' weight stays from the first one's forward to the last one's backward. */
    sizing->param_ring = MAX(ring + group, settings->prefetch + survey->logits_parts);
    sizing->param_slot_bytes = 2 * survey->tile_params;
    if (offloaded && sizing->dp > 1) {
        sizing->shard_ring = ring;
        sizing->shard_slot_bytes = part;
    }
    if (survey->params[MW_TIER_NVME]) {
        sizing->pinned_ring = ring;
        sizing->pinned_slot_bytes = part;
    }
}

static void
size_gradients(struct mw_sizing *sizing, const struct survey *survey)
{
    bool offloaded = survey->gradients[MW_TIER_CPU] || survey->gradients[MW_TIER_NVME];
    bool owner = sizing->settings.partition == MW_PARTITION_OWNER;
    bool widens = mw_sizing_widens(sizing);
    bool reduced = sizing->gradients_partitioned && sizing->dp > 1;
    int64_t ring = offloaded || reduced ? GRADIENT_RING : 1;
    int64_t part = owner ? survey->tile_params : survey->shard_params;

    if (offloaded || reduced || widens) {
        /* The gradient of the logits' weight is summed over their chunks before it leaves. */
        sizing->gradient_ring = MAX(ring, ring - 1 + survey->logits_gradients);
        sizing->gradient_slot_bytes = 2 * survey->tile_params;
    }
    if (mw_sizing_tied(sizing) &&
        (sizing->gradient_home[0] != MW_TIER_GPU || reduced || widens)) {
        sizing->tied_gradients = sizing->classes[MW_CLASS_HEAD].units[0].tiles;
        sizing->tied_gradient_bytes = 2 * sizing->classes[MW_CLASS_HEAD].units[0].tile_params;
    }
    if (reduced && (offloaded || widens)) {
        sizing->gradient_shard_ring = GRADIENT_RING;
        sizing->gradient_shard_bytes = 2 * part;
    }
    if (survey->gradients[MW_TIER_NVME] || (offloaded && widens)) {
        sizing->gradient_pinned_ring = GRADIENT_RING;
        sizing->gradient_pinned_bytes = 2 * part;
        /* Behind the sum that drives read and write, in whole pages. */
        if (survey->gradients[MW_TIER_NVME] && widens)
            sizing->gradient_pinned_bytes += mw_round_up(4 * part, MW_SLOT_ALIGNMENT_BYTES);
    }
}

static void
size_optimizer(struct mw_sizing *sizing, const struct survey *survey)
{
    const struct mw_chunk_moves *moves = &survey->moves;
    bool delayed = sizing->settings.dpu_start != MW_AUTO;
    int64_t ring = MIN(MAX(2, sizing->settings.buffer_sets), sizing->chunk_count);
    int64_t gradient_bytes = sizing->gradient_element_bytes * survey->chunk_params;

    if (survey->chunks[MW_TIER_NVME]) {
        sizing->optimizer_sets = sizing->settings.buffer_sets;
        sizing->optimizer_set_bytes = survey->chunk_params * sizing->optimizer_element_bytes +
                                      (survey->gradient_with_state ? gradient_bytes : 0);
    }
    if (moves->gradient_read || moves->gradient_d2h) {
        sizing->incoming_ring = ring;
        sizing->incoming_slot_bytes = gradient_bytes;
    }
    if (moves->gradient_h2d) {
        sizing->gpu_incoming_ring = GPU_UPDATE_RING;
        sizing->gpu_incoming_bytes = gradient_bytes;
    }
    if (moves->param_d2h) {
        sizing->gpu_gather_ring = GPU_UPDATE_RING;
        sizing->gpu_gather_bytes = 2 * survey->chunk_params;
    }
    /* Updated 16-bit parameters on their way to GPU or NVMe; all of them with delayed update,
     * since the GPU still computes with the old ones. */
    if (moves->param_h2d || moves->param_write) {
        sizing->gather_slot_bytes = 2 * survey->chunk_params;
        sizing->gather_ring = delayed ? sizing->chunk_count : ring;
    }
}

static void
enter_buffers(struct mw_sizing *s)
{
    mw_sizing_account(s, MW_TIER_GPU, MW_PURPOSE_PARAMETER_BUFFERS, s->param_slot_bytes,
                      s->param_ring);
    mw_sizing_account(s, MW_TIER_GPU, MW_PURPOSE_SHARD_BUFFERS, s->shard_slot_bytes, s->shard_ring);
    mw_sizing_account(s, MW_TIER_CPU, MW_PURPOSE_SHARD_BUFFERS, s->pinned_slot_bytes,
                      s->pinned_ring);
    mw_sizing_account(s, MW_TIER_GPU, MW_PURPOSE_GRADIENT_BUFFERS, s->gradient_slot_bytes,
                      s->gradient_ring);
    mw_sizing_account(s, MW_TIER_GPU, MW_PURPOSE_GRADIENT_BUFFERS, s->tied_gradient_bytes,
                      s->tied_gradients);
    mw_sizing_account(s, MW_TIER_GPU, MW_PURPOSE_SHARD_BUFFERS, s->gradient_shard_bytes,
                      s->gradient_shard_ring);
    mw_sizing_account(s, MW_TIER_CPU, MW_PURPOSE_GRADIENT_BUFFERS, s->gradient_pinned_bytes,
                      s->gradient_pinned_ring);
    mw_sizing_account(s, MW_TIER_GPU, MW_PURPOSE_CHECKPOINT_BUFFERS, s->checkpoint_bytes,
                      s->checkpoint_ring);
    mw_sizing_account(s, MW_TIER_CPU, MW_PURPOSE_CHECKPOINT_BUFFERS, s->checkpoint_bytes,
                      s->checkpoint_pinned_ring);
    mw_sizing_account(s, MW_TIER_CPU, MW_PURPOSE_OPTIMIZER_BUFFERS, s->optimizer_set_bytes,
                      s->optimizer_sets);
    mw_sizing_account(s, MW_TIER_CPU, MW_PURPOSE_OPTIMIZER_BUFFERS, s->incoming_slot_bytes,
                      s->incoming_ring);
    mw_sizing_account(s, MW_TIER_GPU, MW_PURPOSE_OPTIMIZER_BUFFERS, s->gpu_incoming_bytes,
                      s->gpu_incoming_ring);
    mw_sizing_account(s, MW_TIER_CPU, MW_PURPOSE_PARAMETER_BUFFERS, s->gather_slot_bytes,
                      s->gather_ring);
    mw_sizing_account(s, MW_TIER_GPU, MW_PURPOSE_PARAMETER_BUFFERS, s->gpu_gather_bytes,
                      s->gpu_gather_ring);
}

/* What a delayed update has yet to use: whole homes, for the next step overwrites them. */
static int64_t
pending_bytes(const struct mw_sizing *sizing)
{
    int64_t bytes = 0;

    for (uint32_t u = 0; u < sizing->unit_count; u++) {
        const struct mw_unit *unit = mw_sizing_unit(sizing, u);
        int64_t part = sizing->gradients_partitioned ? unit->shard_stride : unit->tile_params;
        bytes +=
            mw_round_up(sizing->gradient_rest_bytes * unit->tiles * part, MW_SLOT_ALIGNMENT_BYTES);
    }
    return bytes;
}

static void
size_saved_state(struct mw_sizing *sizing)
{
    int64_t sharers = sizing->optimizer_partitioned ? 1 : sizing->dp;

    for (uint32_t c = 0; c < sizing->run_chunk_count; c++) {
        const struct mw_chunk *chunk = &sizing->run_chunks[c];
        if (chunk->tier != MW_TIER_NVME)
            sizing->saved_bytes +=
                chunk->times *
                mw_divide_up(chunk->params * sizing->optimizer_element_bytes, sharers);
    }
    for (uint32_t u = 0; u < sizing->unit_count; u++) {
        const struct mw_unit *unit = mw_sizing_unit(sizing, u);
        if (sizing->param_home[u] != MW_TIER_NVME)
            sizing->saved_bytes += 2 * unit->tiles * unit->shard_params;
    }
}

/* State that is not on NVMe is saved there every K steps, each rank its share, into the other of
 * two places, so that one save is whole at any time.  The gradients of a delayed update go with it;
 * where all state is on NVMe, they do with every step's commit. */
static void
size_saves(struct mw_sizing *sizing)
{
    const struct mw_settings *settings = &sizing->settings;
    bool delayed = settings->dpu_start != MW_AUTO;

    sizing->saves_in_step = delayed && settings->commit == 1;
    for (uint32_t c = 0; c < sizing->run_chunk_count; c++)
        sizing->saves_in_step &= sizing->run_chunks[c].tier == MW_TIER_NVME;
    sizing->save_steps = sizing->saves_in_step ? 1 : settings->save_every;
    if (!sizing->save_steps)
        return;
    if (!sizing->saves_in_step)
        size_saved_state(sizing);
    if (delayed)
        sizing->saved_bytes =
            mw_round_up(sizing->saved_bytes, MW_SLOT_ALIGNMENT_BYTES) + pending_bytes(sizing);
    mw_sizing_account(sizing, MW_TIER_NVME, MW_PURPOSE_SAVES, sizing->saved_bytes, 2);
}

/* Two records take turns, so that one is whole at any time.  A record holds the extent map, one
 * entry for each chunk that has two extents. */
static void
size_commit_records(struct mw_sizing *sizing)
{
    int64_t extents = 0;

    for (uint32_t c = 0; c < sizing->run_chunk_count; c++)
        if (sizing->run_chunks[c].tier == MW_TIER_NVME)
            extents += sizing->run_chunks[c].times;
    if (sizing->settings.commit != 1 || !extents)
        return;
    sizing->commit_record_bytes =
        COMMIT_HEADER_BYTES + BLOCK_BYTES * mw_divide_up(extents * EXTENT_ENTRY_BYTES, BLOCK_BYTES);
    mw_sizing_account(sizing, MW_TIER_NVME, MW_PURPOSE_COMMIT_RECORDS, sizing->commit_record_bytes,
                      2);
}

/* What drives give back is checked against what they were given last, page by page. */
static void
size_checksums(struct mw_sizing *sizing)
{
    sizing->checksum_bytes = mw_plan_checksum_bytes(sizing->need_bytes[MW_TIER_NVME]);
    mw_sizing_account(sizing, MW_TIER_CPU, MW_PURPOSE_CHECKSUMS, sizing->checksum_bytes, 1);
}

void
mw_sizing_buffers(struct mw_sizing *sizing)
{
    struct survey survey = {0};

    survey_homes(sizing, &survey);
    size_fetch(sizing, &survey);
    size_gradients(sizing, &survey);
    size_optimizer(sizing, &survey);
    if (survey.checkpoints[MW_TIER_CPU] || survey.checkpoints[MW_TIER_NVME])
        sizing->checkpoint_ring = CHECKPOINT_RING;
    if (survey.checkpoints[MW_TIER_NVME])
        sizing->checkpoint_pinned_ring = CHECKPOINT_RING;
    enter_buffers(sizing);
    size_commit_records(sizing);
    size_saves(sizing);
    size_checksums(sizing);
}
