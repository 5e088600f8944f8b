/*
 * report.h - answers as tables, JSON, CSV, Chrome traces and gnuplot pictures.
 *
 * Everything here reads; nothing flows back.  Functions that write a file write it whole or not at
 * all (a temporary file beside it, then a rename) and set MW_ERROR_IO naming the path.
 */
#ifndef MW_REPORT_REPORT_H
#define MW_REPORT_REPORT_H

#include <glib.h>
#include <stdbool.h>
#include <stdio.h>

#include "plan/plan.h"
#include "study/capacity.h"
#include "study/parallel.h"
#include "study/purchases.h"
#include "study/cuts.h"
#include "study/largest.h"
#include "study/objective.h"
#include "study/serving.h"
#include "study/result.h"

void mw_table_plan(FILE *out, const struct mw_result *result); /* what is kept where */
/* The lines that a decision needs, and what-if tables if the result has any; with `details` also
 * lanes, channels, phases and closed forms. */
void mw_table_simulate(FILE *out, const struct mw_result *result, bool details);
/* One row per strategy. */
void mw_table_compare(FILE *out, struct mw_result *const *results, size_t count);
/* The most layers that fit; `ops_max` is the limit that "or more" refers to. */
void mw_table_largest(FILE *out, const struct mw_largest *rows, size_t count, const char *software,
                      int64_t ops_max);
/* Every cut of a step's graph, and the placements of the result's model over three tiers. */
void mw_table_cuts(FILE *out, const struct mw_cut_placements *placements,
                   const struct mw_result *result);
/* Picks, the front of cost against time, and why the other machines are left out. */
void mw_table_capacity(FILE *out, const struct mw_capacity *capacity);
void mw_table_purchases(FILE *out, const struct mw_purchases *purchases);
void mw_table_parallel(FILE *out, const struct mw_question *question,
                       const struct mw_parallel *parallel);
/* Tokens per second by number of sequences. */
void mw_table_serving(FILE *out, const struct mw_serving *serving, const char *model,
                      const char *hardware, const char *software);

/* Models with their bytes, and phases of a step with their times. */
void mw_table_objective(FILE *out, const struct mw_objective *it, const char *model,
                        const char *hardware, const char *software);

/* An object whose "answers" are the results, one or several.  Unknown values are null. */
bool mw_json_write(FILE *out, struct mw_result *const *results, size_t count);
bool mw_csv_write(FILE *out, struct mw_result *const *results, size_t count);
/* Its first line and one of its rows, without their ends; NULL: a row without figures. */
void mw_csv_names_write(FILE *out);
void mw_csv_row_write(FILE *out, const struct mw_result *result);
/* Whether a column has text, as columns that are not the answers' have; else numbers, or true and
 * false. */
bool mw_csv_is_text(const char *name);
void mw_json_largest_write(FILE *out, const struct mw_largest *rows, size_t count,
                           const char *software);
void mw_json_capacity_write(FILE *out, const struct mw_capacity *capacity);
void mw_json_purchases_write(FILE *out, const struct mw_purchases *purchases);
void mw_json_parallel_write(FILE *out, const struct mw_question *question,
                            const struct mw_parallel *parallel);
void mw_json_serving_write(FILE *out, const struct mw_serving *serving, const char *model,
                           const char *hardware, const char *software);
void mw_json_objective_write(FILE *out, const struct mw_objective *it, const char *model,
                             const char *hardware, const char *software);
void mw_json_cuts_write(FILE *out, const struct mw_cut_placements *placements,
                        const struct mw_result *result);

/* Chrome trace (opens in Perfetto): one process per rank, one track per lane, operators by name,
 * memory of each tier as counters. */
bool mw_trace_write(const char *path, const struct mw_result *result, GError **error);

/* gnuplot: lanes over the step above, memory per tier below.  The suffix chooses PNG or SVG. */
bool mw_plot_write(const char *path, const struct mw_result *result, GError **error);

#endif
