/* The walk over a described model's products of activations: attention and scans. */
#include "model/walk.h"

#include "base/arithmetic.h"

/* Larger counts than any sum of them can have without reaching the limit of a step. */
#define COUNTED_MAX (INT64_C(1) << 53)

int64_t
mw_model_line_at(const struct mw_model_line *line, int64_t text)
{
    int64_t above = mw_saturating_add(MW_PRODUCT(line->slope, text), line->constant);

    return CLAMP(above / line->divisor, 0, COUNTED_MAX);
}

bool
mw_described_mixes(const struct mw_model *model, int stack)
{
    for (int i = 0; i < model->mix_count; i++)
        if (model->mixes[i].stack == stack)
            return true;
    return false;
}

/* A mix for one sequence. */
struct sides {
    int64_t m, n, k, count;
};

static struct sides
sides_of(const struct mw_model_mix *mix, const struct mw_walk *walk)
{
    return (struct sides){
        mw_model_line_at(&mix->m, walk->text), mw_model_line_at(&mix->n, walk->text),
        mw_model_line_at(&mix->k, walk->text), mw_model_line_at(&mix->count, walk->text)};
}

/* Elements of a sequence, as a width of the stack's tokens. */
static int64_t
as_width(const struct mw_walk *walk, int64_t elements)
{
    return mw_divide_up(elements, walk->seq);
}

void
mw_described_widths(struct mw_walk *walk, int stack)
{
    int64_t queries = 0, keys = 0, values = 0, attended = 0, scores = 0;

    for (int i = 0; i < walk->model->mix_count; i++) {
        const struct mw_model_mix *mix = &walk->model->mixes[i];
        if (mix->stack != stack || !mix->value_dim)
            continue;
        struct sides of = sides_of(mix, walk);
        int64_t shared = mw_divide_up(MW_PRODUCT(of.count, mix->kv_heads), mix->heads);
        queries = MW_SUM(queries, MW_PRODUCT(of.count, of.m, of.k));
        attended = MW_SUM(attended, MW_PRODUCT(of.count, of.m, mix->value_dim));
        keys = MW_SUM(keys, MW_PRODUCT(shared, of.n, of.k));
        values = MW_SUM(values, MW_PRODUCT(shared, of.n, mix->value_dim));
        scores = MW_SUM(scores, MW_PRODUCT(of.count, of.m, of.n));
    }
    walk->dims.width[MW_WIDTH_QUERIES] = as_width(walk, queries);
    walk->dims.width[MW_WIDTH_KEYS] = as_width(walk, keys);
    walk->dims.width[MW_WIDTH_VALUES] = as_width(walk, values);
    walk->dims.width[MW_WIDTH_ATTENDED] = as_width(walk, attended);
    walk->dims.width[MW_WIDTH_SCORES] = as_width(walk, scores);
}

/* The products of one mix stand for all. */
static void
take_products(struct mw_operator_info *info, const struct mw_walk *walk,
              const struct mw_model_mix *mix, struct sides of)
{
    int64_t count = MW_PRODUCT(walk->sequences, of.count);

    info->products[0] = (struct mw_work_product){.m = MAX(1, of.m),
                                                 .n = MAX(1, of.n),
                                                 .k = MAX(1, of.k),
                                                 .count = MAX(1, count),
                                                 .dtype = walk->dtype};
    info->products[1] = (struct mw_work_product){.m = MAX(1, of.m),
                                                 .n = mix->value_dim,
                                                 .k = MAX(1, of.n),
                                                 .count = MAX(1, count),
                                                 .dtype = walk->dtype};
    info->product_count = mix->value_dim ? 2 : 1;
}

static void
take_attention(struct mw_operator_info *info, const struct mw_walk *walk,
               const struct mw_model_mix *mix, struct sides of)
{
    int64_t keys = MAX(1, mw_model_line_at(&mix->n, walk->text));

    info->attention = (struct mw_work_attention){
        .queries = MAX(1, of.m),
        .keys = keys,
        .heads = mix->heads,
        .kv_heads = mix->kv_heads,
        .head_dim = MAX(1, of.k),
        .value_dim = mix->value_dim,
        .window = of.n < keys ? mix->window : 0,
        .causal = mix->causal,
    };
}

/* As for every other model: scores are counted whole, flash attention leaves out the keys outside a
 * window, and its backward forms the scores again. */
void
mw_described_attend(struct mw_operator_info *info, const struct mw_walk *walk, int stack)
{
    bool flash = mw_dims_have(&walk->dims, MW_HAS(FLASH_ATTENTION));
    int64_t most = -1, again = 0;

    for (int i = 0; i < walk->model->mix_count; i++) {
        const struct mw_model_mix *mix = &walk->model->mixes[i];
        if (mix->stack != stack)
            continue;
        struct sides of = sides_of(mix, walk);
        if (mix->value_dim && flash && mix->window)
            of.n = MIN(of.n, mix->window);
        int64_t pairs = MW_PRODUCT(2, walk->sequences, of.count, of.m, of.n);
        int64_t flops = MW_PRODUCT(pairs, MW_SUM(of.k, mix->value_dim));
        info->forward_flops = MW_SUM(info->forward_flops, flops);
        if (mix->value_dim && flash)
            again = MW_SUM(again, MW_PRODUCT(pairs, of.k));
        if (flops <= most)
            continue;
        most = flops;
        take_products(info, walk, mix, of);
        if (mix->value_dim)
            take_attention(info, walk, mix, of);
    }
    info->products_again = flash && info->product_count == 2;
    info->backward_flops = again;
    if (!info->forward_flops) {
        info->product_count = info->products_again = 0;
        info->attention = (struct mw_work_attention){0};
    }
}
