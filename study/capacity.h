/*
 * capacity.h - capacity planning: which machines, and how many of them, train a model on so many
 * tokens within a deadline, a budget and a limit of power.
 *
 * A candidate is a machine and a number of nodes.  Each is first bounded (study/bound.h): it takes
 * at least so many days and costs at least so much.  Candidates whose bound exceeds a limit, or is
 * no better in days and in cost than an answer that is known, are left out; the others are answered
 * as any question is, with the best of all strategies, placements and batches that the settings
 * leave open.  So the front of cost against time is that of answering all of them.
 */
#ifndef MW_STUDY_CAPACITY_H
#define MW_STUDY_CAPACITY_H

#include "study/interruptions.h"
#include "study/study.h"

/* What a budget bounds.  Of rents both are the rent. */
enum mw_budget {
    MW_BUDGET_CASH,  /* what has to be paid: the price of all nodes, electricity, replaced drives */
    MW_BUDGET_SHARE, /* an owner's share of the price over the years, electricity and wear */
    MW_BUDGETS
};
const char *mw_budget_name(enum mw_budget budget);

struct mw_capacity_limits { /* INFINITY: none */
    double days, usd, power_w;
    enum mw_budget budget; /* what `usd` bounds */
    int64_t nodes_max;
    double drives_last_s;                  /* that drives must last, while they train; 0: none */
    struct mw_interruptions interruptions; /* of machines that may be taken back */
};
/* Those of which, where nothing is within them all, it is said how far each would have to give. */
enum mw_capacity_limit {
    MW_LIMIT_USD,
    MW_LIMIT_DAYS,
    MW_LIMIT_POWER,
    MW_LIMIT_NODES,
    MW_LIMIT_DRIVES,
    MW_CAPACITY_LIMITS /* none */
};

enum mw_capacity_fate {
    MW_CAPACITY_OPEN, /* not decided; of a finished search no row */
    MW_CAPACITY_WITHIN,
    MW_CAPACITY_LATE,     /* answered: beyond the deadline, */
    MW_CAPACITY_COSTLY,   /* or beyond the budget */
    MW_CAPACITY_WORN,     /* answered: its drives last less than they must */
    MW_CAPACITY_UNFIT,    /* answered: does not fit */
    MW_CAPACITY_REFUSED,  /* by the planner; `why` says it */
    MW_CAPACITY_NO_ROOM,  /* by the bound: no memory has room for the state */
    MW_CAPACITY_TOO_SLOW, /* by the bound: beyond the deadline, */
    MW_CAPACITY_TOO_DEAR, /* or beyond the budget */
    MW_CAPACITY_POWER,    /* takes more power than there is, or does not say */
    MW_CAPACITY_NODES,    /* has more nodes than there may be: asked for where nothing is within */
    MW_CAPACITY_BEATEN,   /* by the bound: no better than `beaten_by` in days and in cost */
    MW_CAPACITY_UNPRICED, /* left out where cost is compared: nobody gave a price, */
    MW_CAPACITY_GONE,     /* or one at which nobody sells it any more */
    MW_CAPACITY_FATES
};
/* A machine of the search, with settings that it tries. */
struct mw_capacity_machine {
    struct mw_question question; /* on it, with an open number of nodes */
    char *over;                  /* those settings as options, to be spelled; NULL: none vary */
    char *why;                   /* the question cannot be asked on it; NULL: it can */
    bool spot;                   /* it may be taken back, and costs what such machines do */
    bool gone;                   /* nobody sells it at the price to buy it any more */
    char *price_from;            /* who says what it costs; NULL: its profile does */
};

/* Words that follow a number of candidates: "cannot end before the deadline". */
const char *mw_capacity_fate_text(enum mw_capacity_fate fate);

struct mw_capacity_bill { /* of the whole training; NAN: not known */
    double days;
    double usd; /* rent, or an owner's share: what candidates are compared by */
    double
        pay; /* USD that have to be paid: rent, or the price of all nodes and what the run takes */
};

struct mw_capacity_row {
    const struct mw_capacity_machine *machine; /* borrowed */
    int64_t nodes;
    struct mw_capacity_bill least; /* by the bound */
    enum mw_capacity_fate fate;
    const struct mw_capacity_row *beaten_by; /* a row of the same search */
    char *why;
    struct mw_result *result; /* of those that were answered; without plan and timeline */
    struct mw_capacity_bill typical, slow; /* slow: at that end of every range */
    int64_t state_bytes;                   /* of the model, kept once: what a save has */
    struct mw_interrupted interrupted;     /* by its provider; both bills have it */
    double drives_last_s; /* that its drives last; INFINITY: not worn, or unknown */
    double margin;        /* the least share that is left of memory, deadline and budget */
};

enum mw_capacity_pick { MW_PICK_CHEAPEST, MW_PICK_FASTEST, MW_PICK_SAFEST, MW_PICKS };
const char *mw_capacity_pick_name(enum mw_capacity_pick pick);

struct mw_capacity {
    struct mw_capacity_limits limits;
    struct mw_capacity_row *rows;
    int row_count;
    const struct mw_capacity_row **front; /* [front_count], by days; no other row within the limits
                                           * is better in both */
    int front_count;
    const struct mw_capacity_row *picks[MW_PICKS]; /* of the front; NULL: nothing is within */
    struct mw_result *deep[MW_PICKS]; /* of each pick, with range and what would change it; those
                                       * of equal picks are one */
    /* If nothing is within the limits: the row that exceeds one of them least and no other; NULL:
     * there is none, or no such limit. */
    const struct mw_capacity_row *nearest[MW_CAPACITY_LIMITS];
    enum mw_capacity_limit toward; /* while one is lifted that is known of a row before its answer:
                                    * only rows with less of it than the best are answered */
    int answered;                  /* candidates for which plans were simulated */
};

/* What the budget bounds of a bill; NAN: not known. */
double mw_capacity_spent(const struct mw_capacity_bill *bill,
                         const struct mw_capacity_limits *limits);
/* Whether some candidate would be bought. */
bool mw_capacity_may_buy(const struct mw_capacity *capacity);
/* NAN: the profile does not say. */
double mw_capacity_row_power_w(const struct mw_capacity_row *row);

/* The questions are alike but for their machines, and have settings.tokens.  They must outlive the
 * result.  mw_capacity_clear it. */
void mw_capacity_find(const struct mw_capacity_machine *machines, int count,
                      const struct mw_capacity_limits *limits, struct mw_capacity *out);
void mw_capacity_clear(struct mw_capacity *capacity);

#endif
