/*
 * compare_fixture.h - a plan of four ops, and steps of it whose figures are known.
 */
#ifndef MW_TESTS_COMPARE_FIXTURE_H
#define MW_TESTS_COMPARE_FIXTURE_H

#include "report/measured.h"

#define MS INT64_C(1000000)
#define OPS 4
#define LANES 3

enum { FORWARD, BACKWARD, READ, WRITE };

/* A read, forward, backward and a write, on three lanes; read and forward have no dependency. */
struct mw_plan *compare_fixture_plan(void);

/* Rows of one step: forward for `forward_ms`, backward 20 ms, read 5 ms from 10 ms before backward
 * ends, write 8 ms from 1 ms after it. */
void compare_fixture_rows(struct mw_timeline_row *rows, uint32_t step, int64_t begin_ns,
                          int64_t forward_ms);

/* Steps whose forward takes so long, each beginning 1 ms after the one before. */
struct mw_measured *compare_fixture_measured(const int64_t *forward_ms, uint32_t count);

#endif
