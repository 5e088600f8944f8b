/* The ds_config.json of a plan, which reads back to the plan's settings. */
#include "deepspeed_read.h"

static const struct mw_deepspeed_facts some_facts = {
    .micro_batch = 4,
    .grad_accum = 2,
    .train_batch = 128,
    .prefetch_elements = 50000000,
    .live_elements = 600000000,
    .largest_unit_elements = 150000000,
    .buffers = {.swap = {.param_count = 6,
                         .param_elements = 400000000,
                         .state_sets = 3,
                         .state_count = 12}},
    .nvme_queue_depth = 32,
    .nvme_block_bytes = 1 << 20,
};

static void
put(struct mw_settings *settings, enum mw_state state, const char *where)
{
    g_assert_true(mw_placement_parse(where, "", &settings->placement[state], NULL));
}

static void
set_placement(struct mw_settings *settings, const char *params, const char *optimizer,
              const char *activations)
{
    put(settings, MW_STATE_PARAMETERS, params);
    put(settings, MW_STATE_OPTIMIZER, optimizer);
    put(settings, MW_STATE_GRADIENTS, optimizer);
    put(settings, MW_STATE_ACTIVATIONS, activations);
}

static void
check_round_trip(const struct mw_settings *written)
{
    g_autofree char *text = mw_deepspeed_text(written, &some_facts);
    struct mw_settings read = defaults();
    g_autoptr(GError) error = NULL;

    mw_deepspeed_parse(text, -1, ORIGIN, 16, &read, NULL, &error);
    g_assert_no_error(error);
    g_assert_cmpint(read.tp, ==, written->tp);
    g_assert_cmpint(read.strategy, ==, written->strategy);
    g_assert_cmpfloat(read.micro_batch, ==, some_facts.micro_batch);
    g_assert_cmpint(read.grad_accum, ==, some_facts.grad_accum);
    g_assert_cmpint(read.dtype, ==, written->dtype);
    /* With slicing it follows from the other two: DeepSpeed counts replicas in two ways. */
    g_assert_cmpint(read.global_batch, ==,
                    written->tp > 1 ? MW_AUTO : (int64_t)some_facts.train_batch);
    if (written->strategy > MW_STRATEGY_DDP)
        g_assert_cmpint(read.overlap, ==, written->overlap);
    for (int state = 0; state < MW_STATE_COUNT; state++) {
        g_autofree char *was = mw_placement_text(&written->placement[state]);
        g_autofree char *is = mw_placement_text(&read.placement[state]);
        /* Checkpoints that there are none of are nowhere. */
        if (state != MW_STATE_ACTIVATIONS || written->checkpoint_interval)
            g_assert_cmpstr(is, ==, was);
    }
    g_assert_cmpint(read.checkpoint_interval, ==, written->checkpoint_interval);
    if (written->strategy == MW_STRATEGY_ZERO3 ||
        written->strategy >= MW_STRATEGY_ZERO_INFINITY_CPU) {
        g_assert_cmpint(read.prefetch < 0 ? 1 : read.prefetch, ==, written->prefetch);
        g_assert_cmpmem(read.prefetch_stage, sizeof read.prefetch_stage, written->prefetch_stage,
                        sizeof written->prefetch_stage);
        g_assert_cmpint(read.param_loads < 0 ? 3 : read.param_loads, ==, written->param_loads);
    }
    g_assert_cmpint(MAX(1, read.tiles), ==, written->tiles);
    g_assert_cmpint(MAX(1, read.logits_chunks), ==, written->logits_chunks);
    g_assert_cmpint(read.layout, ==, written->layout);
    g_assert_cmpint(read.save_every, ==, written->save_every);
    g_assert_cmpint(read.buffer_sets, ==, written->buffer_sets);
    g_assert_cmpint(read.optimizer_chunk, ==, written->optimizer_chunk);
}

