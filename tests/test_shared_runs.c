/* A run whose slots share bytes has the bits of one in which all slots lie apart.  Before each op
 * that begins a content of logits or of a layer's activations its bytes become NaNs, and with them
 * those of gradients and widened weights that lie there: no op needs zeros, or what another slot
 * left. */
#include <string.h>

#include "tests/trained.h"
#include "tests/weights_fixture.h"

#define STEPS 3
#define THREADS 2
#define POISON 0xff /* a NaN in bf16, fp16 and fp32 */

static char *directory;
static struct mw_backend poisoning;
static int poisoned_logits, poisoned_layers;

/* What was seen of a run's plan. */
struct seen {
    int64_t peak_bytes, rooms_bytes, logits_bytes;
    int shared, of_purpose[MW_PURPOSE_COUNT];
};

static void
see_plan(void *data, const struct mw_plan *plan)
{
    struct seen *seen = data;

    *seen = (struct seen){.peak_bytes = plan->peak_bytes[MW_TIER_GPU]};
    for (uint32_t s = 0; s < plan->slot_count; s++) {
        const struct mw_slot *slot = &plan->slots[s];
        if (!slot->shares)
            continue;
        seen->logits_bytes += slot->purpose == MW_PURPOSE_LOGITS ? slot->size_bytes : 0;
        seen->rooms_bytes += slot->purpose == MW_PURPOSE_ACTIVATIONS ? slot->size_bytes : 0;
        seen->of_purpose[slot->purpose]++;
        seen->shared++;
    }
}

/* --- poison ---------------------------------------------------------------------------------- */

static void
poison_layer(const struct mw_compute *compute)
{
    const struct mw_decoder *decoder = compute->decoder;
    const struct mw_layer_activations *layer = compute->layer;
    size_t row =
        (size_t)(compute->sequences * compute->seq * mw_compute_element_bytes(compute->dtype));
    size_t h = (size_t)decoder->hidden, q = (size_t)mw_decoder_q(decoder);
    size_t f = (size_t)decoder->ffn;

    memset(layer->n1, POISON, row * h);
    memset(layer->qkv, POISON, row * (q + 2 * (size_t)mw_decoder_kv(decoder)));
    memset(layer->o, POISON, row * q);
    memset(layer->x2, POISON, row * h);
    memset(layer->n2, POISON, row * h);
    memset(layer->up, POISON, row * f * (1 + mw_decoder_gated(decoder)));
    memset(layer->act, POISON, row * f);
    poisoned_layers++;
}

static bool
poison_and_compute(void *backend, const struct mw_compute *compute, GError **error)
{
    bool forward = !compute->backward;

    if (forward && compute->operator_ == MW_OPERATOR_NORM1)
        poison_layer(compute);
    if (forward && compute->operator_ == MW_OPERATOR_LOGITS &&
        compute->part->matrix.first_row == 0) {
        memset(compute->logits, POISON,
               (size_t)(compute->tokens * mw_logits_stride(compute->decoder, compute->dtype) *
                        mw_compute_element_bytes(compute->dtype)));
        poisoned_logits++;
    }
    return trained_backend->compute(backend, compute, error);
}

/* --- runs ------------------------------------------------------------------------------------ */

static struct trained
run(const struct trained_case *what, struct seen *seen)
{
    struct trained_course course = {.steps = STEPS,
                                    .threads = THREADS,
                                    .directory = directory,
                                    .on_plan = see_plan,
                                    .data = seen};
    struct trained trained;
    GError *error = NULL;

    if (!trained_train(what, &course, &trained, &error))
        g_error("%s: %s", what->name, error->message);
    return trained;
}

/* The peak is lower by what is shared: all of the smaller of the two. */
static void
assert_smaller(const char *name, const struct seen *apart, const struct seen *shared)
{
    int64_t saved = MIN(shared->rooms_bytes, shared->logits_bytes);

    g_test_message("%s: %" G_GINT64_FORMAT " bytes of GPU memory, apart %" G_GINT64_FORMAT, name,
                   shared->peak_bytes, apart->peak_bytes);
    g_assert_cmpint(apart->shared, ==, 0);
    g_assert_cmpint(shared->shared, >=, 2);
    g_assert_cmpint(saved, >, 0);
    /* Slots are whole pages; cutting the rooms off makes a few more of them. */
    g_assert_cmpint(shared->peak_bytes, <, apart->peak_bytes);
    g_assert_cmpint(shared->peak_bytes, <=, apart->peak_bytes - saved + 64 * 4096);
}

/* What was seen where slots lie apart, and where they share bytes. */
static void
train_both(struct trained_case what, struct seen *apart, struct seen *shared)
{
    what.share_slots = MW_SHARE_NONE;
    struct trained one = run(&what, apart);
    what.share_slots = MW_SHARE_ALL;
    what.backend = &poisoning;
    struct trained other = run(&what, shared);
    trained_assert_same(what.name, &one, &other);
    trained_clear(&one);
    trained_clear(&other);
}

static void
compare(struct trained_case what)
{
    struct seen apart, shared;

    train_both(what, &apart, &shared);
    assert_smaller(what.name, &apart, &shared);
}

static void
test_placements(void)
{
    static const struct trained_case common = {.model = FIXTURES "gpt2-small/config.json",
                                               TRAINED_BATCHES(3, 24, 2)};

    for (int i = 0; i < TRAINED_PLACEMENTS; i++)
        compare(trained_placed(&common, i));
    g_assert_cmpint(poisoned_logits, ==, TRAINED_PLACEMENTS * STEPS * 2);
    g_assert_cmpint(poisoned_layers, ==, TRAINED_PLACEMENTS * STEPS * 2 * 2 * 2);
}

