#include "sim/kernels.h"

#include <math.h>
#include <string.h>

#include "sim/product_times.h"

/* --- curves ---------------------------------------------------------------------------------- */

double
mw_kernel_size(int64_t m, int64_t n, int64_t k)
{
    return cbrt((double)m * (double)n * (double)k);
}

void
mw_kernel_add_rows(struct mw_work_product *products, uint32_t count, double fullest)
{
    for (uint32_t i = 0; i < count && fullest > 1; i++) {
        struct mw_work_product *p = &products[i];
        int64_t *rows = p->of == MW_PRODUCT_OF_WEIGHTS ? &p->k : &p->m;
        *rows = (int64_t)llround((double)*rows * fullest);
    }
}

static double
curve_at(const double *dims, const double *flops, int64_t points, double size)
{
    int64_t last = points - 1, i = 0;

    if (size <= dims[0])
        return flops[0];
    if (size >= dims[last])
        return flops[last];
    while (size > dims[i + 1])
        i++;
    return flops[i] + (flops[i + 1] - flops[i]) * log(size / dims[i]) / log(dims[i + 1] / dims[i]);
}

double
mw_kernel_products_curve(const struct mw_hardware *hardware, double size)
{
    if (hardware->matmul_points < 1)
        return hardware->gpu_achievable_flops;
    return curve_at(hardware->matmul_dim, hardware->matmul_flops, hardware->matmul_points, size);
}

double
mw_kernel_attention_curve(const struct mw_hardware *hardware, double size)
{
    if (hardware->attention_points < 1)
        return mw_kernel_products_curve(hardware, size);
    return curve_at(hardware->attention_dim, hardware->attention_flops, hardware->attention_points,
                    size);
}

static const double *
shares_of(const struct mw_hardware *hardware, enum mw_product_of of)
{
    switch (of) {
    case MW_PRODUCT_OF_INPUT:
        return hardware->matmul_input_share;
    case MW_PRODUCT_OF_WEIGHTS:
        return hardware->matmul_weight_share;
    default:
        return hardware->matmul_forward_share;
    }
}

static bool
has_directions(const struct mw_hardware *hardware)
{
    return hardware->matmul_points > 0 && hardware->matmul_forward_share[0] > 0;
}

double
mw_kernel_direction_share(const struct mw_hardware *hardware, enum mw_product_of of, double size)
{
    if (!has_directions(hardware))
        return 1;
    return curve_at(hardware->matmul_dim, shares_of(hardware, of), hardware->matmul_points, size);
}

/* The sizes of heads that shares of the curve of attention are of. */
static const double head_dims[MW_ATTENTION_HEADS] = {64, 128, 256};

static bool
has_heads(const struct mw_hardware *hardware)
{
    return hardware->attention_points > 0 && hardware->attention_forward_share[0] > 0;
}

int64_t
mw_kernel_curve_head_dim(const struct mw_hardware *hardware, int64_t head_dim)
{
    return has_heads(hardware) ? (int64_t)head_dims[0] : head_dim;
}

/* Smaller heads than those measured are on the first two's line, as far as it rises; larger ones
 * are as fast as the largest. */
double
mw_kernel_heads_share(const struct mw_hardware *hardware, double head_dim, bool backward)
{
    const double *shares =
        backward ? hardware->attention_backward_share : hardware->attention_forward_share;
    int i = 0;

    if (!has_heads(hardware))
        return 1;
    if (head_dim >= head_dims[MW_ATTENTION_HEADS - 1])
        return shares[MW_ATTENTION_HEADS - 1];
    while (head_dim > head_dims[i + 1])
        i++;
    double rise = (1 / shares[i] - 1 / shares[i + 1]) / (1 / head_dims[i] - 1 / head_dims[i + 1]);
    double beyond = 1 / head_dim - 1 / head_dims[i];
    return 1 / (1 / shares[i] + (beyond > 0 ? fmax(rise, 0) : rise) * beyond);
}

