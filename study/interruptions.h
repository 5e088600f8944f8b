/*
 * interruptions.h - what it costs that a provider takes nodes back.
 *
 * Training saves its state every `every_s` and, once one of its nodes is gone and another is there,
 * goes on from the last save: it loses what it did since, and the time to load (docs/MODEL.md
 * 10.22).  The interval that loses least is Young's.
 */
#ifndef MW_STUDY_INTERRUPTIONS_H
#define MW_STUDY_INTERRUPTIONS_H

#include <stdint.h>

/* Preemptions of a node a day: 579 in 146 days of nodes, of seven traces of AWS V100 instances,
 * 1.2 to 17.6 of each (skypilot-org/spot-traces, preemption/, 2023). */
#define MW_INTERRUPTIONS_A_DAY 4
/* What a node writes to storage that outlives it: a gp3 volume, 1000 MiB/s at most (AWS, EBS). */
#define MW_SAVE_BYTES_PER_S 1048576000.0

struct mw_interruptions {
    double per_node_day;
    double every_s; /* between two saves; 0: Young's interval */
};

struct mw_interrupted {
    double per_day; /* of all nodes */
    double save_s, restart_s, every_s;
    double times; /* the time takes, of that without interruptions; INFINITY: it never ends */
};

/* `asked` NULL: nobody takes anything back.  `state_bytes` are saved by all nodes together;
 * `start_s`: from a node that is there to the first step, without loading. */
struct mw_interrupted mw_interrupted_of(const struct mw_interruptions *asked, int64_t nodes,
                                        int64_t state_bytes, double start_s);

#endif
