/* The walk over operators: sums that must hold for every preset, and published formulas. */
#include <math.h>
#include <string.h>

#include "model/model.h"

struct sums {
    int64_t params, forward_flops, backward_flops, saved_bytes;
};

static struct mw_model
load(const char *name)
{
    struct mw_model model;

    g_assert_true(mw_model_load(name, &model, NULL));
    return model;
}

static struct sums
sum(const struct mw_operator_info *info, int count)
{
    struct sums sums = {0};

    g_assert_cmpint(count, <=, MW_LAYER_OPERATORS_MAX);
    for (int i = 0; i < count; i++) {
        sums.params += info[i].params;
        sums.forward_flops += info[i].forward_flops;
        sums.backward_flops += info[i].backward_flops;
        sums.saved_bytes += info[i].saved_bytes;
    }
    return sums;
}

static struct sums
sum_layer(const struct mw_model *model, int64_t layer, struct mw_shape shape)
{
    struct mw_operator_info info[MW_LAYER_OPERATORS_MAX];

    return sum(info, mw_model_layer(model, layer, &shape, info));
}

static struct mw_operator_info
operator_of(const struct mw_model *model, enum mw_operator operator_, struct mw_shape shape)
{
    struct mw_operator_info info[MW_LAYER_OPERATORS_MAX];
    int count = mw_model_layer(model, model->layers - 1, &shape, info);

    for (int i = 0; i < count; i++)
        if (info[i].operator_ == operator_)
            return info[i];
    count = mw_model_head(model, &shape, info);
    count += mw_model_tail(model, &shape, info + count);
    for (int i = 0; i < count; i++)
        if (info[i].operator_ == operator_)
            return info[i];
    g_assert_not_reached();
}

static void
check_sums(const struct mw_model *model)
{
    struct mw_operator_info info[MW_LAYER_OPERATORS_MAX];
    struct mw_shape shape = {.sequences = 2, .seq = 64, .tp = 1};
    int64_t params = sum(info, mw_model_head(model, &shape, info)).params;

    params += sum(info, mw_model_tail(model, &shape, info)).params;
    for (int64_t layer = 0; layer < model->layers; layer++) {
        int64_t one = sum_layer(model, layer, shape).params;
        g_assert_cmpint(one, ==, mw_model_layer_params(model, layer));
        params += one;
    }
    g_assert_cmpint(params, ==, mw_model_params(model));
}

static void
check_operators(const struct mw_model *model, bool flash)
{
    struct mw_operator_info info[MW_LAYER_OPERATORS_MAX];
    struct mw_shape shape = {.sequences = 1, .seq = 32, .tp = 1, .flash_attention = flash};
    int count = mw_model_layer(model, model->layers - 1, &shape, info);

    for (int i = 0; i < count; i++) {
        bool product = info[i].forward_flops > 0;
        g_assert_cmpint(info[i].launches, >, 0);
        g_assert_cmpint(info[i].output_bytes, >, 0);
        g_assert_true(product == (info[i].product_count > 0));
        if (info[i].operator_ != MW_OPERATOR_ATTENTION)
            g_assert_cmpint(info[i].backward_flops, ==, 2 * info[i].forward_flops);
        if (i > 0)
            g_assert_cmpint(info[i].operator_, >, info[i - 1].operator_);
    }
}

static void
test_every_preset(void)
{
    g_auto(GStrv) names = mw_model_list();

    g_assert_cmpuint(g_strv_length(names), >=, 120);
    for (char **name = names; *name; name++) {
        struct mw_model model = load(*name);
        check_sums(&model);
        check_operators(&model, true);
        check_operators(&model, false);
    }
}

/* A GPT layer: 24 t h² + 4 t s h forward, twice that backward (arXiv 2104.04473, Sec. 5.1). */
static void
test_gpt_flops(void)
{
    struct mw_model model = load("gpt3-175b");
    int64_t h = model.hidden, s = 2048, t = 3 * s;
    struct sums sums = sum_layer(
        &model, 0, (struct mw_shape){.sequences = 3, .seq = s, .tp = 1, .flash_attention = false});

    g_assert_cmpint(sums.forward_flops, ==, 24 * t * h * h + 4 * t * s * h);
    g_assert_cmpint(sums.backward_flops, ==, 2 * sums.forward_flops);
}

/* The whole model, arXiv 2104.04473 Eq. 3: 96 t l h² (1 + s/6h + V/16lh) with full recompute. */
static void
test_model_flops(void)
{
    struct mw_model model = load("gpt3-175b");
    struct mw_operator_info info[MW_LAYER_OPERATORS_MAX];
    struct mw_shape shape = {.sequences = 1, .seq = 2048, .tp = 1, .flash_attention = false};
    double h = (double)model.hidden, s = 2048, l = (double)model.layers, v = (double)model.vocab;
    struct sums layer = sum_layer(&model, 0, shape);
    struct sums tail = sum(info, mw_model_tail(&model, &shape, info));
    double flops = l * (double)(2 * layer.forward_flops + layer.backward_flops) +
                   (double)(tail.forward_flops + tail.backward_flops);

    g_assert_cmpfloat(fabs(flops / (96 * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h))) - 1),
                      <, 1e-6);
}

static int64_t
products_flops(const struct mw_work_product *products, uint32_t count)
{
    int64_t flops = 0;

    for (uint32_t i = 0; i < count; i++)
        flops += 2 * products[i].m * products[i].n * products[i].k * products[i].count;
    return flops;
}

