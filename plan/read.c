#include <string.h>

#include "plan/internal.h"
#include "plan/gates.h"
#include "plan/optimizers.h"
#include "plan/plan.h"
#include "plan/reader.h"
#include "plan/variants.h"

/* Shorter names for calls that this file makes often. */
static uint32_t
read_u32(struct mw_plan_reader *reader, const char *key)
{
    return (uint32_t)mw_plan_reader_number(reader, key, UINT32_MAX);
}

static uint16_t
read_u16(struct mw_plan_reader *reader, const char *key)
{
    return (uint16_t)mw_plan_reader_number(reader, key, UINT16_MAX);
}

static uint8_t
read_u8(struct mw_plan_reader *reader, const char *key)
{
    return (uint8_t)mw_plan_reader_number(reader, key, UINT8_MAX);
}

static int64_t
read_i64(struct mw_plan_reader *reader, const char *key)
{
    return mw_plan_reader_signed(reader, key, INT64_MAX);
}

/* Entities are numbered in order, so that a reader can find the target of a reference. */
static void
read_index(struct mw_plan_reader *reader, uint32_t next)
{
    char expected[32];
    uint64_t number;
    const char *end = mw_plan_parse_digits(mw_plan_reader_word(reader), UINT32_MAX, &number);

    if (end && !*end && number == next)
        return;
    snprintf(expected, sizeof expected, "the index %u", next);
    mw_plan_reader_fail(reader, expected);
}

static uint8_t
read_dtype(struct mw_plan_reader *reader)
{
    return mw_plan_reader_name(reader, mw_dtype_name, "an element type such as bf16 or fp32");
}

static void
read_shape(struct mw_plan_reader *reader, struct mw_plan *plan)
{
    struct mw_step_shape *shape = &plan->shape;

    shape->sequences = read_i64(reader, "sequences");
    shape->seq = read_i64(reader, "seq");
    if (mw_plan_reader_skip(reader, "context")) {
        shape->context_ranks = read_u32(reader, NULL);
        shape->context =
            (uint8_t)mw_plan_reader_name(reader, mw_context_name, "ring or all-to-all");
    }
    shape->micro_batches = read_i64(reader, "micro-batches");
    if (mw_plan_reader_skip(reader, "replicas") &&
        !mw_stage_replicas_read(mw_plan_reader_word(reader), &shape->replicas))
        mw_plan_reader_fail(reader, "replicas of stages such as 2,1,1");
    shape->tiles = read_i64(reader, "tiles");
    shape->token_chunks = read_i64(reader, "token-chunks");
    shape->checkpoint_interval = read_i64(reader, "interval");
    if (mw_plan_reader_skip(reader, "in"))
        shape->checkpoint_dtype = read_dtype(reader);
    if (mw_plan_reader_skip(reader, "keeps"))
        shape->kept_layers = read_i64(reader, NULL);
    if (mw_plan_reader_skip(reader, "recomputes") &&
        !mw_layer_set_read(mw_plan_reader_word(reader), &shape->recomputed))
        mw_plan_reader_fail(reader, "layers such as 0-3,8");
    while (mw_plan_reader_skip(reader, "kept-as"))
        shape->kept_encodings |=
            UINT32_C(1) << mw_plan_reader_name(reader, mw_encoding_name, "an encoding as mxfp8");
    shape->save_every = read_i64(reader, "save-every");
    shape->dtype = read_dtype(reader);
    shape->commits = mw_plan_reader_skip(reader, "commits");
    shape->rms_norm = mw_plan_reader_skip(reader, "rms-norm");
    shape->rotary = mw_plan_reader_skip(reader, "rotary");
    shape->gated = mw_plan_reader_skip(reader, "gated");
    shape->score_bias = mw_plan_reader_skip(reader, "score-bias");
    shape->dropout = mw_plan_reader_skip(reader, "dropout");
    shape->capped_logits = mw_plan_reader_skip(reader, "capped-logits");
    shape->capped_scores = mw_plan_reader_skip(reader, "capped-scores");
    shape->sequence_parallel = mw_plan_reader_skip(reader, "sequence-parallel");
    shape->whole_experts = mw_plan_reader_skip(reader, "whole-experts");
    shape->tensor_overlap = mw_plan_reader_skip(reader, "tensor-overlap");
    shape->tensor_pieces = mw_plan_reader_skip(reader, "tensor-pieces");
    shape->tensor_parts = mw_plan_reader_skip(reader, "tensor-parts");
    shape->weights_later = mw_plan_reader_skip(reader, "weights-later");
    shape->updates_beside = mw_plan_reader_skip(reader, "updates-beside");
    shape->whole_checkpoints = mw_plan_reader_skip(reader, "whole-checkpoints");
    shape->layer_order = mw_plan_reader_skip(reader, "layer-order");
    shape->updates_on_gpu = mw_plan_reader_skip(reader, "updates-on-gpu");
    shape->no_flush = mw_plan_reader_skip(reader, "no-flush");
    shape->stashes = mw_plan_reader_skip(reader, "stashes");
    shape->vertical_sync = mw_plan_reader_skip(reader, "vertical-sync");
    shape->asynchronous = mw_plan_reader_skip(reader, "asynchronous");
    shape->updates_in_place = mw_plan_reader_skip(reader, "updates-in-place");
    shape->only_simulated = mw_plan_reader_skip(reader, "only-simulated");
    if (mw_plan_reader_skip(reader, "optimizer"))
        shape->optimizer =
            (uint8_t)mw_plan_reader_name(reader, mw_optimizer_name, "an optimizer such as adamw");
}

