/*
 * weights_fixture.h - the models that the tests of weights use.
 */
#ifndef MW_TESTS_WEIGHTS_FIXTURE_H
#define MW_TESTS_WEIGHTS_FIXTURE_H

#include "config.h"
#include "exec/data/weights.h"
#include "model/model.h"

#define FIXTURES MW_SOURCE_DIR "/tests/fixtures/"

/* Aborts where the model cannot run. */
struct mw_decoder mw_test_decoder(const char *name_or_path);

/* Operators of a layer's fetch units. */
#define MW_TEST_UNITS 4
extern const uint32_t mw_test_units[MW_TEST_UNITS];

#endif
