/* The key table of hardware profiles. */
#include <stddef.h>
#include <string.h>

#include "hardware/internal.h"

#define AT(field) offsetof(struct mw_hardware, field)
#define GIB 1073741824.0
#define TEXT(key, help)                                                                            \
    {                                                                                              \
        "profile", key, "", help, 1, 0, 0, false, 0, MW_VALUE_TEXT, 0, FIXED                       \
    }
/* What there can be more of, and the rate that what-if varies. */
#define RATE(part, rate) MW_HW_PART_##part, MW_HW_RATE_##rate, NULL
#define OF(part) RATE(part, NONE)
#define FIXED RATE(NONE, NONE)

/* Of enum mw_architecture. */
static const char *const architectures[MW_ARCHITECTURE_COUNT + 1] = {
    [MW_ARCHITECTURE_UNKNOWN] = "unknown",
    [MW_ARCHITECTURE_VOLTA] = "volta",
    [MW_ARCHITECTURE_TURING] = "turing",
    [MW_ARCHITECTURE_AMPERE] = "ampere",
    [MW_ARCHITECTURE_ADA] = "ada",
    [MW_ARCHITECTURE_HOPPER] = "hopper",
    [MW_ARCHITECTURE_BLACKWELL] = "blackwell",
    [MW_ARCHITECTURE_BLACKWELL_RTX] = "blackwell-rtx",
};