static void
read_decoder(struct mw_plan_reader *reader, struct mw_plan *plan)
{
    struct mw_decoder *decoder = &plan->shape.decoder;

    plan->shape.has_decoder = true;
    decoder->family = mw_family_find(mw_family_runs_name(
        mw_plan_reader_name(reader, mw_family_runs_name, "a family of models that runs")));
    decoder->kind = decoder->family->run.kind;
    decoder->activation =
        mw_plan_reader_name(reader, mw_activation_name, "gelu_new, gelu, relu or silu");
    decoder->layers = read_i64(reader, "layers");
    decoder->hidden = read_i64(reader, "hidden");
    decoder->heads = read_i64(reader, "heads");
    decoder->kv_heads = read_i64(reader, NULL);
    decoder->head_dim = read_i64(reader, NULL);
    decoder->ffn = read_i64(reader, "ffn");
    decoder->vocab = read_i64(reader, "vocab");
    decoder->positions = read_i64(reader, "positions");
    decoder->position_rows = read_i64(reader, NULL);
    decoder->norm_epsilon = mw_plan_reader_real(reader, "epsilon");
    decoder->rope_theta = mw_plan_reader_real(reader, "theta");
    decoder->rope_scaling.factor = mw_plan_reader_real(reader, "stretch");
    decoder->rope_scaling.low_frequency_factor = mw_plan_reader_real(reader, NULL);
    decoder->rope_scaling.high_frequency_factor = mw_plan_reader_real(reader, NULL);
    decoder->rope_scaling.original_positions = read_i64(reader, NULL);
    decoder->tied_embedding = mw_plan_reader_skip(reader, "tied");
    decoder->attention_bias = mw_plan_reader_skip(reader, "attention-bias");
    decoder->qk_norm = mw_plan_reader_skip(reader, "qk-norm");
    decoder->projection_bias = mw_plan_reader_skip(reader, "projection-bias");
    decoder->mlp_bias = mw_plan_reader_skip(reader, "mlp-bias");
    if (mw_plan_reader_skip(reader, "experts")) {
        decoder->experts = read_i64(reader, NULL);
        decoder->experts_per_token = read_i64(reader, NULL);
        decoder->router_renormalizes = mw_plan_reader_skip(reader, "renormalized");
        if (mw_plan_reader_skip(reader, "gate"))
            decoder->gate =
                (enum mw_gating)mw_plan_reader_name(reader, mw_gate_name, "a gate such as switch");
        if (mw_plan_reader_skip(reader, "capacity"))
            decoder->rows_of_expert = read_i64(reader, NULL);
        if (mw_plan_reader_skip(reader, "aux-loss"))
            decoder->router_aux_loss = mw_plan_reader_real(reader, NULL);
        if (mw_plan_reader_skip(reader, "z-loss"))
            decoder->router_z_loss = mw_plan_reader_real(reader, NULL);
        if (mw_plan_reader_skip(reader, "spread"))
            decoder->spread.count = read_i64(reader, NULL);
    }
    if (!mw_plan_reader_skip(reader, "lora"))
        return;
    decoder->lora_rank = read_i64(reader, NULL);
    decoder->lora_alpha = mw_plan_reader_real(reader, NULL);
    for (int i = 0; i < MW_OPERATOR_COUNT; i++)
        if (mw_plan_reader_skip(reader, mw_operator_name(i)))
            decoder->lora_adapted |= UINT32_C(1) << i;
    if (!mw_plan_reader_skip(reader, "bare"))
        return;
    for (int t = 0; t < MW_TARGET_COUNT; t++)
        if (mw_plan_reader_skip(reader, mw_target_name(t)))
            decoder->lora_bare |= UINT32_C(1) << t;
}

static void
read_spans(struct mw_plan_reader *reader, struct mw_axis_span spans[MW_AXIS_COUNT])
{
    for (int axis = 0; axis < MW_AXIS_COUNT; axis++) {
        spans[axis] = (struct mw_axis_span){0, 1};
        if (!mw_plan_reader_skip(reader, mw_axis_name(axis)))
            continue;
        spans[axis].count = read_u32(reader, NULL);
        spans[axis].stride = read_u32(reader, "by");
    }
}

static void
read_program(struct mw_plan_reader *reader, struct mw_plan *plan)
{
    struct mw_members ranks;

    read_index(reader, plan->program_count);
    uint32_t in_flight = read_u32(reader, "in-flight");
    int64_t apart_bytes = mw_plan_reader_skip(reader, "apart") ? read_i64(reader, NULL) : 0;
    bool beside = mw_plan_reader_skip(reader, "beside");
    int64_t gpu_bytes = beside ? read_i64(reader, NULL) : 0;
    int64_t cpu_bytes = beside ? read_i64(reader, NULL) : 0;
    ranks.base = read_u32(reader, "base");
    read_spans(reader, ranks.spans);
    uint32_t program = mw_plan_add_program(plan, ranks);
    plan->programs[program].in_flight = in_flight;
    plan->programs[program].apart_bytes = apart_bytes;
    plan->programs[program].beside_bytes[MW_TIER_GPU] = gpu_bytes;
    plan->programs[program].beside_bytes[MW_TIER_CPU] = cpu_bytes;
}

