/* Costs of works on a made-up machine, chosen so that the expected values are plain. */
#include <glib.h>
#include <math.h>

#include "plan/optimizers.h"
#include "sim/cost.h"
#include "sim/kernels.h"
#include "tests/comm_along.h"

#define GB INT64_C(1000000000)

static struct mw_hardware
machine(void)
{
    return (struct mw_hardware){.gpu_memory_bytes_per_s = 100e9,
                                .gpu_achievable_flops = 50e12,
                                .matmul_points = 3,
                                .matmul_dim = {100, 1000, 10000},
                                .matmul_flops = {10e12, 40e12, 80e12},
                                .gpu_launch_s = 1e-3,
                                .gpu_collective_sm_share = 0.125,
                                .pcie_h2d_bytes_per_s = 10e9,
                                .pcie_d2h_bytes_per_s = 5e9,
                                .pcie_node_h2d_bytes_per_s = 20e9,
                                .pcie_node_d2h_bytes_per_s = 20e9,
                                .pcie_latency_s = 2e-3,
                                .host_memory_bytes_per_s = 80e9,
                                .host_update_params_per_s = 4e9,
                                .nvme_read_bytes_per_s = 16e9,
                                .nvme_write_bytes_per_s = 8e9,
                                .nvme_duplex = 1.25,
                                .nvme_latency_s = 3e-3,
                                .fabric_bytes_per_s = 100e9,
                                .fabric_latency_s = 1e-3,
                                .nic_bytes_per_s = 10e9,
                                .nic_latency_s = 4e-3};
}

struct bench {
    struct mw_hardware hardware;
    struct mw_plan *plan;
    struct mw_work work;
    uint32_t channel[MW_CHANNEL_KIND_COUNT];
};

/* One channel of each kind; those of a node have `users`. */
static struct bench
bench_new(enum mw_op_kind kind, uint32_t users)
{
    struct bench b = {.hardware = machine(), .plan = mw_plan_new("cost")};

    b.work = (struct mw_work){.kind = (uint8_t)kind, .comm = MW_NONE};
    for (int i = 0; i < MW_CHANNEL_KIND_COUNT; i++) {
        bool own = i <= MW_CHANNEL_PCIE_D2H || i == MW_CHANNEL_FABRIC;
        b.channel[i] = mw_plan_add_channel(
            b.plan, (struct mw_channel){.kind = (uint8_t)i, .users = own ? 1 : users});
    }
    return b;
}

/* Seconds of the work with one draw, or none (amount 0); the plan keeps the work. */
static double
price(struct bench *b, enum mw_channel_kind kind, int64_t amount)
{
    struct mw_draw draw = {b->channel[kind], 1, amount};
    uint32_t work = mw_plan_add_work(b->plan, b->work, &draw, amount > 0);

    return mw_cost_work_s(b->plan, &b->plan->works[work], &b->hardware);
}

static void
assert_s(double actual, double expected)
{
    g_assert_cmpfloat_with_epsilon(actual, expected, 1e-12 * fmax(1, fabs(expected)));
}

static void
test_matmul_curve(void)
{
    struct mw_hardware hardware = machine();

    assert_s(mw_kernel_products_curve(&hardware, 1) * 1e-12, 10);
    assert_s(mw_kernel_products_curve(&hardware, 100) * 1e-12, 10);
    assert_s(mw_kernel_products_curve(&hardware, sqrt(100.0 * 1000)) * 1e-12, 25);
    assert_s(mw_kernel_products_curve(&hardware, 1000) * 1e-12, 40);
    assert_s(mw_kernel_products_curve(&hardware, sqrt(1000.0 * 10000)) * 1e-12, 60);
    assert_s(mw_kernel_products_curve(&hardware, 1e9) * 1e-12, 80);
    hardware.matmul_points = 1;
    assert_s(mw_kernel_products_curve(&hardware, 1e9) * 1e-12, 10);
    hardware.matmul_points = 0;
    assert_s(mw_kernel_products_curve(&hardware, 1e9) * 1e-12, 50);
}

static void
test_compute(void)
{
    struct bench b = bench_new(MW_OP_COMPUTE, 1);

    b.work.flops = INT64_C(20000000000000);
    b.work.products[0] = (struct mw_work_product){100, 100, 100, 10000000, MW_DTYPE_BF16, 0};
    b.work.product_count = 1;
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 2);
    b.work.bytes = 50 * GB;
    b.work.launches = 3;
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 2 + 0.5 + 0.003);
    b.work.products[0].dtype = MW_DTYPE_FP32;
    b.hardware.gpu_peak_flops = 100e12;
    b.hardware.gpu_fp32_flops = 50e12;
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 4 + 0.5 + 0.003);
    b.work.product_count = 0;
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 0.503);
    mw_plan_free(b.plan);
}

/* Products that are no cubes have the rate of one with as many FLOPs, the cube root of m·n·k; on
 * cores what their matrices have beyond its three is moved at 100 GB/s. */
static void
test_thin_products(void)
{
    struct bench b = bench_new(MW_OP_COMPUTE, 1);
    const double beyond_gb = 1e-9 * (5000 * 10 + 10 * 20 + 5000 * 20 - 3 * 100 * 100) * 1000000;

    b.work.flops = INT64_C(2000000000000);
    b.work.products[0] = (struct mw_work_product){5000, 20, 10, 1000000, MW_DTYPE_BF16, 0};
    b.work.product_count = 1;
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 0.2);
    b.hardware.gpu_is_cores = true;
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 0.2 + 2 * beyond_gb / 100);
    b.work.products[0].dtype = MW_DTYPE_FP32;
    b.hardware.gpu_peak_flops = 100e12;
    b.hardware.gpu_fp32_flops = 50e12;
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 0.4 + 4 * beyond_gb / 100);
    mw_plan_free(b.plan);
}

