/* The verdict for what runs the gate: JUnit's XML, and GitHub's workflow commands. */
#include <string.h>

#include "base/format.h"
#include "report/gate.h"

#define SUITE "memwall check"

/* Findings are one line of text without control characters, as XML wants it. */
static void
write_case(FILE *out, const struct mw_gate_finding *finding)
{
    g_autofree char *name = g_markup_escape_text(finding->name, -1);
    g_autofree char *message = finding->message ? g_markup_escape_text(finding->message, -1) : NULL;

    fprintf(out, "    <testcase classname=\"memwall.check\" name=\"%s\"", name);
    if (finding->failed)
        fprintf(out, ">\n      <failure message=\"%s\"/>\n    </testcase>\n", message);
    else if (message)
        fprintf(out, ">\n      <system-out>%s</system-out>\n    </testcase>\n", message);
    else
        fputs("/>\n", out);
}

void
mw_gate_junit_write(FILE *out, const struct mw_gate_report *report)
{
    g_autoptr(GArray) findings = mw_gate_findings(report);
    guint failures = 0;

    for (guint i = 0; i < findings->len; i++)
        failures += g_array_index(findings, struct mw_gate_finding, i).failed;
    fprintf(out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites tests=\"%u\" "
            "failures=\"%u\">\n  <testsuite name=\"" SUITE "\" tests=\"%u\" failures=\"%u\" "
            "errors=\"0\" skipped=\"0\">\n",
            findings->len, failures, findings->len, failures);
    for (guint i = 0; i < findings->len; i++)
        write_case(out, &g_array_index(findings, struct mw_gate_finding, i));
    fputs("  </testsuite>\n</testsuites>\n", out);
}

/* As actions/toolkit escapes: a property also its own ends. */
static void
put_escaped(FILE *out, const char *text, bool property)
{
    for (; *text; text++)
        if (*text == '%' || *text == '\r' || *text == '\n' ||
            (property && (*text == ':' || *text == ',')))
            fprintf(out, "%%%02X", (unsigned char)*text);
        else
            fputc(*text, out);
}

void
mw_gate_github_write(FILE *out, const struct mw_gate_report *report)
{
    g_autoptr(GArray) findings = mw_gate_findings(report);

    for (guint i = 0; i < findings->len; i++) {
        const struct mw_gate_finding *finding = &g_array_index(findings, struct mw_gate_finding, i);
        if (!finding->message)
            continue;
        fprintf(out, "::%s title=", finding->failed ? "error" : "warning");
        g_autofree char *title = g_strdup_printf(SUITE ": %s", finding->name);
        put_escaped(out, title, true);
        fputs("::", out);
        put_escaped(out, finding->message, false);
        fputc('\n', out);
    }
}
