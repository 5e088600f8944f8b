#include "planner/known.h"

#include <glib.h>
#include <string.h>

#include "base/thread_memory.h"

/* Numbers of the newest machines. */
static struct mw_thread_memory machines =
    MW_THREAD_MEMORY(struct mw_hardware, int64_t, 1, 32, NULL);

/* One that was forgotten gets another number, so that nothing is known of it. */
static int64_t
number_of_machine(const struct mw_hardware *machine)
{
    static _Thread_local int64_t next;
    const int64_t *known = mw_thread_memory_find(&machines, machine, sizeof *machine);

    if (known)
        return *known;
    *(int64_t *)mw_thread_memory_keep(&machines, machine, sizeof *machine) = next;
    return next++;
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