static void
read_comm(struct mw_plan_reader *reader, struct mw_plan *plan)
{
    struct mw_comm comm = {0};

    read_index(reader, plan->comm_count);
    comm.single = mw_plan_reader_skip(reader, "single");
    if (comm.single)
        comm.first = read_u32(reader, NULL);
    read_spans(reader, comm.spans);
    mw_plan_add_comm(plan, comm);
}

static void
read_lane(struct mw_plan_reader *reader, struct mw_plan *plan)
{
    struct mw_lane lane = {0};

    read_index(reader, plan->lane_count);
    lane.program = read_u32(reader, "program");
    lane.kind = mw_plan_reader_name(reader, mw_lane_kind_name, "a kind of lane");
    lane.index = read_u8(reader, "index");
    lane.window_ops = read_u32(reader, "window");
    lane.window_bytes = read_i64(reader, "bytes");
    mw_plan_add_lane(plan, lane);
}

static void
read_channel(struct mw_plan_reader *reader, struct mw_plan *plan)
{
    struct mw_channel channel = {0};

    read_index(reader, plan->channel_count);
    channel.kind = mw_plan_reader_name(reader, mw_channel_kind_name, "a kind of channel");
    channel.index = read_u32(reader, "index");
    channel.users = read_u32(reader, "users");
    mw_plan_add_channel(plan, channel);
}

static void
read_slot(struct mw_plan_reader *reader, struct mw_plan *plan)
{
    struct mw_slot slot = {0};

    read_index(reader, plan->slot_count);
    slot.program = read_u32(reader, "program");
    slot.tier = mw_plan_reader_name(reader, mw_tier_name, "gpu, cpu or nvme");
    slot.purpose = mw_plan_reader_name(reader, mw_purpose_name, "the purpose of a slot");
    slot.offset_bytes = read_i64(reader, "offset");
    slot.size_bytes = read_i64(reader, "size");
    slot.persistent = mw_plan_reader_skip(reader, "persistent");
    slot.shares = mw_plan_reader_skip(reader, "shares");
    mw_plan_add_slot(plan, slot);
}

static void
read_tensor(struct mw_plan_reader *reader, struct mw_plan *plan)
{
    struct mw_tensor tensor = {0};

    read_index(reader, plan->tensor_count);
    tensor.program = read_u32(reader, "program");
    tensor.layer = (int32_t)mw_plan_reader_signed(reader, "layer", INT32_MAX);
    tensor.operators = mw_operators_of_stored(read_u32(reader, "operators"));
    tensor.dtype = read_dtype(reader);
    mw_plan_reader_key(reader, "gradient");
    tensor.gradient_dtype = read_dtype(reader);
    tensor.summed = mw_plan_reader_skip(reader, "summed");
    tensor.elements = read_i64(reader, "elements");
    tensor.rows = read_i64(reader, "rows");
    tensor.row_elements = read_i64(reader, NULL);
    tensor.tiles = read_u32(reader, "tiles");
    tensor.tile_elements = read_i64(reader, NULL);
    if (mw_plan_reader_skip(reader, "spread"))
        tensor.spread = read_u32(reader, NULL);
    tensor.shard_elements = read_i64(reader, "shard");
    tensor.param_stride = read_i64(reader, "strides");
    tensor.gradient_stride = read_i64(reader, NULL);
    tensor.state_stride = read_i64(reader, NULL);
    tensor.param_slot = read_u32(reader, "homes");
    tensor.gradient_slot = mw_plan_reader_reference(reader, NULL);
    tensor.params_whole = mw_plan_reader_skip(reader, "whole-params");
    tensor.gradients_whole = mw_plan_reader_skip(reader, "whole-gradients");
    tensor.state_whole = mw_plan_reader_skip(reader, "whole-state");
    tensor.trainable = mw_plan_reader_skip(reader, "trainable");
    mw_plan_add_tensor(plan, tensor);
}

static void
read_chunk(struct mw_plan_reader *reader, struct mw_plan *plan)
{
    struct mw_chunk_content chunk = {0};

    read_index(reader, plan->chunk_count);
    chunk.program = read_u32(reader, "program");
    chunk.first_tensor = read_u32(reader, "tensors");
    chunk.tensor_count = read_u32(reader, NULL);
    chunk.first_element = read_i64(reader, "from");
    chunk.elements = read_i64(reader, "elements");
    chunk.slot = read_u32(reader, "slot");
    chunk.other_slot = mw_plan_reader_reference(reader, "other");
    mw_plan_add_chunk(plan, chunk);
}

