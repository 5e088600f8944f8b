/* memwall's own descriptions of models, as python/memwall/describe.py writes them: the files of
 * tests/fixtures/described, which tests/peer_describe.py made of transformers' classes. */
#include <string.h>

#include "base/json.h"
#include "config.h"
#include "model/model.h"

#define LEAST_FIXTURES 15

struct totals {
    int64_t seq, params, flops, flops_twice;
};

static char *
path_of(const char *name)
{
    return g_build_filename(MW_SOURCE_DIR, "tests", "fixtures", "described", name, NULL);
}

static GPtrArray *
names_of_fixtures(void)
{
    g_autofree char *path = path_of("");
    g_autoptr(GDir) folder = g_dir_open(path, 0, NULL);
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    const char *name;

    g_assert_nonnull(folder);
    while ((name = g_dir_read_name(folder)))
        g_ptr_array_add(names, g_strdup(name));
    g_assert_cmpint(names->len, >=, LEAST_FIXTURES);
    return names;
}

static char *
text_of(const char *name)
{
    g_autofree char *path = path_of(name);
    char *text = NULL;

    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    return text;
}

static struct totals
totals_of(const char *name)
{
    g_autofree char *text = text_of(name);
    g_autoptr(JsonNode) root = mw_json_parse(text, -1, name, NULL);
    JsonObject *object = json_node_get_object(root);
    JsonObject *totals = json_object_get_object_member(object, "totals");

    return (struct totals){json_object_get_int_member(object, "seq"),
                           json_object_get_int_member(totals, "parameters"),
                           json_object_get_int_member(totals, "forward_flops"),
                           json_object_get_int_member(totals, "forward_flops_twice")};
}

static struct mw_model
read_fixture(const char *name)
{
    g_autofree char *text = text_of(name);
    g_autoptr(GError) error = NULL;
    struct mw_model model = {0};

    mw_model_parse_config(text, -1, name, &model, &error);
    g_assert_no_error(error);
    return model;
}

/* As torch counts them: sum(p.numel() for p in model.parameters()). */
static void
test_params(void)
{
    g_autoptr(GPtrArray) names = names_of_fixtures();

    for (guint i = 0; i < names->len; i++) {
        const char *name = g_ptr_array_index(names, i);
        struct mw_model model = read_fixture(name);
        g_test_message("%s", name);
        g_assert_cmpint(mw_model_params(&model), ==, totals_of(name).params);
        g_assert_cmpint(mw_model_active_params(&model), >, 0);
        g_assert_cmpint(mw_model_active_params(&model), <=, mw_model_params(&model));
        g_assert_false(model.runs);
    }
}

static int64_t
sum_flops(const struct mw_operators *operators)
{
    int64_t flops = 0;

    for (int i = 0; i < operators->count; i++)
        flops += operators->info[i].forward_flops;
    return flops;
}

static void
check_flops(const char *name, const struct mw_model *model, int64_t seq, int64_t expected)
{
    const struct mw_shape shape = {.sequences = 1, .seq = seq, .tp = 1};
    struct mw_model_walk walk;

    mw_model_walk(model, &shape, &walk);
    int64_t flops = sum_flops(&walk.head) + sum_flops(&walk.tail) +
                    sum_flops(&walk.blocks[MW_BLOCK_DENSE]) * model->layers;
    g_test_message("%s: %" G_GINT64_FORMAT " tokens", name, seq);
    g_assert_cmpint(flops, >=, expected);
    g_assert_cmpint(flops - expected, <=, model->layers * MW_LAYER_OPERATORS_MAX);
}

/* As PyTorch's counter finds them, at both lengths at which the model ran.  A mean is rounded up.
 * A model of one length is the same at both. */
static void
test_flops(void)
{
    g_autoptr(GPtrArray) names = names_of_fixtures();

    for (guint i = 0; i < names->len; i++) {
        const char *name = g_ptr_array_index(names, i);
        struct mw_model model = read_fixture(name);
        struct totals totals = totals_of(name);
        check_flops(name, &model, totals.seq, totals.flops);
        check_flops(name, &model, 2 * totals.seq, totals.flops_twice);
    }
}

static const struct mw_operator_info *
find(const struct mw_operators *operators, int operator_)
{
    for (int i = 0; i < operators->count; i++)
        if ((int)operators->info[i].operator_ == operator_)
            return &operators->info[i];
    return NULL;
}

