/* Works: what ops do, in FLOPs and bytes, and which channels they draw on. */
#include <glib.h>
#include <stddef.h>
#include <string.h>

#include "plan/optimizers.h"
#include "base/arithmetic.h"
#include "plan/state.h"
#include "planner/build/internal.h"

#define ALL_MULTIPROCESSORS 1000000

struct draws {
    struct mw_draw draw[6];
    uint32_t count;
};

static void
draw(struct builder *b, struct draws *draws, enum mw_channel_kind kind, int64_t amount)
{
    if (amount <= 0)
        return;
    draws->draw[draws->count++] = (struct mw_draw){b->channel[kind], 1, amount};
}

/* What a work says, but for its draws: most works have no products, whose room is large. */
#define HEAD_BYTES offsetof(struct mw_work, products)
#define TAIL_AT offsetof(struct mw_work, product_count)
#define TAIL_BYTES (offsetof(struct mw_work, draw_begin) - TAIL_AT)

static size_t
products_bytes(const struct mw_work *work)
{
    return work->product_count * sizeof *work->products;
}

static const char *
tail_of(const struct mw_work *work)
{
    return (const char *)work + TAIL_AT;
}

static bool
same_work(const struct mw_plan *plan, const struct mw_work *a, const struct mw_work *b,
          const struct draws *draws)
{
    return a->draw_count == draws->count && !memcmp(a, b, HEAD_BYTES) &&
           !memcmp(tail_of(a), tail_of(b), TAIL_BYTES) &&
           !memcmp(a->products, b->products, products_bytes(a)) &&
           (!draws->count ||
            !memcmp(&plan->draws[a->draw_begin], draws->draw, draws->count * sizeof *draws->draw));
}

static uint32_t
hash_bytes(uint32_t hash, const void *bytes, size_t size)
{
    uint64_t word;

    for (size_t at = 0; at + sizeof word <= size; at += sizeof word) {
        memcpy(&word, (const char *)bytes + at, sizeof word);
        hash = (uint32_t)((hash ^ word ^ word >> 32) * 0x9e3779b1u) ^ hash >> 15;
    }
    return hash;
}

/* Layers are alike: an existing work is used again. */
static uint32_t
intern(struct builder *b, const struct mw_work *work, const struct draws *draws)
{
    uint32_t hash = hash_bytes(1, work, HEAD_BYTES);
    uint32_t *bucket;

    hash = hash_bytes(hash, tail_of(work), TAIL_BYTES);
    hash = hash_bytes(hash, work->products, products_bytes(work));
    hash = hash_bytes(hash, draws->draw, draws->count * sizeof *draws->draw);
    for (int probe = 0; probe < WORK_PROBES; probe++) {
        bucket = &b->work_table[(hash + probe) % WORK_TABLE];
        if (*bucket == MW_NONE)
            break;
        if (same_work(b->plan, &b->plan->works[*bucket], work, draws))
            return *bucket;
    }
    *bucket = mw_plan_add_work(b->plan, *work, draws->draw, draws->count);
    return *bucket;
}

/* Where the work is, or goes, that these words ask for; MW_NONE in it: nobody has asked yet.  They
 * say all that the program's works of their kind differ by. */
static uint32_t *
asked(struct builder *b, uint64_t what, uint64_t first, uint64_t second)
{
    uint64_t words[] = {what, first, second};
    struct asked_work *slot = &b->asked_works[hash_bytes(1, words, sizeof words) % ASKED_WORKS];

    if (memcmp(slot->words, words, sizeof words)) {
        memcpy(slot->words, words, sizeof words);
        slot->work = MW_NONE;
    }
    return &slot->work;
}

/* `other`: below 2^32. */
static uint64_t
what_is_asked(enum mw_op_kind kind, struct subject of, uint64_t other)
{
    return (uint64_t)kind | (uint64_t)of.object << 8 | (uint64_t)of.operator_ << 16 | other << 32;
}

static struct mw_work
blank_work(enum mw_op_kind kind, enum mw_object object, enum mw_operator operator_)
{
    struct mw_work work;

    memset(&work, 0, sizeof work); /* padding too: works are compared as bytes */
    work.kind = kind;
    work.object = object;
    work.operator_ = operator_;
    work.comm = MW_NONE;
    return work;
}