/* The rank that others wait for has 8 times the rows: twice the size on the curve, and its weights
 * are moved once.  Gradients of weights are sums over rows. */
static void
test_fullest(void)
{
    struct bench b = bench_new(MW_OP_COMPUTE, 1);
    const double rate = 10 + 30 * log10(2), beyond = 40000 * 10 + 10 * 20 + 40000 * 20 - 3 * 4e4;
    struct mw_work_product *product = &b.work.products[0];

    b.hardware.gpu_is_cores = true;
    b.work.flops = INT64_C(2000000000000);
    b.work.product_count = 1;
    b.work.bytes = GB;
    b.work.launches = 3;
    b.work.fullest = 8;
    *product = (struct mw_work_product){5000, 20, 10, 1000000, MW_DTYPE_BF16, MW_PRODUCT_OF_RESULT};
    double seconds = 16 / rate + 2e-3 * beyond / 100 + 8 * 0.01 + 0.003;
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), seconds);
    *product =
        (struct mw_work_product){20, 10, 5000, 1000000, MW_DTYPE_BF16, MW_PRODUCT_OF_WEIGHTS};
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), seconds);
    product->of = MW_PRODUCT_OF_INPUT; /* then the 20 are the rows */
    double thin = 160 * 5000 + 10 * 5000 + 160 * 10 - 3 * 4e4;
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), seconds + 2e-3 * (thin - beyond) / 100);
    mw_plan_free(b.plan);
}

static void
test_copies(void)
{
    struct bench b = bench_new(MW_OP_H2D, 4);

    b.work.bytes = 10 * GB;
    assert_s(price(&b, MW_CHANNEL_PCIE_H2D, 10 * GB), 1.002);
    assert_s(price(&b, MW_CHANNEL_NODE_H2D, 10 * GB), 2); /* a quarter of the node's 20 GB/s */
    b.work.kind = MW_OP_D2H;
    assert_s(price(&b, MW_CHANNEL_PCIE_D2H, 10 * GB), 2.002);
    mw_plan_free(b.plan);
}

/* Software may send gradients wider than they are made, and no faster than it copies: those on
 * their way home, and those that an update on the host fetches from the GPU, where sums are wide
 * already. */
static void
test_gradients_to_host(void)
{
    struct bench b = bench_new(MW_OP_D2H, 1);
    struct mw_work sum = {.kind = MW_OP_ACCUMULATE, .comm = MW_NONE};

    b.plan->shape.dtype = MW_DTYPE_BF16;
    b.work.bytes = 10 * GB;
    for (int object = 0; object < MW_OBJECT_COUNT; object++) {
        bool gradients = object == MW_OBJECT_GRADIENTS || object == MW_OBJECT_STATE;
        b.work.object = (uint8_t)object;
        b.hardware.gradient_link_bytes = 4;
        assert_s(price(&b, MW_CHANNEL_PCIE_D2H, 10 * GB), gradients ? 4.002 : 2.002);
        assert_s(price(&b, MW_CHANNEL_DRAM, 800 * GB), gradients ? 20 : 10);
        b.hardware.gradient_link_bytes = 0;
        b.hardware.gradient_copy_bytes_per_s = 1e9;
        assert_s(price(&b, MW_CHANNEL_PCIE_D2H, 10 * GB), gradients ? 10.002 : 2.002);
        b.work.kind = MW_OP_H2D; /* on its way back */
        assert_s(price(&b, MW_CHANNEL_PCIE_H2D, 10 * GB), 1.002);
        b.work.kind = MW_OP_D2H;
        b.hardware.gradient_copy_bytes_per_s = 0;
    }
    b.hardware.gradient_link_bytes = 4;
    b.work.object = MW_OBJECT_STATE;
    mw_plan_add_work(b.plan, sum, NULL, 0);
    assert_s(price(&b, MW_CHANNEL_PCIE_D2H, 10 * GB), 2.002);
    b.work.object = MW_OBJECT_GRADIENTS;
    assert_s(price(&b, MW_CHANNEL_PCIE_D2H, 10 * GB), 4.002);
    mw_plan_free(b.plan);
}

static void
test_drives(void)
{
    struct bench b = bench_new(MW_OP_NVME_READ, 4);

    b.work.bytes = 8 * GB;
    assert_s(price(&b, MW_CHANNEL_DRIVE, 8 * GB), 2.003); /* a quarter of 16 GB/s */
    assert_s(price(&b, MW_CHANNEL_DRIVE, 2 * GB), 0.503); /* an owner alone: a quarter drawn */
    assert_s(price(&b, MW_CHANNEL_DRIVE, 0), 0.503);      /* no channel, no sharing */
    assert_s(price(&b, MW_CHANNEL_DRAM, 80 * GB), 4.003);
    b.work.kind = MW_OP_NVME_WRITE;
    assert_s(price(&b, MW_CHANNEL_DRIVE, 8 * GB), 4.003);
    mw_plan_free(b.plan);
}

