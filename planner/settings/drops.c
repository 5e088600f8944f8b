#include "planner/settings/drops.h"

#include <string.h>

#include "base/error.h"

#define LAYERS_MAX INT64_C(1000000000)
#define STEPS_MAX INT64_C(1000000000)

/* Reads "12"; false if there is none, or a larger one. */
static bool
read_number(const char **at, int64_t most, int64_t *number)
{
    const char *begin = *at;

    for (*number = 0; g_ascii_isdigit(**at) && *number <= most; ++*at)
        *number = *number * 10 + (**at - '0');
    return *at > begin && *number <= most;
}

/* Reads "5" or "5-7". */
static bool
read_range(const char **at, int64_t *first, int64_t *last)
{
    if (!read_number(at, LAYERS_MAX, first))
        return false;
    *last = *first;
    if (**at != '-')
        return true;
    ++*at;
    return read_number(at, LAYERS_MAX, last) && *last >= *first;
}

struct walk {
    const char *at;
    uint32_t turn;
    bool good;
};

/* The next range of layers, with its turn; false behind the last one, and where it is not good.  A
 * turn "-" has none. */
static bool
next_range(struct walk *walk, int64_t *first, int64_t *last)
{
    while (*walk->at == '-' || *walk->at == '/') {
        bool ends = *walk->at == '/';
        bool alone = walk->at[1] == '/' || walk->at[1] == '@' || !walk->at[1];
        if (ends == alone) {
            walk->good = false;
            return false;
        }
        walk->turn += ends;
        walk->at++;
    }
    if (!*walk->at || *walk->at == '@')
        return false;
    walk->good = read_range(&walk->at, first, last) && strchr(",/@", *walk->at) &&
                 !(*walk->at == ',' && !g_ascii_isdigit(walk->at[1]));
    if (walk->good && *walk->at == ',')
        walk->at++;
    return walk->good;
}

bool
mw_drops_check(const char *text, GError **error)
{
    struct walk walk = {text, 0, *text && *text != '/' && *text != '@'};
    int64_t first, last;

    while (walk.good && next_range(&walk, &first, &last))
        continue;
    if (walk.good && *walk.at == '@') {
        walk.at++;
        walk.good = read_number(&walk.at, STEPS_MAX, &first) && !*walk.at;
    }
    if (walk.good && walk.turn < MW_DROPS_TURNS_MAX)
        return true;
    return mw_refuse(error,
                     "{drop-layers=%s}: must be layers for each of at most %d steps in turn, such "
                     "as 1,3/5-7/-, perhaps from a step on: 1,3/-@100",
                     text, MW_DROPS_TURNS_MAX);
}

bool
mw_drops_check_layers(const char *text, int64_t layers, GError **error)
{
    struct walk walk = {text, 0, true};
    int64_t first, last;

    while (next_range(&walk, &first, &last))
        if (last >= layers)
            return mw_refuse(error,
                             "{drop-layers=%s}: layer %" G_GINT64_FORMAT
                             " does not exist; the model has layers 0 to %" G_GINT64_FORMAT,
                             text, last, layers - 1);
    for (uint32_t turn = 0; turn < mw_drops_turns(text); turn++) {
        g_autofree bool *dropped = mw_drops_of_turn(text, turn, layers);
        if (dropped && !memchr(dropped, false, (size_t)layers))
            return mw_refuse(error, "{drop-layers=%s}: leave one layer at least in every step",
                             text);
    }
    return true;
}

uint32_t
mw_drops_turns(const char *text)
{
    uint32_t turns = 1;

    for (; *text; text++)
        turns += *text == '/';
    return turns;
}

int64_t
mw_drops_first_step(const char *text)
{
    const char *at = strchr(text, '@');

    return at ? g_ascii_strtoll(at + 1, NULL, 10) : 0;
}

bool *
mw_drops_of_turn(const char *text, uint32_t turn, int64_t layers)
{
    struct walk walk = {text, 0, true};
    bool *dropped = NULL;
    int64_t first, last;

    while (next_range(&walk, &first, &last)) {
        if (walk.turn != turn)
            continue;
        if (!dropped)
            dropped = g_new0(bool, layers);
        for (int64_t layer = first; layer <= last; layer++)
            dropped[layer] = true;
    }
    return dropped;
}
