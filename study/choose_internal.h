/* choose_internal.h - the parts of a choice, each of which calls those before it: rates,
 * comparisons, candidates, mixes of them, a strategy, all strategies, refusals, batches. */
#ifndef MW_STUDY_CHOOSE_INTERNAL_H
#define MW_STUDY_CHOOSE_INTERNAL_H

#include "study/choose.h"

/* Only candidates with the best estimates are simulated, and only those close to the best. */
#define SIMULATED 4
#define NEAR 0.9
/* Rates that differ by less are the same: the larger step, nearer to the default, comes first. */
#define SAME_RATE 1.001
/* Factor by which a plan must be faster than a simpler one, which does not offload or partitions
 * less. */
#define WORTH_COMPLEXITY 1.02
/* Steps with up to this many times the allowed ops are examined before they are refused, to name
 * the plan: counting micro-batches costs nothing, counting layers and tiles does. */
#define REFUSED_OPS 64

struct mw_choose_search {
    const struct mw_question *question;
    bool keeps_plan; /* of the choice; else plans are freed once they are rated */
    bool estimates;  /* rates are estimated, and no plan is built */
    GArray *known;   /* rates of simulated plans, as mw_choose_known_new makes it */
};

/* The best of other strategies so far. */
struct mw_choose_present {
    double rate; /* 0: none */
    int lacks;   /* of its software, for it */
};

/* Rates. */

bool mw_choice_fits(const struct mw_choice *choice);
/* Builds the plan of a choice that fits, unless it has been built.  One that is rated alone is not
 * worth as many ops as layers that do not come in rounds make. */
void mw_choice_build_plan(struct mw_choice *choice);
/* It may have half a million ops. */
void mw_choice_free_plan(struct mw_choice *choice);
double mw_choose_fetch_s(const struct mw_sizing *sizing);
/* All micro-batches except the first and the last are alike. */
double mw_choose_rate_by_few(const struct mw_sizing *sizing);
GArray *mw_choose_known_new(void);
/* Tokens per second, accurate enough to choose by; 0 if it does not fit. */
double mw_choose_rate(struct mw_choose_search *search, struct mw_choice *choice);

/* Comparisons. */

int mw_choose_deepest_tier(const struct mw_sizing *sizing);
/* Of two plans, the one that offloads nothing is simpler; if both do or neither does, the one with
 * the simpler strategy is; of one strategy, the one that treats all layers alike. */
bool mw_choice_is_simpler(const struct mw_choice *one, const struct mw_choice *other);
int mw_choose_lacks(const struct mw_choose_search *search, const struct mw_choice *choice);
bool mw_choose_is_better(struct mw_choose_search *search, struct mw_choice *one,
                         struct mw_choice *other);
/* Takes `other`, unless `best` is as good.  What the software can run comes before what is fast. */
void mw_choose_take_better(struct mw_choose_search *search, struct mw_choice *best,
                           struct mw_choice *other);
/* How many parts come ahead at most where the number is open: those of a layer.  0: the number is
 * given, or nothing waits for parts. */
int64_t mw_choose_most_ahead(const struct mw_question *question, const struct mw_sizing *one);
/* The fastest candidate; a single candidate is not simulated.  Estimates below `floor` are far from
 * the best of others. */
struct mw_choice mw_choose_fastest(struct mw_choose_search *search, GPtrArray *candidates, int most,
                                   double floor);
/* The fastest candidate, unless there is a choice that is as good. */
void mw_choose_take_fastest(struct mw_choose_search *search, struct mw_choice *choice,
                            GPtrArray *candidates, int most, double floor);

/* Candidates. */

/* Memory that has room for logits in one piece has room for two, which are faster where transfers
 * of those weights take longer than smaller products lose.  Estimates have all loads beside the
 * passes, but for the second one backward waits.  A framework needs another loss for it.
 * memwall's own runs keep one chunk: another number changes the bits, which must not depend on
 * where parameters are. */
