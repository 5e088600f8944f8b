/* The NVMe tier when nothing goes wrong: what is written is read, wherever it lies. */
#include <glib.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/nvme/internal.h"
#include "nvme_faults.h"
#include "nvme_fixture.h"
#include "says.h"

enum { PAGE = 4096, SLOTS = 6 };

static struct mw_nvme *
open_tier(const struct mw_nvme_options *options)
{
    GError *error = NULL;
    struct mw_nvme *nvme = mw_nvme_open(options, &error);

    g_assert_no_error(error);
    g_assert_nonnull(nvme);
    return nvme;
}

/* --- stripes --- */

/* Every byte once, on the drive and at the place that the definition says. */
static void
check_cover(const struct mw_nvme_layout *layout, int64_t from_bytes, int64_t end_bytes)
{
    int64_t covered_bytes = 0;

    for (int drive = 0; drive < layout->drives; drive++) {
        int64_t at = from_bytes;
        struct mw_nvme_piece piece;

        while (mw_nvme_stripe_next(layout, drive, at, end_bytes, &piece)) {
            const int64_t stripe = piece.logical_bytes / layout->stripe_bytes;

            g_assert_cmpint(piece.bytes, >, 0);
            g_assert_cmpint(piece.bytes, <=, layout->block_bytes);
            g_assert_cmpint(piece.logical_bytes, >=, at);
            if (layout->drives > 1) {
                g_assert_cmpint(stripe % layout->drives, ==, drive);
                g_assert_cmpint((piece.logical_bytes + piece.bytes - 1) / layout->stripe_bytes, ==,
                                stripe);
                g_assert_cmpint(piece.drive_bytes, ==,
                                stripe / layout->drives * layout->stripe_bytes +
                                    piece.logical_bytes % layout->stripe_bytes);
            }
            g_assert_cmpint(piece.drive_bytes + piece.bytes, <=,
                            mw_nvme_stripe_file_bytes(layout, end_bytes));
            at = piece.logical_bytes + piece.bytes;
            covered_bytes += piece.bytes;
        }
    }
    g_assert_cmpint(covered_bytes, ==, end_bytes - from_bytes);
}

static void
test_stripes(void)
{
    for (int i = 0; i < 2000; i++) {
        struct mw_nvme_layout layout = {.drives = g_test_rand_int_range(1, 7)};
        layout.block_bytes = PAGE * g_test_rand_int_range(1, 5);
        layout.stripe_bytes = layout.block_bytes * g_test_rand_int_range(1, 4);
        int64_t from_bytes = (int64_t)PAGE * g_test_rand_int_range(0, 200);
        check_cover(&layout, from_bytes, from_bytes + (int64_t)PAGE * g_test_rand_int_range(0, 99));
    }
}

/* The second and third stripe of two drives. */
static void
test_where(void)
{
    struct mw_nvme_fixture fixture;

    mw_nvme_fixture_init(&fixture);
    struct mw_nvme_options options = mw_nvme_fixture_options(&fixture, 2, 10 * 8192);
    struct mw_nvme *nvme = open_tier(&options);
    g_autofree char *both = mw_nvme_where(nvme, 8192 + PAGE, 8192);
    g_autofree char *one = mw_nvme_where(nvme, 8192 + PAGE, PAGE);
    g_autofree char *wanted = g_strdup_printf("%s at 8192, %s at 4096", mw_nvme_drive(nvme, 0).path,
                                              mw_nvme_drive(nvme, 1).path);
    g_assert_cmpstr(both, ==, wanted);
    g_assert_cmpstr(one, ==, strstr(wanted, mw_nvme_drive(nvme, 1).path));
    mw_nvme_close(nvme);
    mw_nvme_fixture_finish(&fixture);
}

/* --- random reads and writes against memory --- */

struct slot {
    struct mw_nvme_request request;
    int64_t offset_bytes, bytes;
    bool busy;
    char *buffer;
};

