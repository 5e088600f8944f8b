#include "study/parallel.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/format.h"
#include "base/progress.h"
#include "base/spell.h"
#include "study/bound.h"
#include "study/known_steps.h"
#include "study/parallel_internal.h"

/* Blocks between two looks at the rows, at first few, whatever the number of cores: what is left
 * out is decided between waves, so that it is the same on every machine. */
#define WAVE_FIRST 8
#define WAVE 512

/* --- on all cores ----------------------------------------------------------------------------- */

struct each {
    void (*work)(void *data, int i);
    void *data;
    int count, next;
};

static void
take_turns(gpointer turn, gpointer data)
{
    struct each *each = data;
    int i;

    (void)turn;
    while ((i = g_atomic_int_add(&each->next, 1)) < each->count)
        each->work(each->data, i);
}

void
mw_parallel_each(void (*work)(void *data, int i), void *data, int count)
{
    struct each each = {work, data, count, 0};
    int threads = MIN((int)g_get_num_processors() - 1, count - 1); /* and this one */
    g_autoptr(GError) none = NULL; /* no thread: the system has no more of them */
    GThreadPool *pool =
        threads > 0 ? g_thread_pool_new(take_turns, &each, threads, TRUE, &none) : NULL;

    for (int t = 0; pool && !none && t < threads; t++)
        g_thread_pool_push(pool, &each, NULL);
    take_turns(NULL, &each);
    if (pool)
        g_thread_pool_free(pool, none != NULL, !none);
}

/* --- rows ------------------------------------------------------------------------------------- */

/* Of equal times the point that comes first, which is simpler. */
static bool
is_before(const struct mw_parallel_row *one, const struct mw_parallel_row *other)
{
    if (one->step_s != other->step_s)
        return one->step_s < other->step_s;
    return one->block != other->block ? one->block < other->block : one->variant < other->variant;
}

static int
by_time(const void *one, const void *other)
{
    return is_before(one, other) ? -1 : is_before(other, one);
}

/* A row for each pair and strategy. */
static int
row_of(const struct mw_parallel_space *space, int pair, int strategy)
{
    return space->strategies.count * pair + strategy;
}

/* Rows that no point can have need not be waited for. */
static struct mw_parallel_row *
begin_rows(const struct mw_parallel_space *space)
{
    int count = row_of(space, (int)space->pairs->len, 0);
    struct mw_parallel_row *rows = g_new0(struct mw_parallel_row, count + 1);

    for (guint p = 0; p < space->pairs->len; p++) {
        const struct mw_parallel_pair *pair =
            &g_array_index(space->pairs, struct mw_parallel_pair, p);
        for (int c = 0; c < COUNTS; c++)
            for (guint v = 0; v < pair->variants->len; v++)
                if (pair->states[c][v].fate == MW_PARALLEL_OPEN)
                    rows[row_of(space, (int)p,
                                g_array_index(pair->variants, struct mw_parallel_variant, v)
                                    .strategy_number)]
                        .step_s = INFINITY;
    }
    return rows;
}

/* What a point of the pair must be faster than. */
static double
slowest_row(const struct mw_parallel_space *space, const struct mw_parallel_row *rows, int pair)
{
    double slowest_s = 0;

    for (int s = 0; s < space->strategies.count; s++)
        slowest_s = fmax(slowest_s, rows[row_of(space, pair, s)].step_s);
    return slowest_s;
}

/* Takes those that have a point, the fastest first. */
static void
finish_rows(const struct mw_parallel_space *space, struct mw_parallel *out)
{
    int count = row_of(space, (int)space->pairs->len, 0);

    for (int i = 0; i < count; i++)
        if (out->rows[i].step_s > 0 && isfinite(out->rows[i].step_s))
            out->rows[out->row_count++] = out->rows[i];
    qsort(out->rows, (size_t)out->row_count, sizeof *out->rows, by_time);
}

/* --- a block ---------------------------------------------------------------------------------- */

