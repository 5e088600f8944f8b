/*
 * asked.h - the question that a plan answers, with nothing left open.
 */
#ifndef MW_STUDY_ASKED_H
#define MW_STUDY_ASKED_H

#include "study/study.h"

/* "NAME=TEXT" for every name of the question (lib/memwall.h) that makes exactly the plan with these
 * completed settings, model, machine, software and strategy first; g_strfreev it. */
char **mw_asked_texts(const struct mw_question *question, const struct mw_settings *settings);

#endif