static void
check_products(const struct mw_operator_info *info, int count)
{
    for (int i = 0; i < count; i++) {
        struct mw_work_product backward[MW_WORK_PRODUCTS_MAX];
        uint32_t backwards = mw_operator_backward_products(&info[i], backward);
        g_assert_cmpint(products_flops(info[i].products, info[i].product_count), ==,
                        info[i].forward_flops);
        g_assert_cmpint(products_flops(backward, backwards), ==, info[i].backward_flops);
        g_assert_true(mw_operator_row(info[i].operator_)->attends == (info[i].attention.heads > 0));
    }
}

/* The products of every operator of every preset make up its FLOPs, forward and back.  As many
 * tokens as experts: each expert has as many as the others. */
static void
test_products(void)
{
    g_auto(GStrv) names = mw_model_list();

    for (char **name = names; *name; name++)
        for (int flash = 0; flash <= 1; flash++) {
            struct mw_model model = load(*name);
            struct mw_shape shape = {
                .sequences = MAX(1, model.experts), .seq = 64, .tp = 1, .flash_attention = flash};
            struct mw_operator_info info[MW_LAYER_OPERATORS_MAX];
            check_products(info, mw_model_head(&model, &shape, info));
            check_products(info, mw_model_layer(&model, 0, &shape, info));
            check_products(info, mw_model_layer(&model, model.layers - 1, &shape, info));
            check_products(info, mw_model_tail(&model, &shape, info));
        }
}

static void
test_flash_flops(void)
{
    struct mw_model model = load("llama-3-8b");
    struct mw_operator_info attention = operator_of(
        &model, MW_OPERATOR_ATTENTION,
        (struct mw_shape){.sequences = 1, .seq = 4096, .tp = 1, .flash_attention = true});

    g_assert_cmpint(attention.forward_flops, ==, INT64_C(4) * 4096 * 4096 * 4096);
    g_assert_cmpint(2 * attention.backward_flops, ==, 5 * attention.forward_flops);
}

/* Korthikanti et al., arXiv 2205.05198: Eq. 1 on one rank, Eq. 2 over t ranks, Eq. 4 over t ranks
 * that share the tokens. */
static void
test_saved_bytes(void)
{
    struct mw_model model = load("megatron-22b");
    int64_t s = 2048, b = 4, h = model.hidden, a = model.heads;
    struct sums one = sum_layer(
        &model, 0, (struct mw_shape){.sequences = b, .seq = s, .tp = 1, .flash_attention = false});
    struct sums eight = sum_layer(
        &model, 0, (struct mw_shape){.sequences = b, .seq = s, .tp = 8, .flash_attention = false});
    struct sums flash = sum_layer(
        &model, 0, (struct mw_shape){.sequences = b, .seq = s, .tp = 1, .flash_attention = true});

    g_assert_cmpint(one.saved_bytes, ==, 34 * s * b * h + 5 * a * s * s * b);
    g_assert_cmpint(eight.saved_bytes, ==,
                    10 * s * b * h + (24 * s * b * h + 5 * a * s * s * b) / 8);
    g_assert_cmpint(flash.saved_bytes, ==, 34 * s * b * h + 4 * a * s * b);
    struct sums shared = sum_layer(
        &model, 0, (struct mw_shape){.sequences = b, .seq = s, .tp = 8, .sequence_parallel = true});
    g_assert_cmpint(shared.saved_bytes, ==, (34 * s * b * h + 5 * a * s * s * b) / 8);
    g_assert_cmpint(shared.forward_flops, ==, eight.forward_flops);
}

/* Korthikanti et al., Sec. 5: without the scores 34 t h, and backward forms them again with both
 * products. */
static void
test_selective(void)
{
    struct mw_model model = load("megatron-22b");
    struct mw_shape shape = {.sequences = 4, .seq = 2048, .tp = 1};
    struct mw_operator_info kept = operator_of(&model, MW_OPERATOR_ATTENTION, shape);
    int64_t t = 4 * 2048, h = model.hidden;

    shape.scores_again = true;
    struct mw_operator_info again = operator_of(&model, MW_OPERATOR_ATTENTION, shape);
    struct mw_work_product backward[MW_WORK_PRODUCTS_MAX];
    g_assert_cmpint(sum_layer(&model, 0, shape).saved_bytes, ==, 34 * t * h);
    g_assert_cmpint(again.backward_flops, ==, 3 * again.forward_flops);
    g_assert_cmpint(kept.backward_flops, ==, 2 * kept.forward_flops);
    g_assert_cmpint(again.backward_bytes, ==, kept.backward_bytes + kept.forward_bytes);
    g_assert_cmpint(again.forward_flops, ==, kept.forward_flops);
    g_assert_cmpint(mw_operator_backward_products(&again, backward), ==, 6);
}

/* Without dropout the three masks and the dropped scores are gone: 32 t h + 2 a s t. */
static void
test_saved_bytes_without_dropout(void)
{
    struct mw_model model = load("bloom-176b");
    int64_t s = 2048, h = model.hidden, a = model.heads;
    struct sums one = sum_layer(
        &model, 0, (struct mw_shape){.sequences = 1, .seq = s, .tp = 1, .flash_attention = false});

    g_assert_cmpint(one.saved_bytes, ==, 32 * s * h + 2 * a * s * s);
}

#define IS(operator_) (UINT32_C(1) << MW_OPERATOR_##operator_)
#define LAYER_PRODUCTS (IS(QKV) | IS(PROJECTION) | IS(MLP_UP) | IS(MLP_DOWN))

