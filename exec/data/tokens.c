/* Reads token files and texts, and makes batches. */
#include "exec/data/tokens.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/input.h"
#include "exec/data/mix.h"
#include "exec/host/checksum.h"

#define HEADER_WORDS 256 /* int32 */
#define HEADER_BYTES (HEADER_WORDS * 4)
#define SCAN_TOKENS 65536
#define SCAN_BYTES 65536

/* As llm.c's dev/data/data_common.py writes them. */
static const struct {
    int32_t magic, version;
    int token_bytes;
    const char *what;
} formats[] = {
    {20240520, 1, 2, "GPT-2"},
    {20240801, 7, 4, "Llama 3"},
};

struct mw_tokens {
    char *path;
    int fd;
    int64_t count, begin_bytes, vocab, seq, sequences;
    uint64_t seed;
    int token_bytes; /* 1: text */
};

/* --- opening --------------------------------------------------------------------------------- */

G_GNUC_PRINTF(4, 5)
static bool
refuse(const struct mw_tokens *tokens, enum mw_error code, GError **error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    g_autofree char *wrong = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error(error, MW_ERROR, (int)code, "%s: %s", tokens->path, wrong);
    return false;
}

static bool
read_bytes(const struct mw_tokens *tokens, int64_t offset_bytes, int64_t size_bytes, void *out,
           GError **error)
{
    return mw_input_read_at(tokens->fd, tokens->path, offset_bytes, size_bytes, out, error);
}

static int
find_format(int32_t magic)
{
    for (int i = 0; i < (int)G_N_ELEMENTS(formats); i++)
        if (formats[i].magic == magic)
            return i;
    return -1;
}

/* The header has the number of tokens, and the file must hold exactly as many. */
static bool
check_size(const struct mw_tokens *tokens, int64_t file_bytes, GError **error)
{
    int64_t bytes = file_bytes - HEADER_BYTES;

    if (tokens->count >= 0 && bytes == tokens->count * tokens->token_bytes)
        return true;
    return refuse(tokens, MW_ERROR_FORMAT, error,
                  "its header says %" G_GINT64_FORMAT
                  " tokens of %d bytes, it holds %" G_GINT64_FORMAT " bytes of them: %s",
                  tokens->count, tokens->token_bytes, bytes,
                  bytes < tokens->count * tokens->token_bytes ? "cut short"
                                                              : "must be a whole token file");
}

static bool
open_binary(struct mw_tokens *tokens, int64_t file_bytes, GError **error)
{
    int32_t header[3];

    if (file_bytes < HEADER_BYTES)
        return refuse(tokens, MW_ERROR_FORMAT, error,
                      "%" G_GINT64_FORMAT " bytes: a token file has a header of %d bytes (llm.c's "
                      "format): cut short",
                      file_bytes, HEADER_BYTES);
    if (!read_bytes(tokens, 0, sizeof header, header, error))
        return false;
    int format = find_format(GINT32_FROM_LE(header[0]));
    if (format < 0)
        return refuse(tokens, MW_ERROR_FORMAT, error,
                      "magic %d: must be a token file: %d (%s) or %d (%s)",
                      GINT32_FROM_LE(header[0]), formats[0].magic, formats[0].what,
                      formats[1].magic, formats[1].what);
    if (GINT32_FROM_LE(header[1]) != formats[format].version)
        return refuse(tokens, MW_ERROR_FORMAT, error, "version %d: must be %d with magic %d",
                      GINT32_FROM_LE(header[1]), formats[format].version, formats[format].magic);
    tokens->token_bytes = formats[format].token_bytes;
    tokens->count = GINT32_FROM_LE(header[2]);
    tokens->begin_bytes = HEADER_BYTES;
    return check_size(tokens, file_bytes, error);
}

/* The characters of a block may go on in the next one: *rest bytes of it, at most 3. */
static bool
check_text_block(const struct mw_tokens *tokens, const char *block, int64_t size_bytes,
                 int64_t at_bytes, bool last, int64_t *rest, GError **error)
{
    const char *end;

    *rest = 0;
    if (g_utf8_validate(block, (gssize)size_bytes, &end))
        return true;
    *rest = block + size_bytes - end;
    if (!last && *rest < 4 && g_utf8_get_char_validated(end, (gssize)*rest) == (gunichar)-2)
        return true;
    return refuse(tokens, MW_ERROR_FORMAT, error,
                  "byte %" G_GINT64_FORMAT ": must be UTF-8 text, or a token file named *.bin",
                  at_bytes + (end - block));
}

