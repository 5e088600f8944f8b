/* Hugging Face config.json: what each architecture gives, and what is refused. */
#include <string.h>

#include "base/error.h"
#include "config.h"
#include "model/model.h"

static bool
parse(const char *text, struct mw_model *model, GError **error)
{
    return mw_model_parse_config(text, -1, "config.json", model, error);
}

#define GPT2_KEYS(heads)                                                                           \
    "\"n_layer\": 12, \"n_embd\": 768, \"n_head\": " heads ", \"n_positions\": 1024, "             \
    "\"vocab_size\": 50257"
#define LLAMA_KEYS                                                                                 \
    "\"hidden_size\": 4096, \"intermediate_size\": 11008, \"num_hidden_layers\": 32, "             \
    "\"num_attention_heads\": 32, \"max_position_embeddings\": 4096, \"vocab_size\": 32000"

/* Of gemma-3-4b: patches and their positions, layers, the last norm, the way to the decoder. */
#define GEMMA_TOWER                                                                                \
    (1152 * (3 * 14 * 14 + 1) + 4096 * 1152 +                                                      \
     27 * (4 * 1152 * 1153 + 4304 * 1153 + 1152 * 4305 + 4 * 1152) + 2 * 1152 + 1152 +             \
     1152 * 2560)

/* Dimensions as in the published files. */
static const struct {
    const char *name, *text;
    int64_t params;
} published[] = {
    {"gpt2", "{\"model_type\": \"gpt2\", " GPT2_KEYS("12") "}", 124439808},
    {"gpt2/n_inner", "{\"model_type\": \"gpt2\", \"n_inner\": null, " GPT2_KEYS("12") "}",
     124439808},
    {"gpt2/classes", "{\"architectures\": [\"GPT2LMHeadModel\"], " GPT2_KEYS("12") "}", 124439808},
    {"gpt2/old",
     "{\"model_type\": \"gpt2\", \"n_layer\": 12, \"n_embd\": 768, \"n_head\": 12, "
     "\"n_ctx\": 1024, \"vocab_size\": 50257}",
     124439808},
    {"gpt2/untied",
     "{\"model_type\": \"gpt2\", \"tie_word_embeddings\": false, " GPT2_KEYS("12") "}",
     124439808 + 50257 * 768},
    {"opt-350m",
     "{\"model_type\": \"opt\", \"num_hidden_layers\": 24, \"hidden_size\": 1024, "
     "\"num_attention_heads\": 16, \"ffn_dim\": 4096, \"word_embed_proj_dim\": 512, "
     "\"do_layer_norm_before\": false, \"max_position_embeddings\": 2048, \"vocab_size\": 50272}",
     331196416},
    {"opt-125m",
     "{\"model_type\": \"opt\", \"num_hidden_layers\": 12, \"hidden_size\": 768, "
     "\"num_attention_heads\": 12, \"ffn_dim\": 3072, \"max_position_embeddings\": 2048, "
     "\"vocab_size\": 50272}",
     125239296},
    {"bloom-560m",
     "{\"model_type\": \"bloom\", \"n_layer\": 24, \"n_embed\": 1024, "
     "\"num_attention_heads\": 16, \"seq_length\": 2048, \"vocab_size\": 250880}",
     559214592},
    {"llama-2-7b", "{\"model_type\": \"llama\", " LLAMA_KEYS "}", 6738415616},
    {"llama/bias",
     "{\"model_type\": \"llama\", \"attention_bias\": true, \"mlp_bias\": true, " LLAMA_KEYS "}",
     6738415616 + 32 * (4 * 4096 + 2 * 11008 + 4096)},
    {"llama/infinite",
     "{\"model_type\": \"llama\", \"limit\": [0.0, Infinity, -Infinity], " LLAMA_KEYS "}",
     6738415616},
    {"llama/tied", "{\"model_type\": \"llama\", \"tie_word_embeddings\": true, " LLAMA_KEYS "}",
     6738415616 - 32000 * 4096},
    {"llama-3.2-1b",
     "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 2048, "
     "\"intermediate_size\": 8192, \"num_hidden_layers\": 16, \"num_attention_heads\": 32, "
     "\"num_key_value_heads\": 8, \"head_dim\": 64, \"max_position_embeddings\": 131072, "
     "\"vocab_size\": 128256, \"tie_word_embeddings\": true}",
     1235814400},
    {"mistral-7b",
     "{\"model_type\": \"mistral\", \"hidden_size\": 4096, \"intermediate_size\": 14336, "
     "\"num_hidden_layers\": 32, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, "
     "\"head_dim\": null, \"max_position_embeddings\": 32768, \"sliding_window\": 4096, "
     "\"vocab_size\": 32000}",
     7241732096},
    {"mixtral-8x7b",
     "{\"model_type\": \"mixtral\", \"hidden_size\": 4096, \"intermediate_size\": 14336, "
     "\"num_hidden_layers\": 32, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, "
     "\"num_local_experts\": 8, \"num_experts_per_tok\": 2, \"max_position_embeddings\": 32768, "
     "\"vocab_size\": 32000}",
     46702792704},
    {"qwen2.5-0.5b",
     "{\"model_type\": \"qwen2\", \"hidden_size\": 896, \"intermediate_size\": 4864, "
     "\"num_hidden_layers\": 24, \"num_attention_heads\": 14, \"num_key_value_heads\": 2, "
     "\"max_position_embeddings\": 32768, \"tie_word_embeddings\": true, \"vocab_size\": 151936}",
     494032768},
    {"qwen3-0.6b",
     "{\"model_type\": \"qwen3\", \"hidden_size\": 1024, \"intermediate_size\": 3072, "
     "\"num_hidden_layers\": 28, \"num_attention_heads\": 16, \"num_key_value_heads\": 8, "
     "\"max_position_embeddings\": 40960, \"tie_word_embeddings\": true, \"vocab_size\": 151936}",
     596049920},
    {"qwen3-30b-a3b",
     "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 2048, \"intermediate_size\": 6144, "
     "\"num_hidden_layers\": 48, \"num_attention_heads\": 32, \"num_key_value_heads\": 4, "
     "\"head_dim\": 128, \"num_experts\": 128, \"num_experts_per_tok\": 8, "
     "\"moe_intermediate_size\": 768, \"mlp_only_layers\": [], \"decoder_sparse_step\": 1, "
     "\"max_position_embeddings\": 40960, \"vocab_size\": 151936}",
     30532122624},
    {"gemma-2b",
     "{\"model_type\": \"gemma\", \"hidden_size\": 2048, \"intermediate_size\": 16384, "
     "\"num_hidden_layers\": 18, \"num_attention_heads\": 8, \"num_key_value_heads\": 1, "
     "\"max_position_embeddings\": 8192, \"vocab_size\": 256000}",
     2506172416},
    {"gemma-2-2b",
     "{\"model_type\": \"gemma2\", \"hidden_size\": 2304, \"intermediate_size\": 9216, "
     "\"num_hidden_layers\": 26, \"num_attention_heads\": 8, \"num_key_value_heads\": 4, "
     "\"head_dim\": 256, \"max_position_embeddings\": 8192, \"vocab_size\": 256000}",
     2614341888},
    {"gemma-3-1b",
     "{\"model_type\": \"gemma3_text\", \"hidden_size\": 1152, \"intermediate_size\": 6912, "
     "\"num_hidden_layers\": 26, \"num_attention_heads\": 4, \"num_key_value_heads\": 1, "
     "\"head_dim\": 256, \"max_position_embeddings\": 32768, \"vocab_size\": 262144}",
     999885952},
    {"gemma-3-4b",
     "{\"model_type\": \"gemma3\", \"text_config\": {\"hidden_size\": 2560, "
     "\"intermediate_size\": 10240, \"model_type\": \"gemma3_text\", "
     "\"num_hidden_layers\": 34}, \"vision_config\": {\"hidden_size\": 1152, "
     "\"image_size\": 896, \"intermediate_size\": 4304, \"num_attention_heads\": 16, "
     "\"num_hidden_layers\": 27, \"patch_size\": 14, \"vision_use_head\": false}}",
     3880099328 + 64 * 2560 + GEMMA_TOWER},
    {"phi-2",
     "{\"model_type\": \"phi\", \"hidden_size\": 2560, \"intermediate_size\": 10240, "
     "\"num_hidden_layers\": 32, \"num_attention_heads\": 32, \"num_key_value_heads\": null, "
     "\"max_position_embeddings\": 2048, \"vocab_size\": 51200}",
     2779683840},
    {"phi-4",
     "{\"model_type\": \"phi3\", \"hidden_size\": 5120, \"intermediate_size\": 17920, "
     "\"num_hidden_layers\": 40, \"num_attention_heads\": 40, \"num_key_value_heads\": 10, "
     "\"max_position_embeddings\": 16384, \"vocab_size\": 100352}",
     14659507200},
    {"deepseek-v3",
     "{\"model_type\": \"deepseek_v3\", \"hidden_size\": 7168, \"intermediate_size\": 18432, "
     "\"num_hidden_layers\": 61, \"num_attention_heads\": 128, \"num_key_value_heads\": 128, "
     "\"n_routed_experts\": 256, \"n_shared_experts\": 1, \"num_experts_per_tok\": 8, "
     "\"moe_intermediate_size\": 2048, \"first_k_dense_replace\": 3, \"q_lora_rank\": 1536, "
     "\"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, "
     "\"v_head_dim\": 128, \"max_position_embeddings\": 163840, \"vocab_size\": 129280}",
     671026404352},
};

