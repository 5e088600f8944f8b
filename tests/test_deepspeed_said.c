/* Notes on a ds_config.json, and what is refused. */
#include "deepspeed_read.h"

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

/* A file that is none of DeepSpeed's, or an evil one: a bounded number of lines of bounded length.
 */
static void
test_many_keys(void)
{
    g_autoptr(GString) text = g_string_new("{\"zero_optimization\": {\"stage\": 1");
    struct mw_settings settings = defaults();
    struct mw_deepspeed_said said = {0};

    for (int i = 0; i < 5000; i++)
        g_string_append_printf(text, ", \"%0*d\": 1", i ? 5 : 30000, i);
    g_string_append(text, "}");
    for (int i = 0; i < 5000; i++)
        g_string_append_printf(text, ", \"tran_batch_size%d\": 1", i);
    g_string_append(text, "}");
    g_assert_true(mw_deepspeed_parse(text->str, -1, ORIGIN, 0, &settings, &said, NULL));
    g_assert_cmpint(g_strv_length(said.ignored), ==, 101);
    g_assert_cmpstr(said.ignored[100], ==, "4900 more");
    g_assert_cmpint(g_strv_length(said.notes), <, 30);
    g_assert_true(g_strv_contains(
        (const char *const *)said.notes,
        "4990 more keys are unknown to DeepSpeed 0.19, which refuses them"));
    for (char **note = said.notes; *note; note++)
        g_assert_cmpint(strlen(*note), <, 300);
    mw_deepspeed_said_clear(&said);
}

#define BF16 "'bf16': {'enabled': true}"
#define STAGE2 "'zero_optimization': {'stage': 2}"

/* Where DeepSpeed would do another thing than the plan, or the trainer above it decides. */
static const struct {
    const char *text;
    const char *words[4]; /* of one note each, in order */
} notes[] = {
    {BF16 ", " STAGE2, {NULL}},
    {"'fp16': {'enabled': false}, " STAGE2, {"fp32"}},
    {STAGE2, {"fp32"}},
    {"'bf16': {'enabled': 'auto'}, " STAGE2, {"--bf16"}},
    {BF16, {"no zero_optimization: DeepSpeed trains at stage 0"}},
    {BF16 ", 'zero_optimisation': {'stage': 2}",
     {"zero_optimisation: not a key; DeepSpeed ignores it; did you mean "
      "zero_optimization?",
      "no zero_optimization"}},
    {BF16 ", " STAGE2 ", 'train_bach_size': 8, 'scheduler': {}, 'steps_per_print': 1, 'mine': 1,"
          " 'activation_checkpointing': {'cpu_checkpointng': true}",
     {"did you mean train_batch_size?",
      "did you mean activation_checkpointing.cpu_checkpointing?"}},
    {BF16 ", 'offload_optimizer': {'device': 'cpu'}, " STAGE2,
     {"did you mean zero_optimization.offload_optimizer?"}},
    /* All that are meant as likely. */
    {BF16 ", 'bp16': {'enabled': true}, 'device': 'cpu', " STAGE2,
     {"bp16: not a key; DeepSpeed ignores it; did you mean fp16 or bf16?",
      "device: not a key; DeepSpeed ignores it; did you mean "
      "zero_optimization.offload_param.device or zero_optimization.offload_optimizer.device?"}},
    {BF16 ", " STAGE2 ", 'memwall': {'strategy': 'zero3'}", {"memwall: left out"}},
    {BF16 ", 'zero_optimization': {'stage': 'auto'}",
     {"zero_optimization.stage: \"auto\" is DeepSpeed's default"}},
    {BF16 ", 'zero_optimization': {'stage': 2, 'overlap_com': true}",
     {"overlap_com: not a key of DeepSpeed 0.19, which refuses it; did you mean "
      "zero_optimization.overlap_comm?"}},
    {BF16 ", " STAGE2 ", 'tensor_parallel': {'autotp_sise': 2}",
     {"refuses it; did you mean tensor_parallel.autotp_size?"}},
    {BF16 ", " STAGE2
          ", 'train_micro_batch_size_per_gpu': 'auto', 'gradient_accumulation_steps': 'auto'",
     {"micro-batch 8, accumulation 1"}},
    {BF16 ", 'zero_optimization': {'stage': 3, 'overlap_comm': null,"
          " 'offload_param': null, 'max_live_parameters': 5, 'allgather_sequential': true},"
          " 'aio': null",
     {NULL}},
    {BF16 ", 'zero_optimization': {'stage': 2, 'sub_group_size': null},"
          " 'optimizer': null",
     {"zero_optimization.sub_group_size: DeepSpeed refuses null",
      "optimizer: DeepSpeed refuses null"}},
    {BF16 ", 'zero_optimization': {'stage': 3, 'cpu_offload_params': true}",
     {"which refuses it; did you mean zero_optimization.cpu_offload_param?"}},
    {"'bf16': {'enabled': true, 'bf16_master_weights_and_grads': true,"
     " 'bf16_optimizer_states': true}, 'zero_optimization': {'stage': 3}",
     {"bf16.bf16_master_weights_and_grads: DeepSpeed keeps the optimizer's parameters and",
      "bf16.bf16_optimizer_states: DeepSpeed keeps momentum and variance in 2 bytes"}},
    {"'fp16': {'enabled': true, 'fp16_master_weights_and_grads': false},"
     " 'zero_optimization': {'stage': 3}",
     {NULL}},
    {BF16 ", 'zero_optimization': true", {"DeepSpeed takes for {\"stage\": 1}"}},
    {BF16 ", 'optimizer': {'type': 'Adam'}, 'zero_optimization':"
          " {'stage': 1, 'offload_optimizer': {'device': 'nvme'}, 'offload_param': {'device': "
          "'cpu'}}",
     {"offload_param.device: DeepSpeed offloads parameters at stage 3 alone; at stage 1",
      "offload_optimizer.device: \"nvme\" is the CPU at stage 1"}},
    {BF16 ", 'optimizer': {'type': 'Adam'},"
          " 'data_types': {'grad_accum_dtype': 'fp32'},"
          " 'zero_optimization': {'stage': 1, 'offload_optimizer': {'device': 'nvme'}}",
     {"\"nvme\" is the CPU at stage 1", "fails with \"nvme\""}},
    {BF16 ", 'zero_optimization': {'stage': 2, 'mics_shard_size': 8},"
          " 'elasticity': null",
     {"zero_optimization.mics_shard_size: is gone from DeepSpeed",
      "elasticity: is gone from DeepSpeed"}},
    {BF16 ", 'optimizer': {'type': 'Adam'}, 'zero_optimization':"
          " {'stage': 2, 'cpu_offload': true, 'offload_optimizer': {'device': 'cpu'}}",
     {"cpu_offload: DeepSpeed refuses it beside"}},
    {BF16 ", 'data_types': {'grad_accum_dtype': 'fp32'},"
          " 'zero_optimization': {'stage': 0}",
     {"\"fp32\" beside bf16: DeepSpeed refuses it at stage 0"}},
    {BF16 ", 'data_types': {'grad_accum_dtype': 'fp16'}, " STAGE2,
     {"DeepSpeed sums bf16 gradients in \"fp16\""}},
    {BF16 ", 'data_types': {'grad_accum_dtype': 'fp32'}, " STAGE2, {NULL}},
    {BF16 ", 'optimizer': {'type': 'Lamb'}, " STAGE2, {"\"Lamb\" is planned as AdamW"}},
    {BF16 ", 'zero_optimization': {'stage': 2, 'offload_optimizer': {'device': 'cpu'}}",
     {"no optimizer"}},
    {BF16 ", 'optimizer': {'type': 'adamw', 'params': {'lr': 1e-3}},"
          " 'zero_optimization': {'stage': 2, 'offload_optimizer': {'device': 'cpu'}}",
     {NULL}},
};

