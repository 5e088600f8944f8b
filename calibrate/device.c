/* Opens the device that is measured, and chooses sizes for it. */
#include "calibrate/internal.h"
#include "exec/device/cpu/cache.h"

#define KIB (INT64_C(1) << 10)
#define MIB (INT64_C(1) << 20)
#define HOST_ARENA_BYTES (256 * MIB)
#define QUICK_HOST_ARENA_BYTES (24 * MIB)
#define PAGE_BYTES 4096 /* the sum of the losses takes one page */
#define VOCAB 50257     /* that of GPT-2 */
#define STATE_BYTES 16  /* per parameter of an update: w, m and v, the parameter, its gradient */
/* Of GPT-2 124M.  Operands that lie a power of two apart share sets of caches and banks of memory,
 * which those of no model do. */
#define LAYER_PARAMS 7087872
#define LINE 32 /* elements of a cache line; pads rows of logits, as in a run */

static const int64_t cores_sizes[] = {64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048};
static const int64_t apart_sizes[] = {128,  256,  384,  512,  768,  1024,
                                      1536, 2048, 3072, 4096, 6144, 8192};
static const int64_t cores_seqs[] = {64, 128, 256, 512, 1024, 2048};
static const int64_t apart_seqs[] = {128, 256, 512, 1024, 2048, 4096, 8192};
static const int64_t apart_messages[] = {64 * KIB, MIB, 8 * MIB, 64 * MIB, 256 * MIB};
G_STATIC_ASSERT(G_N_ELEMENTS(apart_messages) <= MW_CALIBRATION_MESSAGES_MAX);
G_STATIC_ASSERT(G_N_ELEMENTS(apart_sizes) <= MW_MATMUL_POINTS_MAX);

/* Sizes of GPT-2 124M with 1024 tokens. */
static const struct mw_calibrate_scale cores = {
    .arena_bytes = 256 * MIB,
    .sizes = cores_sizes,
    .product_points = G_N_ELEMENTS(cores_sizes),
    .beside = 768,
    .product_s = 4e-3,
    .launch_s = 1e-3, /* shorter than a scheduler's slice: some pieces contain no wait */
    .rows = 1024,
    .columns = 768,
    .loss_rows = 128,
    .loss_stride = VOCAB,
    .layer_rows = 1024,
    .layer_seq = 1024,
    .layer_columns = 768,
    .attention_tokens = 1024,
    .attention_columns = 768,
    .seqs = cores_seqs,
    .seq_points = G_N_ELEMENTS(cores_seqs),
    .params = 2 * LAYER_PARAMS,
    .copy_bytes = 32 * MIB,
    .handoffs = 1000,
};

/* 16 times the tokens, so that operands exceed any cache of a GPU, and clocks are those of a device
 * under load. */
static const struct mw_calibrate_scale apart = {
    .arena_bytes = 2048 * MIB,
    .sizes = apart_sizes,
    .product_points = G_N_ELEMENTS(apart_sizes),
    .beside = 4096,
    .product_s = 2e-2,
    .launch_s = 1e-2,
    .warm_s = 2,
    .rows = 16384,
    .columns = 768,
    .loss_rows = 2048,
    .loss_stride = (VOCAB + LINE - 1) / LINE * LINE,
    .layer_rows = 16384,
    .layer_seq = 1024,
    .layer_columns = 768,
    .attention_tokens = 16384,
    .attention_columns = 768,
    .seqs = apart_seqs,
    .seq_points = G_N_ELEMENTS(apart_seqs),
    .device_params = 64 << 20,
    .params = 2 * LAYER_PARAMS,
    .copy_bytes = 32 * MIB,
    .handoffs = 64,
    .messages = apart_messages,
    .message_points = G_N_ELEMENTS(apart_messages),
};

#define QUICK                                                                                      \
    .arena_bytes = 24 * MIB, .product_points = 4, .beside = 128, .product_s = 4e-3,                \
    .launch_s = 1e-4, .rows = 64, .columns = 128, .loss_rows = 8, .layer_rows = 128,               \
    .layer_seq = 128, .layer_columns = 128, .attention_columns = 128, .seq_points = 2,             \
    .params = 1 << 16, .copy_bytes = MIB, .handoffs = 20

