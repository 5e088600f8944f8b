/* The search of all ways to divide a training is exact: on random parts of its space it finds what
 * trying every point finds, and no bound that leaves out a point is above it.
 *
 * With an argument N, so many parts of about 1,000 points each instead of a few small ones. */
#include <math.h>
#include <stdlib.h>

#include "lib/parallel.h"
#include "study/known_steps.h"
#include "study/parallel_internal.h"

static const struct {
    const char *model, *hardware, *nodes, *software, *batch;
} cases[] = {
    {"gpt3-175b", "dgx-a100", "64", "ideal", NULL},
    {"llama-3.1-70b", "dgx-a100", "8", "ideal", "384"},
    {"gpt3-175b", "dgx-a100", "64", "megatron", NULL},
    {"gpt3-13b", "dgx-a100", "2", "megatron-2021", "96"}, /* 40 layers, and stages that block */
    {"llama-3.2-3b", "rtx4090-8x", "1", "ideal", "48"},
    {"mixtral-8x7b", "dgx-a100", "4", "ideal", "64"}, /* experts */
};
#define CASES ((int)G_N_ELEMENTS(cases))

#define SEEDS_MOST 20000 /* few of them draw a part of the size that is wanted */

static int parts = 18, least = 100, most = 600;
static int64_t too_slow, no_room; /* in all parts */

static void
read_case(int number, struct mw_lib_parallel *out)
{
    struct memwall_question *question = memwall_question_new();
    struct memwall_error *error = NULL;
    g_autoptr(GError) failed = NULL;
    const char *blamed;

    memwall_question_set(question, "search", "parallel", &error);
    memwall_question_set(question, "model", cases[number].model, &error);
    memwall_question_set(question, "hardware", cases[number].hardware, &error);
    memwall_question_set(question, "nodes", cases[number].nodes, &error);
    memwall_question_set(question, "software", cases[number].software, &error);
    memwall_question_set(question, "seq", "2048", &error);
    if (cases[number].batch)
        memwall_question_set(question, "global-batch", cases[number].batch, &error);
    g_assert_null(error);
    g_assert_true(mw_lib_read_parallel(question, out, &blamed, &failed));
    memwall_question_free(question);
}

/* --- a part of the space ---------------------------------------------------------------------- */

/* Some of the values that an axis may have. */
static void
keep_some(GRand *random, GArray *only, const char *name, const double *values, int count, int some)
{
    struct mw_parallel_only axis = {.setting = mw_setting_find(name),
                                    .values = g_new0(struct mw_settings, some)};

    for (axis.count = 0; axis.count < some; axis.count++) {
        struct mw_settings *s = &axis.values[axis.count];
        double value = values[g_rand_int_range(random, 0, count)];
        char *field = (char *)s + axis.setting->offset;
        mw_settings_init(s);
        if (axis.setting->kind == MW_SETTING_PLACEMENT)
            *(struct mw_placement *)(void *)field =
                (struct mw_placement){.count = 1, .part = {{(enum mw_tier)value, INT64_MAX, 0}}};
        else if (axis.setting->kind == MW_SETTING_REAL)
            *(double *)(void *)field = value;
        else if (axis.setting->size == sizeof(int))
            *(int *)(void *)field = (int)value;
        else
            *(int64_t *)(void *)field = (int64_t)value;
    }
    g_array_append_val(only, axis);
}

#define KEEP(name, some, ...)                                                                      \
    keep_some(random, only, name, (const double[]){__VA_ARGS__},                                   \
              (int)G_N_ELEMENTS(((const double[]){__VA_ARGS__})), some)

