/* Training data: what is read, in which order, and what is refused. */
#include "exec/data/tokens.h"

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "config.h"
#include "says.h"

#define GPT2 20240520
#define LLAMA3 20240801
#define COUNT 101 /* tokens of the files below: token i is i */
#define SEQ 10
#define SEQUENCES 10

struct fixture {
    char *path; /* of a file that the tests write */
    char *folder;
};

static void
set_up(struct fixture *fixture, gconstpointer name)
{
    fixture->folder = g_dir_make_tmp("memwall-tokens-XXXXXX", NULL);
    g_assert_nonnull(fixture->folder);
    fixture->path = g_build_filename(fixture->folder, name ? name : "data.bin", NULL);
}

static void
tear_down(struct fixture *fixture, gconstpointer name)
{
    g_unlink(fixture->path);
    g_rmdir(fixture->folder);
    g_free(fixture->path);
    g_free(fixture->folder);
}

static void
write_file(const struct fixture *fixture, const void *bytes, size_t size)
{
    g_assert_true(g_file_set_contents(fixture->path, bytes, (gssize)size, NULL));
}

/* A token file whose header says `said` tokens, with COUNT of them. */
static void
write_tokens(const struct fixture *fixture, int32_t magic, int32_t version, int32_t said,
             int token_bytes)
{
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    int32_t header[256] = {GINT32_TO_LE(magic), GINT32_TO_LE(version), GINT32_TO_LE(said)};

    g_byte_array_append(bytes, (const guint8 *)header, sizeof header);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t token = GUINT32_TO_LE(i);
        g_byte_array_append(bytes, (const guint8 *)&token, (guint)token_bytes);
    }
    write_file(fixture, bytes->data, bytes->len);
}

static struct mw_tokens *
open_tokens(const struct fixture *fixture, uint64_t seed)
{
    GError *error = NULL;
    struct mw_tokens *tokens = mw_tokens_open(fixture->path, COUNT, SEQ, seed, &error);

    g_assert_no_error(error);
    return tokens;
}

/* --- formats --------------------------------------------------------------------------------- */

/* Of an epoch. */
static void
assert_sequences(const struct mw_tokens *tokens, int64_t sequences)
{
    struct mw_cursor behind = mw_tokens_advance(tokens, (struct mw_cursor){0}, sequences);

    g_assert_cmpint(behind.epoch, ==, 1);
    g_assert_cmpint(behind.sequence, ==, 0);
}

static void
check_in_order(const struct mw_tokens *tokens)
{
    struct mw_cursor cursor = {0};
    struct mw_batch_place place = {.ranks = 1, .sequences = SEQUENCES};
    int32_t inputs[SEQUENCES * SEQ], targets[SEQUENCES * SEQ];
    GError *error = NULL;

    g_assert_true(mw_tokens_check(tokens, &error));
    g_assert_cmpint(mw_tokens_count(tokens), ==, COUNT);
    assert_sequences(tokens, SEQUENCES);
    g_assert_true(mw_tokens_batch(tokens, &cursor, &place, inputs, targets, &error));
    g_assert_no_error(error);
    for (int i = 0; i < SEQUENCES * SEQ; i++) {
        g_assert_cmpint(inputs[i], ==, i);
        g_assert_cmpint(targets[i], ==, i + 1);
    }
}

static void
test_formats(struct fixture *fixture, gconstpointer name)
{
    write_tokens(fixture, GPT2, 1, COUNT, 2);
    struct mw_tokens *tokens = open_tokens(fixture, 0);
    check_in_order(tokens);
    mw_tokens_close(tokens);
    write_tokens(fixture, LLAMA3, 7, COUNT, 4);
    tokens = open_tokens(fixture, 0);
    check_in_order(tokens);
    mw_tokens_close(tokens);
}