static void
test_published(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(published); i++) {
        g_autoptr(GError) error = NULL;
        struct mw_model model;

        parse(published[i].text, &model, &error);
        g_assert_no_error(error);
        if (mw_model_params(&model) != published[i].params)
            g_error("%s: %" G_GINT64_FORMAT " parameters, expected %" G_GINT64_FORMAT,
                    published[i].name, mw_model_params(&model), published[i].params);
    }
}

static void
test_dropout(void)
{
    struct mw_model model;

    g_assert_true(parse("{\"model_type\": \"gpt2\", " GPT2_KEYS("12") "}", &model, NULL));
    g_assert_true(model.dropout);
    g_assert_true(parse(
        "{\"model_type\": \"gpt2\", \"resid_pdrop\": 0, \"attn_pdrop\": 0.0, " GPT2_KEYS("12") "}",
        &model, NULL));
    g_assert_false(model.dropout);
}

static const struct {
    const char *text, *message;
} refused[] = {
    {"{\"model_type\": \"gpt2\", " GPT2_KEYS("7") "}",
     "config.json: key \"n_head\": value 7: must divide n_embd (768)"},
    {"{\"model_type\": \"gpt2\", " GPT2_KEYS("0") "}",
     "config.json: key \"n_head\": value 0: must be a whole number from 1 to 65536"},
    {"{\"model_type\": \"gpt2\", " GPT2_KEYS("-12") "}", "key \"n_head\": value -12: must be"},
    {"{\"model_type\": \"gpt2\", " GPT2_KEYS("12.5") "}", "key \"n_head\": value 12.5: must be"},
    {"{\"model_type\": \"gpt2\", " GPT2_KEYS("\"12\"") "}",
     "key \"n_head\": value \"12\": must be"},
    {"{\"model_type\": \"gpt2\", " GPT2_KEYS("[12]") "}", "key \"n_head\": value [12]: must be"},
    {"{\"model_type\": \"gpt2\", " GPT2_KEYS("null") "}", "key \"n_head\": missing: must be"},
    {"{\"model_type\": \"gpt2\", " GPT2_KEYS("1e999") "}", "key \"n_head\": value above 1.8e308"},
    {"{\"model_type\": \"gpt2\", " GPT2_KEYS("18446744073709551628") "}", "must be a whole number"},
    {"{\"model_type\": \"gpt2\", " GPT2_KEYS("12"), "cut short"},
    {"{\"model_type\": \"gpt2\", \"n_inner\": 0, " GPT2_KEYS("12") "}", "key \"n_inner\": value 0"},
    {"{\"model_type\": \"gpt2\", \"add_cross_attention\": true, " GPT2_KEYS("12") "}",
     "key \"add_cross_attention\": value true: must be false"},
    {"{\"model_type\": \"gpt2\", \"resid_pdrop\": 1.5, " GPT2_KEYS("12") "}",
     "key \"resid_pdrop\": value 1.5: must be a number from 0 to 1"},
    {"{\"model_type\": \"gpt2\", \"tie_word_embeddings\": 1, " GPT2_KEYS("12") "}",
     "key \"tie_word_embeddings\": value 1: must be true or false"},
    {"{\"model_type\": \"gpt2\", \"activation_function\": \"gleu\", " GPT2_KEYS("12") "}",
     "key \"activation_function\": value \"gleu\": must be one of gelu, gelu_10"},
    {"{\"model_type\": \"llama\", \"hidden_act\": \"linear\", " LLAMA_KEYS "}",
     "key \"hidden_act\": value \"linear\": must be one of gelu"},
    {"{\"model_type\": \"gemma\", \"hidden_act\": \"gelu\", \"hidden_activation\": "
     "\"\", " LLAMA_KEYS "}",
     "key \"hidden_activation\": value \"\": must be one of"},
    {"{\"model_type\": \"llama\", \"hidden_act\": 3, " LLAMA_KEYS "}",
     "key \"hidden_act\": value 3: must be a string"},
    {"{\"model_type\": \"tea\"}",
     "key \"model_type\": value \"tea\": must be one of `memwall list types`"},
    {"{\"model_type\": 5}", "key \"model_type\": value 5: must be a string"},
    {"{\"architectures\": [\"TeaModel\"]}", "key \"architectures\": value \"TeaModel\": must be"},
    {"{\"architectures\": []}", "key \"model_type\": missing: must be one of `memwall list types`"},
    {"{\"architectures\": [5]}", "key \"model_type\": missing"},
    {"{}", "key \"model_type\": missing"},
    {"{\"model_type\": \"a\\nb\"}", "value \"a\\nb\": must be one of"},
    {"{\"model_type\": \"llama\", \"num_key_value_heads\": 5, " LLAMA_KEYS "}",
     "key \"num_key_value_heads\": value 5: must divide num_attention_heads (32)"},
    {"{\"model_type\": \"llama\", \"head_dim\": 0, " LLAMA_KEYS "}", "key \"head_dim\": value 0"},
    {"{\"model_type\": \"llama\", \"attention_bias\": \"yes\", " LLAMA_KEYS "}",
     "key \"attention_bias\": value \"yes\": must be true or false"},
    {"{\"model_type\": \"llama\"}", "key \"num_hidden_layers\": missing"},
    {"{\"model_type\": \"llama\", \"hidden_size\": 5, \"num_hidden_layers\": 100001}",
     "key \"num_hidden_layers\": value 100001: must be a whole number from 1 to 100000"},
    {"{\"model_type\": \"mixtral\", " LLAMA_KEYS "}", "key \"num_local_experts\": missing"},
    {"{\"model_type\": \"mixtral\", \"num_local_experts\": 2, \"num_experts_per_tok\": "
     "3, " LLAMA_KEYS "}",
     "key \"num_experts_per_tok\": value 3: must be at most num_local_experts (2)"},
    {"{\"model_type\": \"opt\", \"ffn_dim\": 4, \"layer_norm_elementwise_affine\": "
     "false, " LLAMA_KEYS "}",
     "key \"layer_norm_elementwise_affine\": value false: must be true"},
    {"{\"model_type\": \"gemma3\", \"text_config\": 3}", "key \"text_config\": must be an object"},
    {"{\"model_type\": \"llama\", \"hidden_size\": 2097152, \"intermediate_size\": 16777216, "
     "\"num_hidden_layers\": 100000, \"num_attention_heads\": 65536, "
     "\"max_position_embeddings\": 268435456, \"vocab_size\": 67108864}",
     "config.json: the dimensions make more than 10^17 parameters"},
};

