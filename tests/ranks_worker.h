/* ranks_worker.h - what each rank does in a test of the collectives, by the name of the case. */
#ifndef RANKS_WORKER_H
#define RANKS_WORKER_H

#include <stdint.h>

/* Status 0: all came out as it must; 1: a line on standard error says what did not. */
int ranks_worker(const char *name, uint64_t seed);

#endif
