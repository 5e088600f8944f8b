#include "exec/course/log.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "exec/course/log_internal.h"

struct mw_log {
    struct mw_log_options options;
    struct mw_log_file file;
    struct mw_log_progress progress;
    char *run; /* as lines have it; NULL */
};

static struct mw_log_rates
rates_of(const struct mw_log_options *options, const struct mw_log_row *row)
{
    double time_s = (double)row->time_ns * 1e-9;
    struct mw_log_rates rates = {NAN, NAN, NAN};

    if (row->time_ns <= 0)
        return rates;
    if (options->tokens)
        rates.tokens_per_s = (double)options->tokens / time_s;
    if (options->flops > 0 && options->peak_flops > 0)
        rates.mfu = options->flops / time_s / options->peak_flops;
    if (options->predicted_ns)
        rates.of_predicted = (double)options->predicted_ns / (double)row->time_ns;
    return rates;
}

/* --- the table --- */

/* printf would give a NaN the sign that some sums of it have. */
static void
put_cell(GString *line, int width, const char *format, double value)
{
    char text[G_ASCII_DTOSTR_BUF_SIZE];

    if (isnan(value))
        g_strlcpy(text, "-", sizeof text);
    else
        g_ascii_formatd(text, sizeof text, format, value);
    g_string_append_printf(line, "%*s", width, text);
}

static void
put_percent(GString *line, int width, double share)
{
    put_cell(line, isnan(share) ? width : width - 1, "%.1f", 100 * share);
    if (!isnan(share))
        g_string_append_c(line, '%');
}

static int
step_width(const struct mw_log_options *options)
{
    return MAX(4, snprintf(NULL, 0, "%" PRId64, options->steps));
}

static void
print_head(const struct mw_log *log)
{
    if (log->options.title)
        fprintf(log->options.table, "%s\n", log->options.title);
    fprintf(log->options.table, "%*s%10s%11s%11s%10s%10s%8s%14s%s%s%s%s\n",
            step_width(&log->options), "step", "loss", "grad norm", "lr", "ms", "tok/s", "MFU",
            "of predicted", log->options.loss_scale ? "  loss scale" : "",
            log->options.router_aux_loss ? "  router aux" : "",
            log->options.router_z_loss ? "    router z" : "",
            log->options.expert_imbalance ? "   imbalance" : "");
    fflush(log->options.table); /* a step may be long */
}

static void
print_row(struct mw_log *log, const struct mw_log_row *row, const struct mw_log_rates *rates)
{
    g_autoptr(GString) line = g_string_new(NULL);

    g_string_append_printf(line, "%*" PRId64, step_width(&log->options), row->step + 1);
    put_cell(line, 10, "%.4f", row->loss);
    put_cell(line, 11, "%.4g", row->gradient_norm);
    put_cell(line, 11, "%.3e", row->lr);
    put_cell(line, 10, "%.1f", (double)row->time_ns * 1e-6);
    put_cell(line, 10, "%.1f", rates->tokens_per_s);
    put_percent(line, 8, rates->mfu);
    put_percent(line, 14, rates->of_predicted);
    if (log->options.loss_scale)
        put_cell(line, 12, "%.0f", row->loss_scale);
    if (log->options.router_aux_loss)
        put_cell(line, 12, "%.4f", row->router_aux_loss);
    if (log->options.router_z_loss)
        put_cell(line, 12, "%.4f", row->router_z_loss);
    if (log->options.expert_imbalance)
        put_cell(line, 12, "%.3f", row->expert_imbalance);
    if (row->skipped)
        g_string_append(line, "  skipped: not finite");
    if (row->stolen_ns)
        g_string_append_printf(line, "  %.0f ms taken by the hypervisor",
                               (double)row->stolen_ns * 1e-6);
    fprintf(log->options.table, "%s\n", line->str);
    fflush(log->options.table);
}

/* --- JSON lines --- */

