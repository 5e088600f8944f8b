#include <glib.h>

#include "planner/deepspeed/deepspeed.h"
#include "tests/fuzz/fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mw_settings settings;
    struct mw_deepspeed_said said = {0};
    g_autoptr(GError) error = NULL;

    mw_settings_init(&settings);
    bool good = mw_deepspeed_parse((const char *)data, (gssize)size, "fuzz", 16, &settings,
                                   &said, &error);
    g_assert_true(good == !error);
    g_assert_true(good == (said.ignored != NULL) && good == (said.notes != NULL));
    mw_deepspeed_said_clear(&said);
    if (good && settings.strategy != MW_STRATEGY_AUTO) {
        struct mw_deepspeed_facts facts = {.micro_batch = 1, .grad_accum = 1, .train_batch = 16};
        g_autofree char *text = mw_deepspeed_text(&settings, &facts);
        g_assert_true(mw_deepspeed_parse(text, -1, "written", 16, &settings, NULL, NULL));
    }
    return 0;
}