/* Of a part of an operator: one of so many tiles, which cut the rows of its matrices, and one of so
 * many chunks of the tokens. */
struct cut {
    int64_t tiles, chunks;
};

static struct mw_work_product
cut_product(const struct mw_work_product *whole, struct cut cut)
{
    struct mw_work_product product = *whole;

    product.m = MAX(1, product.m / cut.chunks);
    product.n = MAX(1, product.n / cut.tiles);
    return product;
}

/* Products `first` to `end` of the operator's forward, or of its backward. */
static void
set_products(struct mw_work *work, const struct mw_operator_info *info, bool backward,
             uint32_t first, uint32_t end, struct cut cut)
{
    struct mw_operator_info part = *info;

    part.product_count = end - first;
    for (uint32_t i = first; i < end; i++)
        part.products[i - first] = cut_product(&info->products[i], cut);
    work->product_count = part.product_count;
    memcpy(work->products, part.products, sizeof part.products);
    if (backward)
        work->product_count = mw_operator_backward_products(&part, work->products);
    work->attention = info->attention;
}

/* The same work with a pass more. */
static uint32_t
with_coded_bytes(struct builder *b, uint32_t plain, int64_t coded_bytes)
{
    struct mw_work work = b->plan->works[plain];
    struct draws draws = {.count = work.draw_count};

    memcpy(draws.draw, &b->plan->draws[work.draw_begin], draws.count * sizeof *draws.draw);
    work.coded_bytes = coded_bytes;
    work.launches++;
    return intern(b, &work, &draws);
}

/* The weights' gradients are the last of backward's work: as many products as forward has, a kernel
 * each, and the passes that nothing else needs.  The rest is the input's. */
static void
take_half(struct mw_work *work, const struct mw_operator_info *info, bool of_weights,
          struct cut cut)
{
    int64_t parts = cut.tiles * cut.chunks;
    int64_t flops = info->forward_flops / parts, bytes = info->weight_bytes / parts;
    struct mw_operator_info part = *info;

    for (uint32_t i = 0; i < info->product_count; i++)
        part.products[i] = cut_product(&info->products[i], cut);
    work->product_count = mw_operator_gradient_products(&part, of_weights, work->products);
    work->flops = of_weights ? flops : work->flops - flops;
    work->bytes = of_weights ? bytes : work->bytes - bytes;
    work->launches = of_weights ? info->product_count : work->launches - info->product_count;
    work->object = of_weights ? MW_OBJECT_GRADIENTS : MW_OBJECT_ACTIVATIONS;
}

/* Of attention in a ring: the kernels of one block of keys, or of all others. */
static void
take_blocks(struct mw_work *work, const struct mw_sizing *sizing, bool last)
{
    int64_t blocks = last ? 1 : sizing->cp - 1, bytes = work->bytes / sizing->cp;
    uint32_t kernels = work->launches / (uint32_t)sizing->cp;

    for (uint32_t i = 0; i < work->product_count; i++)
        work->products[i].count = work->products[i].count / sizing->cp * blocks;
    work->flops = work->flops / sizing->cp * blocks;
    work->bytes = last ? bytes : work->bytes - bytes;
    work->launches = last ? kernels : work->launches - kernels;
}

/* Of as many pieces of the tokens as there are slices all but one, or that one and, of backward,
 * the gradients of the weights. */
static void
take_pieces(struct mw_work *work, const struct mw_sizing *sizing,
            const struct mw_operator_info *info, bool backward, bool one)
{
    bool weights = backward && info->trained;
    int64_t slices = sizing->tp, others = slices - 1;
    int64_t flops = (work->flops - (weights ? info->forward_flops : 0)) / slices * others;
    int64_t bytes = (work->bytes - (weights ? info->weight_bytes : 0)) / slices * others;
    uint32_t of_weights = weights ? info->product_count : 0;
    uint32_t kernels = work->launches - MIN(of_weights, work->launches);
    uint32_t count =
        backward ? mw_operator_gradient_products(info, false, work->products) : work->product_count;

    for (uint32_t i = 0; i < count; i++) {
        work->products[i].m = MAX(1, work->products[i].m / slices);
        work->products[i].count *= one ? 1 : others;
    }
    if (one && weights)
        count += mw_operator_gradient_products(info, true, work->products + count);
    work->product_count = count;
    work->flops = one ? work->flops - flops : flops;
    work->bytes = one ? work->bytes - bytes : bytes;
    work->launches = one ? work->launches : kernels * (uint32_t)others;
}

