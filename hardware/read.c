/* A profile as one flat reading in SI units, its provenance, and its text. */
#include <math.h>
#include <string.h>

#include "hardware/internal.h"
#include "hardware/scale.h"

static double
pick(const struct mw_hw_value *value, const struct mw_hw_key *row, enum mw_outlook outlook)
{
    if (value->count != 3)
        return value->number[0];
    if (outlook == MW_OUTLOOK_TYPICAL)
        return value->number[1];
    /* The slow end is the small bandwidth, but the large latency. */
    return value->number[(outlook == MW_OUTLOOK_LOW) == (row->better > 0) ? 0 : 2];
}

static void
store_list(struct mw_hardware *hardware, const struct mw_hw_value *value,
           const struct mw_hw_key *row)
{
    double *list = (double *)(void *)((char *)hardware + row->offset);

    for (int i = 0; i < value->count; i++)
        list[i] = value->number[i] * row->scale;
}

static void
store(struct mw_hardware *hardware, const struct mw_hw_value *value, const struct mw_hw_key *row,
      enum mw_outlook outlook)
{
    void *field = (char *)hardware + row->offset;
    double number = pick(value, row, outlook);

    switch (row->kind) {
    case MW_HW_REAL:
        *(double *)field = number * row->scale;
        break;
    case MW_HW_COUNT:
    case MW_HW_BYTES:
        *(int64_t *)field = (int64_t)round(number * row->scale);
        break;
    case MW_HW_FLAG:
        *(bool *)field = number != 0;
        break;
    case MW_HW_LIST:
        store_list(hardware, value, row);
        break;
    case MW_HW_TEXT:
        break;
    }
}

/* The three lists of a curve share a field; the two ends apply to their own outlook only. */
static bool
applies(const struct mw_hw_key *row, enum mw_outlook outlook)
{
    if (!strcmp(row->key, "matmul_tflops_low") || !strcmp(row->key, "attention_tflops_low"))
        return outlook == MW_OUTLOOK_LOW;
    if (!strcmp(row->key, "matmul_tflops_high") || !strcmp(row->key, "attention_tflops_high"))
        return outlook == MW_OUTLOOK_HIGH;
    return true;
}

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

static void
fill_defaults(struct mw_hardware *hardware, const struct mw_hwprofile *profile)
{
    hardware->matmul_points = MIN(mw_hw_value_of(profile, "gpu", "matmul_dim")->count,
                                  mw_hw_value_of(profile, "gpu", "matmul_tflops")->count);
    hardware->attention_points =
        MIN(mw_hw_value_of(profile, "gpu", "attention_dim")->count,
            mw_hw_value_of(profile, "gpu", "attention_tflops")->count);
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
mw_hwprofile_read(const struct mw_hwprofile *profile, enum mw_outlook outlook)
{
    struct mw_hardware hardware = {0};
    size_t count;
    const struct mw_hw_key *keys = mw_hw_keys(&count);

    for (size_t i = 0; i < count; i++)
        if (profile->value[i].given && applies(&keys[i], outlook))
            store(&hardware, &profile->value[i], &keys[i], outlook);
    fill_defaults(&hardware, profile);
    return hardware;
}

bool
mw_hwprofile_has_range(const struct mw_hwprofile *profile)
{
    size_t count;
    const struct mw_hw_key *keys = mw_hw_keys(&count);

    for (size_t i = 0; i < count; i++) {
        const struct mw_hw_value *value = &profile->value[i];
        bool is_end = !applies(&keys[i], MW_OUTLOOK_TYPICAL);

        if (value->given && is_end)
            return true;
        if (keys[i].kind == MW_HW_REAL && value->count == 3 && value->number[0] < value->number[2])
            return true;
    }
    return false;
}

enum mw_provenance
mw_hwprofile_provenance(const struct mw_hwprofile *profile, const char *group, const char *key,
                        const char **source)
{
    int row = mw_hw_key_find(group, key);

    if (source)
        *source = row < 0 ? NULL : profile->value[row].source;
    return row < 0 ? MW_PROVENANCE_ESTIMATE : profile->value[row].provenance;
}

bool
mw_hwprofile_gives(const struct mw_hwprofile *profile, const char *group, const char *key)
{
    int row = mw_hw_key_find(group, key);

    return row >= 0 && profile->value[row].given;
}

bool
mw_hwprofile_is_set(const struct mw_hwprofile *profile, const char *group, const char *key)
{
    int row = mw_hw_key_find(group, key);

    return row >= 0 && mw_hw_value_is_set(&profile->value[row]);
}

enum mw_provenance
mw_hwprofile_worst_provenance(const struct mw_hwprofile *profile)
{
    enum mw_provenance worst = MW_PROVENANCE_MEASURED;
    size_t count;
    const struct mw_hw_key *keys = mw_hw_keys(&count);

    for (size_t i = 0; i < count; i++)
        if (keys[i].better && profile->value[i].given)
            worst = MIN(worst, profile->value[i].provenance);
    return worst;
}

bool
mw_hwprofile_calibrated(const struct mw_hwprofile *profile)
{
    return mw_hw_value_of(profile, "profile", "calibrated")->given &&
           mw_hwprofile_worst_provenance(profile) == MW_PROVENANCE_MEASURED;
}

static void
print_value(FILE *out, const struct mw_hw_value *value, const struct mw_hw_key *row)
{
    g_autofree char *numbers = mw_hw_value_text(value);
    const char *text = numbers;

    if (row->kind == MW_HW_TEXT)
        text = value->text;
    else if (row->kind == MW_HW_FLAG)
        text = value->number[0] ? "true" : "false";
    fprintf(out, "%s = %s\n", row->key, text);
    if (value->source)
        fprintf(out, "%s.source = %s: %s\n", row->key, mw_provenance_name(value->provenance),
                value->source);
}

void
mw_hwprofile_print(FILE *out, const struct mw_hwprofile *profile)
{
    size_t count;
    const struct mw_hw_key *keys = mw_hw_keys(&count);
    const char *group = "";

    for (size_t i = 0; i < count; i++) {
        if (!profile->value[i].given)
            continue;
        if (strcmp(group, keys[i].group))
            fprintf(out, "%s[%s]\n", *group ? "\n" : "", keys[i].group);
        group = keys[i].group;
        print_value(out, &profile->value[i], &keys[i]);
    }
}
