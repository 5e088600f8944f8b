#include "report/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/format.h"
#include "base/spell.h"
#include "report/grid.h"
#include "report/report.h"
#include "report/wrap.h"

#define LABEL_WIDTH 14
#define HANGING 2
#define BAR_WIDTH 20

void
mw_table_line(FILE *out, const char *label, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    g_autofree char *text = g_strdup_vprintf(format, list);
    va_end(list);
    fprintf(out, "%-*s", LABEL_WIDTH, label);
    mw_wrap_text(out, text, LABEL_WIDTH, LABEL_WIDTH, mw_wrap_columns(out));
}

void
mw_table_heading(FILE *out, const char *heading)
{
    fprintf(out, "\n%s\n", heading);
}

char *
mw_table_machines(const struct mw_result *result)
{
    int64_t gpus = result->nodes * result->gpus_per_node;

    return g_strdup_printf("%" PRId64 " x %s (%" PRId64 " GPU%s)", result->nodes,
                           mw_table_text(result->hardware), gpus, gpus == 1 ? "" : "s");
}

char *
mw_table_subject(const struct mw_result *result, const char *does)
{
    g_autofree char *machines = mw_table_machines(result);

    if (!result->strategy)
        return g_strdup_printf("%s; on %s", result->plan ? result->plan->title : "a plan",
                               machines);
    return g_strdup_printf("%s %son %s with %s", mw_table_text(result->model), does, machines,
                           result->strategy);
}

const char *
mw_table_share(double value, double whole)
{
    return mw_format_percent(whole > 0 ? value / whole : NAN);
}

const char *
mw_table_text(const char *text)
{
    return text ? text : "-";
}

char *
mw_table_batch_share(const struct mw_result *result)
{
    int64_t sharers = mw_result_sharers(result);

    return sharers > 1 ? g_strdup_printf("group of %" PRId64 " GPUs", sharers) : g_strdup("GPU");
}

char *
mw_table_batch(const struct mw_result *result, double micro_batch)
{
    g_autofree char *share = mw_table_batch_share(result);

    if (mw_result_sharers(result) <= 1)
        return g_strdup_printf("batch %s per %s", mw_format_batch(micro_batch), share);
    return mw_spelled_printf("batch %s per %s, {batch=%s}",
                             mw_format_batch(micro_batch * (double)mw_result_sharers(result)),
                             share, mw_format_batch(micro_batch));
}

static void
print_fit(FILE *out, const struct mw_result *result)
{
    g_autofree char *subject = mw_table_subject(result, result->feasible ? "trains " : "");
    g_autofree char *sequences =
        result->seq > 0 ? g_strdup_printf(", sequences of %" PRId64 " tokens", result->seq)
                        : g_strdup("");

    if (result->feasible)
        mw_table_line(out, "fits", "%s%s", subject, sequences);
    else
        mw_table_line(out, "DOES NOT FIT", "%s%s: %s is %s short per GPU", subject, sequences,
                      mw_table_text(result->limiting_tier), mw_format_gib(result->short_bytes));
}

void
mw_table_first_lines(FILE *out, const struct mw_result *result, bool details)
{
    print_fit(out, result);
    if (result->remedy)
        mw_table_line(out, "remedy", "%s", result->remedy);
    if (result->hardware_description && (details || result->hardware_set || !result->feasible))
        mw_table_line(out, "machine", "%s%s%s", result->hardware_description,
                      result->hardware_set ? "; set: " : "",
                      result->hardware_set ? result->hardware_set : "");
}

char *
mw_table_used_of_capacity(const struct mw_result_tier *tier)
{
    bool tebi = tier->capacity_bytes >= 0x1p40;
    double unit = tebi ? 0x1p40 : 0x1p30;

    return g_strdup_printf("%s of %s %s", mw_format_significant(tier->need_bytes / unit),
                           mw_format_significant(tier->capacity_bytes / unit),
                           tebi ? "TiB" : "GiB");
}

/* "1.25 GiB of the GPU and 70.1 GiB of host memory", or "". */
static GString *
taken_beside(const struct mw_result *result)
{
    static const char *const places[MW_TIER_COUNT] = {
        [MW_TIER_GPU] = "of the GPU",
        [MW_TIER_CPU] = "of host memory",
    };
    GString *text = g_string_new("");

    for (int tier = 0; tier < MW_TIER_COUNT; tier++) {
        double bytes = 0;
        for (size_t i = 0; i < result->beside_count; i++)
            bytes += (int)result->beside[i].tier == tier ? (double)result->beside[i].bytes : 0;
        if (bytes > 0)
            g_string_append_printf(text, "%s%s %s", text->len ? " and " : "", mw_format_gib(bytes),
                                   places[tier]);
    }
    return text;
}