static void
test_text(struct fixture *fixture, gconstpointer name)
{
    static const char text[] = "h\xc3\xa9llo w\xf0\x9f\x99\x82rld";
    GError *error = NULL;
    int32_t inputs[6], targets[6];
    struct mw_cursor cursor = {.sequence = 1};
    struct mw_batch_place place = {.ranks = 1, .sequences = 1};

    write_file(fixture, text, strlen(text));
    struct mw_tokens *tokens = mw_tokens_open(fixture->path, MW_TEXT_VOCAB, 6, 0, &error);
    g_assert_no_error(error);
    assert_sequences(tokens, 2);
    g_assert_true(mw_tokens_check(tokens, &error));
    g_assert_true(mw_tokens_batch(tokens, &cursor, &place, inputs, targets, &error));
    for (int i = 0; i < 6; i++) {
        g_assert_cmpint(inputs[i], ==, (uint8_t)text[6 + i]);
        g_assert_cmpint(targets[i], ==, (uint8_t)text[7 + i]);
    }
    mw_tokens_close(tokens);
}

/* A character across the border of two of the blocks in which the text is checked. */
static void
test_long_text(struct fixture *fixture, gconstpointer name)
{
    for (int before = 65530; before < 65540; before++) {
        g_autoptr(GString) text = g_string_new(NULL);
        for (int i = 0; i < before; i++)
            g_string_append_c(text, 'a');
        g_string_append(text, "\xf0\x9f\x99\x82 and more");
        write_file(fixture, text->str, text->len);
        GError *error = NULL;
        struct mw_tokens *tokens = mw_tokens_open(fixture->path, 256, 8, 0, &error);
        g_assert_no_error(error);
        mw_tokens_close(tokens);
        g_string_truncate(text, (gsize)before + 2);
        write_file(fixture, text->str, text->len);
        g_assert_null(mw_tokens_open(fixture->path, 256, 8, 0, &error));
        mw_test_error_says(error, "must be UTF-8 text", fixture->path);
    }
}

/* The text that comes with memwall. */
static void
test_own_text(void)
{
    GError *error = NULL;
    struct mw_tokens *tokens =
        mw_tokens_open(MW_SOURCE_DIR "/data/psalms-proverbs.txt", 256, 256, 1, &error);

    g_assert_no_error(error);
    g_assert_cmpint(mw_tokens_advance(tokens, (struct mw_cursor){0}, 1000).epoch, ==, 0);
    mw_tokens_close(tokens);
}

/* --- order ----------------------------------------------------------------------------------- */

/* First tokens of the sequences that a step takes, in the run's order. */
static void
take_step(const struct mw_tokens *tokens, struct mw_cursor cursor, int64_t ranks,
          int64_t micro_batches, int64_t sequences, int32_t *first)
{
    g_autofree int32_t *inputs = g_new(int32_t, sequences * SEQ);
    g_autofree int32_t *targets = g_new(int32_t, sequences * SEQ);

    for (int64_t m = 0; m < micro_batches; m++)
        for (int64_t r = 0; r < ranks; r++) {
            struct mw_batch_place place = {
                .rank = r, .ranks = ranks, .micro_batch = m, .sequences = sequences};
            g_assert_true(mw_tokens_batch(tokens, &cursor, &place, inputs, targets, NULL));
            for (int64_t i = 0; i < sequences; i++)
                *first++ = inputs[i * SEQ];
        }
}

/* Steps of 12 sequences, cut in three ways over ranks and micro-batches; over the epoch's end. */
static void
test_same_data(struct fixture *fixture, gconstpointer name)
{
    static const int64_t cuts[][3] = {{1, 1, 12}, {2, 3, 2}, {4, 1, 3}};

    write_tokens(fixture, GPT2, 1, COUNT, 2);
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct mw_tokens *tokens = open_tokens(fixture, seed);
        struct mw_cursor cursor = {0};
        for (int step = 0; step < 5; step++) {
            int32_t first[G_N_ELEMENTS(cuts)][12];
            for (size_t c = 0; c < G_N_ELEMENTS(cuts); c++) {
                take_step(tokens, cursor, cuts[c][0], cuts[c][1], cuts[c][2], first[c]);
                g_assert_cmpmem(first[c], sizeof first[c], first[0], sizeof first[0]);
            }
            cursor = mw_tokens_advance(tokens, cursor, 12);
        }
        g_assert_cmpint(cursor.epoch, ==, 6);
        g_assert_cmpint(cursor.sequence, ==, 0);
        mw_tokens_close(tokens);
    }
}

