#include "tests/comm_along.h"
#include "tests/nvme_plan.h"

#define OPERATORS 4
#define DEPTH 2 /* fetch units ahead in every stage, and slots of it */
#define RANKS 16
#define WINDOW 8

enum {
    CHANNEL_SM,
    CHANNEL_H2D,
    CHANNEL_D2H,
    CHANNEL_NODE_H2D,
    CHANNEL_NODE_D2H,
    CHANNEL_DRAM,
    CHANNEL_DRIVE,
    CHANNEL_FABRIC
};

/* The works of one operator of a layer. */
struct unit {
    uint32_t read, h2d, gather, forward, backward, scatter, d2h, accumulate, write, state_read,
        update, state_write;
};

struct builder {
    struct mw_plan *plan;
    struct unit units[OPERATORS];
    uint32_t comm;
    uint32_t fetched[DEPTH], gathered[DEPTH], computed[DEPTH]; /* rings of the last ops */
    uint32_t scattered[DEPTH], stored[DEPTH], written[DEPTH];
    uint32_t fetches, stores;
};

struct mw_hardware
mw_nvme_hardware(void)
{
    return (struct mw_hardware){.gpus_per_node = RANKS,
                                .gpu_memory_bytes_per_s = 700e9,
                                .gpu_achievable_flops = 60e12,
                                .gpu_launch_s = 5e-6,
                                .gpu_collective_sm_share = 0.1,
                                .pcie_h2d_bytes_per_s = 12e9,
                                .pcie_d2h_bytes_per_s = 12e9,
                                .pcie_node_h2d_bytes_per_s = 48e9,
                                .pcie_node_d2h_bytes_per_s = 48e9,
                                .pcie_latency_s = 10e-6,
                                .host_memory_bytes_per_s = 150e9,
                                .host_update_params_per_s = 5e9,
                                .nvme_read_bytes_per_s = 25e9,
                                .nvme_write_bytes_per_s = 20e9,
                                .nvme_duplex = 1.2,
                                .nvme_latency_s = 100e-6,
                                .fabric_bytes_per_s = 120e9,
                                .fabric_latency_s = 5e-6};
}

static void
add_tables(struct mw_plan *plan)
{
    static const uint8_t channels[] = {
        MW_CHANNEL_SM,       MW_CHANNEL_PCIE_H2D, MW_CHANNEL_PCIE_D2H, MW_CHANNEL_NODE_H2D,
        MW_CHANNEL_NODE_D2H, MW_CHANNEL_DRAM,     MW_CHANNEL_DRIVE,    MW_CHANNEL_FABRIC};

    for (int kind = 0; kind < MW_LANE_KIND_COUNT; kind++) {
        bool drive = kind == MW_LANE_NVME_READ || kind == MW_LANE_NVME_WRITE;
        mw_plan_add_lane(plan,
                         (struct mw_lane){.kind = (uint8_t)kind, .window_ops = drive ? WINDOW : 1});
    }
    for (int i = 0; i <= CHANNEL_FABRIC; i++)
        mw_plan_add_channel(
            plan,
            (struct mw_channel){.kind = channels[i],
                                .users = i >= CHANNEL_NODE_H2D && i <= CHANNEL_DRIVE ? RANKS : 1});
}

static uint32_t
add_compute(struct builder *b, int64_t flops, int64_t bytes)
{
    struct mw_draw draw = {CHANNEL_SM, 1, 1000000};
    struct mw_work work = {.kind = MW_OP_COMPUTE,
                           .comm = MW_NONE,
                           .flops = flops,
                           .products = {{1, 1, 1, flops / 2, MW_DTYPE_BF16, 0}},
                           .product_count = 1,
                           .bytes = bytes,
                           .launches = 2};

    return mw_plan_add_work(b->plan, work, &draw, 1);
}

