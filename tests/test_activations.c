/* The room of activations takes no more than the planner counts, and what lies in it at one time
 * does not overlap; parts say where the matrices are. */
#include <string.h>

#include "model/model.h"
#include "exec/operators/compute.h"
#include "planner/planner.h"
#include "planner/sizing/sizing.h"
#include "tests/hwprofile_helpers.h"
#include "tests/weights_fixture.h"

/* --- the planner's count --------------------------------------------------------------------- */

static struct mw_sizing *
size_up(const struct mw_model *model, const struct mw_hardware *hardware, int64_t batch,
        int64_t seq, int64_t interval, struct mw_trained trained, int64_t ep, double capacity)
{
    struct mw_request request = {model, hardware};
    struct mw_settings asked, resolved;
    GError *error = NULL;

    mw_settings_init(&asked);
    asked.strategy = MW_STRATEGY_ZERO_INFINITY_CPU;
    asked.micro_batch = batch;
    asked.seq = seq;
    asked.checkpoint_interval = interval;
    asked.trained = trained;
    asked.gpus_per_node = asked.ep = ep;
    asked.capacity_factor = capacity;
    asked.commit = 0;
    for (int state = 0; state < MW_STATE_COUNT; state++)
        g_assert_true(mw_placement_parse("cpu", "", &asked.placement[state], NULL));
    g_assert_true(mw_settings_complete(&request, &asked, &resolved, &error));
    struct mw_sizing *sizing = mw_sizing_new(model, hardware, &resolved, &error);
    g_assert_no_error(error);
    return sizing;
}

/* Activations that are kept in 8 bits take no more than the planner counts of them. */
static void
check_coded(const struct mw_sizing *sizing, const struct mw_decoder *decoder, int64_t interval,
            struct mw_trained trained)
{
    const struct mw_settings *s = &sizing->settings;
    struct mw_settings keeping = *s;
    int64_t kept = interval ? 1 : sizing->layers, rooms = interval ? interval : 1;
    int64_t sequences = (int64_t)s->micro_batch;

    if (interval >= sizing->layers)
        return;
    keeping.kept_as.dtype = MW_DTYPE_MXFP8;
    keeping.recompute_layers = interval ? sizing->layers - 1 : MW_AUTO;
    struct mw_sizing *coded = mw_sizing_new(sizing->model, sizing->hardware, &keeping, NULL);
    const struct mw_buffer *activations = &coded->buffers[MW_BUFFER_ACTIVATIONS];
    struct mw_activation_layout layout =
        mw_activation_layout(decoder, MW_DTYPE_BF16, sequences, s->seq, rooms, trained.frozen);
    mw_activation_layout_add_coded(&layout, decoder, sequences, s->seq, kept);
    g_assert_cmpint(layout.coded_layers, ==, kept);
    g_assert_cmpint(layout.bytes, <=, activations->count * activations->bytes);
    mw_sizing_free(coded);
}

static void
check_count(const char *name, int64_t batch, int64_t seq, int64_t interval,
            struct mw_trained trained)
{
    struct mw_profile *profile = mw_test_load("rtx4090");
    struct mw_hardware hardware = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);
    struct mw_decoder decoder = mw_test_decoder(name);
    struct mw_model model;

    g_assert_true(mw_model_load(name, &model, NULL));
    model.dropout = false; /* its masks would be room to spare */
    decoder.lora_rank = trained.rank;
    decoder.lora_adapted = trained.adapted;
    decoder.lora_bare = trained.bare;
    struct mw_sizing *sizing = size_up(&model, &hardware, batch, seq, interval, trained, 1, 0);
    const struct mw_buffer *activations = &sizing->buffers[MW_BUFFER_ACTIVATIONS];
    int64_t layers = interval ? MIN(interval, model.layers) : model.layers;
    struct mw_activation_layout layout =
        mw_activation_layout(&decoder, MW_DTYPE_BF16, batch, seq, layers, trained.frozen);
    g_assert_true(sizing->shape.flash_attention);
    if (!decoder.experts)
        check_coded(sizing, &decoder, interval, trained);
    g_assert_cmpint(layout.bytes, <=, activations->count * activations->bytes);
    g_assert_cmpint(layout.layer_bytes, ==,
                    sizing->classes[mw_sizing_layer_class(sizing, 0)].saved_bytes);
    g_assert_cmpint(2 * batch * seq * mw_logits_stride(&decoder, MW_DTYPE_BF16), <=,
                    sizing->buffers[MW_BUFFER_LOGITS].bytes);
    mw_sizing_free(sizing);
    mw_profile_free(profile);
}

