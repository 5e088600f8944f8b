/* Reads the words of a composed machine. */
#include "hardware/composed.h"

#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "hardware/internal.h"

#define TEXT_MAX 255
#define GIB 1073741824.0

/* Memory modules are sold by 2^30 bytes, which their labels call GB (JEDEC JESD100B.01). */
static const struct unit {
    const char *name;
    double factor;
} memory_units[] = {{"", GIB},         {"G", GIB},         {"GB", GIB},         {"GiB", GIB},
                    {"T", 1024 * GIB}, {"TB", 1024 * GIB}, {"TiB", 1024 * GIB}, {NULL, 0}};

static const struct unit drive_units[] = {{"", 1e12}, {"T", 1e12}, {"TB", 1e12},
                                          {"G", 1e9}, {"GB", 1e9}, {NULL, 0}};

/* A number with one of the units, from `least` to `most`. */
static bool
read_bytes(const char *text, const struct unit *units, double least, double most, int64_t *bytes)
{
    double value;
    const char *end = mw_number_scan(text, &value);

    while (end && units->name && g_ascii_strcasecmp(end, units->name))
        units++;
    if (!end || !units->name || value * units->factor < least || value * units->factor > most)
        return false;
    *bytes = (int64_t)(value * units->factor);
    return true;
}

/* "2x4TB", "4x8": the text after a whole number from 1 to `max` and the x; NULL: there is none. */
static const char *
scan_times(const char *text, int max, int *count)
{
    const char *end = text + strspn(text, "0123456789");
    double value;

    if (end == text || end - text > 6 || g_ascii_tolower(*end) != 'x')
        return NULL;
    mw_number_scan(text, &value); /* 4x8 is no hexadecimal number: it ends at the x */
    *count = (int)g_ascii_strtoll(text, NULL, 10);
    return *count >= 1 && *count <= max ? end + 1 : NULL;
}

/* --- parts ----------------------------------------------------------------------------------- */

static bool
read_ram(const char *text, struct mw_machine_parts *parts)
{
    return read_bytes(text, memory_units, GIB, 1e6 * GIB, &parts->ram_bytes);
}

static bool
read_dram(const char *text, struct mw_machine_parts *parts)
{
    const char *rest = scan_times(text, 256, &parts->dram_channels);
    double rate;

    if (!rest || g_ascii_strncasecmp(rest, "ddr", 3) || rest[3] < '3' || rest[3] > '5' ||
        rest[4] != '-')
        return false;
    const char *end = mw_number_scan(rest + 5, &rate);
    parts->dram_mega_transfers_per_s = end && rate > 0 && rate < 1e5 ? (int)rate : 0;
    return end && !*end && rate >= 800 && rate <= 12800 && rate == (int)rate;
}

static bool
read_nvme(const char *text, struct mw_machine_parts *parts)
{
    const char *capacity = scan_times(text, 1024, &parts->drives);

    parts->no_drives = !strcmp(text, "0");
    if (parts->no_drives)
        return true;
    return capacity && read_bytes(capacity, drive_units, 1e10, 1e15, &parts->drive_bytes);
}

static bool
read_pcie(const char *text, struct mw_machine_parts *parts)
{
    const char *lanes = scan_times(text, 6, &parts->pcie_generation);
    double count;
    const char *end = lanes ? mw_number_scan(lanes, &count) : NULL;

    if (!end || *end || parts->pcie_generation < 3 || count < 1 || count > 16)
        return false;
    parts->pcie_lanes = (int)count;
    return parts->pcie_lanes == count && !(parts->pcie_lanes & (parts->pcie_lanes - 1));
}

static bool
read_net(const char *text, struct mw_machine_parts *parts)
{
    const char *end = mw_number_scan(text, &parts->net_gbit_per_s);

    return end && !*end && parts->net_gbit_per_s >= 0.1 && parts->net_gbit_per_s <= 1e5;
}

static const struct part {
    const char *name;
    bool (*read)(const char *text, struct mw_machine_parts *parts);
    const char *wanted;
} part_rows[] = {
    {"ram", read_ram, "memory of a node from 1 to 1000000 GiB, such as 256, 512GB or 1TB"},
    {"dram", read_dram, "memory channels of a node and their kind, such as 8xDDR5-4800"},
    {"nvme", read_nvme, "drives of a node and the capacity of each, such as 2x4TB, or 0 for none"},
    {"pcie", read_pcie,
     "generation (3 to 6) and lanes (1, 2, 4, 8 or 16) of each GPU, such as 4x16"},
    {"net", read_net, "network of a node in Gb/s, such as 400"},
};

