#include "planner/batches.h"

#include <glib.h>
#include <math.h>

#include "planner/fits.h"
#include "planner/sizing/internal.h"

#define GRAD_ACCUM_MAX 65536
#define SEQUENCES_MAX 65536
/* Number of sizes of a micro-batch to return: the largest that fits, then each with half as many
 * sequences.  Smaller ones are slower, but leave room for layers that keep their activations. */
#define SIZES_MAX 4
/* Up to this number, each smaller one is another candidate. */
#define FEW_SEQUENCES 4
/* Above this number, one micro-batch more or less changes little. */
#define FEW_MICRO_BATCHES 4

struct search {
    const struct mw_request *request;
    struct mw_settings s; /* micro-batch and accumulation vary during the search */
    struct mw_batches *found;
};

static void
add(struct search *search, double micro_batch, int64_t grad_accum)
{
    struct mw_batches *found = search->found;

    for (int i = 0; i < found->count; i++)
        if (found->one[i].micro_batch == micro_batch && found->one[i].grad_accum == grad_accum)
            return;
    if (micro_batch <= 0 || found->count == MW_BATCHES_MAX)
        return;
    found->one[found->count].micro_batch = micro_batch;
    found->one[found->count++].grad_accum = grad_accum;
}

/* The next size to try; from a few sequences on, each. */
static double
next_smaller(double sequences)
{
    return fmax(sequences / 2, fmin(sequences, FEW_SEQUENCES) - 1);
}

/* --- the largest micro-batch that fits -------------------------------------------------------- */

static bool
fits_sequences(const struct mw_request *request, const struct mw_settings *settings,
               int64_t sequences)
{
    struct mw_settings s = *settings;

    s.micro_batch = (double)sequences / (double)mw_settings_sharers(&s);
    return mw_fits_in_some_parts(request, &s);
}

static int64_t
largest_sequences(const struct mw_request *request, const struct mw_settings *settings,
                  int64_t guess)
{
    return mw_fits_largest(request, settings, fits_sequences, guess,
                           MIN(SEQUENCES_MAX, mw_most_sequences(settings)));
}

double
mw_planner_largest_batch(const struct mw_request *request, const struct mw_settings *settings)
{
    return (double)largest_sequences(request, settings, 1) / (double)mw_settings_sharers(settings);
}

/* The number of tiles that a micro-batch of this many sequences, which fits, needs, if it is open;
 * else 0. */
static int64_t
most_tiles(const struct search *search, int64_t sequences)
{
    struct mw_settings s = search->s;

    if (s.tiles != MW_AUTO || !sequences)
        return 0;
    s.micro_batch = (double)sequences / (double)mw_settings_sharers(&s);
    struct mw_sizing *sizing = mw_planner_size_placement(search->request, &s, NULL);
    int64_t tiles = sizing && sizing->fits ? sizing->settings.tiles : 0;
    mw_sizing_free(sizing);
    return tiles;
}

/* The largest micro-batch may need many tiles.  Returns the largest one that fits with `tiles`,
 * while those are fewer. */
static int64_t
largest_with_tiles(const struct search *search, int64_t tiles)
{
    struct mw_settings s = search->s;

    s.tiles = tiles;
    return largest_sequences(search->request, &s, 1);
}

/* --- only the micro-batch is open ------------------------------------------------------------- */

/* Adds a micro-batch of `largest` sequences, which fit; if that is 0, of one. */
static void
find_micro_batch_of(struct search *search, int64_t largest)
{
    double sharers = (double)mw_settings_sharers(&search->s);

    add(search, (double)MAX(1, largest) / sharers, search->s.grad_accum);
    add(search, (double)(largest / 2) / sharers, search->s.grad_accum);
    for (int64_t t = 1, tiles = most_tiles(search, largest); t < tiles; t *= 2)
        add(search, (double)largest_with_tiles(search, t) / sharers, search->s.grad_accum);
}

static void
find_micro_batch(struct search *search, int64_t *guess)
{
    int64_t largest = largest_sequences(search->request, &search->s, *guess);

    *guess = MAX(1, largest);
    find_micro_batch_of(search, largest);
}

/* --- a global batch has to be split ----------------------------------------------------------- */

