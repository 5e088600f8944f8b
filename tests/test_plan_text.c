#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "tests/comm_along.h"

/* Every field differs from its default. */
static void
add_machine(struct mw_plan *plan)
{
    mw_plan_set_machine(plan, "of its own");
    mw_plan_set_model(plan, "small");
    mw_plan_set_strategy(plan, "zero3");
    mw_plan_set_world(plan, 16, 8, true);
    mw_plan_clear_programs(plan);
    mw_plan_add_program(plan,
                        (struct mw_members){3, {{1, 2}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {8, 2}}});
    mw_plan_add_program(plan, mw_members_of_one(15));
    plan->tiers[MW_TIER_GPU] = (struct mw_tier_info){1000, 10, 500};
    plan->tiers[MW_TIER_NVME] = (struct mw_tier_info){INT64_MAX, 0, INT64_MAX};
    mw_plan_add_comm(plan, comm_along(8, 2));
    mw_plan_add_lane(plan, (struct mw_lane){.kind = MW_LANE_COMPUTE, .window_ops = 1});
    mw_plan_add_lane(plan, (struct mw_lane){.program = 1,
                                            .kind = MW_LANE_NVME_READ,
                                            .index = 3,
                                            .window_ops = 4,
                                            .window_bytes = 1 << 20});
    mw_plan_add_channel(plan, (struct mw_channel){.kind = MW_CHANNEL_SM, .users = 1});
    mw_plan_add_channel(plan, (struct mw_channel){MW_CHANNEL_DRIVE, 2, 8});
}

static void
add_content(struct mw_plan *plan)
{
    mw_plan_add_slot(plan, (struct mw_slot){.tier = MW_TIER_GPU,
                                            .purpose = MW_PURPOSE_LOGITS,
                                            .offset_bytes = 100,
                                            .size_bytes = 200});
    mw_plan_add_slot(
        plan, (struct mw_slot){
                  .program = 1, .tier = MW_TIER_NVME, .persistent = true, .size_bytes = INT64_MAX});
    mw_plan_add_tensor(plan, (struct mw_tensor){.program = 1,
                                                .layer = 2,
                                                .operators = 12,
                                                .dtype = MW_DTYPE_BF16,
                                                .gradient_dtype = MW_DTYPE_FP32,
                                                .summed = true,
                                                .trainable = true,
                                                .tiles = 4,
                                                .elements = 17,
                                                .rows = 4,
                                                .row_elements = 3,
                                                .tile_elements = 5,
                                                .shard_elements = 3,
                                                .param_stride = 3,
                                                .gradient_stride = 5,
                                                .state_stride = 6,
                                                .param_slot = 1,
                                                .gradient_slot = 0,
                                                .gradients_whole = true});
    mw_plan_add_chunk(plan, (struct mw_chunk_content){.program = 1,
                                                      .first_tensor = 0,
                                                      .tensor_count = 1,
                                                      .first_element = 7,
                                                      .elements = 8,
                                                      .slot = 1,
                                                      .other_slot = MW_NONE});
}

static void
add_works(struct mw_plan *plan)
{
    static const struct mw_draw draws[] = {{0, 1, 1000000}, {1, 3, 4096}};

    mw_plan_add_work(
        plan,
        (struct mw_work){.kind = MW_OP_COMPUTE,
                         .object = MW_OBJECT_ACTIVATIONS,
                         .operator_ = MW_OPERATOR_QKV,
                         .dtype = MW_DTYPE_BF16,
                         .comm = MW_NONE,
                         .flops = INT64_MAX,
                         .products = {{1, 2, 3, 4, MW_DTYPE_FP16, MW_PRODUCT_OF_WEIGHTS},
                                      {5, 6, 7, 8, MW_DTYPE_BF16, 0}},
                         .product_count = 2,
                         .attention = {9, 10, 11, 12, 13, 14, 15, 1},
                         .bytes = 4,
                         .elements = 6,
                         .launches = 7},
        draws, G_N_ELEMENTS(draws));
    mw_plan_add_work(plan, (struct mw_work){.kind = MW_OP_ALL_GATHER}, NULL, 0);
}