static struct mw_draw
read_draw(struct mw_plan_reader *reader)
{
    static const char expected[] = "a draw such as 3:1000 or 3:1000x2";
    struct mw_draw draw = {.ranks = 1};
    const char *end = mw_plan_reader_pair(reader, &draw.channel, expected);
    uint64_t amount = 0, ranks = 1;

    if (!end)
        return draw;
    end = mw_plan_parse_digits(end, INT64_MAX, &amount);
    if (end && *end == 'x')
        end = mw_plan_parse_digits(end + 1, UINT32_MAX, &ranks);
    if (!end || *end)
        mw_plan_reader_fail(reader, expected);
    draw.amount = (int64_t)amount;
    draw.ranks = (uint32_t)ranks;
    return draw;
}

static uint32_t
read_draws(struct mw_plan_reader *reader, struct mw_draw draws[MW_MAX_DRAWS_PER_WORK])
{
    uint32_t count = 0;

    if (!mw_plan_reader_skip(reader, "draw"))
        return 0;
    do
        draws[count++] = read_draw(reader);
    while (!reader->failed && !mw_plan_reader_at_end(reader) && count < MW_MAX_DRAWS_PER_WORK);
    return count;
}

/* Forward's say nothing. */
static int64_t
read_product_of(struct mw_plan_reader *reader)
{
    for (int of = MW_PRODUCT_OF_RESULT + 1; of < MW_PRODUCT_OF_COUNT; of++)
        if (mw_plan_reader_skip(reader, mw_product_of_name(of)))
            return of;
    return MW_PRODUCT_OF_RESULT;
}

static void
read_products(struct mw_plan_reader *reader, struct mw_work *work)
{
    while (work->product_count < MW_WORK_PRODUCTS_MAX && mw_plan_reader_skip(reader, "product")) {
        struct mw_work_product *product = &work->products[work->product_count++];
        product->m = read_i64(reader, NULL);
        product->n = read_i64(reader, NULL);
        product->k = read_i64(reader, NULL);
        product->count = read_i64(reader, NULL);
        product->dtype = read_dtype(reader);
        product->of = read_product_of(reader);
    }
}

static struct mw_work_attention
read_attention(struct mw_plan_reader *reader)
{
    struct mw_work_attention attention = {0};

    attention.queries = read_i64(reader, NULL);
    attention.keys = read_i64(reader, NULL);
    attention.heads = read_i64(reader, "heads");
    attention.kv_heads = read_i64(reader, NULL);
    attention.head_dim = read_i64(reader, NULL);
    attention.value_dim = read_i64(reader, NULL);
    if (mw_plan_reader_skip(reader, "window"))
        attention.window = read_i64(reader, NULL);
    attention.causal = mw_plan_reader_skip(reader, "causal");
    return attention;
}

static void
read_work(struct mw_plan_reader *reader, struct mw_plan *plan)
{
    struct mw_work work = {0};
    struct mw_draw draws[MW_MAX_DRAWS_PER_WORK];
    uint32_t draw_count;

    read_index(reader, plan->work_count);
    work.kind = mw_plan_reader_name(reader, mw_op_kind_name, "a kind of op");
    work.object = mw_plan_reader_name(reader, mw_object_name, "what an op moves or changes");
    work.operator_ = mw_plan_reader_name(reader, mw_operator_name, "an operator");
    work.dtype = read_dtype(reader);
    work.host = mw_plan_reader_skip(reader, "host");
    work.comm = mw_plan_reader_reference(reader, "comm");
    if (mw_plan_reader_skip(reader, "hop"))
        work.hop = (int32_t)mw_plan_reader_signed(reader, NULL, INT32_MAX);
    if (mw_plan_reader_skip(reader, "fullest"))
        work.fullest = mw_plan_reader_real(reader, NULL);
    work.flops = read_i64(reader, "flops");
    read_products(reader, &work);
    if (mw_plan_reader_skip(reader, "attention"))
        work.attention = read_attention(reader);
    work.bytes = read_i64(reader, "bytes");
    if (mw_plan_reader_skip(reader, "coded"))
        work.coded_bytes = read_i64(reader, NULL);
    work.elements = read_i64(reader, "elements");
    work.launches = read_u32(reader, "launches");
    draw_count = read_draws(reader, draws);
    mw_plan_add_work(plan, work, draws, draw_count);
}

static void
read_dep(struct mw_plan_reader *reader, struct mw_plan *plan)
{
    const struct mw_op *op = &plan->ops[plan->op_count - 1];
    uint32_t count = plan->dep_count;
    const char *word = mw_plan_reader_word(reader);
    bool previous = !strncmp(word, "prev:", 5);
    uint64_t index;
    const char *end = mw_plan_parse_digits(previous ? word + 5 : word, MW_PLAN_MAX_OPS - 1, &index);

    if (end && !*end && op->dep_count < MW_MAX_DEPS_PER_OP)
        mw_plan_add_dep(plan, (uint32_t)index | (previous ? MW_DEP_PREVIOUS_STEP : 0));
    if (count == plan->dep_count)
        mw_plan_reader_fail(reader, "the index of an op or prev:INDEX, each once, at most 255");
}

/* Parses "MODE:ROLE". */
static bool
parse_use(const char *text, uint8_t *mode, uint8_t *role)
{
    const char *colon = strchr(text, ':');
    char name[16] = "";

    if (!colon || (size_t)(colon - text) >= sizeof name)
        return false;
    memcpy(name, text, (size_t)(colon - text));
    return mw_plan_parse_name(name, mw_use_mode_name, mode) &&
           mw_plan_parse_name(colon + 1, mw_role_name, role);
}

