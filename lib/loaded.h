/*
 * loaded.h - models and profiles that were read, for many questions that name the same ones.
 *
 * Files are read once, so that all answers are of the same figures.  For one thread at a time.
 * NULL stands for none: everything is read anew.
 */
#ifndef MW_LIB_LOADED_H
#define MW_LIB_LOADED_H

#include "study/study.h"

struct mw_loaded;

struct mw_loaded *mw_loaded_new(void);
void mw_loaded_free(struct mw_loaded *loaded);

/* As mw_model_load. */
bool mw_loaded_model(struct mw_loaded *loaded, const char *name, struct mw_model *model,
                     GError **error);
/* As `load` does, which is mw_hwprofile_load or mw_software_load; the profile is the caller's. */
struct mw_profile *mw_loaded_profile(struct mw_loaded *loaded, const char *name,
                                     struct mw_profile *(*load)(const char *name, GError **error),
                                     GError **error);

#endif