/* Blocks in flight over the latency limit the drives' rate: with 4 of 3 MB in 3 ms, 4 GB/s. */
static void
test_queue(void)
{
    static const struct {
        int64_t depth, bytes;
        double alone_s, shared_s; /* by four ranks */
    } rows[] = {
        {4, 8 * GB, 2, 8},
        {1, 8 * GB, 8, 32},
        {1000, 8 * GB, 0.503, 2.003},
        /* One latency, though the queue is half full; 1.5 ms of it are in the queue's rate. */
        {4, 6000000, 0.003375, 0.001875 + 0.006},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        struct bench b = bench_new(MW_OP_NVME_READ, 4);
        b.hardware.nvme_queue_depth = rows[i].depth;
        b.hardware.nvme_block_bytes = 3000000;
        b.work.bytes = rows[i].bytes;
        assert_s(price(&b, MW_CHANNEL_DRIVE, 0), rows[i].alone_s);
        assert_s(price(&b, MW_CHANNEL_DRIVE, rows[i].bytes), rows[i].shared_s);
        b.hardware.nvme_latency_s = 0;
        assert_s(price(&b, MW_CHANNEL_DRIVE, 0), (double)rows[i].bytes / 16e9);
        mw_plan_free(b.plan);
    }
}

/* A rank checks what it reads and writes: no faster than that, however many drives there are. */
static void
test_checked(void)
{
    struct bench b = bench_new(MW_OP_NVME_READ, 4);

    b.work.bytes = 8 * GB;
    b.hardware.host_checksum_bytes_per_s = 8e9; /* half of the drives' */
    assert_s(price(&b, MW_CHANNEL_DRIVE, 0), 1.003);
    assert_s(price(&b, MW_CHANNEL_DRIVE, 8 * GB), 2.003); /* the drives are four ranks' */
    b.hardware.host_checksum_bytes_per_s = 1e9;
    assert_s(price(&b, MW_CHANNEL_DRIVE, 8 * GB), 8.003);
    b.work.kind = MW_OP_NVME_WRITE;
    assert_s(price(&b, MW_CHANNEL_DRIVE, 0), 8.003);
    b.work.kind = MW_OP_H2D;
    g_assert_cmpfloat(price(&b, MW_CHANNEL_PCIE_H2D, 0), <, 2);
    mw_plan_free(b.plan);
}

static void
test_host(void)
{
    struct bench b = bench_new(MW_OP_UPDATE, 2);

    b.work.elements = 2 * GB;
    b.work.bytes = 56 * GB;
    b.work.host = true;
    assert_s(price(&b, MW_CHANNEL_DRAM, 1), 0.5);
    assert_s(price(&b, MW_CHANNEL_CORES, 2 * GB), 1);   /* half of the cores */
    assert_s(price(&b, MW_CHANNEL_DRAM, 56 * GB), 1.4); /* DRAM is slower than the cores */
    b.work.host = false;
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 0.56);
    b.work.kind = MW_OP_ACCUMULATE;
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 0.56);
    b.work.host = true;
    assert_s(price(&b, MW_CHANNEL_DRAM, 56 * GB), 1.4);
    b.hardware.host_norm_bytes_per_s = 40e9; /* half of the memory's */
    assert_s(price(&b, MW_CHANNEL_DRAM, 56 * GB), 1.4);
    b.work.kind = MW_OP_NORM;
    assert_s(price(&b, MW_CHANNEL_DRAM, 0), 1.4);
    assert_s(price(&b, MW_CHANNEL_DRAM, 56 * GB), 2.8);
    b.work.host = false;
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 0.56);
    b.work.host = true;
    b.work.kind = MW_OP_COMMIT;
    assert_s(price(&b, MW_CHANNEL_DRAM, 0), 0.003);
    b.work.bytes = 0;
    assert_s(price(&b, MW_CHANNEL_DRAM, 0), 0);
    mw_plan_free(b.plan);
}

/* Of so many ranks, so many of them in a node, beside sibling groups. */
static struct mw_comm
sized(struct bench *b, uint32_t size, uint32_t per_node, uint32_t groups)
{
    b->plan->world_ranks = size * groups;
    b->plan->ranks_per_node = per_node * groups;
    return comm_along(size, groups);
}

static double
price_collective(struct bench *b, enum mw_op_kind kind, struct mw_comm comm)
{
    b->work.kind = (uint8_t)kind;
    b->work.comm = mw_plan_add_comm(b->plan, comm);
    return price(b, MW_CHANNEL_SM, 0);
}

static void
test_collectives_in_a_node(void)
{
    struct bench b = bench_new(MW_OP_ALL_GATHER, 8);
    struct mw_comm eight = sized(&b, 8, 8, 1);

    b.work.bytes = 80 * GB;
    assert_s(price_collective(&b, MW_OP_ALL_GATHER, eight), 0.7 + 0.007);
    assert_s(price_collective(&b, MW_OP_REDUCE_SCATTER, eight), 0.7 + 0.007);
    assert_s(price_collective(&b, MW_OP_ALL_REDUCE, eight), 1.4 + 0.014);
    assert_s(price_collective(&b, MW_OP_BROADCAST, eight), 0.8 + 0.003);
    assert_s(price_collective(&b, MW_OP_SEND, eight), 0.8 + 0.001);
    assert_s(price_collective(&b, MW_OP_ALL_GATHER, sized(&b, 1, 8, 1)), 0);
    mw_plan_free(b.plan);
}