static uint32_t
add_collective(struct builder *b, enum mw_op_kind kind, int64_t bytes)
{
    struct mw_draw draws[] = {{CHANNEL_SM, 1, 1000000},
                              {CHANNEL_FABRIC, 1, bytes / RANKS * (RANKS - 1)}};
    struct mw_work work = {.kind = (uint8_t)kind, .comm = b->comm, .bytes = bytes};

    return mw_plan_add_work(b->plan, work, draws, 2);
}

static uint32_t
add_copy(struct builder *b, enum mw_op_kind kind, int64_t bytes)
{
    bool down = kind == MW_OP_D2H;
    struct mw_draw draws[] = {{down ? CHANNEL_D2H : CHANNEL_H2D, 1, bytes},
                              {down ? CHANNEL_NODE_D2H : CHANNEL_NODE_H2D, 1, bytes},
                              {CHANNEL_DRAM, 1, bytes}};
    struct mw_work work = {.kind = (uint8_t)kind, .comm = MW_NONE, .bytes = bytes};

    return mw_plan_add_work(b->plan, work, draws, 3);
}

static uint32_t
add_drive(struct builder *b, enum mw_op_kind kind, int64_t bytes)
{
    struct mw_draw draws[] = {{CHANNEL_DRIVE, 1, bytes}, {CHANNEL_DRAM, 1, bytes}};
    struct mw_work work = {.kind = (uint8_t)kind,
                           .comm = MW_NONE,
                           .bytes = bytes};

    return mw_plan_add_work(b->plan, work, draws, 2);
}

static uint32_t
add_host(struct builder *b, enum mw_op_kind kind, int64_t elements, int64_t bytes_an_element)
{
    struct mw_draw draw = {CHANNEL_DRAM, 1, elements * bytes_an_element};
    struct mw_work work = {.kind = (uint8_t)kind,
                           .host = true,
                           .comm = MW_NONE,
                           .bytes = elements * bytes_an_element,
                           .elements = elements};

    return mw_plan_add_work(b->plan, work, &draw, 1);
}

static struct unit
add_unit(struct builder *b, int64_t params)
{
    int64_t shard = params / RANKS;
    struct unit unit = {
        .read = add_drive(b, MW_OP_NVME_READ, 2 * shard),
        .h2d = add_copy(b, MW_OP_H2D, 2 * shard),
        .gather = add_collective(b, MW_OP_ALL_GATHER, 2 * params),
        .forward = add_compute(b, 2 * params * 4096, params),
        .backward = add_compute(b, 6 * params * 4096, 2 * params),
        .scatter = add_collective(b, MW_OP_REDUCE_SCATTER, 2 * params),
        .d2h = add_copy(b, MW_OP_D2H, 2 * shard),
        .accumulate = add_host(b, MW_OP_ACCUMULATE, shard, 10),
        .write = add_drive(b, MW_OP_NVME_WRITE, 2 * shard),
        .state_read = add_drive(b, MW_OP_NVME_READ, 14 * shard),
        .update = add_host(b, MW_OP_UPDATE, shard, 28),
        .state_write = add_drive(b, MW_OP_NVME_WRITE, 14 * shard),
    };
    return unit;
}

static uint32_t
add_op(struct builder *b, enum mw_lane_kind lane, enum mw_phase phase, uint32_t work)
{
    return mw_plan_add_op(b->plan, (struct mw_op){.work = work,
                                                  .lane = (uint16_t)lane,
                                                  .phase = (uint8_t)phase,
                                                  .match = MW_NONE});
}

/* Read, copy, gather, compute; each stage waits for the slot that it fills. */
static uint32_t
fetch_and_compute(struct builder *b, enum mw_phase phase, const struct unit *unit, uint32_t compute)
{
    uint32_t slot = b->fetches++ % DEPTH;
    uint32_t read = add_op(b, MW_LANE_NVME_READ, phase, unit->read);
    uint32_t h2d, gather;

    mw_plan_add_dep(b->plan, b->fetched[slot]);
    h2d = b->fetched[slot] = add_op(b, MW_LANE_H2D, phase, unit->h2d);
    mw_plan_add_dep(b->plan, read);
    mw_plan_add_dep(b->plan, b->gathered[slot]);
    gather = b->gathered[slot] = add_op(b, MW_LANE_COLLECTIVE, phase, unit->gather);
    mw_plan_add_dep(b->plan, h2d);
    mw_plan_add_dep(b->plan, b->computed[slot]);
    b->computed[slot] = add_op(b, MW_LANE_COMPUTE, phase, compute);
    mw_plan_add_dep(b->plan, gather);
    return b->computed[slot];
}

