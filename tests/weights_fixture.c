#include "tests/weights_fixture.h"

#include "model/model.h"

const uint32_t mw_test_units[MW_TEST_UNITS] = {
    1u << MW_OPERATOR_NORM1 | 1u << MW_OPERATOR_QKV, 1u << MW_OPERATOR_PROJECTION,
    1u << MW_OPERATOR_NORM2 | 1u << MW_OPERATOR_MLP_UP, 1u << MW_OPERATOR_MLP_DOWN};

struct mw_decoder
mw_test_decoder(const char *name_or_path)
{
    GError *error = NULL;
    struct mw_model model;
    struct mw_decoder decoder;

    g_assert_true(mw_model_load(name_or_path, &model, &error));
    g_assert_true(mw_model_decoder(&model, &decoder, &error));
    g_assert_no_error(error);
    return decoder;
}