/* Software may clear and copy in the GPU's memory what it gathers and reduces, but for others. */
static void
test_passes_around_collectives(void)
{
    struct bench b = bench_new(MW_OP_ALL_GATHER, 8);
    struct mw_comm eight = sized(&b, 8, 8, 1);

    b.work.bytes = 80 * GB;
    b.hardware.gather_passes = 3;
    b.hardware.reduce_passes = 5;
    assert_s(price_collective(&b, MW_OP_ALL_GATHER, eight), 0.707);
    b.work.object = MW_OBJECT_PARAMETERS;
    assert_s(price_collective(&b, MW_OP_ALL_GATHER, eight), 0.707 + 2.4);
    assert_s(price_collective(&b, MW_OP_ALL_GATHER, sized(&b, 1, 8, 1)), 0);
    b.work.object = MW_OBJECT_GRADIENTS;
    assert_s(price_collective(&b, MW_OP_REDUCE_SCATTER, eight), 0.707 + 4);
    assert_s(price_collective(&b, MW_OP_ALL_REDUCE, eight), 1.414 + 4);
    mw_plan_free(b.plan);
}

/* Ranks wait for the slowest GPU: the mean of the largest of many draws says how slow it is. */
static void
test_slowest(void)
{
    static const int gpus[] = {1, 2, 3, 8, 100, 512};
    const int rounds = 4000;
    struct mw_hardware hardware = machine();
    g_autoptr(GRand) draws = g_rand_new_with_seed(1);

    assert_s(mw_kernel_slowest_share(&hardware, 512), 1);
    hardware.gpus_differ = 0.02;
    assert_s(mw_kernel_slowest_share(&hardware, 1), 1);
    for (size_t i = 0; i < G_N_ELEMENTS(gpus); i++) {
        double sum = 0;
        for (int round = 0; round < rounds; round++) {
            double largest = -INFINITY;
            for (int g = 0; g < gpus[i]; g++) {
                double around = sqrt(-2 * log(1 - g_rand_double(draws)));
                largest = fmax(largest, around * cos(2 * G_PI * g_rand_double(draws)));
            }
            sum += 1 + hardware.gpus_differ * largest;
        }
        g_assert_cmpfloat_with_epsilon(1 / mw_kernel_slowest_share(&hardware, gpus[i]),
                                       sum / rounds, 0.0015);
    }
    g_assert_cmpfloat(mw_kernel_slowest_share(&hardware, 1e9), >, 0.9);
}

/* It slows products alone, in every plan whose world has more than one rank. */
static void
test_slowest_computes(void)
{
    struct bench b = bench_new(MW_OP_COMPUTE, 1);

    b.work.flops = INT64_C(20000000000000);
    b.work.products[0] = (struct mw_work_product){100, 100, 100, 10000000, MW_DTYPE_BF16, 0};
    b.work.product_count = 1;
    b.work.bytes = 50 * GB;
    b.hardware.gpus_differ = 0.02;
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 2.5);
    mw_plan_set_world(b.plan, 8, 8, true);
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 2 / mw_kernel_slowest_share(&b.hardware, 8) + 0.5);
    mw_plan_free(b.plan);
}

static void
test_collectives_between_nodes(void)
{
    struct bench b = bench_new(MW_OP_ALL_GATHER, 8);

    b.work.bytes = 80 * GB;
    /* Four nodes, 3/4 of the bytes pass a NIC; alone, or beside seven sibling groups. */
    assert_s(price_collective(&b, MW_OP_ALL_GATHER, sized(&b, 32, 8, 1)),
             6 + 3 * 0.004 + 7 * 0.001);
    assert_s(price_collective(&b, MW_OP_ALL_GATHER, sized(&b, 4, 1, 8)), 48 + 3 * 0.004);
    assert_s(price_collective(&b, MW_OP_ALL_REDUCE, sized(&b, 4, 1, 8)), 96 + 6 * 0.004);
    assert_s(price_collective(&b, MW_OP_BROADCAST, sized(&b, 32, 8, 1)), 8 + 2 * 0.004 + 3 * 0.001);
    assert_s(price_collective(&b, MW_OP_SEND, sized(&b, 2, 1, 1)), 8.004);
    b.hardware.fabric_bytes_per_s = 1e9; /* now the slower stretch */
    assert_s(price_collective(&b, MW_OP_ALL_GATHER, sized(&b, 32, 8, 1)),
             77.5 + 3 * 0.004 + 7 * 0.001);
    mw_plan_free(b.plan);
}

/* A folded rank's share of the NIC and the ring's own time are the same thing, counted once. */
static void
test_nic_is_counted_once(void)
{
    struct bench b = bench_new(MW_OP_ALL_GATHER, 8);
    struct mw_draw draw = {b.channel[MW_CHANNEL_NIC], 1, 60 * GB / 8};
    uint32_t work;

    b.hardware.nic_latency_s = b.hardware.fabric_latency_s = 0;
    b.work.bytes = 80 * GB;
    b.work.comm = mw_plan_add_comm(b.plan, sized(&b, 32, 8, 1));
    work = mw_plan_add_work(b.plan, b.work, &draw, 1);
    assert_s(mw_cost_work_s(b.plan, &b.plan->works[work], &b.hardware), 6);
    mw_plan_free(b.plan);
}

/* Draws follow the algorithm: a flat ring passes 31/32 of the tensor between nodes, and what the
 * switch adds up does not make the op longer by a ring's bytes. */