/* Later they read again what a norm keeps and the gradient of its result. */
static void
add_norms(struct mw_work *work, const struct mw_operator_info *info, int64_t parts)
{
    int64_t norms = info->results_bytes - (info->product_count ? info->output_bytes : 0);

    work->bytes += 2 * norms / parts;
    work->launches += norms > 0;
}

/* As works say it. */
static double
fullest_of(double fullest)
{
    return fullest > 1 ? fullest : 0;
}

static uint32_t
plain_compute(struct builder *b, enum mw_class class, int operator_, enum pass pass, int64_t tiles)
{
    uint32_t *cached =
        &b->work_cache[(class * MW_LAYER_OPERATORS_MAX + operator_) * PASS_COUNT + pass];
    const struct mw_operator_info *info = &b->sizing->classes[class].operators[operator_];
    struct cut cut = {tiles, mw_sizing_token_parts(b->sizing, info->operator_)};
    int64_t parts = cut.tiles * cut.chunks;
    bool back_in_pieces = pass == PASS_BACK_OF_PIECES || pass == PASS_BACK_OF_PIECE;
    bool one_piece = pass == PASS_OF_PIECE || pass == PASS_BACK_OF_PIECE;
    bool backward =
        pass == PASS_BACKWARD || pass == PASS_OF_INPUT || pass == PASS_OF_WEIGHTS || back_in_pieces;

    if (*cached != MW_NONE)
        return *cached;
    struct mw_work work = blank_work(MW_OP_COMPUTE, MW_OBJECT_ACTIVATIONS, info->operator_);
    struct draws draws = {0};
    work.dtype = b->sizing->settings.dtype;
    work.flops = (backward ? info->backward_flops : info->forward_flops) / parts;
    set_products(&work, info, backward, 0, info->product_count, cut);
    work.bytes = (backward ? info->backward_bytes : info->forward_bytes) / parts;
    work.launches = info->launches;
    work.fullest =
        fullest_of(mw_sizing_expert_work(b->sizing, &b->sizing->classes[class], info->operator_));
    if (backward)
        work.launches = mw_operator_backward_launches(info);
    if (pass == PASS_OF_INPUT || pass == PASS_OF_WEIGHTS)
        take_half(&work, info, pass == PASS_OF_WEIGHTS, cut);
    if (pass == PASS_OF_BLOCKS || pass == PASS_OF_LAST_BLOCK)
        take_blocks(&work, b->sizing, pass == PASS_OF_LAST_BLOCK);
    if (back_in_pieces || one_piece || pass == PASS_OF_PIECES)
        take_pieces(&work, b->sizing, info, backward, one_piece);
    if (pass == PASS_OF_WEIGHTS && mw_sizing_weights_later(b->sizing, info))
        add_norms(&work, info, parts);
    draw(b, &draws, MW_CHANNEL_SM, ALL_MULTIPROCESSORS);
    *cached = intern(b, &work, &draws);
    return *cached;
}

uint32_t
mw_work_compute(struct builder *b, enum mw_class class, int operator_, enum pass pass,
                int64_t tiles, int64_t coded_bytes)
{
    uint32_t plain = plain_compute(b, class, operator_, pass, tiles);

    return coded_bytes ? with_coded_bytes(b, plain, coded_bytes) : plain;
}

/* The embedding's matrix is the first product; the rest are between its width and the model's. */
uint32_t
mw_work_tied_logits(struct builder *b, int operator_, bool backward, int64_t tiles,
                    enum tied_part part)
{
    const struct mw_operator_info *info = &b->sizing->classes[MW_CLASS_TAIL].operators[operator_];
    const struct mw_work_product *first = &info->products[0];
    int64_t all_flops = backward ? info->backward_flops : info->forward_flops;
    int64_t passes = backward ? 1 + info->trained : 1;
    int64_t weight_flops = passes * 2 * first->m * first->n * first->k;
    struct cut cut = {tiles, 1};
    struct mw_work work =
        blank_work(MW_OP_COMPUTE, MW_OBJECT_ACTIVATIONS,
                   part == TIED_WEIGHT ? MW_OPERATOR_LOGITS : MW_OPERATOR_PROJECTION);
    struct draws draws = {0};