static void
store_gradient(struct builder *b, const struct unit *unit, uint32_t compute)
{
    uint32_t slot = b->stores++ % DEPTH;
    uint32_t scatter, d2h, accumulate;

    scatter = add_op(b, MW_LANE_COLLECTIVE, MW_PHASE_BACKWARD, unit->scatter);
    mw_plan_add_dep(b->plan, compute);
    mw_plan_add_dep(b->plan, b->scattered[slot]);
    d2h = b->scattered[slot] = add_op(b, MW_LANE_D2H, MW_PHASE_BACKWARD, unit->d2h);
    mw_plan_add_dep(b->plan, scatter);
    mw_plan_add_dep(b->plan, b->stored[slot]);
    accumulate = add_op(b, MW_LANE_HOST, MW_PHASE_BACKWARD, unit->accumulate);
    mw_plan_add_dep(b->plan, d2h);
    b->stored[slot] = add_op(b, MW_LANE_NVME_WRITE, MW_PHASE_BACKWARD, unit->write);
    mw_plan_add_dep(b->plan, accumulate);
}

static void
update_state(struct builder *b, const struct unit *unit)
{
    uint32_t slot = b->stores++ % DEPTH;
    uint32_t read = add_op(b, MW_LANE_NVME_READ, MW_PHASE_OPTIMIZER, unit->state_read);
    uint32_t update;

    mw_plan_add_dep(b->plan, b->stored[slot]);
    mw_plan_add_dep(b->plan, b->written[slot]);
    update = add_op(b, MW_LANE_HOST, MW_PHASE_OPTIMIZER, unit->update);
    mw_plan_add_dep(b->plan, read);
    b->written[slot] = add_op(b, MW_LANE_NVME_WRITE, MW_PHASE_OPTIMIZER, unit->state_write);
    mw_plan_add_dep(b->plan, update);
}

struct mw_plan *
mw_nvme_plan(uint32_t ops)
{
    static const int64_t params[OPERATORS] = {192 << 20, 64 << 20, 256 << 20, 256 << 20};
    struct builder b = {.plan = mw_plan_new("a made-up NVMe plan")};
    uint32_t *rings[] = {b.fetched, b.gathered, b.computed, b.scattered, b.stored, b.written};
    uint32_t units = (ops + 14) / 15;

    units = (units + OPERATORS - 1) / OPERATORS * OPERATORS;
    mw_plan_set_world(b.plan, RANKS, RANKS, true);
    add_tables(b.plan);
    b.comm = mw_plan_add_comm(b.plan, comm_along(RANKS, 1));
    for (int i = 0; i < OPERATORS; i++)
        b.units[i] = add_unit(&b, params[i]);
    for (size_t i = 0; i < G_N_ELEMENTS(rings); i++)
        for (int slot = 0; slot < DEPTH; slot++)
            rings[i][slot] = MW_NONE;
    for (uint32_t i = 0; i < units; i++)
        fetch_and_compute(&b, MW_PHASE_FORWARD, &b.units[i % OPERATORS],
                          b.units[i % OPERATORS].forward);
    for (uint32_t i = units; i-- > 0;) {
        const struct unit *unit = &b.units[i % OPERATORS];
        uint32_t compute = fetch_and_compute(&b, MW_PHASE_BACKWARD, unit, unit->backward);
        store_gradient(&b, unit, compute);
    }
    for (uint32_t i = 0; i < units; i++)
        update_state(&b, &b.units[i % OPERATORS]);
    b.plan->checked = true;
    return b.plan;
}
