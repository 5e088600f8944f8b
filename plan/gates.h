/*
 * gates.h - how tokens and the experts of a mixture find each other, one row each (docs/MODEL.md
 * 2.17).
 *
 * A row says what a gate adds to the router of plan/operators.c, as features of it, and how many
 * rows experts get.  Counts of parameters, FLOPs, bytes, all-to-alls and notes follow from these.
 */
#ifndef MW_PLAN_GATES_H
#define MW_PLAN_GATES_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/operators.h"

struct mw_gate_row {
    const char *name;
    bool runs;              /* by the executor; a router in fp32 where all is */
    int64_t visits;         /* experts that a token visits; 0: as many as the model says */
    bool renormalizes;      /* with `visits`: their weights are divided by their sum; else they are
                             * the router's own probabilities */
    int64_t group_visits;   /* groups of experts that it visits, in each of which a gate of its own
                             * chooses; 0: one gate chooses among all */
    double capacity_factor; /* where none is stated; 0: experts take all tokens that come */
    bool experts_choose;    /* tokens, as many as there is room for: all rows are filled, and what
                             * is too much for a token's experts is no drop */
    bool may_skip;          /* a token's second expert is left out at random */
    double layer_loss;      /* coefficient of each layer's loss of balance where none is stated */
    mw_features features;   /* of the operators of a mixture: what they have beside the router */
    const char *choice, *adds, *capacity, *source; /* for people */
};

const struct mw_gate_row *mw_gate_row(int gate); /* NULL out of range */
const char *mw_gate_name(int gate);
/* Experts that a token visits in a group that has a gate; 1: there are no such groups. */
int64_t mw_gate_copies(int gate);

#endif