struct world {
    struct mw_nvme *nvme;
    char *model;
    int64_t capacity_bytes;
    struct slot slots[SLOTS];
};

/* Overlapping requests have no order among them. */
static bool
is_free(const struct world *world, int64_t offset_bytes, int64_t bytes)
{
    for (int i = 0; i < SLOTS; i++) {
        const struct slot *slot = &world->slots[i];
        if (slot->busy && offset_bytes < slot->offset_bytes + slot->bytes &&
            slot->offset_bytes < offset_bytes + bytes)
            return false;
    }
    return true;
}

static void
wait_and_compare(struct world *world, struct slot *slot)
{
    GError *error = NULL;

    if (!slot->busy)
        return;
    g_assert_true(mw_nvme_wait(&slot->request, &error));
    g_assert_no_error(error);
    slot->busy = false;
    g_assert_cmpint(memcmp(slot->buffer, world->model + slot->offset_bytes, (size_t)slot->bytes),
                    ==, 0);
}

static void
begin(struct world *world, struct slot *slot, GRand *random)
{
    const int pages = (int)(world->capacity_bytes / PAGE);
    int64_t bytes = (int64_t)PAGE * g_rand_int_range(random, 0, MIN(pages, 40) + 1);
    int64_t offset_bytes = (int64_t)PAGE * g_rand_int_range(random, 0, pages + 1);
    bool writes = g_rand_boolean(random);

    bytes = MIN(bytes, world->capacity_bytes - offset_bytes);
    if (!is_free(world, offset_bytes, bytes))
        return;
    if (writes) {
        mw_nvme_fixture_fill(slot->buffer, bytes, random);
        memcpy(world->model + offset_bytes, slot->buffer, (size_t)bytes);
    } else {
        memset(slot->buffer, 0x5a, (size_t)bytes);
    }
    slot->offset_bytes = offset_bytes;
    slot->bytes = bytes;
    slot->busy = true;
    mw_nvme_submit(world->nvme, &slot->request, writes ? MW_NVME_WRITE : MW_NVME_READ, offset_bytes,
                   bytes, slot->buffer);
}

static void
play(const struct mw_nvme_options *options, int operations, GRand *random)
{
    struct world world = {.nvme = open_tier(options)};

    world.capacity_bytes = mw_nvme_capacity_bytes(world.nvme);
    g_assert_cmpint(world.capacity_bytes, >=, options->capacity_bytes);
    world.model = g_malloc0((size_t)world.capacity_bytes);
    for (int i = 0; i < SLOTS; i++)
        world.slots[i].buffer = mw_nvme_fixture_buffer(40 * PAGE);
    for (int i = 0; i < operations; i++) {
        struct slot *slot = &world.slots[g_rand_int_range(random, 0, SLOTS)];
        wait_and_compare(&world, slot);
        begin(&world, slot, random);
    }
    for (int i = 0; i < SLOTS; i++) {
        wait_and_compare(&world, &world.slots[i]);
        free(world.slots[i].buffer);
    }
    g_assert_true(mw_nvme_sync(world.nvme, NULL));
    mw_nvme_close(world.nvme);
    g_free(world.model);
}

static struct mw_nvme_options
random_options(const struct mw_nvme_fixture *fixture, GRand *random)
{
    int drives = g_rand_int_range(random, 1, MW_FIXTURE_DRIVES + 1);
    int64_t pages = g_rand_int_range(random, 1, 200);
    struct mw_nvme_options options = mw_nvme_fixture_options(fixture, drives, PAGE * pages);

    options.block_bytes = PAGE << g_rand_int_range(random, 0, 5);
    options.stripe_bytes = options.block_bytes * g_rand_int_range(random, 1, 4);
    options.depth = 1 << g_rand_int_range(random, 0, 6);
    return options;
}

