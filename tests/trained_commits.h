/* trained_commits.h - runs whose steps are committed, in homes of every kind. */
#ifndef MW_TESTS_TRAINED_COMMITS_H
#define MW_TESTS_TRAINED_COMMITS_H

#include "tests/trained.h"

enum { TRAINED_STEPS = 12, TRAINED_COMMITS = 6 };

/* State of every kind split over the tiers, with activations in one: each third step a commit. */
#define TRAINED_SPLIT(on)                                                                          \
    .strategy = MW_STRATEGY_ZERO_INFINITY_NVME, .params = "cpu:0.04MB,nvme",                       \
    .gradients = "cpu:0.06MB,nvme", .optimizer = "gpu:0.23MB,cpu:0.1MB,nvme", .activations = (on), \
    TRAINED_BATCHES(2, 24, 1), .commit = 1, .save_every = 3
/* An update that is delayed from step 3 on, with gradients and optimizer on drives. */
#define TRAINED_DELAYED_ON_DRIVES                                                                  \
    .strategy = MW_STRATEGY_ZERO_OFFLOAD, .gradients = "cpu:0.03MB,nvme", .optimizer = "nvme",     \
    TRAINED_BATCHES(2, 24, 2), .commit = 1, .delayed = true, .undelayed_steps = 3

/* Every step is a commit of the first two and of the fifth, every third or fourth one of the
 * others.  The last two have a delayed update, the fifth from step 3 on. */
extern const struct trained_case trained_commits[TRAINED_COMMITS];

/* A committed run in this folder, with one thread, of all steps. */
struct trained_course trained_commit_course(const char *directory, bool resume);

/* Aborts where training fails. */
struct trained trained_well(const struct trained_case *what, const struct trained_course *course);

uint64_t trained_hash(const struct trained *trained); /* of the state */

#endif