    work.dtype = b->sizing->settings.dtype;
    work.launches = (uint32_t)passes;
    if (part == TIED_WEIGHT) {
        cut.chunks = mw_sizing_token_parts(b->sizing, info->operator_);
        work.flops = weight_flops / tiles / cut.chunks;
        set_products(&work, info, backward, 0, 1, cut);
    } else {
        work.flops = (all_flops - weight_flops) / tiles;
        set_products(&work, info, backward, 1, info->product_count, cut);
        work.bytes = (backward ? info->backward_bytes : info->forward_bytes) / tiles;
    }
    draw(b, &draws, MW_CHANNEL_SM, ALL_MULTIPROCESSORS);
    return intern(b, &work, &draws);
}

/* Host work takes compute from the device only if the profile says so. */
static void
draw_sm(struct builder *b, struct draws *draws, double share)
{
    if (share > 0)
        draw(b, draws, MW_CHANNEL_SM, ALL_MULTIPROCESSORS);
}

/* An owner's transfer leaves the other ranks' shares of the node idle: it draws 1/users of its
 * bytes on every shared channel, as if it had the whole channel. */
static int64_t
shared(const struct builder *b, enum mw_channel_kind kind, int64_t bytes, bool alone)
{
    return alone ? MAX(1, bytes / b->plan->channels[b->channel[kind]].users) : bytes;
}

/* Drive data passes through host memory twice: for the transfer, and for the checksum. */
static int64_t
checked(int64_t bytes)
{
    return 2 * bytes;
}

uint32_t
mw_work_copy(struct builder *b, enum mw_op_kind kind, struct subject of, int64_t bytes, bool alone)
{
    struct mw_work work = blank_work(kind, of.object, of.operator_);
    const struct mw_hardware *hardware = b->sizing->hardware;
    bool drive = mw_op_traits(kind)->agent == MW_AGENT_DRIVES;
    struct draws draws = {0};

    work.bytes = bytes;
    if (kind == MW_OP_H2D) {
        draw(b, &draws, MW_CHANNEL_PCIE_H2D, bytes);
        draw(b, &draws, MW_CHANNEL_NODE_H2D, shared(b, MW_CHANNEL_NODE_H2D, bytes, alone));
    } else if (kind == MW_OP_D2H) {
        draw(b, &draws, MW_CHANNEL_PCIE_D2H, bytes);
        draw(b, &draws, MW_CHANNEL_NODE_D2H, shared(b, MW_CHANNEL_NODE_D2H, bytes, alone));
    } else {
        draw(b, &draws, MW_CHANNEL_DRIVE, shared(b, MW_CHANNEL_DRIVE, bytes, alone));
    }
    draw(b, &draws, MW_CHANNEL_DRAM,
         shared(b, MW_CHANNEL_DRAM, drive ? checked(bytes) : bytes, alone));
    if (!drive && of.object == MW_OBJECT_CHECKPOINT && hardware->checkpoints_block)
        draw_sm(b, &draws, 1);
    else
        draw_sm(b, &draws, drive ? hardware->gpu_nvme_sm_share : hardware->gpu_copy_sm_share);
    return intern(b, &work, &draws);
}

/* Bytes that a rank sends in a ring of n members, for a tensor of `bytes`. */
static int64_t
ring_bytes(enum mw_op_kind kind, int64_t bytes, int64_t members)
{
    enum mw_pattern pattern = mw_op_traits(kind)->pattern;

    if (members <= 1)
        return 0;
    if (pattern == MW_PATTERN_SPREAD)
        return bytes;
    int64_t once = (double)bytes * (members - 1) / members;
    return pattern == MW_PATTERN_REDUCE ? 2 * once : once;
}

/* The same between nodes.  Of an all-to-all each rank of the node sends its own; blocks pass from
 * one rank to the next wherever that is. */
