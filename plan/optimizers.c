/* The table of optimizers. */
#include "plan/optimizers.h"

#include <stddef.h>

#include "plan/state.h"

#define EACH(bytes) .block_elements = 1, .block_bytes = (bytes)

static const struct mw_optimizer_row rows[MW_OPTIMIZER_COUNT] = {
    [MW_OPTIMIZER_ADAMW] = {.name = "adamw",
                            EACH(MW_STATE_BYTES),
                            .runs = true,
                            .keeps = "fp32 parameter, momentum and variance",
                            .source = "arXiv 1711.05101; ZeRO, arXiv 1910.02054, Sec. 3.1"},
    [MW_OPTIMIZER_ADAMW_16BIT] = {.name = "adamw-16bit",
                                  EACH(4 + 2 + 2),
                                  .keeps = "fp32 parameter, momentum and variance in 16 bits",
                                  .source = "DeepSeek-V3, arXiv 2412.19437, Sec. 3.3.3"},
    [MW_OPTIMIZER_ADAMW_8BIT] = {.name = "adamw-8bit",
                                 .block_elements = 2048,
                                 .block_bytes = 2048 * (4 + 1 + 1) + 2 * 4,
                                 .keeps = "fp32 parameter, momentum and variance in 8 bits with a "
                                          "scale for 2048",
                                 .source = "arXiv 2110.02861, Sec. 2"},
    [MW_OPTIMIZER_ADAMW_PURE] = {.name = "adamw-pure",
                                 EACH(2 + 2),
                                 .keeps = "no other parameter than that of 16 bits, stochastically "
                                          "rounded; momentum and variance in 16 bits",
                                 .source = "arXiv 2010.06192, Sec. 3"},
    [MW_OPTIMIZER_SGD] = {.name = "sgd",
                          EACH(4),
                          .keeps = "fp32 parameter",
                          .source = "mixed precision, arXiv 1710.03740, Sec. 3.1"},
    [MW_OPTIMIZER_MOMENTUM] = {.name = "sgd-momentum",
                               EACH(4 + 4),
                               .keeps = "fp32 parameter and momentum",
                               .source = "mixed precision, arXiv 1710.03740, Sec. 3.1"},
    [MW_OPTIMIZER_LION] = {.name = "lion",
                           EACH(4 + 4),
                           .keeps = "fp32 parameter and momentum",
                           .source = "arXiv 2302.06675, Algorithm 2"},
    [MW_OPTIMIZER_ADAFACTOR] = {.name = "adafactor",
                                EACH(4),
                                .keeps = "fp32 parameter; of a matrix a vector for rows and one "
                                         "for columns",
                                .source = "arXiv 1804.04235, Algorithm 4"},
    [MW_OPTIMIZER_SM3] = {.name = "sm3",
                          EACH(4 + 4),
                          .keeps = "fp32 parameter and momentum; of a matrix a vector for rows and "
                                   "one for columns",
                          .source = "arXiv 1901.11150, Sec. 3"},
};

const struct mw_optimizer_row *
mw_optimizer_row(int kind)
{
    return kind >= 0 && kind < MW_OPTIMIZER_COUNT ? &rows[kind] : NULL;
}

const char *
mw_optimizer_name(int kind)
{
    return kind >= 0 && kind < MW_OPTIMIZER_COUNT ? rows[kind].name : NULL;
}

int64_t
mw_optimizer_state_bytes(int kind, int64_t elements)
{
    int64_t block = rows[kind].block_elements;

    return (elements / block + (elements % block > 0)) * rows[kind].block_bytes;
}
