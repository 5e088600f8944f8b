#include <glib.h>
#include <string.h>

#include "base/error.h"
#include "model/model.h"
#include "tests/fuzz/fuzz.h"

/* Whatever is accepted is valid and can be walked; whatever is refused says why in one line. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(GError) error = NULL;
    struct mw_model model;

    if (!mw_model_parse_config((const char *)data, (gssize)size, "config.json", &model, &error)) {
        g_assert_true(error->domain == MW_ERROR);
        g_assert_null(strchr(error->message, '\n'));
        return 0;
    }
    struct mw_shape shape = {.sequences = 3, .seq = model.seq, .tp = 1, .flash_attention = true};
    struct mw_operator_info info[MW_LAYER_OPERATORS_MAX];

    g_assert_no_error(error);
    g_assert_true(mw_model_validate(&model, "again", NULL));
    g_assert_cmpint(mw_model_params(&model), >, 0);
    g_assert_cmpint(mw_model_active_params(&model), >, 0);
    mw_model_validate_shape(&model, &shape, NULL);
    for (int i = mw_model_layer(&model, model.layers - 1, &shape, info) - 1; i >= 0; i--)
        g_assert_cmpint(info[i].saved_bytes, >=, 0);
    return 0;
}
