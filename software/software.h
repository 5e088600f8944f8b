/*
 * software.h - software profiles: what a training framework does to a step, read from
 * software/NAME.ini (profile/).
 *
 * A hardware profile says what a machine can do, whoever uses it.  A software profile says what a
 * framework of some year gets out of it, as mechanisms with sources and ranges: passes over memory
 * that it does not fuse, the share of a rate that its kernels reach, pageable copies, a CPU
 * optimizer that moves more bytes.  mw_software_apply turns the reading of a machine into that of
 * the machine as the software uses it, which planner and simulator then take: they know nothing of
 * software.  `ideal` leaves a machine as it is.
 *
 * Equations: docs/MODEL.md, section 12.
 */
#ifndef MW_SOFTWARE_SOFTWARE_H
#define MW_SOFTWARE_SOFTWARE_H

#include "hardware/hwprofile.h"

/* How attention is computed: whether the score matrix is written to memory. */
enum mw_attention_kernel { MW_ATTENTION_FUSED, MW_ATTENTION_UNFUSED, MW_ATTENTION_KERNEL_COUNT };

struct mw_software {
    int attention_kernel;          /* enum mw_attention_kernel */
    double attention_share;        /* of the machine's rate of attention, by size */
    bool causal_skip;              /* the half of the scores that is masked is not computed */
    double product_share;          /* of its rates of matrix products, clocks as in a long run */
    double operator_passes;        /* over memory, as a multiple of the fused ones */
    double operator_share;         /* of the rate that such kernels reach at best */
    double collective_share;       /* of the links' rates */
    double collective_hop_s;       /* added to a hop's latency */
    double copy_share;             /* of the host links' rates: 1 with pinned memory */
    double drive_share;            /* of the drives' rates, by its path to them */
    double update_bytes_per_param; /* of host memory, moved by the CPU optimizer */
    double update_params_per_s;    /* of the CPU optimizer of a node, at most; 0: no bound */
};

extern const struct mw_profile_kind mw_software_kind;

struct mw_profile *mw_software_load(const char *name_or_path, GError **error);
struct mw_software mw_software_read(const struct mw_profile *profile, enum mw_outlook outlook);

/* The kind of profile whose key an assignment sets, and the assignment without that kind's prefix:
 * "software.operators.share=0.8" is operators.share=0.8 of a software profile. */
const char *mw_key_of(const char *assignment, const struct mw_profile_kind **kind);

/* What is used if nothing is named. */
#define MW_SOFTWARE_DEFAULT "ideal"

/* Makes it the machine as the software uses it. */
void mw_software_apply(const struct mw_software *software, struct mw_hardware *hardware);

/* A machine at an outlook as the software uses it, NULL as it is. */
struct mw_hardware mw_machine_read(const struct mw_profile *machine,
                                   const struct mw_profile *software, enum mw_outlook outlook);

#endif