static void
add_ops(struct mw_plan *plan)
{
    mw_plan_add_op(plan, (struct mw_op){.layer = -1, .match = MW_NONE});
    mw_plan_add_use(plan, 0, MW_USE_DEFINE, MW_ROLE_LOGITS);
    mw_plan_add_op(plan, (struct mw_op){.work = 1,
                                        .lane = 1,
                                        .phase = MW_PHASE_OPTIMIZER,
                                        .layer = 95,
                                        .micro_batch = 65535,
                                        .tile = 15,
                                        .shard = 12345678,
                                        .match = 9});
    mw_plan_add_dep(plan, 0);
    mw_plan_add_dep(plan, 1 | MW_DEP_PREVIOUS_STEP);
    mw_plan_add_use(plan, 1, MW_USE_READ, MW_ROLE_SOURCE);
    mw_plan_add_use(plan, 0, MW_USE_MODIFY, MW_ROLE_NONE);
}

static const struct mw_step_shape shape = {
    .sequences = 4,
    .seq = 128,
    .micro_batches = 3,
    .tiles = 6,
    .token_chunks = 2,
    .checkpoint_interval = 1,
    .save_every = 5,
    .commits = true,
    .dtype = MW_DTYPE_FP16,
    .has_decoder = true,
    .decoder = {.kind = MW_DECODER_LLAMA,
                .activation = MW_ACTIVATION_SILU,
                .layers = 96,
                .hidden = 64,
                .heads = 8,
                .kv_heads = 2,
                .head_dim = 16,
                .ffn = 256,
                .vocab = 1000,
                .positions = 2048,
                .position_rows = 7,
                .tied_embedding = true,
                .attention_bias = true,
                .projection_bias = true,
                .mlp_bias = true,
                .norm_epsilon = 1e-5,
                .rope_theta = 500000,
                .rope_scaling = {8, 1, 4, 8192}},
};

static struct mw_plan *
make_plan(void)
{
    struct mw_plan *plan = mw_plan_new("one of everything");

    plan->shape = shape;
    plan->shape.decoder.family = mw_family_find("llama");

    add_machine(plan);
    add_content(plan);
    add_works(plan);
    add_ops(plan);
    return plan;
}

static const char plan_text[] =
    "memwall-plan 7\n"
    "title one of everything\n"
    "machine of its own\n"
    "model small\n"
    "strategy zero3\n"
    "world 16 per-node 8\n"
    "tier gpu capacity 1000 reserve 10 largest 500\n"
    "tier cpu capacity 0 reserve 0 largest 0\n"
    "tier nvme capacity 9223372036854775807 reserve 0 largest 9223372036854775807\n"
    "step sequences 4 seq 128 micro-batches 3 tiles 6 token-chunks 2 interval 1 "
    "save-every 5 fp16 commits\n"
    "decoder llama silu layers 96 hidden 64 heads 8 2 16 ffn 256 vocab 1000 positions 2048 7 "
    "epsilon "
    "1.0000000000000001e-05 theta 500000 stretch 8 1 4 8192 tied attention-bias projection-bias "
    "mlp-bias\n"
    "program 0 in-flight 1 base 3 tp 2 by 1 pp 2 by 8\n"
    "program 1 in-flight 1 base 15\n"
    "comm 0 dp 8 by 2\n"
    "lane 0 program 0 compute index 0 window 1 bytes 0\n"
    "lane 1 program 1 nvme-read index 3 window 4 bytes 1048576\n"
    "channel 0 sm index 0 users 1\n"
    "channel 1 drive index 2 users 8\n"
    "slot 0 program 0 gpu logits offset 100 size 200\n"
    "slot 1 program 1 nvme parameters offset 0 size 9223372036854775807 persistent\n"
    "tensor 0 program 1 layer 2 operators 12 bf16 gradient fp32 summed elements 17 rows 4 3 "
    "tiles 4 5 shard 3 strides 3 5 6 homes 1 0 whole-gradients trainable\n"
    "chunk 0 program 1 tensors 0 1 from 7 elements 8 slot 1 other -\n"
    "work 0 compute activations qkv bf16 comm - flops 9223372036854775807 "
    "product 1 2 3 4 fp16 weights product 5 6 7 8 bf16 attention 9 10 heads 11 12 13 14 window 15 "
    "causal "
    "bytes 4 elements 6 launches 7 draw 0:1000000 1:4096x3\n"
    "work 1 all-gather none none none comm 0 flops 0 bytes 0 elements 0 "
    "launches 0\n"
    "op 0 lane 0 work 0 forward mb 0 layer -1 tile 0 shard 0 use 0:define:logits\n"
    "op 1 lane 1 work 1 optimizer mb 65535 layer 95 tile 15 shard 12345678 match 9 "
    "after 0 prev:1 use 1:read:source 0:modify:none\n"
    "end\n";