/* The number of micro-batches is one into which the global batch can be split. */
static bool
splits_into(const struct search *search, int64_t accum)
{
    const struct mw_settings *s = &search->s;
    double per_gpu = (double)s->global_batch / mw_settings_batch_gpus(s);
    double sequences = per_gpu / (double)accum * (double)mw_settings_sharers(s);

    return accum % mw_settings_batch_grain(s) == 0 && fabs(sequences - llround(sequences)) <= 1e-9;
}

/* Splits the global batch into so many micro-batches; returns the sequences of one. */
static double
split_into(struct search *search, int64_t accum)
{
    struct mw_settings *s = &search->s;
    double sharers = (double)mw_settings_sharers(s);
    double sequences =
        (double)s->global_batch / mw_settings_batch_gpus(s) / (double)accum * sharers;

    s->micro_batch = sequences / sharers;
    s->grad_accum = accum;
    return sequences;
}

/* Numbers of micro-batches, rising; a micro-batch has at least one sequence. */
static GArray *
all_splits(const struct search *search)
{
    const struct mw_settings *s = &search->s;
    double sequences =
        (double)s->global_batch / mw_settings_batch_gpus(s) * (double)mw_settings_sharers(s);
    GArray *splits = g_array_new(FALSE, FALSE, sizeof(int64_t));

    for (int64_t accum = 1; accum <= GRAD_ACCUM_MAX && sequences / (double)accum >= 1; accum++)
        if (splits_into(search, accum))
            g_array_append_val(splits, accum);
    return splits;
}

static bool
split_fits(struct search *search, const GArray *splits, guint number)
{
    split_into(search, g_array_index(splits, int64_t, number));
    return mw_fits_in_some_parts(search->request, &search->s);
}

/* The first that fits; their number: none does.  From two on, smaller micro-batches take no more
 * memory; one sums no gradients. */