static void
assert_notes(const char *content, const char *const *words)
{
    g_autofree char *text = object_of("%s", content);
    struct mw_settings settings = defaults();
    struct mw_deepspeed_said said = {0};
    size_t n = 0;

    g_assert_true(mw_deepspeed_parse(text, -1, ORIGIN, 0, &settings, &said, NULL));
    for (; words[n] && said.notes[n]; n++)
        if (!strstr(said.notes[n], words[n]))
            g_error("%s: %s", text, said.notes[n]);
    if (words[n] || said.notes[n])
        g_error("%s: %u notes, the next is %s", text, g_strv_length(said.notes),
                said.notes[n] ? said.notes[n] : "missing");
    mw_deepspeed_said_clear(&said);
}

static void
test_notes(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(notes); i++)
        assert_notes(notes[i].text, notes[i].words);
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
    {"'zero_optimization': 'on'", "zero_optimization", "an object"},
    {"'zero_optimization': {'stage': '1_0'}", "zero_optimization.stage", "from 0 to 3"},
    {"'zero_optimization': {'stage': '4'}", "zero_optimization.stage", "from 0 to 3"},
    {"'zero_optimization': {'stage': ''}", "zero_optimization.stage", "from 0 to 3"},
    {"'zero_optimization': {'sub_group_size': '1e9'}", "zero_optimization.sub_group_size",
     "a whole number"},
    {"'aio': {'queue_depth': '8'}", "aio.queue_depth", "a whole number"},
    {"'data_types': {'grad_accum_dtype': 'int8'}", "data_types.grad_accum_dtype", "\"fp32\""},
    {"'data_types': {'grad_accum_dtype': 'auto'}", "data_types.grad_accum_dtype", "\"fp32\""},
    {"'data_types': {'grad_accum_dtype': 32}", "data_types.grad_accum_dtype", "\"fp32\""},
    {"'zero_optimization': []", "zero_optimization", "an object"},
    {"'zero_optimization': {'stage': 4}", "zero_optimization.stage", "from 0 to 3"},
    {"'zero_optimization': {'stage': 'three'}", "zero_optimization.stage", "from 0 to 3"},
    {"'zero_optimization': {'overlap_comm': 2}", "zero_optimization.overlap_comm", "true"},
    {"'zero_optimization': {'stage': 3, 'offload_param': {'device': 'disk'}}",
     "zero_optimization.offload_param.device", "\"nvme\""},
    {"'zero_optimization': {'stage': 0, 'offload_optimizer': {'device': 'nvme'}}",
     "zero_optimization.offload_optimizer.device", "where DeepSpeed takes it and then fails"},
    {"'zero_optimization': {'offload_optimizer': {'ratio': 0.5}}",
     "zero_optimization.offload_optimizer.ratio", "stage 3"},
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
    {"'fp16': {'enabled': ' yes'}", "fp16.enabled", "true, false"},
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
    g_autofree char *text = object_of("%s", content);
    g_autofree char *said_key = g_strdup_printf(ORIGIN ": key \"%s\": value ", key);
    g_autoptr(GError) error = NULL;
    struct mw_deepspeed_said said = {0};
    struct mw_settings settings = defaults();

    settings.prefetch = 77;
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

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/deepspeed-said/many-keys", test_many_keys);
    g_test_add_func("/deepspeed-said/ignored", test_ignored);
    g_test_add_func("/deepspeed-said/notes", test_notes);
    g_test_add_func("/deepspeed-said/refused", test_refused);
    return g_test_run();
}
