/*
 * tokens.h - training data: token files and plain text, as batches of next-token prediction.
 *
 * A token file is llm.c's: a header of 256 int32 (magic, version, how many tokens), then the
 * tokens: magic 20240520, version 1: uint16 (GPT-2); magic 20240801, version 7: uint32 (Llama 3).
 * Any file that is not named *.bin is UTF-8 text, one token per byte: 256 different ones.
 *
 * Sequence i of an epoch is tokens [i * seq, i * seq + seq]; tokens after the last whole sequence
 * are not used.  An epoch's sequences come in file order, or shuffled by a seed.  The n-th sequence
 * of the run depends on the file and the seed alone, never on ranks or micro-batches.
 */
#ifndef MW_EXEC_DATA_TOKENS_H
#define MW_EXEC_DATA_TOKENS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "plan/context.h"

#define MW_TEXT_VOCAB 256
#define MW_TOKENS_WANTED "UTF-8 text, or a token file named *.bin"

/* The position of a run in the data: plain numbers, which the commit record stores. */
struct mw_cursor {
    int64_t epoch;
    int64_t sequence; /* within the epoch: the next to be used */
};

/* What one rank computes at a time. */
struct mw_batch_place {
    int64_t rank, ranks; /* of those that have sequences of their own: ranks that share some count
                          * as one */
    int64_t micro_batch;
    int64_t sequences; /* of one micro-batch of one rank */
    struct mw_context_share share;
};

struct mw_tokens;

/* `vocab` is the model's, `seq` the length of a sequence.  Shuffled when seed is not 0.  NULL with
 * `error` set where there is no file (base/input.h), or it is damaged, too short for one
 * sequence, or a text for a model with fewer than 256 tokens. */
struct mw_tokens *mw_tokens_open(const char *path, int64_t vocab, int64_t seq, uint64_t seed,
                                 GError **error);
void mw_tokens_close(struct mw_tokens *tokens); /* NULL is allowed */

/* Whether it is plain text, whose tokens are bytes. */
bool mw_tokens_are_text(const struct mw_tokens *tokens);
int64_t mw_tokens_count(const struct mw_tokens *tokens);

/* Reads the whole file and checks that every token is within the vocabulary. */
bool mw_tokens_check(const struct mw_tokens *tokens, GError **error);

/* A digest of the content and the tokens' width: of all of a small file, of pieces of a large one,
 * so that another file is noticed, but not every changed byte. */
bool mw_tokens_sample(const struct mw_tokens *tokens, uint64_t *digest, GError **error);

/* The micro-batch of `place` in the step that starts at `cursor`: place->sequences * seq inputs, or
 * the rank's share of each sequence, and as many targets, each one token later.  Micro-batch m of
 * rank r starts m * ranks + r micro-batches after the cursor.  A token beyond the vocabulary is an
 * error. */
bool mw_tokens_batch(const struct mw_tokens *tokens, const struct mw_cursor *cursor,
                     const struct mw_batch_place *place, int32_t *inputs, int32_t *targets,
                     GError **error);
/* `cursor`, advanced by all sequences of a step. */
struct mw_cursor mw_tokens_advance(const struct mw_tokens *tokens, struct mw_cursor cursor,
                                   int64_t sequences);

#endif
