/*
 * Exact sums of squares (struct mw_exact_sum): of a tensor's rows and columns, and of what an
 * update takes of it.
 *
 * A square is a number of fp64, and adding a large one and taking it away again rounds it to the
 * last bit of a digit: what is left over has the next digits, without any rounding.  So digits are
 * had by sums of fp64, and they are added up in fp64 as long as that is exact.
 */
#include "exec/device/cpu/isa.h"
#include "exec/device/cpu/sides.h"

/* Elements that are worth more than one thread. */
#define SEVERAL 16384

/* Columns that one thread takes of every row.  Their sums stay in its first cache, and are whole
 * lines, which no other thread writes. */
#define STRIP 256

/* Rows whose digits fp64 adds up exactly: 2^53 over 2^31. */
#define ROWS_MAX 4000000

/* What the squares of a row's numbers have, if all of them are below a bound: so many digits. */
#define FEWEST 3
#define FEWEST_BELOW 0x1p-9f
#define FEWER 4
#define FEWER_BELOW 0x1p7f

/* Squares from 2^68 on count as the largest below, as does what is no number. */
#define LARGE 0x1p68
#define LARGEST ((0x1p53 - 1) * 0x1p15)

/* The unit of each digit: 2^(MW_EXACT_FIRST_BIT + d MW_EXACT_DIGIT_BITS). */
static const double units[] = {0x1p-112, 0x1p-80, 0x1p-48, 0x1p-16, 0x1p16, 0x1p48};

_Static_assert(MW_EXACT_FIRST_BIT == -112 && MW_EXACT_DIGIT_BITS == 32 &&
                   sizeof units / sizeof *units == MW_EXACT_DIGITS,
               "units of the digits");

typedef int64_t native_i64 __attribute__((vector_size(4 * MW_WIDTH)));

/* A call's elements.  factors: of the update that is asked for; NULL: squares of gradients. */
struct elements {
    const void *grad;
    bool fp32;
    int64_t columns, first, n;
    const struct mw_update_vectors *factors;
    float scale;
};

/* One digit of each. */
typedef double sums_of_columns[STRIP + MW_LANES];

/* Sums of a strip as its rows add to them, digit by digit. */
struct strip {
    int64_t begin, end;
    _Alignas(64) sums_of_columns columns[MW_EXACT_DIGITS];
    _Alignas(64) float values[STRIP + MW_LANES]; /* of a row: no lane beyond it counts */
};

/* Some lanes of a sum; in which ones is all the same. */
struct lanes_sum {
    mw_native_f64 digits[MW_EXACT_DIGITS];
};

/* --- of a row -------------------------------------------------------------------------------- */

MW_INLINE struct mw_lanes
columns_at(const float *column, int64_t c, int64_t n)
{
    return n == MW_LANES ? mw_lanes_load(column + c) : mw_lanes_load_some(column + c, n);
}

/* Numbers that are at least 0 have the order of their bits; what is none is above all. */
MW_INLINE mw_native_i32
largest_size(mw_native_i32 most, mw_native x)
{
    mw_native_i32 size = (mw_native_i32)x & 0x7fffffff, above = size > most;

    return (above & size) | (~above & most);
}

MW_INLINE int
digits_below(mw_native_i32 sizes)
{
    int32_t size = 0;
    float most;

    for (int i = 0; i < MW_WIDTH; i++)
        size = sizes[i] > size ? sizes[i] : size;
    memcpy(&most, &size, sizeof most);
    return most < FEWEST_BELOW ? FEWEST : most < FEWER_BELOW ? FEWER : MW_EXACT_DIGITS;
}

/* What is squared of columns [from, to) of row r goes to strip->values; returns how many digits the
 * squares have. */
MW_INLINE int
take_values(struct strip *strip, const struct elements *of, int64_t r, int64_t from, int64_t to)
{
    const struct mw_update_vectors *v = of->factors;
    mw_native row = mw_native_splat(v != NULL && v->row != NULL ? v->row[r] : 1.0f);
    mw_native_i32 most = {0};

    for (int64_t c = from; c < to; c += MW_LANES) {
        int64_t n = to - c < MW_LANES ? to - c : MW_LANES;
        int64_t i = r * of->columns + c - of->first;
        struct mw_lanes x = mw_gradients_at(of->grad, of->fp32, i, n);
        if (v != NULL) {
            struct mw_lanes column = columns_at(v->column, c, n);
            MW_EACH_PART (p)
                x.part[p] = mw_adafactor_takes(x.part[p] * of->scale, row, column.part[p]);
            if (n < MW_LANES)
                x = mw_lanes_first(x, n, 0.0f);
        }
        MW_EACH_PART (p)
            most = largest_size(most, x.part[p]);
        mw_lanes_store(strip->values + c - from, x);
    }
    return digits_below(most);
}

/* Digits [0, count) of x, from the highest on, to the sum and to a column's, where there is one. */
MW_INLINE void
add_digits(struct lanes_sum *sum, sums_of_columns *column, int64_t at, mw_native_f64 x, int count)
{
    for (int d = count - 1; d >= 0; d--) {
        double above = 1.5 * 0x1p52 * units[d];
        mw_native_f64 digit = (x + above) - above;
        x -= digit;
        sum->digits[d] += digit;
        if (column != NULL) {
            mw_native_f64 before;
            memcpy(&before, column[d] + at, sizeof before);
            before += digit;
            memcpy(column[d] + at, &before, sizeof before);
        }
    }
}