/* Ranks that share sequences have all their tokens between them, each as many, and the targets of
 * these: in a ring chunks from either end. */
static void
check_share(const struct mw_tokens *tokens, uint32_t rank, enum mw_context kind)
{
    static const int firsts[MW_CONTEXT_COUNT][2][2] = {
        [MW_CONTEXT_RING] = {{0, 6}, {2, 4}},
        [MW_CONTEXT_ALL_TO_ALL] = {{0, 2}, {4, 6}},
    };
    int32_t inputs[16], targets[16], own[8], behind[8];
    struct mw_batch_place place = {.ranks = 1, .sequences = 2};
    struct mw_cursor cursor = {0};

    g_assert_true(mw_tokens_batch(tokens, &cursor, &place, inputs, targets, NULL));
    place.share = (struct mw_context_share){2, rank, (uint8_t)kind};
    g_assert_true(mw_tokens_batch(tokens, &cursor, &place, own, behind, NULL));
    for (int i = 0; i < 8; i++) {
        int at = i / 4 * 8 + firsts[kind][rank][i % 4 / 2] + i % 2;
        g_assert_cmpint(own[i], ==, inputs[at]);
        g_assert_cmpint(behind[i], ==, targets[at]);
    }
}

static void
test_share(struct fixture *fixture, gconstpointer name)
{
    write_tokens(fixture, GPT2, 1, COUNT, 2);
    struct mw_tokens *tokens = mw_tokens_open(fixture->path, COUNT, 8, 3, NULL);

    for (uint32_t rank = 0; rank < 2; rank++) {
        check_share(tokens, rank, MW_CONTEXT_RING);
        check_share(tokens, rank, MW_CONTEXT_ALL_TO_ALL);
    }
    mw_tokens_close(tokens);
}

/* Every sequence once an epoch; another order in each epoch and for each seed. */
static void
test_shuffled(struct fixture *fixture, gconstpointer name)
{
    int32_t orders[4][SEQUENCES];

    write_tokens(fixture, GPT2, 1, COUNT, 2);
    for (int i = 0; i < 4; i++) {
        struct mw_tokens *tokens = open_tokens(fixture, 1 + (uint64_t)i / 2);
        bool seen[SEQUENCES] = {false};
        take_step(tokens, (struct mw_cursor){.epoch = i % 2}, 1, 1, SEQUENCES, orders[i]);
        for (int j = 0; j < SEQUENCES; j++) {
            g_assert_cmpint(orders[i][j] % SEQ, ==, 0);
            g_assert_false(seen[orders[i][j] / SEQ]);
            seen[orders[i][j] / SEQ] = true;
        }
        for (int j = 0; j < i; j++)
            g_assert_true(memcmp(orders[i], orders[j], sizeof orders[i]));
        mw_tokens_close(tokens);
    }
}

/* A run that stops and goes on sees what one that does not stop sees. */
static void
test_cursor(struct fixture *fixture, gconstpointer name)
{
    int32_t there, again;

    write_tokens(fixture, GPT2, 1, COUNT, 2);
    struct mw_tokens *tokens = open_tokens(fixture, 5);
    struct mw_cursor cursor = {0};
    for (int64_t i = 0; i < 35; i++) {
        struct mw_cursor jump = mw_tokens_advance(tokens, (struct mw_cursor){0}, i);
        g_assert_cmpint(jump.epoch, ==, cursor.epoch);
        take_step(tokens, jump, 1, 1, 1, &there);
        take_step(tokens, cursor, 1, 1, 1, &again);
        g_assert_cmpint(there, ==, again);
        cursor = mw_tokens_advance(tokens, cursor, 1);
    }
    mw_tokens_close(tokens);
}