static int64_t
saved_by_layer(const char *name, bool flash, uint32_t frozen)
{
    struct mw_model model = load(name);
    struct mw_shape shape = {
        .sequences = 1, .seq = 2048, .tp = 1, .flash_attention = flash, .trained.frozen = frozen};

    return sum_layer(&model, model.layers - 1, shape).saved_bytes;
}

/* A product needs its input for the gradient of its weights alone: with frozen weights it keeps
 * what others need.  Counted by hand: the inputs of both norms (x), q, k and v, attention's result
 * and row sums, gate and up; and masks of dropout. */
static void
test_saved_bytes_frozen(void)
{
    int64_t t = 2048, h = 4096, kv = 1024, f = 14336, a = 32;
    int64_t llama = 2 * t * (2 * h + h + 2 * kv + h + 2 * f) + 4 * t * a;

    g_assert_cmpint(saved_by_layer("llama-3.1-8b", true, 0), ==, llama + 2 * t * (2 * h + f));
    g_assert_cmpint(saved_by_layer("llama-3.1-8b", true, LAYER_PRODUCTS), ==, llama);
    g_assert_cmpint(saved_by_layer("llama-3.1-8b", true, IS(QKV)), ==, llama + 2 * t * (h + f));
    g_assert_cmpint(saved_by_layer("llama-3.1-8b", true, IS(MLP_DOWN)), ==, llama + 2 * t * 2 * h);
    /* The backward of flash attention reads the projection's input, the one of norms theirs. */
    g_assert_cmpint(saved_by_layer("llama-3.1-8b", true, IS(PROJECTION) | IS(NORM1) | IS(NORM2)),
                    ==, llama + 2 * t * (2 * h + f));
    /* Without flash attention softmax's result is enough: Korthikanti's 34 t h + 5 a s t less the
     * inputs of four products, 2 + 2 + 2 + 8. */
    h = 6144, a = 64;
    g_assert_cmpint(saved_by_layer("megatron-22b", false, LAYER_PRODUCTS), ==,
                    (34 - 14) * t * h + 5 * a * t * t);
    g_assert_cmpint(saved_by_layer("megatron-22b", true, LAYER_PRODUCTS), ==,
                    (34 - 12) * t * h + 4 * a * t);
}

/* One input for attention and MLP: kept while one of them is trained. */
static void
test_saved_bytes_frozen_parallel(void)
{
    int64_t t = 2048, h = 2560, f = 10240, all = saved_by_layer("phi-2", true, 0);

    g_assert_cmpint(saved_by_layer("phi-2", true, IS(QKV)), ==, all);
    g_assert_cmpint(saved_by_layer("phi-2", true, IS(MLP_UP)), ==, all);
    g_assert_cmpint(saved_by_layer("phi-2", true, IS(QKV) | IS(MLP_UP)), ==, all - 2 * t * h);
    g_assert_cmpint(saved_by_layer("phi-2", true, LAYER_PRODUCTS), ==, all - 2 * t * (h + f));
}

/* Mixtral: two copies of each token in the experts' order and their activations are for the
 * experts' gradients; the router's softmax and the experts' results are for that of its input.
 * DeepSeek-V3: of the latents what their norms take stays. */
static void
test_saved_bytes_frozen_experts(void)
{
    int64_t t = 2048, all = saved_by_layer("mixtral-8x7b", true, 0);

    g_assert_cmpint(saved_by_layer("mixtral-8x7b", true, IS(MLP_UP)), ==,
                    all - 2 * t * (4096 + 2 * 4096));
    g_assert_cmpint(saved_by_layer("mixtral-8x7b", true, IS(MLP_DOWN)), ==,
                    all - 2 * t * 2 * 14336);
    all = saved_by_layer("deepseek-v3", true, 0);
    g_assert_cmpint(saved_by_layer("deepseek-v3", true, IS(QKV)), ==,
                    all - 2 * t * (7168 + 1536 + 512));
}

/* Nobody reads the gradient of a product's result for that of its frozen bias. */
static void
test_bias_frozen(void)
{
    struct mw_model model = load("gpt2");
    struct mw_shape shape = {.sequences = 1, .seq = 1024, .tp = 1, .flash_attention = true};
    struct mw_shape frozen = shape;
    int64_t x = 2 * 1024 * 768;
    const struct {
        enum mw_operator operator_;
        int64_t passes;
    } rows[] = {{MW_OPERATOR_QKV, 3},
                {MW_OPERATOR_PROJECTION, 1},
                {MW_OPERATOR_MLP_UP, 4},
                {MW_OPERATOR_MLP_DOWN, 1}};

    frozen.trained.frozen = LAYER_PRODUCTS;
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        struct mw_operator_info whole = operator_of(&model, rows[i].operator_, shape);
        struct mw_operator_info few = operator_of(&model, rows[i].operator_, frozen);
        g_assert_cmpint(whole.backward_bytes - few.backward_bytes, ==, rows[i].passes * x);
        g_assert_cmpint(whole.forward_bytes, ==, few.forward_bytes);
        g_assert_cmpint(whole.launches, ==, few.launches);
    }
}

