/* Continues a run from its newest committed step: all state is checked before it is used. */
#include <stdlib.h>

#include "base/error.h"
#include "base/spell.h"
#include "exec/commit/extents.h"
#include "exec/nvme/run_names.h"
#include "exec/trainer/checkpoint.h"
#include "exec/trainer/durable.h"
#include "exec/trainer/frozen.h"
#include "exec/trainer/internal.h"

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

/* What bytes are of that belong to no piece.  Vectors are the last of a save. */
static const char *
beside_pieces(const struct mw_trainer *trainer, const struct mw_commit_extent *extent)
{
    return trainer->vectors.places && extent->id >= trainer->plan->chunk_count
               ? "vectors of rows and columns"
               : "padding";
}

/* g_free it. */
static char *
name_range(const struct mw_trainer *trainer, const struct mw_commit_extent *extent,
           const struct mw_piece *first, const struct mw_piece *last)
{
    const char *beside = beside_pieces(trainer, extent);
    g_autofree char *from =
        first ? mw_trainer_tensor_name(trainer, first, first->first) : g_strdup(beside);
    g_autofree char *to =
        last ? mw_trainer_tensor_name(trainer, last, last->first + last->elements - 1)
             : g_strdup(beside);

    return first || last ? g_strdup_printf("state of %s to %s", from, to) : g_strdup(beside);
}

bool
mw_trainer_check_extent(const struct mw_trainer *trainer, const struct mw_commit_extent *extent,
                        const void *data, const struct mw_piece *first, const struct mw_piece *last,
                        GError **error)
{
    if (mw_commit_check(extent, data, error)) {
        mw_nvme_vouch(trainer->storage.nvme, extent->offset_bytes, mw_in_pages(extent->bytes),
                      data);
        return true;
    }
    g_autofree char *where =
        mw_nvme_where(trainer->storage.nvme, extent->offset_bytes, extent->bytes);
    g_autofree char *what = name_range(trainer, extent, first, last);
    g_prefix_error(error, "%s: %s: ", where, what);
    return false;
}

static bool
resume_chunk(struct mw_trainer *trainer, uint32_t chunk, const struct mw_commit_extent *extent,
             GError **error)
{
    const struct mw_chunk_content *content = &trainer->plan->chunks[chunk];
    uint32_t *stands_for = trainer->storage.stands_for, set = trainer->variant->set_slots[chunk];
    struct mw_commit_extent wanted = mw_trainer_state_extent(trainer, chunk, extent->which);
    struct mw_move move = {{content->slot, 0}, {set, 0}, extent->bytes};
    const struct mw_trainer_chunk *it = &trainer->chunks[chunk];
    const struct mw_piece *last = it->piece_count ? &it->pieces[it->piece_count - 1] : NULL;
    const char *state = mw_storage_address(&trainer->storage, set, 0);

    if (!mw_trainer_same_extent(extent, &wanted, error))
        return false;
    stands_for[content->slot] = extent->which ? content->other_slot : content->slot;
    stands_for[content->other_slot] = extent->which ? content->slot : content->other_slot;
    trainer->durable.checksums[chunk] = extent->checksum; /* until the chunk is updated */
    return mw_storage_move(&trainer->storage, &move, 1, error) &&
           mw_trainer_check_extent(trainer, extent, state, last ? it->pieces : NULL, last, error) &&
           mw_trainer_check_state(trainer, chunk, 0, extent->bytes, state, error) &&
           mw_trainer_restore_params(trainer, chunk, error);
}

/* Recomputes the part of the norm of a gradient, which is otherwise taken on its way to the
 * drives. */
static bool
restore_partials(struct mw_trainer *trainer, uint32_t index, uint32_t tile, char *buffer,
                 GError **error)
{
    const struct mw_tensor *tensor = &trainer->plan->tensors[index];
    int64_t elements = mw_trainer_state_of(trainer, index, tile).elements;
    int64_t bytes = mw_trainer_gradient_bytes(tensor);
    int64_t home = trainer->plan->slots[tensor->gradient_slot].offset_bytes +
                   bytes * tile * tensor->gradient_stride;
    double *partial =
        trainer->partials + trainer->partial_first[index] + tile * trainer->partial_blocks[index];

    for (int64_t first = 0; first < elements; first += MW_NORM_BLOCK) {
        int64_t n = MIN(MW_NORM_BLOCK, elements - first);
        if (!mw_nvme_transfer(trainer->storage.nvme, MW_NVME_READ, home + bytes * first,
                              mw_in_pages(bytes * n), buffer, error))
            return false;
        trainer->kernels->square_sums(partial++, buffer, bytes == 4, n);
        mw_trainer_add_sides(trainer, index, tile,
                             mw_trainer_state_of(trainer, index, tile).first + first, n, buffer);
    }
    return true;
}