double
mw_kernel_dtype_share(const struct mw_hardware *hardware, enum mw_dtype dtype)
{
    return mw_dtype_row(dtype)->products == MW_PRODUCTS_FP32 && hardware->gpu_fp32_flops > 0
               ? hardware->gpu_fp32_flops / hardware->gpu_peak_flops
               : 1;
}

/* The mean of the largest of 2^i independent standard normals (L. H. C. Tippett, Biometrika 17,
 * 1925, has it up to 1000), by integration. */
static const double largest_of[] = {0,     0.564, 1.029, 1.424, 1.766, 2.07,  2.344, 2.595,
                                    2.827, 3.044, 3.248, 3.442, 3.626, 3.802, 3.971, 4.134,
                                    4.291, 4.443, 4.59,  4.733, 4.872, 5.008, 5.14};

double
mw_kernel_largest_of(double count)
{
    const int last = G_N_ELEMENTS(largest_of) - 1;
    double power = fmin(log2(fmax(1, count)), last);
    int below = MIN((int)power, last - 1);

    return largest_of[below] + (power - below) * (largest_of[below + 1] - largest_of[below]);
}

double
mw_kernel_slowest_share(const struct mw_hardware *hardware, double gpus)
{
    if (!(gpus > 1 && hardware->gpus_differ > 0))
        return 1;
    return 1 / (1 + hardware->gpus_differ * mw_kernel_largest_of(gpus));
}

/* --- products by tiles ----------------------------------------------------------------------- */

/* The tiles that libraries' kernels have; `share` is the place of their rate in tile_shares, whose
 * first tile is the largest. */
static const struct tile {
    double rows, columns;
    int share;
} tiles[] = {{256, 128, 0}, {128, 256, 0}, {128, 128, 1}, {256, 64, 1},
             {64, 256, 1},  {128, 64, 2},  {64, 128, 2},  {64, 64, 3}};

#define CUTS_MAX 8      /* parts of k that are computed at once and then added up */
#define CUT_LEAST_K 256 /* shorter parts would only start and end */
#define SUM_BYTES 4     /* of an element of the sums, fp32 */

int64_t
mw_kernel_least_rows(const struct mw_hardware *hardware)
{
    return hardware->gpu_multiprocessors ? (int64_t)tiles[G_N_ELEMENTS(tiles) - 1].rows : 0;
}

/* The figures of one type of operands. */
struct tiling {
    double flops, fill;
    const double *shares;
    double operand_bytes;
};

static struct tiling
tiling_of(const struct mw_hardware *hardware, const struct mw_kernel_work *work)
{
    double sustained = hardware->sustained_share > 0 ? hardware->sustained_share : 1;

    if (work->fp8)
        return (struct tiling){hardware->fp8_tile_flops, hardware->fp8_tile_fill,
                               hardware->fp8_tile_shares, 1};
    return (struct tiling){
        sustained * hardware->tile_flops, hardware->tile_fill, hardware->tile_shares,
        work->product_count ? (double)mw_dtype_bytes((enum mw_dtype)work->products[0].dtype, 1)
                            : 0};
}

static double
ceiling(double of, double by)
{
    return ceil(of / by);
}

/* k cut into `cuts` parts. */
static double
tiled_s(const struct mw_hardware *hardware, const struct tiling *of, const struct tile *tile,
        const struct mw_work_product *p, double cuts)
{
    double processors = (double)hardware->gpu_multiprocessors;
    double m = (double)p->m, n = (double)p->n, k = ceiling((double)p->k, cuts);
    double all = ceiling(m, tile->rows) * ceiling(n, tile->columns) * (double)p->count * cuts;
    double rate = of->flops * of->shares[tile->share] / processors;
    double sums = cuts > 1 ? (cuts + 1) * SUM_BYTES * m * n * (double)p->count : 0;

    return ceiling(all, processors) * 2 * tile->rows * tile->columns * (k + of->fill) / rate +
           sums / hardware->gpu_memory_bytes_per_s;
}

