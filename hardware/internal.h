/* internal.h - shared within hardware/ only. */
#ifndef MW_HARDWARE_INTERNAL_H
#define MW_HARDWARE_INTERNAL_H

#include "hardware/hwprofile.h"
#include "profile/internal.h"

/* Of the kind: see profile/profile.h. */
bool mw_hw_needs(const struct mw_profile *profile, const char *group);
bool mw_hw_leaves_out(const struct mw_profile *profile, const struct mw_profile_key *row);
bool mw_hw_goes_with(const struct mw_profile_key *row, const struct mw_profile_key *list);
bool mw_hw_check(const struct mw_profile *profile, GError **error);

#endif