/* A work may come later in the text; then the check refuses a wrong role. */
static bool
has_role(const struct mw_plan *plan, const struct mw_op *op, uint8_t role)
{
    return op->work >= plan->work_count || mw_op_kind_allows_role(plan->works[op->work].kind, role);
}

static void
refuse_role(struct mw_plan_reader *reader, int kind)
{
    char expected[256];
    size_t length =
        (size_t)snprintf(expected, sizeof expected, "a role of a %s (", mw_op_kind_name(kind));

    for (int role = MW_ROLE_NONE + 1, count = 0; role < MW_ROLE_COUNT; role++)
        if (mw_op_kind_allows_role(kind, role))
            length += (size_t)snprintf(expected + length, sizeof expected - length, "%s%s",
                                       count++ ? ", " : "", mw_role_name(role));
    snprintf(expected + length, sizeof expected - length, " or none)");
    mw_plan_reader_fail(reader, expected);
}

static void
read_use(struct mw_plan_reader *reader, struct mw_plan *plan)
{
    static const char expected[] =
        "a use such as 3:read:source (define, read or modify; its role), at most 65535";
    const struct mw_op *op = &plan->ops[plan->op_count - 1];
    uint32_t slot;
    uint8_t mode, role;
    const char *text = mw_plan_reader_pair(reader, &slot, expected);

    if (!text || !parse_use(text, &mode, &role) || op->use_count == MW_MAX_USES_PER_OP)
        mw_plan_reader_fail(reader, expected);
    else if (!has_role(plan, op, role))
        refuse_role(reader, plan->works[op->work].kind);
    else
        mw_plan_add_use(plan, slot, mode, role);
}

static void
read_op_lists(struct mw_plan_reader *reader, struct mw_plan *plan)
{
    if (mw_plan_reader_skip(reader, "after"))
        do
            read_dep(reader, plan);
        while (!reader->failed && !mw_plan_reader_at_end(reader) &&
               !mw_plan_reader_sees(reader, "use"));
    if (mw_plan_reader_skip(reader, "use"))
        do
            read_use(reader, plan);
        while (!reader->failed && !mw_plan_reader_at_end(reader));
}

static void
read_op(struct mw_plan_reader *reader, struct mw_plan *plan)
{
    struct mw_op op = {.match = MW_NONE};

    if (plan->section_count) {
        mw_plan_reader_fail(reader, "all ops before the first section");
        return;
    }
    read_index(reader, plan->op_count);
    op.lane = read_u16(reader, "lane");
    op.work = read_u32(reader, "work");
    op.phase = mw_plan_reader_name(reader, mw_phase_name, "a phase");
    op.micro_batch = read_u16(reader, "mb");
    op.layer = (int32_t)mw_plan_reader_signed(reader, "layer", INT32_MAX);
    op.tile = read_u16(reader, "tile");
    op.shard = read_u32(reader, "shard");
    if (mw_plan_reader_skip(reader, "match"))
        op.match = (uint32_t)mw_plan_reader_number(reader, NULL, MW_NONE - 1);
    mw_plan_add_op(plan, op);
    read_op_lists(reader, plan);
}

static void
read_section(struct mw_plan_reader *reader, struct mw_plan *plan)
{
    struct mw_section section;

    read_index(reader, plan->section_count);
    section.first_op = read_u32(reader, "ops");
    section.op_count = read_u32(reader, NULL);
    section.rounds = read_u32(reader, "rounds");
    section.parent = mw_plan_reader_reference(reader, "parent");
    section.micro_batch_step = (int32_t)mw_plan_reader_signed(reader, "mb", INT32_MAX);
    section.layer_step = (int32_t)mw_plan_reader_signed(reader, "layer", INT32_MAX);
    section.shard_step = (int32_t)mw_plan_reader_signed(reader, "shard", INT32_MAX);
    if (section.parent != MW_NONE && section.parent >= plan->section_count)
        mw_plan_reader_fail(reader, "a parent with a lower number");
    if (!reader->failed)
        mw_plan_add_section(plan, section);
}

/* Reads `count` numbers, which colons separate from each other. */
static void
read_numbers(struct mw_plan_reader *reader, int count, const int64_t limit[], int64_t numbers[])
{
    char text[100] = "";
    const char *word = mw_plan_reader_word(reader);
    char *next = text;

    if (strlen(word) < sizeof text)
        strcpy(text, word);
    for (int i = 0; i < count; i++) {
        char *end = next ? strchr(next, ':') : NULL;
        if (end)
            *end = '\0';
        if (!next || !mw_plan_parse_signed(next, limit[i], &numbers[i]) ||
            (i + 1 < count ? !end : end != NULL)) {
            mw_plan_reader_fail(reader, "strides such as 12:0, of uses 1:0:7:3");
            return;
        }
        next = end ? end + 1 : NULL;
    }
}