static void
test_round_trip(void)
{
    static const struct {
        enum mw_strategy strategy;
        const char *params, *optimizer, *activations;
    } rows[] = {
        {MW_STRATEGY_DDP, "gpu", "gpu", "gpu"},
        {MW_STRATEGY_ZERO1, "gpu", "gpu", "gpu"},
        {MW_STRATEGY_ZERO2, "gpu", "gpu", "cpu"},
        {MW_STRATEGY_ZERO3, "gpu", "gpu", "gpu"},
        {MW_STRATEGY_ZERO_OFFLOAD, "gpu", "cpu", "gpu"},
        {MW_STRATEGY_ZERO_INFINITY_CPU, "cpu", "cpu", "cpu"},
        {MW_STRATEGY_ZERO_INFINITY_CPU, "gpu", "cpu", "gpu"},
        {MW_STRATEGY_ZERO_INFINITY_NVME, "nvme", "nvme", "cpu"},
        {MW_STRATEGY_ZERO_INFINITY_NVME, "cpu", "nvme", "gpu"},
        {MW_STRATEGY_ZERO_INFINITY_NVME, "gpu", "gpu", "gpu"},
        {MW_STRATEGY_ZERO_INFINITY_NVME, "cpu:80GB,nvme", "cpu:1GB,nvme", "nvme"},
        {MW_STRATEGY_ZERO_INFINITY_CPU, "gpu:1GB,cpu", "gpu", "cpu"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        for (int sets = 1; sets <= 4; sets++) {
            struct mw_settings settings = defaults();
            settings.strategy = rows[i].strategy;
            settings.overlap = sets > 1;
            settings.dtype = sets == 2 ? MW_DTYPE_FP16 : MW_DTYPE_BF16;
            settings.prefetch = sets - 1;
            if (sets == 4) {
                settings.prefetch_stage[MW_FETCH_NC] = 3;
                settings.prefetch_stage[MW_FETCH_CG] = 0;
                settings.prefetch_stage[MW_FETCH_GG] = 1;
            }
            settings.buffer_sets = sets;
            settings.checkpoint_interval = sets - 1;
            settings.param_loads = sets > 2 ? 2 : 3;
            settings.tiles = sets;
            settings.logits_chunks = 5 - sets;
            settings.layout = sets == 4 ? MW_LAYOUT_PAPER20 : MW_LAYOUT_ZERO16;
            settings.save_every = 10 * (sets - 1);
            settings.optimizer_chunk = 100000000 * sets;
            settings.tp = sets == 2 ? 2 : 1;
            set_placement(&settings, rows[i].params, rows[i].optimizer, rows[i].activations);
            check_round_trip(&settings);
        }
}

/* What DeepSpeed cannot say is written as the nearest that it can. */
static void
test_write_nearest(void)
{
    struct mw_settings settings = defaults();

    settings.strategy = MW_STRATEGY_ZERO2;
    settings.gpus_per_node = 4;
    set_placement(&settings, "cpu:80GB,nvme", "gpu:1GB,cpu", "nvme");
    g_autofree char *text = mw_deepspeed_text(&settings, &some_facts);
    g_assert_nonnull(strstr(text, "\"max_in_cpu\" : 10000000000"));
    memcpy(strstr(text, "\"memwall\""), "\"nothing\"", strlen("\"nothing\""));
    struct mw_settings read = parse(text, 16);
    g_autofree char *found = devices(&read);
    g_assert_cmpstr(found, ==, "nvme cpu cpu cpu");
    g_assert_cmpint(read.strategy, ==, MW_STRATEGY_ZERO_INFINITY_NVME);
}

/* In fp32, as the plan does, where DeepSpeed can: at stage 0 it would refuse the file. */
static void
test_sums(void)
{
    static const struct {
        enum mw_strategy strategy;
        int64_t accum;
        enum mw_layout layout;
        bool said;
    } rows[] = {
        {MW_STRATEGY_DDP, 2, MW_LAYOUT_ZERO16, false},
        {MW_STRATEGY_ZERO1, 1, MW_LAYOUT_ZERO16, false},
        {MW_STRATEGY_ZERO1, 2, MW_LAYOUT_ZERO16, true},
        {MW_STRATEGY_ZERO2, 1, MW_LAYOUT_PAPER20, true},
        {MW_STRATEGY_ZERO3, 4, MW_LAYOUT_ZERO16, true},
        {MW_STRATEGY_ZERO_OFFLOAD, 4, MW_LAYOUT_ZERO16, true},
        {MW_STRATEGY_ZERO_INFINITY_NVME, 4, MW_LAYOUT_ZERO16, true},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        struct mw_deepspeed_facts facts = some_facts;
        struct mw_settings settings = defaults(), read = defaults();
        struct mw_deepspeed_said said = {0};
        settings.strategy = rows[i].strategy;
        settings.layout = rows[i].layout;
        facts.grad_accum = rows[i].accum;
        facts.train_batch = 64.0 * rows[i].accum;
        g_autofree char *text = mw_deepspeed_text(&settings, &facts);
        bool found = strstr(text, "\"grad_accum_dtype\" : \"fp32\"");
        g_assert_cmpint(found, ==, rows[i].said);
        g_assert_true(mw_deepspeed_parse(text, -1, ORIGIN, 16, &read, &said, NULL));
        g_assert_cmpint(said.sum_bytes, ==, rows[i].said ? 4 : 2);
        g_assert_cmpint(said.strategy, ==, rows[i].strategy);
        mw_deepspeed_said_clear(&said);
    }
}

/* A file that is cut off anywhere is refused. */
static void
test_truncated(void)
{
    struct mw_settings settings = defaults();

    settings.strategy = MW_STRATEGY_ZERO_INFINITY_NVME;
    g_autofree char *text = mw_deepspeed_text(&settings, &some_facts);
    g_strchomp(text);
    for (size_t length = 0; length < strlen(text); length++) {
        g_autofree char *part = g_strndup(text, length);
        g_autoptr(GError) error = NULL;
        g_assert_false(mw_deepspeed_parse(part, -1, ORIGIN, 0, &settings, NULL, &error));
        g_assert_error(error, MW_ERROR, MW_ERROR_FORMAT);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/deepspeed-write/round-trip", test_round_trip);
    g_test_add_func("/deepspeed-write/nearest", test_write_nearest);
    g_test_add_func("/deepspeed-write/sums", test_sums);
    g_test_add_func("/deepspeed-write/truncated", test_truncated);
    return g_test_run();
}