static bool
leaves_idle(const struct mw_hardware *hardware, const struct tile *tile,
            const struct mw_work_product *p)
{
    return ceiling((double)p->m, tile->rows) * ceiling((double)p->n, tile->columns) *
               (double)p->count <
           (double)hardware->gpu_multiprocessors;
}

static double
streamed_s(const struct mw_hardware *hardware, const struct tiling *of,
           const struct mw_work_product *p)
{
    double m = (double)p->m, n = (double)p->n, k = (double)p->k;
    enum mw_dtype results = p->dtype == MW_DTYPE_FP8 ? MW_DTYPE_BF16 : (enum mw_dtype)p->dtype;
    double result_bytes = (double)mw_dtype_bytes(results, 1);

    return (double)p->count * (of->operand_bytes * (m * k + k * n) + result_bytes * m * n) /
           hardware->gpu_memory_bytes_per_s;
}

static double
computed_s(const struct mw_hardware *hardware, const struct tiling *of,
           const struct mw_work_product *p)
{
    double best = INFINITY;

    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        best = fmin(best, tiled_s(hardware, of, &tiles[i], p, 1));
        if (leaves_idle(hardware, &tiles[i], p))
            for (double cuts = 2; cuts <= CUTS_MAX && (double)p->k / cuts >= CUT_LEAST_K; cuts *= 2)
                best = fmin(best, tiled_s(hardware, of, &tiles[i], p, cuts));
    }
    return fmax(best, streamed_s(hardware, of, p));
}

static double
product_s(const struct mw_hardware *hardware, const struct tiling *of,
          const struct mw_work_product *p)
{
    const double *shares = of->shares;
    const struct mw_product_key key = {
        {of->flops, of->fill, shares[0], shares[1], shares[2], shares[3], of->operand_bytes,
         hardware->gpu_memory_bytes_per_s, (double)hardware->gpu_multiprocessors},
        {p->m, p->n, p->k, p->count, (int64_t)p->dtype}};
    double *known_s = mw_product_time_of(&key);

    if (!(*known_s > 0))
        *known_s = computed_s(hardware, of, p);
    return *known_s;
}

/* Parameters that are in fp8 are no product's to cast: of results and of inputs' gradients they are
 * the second operand. */
static bool
casts_second(const struct mw_hardware *hardware, const struct mw_work_product *p)
{
    return !hardware->memory_use.fp8_parameters || p->of == MW_PRODUCT_OF_WEIGHTS;
}

static double
tiled_flops(const struct mw_hardware *hardware, const struct mw_kernel_work *work)
{
    struct tiling of = tiling_of(hardware, work);
    double flops = 0, seconds = 0;

    for (uint32_t i = 0; i < work->product_count; i++) {
        const struct mw_work_product *p = &work->products[i];
        double m = (double)p->m, n = (double)p->n, k = (double)p->k, count = (double)p->count;
        flops += 2 * m * n * k * count;
        seconds += product_s(hardware, &of, p);
        if (work->fp8)
            seconds += count * (m * k + (casts_second(hardware, p) ? k * n : 0)) *
                       hardware->fp8_bytes_per_operand / hardware->gpu_memory_bytes_per_s;
    }
    return seconds > 0 ? flops / seconds : of.flops;
}

/* --- attention ------------------------------------------------------------------------------- */

/* Keys that a query may see. */
static int64_t
keys_of(const struct mw_work_attention *attention)
{
    return attention->window && attention->window < attention->keys ? attention->window
                                                                    : attention->keys;
}

double
mw_kernel_attention_size(const struct mw_hardware *hardware,
                         const struct mw_work_attention *attention)
{
    return mw_kernel_size(attention->queries, keys_of(attention),
                          mw_kernel_curve_head_dim(hardware, attention->head_dim));
}

/* Of q and k, and of v, which may be of other sizes. */
static double
mean_head_dim(const struct mw_work_attention *attention)
{
    return ((double)attention->head_dim + (double)attention->value_dim) / 2;
}

