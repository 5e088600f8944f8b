#include <inttypes.h>

#include "base/format.h"
#include "base/typed.h"
#include "report/grid.h"
#include "report/memory_ledger.h"
#include "report/report.h"
#include "report/table.h"

/* forward, backward, optimizer */
#define MAX_PHASES 3

static void
add_ledger_tier(struct mw_grid *grid, const struct mw_result *r, int tier)
{
    double capacity = r->tiers[tier].capacity_bytes;

    for (size_t i = 0; i < r->ledger_count; i++) {
        const struct mw_result_ledger_row *row = &r->ledger[i];
        if ((int)row->tier == tier && row->bytes)
            mw_grid_row(grid, mw_tier_name(tier), mw_purpose_name(row->purpose),
                        mw_format_gib(row->bytes), mw_table_share(row->bytes, capacity), NULL);
    }
}

/* What the software takes beside what the plan has slots for. */
static void
add_software(struct mw_grid *grid, const struct mw_result *r, int tier)
{
    double capacity = r->tiers[tier].capacity_bytes;

    for (size_t i = 0; i < r->beside_count; i++)
        if ((int)r->beside[i].tier == tier)
            mw_grid_row(grid, mw_tier_name(tier), r->beside[i].what,
                        mw_format_gib((double)r->beside[i].bytes),
                        mw_table_share((double)r->beside[i].bytes, capacity), NULL);
}

static void
add_total(struct mw_grid *grid, const struct mw_result_tier *tier, int index)
{
    if (tier->capacity_bytes <= 0 && tier->need_bytes <= 0)
        return;
    if (tier->apart_bytes > 0)
        mw_grid_row(grid, mw_tier_name(index), "not at once",
                    mw_format_gib(-(double)tier->apart_bytes),
                    mw_table_share(-(double)tier->apart_bytes, tier->capacity_bytes), NULL);
    mw_grid_row(grid, mw_tier_name(index), "= total", mw_format_gib(tier->need_bytes),
                mw_table_share(tier->need_bytes, tier->capacity_bytes),
                mw_format_gib(tier->capacity_bytes), mw_format_gib(tier->reserve_bytes),
                mw_format_gib(tier->largest_request_bytes), NULL);
}

static void
print_ledger(FILE *out, const struct mw_result *r)
{
    struct mw_grid *grid = mw_grid_new("llrrrrr");

    mw_table_heading(out, "Memory per GPU: what every byte is for");
    mw_grid_row(grid, "tier", "purpose", "bytes", "share", "usable", "reserved", "max slot", NULL);
    for (int i = 0; i < MW_TIER_COUNT; i++) {
        add_ledger_tier(grid, r, i);
        add_software(grid, r, i);
        add_total(grid, &r->tiers[i], i);
    }
    mw_grid_print(grid, out, 2);
}

/* The grid has one column per phase, so its rows are assembled cell by cell. */
static void
add_in_use(struct mw_grid *grid, const struct mw_result *r, const struct mw_memory_row *row)
{
    const char *cells[2 + MAX_PHASES + 1] = {NULL};
    size_t phases = MIN(r->phase_count, MAX_PHASES);

    cells[0] = mw_tier_name(row->tier);
    cells[1] = row->purpose == MW_PURPOSE_COUNT ? "= at one time" : mw_purpose_name(row->purpose);
    for (size_t i = 0; i < phases; i++)
        cells[2 + i] = mw_format_gib(row->most_bytes[i]);
    mw_grid_row_array(grid, cells);
}

static void
print_in_use(FILE *out, const struct mw_result *r)
{
    struct mw_memory_ledger ledger = mw_memory_ledger_find(r);
    const char *head[2 + MAX_PHASES + 1] = {"tier", "purpose"};
    struct mw_grid *grid = mw_grid_new("llrrr");

    for (size_t i = 0; i < MIN(r->phase_count, MAX_PHASES); i++)
        head[2 + i] = r->phases[i].name;
    mw_grid_row_array(grid, head);
    for (size_t i = 0; i < ledger.count; i++)
        add_in_use(grid, r, &ledger.row[i]);
    if (ledger.count)
        mw_table_heading(out, "Memory in use: the most in each phase");
    mw_grid_print(grid, ledger.count ? out : NULL, 2);
    mw_memory_ledger_clear(&ledger);
}

static const char *
integer_text(int64_t value)
{
    return mw_format_fixed((double)value, 0);
}

