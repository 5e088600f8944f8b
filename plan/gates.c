/* The table of gates. */
#include "plan/gates.h"

#include <stddef.h>

static const struct mw_gate_row rows[MW_GATING_COUNT] = {
    [MW_GATING_TOP_K] = {.name = "top-k",
                         .runs = true,
                         .choice = "a token takes the k experts with its largest scores",
                         .adds = "nothing: the router of the model's type, and losses where "
                                 "they are asked for",
                         .capacity = "no limit",
                         .source = "Mixtral, arXiv 2401.04088, Sec. 2.1"},
    [MW_GATING_NOISY_TOP_K] = {.name = "noisy-top-k",
                               .features = MW_HAS(ROUTER_NOISE) | MW_HAS(ROUTER_SUMS),
                               .choice = "a token takes the k experts with its largest scores, to "
                                         "which noise is added",
                               .adds = "a second matrix for the size of the noise, softplus and "
                                       "normal draws, losses of importance and load",
                               .capacity = "no limit",
                               .source = "Shazeer et al., arXiv 1701.06538, Eq. 3 to 11"},
    [MW_GATING_SWITCH] = {.name = "switch",
                          .runs = true,
                          .visits = 1,
                          .capacity_factor = 1,
                          .features = MW_HAS(ROUTER_FP32),
                          .layer_loss = 0.01,
                          .choice = "a token takes the expert with its largest score",
                          .adds = "a router in fp32, a loss of balance",
                          .capacity = "t cf / E tokens of an expert, cf 1 unless stated",
                          .source = "Switch, arXiv 2101.03961, Eq. 1 to 6, Sec. 2.4"},
    [MW_GATING_GSHARD] = {.name = "gshard",
                          .runs = true,
                          .visits = 2,
                          .renormalizes = true,
                          .capacity_factor = 1,
                          .may_skip = true,
                          .features = MW_HAS(ROUTER_DRAWS),
                          .layer_loss = 0.01,
                          .choice =
                              "a token takes the expert with its largest score, and the second "
                              "one by a draw, with a probability of twice its weight",
                          .adds = "a draw for each token, a loss of balance",
                          .capacity = "2 t cf / E tokens of an expert, cf 1 unless stated",
                          .source = "GShard, arXiv 2006.16668, Sec. 2.2, Algorithm 1"},
    [MW_GATING_EXPERT_CHOICE] = {.name = "expert-choice",
                                 .capacity_factor = 1,
                                 .experts_choose = true,
                                 .features = MW_HAS(ROUTER_BY_EXPERT),
                                 .choice = "an expert takes the tokens with its largest scores",
                                 .adds = "a top-k over tokens, no loss",
                                 .capacity =
                                     "t k cf / E tokens of an expert, cf 1 unless stated; all "
                                     "rows are filled, and a token has any number of experts",
                                 .source = "Zhou et al., arXiv 2202.09368, Sec. 3.1 to 3.2"},
    [MW_GATING_HIERARCHICAL] = {.name = "hierarchical",
                                .visits = 4,
                                .group_visits = 2,
                                .features = MW_HAS(ROUTER_NOISE) | MW_HAS(ROUTER_SUMS) |
                                            MW_HAS(ROUTER_LEVELS),
                                .choice =
                                    "a token takes the 2 groups with its largest scores by a "
                                    "first gate, and in each the 2 experts by that group's gate, "
                                    "4 in all",
                                .adds = "a gate for groups; to all gates what noisy-top-k adds; a "
                                        "token goes to a group once, however many of its experts "
                                        "it visits",
                                .capacity = "no limit",
                                .source = "Shazeer et al., arXiv 1701.06538, Sec. 3.1, "
                                          "Appendix B, C.1"},
};

const struct mw_gate_row *
mw_gate_row(int gate)
{
    return gate >= 0 && gate < MW_GATING_COUNT ? &rows[gate] : NULL;
}

const char *
mw_gate_name(int gate)
{
    const struct mw_gate_row *row = mw_gate_row(gate);

    return row ? row->name : NULL;
}

int64_t
mw_gate_copies(int gate)
{
    const struct mw_gate_row *row = mw_gate_row(gate);

    return row->group_visits ? row->visits / row->group_visits : 1;
}