static void
test_refused(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(refused); i++) {
        g_autoptr(GError) error = NULL;
        struct mw_model model = {.layers = 77};

        g_assert_false(parse(refused[i].text, &model, &error));
        g_assert_true(error->domain == MW_ERROR);
        g_assert_true(g_str_has_prefix(error->message, "config.json: "));
        g_assert_null(strchr(error->message, '\n'));
        if (!strstr(error->message, refused[i].message))
            g_error("%s: wanted \"%s\", got: %s", refused[i].text, refused[i].message,
                    error->message);
        g_assert_cmpint(model.layers, ==, 77);
    }
}

/* Every shorter text is refused, and leaves nothing behind. */
static void
test_truncated(void)
{
    const char *text = published[0].text;

    for (gssize length = 0; length < (gssize)strlen(text); length++) {
        g_autoptr(GError) error = NULL;
        struct mw_model model;
        g_autofree char *cut = g_strndup(text, (gsize)length);
        g_assert_false(mw_model_parse_config(cut, length, "config.json", &model, &error));
        g_assert_error(error, MW_ERROR, MW_ERROR_FORMAT);
    }
}

static void
test_gpt3(void)
{
    g_autofree char *folder = g_build_filename(MW_SOURCE_DIR, "models", "gpt3-175b", NULL);
    g_autofree char *file = g_build_filename(folder, "config.json", NULL);
    struct mw_model from_folder, from_file, preset;

    g_assert_true(mw_model_load(folder, &from_folder, NULL));
    g_assert_true(mw_model_load(file, &from_file, NULL));
    g_assert_true(mw_model_load("gpt3-175b", &preset, NULL));
    g_assert_cmpstr(from_folder.name, ==, "gpt3-175b");
    g_assert_cmpstr(from_file.name, ==, "gpt3-175b");
    g_assert_cmpint(from_folder.head_dim, ==, preset.head_dim);
    g_assert_cmpint(from_folder.seq, ==, preset.seq);
    g_assert_cmpint(mw_model_params(&from_folder), ==, mw_model_params(&preset));
    g_assert_cmpint(mw_model_params(&from_file), ==, mw_model_params(&preset));
}

