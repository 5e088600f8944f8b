/* A hardware profile as one flat reading in SI units, and what its [profile] says. */
#include "hardware/hwprofile.h"

#include <math.h>
#include <string.h>

#include "hardware/composed.h"
#include "hardware/scale.h"

/* DeepSpeed's aio.block_size where none is given. */
#define BLOCK_BYTES (1 << 20)

static void
fill_drives(struct mw_hardware *hardware)
{
    if (!hardware->nvme_block_bytes)
        hardware->nvme_block_bytes = BLOCK_BYTES;
    if (hardware->nvme_write_burst_bytes_per_s < hardware->nvme_write_bytes_per_s)
        hardware->nvme_write_burst_bytes_per_s = hardware->nvme_write_bytes_per_s;
    if (hardware->nvme_capacity_bytes && hardware->nvme_drives &&
        hardware->nvme_read_bytes_per_s > 0 && hardware->nvme_write_bytes_per_s > 0)
        return;
    mw_hardware_scale_part(hardware, MW_HW_PART_DRIVES, 0);
    hardware->nvme_reserve_bytes = 0;
}

/* Own assumption; reports show it beside the cost. */
#define AMORTISATION_YEARS 5

void
mw_hwprofile_complete(struct mw_hardware *hardware)
{
    if (!(hardware->amortisation_years > 0))
        hardware->amortisation_years = AMORTISATION_YEARS;
    if (!hardware->gpu_largest_request_bytes)
        hardware->gpu_largest_request_bytes =
            hardware->gpu_memory_bytes - hardware->gpu_reserve_bytes;
    if (!hardware->host_largest_request_bytes)
        hardware->host_largest_request_bytes =
            hardware->host_memory_bytes - hardware->host_reserve_bytes;
    fill_drives(hardware);
}

struct mw_hardware
mw_hwprofile_given(const struct mw_profile *profile, enum mw_outlook outlook)
{
    /* A plan may have tiles where no software is said to run it. */
    struct mw_hardware hardware = {.offers = {.tiled_operators = true}};

    mw_profile_store(profile, outlook, &hardware);
    hardware.gpu_is_cores = g_strcmp0(mw_profile_word(profile, "backend"), "cpu") == 0;
    hardware.matmul_points = MIN(mw_profile_list_length(profile, "gpu", "matmul_dim"),
                                 mw_profile_list_length(profile, "gpu", "matmul_tflops"));
    hardware.attention_points = MIN(mw_profile_list_length(profile, "gpu", "attention_dim"),
                                    mw_profile_list_length(profile, "gpu", "attention_tflops"));
    return hardware;
}

struct mw_hardware
mw_hwprofile_read(const struct mw_profile *profile, enum mw_outlook outlook)
{
    struct mw_hardware hardware = mw_hwprofile_given(profile, outlook);

    mw_hwprofile_complete(&hardware);
    return hardware;
}

struct mw_profile *
mw_hwprofile_load(const char *name_or_path, GError **error)
{
    if (mw_machine_is_composed(name_or_path))
        return mw_machine_compose(name_or_path, error);
    return mw_profile_load(&mw_hwprofile_kind, name_or_path, error);
}

char **
mw_hwprofile_list(void)
{
    return mw_profile_list(&mw_hwprofile_kind);
}

/* Whether the profile has fp8, and the shortest name of those with its GPU: many are of one GPU in
 * several clouds. */
static bool
names_fp8(GPtrArray *profiles, guint index)
{
    struct mw_hardware own = mw_hwprofile_read(profiles->pdata[index], MW_OUTLOOK_TYPICAL);
    size_t length = strlen(mw_profile_name(profiles->pdata[index]));

    if (!mw_hardware_has_fp8(&own))
        return false;
    for (guint i = 0; i < profiles->len; i++) {
        struct mw_hardware other = mw_hwprofile_read(profiles->pdata[i], MW_OUTLOOK_TYPICAL);
        size_t other_length = strlen(mw_profile_name(profiles->pdata[i]));
        if (other.fp8_tile_flops == own.fp8_tile_flops &&
            (other_length < length || (other_length == length && i < index)))
            return false;
    }
    return true;
}

char *
mw_hwprofiles_with_fp8(void)
{
    g_auto(GStrv) names = mw_hwprofile_list();
    g_autoptr(GPtrArray) profiles = mw_profile_load_all(&mw_hwprofile_kind, names);
    g_autoptr(GString) all = g_string_new(NULL);

    for (guint i = 0; i < profiles->len; i++)
        if (names_fp8(profiles, i))
            g_string_append_printf(all, "%s%s", all->len ? ", " : "",
                                   mw_profile_name(profiles->pdata[i]));
    return g_strdup(all->str);
}

bool
mw_hwprofile_calibrated(const struct mw_profile *profile)
{
    return mw_profile_gives(profile, "profile", "calibrated") &&
           mw_profile_worst_provenance(profile) == MW_PROVENANCE_MEASURED;
}

/* A price that was set, or that a profile which inherits states anew, is another one. */
bool
mw_hwprofile_is_discontinued(const struct mw_profile *profile)
{
    return mw_profile_gives(profile, "profile", "discontinued") &&
           mw_profile_provenance(profile, "node", "price_usd", NULL) != MW_PROVENANCE_USER;
}

double
mw_hwprofile_rate_left(const struct mw_profile *profile)
{
    const char *text = mw_profile_word(profile, "rate_left");
    double left = text ? g_ascii_strtod(text, NULL) : 1;

    return left > 0 && left < 1 ? left : 1;
}
