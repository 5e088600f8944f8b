#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>

#include "planner/deepspeed.h"
#include "planner/error.h"

#define ORIGIN "ds.json"

static const struct mw_deepspeed_facts some_facts = {
    .micro_batch = 4,
    .grad_accum = 2,
    .train_batch = 128,
    .prefetch_elements = 50000000,
    .live_elements = 600000000,
    .largest_unit_elements = 150000000,
    .buffer_count = 6,
    .nvme_queue_depth = 32,
    .nvme_block_bytes = 1 << 20,
};

static struct mw_settings
defaults(void)
{
    struct mw_settings settings;

    mw_settings_init(&settings);
    return settings;
}

static struct mw_settings
parse(const char *text, int64_t world)
{
    struct mw_settings settings = defaults();
    GError *error = NULL;

    mw_deepspeed_parse(text, -1, ORIGIN, world, &settings, NULL, &error);
    g_assert_no_error(error);
    return settings;
}

static char *
devices(const struct mw_settings *settings)
{
    GString *text = g_string_new(NULL);

    for (int state = 0; state < MW_STATE_COUNT; state++) {
        g_autofree char *one = mw_placement_text(&settings->placement[state]);
        g_string_append_printf(text, "%s%s", state ? " " : "", *one ? one : "-");
    }
    return g_string_free(text, FALSE);
}

static void
test_strategies(void)
{
    static const struct {
        const char *zero, *strategy, *devices; /* parameters gradients optimizer activations */
    } rows[] = {
        {"", "ddp", "- - - -"},
        {"'stage': 0", "ddp", "- - - -"},
        {"'stage': 1", "zero1", "- - - -"},
        {"'stage': 2", "zero2", "- - - -"},
        {"'stage': 3", "zero3", "- - - -"},
        {"'stage': 3.0", "zero3", "- - - -"},
        {"'stage': 'auto'", "ddp", "- - - -"},
        {"'stage': 1, 'offload_optimizer': {'device': 'cpu'}", "zero-offload", "- cpu cpu -"},
        {"'stage': 2, 'offload_optimizer': {'device': 'cpu'}", "zero-offload", "- cpu cpu -"},
        {"'stage': 2, 'offload_optimizer': {'device': 'none'}", "zero2", "- gpu gpu -"},
        {"'stage': 2, 'offload_optimizer': null", "zero2", "- - - -"},
        {"'stage': 2, 'cpu_offload': true", "zero-offload", "- cpu cpu -"},
        {"'stage': 2, 'cpu_offload': false", "zero2", "- gpu gpu -"},
        {"'stage': 3, 'cpu_offload': true, 'cpu_offload_params': true", "zero-infinity-cpu",
         "cpu cpu cpu -"},
        {"'stage': 3, 'offload_optimizer': {'device': 'cpu'}", "zero-infinity-cpu",
         "gpu cpu cpu -"},
        {"'stage': 3, 'offload_param': {'device': 'cpu'}", "zero-infinity-cpu", "cpu gpu gpu -"},
        {"'stage': 3, 'offload_param': {'device': 'nvme'}, 'offload_optimizer': {'device': 'nvme'}",
         "zero-infinity-nvme", "nvme nvme nvme -"},
        {"'stage': 3, 'offload_param': {'device': 'cpu'}, 'offload_optimizer': {'device': 'nvme'}",
         "zero-infinity-nvme", "cpu nvme nvme -"},
        {"'stage': 3, 'offload_param': {'device': 'auto'}, 'offload_optimizer': {'device': 'cpu'}",
         "zero-infinity-cpu", "gpu cpu cpu -"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text = g_strdup_printf("{'zero_optimization': {%s}}", rows[i].zero);
        g_strdelimit(text, "'", '"');
        struct mw_settings settings = parse(text, 0);
        g_autofree char *found = devices(&settings);
        g_assert_cmpstr(mw_strategy_name((int)settings.strategy), ==, rows[i].strategy);
        g_assert_cmpstr(found, ==, rows[i].devices);
    }
}

static void
test_untouched(void)
{
    struct mw_settings before, after;

    memset(&before, 0, sizeof before);
    memset(&after, 0, sizeof after);
    mw_settings_init(&before);
    before.strategy = MW_STRATEGY_ZERO1;
    before.grad_accum = 17;
    before.prefetch = 5;
    after = before;
    g_assert_true(mw_deepspeed_parse("{}", -1, ORIGIN, 4, &after, NULL, NULL));
    before.strategy = MW_STRATEGY_DDP; /* DeepSpeed's stage 0 */
    g_assert_cmpmem(&before, sizeof before, &after, sizeof after);
    g_assert_true(
        mw_deepspeed_parse("{\"train_batch_size\": \"auto\", \"gradient_clipping\": \"auto\","
                           " \"fp16\": {\"enabled\": \"auto\"}}",
                           -1, ORIGIN, 4, &after, NULL, NULL));
    g_assert_cmpmem(&before, sizeof before, &after, sizeof after);
}

static void
test_batch(void)
{
    static const struct {
        int64_t train, micro, accum, world;               /* 0: not given */
        int64_t expect_train, expect_micro, expect_accum; /* MW_AUTO: left alone */
    } rows[] = {
        {256, 8, 4, 8, 256, 8, 4},
        {256, 8, 4, 0, 256, 8, 4},
        {256, 8, 0, 8, 256, 8, 4},
        {256, 0, 4, 8, 256, 8, 4},
        {256, 0, 0, 8, 256, 32, 1},
        {256, 8, 0, 0, 256, 8, MW_AUTO},
        {0, 8, 4, 8, MW_AUTO, 8, 4},
        {0, 8, 0, 8, MW_AUTO, 8, MW_AUTO},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GString) text = g_string_new("{\"steps_per_print\": 1");
        if (rows[i].train)
            g_string_append_printf(text, ", \"train_batch_size\": %d", (int)rows[i].train);
        if (rows[i].micro)
            g_string_append_printf(text, ", \"train_micro_batch_size_per_gpu\": %d",
                                   (int)rows[i].micro);
        if (rows[i].accum)
            g_string_append_printf(text, ", \"gradient_accumulation_steps\": %d",
                                   (int)rows[i].accum);
        g_string_append(text, "}");
        struct mw_settings settings = parse(text->str, rows[i].world);
        g_assert_cmpint(settings.global_batch, ==, rows[i].expect_train);
        g_assert_cmpfloat(settings.micro_batch, ==, (double)rows[i].expect_micro);
        g_assert_cmpint(settings.grad_accum, ==, rows[i].expect_accum);
    }
}