/* tp ranks together hold the layer once, and what is not sliced tp times. */
static void
test_slices(void)
{
    struct mw_model gpt = load("gpt3-175b"), llama = load("llama-3-70b");
    struct mw_shape one = {.sequences = 1, .seq = 2048, .tp = 1, .flash_attention = true},
                    eight = {.sequences = 1, .seq = 2048, .tp = 8, .flash_attention = true},
                    sixteen = {.sequences = 1, .seq = 2048, .tp = 16, .flash_attention = true};
    int64_t h = gpt.hidden;

    /* replicated: two norms (2h each) and two row-parallel biases (h each) */
    g_assert_cmpint(8 * sum_layer(&gpt, 0, eight).params, ==,
                    sum_layer(&gpt, 0, one).params + 7 * 6 * h);
    g_assert_cmpint(8 * sum_layer(&gpt, 0, eight).forward_flops, ==,
                    sum_layer(&gpt, 0, one).forward_flops);
    /* 8 key and value heads over 16 ranks are held twice */
    g_assert_cmpint(16 * sum_layer(&llama, 0, sixteen).params, ==,
                    sum_layer(&llama, 0, one).params + 15 * 2 * llama.hidden +
                        2 * 8 * 128 * llama.hidden);
}

static void
test_ends(void)
{
    struct mw_model gpt2 = load("gpt2"), llama = load("llama-2-7b"), opt = load("opt-350m");
    struct mw_model bare = load("zi-1t");
    struct mw_operator_info info[MW_LAYER_OPERATORS_MAX];
    struct mw_shape shape = {.sequences = 2, .seq = 1024, .tp = 1, .flash_attention = true},
                    four = {.sequences = 2, .seq = 1024, .tp = 4, .flash_attention = true};

    g_assert_cmpint(mw_model_head(&bare, &shape, info), ==, 0);
    g_assert_cmpint(mw_model_tail(&bare, &shape, info), ==, 0);
    g_assert_cmpint(operator_of(&gpt2, MW_OPERATOR_EMBEDDING, shape).params, ==,
                    (50257 + 1024) * 768);
    g_assert_cmpint(operator_of(&gpt2, MW_OPERATOR_EMBEDDING, four).params, ==,
                    (12565 + 1024) * 768);
    g_assert_cmpint(operator_of(&gpt2, MW_OPERATOR_LOGITS, shape).params, ==, 0);
    g_assert_cmpint(operator_of(&gpt2, MW_OPERATOR_LOGITS, shape).forward_flops, ==,
                    INT64_C(2) * 2048 * 50257 * 768);
    g_assert_cmpint(operator_of(&llama, MW_OPERATOR_LOGITS, shape).params, ==, 32000 * 4096);
    g_assert_cmpint(operator_of(&llama, MW_OPERATOR_LOSS, shape).saved_bytes, ==,
                    INT64_C(4) * 2048 * 32000);
    g_assert_cmpint(operator_of(&opt, MW_OPERATOR_EMBEDDING, shape).params, ==,
                    50272 * 512 + 2050 * 1024 + 512 * 1024);
    g_assert_cmpint(operator_of(&opt, MW_OPERATOR_LOGITS, shape).params, ==, 512 * 1024);
    g_assert_cmpint(mw_model_tail(&opt, &shape, info), ==, 2); /* no final norm */
}

static void
test_experts(void)
{
    struct mw_model mixtral = load("mixtral-8x7b"), deepseek = load("deepseek-v3");
    struct mw_shape shape = {.sequences = 1, .seq = 4096, .tp = 1, .flash_attention = true};
    struct mw_operator_info up = operator_of(&mixtral, MW_OPERATOR_MLP_UP, shape);
    struct mw_operator_info info[MW_LAYER_OPERATORS_MAX];

    g_assert_cmpint(up.params, ==, INT64_C(8) * 2 * 4096 * 14336 + 8 * 4096);
    g_assert_cmpint(up.forward_flops, ==,
                    INT64_C(2) * 4096 * (2 * 2 * INT64_C(4096) * 14336 + 8 * 4096));
    g_assert_cmpint(up.products[0].m, ==, 1024); /* 4096 tokens, 2 visits each, over 8 experts */
    mw_model_layer(&deepseek, 2, &shape, info);
    g_assert_cmpint(info[5].params, ==, INT64_C(2) * 7168 * 18432);
    mw_model_layer(&deepseek, 3, &shape, info);
    g_assert_cmpint(info[5].params, ==, INT64_C(2) * 257 * 7168 * 2048 + 256 * 7169);
}

/* Over four ranks: a quarter of the experts on each, with the tokens of four, and as much work; the
 * rest of a layer is as it was. */
static void
test_spread_experts(void)
{
    struct mw_model deepseek = load("deepseek-v3");
    struct mw_shape shape = {.sequences = 1, .seq = 4096, .tp = 1, .flash_attention = true};
    struct mw_operator_info whole[MW_LAYER_OPERATORS_MAX], spread[MW_LAYER_OPERATORS_MAX];
    int64_t expert = INT64_C(7168) * 2048, flops = 0, kept = 0;
    int count = mw_model_layer(&deepseek, 3, &shape, whole);

    for (int i = 0; i < count; i++) {
        flops += whole[i].forward_flops;
        kept += whole[i].saved_bytes;
    }
    shape.ep = 4;
    count = mw_model_layer(&deepseek, 3, &shape, spread);
    for (int i = 0; i < count; i++) {
        flops -= spread[i].forward_flops;
        kept -= spread[i].saved_bytes;
    }
    g_assert_cmpint(flops, ==, 0);
    g_assert_cmpint(kept, ==, 0);
    g_assert_cmpint(spread[5].params, ==, 2 * expert + 256 * 7169); /* shared, router */
    g_assert_cmpint(spread[6].operator_, ==, MW_OPERATOR_EXPERTS_UP);
    g_assert_cmpint(spread[6].params, ==, 64 * 2 * expert);
    g_assert_cmpint(spread[6].products[0].count, ==, 64);
    g_assert_cmpint(spread[6].products[0].m, ==, 4096 * 8 / 64);
    g_assert_cmpint(spread[8].operator_, ==, MW_OPERATOR_EXPERTS_DOWN);
    g_assert_cmpint(spread[8].params, ==, 64 * expert);
    g_assert_cmpint(spread[9].params, ==, expert);
    mw_model_layer(&deepseek, 2, &shape, spread); /* no experts */
    g_assert_cmpint(spread[5].params, ==, INT64_C(2) * 7168 * 18432);
}

