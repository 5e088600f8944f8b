/* Tensor cores in the emulator; exec/device/cuda/mma.h has the layouts. */
#include "tests/cuda/emulator.h"

#include <stdlib.h>

namespace mw_emulated
{
namespace
{
constexpr uint32_t all_lanes = 0xffffffff;

struct fragments {
    float d[4], a[8], b[4];
};

struct tiles {
    float a[16][16], b[16][8];
};

void
gather(tiles &t, const exchange &x)
{
    for (int lane = 0; lane < 32; lane++) {
        fragments f;
        int g = lane / 4, pair = lane % 4 * 2;
        memcpy(&f, x.in[lane], sizeof f);
        for (int half = 0; half < 2; half++) {
            for (int i = 0; i < 4; i++)
                t.a[g + i % 2 * 8][pair + i / 2 * 8 + half] = f.a[2 * i + half];
            for (int i = 0; i < 2; i++)
                t.b[pair + i * 8 + half][g] = f.b[2 * i + half];
        }
    }
}

constexpr int term_bits = 23; /* of a term as large as the largest, behind its first one */

/* The sum of d and 8 products as tensor cores take it: terms are cut off below the largest one's
 * last bits, and so is the sum.  (Fasi, Higham, Mikaitis, Pranesh: "Numerical behavior of NVIDIA
 * tensor cores", 2021; later chips keep more bits.) */
float
cut_sum(float d, const float (&products)[8])
{
    float plain = d, largest = fabsf(d);
    for (float p : products) {
        plain += p;
        largest = fmaxf(largest, fabsf(p));
    }
    if (!(fabsf(plain) <= 0x1p100f) || largest < 0x1p-100f || largest > 0x1p100f)
        return plain; /* infinities and NaN; and where scaling might leave fp32's range */
    uint32_t power;
    float unit;
    memcpy(&power, &largest, sizeof power);
    power = (power & 0x7f800000) - (term_bits << 23);
    memcpy(&unit, &power, sizeof unit);
    const float per_unit = 1.0f / unit;
    int32_t sum = (int32_t)(d * per_unit);
    for (float p : products)
        sum += (int32_t)(p * per_unit);
    int32_t lowest = 1;
    while (abs(sum / lowest) >= 1 << (term_bits + 1))
        lowest *= 2;
    return (float)(sum / lowest * lowest) * unit;
}

void
combine_mma(exchange &x, uint32_t)
{
    tiles t;
    gather(t, x);
    for (int lane = 0; lane < 32; lane++) {
        fragments f;
        memcpy(&f, x.in[lane], sizeof f);
        for (int i = 0; i < 4; i++) {
            int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
            for (int k = 0; k < 16; k += 8) {
                float products[8];
                for (int j = 0; j < 8; j++)
                    products[j] = t.a[row][k + j] * t.b[k + j][column];
                f.d[i] = cut_sum(f.d[i], products);
            }
        }
        memcpy(x.out[lane], f.d, sizeof f.d);
    }
}

/* A row is read when its lane comes: of what other lanes have yet to write it has nothing. */
struct row_of_tile {
    uint16_t elements[8];
    int matrices, transposed;
};

/* Element (row, column) of tile i. */
uint16_t
element(const exchange &x, int i, int row, int column)
{
    row_of_tile r;
    memcpy(&r, x.in[8 * i + row], sizeof r);
    return r.elements[column];
}

void
combine_ldmatrix(exchange &x, uint32_t)
{
    row_of_tile first;
    memcpy(&first, x.in[0], sizeof first);
    for (int lane = 0; lane < 32; lane++) {
        uint32_t r[4] = {0, 0, 0, 0};
        for (int i = 0; i < first.matrices; i++) {
            int g = lane / 4, pair = lane % 4 * 2;
            uint16_t low = first.transposed ? element(x, i, pair, g) : element(x, i, g, pair);
            uint16_t high =
                first.transposed ? element(x, i, pair + 1, g) : element(x, i, g, pair + 1);
            r[i] = low | (uint32_t)high << 16;
        }
        memcpy(x.out[lane], r, sizeof r);
    }
}
} // namespace

void
mma_m16n8k16(float d[4], const float a[8], const float b[4], const char *file, int line)
{
    fragments f;
    memcpy(f.d, d, sizeof f.d);
    memcpy(f.a, a, sizeof f.a);
    memcpy(f.b, b, sizeof f.b);
    struct sums {
        float d[4];
    } out = exchanged<sums>(all_lanes, {"mma", file, line}, f, combine_mma);
    memcpy(d, out.d, sizeof out.d);
}

void
ldmatrix(uint32_t *r, const void *row, int matrices, bool transposed, const char *file, int line)
{
    row_of_tile in = {{0}, matrices, transposed};
    if (lane() < 8 * matrices) {
        check_aligned(row, 16, "ldmatrix");
        memcpy(in.elements, row, sizeof in.elements);
    }
    struct words {
        uint32_t r[4];
    } out = exchanged<words>(all_lanes, {"ldmatrix", file, line}, in, combine_ldmatrix);
    memcpy(r, out.r, (size_t)matrices * sizeof *r);
}
} // namespace mw_emulated