static const struct mw_calibrate_scale quick_cores = {QUICK, .sizes = cores_sizes,
                                                      .seqs = cores_seqs, .loss_stride = VOCAB};
static const struct mw_calibrate_scale quick_apart = {
    QUICK,
    .sizes = apart_sizes,
    .seqs = apart_seqs,
    .loss_stride = (VOCAB + LINE - 1) / LINE * LINE,
    .device_params = 1 << 16,
    .messages = apart_messages,
    .message_points = 2,
};

const struct mw_calibrate_scale *
mw_calibrate_scale(bool is_apart, bool quick)
{
    if (is_apart)
        return quick ? &quick_apart : &apart;
    return quick ? &quick_cores : &cores;
}

/* --- life ------------------------------------------------------------------------------------ */

/* A cosine and a sine for each pair of a head's elements, in fp32. */
static int64_t
angles_bytes(const struct mw_calibrator *c)
{
    return mw_calibrate_angles(c->scale) * (int64_t)sizeof(float);
}

/* Bytes after the arena that all operands move through: angles, targets of the loss and, on a
 * device that copies while it computes, the data that is copied. */
static int64_t
behind_bytes(const struct mw_calibrator *c)
{
    return angles_bytes(c) + 4 * c->scale->loss_rows +
           (c->backend->apart ? 2 * c->scale->copy_bytes : 0);
}

static void
place(struct mw_calibrator *c, char *device, char *host)
{
    int64_t arena = c->scale->arena_bytes, copy = c->scale->copy_bytes;

    c->device = (struct mw_arena){.base = device, .bytes = arena};
    c->host = (struct mw_arena){.base = host, .bytes = c->memory.bytes - PAGE_BYTES};
    c->loss = (double *)(void *)(host + c->host.bytes);
    for (int to_host = 0; to_host < 2; to_host++) {
        c->ends[to_host].device = c->backend->apart ? device + arena + to_host * copy : device;
        c->ends[to_host].host = c->backend->apart ? host + to_host * (c->host.bytes / 2) : host;
    }
    char *targets = device + arena + behind_bytes(c) - 4 * c->scale->loss_rows;
    c->targets = (int32_t *)(void *)targets;
    c->angles = (float *)(void *)(targets - angles_bytes(c));
}

static bool
pin(struct mw_calibrator *c, GError **error)
{
    if (!c->backend->pin)
        return true;
    c->memory.pinned = c->backend->pin(c->handle, c->memory.base, c->memory.bytes, error);
    return c->memory.pinned;
}

/* A rank that sees a single device uses that one. */
static void
describe(struct mw_calibrator *c, struct mw_calibration *out)
{
    struct mw_backend_device device = {.name = "unknown"};
    const struct mw_ranks *ranks = c->options->ranks;

    out->backend = c->backend->name;
    out->dtype = c->options->dtype;
    out->apart = c->backend->apart;
    if (!out->apart)
        return;
    if (!c->backend->describe(ranks ? mw_ranks_node_index(ranks) : 0, &device, NULL))
        c->backend->describe(0, &device, NULL);
    g_strlcpy(out->device, device.name, sizeof out->device);
    if (c->backend->direct_storage)
        out->direct_storage = c->backend->direct_storage();
}

/* --- size of the memory ---------------------------------------------------------------------- */

/* A system whose cores are busy, or a virtual machine that must be given each page, takes seconds
 * for memory that others provide in a tenth of a second. */
#define PROBE_BYTES (16 * MIB)
#define ARENAS_PART 0.1 /* part of the budget */
#define ARENA_LEAST_BYTES (128 * MIB)

int64_t
mw_calibrate_arena_bytes(int64_t wished_bytes, double s_per_byte, double most_s)
{
    int64_t bytes = wished_bytes;

    while (bytes / 2 >= ARENA_LEAST_BYTES && (double)bytes * s_per_byte > most_s)
        bytes /= 2;
    return bytes;
}

static bool
probe(double *s_per_byte, GError **error)
{
    struct mw_arena arena = {0};
    const double began_s = mw_calibrate_now_s();

    if (!mw_arena_reserve(&arena, "calibrate", PROBE_BYTES, error))
        return false;
    *s_per_byte = (mw_calibrate_now_s() - began_s) / PROBE_BYTES;
    mw_arena_release(&arena);
    return true;
}