static char *
write_text(const struct mw_plan *plan)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    bool good = mw_plan_write(plan, out);

    fclose(out);
    if (good)
        return text;
    free(text);
    return NULL;
}

static struct mw_plan *
read_text(const char *text, size_t size, char *why, size_t why_size)
{
    FILE *in = fmemopen((void *)text, size, "r");
    struct mw_plan *plan = mw_plan_read(in, why, why_size);

    fclose(in);
    return plan;
}

static void
test_title_is_one_line(void)
{
    struct mw_plan *plan = mw_plan_new("two\nlines\r\n");

    g_assert_cmpstr(plan->title, ==, "two lines  ");
    plan->title[0] = '\n';
    g_assert_null(write_text(plan));
    plan->title[0] = 't';
    mw_plan_set_machine(plan, "two\nlines");
    g_assert_cmpstr(plan->machine, ==, "two lines");
    plan->machine[3] = '\n';
    g_assert_null(write_text(plan));
    mw_plan_set_machine(plan, " ");
    g_assert_null(plan->machine);
    mw_plan_free(plan);
}

static void
test_write(void)
{
    struct mw_plan *plan = make_plan();
    char *text = write_text(plan);

    g_assert_cmpstr(text, ==, plan_text);
    free(text);
    mw_plan_free(plan);
}

static void
test_write_fails(void)
{
    struct mw_plan *plan = make_plan();
    FILE *full = fopen("/dev/full", "w");

    plan->works[0].kind = MW_OP_KIND_COUNT;
    g_assert_null(write_text(plan));
    plan->works[0].kind = MW_OP_COMPUTE;
    plan->ops[1].dep_begin = 1000;
    g_assert_null(write_text(plan));
    plan->ops[1].dep_begin = 0;
    plan->works[0].draw_begin = MW_NONE;
    g_assert_null(write_text(plan));
    plan->works[0].draw_begin = 0;
    if (full) {
        g_assert_false(mw_plan_write(plan, full));
        fclose(full);
    }
    mw_plan_free(plan);
}

static void
test_read(void)
{
    char why[128] = "";
    struct mw_plan *plan = read_text(plan_text, strlen(plan_text), why, sizeof why);
    char *text;

    g_assert_cmpstr(why, ==, "");
    g_assert_nonnull(plan);
    g_assert_false(plan->checked);
    g_assert_cmpuint(plan->world_ranks, ==, 16);
    g_assert_true(plan->slots[1].persistent);
    g_assert_cmpint(plan->works[0].products[1].k, ==, 7);
    g_assert_cmpint(plan->works[0].attention.window, ==, 15);
    g_assert_cmpuint(plan->works[0].comm, ==, MW_NONE);
    g_assert_cmpint(plan->ops[0].layer, ==, -1);
    g_assert_cmpuint(plan->ops[0].match, ==, MW_NONE);
    g_assert_cmpuint(plan->deps[1], ==, 1 | MW_DEP_PREVIOUS_STEP);
    text = write_text(plan);
    g_assert_cmpstr(text, ==, plan_text);
    free(text);
    mw_plan_free(plan);
}

static void
test_read_empty_title(void)
{
    struct mw_plan *plan = mw_plan_new("");
    char *first = write_text(plan);
    struct mw_plan *copy = read_text(first, strlen(first), NULL, 0);
    char *second = write_text(copy);

    g_assert_cmpstr(copy->title, ==, "");
    g_assert_cmpstr(first, ==, second);
    free(first);
    free(second);
    mw_plan_free(plan);
    mw_plan_free(copy);
}

/* Every beginning of a text is refused, with the number of a line that is there or would be next.
 */
static void
test_read_truncated(void)
{
    size_t full = strlen(plan_text);

    for (size_t size = 1; size < full - 1; size++) {
        char why[160] = "";

        g_assert_null(read_text(plan_text, size, why, sizeof why));
        g_assert_true(g_str_has_prefix(why, "line "));
        g_assert_null(strchr(why, '\n'));
        g_assert_null(read_text(plan_text, size, NULL, 0));
    }
}

struct edit {
    const char *from, *to, *why;
};