/* Experts over ranks: room for all that can come, or that experts take. */
static void
check_spread(const char *name, int64_t ep, int64_t batch, int64_t interval, double capacity)
{
    struct mw_profile *profile = mw_test_load("rtx4090");
    struct mw_hardware hardware = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);
    struct mw_decoder decoder = mw_test_decoder(name);
    struct mw_model model;

    hardware.memory_use.experts_whole = true;
    hardware.gpus_per_node = ep;
    g_assert_true(mw_model_load(name, &model, NULL));
    model.dropout = false;
    decoder.spread = (struct mw_spread){ep, ep - 1};
    struct mw_sizing *sizing =
        size_up(&model, &hardware, batch, 24, interval, (struct mw_trained){0}, ep, capacity);
    const struct mw_buffer *activations = &sizing->buffers[MW_BUFFER_ACTIVATIONS];
    int64_t layers = interval ? MIN(interval, model.layers) : model.layers;
    if (capacity > 0)
        decoder.rows_of_expert = mw_model_expert_rows(&model, &sizing->shape) / decoder.experts;
    struct mw_activation_layout layout =
        mw_activation_layout(&decoder, MW_DTYPE_BF16, batch, 24, layers, 0);
    int64_t room = batch * 24 * ep * MIN(decoder.experts_per_token, decoder.experts / ep);
    if (capacity > 0)
        room = decoder.experts * decoder.rows_of_expert;
    g_assert_cmpint(mw_decoder_expert_rows(&decoder, batch * 24), ==, room);
    g_assert_cmpint(mw_model_expert_room(&model, &sizing->shape), ==, room);
    g_assert_cmpint(layout.layer_bytes, ==,
                    sizing->classes[mw_sizing_layer_class(sizing, 0)].saved_bytes);
    g_assert_cmpint(layout.bytes, <=, activations->count * activations->bytes);
    mw_sizing_free(sizing);
    mw_profile_free(profile);
}

#define IS(operator_) (UINT32_C(1) << MW_OPERATOR_##operator_)
#define BARE(target) (UINT32_C(1) << MW_TARGET_##target)
#define LAYER_PRODUCTS (IS(QKV) | IS(PROJECTION) | IS(MLP_UP) | IS(MLP_DOWN))

/* A run trains all of a mixture's MLP; matrices in one tensor have one adapter. */
static bool
may_train(const char *name, const struct mw_trained *trained)
{
    const uint32_t mlp = IS(MLP_UP) | IS(MLP_DOWN);
    struct mw_decoder decoder = mw_test_decoder(name);
    struct mw_operator_dims dims = mw_decoder_dims(&decoder);

    if (trained->bare && !mw_dims_have(&dims, MW_HAS(QKV_APART) | MW_HAS(GATE_APART)))
        return false;
    return !decoder.experts || (!(trained->frozen & mlp) && !trained->rank);
}

static void
check_counts(const char *name)
{
    static const struct mw_trained some[] = {
        {0, 0, 0, 0},
        {IS(QKV), 0, 0, 0},
        {IS(PROJECTION) | IS(MLP_UP), 0, 0, 0},
        {IS(MLP_DOWN) | IS(NORM1), 0, 0, 0},
        {LAYER_PRODUCTS, 0, 0, 0},
        {LAYER_PRODUCTS | IS(EMBEDDING) | IS(NORM1) | IS(LOGITS), 0, 0, 0},
        {LAYER_PRODUCTS, LAYER_PRODUCTS, 4, 0},
        {LAYER_PRODUCTS, IS(QKV) | IS(MLP_UP), 3, 0},
        {IS(MLP_DOWN), IS(MLP_DOWN), 8, 0},
        {LAYER_PRODUCTS | IS(NORM2), IS(PROJECTION), 1, 0},
        {LAYER_PRODUCTS, IS(QKV), 4, BARE(K)},
        {LAYER_PRODUCTS, LAYER_PRODUCTS, 3, BARE(Q) | BARE(V) | BARE(GATE)},
        {IS(MLP_UP), IS(MLP_UP), 5, BARE(UP)},
    };

    for (int64_t interval = 0; interval <= 2; interval++)
        for (int64_t batch = 1; batch <= 3; batch++) {
            check_count(name, batch, 7, interval, some[0]);
            for (size_t i = 0; i < G_N_ELEMENTS(some); i++)
                if (may_train(name, &some[i]))
                    check_count(name, batch, 24, interval, some[i]);
        }
}

