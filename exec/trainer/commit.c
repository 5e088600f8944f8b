/*
 * Makes every step, or every K-th, durable, and lets a run continue from it.
 *
 * State on drives has two extents.  A step reads the current one and writes the one that the last
 * record does not name; a step that is not committed leaves the next one to work in place there.
 * State in memory is written to the other of two places for saves, in committed steps alone: so a
 * record always names all state of one and the same step.
 */
#include <stdlib.h>

#include "base/error.h"
#include "base/spell.h"
#include "exec/trainer/durable.h"
#include "exec/trainer/frozen.h"
#include "exec/trainer/internal.h"

int64_t
mw_trainer_state_bytes(const struct mw_plan *plan, uint32_t chunk)
{
    return mw_optimizer_state_bytes(plan->shape.optimizer, plan->chunks[chunk].elements);
}

bool
mw_trainer_on_drives(const struct mw_plan *plan, uint32_t chunk)
{
    return plan->slots[plan->chunks[chunk].slot].tier == MW_TIER_NVME;
}

/* --- what can be committed ------------------------------------------------------------------- */

static bool
refuse(GError **error, const char *why)
{
    g_autofree char *spelled = mw_spelled(why);

    return mw_refuse(error, "steps cannot be committed: %s", spelled);
}

static bool
check_variant(const struct mw_trainer *trainer, const struct mw_plan *plan, GError **error)
{
    bool saves = false;

    if (!plan->barriered)
        return refuse(error, "the plan lets a step begin before the one before it has ended");
    for (uint32_t c = 0; c < plan->chunk_count; c++)
        if (mw_trainer_on_drives(plan, c) && plan->chunks[c].other_slot == MW_NONE)
            return refuse(
                error,
                "the plan has one extent for state on NVMe, not two: plan with {commit=step}");
    for (uint32_t s = 0; s < plan->slot_count; s++)
        saves |= plan->slots[s].purpose == MW_PURPOSE_SAVES;
    if (mw_optimizer_has_vectors(plan->shape.optimizer) && !saves)
        return refuse(error, "the plan has no place for vectors of rows and columns: "
                             "{commit=step}, or {save-every=K}");
    if (mw_plan_is_delayed(plan) && !saves)
        return refuse(error, "the plan has no place for the gradients of a delayed update: "
                             "{commit=step}, or {save-every=K}");
    for (uint32_t c = 0; c < plan->chunk_count; c++)
        if (!mw_trainer_on_drives(plan, c) && (!saves || trainer->options.commit.save_every < 1))
            return refuse(error, "optimizer state that is not on NVMe is to be saved there: "
                                 "{save-every=K}");
    return true;
}

bool
mw_trainer_check_commit(const struct mw_trainer *trainer, GError **error)
{
    const struct mw_variants *variants = trainer->options.variants;

    for (uint32_t v = 0; trainer->options.commit.on && v < variants->plan_count; v++)
        if (!check_variant(trainer, variants->plans[v], error))
            return false;
    return true;
}

bool
mw_trainer_open_commit(struct mw_trainer *trainer, GError **error)
{
    const struct mw_trainer_options *options = &trainer->options;
    struct mw_trainer_durable *it = &trainer->durable;
    const struct mw_plan *plan = trainer->plan;

    it->checksums = g_new0(uint64_t, plan->chunk_count + 1);
    it->last_step = it->last_committed = it->before_last = -1;
    if (!options->commit.on)
        return true;
    if (!mw_trainer_find_saves(trainer, error))
        return false;
    for (uint32_t c = 0; c < plan->chunk_count; c++)
        it->state_extents += mw_trainer_on_drives(plan, c);
    it->extents_max += it->state_extents;
    it->extents = g_new0(struct mw_commit_extent, it->extents_max + 1);
    struct mw_commit_options commit = {
        .directory =
            options->commit.directory ? options->commit.directory : options->drives.directories[0],
        .stem = options->drives.stem,
        .fingerprint =
            mw_durable_fingerprint(plan, trainer->kernels->dtype, options->commit.fingerprint),
        .rank = (int)trainer->world_rank,
        .ranks = (int)trainer->world_ranks,
        .extents_max = it->extents_max,
        .nvme = trainer->storage.nvme,
        .resume = options->commit.resume,
        .calls = options->drives.calls,
    };
    it->commit = mw_commit_open(&commit, error);
    return it->commit != NULL;
}