static void
test_random(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(7);
    struct mw_nvme_fixture fixture;

    mw_nvme_fixture_init(&fixture);
    for (int i = 0; i < 40; i++) {
        struct mw_nvme_options options = random_options(&fixture, random);
        options.buffered = i % 4 == 3;
        play(&options, 60, random);
    }
    mw_nvme_fixture_finish(&fixture);
}

/* Short transfers go on where they stopped, at every block size. */
static void
test_short(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(8);
    struct mw_nvme_fixture fixture;

    mw_nvme_fixture_init(&fixture);
    for (int i = 0; i < 20; i++) {
        struct mw_nvme_options options = random_options(&fixture, random);
        struct mw_faults faults;

        mw_faults_init(&faults, MW_FAULT_SHORT, g_rand_int_range(random, 0, 9), 0);
        faults.times = g_rand_int_range(random, 1, 100);
        /* 512 of every 4096 are less than the alignment for direct I/O: such rests are repeated. */
        options.buffered = i % 2;
        faults.limit_bytes = options.buffered ? g_rand_int_range(random, 1, 5000) : PAGE + 512;
        options.calls = &faults.calls;
        play(&options, 60, random);
        mw_faults_finish(&faults);
    }
    mw_nvme_fixture_finish(&fixture);
}

/* --- the queue --- */

/* The blocks of the next request go out while those of the first are still under way, and the
 * second can be waited for without the first. */
static void
test_across_requests(void)
{
    struct mw_nvme_fixture fixture;
    struct mw_faults faults;
    gint first_done = false;
    struct mw_nvme_request first = {.on_done = mw_nvme_fixture_mark, .on_done_data = &first_done};
    struct mw_nvme_request second = {0}, third = {0};
    char *buffer = mw_nvme_fixture_buffer(9 * 8192);

    mw_nvme_fixture_init(&fixture);
    mw_faults_init(&faults, MW_FAULT_NONE, 0, 0);
    faults.holding = true;
    struct mw_nvme_options options = mw_nvme_fixture_options(&fixture, 1, 9 * 8192);
    options.calls = &faults.calls;
    struct mw_nvme *nvme = open_tier(&options);
    mw_nvme_submit(nvme, &first, MW_NVME_WRITE, 0, 3 * 8192, buffer);
    mw_nvme_submit(nvme, &second, MW_NVME_WRITE, 3 * 8192, 8192, buffer + 3 * 8192);
    mw_nvme_submit(nvme, &third, MW_NVME_WRITE, 4 * 8192, 5 * 8192, buffer + 4 * 8192);
    g_assert_true(mw_faults_await_held(&faults, 4));
    mw_faults_release(&faults, 3);
    g_assert_true(mw_nvme_wait(&second, NULL));
    g_assert_false(g_atomic_int_get(&first_done));
    /* One done, so one of the third's: the depth of 4 is kept, not passed. */
    g_assert_true(mw_faults_await_held(&faults, 4));
    g_usleep(20000);
    g_assert_cmpint(faults.held_count, ==, 4);
    mw_faults_release_all(&faults);
    g_assert_true(mw_nvme_wait(&first, NULL));
    g_assert_true(mw_nvme_wait(&third, NULL));
    g_assert_cmpint(mw_nvme_moved_bytes(nvme, MW_NVME_WRITE), ==, 9 * 8192);
    mw_nvme_close(nvme);
    mw_faults_finish(&faults);
    mw_nvme_fixture_finish(&fixture);
    free(buffer);
}

/* A block that has come is checked when the drive has its next one: here it fails the tier, and
 * what would have been refused then is under way. */