/* Slices that share whole experts: each has as many parameters as with slices of tp times as many
 * of them, which together are those of all experts, and computes as much; but it has the tokens
 * that came to itself, and not those that came to all slices. */
static void
test_whole_experts(void)
{
    static const int64_t degrees[][2] = {{2, 8}, {4, 8}, {4, 4}, {8, 8}, {2, 2}};
    struct mw_model mixtral = load("mixtral-8x7b");
    struct mw_operator_info sliced[MW_LAYER_OPERATORS_MAX], whole[MW_LAYER_OPERATORS_MAX];

    for (size_t d = 0; d < G_N_ELEMENTS(degrees); d++) {
        int64_t tp = degrees[d][0], ep = degrees[d][1], experts = 0, input = 0;
        struct mw_shape shape = {.sequences = 1,
                                 .seq = 4096,
                                 .tp = tp,
                                 .ep = MAX(2, ep / tp),
                                 .sequence_parallel = true,
                                 .flash_attention = true};
        int count = mw_model_layer(&mixtral, 0, &shape, sliced);
        double fewer = (double)(MAX(2, ep / tp)) / ((double)ep / (double)tp);
        shape.ep = ep;
        shape.whole_experts = true;
        g_assert_cmpint(mw_model_layer(&mixtral, 0, &shape, whole), ==, count);
        for (int i = 0; i < count; i++) {
            bool up = sliced[i].operator_ == MW_OPERATOR_MLP_UP; /* keeps what experts take */
            bool of_experts = sliced[i].operator_ == MW_OPERATOR_EXPERTS_UP ||
                              sliced[i].operator_ == MW_OPERATOR_EXPERTS_DOWN;
            g_assert_cmpint(whole[i].operator_, ==, sliced[i].operator_);
            g_assert_cmpint(whole[i].forward_flops, ==, sliced[i].forward_flops);
            g_assert_cmpfloat((double)whole[i].params, ==,
                              (double)sliced[i].params * (of_experts ? fewer : 1));
            experts += of_experts ? ep * whole[i].params : 0;
            input += up ? sliced[i].saved_bytes - whole[i].saved_bytes : 0;
            if (!up)
                g_assert_cmpint(whole[i].saved_bytes, ==, sliced[i].saved_bytes);
        }
        for (int quarters = 1; quarters < 9; quarters++) { /* the room of a slice's own tokens */
            struct mw_shape full = shape, part = shape;
            full.whole_experts = false;
            full.capacity_factor = part.capacity_factor = quarters / 4.0;
            g_assert_cmpint(tp * mw_model_expert_rows(&mixtral, &part), ==,
                            mw_model_expert_rows(&mixtral, &full));
        }
        g_assert_cmpint(experts, ==, INT64_C(8) * 3 * 4096 * 14336);
        g_assert_cmpint(input, ==, (tp - 1) * (2 * 2 * 4096 / tp) * 4096); /* ke 2, 2 bytes */
    }
}

static int64_t
forward_flops(const struct mw_operator_info *info, int count, bool filled)
{
    int64_t flops = 0;

    for (int i = 0; i < count; i++)
        flops += info[i].forward_flops - (filled ? info[i].idle_flops : 0);
    return flops;
}

/* GShard: ceil(t k cf / E) rows of each expert, of which tokens fill an even share at most. */
static void
test_capacity(void)
{
    static const struct {
        double factor;
        int64_t rows; /* of an expert, for 100 tokens of 2 visits and 8 experts: 25 times factor */
    } rows[] = {{1, 25}, {1.25, 32}, {0.5, 13}, {0.01, 1}};
    struct mw_model mixtral = load("mixtral-8x7b");
    struct mw_shape shape = {.sequences = 1, .seq = 100, .tp = 1, .flash_attention = true};
    struct mw_operator_info even[MW_LAYER_OPERATORS_MAX], info[MW_LAYER_OPERATORS_MAX];
    int64_t token = INT64_C(3) * 2 * 4096 * 14336;  /* FLOPs of a row through an expert */
    int64_t wide = 4096 + 4096 + 2 * 14336 + 14336; /* kept of it: input, result, up, activation */

    for (int ep = 1; ep <= 2; ep++) {
        shape.ep = ep;
        shape.capacity_factor = 0;
        int count = mw_model_layer(&mixtral, 0, &shape, even);
        for (size_t r = 0; r < G_N_ELEMENTS(rows); r++) {
            int64_t more = 8 * rows[r].rows - 200, kept = 0;
            shape.capacity_factor = rows[r].factor;
            g_assert_cmpint(mw_model_layer(&mixtral, 0, &shape, info), ==, count);
            g_assert_cmpint(mw_model_expert_rows(&mixtral, &shape), ==, 8 * rows[r].rows);
            g_assert_cmpint(forward_flops(info, count, false) - forward_flops(even, count, false),
                            ==, more * token);
            g_assert_cmpint(forward_flops(info, count, true) - forward_flops(even, count, true), ==,
                            MIN(more, 0) * token);
            for (int i = 0; i < count; i++)
                kept += info[i].saved_bytes - even[i].saved_bytes;
            g_assert_cmpint(kept, ==, 2 * more * wide);
            if (ep > 1)
                g_assert_cmpint(info[6].products[0].m, ==, ep * rows[r].rows);
        }
    }
}

