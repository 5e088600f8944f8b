/* Parameter counts and validity of models. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "config.h"
#include "model/model.h"

static struct mw_model
load(const char *name)
{
    struct mw_model model;
    g_autoptr(GError) error = NULL;

    mw_model_load(name, &model, &error);
    g_assert_no_error(error);
    return model;
}

/* Counts of the published weights; each is also 1:1 the sum of the shapes in their files. */
static void
test_exact(void)
{
    static const struct {
        const char *name;
        int64_t params;
    } rows[] = {
        {"gpt2", 124439808},
        {"gpt2-medium", 354823168},
        {"gpt2-large", 774030080},
        {"gpt2-xl", 1557611200},
        {"opt-125m", 125239296},
        {"opt-350m", 331196416},
        {"opt-1.3b", 1315758080},
        {"opt-6.7b", 6658473984},
        {"bloom-176b", 176247271424},
        {"llama-2-7b", 6738415616},
        {"llama-2-13b", 13015864320},
        {"llama-2-70b", 68976648192},
        {"llama-3.1-8b", 8030261248},
        {"llama-3.1-70b", 70553706496},
        {"llama-3.1-405b", 405853388800},
        {"llama-3.2-1b", 1235814400},
        {"llama-3.2-3b", 3212749824},
        {"mistral-7b-v0.1", 7241732096},
        {"mixtral-8x7b", 46702792704},
        {"gemma-2b", 2506172416},
        {"gemma-7b", 8537680896},
        {"gemma-2-2b", 2614341888},
        {"gemma-2-9b", 9241705984},
        {"gemma-2-27b", 27227128320},
        {"gemma-3-1b", 999885952},
        {"qwen2.5-0.5b", 494032768},
        {"qwen2.5-1.5b", 1543714304},
        {"qwen2.5-7b", 7615616512},
        {"qwen3-0.6b", 596049920},
        {"qwen3-8b", 8190735360},
        {"phi-2", 2779683840},
        {"phi-4", 14659507200},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        struct mw_model model = load(rows[i].name);
        g_assert_cmpint(mw_model_params(&model), ==, rows[i].params);
    }
}

static char *
read_table(void)
{
    g_autofree char *path =
        g_build_filename(MW_SOURCE_DIR, "tests", "data", "model_params.csv", NULL);
    char *text = NULL;

    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    return text;
}

static void
check_row(const char *line)
{
    g_auto(GStrv) cells = g_strsplit(line, ";", 5);

    g_assert_cmpuint(g_strv_length(cells), ==, 5);
    struct mw_model model = load(cells[0]);
    double expected = g_ascii_strtod(*cells[3] ? cells[2] : cells[1], NULL) * 1e9;
    double counted = (double)mw_model_params(&model);
    if (fabs(counted / expected - 1) > 0.01)
        g_error("%s: counted %.4g, expected %.4g", cells[0], counted, expected);
}

static void
test_table(void)
{
    g_autofree char *text = read_table();
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    int rows = 0;

    for (char **line = lines; *line; line++) {
        if (**line == '\0' || **line == '#' || g_str_has_prefix(*line, "preset;"))
            continue;
        check_row(*line);
        rows++;
    }
    g_assert_cmpint(rows, ==, 69);
}

/* ZeRO-Infinity Table 1: 12 nl hd² is the printed size within rounding. */
static void
test_paper_counts(void)
{
    static const struct {
        const char *name;
        double params;
    } rows[] = {
        {"zi-10b", 1e10},
        {"zi-50b", 5e10},
        {"zi-100b", 1e11},
        {"zi-0.5t", 5e11},
        {"zi-1t", 1e12},
        {"zi-5t", 5e12},
        {"zi-10t", 1e13},
        {"zi-20t", 2e13},
        {"zi-fig2a-0.1t", 0.1e12},
        {"zi-fig2a-0.5t", 0.5e12},
        {"zi-fig2a-1t", 1.01e12},
        {"zi-fig2a-10t", 10.05e12},
        {"zi-fig2a-100t", 101.47e12},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        struct mw_model model = load(rows[i].name);
        g_assert_true(model.paper_preset);
        g_assert_cmpint(model.vocab, ==, 0);
        double paper = (double)mw_model_params_paper(&model);
        g_assert_cmpfloat(fabs(paper / rows[i].params - 1), <, 0.04);
        /* biases and norms: 13 h a layer beside 12 h² */
        g_assert_cmpint(mw_model_params(&model) - mw_model_params_paper(&model), ==,
                        13 * model.layers * model.hidden);
    }
}

static void
test_active(void)
{
    struct mw_model deepseek = load("deepseek-v3"), dense = load("llama-2-7b");
    struct mw_model mixtral = load("mixtral-8x7b");

    g_assert_cmpfloat(fabs((double)mw_model_active_params(&deepseek) / 37.55e9 - 1), <, 0.01);
    g_assert_cmpint(mw_model_active_params(&dense), ==, mw_model_params(&dense));
    g_assert_cmpint(mw_model_params(&mixtral) - mw_model_active_params(&mixtral), ==,
                    INT64_C(32) * 6 * 3 * 4096 * 14336);
}