static void
test_missing_file(void)
{
    g_autoptr(GError) error = NULL;
    struct mw_model model;

    g_assert_false(mw_model_load("/nowhere/config.json", &model, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_INVALID);
    g_assert_nonnull(strstr(error->message, "/nowhere/config.json: "));
}

/* The type of the weights in the file. */
static void
test_stored_type(void)
{
    static const struct {
        const char *keys, *name;
        enum mw_dtype dtype;
    } rows[] = {
        {"", "", MW_DTYPE_NONE},
        {"\"dtype\": null,", "", MW_DTYPE_NONE},
        {"\"torch_dtype\": \"auto\",", "", MW_DTYPE_NONE},
        {"\"torch_dtype\": \"torch.float16\",", "float16", MW_DTYPE_FP16},
        {"\"dtype\": \"bfloat16\",", "bfloat16", MW_DTYPE_BF16},
        {"\"dtype\": \"float8_e4m3fn\",", "float8_e4m3fn", MW_DTYPE_NONE},
        {"\"dtype\": \"float32\", \"torch_dtype\": \"float16\",", "float32", MW_DTYPE_FP32},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text =
            g_strdup_printf("{\"model_type\": \"llama\", %s " LLAMA_KEYS "}", rows[i].keys);
        g_autoptr(GError) error = NULL;
        struct mw_model model;
        parse(text, &model, &error);
        g_assert_no_error(error);
        g_assert_cmpstr(model.stored_as, ==, rows[i].name);
        g_assert_cmpint((int)model.stored_dtype, ==, (int)rows[i].dtype);
    }
}

/* Keys that nothing reads are named unless they cannot matter. */
static void
test_unread(void)
{
    static const struct {
        const char *keys, *named;
    } rows[] = {
        {"\"hidden_act\": \"silu\", \"use_cache\": true, \"eos_token_id\": 2,", NULL},
        {"\"attention_dropout\": 0.0, \"pruned_heads\": {},", NULL},
        {"\"attention_dropout\": 0.1,", "follow: attention_dropout"},
        {"\"position_embedding_type\": \"absolute\",", NULL},
        {"\"position_embedding_type\": \"relative_key\",", "follow: position_embedding_type"},
        {"\"new_gate\": true, \"use_cache\": true, \"rank\": [1],", "follow: new_gate, rank"},
        {"\"no_such\": null,", NULL},
        {"\"use_sliding_window\": true,", "follow: use_sliding_window"},
        {"\"a\\u0007\": 1,", "follow: a\\007"},
        {"\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"j\":1,\"k\":1,"
         "\"l\":1,\"m\":1,\"n\":1,",
         "k, l and 2 more"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text =
            g_strdup_printf("{\"model_type\": \"llama\", %s " LLAMA_KEYS "}", rows[i].keys);
        g_autoptr(GError) error = NULL;
        struct mw_model model;
        parse(text, &model, &error);
        g_assert_no_error(error);
        if (rows[i].named)
            g_assert_nonnull(strstr(model.note, rows[i].named));
        else
            g_assert_cmpstr(model.note, ==, "");
    }
}

/* Qwen's windows, in the layers behind the first so many. */
static void
test_windows_used(void)
{
    static const struct {
        const char *keys;
        int64_t window;
        bool mixed;
    } rows[] = {
        {"", 0, false},
        {"\"sliding_window\": 1024, \"use_sliding_window\": false,", 0, false},
        {"\"sliding_window\": 1024, \"use_sliding_window\": true, \"max_window_layers\": 0,", 1024,
         false},
        {"\"use_sliding_window\": true, \"max_window_layers\": 0,", 4096, false},
        {"\"sliding_window\": null, \"use_sliding_window\": true, \"max_window_layers\": 0,", 0,
         false},
        {"\"sliding_window\": 1024, \"use_sliding_window\": true, \"max_window_layers\": 32,", 0,
         false},
        {"\"sliding_window\": 1024, \"use_sliding_window\": true, \"max_window_layers\": 20,", 1024,
         true},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text =
            g_strdup_printf("{\"model_type\": \"qwen2\", %s " LLAMA_KEYS "}", rows[i].keys);
        g_autoptr(GError) error = NULL;
        struct mw_model model;
        parse(text, &model, &error);
        g_assert_no_error(error);
        g_assert_cmpint(model.window, ==, rows[i].window);
        g_assert_true(model.mixed == rows[i].mixed);
        g_assert_null(strstr(model.note, "not follow"));
        if (model.mixed)
            g_assert_cmpint(model.mixed_layers[MW_BLOCK_DENSE_WINDOWED], ==, 12);
    }
}

static void
test_quantization(void)
{
    static const struct {
        const char *keys, *by;
        int64_t bits;
    } rows[] = {
        {"{\"quant_method\": \"gptq\", \"bits\": 4}", "gptq", 4},
        {"{\"quant_method\": \"bitsandbytes\", \"load_in_8bit\": true, \"load_in_4bit\": false}",
         "bitsandbytes", 8},
        {"{\"quant_method\": \"fp8\", \"weight_block_size\": [128, 128]}", "fp8", 8},
        {"{\"quant_method\": null, \"bits\": null, \"w_bit\": 3}", "", 3},
        {"{}", "", 0},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text = g_strdup_printf(
            "{\"model_type\": \"llama\", \"quantization_config\": %s, " LLAMA_KEYS "}",
            rows[i].keys);
        g_autoptr(GError) error = NULL;
        struct mw_model model;
        parse(text, &model, &error);
        g_assert_no_error(error);
        g_assert_true(model.quantized);
        g_assert_cmpint(model.quantized_bits, ==, rows[i].bits);
        g_assert_cmpstr(model.quantized_by, ==, rows[i].by);
        g_assert_cmpstr(model.note, ==, "");
    }
}

/* Weights that are said to be quantized in a way that nobody can read are no weights of 16 bits. */
static void
test_quantization_refused(void)
{
    static const struct {
        const char *value, *message;
    } rows[] = {
        {"\"gptq\"",
         "config.json: key \"quantization_config\": value \"gptq\": must be an object "
         "with the method and its bits, such as {\"quant_method\": \"gptq\", \"bits\": 4}"},
        {"4", "value 4: must be an object"},
        {"true", "value true: must be an object"},
        {"[{\"bits\": 4}]", "value [{\"bits\":4}]: must be an object"},
        {"{\"quant_method\": 5}", "config.json: \"quantization_config\": key \"quant_method\": "
                                  "value 5: must be a string"},
        {"{\"quant_method\": {}}", "\"quant_method\": value {}: must be a string"},
        {"{\"bits\": -3}", "\"bits\": value -3: must be a number from 1 to 64"},
        {"{\"bits\": \"4\"}", "\"bits\": value \"4\": must be a number"},
        {"{\"bits\": 4, \"w_bit\": [4]}", "\"w_bit\": value [4]: must be a number"},
        {"{\"bits\": 4, \"load_in_4bit\": 1}", "\"load_in_4bit\": value 1: must be true or false"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text = g_strdup_printf(
            "{\"model_type\": \"llama\", \"quantization_config\": %s, " LLAMA_KEYS "}",
            rows[i].value);
        g_autoptr(GError) error = NULL;
        struct mw_model model;
        g_assert_false(parse(text, &model, &error));
        g_assert_error(error, MW_ERROR, MW_ERROR_INVALID);
        g_assert_nonnull(strstr(error->message, rows[i].message));
        g_assert_null(strchr(error->message, '\n'));
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/model/config/published", test_published);
    g_test_add_func("/model/config/dropout", test_dropout);
    g_test_add_func("/model/config/refused", test_refused);
    g_test_add_func("/model/config/truncated", test_truncated);
    g_test_add_func("/model/config/gpt3", test_gpt3);
    g_test_add_func("/model/config/missing-file", test_missing_file);
    g_test_add_func("/model/config/stored-type", test_stored_type);
    g_test_add_func("/model/config/unread", test_unread);
    g_test_add_func("/model/config/windows-used", test_windows_used);
    g_test_add_func("/model/config/quantization", test_quantization);
    g_test_add_func("/model/config/quantization/refused", test_quantization_refused);
    return g_test_run();
}
