/* From presets and config.json to the model that the executor runs. */
#include "model/model.h"

#include "cli/run/checkpoint_config.h"

#include <glib/gstdio.h>
#include <string.h>

#include "base/error.h"
#include "tests/says.h"
#include "tests/weights_fixture.h"

static void
test_fixtures(void)
{
    struct mw_decoder gpt2 = mw_test_decoder(FIXTURES "gpt2-small");
    struct mw_decoder llama = mw_test_decoder(FIXTURES "llama-small/config.json");

    g_assert_cmpint(gpt2.kind, ==, MW_DECODER_GPT2);
    g_assert_cmpint(gpt2.activation, ==, MW_ACTIVATION_GELU_TANH);
    g_assert_cmpint(gpt2.position_rows, ==, 24);
    g_assert_true(gpt2.tied_embedding && gpt2.attention_bias && gpt2.mlp_bias);
    g_assert_cmpfloat(gpt2.norm_epsilon, ==, 1e-5);
    g_assert_cmpint(llama.kind, ==, MW_DECODER_LLAMA);
    g_assert_cmpint(llama.activation, ==, MW_ACTIVATION_SILU);
    g_assert_cmpint(llama.kv_heads, ==, 2);
    g_assert_cmpint(llama.position_rows, ==, 0);
    g_assert_false(llama.tied_embedding || llama.attention_bias || llama.mlp_bias);
    g_assert_cmpfloat(llama.norm_epsilon, ==, 1e-5);
    g_assert_cmpfloat(llama.rope_theta, ==, 10000);
    g_assert_cmpfloat(llama.rope_scaling.factor, ==, 1);
}

static void
test_presets_refused(void)
{
    static const char *const rows[][2] = {
        {"opt-1.3b", "row 2 of their table"},
        {"deepseek-v3", "a mixture of experts"},
        {"gemma-3-4b", "four norms in a layer"},
        {"zi-6b-50b", "without a vocabulary"},

    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        GError *error = NULL;
        struct mw_model model;
        struct mw_decoder decoder;
        g_assert_true(mw_model_load(rows[i][0], &model, &error));
        g_assert_no_error(error);
        g_assert_false(mw_model_decoder(&model, &decoder, &error));
        mw_test_error_says(error, rows[i][0], rows[i][1]);
    }
}

#define LLAMA                                                                                      \
    "{\"model_type\": \"llama\", \"hidden_size\": 32, \"intermediate_size\": 64, "                 \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"vocab_size\": 256, "                  \
    "\"max_position_embeddings\": 64, "
#define GPT_2                                                                                      \
    "{\"model_type\": \"gpt2\", \"n_embd\": 32, \"n_layer\": 2, \"n_head\": 4, "                   \
    "\"vocab_size\": 256, \"n_positions\": 64, "

static bool
read_text(const char *text, struct mw_decoder *decoder, GError **error)
{
    g_autofree char *folder = g_dir_make_tmp("memwall-decoder-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "config.json", NULL);
    struct mw_model model;

    g_assert_true(g_file_set_contents(path, text, -1, NULL));
    bool good = mw_model_load(path, &model, error) && mw_model_decoder(&model, decoder, error);
    g_unlink(path);
    g_rmdir(folder);
    return good;
}

static void
test_rotary(void)
{
    static const char *const texts[] = {
        LLAMA
        "\"rms_norm_eps\": 1e-6, \"rope_theta\": 500000.0, \"rope_scaling\": {\"factor\": 8.0, "
        "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
        "\"original_max_position_embeddings\": 4096, \"rope_type\": \"llama3\"}}",
        LLAMA "\"rms_norm_eps\": 1e-6, \"rope_parameters\": {\"rope_theta\": 500000.0, "
              "\"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
              "\"original_max_position_embeddings\": 4096, \"rope_type\": \"llama3\"}}",
    };

    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
        GError *error = NULL;
        struct mw_decoder decoder;
        g_assert_true(read_text(texts[i], &decoder, &error));
        g_assert_cmpfloat(decoder.norm_epsilon, ==, 1e-6);
        g_assert_cmpfloat(decoder.rope_theta, ==, 500000);
        g_assert_cmpfloat(decoder.rope_scaling.factor, ==, 8);
        g_assert_cmpfloat(decoder.rope_scaling.low_frequency_factor, ==, 1);
        g_assert_cmpfloat(decoder.rope_scaling.high_frequency_factor, ==, 4);
        g_assert_cmpint(decoder.rope_scaling.original_positions, ==, 4096);
    }
}