static const struct edit edits[] = {
    {"memwall-plan 7", "memwall-plan 6",
     "line 1: expected a plan of version 7 (`memwall plan -o "
     "FILE` writes it), found '6'"},
    {"memwall-plan 7", "memwall-plan",
     "line 1: expected a plan of version 7 (`memwall plan -o "
     "FILE` writes it), found the end of the line"},
    {"memwall-plan", "plan", "line 1: expected 'memwall-plan 7', found 'plan'"},
    {"title one", "titel one", "line 2: expected 'title', found 'titel'"},
    {"machine of its own", "machine", "line 3: expected 'world', found 'machine'"},
    {"machine of", "engine of", "line 3: expected 'world', found 'engine'"},
    {"world 16", "world two", "line 6: expected a number from 0 to 4294967295, found 'two'"},
    {"world 16", "world 4294967296", "line 6: expected a number from 0 to 4294967295"},
    {"world 16", "world 16 17", "line 6: expected 'per-node', found '17'"},
    {"tier gpu", "tier cpu", "line 7: expected 'gpu', found 'cpu'"},
    {"capacity 1000", "capacity 1e9", "line 7: expected a number up to 9223372036854775807"},
    {"capacity 1000", "capacity 9223372036854775808", "line 7: expected a number up to"},
    {"capacity 1000", "capacity -9223372036854775809", "line 7: expected a number up to"},
    {"capacity 1000", "capacity --1", "line 7: expected a number up to"},
    {"capacity 1000", "capacity",
     "line 7: expected a number up to 9223372036854775807, found 'res"},
    {"tier cpu", "tiers cpu", "line 8: expected 'tier', found 'tiers'"},
    {"comm 0 dp", "comm 1 dp", "line 14: expected the index 0, found '1'"},
    {"dp 8 by", "dp 8 per", "line 14: expected 'by', found 'per'"},
    {"tp 2 by 1", "tp 2 by 1 dp", "line 12: expected a number from 0 to"},
    {"comm 0 dp", "comm dp", "line 14: expected the index 0, found 'dp'"},
    {"comm 0 dp", "com 0 dp",
     "line 14: expected step, decoder, program, comm, lane, channel, slot, tensor, chunk, work, "
     "op, "
     "section, strides or end, "
     "found 'com'"},
    {"0 compute index", "0 computer index", "line 15: expected a kind of lane, found 'computer'"},
    {"index 3", "index 256", "line 16: expected a number from 0 to 255, found '256'"},
    {"sm index", "ms index", "line 17: expected a kind of channel, found 'ms'"},
    {"gpu logits", "ram logits", "line 19: expected gpu, cpu or nvme, found 'ram'"},
    {"gpu logits", "gpu logs", "line 19: expected the purpose of a slot, found 'logs'"},
    {"persistent", "persistently", "line 20: expected the end of the line, found 'persistently'"},
    {"gradient fp32", "gradient int8",
     "line 21: expected an element type such as bf16 or fp32, found 'int8'"},
    {"tiles 4 5", "tiles 4", "line 21: expected a number up to 9223372036854775807, found 'shard'"},
    {" trainable", " trained", "line 21: expected the end of the line, found 'trained'"},
    {"other -", "other x", "line 22: expected a number from 0 to 4294967294, found 'x'"},
    {"compute activations qkv", "think activations qkv",
     "line 23: expected a kind of op, found 'think'"},
    {"activations qkv", "activity qkv", "line 23: expected what an op moves or changes"},
    {"activations qkv", "activations qvk", "line 23: expected an operator, found 'qvk'"},
    {"comm -", "comm 4294967295", "line 23: expected a number from 0 to 4294967294"},
    {"draw 0:", "draw 0;",
     "line 23: expected a draw such as 3:1000 or 3:1000x2, found '0;1000000'"},
    {"4096x3", "4096x", "line 23: expected a draw such as 3:1000 or 3:1000x2, found '1:4096x'"},
    {"4096x3", "4096y3", "line 23: expected a draw such as 3:1000 or 3:1000x2, found '1:4096y3'"},
    {"1:4096x3", "1:x", "line 23: expected a draw such as 3:1000 or 3:1000x2, found '1:x'"},
    {" 0:1000000 1:4096x3", "",
     "line 23: expected a draw such as 3:1000 or 3:1000x2, found the end"},
    {"lane 0 work", "lane 65536 work", "line 25: expected a number from 0 to 65535"},
    {"forward mb", "front mb", "line 25: expected a phase, found 'front'"},
    {"layer -1", "layer 2147483648", "line 25: expected a number up to 2147483647"},
    {"use 0:define:", "use 0:redefine:", "line 25: expected a use such as 3:read:source"},
    {"use 0:define:logits", "use 0:define", "line 25: expected a use such as 3:read:source"},
    {"0:define:logits", "0:define:state",
     "line 25: expected a role of a compute (parameter, gradient, input, output, checkpoint, "
     "logits, received, sent, widened or none), found '0:define:state'"},
    {"0:define:logits", "0:define:logit", "line 25: expected a use such as 3:read:source"},
    {"use 0:define", "uses 0:define", "line 25: expected the end of the line, found 'uses'"},
    {"match 9", "match -", "line 26: expected a number from 0 to 4294967294, found '-'"},
    {"after 0 prev:1", "after 0 0",
     "line 26: expected the index of an op or prev:INDEX, each once"},
    {"after 0 prev:1", "after", "line 26: expected the index of an op or prev:INDEX"},
    {"prev:1", "prev:2147483647", "line 26: expected the index of an op or prev:INDEX"},
    {"prev:1", "prev:", "line 26: expected the index of an op or prev:INDEX"},
    {"epsilon 1.0000000000000001e-05", "epsilon small", "line 11: expected a number such as 1e-05"},
    {"epsilon 1.0000000000000001e-05", "epsilon inf", "line 11: expected a number such as 1e-05"},
    {"theta 500000", "theta 1e999", "line 11: expected a number such as 1e-05"},
    {"decoder llama", "decoder mamba",
     "line 11: expected a family of models that runs, found 'mamba'"},
    {"llama silu", "llama swish", "line 11: expected gelu_new, gelu, relu or silu"},
    {"end\n", "",
     "line 27: expected step, decoder, program, comm, lane, channel, slot, tensor, chunk, work, "
     "op, "
     "section, strides or end, "
     "found the end"},
    {"end\n", "end\n\n", "line 28: expected nothing after 'end'"},
    {"end\n", "end end\n", "line 27: expected the end of the line, found 'end'"},
};

