#include "tests/report_fixture.h"

#include <glib.h>
#include <math.h>

#include "report/report.h"
#include "study/lanes.h"

#define MS INT64_C(1000000)
#define GIB (INT64_C(1) << 30)

enum { LANE_COMPUTE, LANE_COLLECTIVE, LANE_H2D, LANE_D2H, LANE_READ, LANE_WRITE, LANE_HOST };
enum {
    WORK_FORWARD,
    WORK_BACKWARD,
    WORK_GATHER,
    WORK_H2D,
    WORK_D2H,
    WORK_READ,
    WORK_WRITE,
    WORK_UPDATE,
    WORK_COMMIT
};
enum {
    SLOT_STATE,
    SLOT_CHECKPOINTS,
    SLOT_PINNED_A,
    SLOT_PINNED_B,
    SLOT_GATHERED_A,
    SLOT_GATHERED_B,
    SLOT_ACTIVATIONS,
    SLOT_CHUNK
};

static void
add_lanes(struct mw_plan *plan)
{
    static const uint8_t kinds[] = {MW_LANE_COMPUTE,   MW_LANE_COLLECTIVE, MW_LANE_H2D, MW_LANE_D2H,
                                    MW_LANE_NVME_READ, MW_LANE_NVME_WRITE, MW_LANE_HOST};

    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++)
        mw_plan_add_lane(plan,
                         (struct mw_lane){.kind = kinds[i],
                                          .window_ops = kinds[i] == MW_LANE_NVME_READ ? 2 : 1});
}

static void
add_works(struct mw_plan *plan)
{
    static const struct {
        uint8_t kind, object, operator_;
        int64_t flops, bytes;
    } works[] = {
        [WORK_FORWARD] = {MW_OP_COMPUTE, MW_OBJECT_ACTIVATIONS, MW_OPERATOR_MLP_UP, 4000000000,
                          1000},
        [WORK_BACKWARD] = {MW_OP_COMPUTE, MW_OBJECT_ACTIVATIONS, MW_OPERATOR_MLP_UP, 8000000000,
                           2000},
        [WORK_GATHER] = {MW_OP_ALL_GATHER, MW_OBJECT_PARAMETERS, MW_OPERATOR_MLP_UP, 0, 2 * GIB},
        [WORK_H2D] = {MW_OP_H2D, MW_OBJECT_PARAMETERS, MW_OPERATOR_MLP_UP, 0, GIB / 8},
        [WORK_D2H] = {MW_OP_D2H, MW_OBJECT_CHECKPOINT, MW_OPERATOR_NONE, 0, GIB / 4},
        [WORK_READ] = {MW_OP_NVME_READ, MW_OBJECT_PARAMETERS, MW_OPERATOR_MLP_UP, 0, GIB / 8},
        [WORK_WRITE] = {MW_OP_NVME_WRITE, MW_OBJECT_STATE, MW_OPERATOR_NONE, 0, GIB},
        [WORK_UPDATE] = {MW_OP_UPDATE, MW_OBJECT_STATE, MW_OPERATOR_NONE, 0, GIB},
        [WORK_COMMIT] = {MW_OP_COMMIT, MW_OBJECT_NONE, MW_OPERATOR_NONE, 0, 0},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(works); i++)
        mw_plan_add_work(
            plan,
            (struct mw_work){
                .kind = works[i].kind,
                .object = works[i].object,
                .operator_ = works[i].operator_,
                .dtype = MW_DTYPE_BF16,
                .comm = MW_NONE,
                .flops = works[i].flops,
                .products = {{1000, 1000, 1000, works[i].flops / 2000000000, MW_DTYPE_BF16, 0}},
                .product_count = works[i].flops > 0,
                .bytes = works[i].bytes},
            NULL, 0);
}