char *
mw_table_beside(const struct mw_result *result, bool each)
{
    GString *text = taken_beside(result);

    if (text->len)
        g_string_append_printf(text, " taken by %s",
                               result->software ? result->software : "software");
    for (size_t i = 0; i < result->beside_count && each; i++)
        g_string_append_printf(text, "%s%s %s", i ? ", " : ": ", result->beside[i].what,
                               mw_format_gib((double)result->beside[i].bytes));
    return g_string_free(text, FALSE);
}

void
mw_table_memory(FILE *out, const struct mw_result *result)
{
    g_autofree char *beside = mw_table_beside(result, true);
    const char *label = "memory";

    for (int i = 0; i < MW_TIER_COUNT; i++) {
        const struct mw_result_tier *tier = &result->tiers[i];
        double ratio = tier->need_bytes / (double)tier->capacity_bytes;
        g_autofree char *used = mw_table_used_of_capacity(tier);
        g_autofree char *per_gpu = g_strdup_printf("%s per GPU", used);
        if (tier->capacity_bytes <= 0 && tier->need_bytes <= 0)
            continue;
        mw_table_line(out, label, "%-5s %-28s %s %6s", mw_tier_name(i), per_gpu,
                      mw_grid_bar(ratio, BAR_WIDTH), mw_format_percent(ratio));
        label = "";
    }
    if (*beside)
        mw_table_line(out, "", "of it %s", beside);
}

/* An answer for a part of the parameters must not read as one for all. */
static void
print_trained(FILE *out, const struct mw_result *result)
{
    g_autofree char *narrow =
        result->frozen_dtype ? g_strdup_printf(", weights of layers in %s", result->frozen_dtype)
                             : g_strdup("");

    mw_table_line(out, "trained", "%s alone, %s parameters (%.2g%%); the rest is frozen%s",
                  result->trained, mw_format_count(result->trained_params),
                  100.0 * (double)result->trained_params / (double)result->params, narrow);
}

/* Of settings that change what a step keeps, computes or waits for: those that are not as usual. */
static void
print_ways(FILE *out, const struct mw_result *r)
{
    g_autoptr(GPtrArray) ways = g_ptr_array_new_with_free_func(g_free);

    if (r->checkpoint_interval > 1)
        g_ptr_array_add(ways, g_strdup_printf("a checkpoint for %" G_GINT64_FORMAT " layers",
                                              r->checkpoint_interval));
    if (r->checkpoint_bits)
        g_ptr_array_add(ways, g_strdup_printf("checkpoints in %d bits", r->checkpoint_bits));
    if (r->kept_bits)
        g_ptr_array_add(ways, g_strdup_printf("kept activations in %d bits", r->kept_bits));
    if (r->relu_mask)
        g_ptr_array_add(ways, g_strdup("a bit for each of ReLU's inputs"));
    if (r->relu_sparsity > 0)
        g_ptr_array_add(ways, g_strdup_printf("%g%% of ReLU's results are zeros and not kept",
                                              100 * r->relu_sparsity));
    if (r->shares_slots)
        g_ptr_array_add(ways, g_strdup("slots that never meet share bytes"));
    if (r->whole_checkpoints && r->kept_layers > 0)
        g_ptr_array_add(ways, g_strdup_printf("activations of %" G_GINT64_FORMAT
                                              " layers leave and come back",
                                              r->kept_layers));
    else if (r->whole_checkpoints)
        g_ptr_array_add(ways, g_strdup("all activations leave and come back"));
    if (r->scores_again)
        g_ptr_array_add(ways, g_strdup("attention's scores formed again"));
    if (r->matmul_dtype)
        g_ptr_array_add(ways, g_strdup_printf("products in %s", r->matmul_dtype));
    if (r->expert_imbalance > 1)
        g_ptr_array_add(ways, g_strdup_printf("%s times the mean of tokens on the fullest GPU",
                                              mw_format_significant(r->expert_imbalance)));
    if (r->shard_group > 0)
        g_ptr_array_add(ways, g_strdup_printf("states over groups of %" G_GINT64_FORMAT " GPUs",
                                              r->shard_group));
    if (r->virtual_stages > 1)
        g_ptr_array_add(ways, g_strdup_printf("%" G_GINT64_FORMAT " interleaved stretches of "
                                              "layers in each stage",
                                              r->virtual_stages));
    else if (r->schedule_way)
        g_ptr_array_add(ways, g_strdup(r->schedule_way));
    if (r->updates > 1)
        g_ptr_array_add(ways,
                        g_strdup_printf("asynchronous data parallelism: %" G_GINT64_FORMAT
                                        " updates per step, each with a gradient of parameters "
                                        "that lack the %" G_GINT64_FORMAT " before it",
                                        r->updates, r->updates - 1));
    if (r->stage_replicas)
        g_ptr_array_add(ways, g_strdup_printf("stages of %s GPUs that take micro-batches in turn",
                                              r->stage_replicas));
    if (r->stage_split)
        g_ptr_array_add(ways, g_strdup_printf("stages from layers %s on", r->stage_split));
    if (r->layer_order)
        g_ptr_array_add(ways, g_strdup("all micro-batches pass a layer before the next"));
    if (r->update_on_gpu)
        g_ptr_array_add(ways, g_strdup("updates on the GPU"));
    if (r->serial)
        g_ptr_array_add(ways, g_strdup("no overlap"));
    g_ptr_array_add(ways, NULL);
    g_autofree char *text = g_strjoinv("; ", (char **)ways->pdata);
    if (*text)
        mw_table_line(out, "with", "%s", text);
}

