#include "sim/product_times.h"

#include <glib.h>
#include <string.h>

#define PLACES_LOG 11 /* 2048 times, 256 KiB a thread */

struct place {
    struct mw_product_key key;
    double seconds;
};

static void
free_places(void *places)
{
    g_free(places);
}

static GPrivate places_of_thread = G_PRIVATE_INIT(free_places);

static struct place *
places(void)
{
    struct place *all = g_private_get(&places_of_thread);

    if (!all) {
        all = g_new0(struct place, (size_t)1 << PLACES_LOG);
        g_private_set(&places_of_thread, all);
    }
    return all;
}

/* Multiplicative, by words: 2^64 divided by the golden ratio (Knuth, The Art of Computer
 * Programming, vol. 3, 6.4). */
static size_t
hash(const struct mw_product_key *key)
{
    uint64_t words[sizeof *key / sizeof(uint64_t)], sum = 0;

    memcpy(words, key, sizeof *key);
    for (size_t i = 0; i < G_N_ELEMENTS(words); i++)
        sum = (sum ^ words[i] ^ sum >> 29) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(sum >> (64 - PLACES_LOG));
}

double *
mw_product_time_of(const struct mw_product_key *key)
{
    struct place *place = &places()[hash(key)];

    if (memcmp(&place->key, key, sizeof *key)) {
        place->key = *key;
        place->seconds = 0;
    }
    return &place->seconds;
}
