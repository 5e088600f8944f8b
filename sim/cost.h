/*
 * cost.h - what an op costs on a machine: cost = f(work, hardware), nothing hidden in code.
 *
 *   matrix products   flops / rate((m·n·k)^(1/3)), the profile's curve; log-linear between
 *                     points, the end values beyond them; of fp32 by gpu_fp32_flops over
 *                     gpu_peak_flops
 *   memory-bound      bytes / gpu_operator_bytes_per_s, added to the matrix products; those of
 *                     attention, loss, update and passes / gpu_memory_bytes_per_s
 *   launches          launches * gpu_launch_s
 *   H2D, D2H          pcie_latency_s + bytes / link
 *   NVMe              the longer of nvme_latency_s + bytes / all drives of the node, and what a
 *                     full queue of blocks takes: mw_cost_drive_bytes_per_s; at most at the rate
 *                     at which a rank checks what it reads and writes
 *   collectives       hardware/ring.h; an all-reduce is a reduce-scatter and an all-gather
 *   host update       elements / host_update_params_per_s
 *   other host passes bytes / host_memory_bytes_per_s, the norm / host_norm_bytes_per_s if the
 *                     profile has it; on the GPU, updates and passes are memory-bound
 *   commit            nvme_latency_s if it writes a record
 *
 * Updates, accumulations and norms are the host's where work.host says so, else the GPU's.
 * What a node's ranks share is a channel: a rank alone has all of it, a folded rank the part that
 * `users` leaves it, and its durations are raised until every draw fits.
 *
 * Sources of the formulas: docs/MODEL.md.
 *
 * Every op also draws on channels.  The draw of a work is an amount (bytes; parameters of the
 * cores; millionths of the multiprocessors); at full speed it is spread evenly over the op's
 * duration, of one that reads or writes drives over what comes after their latency.  A drive's
 * capacity is time: a read of b bytes draws b / mw_cost_drive_bytes_per_s seconds of it, a write
 * alike, and nvme_duplex seconds are there each second, at most one of them for reads and one for
 * writes. A collective draws the profile's gpu_collective_sm_share of the millionths that it
 * states, host work, copies and drives gpu_host_sm_share, gpu_copy_sm_share and gpu_nvme_sm_share.
 * An op alone is never slowed by a channel.
 */
#ifndef MW_SIM_COST_H
#define MW_SIM_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "hardware/hwprofile.h"
#include "plan/plan.h"

struct mw_costs {
    int64_t *work_ns;  /* [plan->work_count] uncontended duration, rounded up, >= 0 */
    int64_t *lead_ns;  /* [plan->work_count] of that, the latency at its begin in which it draws
                          nothing, and which passes while other ops of its lane are before it;
                          NULL: 0 everywhere */
    double *draw_rate; /* [plan->draw_count] units per ns at full speed, of all its ranks */
    double *capacity;  /* [plan->channel_count] units per ns, divided by the channel's users */
    double *one_way;   /* [plan->channel_count] the share of it that works of one direction may
                          draw together, in (0, 1]; NULL: 1 everywhere */
};

/* Owned by the caller; free with mw_costs_clear.  `costs` holds no pointer into `plan`. */
void mw_costs_init(struct mw_costs *costs, const struct mw_plan *plan,
                   const struct mw_hardware *hardware);
void mw_costs_clear(struct mw_costs *costs);

/* One work's uncontended seconds: for tables and tests. */
double mw_cost_work_s(const struct mw_plan *plan, const struct mw_work *work,
                      const struct mw_hardware *hardware);

/* Of that, what a collective takes whatever it carries: its hops.  0 of any other work. */
double mw_cost_collective_latency_s(const struct mw_plan *plan, const struct mw_work *work,
                                    const struct mw_hardware *hardware);

/* What all drives of a node move in one direction: their rate, or less where the queue is too short
 * to hide the latency. */
double mw_cost_drive_bytes_per_s(const struct mw_hardware *hardware, bool write);

/* What a rank checks of what drives read and write; INFINITY: the profile does not say. */
double mw_cost_check_bytes_per_s(const struct mw_hardware *hardware);

/* The rate of products of this type as a share of the curves', which are of 16 bits.  The profile
 * has a peak for fp32 and no curve: products are taken to reach the same share of it by size. */
double mw_cost_products_share(const struct mw_hardware *hardware, enum mw_dtype dtype);

/* The matrix-product curve at the size of a product, the cube root of m·n·k, FLOP/s. */
double mw_cost_matmul_flops(const struct mw_hardware *hardware, double size);
double mw_cost_attention_flops(const struct mw_hardware *hardware, double size);

double mw_cost_operator_bytes_per_s(const struct mw_hardware *hardware);
double mw_cost_matmul_size(int64_t m, int64_t n, int64_t k);

#endif
