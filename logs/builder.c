/* Steps, one after the other, from lines or from objects. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "logs/lines.h"
#include "study/lanes.h"

struct mw_log_builder {
    const char *path;
    struct mw_gate_steps *steps;
    GArray *step, *time_s, *parts[MW_GATE_PARTS_MAX]; /* of int64_t, double */
    GHashTable *names;                                /* of parts, from name to index + 1 */
    int64_t last;                                     /* step that was read last; -1: none */
    bool counts;                                      /* it is among the steps */
};

struct mw_log_builder *
mw_log_builder_new(const struct mw_log_text *in, const char *format, enum mw_gate_measure measure)
{
    struct mw_log_builder *builder = g_new0(struct mw_log_builder, 1);

    builder->path = in->path;
    builder->steps = g_new0(struct mw_gate_steps, 1);
    builder->steps->format = format;
    builder->steps->measure = measure;
    builder->steps->sequences = builder->steps->predicted_s = NAN;
    builder->step = g_array_new(FALSE, FALSE, sizeof(int64_t));
    builder->time_s = g_array_new(FALSE, FALSE, sizeof(double));
    builder->names = g_hash_table_new(g_str_hash, g_str_equal);
    builder->last = -1;
    return builder;
}

void
mw_log_builder_free(struct mw_log_builder *builder)
{
    if (!builder)
        return;
    for (int i = 0; i < MW_GATE_PARTS_MAX; i++)
        if (builder->parts[i])
            g_array_unref(builder->parts[i]);
    g_hash_table_unref(builder->names);
    g_array_unref(builder->step);
    g_array_unref(builder->time_s);
    mw_gate_steps_free(builder->steps);
    g_free(builder);
}

struct mw_gate_steps *
mw_log_builder_steps(struct mw_log_builder *builder)
{
    return builder->steps;
}

bool
mw_log_add_step(struct mw_log_builder *builder, int64_t line, int64_t step, double time_s,
                GError **error)
{
    builder->counts = false;
    if (step == builder->last)
        return true;
    if (step < builder->last)
        return mw_fail(error, MW_ERROR_FORMAT,
                       "%s:%" PRId64 ": step %" PRId64 " comes after step %" PRId64
                       ": a log of one run is wanted; cut it where the other begins",
                       builder->path, line, step, builder->last);
    builder->last = step;
    if (!isfinite(time_s) || time_s <= 0) {
        builder->steps->left_out++;
        return true;
    }
    if (builder->step->len == MW_LOG_STEPS_MAX)
        return mw_fail(error, MW_ERROR_FORMAT, "%s:%" PRId64 ": has more than %d steps",
                       builder->path, line, MW_LOG_STEPS_MAX);
    builder->counts = true;
    g_array_append_val(builder->step, step);
    g_array_append_val(builder->time_s, time_s);
    return true;
}

/* Index of a part; -1: there are too many. */
static int
part_of(struct mw_log_builder *builder, const char *name)
{
    g_autofree char *valid = g_utf8_make_valid(name, -1);
    int known = GPOINTER_TO_INT(g_hash_table_lookup(builder->names, valid));
    int count = builder->steps->part_count;

    if (known || count == MW_GATE_PARTS_MAX)
        return known - 1;
    builder->steps->parts[count].name = g_steal_pointer(&valid);
    builder->parts[count] = g_array_new(FALSE, FALSE, sizeof(double));
    g_hash_table_insert(builder->names, builder->steps->parts[count].name,
                        GINT_TO_POINTER(count + 1));
    return builder->steps->part_count++;
}

static void
fill_up(GArray *times_s, guint length)
{
    const double unknown = NAN;

    while (times_s->len < length)
        g_array_append_val(times_s, unknown);
}

void
mw_log_add_part(struct mw_log_builder *builder, const char *name, double time_s)
{
    int part = builder->counts ? part_of(builder, name) : -1;

    if (part < 0 || !isfinite(time_s) || time_s < 0)
        return;
    fill_up(builder->parts[part], builder->step->len - 1);
    if (builder->parts[part]->len < builder->step->len)
        g_array_append_val(builder->parts[part], time_s);
    else
        g_array_index(builder->parts[part], double, builder->step->len - 1) += time_s;
}

void
mw_log_add_lane(struct mw_log_builder *builder, const char *name, double busy_s, double exposed_s)
{
    bool computes = mw_lane_computes(name);
    g_autofree char *part = g_strdup_printf("%s lane%s", name, computes ? "" : " waited for");

    mw_log_add_part(builder, part, computes ? busy_s : exposed_s);
}

int
mw_log_find_part(const struct mw_gate_steps *steps, const char *name)
{
    for (int i = 0; name && i < steps->part_count; i++)
        if (!strcmp(steps->parts[i].name, name))
            return i;
    return -1;
}

bool
mw_log_builder_end(struct mw_log_builder *builder, mw_log_parent parent, const char *wants,
                   struct mw_log *out, GError **error)
{
    struct mw_gate_steps *steps = builder->steps;

    if (!builder->step->len) {
        mw_fail(error, MW_ERROR_FORMAT, "%s: no step has a time: %s", builder->path, wants);
        mw_log_builder_free(builder);
        return false;
    }
    steps->count = builder->step->len;
    for (int i = 0; i < steps->part_count; i++) {
        struct mw_gate_part *part = &steps->parts[i];
        fill_up(builder->parts[i], steps->count);
        part->time_s = (double *)(void *)g_array_free(g_steal_pointer(&builder->parts[i]), FALSE);
        part->parent = parent ? mw_log_find_part(steps, parent(part->name)) : -1;
    }
    steps->step = (int64_t *)(void *)g_array_steal(builder->step, NULL);
    steps->time_s = (double *)(void *)g_array_steal(builder->time_s, NULL);
    out->steps = g_steal_pointer(&builder->steps);
    mw_log_builder_free(builder);
    return true;
}
