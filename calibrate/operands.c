/*
 * What is in the memory that operands and results of the measured works move through.
 *
 * A GPU takes less power where few bits change, and its clocks are higher then: products of zeros,
 * of one constant or of infinities run a fifth faster than those of a training.  So operands are
 * numbers of a normal distribution, and no result is ever an operand: after a few products of
 * products all would be 0 or infinite.
 */
#include <math.h>
#include <string.h>

#include "calibrate/internal.h"
#include "exec/data/convert.h"

/* Like that of weights and activations; squares and sums stay far from the ends of both types. */
#define SPREAD (1.0 / 64)
#define HALVES 65536                    /* as many as 16 random bits can choose from */
#define BLOCK_BYTES (INT64_C(64) << 20) /* then everything repeats */

enum signs { BOTH_SIGNS, POSITIVE_WORDS };

static uint64_t
next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static double
uniform(uint64_t *state)
{
    return ((double)(next(state) >> 11) + 0.5) / (double)(INT64_C(1) << 53);
}

/* Box and Muller, Annals of Mathematical Statistics 29(2), 1958. */
static void
draw_halves(uint16_t *halves, uint64_t *state, enum mw_dtype dtype)
{
    for (int i = 0; i < HALVES; i++) {
        double radius = sqrt(-2 * log(uniform(state))), angle = 2 * G_PI * uniform(state);
        halves[i] = mw_half_of_fp32((float)(SPREAD * radius * cos(angle)), dtype);
    }
}

/* Positive words: the upper half of each is, and so the word as fp32, as variances must be. */
static void
fill_block(const struct mw_arena *block, enum mw_dtype dtype, enum signs signs)
{
    const uint64_t mask = signs == BOTH_SIGNS ? UINT64_MAX : UINT64_C(0x7fffffff7fffffff);
    uint64_t *words = (uint64_t *)(void *)block->base;
    uint64_t state = UINT64_C(0x9e3779b97f4a7c15);
    g_autofree uint16_t *halves = g_new(uint16_t, HALVES);

    draw_halves(halves, &state, dtype);
    for (int64_t i = 0; i < block->bytes / 8; i++) {
        uint64_t bits = next(&state), word = 0;
        for (int part = 0; part < 64; part += 16)
            word |= (uint64_t)halves[bits >> part & 0xffff] << part;
        words[i] = word & mask;
    }
}

static struct mw_arena
block_of(const struct mw_arena *arena)
{
    return (struct mw_arena){.base = arena->base, .bytes = MIN(BLOCK_BYTES, arena->bytes)};
}

void
mw_calibrate_fill_host(struct mw_calibrator *c)
{
    struct mw_arena block = block_of(&c->host);

    fill_block(&block, c->options->dtype, POSITIVE_WORDS);
    for (int64_t at = block.bytes; at < c->host.bytes; at += block.bytes)
        memcpy(c->host.base + at, block.base, (size_t)MIN(block.bytes, c->host.bytes - at));
}

/* By way of the host's memory. */
static bool
fill_device(struct mw_calibrator *c, enum signs signs, GError **error)
{
    struct mw_arena block = block_of(&c->host);

    fill_block(&block, c->options->dtype, signs);
    for (int64_t at = 0; at < c->device.bytes; at += block.bytes)
        if (!c->backend->copy(c->handle, c->device.base + at, block.base,
                              MIN(block.bytes, c->device.bytes - at), error))
            return false;
    return true;
}

static bool
fill_targets(struct mw_calibrator *c, GError **error)
{
    int32_t *targets = (int32_t *)(void *)c->host.base;

    for (int64_t i = 0; i < c->scale->loss_rows; i++)
        targets[i] = (int32_t)i;
    return c->backend->copy(c->handle, c->targets, targets, 4 * c->scale->loss_rows, error);
}

/* One angle for all: heads that are rotated again and again stay as long as they are. */
#define COSINE 0.6f
#define SINE 0.8f

static bool
fill_angles(struct mw_calibrator *c, GError **error)
{
    const int64_t count = mw_calibrate_angles(c->scale), half = MW_CALIBRATION_HEAD_DIM / 2;
    float *angles = (float *)(void *)c->host.base;

    for (int64_t i = 0; i < count; i++)
        angles[i] = i / half % 2 ? SINE : COSINE;
    return c->backend->copy(c->handle, c->angles, angles, count * (int64_t)sizeof *angles, error);
}

bool
mw_calibrate_fill(struct mw_calibrator *c, GError **error)
{
    if (!fill_targets(c, error) || !fill_angles(c, error) || !fill_device(c, BOTH_SIGNS, error))
        return false;
    mw_calibrate_fill_host(c);
    return true;
}

bool
mw_calibrate_fill_state(struct mw_calibrator *c, GError **error)
{
    return fill_device(c, POSITIVE_WORDS, error);
}

/* --- state ----------------------------------------------------------------------------------- */

#define STATE_BYTES 16 /* of an element, in all arrays */

/* How many have room: an odd number of cache lines of 16-bit elements, for arrays that begin a
 * power of two apart share sets of caches and banks of memory, which those of no model do. */
static int64_t
elements_in(const struct mw_arena *arena)
{
    int64_t lines = arena->bytes / STATE_BYTES / 32;

    return (lines - !(lines & 1)) * 32;
}

struct mw_calibrate_state
mw_calibrate_state(const struct mw_arena *arena, int64_t *at, int64_t elements)
{
    int64_t room = elements_in(arena), first = *at + elements <= room ? *at : 0;
    float *w = (float *)(void *)arena->base;
    uint16_t *param = (uint16_t *)(void *)(w + 3 * room);

    g_assert(elements <= room);
    *at = first + elements;
    return (struct mw_calibrate_state){w + first, w + room + first, w + 2 * room + first,
                                       param + first, param + room + first};
}

/* --- operands and results -------------------------------------------------------------------- */

static void *
take_in_half(const struct mw_arena *arena, int which, int64_t *at, int64_t bytes)
{
    int64_t middle = arena->bytes / 2 / 64 * 64;
    const struct mw_arena half = {.base = arena->base + (which ? middle : 0), .bytes = middle};

    return mw_calibrate_take(&half, at, bytes);
}

void *
mw_calibrate_operand(struct mw_calibrator *c, struct mw_calibrate_places *places, int64_t bytes)
{
    return take_in_half(&c->device, 0, &places->operand, bytes);
}

void *
mw_calibrate_result(struct mw_calibrator *c, struct mw_calibrate_places *places, int64_t bytes)
{
    return take_in_half(&c->device, 1, &places->result, bytes);
}