static void
test_draws_by_protocol(void)
{
    struct bench b = bench_new(MW_OP_ALL_GATHER, 8);

    b.hardware.nic_latency_s = b.hardware.fabric_latency_s = 0;
    b.hardware.fabric_start_s = b.hardware.nic_start_s = 1e-15;
    b.hardware.fabric_all_reduce_bytes_per_s = 200e9;
    b.work.bytes = 80 * GB;
    b.work.comm = mw_plan_add_comm(b.plan, sized(&b, 32, 8, 1));
    assert_s(price(&b, MW_CHANNEL_NIC, 60 * GB / 8), 7.75);
    b.work.kind = MW_OP_ALL_REDUCE;
    b.work.comm = mw_plan_add_comm(b.plan, sized(&b, 8, 8, 1));
    assert_s(price(&b, MW_CHANNEL_FABRIC, 140 * GB), 0.7);
    b.work.comm = mw_plan_add_comm(b.plan, sized(&b, 32, 4, 2)); /* slices over nodes */
    assert_s(price(&b, MW_CHANNEL_NIC, 0), 2 * 77.5 / 5);
    mw_plan_free(b.plan);
}

static void
test_draw_rates(void)
{
    struct bench b = bench_new(MW_OP_ALL_GATHER, 4);
    struct mw_draw draws[] = {{b.channel[MW_CHANNEL_SM], 1, 1000000},
                              {b.channel[MW_CHANNEL_FABRIC], 1, 35 * GB}};
    struct mw_costs costs;

    b.work.bytes = 40 * GB;
    b.work.comm = mw_plan_add_comm(b.plan, sized(&b, 8, 8, 1));
    mw_plan_add_work(b.plan, b.work, draws, 2);
    b.work = (struct mw_work){.kind = MW_OP_NVME_WRITE, .comm = MW_NONE};
    b.work.bytes = 8 * GB;
    price(&b, MW_CHANNEL_DRIVE, 8 * GB);
    b.work = (struct mw_work){.kind = MW_OP_COMPUTE, .comm = MW_NONE, .bytes = 100 * GB};
    price(&b, MW_CHANNEL_SM, 1000000);
    mw_costs_init(&costs, b.plan, &b.hardware);

    g_assert_cmpint(costs.work_ns[0], ==, 357000000);
    assert_s(costs.draw_rate[0], 0.125);
    assert_s(costs.draw_rate[1], 35e9 / 357e6);
    g_assert_cmpint(costs.lead_ns[0], ==, 0);
    g_assert_cmpint(costs.work_ns[1], ==, 4003000000);
    g_assert_cmpint(costs.lead_ns[1], ==, 3000000);
    assert_s(costs.draw_rate[2] * 1e9, 1 / 4.0); /* of the drives, in seconds a ns */
    assert_s(costs.draw_rate[3], 1);
    assert_s(costs.capacity[b.channel[MW_CHANNEL_SM]], 1);
    assert_s(costs.capacity[b.channel[MW_CHANNEL_FABRIC]], 100);
    assert_s(costs.capacity[b.channel[MW_CHANNEL_DRAM]], 20);
    assert_s(costs.capacity[b.channel[MW_CHANNEL_DRIVE]] * 1e9, 1.25 / 4);
    assert_s(costs.one_way[b.channel[MW_CHANNEL_DRIVE]], 0.8);
    assert_s(costs.one_way[b.channel[MW_CHANNEL_DRAM]], 1);
    mw_costs_clear(&costs);
    mw_plan_free(b.plan);
}

/* Rates of both directions at once are parts of the rates alone.  Parts of less than 1 together go
 * to the line of taking turns; a short queue leaves the drives time for the other direction. */
static void
test_mixed(void)
{
    struct mw_hardware hw = {
        .nvme_read_bytes_per_s = 10e9, .nvme_write_bytes_per_s = 5e9, .nvme_duplex = 1.5};

    g_assert_cmpfloat(mw_cost_drives_mixed(&hw).read, ==, 0);
    hw.nvme_mixed_read_bytes_per_s = 8e9;
    hw.nvme_mixed_write_bytes_per_s = 2e9;
    assert_s(mw_cost_drives_mixed(&hw).read, 0.8);
    assert_s(mw_cost_drives_mixed(&hw).write, 0.4);
    hw.nvme_mixed_read_bytes_per_s = 4e9;
    assert_s(mw_cost_drives_mixed(&hw).read, 0.5);
    assert_s(mw_cost_drives_mixed(&hw).write, 0.5);
    hw.nvme_latency_s = 1e-3;
    hw.nvme_queue_depth = 4;
    hw.nvme_block_bytes = 500000; /* 2 GB/s */
    assert_s(mw_cost_drives_mixed(&hw).read, 1);
    assert_s(mw_cost_drives_mixed(&hw).write, 1);
}

/* Of the multiprocessors: whole for what runs on them, the profile's part for what runs beside. */
static void
test_shared_cores(void)
{
    static const struct {
        enum mw_op_kind kind;
        bool host;
        double share;
    } cases[] = {
        {MW_OP_COMPUTE, false, 1},       {MW_OP_UPDATE, false, 1},
        {MW_OP_UPDATE, true, 0.5},       {MW_OP_NORM, true, 0.5},
        {MW_OP_ACCUMULATE, true, 0.5},   {MW_OP_ACCUMULATE, false, 1},
        {MW_OP_H2D, false, 0.25},        {MW_OP_D2H, false, 0.25},
        {MW_OP_NVME_READ, false, 0.375}, {MW_OP_NVME_WRITE, false, 0.375},
    };
    struct bench b = bench_new(MW_OP_COMPUTE, 1);
    struct mw_costs costs;

    b.hardware.gpu_host_sm_share = 0.5;
    b.hardware.gpu_copy_sm_share = 0.25;
    b.hardware.gpu_nvme_sm_share = 0.375;
    b.hardware.pcie_latency_s = b.hardware.nvme_latency_s = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        b.work = (struct mw_work){.kind = (uint8_t)cases[i].kind,
                                  .host = cases[i].host,
                                  .comm = MW_NONE,
                                  .bytes = GB,
                                  .elements = GB};
        price(&b, MW_CHANNEL_SM, 1000000);
    }
    mw_costs_init(&costs, b.plan, &b.hardware);
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
        assert_s(costs.draw_rate[i], cases[i].share);
    mw_costs_clear(&costs);
    mw_plan_free(b.plan);
}