static bool
runs(const char *name)
{
    struct mw_model model;
    struct mw_decoder decoder;

    g_assert_true(mw_model_load(name, &model, NULL));
    return mw_model_decoder(&model, &decoder, NULL);
}

static void
test_planned(void)
{
    g_auto(GStrv) names = mw_model_list();
    int checked = 0;

    for (char **name = names; *name; name++) {
        if (!runs(*name))
            continue;
        check_counts(*name);
        checked++;
    }
    g_assert_cmpint(checked, >, 30);
    check_counts(FIXTURES "gpt2-small");
    check_counts(FIXTURES "llama-small");
}

static void
test_spread(void)
{
    g_auto(GStrv) names = mw_model_list();
    int checked = 0;

    for (char **name = names; *name; name++) {
        if (!runs(*name) || !mw_test_decoder(*name).experts)
            continue;
        for (int64_t ep = 1; ep <= 8; ep *= 2)
            for (int64_t interval = 0; interval <= 1; interval++)
                for (int factor = 0; factor <= 3; factor++)
                    check_spread(*name, ep, 1 + ep % 3, interval, factor / 2.0);
        checked++;
    }
    g_assert_cmpint(checked, >, 1);
}

/* Of two ranks that share two sequences: by all-to-alls the result of attention is there twice, in
 * a ring blocks of keys and values pass. */
static void
check_shared(const char *name, enum mw_context kind, int64_t interval)
{
    struct mw_profile *profile = mw_test_load("dgx-h100");
    struct mw_hardware hardware = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);
    struct mw_decoder decoder = mw_test_decoder(name);
    struct mw_model model;
    struct mw_settings asked, resolved;

    g_assert_true(mw_model_load(name, &model, NULL));
    model.dropout = false;
    mw_settings_init(&asked);
    asked.strategy = MW_STRATEGY_ZERO3;
    asked.gpus_per_node = 2;
    asked.micro_batch = 1;
    asked.seq = 24;
    asked.cp = 2;
    asked.cp_kind = kind;
    asked.checkpoint_interval = interval;
    g_assert_true(
        mw_settings_complete(&(struct mw_request){&model, &hardware}, &asked, &resolved, NULL));
    struct mw_sizing *sizing = mw_sizing_new(&model, &hardware, &resolved, NULL);
    const struct mw_buffer *activations = &sizing->buffers[MW_BUFFER_ACTIVATIONS];
    decoder.context = (struct mw_context_share){2, 1, (uint8_t)kind};
    struct mw_activation_layout layout =
        mw_activation_layout(&decoder, MW_DTYPE_BF16, 2, 12, interval ? interval : model.layers, 0);
    struct mw_activation_layout whole = layout;
    decoder.context.count = 1;
    whole = mw_activation_layout(&decoder, MW_DTYPE_BF16, 1, 24, layout.layers, 0);
    g_assert_cmpint(layout.bytes, <=, activations->count * activations->bytes);
    g_assert_cmpint(layout.layer_bytes, ==,
                    sizing->classes[mw_sizing_layer_class(sizing, 0)].saved_bytes);
    g_assert_cmpint(layout.layer_bytes - whole.layer_bytes, ==,
                    kind == MW_CONTEXT_RING ? 0 : 2 * 24 * mw_decoder_q(&decoder));
    g_assert_cmpint(layout.bytes - whole.bytes, ==,
                    kind == MW_CONTEXT_RING
                        ? 4 * 2 * 24 * 2 * mw_decoder_kv(&decoder)
                        : layout.layers * (layout.layer_bytes - whole.layer_bytes));
    mw_sizing_free(sizing);
    mw_profile_free(profile);
}

static void
test_shared(void)
{
    static const char *const names[] = {"llama-3-8b", "gpt2", FIXTURES "gpt2-small",
                                        FIXTURES "llama-small"};

    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        for (int64_t interval = 0; interval <= 1; interval++) {
            check_shared(names[i], MW_CONTEXT_RING, interval);
            check_shared(names[i], MW_CONTEXT_ALL_TO_ALL, interval);
        }
}

