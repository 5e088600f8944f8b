/* What plan.h says about homes, on plans of random requests: where an element of a chunk lies in
 * the homes of state, gradients and parameters, and that a plan without the delay of another has
 * its homes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cases.h"
#include "tests/planned.h"
#include "tests/random_request.h"

#define PLANS MW_CASES(500)
#define PROBES 16
#define DELAYED 300

/* Elements of a part, row by row. */
static int64_t
part_elements(const struct mw_tensor *tensor, int64_t tile)
{
    int64_t elements = tile ? 0 : tensor->elements - tensor->rows * tensor->row_elements;

    for (int64_t row = 0; row < tensor->rows; row++)
        if (row >= mw_part_first_row(tensor->rows, tensor->tiles, tile) &&
            row < mw_part_first_row(tensor->rows, tensor->tiles, tile + 1))
            elements += tensor->row_elements;
    return elements;
}

/* Whole grains of 8 where parts have 1,024 rows; as even as they allow; the largest is said. */
static void
test_rows(void)
{
    for (int64_t rows = 1; rows <= 20000; rows += rows < 200 ? 1 : 61) {
        for (int64_t tiles = 1; tiles <= MIN(rows, 40); tiles++) {
            int64_t grain = rows >= 1024 * tiles ? 8 : 1, least = INT64_MAX, most = 0, at = 0;
            for (int64_t tile = 0; tile < tiles; tile++) {
                int64_t end = mw_part_first_row(rows, tiles, tile + 1);
                g_assert_cmpint(mw_part_first_row(rows, tiles, tile), ==, at);
                g_assert_cmpint(at % grain, ==, 0);
                g_assert_cmpint(end, >, at);
                least = MIN(least, end - at);
                most = MAX(most, end - at);
                at = end;
            }
            g_assert_cmpint(at, ==, rows);
            g_assert_cmpint(most, ==, mw_part_rows_max(rows, tiles));
            g_assert_cmpint(most - least, <, 2 * grain);
        }
    }
    g_assert_cmpint(mw_part_first_row(INT64_MAX, 1 << 16, 1 << 16), ==, INT64_MAX);
    g_assert_cmpint(mw_part_first_row(INT64_MAX, 1 << 16, 65535), ==, 65535 * ((INT64_C(1) << 47)));
}

/* Neighbouring ranks have each other experts. */
static int64_t
holder_of(const struct mw_tensor *tensor, int64_t dp_rank)
{
    return dp_rank / MAX(1, tensor->spread);
}

/* Of the state of a rank: the part's element at a place, or -1 for padding. */
static int64_t
element_at(const struct mw_tensor *tensor, int64_t dp_rank, int64_t place)
{
    int64_t tile = place / tensor->state_stride, i = place % tensor->state_stride;
    int64_t first = tensor->state_whole ? 0 : holder_of(tensor, dp_rank) * tensor->shard_elements;
    int64_t held = tensor->state_whole ? tensor->tile_elements : tensor->shard_elements;

    return i < held && first + i < part_elements(tensor, tile) ? first + i : -1;
}

/* Tensor and place in its state of a chunk's element. */
static uint32_t
find_place(const struct mw_plan *plan, const struct mw_chunk_content *chunk, int64_t at,
           int64_t *place)
{
    uint32_t t = chunk->first_tensor;

    *place = chunk->first_element + at;
    while (*place >= plan->tensors[t].tiles * plan->tensors[t].state_stride) {
        *place -= plan->tensors[t].tiles * plan->tensors[t].state_stride;
        t++;
    }
    g_assert_cmpuint(t, <, chunk->first_tensor + chunk->tensor_count);
    return t;
}

static bool
find_piece(struct mw_pieces pieces, int64_t at, struct mw_piece *piece)
{
    while (mw_pieces_next(&pieces, piece))
        if (at >= piece->at && at < piece->at + piece->elements)
            return true;
    return false;
}

static void
check_element(const struct mw_plan *plan, const struct mw_chunk_content *chunk, uint32_t dp_rank,
              int64_t at)
{
    int64_t place;
    uint32_t t = find_place(plan, chunk, at, &place);
    const struct mw_tensor *tensor = &plan->tensors[t];
    int64_t element = element_at(tensor, dp_rank, place), tile = place / tensor->state_stride;
    int64_t own = tensor->state_whole
                      ? element
                      : element - holder_of(tensor, dp_rank) * tensor->shard_elements;
    struct mw_piece piece;
    bool found = find_piece(mw_chunk_pieces(plan, chunk, dp_rank), at, &piece);

    g_assert_cmpint(found, ==, element >= 0);
    if (!found)
        return;
    g_assert_cmpuint(piece.tensor, ==, t);
    g_assert_cmpuint(piece.tile, ==, tile);
    g_assert_cmpint(piece.first + at - piece.at, ==, element);
    g_assert_cmpint(mw_tensor_place(tensor, MW_HOME_STATE, dp_rank, tile, element), ==, place);
    g_assert_cmpint(mw_tensor_place(tensor, MW_HOME_GRADIENTS, dp_rank, tile, element), ==,
                    tile * tensor->gradient_stride + (tensor->gradients_whole ? element : own));
    g_assert_cmpint(mw_tensor_place(tensor, MW_HOME_PARAMS, dp_rank, tile, element), ==,
                    tile * tensor->param_stride + (tensor->params_whole ? element : own));
}