static bool
open_text(struct mw_tokens *tokens, int64_t file_bytes, GError **error)
{
    g_autofree char *block = g_malloc(SCAN_BYTES);
    int64_t rest = 0;

    tokens->token_bytes = 1;
    tokens->count = file_bytes;
    if (tokens->vocab < MW_TEXT_VOCAB)
        return refuse(
            tokens, MW_ERROR_INVALID, error,
            "text needs a vocabulary of %d (a token a byte), the model has %" G_GINT64_FORMAT,
            MW_TEXT_VOCAB, tokens->vocab);
    for (int64_t at = 0; at < file_bytes;) {
        int64_t size_bytes = MIN(SCAN_BYTES, file_bytes - at);
        if (!read_bytes(tokens, at, size_bytes, block, error) ||
            !check_text_block(tokens, block, size_bytes, at, at + size_bytes == file_bytes, &rest,
                              error))
            return false;
        at += size_bytes - rest;
    }
    return true;
}

static bool
open_file(struct mw_tokens *tokens, GError **error)
{
    struct stat status;
    int32_t magic = 0;

    tokens->fd = mw_input_open(tokens->path, MW_TOKENS_WANTED, error);
    if (tokens->fd < 0)
        return false;
    if (fstat(tokens->fd, &status))
        return refuse(tokens, MW_ERROR_IO, error, "%s", g_strerror(errno));
    if (status.st_size >= (off_t)sizeof magic &&
        !read_bytes(tokens, 0, sizeof magic, &magic, error))
        return false;
    if (g_str_has_suffix(tokens->path, ".bin") || find_format(GINT32_FROM_LE(magic)) >= 0)
        return open_binary(tokens, status.st_size, error);
    return open_text(tokens, status.st_size, error);
}

struct mw_tokens *
mw_tokens_open(const char *path, int64_t vocab, int64_t seq, uint64_t seed, GError **error)
{
    struct mw_tokens *tokens = g_new0(struct mw_tokens, 1);

    g_return_val_if_fail(vocab > 0 && seq > 0, NULL);
    *tokens = (struct mw_tokens){
        .path = g_strdup(path), .fd = -1, .vocab = vocab, .seq = seq, .seed = seed};
    bool good = open_file(tokens, error);
    tokens->sequences = tokens->count > 0 ? (tokens->count - 1) / seq : 0;
    if (good && !tokens->sequences)
        good = refuse(tokens, MW_ERROR_INVALID, error,
                      "%" G_GINT64_FORMAT " tokens: must be at least %" G_GINT64_FORMAT
                      ", one sequence of %" G_GINT64_FORMAT " and its last target",
                      tokens->count, seq + 1, seq);
    if (good)
        return tokens;
    mw_tokens_close(tokens);
    return NULL;
}

void
mw_tokens_close(struct mw_tokens *tokens)
{
    if (!tokens)
        return;
    if (tokens->fd >= 0)
        close(tokens->fd);
    g_free(tokens->path);
    g_free(tokens);
}

bool
mw_tokens_are_text(const struct mw_tokens *tokens)
{
    return tokens->token_bytes == 1;
}

int64_t
mw_tokens_count(const struct mw_tokens *tokens)
{
    return tokens->count;
}

/* --- tokens ---------------------------------------------------------------------------------- */

static uint32_t
token_at(const struct mw_tokens *tokens, const void *bytes, int64_t index)
{
    uint16_t narrow;
    uint32_t wide;

    switch (tokens->token_bytes) {
    case 1:
        return ((const uint8_t *)bytes)[index];
    case 2:
        memcpy(&narrow, (const char *)bytes + index * 2, sizeof narrow);
        return GUINT16_FROM_LE(narrow);
    default:
        memcpy(&wide, (const char *)bytes + index * 4, sizeof wide);
        return GUINT32_FROM_LE(wide);
    }
}

/* Tokens [first, first + count); out may be NULL: checked only.  `bytes` has room for 4 each. */
static bool
read_tokens(const struct mw_tokens *tokens, int64_t first, int64_t count, void *bytes, int32_t *out,
            GError **error)
{
    if (!read_bytes(tokens, tokens->begin_bytes + first * tokens->token_bytes,
                    count * tokens->token_bytes, bytes, error))
        return false;
    for (int64_t i = 0; i < count; i++) {
        uint32_t token = token_at(tokens, bytes, i);
        if (token >= tokens->vocab)
            return refuse(tokens, MW_ERROR_INVALID, error,
                          "token %" G_GINT64_FORMAT " is %u: must be below %" G_GINT64_FORMAT
                          ", the model's vocabulary",
                          first + i, token, tokens->vocab);
        if (out)
            out[i] = (int32_t)token;
    }
    return true;
}