static bool
restore_norm(struct mw_trainer *trainer, GError **error)
{
    const struct mw_plan *plan = trainer->plan;
    void *buffer = NULL;
    bool good = true;

    if (posix_memalign(&buffer, MW_PAGE_BYTES, 4 * MW_NORM_BLOCK))
        g_error("out of memory");
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        const struct mw_tensor *tensor = &plan->tensors[t];
        bool drives = tensor->trainable && plan->slots[tensor->gradient_slot].tier == MW_TIER_NVME;
        for (uint32_t tile = 0; good && drives && tile < tensor->tiles; tile++)
            good = restore_partials(trainer, t, tile, buffer, error);
    }
    free(buffer);
    return good;
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
    mw_trainer_start_vectors(trainer);
    for (uint32_t c = 0; c < plan->chunk_count; c++)
        if (!mw_trainer_on_drives(plan, c) && !mw_trainer_restore_params(trainer, c, error))
            return false;
    return mw_trainer_start_frozen(trainer, error) &&
           mw_trainer_all_gather_parameters(trainer, error) &&
           (!trainer->pending || restore_norm(trainer, error));
}

/* State that is padded to pages may have room for tensors of other sizes. */
static bool
has_tensors(const struct mw_trainer *trainer, GError **error)
{
    const struct mw_commit_record *record = &trainer->durable.resumed;
    uint64_t tensors;

    if (mw_commit_find(record, MW_TRAINER_TENSORS, &tensors) &&
        tensors != mw_durable_tensors(trainer->plan))
        return mw_fail(error, MW_ERROR_FORMAT,
                       "the record of step %" G_GINT64_FORMAT " is of other tensors than this run "
                       "trains: nothing is resumed",
                       record->step + 1);
    if (!mw_frozen_same_adapters(record, &trainer->plan->shape.decoder))
        return mw_fail(error, MW_ERROR_FORMAT,
                       "the record of step %" G_GINT64_FORMAT " is of adapters with another rank "
                       "or {lora-alpha}: nothing is resumed",
                       record->step + 1);
    return true;
}

/* Takes up the run at the record's step: which variant the next step takes, and what waits for
 * it. */
static bool
take_up(struct mw_trainer *trainer, GError **error)
{
    const struct mw_commit_record *record = &trainer->durable.resumed;

    if (!mw_trainer_check_fields(record, error)) {
        g_prefix_error(error, "%s: the record of step %" G_GINT64_FORMAT ": ",
                       mw_commit_path(trainer->durable.commit), record->step + 1);
        return false;
    }
    if (!has_tensors(trainer, error))
        return false;
    mw_trainer_read_fields(trainer, record);
    trainer->pending = mw_commit_find_real(record, MW_TRAINER_PENDING, &trainer->pending_scale);
    mw_trainer_turn_to(trainer, trainer->next_step);
    if (trainer->pending && !mw_plan_is_delayed(trainer->plan))
        return mw_fail(error, MW_ERROR_FORMAT,
                       "the record of step %" G_GINT64_FORMAT " has gradients for a delayed "
                       "update, this run has none then ({dpu-start}): nothing is resumed",
                       record->step + 1);
    return true;
}

/* Files of another run may have the same shapes and step. */
static bool
is_of_one_run(const struct mw_trainer *trainer, GError **error)
{
    uint64_t own = mw_durable_course(&trainer->durable.resumed), first = own;

    if (trainer->options.ranks &&
        !mw_ranks_broadcast(trainer->options.ranks, 0, &first, sizeof first, 0, error))
        return false;
    return first == own ||
           mw_fail(error, MW_ERROR_FORMAT, "%s: " MW_DURABLE_OTHER_RUN "nothing is resumed",
                   mw_commit_path(trainer->durable.commit));
}

static bool
has_all_extents(const struct mw_trainer *trainer, GError **error)
{
    const struct mw_commit_record *record = &trainer->durable.resumed;
    int64_t extents = trainer->durable.state_extents + mw_trainer_save_extents(trainer);

    if (record->extent_count == extents)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT,
                "the record of step %" G_GINT64_FORMAT " has %" G_GINT64_FORMAT
                " extent%s, this run %" G_GINT64_FORMAT ": nothing is resumed",
                record->step + 1, record->extent_count, record->extent_count == 1 ? "" : "s",
                extents);
    return false;
}

/* If all ranks come here, none has failed before, since a failed rank ends the others. */
static bool
all_here(struct mw_trainer *trainer, GError **error)
{
    int64_t here = 0;

    return mw_trainer_least(trainer, &here, error);
}