struct found {
    struct mw_parallel counted; /* of this block */
    GArray *rows;               /* NULL: none */
};

struct wave {
    const struct mw_parallel_space *space;
    struct mw_parallel_block blocks[WAVE];
    int count;
    const struct mw_parallel_row *rows; /* those before it */
    struct found found[WAVE];
};

static int64_t
gpu_bytes(const struct mw_sizing *first)
{
    int64_t most = 0;

    for (const struct mw_sizing *stage = first; stage; stage = stage->next_stage)
        most = MAX(most, mw_sizing_whole_need(stage, MW_TIER_GPU));
    return most;
}

static void
evaluate(const struct wave *wave, const struct mw_parallel_block *block, guint number,
         double bound_s, struct found *found)
{
    const struct mw_parallel_space *space = wave->space;
    const struct mw_parallel_shape *shape =
        &g_array_index(space->shapes, struct mw_parallel_shape, block->shape);
    const GArray *variants = mw_parallel_pair_of(space, shape)->variants;
    struct mw_parallel_row row = {.bound_s = bound_s,
                                  .engine_s = NAN,
                                  .block = shape->first_block + block->choice,
                                  .variant = number};
    struct mw_sizing *sizing = NULL;

    if (mw_parallel_settings(space, block,
                             &g_array_index(variants, struct mw_parallel_variant, number),
                             &row.settings))
        sizing = mw_sizing_new_distinct(space->model, space->hardware, &row.settings, NULL);
    found->counted.refused += !sizing;
    found->counted.unfit += sizing && !sizing->fits;
    if (sizing && sizing->fits) {
        found->counted.survivors++;
        row.step_s = mw_pipeline_s(sizing, space->hardware);
        row.gpu_bytes = gpu_bytes(sizing);
        row.capacity_bytes = sizing->tiers[MW_TIER_GPU].capacity_bytes;
        if (!found->rows)
            found->rows = g_array_new(FALSE, FALSE, sizeof row);
        g_array_append_val(found->rows, row);
    }
    mw_sizing_free(sizing);
}

static void
search_point(const struct wave *wave, const struct mw_parallel_block *block,
             const struct mw_parallel_room *room, guint number, struct found *found)
{
    const struct mw_parallel_space *space = wave->space;
    const struct mw_parallel_shape *shape =
        &g_array_index(space->shapes, struct mw_parallel_shape, block->shape);
    const struct mw_parallel_pair *pair = mw_parallel_pair_of(space, shape);
    const struct mw_parallel_choice *choice =
        &g_array_index(shape->choices, struct mw_parallel_choice, block->choice);
    const struct mw_parallel_variant *variant =
        &g_array_index(pair->variants, struct mw_parallel_variant, number);
    const struct mw_parallel_state *state = mw_parallel_state_of(shape, pair, number);
    enum mw_parallel_fate fate = mw_parallel_fate_of(space, block, number);
    struct mw_parallel *counted = &found->counted;

    if (!room->count || fate != MW_PARALLEL_OPEN) {
        *(fate == MW_PARALLEL_LACKING ? &counted->lacking : &counted->refused) += 1;
        return;
    }
    double bound_s = mw_parallel_bound_s(shape, choice, variant, state);
    if (!mw_parallel_has_room(room, variant, state)) {
        counted->no_room++;
    } else if (bound_s >= wave->rows[row_of(space, shape->pair, variant->strategy_number)].step_s) {
        counted->too_slow++;
        counted->bound_s = fmin(counted->bound_s, bound_s);
    } else {
        evaluate(wave, block, number, bound_s, found);
    }
}

static void
search_block(void *data, int i)
{
    struct wave *wave = data;
    const struct mw_parallel_space *space = wave->space;
    const struct mw_parallel_shape *shape =
        &g_array_index(space->shapes, struct mw_parallel_shape, wave->blocks[i].shape);
    struct mw_parallel_room room;

    mw_parallel_room_of(space, &wave->blocks[i], &room);
    wave->found[i] = (struct found){.counted.bound_s = INFINITY};
    for (guint v = 0; v < mw_parallel_pair_of(space, shape)->variants->len; v++)
        search_point(wave, &wave->blocks[i], &room, v, &wave->found[i]);
}