void
mw_table_states(FILE *out, const struct mw_result *result)
{
    if (!result->param_device)
        return; /* a plan alone does not say */
    mw_table_line(out, "states", "parameters %s, gradients %s, optimizer %s%s%s, checkpoints %s%s",
                  mw_table_text(result->param_device), mw_table_text(result->gradient_device),
                  mw_table_text(result->optimizer_device), result->optimizer ? " by " : "",
                  result->optimizer ? result->optimizer : "",
                  mw_table_text(result->activation_device),
                  result->update_beside ? "; update beside backward" : "");
    if (result->trained)
        print_trained(out, result);
    print_ways(out, result);
}

char *
mw_table_smaller_batch(const struct mw_result *result)
{
    if (!(result->smaller_batch > 0))
        return NULL;
    return mw_spelled_printf("{batch=%s}, smaller than the one chosen, is faster: %s tokens/s",
                             mw_format_exact(result->smaller_batch),
                             mw_format_count(result->smaller_batch_tokens_per_s));
}

/* The caution about drives that wear out before the training ends; NULL if they last.  The user of
 * a rented machine does not replace its drives. */
static char *
wear_text(const struct mw_result *r)
{
    g_autofree char *price =
        r->rented ? g_strdup("the rent does not say who pays for them")
        : r->owned.replaced_usd > 0 && isfinite(r->cost_usd)
            ? g_strdup_printf("those beyond the first are %s USD to pay; the cost has the wear",
                              mw_format_count(r->owned.replaced_usd))
            : mw_spelled("those beyond the first are not in the cost ({key nvme.price_usd}, of all "
                         "drives of a node)");

    if (!r->simulated || !(r->drive_sets > 1))
        return NULL;
    return g_strdup_printf("drives wear out before the training ends: it takes %s sets of a node's "
                           "drives, by their rated endurance; %s",
                           mw_format_count(r->drive_sets), price);
}

/* How the model is made: "whole by each of a node's 4 ranks in host memory, 48 GiB of 29 GiB". */
static char *
made_text(const struct mw_result *r)
{
    const struct mw_result_start *start = &r->start;

    if (!start->made_in)
        return g_strdup("in parts, where they live");
    g_autofree char *ranks =
        r->gpus_per_node > 1
            ? g_strdup_printf(" in each of a node's %" G_GINT64_FORMAT " ranks", r->gpus_per_node)
            : g_strdup("");
    return g_strdup_printf("whole%s, %s: %s of %s", ranks,
                           strcmp(start->made_in, "gpu") ? "in host memory" : "on the GPU",
                           mw_format_gib((double)start->bytes),
                           mw_format_gib((double)start->room_bytes));
}

static const char *
made_object(const struct mw_result *r)
{
    return r->start.made_in && r->tp > 1 ? "its slice of the model" : "the model";
}