void
mw_trainer_close_commit(struct mw_trainer *trainer)
{
    mw_commit_close(trainer->durable.commit);
    mw_commit_record_clear(&trainer->durable.resumed);
    g_free(trainer->durable.change);
    g_free(trainer->durable.checksums);
    g_free(trainer->durable.extents);
    free(trainer->durable.block);
}

/* --- a step ---------------------------------------------------------------------------------- */

void
mw_trainer_digest(struct mw_trainer *trainer, uint32_t chunk)
{
    int64_t bytes = mw_trainer_state_bytes(trainer->plan, chunk);
    const void *state;

    if (!trainer->durable.commit)
        return;
    state = mw_storage_address(&trainer->storage, trainer->variant->set_slots[chunk], 0);
    trainer->durable.checksums[chunk] = mw_commit_checksum(state, bytes);
    if (!mw_trainer_is_finite(trainer, chunk, 0, bytes, state))
        g_atomic_int_set(&trainer->durable.infinite_chunk, (int)chunk + 1);
}

static bool
is_durable(const struct mw_trainer *trainer)
{
    const struct mw_trainer_durable *it = &trainer->durable;
    int64_t step = trainer->now.step;

    if (!it->commit)
        return false;
    return !it->stream_bytes || step == it->last_step ||
           (step + 1) % trainer->options.commit.save_every == 0;
}

bool
mw_trainer_keeps_state(const struct mw_trainer *trainer)
{
    return trainer->durable.commit && trainer->now.updates_nothing;
}

/* The extents that were written become current, instead of those before.  The next step writes the
 * extents that no record names. */
static void
turn_extents(struct mw_trainer *trainer, bool alternates)
{
    const struct mw_plan *plan = trainer->plan;
    uint32_t *stands_for = trainer->storage.stands_for;

    for (uint32_t c = 0; c < plan->chunk_count; c++) {
        uint32_t slot = plan->chunks[c].slot, other = plan->chunks[c].other_slot;
        if (other == MW_NONE)
            continue;
        if (trainer->variant->updates[c] && !mw_trainer_keeps_state(trainer))
            stands_for[slot] = stands_for[other];
        if (alternates)
            stands_for[other] = stands_for[slot] == slot ? other : slot;
    }
}

struct mw_commit_extent
mw_trainer_state_extent(const struct mw_trainer *trainer, uint32_t chunk, int which)
{
    const struct mw_chunk_content *content = &trainer->plan->chunks[chunk];
    uint32_t slot = which ? content->other_slot : content->slot;

    return (struct mw_commit_extent){
        .id = chunk,
        .offset_bytes = trainer->plan->slots[slot].offset_bytes,
        .bytes = mw_trainer_state_bytes(trainer->plan, chunk),
        .checksum = trainer->durable.checksums[chunk],
        .which = which,
    };
}

int
mw_trainer_fields(const struct mw_trainer *trainer,
                  struct mw_commit_field fields[MW_TRAINER_OWN_FIELDS + MW_TRAINER_FIELDS_MAX])
{
    const struct mw_trainer_options *options = &trainer->options;
    const struct mw_loss_scale *scale = &trainer->scale;
    int count = 0;

    fields[count++] = mw_commit_field(MW_TRAINER_FORMAT, MW_TRAINER_FORMAT_NOW);
    fields[count++] = mw_commit_field(MW_TRAINER_UPDATES, (uint64_t)trainer->now.updates);
    fields[count++] = mw_commit_field(MW_TRAINER_DTYPE, trainer->kernels->dtype);
    fields[count++] = mw_commit_field(MW_TRAINER_OPTIMIZER, trainer->plan->shape.optimizer);
    fields[count++] = mw_commit_field_real(MW_TRAINER_LOSS_SCALE, scale->scale);
    fields[count++] = mw_commit_field(MW_TRAINER_GOOD_STEPS, (uint64_t)scale->good_steps);
    fields[count++] = mw_commit_field(MW_TRAINER_SKIPPED, (uint64_t)scale->skipped);
    fields[count++] = mw_commit_field(MW_TRAINER_SKIPPED_IN_ROW, (uint64_t)scale->skipped_in_row);
    fields[count++] = mw_trainer_computes_with(trainer);
    if (trainer->plan->shape.decoder.lora_rank)
        fields[count++] =
            mw_commit_field(MW_TRAINER_ADAPTERS, mw_frozen_adapters(&trainer->plan->shape.decoder));
    return count +
           (options->commit.fields ? options->commit.fields(options->data, fields + count) : 0);
}

