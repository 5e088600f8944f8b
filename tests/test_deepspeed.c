/* The settings that a ds_config.json is read into. */
#include <glib/gstdio.h>

#include "deepspeed_read.h"

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
        {"'stage': 3, 'cpu_offload': true, 'cpu_offload_param': true", "zero-infinity-cpu",
         "cpu cpu cpu -"},
        {"'stage': 3, 'offload_optimizer': {'device': 'cpu'}", "zero-infinity-cpu",
         "gpu cpu cpu -"},
        {"'stage': 3, 'offload_param': {'device': 'cpu'}", "zero-infinity-cpu", "cpu gpu gpu -"},
        {"'stage': 3, 'offload_param': {'device': 'nvme'}, 'offload_optimizer': {'device': 'nvme'}",
         "zero-infinity-nvme", "nvme nvme nvme -"},
        {"'stage': 3, 'offload_param': {'device': 'cpu'}, 'offload_optimizer': {'device': 'nvme'}",
         "zero-infinity-nvme", "cpu nvme nvme -"},
        {"'stage': 1, 'offload_optimizer': {'device': 'nvme'}", "zero-offload", "- cpu cpu -"},
        {"'stage': 2, 'offload_optimizer': {'device': 'nvme'}", "zero-offload", "- cpu cpu -"},
        {"'stage': 2, 'offload_param': {'device': 'cpu'}", "zero2", "- - - -"},
        {"'offload_param': {'device': 'nvme'}", "ddp", "- - - -"},
        {"'stage': 1, 'offload_param': {'device': 'nvme'}, 'offload_optimizer': {'device': 'cpu'}",
         "zero-offload", "- cpu cpu -"},
        {"'stage': 3, 'offload_param': {'device': 'auto'}, 'offload_optimizer': {'device': 'cpu'}",
         "zero-infinity-cpu", "gpu cpu cpu -"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text = object_of("'zero_optimization': {%s}", rows[i].zero);
        struct mw_settings settings = parse(text, 0);
        g_autofree char *found = devices(&settings);
        g_assert_cmpstr(mw_strategy_name((int)settings.strategy), ==, rows[i].strategy);
        g_assert_cmpstr(found, ==, rows[i].devices);
    }
}

/* What DeepSpeed's classes make of values of another type; 0 and null are as if not given. */
static void
test_forms(void)
{
    static const struct {
        const char *text, *strategy;
        int64_t overlap, chunk;
        int dtype;
    } rows[] = {
        {"'zero_optimization': true", "zero1", 0, MW_AUTO, MW_DTYPE_NONE},
        {"'zero_optimization': false", "ddp", 1, MW_AUTO, MW_DTYPE_NONE},
        {"'zero_optimization': {'stage': '3'}", "zero3", 1, MW_AUTO, MW_DTYPE_NONE},
        {"'zero_optimization': {'stage': ' +2.0 '}", "zero2", 0, MW_AUTO, MW_DTYPE_NONE},
        {"'zero_optimization': {'stage': true}", "zero1", 0, MW_AUTO, MW_DTYPE_NONE},
        {"'zero_optimization': {'stage': 2, 'overlap_comm': 1}", "zero2", 1, MW_AUTO,
         MW_DTYPE_NONE},
        {"'zero_optimization': {'stage': 2, 'overlap_comm': 'Yes'}", "zero2", 1, MW_AUTO,
         MW_DTYPE_NONE},
        {"'zero_optimization': {'stage': 3, 'overlap_comm': 'off'}", "zero3", 0, MW_AUTO,
         MW_DTYPE_NONE},
        {"'zero_optimization': {'stage': 3, 'sub_group_size': '1_000_000'}", "zero3", 1, 1000000,
         MW_DTYPE_NONE},
        {"'zero_optimization': {'stage': 2, 'cpu_offload': 1}", "zero-offload", 0, MW_AUTO,
         MW_DTYPE_NONE},
        {"'fp16': {'enabled': 'true'}", "ddp", 1, MW_AUTO, MW_DTYPE_FP16},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text = object_of("%s", rows[i].text);
        struct mw_settings settings = parse(text, 0);
        g_assert_cmpstr(mw_strategy_name((int)settings.strategy), ==, rows[i].strategy);
        g_assert_cmpint(settings.overlap, ==, rows[i].overlap);
        g_assert_cmpint(settings.optimizer_chunk, ==, rows[i].chunk);
        g_assert_cmpint(settings.dtype, ==, rows[i].dtype);
    }
}