/* --- refused --------------------------------------------------------------------------------- */

static void
test_refused(struct fixture *fixture, gconstpointer name)
{
    static const struct {
        int32_t magic, version, said;
        int token_bytes;
        const char *a, *b;
    } rows[] = {
        {GPT2 + 1, 1, COUNT, 2, "magic 20240521", "20240520 (GPT-2) or 20240801 (Llama 3)"},
        {GPT2, 2, COUNT, 2, "version 2", "must be 1"},
        {LLAMA3, 1, COUNT, 4, "version 1", "must be 7"},
        {GPT2, 1, COUNT + 1, 2, "its header says 102 tokens of 2 bytes", "cut short"},
        {GPT2, 1, COUNT - 1, 2, "it holds 202 bytes", "must be a whole token file"},
        {GPT2, 1, -1, 2, "its header says -1 tokens", "must be a whole token file"},
        {LLAMA3, 7, COUNT, 2, "101 tokens of 4 bytes", "cut short"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        GError *error = NULL;
        write_tokens(fixture, rows[i].magic, rows[i].version, rows[i].said, rows[i].token_bytes);
        g_assert_null(mw_tokens_open(fixture->path, COUNT, SEQ, 0, &error));
        mw_test_error_says(error, rows[i].a, rows[i].b);
    }
}

static void
test_cut_short(struct fixture *fixture, gconstpointer name)
{
    GError *error = NULL;
    int32_t inputs[SEQ], targets[SEQ];
    struct mw_cursor last = {.sequence = SEQUENCES - 1};
    struct mw_batch_place place = {.ranks = 1, .sequences = 1};

    g_assert_null(mw_tokens_open(fixture->path, COUNT, SEQ, 0, &error));
    mw_test_error_says(error, fixture->path, "No such file");
    error = NULL;
    g_assert_null(mw_tokens_open(fixture->folder, COUNT, SEQ, 0, &error));
    mw_test_error_says(error, fixture->folder, "is a folder: must be UTF-8 text");
    for (size_t size = 0; size < 1024; size += 341) {
        error = NULL;
        write_file(fixture, (char[1024]){0}, size);
        g_assert_null(mw_tokens_open(fixture->path, COUNT, SEQ, 0, &error));
        mw_test_error_says(error, "a header of 1024", "cut short");
    }
    error = NULL;
    write_tokens(fixture, GPT2, 1, COUNT, 2);
    struct mw_tokens *tokens = open_tokens(fixture, 0);
    g_assert_cmpint(truncate(fixture->path, 1024 + 2 * COUNT - 1), ==, 0);
    g_assert_false(mw_tokens_batch(tokens, &last, &place, inputs, targets, &error));
    mw_test_error_says(error, fixture->path, "cut short since it was opened");
    mw_tokens_close(tokens);
}

static void
test_vocabulary(struct fixture *fixture, gconstpointer name)
{
    GError *error = NULL;
    int32_t inputs[SEQ], targets[SEQ];
    struct mw_batch_place place = {.ranks = 1, .sequences = 1};
    struct mw_cursor cursor = {.sequence = 4};

    write_tokens(fixture, LLAMA3, 7, COUNT, 4);
    struct mw_tokens *tokens = mw_tokens_open(fixture->path, 50, SEQ, 0, &error);
    g_assert_no_error(error);
    g_assert_false(mw_tokens_check(tokens, &error));
    mw_test_error_says(error, fixture->path,
                       "token 50 is 50: must be below 50, the model's vocabulary");
    error = NULL;
    g_assert_false(mw_tokens_batch(tokens, &cursor, &place, inputs, targets, &error));
    mw_test_error_says(error, fixture->path, "token 50 is 50: must be below 50"); /* a target */
    cursor.sequence = 3;
    error = NULL;
    g_assert_true(mw_tokens_batch(tokens, &cursor, &place, inputs, targets, &error));
    mw_tokens_close(tokens);
    g_assert_null(mw_tokens_open(fixture->path, COUNT, COUNT, 0, &error));
    mw_test_error_says(error, "101 tokens: must be at least 102", "one sequence of 101");
}

static void
test_text_refused(struct fixture *fixture, gconstpointer name)
{
    static const struct {
        const char *text;
        gssize length;
        int64_t vocab;
        const char *a, *b;
    } rows[] = {
        {"hello world", 11, 255, "needs a vocabulary of 256", "has 255"},
        {"hello", 5, 256, "5 tokens", "at least 6"},
        {"", 0, 256, "0 tokens", "at least 6"},
        {"hello\xffworld", 11, 256, "byte 5", "must be UTF-8 text"},
        {"hello\0world", 11, 256, "byte 5", "must be UTF-8 text"},
        {"hello w\xc3", 8, 256, "byte 7", "must be UTF-8 text"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        GError *error = NULL;
        write_file(fixture, rows[i].text, (size_t)rows[i].length);
        g_assert_null(mw_tokens_open(fixture->path, rows[i].vocab, 5, 0, &error));
        mw_test_error_says(error, rows[i].a, rows[i].b);
    }
}

#define LONG_BYTES 1000000

static uint64_t
sample_of(const struct fixture *fixture)
{
    g_autoptr(GError) error = NULL;
    struct mw_tokens *tokens = mw_tokens_open(fixture->path, 1000, SEQ, 0, &error);
    uint64_t digest = 0;

    g_assert_no_error(error);
    g_assert_true(mw_tokens_sample(tokens, &digest, &error));
    mw_tokens_close(tokens);
    return digest;
}

/* Every byte of a small file counts; of a long one its length and what it is as a whole. */
static void
test_sample(struct fixture *fixture, gconstpointer name)
{
    char text[] = "one two three four five six seven eight nine ten eleven twelve thirteen";
    g_autofree char *much = g_strnfill(LONG_BYTES, 'a');

    (void)name;
    write_file(fixture, text, sizeof text - 1);
    const uint64_t first = sample_of(fixture);
    g_assert_true(sample_of(fixture) == first);
    for (size_t i = 0; i < sizeof text - 1; i++) {
        text[i] ^= 1;
        write_file(fixture, text, sizeof text - 1);
        g_assert_false(sample_of(fixture) == first);
        text[i] ^= 1;
    }
    write_file(fixture, much, LONG_BYTES);
    const uint64_t whole = sample_of(fixture);
    write_file(fixture, much, LONG_BYTES - 1);
    g_assert_false(sample_of(fixture) == whole);
    much[0] = much[LONG_BYTES - 1] = 'b';
    write_file(fixture, much, LONG_BYTES);
    g_assert_false(sample_of(fixture) == whole);
}

#define FILES(path, test, name) g_test_add(path, struct fixture, name, set_up, test, tear_down)

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    FILES("/tokens/formats", test_formats, "data.bin");
    FILES("/tokens/formats-by-magic", test_formats, "data.tokens");
    FILES("/tokens/text", test_text, "data.txt");
    FILES("/tokens/long-text", test_long_text, "data.txt");
    g_test_add_func("/tokens/own-text", test_own_text);
    FILES("/tokens/same-data", test_same_data, "data.bin");
    FILES("/tokens/share", test_share, "data.bin");
    FILES("/tokens/shuffled", test_shuffled, "data.bin");
    FILES("/tokens/cursor", test_cursor, "data.bin");
    FILES("/tokens/refused", test_refused, "data.bin");
    FILES("/tokens/cut-short", test_cut_short, "data.bin");
    FILES("/tokens/vocabulary", test_vocabulary, "data.bin");
    FILES("/tokens/text-refused", test_text_refused, "data.txt");
    FILES("/tokens/sample", test_sample, "data.txt");
    return g_test_run();
}