static int64_t
nic_bytes(enum mw_op_kind kind, int64_t bytes, int64_t nodes, const struct mw_comm_shape *group)
{
    bool each = mw_op_traits(kind)->pattern == MW_PATTERN_EXCHANGE;

    if (mw_op_traits(kind)->pattern == MW_PATTERN_PASS)
        return nodes > 1 ? ring_bytes(kind, bytes, group->size) : 0;

    return ring_bytes(kind, bytes, nodes) * (each ? group->ranks_per_node : 1);
}

static struct mw_work
collective(struct builder *b, enum mw_op_kind kind, struct subject of, uint32_t comm, int64_t bytes,
           struct draws *draws)
{
    struct mw_comm_shape group = mw_plan_comm_shape(b->plan, comm);
    int64_t nodes = mw_divide_up(group.size, group.ranks_per_node);
    struct mw_work work = blank_work(kind, of.object, of.operator_);

    work.comm = comm;
    work.bytes = bytes;
    if (group.size > 1) {
        draw(b, draws, MW_CHANNEL_SM, ALL_MULTIPROCESSORS);
        if (group.ranks_per_node > 1)
            draw(b, draws, MW_CHANNEL_FABRIC, ring_bytes(kind, bytes, group.size));
        draw(b, draws, MW_CHANNEL_NIC,
             nic_bytes(kind, bytes, nodes, &group) * group.groups_per_node /
                 b->sizing->ranks_per_node);
    }
    return work;
}

uint32_t
mw_work_collective(struct builder *b, enum mw_op_kind kind, struct subject of, uint32_t comm,
                   int64_t bytes)
{
    uint32_t *known = asked(b, what_is_asked(kind, of, comm), (uint64_t)bytes, 0);

    if (*known == MW_NONE) {
        struct draws draws = {0};
        struct mw_work work = collective(b, kind, of, comm, bytes, &draws);
        if (of.object == MW_OBJECT_ACTIVATIONS && mw_operator_row((int)of.operator_)->part_of)
            work.fullest = fullest_of(mw_sizing_imbalance(b->sizing));
        *known = intern(b, &work, &draws);
    }
    return *known;
}

uint32_t
mw_work_agree(struct builder *b, struct subject of, int64_t bytes, int64_t read_bytes)
{
    struct draws draws = {0};
    /* Where steps overlap, stages do not wait for each other: each has a norm of its own. */
    uint32_t comm = mw_settings_no_flush(&b->sizing->settings) ? b->dp_comm : b->world_comm;
    struct mw_work work = collective(b, MW_OP_AGREE, of, comm, bytes, &draws);

    draw(b, &draws, MW_CHANNEL_DRIVE, read_bytes);
    draw(b, &draws, MW_CHANNEL_DRAM, checked(read_bytes));
    return intern(b, &work, &draws);
}

uint32_t
mw_work_hop(struct builder *b, enum mw_op_kind kind, int32_t hop, int64_t bytes)
{
    struct mw_work work = blank_work(kind, MW_OBJECT_ACTIVATIONS, MW_OPERATOR_NONE);
    struct draws draws = {0};

    work.comm = b->pp_comm;
    work.hop = hop;
    uint32_t peer = mw_work_peer(b->plan, &work, b->rank);
    bool near = peer / b->plan->ranks_per_node == b->rank / b->plan->ranks_per_node;
    work.bytes = bytes;
    draw(b, &draws, MW_CHANNEL_SM, ALL_MULTIPROCESSORS);
    draw(b, &draws, near ? MW_CHANNEL_FABRIC : MW_CHANNEL_NIC, bytes);
    return intern(b, &work, &draws);
}

/* A pass of the host over `bytes`, which updates `params`. */
static void
draw_host(struct builder *b, struct draws *draws, int64_t bytes, int64_t params)
{
    draw(b, draws, MW_CHANNEL_DRAM, bytes);
    draw(b, draws, MW_CHANNEL_CORES, params);
    draw_sm(b, draws, b->sizing->hardware->gpu_host_sm_share);
}

/* Cores update so many parameters by AdamW while they move the bytes: what limits an update is
 * memory, or arithmetic in proportion. */
static int64_t
as_adamw(const struct builder *b, int64_t bytes)
{
    return bytes / (MW_UPDATE_STATE_BYTES + 2 * b->sizing->element_bytes);
}

