#include "study/plan_file.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/input.h"
#include "base/spell.h"
#include "hardware/hwprofile.h"
#include "study/study.h"

/* Limit of a line: no file has a longer name.  Names stand in the head's first lines. */
#define NAME_LINE_BYTES 4096
#define HEAD_LINES 4
#define SOFTWARE "software "

/* The first "op 12" or the like in a message; NULL: none. */
static char *
find_entity(const char *message)
{
    g_autoptr(GRegex) entity = g_regex_new("\\b(op|slot|tensor|chunk) [0-9]+\\b", 0, 0, NULL);
    g_autoptr(GMatchInfo) match = NULL;

    return g_regex_match(entity, message, 0, &match) ? g_match_info_fetch(match, 0) : NULL;
}

/* The number of the line that begins so; 0: none, or it may be another one's. */
static guint
find_line(const char *text, const char *entity)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    g_autofree char *begin = g_strconcat(entity, " ", NULL);
    guint line = 0;

    for (guint i = 0; lines[i]; i++) {
        if (g_str_has_prefix(lines[i], "section ") || g_str_has_prefix(lines[i], "program 1 ") ||
            (i && g_str_has_prefix(lines[i], MW_PLAN_TEXT_BEGIN " ")))
            return 0;
        if (g_str_has_prefix(lines[i], begin))
            line = i + 1;
    }
    return line;
}

/* The number of the line that names the software of one of the plans, which may have none: only
 * heads have such lines. */
static guint
software_line(const char *text, uint32_t plan)
{
    guint line = 0;

    for (const char *at = text; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        line++;
        if (g_str_has_prefix(at, SOFTWARE) && !plan--)
            return line;
    }
    return 0;
}

/* What a plan's line says was set of its software. */
static bool
check_software(const char *path, const char *text, const struct mw_variants *variants,
               GError **error)
{
    uint32_t before = 0;

    for (uint32_t i = 0; i < variants->plan_count; i++) {
        if (!mw_plan_check_software(variants->plans[i], error)) {
            g_prefix_error(error, "%s: line %u: ", path, software_line(text, before));
            return false;
        }
        before += variants->plans[i]->software != NULL;
    }
    return true;
}

struct mw_variants *
mw_plan_file_read(const char *path, GError **error)
{
    static const struct mw_input_kind kind = {MW_PLAN_FILE_WANTED, MW_PLAN_TEXT_BYTES_MAX,
                                              MW_PLAN_TEXT_BEGIN};
    gsize length;
    g_autofree char *text = mw_input_read(path, &kind, &length, error);
    char why[512];

    if (!text)
        return NULL;
    struct mw_variants *variants = mw_variants_parse_steps(text, length, why, sizeof why);
    if (!variants)
        g_set_error(error, MW_ERROR, MW_ERROR_FORMAT, "%s: %s", path, why);
    else if (!check_software(path, text, variants, error))
        g_clear_pointer(&variants, mw_variants_free);
    return variants;
}

void
mw_plan_file_blame(const char *path, GError **error)
{
    g_autofree char *entity = *error ? find_entity((*error)->message) : NULL;
    g_autofree char *text = NULL;
    guint line = 0;

    if (entity && g_file_get_contents(path, &text, NULL, NULL))
        line = find_line(text, entity);
    if (line)
        g_prefix_error(error, "%s: line %u: ", path, line);
    else
        g_prefix_error(error, "%s: ", path);
}

/* The rest of the line that begins with a word.  Reads only the head: a plan may be large. */
static char *
read_name(const char *path, const char *word)
{
    FILE *in = g_file_test(path, G_FILE_TEST_IS_REGULAR) ? fopen(path, "re") : NULL;
    char line[NAME_LINE_BYTES], *name = NULL;

    for (int i = 0; in && !name && i < HEAD_LINES && fgets(line, sizeof line, in); i++)
        if (g_str_has_prefix(line, word))
            name = g_strstrip(g_strdup(line + strlen(word)));
    if (in)
        fclose(in);
    return name;
}

/* A name, not a path: a plan may come from elsewhere. */
static char *
read_machine(const char *path)
{
    g_autofree char *name = read_name(path, "machine ");
    bool is_name =
        name && strcmp(name, "here") && !strchr(name, '/') && !g_str_has_suffix(name, ".ini");

    return is_name ? g_steal_pointer(&name) : NULL;
}

bool
mw_plan_file_check_machine(const char *path, GError **error)
{
    g_autofree char *name = read_machine(path);
    struct mw_profile *profile = name ? mw_hwprofile_load(name, error) : NULL;

    if (name && !profile) {
        g_autofree char *hardware = mw_spelled("{hardware}");
        g_prefix_error(error, "%s: made for a machine that %s has to name: ", path, hardware);
        return false;
    }
    mw_profile_free(profile);
    return true;
}

char *
mw_plan_file_machine(const char *path)
{
    g_autofree char *name = read_machine(path);
    struct mw_profile *profile = name ? mw_hwprofile_load(name, NULL) : NULL;

    if (!profile)
        return NULL;
    mw_profile_free(profile);
    return g_steal_pointer(&name);
}