/* What gates and losses add to the router of 100 tokens, 8 experts and hidden 4096, where a token
 * visits 2: in multiples of 4·100·8 bytes of scores, of 2·100·4096·8 FLOPs of the router's product,
 * and of its 4096·8 parameters. */
static void
test_gates(void)
{
    const int64_t scores = INT64_C(4) * 100 * 8, inputs = INT64_C(2) * 100 * 4096;
    const int64_t flops = INT64_C(2) * 100 * 4096 * 8, params = INT64_C(4096) * 8;
    const struct {
        enum mw_gating gate;
        double factor;
        int64_t rows, filled; /* of experts */
        int64_t params, flops, forward, backward, saved;
        uint32_t launches;
        double aux_loss, z_loss;
    } rows[] = {
        {MW_GATING_TOP_K, 0, 200, 200, 0, 0, 0, 0, 0, 0, 0, 0},
        {MW_GATING_TOP_K, 0, 200, 200, 0, 0, scores, 2 * scores, 0, 1, 0.001, 0},
        {MW_GATING_TOP_K, 0, 200, 200, 0, 0, 800, 400, 400, 1, 0, 0.001},
        {MW_GATING_NOISY_TOP_K, 0, 200, 200, params, flops, 13 * scores, 19 * scores, 4 * scores, 7,
         0, 0},
        {MW_GATING_SWITCH, 1, 104, 100, 0, 0, scores + 3 * inputs, 2 * scores + 3 * inputs,
         2 * inputs, 2, 0.32, 0},
        {MW_GATING_SWITCH, 1, 104, 100, 0, 0, 3 * inputs, 3 * inputs, 2 * inputs, 1, 0, 0},
        {MW_GATING_GSHARD, 1, 200, 200, 0, 0, scores + INT64_C(12) * 100, 2 * scores, 0, 3, 0.32,
         0},
        {MW_GATING_EXPERT_CHOICE, 1, 200, 200, 0, 0, scores, 0, 0, 1, 0, 0},
        {MW_GATING_EXPERT_CHOICE, 1.25, 256, 256, 0, 0, scores, 0, 0, 1, 0, 0},
    };
    struct mw_model mixtral = load("mixtral-8x7b");

    for (size_t r = 0; r < G_N_ELEMENTS(rows); r++)
        for (int ep = 1; ep <= 2; ep++) {
            struct mw_shape plain = {.sequences = 1, .seq = 100, .tp = 1, .ep = ep}, shape = plain;
            int64_t more = rows[r].rows - 200, copies = 2 * more * 4096; /* bytes of a pass */
            int64_t up = ep == 1 ? INT64_C(2) * 2 * 4096 * 14336 * more : 0;

            shape.gate = rows[r].gate;
            shape.capacity_factor = rows[r].factor;
            shape.router_aux_loss = rows[r].aux_loss;
            shape.router_z_loss = rows[r].z_loss;
            struct mw_operator_info even = operator_of(&mixtral, MW_OPERATOR_MLP_UP, plain);
            struct mw_operator_info info = operator_of(&mixtral, MW_OPERATOR_MLP_UP, shape);
            struct sums before = sum_layer(&mixtral, 0, plain), all = sum_layer(&mixtral, 0, shape);
            int64_t down = INT64_C(3) * 2 * 4096 * 14336 * more - up;
            int64_t wide = 4096 + 4096 + 2 * 14336 + 14336;

            g_assert_cmpint(mw_model_expert_rows(&mixtral, &shape), ==, rows[r].rows);
            g_assert_cmpint(mw_model_filled_rows(&mixtral, &shape), ==, rows[r].filled);
            g_assert_cmpint(info.params - even.params, ==, rows[r].params);
            g_assert_cmpint(info.forward_flops - even.forward_flops - up, ==, rows[r].flops);
            g_assert_cmpint(info.backward_flops, ==, 2 * info.forward_flops);
            g_assert_cmpint(all.forward_flops - before.forward_flops - up - down, ==,
                            rows[r].flops);
            g_assert_cmpint(info.forward_bytes - even.forward_bytes - copies, ==, rows[r].forward);
            g_assert_cmpint(info.backward_bytes - even.backward_bytes - copies, ==,
                            rows[r].backward);
            g_assert_cmpint(all.saved_bytes - before.saved_bytes - 2 * more * wide, ==,
                            rows[r].saved);
            g_assert_cmpint(info.launches - even.launches, ==, rows[r].launches);
        }
}

/* 16 experts in 4 groups, of which a token visits 2, and 2 of each, beside 4 of all by one noisy
 * gate: 4 + 2 * 4 scores of a token instead of 16, in products of 2·100·4096 FLOPs, and in 15 fp32
 * passes forward, 21 backward and 5 that are kept; a gate of 4 groups and its noise more; and
 * tokens that are copied for groups first and for experts there: half as many go over ranks. */
