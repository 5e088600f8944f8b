/*
 * mix.h - random numbers by counter: any of them by itself, in any order.
 *
 * The finaliser of SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
 * Generators", OOPSLA 2014, Fig. 17), a bijection of 64 bits.
 */
#ifndef MW_EXEC_DATA_MIX_H
#define MW_EXEC_DATA_MIX_H

#include <stdint.h>

static inline uint64_t
mw_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15; /* 2^64 over the golden ratio: 0 must not stay 0 */
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

#endif