static GArray *
draw_part(GRand *random)
{
    GArray *only = g_array_new(FALSE, FALSE, sizeof(struct mw_parallel_only));

    KEEP("tp", 2, 1, 2, 4, 8, 16, 3);
    KEEP("pp", 2, 1, 2, 4, 8, 16, 32);
    KEEP("batch", 4, 0.0625, 0.125, 0.25, 0.375, 0.5, 1, 2, 3, 4);
    KEEP("virtual-stages", 3, MW_AUTO, MW_AUTO, 2, 3, 4, 5, 6, 7);
    KEEP("activation-checkpoint-interval", 3, 0, 0, 1, 1, 2, 4);
    KEEP("recompute-layers", 3, MW_AUTO, MW_AUTO, MW_AUTO, 1, 2, 3, 8);
    KEEP("checkpoints", 2, 0, 0, 1);
    KEEP("param-device", 2, MW_TIER_GPU, MW_TIER_GPU, MW_TIER_CPU, MW_TIER_NVME);
    KEEP("gradient-device", 2, MW_TIER_GPU, MW_TIER_CPU, MW_TIER_CPU, MW_TIER_NVME);
    KEEP("optimizer-device", 2, MW_TIER_GPU, MW_TIER_CPU, MW_TIER_CPU, MW_TIER_NVME);
    KEEP("activation-device", 2, MW_TIER_GPU, MW_TIER_GPU, MW_TIER_CPU);
    return only;
}

static void
free_part(GArray *only)
{
    for (guint i = 0; i < only->len; i++)
        g_free(g_array_index(only, struct mw_parallel_only, i).values);
    g_array_unref(only);
}

/* --- every point ------------------------------------------------------------------------------ */

struct tried {
    int64_t refused, lacking, unfit, fit, no_room;
    double *best_s; /* of each pair and strategy; INFINITY: none */
    double tightest, sum;
};

/* No stage takes less of any tier than the bound of memory says. */
static void
check_need(const struct mw_parallel_space *space, const struct mw_settings *settings,
           const struct mw_parallel_room *room, const struct mw_parallel_variant *variant,
           const struct mw_parallel_state *state)
{
    struct mw_sizing *distinct =
        mw_sizing_new_distinct(space->model, space->hardware, settings, NULL);
    int stages = 0;

    for (const struct mw_sizing *stage = distinct; stage; stage = stage->next_stage, stages++)
        for (int t = 0; t < MW_TIER_COUNT; t++)
            g_assert_cmpint(mw_parallel_need_bytes(room, variant, state, stages, t), <=,
                            mw_sizing_whole_need(stage, (enum mw_tier)t));
    g_assert_cmpint(stages, ==, room->count);
    mw_sizing_free(distinct);
}

/* A bound by the parts' common figures, against all stages of the point itself. */
static void
try_point(const struct mw_parallel_space *space, const struct mw_parallel_block *block, guint v,
          struct tried *tried)
{
    const struct mw_parallel_shape *shape =
        &g_array_index(space->shapes, struct mw_parallel_shape, block->shape);
    const struct mw_parallel_pair *pair = mw_parallel_pair_of(space, shape);
    const struct mw_parallel_variant *variant =
        &g_array_index(pair->variants, struct mw_parallel_variant, v);
    const struct mw_parallel_choice *choice =
        &g_array_index(shape->choices, struct mw_parallel_choice, block->choice);
    const struct mw_parallel_state *state = mw_parallel_state_of(shape, pair, v);
    enum mw_parallel_fate fate = mw_parallel_fate_of(space, block, v);
    struct mw_parallel_room room;
    struct mw_settings settings;
    struct mw_sizing *all = mw_parallel_settings(space, block, variant, &settings)
                                ? mw_sizing_new(space->model, space->hardware, &settings, NULL)
                                : NULL;

    /* What the search calls senseless is refused, or another point says the same. */
    bool away = variant->tier[MW_STATE_ACTIVATIONS] != MW_TIER_GPU;
    g_assert_true(!all || fate != MW_PARALLEL_REFUSED || (!choice->interval && away) ||
                  (choice->whole && !away));
    g_assert_true(!all || fate != MW_PARALLEL_OPEN || choice->layers == MW_AUTO ||
                  space->hardware->offers.recomputed_layers);
    if (!all || fate != MW_PARALLEL_OPEN) {
        tried->lacking += fate == MW_PARALLEL_LACKING;
        tried->refused += fate != MW_PARALLEL_LACKING;
        mw_sizing_free(all);
        return;
    }
    double step_s = mw_pipeline_s(all, space->hardware);
    double bound_s = mw_parallel_bound_s(shape, choice, variant, state);
    g_assert_true(mw_parallel_room_of(space, block, &room));
    bool has_room = mw_parallel_has_room(&room, variant, state);
    g_assert_cmpfloat(bound_s, <=, step_s);
    g_assert_cmpfloat(block->floor_s, <=, bound_s);
    check_need(space, &settings, &room, variant, state);
    g_assert_true(has_room || !all->fits);
    tried->no_room += !has_room;
    tried->unfit += !all->fits;
    if (all->fits) {
        double *best_s =
            &tried->best_s[space->strategies.count * shape->pair + variant->strategy_number];
        *best_s = fmin(*best_s, step_s);
        tried->fit++;
        tried->sum += bound_s / step_s;
        tried->tightest = fmax(tried->tightest, bound_s / step_s);
    }
    mw_sizing_free(all);
}