static void
read_strides(struct mw_plan_reader *reader, struct mw_plan *plan)
{
    static const int64_t limit[] = {INT32_MAX, INT32_MAX, UINT32_MAX, UINT32_MAX};
    uint32_t index = read_u32(reader, NULL), sections[MW_SECTION_LEVELS];
    int64_t numbers[4] = {0};

    if (!plan->section_count || index >= plan->op_count) {
        mw_plan_reader_fail(reader, "strides of an op, behind the sections");
        return;
    }
    if (!mw_plan_sections_of(plan, index, sections)) {
        mw_plan_reader_fail(reader, "strides of an op that is in a section");
        return;
    }
    const struct mw_op *op = &plan->ops[index];
    if (op->dep_count)
        mw_plan_reader_key(reader, "after");
    for (uint32_t i = op->dep_begin; i < op->dep_begin + op->dep_count && !reader->failed; i++) {
        read_numbers(reader, MW_SECTION_LEVELS, limit, numbers);
        for (int level = 0; level < MW_SECTION_LEVELS; level++)
            plan->dep_strides[i].by[level] = (int32_t)numbers[level];
    }
    if (op->use_count)
        mw_plan_reader_key(reader, "use");
    for (uint32_t i = op->use_begin; i < op->use_begin + op->use_count && !reader->failed; i++) {
        struct mw_use_stride *stride = &plan->use_strides[i];
        read_numbers(reader, MW_SECTION_LEVELS + 2, limit, numbers);
        for (int level = 0; level < MW_SECTION_LEVELS; level++)
            stride->by[level] = (int32_t)numbers[level];
        if (!reader->failed && (numbers[2] < 0 || numbers[3] < 0))
            mw_plan_reader_fail(reader, "a ring");
        stride->ring_first = (uint32_t)numbers[2];
        stride->ring_count = (uint32_t)numbers[3];
    }
}

static const struct {
    const char *word;
    void (*read)(struct mw_plan_reader *reader, struct mw_plan *plan);
} entities[] = {
    {"op", read_op},           {"slot", read_slot},       {"work", read_work},
    {"lane", read_lane},       {"comm", read_comm},       {"channel", read_channel},
    {"tensor", read_tensor},   {"chunk", read_chunk},     {"step", read_shape},
    {"decoder", read_decoder}, {"program", read_program}, {"section", read_section},
    {"strides", read_strides},
};

/* Reads the first word of the next line. */
static const char *
begin_line(struct mw_plan_reader *reader, const char *expected)
{
    mw_plan_reader_begin_line(reader, expected);
    return mw_plan_reader_word(reader);
}

static void
begin_line_with(struct mw_plan_reader *reader, const char *word, const char *expected)
{
    if (strcmp(begin_line(reader, expected), word))
        mw_plan_reader_fail(reader, expected);
}

/* Reads one line after the head.  Returns false after `end` and after a failure. */
static bool
read_line(struct mw_plan_reader *reader, struct mw_plan *plan)
{
    static const char expected[] =
        "step, decoder, program, comm, lane, channel, slot, tensor, chunk, work, op, "
        "section, strides or end";
    const char *word = begin_line(reader, expected);
    size_t i = 0;

    while (i < sizeof entities / sizeof *entities && strcmp(word, entities[i].word))
        i++;
    if (i < sizeof entities / sizeof *entities)
        entities[i].read(reader, plan);
    else if (strcmp(word, "end"))
        mw_plan_reader_fail(reader, expected);
    mw_plan_reader_end_line(reader);
    return !reader->failed && i < sizeof entities / sizeof *entities;
}

/* Reads the world, after those names of machine, software, model and strategy that are there. */
static void
read_world(struct mw_plan_reader *reader, struct mw_plan *plan)
{
    static const struct {
        const char *word;
        void (*set)(struct mw_plan *plan, const char *name);
    } names[] = {{"machine", mw_plan_set_machine},
                 {"software", mw_plan_set_software},
                 {"model", mw_plan_set_model},
                 {"strategy", mw_plan_set_strategy}};
    const char *word = begin_line(reader, "'machine', 'software', 'model', 'strategy' or 'world'");

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!reader->failed && !strcmp(word, names[i].word) && !mw_plan_reader_at_end(reader)) {
            names[i].set(plan, reader->rest);
            word = begin_line(reader, "'world'");
        }
    if (strcmp(word, "world"))
        mw_plan_reader_fail(reader, "'world'");
    mw_plan_clear_programs(plan);
    plan->world_ranks = read_u32(reader, NULL);
    plan->ranks_per_node = read_u32(reader, "per-node");
    mw_plan_reader_end_line(reader);
}

static void
read_tier(struct mw_plan_reader *reader, struct mw_plan *plan, int tier)
{
    begin_line_with(reader, "tier", "'tier'");
    mw_plan_reader_key(reader, mw_tier_name(tier));
    plan->tiers[tier].capacity_bytes = read_i64(reader, "capacity");
    plan->tiers[tier].reserve_bytes = read_i64(reader, "reserve");
    plan->tiers[tier].largest_request_bytes = read_i64(reader, "largest");
    mw_plan_reader_end_line(reader);
}

/* Reads the lines before the entities, which have a fixed order, from the first line's second word
 * on.  Returns NULL after a failure. */
