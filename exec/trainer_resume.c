/* A run goes on from its newest committed step: all state is checked before it is used. */
#include "exec/checkpoint.h"
#include "exec/trainer_internal.h"
#include "exec/weights.h"
#include "planner/error.h"

bool
mw_trainer_same_extent(const struct mw_commit_extent *found, const struct mw_commit_extent *wanted,
                       GError **error)
{
    if (found->id == wanted->id && found->offset_bytes == wanted->offset_bytes &&
        found->bytes == wanted->bytes)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT,
                "extent %" G_GINT64_FORMAT " has %" G_GINT64_FORMAT " bytes at %" G_GINT64_FORMAT
                " of the NVMe tier, this run has them elsewhere: nothing is resumed",
                found->id, found->bytes, found->offset_bytes);
    return false;
}

/* The first tensor of a chunk, or its last, by its name in weight files. */
static char *
tensor_name(const struct mw_trainer *trainer, uint32_t chunk, bool last)
{
    const struct mw_trainer_chunk *it = &trainer->chunks[chunk];
    struct mw_weights_piece pieces[MW_WEIGHTS_PIECES_MAX];

    if (!it->piece_count)
        return g_strdup("padding");
    const struct mw_piece *piece = &it->pieces[last ? it->piece_count - 1 : 0];
    const struct mw_tensor *tensor = &trainer->plan->tensors[piece->tensor];
    struct mw_weights_part part = {tensor->layer, tensor->operators, tensor->tiles, piece->tile};
    int64_t element = last ? piece->first + piece->elements - 1 : piece->first;
    int i = mw_weights_pieces(trainer->options.decoder, &part, pieces) - 1;
    while (i > 0 && pieces[i].at > element)
        i--;
    return g_strdup(pieces[i].weight.name);
}

bool
mw_trainer_check_extent(const struct mw_trainer *trainer, const struct mw_commit_extent *extent,
                        const void *data, uint32_t first, uint32_t last, GError **error)
{
    if (mw_commit_check(extent, data, error))
        return true;
    g_autofree char *where =
        mw_nvme_where(trainer->places.nvme, extent->offset_bytes, extent->bytes);
    g_autofree char *from = tensor_name(trainer, first, false);
    g_autofree char *to = tensor_name(trainer, last, true);
    g_prefix_error(error, "%s: state of %s to %s: ", where, from, to);
    return false;
}

static bool
resume_chunk(struct mw_trainer *trainer, uint32_t chunk, const struct mw_commit_extent *extent,
             GError **error)
{
    const struct mw_chunk_content *content = &trainer->plan->chunks[chunk];
    uint32_t *stands_for = trainer->places.stands_for, set = trainer->chunks[chunk].set_slot;
    struct mw_commit_extent wanted = mw_trainer_state_extent(trainer, chunk, extent->which);
    struct mw_move move = {{content->slot, 0}, {set, 0}, extent->bytes};

    if (!mw_trainer_same_extent(extent, &wanted, error))
        return false;
    stands_for[content->slot] = extent->which ? content->other_slot : content->slot;
    stands_for[content->other_slot] = extent->which ? content->slot : content->other_slot;
    return mw_places_move(&trainer->places, &move, 1, error) &&
           mw_trainer_check_extent(trainer, extent, mw_places_at(&trainer->places, set, 0), chunk,
                                   chunk, error) &&
           mw_trainer_restore_params(trainer, chunk, error);
}

static bool
resume_state(struct mw_trainer *trainer, GError **error)
{
    const struct mw_plan *plan = trainer->plan;
    const struct mw_commit_record *record = &trainer->durable.resumed;
    const struct mw_commit_extent *extent = record->extents;

    for (uint32_t c = 0; c < plan->chunk_count; c++)
        if (mw_trainer_on_drives(plan, c) && !resume_chunk(trainer, c, extent++, error))
            return false;
    if (!mw_trainer_load_save(trainer, extent, error))
        return false;
    for (uint32_t c = 0; c < plan->chunk_count; c++)
        if (!mw_trainer_on_drives(plan, c) && !mw_trainer_restore_params(trainer, c, error))
            return false;
    return mw_trainer_start_frozen(trainer, error) && mw_trainer_gather_state(trainer, error);
}

bool
mw_trainer_resume(struct mw_trainer *trainer, GError **error)
{
    struct mw_trainer_durable *it = &trainer->durable;
    int64_t steps[2];

    mw_commit_steps(it->commit, steps); /* one at least, or it had not opened */
    if (!mw_trainer_least(trainer, &steps[0], error) ||
        !mw_commit_resume(it->commit, steps[0], &it->resumed, error))
        return false;
    if (it->resumed.extent_count != it->extent_count) {
        g_set_error(error, MW_ERROR, MW_ERROR_FORMAT,
                    "the record of step %" G_GINT64_FORMAT " has %" G_GINT64_FORMAT
                    " extents, this run %" G_GINT64_FORMAT ": nothing is resumed",
                    steps[0], it->resumed.extent_count, it->extent_count);
        return false;
    }
    mw_trainer_read_fields(trainer, &it->resumed);
    if (resume_state(trainer, error))
        return true;
    g_prefix_error(error, "resuming from step %" G_GINT64_FORMAT ": ", steps[0]);
    return false;
}

const struct mw_commit_record *
mw_trainer_resumed(const struct mw_trainer *trainer)
{
    const struct mw_trainer_options *o = &trainer->options;

    if (trainer->durable.resumed.fields)
        return &trainer->durable.resumed;
    return o->checkpoint ? mw_checkpoint_record(o->checkpoint) : NULL;
}

const char *
mw_trainer_notice(const struct mw_trainer *trainer)
{
    return trainer->durable.commit ? mw_commit_notice(trainer->durable.commit) : NULL;
}