static void
test_checked_behind(void)
{
    struct mw_nvme_fixture fixture;
    struct mw_faults faults;
    struct mw_nvme_request request = {0};
    g_autoptr(GError) error = NULL;
    char *buffer = mw_nvme_fixture_buffer(8 * 8192), *other = mw_nvme_fixture_buffer(8192);
    g_autofree uint32_t *sums = g_malloc0(mw_nvme_sums_bytes(8 * 8192));

    mw_nvme_fixture_init(&fixture);
    mw_faults_init(&faults, MW_FAULT_NONE, 0, 0);
    struct mw_nvme_options options = mw_nvme_fixture_options(&fixture, 1, 8 * 8192);
    options.calls = &faults.calls;
    options.sums = sums;
    struct mw_nvme *nvme = open_tier(&options);
    other[8191] = 1;
    mw_nvme_vouch(nvme, 0, 8192, other);
    faults.holding = true;
    mw_nvme_submit(nvme, &request, MW_NVME_READ, 0, 8 * 8192, buffer);
    g_assert_true(mw_faults_await_held(&faults, 4));
    mw_faults_release(&faults, 0);
    g_assert_true(mw_faults_await_held(&faults, 4));
    mw_faults_release_all(&faults);
    g_assert_false(mw_nvme_wait(&request, &error));
    mw_test_says(error->message, "read of 4096 bytes at 4096: not what was written there last");
    mw_nvme_close(nvme);
    mw_faults_finish(&faults);
    mw_nvme_fixture_finish(&fixture);
    free(other);
    free(buffer);
}

/* A drive that stalls does not keep the others from their next blocks. */
static void
test_slow_drive(void)
{
    struct mw_nvme_fixture fixture;
    struct mw_faults faults;
    struct mw_nvme_request request = {0};
    char *buffer = mw_nvme_fixture_buffer(20 * 8192);

    mw_nvme_fixture_init(&fixture);
    mw_faults_init(&faults, MW_FAULT_NONE, 0, 0);
    faults.holding = true;
    struct mw_nvme_options options = mw_nvme_fixture_options(&fixture, 2, 20 * 8192);
    options.calls = &faults.calls;
    struct mw_nvme *nvme = open_tier(&options);
    mw_nvme_submit(nvme, &request, MW_NVME_WRITE, 0, 20 * 8192, buffer);
    g_assert_true(mw_faults_await_held(&faults, 8));
    const int slow = (int)faults.held[0]->aio_fildes;
    for (int i = 0; i < 6; i++) {
        int index = 0;
        while (faults.held[index]->aio_fildes == slow)
            index++;
        mw_faults_release(&faults, index);
        g_assert_true(mw_faults_await_held(&faults, 8));
    }
    mw_faults_release_all(&faults);
    g_assert_true(mw_nvme_wait(&request, NULL));
    mw_nvme_close(nvme);
    mw_faults_finish(&faults);
    mw_nvme_fixture_finish(&fixture);
    free(buffer);
}

static void
count_call(void *data)
{
    g_atomic_int_inc((int *)data);
}

static void
test_on_done(void)
{
    struct mw_nvme_fixture fixture;
    int calls = 0;
    struct mw_nvme_request request = {.on_done = count_call, .on_done_data = &calls};
    char *buffer = mw_nvme_fixture_buffer(8192);

    mw_nvme_fixture_init(&fixture);
    struct mw_nvme_options options = mw_nvme_fixture_options(&fixture, 1, 8192);
    struct mw_nvme *nvme = open_tier(&options);
    for (int i = 0; i < 10; i++) {
        mw_nvme_submit(nvme, &request, MW_NVME_WRITE, 0, i % 2 ? 8192 : 0, buffer);
        g_assert_true(mw_nvme_wait(&request, NULL));
    }
    mw_nvme_close(nvme);
    g_assert_cmpint(g_atomic_int_get(&calls), ==, 10);
    mw_nvme_fixture_finish(&fixture);
    free(buffer);
}

/* A reader and a writer thread, each with several requests under way. */
struct lane {
    struct mw_nvme *nvme;
    enum mw_nvme_direction direction;
    int64_t base_bytes;
    int rounds;
};