/* Two ranks of a node do the same, each with half of what all cores, the links and the drives do in
 * a second: it holds its own cores for twice the time. */
static void
test_cores_of_ranks(void)
{
    static const struct {
        enum mw_op_kind kind;
        enum mw_channel_kind channel;
        double share;
    } cases[] = {{MW_OP_UPDATE, MW_CHANNEL_CORES, 0.5},
                 {MW_OP_H2D, MW_CHANNEL_NODE_H2D, 0.25},
                 {MW_OP_NVME_READ, MW_CHANNEL_DRIVE, 0.375}};

    for (size_t i = 0; i < 2 * G_N_ELEMENTS(cases); i++) {
        const uint32_t users = i % 2 + 1;
        struct bench b = bench_new(MW_OP_COMPUTE, users);
        enum mw_op_kind kind = cases[i / 2].kind;
        const struct mw_draw draws[] = {{b.channel[cases[i / 2].channel], 1, 16 * GB},
                                        {b.channel[MW_CHANNEL_SM], 1, 1000000}};
        struct mw_costs costs;

        b.hardware.gpu_host_sm_share = 0.5;
        b.hardware.gpu_copy_sm_share = 0.25;
        b.hardware.gpu_nvme_sm_share = 0.375;
        b.hardware.pcie_latency_s = b.hardware.nvme_latency_s = 0;
        b.hardware.pcie_node_h2d_bytes_per_s = b.hardware.pcie_h2d_bytes_per_s;
        b.hardware.nvme_duplex = 1;
        b.work =
            (struct mw_work){.kind = (uint8_t)kind, .host = kind == MW_OP_UPDATE, .comm = MW_NONE};
        b.work.bytes = 16 * GB * (b.work.host ? 28 : 1);
        b.plan->ranks_per_node = users;
        mw_plan_add_work(b.plan, b.work, draws, 2);
        mw_costs_init(&costs, b.plan, &b.hardware);
        assert_s(1e-9 * (double)costs.work_ns[0], users * (kind == MW_OP_UPDATE ? 4.0
                                                           : kind == MW_OP_H2D  ? 1.6
                                                                                : 1.0));
        assert_s(costs.draw_rate[1], cases[i / 2].share);
        mw_costs_clear(&costs);
        mw_plan_free(b.plan);
    }
}

/* Half of a collective's time is latency, in which cores sleep: where the host's are the device's.
 * Multiprocessors of a GPU look for their peers all the while. */
static void
test_cores_in_collective(void)
{
    struct bench b = bench_new(MW_OP_ALL_GATHER, 8);
    struct mw_draw draw = {b.channel[MW_CHANNEL_SM], 1, 1000000};

    b.hardware.fabric_latency_s = 0.1;
    b.work.bytes = 80 * GB;
    b.work.comm = mw_plan_add_comm(b.plan, sized(&b, 8, 8, 1));
    mw_plan_add_work(b.plan, b.work, &draw, 1);
    for (int shared = 0; shared < 2; shared++) {
        struct mw_costs costs;

        b.hardware.gpu_host_sm_share = 0.5 * shared;
        mw_costs_init(&costs, b.plan, &b.hardware);
        g_assert_cmpint(costs.work_ns[0], ==, 1400000000);
        assert_s(costs.draw_rate[0], shared ? 0.0625 : 0.125);
        mw_costs_clear(&costs);
    }
    mw_plan_free(b.plan);
}

/* Of all cores, by an op that waits for half of its time: a latency as long as its bytes take. */
static void
test_cores_in_latency(void)
{
    struct bench b = bench_new(MW_OP_COMPUTE, 1);
    struct mw_costs costs;

    b.hardware.gpu_copy_sm_share = 0.25;
    b.hardware.pcie_h2d_bytes_per_s = 1e9;
    b.hardware.pcie_latency_s = 1;
    b.work = (struct mw_work){.kind = MW_OP_H2D, .comm = MW_NONE, .bytes = GB};
    price(&b, MW_CHANNEL_SM, 1000000);
    mw_costs_init(&costs, b.plan, &b.hardware);
    assert_s(costs.draw_rate[0], 0.125);
    mw_costs_clear(&costs);
    mw_plan_free(b.plan);
}

/* Norms and their like at a rate of their own; what streams at the memory's. */
static void
test_operators(void)
{
    struct bench b = bench_new(MW_OP_COMPUTE, 1);

    b.work.bytes = 100 * GB;
    b.work.operator_ = MW_OPERATOR_NORM1;
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 1);
    b.hardware.gpu_operator_bytes_per_s = 25e9;
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 4);
    b.work.operator_ = MW_OPERATOR_LOSS;
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 1);
    b.hardware.gpu_loss_bytes_per_s = 200e9;
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 0.5);
    b.work.kind = MW_OP_UPDATE;
    b.work.operator_ = MW_OPERATOR_NONE;
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 1);
    mw_plan_free(b.plan);
}

