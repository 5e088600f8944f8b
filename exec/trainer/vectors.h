/*
 * vectors.h - what an optimizer by rows and columns keeps of each tensor (plan/optimizers.h).
 *
 * Of a matrix of a checkpoint's file, a number for each of its rows and one for each of its
 * columns; of a tensor with one side, a number for each element.  A plan's chunks, parts and shards
 * cut matrices anywhere, so each rank holds the vectors of all that its plan trains, in host
 * memory.
 *
 * SM3 reads those that the step before left, and raises maxima in a second set; at the end of the
 * step ranks take the largest of all, and the second set becomes the first.  Adafactor adds up the
 * squares of rows and columns where the norm sees each gradient; when ranks agree on the norm they
 * add up their sums, and make means and the factors of the update of them, in the second set.  Then
 * they add up the squares of what the update would take of each tensor, and make its factors
 * smaller if that is too much.
 * Maxima, and sums of integers, are the same in any order: so are the bits, wherever state lives
 * and however it is cut.
 */
#ifndef MW_EXEC_TRAINER_VECTORS_H
#define MW_EXEC_TRAINER_VECTORS_H

#include "exec/data/weights.h"
#include "exec/operators/kernel_types.h"
#include "plan/plan.h"

struct mw_vectors;

/* Places of the vectors of what the plan trains, in the order of its tensors.  NULL: its optimizer
 * keeps none.  The plan is borrowed. */
struct mw_vectors *mw_vectors_new(const struct mw_plan *plan);
void mw_vectors_free(struct mw_vectors *vectors); /* NULL is allowed */
/* How many numbers; of NULL 0. */
int64_t mw_vectors_count(const struct mw_vectors *vectors);
/* The same in bytes, as a save has them. */
int64_t mw_vectors_saved_bytes(const struct mw_plan *plan);

/* What an update of a piece needs. */
struct mw_update_vectors mw_vectors_of(const struct mw_vectors *vectors,
                                       const struct mw_weights_piece *piece, const float *now,
                                       float *next);

struct mw_exact_sides mw_vectors_sums_of(const struct mw_vectors *vectors,
                                         const struct mw_weights_piece *piece,
                                         struct mw_exact_sum *sums);

/* One tensor's numbers: those of the first side of its file from `at` on, then those of the second;
 * or of its only side. */
struct mw_vectors_place {
    int64_t at, shape[2];
    int rank;
    int64_t layer; /* -1: outside of the layers */
};
int64_t mw_vectors_places(const struct mw_vectors *vectors);
struct mw_vectors_place mw_vectors_place(const struct mw_vectors *vectors, int64_t index);
/* Which of them a piece is of. */
int64_t mw_vectors_place_of(const struct mw_vectors *vectors, const struct mw_weights_piece *piece);

/* In a checkpoint's file, each a tensor of its own. */
bool mw_vectors_declare(const struct mw_vectors *vectors, struct mw_safetensors_writer *writer,
                        GError **error);
bool mw_vectors_store(const struct mw_vectors *vectors, struct mw_safetensors_writer *writer,
                      const float *values, GError **error);
bool mw_vectors_load(const struct mw_vectors *vectors, const struct mw_safetensors *set,
                     float *values, GError **error);
/* False with *error, which names the first number that is not finite or is below 0. */
bool mw_vectors_check(const struct mw_vectors *vectors, const float *values, GError **error);

#endif