static void
test_read_edited(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(edits); i++) {
        const char *at = g_strrstr(plan_text, edits[i].from);
        g_autoptr(GString) text = g_string_new(plan_text);
        char why[256] = "";

        /* The first place; but the last line's `end` is not the one in a name. */
        if (strcmp(edits[i].from, "end\n"))
            at = strstr(plan_text, edits[i].from);
        g_assert_nonnull(at);
        g_string_erase(text, at - plan_text, (gssize)strlen(edits[i].from));
        g_string_insert(text, at - plan_text, edits[i].to);
        g_assert_null(read_text(text->str, text->len, why, sizeof why));
        if (!g_str_has_prefix(why, edits[i].why))
            g_error("'%s' for '%s': %s", edits[i].to, edits[i].from, why);
    }
}

static void
test_read_nul(void)
{
    char text[sizeof plan_text];
    char why[128];

    memcpy(text, plan_text, sizeof text);
    text[40] = '\0';
    g_assert_null(read_text(text, sizeof text - 1, why, sizeof why));
    g_assert_true(g_str_has_prefix(why, "line 3: expected text without NUL bytes"));
}

/* Lists that are too long end in a refusal, not in an abort. */
static void
test_read_long_lists(void)
{
    static const char *const lists[][2] = {
        {"work 0 compute none none none comm - flops 0 bytes 0 elements 0 "
         "launches 0 draw",
         "expected the end of the line"},
        {"op 0 lane 0 work 0 forward mb 0 layer 0 tile 0 shard 0 after", "at most 255"},
        {"op 0 lane 0 work 0 forward mb 0 layer 0 tile 0 shard 0 use", "at most 65535"},
    };

    for (int i = 0; i < 3; i++) {
        const char *form = i == 0 ? " %d:1" : i == 1 ? " %d" : " %d:read:none";
        g_autoptr(GString) text =
            g_string_new_len(plan_text, strstr(plan_text, "comm 0") - plan_text);
        char why[160];

        g_string_append(text, lists[i][0]);
        for (int j = 0; j < (i == 2 ? 65536 : 256); j++)
            g_string_append_printf(text, form, j);
        g_string_append(text, "\nend\n");
        g_assert_null(read_text(text->str, text->len, why, sizeof why));
        g_assert_nonnull(strstr(why, lists[i][1]));
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/plan-text/write", test_write);
    g_test_add_func("/plan-text/write-fails", test_write_fails);
    g_test_add_func("/plan-text/title-is-one-line", test_title_is_one_line);
    g_test_add_func("/plan-text/read", test_read);
    g_test_add_func("/plan-text/read-empty-title", test_read_empty_title);
    g_test_add_func("/plan-text/read-truncated", test_read_truncated);
    g_test_add_func("/plan-text/read-edited", test_read_edited);
    g_test_add_func("/plan-text/read-nul", test_read_nul);
    g_test_add_func("/plan-text/read-long-lists", test_read_long_lists);
    return g_test_run();
}