static void
add_slots(struct mw_plan *plan)
{
    static const struct mw_slot slots[] = {
        [SLOT_STATE] = {0, MW_TIER_NVME, MW_PURPOSE_OPTIMIZER_STATE, true, 0, 200 * GIB, 0},
        [SLOT_CHECKPOINTS] = {0, MW_TIER_CPU, MW_PURPOSE_ACTIVATION_CHECKPOINTS, true, 0, 40 * GIB,
                              0},
        [SLOT_PINNED_A] = {0, MW_TIER_CPU, MW_PURPOSE_SHARD_BUFFERS, false, 40 * GIB, 2 * GIB, 0},
        [SLOT_PINNED_B] = {0, MW_TIER_CPU, MW_PURPOSE_SHARD_BUFFERS, false, 42 * GIB, 2 * GIB, 0},
        [SLOT_GATHERED_A] = {0, MW_TIER_GPU, MW_PURPOSE_PARAMETER_BUFFERS, false, 0, 8 * GIB, 0},
        [SLOT_GATHERED_B] = {0, MW_TIER_GPU, MW_PURPOSE_PARAMETER_BUFFERS, false, 8 * GIB, 8 * GIB,
                             0},
        [SLOT_ACTIVATIONS] = {0, MW_TIER_GPU, MW_PURPOSE_ACTIVATIONS, false, 16 * GIB, 6 * GIB, 0},
        [SLOT_CHUNK] = {0, MW_TIER_CPU, MW_PURPOSE_OPTIMIZER_BUFFERS, false, 44 * GIB, 16 * GIB, 0},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(slots); i++)
        mw_plan_add_slot(plan, slots[i]);
    plan->tiers[MW_TIER_GPU] = (struct mw_tier_info){30 * GIB, 2 * GIB, 28 * GIB};
    plan->tiers[MW_TIER_CPU] = (struct mw_tier_info){90 * GIB, 4 * GIB, 90 * GIB};
    plan->tiers[MW_TIER_NVME] = (struct mw_tier_info){1700 * GIB, 100 * GIB, 1700 * GIB};
}

struct builder {
    struct mw_plan *plan;
    GArray *rows;
};

static void
add_op(struct builder *b, int lane, int work, int phase, int layer, int64_t start_ns,
       int64_t length_ns)
{
    uint32_t op = mw_plan_add_op(b->plan, (struct mw_op){.work = (uint32_t)work,
                                                         .lane = (uint16_t)lane,
                                                         .phase = (uint8_t)phase,
                                                         .layer = layer,
                                                         .match = MW_NONE});
    struct mw_timeline_row row = {
        .op = op, .start_ns = 5 * MS + start_ns, .end_ns = 5 * MS + start_ns + length_ns};

    g_array_append_val(b->rows, row);
}

/* Reads of neighbours overlap: their lane has room for two. */
static void
add_fetch(struct builder *b, int phase, int layer, int turn, int64_t t)
{
    uint32_t pinned = turn % 2 ? SLOT_PINNED_B : SLOT_PINNED_A;
    uint32_t gathered = turn % 2 ? SLOT_GATHERED_B : SLOT_GATHERED_A;

    add_op(b, LANE_READ, WORK_READ, phase, layer, t, 12 * MS);
    mw_plan_add_use(b->plan, pinned, MW_USE_DEFINE, MW_ROLE_NONE);
    add_op(b, LANE_H2D, WORK_H2D, phase, layer, t + 12 * MS, 3 * MS);
    mw_plan_add_use(b->plan, pinned, MW_USE_READ, MW_ROLE_NONE);
    mw_plan_add_use(b->plan, gathered, MW_USE_DEFINE, MW_ROLE_NONE);
    add_op(b, LANE_COLLECTIVE, WORK_GATHER, phase, layer, t + 15 * MS, 2 * MS);
    mw_plan_add_use(b->plan, gathered, MW_USE_MODIFY, MW_ROLE_NONE);
}