/* Over gradients, before the update itself: with no norm there is no earlier op to make them in. */
static int
update_passes(const struct mw_sizing *sizing)
{
    return mw_settings_update_beside(&sizing->settings)
               ? mw_optimizer_row(sizing->settings.optimizer)->gradient_passes
               : 0;
}

uint32_t
mw_work_update(struct builder *b, const struct mw_chunk *chunk, bool host)
{
    struct mw_work work = blank_work(MW_OP_UPDATE, MW_OBJECT_STATE, MW_OPERATOR_NONE);
    struct draws draws = {0};
    int64_t state = chunk->state_bytes;
    int passes = update_passes(b->sizing);
    int64_t updates = mw_sizing_updates(b->sizing);
    int64_t element = (int64_t)mw_update_bytes(&b->sizing->settings, b->sizing->hardware, 0);
    int64_t bytes = updates * (2 * state + (element + passes * b->sizing->gradient_element_bytes) *
                                               chunk->params);
    struct mw_orthogonal orthogonal;

    mw_sizing_orthogonal(b->sizing, chunk, &orthogonal);
    work.dtype = MW_DTYPE_FP32;
    work.elements = chunk->params;
    work.host = host;
    work.flops = orthogonal.flops;
    memcpy(work.products, orthogonal.products, sizeof work.products);
    work.product_count = orthogonal.product_count;
    work.bytes = bytes + orthogonal.bytes;
    work.launches = host ? 0 : (uint32_t)(updates * (1 + passes) + orthogonal.launches);
    if (host)
        draw_host(b, &draws, bytes, as_adamw(b, bytes));
    else
        draw(b, &draws, MW_CHANNEL_SM, ALL_MULTIPROCESSORS);
    return intern(b, &work, &draws);
}

uint32_t
mw_work_accumulate(struct builder *b, enum mw_operator operator_, bool host, int64_t bytes,
                   int64_t elements)
{
    struct subject of = {MW_OBJECT_GRADIENTS, operator_};
    uint32_t *known =
        asked(b, what_is_asked(MW_OP_ACCUMULATE, of, host), (uint64_t)bytes, (uint64_t)elements);

    if (*known != MW_NONE)
        return *known;
    struct mw_work work = blank_work(MW_OP_ACCUMULATE, MW_OBJECT_GRADIENTS, operator_);
    struct draws draws = {0};

    work.host = host;
    work.elements = elements;
    work.launches = host ? 0 : 1;
    work.bytes = bytes;
    if (host)
        draw_host(b, &draws, bytes, 0);
    else
        draw(b, &draws, MW_CHANNEL_SM, ALL_MULTIPROCESSORS);
    *known = intern(b, &work, &draws);
    return *known;
}

uint32_t
mw_work_norm(struct builder *b, struct subject of, bool host, int64_t elements)
{
    struct mw_work work = blank_work(MW_OP_NORM, of.object, of.operator_);
    struct draws draws = {0};
    int passes =
        mw_optimizer_norm_passes(b->sizing->settings.optimizer, of.object == MW_OBJECT_GRADIENTS);
    int64_t updates = mw_sizing_updates(b->sizing); /* each has a norm of its own gradient */
    int64_t bytes = updates * passes * elements * b->sizing->gradient_element_bytes;

    work.host = host;
    work.elements = elements;
    work.launches = host ? 0 : (uint32_t)(updates * passes);
    work.bytes = bytes;
    if (host)
        draw_host(b, &draws, bytes, 0);
    return intern(b, &work, &draws);
}

uint32_t
mw_work_begin(struct builder *b)
{
    struct mw_work work = blank_work(MW_OP_BEGIN, MW_OBJECT_NONE, MW_OPERATOR_NONE);
    struct draws draws = {0};

    return intern(b, &work, &draws);
}

uint32_t
mw_work_commit(struct builder *b, int64_t record_bytes, int64_t saved_bytes)
{
    struct mw_work work = blank_work(MW_OP_COMMIT, MW_OBJECT_NONE, MW_OPERATOR_NONE);
    struct draws draws = {0};

    work.bytes = record_bytes + saved_bytes;
    if (saved_bytes) {
        draw(b, &draws, MW_CHANNEL_DRIVE, saved_bytes);
        draw(b, &draws, MW_CHANNEL_DRAM, checked(saved_bytes));
    }
    return intern(b, &work, &draws);
}
