/*
 * recomputed.h - which layers backward computes again, and the groups of them that begin at an
 * activation checkpoint.  Layers count from 0 over the whole model.
 *
 * The layers [begin, end) are those of a pipeline stage; `kept`, the last so many of them, or those
 * that `set` does not have, keep their activations.  A run of recomputed layers is cut into groups
 * of `interval` layers, the last of which may be shorter: behind a layer that is kept another run
 * begins.
 */
#ifndef MW_PLAN_RECOMPUTED_H
#define MW_PLAN_RECOMPUTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MW_LAYER_SET_MAX 4096 /* deeper models have no sets */
struct mw_layer_set {
    uint64_t bits[MW_LAYER_SET_MAX / 64];
};
/* Space for the text of any set: "0-3,8". */
#define MW_LAYER_SET_TEXT_MAX (MW_LAYER_SET_MAX / 2 * 5)

bool mw_layer_set_has(const struct mw_layer_set *set, int64_t layer);
void mw_layer_set_add(struct mw_layer_set *set, int64_t layer);
int64_t mw_layer_set_count(const struct mw_layer_set *set, int64_t begin, int64_t end);
bool mw_layer_set_is_empty(const struct mw_layer_set *set);
/* Reads "0-3,8"; false if it is not that, in order. */
bool mw_layer_set_read(const char *text, struct mw_layer_set *set);
void mw_layer_set_write(const struct mw_layer_set *set, char text[MW_LAYER_SET_TEXT_MAX]);

struct mw_recomputed {
    int64_t begin, end, interval; /* interval 0: none is recomputed */
    int64_t kept;
    const struct mw_layer_set *set; /* NULL: not stated, and `kept` counts; never empty */
};
bool mw_recomputed_has(const struct mw_recomputed *it, int64_t layer);
int64_t mw_recomputed_kept(const struct mw_recomputed *it); /* layers; all where interval is 0 */
/* The group of a recomputed layer: its first layer, and the one behind it. */
int64_t mw_recomputed_group(const struct mw_recomputed *it, int64_t layer, int64_t *behind);
int64_t mw_recomputed_groups(const struct mw_recomputed *it);  /* how many there are */
int64_t mw_recomputed_largest(const struct mw_recomputed *it); /* layers of the largest group */

#endif