/* --- what lies where ------------------------------------------------------------------------- */

/* The inputs of products with frozen weights take no room of a layer's; where one operator reads
 * what it no longer keeps, it writes to another place. */
static void
check_not_kept(const char *name)
{
    struct mw_decoder d = mw_test_decoder(name);
    struct mw_activation_layout all = mw_activation_layout(&d, MW_DTYPE_BF16, 2, 16, d.layers, 0);
    struct mw_activation_layout few =
        mw_activation_layout(&d, MW_DTYPE_BF16, 2, 16, d.layers, LAYER_PRODUCTS);
    char *base = (char *)64;
    struct mw_shared_activations shared = mw_activations_shared(&d, 2, 16, &few, base);

    g_assert_cmpint(all.layer_bytes - few.layer_bytes, ==, 2 * 32 * (2 * d.hidden + d.ffn));
    for (int64_t l = 0; l < d.layers; l++) {
        struct mw_layer_activations activations = mw_activations_of_layer(&d, 2, 16, &few, base, l);
        const void *inputs[] = {activations.n1, activations.n2, activations.act};
        const void *outputs[] = {activations.qkv, activations.up, shared.hidden};
        const int64_t widths[] = {d.hidden, d.hidden, d.ffn};
        for (size_t i = 0; i < G_N_ELEMENTS(inputs); i++) {
            g_assert_true(inputs[i] == shared.wide);
            g_assert_cmpint(widths[i] * 32, <=, shared.wide_elements);
            g_assert_true((const char *)outputs[i] >=
                          (const char *)shared.wide + 2 * shared.wide_elements);
        }
    }
    g_assert_true((char *)shared.hidden + 2 * 32 * d.hidden <= base + few.bytes);
    g_assert_true(shared.hidden != shared.gradient && shared.hidden != shared.branch);
}

static void
test_not_kept(void)
{
    check_not_kept(FIXTURES "gpt2-small");
    check_not_kept(FIXTURES "llama-small");
}

struct span {
    const void *begin;
    int64_t bytes;
};

static void
assert_apart(const struct span *spans, size_t count, const void *base, int64_t bytes)
{
    for (size_t i = 0; i < count; i++) {
        const char *begin = spans[i].begin, *end = begin + spans[i].bytes;
        g_assert_true(begin >= (const char *)base && end <= (const char *)base + bytes);
        for (size_t j = 0; j < i; j++)
            g_assert_true(end <= (const char *)spans[j].begin ||
                          begin >= (const char *)spans[j].begin + spans[j].bytes);
    }
}

static size_t
layer_spans(const struct mw_decoder *d, const struct mw_layer_activations *activations,
            int64_t tokens, struct span *out)
{
    int64_t one = 2 * tokens, gates = mw_decoder_gated(d);
    const struct span spans[] = {
        {activations->x, one * d->hidden},
        {activations->n1, one * d->hidden},
        {activations->qkv, one * (mw_decoder_q(d) + 2 * mw_decoder_kv(d))},
        {activations->o, one * mw_decoder_q(d)},
        {activations->lse, 4 * tokens * d->heads},
        {activations->x2, one * d->hidden},
        {activations->n2, one * d->hidden},
        {activations->up, one * d->ffn * (1 + gates)},
        {activations->act, one * d->ffn},
    };

    memcpy(out, spans, sizeof spans);
    return G_N_ELEMENTS(spans);
}

static void
check_apart(const char *name, int64_t sequences, int64_t seq)
{
    struct mw_decoder d = mw_test_decoder(name);
    int64_t tokens = sequences * seq, one = 2 * tokens * d.hidden;
    struct mw_activation_layout layout =
        mw_activation_layout(&d, MW_DTYPE_BF16, sequences, seq, d.layers, 0);
    char *base = (char *)64;
    struct mw_shared_activations shared = mw_activations_shared(&d, sequences, seq, &layout, base);
    g_autofree struct span *spans = g_new(struct span, 9 * d.layers + 4);
    size_t count = 0;

    for (int64_t layer = 0; layer < d.layers; layer++) {
        struct mw_layer_activations activations =
            mw_activations_of_layer(&d, sequences, seq, &layout, base, layer);
        count += layer_spans(&d, &activations, tokens, spans + count);
        g_assert_cmpint((uintptr_t)activations.lse % sizeof(float), ==, 0);
        if (tokens % 32 == 0)
            for (size_t i = count - 9; i < count; i++)
                g_assert_cmpint((uintptr_t)spans[i].begin % 64, ==, 0);
    }
    spans[count] = (struct span){shared.branch, 2 * tokens * MAX(d.hidden, mw_decoder_q(&d))};
    spans[count + 1] = (struct span){shared.gradient, one};
    spans[count + 2] = (struct span){shared.wide, 2 * shared.wide_elements};
    assert_apart(spans, count + 3, base, layout.bytes);
    g_assert_cmpint(shared.wide_elements, >=,
                    tokens * MAX(d.ffn, mw_decoder_q(&d) + 2 * mw_decoder_kv(&d)));
    /* At the model's end: nothing is in `wide` but `hidden`. */
    spans[count + 1] = (struct span){shared.final, one};
    spans[count + 2] = (struct span){shared.hidden, one};
    assert_apart(spans, count + 3, base, layout.bytes);
    g_assert_true(shared.gradient != shared.hidden);
}

