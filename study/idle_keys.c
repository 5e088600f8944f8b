/* Notes on keys of the profile that were set and have no effect. */
#include <string.h>

#include "base/spell.h"
#include "hardware/scale.h"
#include "study/set_result.h"

static bool
lacks_drives(const struct mw_sizing *sizing)
{
    return !sizing->hardware->nvme_capacity_bytes;
}

static bool
leaves_drives(const struct mw_sizing *sizing)
{
    return !lacks_drives(sizing) && !sizing->need_bytes[MW_TIER_NVME];
}

static bool
has_one_node(const struct mw_sizing *sizing)
{
    return sizing->settings.nodes == 1;
}

static bool
has_one_gpu(const struct mw_sizing *sizing)
{
    return sizing->settings.gpus_per_node == 1;
}

/* `but`: keys that nobody expects to have an effect here. */
static const struct {
    const char *group;
    const char *but[2];
    bool (*idle)(const struct mw_sizing *sizing);
    const char *why;
} rows[] = {
    {"nvme", {"drives", "capacity_tb"}, lacks_drives, "the profile has no drives (capacity_tb 0)"},
    {"nvme", {"drives", "capacity_tb"}, leaves_drives, "the plan keeps nothing on drives"},
    {"network", {NULL}, has_one_node, "one node uses no network; {nodes=N} do"},
    {"fabric", {NULL}, has_one_gpu, "one GPU per node uses no fabric"},
};

/* The keys of a row that were set: "nvme.latency_us, nvme.duplex"; "": none was. */
static char *
names_set(const struct mw_profile *profile, size_t row)
{
    GString *names = g_string_new(NULL);
    size_t count;
    const struct mw_profile_key *keys = mw_hw_keys(&count);

    for (size_t i = 0; i < count; i++)
        if (!strcmp(keys[i].group, rows[row].group) && g_strcmp0(keys[i].key, rows[row].but[0]) &&
            g_strcmp0(keys[i].key, rows[row].but[1]) &&
            mw_profile_is_set(profile, keys[i].group, keys[i].key))
            g_string_append_printf(names, "%s%s.%s", names->len ? ", " : "", keys[i].group,
                                   keys[i].key);
    return g_string_free(names, FALSE);
}

/* The number of drives only changes what one more would gain: rates and sizes are those of all
 * drives together. */
static void
note_drives(const struct mw_profile *profile, const struct mw_sizing *sizing, GPtrArray *notes)
{
    bool other = lacks_drives(sizing) || !mw_profile_is_set(profile, "nvme", "drives");
    size_t count;
    const struct mw_profile_key *keys = mw_hw_keys(&count);

    for (size_t i = 0; i < count; i++)
        other = other || (keys[i].part == MW_HW_PART_DRIVES && keys[i].required &&
                          strcmp(keys[i].key, "drives") &&
                          mw_profile_is_set(profile, keys[i].group, keys[i].key));
    if (other)
        return;
    g_autofree char *of_all = mw_hw_part_required(MW_HW_PART_DRIVES, "drives");
    g_ptr_array_add(notes,
                    mw_spelled_printf("{key nvme.drives}: changes no rate and no size, as the "
                                      "profile's are of all drives of a node; set %s too",
                                      of_all));
}

/* 12.14 of docs/MODEL.md: it multiplies what waits for backward, and one layer's is working memory.
 */
static void
note_activations_kept(const struct mw_question *question, const struct mw_sizing *sizing,
                      GPtrArray *notes)
{
    static const char key[] = "activations_kept";

    if (question->software && mw_profile_is_set(question->software, "memory", key) &&
        sizing->settings.checkpoint_interval > 0 && !mw_sizing_kept_of_model(sizing) &&
        mw_sizing_largest_group(sizing) <= 1)
        g_ptr_array_add(notes,
                        mw_spelled_printf("{key software.memory.%s} changes nothing: it is of "
                                          "layers that keep their activations until backward, and "
                                          "every layer is recomputed by itself; "
                                          "{activation-checkpoint-interval=0} keeps them",
                                          key));
}

void
mw_note_keys(const struct mw_question *question, const struct mw_sizing *sizing, GPtrArray *notes)
{
    for (size_t row = 0; question->modified && row < G_N_ELEMENTS(rows); row++) {
        g_autofree char *names = names_set(question->profile, row);
        g_autofree char *why = mw_spelled(rows[row].why);
        if (*names && rows[row].idle(sizing))
            g_ptr_array_add(notes, mw_spelled_printf("{key %s} changes nothing: %s", names, why));
    }
    if (question->modified)
        note_drives(question->profile, sizing, notes);
    note_activations_kept(question, sizing, notes);
}
