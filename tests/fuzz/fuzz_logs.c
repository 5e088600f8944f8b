#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "logs/logs.h"
#include "report/gate.h"
#include "tests/fuzz/fuzz.h"

static struct mw_gate_limits
limits(void)
{
    struct mw_gate_limits all = {.drop = 0.03, .of_predicted = 0.8, .warm_up = -1, .steps_min = 1};

    for (int i = 0; i < MW_GATE_FIGURES; i++)
        all.worse[i] = 0.03;
    return all;
}

static char *
baseline_text(const struct mw_log *log, size_t *size)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, size);

    if (log->steps)
        mw_log_baseline_steps_write(out, log->steps, "1");
    else
        mw_log_baseline_cases_write(out, log->cases, "1");
    fclose(out);
    return text;
}

/* A baseline of it reads back, and has nothing else. */
static void
check_baseline(const struct mw_log *log)
{
    g_autoptr(GError) error = NULL;
    size_t size, size_again;
    char *text = baseline_text(log, &size);
    const struct mw_log_text in = {"baseline", text, size};
    struct mw_log again;

    if (!mw_log_parse(&in, &again, &error))
        abort();
    char *text_again = baseline_text(&again, &size_again);
    if (size != size_again || memcmp(text, text_again, size))
        abort();
    mw_log_clear(&again);
    free(text);
    free(text_again);
}

static void
print(const struct mw_gate_report *report)
{
    FILE *out = fopen("/dev/null", "w");

    mw_gate_text_write(out, report);
    mw_gate_json_write(out, report);
    mw_gate_junit_write(out, report);
    mw_gate_github_write(out, report);
    fclose(out);
}

/* It is as good as itself. */
static void
compare_with_itself(const struct mw_log *log)
{
    const struct mw_gate_limits within = limits();
    struct mw_gate_report report = {"a", "b", NULL, NULL, &within, log->cases, NULL, NULL};
    struct mw_gate_speed speed;
    g_autoptr(GError) error = NULL;

    if (log->steps) {
        if (!mw_gate_runs(log->steps, log->steps, 1, &within, &speed, &error) || speed.slower)
            abort();
        report.runs = &speed;
        print(&report);
        return;
    }
    struct mw_gate_verdict *verdict = mw_gate_cases(log->cases, log->cases, &within, &error);
    if (!verdict || verdict->failed)
        abort();
    report.cases = verdict;
    print(&report);
    mw_gate_verdict_free(verdict);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autofree char *text = g_malloc0(size + 1);
    g_autoptr(GError) error = NULL;
    struct mw_log log;

    if (size)
        memcpy(text, data, size);
    const struct mw_log_text in = {"input", text, size};
    if (!mw_log_parse(&in, &log, &error))
        return 0;
    check_baseline(&log);
    compare_with_itself(&log);
    mw_log_clear(&log);
    return 0;
}