/* group, key, unit, help, scale, min, max, required, better, kind, offset, part and rate */
static const struct mw_profile_key keys[] = {
    TEXT("description", "one line on the machine"),
    TEXT("inherits", "the profile that all keys not given here come from"),
    TEXT("date", "when the figures were taken or measured"),
    TEXT("machine", "the machine that was measured: processor, cores, host name"),
    TEXT("backend", "what computed when it was measured: cpu or cuda"),
    TEXT("instruction_set", "that its cores computed with: `memwall list devices` names them"),
    TEXT("disturbed", "what else its machine did while it was measured; commands repeat it"),
    TEXT("made_up", "why there is no such machine; who compares all machines leaves it out"),
    TEXT("only_simulated",
         "why nothing of memwall runs there; such a machine is advised to nobody"),
    TEXT("discontinued", "why nobody can buy it at `node.price_usd` any more"),
    TEXT("rate_left", "of its first rate, the part at which it ended; left out: it kept its speed"),
    TEXT("calibrated", "day on which its machine was measured, YYYY-MM-DD"),

    {"node", "gpus", "", "GPUs a node", 1, 1, 1024, true, 0, MW_VALUE_COUNT, AT(gpus_per_node),
     FIXED},
    {"node", "nodes_max", "", "nodes that can be had; 0: not stated", 1, 0, 1000000, false, 0,
     MW_VALUE_COUNT, AT(nodes_max), FIXED},
    {"node", "price_usd_per_hour", "USD/h", "rent of a node; 0: not stated", 1, 0, 1e6, false, 0,
     MW_VALUE_REAL, AT(price_usd_per_hour), FIXED},
    {"node", "spot_price_usd_per_hour", "USD/h",
     "rent of a node that its provider may take back at any time; 0: not stated", 1, 0, 1e6, false,
     0, MW_VALUE_REAL, AT(spot_price_usd_per_hour), FIXED},
    {"node", "price_usd", "USD", "price of a node; 0: not stated", 1, 0, 1e9, false, 0,
     MW_VALUE_REAL, AT(price_usd), FIXED},
    {"node", "amortisation_years", "years", "in which a bought node is written off; default 5", 1,
     0.1, 100, false, 0, MW_VALUE_REAL, AT(amortisation_years), FIXED},
    {"node", "electricity_usd_per_kwh", "USD/kWh",
     "price of electricity; default 0.16 (0.078 to 0.31)", 1, 0, 1000, false, 0, MW_VALUE_REAL,
     AT(electricity_usd_per_kwh), FIXED},
    {"node", "power_w", "W", "a node under load; 0: not stated", 1, 0, 1e7, false, 0, MW_VALUE_REAL,
     AT(power_w), FIXED},

    {"gpu", "memory_gib", "GiB", "device memory", GIB, 0.001, 1e5, true, 0, MW_VALUE_BYTES,
     AT(gpu_memory_bytes), OF(GPU)},
    {"gpu", "reserve_gib", "GiB", "driver context, libraries, display", GIB, 0, 1e5, true, 0,
     MW_VALUE_BYTES, AT(gpu_reserve_bytes), OF(GPU)},
    {"gpu", "largest_request_gib", "GiB",
     "largest contiguous request that fragmented memory serves; default: memory less reserve", GIB,
     0.001, 1e5, false, 0, MW_VALUE_BYTES, AT(gpu_largest_request_bytes), OF(GPU)},
    {"gpu", "memory_gb_per_s", "GB/s", "achievable device memory bandwidth", 1e9, 0.001, 1e6, true,
     1, MW_VALUE_REAL, AT(gpu_memory_bytes_per_s), RATE(GPU, GPU_MEMORY)},
    {"gpu", "operator_gb_per_s", "GB/s",
     "what norms, activations, biases and sums reach of it; default: memory_gb_per_s", 1e9, 0.001,
     1e6, false, 1, MW_VALUE_REAL, AT(gpu_operator_bytes_per_s), RATE(GPU, GPU_MEMORY)},
    {"gpu", "layer_norm_gb_per_s", "GB/s",
     "what LayerNorm of memwall's own kernels reaches; default: operator_gb_per_s", 1e9, 0.001, 1e6,
     false, 1, MW_VALUE_REAL, AT(gpu_layer_norm_bytes_per_s), RATE(GPU, GPU_MEMORY)},
    {"gpu", "rms_norm_gb_per_s", "GB/s",
     "what RMSNorm of memwall's own kernels reaches; default: operator_gb_per_s", 1e9, 0.001, 1e6,
     false, 1, MW_VALUE_REAL, AT(gpu_rms_norm_bytes_per_s), RATE(GPU, GPU_MEMORY)},
    {"gpu", "activation_gb_per_s", "GB/s",
     "what activation functions of memwall's own kernels reach; default: operator_gb_per_s", 1e9,
     0.001, 1e6, false, 1, MW_VALUE_REAL, AT(gpu_activation_bytes_per_s), RATE(GPU, GPU_MEMORY)},
    {"gpu", "gated_gb_per_s", "GB/s",
     "what gated activations of memwall's own kernels reach; default: operator_gb_per_s", 1e9,
     0.001, 1e6, false, 1, MW_VALUE_REAL, AT(gpu_gated_bytes_per_s), RATE(GPU, GPU_MEMORY)},
    {"gpu", "rotary_gb_per_s", "GB/s",
     "what rotary positions of memwall's own kernels reach; default: operator_gb_per_s", 1e9, 0.001,
     1e6, false, 1, MW_VALUE_REAL, AT(gpu_rotary_bytes_per_s), RATE(GPU, GPU_MEMORY)},
    {"gpu", "loss_gb_per_s", "GB/s",
     "what the loss of memwall's own kernels reaches, by the bytes of one that keeps fp32 logits; "
     "default: memory_gb_per_s",
     1e9, 0.001, 1e6, false, 1, MW_VALUE_REAL, AT(gpu_loss_bytes_per_s), RATE(GPU, GPU_MEMORY)},
    {"gpu", "peak_tflops", "TFLOP/s", "dense 16-bit peak of the datasheet: the base of MFU", 1e12,
     1e-6, 1e6, true, 0, MW_VALUE_REAL, AT(gpu_peak_flops), OF(GPU)},
    {"gpu", "fp32_tflops", "TFLOP/s",
     "peak of products in fp32, not in TF32: the base of MFU there; 0: not stated", 1e12, 0, 1e6,
     false, 0, MW_VALUE_REAL, AT(gpu_fp32_flops), OF(GPU)},
    {"gpu", "achievable_tflops", "TFLOP/s",
     "of whole layers without communication: the base of efficiency", 1e12, 1e-6, 1e6, true, 1,
     MW_VALUE_REAL, AT(gpu_achievable_flops), OF(GPU)},
    {"gpu", "architecture", "",
     "generation, which decides what kernels of attention there are and how fast they are; default "
     "unknown",
     1, 0, 0, false, 0, MW_VALUE_CHOICE, AT(gpu_architecture), MW_HW_PART_NONE, MW_HW_RATE_NONE,
     architectures},
    {"gpu", "multiprocessors", "",
     "that compute a tile of a product each; 0, the default: products have the curve of matmul_dim",
     1, 0, 100000, false, 0, MW_VALUE_COUNT, AT(gpu_multiprocessors), FIXED},
    {"gpu", "tile_tflops", "TFLOP/s",
     "rate of 16-bit products on full waves of the largest tiles, start and end left out", 1e12,
     1e-6, 1e6, false, 1, MW_VALUE_REAL, AT(tile_flops), RATE(GPU, PRODUCTS)},
    {"gpu", "sustained_share", "",
     "share of tile_tflops that is left in long runs, at the clocks that power and heat allow; "
     "default: 1",
     1, 0.1, 1, false, 1, MW_VALUE_REAL, AT(sustained_share), FIXED},
    {"gpu", "tile_fill", "",
     "elements of k in whose time a tile starts and ends: short products are slower", 1, 0, 1e6,
     false, -1, MW_VALUE_REAL, AT(tile_fill), FIXED},
    {"gpu", "tile_shares", "",
     "share of tile_tflops that tiles of 256x128, 128x128, 128x64 and 64x64 elements reach", 1,
     0.01, 1, false, 0, MW_VALUE_LIST, AT(tile_shares), FIXED},
    {"gpu", "fp8_tile_tflops", "TFLOP/s",
     "the rate of fp8 products, likewise, in long runs; default: none", 1e12, 1e-6, 1e6, false, 1,
     MW_VALUE_REAL, AT(fp8_tile_flops), RATE(GPU, PRODUCTS)},
    {"gpu", "fp8_tile_fill", "", "tile_fill of fp8", 1, 0, 1e6, false, -1, MW_VALUE_REAL,
     AT(fp8_tile_fill), FIXED},
    {"gpu", "fp8_tile_shares", "", "tile_shares of fp8", 1, 0.01, 1, false, 0, MW_VALUE_LIST,
     AT(fp8_tile_shares), FIXED},
    {"gpu", "matmul_dim", "", "curve of matrix products: cube root of m*n*k, rising", 1, 1, 1e9,
     false, 0, MW_VALUE_LIST, AT(matmul_dim), FIXED},
    {"gpu", "matmul_tflops", "TFLOP/s", "rate of matrix products, one a matmul_dim", 1e12, 1e-6,
     1e6, false, 1, MW_VALUE_LIST, AT(matmul_flops), RATE(GPU, PRODUCTS)},
    {"gpu", "matmul_tflops_low", "TFLOP/s", "the same at the slow end of its range", 1e12, 1e-6,
     1e6, false, 1, MW_VALUE_LIST, AT(matmul_flops), FIXED},
    {"gpu", "matmul_tflops_high", "TFLOP/s", "the same at the fast end of its range", 1e12, 1e-6,
     1e6, false, 1, MW_VALUE_LIST, AT(matmul_flops), FIXED},
    {"gpu", "matmul_forward_share", "",
     "multiple of matmul_tflops that products of forward reach, one a matmul_dim; default: 1", 1,
     0.01, 100, false, 0, MW_VALUE_LIST, AT(matmul_forward_share), FIXED},
    {"gpu", "matmul_input_share", "", "the same of those that give the gradient of an input", 1,
     0.01, 100, false, 0, MW_VALUE_LIST, AT(matmul_input_share), FIXED},
    {"gpu", "matmul_weight_share", "", "the same of those that give the gradient of weights", 1,
     0.01, 100, false, 0, MW_VALUE_LIST, AT(matmul_weight_share), FIXED},
    {"gpu", "attention_dim", "",
     "curve of attention: cube root of seq*seq*head_dim, rising; default: that of products", 1, 1,
     1e9, false, 0, MW_VALUE_LIST, AT(attention_dim), FIXED},
    {"gpu", "attention_tflops", "TFLOP/s",
     "rate of attention, counted whole although it is causal, one an attention_dim", 1e12, 1e-6,
     1e6, false, 1, MW_VALUE_LIST, AT(attention_flops), RATE(GPU, PRODUCTS)},
    {"gpu", "attention_tflops_low", "TFLOP/s", "the same at the slow end of its range", 1e12, 1e-6,
     1e6, false, 1, MW_VALUE_LIST, AT(attention_flops), FIXED},
    {"gpu", "attention_tflops_high", "TFLOP/s", "the same at the fast end of its range", 1e12, 1e-6,
     1e6, false, 1, MW_VALUE_LIST, AT(attention_flops), FIXED},
    {"gpu", "attention_forward_share", "",
     "multiple of attention_tflops, which is then of heads of 64, that forward reaches with heads "
     "of 64, 128 and 256 elements; default: heads of all sizes are on that curve by "
     "seq*seq*head_dim",
     1, 0.01, 100, false, 0, MW_VALUE_LIST, AT(attention_forward_share), FIXED},
    {"gpu", "attention_backward_share", "", "the same of backward", 1, 0.01, 100, false, 0,
     MW_VALUE_LIST, AT(attention_backward_share), FIXED},
    {"gpu", "launch_us", "us", "start of a kernel, not hidden", 1e-6, 0, 1e6, true, -1,
     MW_VALUE_REAL, AT(gpu_launch_s), FIXED},
    {"gpu", "collective_sm_share", "", "share of the multiprocessors that a collective takes", 1, 0,
     1, true, -1, MW_VALUE_REAL, AT(gpu_collective_sm_share), FIXED},
    {"gpu", "host_sm_share", "",
     "share of the device's compute that an update on the host takes, its cores being the "
     "device's; "
     "default 0",
     1, 0, 1, false, -1, MW_VALUE_REAL, AT(gpu_host_sm_share), FIXED},
    {"gpu", "copy_sm_share", "",
     "the same of a copy between host and device, each direction; default 0", 1, 0, 1, false, -1,
     MW_VALUE_REAL, AT(gpu_copy_sm_share), FIXED},
    {"gpu", "nvme_sm_share", "", "the same of a transfer from or to the drives; default 0", 1, 0, 1,
     false, -1, MW_VALUE_REAL, AT(gpu_nvme_sm_share), FIXED},
    {"gpu", "flash_attention", "", "attention never writes the score matrix", 1, 0, 1, true, 0,
     MW_VALUE_FLAG, AT(gpu_flash_attention), FIXED},
    {"gpu", "bf16", "", "bf16 products at full rate; else fp16", 1, 0, 1, true, 0, MW_VALUE_FLAG,
     AT(gpu_bf16), FIXED},

    {"pcie", "h2d_gb_per_s", "GB/s", "host to device, one GPU alone", 1e9, 0.001, 1e5, true, 1,
     MW_VALUE_REAL, AT(pcie_h2d_bytes_per_s), RATE(NONE, PCIE)},
    {"pcie", "d2h_gb_per_s", "GB/s", "device to host, one GPU alone", 1e9, 0.001, 1e5, true, 1,
     MW_VALUE_REAL, AT(pcie_d2h_bytes_per_s), RATE(NONE, PCIE)},
    {"pcie", "node_h2d_gb_per_s", "GB/s", "host to device, all GPUs of a node at once", 1e9, 0.001,
     1e6, true, 1, MW_VALUE_REAL, AT(pcie_node_h2d_bytes_per_s), RATE(NONE, PCIE)},
    {"pcie", "node_d2h_gb_per_s", "GB/s", "device to host, all GPUs of a node at once", 1e9, 0.001,
     1e6, true, 1, MW_VALUE_REAL, AT(pcie_node_d2h_bytes_per_s), RATE(NONE, PCIE)},
    {"pcie", "latency_us", "us", "start of a copy", 1e-6, 0, 1e6, true, -1, MW_VALUE_REAL,
     AT(pcie_latency_s), FIXED},

    {"host", "memory_gib", "GiB", "host memory of a node", GIB, 0.001, 1e6, true, 0, MW_VALUE_BYTES,
     AT(host_memory_bytes), OF(HOST_MEMORY)},
    {"host", "reserve_gib", "GiB", "operating system, data loader, page cache", GIB, 0, 1e6, true,
     0, MW_VALUE_BYTES, AT(host_reserve_bytes), FIXED},
    {"host", "largest_request_gib", "GiB", "largest pinned buffer; default: memory less reserve",
     GIB, 0.001, 1e6, false, 0, MW_VALUE_BYTES, AT(host_largest_request_bytes), OF(HOST_MEMORY)},
    {"host", "memory_gb_per_s", "GB/s", "achievable, reads and writes together", 1e9, 0.001, 1e5,
     true, 1, MW_VALUE_REAL, AT(host_memory_bytes_per_s), RATE(NONE, HOST)},
    {"host", "norm_gb_per_s", "GB/s",
     "what the gradient norm reaches of it on all cores; default: memory_gb_per_s", 1e9, 0.001, 1e5,
     false, 1, MW_VALUE_REAL, AT(host_norm_bytes_per_s), RATE(NONE, HOST)},
    {"host", "exact_sums_gb_per_s", "GB/s",
     "what exact sums of squares reach of it on all cores, as Adafactor's passes take them; "
     "default: norm_gb_per_s",
     1e9, 0.001, 1e5, false, 1, MW_VALUE_REAL, AT(host_exact_sums_bytes_per_s), RATE(NONE, HOST)},
    {"host", "checksum_gb_per_s", "GB/s",
     "what a core checks of what drives read and write; default: not a bound", 1e9, 0.001, 1e5,
     false, 1, MW_VALUE_REAL, AT(host_checksum_bytes_per_s), RATE(NONE, HOST)},
    {"host", "update_gparams_per_s", "10^9 parameters/s", "fused Adam on all cores of a node", 1e9,
     1e-4, 1e4, true, 1, MW_VALUE_REAL, AT(host_update_params_per_s), RATE(NONE, HOST)},

    {"host", "numa_nodes", "",
     "NUMA nodes of a node, each with its part of the memory; default: one, or not known", 1, 1,
     1024, false, 0, MW_VALUE_COUNT, AT(host_numa_nodes), FIXED},

    {"nvme", "capacity_tb", "TB", "usable, all drives of a node; 0: no drives", 1e12, 0, 1e6, true,
     0, MW_VALUE_BYTES, AT(nvme_capacity_bytes), OF(DRIVES)},
    {"nvme", "drives", "", "drives of a node, alike", 1, 0, 1024, true, 0, MW_VALUE_COUNT,
     AT(nvme_drives), OF(DRIVES)},
    {"nvme", "reserve_tb", "TB", "file system, free space kept", 1e12, 0, 1e6, true, 0,
     MW_VALUE_BYTES, AT(nvme_reserve_bytes), FIXED},
    {"nvme", "read_gb_per_s", "GB/s", "all drives of a node", 1e9, 0.001, 1e5, true, 1,
     MW_VALUE_REAL, AT(nvme_read_bytes_per_s), RATE(DRIVES, NVME)},
    {"nvme", "write_gb_per_s", "GB/s", "all drives of a node, sustained", 1e9, 0.001, 1e5, true, 1,
     MW_VALUE_REAL, AT(nvme_write_bytes_per_s), RATE(DRIVES, NVME)},
    {"nvme", "write_burst_gb_per_s", "GB/s",
     "all drives of a node until their cache is full; default: write_gb_per_s", 1e9, 0.001, 1e5,
     false, 1, MW_VALUE_REAL, AT(nvme_write_burst_bytes_per_s), RATE(DRIVES, NVME)},
    {"nvme", "cache_gb", "GB", "write cache, all drives; default 0", 1e9, 0, 1e9, false, 0,
     MW_VALUE_BYTES, AT(nvme_cache_bytes), OF(DRIVES)},
    {"nvme", "duplex", "", "1: reads and writes share the drives' time; 2: independent", 1, 1, 2,
     true, 1, MW_VALUE_REAL, AT(nvme_duplex), FIXED},
    {"nvme", "mixed_read_gb_per_s", "GB/s",
     "all drives of a node, reads while writes are as many; default: as duplex says", 1e9, 0.001,
     1e5, false, 1, MW_VALUE_REAL, AT(nvme_mixed_read_bytes_per_s), RATE(DRIVES, NVME)},
    {"nvme", "mixed_write_gb_per_s", "GB/s",
     "all drives of a node, writes while reads are as many; default: as duplex says", 1e9, 0.001,
     1e5, false, 1, MW_VALUE_REAL, AT(nvme_mixed_write_bytes_per_s), RATE(DRIVES, NVME)},
    {"nvme", "latency_us", "us", "of a request", 1e-6, 0, 1e6, true, -1, MW_VALUE_REAL,
     AT(nvme_latency_s), FIXED},
    {"nvme", "queue_depth", "", "requests in flight in one direction, all drives of a node", 1, 1,
     65536, true, 0, MW_VALUE_COUNT, AT(nvme_queue_depth), RATE(DRIVES, NVME)},
    {"nvme", "block_kib", "KiB", "bytes of a request; default 1024", 1024, 0.5, 1048576, false, 0,
     MW_VALUE_BYTES, AT(nvme_block_bytes), FIXED},
    {"nvme", "endurance_tbw", "TB", "rated bytes written, all drives; 0: not stated", 1e12, 0, 9e6,
     false, 0, MW_VALUE_BYTES, AT(nvme_endurance_bytes), OF(DRIVES)},
    {"nvme", "price_usd", "USD", "to replace all drives of a node; 0: not stated", 1, 0, 1e9, false,
     0, MW_VALUE_REAL, AT(nvme_price_usd), OF(DRIVES)},

    {"fabric", "gb_per_s", "GB/s", "between GPUs of a node: one GPU, each direction", 1e9, 0.001,
     1e6, true, 1, MW_VALUE_REAL, AT(fabric_bytes_per_s), RATE(NONE, FABRIC)},
    {"fabric", "latency_us", "us", "of a hop", 1e-6, 0, 1e6, true, -1, MW_VALUE_REAL,
     AT(fabric_latency_s), RATE(NONE, HOP)},
    {"fabric", "start_us", "us",
     "of a collective within a node, before its first hop; where given, algorithms and protocols "
     "are those of NCCL and latency_us is of a small message's hop; default: one ring",
     1e-6, 0, 1e6, false, -1, MW_VALUE_REAL, AT(fabric_start_s), RATE(NONE, HOP)},
    {"fabric", "all_reduce_gb_per_s", "GB/s",
     "of an all-reduce that the switch computes, as a ring would have to be; needs start_us; "
     "default: rings alone",
     1e9, 0.001, 1e6, false, 1, MW_VALUE_REAL, AT(fabric_all_reduce_bytes_per_s),
     RATE(NONE, FABRIC)},

    {"network", "gb_per_s", "GB/s", "between nodes: one node, each direction; 0: one node only",
     1e9, 0, 1e6, true, 1, MW_VALUE_REAL, AT(nic_bytes_per_s), RATE(NONE, NETWORK)},
    {"network", "latency_us", "us", "of a hop", 1e-6, 0, 1e6, true, -1, MW_VALUE_REAL,
     AT(nic_latency_s), RATE(NONE, HOP)},
    {"network", "start_us", "us",
     "of a collective over nodes, before its first hop; as fabric.start_us; default: one ring",
     1e-6, 0, 1e6, false, -1, MW_VALUE_REAL, AT(nic_start_s), RATE(NONE, HOP)},
    {"network", "gpu_gb_per_s", "GB/s",
     "between nodes: one GPU, by its own adapters; default: all of its node's", 1e9, 0.001, 1e6,
     false, 1, MW_VALUE_REAL, AT(nic_gpu_bytes_per_s), RATE(NONE, NETWORK)},
};

static const struct mw_profile_synonym synonyms[] = {
    {"cpu", "host"}, {"ram", "host"}, {"memory", "host"}, {NULL, NULL}};

const struct mw_profile_kind mw_hwprofile_kind = {
    .folder = "hwprofiles",
    .noun = "hardware profile",
    .set_prefix = "",
    .example = "nvme.read_gb_per_s=12.5",
    .keys = keys,
    .key_count = G_N_ELEMENTS(keys),
    .synonyms = synonyms,
    .needs = mw_hw_needs,
    .leaves_out = mw_hw_leaves_out,
    .goes_with = mw_hw_goes_with,
    .check = mw_hw_check,
};

const struct mw_profile_key *
mw_hw_keys(size_t *count)
{
    *count = G_N_ELEMENTS(keys);
    return keys;
}

const struct mw_profile_key *
mw_hw_key(const char *group, const char *key)
{
    return mw_profile_key(&mw_hwprofile_kind, group, key);
}