/* The shortest text that reads back to the same number; null for what JSON has no number for. */
static void
put_number(GString *line, const char *key, double value)
{
    char text[G_ASCII_DTOSTR_BUF_SIZE] = "null";

    if (isfinite(value))
        for (int digits = 15; digits <= 17; digits++) {
            char format[8];
            g_snprintf(format, sizeof format, "%%.%dg", digits);
            if (g_ascii_strtod(g_ascii_formatd(text, sizeof text, format, value), NULL) == value)
                break;
        }
    g_string_append_printf(line, ", \"%s\": %s", key, text);
}

static GString *
json_of(const struct mw_log *log, const struct mw_log_row *row, const struct mw_log_rates *rates)
{
    GString *line = g_string_new(NULL);

    g_string_append_printf(line, "{\"step\": %" PRId64, row->step + 1);
    put_number(line, "loss", row->loss);
    if (log->options.router_aux_loss)
        put_number(line, "router_aux_loss", row->router_aux_loss);
    if (log->options.router_z_loss)
        put_number(line, "router_z_loss", row->router_z_loss);
    if (log->options.expert_imbalance) {
        put_number(line, "expert_imbalance", row->expert_imbalance);
        put_number(line, "expert_imbalance_most", row->expert_imbalance_most);
    }
    put_number(line, "gradient_norm", row->gradient_norm);
    put_number(line, "lr", row->lr);
    put_number(line, "step_time_s", (double)row->time_ns * 1e-9);
    g_string_append_printf(line, ", \"tokens\": %" PRId64, log->options.tokens);
    put_number(line, "tokens_per_s", rates->tokens_per_s);
    put_number(line, "mfu", rates->mfu);
    put_number(line, "of_predicted_speed", rates->of_predicted);
    put_number(line, "loss_scale", row->loss_scale);
    g_string_append_printf(line, ", \"skipped\": %s", row->skipped ? "true" : "false");
    if (row->stolen_ns)
        put_number(line, "stolen_s", (double)row->stolen_ns / 1e9);
    if (log->run)
        g_string_append_printf(line, MW_LOG_RUN "%s\"", log->run);
    g_string_append(line, "}\n");
    return line;
}

/* --- calls --- */

struct mw_log *
mw_log_open(const struct mw_log_options *options, GError **error)
{
    struct mw_log *log = g_new0(struct mw_log, 1);

    log->options = *options;
    log->run = options->run ? mw_log_run_text(options->run) : NULL;
    if (!mw_log_file_open(&log->file, options, error)) {
        mw_log_close(log);
        return NULL;
    }
    if (options->table && !mw_log_file_awaits(fileno(options->table), options))
        log->options.table = NULL;
    if (log->options.table)
        print_head(log);
    log->options.title = log->options.run = NULL; /* are the caller's */
    mw_log_progress_open(&log->progress, options);
    mw_log_progress_show(&log->progress);
    return log;
}

void
mw_log_close(struct mw_log *log)
{
    if (!log)
        return;
    mw_log_progress_close(&log->progress);
    mw_log_file_close(&log->file);
    g_free(log->run);
    g_free(log);
}

void
mw_log_say(struct mw_log *log, const char *line)
{
    mw_log_progress_say(&log->progress, log->options.progress, line);
}

bool
mw_log_step(struct mw_log *log, const struct mw_log_row *row, GError **error)
{
    struct mw_log_rates rates = rates_of(&log->options, row);
    g_autoptr(GString) line = json_of(log, row, &rates);

    mw_log_progress_clear(&log->progress);
    if (log->options.table && !mw_log_file_awaits(fileno(log->options.table), &log->options))
        log->options.table = NULL;
    if (log->options.table)
        print_row(log, row, &rates);
    bool ok = mw_log_file_write(&log->file, &log->options, line, error);
    mw_log_progress_step(&log->progress, row);
    mw_log_progress_show(&log->progress);
    return ok;
}
