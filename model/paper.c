#include "model/paper.h"

#include "model/internal.h"

#define STATE_BYTES 20 /* a parameter, ZeRO-Infinity Sec. 3 */
#define ZERO_K 12      /* of Adam's fp32 parameter, momentum, variance: ZeRO Sec. 3.1 */

int64_t
mw_paper_model_state_bytes(const struct mw_model *model)
{
    return MW_PRODUCT(STATE_BYTES, mw_model_params_paper(model));
}

int64_t
mw_paper_checkpoint_bytes(const struct mw_model *model, int64_t tokens, int64_t ci)
{
    return ci ? MW_PRODUCT(2, tokens, model->hidden, model->layers) / ci : 0;
}

static int64_t
block_activation_bytes(const struct mw_model *model, int64_t tokens, int64_t seq)
{
    return MW_PRODUCT(tokens, MW_SUM(16 * model->hidden, MW_PRODUCT(2, model->heads, seq)));
}

int64_t
mw_paper_activation_bytes(const struct mw_model *model, int64_t tokens, int64_t seq)
{
    return MW_PRODUCT(model->layers, block_activation_bytes(model, tokens, seq));
}

int64_t
mw_paper_mswm_bytes(const struct mw_model *model)
{
    return MW_PRODUCT(4, model->hidden, 4, model->hidden);
}

int64_t
mw_paper_awm_bytes(const struct mw_model *model, int64_t tokens, int64_t seq, int64_t ci)
{
    return MW_PRODUCT(ci ? ci : model->layers, block_activation_bytes(model, tokens, seq));
}

int64_t
mw_paper_zero_bytes(enum mw_paper_zero stage, int64_t params, int64_t dp)
{
    int whole = stage == MW_PAPER_ZERO_BASELINE ? 2 + 2 + ZERO_K
                : stage == MW_PAPER_ZERO_POS    ? 2 + 2
                : stage == MW_PAPER_ZERO_POS_G  ? 2
                                                : 0;
    int parted = 2 + 2 + ZERO_K - whole;

    return MW_SUM(MW_PRODUCT(whole, params), MW_PRODUCT(parted, params) / dp);
}