static void
add_compute(struct builder *b, int phase, int work, int layer, int turn, int64_t t, int64_t length)
{
    uint32_t gathered = turn % 2 ? SLOT_GATHERED_B : SLOT_GATHERED_A;

    add_op(b, LANE_COMPUTE, work, phase, layer, t, length);
    mw_plan_add_use(b->plan, gathered, MW_USE_READ, MW_ROLE_NONE);
    mw_plan_add_use(b->plan, SLOT_ACTIVATIONS, MW_USE_DEFINE, MW_ROLE_NONE);
}

/* Returns the end of the step. */
static int64_t
add_ops(struct builder *b, int layers)
{
    int64_t t = 0;

    for (int i = 0; i < layers; i++, t += 10 * MS) {
        add_fetch(b, MW_PHASE_FORWARD, i, i, t);
        add_compute(b, MW_PHASE_FORWARD, WORK_FORWARD, i, i, t + 17 * MS, 8 * MS);
        add_op(b, LANE_D2H, WORK_D2H, MW_PHASE_FORWARD, i, t + 25 * MS, MS + 234567);
    }
    for (int i = layers - 1, turn = layers; i >= 0; i--, turn++, t += 28 * MS) {
        add_fetch(b, MW_PHASE_BACKWARD, i, turn, t);
        add_compute(b, MW_PHASE_RECOMPUTE, WORK_FORWARD, i, turn, t + 17 * MS, 8 * MS);
        add_compute(b, MW_PHASE_BACKWARD, WORK_BACKWARD, i, turn, t + 25 * MS, 16 * MS);
    }
    for (int i = 0; i < layers; i++, t += 20 * MS) {
        add_op(b, LANE_HOST, WORK_UPDATE, MW_PHASE_OPTIMIZER, i, t + 17 * MS, 9 * MS);
        mw_plan_add_use(b->plan, SLOT_CHUNK, MW_USE_DEFINE, MW_ROLE_NONE);
        add_op(b, LANE_WRITE, WORK_WRITE, MW_PHASE_OPTIMIZER, i, t + 26 * MS, 9 * MS);
        mw_plan_add_use(b->plan, SLOT_CHUNK, MW_USE_READ, MW_ROLE_NONE);
    }
    add_op(b, LANE_HOST, WORK_COMMIT, MW_PHASE_COMMIT, -1, t + 16 * MS, MS);
    return t + 17 * MS;
}

/* 12·96·12288², 24 sequences of 1024 tokens a node, 1.5 a GPU. */
static void
fill_paper(struct mw_result_paper *paper)
{
    *paper = (struct mw_result_paper){173946175488,
                                      3478923509760,
                                      57982058496,
                                      927712935936,
                                      2415919104,
                                      603979776,
                                      {2783138807808, 826244333568, 500095254528, 173946175488}};
}

static void
fill_question(struct mw_result *r)
{
    r->model = g_strdup("gpt3-175b");
    r->hardware = g_strdup("dgx2");
    r->hardware_description = g_strdup("NVIDIA DGX-2, 16 V100 32 GB, 1.5 TB DRAM, 28 TB NVMe");
    r->strategy = g_strdup("zero-infinity-nvme");
    r->params = r->active_params = 174591983616;
    r->paper_params = 173946175488;
    r->nodes = 1;
    r->gpus_per_node = 16;
    r->tp = 1;
    r->seq = 1024;
    r->grad_accum = 1;
    r->micro_batch = 1.5;
    r->global_batch = 24;
    r->tokens_per_step = 24576;
    r->checkpoint_interval = 1;
    r->param_loads = 3;
    r->tiles = 1;
    r->logits_chunks = 1;
    r->prefetch = 2;
    r->param_device = g_strdup("nvme");
    r->optimizer_device = g_strdup("cpu:60GB,nvme");
    r->gradient_device = g_strdup("nvme");
    r->activation_device = g_strdup("cpu");
    r->partition = g_strdup("bandwidth-centric");
    r->commit = g_strdup("none");
    r->state_layout = g_strdup("paper20");
    r->dtype = g_strdup("bf16");
    r->dpu_start = -1;
    fill_paper(&r->paper);
    r->provenance = g_strdup("published");
}

