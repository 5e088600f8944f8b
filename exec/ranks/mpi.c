#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "exec/ranks/internal.h"

/* What waits for a peer looks again at once for about as long as a message takes to cross, and then
 * leaves the cores to others: it sleeps for a part of the time that it has waited, so that whoever
 * comes late is not kept waiting for much longer than that part.  The longest sleep is long beside
 * what a look costs: it takes a core from a thread that computes, which loses its caches' contents
 * too.  Looks every 50 us made steps of pipeline stages 13% longer than looks every 200 us. */
#define QUICK_LOOKS 200
#define SLEEP_PART 32
#define SLEEP_MOST_NS 200000

struct message_set {
    MPI_Request *requests; /* MW_RANKS_SET_MESSAGES each way for every peer */
    int count;
    int failure; /* the first code that is not MPI_SUCCESS */
};

struct mw_ranks_link {
    MPI_Comm comm;
    struct message_set sets[2];
};

static bool
report(int code, const char *what, GError **error)
{
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;

    if (code == MPI_SUCCESS)
        return true;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
        g_strlcpy(text, "unknown error", sizeof text);
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE, "MPI: %s: %s", what, text);
    return false;
}

/* Linux lets a thread sleep for 50 us longer than it asked for, unless it says that it minds
 * (prctl(2), PR_SET_TIMERSLACK). */
static void
sleep_ns(int64_t ns)
{
    static _Thread_local bool exact;

    if (!exact)
        prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    exact = true;
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

struct wait {
    int64_t looks, began_ns; /* the latter once it no longer looks quickly */
};

static void
idle(struct wait *wait, bool patient)
{
    if (!patient || wait->looks++ < QUICK_LOOKS) {
        sched_yield();
        return;
    }
    int64_t now_ns = mw_clock_now_ns();
    wait->began_ns = wait->began_ns ? wait->began_ns : now_ns;
    sleep_ns(MIN((now_ns - wait->began_ns) / SLEEP_PART, SLEEP_MOST_NS));
}

/* --- the process --- */

/* Set by Open MPI's mpirun, by launchers that speak PMIx (srun), and by those of MPICH. */
static bool
is_launched(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK") || getenv("PMI_SIZE");
}

static void
watch_node(struct mw_ranks *ranks, MPI_Comm node)
{
    struct mw_ranks_peer self = mw_ranks_watch_self(ranks->index), *peers;

    peers = g_new0(struct mw_ranks_peer, ranks->node_count);
    MPI_Allgather(&self, sizeof self, MPI_BYTE, peers, sizeof self, MPI_BYTE, node);
    if (ranks->count > 1)
        ranks->watch = mw_ranks_watch_start(peers, ranks->node_count, ranks->index);
    g_free(peers);
}

bool
mw_ranks_link_join(struct mw_ranks *ranks, GError **error)
{
    int provided = MPI_THREAD_SINGLE;
    MPI_Comm node;

    if (!is_launched())
        return true;
    if (!report(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided), "start", error))
        return false;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks->count);
    MPI_Comm_rank(MPI_COMM_WORLD, &ranks->index);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, ranks->index, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &ranks->node_count);
    MPI_Comm_rank(node, &ranks->node_index);
    watch_node(ranks, node);
    MPI_Comm_free(&node);
    if (ranks->count == 1 || provided == MPI_THREAD_MULTIPLE)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE,
                "this MPI does not let several threads communicate at once "
                "(MPI_THREAD_MULTIPLE), as the lanes of %d ranks do",
                ranks->count);
    return false;
}

void
mw_ranks_link_leave(void)
{
    int started = 0;

    MPI_Initialized(&started);
    if (started)
        MPI_Finalize();
}

void
mw_ranks_link_abort(int status)
{
    MPI_Abort(MPI_COMM_WORLD, status);
}

/* --- words on a failure --- */

/* Lanes have communicators of their own. */
#define WORDS_TAG 1
#define TELL_NS (80 * 1000000) /* for the others to take them, before all are ended */

void
mw_ranks_link_tell(int count, const char words[MW_RANKS_WORDS_BYTES])
{
    static char sent[MW_RANKS_WORDS_BYTES]; /* stays: nobody may have taken it before the end */
    MPI_Request *requests = g_new0(MPI_Request, count);
    struct wait wait = {0};
    int done = 0;

    memcpy(sent, words, sizeof sent);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int rank = 1; rank < count; rank++)
        MPI_Isend(sent, sizeof sent, MPI_BYTE, rank, WORDS_TAG, MPI_COMM_WORLD,
                  &requests[rank - 1]);
    int64_t end_ns = mw_clock_now_ns() + TELL_NS;
    while (!done && mw_clock_now_ns() < end_ns) {
        if (MPI_Testall(count - 1, requests, &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
            break;
        idle(&wait, true);
    }
    if (done)
        g_free(requests);
}

bool
mw_ranks_link_hear(char words[MW_RANKS_WORDS_BYTES])
{
    int there = 0;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    return MPI_Iprobe(0, WORDS_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
           there &&
           MPI_Recv(words, MW_RANKS_WORDS_BYTES, MPI_BYTE, 0, WORDS_TAG, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

/* --- a lane --- */

bool
mw_ranks_link_open(struct mw_ranks_lane *lane, GError **error)
{
    struct mw_ranks_link *link = lane->link = g_new0(struct mw_ranks_link, 1);

    for (int i = 0; i < 2; i++)
        link->sets[i].requests =
            g_new0(MPI_Request, (gsize)2 * MW_RANKS_SET_MESSAGES * (lane->ranks->count - 1));
    if (!report(MPI_Comm_dup(MPI_COMM_WORLD, &link->comm), "a lane's communicator", error))
        return false;
    MPI_Comm_set_errhandler(link->comm, MPI_ERRORS_RETURN);
    return true;
}

void
mw_ranks_link_close(struct mw_ranks_lane *lane)
{
    MPI_Comm_free(&lane->link->comm);
    for (int i = 0; i < 2; i++)
        g_free(lane->link->sets[i].requests);
    g_clear_pointer(&lane->link, g_free);
}

static void
posted(struct message_set *set, int code)
{
    if (code == MPI_SUCCESS)
        set->count++;
    else if (set->failure == MPI_SUCCESS)
        set->failure = code;
}

void
mw_ranks_link_send(struct mw_ranks_lane *lane, int index, int peer, const void *data, int64_t bytes)
{
    struct message_set *set = &lane->link->sets[index];

    if (bytes)
        posted(set, MPI_Isend(data, (int)bytes, MPI_BYTE, lane->base + peer * lane->stride, 0,
                              lane->link->comm, &set->requests[set->count]));
}

void
mw_ranks_link_receive(struct mw_ranks_lane *lane, int index, int peer, void *data, int64_t bytes)
{
    struct message_set *set = &lane->link->sets[index];

    if (bytes)
        posted(set, MPI_Irecv(data, (int)bytes, MPI_BYTE, lane->base + peer * lane->stride, 0,
                              lane->link->comm, &set->requests[set->count]));
}

bool
mw_ranks_link_finish(struct mw_ranks_lane *lane, int index, bool patient, GError **error)
{
    struct message_set *set = &lane->link->sets[index];
    struct wait wait = {0};
    int done = 0;

    while (set->failure == MPI_SUCCESS) {
        set->failure = MPI_Testall(set->count, set->requests, &done, MPI_STATUSES_IGNORE);
        if (done)
            break;
        if (mw_ranks_watch_failed(lane->ranks->watch, error))
            return false;
        idle(&wait, patient);
    }
    set->count = 0;
    return report(set->failure, "a message between ranks", error);
}
