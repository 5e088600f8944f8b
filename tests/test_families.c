/* The table of model families: what its rows must satisfy. */
#include "families/family.h"

#include <glib.h>
#include <string.h>

static void
test_rows(void)
{
    const struct mw_family *family;

    for (int i = 0; (family = mw_family_at(i)); i++) {
        const struct mw_family *found = mw_family_find(family->name);
        g_assert_nonnull(found);
        g_assert_cmpstr(found->name, ==, family->same ? family->same : family->name);
        g_assert_null(found->same);
        /* it runs, or it is said why not */
        g_assert_true(!found->run.tensors == !!found->why_not);
        for (int j = 0; j < i; j++)
            g_assert_cmpstr(mw_family_at(j)->name, !=, family->name);
    }
    g_assert_null(mw_family_find("no-such-type"));
}

/* A row that is not another's, nor leaves its dimensions to the decoder in it. */
static bool
is_whole(const struct mw_family *family)
{
    bool whole = !family->same;

    for (const struct mw_family_tower *tower = family->towers; tower && tower->key; tower++)
        whole &= !tower->is_text;
    return whole;
}

/* None of these has a default in model/, in no family. */
static void
test_keys(void)
{
    static const enum mw_key_meaning needed[] = {MW_DIMENSION_LAYERS, MW_DIMENSION_HIDDEN,
                                                 MW_DIMENSION_HEADS, MW_DIMENSION_VOCAB,
                                                 MW_DIMENSION_SEQ};

    const struct mw_family *family;

    for (int i = 0; (family = mw_family_at(i)); i++)
        for (size_t j = 0; j < G_N_ELEMENTS(needed) && is_whole(family); j++) {
            const struct mw_family_key *key = family->keys;
            while (key->name && key->meaning != needed[j])
                key++;
            g_assert_nonnull(key->name);
        }
}

/* Mixtures have experts in the place of an MLP, and no biases here. */
static bool
is_of_family(enum mw_weight_role role, const struct mw_family *family)
{
    bool mixture = family->run.tensors->of[MW_WEIGHT_ROUTER] != NULL;

    switch (role) {
    case MW_WEIGHT_ROUTER:
    case MW_WEIGHT_EXPERT_GATE:
    case MW_WEIGHT_EXPERT_UP:
    case MW_WEIGHT_EXPERT_DOWN:
        return mixture;
    case MW_WEIGHT_TOKENS:
    case MW_WEIGHT_NORM1:
    case MW_WEIGHT_NORM2:
    case MW_WEIGHT_FINAL_NORM:
    case MW_WEIGHT_LOGITS:
    case MW_WEIGHT_Q:
    case MW_WEIGHT_K:
    case MW_WEIGHT_V:
    case MW_WEIGHT_PROJECTION:
        return true;
    default:
        return !mixture;
    }
}

static bool
is_of_kind(enum mw_weight_role role, enum mw_decoder_kind kind)
{
    switch (role) {
    case MW_WEIGHT_NONE:
        return false;
    case MW_WEIGHT_POSITIONS:
    case MW_WEIGHT_NORM1_BIAS:
    case MW_WEIGHT_NORM2_BIAS:
    case MW_WEIGHT_FINAL_NORM_BIAS:
        return kind == MW_DECODER_GPT2;
    case MW_WEIGHT_Q_NORM:
    case MW_WEIGHT_K_NORM:
    case MW_WEIGHT_GATE:
    case MW_WEIGHT_GATE_BIAS:
        return kind == MW_DECODER_LLAMA;
    default:
        return true;
    }
}

/* Every tensor that the executor asks for has a name, biases that flags can ask for among them, and
 * what memwall writes is found by its class. */
static void
test_those_that_run(void)
{
    const char *name;
    int count = 0;

    for (; (name = mw_family_runs_name(count)); count++) {
        const struct mw_family *family = mw_family_find(name);
        g_assert_true(g_str_has_prefix(family->run.class_name, family->class_prefix));
        for (int role = 0; role < MW_WEIGHT_ROLE_COUNT; role++)
            if (is_of_kind(role, family->run.kind) && is_of_family(role, family))
                g_assert_nonnull(family->run.tensors->of[role]);
    }
    g_assert_cmpint(count, >=, 5);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/families/rows", test_rows);
    g_test_add_func("/families/keys", test_keys);
    g_test_add_func("/families/those-that-run", test_those_that_run);
    return g_test_run();
}
