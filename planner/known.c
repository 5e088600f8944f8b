#include "planner/known.h"

#include <glib.h>
#include <string.h>

#include "base/thread_memory.h"

/* Machines that have numbers, the newest. */
#define MACHINES 32

struct numbers {
    struct mw_hardware machines[MACHINES];
    int64_t machine_count; /* all that were met: the number of the next one */
};

static GPrivate numbers_of_thread = G_PRIVATE_INIT(g_free);

static struct numbers *
numbers_here(void)
{
    struct numbers *numbers = g_private_get(&numbers_of_thread);

    if (!numbers) {
        numbers = g_new0(struct numbers, 1);
        g_private_set(&numbers_of_thread, numbers);
    }
    return numbers;
}

static int64_t
number_of_machine(const struct mw_hardware *machine)
{
    struct numbers *numbers = numbers_here();

    for (int64_t i = numbers->machine_count - 1; i >= MAX(0, numbers->machine_count - MACHINES);
         i--)
        if (!memcmp(&numbers->machines[i % MACHINES], machine, sizeof *machine))
            return i;
    numbers->machines[numbers->machine_count % MACHINES] = *machine;
    return numbers->machine_count++;
}

void
mw_known_key_init(struct mw_known_key *key, const struct mw_request *request,
                  const struct mw_settings *settings)
{
    key->model = mw_sizing_model_number(request->model);
    key->machine = number_of_machine(request->hardware);
    memcpy(&key->settings, settings, sizeof key->settings);
    key->settings.strategy = mw_strategy_sized_as(settings->strategy);
}

static struct mw_thread_memory fits_known =
    MW_THREAD_MEMORY(struct mw_known_key, bool, 1024, 1, NULL);
static struct mw_thread_memory placed_known =
    MW_THREAD_MEMORY(struct mw_known_key, struct mw_settings, 512, 1, NULL);

bool
mw_known_fits(const struct mw_known_key *key, bool *fits)
{
    const bool *known = mw_thread_memory_find(&fits_known, key, sizeof *key);

    if (known)
        *fits = *known;
    return known != NULL;
}

void
mw_known_keep_fits(const struct mw_known_key *key, bool fits)
{
    *(bool *)mw_thread_memory_keep(&fits_known, key, sizeof *key) = fits;
}

bool
mw_known_placed(const struct mw_known_key *key, struct mw_settings *placed)
{
    const struct mw_settings *known = mw_thread_memory_find(&placed_known, key, sizeof *key);

    if (known)
        *placed = *known;
    return known != NULL;
}

void
mw_known_keep_placed(const struct mw_known_key *key, const struct mw_sizing *sizing)
{
    *(struct mw_settings *)mw_thread_memory_keep(&placed_known, key, sizeof *key) =
        sizing->settings;
}
