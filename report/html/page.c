#include "report/html/page.h"

#include <gio/gio.h>
#include <string.h>

#include "base/error.h"
#include "base/whole_file.h"
#include "report/html/internal.h"
#include "report/page_resources.h"

/* In the order of enum mw_page_section. */
static const struct {
    const char *id, *title;
    bool (*put)(struct mw_page *page, GError **error);
} sections[MW_PAGE_SECTIONS] = {
    [MW_PAGE_VERDICT] = {"verdict", "Verdict", mw_page_verdict},
    [MW_PAGE_COMPARISON] = {"comparison", "Comparison", mw_page_comparison},
    [MW_PAGE_MACHINES] = {"machines", "Machines", mw_page_machines},
    [MW_PAGE_TIMELINE] = {"timeline", "The step", mw_page_timeline},
    [MW_PAGE_SWEEP] = {"sweep", "Sweep", mw_page_sweep},
    [MW_PAGE_MEMORY] = {"memory", "Memory", mw_page_memory},
    [MW_PAGE_CHANGES] = {"changes", "What would change it", mw_page_changes},
    [MW_PAGE_MEASURED] = {"measured", "Predicted and measured", mw_page_measured},
    [MW_PAGE_FIGURES] = {"figures", "Figures", mw_page_figures},
    [MW_PAGE_INPUTS] = {"inputs", "Inputs", mw_page_inputs},
};

/* --- results ---------------------------------------------------------------------------------- */

static void
free_input(void *input)
{
    mw_page_input_free(input);
}

static void
free_answer(void *data)
{
    struct mw_page_answer *answer = data;

    g_free(answer->pick);
    g_free(answer);
}

static struct mw_page_answer *
add_answer(struct mw_page *page, const struct mw_page_input *input, JsonObject *it)
{
    struct mw_page_answer *answer = g_new0(struct mw_page_answer, 1);

    answer->it = it;
    answer->input = input;
    g_ptr_array_add(page->answers, answer);
    return answer;
}

/* The answer of this file for the same machines, which another pick has too. */
static struct mw_page_answer *
same_pick(const struct mw_page *page, const struct mw_page_input *input, JsonObject *it)
{
    g_autofree char *machines = mw_page_machines_of(it);

    for (guint i = 0; i < page->answers->len; i++) {
        struct mw_page_answer *answer = page->answers->pdata[i];
        g_autofree char *others = mw_page_machines_of(answer->it);
        if (answer->input == input && answer->pick && !strcmp(machines, others))
            return answer;
    }
    return NULL;
}

static void
add_picks(struct mw_page *page, const struct mw_page_input *input)
{
    JsonObject *picks = mw_value_object(input->it, "picks");
    g_autoptr(GList) names = picks ? json_object_get_members(picks) : NULL;

    for (GList *name = names; name; name = name->next) {
        JsonObject *it = mw_value_object(mw_value_object(picks, name->data), "answer");
        struct mw_page_answer *same = it ? same_pick(page, input, it) : NULL;
        if (same) {
            g_autofree char *before = same->pick;
            same->pick = g_strdup_printf("%s, %s", before, (const char *)name->data);
        } else if (it) {
            add_answer(page, input, it)->pick = g_strdup(name->data);
        }
    }
}

static bool
add_file(struct mw_page *page, const char *path, GError **error)
{
    struct mw_page_input *input = mw_page_input_read(path, error);

    if (!input)
        return false;
    g_ptr_array_add(page->inputs, input);
    if (input->it && mw_page_input_yields(input, MW_PAGE_MACHINES)) {
        add_picks(page, input);
    } else if (input->it && mw_page_input_yields(input, MW_PAGE_MEMORY)) {
        g_autoptr(GPtrArray) answers = mw_value_objects(input->it, "answers");
        for (guint i = 0; i < answers->len; i++)
            add_answer(page, input, answers->pdata[i]);
    }
    return true;
}

/* --- the page --------------------------------------------------------------------------------- */

/* A file of report/html/, as it was built in. */
static char *
resource(const char *name)
{
    g_autofree char *path = g_strconcat("/memwall/page/", name, NULL);
    g_autoptr(GBytes) bytes = g_resource_lookup_data(page_resources_get_resource(), path,
                                                     G_RESOURCE_LOOKUP_FLAGS_NONE, NULL);

    g_assert(bytes);
    return g_strndup(g_bytes_get_data(bytes, NULL), g_bytes_get_size(bytes));
}

