/*
 * planner.h - finds the placements of a request that are worth simulating, and what would make it
 * fit.
 *
 * Order of use: mw_settings_complete, mw_planner_candidates, then mw_build_plan on those that fit.
 */
#ifndef MW_PLANNER_PLANNER_H
#define MW_PLANNER_PLANNER_H

#include <glib.h>

#include "hardware/hwprofile.h"
#include "model/model.h"
#include "planner/build/build.h"
#include "planner/settings/settings.h"
#include "planner/sizing/sizing.h"

/* What is to be planned; everything below borrows it. */
struct mw_request {
    const struct mw_model *model;
    const struct mw_hardware *hardware;
};

/* The sequence length without --seq: the smaller of the model's and 4096; 1024 for the paper's
 * presets. */
int64_t mw_settings_default_seq(const struct mw_model *model);

/* Tokens per step, if no batch is requested, and how many of what they are by which source:
 * "GPT-3's table has for 8.03B parameters".  The settings have a length of sequences. */
double mw_default_step_tokens(const struct mw_model *model, const struct mw_settings *settings);
char *mw_default_step_source(const struct mw_model *model,
                             const struct mw_settings *settings); /* g_free it */
/* Sequences per micro-batch of one tensor-slicing group within settings->step_tokens_max; at least
 * one. */
int64_t mw_most_sequences(const struct mw_settings *settings);
/* Number of micro-batches of settings->micro_batch within it; at least one. */
int64_t mw_most_micro_batches(const struct mw_settings *settings);
/* Whether a step exceeds `most` by more than tables round. */
bool mw_exceeds_step_tokens(double step_tokens, double most);

/* Sets defaults that need no search, and refuses contradictions.  Batch, tiles, commit and
 * placements may stay open. */
/* Whether an executor carries such settings out; else the error says what can only be simulated. */
bool mw_settings_run(const struct mw_settings *settings, GError **error);
bool mw_settings_complete(const struct mw_request *request, const struct mw_settings *asked,
                          struct mw_settings *resolved, GError **error);

/* Sets the length of sequences and the most tokens per step where they are not requested: what a
 * check of settings takes longest for, so what checks many of the same batch sets them first. */
void mw_settings_complete_tokens(const struct mw_model *model, struct mw_settings *settings);

/* Refuses what planning would refuse on any machine.  If request->hardware is not NULL, also
 * what planning would refuse with its number of GPUs, network and data types; reads nothing else
 * of it. */
bool mw_settings_check(const struct mw_request *request, const struct mw_settings *asked,
                       GError **error);

/*
 * The sizings worth simulating for one strategy (not MW_STRATEGY_AUTO), following the paper's rule
 * (Sec. 5.1, Sec. 8): offload only when needed, optimizer state and gradients first, to the fastest
 * memory with room.  If either parameters or checkpoints must move, both choices are returned; if
 * the batch is open, every combination is returned with the batches of planner/batches.h. Never
 * empty on success: if nothing fits, it has the one sizing that lacks least memory. MW_ERROR_LARGE
 * if memory has room only with more tiles or chunks than a plan's limit of ops allows.  Array of
 * struct mw_sizing *, which it owns.
 */
GPtrArray *mw_planner_candidates(const struct mw_request *request,
                                 const struct mw_settings *resolved, GError **error);

/* The candidates that fit.  Faster than the above if none does; the array is then empty. */
GPtrArray *mw_planner_fitting_candidates(const struct mw_request *request,
                                         const struct mw_settings *resolved);
/* The same; those that fit too, but move more off the GPU for no larger batch, no fewer tiles and
 * no fewer recomputed layers, are added to `needless`; NULL: they are freed. */
GPtrArray *mw_planner_candidates_beside(const struct mw_request *request,
                                        const struct mw_settings *resolved, GPtrArray *needless);
/* What mw_planner_candidates returns where it is known that none fits. */
GPtrArray *mw_planner_nearest_candidate(const struct mw_request *request,
                                        const struct mw_settings *resolved, GError **error);

/* Whether any candidate would fit, but faster; an open batch counts as one sequence. */
bool mw_planner_fits(const struct mw_request *request, const struct mw_settings *resolved);

/* Layers of the stage of a pipeline that has the most; of all without one. */
int64_t mw_settings_most_layers(const struct mw_model *model, const struct mw_settings *settings);

