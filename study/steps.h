/*
 * steps.h - what can be added to a machine that one has: a drive, memory, a card, another card, a
 * node, a network, another instance.  Each step makes of one machine another, of which a question
 * is asked as of any; it is a row of one table, which study/improvements.c takes parts from too.
 *
 * What a part costs is known by its name:
 *
 *   memory            a GiB of host memory
 *   drive             a TB of drives that may be written less than 1000 times (rated)
 *   drive:datacenter  a TB of those that may be written more often
 *   card:PROFILE      a card, by the profile of a machine with one of them
 *   network:GBITS     a node's adapter, cable and share of the switch, by its rate in Gb/s
 */
#ifndef MW_STUDY_STEPS_H
#define MW_STUDY_STEPS_H

#include "study/study.h"

#define MW_PART_PREFIX "part:"
#define MW_PART_NAMES_TEXT                                                                         \
    "part:memory (a GiB), part:drive or part:drive:datacenter (a TB), part:card:PROFILE or "       \
    "part:network:GBITS"

/* Both texts belong to who made the list (lib/owned.c); a step borrows them. */
struct mw_part_price {
    char *part;              /* without the prefix */
    double usd, least, most; /* of its unit; the range is usd itself where none is known */
    char *from;              /* who says so, and when */
};

/* In the order in which two steps are made: what is bought for every node comes after the nodes. */
enum mw_step_kind {
    MW_STEP_INSTANCE, /* another one of the same provider */
    MW_STEP_NODE,
    MW_STEP_NETWORK,
    MW_STEP_OTHER_CARD, /* in place of every card */
    MW_STEP_CARD,
    MW_STEP_MEMORY,
    MW_STEP_DRIVE,
    MW_STEP_KINDS
};

struct mw_step {
    enum mw_step_kind kind;
    char *name;        /* of a card's or an instance's profile; else NULL */
    double gbit_per_s; /* of a network; 0: none comes with it */
};

/* A machine on its way. */
struct mw_stepped {
    struct mw_question question; /* a shallow copy, on `profile` */
    struct mw_profile *profile;  /* owned */
    GString *sets;               /* "--set nvme.drives=2 ..." */
    GString *what;               /* "one more drive" */
    double usd, least, most;     /* what has been bought, for all nodes; NAN: not known */
    GString *price_from;         /* who says so */
    GString *unpriced;           /* parts whose price is not known: "part:network:100" */
};

/* Drives that are rated for less than 1000 times their capacity are consumers'. */
enum mw_drive_kind mw_drive_kind_of(const struct mw_hardware *hardware);
/* The part's name of such drives, without the prefix. */
const char *mw_drive_part(enum mw_drive_kind kind);

/* Whether a name, without the prefix, is that of a part. */
bool mw_part_name_check(const char *name);

/* The steps that the machine of a question allows, in their order: array of struct mw_step, which
 * owns them. */
GArray *mw_steps_of(const struct mw_question *question, const struct mw_part_price *prices,
                    int price_count);

void mw_stepped_init(const struct mw_question *question, struct mw_stepped *out);
/* Makes one step more; false: this machine cannot. */
bool mw_step_make(const struct mw_step *step, const struct mw_part_price *prices, int price_count,
                  struct mw_stepped *machine);
/* Reads the figures of the machine once all steps are made. */
void mw_stepped_read(struct mw_stepped *machine);
/* The options that ask about it, beside those of the model and its training; g_free it. */
char *mw_stepped_options(const struct mw_stepped *machine);
void mw_stepped_clear(struct mw_stepped *machine);

/* The profile with one drive more, or twice the host memory, as a step makes it; `flags` as
 * mw_hwprofile_enlarge has it. */
struct mw_profile *mw_step_part(const struct mw_question *question, enum mw_hw_part part,
                                GString *flags);

/* "4xrtx4090" and "rtx4090-4x" have cards of rtx4090; NULL: its GPUs are none that are bought one
 * by one, or nobody says of what kind they are.  g_free it. */
char *mw_card_of(const struct mw_question *question);

#endif