static void
add_batch(struct mw_grid *grid, const struct mw_result *r)
{
    g_autofree char *share = mw_table_batch_share(r);
    g_autofree char *sequences = g_strdup_printf("sequences per %s", share);

    mw_grid_row(grid, sequences, mw_format_batch(r->micro_batch * (double)mw_result_sharers(r)),
                NULL);
    mw_grid_row(grid, "accumulation", integer_text(r->grad_accum), NULL);
    mw_grid_row(grid, "sequences per step", mw_format_batch(r->global_batch), NULL);
    mw_grid_row(grid, "sequence length", integer_text(r->seq), NULL);
    mw_grid_row(grid, "tensor slicing", integer_text(r->tp),
                r->sequence_parallel ? "tokens shared" : NULL, NULL);
    g_autofree char *context = g_strdup_printf("GPUs, %s", mw_table_text(r->cp_kind));
    if (r->cp > 1)
        mw_grid_row(grid, "sequences over", integer_text(r->cp), context, NULL);
    if (r->ep > 1)
        mw_grid_row(grid, "experts over", integer_text(r->ep),
                    r->whole_experts ? "GPUs, each expert whole" : "GPUs", NULL);
    if (r->expert_imbalance > 1)
        mw_grid_row(grid, "fullest GPU's tokens over the mean",
                    mw_format_significant(r->expert_imbalance), NULL);
    if (r->gate)
        mw_grid_row(grid, "gate of experts", r->gate, NULL);
    g_autofree char *factor = mw_typed(r->capacity_factor);
    if (r->capacity_factor > 0)
        mw_grid_row(grid, "capacity of experts", factor, NULL);
    g_autofree char *uneven = mw_typed(r->router_aux_loss), *scores = mw_typed(r->router_z_loss);
    if (r->router_aux_loss > 0)
        mw_grid_row(grid, "loss of uneven experts", uneven, NULL);
    if (r->router_z_loss > 0)
        mw_grid_row(grid, "loss of large scores", scores, NULL);
}

static void
add_schedule(struct mw_grid *grid, const struct mw_result *r)
{
    mw_grid_row(grid, "partitioning", mw_table_text(r->partition), NULL);
    if (r->shard_group > 0)
        mw_grid_row(grid, "sharding groups of", integer_text(r->shard_group), "GPUs", NULL);
    mw_grid_row(grid, "state layout", mw_table_text(r->state_layout), NULL);
    if (r->checkpoint_interval > 0)
        mw_grid_row(grid, "checkpoint every", integer_text(r->checkpoint_interval),
                    r->checkpoint_interval == 1 ? "block" : "blocks", NULL);
    else
        mw_grid_row(grid, "checkpoint every", "none", NULL);
    if (r->on_every_slice)
        mw_grid_row(grid, "each checkpoint", "on every slice", NULL);
    if (r->checkpoint_bits)
        mw_grid_row(grid, "checkpoints in", integer_text(r->checkpoint_bits), "bits", NULL);
    if (r->kept_layers > 0 && !r->whole_checkpoints)
        mw_grid_row(grid, "layers without", integer_text(r->kept_layers), NULL);
    mw_grid_row(grid, "parameter loads", integer_text(r->param_loads), NULL);
    mw_grid_row(grid, "tiles", integer_text(r->tiles), NULL);
    mw_grid_row(grid, "logits in", integer_text(r->logits_chunks),
                r->logits_chunks == 1 ? "chunk" : "chunks", NULL);
    if (r->shares_slots)
        mw_grid_row(grid, "slots that never", "meet", "share bytes", NULL);
    mw_grid_row(grid, "prefetch depth",
                r->prefetch_stages ? mw_table_text(r->prefetch_stages) : integer_text(r->prefetch),
                NULL);
    mw_grid_row(grid, "commit", mw_table_text(r->commit), NULL);
    if (r->scores_again)
        mw_grid_row(grid, "attention's scores", "formed", "again", NULL);
    if (r->serial)
        mw_grid_row(grid, "overlap", "off", NULL);
    if (r->dpu_start >= 0)
        mw_grid_row(grid, "delayed update", "from step", integer_text(r->dpu_start), NULL);
    if (r->whole_checkpoints)
        mw_grid_row(grid, "checkpoints of", "all", "activations", NULL);
    if (r->whole_checkpoints && r->kept_layers > 0)
        mw_grid_row(grid, "in layers", integer_text(r->kept_layers), NULL);
    if (r->schedule)
        mw_grid_row(grid, "schedule", r->schedule, NULL);
    if (r->virtual_stages > 1)
        mw_grid_row(grid, "virtual stages", integer_text(r->virtual_stages), NULL);
    if (r->stage_replicas)
        mw_grid_row(grid, "replicas of stages", mw_table_text(r->stage_replicas), NULL);
    if (r->stage_split)
        mw_grid_row(grid, "stages from layers", mw_table_text(r->stage_split), NULL);
    if (r->layer_order)
        mw_grid_row(grid, "micro-batches", "layer", "by layer", NULL);
    if (r->update_on_gpu)
        mw_grid_row(grid, "update on", "gpu", NULL);
    if (r->updates > 1)
        mw_grid_row(grid, "data parallel", "async", NULL);
    if (r->updates > 1)
        mw_grid_row(grid, "updates per step", integer_text(r->updates), NULL);
    if (r->update_beside)
        mw_grid_row(grid, "update", "beside", "backward", NULL);
    if (r->trained)
        mw_grid_row(grid, "trained", mw_table_text(r->trained), NULL);
    if (r->kept_bits)
        mw_grid_row(grid, "activations kept in", integer_text(r->kept_bits), "bits", NULL);
    if (r->relu_mask)
        mw_grid_row(grid, "inputs of ReLU kept in", "1", "bit", NULL);
    if (r->relu_sparsity > 0)
        mw_grid_row(grid, "zeros of ReLU left out", mw_format_percent(r->relu_sparsity), NULL);
    if (r->matmul_dtype)
        mw_grid_row(grid, "products in", mw_table_text(r->matmul_dtype), NULL);
    if (r->frozen_dtype)
        mw_grid_row(grid, "frozen weights in", mw_table_text(r->frozen_dtype), NULL);
    if (r->drop_layers)
        mw_grid_row(grid, "layers left out", mw_table_text(r->drop_layers), NULL);
}

