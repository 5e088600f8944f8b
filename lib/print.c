/* The forms of an answer: texts and files. */
#include <errno.h>
#include <locale.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/whole_file.h"
#include "lib/answer.h"
#include "lib/question.h"
#include "report/report.h"

struct forms {
    const struct memwall_answer *answer;
    struct mw_result *results[MW_STRATEGY_COUNT];
    FILE *out;
};

static void
print_tables(const struct forms *f, bool details)
{
    const struct memwall_answer *answer = f->answer;

    if (answer->capacity)
        mw_table_capacity(f->out, answer->capacity);
    else if (answer->purchases)
        mw_table_purchases(f->out, answer->purchases);
    else if (answer->parallel)
        mw_table_parallel(f->out, &answer->divided.question, answer->parallel);
    else if (answer->serving)
        mw_table_serving(f->out, answer->serving, answer->question.model.name,
                         mw_profile_name(answer->question.profile),
                         mw_profile_name(answer->question.software));
    else if (answer->objective)
        mw_table_objective(f->out, answer->objective, answer->question.model.name,
                           mw_profile_name(answer->question.profile),
                           mw_profile_name(answer->question.software));
    else if (answer->cuts)
        mw_table_cuts(f->out, answer->cuts, f->results[0]);
    else if (answer->largest)
        mw_table_largest(f->out, (const struct mw_largest *)answer->largest->data,
                         answer->largest->len, mw_profile_name(answer->question.software),
                         answer->question.settings.ops_max);
    else if (answer->compares)
        mw_table_compare(f->out, f->results, answer->count);
    else if (answer->depth == MEMWALL_PLAN)
        mw_table_plan(f->out, f->results[0]);
    else
        mw_table_simulate(f->out, f->results[0], details);
}

static void
print_text(const struct forms *f)
{
    print_tables(f, false);
}

static void
print_details(const struct forms *f)
{
    print_tables(f, true);
}

static void
print_json(const struct forms *f)
{
    if (f->answer->capacity)
        mw_json_capacity_write(f->out, f->answer->capacity);
    else if (f->answer->purchases)
        mw_json_purchases_write(f->out, f->answer->purchases);
    else if (f->answer->parallel)
        mw_json_parallel_write(f->out, &f->answer->divided.question, f->answer->parallel);
    else if (f->answer->serving)
        mw_json_serving_write(f->out, f->answer->serving, f->answer->question.model.name,
                              mw_profile_name(f->answer->question.profile),
                              mw_profile_name(f->answer->question.software));
    else if (f->answer->objective)
        mw_json_objective_write(f->out, f->answer->objective, f->answer->question.model.name,
                                mw_profile_name(f->answer->question.profile),
                                mw_profile_name(f->answer->question.software));
    else if (f->answer->cuts)
        mw_json_cuts_write(f->out, f->answer->cuts, f->results[0]);
    else if (f->answer->largest)
        mw_json_largest_write(f->out, (const struct mw_largest *)f->answer->largest->data,
                              f->answer->largest->len,
                              mw_profile_name(f->answer->question.software));
    else
        mw_json_write(f->out, f->results, f->answer->count);
}

static void
print_csv(const struct forms *f)
{
    mw_csv_write(f->out, f->results, f->answer->count);
}

static void
print_plan(const struct forms *f)
{
    mw_variants_write(f->answer->answers[0]->variants, f->out);
}

static void
print_deepspeed(const struct forms *f)
{
    g_autofree char *text = mw_deepspeed_text_of(f->answer->answers[0]->sizing);

    fputs(text, f->out);
}

/* Each form is written either to a stream or to a file of its own. */
static const struct {
    const char *name;
    bool of_rows; /* also for MEMWALL_LARGEST and MEMWALL_CUTS */
    bool needs_plan;
    void (*print)(const struct forms *f);
    bool (*write)(const char *path, const struct mw_result *result, GError **error);
} forms[] = {
    [MEMWALL_TEXT] = {"text", true, false, print_text, NULL},
    [MEMWALL_DETAILS] = {"text with details", false, false, print_details, NULL},
    [MEMWALL_JSON] = {"JSON", true, false, print_json, NULL},
    [MEMWALL_CSV] = {"CSV", false, false, print_csv, NULL},
    [MEMWALL_PLAN_TEXT] = {"a plan", false, true, print_plan, NULL},
    [MEMWALL_DEEPSPEED] = {"a DeepSpeed file", false, true, print_deepspeed, NULL},
    [MEMWALL_TRACE] = {"a trace", false, true, NULL, mw_trace_write},
    [MEMWALL_PLOT] = {"a plot", false, true, NULL, mw_plot_write},
};