/* --- all blocks ------------------------------------------------------------------------------- */

static int
by_floor(const void *one, const void *other)
{
    const struct mw_parallel_block *a = one, *b = other;

    return a->floor_s != b->floor_s ? (a->floor_s > b->floor_s) - (a->floor_s < b->floor_s)
           : a->shape != b->shape   ? a->shape - b->shape
                                    : a->choice - b->choice;
}

static int
pair_of(const struct mw_parallel_space *space, const struct mw_parallel_block *block)
{
    return g_array_index(space->shapes, struct mw_parallel_shape, block->shape).pair;
}

static void
add_found(const struct mw_parallel_space *space, const struct mw_parallel_block *block,
          struct found *found, struct mw_parallel *out)
{
    const struct mw_parallel *counted = &found->counted;
    int pair = pair_of(space, block);
    const GArray *variants = g_array_index(space->pairs, struct mw_parallel_pair, pair).variants;

    out->refused += counted->refused;
    out->lacking += counted->lacking;
    out->no_room += counted->no_room;
    out->too_slow += counted->too_slow;
    out->unfit += counted->unfit;
    out->survivors += counted->survivors;
    out->bound_s = fmin(out->bound_s, counted->bound_s);
    for (guint r = 0; found->rows && r < found->rows->len; r++) {
        const struct mw_parallel_row *row = &g_array_index(found->rows, struct mw_parallel_row, r);
        struct mw_parallel_row *best = &out->rows[row_of(
            space, pair,
            g_array_index(variants, struct mw_parallel_variant, row->variant).strategy_number)];
        if (is_before(row, best))
            *best = *row;
    }
    if (found->rows)
        g_array_unref(found->rows);
}

/* All points of a block that are no faster than the rows, but those that make no sense. */
static void
leave_out(const struct mw_parallel_space *space, const struct mw_parallel_block *block,
          struct mw_parallel *out)
{
    const GArray *variants =
        g_array_index(space->pairs, struct mw_parallel_pair, pair_of(space, block)).variants;
    int64_t fates[3] = {0};

    for (guint v = 0; v < variants->len; v++)
        fates[mw_parallel_fate_of(space, block, v)]++;
    out->refused += fates[MW_PARALLEL_REFUSED];
    out->lacking += fates[MW_PARALLEL_LACKING];
    out->too_slow += fates[MW_PARALLEL_OPEN];
    if (fates[MW_PARALLEL_OPEN])
        out->bound_s = fmin(out->bound_s, block->floor_s);
}

static void
tell(const struct mw_parallel_space *space, int64_t next, const struct mw_parallel *out)
{
    double best_s = INFINITY;

    for (int i = 0; i < row_of(space, (int)space->pairs->len, 0); i++)
        best_s = out->rows[i].step_s > 0 ? fmin(best_s, out->rows[i].step_s) : best_s;
    mw_progress("searching: %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT " groups of points, %s %s",
                next, space->blocks, isfinite(best_s) ? "fastest" : "none fits",
                isfinite(best_s) ? mw_format_seconds(best_s) : "yet");
}

static void
search(const struct mw_parallel_space *space, struct mw_parallel *out)
{
    g_autofree struct mw_parallel_block *blocks = mw_parallel_blocks(space);
    g_autofree struct wave *wave = g_new0(struct wave, 1);

    *wave = (struct wave){.space = space, .rows = out->rows};
    qsort(blocks, (size_t)space->blocks, sizeof *blocks, by_floor);
    int most = WAVE_FIRST;
    for (int64_t next = 0; next < space->blocks; most = MIN(2 * most, WAVE)) {
        for (wave->count = 0; wave->count < most && next < space->blocks; next++)
            if (blocks[next].floor_s < slowest_row(space, out->rows, pair_of(space, &blocks[next])))
                wave->blocks[wave->count++] = blocks[next];
            else
                leave_out(space, &blocks[next], out);
        mw_parallel_each(search_block, wave, wave->count);
        for (int i = 0; i < wave->count; i++)
            add_found(space, &wave->blocks[i], &wave->found[i], out);
        tell(space, next, out);
    }
}