void
mw_table_start(FILE *out, const struct mw_result *result)
{
    const struct mw_result_start *start = &result->start;
    g_autofree char *made = made_text(result);
    g_autofree char *least =
        start->fits && start->time_s >= 1
            ? g_strdup_printf("; at least %s", mw_format_duration(start->time_s))
            : g_strdup("");

    if (start->known)
        mw_table_line(out, "start", "%s%s makes %s %s%s",
                      start->fits ? "" : "CANNOT START: ", result->software, made_object(result),
                      made, least);
}

/* The caution about a model that trains once it is there; NULL if it can be made. */
static char *
start_text(const struct mw_result *r)
{
    g_autofree char *made = made_text(r);
    bool parts = !g_strcmp0(r->start.key, "partitions");

    if (!r->start.known || r->start.fits)
        return NULL;
    return mw_spelled_printf("cannot start: %s makes %s %s; {key software.start.%s} if yours %s",
                             r->software, made_object(r), made,
                             parts ? "partitions=true" : "bytes_per_parameter=BYTES",
                             parts ? "makes it in parts" : "needs less");
}

char **
mw_table_cautions(const struct mw_result *result)
{
    GPtrArray *cautions = g_ptr_array_new();
    bool foreign = result->simulated && !result->calibrated;
    char *wear = wear_text(result), *start = start_text(result);

    if (start)
        g_ptr_array_add(cautions, start);
    if (wear)
        g_ptr_array_add(cautions, wear);
    if (foreign)
        g_ptr_array_add(cautions, g_strdup_printf("profile not measured on this machine; its least "
                                                  "certain figures: %s",
                                                  mw_table_text(result->provenance)));
    if (foreign && result->mfu > result->mfu_published)
        g_ptr_array_add(cautions, g_strdup_printf("MFU of %s is above the best published, %s (%s): "
                                                  "the prediction assumes %s software; expect "
                                                  "a slower run",
                                                  mw_format_percent(result->mfu),
                                                  mw_format_percent(result->mfu_published),
                                                  result->mfu_published_from,
                                                  result->software ? result->software : "ideal"));
    if (result->rounds_by_mean)
        g_ptr_array_add(cautions,
                        g_strdup_printf("the last %s micro-batches are not simulated one by one: "
                                        "each takes the mean of those before them",
                                        mw_format_count((double)result->rounds_by_mean)));
    g_ptr_array_add(cautions, NULL);
    return (char **)g_ptr_array_free(cautions, FALSE);
}

void
mw_table_notes(FILE *out, const struct mw_result *result)
{
    g_autofree char *smaller = mw_table_smaller_batch(result);
    g_auto(GStrv) cautions = mw_table_cautions(result);

    if (smaller)
        mw_table_line(out, "note", "%s", smaller);
    for (char **note = result->notes; note && *note; note++)
        mw_table_line(out, "note", "%s", *note);
    for (char **caution = cautions; *caution; caution++)
        mw_table_line(out, "caution", "%s", *caution);
}

/* Another global batch is another training, so the line shows the present batch too, and compares
 * tokens instead of steps: per time and, for changes that cost money, per money. */
static void
print_change(FILE *out, const char *label, const struct mw_result *result,
             const struct mw_result_change *change)
{
    bool same = change->global_batch == result->global_batch;
    g_autofree char *batch = mw_table_batch(result, change->micro_batch);
    g_autofree char *for_money =
        change->priced ? g_strdup_printf(", %sx tokens per USD",
                                         mw_format_significant(change->times_tokens_per_usd))
                       : g_strdup("");

    mw_wrap_line(out, HANGING, "%s: %s -> step %s (%s, %s in all%s%s), %sx tokens/s%s: %s", label,
                 change->what, mw_format_seconds(change->step_time_s), batch,
                 mw_format_batch(change->global_batch), same ? "" : "; now ",
                 same ? "" : mw_format_batch(result->global_batch),
                 mw_format_significant(change->tokens_per_s / result->tokens_per_s), for_money,
                 change->flags);
}

void
mw_table_last_lines(FILE *out, const struct mw_result *result)
{
    if (!result->simulated || !isfinite(result->tokens_per_s))
        return;
    if (result->change.what)
        print_change(out, "best single change", result, &result->change);
    else if (!result->drop_layers)
        fputs("best single change: none of the settings tried gains anything\n", out);
    if (result->paid_change.what)
        print_change(out,
                     !result->paid_change.priced ? "best to add (no price known)"
                     : result->paid_change.times_tokens_per_usd >= 0.995
                         ? "best for money"
                         : "faster, but each token costs more",
                     result, &result->paid_change);
}
