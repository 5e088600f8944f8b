#include "tests/driver_unit.h"

#include "tests/whole_model.h"

static struct mw_weights_part
name_part(const struct driver_unit *unit, int64_t tile)
{
    return (struct mw_weights_part){.layer = unit->tensor.layer,
                                    .operators = unit->tensor.operators,
                                    .tiles = unit->tensor.tiles,
                                    .tile = tile};
}

struct driver_unit
driver_unit_make(const struct mw_drive *drive, int64_t layer, uint32_t operators)
{
    struct driver_unit unit = {.tensor = {.layer = (int32_t)layer, .operators = operators},
                               .element_bytes = mw_dtype_element_bytes(mw_drive_dtype(drive))};
    int64_t rows = mw_weights_rows(drive->decoder, operators);

    unit.tensor.tiles = (uint32_t)CLAMP(drive->tiles, 1, rows);
    unit.parts = g_new(struct mw_part, unit.tensor.tiles);
    unit.params = g_new(void *, unit.tensor.tiles);
    unit.gradients = g_new(void *, unit.tensor.tiles);
    for (uint32_t t = 0; t < unit.tensor.tiles; t++)
        unit.parts[t] = mw_part_of(drive->decoder, &unit.tensor, t);
    return unit;
}

static int64_t
part_bytes(const struct driver_unit *unit, uint32_t tile)
{
    return unit->parts[tile].elements * unit->element_bytes;
}

void
driver_unit_place(struct driver_unit *unit, struct driver_memory *memory)
{
    for (uint32_t t = 0; t < unit->tensor.tiles; t++) {
        unit->params[t] = driver_memory_take(memory, part_bytes(unit, t));
        unit->gradients[t] = driver_memory_take(memory, part_bytes(unit, t));
    }
}

void
driver_unit_fill(const struct driver_unit *unit, const struct mw_drive *drive,
                 const struct driver_memory *memory)
{
    for (uint32_t t = 0; t < unit->tensor.tiles; t++) {
        struct mw_weights_part part = name_part(unit, t);
        g_autofree void *params = g_malloc((gsize)part_bytes(unit, t));
        mw_whole_part(drive->decoder, drive->params, &part, mw_drive_dtype(drive), params);
        memory->device->write(unit->params[t], params, part_bytes(unit, t));
    }
}

void
driver_unit_take(struct driver_unit *unit, const struct mw_drive *drive,
                 const struct driver_memory *memory, double *gradients)
{
    for (uint32_t t = 0; t < unit->tensor.tiles; t++) {
        struct mw_weights_part part = name_part(unit, t);
        g_autofree void *made = g_malloc((gsize)part_bytes(unit, t));
        memory->device->read(made, unit->gradients[t], part_bytes(unit, t));
        mw_whole_scatter(drive->decoder, gradients, &part, mw_drive_dtype(drive), made);
    }
    g_free(unit->parts);
    g_free(unit->params);
    g_free(unit->gradients);
}