MW_INLINE mw_native_f64
largest_there_is(mw_native_f64 square)
{
    mw_native_f64 most = LARGEST - (mw_native_f64){0};
    native_i64 held = square < LARGE;

    return (mw_native_f64)((held & (native_i64)square) | (~held & (native_i64)most));
}

/* The squares of n values, to column sums from `at` on. */
MW_INLINE void
add_squares(struct lanes_sum *sum, sums_of_columns *column, int64_t at, const float *values,
            int64_t n, int count)
{
    enum { HALF = MW_WIDTH / 2 };

    for (int64_t i = 0; i < n; i += MW_WIDTH) {
        mw_native_f64 half[2];
        mw_native_widen(half, mw_native_load(values + i));
        for (int h = 0; h < 2; h++) {
            mw_native_f64 square = half[h] * half[h];
            if (count == MW_EXACT_DIGITS)
                square = largest_there_is(square);
            add_digits(sum, column, at + i + h * HALF, square, count);
        }
    }
}

MW_INLINE struct lanes_sum
row_sum(struct strip *strip, sums_of_columns *column, const struct elements *of, int64_t r,
        struct mw_columns at)
{
    int64_t first = at.from - strip->begin, n = at.to - at.from;
    int count = take_values(strip, of, r, at.from, at.to);
    struct lanes_sum sum = {{{0}}};

    if (count == FEWEST)
        add_squares(&sum, column, first, strip->values, n, FEWEST);
    else if (count == FEWER)
        add_squares(&sum, column, first, strip->values, n, FEWER);
    else
        add_squares(&sum, column, first, strip->values, n, MW_EXACT_DIGITS);
    return sum;
}

/* --- to where they are kept ------------------------------------------------------------------ */

/* A sum of so many units. */
static uint64_t
in_units(double sum, int d)
{
    return (uint64_t)(int64_t)(sum / units[d]);
}

/* Strips of a row meet here; sums of integers are the same in any order. */
static void
add_lanes(struct mw_exact_sum *to, const struct lanes_sum *sum)
{
    for (int d = 0; d < MW_EXACT_DIGITS; d++) {
        double all = 0;
        for (int i = 0; i < MW_WIDTH / 2; i++)
            all += sum->digits[d][i];
        if (all != 0)
            __atomic_fetch_add(&to->digits[d], in_units(all, d), __ATOMIC_RELAXED);
    }
}

static void
add_columns(struct strip *strip, struct mw_exact_sum *to)
{
    for (int64_t c = strip->begin; c < strip->end; c++)
        for (int d = 0; d < MW_EXACT_DIGITS; d++)
            to[c].digits[d] += in_units(strip->columns[d][c - strip->begin], d);
    memset(strip->columns, 0, sizeof strip->columns);
}

/* --- of a call ------------------------------------------------------------------------------- */

/* Either sums of columns and of rows, of which the latter may be NULL, or one of all. */
struct sums {
    struct mw_exact_sum *column, *row, *all;
};

MW_INLINE void
add_strip(struct strip *strip, const struct elements *of, struct sums to)
{
    int64_t last = of->first + of->n, rows = 0;
    sums_of_columns *column = to.column != NULL ? strip->columns : NULL;

    for (int64_t r = of->first / of->columns; r * of->columns < last; r++) {
        int64_t of_row = r * of->columns;
        struct mw_columns at =
            mw_columns_of(of->first - of_row, last - of_row, strip->begin, strip->end);
        if (at.from >= at.to)
            continue;
        struct lanes_sum sum = row_sum(strip, column, of, r, at);
        if (to.all != NULL)
            add_lanes(to.all, &sum);
        else if (to.row != NULL)
            add_lanes(&to.row[r], &sum);
        if (to.column != NULL && ++rows % ROWS_MAX == 0)
            add_columns(strip, to.column);
    }
    if (to.column != NULL && rows % ROWS_MAX)
        add_columns(strip, to.column);
}

static void
add_call(struct elements of, struct sums to)
{
#pragma omp parallel for schedule(static) if (of.n > SEVERAL)
    for (int64_t c = 0; c < of.columns; c += STRIP) {
        struct strip strip = {.begin = c, .end = of.columns - c < STRIP ? of.columns : c + STRIP};
        if (to.column != NULL)
            add_strip(&strip, &of, (struct sums){.column = to.column, .row = to.row});
        else
            add_strip(&strip, &of, (struct sums){.all = to.all});
    }
}

void
MW_CPU(side_sums)(const struct mw_exact_sides *sides, const void *grad, bool grad_fp32, int64_t n)
{
    add_call((struct elements){grad, grad_fp32, sides->columns, sides->first, n, NULL, 1.0f},
             (struct sums){.column = sides->column, .row = sides->row});
}

void
MW_CPU(update_squares)(const struct mw_update_step *step, const struct mw_update_vectors *vectors,
                       const void *grad, bool grad_fp32, int64_t n, struct mw_exact_sum *sum)
{
    add_call((struct elements){grad, grad_fp32, vectors->columns, vectors->first, n, vectors,
                               step->grad_scale},
             (struct sums){.all = sum});
}