/* Log-linear between the head sizes that were measured, the ends beyond. */
static double
at_head_size(const double flops[MW_ATTENTION_HEADS], double head_dim)
{
    return curve_at(head_dims, flops, MW_ATTENTION_HEADS, head_dim);
}

static double
kernel_flops(const struct mw_attention_rates *kernel, const struct mw_kernel_work *work)
{
    const struct mw_work_attention *it = &work->attention;
    const double *rates = work->backward ? kernel->backward_flops : kernel->forward_flops;
    double half = it->causal ? kernel->causal_half_keys : kernel->half_keys;
    double keys = (double)keys_of(it);

    return at_head_size(rates, mean_head_dim(it)) * keys / (keys + half);
}

/* A curve of attention was measured with the machine's own kernel, whatever that skips. */
static bool
has_curve(const struct mw_hardware *hardware)
{
    return hardware->attention_kernel.forward_flops[0] <= 0 && hardware->attention_points;
}

/* Of the scores that are computed.  A machine without a kernel or a curve computes attention as
 * products. */
static double
attention_flops(const struct mw_hardware *hardware, const struct mw_kernel_work *work)
{
    if (hardware->attention_kernel.forward_flops[0] > 0)
        return kernel_flops(&hardware->attention_kernel, work);
    if (hardware->attention_points || !hardware->gpu_multiprocessors)
        return mw_kernel_attention_curve(hardware, work->size) *
               mw_kernel_heads_share(hardware, mean_head_dim(&work->attention), work->backward);
    return tiled_flops(hardware, work);
}

/* FLOPs are counted whole: with half of them skipped, twice as many come out per second.  Of a
 * window, all but the window is skipped by the counts too. */
double
mw_kernel_skipped(const struct mw_hardware *hardware, const struct mw_work_attention *attention)
{
    bool half = attention->causal && keys_of(attention) == attention->keys;

    return hardware->attention_skips && half && !has_curve(hardware) ? 2 : 1;
}

bool
mw_kernel_same_skips(const struct mw_hardware *a, const struct mw_hardware *b)
{
    return a->attention_skips == b->attention_skips && has_curve(a) == has_curve(b);
}

/* --- either ---------------------------------------------------------------------------------- */

/* What the products reach of the curve, each in its direction. */
static double
directions_share(const struct mw_hardware *hardware, const struct mw_kernel_work *work)
{
    double flops = 0, reached = 0;

    if (!has_directions(hardware))
        return 1;
    for (uint32_t i = 0; i < work->product_count; i++) {
        const struct mw_work_product *p = &work->products[i];
        double own = (double)p->m * (double)p->n * (double)p->k * (double)p->count;
        flops += own;
        reached += own / mw_kernel_direction_share(hardware, (enum mw_product_of)p->of, work->size);
    }
    return reached > 0 ? flops / reached : 1;
}

/* Elements that the product's three matrices have beyond those of a cube with as many FLOPs. */
static double
beyond_cube(const struct mw_work_product *p)
{
    double m = (double)p->m, n = (double)p->n, k = (double)p->k;
    double size = mw_kernel_size(p->m, p->n, p->k);

    return m * k + k * n + m * n - 3 * size * size;
}

/* A curve is of products that are cubes, or nearly: one that is long and thin moves more per FLOP.
 * A GPU does so while it multiplies; on cores it adds to the time, at the rate of memory.  The
 * share of the type is taken of the rate later. */
static double
curve_flops(const struct mw_hardware *hardware, const struct mw_kernel_work *work)
{
    double rate = mw_kernel_products_curve(hardware, work->size) * directions_share(hardware, work);
    double flops = 0, bytes = 0;

    if (!hardware->gpu_is_cores)
        return rate;
    for (uint32_t i = 0; i < work->product_count; i++) {
        const struct mw_work_product *p = &work->products[i];
        enum mw_dtype dtype = (enum mw_dtype)p->dtype;
        double count = (double)p->count;
        flops += 2 * (double)p->m * (double)p->n * (double)p->k * count;
        bytes += mw_kernel_dtype_share(hardware, dtype) * (double)mw_dtype_bytes(dtype, 1) * count *
                 beyond_cube(p);
    }
    if (!(flops > 0 && hardware->gpu_memory_bytes_per_s > 0))
        return rate;
    return flops / (flops / rate + bytes / hardware->gpu_memory_bytes_per_s);
}