static void
expect_invalid(struct mw_model model, const char *why)
{
    g_autoptr(GError) error = NULL;

    g_assert_false(mw_model_validate(&model, "here", &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_INVALID);
    g_assert_true(g_str_has_prefix(error->message, "here: "));
    if (!strstr(error->message, why))
        g_error("wanted \"%s\", got: %s", why, error->message);
}

static void
test_validate(void)
{
    struct mw_model good = load("llama-3-8b"), m;

    g_assert_true(mw_model_validate(&good, "here", NULL));
    m = good, m.layers = 0, expect_invalid(m, "\"layers\": value 0: must be a whole number");
    m = good, m.hidden = -5, expect_invalid(m, "\"hidden\": value -5");
    m = good, m.hidden = INT64_MAX, expect_invalid(m, "\"hidden\"");
    m = good, m.heads = 0, expect_invalid(m, "\"heads\"");
    m = good, m.kv_heads = 7, expect_invalid(m, "\"kv_heads\": value 7: must divide heads (32)");
    m = good, m.kv_heads = 64, expect_invalid(m, "\"kv_heads\"");
    m = good, m.vocab = -1, expect_invalid(m, "\"vocab\"");
    m = good, m.seq = INT64_MAX, expect_invalid(m, "\"seq\"");
    m = good, m.mlp_matrices = 4, expect_invalid(m, "mlp_matrices");
    m = good, m.norms_per_layer = 3, expect_invalid(m, "norms_per_layer");
    m = good, m.position_rows = -1, expect_invalid(m, "position_rows");
    m = good, m.expert_ffn = 5, expect_invalid(m, "must be absent without experts");
    m = good, m.q_lora = 5, expect_invalid(m, "must be absent without kv_lora");
    m = good, m.experts = 4, expect_invalid(m, "\"experts_per_token\": missing");
    m.experts_per_token = 5, m.expert_ffn = 1, expect_invalid(m, "must be at most experts (4)");
    m.experts_per_token = 2, m.dense_layers = 33, expect_invalid(m, "must be at most layers (32)");
}

/* Every dimension at its maximum overflows int64 many times over. */
static void
test_overflow(void)
{
    struct mw_model m = load("deepseek-v3");

    m.layers = m.dense_layers = 100000;
    m.dense_layers = 0;
    m.hidden = m.embedding_dim = 1 << 21;
    m.ffn = m.expert_ffn = m.shared_expert_ffn = 1 << 24;
    m.experts = 1 << 16;
    g_assert_cmpint(mw_model_params(&m), ==, INT64_MAX);
    expect_invalid(m, "more than 10^17 parameters");

    m = load("gpt2");
    m.layers = 100000;
    m.hidden = m.embedding_dim = 1 << 19;
    expect_invalid(m, "more than 10^17 parameters");
    m.hidden = m.embedding_dim = 1 << 17;
    g_assert_true(mw_model_validate(&m, "here", NULL));
}

static void
expect_bad_shape(const struct mw_model *model, struct mw_shape shape, const char *why)
{
    g_autoptr(GError) error = NULL;

    g_assert_false(mw_model_validate_shape(model, &shape, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_INVALID);
    if (!strstr(error->message, why))
        g_error("wanted \"%s\", got: %s", why, error->message);
}

static void
test_shapes(void)
{
    struct mw_model gpt2 = load("gpt2"), llama = load("llama-3-70b"), huge = load("zi-fig2a-100t");
    struct mw_shape shape = {.sequences = 1, .seq = 1024, .tp = 16};

    g_assert_true(mw_model_validate_shape(&llama, &shape, NULL)); /* 8 key heads over 16 ranks */
    shape = (struct mw_shape){.sequences = 4, .seq = 1024, .tp = 1, .flash_attention = true};
    g_assert_true(mw_model_validate_shape(&huge, &shape, NULL)); /* Fig. 2a, 4 sequences */
    expect_bad_shape(
        &gpt2, (struct mw_shape){.sequences = 0, .seq = 1024, .tp = 1, .flash_attention = true},
        "batch: value 0");
    expect_bad_shape(&gpt2,
                     (struct mw_shape){.sequences = 1, .seq = 0, .tp = 1, .flash_attention = true},
                     "seq: value 0");
    expect_bad_shape(
        &gpt2, (struct mw_shape){.sequences = 1, .seq = 1025, .tp = 1, .flash_attention = true},
        "seq: value 1025: must be at most");
    expect_bad_shape(
        &gpt2, (struct mw_shape){.sequences = 1, .seq = 1024, .tp = 0, .flash_attention = true},
        "tp: value 0");
    expect_bad_shape(
        &gpt2, (struct mw_shape){.sequences = 1, .seq = 1024, .tp = 5, .flash_attention = true},
        "must divide the heads (12)");
    expect_bad_shape(
        &llama, (struct mw_shape){.sequences = 1, .seq = 1024, .tp = 3, .flash_attention = true},
        "must divide the heads (64)");
    expect_bad_shape(
        &gpt2,
        (struct mw_shape){.sequences = 1 << 30, .seq = 1024, .tp = 1, .flash_attention = true},
        "do not fit 64 bits");
    expect_bad_shape(
        &huge,
        (struct mw_shape){.sequences = 1 << 16, .seq = 1024, .tp = 1, .flash_attention = true},
        "do not fit 64 bits");
    expect_bad_shape(
        &huge,
        (struct mw_shape){
            .sequences = INT64_MAX, .seq = INT64_MAX, .tp = 1, .flash_attention = true},
        "64 bits");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/model/params/exact", test_exact);
    g_test_add_func("/model/params/table", test_table);
    g_test_add_func("/model/params/paper", test_paper_counts);
    g_test_add_func("/model/params/active", test_active);
    g_test_add_func("/model/validate", test_validate);
    g_test_add_func("/model/overflow", test_overflow);
    g_test_add_func("/model/shapes", test_shapes);
    return g_test_run();
}