/* Points of a shape that makes no sense are all refused, too. */
static void
check_refused_shape(const struct mw_parallel_space *space, guint number)
{
    const struct mw_parallel_shape *shape =
        &g_array_index(space->shapes, struct mw_parallel_shape, number);
    const GArray *variants = mw_parallel_pair_of(space, shape)->variants;

    for (guint c = 0; shape->fate == MW_PARALLEL_REFUSED && c < shape->choices->len; c++)
        for (guint v = 0; v < variants->len; v++) {
            const struct mw_parallel_block block = {0, (int32_t)number, (int32_t)c};
            struct mw_settings settings;
            bool complete = mw_parallel_settings(
                space, &block, &g_array_index(variants, struct mw_parallel_variant, v), &settings);
            struct mw_sizing *sizing =
                complete ? mw_sizing_new(space->model, space->hardware, &settings, NULL) : NULL;
            g_assert_null(sizing);
        }
}

static struct tried
try_all(const struct mw_parallel_space *space)
{
    g_autofree struct mw_parallel_block *blocks = mw_parallel_blocks(space);
    guint rows = (guint)space->strategies.count * space->pairs->len;
    struct tried tried = {.best_s = g_new(double, rows + 1)};

    for (guint r = 0; r < rows; r++)
        tried.best_s[r] = INFINITY;
    for (int64_t b = 0; b < space->blocks; b++) {
        const struct mw_parallel_shape *shape =
            &g_array_index(space->shapes, struct mw_parallel_shape, blocks[b].shape);
        for (guint v = 0; v < mw_parallel_pair_of(space, shape)->variants->len; v++)
            try_point(space, &blocks[b], v, &tried);
    }
    for (guint s = 0; s < space->shapes->len; s++)
        check_refused_shape(space, s);
    return tried;
}

/* --- the search beside it --------------------------------------------------------------------- */

/* Sums over all stages have other last bits than over those that are distinct. */
#define SAME 1e-9

static void
check_rows(const struct mw_parallel_space *space, const struct tried *tried,
           const struct mw_parallel *found)
{
    guint strategies = (guint)space->strategies.count;
    int rows = 0;

    for (guint r = 0; r < strategies * space->pairs->len; r++) {
        const struct mw_parallel_pair *pair =
            &g_array_index(space->pairs, struct mw_parallel_pair, r / strategies);
        if (isinf(tried->best_s[r]))
            continue;
        rows++;
        const struct mw_parallel_row *row = NULL;
        for (int i = 0; i < found->row_count; i++)
            if (found->rows[i].settings.tp == pair->tp && found->rows[i].settings.pp == pair->pp &&
                found->rows[i].settings.strategy == space->strategies.one[r % strategies])
                row = &found->rows[i];
        g_assert_nonnull(row);
        g_assert_cmpfloat(fabs(row->step_s / tried->best_s[r] - 1), <, SAME);
    }
    g_assert_cmpint(rows, ==, found->row_count);
}