/* Bytes of an element of DeepSpeed's sums, as its engine has them (tests/peer_deepspeed_sums.py).
 */
static void
test_sums(void)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } rows[] = {
        {"'bf16': {'enabled': true}", 2},
        {"'fp16': {'enabled': true}", 2},
        {"'bf16': {'enabled': 'auto'}", 2},
        {"'steps_per_print': 1", 0},
        {"'bf16': {'enabled': true}, 'data_types': {'grad_accum_dtype': 'fp32'}", 4},
        {"'bf16': {'enabled': true}, 'data_types': {'grad_accum_dtype': 'torch.float32'}", 4},
        {"'bf16': {'enabled': true}, 'data_types': {'grad_accum_dtype': 'bf16'}", 2},
        {"'bf16': {'enabled': true}, 'data_types': {'grad_accum_dtype': null}", 2},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text = object_of("%s, 'zero_optimization': {'stage': 2}", rows[i].text);
        struct mw_settings settings = defaults();
        struct mw_deepspeed_said said = {0};
        g_assert_true(mw_deepspeed_parse(text, -1, ORIGIN, 4, &settings, &said, NULL));
        g_assert_cmpint(said.sum_bytes, ==, rows[i].bytes);
        g_assert_cmpint(said.stage, ==, 2);
        g_assert_cmpstr(said.stage_said, ==, "zero_optimization.stage 2");
        for (char **key = said.ignored; *key; key++)
            g_assert_false(g_str_has_prefix(*key, "data_types"));
        mw_deepspeed_said_clear(&said);
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
    before.device_file = g_intern_string(ORIGIN);
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
        {256, 8, 4, 8, 256, 8, 4},   {256, 8, 4, 0, 256, 8, 4},
        {256, 8, 0, 8, 256, 8, 4},   {256, 0, 4, 8, 256, 8, 4},
        {256, 0, 0, 8, 256, 32, 1},  {256, 8, 0, 0, 256, 8, MW_AUTO},
        {0, 8, 4, 8, MW_AUTO, 8, 4}, {0, 8, 0, 8, MW_AUTO, 8, MW_AUTO},
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
        g_autofree char *text = object_of(
            "'bf16': {'enabled': true}, 'zero_optimization': {'stage': 1}, %s", rows[i].text);
        struct mw_settings settings = defaults();
        struct mw_deepspeed_said said = {0};
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

    settings = parse("{\"zero_optimization\": {\"stage\": 3, \"prefetch_bucket_size\": 0}}", 0);
    g_assert_cmpint(settings.prefetch, ==, 0);

    settings = parse("{\"zero_optimization\": {\"stage\": 3, \"stage3_prefetch_bucket_size\": 0,"
                     " \"overlap_comm\": true, \"offload_optimizer\": {\"device\": \"nvme\","
                     " \"pipeline_read\": true}}}",
                     0);
    g_assert_true(settings.overlap);
    g_assert_cmpint(settings.prefetch, ==, 0);
    g_assert_cmpint(settings.buffer_sets, ==, 2);
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
    g_test_add_func("/deepspeed/forms", test_forms);
    g_test_add_func("/deepspeed/untouched", test_untouched);
    g_test_add_func("/deepspeed/batch", test_batch);
    g_test_add_func("/deepspeed/batch/per-replica", test_micro_batch_per_replica);
    g_test_add_func("/deepspeed/batch/slicing", test_slicing);
    g_test_add_func("/deepspeed/batch/trainers", test_trainers_batch);
    g_test_add_func("/deepspeed/schedule", test_schedule);
    g_test_add_func("/deepspeed/schedule/overlap-default", test_overlap_default);
    g_test_add_func("/deepspeed/sums", test_sums);
    g_test_add_func("/deepspeed/load", test_load);
    return g_test_run();
}