/* Up to here no rank has overwritten anything that a record names. */
static bool
take_over(struct mw_trainer *trainer, GError **error)
{
    struct mw_commit *commit = trainer->durable.commit;

    return all_here(trainer, error) && mw_commit_renew(commit, error) && all_here(trainer, error) &&
           mw_commit_void_newer(commit, error);
}

/* --- which step ------------------------------------------------------------------------------ */

/* This rank's newest step before `step`; -1 if there is none. */
static int64_t
step_before(const struct mw_trainer *trainer, int64_t step)
{
    int64_t steps[2], before = -1;
    int count = mw_commit_steps(trainer->durable.commit, steps);

    for (int i = 0; i < count; i++)
        if (steps[i] < step)
            before = MAX(before, steps[i]);
    return before;
}

/* Chooses the step that all ranks take. */
static bool
choose_step(struct mw_trainer *trainer, int64_t *step, GError **error)
{
    int64_t steps[2];

    mw_commit_steps(trainer->durable.commit, steps); /* at least one, since the record was opened */
    *step = steps[0];
    if (!mw_trainer_least(trainer, step, error))
        return false;
    if (!trainer->options.commit.previous)
        return true;
    const int64_t newest = *step;
    *step = step_before(trainer, newest);
    if (!mw_trainer_least(trainer, step, error))
        return false;
    if (*step >= 0)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_IO,
                "%s: no step before the newest, %" G_GINT64_FORMAT ", is recorded%s",
                mw_commit_path(trainer->durable.commit), newest + 1,
                trainer->ranks > 1 ? " by all ranks" : "");
    return false;
}

static bool
check_extents(const struct mw_trainer *trainer, const struct mw_commit_record *record,
              GError **error)
{
    const struct mw_commit *commit = trainer->durable.commit;
    const struct mw_nvme_options *drives = &trainer->options.drives;
    struct mw_extents extents;
    bool whole =
        mw_extents_open(&extents, drives->directories, drives->stem ? drives->stem : MW_RUN_BASE,
                        mw_commit_identity(commit), mw_commit_path(commit), drives->calls, error);

    for (int64_t i = 0; whole && i < record->extent_count; i++)
        whole = mw_extents_check(&extents, &record->extents[i], NULL, error);
    mw_extents_close(&extents);
    return whole;
}

/* Reads without the tier, which reads nothing more after a failed read. */
static bool
is_whole(struct mw_trainer *trainer, int64_t step, GError **error)
{
    struct mw_commit_record record;
    bool whole = mw_commit_resume(trainer->durable.commit, step, &record, error) &&
                 check_extents(trainer, &record, error);

    mw_commit_record_clear(&record);
    return whole;
}

/* Says what can be done about a step that is damaged or cannot be read.  An earlier step does not
 * help against a step that this run does not accept, or against a drive that cannot be written. */
static void
tell_previous(struct mw_trainer *trainer, int64_t step, GError **error)
{
    if (!g_error_matches(*error, MW_ERROR, MW_ERROR_IO) ||
        mw_nvme_has_failed_to_write(trainer->storage.nvme))
        return;
    const int64_t before = step_before(trainer, step);
    const char *own = trainer->ranks > 1 ? ", in this rank's files" : "";
    g_autoptr(GError) why = NULL;
    g_autofree char *rest =
        before < 0 ? g_strdup("; no step before it is recorded")
        : is_whole(trainer, before, &why)
            ? mw_spelled_printf("; step %" G_GINT64_FORMAT ", before it, is whole%s: {resume} "
                                "{at=previous} continues from there",
                                before + 1, own)
            : g_strdup_printf("; step %" G_GINT64_FORMAT ", before it, is not whole either: %s",
                              before + 1, why->message);
    char *all = g_strconcat((*error)->message, rest, NULL);

    g_free((*error)->message);
    (*error)->message = all;
}

static bool
caller_resumes(const struct mw_trainer *trainer, GError **error)
{
    const struct mw_trainer_options *options = &trainer->options;

    return !options->commit.resumes ||
           options->commit.resumes(options->data, &trainer->durable.resumed, error);
}

bool
mw_trainer_resume(struct mw_trainer *trainer, GError **error)
{
    struct mw_trainer_durable *it = &trainer->durable;
    GError *damage = NULL;
    int64_t step;

    if (!choose_step(trainer, &step, error) ||
        !mw_commit_resume(it->commit, step, &it->resumed, error) || !take_up(trainer, error) ||
        !is_of_one_run(trainer, error) || !has_all_extents(trainer, error) ||
        !caller_resumes(trainer, error))
        return false;
    it->last_committed = it->resumed.step;
    if (!resume_state(trainer, &damage))
        tell_previous(trainer, step, &damage);
    else if (take_over(trainer, &damage))
        return true;
    g_propagate_prefixed_error(error, damage, "resuming from step %" G_GINT64_FORMAT ": ",
                               step + 1);
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
