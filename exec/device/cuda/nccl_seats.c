/* Which rank has which GPU. */
#include <string.h>

#include "base/error.h"
#include "exec/device/cuda/nccl.h"

/* Ranks of one machine have booted together, in containers or not. */
#define BOOT "/proc/sys/kernel/random/boot_id"

struct seat {
    char machine[64];
    char bus[16];
};

static struct seat
own_seat(const struct mw_cuda_gpu *gpu)
{
    g_autofree char *boot = NULL;
    struct seat seat = {0};

    g_file_get_contents(BOOT, &boot, NULL, NULL);
    g_strlcpy(seat.machine, boot ? boot : g_get_host_name(), sizeof seat.machine);
    g_strlcpy(seat.bus, gpu->bus, sizeof seat.bus);
    return seat;
}

static bool
is_same(const struct seat *a, const struct seat *b)
{
    return !memcmp(a, b, sizeof *a);
}

/* Of the machine that rank `of` is on: its ranks, and GPUs that some rank has. */
static void
count(const struct seat *seats, int ranks, int of, int *here, int *gpus)
{
    *here = *gpus = 0;
    for (int rank = 0; rank < ranks; rank++) {
        bool known = false;
        if (strcmp(seats[rank].machine, seats[of].machine) != 0)
            continue;
        for (int before = 0; before < rank; before++)
            known |= is_same(&seats[before], &seats[rank]);
        *here += 1;
        *gpus += !known;
    }
}

static bool
refuse(const struct seat *seats, int ranks, int first, int second, GError **error)
{
    int here, gpus;

    count(seats, ranks, first, &here, &gpus);
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE,
                "GPUs: %d ranks of a machine, %d GPU%s: ranks %d and %d have the same one (%s), "
                "and one rank has one GPU",
                here, gpus, gpus == 1 ? "" : "s", first, second, seats[first].bus);
    return false;
}

bool
mw_cuda_peers_check_seats(const struct mw_cuda_peers *peers, GError **error)
{
    int ranks = mw_ranks_count(peers->ranks);
    struct mw_ranks_part part = {ranks, 1, 0, 0};
    g_autofree struct seat *seats = g_new0(struct seat, ranks);
    struct seat own = own_seat(peers->gpu);

    if (!mw_ranks_all_gather(peers->ranks, 0, seats, &own, &part, sizeof own, error))
        return false;
    for (int rank = 1; rank < ranks; rank++)
        for (int before = 0; before < rank; before++)
            if (is_same(&seats[before], &seats[rank]))
                return refuse(seats, ranks, before, rank, error);
    return true;
}