static void
fill_tiers(struct mw_result *r, const struct mw_plan *plan)
{
    static const int64_t peaks[MW_TIER_COUNT] = {22 * GIB, 60 * GIB, 200 * GIB};

    for (int i = 0; i < MW_TIER_COUNT; i++)
        r->tiers[i] = (struct mw_result_tier){plan->tiers[i].capacity_bytes,
                                              plan->tiers[i].reserve_bytes,
                                              peaks[i],
                                              plan->tiers[i].largest_request_bytes,
                                              peaks[i],
                                              0};
    r->ledger = g_new0(struct mw_result_ledger_row, plan->slot_count);
    for (uint32_t i = 0; i < plan->slot_count; i++) {
        const struct mw_slot *slot = &plan->slots[i];
        struct mw_result_ledger_row *next = r->ledger + r->ledger_count;
        /* Slots of one purpose are neighbours here. */
        if (r->ledger_count && next[-1].tier == slot->tier && next[-1].purpose == slot->purpose)
            next[-1].bytes += slot->size_bytes;
        else
            r->ledger[r->ledger_count++] =
                (struct mw_result_ledger_row){slot->tier, slot->purpose, slot->size_bytes};
    }
}

static void
fill_speed(struct mw_result *r, double step_s)
{
    r->feasible = r->simulated = true;
    r->step_time_s[0] = 1.2 * step_s;
    r->step_time_s[1] = step_s;
    r->step_time_s[2] = 0.9 * step_s;
    r->first_step_time_s = 1.05 * step_s;
    r->tflops_per_gpu[0] = 35.25;
    r->tflops_per_gpu[1] = 42.3;
    r->tflops_per_gpu[2] = 47;
    r->efficiency[0] = 0.564;
    r->efficiency[1] = 0.604;
    r->efficiency[2] = 0.624;
    r->mfu = 0.2538;
    r->mfu_published = 0.25;
    r->mfu_published_from = "a run of note";
    r->tokens_per_s = r->tokens_per_step / step_s;
    r->bottleneck = g_strdup("nvme-write");
    r->bottleneck_share = 0.715;
    r->critical_path_s = 0.95 * step_s;
    r->closed_form_paper_s = 0.8 * step_s;
    r->closed_form_plan_s = 0.97 * step_s;
    r->paper_efficiency[0] = 0.8125;
    r->paper_efficiency[1] = 0.625;
    r->paper_efficiency[2] = 1;
    r->nvme_read_bytes = 4500000000000;
    r->nvme_written_bytes = 2440000000000;
    r->drive_life_steps = 34500;
    r->drive_sets = 3;
    r->collective_latency_s = 0.004 * step_s;
    r->tokens = 300e9;
    r->days = 612.4;
    r->cost_usd = 1.234e6;
    r->rented = true;
    r->owned = (struct mw_result_owned){.node_price_usd = 399000,
                                        .years = 3,
                                        .years_from = "estimate",
                                        .share = 0.56,
                                        .machine_usd = 2.5e5,
                                        .energy_usd = 3e4,
                                        .electricity = {0.2, 0.2, 0.2, "user"},
                                        .drives_worn = NAN,
                                        .drives_price_usd = NAN,
                                        .drives_usd = NAN,
                                        .replaced_usd = NAN,
                                        .pay_usd = 429000};
    r->energy_kwh = NAN;
}