static void
check_counts(const struct mw_parallel_space *space, const struct tried *tried,
             const struct mw_parallel *found)
{
    g_assert_cmpint(found->points, ==, space->points);
    g_assert_cmpint(found->points, ==,
                    found->refused + found->lacking + found->no_room + found->too_slow +
                        found->unfit + found->survivors);
    g_assert_cmpint(found->refused, ==, space->refused + tried->refused);
    g_assert_cmpint(found->lacking, ==, space->lacking + tried->lacking);
    g_assert_cmpint(found->no_room, <=, tried->no_room);
    g_assert_cmpint(found->survivors, <=, tried->fit);
    if (found->row_count) {
        g_assert_cmpfloat(found->bound_s, >=, found->rows[0].step_s);
        g_assert_cmpfloat(mw_parallel_gap(found), ==, 0);
    }
}

/* Returns the points of the part; 0: too few or too many. */
static int64_t
check_part(int number, guint32 seed)
{
    struct mw_lib_parallel lib;
    GRand *random = g_rand_new_with_seed(seed);
    GArray *only = draw_part(random);
    g_autoptr(GError) error = NULL;
    struct mw_parallel found;

    read_case(number, &lib);
    const struct mw_parallel_question asked = {
        &lib.question, (const struct mw_parallel_only *)(const void *)only->data, (int)only->len,
        NULL};
    struct mw_parallel_space *space = mw_parallel_space_new(&asked, &error);
    g_assert_no_error(error);
    int64_t points =
        space->blocks && space->points >= least && space->points <= most ? space->points : 0;
    if (points) {
        struct tried tried = try_all(space);
        g_assert_true(mw_parallel_find(&asked, &found, &error));
        check_counts(space, &tried, &found);
        check_rows(space, &tried, &found);
        too_slow += found.too_slow;
        no_room += found.no_room;
        g_test_message("%s, seed %u: %d points, %d fit, %d evaluated; bound over step %.4f, most "
                       "%.4f",
                       cases[number].model, seed, (int)points, (int)tried.fit,
                       (int)(found.survivors + found.unfit), tried.sum / (double)tried.fit,
                       tried.tightest);
        if (!tried.fit) /* says nothing of the rows */
            points = 0;
        g_free(tried.best_s);
        mw_parallel_clear(&found);
    }
    mw_parallel_space_free(space);
    free_part(only);
    g_rand_free(random);
    mw_lib_parallel_clear(&lib);
    return points;
}

static void
test_parts(void)
{
    guint32 seed = 1;

    for (int part = 0; part < parts; part++)
        while (!check_part(part % CASES, seed++))
            g_assert_cmpint(seed, <, SEEDS_MOST);
    g_assert_cmpint(too_slow, >, 0); /* bounds of nothing cut nothing */
    g_assert_cmpint(no_room, >, 0);
}

/* --- the closed form beside the engine -------------------------------------------------------- */

