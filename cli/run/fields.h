/*
 * fields.h - the fields of a record that say how a run is trained: their names and ranges.
 *
 * A checksum finds damage, not values that no run can have.  So every field is checked against its
 * row before it is used.
 */
#ifndef MW_CLI_RUN_FIELDS_H
#define MW_CLI_RUN_FIELDS_H

#include "cli/run/options.h"
#include "exec/commit/commit.h"

#define CLI_RUN_SEQUENCES "sequences" /* number of sequences used so far */
#define CLI_RUN_TOKENS "tokens"       /* number of tokens in the data */

/* Of bits of operators that are trained: not all are; a stage of a pipeline does not know. */
#define CLI_RUN_TRAINED_SOME (UINT64_C(1) << 62)
#define CLI_RUN_TRAINED_UNKNOWN UINT64_MAX

/* What a resume must not change, in the order of the fingerprint. */
enum cli_fixed {
    CLI_FIXED_KIND,
    CLI_FIXED_ACTIVATION,
    CLI_FIXED_LAYERS,
    CLI_FIXED_HIDDEN,
    CLI_FIXED_HEADS,
    CLI_FIXED_KV_HEADS,
    CLI_FIXED_HEAD_DIM,
    CLI_FIXED_FFN,
    CLI_FIXED_VOCAB,
    CLI_FIXED_TIED,
    CLI_FIXED_NORM_EPSILON,
    CLI_FIXED_ROPE_THETA,
    CLI_FIXED_BATCH,
    CLI_FIXED_GRAD_ACCUM,
    CLI_FIXED_SEQ,
    CLI_FIXED_DPU_START,
    CLI_FIXED_TYPE,
    /* Not recorded by older versions; after the fingerprint. */
    CLI_FIXED_POSITION_ROWS,
    CLI_FIXED_ATTENTION_BIAS,
    CLI_FIXED_PROJECTION_BIAS,
    CLI_FIXED_MLP_BIAS,
    CLI_FIXED_ROPE_FACTOR,
    CLI_FIXED_ROPE_LOW,
    CLI_FIXED_ROPE_HIGH,
    CLI_FIXED_ROPE_POSITIONS,
    CLI_FIXED_QK_NORM,
    CLI_FIXED_DROPS,
    CLI_FIXED_OPTIMIZER,
    CLI_FIXED_CHECKPOINT_BITS,
    CLI_FIXED_KEPT_BITS,
    CLI_FIXED_WEIGHT_BITS,
    CLI_FIXED_SLICES,
    CLI_FIXED_STAGES,
    CLI_FIXED_SHARERS,
    CLI_FIXED_SPREAD,
    CLI_FIXED_SHARD_GROUP,
    CLI_FIXED_EXPERTS,
    CLI_FIXED_EXPERTS_PER_TOKEN,
    CLI_FIXED_RENORMALIZES,
    CLI_FIXED_CAPACITY,
    CLI_FIXED_TRAINED,
    CLI_FIXED_AUX_LOSS,
    CLI_FIXED_Z_LOSS,
    CLI_FIXED_GATE,
    CLI_FIXEDS
};

/* What changes only the last digits of results: a resume may change it. */
enum cli_digits {
    CLI_DIGITS_LOGITS_CHUNKS,
    CLI_DIGITS_TILES,
    CLI_DIGITS_CONTEXT, /* how ranks share sequences */
    CLI_DIGITS
};

enum cli_field_kind {
    CLI_FIELD_WHOLE,
    CLI_FIELD_WHOLE_OR_NONE, /* none: MW_AUTO */
    CLI_FIELD_DIMENSION,     /* whole, at most what the planner accepts for the model */
    CLI_FIELD_REAL,
    CLI_FIELD_REAL_OR_NONE, /* none: 0 */
    CLI_FIELD_LOSS_SCALE,   /* 0: dynamic; else a power of two */
    CLI_FIELD_DIGEST,       /* of something too long for a record; 0: there is none */
    CLI_FIELD_TRAINED,      /* bits of operators that are trained; 0: all are */
    /* Numbers that stand for names. */
    CLI_FIELD_YES,
    CLI_FIELD_SHAPE,
    CLI_FIELD_TYPE,
    CLI_FIELD_OPTIMIZER,
    CLI_FIELD_WEIGHT_BITS, /* a type, by its bits */
    CLI_FIELD_FAMILY,
    CLI_FIELD_ACTIVATION,
    CLI_FIELD_CONTEXT,
    CLI_FIELD_GATE
};

/* A value has 64 bits, as in a record: a whole number or a double. */
struct cli_run_field {
    const char *field, *what; /* in records, in messages */
    enum cli_field_kind kind;
    double least, most;
};

extern const struct cli_run_field cli_run_fixed[CLI_FIXEDS], cli_run_courses[CLI_COURSES],
    cli_run_digits[CLI_DIGITS];

/* The double that the bits stand for. */
double cli_run_field_real(uint64_t bits);
/* Whether the value means "not set". */
bool cli_run_field_is_none(const struct cli_run_field *row, uint64_t bits);

/* A value within the row's range, for messages.  g_free it. */
char *cli_run_field_text(const struct cli_run_field *row, uint64_t bits);
/* False with field, value, and what would be accepted. */
bool cli_run_field_check(const struct cli_run_field *row, uint64_t bits, GError **error);
/* Checks all of these fields that the record has. */
bool cli_run_fields_check(const struct mw_commit_record *record, GError **error);

#endif
