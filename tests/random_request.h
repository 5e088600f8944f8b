/*
 * random_request.h - requests for property tests of the planner: a tiny decoder, a machine, and
 * settings, all drawn from one seed.
 */
#ifndef MW_TESTS_RANDOM_REQUEST_H
#define MW_TESTS_RANDOM_REQUEST_H

#include "planner/planner.h"

struct random_request {
    guint32 seed;
    struct mw_model model;
    struct mw_hardware hardware;
    struct mw_settings settings; /* as a user would ask: some are contradictions */
};

/* The same seed draws the same request, and names it. */
void random_request_init(struct random_request *request, guint32 seed);
/* Half of them move gradients as some software does, whose plans no executor runs. */
void random_request_software(struct random_request *request);
/* Of some that partition optimizer state alone, ranks update one after the other: they then ask for
 * nothing that does not go with that. */
void random_request_take_turns(struct random_request *request);
/* Asks for stages where the request had none, and for nothing that they do not do; its pp is 1
 * where its ranks make none. */
void random_request_stages(struct random_request *request);
/* Makes a pipeline that computes gradients of weights later. */
void random_request_fill_bubbles(struct random_request *request);
/* From now on a line about it is printed when the program aborts. */
void random_request_name(const struct random_request *request);

/* Resolved, sized and searched: array of struct mw_sizing *, as mw_planner_candidates gives it.
 * NULL when the request is a contradiction. */
GPtrArray *random_request_candidates(const struct random_request *request, GError **error);

/* The first of them, if it fits, else NULL; *candidates, which owns it, is to be unreferenced. */
const struct mw_sizing *random_request_fitting(const struct random_request *request,
                                               GPtrArray **candidates);

/* One line that says what was asked; g_free it. */
char *random_request_text(const struct random_request *request);

/* The same plan, unchecked: its arrays may be written. */
struct mw_plan *unchecked_plan_copy(const struct mw_plan *plan);

struct mw_hardware test_hardware(const char *profile);
/* As some software updates on it. */
void random_request_update(struct mw_hardware *hardware, guint32 seed);
/* Makes its rates up. */
void random_rates(GRand *random, struct mw_hardware *hardware);
/* One whose capacities are made up too. */
struct mw_hardware random_hardware(GRand *random);

#endif
