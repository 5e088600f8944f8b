/* internal.h - what sections of a page share: the results that were read. */
#ifndef MW_REPORT_HTML_INTERNAL_H
#define MW_REPORT_HTML_INTERNAL_H

#include <json-glib/json-glib.h>

#include "base/json_writer.h"
#include "report/html/table.h"
#include "report/html/text.h"
#include "report/html/trace.h"
#include "report/html/value.h"
#include "report/rows.h"

/* What a page is divided into, in this order. */
enum mw_page_section {
    MW_PAGE_VERDICT,
    MW_PAGE_COMPARISON,
    MW_PAGE_MACHINES,
    MW_PAGE_TIMELINE,
    MW_PAGE_SWEEP,
    MW_PAGE_MEMORY,
    MW_PAGE_CHANGES,
    MW_PAGE_MEASURED,
    MW_PAGE_FIGURES,
    MW_PAGE_INPUTS,
    MW_PAGE_SECTIONS
};

struct mw_page_kind;

/* A file that was read. */
struct mw_page_input {
    char *name; /* without folders, on one line */
    const struct mw_page_kind *kind;
    gsize bytes;
    char *digest;                /* SHA-256, in hexadecimal */
    JsonNode *root;              /* of JSON; else NULL */
    JsonObject *it;              /* of root */
    struct mw_page_trace *trace; /* of a trace */
    struct mw_page_lines *lines; /* of a sweep */
};

/* An answer: of simulate, of a run, or of a pick of advise. */
struct mw_page_answer {
    JsonObject *it;
    const struct mw_page_input *input;
    char *pick; /* "cheapest, least risk"; NULL: none */
};

struct mw_page {
    GString *out;
    GPtrArray *inputs;  /* of struct mw_page_input * */
    GPtrArray *answers; /* of struct mw_page_answer * */
    guint pictures;     /* so far: the number of one is part of its ids */
    bool (*stops)(void);
    const char *lacks; /* static: what cannot be shown here; NULL: nothing */
};

/* With *error: the page is not wanted any more. */
bool mw_page_stops(const struct mw_page *page, GError **error);

/* A row of the table of kinds. */
struct mw_page_kind {
    const char *schema; /* with its version: "memwall-answer/1" */
    const char *what;   /* "an answer of plan or simulate" */
    const char *rows;   /* the key that must be an array of objects; NULL: none */
    guint sections;     /* bits of enum mw_page_section */
};

/* The lines of a sweep, as mw_rows. */
struct mw_page_lines {
    char *names;
    GPtrArray *lines; /* of char * */
    guint at;
};
struct mw_page_lines *mw_page_lines_new(const char *names); /* without lines */
struct mw_rows mw_page_rows_of(struct mw_page_lines *lines);
struct mw_page_lines *mw_page_lines_of_csv(const char *text, const char *path, GError **error);
struct mw_page_lines *mw_page_lines_of_json(GPtrArray *rows, const char *path, GError **error);
bool mw_page_is_csv(const char *text);
void mw_page_lines_free(struct mw_page_lines *lines); /* NULL is allowed */

/* NULL with one line that names the file. */
struct mw_page_input *mw_page_input_read(const char *path, GError **error);
void mw_page_input_free(struct mw_page_input *input);
bool mw_page_input_yields(const struct mw_page_input *input, enum mw_page_section section);

/* Sections, each of them all that all inputs have for it.  Those that may fail: gnuplot draws. */
bool mw_page_verdict(struct mw_page *page, GError **error);
bool mw_page_comparison(struct mw_page *page, GError **error);
bool mw_page_machines(struct mw_page *page, GError **error);
bool mw_page_timeline(struct mw_page *page, GError **error);
bool mw_page_sweep(struct mw_page *page, GError **error);
bool mw_page_memory(struct mw_page *page, GError **error);
bool mw_page_changes(struct mw_page *page, GError **error);
bool mw_page_measured(struct mw_page *page, GError **error);
bool mw_page_figures(struct mw_page *page, GError **error);
bool mw_page_inputs(struct mw_page *page, GError **error);

#define MW_PAGE_LANE_PX 24   /* of a lane in a timeline; page.css and page.js have the same, */
#define MW_PAGE_CURVE_PX 48  /* and of a curve below them */
#define MW_PAGE_LEVELS 10000 /* a curve's levels for the script, of its most bytes */

/* A curve as a path of `wide` units across, and as an object for the script. */
void mw_page_curve_put(GString *page, const struct mw_page_curve *curve, int64_t span_ns,
                       guint wide, guint top);
void mw_page_curve_write(struct mw_json_writer *json, const struct mw_page_curve *curve,
                         int64_t tick_ns);

/* The texts of an array of `it`, as a list. */
void mw_page_texts(GString *page, JsonObject *it, const char *key, const char *class_name);

/* "2 x dgx2 (32 GPUs)".  g_free it. */
char *mw_page_machines_of(JsonObject *it);
/* "llama-3.1-8b on rtx4090, zero-infinity-cpu", with what tells the answers apart.  g_free it. */
char *mw_page_subject(const struct mw_page_answer *answer);

#endif