static struct mw_plan *
read_head(struct mw_plan_reader *reader)
{
    struct mw_plan *plan;

    if (strcmp(mw_plan_reader_word(reader), MW_PLAN_TEXT_VERSION))
        mw_plan_reader_fail(reader, "a plan of version " MW_PLAN_TEXT_VERSION
                                    " (`memwall plan -o FILE` writes it)");
    mw_plan_reader_end_line(reader);
    begin_line_with(reader, "title", "'title'");
    if (reader->failed)
        return NULL;
    plan = mw_plan_new(reader->rest);
    read_world(reader, plan);
    for (int tier = 0; tier < MW_TIER_COUNT; tier++)
        read_tier(reader, plan, tier);
    return plan;
}

/* Reads a plan to its end.  May return NULL after a failure. */
static struct mw_plan *
read_plan(struct mw_plan_reader *reader)
{
    struct mw_plan *plan = read_head(reader);

    while (!reader->failed && read_line(reader, plan))
        ;
    return plan;
}

static void
begin_text(struct mw_plan_reader *reader)
{
    begin_line_with(reader, MW_PLAN_TEXT_BEGIN,
                    "'" MW_PLAN_TEXT_BEGIN " " MW_PLAN_TEXT_VERSION "'");
}

static void
end_text(struct mw_plan_reader *reader)
{
    if (mw_plan_reader_next_line(reader))
        mw_plan_reader_fail(reader, "nothing after 'end'");
    mw_plan_reader_clear(reader);
}

struct mw_plan *
mw_plan_read(FILE *in, char *why, size_t why_size)
{
    struct mw_plan_reader reader = {.in = in, .why = why, .why_size = why_size, .word = ""};

    begin_text(&reader);
    struct mw_plan *plan = read_plan(&reader);
    end_text(&reader);
    if (!reader.failed)
        return plan;
    mw_plan_free(plan);
    return NULL;
}

/* --- line of an error ------------------------------------------------------------------------ */

/* The check names entities in the way their lines begin: "op 12 (...", "slot 3: ...".  Returns the
 * first entity in `why` and its length, or NULL if it names none. */
static const char *
find_entity(const char *why, size_t *length)
{
    const char *first = NULL;

    for (size_t i = 0; i < sizeof entities / sizeof *entities; i++) {
        size_t word = strlen(entities[i].word);
        for (const char *at = why; (at = strstr(at, entities[i].word)); at++) {
            size_t digits = at[word] == ' ' ? strspn(at + word + 1, "0123456789") : 0;
            if (!digits || (at > why && at[-1] != ' ') || (first && first < at))
                continue;
            first = at;
            *length = word + 1 + digits;
        }
    }
    return first;
}

/* The first line, from line `from` on, that begins so; 0 if there is none. */
static unsigned long
find_line(const char *text, size_t size, unsigned long from, const char *begin, size_t length)
{
    unsigned long line = 1;

    for (size_t at = 0; at + length < size; at++) {
        bool begins = at == 0 || text[at - 1] == '\n';
        line += at > 0 && begins;
        if (begins && line >= from && !memcmp(text + at, begin, length) && text[at + length] == ' ')
            return line;
    }
    return 0;
}

/* The line that a reason without a numbered entity is about: of the step, the decoder, the world or
 * a tier; else the plan's first one. */
static unsigned long
find_subject(const char *text, size_t size, unsigned long from, const char *why)
{
    static const struct {
        const char *said, *word;
    } subjects[] = {{"step:", "step"},         {"decoder:", "decoder"},
                    {"a world", "world"},      {"tier gpu:", "tier gpu"},
                    {"tier cpu:", "tier cpu"}, {"tier nvme:", "tier nvme"}};
    unsigned long line = 0;

    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        if (!strncmp(why, subjects[i].said, strlen(subjects[i].said)))
            line = find_line(text, size, from, subjects[i].word, strlen(subjects[i].word));
    return line ? line : from;
}

/* Puts the line of the error before the message, for a plan that begins in line `from`. */
static void
prepend_line(const char *text, size_t size, unsigned long from, char *why, size_t why_size)
{
    size_t length = 0;
    const char *entity = find_entity(why, &length);
    unsigned long line =
        entity && strncmp(why, "step:", 5) ? find_line(text, size, from, entity, length) : 0;
    char said[512];

    if (!line)
        line = find_subject(text, size, from, why);
    snprintf(said, sizeof said, "%s", why);
    snprintf(why, why_size, "line %lu: %s", line, said);
}

/* fmemopen rejects a length of 0. */
static FILE *
open_text(const char *text, size_t length, char *why, size_t why_size)
{
    snprintf(why, why_size, "is empty");
    return length ? fmemopen((char *)text, length, "r") : NULL;
}

struct mw_plan *
mw_plan_parse(const char *text, size_t length, char *why, size_t why_size)
{
    FILE *in = open_text(text, length, why, why_size);
    struct mw_plan *plan = NULL;

    if (in) {
        plan = mw_plan_read(in, why, why_size);
        fclose(in);
    }
    if (plan && mw_plan_check(plan, why, why_size))
        return plan;
    if (plan)
        prepend_line(text, length, 1, why, why_size);
    mw_plan_free(plan);
    return NULL;
}

/* --- variants -------------------------------------------------------------------------------- */

#define VARIANTS_MAX 1024 /* most variants of a file, and most turns of a cycle */
#define RULE_EXPECTED "'from 0 variants NUMBER...' or a plan"

