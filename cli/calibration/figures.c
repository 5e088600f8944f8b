/* The measured figures, one row each: for the table and for the profile. */
#include "cli/calibration/figures.h"

#include <math.h>

#define AT(field) offsetof(struct mw_calibration, field)

#define PASSES "twice forward and backward, by the planner's bytes"

const struct cli_figure cli_figures[] = {
    {"gpu", "memory_gb_per_s", "device memory", "GB/s", 1e-9, AT(device_bytes_per_s),
     "an update (fused AdamW), by the planner's bytes"},
    {"gpu", "operator_gb_per_s", "memory-bound operators", "GB/s", 1e-9,
     AT(pass_bytes_per_s[MW_CALIBRATION_SUMS]),
     "residual additions and gradients of biases of a GPT-2 layer, by the planner's bytes"},
    {"gpu", "layer_norm_gb_per_s", "LayerNorm", "GB/s", 1e-9,
     AT(pass_bytes_per_s[MW_CALIBRATION_LAYER_NORM]), PASSES},
    {"gpu", "rms_norm_gb_per_s", "RMSNorm", "GB/s", 1e-9,
     AT(pass_bytes_per_s[MW_CALIBRATION_RMS_NORM]), PASSES},
    {"gpu", "activation_gb_per_s", "GELU", "GB/s", 1e-9,
     AT(pass_bytes_per_s[MW_CALIBRATION_ACTIVATION]), PASSES},
    {"gpu", "gated_gb_per_s", "SwiGLU", "GB/s", 1e-9, AT(pass_bytes_per_s[MW_CALIBRATION_GATED]),
     PASSES},
    {"gpu", "rotary_gb_per_s", "rotary positions", "GB/s", 1e-9,
     AT(pass_bytes_per_s[MW_CALIBRATION_ROTARY]), PASSES},
    {"gpu", "loss_gb_per_s", "loss", "GB/s", 1e-9, AT(loss_bytes_per_s),
     "softmax and cross-entropy of GPT-2's vocabulary, 28 bytes per logit as the planner counts"},
    {"gpu", "achievable_tflops", "a layer, forward and backward", "TFLOP/s", 1e-12, AT(layer_flops),
     "a GPT-2 124M layer, forward and backward, attention counted whole"},
    {"gpu", "fp32_share", "products in fp32, of 16 bits", "share", 1, AT(fp32_share),
     "products of the two types take turns"},
    {"gpu", "launch_us", "start of a kernel", "us", 1e6, AT(launch_s),
     "a kernel with next to nothing to do"},
    {"gpu", "collective_sm_share", "compute that a collective takes", "share", 1,
     AT(collective_share), "matrix products beside all-gather and reduce-scatter"},
    {"gpu", "host_sm_share", "compute that an update takes", "share", 1, AT(host_share),
     "matrix products beside an update"},
    {"gpu", "copy_sm_share", "compute that a copy takes", "share", 1, AT(copy_share),
     "matrix products beside a copy"},
    {"gpu", "nvme_sm_share", "compute that a transfer takes", "share", 1, AT(nvme_share),
     "matrix products beside a drive's transfers, reads and writes"},
    {"pcie", "h2d_gb_per_s", "copy, host to device", "GB/s", 1e-9, AT(h2d_bytes_per_s),
     "one thread copies memory"},
    {"pcie", "d2h_gb_per_s", "copy, device to host", "GB/s", 1e-9, AT(d2h_bytes_per_s),
     "one thread copies memory"},
    {"pcie", "node_h2d_gb_per_s", NULL, "GB/s", 1e-9, AT(node_h2d_bytes_per_s),
     "all ranks at once"},
    {"pcie", "node_d2h_gb_per_s", NULL, "GB/s", 1e-9, AT(node_d2h_bytes_per_s),
     "all ranks at once"},
    {"pcie", "duplex", "copies: both at once", "share", 1, AT(copy_duplex),
     "parts of their rates alone that both ways keep side by side, added up"},
    {"pcie", "latency_us", "from one lane to another", "us", 1e6, AT(copy_latency_s),
     "a thread waits for another"},
    {"host", "memory_gb_per_s", "host memory", "GB/s", 1e-9, AT(host_bytes_per_s),
     "the fastest of update, accumulation and norm, by the planner's bytes"},
    {"host", "norm_gb_per_s", "gradient norm", "GB/s", 1e-9, AT(norm_bytes_per_s),
     "sums of squares of 16-bit gradients on all cores"},
    {"host", "exact_sums_gb_per_s", "exact sums", "GB/s", 1e-9, AT(exact_bytes_per_s),
     "exact sums of squares of 16-bit gradients by rows and columns, and of Adafactor's updates"},
    {"host", "update_gparams_per_s", "update (fused AdamW)", "10^9/s", 1e-9,
     AT(update_params_per_s), "fused AdamW on all cores"},
    {"nvme", "read_gb_per_s", "drives: read", "GB/s", 1e-9, AT(drives.read_bytes_per_s),
     "requests of 2 to 128 MiB one after the other: the slope"},
    {"nvme", "write_gb_per_s", "drives: write", "GB/s", 1e-9, AT(drives.write_bytes_per_s), NULL},
    {"nvme", "write_burst_gb_per_s", "drives: burst of writes", "GB/s", 1e-9,
     AT(drives.burst_bytes_per_s), "the first writes, as read_gb_per_s"},
    {"nvme", "duplex", "drives: both at once", "share", 1, AT(drives.duplex),
     "parts of their rates alone that reads and writes keep side by side, added up"},
    {"nvme", "mixed_read_gb_per_s", "drives: read beside writes", "GB/s", 1e-9,
     AT(drives.mixed_read_bytes_per_s),
     "the part of read_gb_per_s that reads keep beside writes of the same size and depth"},
    {"nvme", "mixed_write_gb_per_s", "drives: write beside reads", "GB/s", 1e-9,
     AT(drives.mixed_write_bytes_per_s),
     "the part of write_gb_per_s that writes keep beside reads of the same size and depth"},
    {"nvme", "latency_us", "drives: latency of a request", "us", 1e6, AT(drives.latency_s),
     "what 256 KiB take beyond the rate, beside products, of reads and writes"},
    {"fabric", "gb_per_s", "all-gather and reduce-scatter", "GB/s", 1e-9, AT(fabric_bytes_per_s),
     "what a rank passes on in an all-gather and a reduce-scatter of 16 MiB"},
    {"fabric", "latency_us", "collective of next to nothing", "us", 1e6, AT(fabric_latency_s),
     "an all-gather of few bytes after a product of every rank, for each other rank"},
};
const int cli_figure_count = G_N_ELEMENTS(cli_figures);

