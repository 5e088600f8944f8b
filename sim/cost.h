/*
 * cost.h - the cost of an op on a machine: cost = f(work, hardware), nothing hidden in code.
 *
 *   matrix products   flops / rate of their shapes, by tiles or the profile's curve, and
 *                     attention by its kernel (sim/kernels.h); for fp32, times gpu_fp32_flops /
 *                     gpu_peak_flops
 *   memory-bound      bytes / gpu_operator_bytes_per_s, added to the matrix products; for
 *                     attention, loss, update and passes, bytes / gpu_memory_bytes_per_s
 *   launches          launches * gpu_launch_s; where all of a step take the host longer than the
 *                     GPU needs for their ops, launches * host_launch_s, these take so much longer
 *   H2D, D2H          pcie_latency_s + bytes / link
 *   NVMe              the longer of nvme_latency_s + bytes / all drives of the node, and the time
 *                     of a full queue of blocks: mw_cost_drive_bytes_per_s; at most at the rate
 *                     at which a rank checks what it reads and writes
 *   collectives       hardware/ring.h, by one ring, or by NCCL's algorithms and protocols, with the
 *                     software's passes over GPU memory around them
 *   host update       elements / mw_numa_update_params_per_s (hardware/numa.h)
 *   other host passes bytes / host_memory_bytes_per_s, the norm / host_norm_bytes_per_s and exact
 *                     sums / host_exact_sums_bytes_per_s if the profile has them; on the GPU,
 *                     updates and passes are memory-bound
 *   commit            nvme_latency_s if it writes a record
 *
 * Where ranks have unequal numbers of tokens, FLOPs, bytes and the rows of products are those of
 * the fullest rank.
 *
 * Updates, accumulations and norms run on the host where work.host says so, else on the GPU.  The
 * ranks of a node share its channels.  A rank alone has all of a channel; a folded rank has the
 * part that `users` leaves it, and its durations are raised until every draw fits.
 *
 * Sources of the formulas: docs/MODEL.md.
 *
 * Every op also draws on channels.  The draw of a work is an amount: bytes; parameters for the
 * cores; millionths for the multiprocessors.  At full speed it is spread evenly over the op's
 * duration; for an op on drives, over the part of it after their latency.  A drive's capacity is
 * time.  A read of b bytes draws b / mw_cost_drive_bytes_per_s seconds of it, and so does a write.
 * Each second offers nvme_duplex seconds, at most one of them for reads and one for writes.  Where
 * the profile has the rates of reads and writes at once, these say what both get (mw_cost_mixed).
 * A collective draws the profile's gpu_collective_sm_share of the millionths that it states; host
 * work, copies and drives draw gpu_host_sm_share, gpu_copy_sm_share and gpu_nvme_sm_share; a copy
 * that the software waits for draws all of them.  An op alone is never slowed by a channel.
 */
#ifndef MW_SIM_COST_H
#define MW_SIM_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "hardware/hwprofile.h"
#include "plan/plan.h"

/* The parts of its rate alone that each direction keeps while both are busy: in (0, 1], together 1
 * or more.  read 0: the directions share the channel's capacity alike. */
struct mw_cost_mixed {
    double read, write;
};

struct mw_costs {
    int64_t *work_ns;  /* [plan->work_count] uncontended duration, rounded up, >= 0 */
    int64_t *lead_ns;  /* [plan->work_count] the latency at the start of that duration.  The op
                        * draws nothing during it, and it passes while other ops of the lane are
                        * first.  NULL: 0 everywhere */
    double *draw_rate; /* [plan->draw_count] units per ns at full speed, for all of its ranks */
    double *capacity;  /* [plan->channel_count] units per ns, divided by the channel's users */
    double *one_way;   /* [plan->channel_count] the share of the channel that works of one direction
                        * may draw together, in (0, 1]; NULL: 1 everywhere */
    struct mw_cost_mixed *mixed; /* [plan->channel_count] of channels whose directions slow each
                                  * other unequally; NULL: no such channel */
};

/* The caller owns the result and frees it with mw_costs_clear.  `costs` holds no pointer into
 * `plan`. */
void mw_costs_init(struct mw_costs *costs, const struct mw_plan *plan,
                   const struct mw_hardware *hardware);
void mw_costs_clear(struct mw_costs *costs);
/* Whether two costs of one plan, both of mw_costs_init, are the same to the bit: then so is its
 * step. */
bool mw_costs_are_equal(const struct mw_plan *plan, const struct mw_costs *a,
                        const struct mw_costs *b);

/* The uncontended seconds of one work, for tables and tests. */
double mw_cost_work_s(const struct mw_plan *plan, const struct mw_work *work,
                      const struct mw_hardware *hardware);

/* How many times longer than the GPU needs a step's compute ops take, as the host starts their
 * kernels too late; 1: it does not. */
double mw_cost_lateness(const struct mw_plan *plan, const struct mw_hardware *hardware);

/* The part of that time that a collective's hops take, whatever it carries; 0 for any other
 * work. */
double mw_cost_collective_latency_s(const struct mw_plan *plan, const struct mw_work *work,
                                    const struct mw_hardware *hardware);

/* The share of the multiprocessors that a way between stages holds while it lasts. */
double mw_cost_hop_share(const struct mw_hardware *hardware);

/* The rate of all drives of a node in one direction.  It is less than their sum where the queue is
 * too short to hide the latency. */
double mw_cost_drive_bytes_per_s(const struct mw_hardware *hardware, bool write);

/* What reads and writes keep of their rates while both are busy; .read = 0: the profile does not
 * say. */
struct mw_cost_mixed mw_cost_drives_mixed(const struct mw_hardware *hardware);

/* The rate at which a rank checks what drives read and write; INFINITY if the profile does not
 * state it. */
double mw_cost_check_bytes_per_s(const struct mw_hardware *hardware);

/* Passes over memory of an operator's kernels as a multiple of fused ones; of an update on the GPU
 * below. */
double mw_cost_operator_passes(const struct mw_hardware *hardware, enum mw_operator operator_,
                               enum mw_turn turn);
/* Of attention, by its products: it has more in backward, and again those of forward where it kept
 * no scores. */
enum mw_turn mw_cost_turn(uint32_t products);
/* Whether they are the same on both machines, for all operators. */
bool mw_cost_same_passes(const struct mw_hardware *a, const struct mw_hardware *b);
/* The same of an update on the GPU, by enum mw_optimizer_kind: the software's figure is AdamW's. */
double mw_cost_update_passes(const struct mw_hardware *hardware, int optimizer);
/* What a pass of the host reaches of its memory's rate that takes the norm, or makes exact sums. */
double mw_cost_norm_bytes_per_s(const struct mw_hardware *hardware);
double mw_cost_exact_sums_bytes_per_s(const struct mw_hardware *hardware);
double mw_cost_operator_bytes_per_s(const struct mw_hardware *hardware);
/* The rate of the loss. */
double mw_cost_loss_bytes_per_s(const struct mw_hardware *hardware);

#endif
