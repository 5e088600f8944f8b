#include <glib.h>
#include <math.h>

#include "hardware/hwprofile.h"
#include "model/model.h"
#include "sim/cost.h"
#include "sim/kernels.h"
#include "tests/hwprofile_helpers.h"

/* FLOP/s of a forward layer, as the simulator prices its operators, without any transfer. */
static double
layer_flops(const struct mw_hardware *hardware, const char *preset, int64_t sequences, int64_t seq)
{
    struct mw_shape shape = {
        .sequences = sequences,
        .seq = seq,
        .tp = 1,
        .flash_attention = hardware->gpu_flash_attention,
    };
    struct mw_operator_info operators[MW_LAYER_OPERATORS_MAX];
    g_autoptr(GError) error = NULL;
    struct mw_model model;
    double flops = 0, seconds = 0;

    mw_model_load(preset, &model, &error);
    g_assert_no_error(error);
    int count = mw_model_layer(&model, 0, &shape, operators);
    for (int i = 0; i < count; i++) {
        const struct mw_operator_info *op = &operators[i];
        const struct mw_work_product *first = &op->products[0];
        struct mw_kernel_work work = {.products = op->products,
                                      .product_count = op->product_count,
                                      .attention = op->attention,
                                      .size = mw_kernel_size(first->m, first->n, first->k)};
        if (op->forward_flops)
            seconds += (double)op->forward_flops / mw_kernel_flops(hardware, &work);
        seconds += (double)op->forward_bytes / hardware->gpu_memory_bytes_per_s;
        seconds += op->launches * hardware->gpu_launch_s;
        flops += (double)op->forward_flops;
    }
    return flops / seconds;
}

/* ZeRO-Infinity Sec. 4.2: 62 to 78 TFLOP/s without transfers for hidden sizes 8K to 64K, by the
 * software of its time: what the machine allows, at the short rates of single products, is more. */
static void
test_dgx2_layers(void)
{
    struct mw_profile *profile = mw_test_load("dgx2");
    struct mw_hardware typical = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);

    g_assert_cmpfloat(layer_flops(&typical, "zi-50b", 4, 1024), >, 62e12);
    g_assert_cmpfloat(layer_flops(&typical, "zi-10t", 4, 1024), >, 78e12);
    g_assert_cmpfloat(layer_flops(&typical, "zi-10t", 4, 1024), <, 110e12);
    mw_profile_free(profile);
}

/* "Achievable" is the base of efficiency, so it is near what the curve gives for whole layers. */
static void
test_achievable_and_curve_agree(gconstpointer name)
{
    struct mw_profile *profile = mw_test_load(name);

    for (int outlook = 0; outlook < MW_OUTLOOK_COUNT; outlook++) {
        struct mw_hardware at = mw_hwprofile_read(profile, (enum mw_outlook)outlook);
        double ratio = layer_flops(&at, "gpt3-175b", 8, 2048) / at.gpu_achievable_flops;
        g_test_message("%s: %.3g TFLOP/s, %.2f of achievable", (const char *)name,
                       ratio * at.gpu_achievable_flops / 1e12, ratio);
        /* Of the V100 it is what ZeRO-Infinity measured, with the software of its time. */
        double most = at.gpu_architecture == MW_ARCHITECTURE_VOLTA ? 1.4 : 1.25;
        if (ratio < 0.75 || ratio > most)
            g_error("%s: layers run at %.2f of achievable_tflops", (const char *)name, ratio);
    }
    mw_profile_free(profile);
}

/* What a machine reaches is below what its datasheet promises, at either end: products and layers.
 */
static void
test_below_peak(gconstpointer name)
{
    struct mw_profile *profile = mw_test_load(name);

    for (int outlook = 0; outlook < MW_OUTLOOK_COUNT; outlook++) {
        struct mw_hardware at = mw_hwprofile_read(profile, (enum mw_outlook)outlook);
        double share = at.gpu_achievable_flops / at.gpu_peak_flops;
        if (share >= 0.97)
            g_error("%s: achievable_tflops is %.3f of peak_tflops", (const char *)name, share);
        if (at.gpu_multiprocessors && at.tile_flops >= at.gpu_peak_flops)
            g_error("%s: tiles at %.3g TFLOP/s", (const char *)name, at.tile_flops / 1e12);
        for (int64_t p = 0; p < at.matmul_points; p++)
            if (at.matmul_flops[p] >= at.gpu_peak_flops)
                g_error("%s: products at %.3g TFLOP/s", (const char *)name,
                        at.matmul_flops[p] / 1e12);
    }
    mw_profile_free(profile);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_setenv("XDG_CONFIG_HOME", "/nonexistent", TRUE); /* shipped profiles only */
    g_auto(GStrv) names = mw_hwprofile_list();
    g_test_add_func("/hwprofile/dgx2-layers", test_dgx2_layers);
    for (char **name = names; *name; name++) {
        g_autofree char *path = g_strdup_printf("/hwprofile/achievable/%s", *name);
        g_test_add_data_func_full(path, g_strdup(*name), test_achievable_and_curve_agree, g_free);
        g_autofree char *peak = g_strdup_printf("/hwprofile/below-peak/%s", *name);
        g_test_add_data_func_full(peak, g_strdup(*name), test_below_peak, g_free);
    }
    return g_test_run();
}