static bool
check(const struct memwall_answer *answer, enum memwall_form form, GError **error)
{
    if ((int)form < 0 || form >= (int)G_N_ELEMENTS(forms))
        return mw_refuse(error, "form %d: must be one of enum memwall_form", (int)form);
    if (answer->largest && !forms[form].of_rows)
        return mw_refuse(error, "%s: rows of layers are text or JSON", forms[form].name);
    if ((answer->capacity || answer->purchases) && !forms[form].of_rows)
        return mw_refuse(error, "%s: machines are compared as text or JSON", forms[form].name);
    if (answer->parallel && !forms[form].of_rows)
        return mw_refuse(error, "%s: {search=parallel} is answered as text or JSON",
                         forms[form].name);
    if (answer->serving && !forms[form].of_rows)
        return mw_refuse(error, "%s: {serve} is answered as text or JSON", forms[form].name);
    if (answer->objective && !forms[form].of_rows)
        return mw_refuse(error, "%s: {objective} is answered as text or JSON", forms[form].name);
    if (answer->cuts && !forms[form].of_rows)
        return mw_refuse(error, "%s: ways to divide a step are text or JSON", forms[form].name);
    if (!answer->largest && !answer->capacity && !answer->purchases && !answer->serving &&
        !answer->parallel && !answer->objective && !answer->count && form != MEMWALL_JSON)
        return mw_refuse(error, "%s: all strategies are left out", forms[form].name);
    if ((answer->depth == MEMWALL_ESTIMATE || answer->depth == MEMWALL_ESTIMATE_CHECKED) &&
        form != MEMWALL_JSON && form != MEMWALL_CSV)
        return mw_refuse(error, "%s: an estimate is answered as JSON or CSV", forms[form].name);
    if (!forms[form].needs_plan)
        return true;
    if (answer->compares)
        return mw_refuse(error, "%s: takes the answer to one strategy", forms[form].name);
    if (!memwall_answer_fits(answer))
        return mw_refuse(error, "%s: the plan does not fit", forms[form].name);
    if (form == MEMWALL_DEEPSPEED && !answer->answers[0]->sizing)
        return mw_refuse(error, "%s: a plan that was read from a file lacks its settings",
                         forms[form].name);
    return true;
}

static struct forms
forms_of(const struct memwall_answer *answer, FILE *out)
{
    struct forms f = {.answer = answer, .out = out};

    for (size_t i = 0; i < answer->count; i++)
        f.results[i] = answer->answers[i]->result;
    return f;
}

/* Writes decimal points, whatever the caller's locale. */
static void
print(const struct memwall_answer *answer, enum memwall_form form, FILE *out)
{
    locale_t points = newlocale(LC_NUMERIC_MASK, "C", duplocale(uselocale((locale_t)0)));
    locale_t before = points ? uselocale(points) : (locale_t)0;
    const struct forms f = forms_of(answer, out);

    forms[form].print(&f);
    if (points) {
        uselocale(before);
        freelocale(points);
    }
}

static bool
print_checked(const struct memwall_answer *answer, enum memwall_form form, FILE *out,
              GError **error)
{
    if (!check(answer, form, error))
        return false;
    if (!forms[form].print)
        return mw_refuse(error, "%s: goes to a file; memwall_answer_write writes it",
                         forms[form].name);
    print(answer, form, out);
    return true;
}

char *
mw_lib_string(const struct memwall_answer *answer, enum memwall_form form, GError **error)
{
    size_t length = 0;
    char *text = NULL;
    FILE *out = open_memstream(&text, &length);

    if (!out) {
        mw_fail(error, MW_ERROR_IO, "%s: %s", forms[form].name, g_strerror(errno));
        return NULL;
    }
    bool good = print_checked(answer, form, out, error);
    fclose(out);
    char *copy = good ? g_strdup(text) : NULL;
    free(text);
    return copy;
}

bool
memwall_answer_print(const struct memwall_answer *answer, enum memwall_form form, FILE *out,
                     struct memwall_error **error)
{
    GError *failed = NULL;

    return print_checked(answer, form, out, &failed) || mw_lib_fail(failed, NULL, error);
}

static bool
write_file(const struct memwall_answer *answer, enum memwall_form form, const char *path,
           GError **error)
{
    if (!check(answer, form, error))
        return false;
    if (forms[form].write)
        return forms[form].write(path, answer->answers[0]->result, error);
    struct mw_file *file = mw_file_open(path, error);
    if (!file)
        return false;
    print(answer, form, file->stream);
    return mw_file_commit(file, error);
}

bool
memwall_answer_write(const struct memwall_answer *answer, enum memwall_form form, const char *path,
                     struct memwall_error **error)
{
    GError *failed = NULL;

    return write_file(answer, form, path, &failed) || mw_lib_fail(failed, NULL, error);
}