static guint
first_that_fits(struct search *search, const GArray *splits)
{
    guint low = 0, high = splits->len;

    if (high && g_array_index(splits, int64_t, 0) == mw_settings_batch_grain(&search->s)) {
        if (split_fits(search, splits, 0))
            return 0;
        low = 1;
    }
    while (low < high) {
        guint middle = low + (high - low) / 2;
        if (split_fits(search, splits, middle))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Adds the smallest number of micro-batches that fits, and some larger ones; if none fits, the
 * largest. */
static void
split_global_batch(struct search *search)
{
    struct mw_settings *s = &search->s;
    double sharers = (double)mw_settings_sharers(s), most = INFINITY;
    g_autoptr(GArray) splits = all_splits(search);
    guint first = first_that_fits(search, splits);

    for (guint i = first; i < splits->len && search->found->count < SIZES_MAX; i++) {
        double sequences = split_into(search, g_array_index(splits, int64_t, i));
        if (sequences > most || (i > first && !mw_fits_in_some_parts(search->request, s)))
            continue;
        add(search, s->micro_batch, s->grad_accum);
        most = next_smaller(sequences);
    }
    if (search->found->count)
        return;
    if (splits->len) {
        split_into(search, g_array_index(splits, int64_t, splits->len - 1));
    } else { /* no multiple divides it: sizing says so */
        s->micro_batch = 1.0 / sharers;
        s->grad_accum =
            MAX(1, llround((double)s->global_batch / mw_settings_batch_gpus(s) * sharers));
    }
    add(search, s->micro_batch, s->grad_accum);
}

/* --- everything is open ----------------------------------------------------------------------- */

/* The number of micro-batches within the default global batch with which the step is still quick to
 * plan: each one adds as many ops as the third does. */
static int64_t
most_micro_batches(const struct search *search, const struct mw_sizing *two)
{
    struct mw_settings s = two->settings;
    int64_t ops = mw_sizing_op_count(two), quick = MIN(MW_OPS_QUICK, s.ops_max);
    int64_t grain = mw_settings_batch_grain(&s);

    s.grad_accum = 3 * grain;
    int64_t each =
        mw_sizing_ops_of(search->request->model, search->request->hardware, &s, INT64_MAX) - ops;
    if (ops > quick)
        return grain;
    int64_t most = MIN(mw_most_micro_batches(&s), GRAD_ACCUM_MAX) / grain;
    return grain * MAX(1, MIN(most, 2 + (quick - ops) / MAX(1, each)));
}

/* Adds as many micro-batches of `sequences` as most_micro_batches allows; returns how many. */
static int64_t
add_filled(struct search *search, int64_t sequences)
{
    struct mw_settings *s = &search->s;
    int64_t grain = mw_settings_batch_grain(s), accum = grain;

    s->grad_accum = 2 * grain;
    s->micro_batch = (double)sequences / (double)mw_settings_sharers(s);
    if (sequences < 1 || mw_most_micro_batches(s) < 2 * grain)
        return grain;
    struct mw_sizing *sizing = mw_planner_size_placement(search->request, s, NULL);
    if (sizing && sizing->fits)
        accum = most_micro_batches(search, sizing);
    if (accum > grain)
        add(search, s->micro_batch, accum);
    mw_sizing_free(sizing);
    return accum;
}

/* Adds one micro-batch, which sums no gradients, and as many as the step takes. */
static void
find_all(struct search *search, int64_t *guess)
{
    struct mw_settings *s = &search->s;
    int64_t grain = mw_settings_batch_grain(s);

    s->grad_accum = grain;
    int64_t most = mw_most_sequences(s);
    int64_t whole = largest_sequences(search->request, s, *guess);
    *guess = MAX(1, whole);
    add(search, (double)*guess / (double)mw_settings_sharers(s), grain);
    /* If one micro-batch does not fit, two do not fit either. */
    if (!whole || (whole == most && most_tiles(search, whole) <= 1))
        return;
    s->grad_accum = 2 * grain;
    int64_t largest = largest_sequences(search->request, s, whole);
    int64_t accum = add_filled(search, largest);
    if (accum > grain && accum < FEW_MICRO_BATCHES)
        add_filled(search, most / (accum + 1));
    for (int64_t size = 1, sequences = largest; size < SIZES_MAX && sequences > 1; size++)
        add_filled(search, sequences = (int64_t)next_smaller((double)sequences));
    s->grad_accum = 2 * grain;
    for (int64_t t = 1, most_t = most_tiles(search, largest); t < most_t; t *= 2)
        add_filled(search, largest_with_tiles(search, t));
    if (search->found->count > 1)
        return;
    s->grad_accum = grain;
    find_micro_batch_of(search, whole);
}

/* --- what bounds the batch -------------------------------------------------------------------- */

/* Whether it fits with any of the requested strategies, and with any micro-batch if that is
 * open. */
static bool
fits_any(const struct mw_request *request, const struct mw_settings *asked)
{
    const struct mw_strategies strategies = mw_strategies_of(asked->strategy);

    for (int i = 0; i < strategies.count; i++) {
        struct mw_settings s = *asked, resolved;
        s.strategy = strategies.one[i];
        if (mw_settings_complete(request, &s, &resolved, NULL) &&
            mw_planner_fits(request, &resolved))
            return true;
    }
    return false;
}

enum mw_batch_bound
mw_batches_bound(const struct mw_request *request, const struct mw_settings *asked,
                 const struct mw_sizing *sizing)
{
    struct mw_settings larger = *asked, next = sizing->settings;
    bool fixed = asked->grad_accum != MW_AUTO;

    next.grad_accum += fixed ? 0 : mw_settings_batch_grain(&next);
    larger.grad_accum = next.grad_accum;
    if (fixed)
        larger.micro_batch = next.micro_batch + 1.0 / (double)mw_settings_sharers(&next);
    if (!fits_any(request, &larger))
        return MW_BATCH_BOUND_MEMORY;
    bool slow = mw_sizing_ops_of(request->model, request->hardware, &next, INT64_MAX) >
                MIN(MW_OPS_QUICK, next.ops_max);
    return slow && !fixed ? MW_BATCH_BOUND_OPS : MW_BATCH_BOUND_RATE;
}

/* --- all candidates --------------------------------------------------------------------------- */

void
mw_batches_find(const struct mw_request *request, const struct mw_settings *placed, int64_t *guess,
                struct mw_batches *found)
{
    struct search search = {request, *placed, found};
    bool open = placed->micro_batch == MW_AUTO;

    found->count = 0;
    if (open && placed->global_batch != MW_AUTO && placed->grad_accum == MW_AUTO)
        split_global_batch(&search);
    else if (open && placed->grad_accum == MW_AUTO)
        find_all(&search, guess);
    else if (open)
        find_micro_batch(&search, guess);
    else
        add(&search, placed->micro_batch,
            placed->grad_accum == MW_AUTO ? mw_settings_batch_grain(placed) : placed->grad_accum);
}