#define CACHES 4          /* times the caches' size: nothing of the last use is left in them */
#define MEMORY_PART 0.125 /* of the machine's, at most, for that */

int64_t
mw_calibrate_beyond_caches(int64_t cache_bytes, int64_t memory_bytes, int ranks)
{
    int64_t bytes = MIN(CACHES * cache_bytes, (int64_t)(MEMORY_PART * (double)memory_bytes));

    return bytes / ranks / MIB * MIB;
}

/* For cores: sizes of both arenas, and of the data that moves through them. */
static bool
choose_arenas(struct mw_calibrator *c, struct mw_calibration *out, int64_t *host, GError **error)
{
    struct mw_calibrate_scale *own = &c->own_scale;
    const struct mw_ranks *ranks = c->options->ranks;
    int64_t beyond = mw_calibrate_beyond_caches(mw_cpu_last_cache_bytes(), out->memory_bytes,
                                                ranks ? mw_ranks_node_count(ranks) : 1);
    double s_per_byte = 0;

    *host = c->options->quick ? QUICK_HOST_ARENA_BYTES : MAX(HOST_ARENA_BYTES, beyond);
    out->arena_bytes = out->arena_bytes_wished = c->scale->arena_bytes;
    if (c->options->quick || c->backend->apart)
        return true;
    out->arena_bytes_wished = MAX(c->scale->arena_bytes, beyond);
    if (!probe(&s_per_byte, error) || !mw_calibrate_agree(c, &s_per_byte, error))
        return false;
    *own = *c->scale;
    c->scale = own;
    own->arena_bytes = mw_calibrate_arena_bytes(out->arena_bytes_wished, s_per_byte,
                                                ARENAS_PART * out->budget_s / 2);
    *host = MIN(*host, own->arena_bytes);
    own->params = MIN(own->params, *host / STATE_BYTES / 2);
    out->arena_bytes = own->arena_bytes;
    return true;
}

static bool
reserve(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    int64_t host;
    const struct mw_ranks *ranks = c->options->ranks;
    struct mw_backend_options options = {.dtype = c->options->dtype,
                                         .threads = c->cores,
                                         .node_rank = ranks ? mw_ranks_node_index(ranks) : 0,
                                         .node_ranks = ranks ? mw_ranks_node_count(ranks) : 1};
    void *device = NULL;

    if (!choose_arenas(c, out, &host, error))
        return false;
    c->handle = c->backend->open(&options, c->scale->arena_bytes + behind_bytes(c), &device, error);
    if (!c->handle || !mw_arena_reserve(&c->memory, "calibrate: host", host + PAGE_BYTES, error) ||
        !pin(c, error))
        return false;
    c->kernels = c->backend->kernels;
    c->on = c->backend->enter(c->handle);
    place(c, device, c->memory.base);
    return mw_calibrate_fill(c, error);
}

static bool
warm(struct mw_calibrator *c, GError **error)
{
    struct mw_calibrate_products products = {.c = c};
    struct mw_calibrate_work work = mw_calibrate_products_work(&products);

    if (!(c->scale->warm_s > 0))
        return true;
    if (!mw_calibrate_begin(c, MW_CALIBRATE_WARM, "the device at work", 1, error))
        return false;
    mw_calibrate_rate(&work, MIN(c->scale->warm_s, mw_calibrate_share_s(c)));
    return true;
}

bool
mw_calibrate_open_device(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    if (!reserve(c, out, error))
        return false;
    describe(c, out);
    return warm(c, error);
}

bool
mw_calibrate_memory_beside(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    int64_t left = 0;

    if (!c->backend->memory_left)
        return true;
    if (!c->backend->memory_left(c->handle, &left, &out->device_bytes, error))
        return false;
    out->device_taken_bytes = out->device_bytes - left - c->device.bytes - behind_bytes(c);
    return true;
}

void
mw_calibrate_close_device(struct mw_calibrator *c)
{
    if (c->memory.pinned)
        c->backend->unpin(c->handle, c->memory.base);
    if (c->handle)
        c->backend->close(c->handle);
    mw_arena_release(&c->memory);
}