/* Why no point makes sense: there is none, or what speaks against the first. */
static bool
refuse_all(const struct mw_parallel_space *space, GError **error)
{
    g_autoptr(GError) first = NULL;

    if (!space->pairs->len)
        return mw_refuse(error, "{search=parallel}: no numbers of slices and stages that {over} "
                                "leaves divide the GPUs");
    if (!space->shapes->len)
        return mw_refuse(error,
                         "{search=parallel}: no division of the GPUs has whole micro-batches of "
                         "{global-batch=%" G_GINT64_FORMAT "}, an order that is searched (1f1b, "
                         "gpipe, interleaved) and values that {over} leaves",
                         space->base.global_batch);
    if (!space->points)
        return mw_refuse(error, "{search=parallel}: no point has the values of recomputation, "
                                "groups and devices that {over} leaves");
    mw_parallel_refuse_first(space, &first);
    return mw_refuse(error, "{search=parallel}: no point makes sense%s%s",
                     first ? "; the first: " : "", first ? first->message : "");
}

bool
mw_parallel_find(const struct mw_parallel_question *asked, struct mw_parallel *out, GError **error)
{
    *out = (struct mw_parallel){.bound_s = INFINITY, .engine_bound_s = NAN, .fastest = -1};
    mw_progress("searching: bounds of the ways to divide the model");
    struct mw_parallel_space *space = mw_parallel_space_new(asked, error);

    if (!space)
        return false;
    bool any = space->refused < space->points || refuse_all(space, error);
    if (any) {
        out->points = space->points;
        out->refused = space->refused;
        out->lacking = space->lacking;
        out->shapes = space->shapes->len;
        out->blocks = space->blocks;
        out->software = asked->software;
        out->batch = space->base.global_batch;
        out->tokens = (double)space->base.global_batch * (double)space->base.seq;
        out->rows = begin_rows(space);
        search(space, out);
        finish_rows(space, out);
    }
    mw_parallel_space_free(space);
    return any;
}

void
mw_parallel_clear(struct mw_parallel *found)
{
    g_free(found->rows);
    *found = (struct mw_parallel){0};
}

/* --- the rows as simulated -------------------------------------------------------------------- */

/* So many at once, whatever the number of cores, as each takes memory; all of them together have no
 * more ops than one pipeline that simulate takes. */
#define AT_ONCE 2
#define OPS_MAX_PIPELINE (MW_OPS_MAX_PIPELINE / AT_ONCE)

struct simulation {
    const struct mw_question *question;
    struct mw_parallel_row *rows;
};

static void
simulate(void *data, int i)
{
    const struct simulation *simulation = data;
    const struct mw_hardware *hw = &simulation->question->hardware[MW_OUTLOOK_TYPICAL];
    struct mw_parallel_row *row = &simulation->rows[i];
    struct mw_settings settings = row->settings;

    settings.ops_max = settings.pp > 1 ? OPS_MAX_PIPELINE : MW_OPS_MAX;
    settings.folds = true;
    struct mw_sizing *sizing = mw_sizing_new(&simulation->question->model, hw, &settings, NULL);
    struct mw_plan *plan = sizing ? mw_build_plan(sizing) : NULL;
    row->engine_s = plan ? mw_step_s(plan, hw, false) : INFINITY;
    mw_plan_free(plan);
    mw_sizing_free(sizing);
}