/* "PART=VALUE"; `given` has a flag for each row. */
static bool
read_part(const char *text, bool *given, struct mw_machine_parts *parts, GError **error)
{
    g_auto(GStrv) word = g_strsplit(text, "=", 2);
    const char *name = word[0] ? g_strstrip(word[0]) : "";
    const char *value = word[0] && word[1] ? g_strstrip(word[1]) : NULL;

    for (size_t i = 0; value && i < G_N_ELEMENTS(part_rows); i++) {
        if (strcmp(name, part_rows[i].name))
            continue;
        if (given[i])
            return mw_refuse(error, "part %s: is given twice; leave one out", name);
        given[i] = true;
        return part_rows[i].read(value, parts) ||
               mw_refuse(error, "part %s=%s: must be %s", name, value, part_rows[i].wanted);
    }
    g_autofree char *shown = g_strescape(text, NULL);
    return mw_refuse(error,
                     "part \"%.64s\": unknown: must be ram=, dram=, nvme=, pcie= or net=, such as "
                     "ram=256",
                     shown);
}

/* --- the machine ----------------------------------------------------------------------------- */

/* "4x" before the name of a profile; NULL: there is none. */
static const char *
after_count(const char *name)
{
    const char *end = name + strspn(name, "0123456789");

    return end > name && g_ascii_tolower(*end) == 'x' ? end + 1 : NULL;
}

bool
mw_machine_is_composed(const char *name)
{
    if (g_str_has_suffix(name, ".ini") || strchr(name, '/'))
        return false;
    if (!after_count(name) && !(strchr(name, ',') && strchr(name, '=')))
        return false;
    g_autofree char *path = mw_profile_path(&mw_hwprofile_kind, name);
    return !path;
}

static struct mw_profile *
load_base(const char *word, struct mw_machine_parts *parts, GError **error)
{
    const char *name = after_count(word);
    struct mw_profile *base = NULL;

    if (name && !scan_times(word, 1024, &parts->gpus)) {
        mw_refuse(error, "part %s: must have from 1 to 1024 GPUs, such as 4x%s", word, name);
        return NULL;
    }
    if (!*(name ? name : word)) {
        mw_refuse(error,
                  "part %s: names no GPU: must be such as %srtx4090, with a profile of "
                  "one GPU",
                  word, word);
        return NULL;
    }
    base = mw_profile_load(&mw_hwprofile_kind, name ? name : word, error);
    int gpus = base ? (int)mw_profile_typical(base, "node", "gpus") : 0;
    if (!name)
        parts->gpus = gpus;
    else if (gpus > 1) {
        mw_refuse(error,
                  "part %s: %s has %d GPUs itself: must be a profile of one GPU, such as 4xh100; "
                  "or leave out the number, and {nodes} says how many nodes",
                  word, name, gpus);
        mw_profile_free(base);
        return NULL;
    }
    return base;
}

/* The text is a name in answers, in plan files and in messages. */
static bool
check_text(const char *text, GError **error)
{
    bool printable = strlen(text) <= TEXT_MAX;

    for (const char *at = text; *at && printable; at++)
        printable = !g_ascii_iscntrl(*at);
    return printable || mw_refuse(error, "must be at most %d printable characters", TEXT_MAX);
}

static bool
compose(struct mw_profile **base, char **words, GError **error)
{
    bool given[G_N_ELEMENTS(part_rows)] = {false};
    struct mw_machine_parts parts = {0};

    for (char **word = words + 1; *word; word++)
        if (!read_part(*word, given, &parts, error))
            return false;
    *base = load_base(g_strstrip(words[0]), &parts, error);
    return *base && mw_machine_derive(*base, &parts, error);
}

struct mw_profile *
mw_machine_compose(const char *text, GError **error)
{
    g_auto(GStrv) words = g_strsplit(text, ",", -1);
    struct mw_profile *machine = NULL;
    GError *failed = NULL;

    if (check_text(text, &failed) && compose(&machine, words, &failed)) {
        g_free(machine->name);
        g_free(machine->origin);
        machine->name = g_strdup(text);
        machine->origin = g_strdup(text);
        if (mw_profile_check(machine, error))
            return machine;
    } else {
        g_autofree char *shown = g_strescape(text, NULL);
        g_propagate_prefixed_error(error, failed, "machine %.64s: ", shown);
    }
    mw_profile_free(machine);
    return NULL;
}
