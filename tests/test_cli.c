/* The command as a process: what it refuses, in one line and without a crash. */
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>

struct outcome {
    int status; /* exit status; -1: killed by a signal */
    char *out, *err;
};

/* `line` is split at spaces; "''" is an empty argument. */
static struct outcome
run(const char *line)
{
    g_auto(GStrv) words = g_strsplit(line, " ", -1);
    g_autoptr(GPtrArray) arguments = g_ptr_array_new();
    g_autoptr(GError) error = NULL;
    struct outcome outcome = {0};
    int wait_status;

    g_ptr_array_add(arguments, (char *)g_getenv("MEMWALL"));
    for (char **word = words; *word; word++)
        g_ptr_array_add(arguments, strcmp(*word, "''") ? *word : (char *)"");
    g_ptr_array_add(arguments, NULL);
    g_spawn_sync(NULL, (char **)arguments->pdata, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL,
                 &outcome.out, &outcome.err, &wait_status, &error);
    g_assert_no_error(error);
    if (!g_spawn_check_wait_status(wait_status, &error))
        outcome.status = error->domain == G_SPAWN_EXIT_ERROR ? error->code : -1;
    return outcome;
}

static void
clear(struct outcome *outcome)
{
    g_free(outcome->out);
    g_free(outcome->err);
}

static void
assert_refused(const char *line, const char *says)
{
    struct outcome outcome = run(line);

    g_test_message("%s: %d: %s", line, outcome.status, outcome.err);
    g_assert_cmpint(outcome.status, ==, 2);
    g_assert_cmpstr(outcome.out, ==, "");
    g_assert_true(g_str_has_prefix(outcome.err, "memwall: "));
    g_assert_nonnull(strstr(outcome.err, says));
    g_assert_true(strchr(outcome.err, '\n') == outcome.err + strlen(outcome.err) - 1);
    clear(&outcome);
}

static void
test_empty_names(void)
{
    assert_refused("simulate -m tiny -H rtx4090 -s ''", "accepted: auto, ddp");
    assert_refused("simulate -m tiny -H rtx4090 -s zero2,", "accepted: auto, ddp");
    assert_refused("simulate -m tiny -H ''", "memwall list hwprofiles");
    assert_refused("simulate -m '' -H rtx4090", "no such preset");
}

/* A plan that writes to drives, on a machine without: no time can be said. */
static void
test_plan_without_drives(void)
{
    g_autofree char *folder = g_dir_make_tmp("memwall-test-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "nvme.plan", NULL);
    g_autofree char *plan = g_strdup_printf(
        "plan -m tiny -H rtx4090 -s zero-infinity-nvme --optimizer-device nvme -o %s", path);
    g_autofree char *simulate = g_strdup_printf("simulate %s -H aws-p3-2xlarge", path);
    struct outcome planned = run(plan);

    g_assert_cmpint(planned.status, ==, 0);
    clear(&planned);
    assert_refused(simulate, "overflows");
    g_unlink(path);
    g_rmdir(folder);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/cli/empty-names", test_empty_names);
    g_test_add_func("/cli/plan-without-drives", test_plan_without_drives);
    return g_test_run();
}