double
mw_kernel_flops(const struct mw_hardware *hardware, const struct mw_kernel_work *work)
{
    if (!work->attention.heads)
        return hardware->gpu_multiprocessors ? tiled_flops(hardware, work)
                                             : curve_flops(hardware, work);
    double share = hardware->attention_share > 0 ? hardware->attention_share : 1;
    return share * attention_flops(hardware, work) * mw_kernel_skipped(hardware, &work->attention);
}

/* Whether two fields of that name have the same bytes. */
#define SAME(field) (!memcmp(&a->field, &b->field, sizeof a->field))

bool
mw_kernel_same_rates(const struct mw_hardware *a, const struct mw_hardware *b)
{
    return SAME(gpu_multiprocessors) && SAME(tile_flops) && SAME(sustained_share) &&
           SAME(tile_fill) && SAME(tile_shares) && SAME(fp8_tile_flops) && SAME(fp8_tile_fill) &&
           SAME(fp8_tile_shares) && SAME(fp8_bytes_per_operand) &&
           SAME(memory_use.fp8_parameters) && SAME(gpu_memory_bytes_per_s) &&
           SAME(gpu_achievable_flops) && SAME(gpu_is_cores) && SAME(matmul_points) &&
           SAME(matmul_dim) && SAME(matmul_flops) && SAME(matmul_forward_share) &&
           SAME(matmul_input_share) && SAME(matmul_weight_share) && SAME(attention_forward_share) &&
           SAME(attention_backward_share) && SAME(attention_points) && SAME(attention_dim) &&
           SAME(attention_flops) && SAME(attention_kernel) && SAME(attention_share) &&
           SAME(attention_skips);
}

/* --- at most ---------------------------------------------------------------------------------- */

static double
most_of(const double *flops, int64_t points)
{
    double most = 0;

    for (int64_t i = 0; i < points; i++)
        most = fmax(most, flops[i]);
    return most;
}

/* On the tile that is fastest, with no wave half full, and k without an end. */
static double
most_tiled_flops(const struct mw_hardware *hardware, const struct mw_kernel_work *work)
{
    struct tiling of = tiling_of(hardware, work);

    return of.flops * most_of(of.shares, MW_TILE_SHARES);
}

static double
most_products_flops(const struct mw_hardware *hardware, const struct mw_kernel_work *work)
{
    double share = 1;

    if (hardware->gpu_multiprocessors)
        return most_tiled_flops(hardware, work);
    if (!hardware->matmul_points)
        return hardware->gpu_achievable_flops;
    for (int of = 0; has_directions(hardware) && of < MW_PRODUCT_OF_COUNT; of++)
        share = fmax(share,
                     most_of(shares_of(hardware, (enum mw_product_of)of), hardware->matmul_points));
    return share * most_of(hardware->matmul_flops, hardware->matmul_points);
}

static double
most_attention_flops(const struct mw_hardware *hardware, const struct mw_kernel_work *work)
{
    if (hardware->attention_kernel.forward_flops[0] > 0)
        return kernel_flops(&hardware->attention_kernel, work);
    return hardware->attention_points
               ? most_of(hardware->attention_flops, hardware->attention_points) *
                     mw_kernel_heads_share(hardware, mean_head_dim(&work->attention),
                                           work->backward)
               : most_products_flops(hardware, work);
}

double
mw_kernel_most_flops(const struct mw_hardware *hardware, const struct mw_kernel_work *work)
{
    double share = hardware->attention_share > 0 ? hardware->attention_share : 1;

    return work->attention.heads ? share * most_attention_flops(hardware, work) *
                                       mw_kernel_skipped(hardware, &work->attention)
                                 : most_products_flops(hardware, work);
}