static void
test_attention_curve(void)
{
    struct bench b = bench_new(MW_OP_COMPUTE, 1);

    b.work.flops = 40000 * GB;
    b.work.products[0] = (struct mw_work_product){1000, 1000, 1000, 20000, MW_DTYPE_BF16, 0};
    b.work.product_count = 1;
    b.work.attention = (struct mw_work_attention){1000, 1000, 8, 8, 1000, 1000, 0, 1};
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 1);
    b.hardware.attention_points = 2;
    b.hardware.attention_dim[0] = 100;
    b.hardware.attention_dim[1] = 10000;
    b.hardware.attention_flops[0] = 4e12;
    b.hardware.attention_flops[1] = 12e12;
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 5);
    b.work.attention.window = 1; /* the curve ends at size 100 */
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 10);
    b.work.attention.heads = 0;
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 1);
    mw_plan_free(b.plan);
}

/* Products of a curve by what they give: the share at the first one's size, between sizes over the
 * logarithm. */
static void
test_directions(void)
{
    struct bench b = bench_new(MW_OP_COMPUTE, 1);
    struct mw_work_product *p = b.work.products;
    struct mw_hardware *hw = &b.hardware;

    b.work.flops = 80000 * GB;
    p[0] = (struct mw_work_product){1000, 1000, 1000, 20000, MW_DTYPE_BF16, MW_PRODUCT_OF_INPUT};
    p[1] = (struct mw_work_product){1000, 1000, 1000, 20000, MW_DTYPE_BF16, MW_PRODUCT_OF_WEIGHTS};
    b.work.product_count = 2;
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 2);
    for (int i = 0; i < 3; i++) {
        hw->matmul_forward_share[i] = 4;
        hw->matmul_input_share[i] = i == 0 ? 1 : 2;
        hw->matmul_weight_share[i] = 0.5;
    }
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 1 / 2.0 + 1 / 0.5);
    p[0].of = MW_PRODUCT_OF_RESULT;
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 1 / 4.0 + 1 / 0.5);
    b.work.product_count = 1;
    b.work.flops = 40000 * GB;
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 1 / 4.0);
    assert_s(mw_kernel_direction_share(hw, MW_PRODUCT_OF_INPUT, sqrt(100.0 * 1000)), 1.5);
    assert_s(mw_kernel_direction_share(hw, MW_PRODUCT_OF_INPUT, 1), 1);
    mw_plan_free(b.plan);
}

/* 1 / share is a straight line over 1 / head size: of 1, 2 and 2.5 at 64, 128 and 256 it is 1, 1/2
 * and 2/5. */
static void
test_heads(void)
{
    struct bench b = bench_new(MW_OP_COMPUTE, 1);
    struct mw_hardware *hw = &b.hardware;

    hw->attention_points = 2;
    hw->attention_dim[0] = 100;
    hw->attention_dim[1] = 10000;
    hw->attention_flops[0] = 4e12;
    hw->attention_flops[1] = 12e12;
    g_assert_cmpint(mw_kernel_curve_head_dim(hw, 80), ==, 80);
    assert_s(mw_kernel_heads_share(hw, 80, false), 1);
    for (int head = 0; head < MW_ATTENTION_HEADS; head++) {
        hw->attention_forward_share[head] = head == 0 ? 1 : head == 1 ? 2 : 2.5;
        hw->attention_backward_share[head] = 0.5;
    }
    g_assert_cmpint(mw_kernel_curve_head_dim(hw, 80), ==, 64);
    assert_s(mw_kernel_heads_share(hw, 64, false), 1);
    assert_s(mw_kernel_heads_share(hw, 128, false), 2);
    assert_s(mw_kernel_heads_share(hw, 96, false), 1 / (1 - 0.5 * 2 / 3));
    assert_s(mw_kernel_heads_share(hw, 192, false), 1 / (0.5 - 0.1 * 2 / 3));
    assert_s(mw_kernel_heads_share(hw, 32, false), 0.5);
    assert_s(mw_kernel_heads_share(hw, 512, false), 2.5);
    assert_s(mw_kernel_heads_share(hw, 32, true), 0.5);
    hw->attention_backward_share[1] = 0.25; /* slower with larger heads: smaller ones as those */
    assert_s(mw_kernel_heads_share(hw, 32, true), 0.5);
    b.work.flops = 40000 * GB;
    b.work.products[0] = (struct mw_work_product){1000, 1000, 128, 156250, MW_DTYPE_BF16, 0};
    b.work.product_count = 1;
    b.work.attention = (struct mw_work_attention){1000, 1000, 8, 8, 128, 128, 0, 1};
    double size = mw_kernel_size(1000, 1000, 64);
    assert_s(price(&b, MW_CHANNEL_SM, 1000000), 40e12 / 2 / mw_kernel_attention_curve(hw, size));
    mw_plan_free(b.plan);
}

static int64_t
first_work_ns(struct bench *b)
{
    struct mw_costs costs;
    int64_t ns;

    mw_plan_add_work(b->plan, b->work, NULL, 0);
    mw_costs_init(&costs, b->plan, &b->hardware);
    ns = costs.work_ns[b->plan->work_count - 1];
    mw_costs_clear(&costs);
    return ns;
}

static void
test_whole_ns(void)
{
    struct bench b = bench_new(MW_OP_COMPUTE, 1);

    b.work.bytes = 700; /* 7 ns, whatever division leaves behind it */
    g_assert_cmpint(first_work_ns(&b), ==, 7);
    b.work.bytes = 701;
    g_assert_cmpint(first_work_ns(&b), ==, 8);
    b.work.bytes = 0;
    g_assert_cmpint(first_work_ns(&b), ==, 0);
    b.work.kind = MW_OP_SEND; /* over a network that is not there: never, not undefined */
    b.work.bytes = 1;
    b.work.comm = mw_plan_add_comm(b.plan, sized(&b, 2, 1, 1));
    b.hardware.nic_bytes_per_s = 0;
    g_assert_cmpint(first_work_ns(&b), ==, INT64_MAX / 4 + 1);
    mw_plan_free(b.plan);
}