static void
print_settings(FILE *out, const struct mw_result *r)
{
    struct mw_grid *grid = mw_grid_new("lll");

    mw_table_heading(out, "Settings");
    add_batch(grid, r);
    add_schedule(grid, r);
    mw_grid_print(grid, out, 2);
}

static void
print_placement(FILE *out, const struct mw_result *r)
{
    struct mw_grid *grid = mw_grid_new("ll");

    mw_table_heading(out, "Placement");
    mw_grid_row(grid, "parameters", mw_table_text(r->param_device), NULL);
    mw_grid_row(grid, "gradients", mw_table_text(r->gradient_device), NULL);
    mw_grid_row(grid, "optimizer state", mw_table_text(r->optimizer_device), NULL);
    mw_grid_row(grid, "activation checkpoints", mw_table_text(r->activation_device), NULL);
    mw_grid_print(grid, out, 2);
}

/* Printed beside the ledger: the equations leave out buffers, the embedding and tensor slicing. */
static void
print_paper(FILE *out, const struct mw_result_paper *paper)
{
    struct mw_grid *grid = mw_grid_new("lrl");

    mw_table_heading(out, "By the paper's equations (ZeRO-Infinity, Sec. 3)");
    mw_grid_row(grid, "parameters, 12·nl·hd²", mw_format_count(paper->params), "of the model",
                NULL);
    mw_grid_row(grid, "model states", mw_format_gib(paper->model_state_bytes), "of the model",
                NULL);
    mw_grid_row(grid, "activation checkpoints", mw_format_gib(paper->checkpoint_bytes), "per node",
                NULL);
    mw_grid_row(grid, "all activations", mw_format_gib(paper->activation_bytes), "per node", NULL);
    mw_grid_row(grid, "model state working memory", mw_format_gib(paper->mswm_bytes), "per GPU",
                NULL);
    mw_grid_row(grid, "activation working memory", mw_format_gib(paper->awm_bytes), "per GPU",
                NULL);
    mw_grid_print(grid, out, 2);
}

static int64_t
largest_slot(const struct mw_plan *plan, int tier, uint32_t *count)
{
    int64_t largest = 0;

    *count = 0;
    for (uint32_t i = 0; i < plan->slot_count; i++) {
        const struct mw_slot *slot = &plan->slots[i];
        if (slot->program != 0 || slot->tier != tier)
            continue;
        ++*count;
        if (slot->size_bytes > largest)
            largest = slot->size_bytes;
    }
    return largest;
}

static void
print_slots(FILE *out, const struct mw_plan *plan)
{
    struct mw_grid *grid = mw_grid_new("lrrr");

    mw_table_heading(out, "Slots and ops");
    mw_grid_row(grid, "tier", "slots", "largest", "may be at most", NULL);
    for (int i = 0; i < MW_TIER_COUNT; i++) {
        uint32_t count;
        int64_t largest = largest_slot(plan, i, &count);
        if (count)
            mw_grid_row(grid, mw_tier_name(i), integer_text(count), mw_format_gib(largest),
                        mw_format_gib(plan->tiers[i].largest_request_bytes), NULL);
    }
    mw_grid_print(grid, out, 2);
    fprintf(out,
            "  %" PRIu32 " ops of %" PRIu32 " kinds of work in %" PRIu32 " lanes, %" PRIu32
            " program%s for %" PRIu32 " rank%s\n",
            plan->op_count, plan->work_count, plan->lane_count, plan->program_count,
            plan->program_count == 1 ? "" : "s", plan->world_ranks,
            plan->world_ranks == 1 ? "" : "s");
}

void
mw_table_plan(FILE *out, const struct mw_result *result)
{
    mw_table_first_lines(out, result, true);
    mw_table_line(out, "model", "%s parameters", mw_format_count(result->params));
    mw_table_memory(out, result);
    mw_table_start(out, result);
    print_ledger(out, result);
    print_in_use(out, result);
    mw_table_stages(out, result);
    if (!result->trained) /* they are of a model that is trained whole */
        print_paper(out, &result->paper);
    print_placement(out, result);
    print_settings(out, result);
    if (result->plan)
        print_slots(out, result->plan);
    if (result->notes && *result->notes)
        fputc('\n', out);
    mw_table_notes(out, result);
}