/* A description of a dense decoder says what memwall reads from the configuration of it. */
static void
test_as_config(void)
{
    static const char config[] =
        "{\"model_type\": \"llama\", \"vocab_size\": 1009, \"hidden_size\": 96, "
        "\"num_hidden_layers\": 5, \"num_attention_heads\": 6, \"num_key_value_heads\": 2, "
        "\"intermediate_size\": 200, \"max_position_embeddings\": 512, "
        "\"tie_word_embeddings\": true}";
    const struct mw_shape shape = {.sequences = 3, .seq = 512, .tp = 1, .flash_attention = true};
    struct mw_model own, described = read_fixture("llama-grouped.json");
    struct mw_model_walk ours, theirs;

    g_assert_true(mw_model_parse_config(config, -1, "config.json", &own, NULL));
    g_assert_true(mw_model_walk_checked(&own, &shape, &ours, NULL));
    g_assert_true(mw_model_walk_checked(&described, &shape, &theirs, NULL));
    g_assert_cmpint(described.layers, ==, own.layers);
    g_assert_cmpint(described.hidden, ==, own.hidden);
    g_assert_cmpint(described.kv_heads, ==, own.kv_heads);
    g_assert_cmpint(described.vocab, ==, own.vocab);
    g_assert_cmpint(described.seq, ==, own.seq);
    g_assert_true(described.tied_embedding);
    for (int o = 0; o < MW_OPERATOR_COUNT; o++) {
        const struct mw_operator_info *one = find(&ours.blocks[MW_BLOCK_DENSE], o);
        const struct mw_operator_info *other = find(&theirs.blocks[MW_BLOCK_DENSE], o);
        g_assert_true(!one == !other);
        if (!one)
            continue;
        g_assert_cmpint(other->params, ==, one->params);
        g_assert_cmpint(other->forward_flops, ==, one->forward_flops);
        g_assert_cmpint(other->backward_flops, ==, one->backward_flops);
        g_assert_cmpint(other->saved_bytes, ==, one->saved_bytes);
        g_assert_cmpint(other->output_bytes, ==, one->output_bytes);
    }
}

/* Layers that come again with the same parameters count them once. */
static void
test_shared(void)
{
    struct mw_model albert = read_fixture("albert-shared.json");
    int64_t visits = 0, distinct = 0;

    for (int i = 0; i < albert.stack_count; i++) {
        visits += albert.stacks[i].layers;
        distinct += albert.stacks[i].distinct;
    }
    g_assert_cmpint(albert.layers, ==, 5);
    g_assert_cmpint(visits, ==, 5);
    g_assert_cmpint(distinct, ==, 1);
}

static void
test_experts(void)
{
    struct mw_model mixtral = read_fixture("mixtral-experts.json");
    int64_t expert = 3 * 96 * 200, idle = mw_model_params(&mixtral);

    idle -= mw_model_active_params(&mixtral);
    g_assert_cmpint(idle, ==, mixtral.layers * 3 * expert); /* 2 of 5 are met */
}

/* Each fault has one line that says where it is and what would be accepted. */
static void
test_faults(void)
{
    static const struct {
        const char *old, *new, *says;
    } rows[] = {
        {"memwall-description", "memwall-other",
         "f.json: key \"schema\": value \"memwall-other\": must be memwall-description"},
        {"\"version\": 1", "\"version\": 2",
         "f.json: key \"version\": value 2: must be 1 for this memwall"},
        {"\"parameters\": 508800", "\"parameters\": 508801",
         "f.json: key \"parameters\" of totals: value 508801: must be the sum over the operators, "
         "508800"},
        {"\"kind\": \"embedding\"", "\"kind\": \"magic\"",
         "f.json: head[0]: key \"kind\": \"magic\": must be one of product, attention, scan, norm, "
         "activation, embedding, parameters"},
        {"\"rows\": [1, 1, 0]", "\"rows\": [1, 0, 0]",
         "f.json: blocks[0]: operators[0]: key \"rows\": [1,0,0]: must be [a, b, c], whole numbers "
         "of which a is from 0 and b from 1, for (a s + c) / b of a sequence of s tokens"},
        {"\"kv_heads\": 2", "\"kv_heads\": 4",
         "f.json: blocks[0]: operators[4]: key \"kv_heads\": value 4: must divide heads (6)"},
        {"\"place\": \"layer\"", "\"place\": \"roof\"",
         "f.json: blocks[0]: key \"place\": value \"roof\": must be layer or between"},
        {"\"distinct\": 5", "\"distinct\": 6",
         "f.json: blocks[0]: key \"distinct\": value 6: must be at most its times in the pattern "
         "(5)"},
        {"\"pattern\": [[0, 5]]", "\"pattern\": [[1, 5]]",
         "f.json: pattern[0]: value [1,5]: must be [block, times], a number of blocks below 1 and "
         "whole times from 1 to 100000"},
        {"\"pattern\": [[0, 5]]", "\"patterns\": [[0, 5]]",
         "f.json: key \"pattern\": missing: must be a list"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text = text_of("llama-grouped.json");
        g_autoptr(GError) error = NULL;
        struct mw_model model;
        /* The last one, as layers are read first and stand last. */
        const char *at = !strcmp(rows[i].old, "\"rows\": [1, 1, 0]")
                             ? strstr(strstr(text, "\"blocks\""), rows[i].old)
                             : strstr(text, rows[i].old);
        g_assert_nonnull(at);
        g_autofree char *before = g_strndup(text, (gsize)(at - text));
        g_autofree char *changed = g_strconcat(before, rows[i].new, at + strlen(rows[i].old), NULL);
        g_assert_false(mw_model_parse_config(changed, -1, "f.json", &model, &error));
        g_assert_cmpstr(error->message, ==, rows[i].says);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/described/params", test_params);
    g_test_add_func("/described/flops", test_flops);
    g_test_add_func("/described/as-config", test_as_config);
    g_test_add_func("/described/shared", test_shared);
    g_test_add_func("/described/experts", test_experts);
    g_test_add_func("/described/faults", test_faults);
    return g_test_run();
}