static void
test_gate_levels(void)
{
    const int64_t fewer = 16 - (4 + 2 * 4), scores = INT64_C(4) * 100 * fewer;
    const int64_t once = INT64_C(2) * 100 * 4096; /* bytes of a pass over the tokens */
    struct mw_model model = load("mixtral-8x7b");

    model.experts = 16;
    model.experts_per_token = 4;
    for (int ep = 1; ep <= 2; ep++) {
        struct mw_shape flat = {
            .sequences = 1, .seq = 100, .tp = 1, .ep = ep, .gate = MW_GATING_NOISY_TOP_K};
        struct mw_shape shape = flat;
        shape.gate = MW_GATING_HIERARCHICAL;
        struct sums before = sum_layer(&model, 0, flat), after = sum_layer(&model, 0, shape);
        int64_t forward = 0, backward = 0;
        static const enum mw_operator of[] = {MW_OPERATOR_MLP_UP, MW_OPERATOR_EXPERTS_UP,
                                              MW_OPERATOR_EXPERTS_DOWN, MW_OPERATOR_MLP_DOWN};
        for (size_t i = 0; i < G_N_ELEMENTS(of); i++) {
            if (ep == 1 && (i == 1 || i == 2))
                continue;
            struct mw_operator_info one = operator_of(&model, of[i], flat);
            struct mw_operator_info two = operator_of(&model, of[i], shape);
            forward += two.forward_bytes - one.forward_bytes;
            backward += two.backward_bytes - one.backward_bytes;
        }
        g_assert_cmpint(mw_model_gate_groups(&model, MW_GATING_HIERARCHICAL), ==, 4);
        g_assert_cmpint(mw_model_expert_rows(&model, &shape), ==, 400);
        g_assert_cmpint(mw_model_sent_rows(&shape, 400), ==, 200);
        g_assert_cmpint(after.params - before.params, ==, 2 * 4 * 4096);
        g_assert_cmpint(after.forward_flops - before.forward_flops, ==,
                        -2 * fewer * INT64_C(2) * 100 * 4096);
        g_assert_cmpint(after.backward_flops, ==, 2 * after.forward_flops);
        g_assert_cmpint(forward, ==, -15 * scores + (ep == 1 ? 8 : -8) * once);
        g_assert_cmpint(backward, ==, -21 * scores + (ep == 1 ? 10 : -6) * once);
        g_assert_cmpint(after.saved_bytes - before.saved_bytes, ==, -5 * scores + 2 * once);
    }
}

/* Groups are as many as experts in each, or more; a prime number has none. */
static void
test_gate_groups(void)
{
    static const struct {
        int64_t experts, groups;
    } rows[] = {{4, 2}, {6, 3}, {7, 7}, {8, 4}, {16, 4}, {60, 10}, {128, 16}, {256, 16}};
    struct mw_model model = load("mixtral-8x7b");

    for (size_t r = 0; r < G_N_ELEMENTS(rows); r++) {
        model.experts = rows[r].experts;
        g_assert_cmpint(mw_model_gate_groups(&model, MW_GATING_HIERARCHICAL), ==, rows[r].groups);
        g_assert_cmpint(mw_model_gate_groups(&model, MW_GATING_NOISY_TOP_K), ==, 0);
        g_assert_cmpint(mw_model_gate_scores(&model, MW_GATING_NOISY_TOP_K), ==, rows[r].experts);
    }
}

/* Switch computes its router in fp32, and nothing else. */
static void
test_gate_types(void)
{
    struct mw_model mixtral = load("mixtral-8x7b");
    struct mw_shape shape = {
        .sequences = 1, .seq = 100, .tp = 1, .gate = MW_GATING_SWITCH, .capacity_factor = 1};

    for (int fp8 = 0; fp8 <= 1; fp8++) {
        shape.product_dtype = fp8 ? MW_DTYPE_FP8 : MW_DTYPE_NONE;
        struct mw_operator_info info = operator_of(&mixtral, MW_OPERATOR_MLP_UP, shape);
        g_assert_cmpint(info.product_count, ==, 2);
        g_assert_cmpint(info.products[0].dtype, ==, fp8 ? MW_DTYPE_FP8 : MW_DTYPE_BF16);
        g_assert_cmpint(info.products[1].n, ==, 8);
        g_assert_cmpint(info.products[1].dtype, ==, MW_DTYPE_FP32);
    }
    shape.dtype = MW_DTYPE_FP32;
    struct mw_shape plain = shape;
    plain.gate = MW_GATING_TOP_K;
    plain.capacity_factor = 0.5; /* as many rows: 100 tokens, 2 visits, half of a share */
    g_assert_cmpint(operator_of(&mixtral, MW_OPERATOR_MLP_UP, shape).saved_bytes, ==,
                    operator_of(&mixtral, MW_OPERATOR_MLP_UP, plain).saved_bytes);
}

/* Of the whole model: a second router in each of 32 layers; an expert less for a token. */
static void
test_gate_params(void)
{
    struct mw_model mixtral = load("mixtral-8x7b");
    int64_t params = mw_model_params(&mixtral), active = mw_model_active_params(&mixtral);
    int64_t noise = INT64_C(32) * 4096 * 8, expert = INT64_C(32) * 3 * 4096 * 14336;

    g_assert_cmpint(mw_model_gate_params(&mixtral, MW_GATING_TOP_K), ==, params);
    g_assert_cmpint(mw_model_gate_active_params(&mixtral, MW_GATING_TOP_K), ==, active);
    g_assert_cmpint(mw_model_gate_params(&mixtral, MW_GATING_NOISY_TOP_K), ==, params + noise);
    g_assert_cmpint(mw_model_gate_active_params(&mixtral, MW_GATING_NOISY_TOP_K), ==,
                    active + noise);
    g_assert_cmpint(mw_model_gate_params(&mixtral, MW_GATING_SWITCH), ==, params);
    g_assert_cmpint(mw_model_gate_active_params(&mixtral, MW_GATING_SWITCH), ==, active - expert);
    g_assert_cmpint(mw_model_gate_active_params(&mixtral, MW_GATING_GSHARD), ==, active);
    g_assert_cmpint(mw_model_gate_params(&mixtral, MW_GATING_HIERARCHICAL), ==, params + 2 * noise);
    g_assert_cmpint(mw_model_gate_active_params(&mixtral, MW_GATING_HIERARCHICAL), ==,
                    active + 2 * noise + 2 * expert);
}