const char *const cli_collective_names[] = {
    [MW_CALIBRATION_ALL_GATHER] = "all-gather",
    [MW_CALIBRATION_REDUCE_SCATTER] = "reduce-scatter",
    [MW_CALIBRATION_ALL_REDUCE] = "all-reduce",
    [MW_CALIBRATION_BROADCAST] = "broadcast",
};

#define PASSES_APART PASSES ", less launches"

/* How the same figures are measured on a device that copies by itself. */
static const struct {
    size_t offset;
    const char *how;
} apart[] = {
    {AT(pass_bytes_per_s[MW_CALIBRATION_SUMS]),
     "residual additions and gradients of biases of a GPT-2 layer, by the planner's bytes, less "
     "launches"},
    {AT(pass_bytes_per_s[MW_CALIBRATION_LAYER_NORM]), PASSES_APART},
    {AT(pass_bytes_per_s[MW_CALIBRATION_RMS_NORM]), PASSES_APART},
    {AT(pass_bytes_per_s[MW_CALIBRATION_ACTIVATION]), PASSES_APART},
    {AT(pass_bytes_per_s[MW_CALIBRATION_GATED]), PASSES_APART},
    {AT(pass_bytes_per_s[MW_CALIBRATION_ROTARY]), PASSES_APART},
    {AT(copy_share), "matrix products beside copies of pinned memory, each way"},
    {AT(fabric_bytes_per_s), "all-gathers and reduce-scatters of 64 KiB to 256 MiB: the slope"},
    {AT(fabric_latency_s), "an all-gather of few bytes, for each other rank"},
    {AT(copy_latency_s), "copies of 4 KiB, each behind one in the other direction"},
};

const char *
cli_figure_how(const struct cli_figure *figure, const struct mw_calibration *measured)
{
    for (size_t i = 0; measured->apart && i < G_N_ELEMENTS(apart); i++)
        if (apart[i].offset == figure->offset)
            return apart[i].how;
    return figure->how;
}

bool
cli_figure_kept(const struct cli_figure *figure)
{
    return mw_hw_key(figure->group, figure->key) != NULL;
}

struct mw_measure
cli_figure_of(const struct cli_figure *figure, const struct mw_calibration *measured)
{
    struct mw_measure m =
        *(const struct mw_measure *)(const void *)((const char *)measured + figure->offset);

    m.low *= figure->scale;
    m.typical *= figure->scale;
    m.high *= figure->scale;
    return m;
}

/* A product m * n * k is shown as the cube of the same size. */
char *
cli_product_name(double dim)
{
    return g_strdup_printf("matrix products of %.4g cubed", dim);
}

static double
least_or_most(const double *values, int count, bool most)
{
    double value = values[0];

    for (int i = 1; i < count; i++)
        value = most ? fmax(value, values[i]) : fmin(value, values[i]);
    return value;
}

struct mw_measure
cli_direction_share(const struct mw_calibration *measured, enum mw_product_of of)
{
    double shares[MW_MATMUL_POINTS_MAX] = {0}, samples = 0;

    for (int i = 0; i < measured->points; i++) {
        shares[i] = mw_calibration_direction_share(measured, of, i);
        samples += measured->direction_flops[of][i].samples;
    }
    struct mw_measure all = {.low = least_or_most(shares, measured->points, false),
                             .high = least_or_most(shares, measured->points, true)};
    all.typical = mw_measure_of(shares, measured->points).typical;
    all.samples = (int)samples;
    return all;
}

const char *const cli_direction_names[MW_CALIBRATION_DIRECTIONS] = {
    [MW_PRODUCT_OF_RESULT] = "products of forward",
    [MW_PRODUCT_OF_INPUT] = "products for inputs",
    [MW_PRODUCT_OF_WEIGHTS] = "products for weights",
};

char *
cli_heads_name(bool backward, int head)
{
    return g_strdup_printf("%s, heads of %d", backward ? "backward" : "forward",
                           (int)mw_calibration_head_dims[head]);
}

char *
cli_attention_name(double dim)
{
    return g_strdup_printf("attention of %.0f tokens",
                           sqrt(dim * dim * dim / MW_CALIBRATION_HEAD_DIM));
}