/* Chunks of one rank's program, as rank `dp_rank` of its group has them. */
static void
check_chunks(const struct mw_plan *plan, uint32_t rank, uint32_t dp_rank, GRand *random,
             int64_t *covered)
{
    for (uint32_t c = 0; c < plan->chunk_count; c++) {
        const struct mw_chunk_content *chunk = &plan->chunks[c];
        struct mw_pieces pieces = mw_chunk_pieces(plan, chunk, dp_rank);
        struct mw_piece piece;
        int64_t behind = 0;

        if (chunk->program != rank)
            continue;
        while (mw_pieces_next(&pieces, &piece)) {
            g_assert_cmpint(piece.at, >=, behind);
            behind = piece.at + piece.elements;
            g_assert_cmpint(behind, <=, chunk->elements);
            covered[piece.tensor] += piece.elements;
            check_element(plan, chunk, dp_rank, piece.at);
            check_element(plan, chunk, dp_rank, behind - 1);
        }
        for (int i = 0; i < PROBES && chunk->elements; i++)
            check_element(plan, chunk, dp_rank,
                          (int64_t)(g_rand_double(random) * (double)chunk->elements));
    }
}

/* Of a tensor that is trained, the ranks of a group have every element once, or once each where it
 * is whole; of experts that are spread, so many ranks have each others. */
static void
check_plan(const struct mw_sizing *sizing, GRand *random)
{
    struct mw_plan *plan = mw_build_plan(sizing);
    uint32_t next = plan->program_count > 1 ? (uint32_t)sizing->tp : 1; /* of the same group */

    for (uint32_t rank = 0; rank < plan->program_count; rank += next) {
        g_autofree int64_t *covered = g_new0(int64_t, plan->tensor_count);
        if (plan->program_count > 1)
            check_chunks(plan, rank, rank / sizing->tp % sizing->shards, random, covered);
        for (uint32_t r = 0; plan->program_count == 1 && r < sizing->shards; r++)
            check_chunks(plan, rank, r, random, covered);
        for (uint32_t t = 0; plan->program_count == 1 && t < plan->tensor_count; t++) {
            const struct mw_tensor *tensor = &plan->tensors[t];
            int64_t times = !tensor->trainable    ? 0
                            : tensor->state_whole ? sizing->shards
                                                  : MAX(1, tensor->spread);
            g_assert_cmpint(covered[t], ==, times * tensor->elements);
        }
    }
    mw_plan_free(plan);
}

static void
test_places(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(1);
    int apart = 0;

    for (guint32 seed = 0, plans = 0; plans < PLANS; seed++) {
        struct random_request request;

        random_request_init(&request, seed);
        g_autoptr(GPtrArray) found = NULL;
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        if (!sizing)
            continue;
        check_plan(sizing, random);
        apart += sizing->shards > 1 && sizing->optimizer_partitioned != sizing->params_partitioned;
        plans++;
    }
    g_assert_cmpint(apart, >, PLANS / 10);
}

/* --- what the check refuses ------------------------------------------------------------------- */

static void
shorten_stride(struct mw_plan *plan)
{
    plan->tensors[0].state_stride = plan->tensors[0].shard_elements - 1;
}

static void
lengthen_part(struct mw_plan *plan)
{
    plan->tensors[0].elements += plan->tensors[0].tile_elements;
}

static void
move_chunk(struct mw_plan *plan)
{
    plan->chunks[0].first_element = INT64_MAX;
}

static void
lengthen_chunk(struct mw_plan *plan)
{
    plan->chunks[0].tensor_count = 1;
    plan->chunks[0].first_element =
        plan->tensors[0].tiles * plan->tensors[0].state_stride - plan->chunks[0].elements + 1;
}

/* Its gradients and its optimizer state stay. */
static void
freeze(struct mw_plan *plan)
{
    plan->tensors[0].trainable = false;
}

static void
lose_gradients(struct mw_plan *plan)
{
    plan->tensors[0].gradient_slot = MW_NONE;
}

