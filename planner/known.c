#include "planner/known.h"

#include <glib.h>
#include <string.h>

/* Settings, in so many places by their hash; models and machines, the newest. */
#define PLACES_LOG 10
#define MODELS 2
#define MACHINES 32

/* Models and machines by their numbers. */
struct key {
    int64_t model, machine;
    struct mw_settings settings;
};

struct place {
    bool taken;
    struct key key;
    struct mw_known known;
};

struct memory {
    struct place places[1 << PLACES_LOG];
    struct mw_model models[MODELS];
    struct mw_hardware machines[MACHINES];
    int64_t model_count, machine_count; /* all that were met: the number of the next one */
};

static void
free_memory(void *data)
{
    struct memory *memory = data;

    for (size_t i = 0; i < G_N_ELEMENTS(memory->places); i++)
        g_free(memory->places[i].known.placed);
    g_free(memory);
}

static GPrivate memory_of_thread = G_PRIVATE_INIT(free_memory);

static struct memory *
memory_here(void)
{
    struct memory *memory = g_private_get(&memory_of_thread);

    if (!memory) {
        memory = g_new0(struct memory, 1);
        g_private_set(&memory_of_thread, memory);
    }
    return memory;
}

/* One that was forgotten gets another number, so that nothing is known of it. */
static int64_t
number_of_model(struct memory *memory, const struct mw_model *model)
{
    for (int64_t i = memory->model_count - 1; i >= MAX(0, memory->model_count - MODELS); i--)
        if (mw_model_is_same(&memory->models[i % MODELS], model))
            return i;
    memory->models[memory->model_count % MODELS] = *model;
    return memory->model_count++;
}

static int64_t
number_of_machine(struct memory *memory, const struct mw_hardware *machine)
{
    for (int64_t i = memory->machine_count - 1; i >= MAX(0, memory->machine_count - MACHINES); i--)
        if (!memcmp(&memory->machines[i % MACHINES], machine, sizeof *machine))
            return i;
    memory->machines[memory->machine_count % MACHINES] = *machine;
    return memory->machine_count++;
}

/* Multiplicative, by words: 2^64 divided by the golden ratio (Knuth, The Art of Computer
 * Programming, vol. 3, 6.4). */
static size_t
hash(const struct key *key)
{
    const unsigned char *bytes = (const unsigned char *)key;
    uint64_t word, sum = 0;

    G_STATIC_ASSERT(sizeof *key % sizeof word == 0);
    for (size_t i = 0; i < sizeof *key; i += sizeof word) {
        memcpy(&word, bytes + i, sizeof word);
        sum = (sum ^ word ^ sum >> 29) * UINT64_C(0x9e3779b97f4a7c15);
    }
    return (size_t)(sum >> (64 - PLACES_LOG));
}

struct mw_known *
mw_known_of(const struct mw_model *model, const struct mw_hardware *hardware,
            const struct mw_settings *settings)
{
    struct memory *memory = memory_here();
    struct key key;

    key.model = number_of_model(memory, model);
    key.machine = number_of_machine(memory, hardware);
    memcpy(&key.settings, settings, sizeof key.settings);
    key.settings.strategy = mw_strategy_sized_as(settings->strategy);
    struct place *place = &memory->places[hash(&key)];
    if (place->taken && !memcmp(&place->key, &key, sizeof key))
        return &place->known;
    g_free(place->known.placed);
    place->taken = true;
    memcpy(&place->key, &key, sizeof key);
    place->known = (struct mw_known){MW_KNOWN_NOT, NULL, -1, -1};
    return &place->known;
}

void
mw_known_keep_placed(struct mw_known *known, const struct mw_sizing *sizing)
{
    g_free(known->placed);
    known->placed = g_memdup2(&sizing->settings, sizeof sizing->settings);
}