bool
mw_tokens_check(const struct mw_tokens *tokens, GError **error)
{
    g_autofree uint32_t *bytes = g_new(uint32_t, SCAN_TOKENS);

    if (tokens->token_bytes == 1) /* text: checked when it was opened */
        return true;
    for (int64_t at = 0; at < tokens->count; at += SCAN_TOKENS)
        if (!read_tokens(tokens, at, MIN(SCAN_TOKENS, tokens->count - at), bytes, NULL, error))
            return false;
    return true;
}

#define SAMPLE_PIECES 64

bool
mw_tokens_sample(const struct mw_tokens *tokens, uint64_t *digest, GError **error)
{
    const int64_t all_bytes = tokens->count * tokens->token_bytes;
    const int64_t piece_bytes = MIN(SCAN_BYTES, all_bytes / SAMPLE_PIECES + 1);
    g_autofree char *piece = g_malloc((gsize)piece_bytes);
    struct mw_checksum *running = mw_checksum_begin();
    bool good = true;

    mw_checksum_add(running, &tokens->token_bytes, sizeof tokens->token_bytes);
    mw_checksum_add(running, &tokens->count, sizeof tokens->count);
    for (int64_t i = 0; good && i < SAMPLE_PIECES; i++) {
        int64_t at = i * (all_bytes - piece_bytes) / (SAMPLE_PIECES - 1);
        good = read_bytes(tokens, tokens->begin_bytes + at, piece_bytes, piece, error);
        if (good)
            mw_checksum_add(running, piece, piece_bytes);
    }
    *digest = mw_checksum_end(running);
    return good;
}

/* --- batches --------------------------------------------------------------------------------- */

static struct mw_cursor
cursor_after(const struct mw_tokens *tokens, struct mw_cursor cursor, int64_t sequences)
{
    int64_t to = cursor.sequence + sequences;

    cursor.epoch += to / tokens->sequences;
    cursor.sequence = to % tokens->sequences;
    return cursor;
}

struct mw_cursor
mw_tokens_advance(const struct mw_tokens *tokens, struct mw_cursor cursor, int64_t sequences)
{
    return cursor_after(tokens, cursor, sequences);
}

/* A permutation of [0, count): four rounds of a Feistel network on the next power of four, walked
 * until the result is in range (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002,
 * Sec. 3 and 4). */
static int64_t
permuted(int64_t index, int64_t count, uint64_t key)
{
    int half_bits = 1;

    while (half_bits < 31 && (int64_t)1 << (2 * half_bits) < count)
        half_bits++;
    uint64_t mask = ((uint64_t)1 << half_bits) - 1, x = (uint64_t)index;
    do {
        uint64_t left = x >> half_bits, right = x & mask;
        for (int round = 0; round < 4; round++) {
            uint64_t mixed = left ^ (mw_mix(key + (uint64_t)round + mw_mix(right)) & mask);
            left = right;
            right = mixed;
        }
        x = left << half_bits | right;
    } while (x >= (uint64_t)count);
    return (int64_t)x;
}

static int64_t
sequence_number(const struct mw_tokens *tokens, struct mw_cursor at)
{
    if (!tokens->seed)
        return at.sequence;
    return permuted(at.sequence, tokens->sequences,
                    mw_mix(mw_mix(tokens->seed) + (uint64_t)at.epoch));
}

/* The rank's tokens of a sequence, of which it has `own`, and their targets. */
static void
take_share(const struct mw_context_share *share, int64_t own, const int32_t *row, int32_t *inputs,
           int32_t *targets)
{
    struct mw_context_span spans[MW_CONTEXT_SPANS_MAX];
    int count = mw_context_spans(share, own, spans);

    for (int i = 0; i < count; i++) {
        size_t bytes = (size_t)spans[i].count * sizeof *row;
        memcpy(inputs + spans[i].at, row + spans[i].first, bytes);
        memcpy(targets + spans[i].at, row + spans[i].first + 1, bytes);
    }
}

bool
mw_tokens_batch(const struct mw_tokens *tokens, const struct mw_cursor *cursor,
                const struct mw_batch_place *place, int32_t *inputs, int32_t *targets,
                GError **error)
{
    int64_t seq = tokens->seq, own = seq / MAX(1, place->share.count);
    int64_t behind = (place->micro_batch * place->ranks + place->rank) * place->sequences;
    g_autofree uint32_t *bytes = g_new(uint32_t, seq + 1);
    g_autofree int32_t *row = g_new(int32_t, seq + 1);

    for (int64_t i = 0; i < place->sequences; i++) {
        struct mw_cursor at = cursor_after(tokens, *cursor, behind + i);
        if (!read_tokens(tokens, sequence_number(tokens, at) * seq, seq + 1, bytes, row, error))
            return false;
        take_share(&place->share, own, row, inputs + i * own, targets + i * own);
    }
    return true;
}
