/*
 * described.h - memwall's own description of a model, as python/memwall/describe.py writes it; for
 * model/ alone.  docs/description.md has the format.
 */
#ifndef MW_MODEL_DESCRIBED_H
#define MW_MODEL_DESCRIBED_H

#include "model/internal.h"

/* A description on its way into a model. */
struct mw_described {
    JsonObject *object;
    const char *origin;
    struct mw_model *model;
    GError **error;
    int64_t params;     /* of all operators that were read, of every layer with its own */
    int64_t table_rows; /* of the largest table of the head */
    int64_t positions;  /* rows of the table of learned positions; 0: there is none */
};

enum mw_described_kind {
    MW_DESCRIBED_PRODUCT,
    MW_DESCRIBED_ATTENTION,
    MW_DESCRIBED_SCAN,
    MW_DESCRIBED_NORM,
    MW_DESCRIBED_ACTIVATION,
    MW_DESCRIBED_EMBEDDING,
    MW_DESCRIBED_PARAMETERS,
    MW_DESCRIBED_KIND_COUNT
};

/* An operator of the file. */
struct mw_described_operator {
    enum mw_described_kind kind;
    int64_t n, k, count; /* of a product */
    int64_t width;       /* of a norm, an activation, a table */
    int64_t table;       /* its rows */
    int64_t elements;    /* of parameters of its own */
    bool shares;         /* it takes another operator's parameters */
    struct mw_model_line rows;
    int64_t head_dim;
    struct mw_model_mix mix;
};

/* Reads and checks a whole description; false with *error, one line that says where. */
bool mw_described_read(JsonObject *object, const char *origin, struct mw_model *model,
                       GError **error);

/* A list of struct mw_described_operator, which g_array_unref frees; NULL with *error.  `where`
 * names the object in errors. */
GArray *mw_described_operators(JsonObject *object, const char *key, const char *where,
                               GError **error);
/* A list of three whole numbers, or `otherwise` if the key is absent and that is given. */
bool mw_described_line(JsonObject *object, const char *key, const char *where,
                       const struct mw_model_line *otherwise, struct mw_model_line *out,
                       GError **error);
/* The elements of a list that must be one; NULL with *error. */
JsonArray *mw_described_list(JsonObject *object, const char *key, const char *where,
                             GError **error);
bool mw_described_object(JsonArray *list, guint number, const char *where, JsonObject **out,
                         GError **error);

/* Adds the operators before and behind the layers, then the layers. */
bool mw_described_add_ends(struct mw_described *d);
bool mw_described_add_layers(struct mw_described *d);
/* A tensor of the model; those without a product are one in each place. */
bool mw_described_add(struct mw_described *d, const struct mw_described_operator *of,
                      enum mw_operator as, int stack, int64_t distinct);

#endif
