#include "tests/driver_unit.h"

#include <string.h>

#include "tests/whole_model.h"

#define PADDING 8 /* elements */

static struct mw_weights_part
name_part(const struct driver_unit *unit, int64_t tile)
{
    return (struct mw_weights_part){.layer = unit->tensor.layer,
                                    .operators = unit->tensor.operators,
                                    .tiles = unit->tensor.tiles,
                                    .tile = tile};
}

static void *
poisoned(size_t bytes)
{
    void *room = g_malloc(bytes);

    memset(room, DRIVER_POISON, bytes);
    return room;
}

struct driver_unit
driver_unit_make(const struct mw_drive *drive, int64_t layer, uint32_t operators)
{
    struct driver_unit unit = {.tensor = {.layer = (int32_t)layer, .operators = operators}};
    int64_t rows = mw_weights_rows(drive->decoder, operators);

    unit.tensor.tiles = (uint32_t)CLAMP(drive->tiles, 1, rows);
    unit.parts = g_new(struct mw_part, unit.tensor.tiles);
    unit.params = g_new(uint16_t *, unit.tensor.tiles);
    unit.gradients = g_new(uint16_t *, unit.tensor.tiles);
    for (uint32_t t = 0; t < unit.tensor.tiles; t++) {
        struct mw_weights_part part = name_part(&unit, t);
        unit.parts[t] = mw_part_of(drive->decoder, &unit.tensor, t);
        size_t elements = (size_t)unit.parts[t].elements + PADDING;
        unit.params[t] = poisoned(2 * elements);
        unit.gradients[t] = poisoned(2 * elements);
        mw_whole_gather(drive->decoder, drive->params, &part, unit.params[t]);
    }
    return unit;
}

void
driver_unit_take(struct driver_unit *unit, const struct mw_drive *drive, double *gradients)
{

    for (uint32_t t = 0; t < unit->tensor.tiles; t++) {
        struct mw_weights_part part = name_part(unit, t);
        const uint16_t *end = unit->gradients[t] + unit->parts[t].elements;
        for (int i = 0; i < PADDING; i++)
            g_assert_cmpint(end[i], ==, DRIVER_POISON << 8 | DRIVER_POISON);
        mw_whole_scatter(drive->decoder, gradients, &part, unit->gradients[t]);
        g_free(unit->params[t]);
        g_free(unit->gradients[t]);
    }
    g_free(unit->parts);
    g_free(unit->params);
    g_free(unit->gradients);
}