static void
test_apart(void)
{
    static const char *const names[] = {"gpt2", "llama-3-8b", FIXTURES "gpt2-small",
                                        FIXTURES "llama-small"};

    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        check_apart(names[i], 1, 1);
        check_apart(names[i], 3, 7);
        check_apart(names[i], 2, 16);
    }
}

/* --- parts ----------------------------------------------------------------------------------- */

static struct mw_part
part_of(const struct mw_decoder *decoder, int64_t layer, uint32_t operators, uint32_t tiles,
        int64_t tile)
{
    struct mw_tensor tensor = {.layer = (int32_t)layer, .operators = operators, .tiles = tiles};

    return mw_part_of(decoder, &tensor, tile);
}

static void
test_parts(void)
{
    struct mw_decoder llama = mw_test_decoder(FIXTURES "llama-small");
    struct mw_decoder gpt2 = mw_test_decoder(FIXTURES "gpt2-small");
    struct mw_part part = part_of(&llama, 1, mw_test_units[2], 2, 0);

    /* norm, 32 of 64 rows of the gate, the same rows of up */
    g_assert_cmpint(part.norm_weight_at, ==, 0);
    g_assert_cmpint(part.norm_bias_at, ==, -1);
    g_assert_cmpint(part.matrix.at, ==, 32);
    g_assert_cmpint(part.matrix.rows, ==, 32);
    g_assert_cmpint(part.matrix.all_rows, ==, 64);
    g_assert_cmpint(part.elements, ==, 32 + 2 * 32 * 32);
    /* q, k and v are one matrix */
    part = part_of(&llama, 0, mw_test_units[0], 3, 2);
    g_assert_cmpint(part.norm_weight_at, ==, -1);
    g_assert_cmpint(part.matrix.all_rows, ==, 64);
    g_assert_cmpint(part.matrix.first_row, ==, 42);
    g_assert_cmpint(part.matrix.rows, ==, 22);
    part = part_of(&gpt2, 0, mw_test_units[0], 1, 0);
    g_assert_cmpint(part.norm_bias_at, ==, 32);
    g_assert_cmpint(part.matrix.at, ==, 64);
    g_assert_cmpint(part.matrix.bias_at, ==, 64 + 96 * 32);
    /* 256 tokens and 24 positions */
    part = part_of(&gpt2, -1, 1u << MW_OPERATOR_EMBEDDING, 10, 9);
    g_assert_cmpint(part.matrix.rows, ==, 4);
    g_assert_cmpint(part.matrix.first_row, ==, 252);
    g_assert_cmpint(part.positions.at, ==, 4 * 32);
    g_assert_cmpint(part.positions.rows, ==, 24);
    part = part_of(&gpt2, -1, 1u << MW_OPERATOR_EMBEDDING, 28, 27);
    g_assert_cmpint(part.matrix.rows, ==, 0);
    g_assert_cmpint(part.matrix.all_rows, ==, 256);
    g_assert_cmpint(part.positions.first_row, ==, 14);
    g_assert_cmpint(part.positions.all_rows, ==, 24);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/room/planned", test_planned);
    g_test_add_func("/room/spread", test_spread);
    g_test_add_func("/room/shared", test_shared);
    g_test_add_func("/room/apart", test_apart);
    g_test_add_func("/room/not-kept", test_not_kept);
    g_test_add_func("/parts/rows", test_parts);
    return g_test_run();
}
