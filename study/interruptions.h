/*
 * interruptions.h - what it costs that a provider takes nodes back.
 *
 * Training saves its state after every `every_s` of work and, once one of its nodes is gone and
 * another is there, goes on from the last save: it loses what it did since, and the time to boot,
 * start and load (docs/MODEL.md 10.22).
 */
#ifndef MW_STUDY_INTERRUPTIONS_H
#define MW_STUDY_INTERRUPTIONS_H

#include <stdint.h>

/* Preemptions of a node a day: 579 in 146 days of nodes, of seven traces of AWS V100 instances,
 * 1.2 to 17.6 of each (skypilot-org/spot-traces, preemption/, 2023). */
#define MW_INTERRUPTIONS_A_DAY 4
/* What a node writes to storage that outlives it: a gp3 volume, 1000 MiB/s at most (AWS, EBS). */
#define MW_SAVE_BYTES_PER_S 1048576000.0
/* From a node that is granted to a process that starts on it.  Typical: under a minute until a
 * machine of 96 cores lets one in (5000 machines of Google Cloud, R. Aboukhalil, "Move Fast and
 * Break the Cloud", 2018).  Most: until a service with weights on a volume that is there already
 * answers on a machine that was asleep (spotinference.com/research/anatomy-of-a-gpu-wake). */
#define MW_BOOT_S 60.0
#define MW_BOOT_MOST_S 480.0

struct mw_interruptions {
    double per_node_day;
    double every_s; /* of work between two saves; 0: the interval that loses least */
};

struct mw_interrupted {
    double per_day; /* of all nodes */
    double save_s, restart_s, every_s;
    double times; /* the time that it takes, of that without interruptions; INFINITY: longer than
                   * can be said */
};

/* `asked` NULL: nobody takes anything back.  `state_bytes` are saved by all nodes together;
 * `start_s`: from a node that is granted to the first step, without loading. */
struct mw_interrupted mw_interrupted_of(const struct mw_interruptions *asked, int64_t nodes,
                                        int64_t state_bytes, double start_s);

#endif
