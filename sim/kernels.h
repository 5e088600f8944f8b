/*
 * kernels.h - rates of matrix products and of attention by their shape.
 *
 * A library computes a product in tiles of its result, one tile per multiprocessor at a time.  So
 *
 *   time = waves * 2 * rows * columns * (k + fill) /
 *          (sustained * tile_flops / multiprocessors * share)
 *   waves = ceil(ceil(m / rows) * ceil(n / columns) * count * cuts / multiprocessors)
 *
 * where `fill` is the length of k in whose time a tile starts and ends, and `share` the part of the
 * rate that a tile of that size reaches, as small tiles load more per FLOP.  Where tiles are fewer
 * than multiprocessors, k may be cut, and the parts are added up through memory.  The library takes
 * the tile that is fastest, and no product is faster than memory delivers its three matrices.
 * Source of the mechanism: NVIDIA, Matrix Multiplication Background User's Guide (tile and wave
 * quantization).  The figures are the machine's (hardware/keys.c); rates/fit_products.py takes them
 * from measured products.  A machine without them has a curve over (m*n*k)^(1/3), of cubes; where
 * it is the host's cores, what the matrices of a long and thin product have beyond those of a cube
 * is moved at memory's rate, and adds to the time.
 *
 * A machine whose curve was measured by direction has the share of it that products reach which
 * give a result, the gradient of an input, or that of weights.
 *
 * A kernel of attention is given by what it reaches on long sequences, by head size and direction,
 * and the length that halves it (software/attention.h).  A machine of which no kernel is known has
 * a curve, or the rates of products.  A curve that was measured with several sizes of heads is of
 * heads of 64 by their length, beside the share that forward and backward reach with others.  Each
 * score takes an exponential, and sums, whatever the size of its head, beside products as long as
 * that (FlashAttention-3, arXiv 2407.08608, Sec. 3.1): so the time per FLOP is a straight line over
 * 1 / head size between those measured.
 */
#ifndef MW_SIM_KERNELS_H
#define MW_SIM_KERNELS_H

#include "hardware/hwprofile.h"
#include "plan/plan.h"

/* The size of a product on a machine's curve: (m*n*k)^(1/3). */
double mw_kernel_size(int64_t m, int64_t n, int64_t k);

/* The products of a rank that has `fullest` times the rows: as many matrices, each with more rows,
 * over which gradients of weights are sums. */
void mw_kernel_add_rows(struct mw_work_product *products, uint32_t count, double fullest);

/* The products of an operator in one direction: those of a work, or of a closed form's block. */
struct mw_kernel_work {
    const struct mw_work_product *products;
    uint32_t product_count;
    struct mw_work_attention attention; /* heads 0: products with parameters */
    bool backward, fp8;
    double size; /* of the first product, or of one head's scores: picks the rate from a curve */
};

/* Their rate together, FLOP/s, in FLOPs as plans count them: of all scores of an attention, even if
 * a causal mask hides half of them. */
double mw_kernel_flops(const struct mw_hardware *hardware, const struct mw_kernel_work *work);
/* Times as many FLOPs of an attention are counted as its kernel computes: 2 of a causal one whose
 * half it skips. */
double mw_kernel_skipped(const struct mw_hardware *hardware,
                         const struct mw_work_attention *attention);
/* Whether that is the same on both machines, for all works. */
bool mw_kernel_same_skips(const struct mw_hardware *a, const struct mw_hardware *b);
/* Whether it is the same on both machines, for all works. */
bool mw_kernel_same_rates(const struct mw_hardware *a, const struct mw_hardware *b);
/* Rows of the smallest tile; 0: products have none. */
int64_t mw_kernel_least_rows(const struct mw_hardware *hardware);
/* No less than that, of any number of tokens and of any slice of the operator: mw_bound_of. */
double mw_kernel_most_flops(const struct mw_hardware *hardware, const struct mw_kernel_work *work);
/* The size of one head's scores on a machine's curve. */
double mw_kernel_attention_size(const struct mw_hardware *hardware,
                                const struct mw_work_attention *attention);

/* The curves of a machine at a size, FLOP/s. */
double mw_kernel_products_curve(const struct mw_hardware *hardware, double size);
double mw_kernel_attention_curve(const struct mw_hardware *hardware, double size);
/* The share of the former that products of one direction reach. */
double mw_kernel_direction_share(const struct mw_hardware *hardware, enum mw_product_of of,
                                 double size);
/* The share of the latter that heads of that size reach. */
double mw_kernel_heads_share(const struct mw_hardware *hardware, double head_dim, bool backward);
/* The head size with which the size of one head's scores picks the rate from the curve. */
int64_t mw_kernel_curve_head_dim(const struct mw_hardware *hardware, int64_t head_dim);

/* The rate of products of a type as a share of that of 16 bits.  Profiles have a peak for fp32 and
 * no curve, so fp32 products are assumed to reach the same share of their peak; without a peak of
 * theirs they are as fast. */
double mw_kernel_dtype_share(const struct mw_hardware *hardware, enum mw_dtype dtype);

/* The mean of the largest of so many independent standard normals. */
double mw_kernel_largest_of(double count);

/* The rate of the slowest of so many GPUs, for which all others wait, as a share of that of one: 1
 * over 1 + gpus_differ times the mean of the largest of so many standard normals. */
double mw_kernel_slowest_share(const struct mw_hardware *hardware, double gpus);

#endif
