/*
 * purchases.h - what to buy: each step (study/steps.h) from a machine that one has, what it costs,
 * and what it brings.
 *
 * The question is asked of the machine as it is, and of each machine that is one step away; where
 * no single step gains, of those two steps away too.  So what a step brings is what `simulate`
 * says of both machines, with the strategy, placement and batch that are best on each.
 */
#ifndef MW_STUDY_PURCHASES_H
#define MW_STUDY_PURCHASES_H

#include "study/steps.h"

struct mw_purchase {
    struct mw_stepped machine;
    struct mw_result *result; /* NULL: refused, as `why` says */
    char *why;
    double usd_per_hour;   /* of all nodes, where rented; else NAN */
    double days, cost_usd; /* of the training; NAN: it does not fit */
    double drives_last_s;  /* that its drives last; NAN: nothing is written, or no rating */
    double times;          /* tokens/s over those of the machine as it is; INFINITY: that does not
                              * fit, 0: this does not */
    /* What it brings: the first where something is bought, the second where the machine is rented.
     * The other is NAN; both are, where there is no price, or it does not fit. */
    double tokens_per_s_per_1000_usd; /* gained */
    double tokens_per_usd;
};

struct mw_purchases {
    struct mw_purchase now;    /* nothing bought */
    struct mw_purchase *steps; /* [step_count], best per USD first; what does not gain, and what has
                                * no price, at the end */
    int step_count;
    struct mw_purchase
        *pairs; /* [pair_count] of two steps, of which neither alone gains; as steps */
    int pair_count;
    int pairs_tried;
    double days, usd; /* limits; INFINITY: none */
    bool rented;
};

/* What it brings per USD, of a purchase or of a rent; NAN: not known. */
double mw_purchase_worth(const struct mw_purchase *purchase);
/* Whether the machine trains the model as it is, or with some step. */
bool mw_purchases_fit(const struct mw_purchases *purchases);
/* Whether it fits and is faster by more than MW_WORTH_MONEY (study/improvements.h), or fits where
 * the machine as it is does not. */
bool mw_purchase_gains(const struct mw_purchase *purchase);

/* The question has settings.tokens and outlives the result.  mw_purchases_clear it. */
bool mw_purchases_find(const struct mw_question *question, const struct mw_part_price *prices,
                       int price_count, struct mw_purchases *out, GError **error);
void mw_purchases_clear(struct mw_purchases *purchases);

#endif