/* Reads "from STEP variants V ...", after the first word. */
static void
read_span(struct mw_plan_reader *reader, struct mw_variants *variants, bool first)
{
    uint32_t cycle[VARIANTS_MAX], count = 0;
    int64_t from = read_i64(reader, NULL);
    int64_t before = first ? -1 : variants->spans[variants->span_count - 1].first_step;

    if (first ? from : from <= before)
        mw_plan_reader_fail(reader, first ? "'from 0'" : "a later step than in the line before");
    mw_plan_reader_key(reader, "variants");
    do
        cycle[count++] = read_u32(reader, NULL);
    while (!reader->failed && !mw_plan_reader_at_end(reader) && count < VARIANTS_MAX);
    for (uint32_t i = 0; i < count && !reader->failed; i++)
        if (cycle[i] >= variants->plan_count)
            mw_plan_reader_fail(reader, "numbers of the plans above, from 0");
    mw_plan_reader_end_line(reader);
    if (!reader->failed)
        mw_variants_from(variants, from, cycle, count);
}

/* Reads the rule, from its first word on. */
static void
read_rule(struct mw_plan_reader *reader, struct mw_variants *variants)
{
    static const char expected[] = "'from STEP variants NUMBER...' or 'end'";
    bool first = true;

    while (!reader->failed && !strcmp(reader->word, "from")) {
        read_span(reader, variants, first);
        first = false;
        if (!reader->failed)
            begin_line(reader, expected);
    }
    if (strcmp(reader->word, "end") || first)
        mw_plan_reader_fail(reader, first ? RULE_EXPECTED : expected);
    mw_plan_reader_end_line(reader);
}

/* What is read, and whether each plan must be a whole step. */
struct variants_text {
    const char *text;
    size_t length;
    bool steps;
};

/* Takes ownership of the plan.  Returns false if it fails the check. */
static bool
add_plan(struct mw_variants **variants, struct mw_plan *plan, const struct variants_text *it,
         unsigned long line, char *why, size_t why_size)
{
    bool whole = it->steps && !plan->shape.only_simulated && !plan->shape.no_flush &&
                 !plan->shape.replicas.stages;
    bool good = mw_plan_check(plan, why, why_size);

    whole = whole && good && (plan->program_count == 1 || mw_plan_all_have_layers(plan));
    good = good && (!whole || mw_plan_check_step(plan, *variants != NULL, why, why_size));

    if (!good)
        prepend_line(it->text, it->length, line, why, why_size);
    if (*variants)
        mw_variants_add(*variants, plan);
    else
        *variants = mw_variants_new(plan);
    return good;
}

static struct mw_variants *
read_variants(struct mw_plan_reader *reader, const struct variants_text *it)
{
    struct mw_variants *variants = NULL;
    bool more = true;

    begin_text(reader);
    while (!reader->failed && more) {
        unsigned long line = reader->line_number;
        struct mw_plan *plan = read_plan(reader);
        if (reader->failed)
            mw_plan_free(plan);
        else if (!add_plan(&variants, plan, it, line, reader->why, reader->why_size))
            reader->failed = true;
        if (!mw_plan_reader_next_line(reader)) {
            if (!reader->failed && variants->plan_count > 1)
                mw_plan_reader_fail(reader, RULE_EXPECTED);
            break;
        }
        more = !strcmp(mw_plan_reader_word(reader), MW_PLAN_TEXT_BEGIN) &&
               variants->plan_count < VARIANTS_MAX;
        if (!more)
            read_rule(reader, variants);
    }
    end_text(reader);
    return variants;
}

/* "variant 2: ...": of the plan that is so many behind the first one. */
static void
prepend_variant(const struct variants_text *it, char *why, size_t why_size)
{
    static const char begin[] = MW_PLAN_TEXT_BEGIN;
    unsigned long line = 0;
    unsigned variant;
    char said[512];

    if (sscanf(why, "variant %u:", &variant) != 1)
        return;
    for (unsigned v = 0; v <= variant && (v == 0 || line); v++)
        line = find_line(it->text, it->length, line + 1, begin, strlen(begin));
    snprintf(said, sizeof said, "%s", why);
    snprintf(why, why_size, "line %lu: %s", line, said);
}

static struct mw_variants *
parse_variants(const struct variants_text *it, char *why, size_t why_size)
{
    FILE *in = open_text(it->text, it->length, why, why_size);
    struct mw_plan_reader reader = {.in = in, .why = why, .why_size = why_size, .word = ""};

    if (!in)
        return NULL;
    struct mw_variants *variants = read_variants(&reader, it);
    fclose(in);
    if (!reader.failed && mw_variants_check(variants, why, why_size))
        return variants;
    if (!reader.failed)
        prepend_variant(it, why, why_size);
    mw_variants_free(variants);
    return NULL;
}

struct mw_variants *
mw_variants_parse(const char *text, size_t length, char *why, size_t why_size)
{
    return parse_variants(&(struct variants_text){text, length, false}, why, why_size);
}

struct mw_variants *
mw_variants_parse_steps(const char *text, size_t length, char *why, size_t why_size)
{
    return parse_variants(&(struct variants_text){text, length, true}, why, why_size);
}
