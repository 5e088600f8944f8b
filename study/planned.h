/*
 * planned.h - the question that a plan answers, as its file keeps it.
 *
 * Two lines of a plan's text have it: `asked`, what was asked for, and `chosen`, what the plan was
 * made with, where the question left it open.  Machine and software have lines of their own.  So
 * the plan can be made again, with everything that only a model and its settings tell.
 */
#ifndef MW_STUDY_PLANNED_H
#define MW_STUDY_PLANNED_H

#include "study/study.h"

/* Writes both lines into a plan of these completed settings; `strategy` is the requested one.  A
 * question whose model is in a file has none: no file that a plan names is read. */
void mw_planned_sign(const struct mw_question *question, enum mw_strategy strategy,
                     const struct mw_settings *chosen, struct mw_plan *plan);

/* The model that the plan was made of, if it has such lines and the model is known here. */
bool mw_planned_model(const struct mw_plan *plan, struct mw_model *model);
/* The outlook that was asked for. */
enum mw_outlook mw_planned_outlook(const struct mw_plan *plan);
/* Reads one of the lines; false with *error if it has something that cannot be asked.  NULL: all
 * are the defaults. */
bool mw_planned_read(const char *line, struct mw_settings *settings, GError **error);

/* The answer to the question again, by the plan that was chosen; NULL: the plan of the question,
 * which has that model and the settings that were asked for, is not this one on this machine and
 * software. */
struct mw_answer *mw_planned_answer(const struct mw_question *question, enum mw_depth depth,
                                    const struct mw_variants *variants);

#endif