void mw_choose_halve_logits(const struct mw_question *question, const struct mw_settings *resolved,
                            GPtrArray *candidates);
/* Where none fits: the one that lacks least, or NULL and the reason. */
GPtrArray *mw_choose_find_nearest(const struct mw_question *question,
                                  const struct mw_settings *asked, GError **error);
/* The candidates that fit, perhaps none; NULL: the question is refused.  `needless`: to which those
 * are added that move more off the GPU than others, or NULL. */
GPtrArray *mw_choose_find_with_needless(const struct mw_question *question,
                                        const struct mw_settings *asked, GPtrArray *needless);
GPtrArray *mw_choose_find_fitting(const struct mw_question *question,
                                  const struct mw_settings *asked);
/* Candidates that have room for the parts of a layer on their way: what is placed with one of them
 * ahead leaves the others none.  NULL: no candidate waits for parts. */
GPtrArray *mw_choose_find_ahead(const struct mw_question *question, const struct mw_settings *asked,
                                GPtrArray *candidates, GPtrArray *needless);
double mw_choose_best_estimate(GPtrArray *candidates);
/* Whether no candidate moves anything off the GPU: estimates are close where only the GPU works. */
bool mw_choose_stay_on_gpu(GPtrArray *candidates);
/* Whether recomputation is open, and no other setting decides it; checkpoints on the GPU do not. */
bool mw_choose_may_keep_all(const struct mw_settings *asked);
/* Whether activations that layers keep are encoded, and which layers keep any is open: all of them,
 * or as many as there is room for. */
bool mw_choose_encodes_some(const struct mw_question *question, const struct mw_settings *asked);
/* The settings with a higher limit of ops, so that more micro-batches than may be planned can still
 * be examined. */
struct mw_settings mw_choose_with_many_ops(const struct mw_settings *asked);
/* Recomputes nothing. */
struct mw_settings mw_choose_keeping_all(const struct mw_settings *asked);
/* Recomputes no more layers than memory asks for, which is the least time for any memory: where
 * layers are unlike, each choice to which none can be added is a candidate. */
struct mw_settings mw_choose_recomputing_fewest(const struct mw_settings *asked);
/* As many layers as there is room for keep their activations. */
GPtrArray *mw_choose_find_fewest(const struct mw_question *question,
                                 const struct mw_settings *asked);
bool mw_choose_may_recompute_some(const struct mw_choose_search *search,
                                  const struct mw_settings *asked);

/* Mixes of kept and recomputed layers. */

/* The candidates with as few recomputed layers as fit that may be faster than `present`, and enough
 * faster than `alike`, which treats all layers alike. */
GPtrArray *mw_choose_find_mixed(const struct mw_question *question, const struct mw_settings *asked,
                                GPtrArray *candidates, GPtrArray *needless, double alike,
                                double present);

/* One strategy. */

/* Recomputes every block, or none or some if that is faster.  Without a sizing: nothing fits, or
 * only what the software lacks more for, or the estimates do not come close to the present rate. */
struct mw_choice mw_choose_of_strategy(struct mw_choose_search *search,
                                       const struct mw_settings *asked,
                                       struct mw_choose_present best);
/* Of a strategy of which nothing fits: what lacks least. */
bool mw_choose_nearest(const struct mw_choose_search *search, const struct mw_settings *asked,
                       struct mw_choice *choice, GError **error);

/* All strategies. */

/* The strategies worth trying: with offloaded state two of them may lead to the same plan. */
struct mw_strategies mw_choose_strategies_to_try(const struct mw_settings *asked);
/* Asks why nothing fits only if nothing does.  Stages that are balanced by their times come first,
 * however much they recompute or offload; where nothing fits so, those that have room, too. */
bool mw_choose_among(struct mw_choose_search *search, const struct mw_settings *asked,
                     struct mw_choice *choice, GError **error);

/* Refusals. */

/* The message has the number of ops and the nearest values of the plan that would be chosen. */
void mw_choose_refuse(const struct mw_question *question, const struct mw_settings *asked,
                      GError **error);

#endif