/* Bytes per parameter by hand: AdamW moves 28 fused, and 80 with a kernel for each operation. */
static void
test_updates(void)
{
    static const struct {
        double passes, unfused, unfused_other;
        int optimizer;
        double fused, bytes;
    } rows[] = {
        {1, 0, 0, MW_OPTIMIZER_ADAMW, 28, 28},
        {2.9, 1, 1, MW_OPTIMIZER_ADAMW, 28, 2.9 * 28},
        /* ideal software: each in one kernel */
        {1, 0, 0, MW_OPTIMIZER_LION, 20, 20},
        {1, 0, 0, MW_OPTIMIZER_ADAFACTOR, 12, 12},
        {1, 0, 0, MW_OPTIMIZER_ADAFACTOR_PURE, 6, 6},
        {1, 0, 0, MW_OPTIMIZER_SGD_PURE, 6, 6},
        /* a kernel for each operation, and 12 bytes that clip */
        {92 / 28.0, 1, 1, MW_OPTIMIZER_ADAMW, 28, 92},
        {92 / 28.0, 1, 1, MW_OPTIMIZER_ADAMW_16BIT, 20, 52 + 12},
        {92 / 28.0, 1, 1, MW_OPTIMIZER_ADAMW_PURE, 14, 40 + 12},
        {92 / 28.0, 1, 1, MW_OPTIMIZER_ADAMW_8BIT, 16 + 16 / 2048.0, 16 + 16 / 2048.0 + 12},
        {92 / 28.0, 1, 1, MW_OPTIMIZER_SGD, 12, 12 + 12},
        {92 / 28.0, 1, 1, MW_OPTIMIZER_MOMENTUM, 20, 32 + 12},
        {92 / 28.0, 1, 1, MW_OPTIMIZER_LION, 20, 76 + 12},
        {92 / 28.0, 1, 1, MW_OPTIMIZER_SM3, 20, 84 + 12},
        {92 / 28.0, 1, 1, MW_OPTIMIZER_MUON, 20, 44 + 12},
        /* fused kernels of all that have some, with casts and clips of 14 */
        {1.5, 0, 1, MW_OPTIMIZER_LION, 20, 20 + 14},
        {1.5, 0, 1, MW_OPTIMIZER_ADAFACTOR, 12, 76 + 14},
        {1.5, 0, 1, MW_OPTIMIZER_ADAFACTOR_PURE, 6, 94 + 14},
        {1.5, 0, 1, MW_OPTIMIZER_SGD_PURE, 6, 30 + 14},
        /* half of the updates; no more than the figure of AdamW has */
        {54 / 28.0, 0.5, 1, MW_OPTIMIZER_LION, 20, 20 + 28},
        {54 / 28.0, 1, 1, MW_OPTIMIZER_LION, 20, 20 + 28},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        struct mw_hardware hardware = {.update_passes = rows[i].passes,
                                       .update_unfused = rows[i].unfused,
                                       .update_unfused_other = rows[i].unfused_other};
        double passes = mw_cost_update_passes(&hardware, rows[i].optimizer);
        g_assert_cmpfloat_with_epsilon(mw_optimizer_fused_bytes(rows[i].optimizer), rows[i].fused,
                                       1e-9);
        g_assert_cmpfloat_with_epsilon(passes * rows[i].fused, rows[i].bytes, 1e-9);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/cost/matmul-curve", test_matmul_curve);
    g_test_add_func("/cost/compute", test_compute);
    g_test_add_func("/cost/thin-products", test_thin_products);
    g_test_add_func("/cost/fullest", test_fullest);
    g_test_add_func("/cost/copies", test_copies);
    g_test_add_func("/cost/gradients-to-host", test_gradients_to_host);
    g_test_add_func("/cost/drives", test_drives);
    g_test_add_func("/cost/queue", test_queue);
    g_test_add_func("/cost/checked", test_checked);
    g_test_add_func("/cost/host", test_host);
    g_test_add_func("/cost/collectives-in-a-node", test_collectives_in_a_node);
    g_test_add_func("/cost/passes-around-collectives", test_passes_around_collectives);
    g_test_add_func("/cost/slowest", test_slowest);
    g_test_add_func("/cost/slowest-computes", test_slowest_computes);
    g_test_add_func("/cost/collectives-between-nodes", test_collectives_between_nodes);
    g_test_add_func("/cost/nic-is-counted-once", test_nic_is_counted_once);
    g_test_add_func("/cost/draws-by-protocol", test_draws_by_protocol);
    g_test_add_func("/cost/draw-rates", test_draw_rates);
    g_test_add_func("/cost/shared-cores", test_shared_cores);
    g_test_add_func("/cost/cores-of-ranks", test_cores_of_ranks);
    g_test_add_func("/cost/cores-in-collective", test_cores_in_collective);
    g_test_add_func("/cost/cores-in-latency", test_cores_in_latency);
    g_test_add_func("/cost/operators", test_operators);
    g_test_add_func("/cost/attention-curve", test_attention_curve);
    g_test_add_func("/cost/directions", test_directions);
    g_test_add_func("/cost/heads", test_heads);
    g_test_add_func("/cost/whole-ns", test_whole_ns);
    g_test_add_func("/cost/mixed", test_mixed);
    g_test_add_func("/cost/updates", test_updates);
    return g_test_run();
}