/* Sets *error to MW_ERROR_LARGE for `chosen`, which was sized with a larger bound than `asked` has:
 * names its number of ops and the nearest settings that are quick to plan; takes the nearest global
 * batch from `batches` if that is not NULL.  Does nothing if `chosen` is quick. */
void mw_planner_refuse_ops(const struct mw_request *request, const struct mw_settings *asked,
                           const struct mw_sizing *chosen, const struct mw_nearest_batches *batches,
                           GError **error);

/* Raises `batches` to the nearest global batches below asked->global_batch that one strategy (not
 * MW_STRATEGY_AUTO) can plan.  Their ops are counted without sizing them, so try them before naming
 * them. */
void mw_planner_nearest_batches(const struct mw_request *request, const struct mw_settings *asked,
                                struct mw_nearest_batches *batches);

/* Number of ops of a step of this sizing. */
int64_t mw_planner_ops(const struct mw_sizing *sizing);
/* The most micro-batches with which a step has at most settings.ops_max ops; 0: one has more. */
int64_t mw_planner_most_micro_batches(const struct mw_sizing *sizing);

/* If *error is MW_ERROR_LARGE and another micro-batch than the requested one gives a step with few
 * enough ops, adds that to the line. */
void mw_planner_advise_batch(const struct mw_request *request, const struct mw_settings *resolved,
                             GError **error);

/* The sizing for a given placement and batch; tiles, chunks and commit may be open.  It fits, or
 * lacks least memory. */
struct mw_sizing *mw_planner_size_placement(const struct mw_request *request,
                                            const struct mw_settings *settings, GError **error);

/* The most chunks into which logits are cut. */
int64_t mw_planner_most_chunks(const struct mw_sizing *sizing);

/* Whether it fits, but faster.  It may say no where many more tiles would make room that the last
 * doublings did not: TILES_SAVE.  tests/test_fits.c counts how often.  `first`: the sizing of these
 * settings with one tile and one chunk, which it frees; NULL: they are refused. */
bool mw_planner_has_room(const struct mw_request *request, const struct mw_settings *settings,
                         struct mw_sizing *first);

/* Of a sizing that fits and recomputes all layers: the same with as few recomputed as fit; NULL:
 * all must be. */
struct mw_sizing *mw_planner_size_fewest(const struct mw_request *request,
                                         const struct mw_sizing *all);
/* Adds to `found` what mw_planner_fitting_candidates would have for the same placement and batch
 * with MW_RECOMPUTE_FEWEST, where that is less than all: where layers are unlike, several. */
void mw_planner_add_fewest(const struct mw_request *request, const struct mw_settings *resolved,
                           const struct mw_sizing *all, GPtrArray *found);

/* The largest micro-batch (sequences per GPU) that fits with these placements; 0 if none does. */
double mw_planner_largest_batch(const struct mw_request *request,
                                const struct mw_settings *settings);

/* The most layers of this model that fit with one strategy; 0 if none does.  `more`: memory has
 * room for more, but a plan with so many ops is refused (mw_settings.ops_max). */
int64_t mw_planner_largest_layers(const struct mw_request *request,
                                  const struct mw_settings *resolved, bool *more, GError **error);

/* The machine that the plan does not fit on. */
struct mw_remedy_here {
    const struct mw_profile *profile;
    enum mw_outlook outlook; /* at which the request's hardware was read */
    bool replaceable;        /* the profile is unchanged: another machine may be proposed */
    /* The software by which the request's hardware is read, where nobody asked for it: options that
     * would by default be of other software name it.  NULL: they need not. */
    const char *software;
    const char *(*default_software)(const struct mw_settings *settings);
    /* The machine as memwall's own executor uses it, and that software's name; NULL: the request's
     * hardware is read by that software, or is to stay with its own. */
    const struct mw_hardware *own;
    const char *own_name;
};

/* One line that says what would make it fit, the smallest change first: options to add to `asked`
 * (whose strategy may be auto), more nodes, another machine, or what this machine would need, also
 * as keys of the profile.  `sizing` is the answer that does not fit.  `here` may be NULL.  g_free
 * it. */
char *mw_planner_remedy(const struct mw_request *request, const struct mw_settings *asked,
                        const struct mw_sizing *sizing, const struct mw_remedy_here *here);

#endif
