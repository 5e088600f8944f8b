/*
 * fuzz.h - what every fuzz target defines: LibFuzzer calls it with inputs of its own, replay.c with
 * the seeds.
 */
#ifndef MW_TESTS_FUZZ_H
#define MW_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