static void *
run_lane(void *data)
{
    const struct lane *lane = data;
    struct mw_nvme_request requests[4] = {0};
    char *buffer = mw_nvme_fixture_buffer(4 * 65536);

    for (int round = 0; round < lane->rounds; round++) {
        for (int i = 0; i < 4; i++)
            mw_nvme_submit(lane->nvme, &requests[i], lane->direction, lane->base_bytes + i * 65536,
                           65536, buffer + i * 65536);
        for (int i = 3; i >= 0; i--)
            g_assert_true(mw_nvme_wait(&requests[i], NULL));
    }
    free(buffer);
    return NULL;
}

static void
test_threads(void)
{
    struct mw_nvme_fixture fixture;
    pthread_t threads[4];

    mw_nvme_fixture_init(&fixture);
    struct mw_nvme_options options = mw_nvme_fixture_options(&fixture, 3, 16 * 65536);
    struct mw_nvme *nvme = open_tier(&options);
    struct lane lanes[4];
    for (int i = 0; i < 4; i++) {
        lanes[i] = (struct lane){nvme, i % 2 ? MW_NVME_READ : MW_NVME_WRITE, i * 4 * 65536, 25};
        g_assert_cmpint(pthread_create(&threads[i], NULL, run_lane, &lanes[i]), ==, 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    g_assert_cmpint(mw_nvme_moved_bytes(nvme, MW_NVME_READ), ==, 2 * 25 * 4 * 65536);
    mw_nvme_close(nvme);
    mw_nvme_fixture_finish(&fixture);
}

/* --- the kernel's side of a queue --- */

/* What was given back is taken again, by who needs no more room; two at the same time share none,
 * and a fork has none. */
static void
test_contexts(void)
{
    io_context_t first[2], second[2];
    pid_t child;
    int status;

    for (int i = 0; i < 2; i++) { /* what other tests have left */
        g_assert_cmpint(mw_nvme_context_take(1, &first[i]), ==, 0);
        io_destroy(first[i]);
    }
    for (int i = 0; i < 2; i++)
        g_assert_cmpint(mw_nvme_context_take(8, &first[i]), ==, 0);
    g_assert_true(first[0] != first[1]);
    for (int i = 0; i < 2; i++)
        mw_nvme_context_give(8, first[i]);
    for (int i = 0; i < 2; i++) /* -EINVAL of one that has ended */
        g_assert_cmpint(io_submit(first[i], 0, NULL), ==, 0);
    g_assert_cmpint(mw_nvme_context_take(9, &second[0]), ==, 0);
    g_assert_true(second[0] != first[0] && second[0] != first[1]);
    io_destroy(second[0]);
    if ((child = fork()) == 0) {
        bool good = !mw_nvme_context_take(8, &second[0]) && !io_destroy(second[0]);
        _exit(!good);
    }
    g_assert_cmpint(waitpid(child, &status, 0), ==, child);
    g_assert_cmpint(status, ==, 0);
    for (int i = 0; i < 2; i++)
        g_assert_cmpint(mw_nvme_context_take(7, &second[i]), ==, 0);
    g_assert_true(second[0] != second[1]);
    for (int i = 0; i < 2; i++) {
        g_assert_true(second[i] == first[0] || second[i] == first[1]);
        io_destroy(second[i]);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/nvme/stripes", test_stripes);
    g_test_add_func("/nvme/where", test_where);
    g_test_add_func("/nvme/random", test_random);
    g_test_add_func("/nvme/short-transfers", test_short);
    g_test_add_func("/nvme/across-requests", test_across_requests);
    g_test_add_func("/nvme/checked-behind", test_checked_behind);
    g_test_add_func("/nvme/slow-drive", test_slow_drive);
    g_test_add_func("/nvme/on-done", test_on_done);
    g_test_add_func("/nvme/threads", test_threads);
    g_test_add_func("/nvme/contexts", test_contexts);
    return g_test_run();
}