static void
fill_advice(struct mw_result *r, double step_s)
{
    r->channels = g_new0(struct mw_result_channel, r->channel_count = 2);
    r->channels[0] = (struct mw_result_channel){g_strdup("pcie-h2d"), 0.1 * step_s};
    r->channels[1] = (struct mw_result_channel){g_strdup("drive"), 0.83 * step_s};
    r->terms = g_new0(struct mw_result_term, r->term_count = 1);
    r->terms[0] = (struct mw_result_term){g_strdup("optimizer traffic"), 0.011, 0.0133};
    r->what_ifs = g_new0(struct mw_result_what_if, r->what_if_count = 2);
    r->what_ifs[0] = (struct mw_result_what_if){g_strdup("nvme read+write"), 0.5, 1.6 * step_s};
    r->what_ifs[1] = (struct mw_result_what_if){g_strdup("nvme read+write"), 2, 0.7 * step_s};
    r->needs = g_new0(struct mw_result_need, r->need_count = 2);
    r->needs[0] = (struct mw_result_need){g_strdup("nvme"), 0.7, 41.5e9, 25e9};
    r->needs[1] = (struct mw_result_need){g_strdup("nvme"), 0.9, NAN, 25e9};
    r->change.what = g_strdup("a larger batch");
    r->change.flags = g_strdup("--batch 3");
    r->change.micro_batch = 3;
    r->change.global_batch = 12;
    r->change.step_time_s = 1.2 * step_s;
    r->change.tokens_per_s = 2 * r->tokens_per_step / (1.2 * step_s);
    r->paid_change = (struct mw_result_change){.what = g_strdup("one more drive"),
                                               .flags = g_strdup("--set nvme.drives=2"),
                                               .step_time_s = 0.8 * step_s,
                                               .tokens_per_s = r->tokens_per_step / (0.8 * step_s),
                                               .micro_batch = r->micro_batch,
                                               .global_batch = r->global_batch};
    r->notes = g_strsplit(
        "a smaller batch, 1, is 3% faster a token|quotes \" and \\ and caf\303\251", "|", 0);
}

struct report_fixture *
report_fixture_new(int layers)
{
    struct report_fixture *fixture = g_new0(struct report_fixture, 1);
    struct builder b = {mw_plan_new("made up"),
                        g_array_new(FALSE, FALSE, sizeof(struct mw_timeline_row))};
    double step_s;

    mw_plan_set_world(b.plan, 16, 16, true);
    add_lanes(b.plan);
    add_works(b.plan);
    add_slots(b.plan);
    step_s = add_ops(&b, layers) * 1e-9;
    fixture->plan = b.plan;
    fixture->timeline.row_count = b.rows->len;
    fixture->timeline.rows = (struct mw_timeline_row *)g_array_free(b.rows, FALSE);
    fixture->result = mw_result_new();
    fill_question(fixture->result);
    fill_tiers(fixture->result, b.plan);
    fill_speed(fixture->result, step_s);
    fill_advice(fixture->result, step_s);
    mw_summary_lanes(fixture->plan, &fixture->timeline, fixture->result);
    fixture->result->plan = fixture->plan;
    fixture->result->timeline = &fixture->timeline;
    return fixture;
}

void
report_fixture_free(struct report_fixture *fixture)
{
    mw_result_free(fixture->result);
    mw_plan_free(fixture->plan);
    g_free(fixture->timeline.rows);
    g_free(fixture);
}

struct mw_result *
report_fixture_refused(void)
{
    struct mw_result *result = mw_result_new();

    fill_question(result);
    g_free(result->strategy);
    result->strategy = g_strdup("zero2");
    result->limiting_tier = g_strdup("gpu");
    result->short_bytes = 312 * GIB;
    result->remedy = g_strdup("offload parameters and optimizer state: zero-infinity-nvme");
    result->tiers[MW_TIER_GPU] =
        (struct mw_result_tier){30 * GIB, 2 * GIB, 342 * GIB, 28 * GIB, 342 * GIB, 0};
    result->tiers[MW_TIER_CPU] = (struct mw_result_tier){90 * GIB, 4 * GIB, 0, 90 * GIB, 0, 0};
    return result;
}