static void
test_config_refused(void)
{
    static const char *const rows[][3] = {
        {LLAMA "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0}}", "\"rope_type\"",
         "value yarn: must be default or llama3"},
        {LLAMA "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0.5}}", "\"rope_type\"",
         "value linear"},
        {LLAMA "\"rms_norm_eps\": \"small\"}", "\"rms_norm_eps\"", "a number"},
        {LLAMA "\"rope_theta\": 0}", "\"rope_theta\"", "from 1"},
        {GPT_2 "\"scale_attn_weights\": false}", "\"scale_attn_weights\"", "must be true"},
        {GPT_2 "\"scale_attn_by_inverse_layer_idx\": true}", "\"scale_attn_by_inverse_layer_idx\"",
         "must be false"},
        {GPT_2 "\"layer_norm_epsilon\": 2}", "\"layer_norm_epsilon\"", "from 0 to 1"},
        {GPT_2 "\"activation_function\": \"tanh\"}", "\"activation_function\"", "must be"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        GError *error = NULL;
        struct mw_decoder decoder;
        g_assert_false(read_text(rows[i][0], &decoder, &error));
        mw_test_error_says(error, rows[i][1], rows[i][2]);
    }
}

/* They count where the file asks for them; 0.001 is transformers' own. */
static void
test_router_losses(void)
{
    static const struct {
        const char *keys;
        double aux, z;
    } rows[] = {
        {"\"router_aux_loss_coef\": 0.02, \"router_z_loss_coef\": 0.01", 0, 0},
        {"\"output_router_logits\": false, \"router_aux_loss_coef\": 0.02", 0, 0},
        {"\"output_router_logits\": true", 0.001, 0},
        {"\"output_router_logits\": true, \"router_aux_loss_coef\": 0, "
         "\"router_z_loss_coef\": 0.01",
         0, 0.01},
        {"\"router_aux_loss_coef\": 0.02, \"output_router_logits\": true", 0.02, 0},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text = g_strdup_printf(
            "{\"model_type\": \"mixtral\", \"max_position_embeddings\": 64, \"hidden_size\": 64, "
            "\"intermediate_size\": 96, "
            "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
            "\"vocab_size\": 256, \"num_local_experts\": 4, \"num_experts_per_tok\": 2, %s}",
            rows[i].keys);
        struct mw_decoder decoder;
        GError *error = NULL;
        g_assert_true(read_text(text, &decoder, &error));
        g_assert_cmpfloat(decoder.router_aux_loss, ==, rows[i].aux);
        g_assert_cmpfloat(decoder.router_z_loss, ==, rows[i].z);
    }
}

static void
test_activations(void)
{
    GError *error = NULL;
    struct mw_decoder decoder;

    g_assert_true(read_text(GPT_2 "\"activation_function\": \"relu\"}", &decoder, &error));
    g_assert_cmpint(decoder.activation, ==, MW_ACTIVATION_RELU);
    g_assert_true(read_text(GPT_2 "\"activation_function\": \"gelu\"}", &decoder, &error));
    g_assert_cmpint(decoder.activation, ==, MW_ACTIVATION_GELU_ERF);
}

/* What is written of a preset is read as the same model: a run's records are held to it. */
static void
test_written_configs(void)
{
    g_auto(GStrv) names = mw_model_list();
    int written = 0;

    for (char **name = names; *name; name++) {
        struct mw_model model;
        struct mw_decoder decoder, again;
        g_autoptr(GError) error = NULL;
        g_assert_true(mw_model_load(*name, &model, NULL));
        if (!mw_model_decoder(&model, &decoder, NULL))
            continue;
        decoder.router_aux_loss = decoder.experts ? 0.25 : 0;
        decoder.router_z_loss = decoder.experts && written % 2 ? 0.125 : 0;
        g_autofree char *text = cli_checkpoint_config(*name, &decoder);
        g_assert_true(mw_model_parse_config(text, -1, *name, &model, &error) &&
                      mw_model_decoder(&model, &again, &error));
        if (decoder.family != again.family || decoder.kind != again.kind ||
            decoder.activation != again.activation ||
            memcmp(&decoder.layers, &again.layers, 9 * sizeof(int64_t)) ||
            decoder.tied_embedding != again.tied_embedding ||
            decoder.attention_bias != again.attention_bias ||
            decoder.projection_bias != again.projection_bias ||
            decoder.mlp_bias != again.mlp_bias || decoder.norm_epsilon != again.norm_epsilon ||
            decoder.rope_theta != again.rope_theta ||
            decoder.router_aux_loss != again.router_aux_loss ||
            decoder.router_z_loss != again.router_z_loss ||
            decoder.rope_scaling.factor != again.rope_scaling.factor)
            g_error("%s is written as another model:\n%s", *name, text);
        written++;
    }
    g_assert_cmpint(written, >, 3);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/decoder/fixtures", test_fixtures);
    g_test_add_func("/decoder/presets-refused", test_presets_refused);
    g_test_add_func("/decoder/rotary", test_rotary);
    g_test_add_func("/decoder/activations", test_activations);
    g_test_add_func("/decoder/router-losses", test_router_losses);
    g_test_add_func("/decoder/config-refused", test_config_refused);
    g_test_add_func("/decoder/written-configs", test_written_configs);
    return g_test_run();
}