struct mw_parallel_evidence
mw_parallel_evidence_of(const struct mw_parallel *found)
{
    struct mw_parallel_evidence out = {0, INFINITY, 0, NAN, NAN, 0};
    double fastest_s = INFINITY;

    for (int i = 0; i < found->row_count; i++) {
        const struct mw_parallel_row *row = &found->rows[i];
        if (!isfinite(row->engine_s))
            continue;
        out.simulated++;
        out.least = fmin(out.least, row->engine_s / row->step_s);
        out.most = fmax(out.most, row->engine_s / row->step_s);
        fastest_s = fmin(fastest_s, row->engine_s);
    }
    if (out.simulated)
        out.floor_s = out.least * found->rows[0].step_s;
    for (int i = found->row_count - 1; out.simulated && i >= 0; i--)
        if (!isfinite(found->rows[i].engine_s) && found->rows[i].step_s < fastest_s) {
            out.untried_s = found->rows[i].step_s;
            out.untried++;
        }
    return out;
}

/* Whether the row may be faster than those that were simulated.  The closed form is no bound of the
 * engine: where a row takes less than it, it does not say where to stop. */
static bool
may_be_faster(const struct mw_parallel *found, const struct mw_parallel_row *row)
{
    return found->fastest < 0 || mw_parallel_evidence_of(found).least < 1 ||
           row->step_s < found->rows[found->fastest].engine_s;
}

/* What no plan can do without does not depend on how it is divided. */
static double
engine_bound_s(const struct mw_question *question, const struct mw_parallel *found)
{
    const struct mw_request request = {&question->model, &question->hardware[MW_OUTLOOK_TYPICAL]};
    const struct mw_settings *s = &found->rows[0].settings;
    struct mw_bound bound;

    mw_bound_of(&request, s, &bound);
    return mw_bound_step_s(&bound, found->tokens, s->nodes, s->gpus_per_node);
}

void
mw_parallel_simulate(const struct mw_parallel_question *asked, struct mw_parallel *out)
{
    struct simulation simulation = {asked->question, out->rows};
    int most = MIN(out->row_count, MW_PARALLEL_SIMULATED);

    for (int next = 0; next < most &&
                       (next < MW_PARALLEL_SIMULATED_LEAST || may_be_faster(out, &out->rows[next]));
         next += AT_ONCE) {
        mw_progress("simulating the fastest: %d of %d", next + 1, most);
        simulation.rows = out->rows + next;
        mw_parallel_each(simulate, &simulation, MIN(AT_ONCE, most - next));
        for (int i = next; i < MIN(next + AT_ONCE, most); i++)
            if (isfinite(out->rows[i].engine_s) &&
                (out->fastest < 0 || out->rows[i].engine_s < out->rows[out->fastest].engine_s))
                out->fastest = i;
    }
    if (out->fastest >= 0)
        out->engine_bound_s = engine_bound_s(asked->question, out);
}

/* --- what it says ----------------------------------------------------------------------------- */

double
mw_parallel_gap(const struct mw_parallel *found)
{
    return found->row_count ? fmax(0, found->rows[0].step_s / found->bound_s - 1) : NAN;
}

char *
mw_parallel_options(const struct mw_parallel *found, const struct mw_parallel_row *row)
{
    GString *text = g_string_new(NULL);

    if (found->software)
        g_string_append_printf(text, "{software=%s} ", found->software);
    g_string_append_printf(text, "{global-batch=%" G_GINT64_FORMAT "} {strategy=%s}", found->batch,
                           mw_strategy_name((int)row->settings.strategy));
    for (int i = 0; mw_parallel_axis(i); i++) {
        const struct mw_setting *setting = mw_setting_find(mw_parallel_axis(i));
        g_autofree char *value = mw_setting_text(setting, &row->settings);
        if (value && !mw_setting_is_usual(setting, &row->settings))
            g_string_append_printf(text, " {%s=%s}", setting->name, value);
    }
    char *options = mw_spelled(text->str);
    g_string_free(text, TRUE);
    return options;
}
