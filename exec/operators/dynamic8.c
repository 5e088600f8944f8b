#include "exec/operators/dynamic8.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

static struct mw_dynamic8 with_signs, of_squares;

/* Of each power of ten from 10^-6 to 1 as many values as the bits have room for, evenly spaced in
 * its upper nine tenths: twice as many as of the power before. */
static int
list_magnitudes(float *values, bool squares)
{
    int count = 0;

    values[count++] = 0;
    for (int power = 0; power < 7; power++) {
        int steps = (squares ? 2 : 1) << power;
        for (int i = 0; i < steps; i++)
            values[count++] =
                (float)((0.1 + 0.9 * (2 * i + 1) / (2.0 * steps)) * pow(10, power - 6));
    }
    values[count++] = 1;
    return count;
}

static void
fill_codes(struct mw_dynamic8_codes *codes, bool squares)
{
    int count = list_magnitudes(codes->values, squares);

    codes->largest = count - 1;
    codes->least = squares;
    for (int i = 1; !squares && i < count - 1; i++)
        codes->values[MW_DYNAMIC8_CODES - i] = -codes->values[i];
}

static void
fill(struct mw_dynamic8 *of, bool squares)
{
    int code = 0;

    fill_codes(&of->codes, squares);
    of->below[0] = 0;
    of->middle[0] = INFINITY;
    for (int i = 1; i < MW_DYNAMIC8_BUCKETS; i++) {
        uint32_t bits = (uint32_t)(MW_DYNAMIC8_BEFORE + i) << MW_DYNAMIC8_SHIFT;
        float least;
        memcpy(&least, &bits, sizeof least);
        while (least > MW_DYNAMIC8_MIDDLE(of->codes, code))
            code++;
        of->below[i] = code;
        of->middle[i] = MW_DYNAMIC8_MIDDLE(of->codes, code);
    }
}

static void
fill_both(void)
{
    fill(&with_signs, false);
    fill(&of_squares, true);
}

const struct mw_dynamic8 *
mw_dynamic8_of(bool squares)
{
    static pthread_once_t filled = PTHREAD_ONCE_INIT;

    pthread_once(&filled, fill_both);
    return squares ? &of_squares : &with_signs;
}
