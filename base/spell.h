/*
 * spell.h - how a text names a setting that a person can change.
 *
 * Code that knows nothing of a command line writes `{batch}` for the name of a setting, `{batch=3}`
 * for a setting and its value, `{key nvme.drives=2}` for a key of the hardware profile, in the
 * formats of its messages.  Read by a program that sets them by name, the three are `batch`,
 * `batch=3` and `nvme.drives=2`.  A command installs a spelling of its own, once, before it has
 * threads: `--batch`, `--batch 3` and `--set nvme.drives=2`.
 */
#ifndef MW_BASE_SPELL_H
#define MW_BASE_SPELL_H

#include <glib.h>

#define MW_SPELLING_ODD_MAX 8

struct mw_spelling {
    const char *before;  /* a setting's name */
    const char *between; /* name and value */
    const char *key;     /* before a key of the hardware profile */
    struct {
        const char *name, *as; /* names with another spelling, ended by NULL */
    } odd[MW_SPELLING_ODD_MAX];
};

/* Sets the spelling, which must live as long as the process. */
void mw_spell_as(const struct mw_spelling *spelling);

/* The text with everything in braces spelled out.  A `{` stays if neither a small letter nor `%`
 * follows.  g_free it. */
char *mw_spelled(const char *text);

/* The same for a format; its arguments stay as they are.  Use `{%s=%d}` only for names that no
 * spelling has among its exceptions. */
char *mw_spelled_printf(const char *format, ...) G_GNUC_PRINTF(1, 2);
char *mw_spelled_vprintf(const char *format, va_list arguments) G_GNUC_PRINTF(1, 0);
void mw_spelled_append(GString *text, const char *format, ...) G_GNUC_PRINTF(2, 3);

#endif