/* What a policy of contents calls a text: sha256-BASE64. */
static char *
policy_name(const char *text)
{
    guint8 digest[32];
    gsize length = sizeof digest;
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);

    g_checksum_update(sum, (const guchar *)text, -1);
    g_checksum_get_digest(sum, digest, &length);
    g_autofree char *base64 = g_base64_encode(digest, length);
    return g_strdup_printf("sha256-%s", base64);
}

static void
put_head(GString *out, const char *title, const char *style, const char *script)
{
    g_autofree char *of_style = policy_name(style), *of_script = policy_name(script);

    mw_html_put(out,
                "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                "style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'\">\n"
                "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                "<meta name=\"color-scheme\" content=\"light dark\">\n"
                "<title>%s</title>\n<style>",
                of_style, of_script, title);
    g_string_append(out, style);
    mw_html_put(out, "</style>\n</head>\n<body>\n<header><h1>%s</h1></header>\n", title);
}

static bool
is_yielded(const struct mw_page *page, enum mw_page_section section)
{
    bool found = false;

    for (guint i = 0; i < page->inputs->len && !found; i++)
        found = mw_page_input_yields(page->inputs->pdata[i], section);
    return found && (section != MW_PAGE_COMPARISON || page->answers->len > 1);
}

bool
mw_page_stops(const struct mw_page *page, GError **error)
{
    return page->stops() && !mw_fail(error, MW_ERROR_IO, "stopped; no page was written");
}

/* A section of which nothing comes is left out. */
static bool
put_sections(struct mw_page *page, GString *links, GError **error)
{
    bool good = true;

    for (int s = 0; s < MW_PAGE_SECTIONS && good; s++) {
        gsize before = page->out->len;
        if (!is_yielded(page, s))
            continue;
        mw_html_put(page->out, "<section id=\"%s\"><h2>%s</h2>\n", sections[s].id,
                    sections[s].title);
        gsize empty = page->out->len;
        good = !mw_page_stops(page, error) && sections[s].put(page, error);
        if (page->out->len == empty) {
            g_string_truncate(page->out, before);
            continue;
        }
        mw_html_put(page->out, "</section>\n");
        mw_html_put(links, "<li><a href=\"#%s\">%s</a></li>", sections[s].id, sections[s].title);
    }
    return good;
}

/* What the first result is of. */
static char *
title_of(const struct mw_page *page)
{
    const struct mw_page_input *first = page->inputs->pdata[0];
    const struct mw_page_answer *answer = page->answers->len ? page->answers->pdata[0] : NULL;
    const char *model = answer      ? mw_value_text(answer->it, "model")
                        : first->it ? mw_value_text(first->it, "model")
                                    : NULL;
    g_autofree char *machines = answer ? mw_page_machines_of(answer->it) : NULL;

    if (!model)
        return g_strdup(first->name);
    return page->answers->len > 1 || !machines
               ? g_strdup_printf("Training %s", model)
               : g_strdup_printf("Training %s on %s", model, machines);
}

static bool
put_page(struct mw_page *page, const char *title, GError **error)
{
    g_autofree char *style = resource("page.css"), *script = resource("page.js");
    g_autofree char *own = title ? g_strdup(title) : title_of(page);
    g_autoptr(GString) body = g_string_new(NULL), links = g_string_new(NULL);
    GString *out = page->out;

    page->out = body;
    bool good = put_sections(page, links, error);
    page->out = out;
    put_head(out, own, style, script);
    mw_html_put(out, "<nav aria-label=\"Sections\"><ul>");
    g_string_append(out, links->str);
    mw_html_put(out, "</ul></nav>\n<main>\n");
    g_string_append(out, body->str);
    mw_html_put(out, "</main>\n<footer>Written by memwall report.</footer>\n<script>");
    g_string_append(out, script);
    mw_html_put(out, "</script>\n</body>\n</html>\n");
    return good;
}

bool
mw_page_write(const char *path, const char *title, const char *const *files, bool (*stops)(void),
              const char **lacks, GError **error)
{
    struct mw_page page = {g_string_new(NULL),
                           g_ptr_array_new_with_free_func(free_input),
                           g_ptr_array_new_with_free_func(free_answer),
                           0,
                           stops,
                           NULL};
    bool good = true;

    for (; good && *files; files++)
        good = add_file(&page, *files, error);
    good = good && put_page(&page, title, error) && !mw_page_stops(&page, error) &&
           mw_file_write(path, page.out->str, page.out->len, error);
    *lacks = page.lacks;
    g_ptr_array_unref(page.answers);
    g_ptr_array_unref(page.inputs);
    g_string_free(page.out, TRUE);
    return good;
}