static void
test_engine(void)
{
    static const struct {
        int64_t tp, pp, sequences;
        int schedule;
        int64_t stretches, interval;
        enum mw_strategy strategy;
        enum mw_tier away; /* of whole activations */
    } plans[] = {
        {8, 4, 2, MW_SCHEDULE_INTERLEAVED, 6, 1, MW_STRATEGY_ZERO1, MW_TIER_GPU},
        {2, 32, 2, MW_SCHEDULE_GPIPE, MW_AUTO, 1, MW_STRATEGY_ZERO1, MW_TIER_GPU},
        {8, 8, 2, MW_SCHEDULE_INTERLEAVED, 6, 0, MW_STRATEGY_DDP, MW_TIER_GPU},
        {8, 16, 4, MW_SCHEDULE_1F1B, MW_AUTO, 1, MW_STRATEGY_ZERO1, MW_TIER_GPU},
        {8, 2, 8, MW_SCHEDULE_1F1B, MW_AUTO, 1, MW_STRATEGY_ZERO1, MW_TIER_GPU},
        /* 10 stretches of two layers, 4 of one */
        {8, 4, 3, MW_SCHEDULE_INTERLEAVED, 14, 0, MW_STRATEGY_ZERO1, MW_TIER_GPU},
        {8, 8, 4, MW_SCHEDULE_1F1B, MW_AUTO, 1, MW_STRATEGY_ZERO1, MW_TIER_CPU},
        {4, 8, 2, MW_SCHEDULE_GPIPE, MW_AUTO, 1, MW_STRATEGY_ZERO1, MW_TIER_CPU},
    };
    struct mw_lib_parallel lib;

    read_case(2, &lib);
    const struct mw_hardware *hw = &lib.question.hardware[MW_OUTLOOK_TYPICAL];
    const struct mw_request request = {&lib.question.model, hw};
    for (size_t i = 0; i < G_N_ELEMENTS(plans); i++) {
        struct mw_settings s = lib.question.settings, complete;
        s.tp = plans[i].tp;
        s.sequence_parallel = 1;
        s.pp = plans[i].pp;
        s.micro_batch = (double)plans[i].sequences / (double)s.tp;
        s.global_batch = 768;
        s.schedule = plans[i].schedule;
        s.virtual_stages = plans[i].stretches;
        s.checkpoint_interval = plans[i].interval;
        s.strategy = plans[i].strategy;
        s.tiles = s.logits_chunks = 1;
        s.ops_max = MW_OPS_MAX_PIPELINE;
        for (int state = 0; state < MW_STATE_COUNT; state++)
            s.placement[state] =
                (struct mw_placement){.count = 1, .part = {{MW_TIER_GPU, INT64_MAX, 0}}};
        s.placement[MW_STATE_ACTIVATIONS].part[0].tier = plans[i].away;
        s.whole_checkpoints = plans[i].away != MW_TIER_GPU;
        g_assert_true(mw_settings_complete(&request, &s, &complete, NULL));
        struct mw_sizing *sizing = mw_sizing_new(request.model, hw, &complete, NULL);
        struct mw_plan *plan = mw_build_plan(sizing);
        double engine_s = mw_step_s(plan, hw, false), closed_s = mw_pipeline_s(sizing, hw);
        g_test_message("tp %d pp %d: closed form over engine %.3f", (int)s.tp, (int)s.pp,
                       closed_s / engine_s);
        /* The closed form hides each way of what leaves beside all of a pass. */
        g_assert_cmpfloat(fabs(closed_s / engine_s - 1), <, s.whole_checkpoints ? 0.08 : 0.05);
        mw_plan_free(plan);
        mw_sizing_free(sizing);
    }
    mw_lib_parallel_clear(&lib);
}

/* --- what the simulated rows say -------------------------------------------------------------- */

static void
test_evidence(void)
{
    struct mw_parallel_row rows[] = {{.step_s = 10, .engine_s = 12},
                                     {.step_s = 11, .engine_s = 11.55},
                                     {.step_s = 12, .engine_s = NAN},
                                     {.step_s = 13, .engine_s = NAN}};
    const struct mw_parallel found = {.rows = rows, .row_count = G_N_ELEMENTS(rows)};
    struct mw_parallel_evidence seen = mw_parallel_evidence_of(&found);

    g_assert_cmpint(seen.simulated, ==, 2);
    g_assert_cmpfloat_with_epsilon(seen.least, 1.05, 1e-12);
    g_assert_cmpfloat_with_epsilon(seen.most, 1.2, 1e-12);
    g_assert_cmpfloat_with_epsilon(seen.floor_s, 10.5, 1e-12);
    g_assert_true(isnan(seen.untried_s)); /* 12 and 13 are slower than 11.55 */
    rows[1].engine_s = 13;
    g_assert_cmpfloat(mw_parallel_evidence_of(&found).untried_s, !=, 12); /* no faster than 12 */
    rows[0].engine_s = 12.5;
    g_assert_cmpfloat(mw_parallel_evidence_of(&found).untried_s, ==, 12);
    rows[0].engine_s = INFINITY; /* too many ops to simulate */
    seen = mw_parallel_evidence_of(&found);
    g_assert_cmpfloat(seen.untried_s, ==, 10);
    g_assert_cmpint(seen.untried, ==, 2); /* that, and 12; 13 is no faster */
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    if (argc > 1) {
        parts = atoi(argv[1]);
        least = 900;
        most = 1100;
    }
    g_test_add_func("/parallel/parts-of-the-space", test_parts);
    g_test_add_func("/parallel/evidence", test_evidence);
    g_test_add_func("/parallel/closed-form-and-engine", test_engine);
    return g_test_run();
}