/* By hand: of two tokens that go to one of two experts each, both go to the same one half of the
 * time, and one of them is too many.  Of four tokens and two rows, an expert has 3 with a
 * probability of 4/16 and 4 with 1/16: 2 · (4 + 2) / 16 of 4. */
static void
test_dropped_share(void)
{
    static const struct {
        enum mw_gating gate;
        int64_t tokens, experts;
        double factor, share;
    } rows[] = {
        {MW_GATING_SWITCH, 2, 2, 1, 0.25},        {MW_GATING_SWITCH, 4, 2, 1, 0.1875},
        {MW_GATING_SWITCH, 4, 2, 1.5, 1.0 / 32},  {MW_GATING_SWITCH, 4, 2, 2, 0},
        {MW_GATING_SWITCH, 4, 2, 0.5, 17.0 / 32}, {MW_GATING_GSHARD, 4, 2, 1, 0},
        {MW_GATING_GSHARD, 4, 2, 0.5, 0.5},       {MW_GATING_EXPERT_CHOICE, 4, 2, 0.5, 0},
    };
    struct mw_model mixtral = load("mixtral-8x7b");
    struct mw_shape shape = {.sequences = 1, .tp = 1};

    for (size_t r = 0; r < G_N_ELEMENTS(rows); r++) {
        mixtral.experts = rows[r].experts;
        shape.gate = rows[r].gate;
        shape.seq = rows[r].tokens;
        shape.capacity_factor = rows[r].factor;
        g_assert_cmpfloat_with_epsilon(mw_model_dropped_share(&mixtral, &shape), rows[r].share,
                                       1e-12);
    }
    /* Of many tokens the number of an expert's is about normal: sigma / sqrt(2 pi) are too many. */
    mixtral.experts = 64;
    shape.gate = MW_GATING_SWITCH;
    shape.capacity_factor = 1;
    shape.seq = 1 << 20;
    double mean = (1 << 20) / 64.0, sigma = sqrt(mean * (1 - 1 / 64.0));
    g_assert_cmpfloat_with_epsilon(mw_model_dropped_share(&mixtral, &shape),
                                   sigma / sqrt(2 * G_PI) / mean, 1e-5);
    /* Slices that send tokens of their own have less room for uneven ones. */
    double whole = mw_model_dropped_share(&mixtral, &shape);
    shape.ep = shape.tp = 4;
    shape.sequence_parallel = true;
    g_assert_cmpfloat_with_epsilon(mw_model_dropped_share(&mixtral, &shape), 2 * whole, 1e-5);
}

/* Phi: attention and MLP share one norm. */
static void
test_parallel_block(void)
{
    struct mw_model phi = load("phi-2");
    struct mw_operator_info info[MW_LAYER_OPERATORS_MAX];
    struct mw_shape shape = {.sequences = 1, .seq = 1024, .tp = 1, .flash_attention = true};

    g_assert_cmpint(mw_model_layer(&phi, 0, &shape, info), ==, 7);
    g_assert_cmpint(info[4].operator_, ==, MW_OPERATOR_MLP_UP);
    g_assert_cmpint(info[4].saved_bytes, ==, 0);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/model/walk/every-preset", test_every_preset);
    g_test_add_func("/model/walk/flops/gpt-layer", test_gpt_flops);
    g_test_add_func("/model/walk/flops/gpt-model", test_model_flops);
    g_test_add_func("/model/walk/flops/products", test_products);
    g_test_add_func("/model/walk/flops/flash", test_flash_flops);
    g_test_add_func("/model/walk/saved/dropout", test_saved_bytes);
    g_test_add_func("/model/walk/saved/dropout-selective", test_selective);
    g_test_add_func("/model/walk/saved/no-dropout", test_saved_bytes_without_dropout);
    g_test_add_func("/model/walk/saved/frozen", test_saved_bytes_frozen);
    g_test_add_func("/model/walk/saved/frozen-parallel-block", test_saved_bytes_frozen_parallel);
    g_test_add_func("/model/walk/saved/frozen-experts", test_saved_bytes_frozen_experts);
    g_test_add_func("/model/walk/passes/frozen-bias", test_bias_frozen);
    g_test_add_func("/model/walk/slices", test_slices);
    g_test_add_func("/model/walk/experts/whole", test_whole_experts);
    g_test_add_func("/model/walk/ends", test_ends);
    g_test_add_func("/model/walk/experts", test_experts);
    g_test_add_func("/model/walk/spread-experts", test_spread_experts);
    g_test_add_func("/model/walk/capacity", test_capacity);
    g_test_add_func("/model/walk/gates", test_gates);
    g_test_add_func("/model/walk/gates/types", test_gate_types);
    g_test_add_func("/model/walk/gates/params", test_gate_params);
    g_test_add_func("/model/walk/gates/levels", test_gate_levels);
    g_test_add_func("/model/walk/gates/groups", test_gate_groups);
    g_test_add_func("/model/walk/gates/dropped", test_dropped_share);
    g_test_add_func("/model/walk/parallel-block", test_parallel_block);
    return g_test_run();
}