static int64_t
read_count(const struct mw_commit_record *record, const char *name)
{
    uint64_t value = 0;

    mw_commit_find(record, name, &value);
    return (int64_t)value;
}

static enum mw_dtype
dtype_of(const struct mw_commit_record *record)
{
    uint64_t dtype = MW_DTYPE_BF16;

    mw_commit_find(record, MW_TRAINER_DTYPE, &dtype);
    return (enum mw_dtype)dtype;
}

/* Takes the record's loss scale, if this run could have reached it. */
void
mw_trainer_read_fields(struct mw_trainer *trainer, const struct mw_commit_record *record)
{
    const struct mw_loss_scaling *scaling = &trainer->options.loss_scaling;
    double scale = scaling->start;

    if (!trainer->options.checkpoint || trainer->rank == 0) /* a checkpoint's fields are those of
                                                             * the first rank */
        trainer->durable.change = mw_trainer_tell_change(trainer, record);
    trainer->now.updates = read_count(record, MW_TRAINER_UPDATES);
    trainer->next_step = record->step + 1;
    trainer->scale.skipped = read_count(record, MW_TRAINER_SKIPPED);
    mw_commit_find_real(record, MW_TRAINER_LOSS_SCALE, &scale);
    if (dtype_of(record) != trainer->kernels->dtype || scale < scaling->min || scale > scaling->max)
        return;
    trainer->scale.scale = scale;
    trainer->scale.good_steps = read_count(record, MW_TRAINER_GOOD_STEPS);
    trainer->scale.skipped_in_row = read_count(record, MW_TRAINER_SKIPPED_IN_ROW);
}

static bool
write_record(struct mw_trainer *trainer, GError **error)
{
    const struct mw_plan *plan = trainer->plan;
    struct mw_trainer_durable *it = &trainer->durable;
    struct mw_commit_field fields[MW_TRAINER_OWN_FIELDS + MW_TRAINER_FIELDS_MAX + 3];
    struct mw_commit_record record = {.step = trainer->now.step,
                                      .fields = fields,
                                      .extents = it->extents,
                                      .field_count = mw_trainer_fields(trainer, fields)};

    fields[record.field_count++] = mw_commit_field(MW_TRAINER_TENSORS, mw_durable_tensors(plan));
    if (mw_frozen_is_there(plan))
        fields[record.field_count++] = mw_commit_field(MW_TRAINER_FROZEN, trainer->durable.frozen);
    if (trainer->pending)
        fields[record.field_count++] =
            mw_commit_field_real(MW_TRAINER_PENDING, trainer->pending_scale);
    for (uint32_t c = 0; c < plan->chunk_count; c++)
        if (mw_trainer_on_drives(plan, c))
            it->extents[record.extent_count++] = mw_trainer_state_extent(
                trainer, c,
                trainer->storage.stands_for[plan->chunks[c].slot] != plan->chunks[c].slot);
    if (!mw_trainer_save(trainer, &record.extent_count, error) ||
        !mw_commit_write(it->commit, trainer->storage.nvme, &record, error))
        return false;
    it->before_last = it->last_committed;
    it->last_committed = record.step;
    return true;
}

bool
mw_trainer_commit_step(struct mw_trainer *trainer, bool diverged, bool *committed, GError **error)
{
    int infinite = g_atomic_int_get(&trainer->durable.infinite_chunk);

    if (infinite)
        return mw_trainer_refuse_state(trainer, (uint32_t)infinite - 1, error);
    *committed = !diverged && is_durable(trainer);
    turn_extents(trainer, *committed || !trainer->durable.commit);
    return !*committed || write_record(trainer, error);
}