static void
test_refused(void)
{
    static const struct {
        void (*spoil)(struct mw_plan *plan);
        const char *why;
    } cases[] = {{shorten_stride, "tensor 0: a stride is less than what it holds"},
                 {lengthen_part, "tensor 0: a part is more than its tile elements"},
                 {move_chunk, "chunk 0: more than its tensors' state"},
                 {lengthen_chunk, "chunk 0: more than its tensors' state"},
                 {freeze, "tensor 0: is frozen, but has gradients or optimizer state"},
                 {lose_gradients, "tensor 0: gradient home 4294967295: expected one of "}};
    struct mw_hardware hardware;
    char why[256];

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct mw_plan *plan =
            planned_new((struct planned){.layers = 1, .gpus = 2, .micro_batch = 1}, &hardware);
        plan->checked = false;
        cases[i].spoil(plan);
        g_assert_false(mw_plan_check(plan, why, sizeof why));
        g_assert_true(g_str_has_prefix(why, cases[i].why));
        mw_plan_free(plan);
    }
}

/* --- a step without the delay ----------------------------------------------------------------- */

static bool
is_home(const struct mw_slot *slot)
{
    return slot->purpose == MW_PURPOSE_PARAMETERS || slot->purpose == MW_PURPOSE_GRADIENTS ||
           slot->purpose == MW_PURPOSE_OPTIMIZER_STATE ||
           slot->purpose == MW_PURPOSE_OPTIMIZER_STATE_OTHER ||
           slot->purpose == MW_PURPOSE_ACTIVATION_CHECKPOINTS;
}

/* A plan's lines of tensors and chunks. */
static char *
contents_text(const struct mw_plan *plan)
{
    char *text = NULL;
    size_t size_bytes = 0;
    FILE *out = open_memstream(&text, &size_bytes);

    g_assert_true(mw_plan_write(plan, out));
    fclose(out);
    char *first = strstr(text, "\ntensor ");
    g_assert_nonnull(first);
    char *contents = g_strndup(first, (gsize)(strstr(first, "\nwork ") - first));
    free(text);
    return contents;
}

/* Homes have the same numbers and places, and what lies behind them is no more. */
static void
compare_homes(const struct mw_plan *delayed, const struct mw_plan *plain)
{
    g_autofree char *ours = contents_text(delayed), *theirs = contents_text(plain);

    g_assert_cmpstr(ours, ==, theirs);
    for (uint32_t s = 0; s < plain->slot_count; s++) {
        const struct mw_slot *a = &delayed->slots[s], *b = &plain->slots[s];
        if (!is_home(b))
            continue;
        g_assert_cmpuint(a->tier, ==, b->tier);
        g_assert_cmpuint(a->purpose, ==, b->purpose);
        g_assert_cmpint(a->offset_bytes, ==, b->offset_bytes);
        g_assert_cmpint(a->size_bytes, ==, b->size_bytes);
    }
    for (int tier = 0; tier < MW_TIER_COUNT; tier++)
        g_assert_cmpint(plain->peak_bytes[tier], <=, delayed->peak_bytes[tier]);
}

static bool
check_delay(const struct random_request *request, const struct mw_sizing *delayed)
{
    struct mw_settings settings = delayed->settings;
    g_autoptr(GError) error = NULL;

    if (settings.dpu_start == MW_AUTO || settings.unfold)
        return false;
    settings.dpu_start = MW_AUTO;
    if (settings.share_slots == MW_SHARE_ALL)
        settings.share_slots = MW_SHARE_BUFFERS; /* as planner/build/variants.c does */
    struct mw_sizing *plain = mw_sizing_new(&request->model, &request->hardware, &settings, &error);
    g_assert_no_error(error);
    g_assert_true(plain->fits);
    struct mw_plan *plans[] = {mw_build_plan(delayed), mw_build_plan(plain)};
    compare_homes(plans[0], plans[1]);
    mw_plan_free(plans[0]);
    mw_plan_free(plans[1]);
    mw_sizing_free(plain);
    return true;
}

static void
test_delayed(void)
{
    for (guint32 seed = 0, compared = 0; compared < DELAYED; seed++) {
        struct random_request request;

        random_request_init(&request, seed);
        request.settings.strategy = MW_STRATEGY_ZERO_OFFLOAD;
        request.settings.placement[MW_STATE_PARAMETERS].count = 0;
        request.settings.dpu_start = 1;
        request.settings.update_beside = false;
        random_request_name(&request);
        g_autoptr(GPtrArray) found = NULL;
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        compared += sizing && check_delay(&request, sizing);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/homes/rows", test_rows);
    g_test_add_func("/homes/places", test_places);
    g_test_add_func("/homes/refused", test_refused);
    g_test_add_func("/homes/delayed", test_delayed);
    return g_test_run();
}