static void
test_shapes(void)
{
#define SHAPE .model = FIXTURES "llama-small/config.json", .sequences = 2, .seq = 24
    static const struct trained_case shapes[] = {
        {.name = "fp32", SHAPE, .grad_accum = 1, .interval = 1, .dtype = MW_DTYPE_FP32},
        {.name = "fp16", SHAPE, .grad_accum = 2, .interval = 1, .dtype = MW_DTYPE_FP16},
        {.name = "two layers a checkpoint", SHAPE, .grad_accum = 1, .interval = 2},
        {.name = "a layer keeps its activations",
         SHAPE,
         .grad_accum = 1,
         .interval = 1,
         .recompute_layers = 1},
        {.name = "tiles, chunks",
         SHAPE,
         .grad_accum = 2,
         .interval = 1,
         .tiles = 2,
         .logits_chunks = 3},
    };
#undef SHAPE

    for (size_t i = 0; i < G_N_ELEMENTS(shapes); i++) {
        struct trained_case what = shapes[i];
        what.strategy = MW_STRATEGY_ZERO_INFINITY_CPU;
        what.params = what.gradients = what.optimizer = "cpu";
        compare(what);
    }
}

static void
test_folded(void)
{
    static const struct trained_case common = {.model = FIXTURES "gpt2-small/config.json",
                                               TRAINED_BATCHES(1, 12, 21)};

    for (int i = 0; i < TRAINED_PLACEMENTS; i += 5) {
        struct trained_case what = trained_placed(&common, i);
        what.folds.micro_batches = true;
        compare(what);
    }
}

/* With one micro-batch, gradients lie where logits were, and with all gradients on drives an
 * update's buffers where those of the passes were. */
static void
test_others(void)
{
#define WHAT(name_)                                                                                \
    .name = name_, .model = FIXTURES "llama-small/config.json", .sequences = 3, .seq = 24,         \
    .grad_accum = 1
    static const struct {
        struct trained_case what;
        enum mw_purpose shares;
    } rows[] = {
        {{WHAT("gradients"), .strategy = MW_STRATEGY_DDP, .interval = 1}, MW_PURPOSE_GRADIENTS},
        {{WHAT("gradients, all activations"), .strategy = MW_STRATEGY_ZERO3}, MW_PURPOSE_GRADIENTS},
        {{WHAT("gradients, tiles"), .strategy = MW_STRATEGY_ZERO3, .tiles = 2},
         MW_PURPOSE_GRADIENTS},
        {{WHAT("update on the GPU"), .strategy = MW_STRATEGY_ZERO_INFINITY_CPU, .params = "cpu",
          .gradients = "cpu", .optimizer = "cpu", .interval = 1, .update_on = 1},
         MW_PURPOSE_OPTIMIZER_BUFFERS},
        {{WHAT("on drives"), TRAINED_ON_DRIVES("cpu"), .interval = 1, .commit = 1},
         MW_PURPOSE_OPTIMIZER_BUFFERS},
    };
#undef WHAT

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        struct seen apart, shared;
        train_both(rows[i].what, &apart, &shared);
        g_test_message("%s: %d slots share bytes", rows[i].what.name, shared.shared);
        g_assert_cmpint(apart.shared, ==, 0);
        g_assert_cmpint(shared.of_purpose[rows[i].shares], >, 0);
        g_assert_cmpint(shared.peak_bytes, <, apart.peak_bytes);
    }
}

/* Both variants have the homes at the same places. */
static void
test_delayed(void)
{
    static const struct trained_case what = {.name = "delayed",
                                             .model = FIXTURES "llama-small/config.json",
                                             .strategy = MW_STRATEGY_ZERO_OFFLOAD,
                                             TRAINED_BATCHES(3, 24, 1),
                                             .gradients = "gpu",
                                             .delayed = true,
                                             .undelayed_steps = 1};
    struct seen apart, shared;

    train_both(what, &apart, &shared);
    g_assert_cmpint(shared.of_purpose[MW_PURPOSE_GRADIENTS], ==, 0);
    g_assert_cmpint(shared.of_purpose[MW_PURPOSE_LOGITS], >, 0);
}

/* With nothing to recompute and gradients that are kept over micro-batches, no room is free while
 * there are logits. */
static void
test_none(void)
{
    static const struct trained_case all_kept = {.name = "all activations are kept",
                                                 .model = FIXTURES "gpt2-small/config.json",
                                                 .strategy = MW_STRATEGY_DDP,
                                                 .sequences = 2,
                                                 .seq = 24,
                                                 .grad_accum = 2,
                                                 .share_slots = MW_SHARE_ALL};
    struct seen seen;

    struct trained trained = run(&all_kept, &seen);
    g_assert_cmpint(seen.shared, ==, 0);
    trained_clear(&trained);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    directory = trained_directory();
    poisoning = *trained_backend;
    poisoning.compute = poison_and_compute;
    g_test_add_func("/shared-runs/placements", test_placements);
    g_test_add_func("/shared-runs/shapes", test_shapes);
    g_test_add_func("/shared-runs/folded", test_folded);
    g_test_add_func("/shared-runs/others", test_others);
    g_test_add_func("/shared-runs/delayed", test_delayed);
    g_test_add_func("/shared-runs/none", test_none);
    int status = g_test_run();
    trained_remove(directory);
    return status;
}
