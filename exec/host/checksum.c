#include "exec/host/checksum.h"

#include <glib.h>
#include <xxhash.h>
#ifdef MW_XXH_DISPATCH
#include <xxh_x86dispatch.h> /* XXH3 with the processor's own vectors */
#endif

struct mw_checksum {
    XXH3_state_t *state;
};

uint64_t
mw_checksum(const void *data, int64_t bytes)
{
    return XXH3_64bits(data, (size_t)bytes);
}

struct mw_checksum *
mw_checksum_begin(void)
{
    struct mw_checksum *sum = g_new(struct mw_checksum, 1);

    sum->state = XXH3_createState();
    if (!sum->state)
        g_error("out of memory");
    XXH3_64bits_reset(sum->state);
    return sum;
}

void
mw_checksum_add(struct mw_checksum *sum, const void *data, int64_t bytes)
{
    XXH3_64bits_update(sum->state, data, (size_t)bytes);
}

uint64_t
mw_checksum_end(struct mw_checksum *sum)
{
    uint64_t result = XXH3_64bits_digest(sum->state);

    XXH3_freeState(sum->state);
    g_free(sum);
    return result;
}