static void
test_micro_batch_per_replica(void)
{
    struct mw_settings settings = defaults();

    settings.tp = 4;
    g_assert_true(mw_deepspeed_parse("{\"train_micro_batch_size_per_gpu\": 2}", -1, ORIGIN, 0,
                                     &settings, NULL, NULL));
    g_assert_cmpfloat(settings.micro_batch, ==, 0.5);
}

/* DeepSpeed counts every GPU as a replica, unless the training script gives it an mpu. */
static void
test_slicing(void)
{
    static const struct {
        const char *text;
        int64_t tp, train, accum; /* MW_AUTO: left alone */
        double micro;
        const char *note;
    } rows[] = {
        {"'tensor_parallel': {'autotp_size': 0}, 'train_batch_size': 64", 1, 64, 1, 8,
         "DeepSpeed takes it in one micro-batch"},
        {"'gradient_accumulation_steps': 4", 1, MW_AUTO, 4, MW_AUTO,
         "DeepSpeed refuses a file without train_batch_size"},
        {"'tensor_parallel': {'autotp_size': 4}, 'train_micro_batch_size_per_gpu': 8", 4, MW_AUTO,
         MW_AUTO, 2, NULL},
        {"'tensor_parallel': {'autotp_size': 4}, 'train_batch_size': 64,"
         " 'train_micro_batch_size_per_gpu': 8, 'gradient_accumulation_steps': 1",
         4, 16, 1, 2, "a step is of 16 sequences"},
        {"'tensor_parallel': {'autotp_size': 4}, 'train_batch_size': 64,"
         " 'train_micro_batch_size_per_gpu': 4",
         4, 16, 2, 1, "a step is of 16 sequences"},
        {"'tensor_parallel': {'autotp_size': 4}, 'train_batch_size': 16,"
         " 'train_micro_batch_size_per_gpu': 8, 'gradient_accumulation_steps': 1",
         4, 16, 1, 2, "where the training script gives it an mpu"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text = g_strdup_printf(
            "{'bf16': {'enabled': true}, 'zero_optimization': {'stage': 1}, %s}", rows[i].text);
        struct mw_settings settings = defaults();
        struct mw_deepspeed_said said = {0};
        g_strdelimit(text, "'", '"');
        g_assert_true(mw_deepspeed_parse(text, -1, ORIGIN, 8, &settings, &said, NULL));
        g_assert_cmpint(settings.tp, ==, rows[i].tp);
        g_assert_cmpint(settings.global_batch, ==, rows[i].train);
        g_assert_cmpint(settings.grad_accum, ==, rows[i].accum);
        g_assert_cmpfloat(settings.micro_batch, ==, rows[i].micro);
        g_assert_cmpuint(g_strv_length(said.notes), ==, rows[i].note ? 1 : 0);
        if (rows[i].note && !strstr(said.notes[0], rows[i].note))
            g_error("%s: %s", text, said.notes[0]);
        g_assert_cmpuint(g_strv_length(said.ignored), ==, 0);
        mw_deepspeed_said_clear(&said);
    }
}

static void
test_schedule(void)
{
    struct mw_settings settings =
        parse("{\"zero_optimization\": {\"stage\": 3, \"overlap_comm\": false,"
              " \"sub_group_size\": 5e8, \"offload_optimizer\": {\"device\": \"nvme\","
              " \"pipeline_read\": false, \"pipeline_write\": false}},"
              " \"activation_checkpointing\": {\"cpu_checkpointing\": true}}",
              0);
    g_assert_false(settings.overlap);
    g_assert_cmpint(settings.prefetch, ==, 0);
    g_assert_cmpint(settings.optimizer_chunk, ==, 500000000);
    g_assert_cmpint(settings.buffer_sets, ==, 1);
    g_autofree char *found = devices(&settings);
    g_assert_cmpstr(found, ==, "gpu nvme nvme cpu");

    settings = parse("{\"zero_optimization\": {\"stage\": 3, \"stage3_prefetch_bucket_size\": 0,"
                     " \"overlap_comm\": true, \"offload_optimizer\": {\"device\": \"nvme\","
                     " \"pipeline_read\": true}}}",
                     0);
    g_assert_true(settings.overlap);
    g_assert_cmpint(settings.prefetch, ==, 0);
    g_assert_cmpint(settings.buffer_sets, ==, 2);
}

static void
test_ignored(void)
{
    struct mw_settings settings = defaults();
    struct mw_deepspeed_said said = {0};

    g_assert_true(mw_deepspeed_parse(
        "{\"wandb\": {\"enabled\": true}, \"steps_per_print\": 10, \"gradient_clipping\": 1.0,"
        " \"scheduler\": {\"type\": \"WarmupLR\", \"params\": {}}, \"scheduler.type\": 3,"
        " \"a\\nb\": 1, \"zero_optimization.stage\": 1,"
        " \"fp16\": {\"loss_scale\": 0, \"enabled\": true, \"hysteresis\": 2},"
        " \"zero_optimization\": {\"stage\": 2, \"overlap_comm\": true, \"sub_group_size\": 1e9,"
        "  \"reduce_bucket_size\": \"auto\", \"contiguous_gradients\": true,"
        "  \"stage3_model_persistence_threshold\": 9223372036854775807,"
        "  \"offload_optimizer\": {\"device\": \"cpu\", \"pipeline_read\": true}},"
        " \"activation_checkpointing\": {\"number_checkpoints\": 4},"
        " \"aio\": {\"thread_count\": 1, \"queue_depth\": 8.0}}",
        -1, ORIGIN, 0, &settings, &said, NULL));
    g_autofree char *names = g_strjoinv(" ", said.ignored);
    mw_deepspeed_said_clear(&said);
    g_assert_cmpstr(names, ==,
                    "wandb steps_per_print gradient_clipping scheduler scheduler.type a?b "
                    "zero_optimization.stage fp16.loss_scale fp16.hysteresis "
                    "zero_optimization.sub_group_size zero_optimization.contiguous_gradients "
                    "zero_optimization.stage3_model_persistence_threshold "
                    "zero_optimization.offload_optimizer.pipeline_read "
                    "activation_checkpointing.number_checkpoints aio.thread_count aio.queue_depth");
    g_assert_cmpint(settings.strategy, ==, MW_STRATEGY_ZERO_OFFLOAD);
}

/* Where DeepSpeed would do another thing than the plan, or the trainer above it decides. */
static void
test_notes(void)
{
    static const struct {
        const char *text;
        const char *words[4]; /* of one note each, in order */
    } rows[] = {
        {"'bf16': {'enabled': true}, 'zero_optimization': {'stage': 2}", {NULL}},
        {"'fp16': {'enabled': false}, 'zero_optimization': {'stage': 2}", {"fp32"}},
        {"'zero_optimization': {'stage': 2}", {"fp32"}},
        {"'bf16': {'enabled': 'auto'}, 'zero_optimization': {'stage': 2}", {"--bf16"}},
        {"'bf16': {'enabled': true}", {"no zero_optimization: DeepSpeed trains at stage 0"}},
        {"'bf16': {'enabled': true}, 'zero_optimisation': {'stage': 2}",
         {"zero_optimisation: not a key, and DeepSpeed passes over it; did you mean "
          "zero_optimization?",
          "no zero_optimization"}},
        {"'bf16': {'enabled': true}, 'zero_optimization': {'stage': 2},"
         " 'train_bach_size': 8, 'scheduler': {}, 'steps_per_print': 1, 'mine': 1,"
         " 'activation_checkpointing': {'cpu_checkpointng': true}",
         {"did you mean train_batch_size?",
          "did you mean activation_checkpointing.cpu_checkpointing?"}},
        {"'bf16': {'enabled': true}, 'offload_optimizer': {'device': 'cpu'},"
         " 'zero_optimization': {'stage': 2}",
         {"did you mean zero_optimization.offload_optimizer?"}},
        {"'bf16': {'enabled': true}, 'zero_optimization': {'stage': 2},"
         " 'memwall': {'strategy': 'zero3'}",
         {"memwall: left out"}},
        {"'bf16': {'enabled': true}, 'zero_optimization': {'stage': 'auto'}",
         {"zero_optimization.stage: \"auto\" is DeepSpeed's default"}},
        {"'bf16': {'enabled': true}, 'zero_optimization': {'stage': 2, 'overlap_com': true}",
         {"overlap_com: not a key of DeepSpeed 0.19, which refuses it; did you mean "
          "zero_optimization.overlap_comm?"}},
        {"'bf16': {'enabled': true}, 'zero_optimization': {'stage': 2},"
         " 'tensor_parallel': {'autotp_sise': 2}",
         {"refuses it; did you mean tensor_parallel.autotp_size?"}},
        {"'bf16': {'enabled': true}, 'zero_optimization': {'stage': 2},"
         " 'train_micro_batch_size_per_gpu': 'auto', 'gradient_accumulation_steps': 'auto'",
         {"micro-batch 8, accumulation 1"}},
        {"'bf16': {'enabled': true}, 'optimizer': {'type': 'Lamb'},"
         " 'zero_optimization': {'stage': 2}",
         {"\"Lamb\" is planned as AdamW"}},
        {"'bf16': {'enabled': true},"
         " 'zero_optimization': {'stage': 2, 'offload_optimizer': {'device': 'cpu'}}",
         {"no optimizer"}},
        {"'bf16': {'enabled': true}, 'optimizer': {'type': 'adamw', 'params': {'lr': 1e-3}},"
         " 'zero_optimization': {'stage': 2, 'offload_optimizer': {'device': 'cpu'}}",
         {NULL}},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text = g_strdup_printf("{%s}", rows[i].text);
        struct mw_settings settings = defaults();
        struct mw_deepspeed_said said = {0};
        size_t n = 0;

        g_strdelimit(text, "'", '"');
        g_assert_true(mw_deepspeed_parse(text, -1, ORIGIN, 0, &settings, &said, NULL));
        for (; rows[i].words[n] && said.notes[n]; n++)
            if (!strstr(said.notes[n], rows[i].words[n]))
                g_error("%s: %s", text, said.notes[n]);
        if (rows[i].words[n] || said.notes[n])
            g_error("%s: %u notes, the next is %s", text, g_strv_length(said.notes),
                    said.notes[n] ? said.notes[n] : "missing");
        mw_deepspeed_said_clear(&said);
    }
}

static void
test_trainers_batch(void)
{
    static const struct {
        const char *micro, *accum, *train;
        int64_t expect_micro, expect_accum;
    } rows[] = {
        {"\"auto\"", "\"auto\"", "\"auto\"", 8, 1},
        {"\"auto\"", "4", "\"auto\"", 8, 4},
        {"2", "\"auto\"", "\"auto\"", 2, 1},
        {"\"auto\"", "\"auto\"", "64", MW_AUTO, MW_AUTO}, /* 4 ranks: 16 sequences each */
        {"\"auto\"", "2", "64", 8, 2},
        {"4", "\"auto\"", "64", 4, 4},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text = g_strdup_printf(
            "{\"train_micro_batch_size_per_gpu\": %s, \"gradient_accumulation_steps\": %s,"
            " \"train_batch_size\": %s}",
            rows[i].micro, rows[i].accum, rows[i].train);
        struct mw_settings settings = parse(text, 4);
        g_assert_cmpfloat(settings.micro_batch, ==, (double)rows[i].expect_micro);
        g_assert_cmpint(settings.grad_accum, ==, rows[i].expect_accum);
    }
}

/* Stages 1 and 2 overlap nothing unless told to; stage 3 does (zero/config.py). */
static void
test_overlap_default(void)
{
    for (int stage = 0; stage <= 3; stage++) {
        g_autofree char *text = g_strdup_printf("{\"zero_optimization\": {\"stage\": %d}}", stage);
        struct mw_settings settings = parse(text, 0);
        g_assert_cmpint(settings.overlap, ==, stage == 0 || stage == 3);
    }
}

static const struct {
    const char *text, *key, *accepted;
} refusals[] = {
    {"'train_batch_size': 0", "train_batch_size", "from 1"},
    {"'train_batch_size': -8", "train_batch_size", "from 1"},
    {"'train_batch_size': 2.5", "train_batch_size", "a whole number"},
    {"'train_batch_size': 1e999", "train_batch_size", "a whole number"},
    {"'train_batch_size': 1e300", "train_batch_size", "a whole number"},
    {"'train_batch_size': 99999999999999999999", "", ""},
    {"'train_batch_size': '8'", "train_batch_size", "a whole number"},
    {"'train_batch_size': true", "train_batch_size", "a whole number"},
    {"'train_batch_size': [8]", "train_batch_size", "a whole number"},
    {"'train_batch_size': {}", "train_batch_size", "a whole number"},
    {"'train_batch_size': NaN", "", ""},
    {"'gradient_accumulation_steps': 0", "gradient_accumulation_steps", "from 1"},
    {"'tensor_parallel': {'autotp_size': 3}", "tensor_parallel.autotp_size",
     "a divisor of the number of GPUs, 4"},
    {"'tensor_parallel': {'autotp_size': 2000}", "tensor_parallel.autotp_size", "from 0 to 1024"},
    {"'tensor_parallel': {'autotp_size': 2}, 'train_batch_size': 33,"
     " 'train_micro_batch_size_per_gpu': 8, 'gradient_accumulation_steps': 1",
     "train_batch_size", "* 4 GPUs"},
    {"'gradient_clipping': -1", "gradient_clipping", "from 0"},
    {"'zero_optimization': true", "zero_optimization", "an object"},
    {"'zero_optimization': []", "zero_optimization", "an object"},
    {"'zero_optimization': {'stage': 4}", "zero_optimization.stage", "from 0 to 3"},
    {"'zero_optimization': {'stage': 'three'}", "zero_optimization.stage", "from 0 to 3"},
    {"'zero_optimization': {'overlap_comm': 1}", "zero_optimization.overlap_comm", "true"},
    {"'zero_optimization': {'stage': 3, 'offload_param': {'device': 'disk'}}",
     "zero_optimization.offload_param.device", "\"nvme\""},
    {"'zero_optimization': {'stage': 2, 'offload_param': {'device': 'cpu'}}",
     "zero_optimization.offload_param.device", "stage 3"},
    {"'zero_optimization': {'offload_param': {'device': 'cpu'}}",
     "zero_optimization.offload_param.device", "stage 3"},
    {"'zero_optimization': {'stage': 2, 'offload_optimizer': {'device': 'nvme'}}",
     "zero_optimization.offload_optimizer.device", "stage 3"},
    {"'zero_optimization': {'stage': 0, 'cpu_offload': true}", "zero_optimization.cpu_offload",
     "stage 1, 2 or 3"},
    {"'zero_optimization': {'stage': 3, 'cpu_offload': true,"
     " 'offload_optimizer': {'device': 'nvme'}}",
     "zero_optimization.cpu_offload", "offload_optimizer.device"},
    {"'zero_optimization': {'sub_group_size': -1}", "zero_optimization.sub_group_size", "from 0"},
    {"'zero_optimization': {'offload_optimizer': {'ratio': 1.5}}",
     "zero_optimization.offload_optimizer.ratio", "from 0 to 1"},
    {"'zero_optimization': {'stage': 2, 'offload_optimizer': {'device': 'cpu', 'ratio': 0.5}}",
     "zero_optimization.offload_optimizer.ratio", "stage 3"},
    {"'zero_optimization': {'reduce_bucket_size': 0}", "zero_optimization.reduce_bucket_size",
     "from 1"},
    {"'optimizer': {'type': 3}", "optimizer.type", "AdamW"},
    {"'fp16': {'enabled': true}, 'bf16': {'enabled': true}", "fp16.enabled", "bf16.enabled"},
    {"'fp16': {'enabled': true}, 'bfloat16': {'enabled': true}", "fp16.enabled",
     "bfloat16.enabled"},
    {"'fp16': {'enabled': 'yes'}", "fp16.enabled", "true, false"},
    {"'aio': {'queue_depth': 0}", "aio.queue_depth", "from 1"},
    {"'aio': {'thread_count': -1}", "aio.thread_count", "from 1"},
    {"'activation_checkpointing': {'cpu_checkpointing': 'cpu'}",
     "activation_checkpointing.cpu_checkpointing", "true, false"},
    {"'train_batch_size': 33, 'train_micro_batch_size_per_gpu': 4,"
     " 'gradient_accumulation_steps': 2",
     "train_batch_size", "must be 32"},
    {"'train_batch_size': 33, 'train_micro_batch_size_per_gpu': 4", "train_batch_size",
     "a multiple of 16"},
    {"'train_batch_size': 33", "train_batch_size", "a multiple of 4"},
    {"'train_batch_size': 8, 'train_micro_batch_size_per_gpu': 1e12,"
     " 'gradient_accumulation_steps': 1e12",
     "train_batch_size", "must be 4e+24"},
    {"'memwall': {'strategy': 'zero9'}", "memwall.strategy", "the name of a strategy"},
    {"'memwall': {'param_device': 'disk'}", "memwall.param_device", "\"nvme\""},
    {"'memwall': {'tiles': 0}", "memwall.tiles", "from 1"},
    {"'train_batch_size': 33, 'gradient_accumulation_steps': 3", "train_batch_size",
     "the nearest are 24 and 36"},
    {"'a': 1}, {'b': 2", "", ""},
    {"'zero_optimization': {'stage': 2, 'stage': 3}", "stage", "once"},
};

static void
assert_refused(const char *content, const char *key, const char *accepted)
{
    g_autofree char *text = g_strdup_printf("{%s}", content);
    g_autofree char *said_key = g_strdup_printf(ORIGIN ": key \"%s\": value ", key);
    g_autoptr(GError) error = NULL;
    struct mw_deepspeed_said said = {0};
    struct mw_settings settings = defaults();

    settings.prefetch = 77;
    g_strdelimit(text, "'", '"');
    if (mw_deepspeed_parse(text, -1, ORIGIN, 4, &settings, &said, &error))
        g_error("accepted: %s", text);
    g_assert_true(error->domain == MW_ERROR);
    if (!g_str_has_prefix(error->message, *key ? said_key : ORIGIN ": ") ||
        !strstr(error->message, accepted) || strchr(error->message, '\n'))
        g_error("%s: %s", text, error->message);
    g_assert_cmpint(settings.prefetch, ==, 77);
    g_assert_null(said.ignored);
    g_assert_null(said.notes);
}

static void
test_refused(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(refusals); i++)
        assert_refused(refusals[i].text, refusals[i].key, refusals[i].accepted);
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

static void
set_placement(struct mw_settings *settings, const char *params, const char *optimizer,
              const char *activations)
{
    g_assert_true(mw_placement_parse(params, "", &settings->placement[MW_STATE_PARAMETERS], NULL));
    g_assert_true(
        mw_placement_parse(optimizer, "", &settings->placement[MW_STATE_OPTIMIZER], NULL));
    settings->placement[MW_STATE_GRADIENTS] = settings->placement[MW_STATE_OPTIMIZER];
    g_assert_true(
        mw_placement_parse(activations, "", &settings->placement[MW_STATE_ACTIVATIONS], NULL));
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

static void
test_load(void)
{
    struct mw_settings settings = defaults();
    g_autoptr(GError) error = NULL;
    g_autofree char *path = NULL;
    int file = g_file_open_tmp("memwall-XXXXXX.json", &path, NULL);

    g_assert_cmpint(file, >=, 0);
    g_assert_true(g_close(file, NULL));
    g_assert_true(g_file_set_contents(path, "{\"zero_optimization\": {\"stage\": 1}}", -1, NULL));
    g_assert_true(mw_deepspeed_load(path, 0, &settings, NULL, NULL));
    g_assert_cmpint(settings.strategy, ==, MW_STRATEGY_ZERO1);
    g_unlink(path);
    g_assert_false(mw_deepspeed_load(path, 0, &settings, NULL, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_INVALID);
    g_assert_nonnull(strstr(error->message, path));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/deepspeed/strategies", test_strategies);
    g_test_add_func("/deepspeed/untouched", test_untouched);
    g_test_add_func("/deepspeed/batch", test_batch);
    g_test_add_func("/deepspeed/batch/per-replica", test_micro_batch_per_replica);
    g_test_add_func("/deepspeed/batch/slicing", test_slicing);
    g_test_add_func("/deepspeed/schedule", test_schedule);
    g_test_add_func("/deepspeed/ignored", test_ignored);
    g_test_add_func("/deepspeed/ignored/notes", test_notes);
    g_test_add_func("/deepspeed/ignored/trainers-batch", test_trainers_batch);
    g_test_add_func("/deepspeed/ignored/overlap-default", test_overlap_default);
    g_test_add_func("/deepspeed/refused", test_refused);
    g_test_add_func("/deepspeed/truncated", test_truncated);
    g_test_add_func("/deepspeed/write/round-trip", test_round_trip);
    g_test_add_func("/deepspeed/write/nearest", test_write_nearest);
    g_test_add_func("/deepspeed/load", test_load);
    return g_test_run();
}
