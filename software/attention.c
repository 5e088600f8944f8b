#include "software/attention.h"

const char *const mw_attention_kernel_names[MW_ATTENTION_KERNEL_COUNT + 1] = {
    [MW_ATTENTION_FUSED] = "fused",   [MW_ATTENTION_UNFUSED] = "unfused",
    [MW_ATTENTION_FA1] = "fa1",       [MW_ATTENTION_FA2] = "fa2",
    [MW_ATTENTION_FA3] = "fa3",       [MW_ATTENTION_CUDNN] = "cudnn",
    [MW_ATTENTION_TRITON] = "triton",
};

struct row {
    enum mw_attention_kernel kernel;
    enum mw_architecture architecture;
    double forward[MW_ATTENTION_HEADS], backward[MW_ATTENTION_HEADS]; /* shares of the peak */
    double low, high;                                                 /* of those shares */
    double half_keys, causal_half_keys;
    const char *source;
};

#define DAO "Dao-AILab/flash-attention: "
#define CUDNN "NVIDIA/cudnn-frontend: "

/* Where a source gives forward and backward together, backward has 0.883 of forward's rate, as
 * FlashAttention-2 on the H100, of which there are both.  Heads of 256 are to those of 128 as
 * there, where nothing is known of them. */
/* clang-format off */
static const struct row rows[] = {
    {MW_ATTENTION_FA1, MW_ARCHITECTURE_AMPERE, {.353, .266, .266}, {.353, .266, .266}, .9, 1.05,
     100, 400, DAO "A100 80 GB, forward and backward 110 and 83 TFLOP/s of heads of 64 and 128"},
    {MW_ATTENTION_FA1, MW_ARCHITECTURE_HOPPER, {.170, .141, .141}, {.170, .141, .141}, .9, 1.05,
     40, 270, DAO "H100, forward and backward 168 and 139 TFLOP/s"},
    {MW_ATTENTION_FA2, MW_ARCHITECTURE_AMPERE, {.617, .712, .627}, {.545, .628, .553}, .93, 1.03,
     170, 500, DAO "A100 80 GB, forward and backward 176 and 203 TFLOP/s"},
    {MW_ATTENTION_FA2, MW_ARCHITECTURE_ADA, {.577, .53, .47}, {.51, .47, .41}, .75, 1.05,
     200, 550, "ai-dynamo/aiconfigurator: L40S, forward 209 and 192 TFLOP/s"},
    {MW_ATTENTION_FA2, MW_ARCHITECTURE_HOPPER, {.328, .374, .330}, {.289, .331, .291}, .95, 1.03,
     170, 540, DAO "H100, forward 324, 370 and 326, forward and backward 296 and 338 TFLOP/s"},
    {MW_ATTENTION_FA2, MW_ARCHITECTURE_BLACKWELL, {.158, .180, .159}, {.130, .148, .130}, .92, 1.08,
     250, 740, CUDNN "GB300, heads of 128, forward 448 and backward 369 TFLOP/s"},
    {MW_ATTENTION_FA2, MW_ARCHITECTURE_BLACKWELL_RTX, {.66, .615, .54}, {.58, .54, .48}, .8, 1.08,
     120, 650, "ai-dynamo/aiconfigurator: RTX PRO 6000, forward 272 to 373 and 301 TFLOP/s"},
    {MW_ATTENTION_FA3, MW_ARCHITECTURE_HOPPER, {.505, .655, .760}, {.46, .55, .50}, .93, 1.05,
     180, 550, DAO "H100, forward 500, 648 and 756 TFLOP/s; backward 1.5 to 1.75 times "
                   "FlashAttention-2 (arXiv 2407.08608, Sec. 4.1)"},
    {MW_ATTENTION_CUDNN, MW_ARCHITECTURE_HOPPER, {.41, .63, .585}, {.37, .56, .50}, .87, 1.1,
     200, 550, CUDNN "H200, heads of 128, forward 635 to 702 and backward 508 to 612 TFLOP/s; "
                     DAO "H100, forward 388 to 413, 539 to 600 and 509 to 581"},
    {MW_ATTENTION_CUDNN, MW_ARCHITECTURE_BLACKWELL, {.48, .76, .72}, {.34, .54, .50}, .87, 1.14,
     400, 1400, CUDNN "GB200, heads of 128, forward 1680 to 2180, backward 1310 to 1440 TFLOP/s"},
    {MW_ATTENTION_TRITON, MW_ARCHITECTURE_AMPERE, {.53, .53, .53}, {.25, .24, .24}, .85, 1.1,
     110, 320, DAO "A100 80 GB, forward and backward 80 to 100 and 80 to 95 TFLOP/s; "
                   "triton-lang/triton: forward 147 to 167, backward 84 to 95"},
    {MW_ATTENTION_TRITON, MW_ARCHITECTURE_HOPPER, {.39, .39, .39}, {.19, .18, .18}, .8, 1.25,
     40, 350, DAO "H100, forward 363 to 403 TFLOP/s; backward as it is to forward on the A100"},
};
/* clang-format on */

static const struct row *
find(enum mw_attention_kernel kernel, enum mw_architecture architecture)
{
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        if (rows[i].kernel == kernel && rows[i].architecture == architecture)
            return &rows[i];
    return NULL;
}

static bool
has_kernel(enum mw_architecture architecture, int kernel)
{
    return kernel == MW_ATTENTION_FUSED || kernel == MW_ATTENTION_UNFUSED ||
           find((enum mw_attention_kernel)kernel, architecture);
}

int
mw_attention_choose(const int *kernels, enum mw_architecture architecture)
{
    if (architecture == MW_ARCHITECTURE_UNKNOWN)
        return kernels[0] == MW_ATTENTION_UNFUSED ? MW_ATTENTION_UNFUSED : MW_ATTENTION_FUSED;
    for (int i = 0; i < MW_PROFILE_LIST_MAX && kernels[i] >= 0; i++)
        if (has_kernel(architecture, kernels[i]))
            return kernels[i];
    return -1;
}

char *
mw_attention_kernels_of(enum mw_architecture architecture)
{
    GString *text = g_string_new(NULL);

    for (int kernel = 0; kernel < MW_ATTENTION_KERNEL_COUNT; kernel++)
        if (has_kernel(architecture, kernel))
            g_string_append_printf(text, "%s%s", text->len ? ", " : "",
                                   mw_attention_kernel_names[kernel]);
    return g_string_free(text, FALSE);
}

struct mw_attention_rates
mw_attention_rates_of(enum mw_attention_kernel kernel, enum mw_architecture architecture,
                      enum mw_outlook outlook, double peak_flops)
{
    const struct row *row = find(kernel, architecture);
    struct mw_attention_rates rates = {0};

    if (!row)
        return rates;
    double whole = peak_flops * (outlook == MW_OUTLOOK_LOW    ? row->low
                                 : outlook == MW_OUTLOOK_HIGH ? row->high
                                                              : 1);
    for (int i = 0; i < MW_ATTENTION_HEADS; i++) {
        rates.forward_flops[i] = row->forward[i] * whole;
        rates.backward_flops[i] = row->backward[i] * whole;
    }
    rates.half_keys = row->half_keys;
    rates.causal_half_keys = row->causal_half_keys;
    return rates;
}
