/* internal.h - what the files of the collectives share; not for others. */
#ifndef MW_EXEC_RANKS_INTERNAL_H
#define MW_EXEC_RANKS_INTERNAL_H

#include "exec/ranks/ranks.h"

/* What a rank says on arriving at a collective: where ranks differ in it, they run different
 * plans. */
struct mw_ranks_arrival {
    int64_t serial; /* collectives of the lane before this one */
    int64_t kind;   /* enum mw_ranks_kind */
    int64_t elements, shard_elements;
    int64_t detail; /* whatever else must agree */
    int64_t status; /* may differ */
};

enum mw_ranks_kind {
    MW_RANKS_ALL_GATHER,
    MW_RANKS_REDUCE_SCATTER,
    MW_RANKS_FOLD,
    MW_RANKS_ALL_REDUCE_FP64,
    MW_RANKS_ROWS,
    MW_RANKS_BROADCAST,
    MW_RANKS_ALL_TO_ALL,
    MW_RANKS_EXCHANGE,
    MW_RANKS_PASS,
    MW_RANKS_BARRIER,
    MW_RANKS_LEAVE,
};

struct mw_ranks_link; /* the transport's part of a lane */

struct mw_ranks_lane {
    const struct mw_ranks *ranks;
    int count, index; /* of its members, and of this rank among them */
    int base, stride; /* member i is rank base + i * stride */
    char *scratch;    /* NULL: alone */
    int64_t serial;
    int64_t waited_ns;                 /* for others to arrive */
    struct mw_ranks_arrival *arrivals; /* [count] */
    const void **sources;              /* [count] of a sum */
    struct mw_ranks_link *link;
};

struct mw_ranks {
    int count, index, node_count, node_index;
    int lane_count;
    int64_t scratch_bytes;
    struct mw_ranks_lane *lanes;
    struct mw_ranks_watch *watch; /* NULL: alone */
    char *notice;
};

/* --- the transport: exec/ranks/mpi.c, or exec/ranks/alone.c in a build without MPI --- */

/* The largest message.  MPI counts in int, and long before that a message is no faster for being
 * longer. */
#define MW_RANKS_MESSAGE_BYTES_MAX ((int64_t)16 << 20)
/* Of words on a failure: few enough to be sent whether somebody waits for them or not. */
#define MW_RANKS_WORDS_BYTES 1024

/* Whether a launcher started this process; then fills in the counts and indices. */
bool mw_ranks_link_join(struct mw_ranks *ranks, GError **error);
/* For lanes whose other members are set. */
bool mw_ranks_link_open(struct mw_ranks_lane *lane, GError **error);
void mw_ranks_link_close(struct mw_ranks_lane *lane);
void mw_ranks_link_leave(void);
void mw_ranks_link_abort(int status);
/* What the first rank tells each of the others, once; and whether that has come. */
void mw_ranks_link_tell(int count, const char words[MW_RANKS_WORDS_BYTES]);
bool mw_ranks_link_hear(char words[MW_RANKS_WORDS_BYTES]);

/* Messages go out in one of two sets, which is then finished.  Between two ranks, messages of a
 * lane are received in the order in which they were sent, so both sides post alike; empty ones are
 * left out.  At most so many messages each way for every peer in a set. */
#define MW_RANKS_SET_MESSAGES 16
void mw_ranks_link_send(struct mw_ranks_lane *lane, int set, int peer, const void *data,
                        int64_t bytes);
void mw_ranks_link_receive(struct mw_ranks_lane *lane, int set, int peer, void *data,
                           int64_t bytes);
/* patient: the peers may be far behind, so it sleeps between looks. */
bool mw_ranks_link_finish(struct mw_ranks_lane *lane, int set, bool patient, GError **error);

/* --- exec/ranks/watch.c: who is still there --- */

struct mw_ranks_peer {
    int64_t pid;
    uint64_t pid_namespace;
    int64_t rank;
};

struct mw_ranks_peer mw_ranks_watch_self(int rank);
/* `peers` are the ranks of this machine, itself among them.  Listens to SIGTERM. */
struct mw_ranks_watch *mw_ranks_watch_start(const struct mw_ranks_peer *peers, int count,
                                            int self_rank);
void mw_ranks_watch_stop(struct mw_ranks_watch *watch); /* NULL is allowed */
void mw_ranks_watch_cancel(struct mw_ranks_watch *watch);
/* As if the signal had come to it. */
void mw_ranks_watch_tell(struct mw_ranks_watch *watch, int number);
/* Whether the run cannot continue; *error says why. */
bool mw_ranks_watch_failed(const struct mw_ranks_watch *watch, GError **error);
/* Whether another rank of this machine has ended, or the launcher ends this one. */
bool mw_ranks_watch_saw_end(const struct mw_ranks_watch *watch);

/* --- exec/ranks/cores.c --- */

/* Of `ranks` ranks of a machine with `online` cores, each with `own`: a line if some core is in
 * nobody's reach, or NULL; g_free it. */
char *mw_ranks_cores_notice(int own, int online, int ranks);
/* What mw_ranks_cores says, of the same. */
int mw_ranks_cores_share(int own, int online, int ranks);
char *mw_ranks_cores_look(int ranks);

/* --- exec/ranks/sum.c --- */

int64_t mw_ranks_element_bytes(enum mw_dtype dtype);
/* What mw_ranks_reduce_scatter says, of `elements` from each of `count` sources. */
void mw_ranks_sum_sources(void *shard, const void *const *sources, int count, int64_t elements,
                          struct mw_ranks_sum sum);

/* --- ranks.c --- */

/* Waits until all ranks are at this collective; lane->arrivals are theirs. */
bool mw_ranks_arrive(struct mw_ranks_lane *lane, struct mw_ranks_arrival arrival, GError **error);

#endif
