/* steps_internal.h - shared by the files of study/steps.h only. */
#ifndef MW_STUDY_STEPS_INTERNAL_H
#define MW_STUDY_STEPS_INTERNAL_H

#include <string.h>

#include "study/steps.h"

#define MW_GIB 1073741824.0
#define MW_NETWORK_SHARE 0.9 /* of a nominal rate, typically: docs/MODEL.md 13.10 */

static inline const struct mw_hardware *
now(const struct mw_question *question)
{
    return &question->hardware[MW_OUTLOOK_TYPICAL];
}

/* What follows the prefix; NULL: nothing does, or it begins with something else. */
static inline const char *
after(const char *text, const char *prefix)
{
    return g_str_has_prefix(text, prefix) && text[strlen(prefix)] ? text + strlen(prefix) : NULL;
}

/* NULL: nobody gave one. */
const struct mw_part_price *mw_part_price_of(const char *part, const struct mw_part_price *prices,
                                             int count);
int64_t mw_stepped_drives(const struct mw_hardware *hw); /* of a node; 0: it has none */
/* The word that -H takes. */
const char *mw_stepped_word(const struct mw_profile *profile);
/* The separator only where there is a text before. */
void mw_stepped_append(GString *text, const char *separator, const char *more);
/* Another profile, which the machine then owns. */
void mw_stepped_take(struct mw_stepped *machine, struct mw_profile *profile);
/* Pays for so many of a part for each of `nodes`, or notes that its price is missing. */
void mw_stepped_buy(struct mw_stepped *machine, const char *part, double amount, int64_t nodes,
                    const struct mw_part_price *prices, int count);

void mw_steps_add(GArray *steps, enum mw_step_kind kind, const char *name, double gbit_per_s);
void mw_steps_add_cards(const struct mw_question *question, const struct mw_part_price *prices,
                        int count, GArray *steps);
bool mw_step_add_card(const struct mw_step *step, const struct mw_part_price *prices, int count,
                      struct mw_stepped *machine);
bool mw_step_change_card(const struct mw_step *step, const struct mw_part_price *prices, int count,
                         struct mw_stepped *machine);

#endif
