#include "study/plan_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/input.h"
#include "base/spell.h"
#include "hardware/hwprofile.h"
#include "study/planned.h"
#include "study/study.h"

/* Names stand in the head's first lines. */
#define HEAD_LINES 4
#define MACHINE "machine "
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

/* What the first plan's lines say was asked and chosen: the reader has found these lines in its
 * head. */
static bool
check_settings(const char *path, const char *text, const struct mw_plan *plan, GError **error)
{
    struct mw_settings settings;
    const struct {
        const char *begin, *line;
    } lines[] = {{"asked", plan->asked}, {"chosen", plan->chosen}};

    for (size_t i = 0; i < G_N_ELEMENTS(lines); i++)
        if (!mw_planned_read(lines[i].line, &settings, error)) {
            g_prefix_error(error, "%s: line %u: ", path, find_line(text, lines[i].begin));
            return false;
        }
    return true;
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
    else if (!check_software(path, text, variants, error) ||
             !check_settings(path, text, variants->plans[0], error))
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

/* The rest of the line that begins with a word, and the number of that line.  Reads only the head:
 * a plan may be large. */
static char *
read_name(const char *path, const char *word, int *line)
{
    FILE *in = g_file_test(path, G_FILE_TEST_IS_REGULAR) ? fopen(path, "re") : NULL;
    char *text = NULL, *name = NULL;
    size_t size = 0;

    for (*line = 0; in && !name && *line < HEAD_LINES && getline(&text, &size, in) >= 0; ++*line)
        if (g_str_has_prefix(text, word))
            name = g_strstrip(g_strdup(text + strlen(word)));
    free(text);
    if (in)
        fclose(in);
    return name;
}

/* The name, then what was set; NULL: the file does not say.  g_strfreev it. */
static char **
read_machine(const char *path, int *line)
{
    g_autofree char *text = read_name(path, MACHINE, line);

    return text && *text ? mw_plan_signed_words(text) : NULL;
}

static bool
is_here(char **words)
{
    return !strcmp(words[0], "here") || !*words[0];
}

/* A plan may come from elsewhere: no path that it names is read. */
static bool
is_path(const char *name)
{
    return strchr(name, '/') || g_str_has_suffix(name, ".ini");
}

/* The named machine, with what was set. */
static struct mw_profile *
load_machine(char **words, GError **error)
{
    struct mw_profile *profile = mw_hwprofile_load(words[0], error);
    bool good = profile != NULL;

    for (char **key = words + 1; good && *key; key++)
        good = mw_profile_set(profile, *key, error);
    if (good && words[1])
        good = mw_profile_check(profile, error);
    if (!good)
        g_clear_pointer(&profile, mw_profile_free);
    return profile;
}

/* What was set of the machine at hand may be of another one, which is measured first if need be. */
static bool
check_keys(char **words, GError **error)
{
    bool good = true;

    for (char **key = words + 1; good && *key; key++)
        good = mw_profile_set_check(&mw_hwprofile_kind, *key, error);
    return good;
}

static bool
check_machine(char **words, GError **error)
{
    struct mw_profile *profile;

    if (is_here(words))
        return check_keys(words, error);
    if (is_path(words[0]))
        return mw_refuse(error,
                         "it is in the file %s, and no file that a plan names is read; give "
                         "{hardware=%s}",
                         words[0], words[0]);
    profile = load_machine(words, error);
    mw_profile_free(profile);
    return profile != NULL;
}

bool
mw_plan_file_check_machine(const char *path, bool of_all, GError **error)
{
    int line;
    g_auto(GStrv) words = read_machine(path, &line);
    g_autofree char *hardware = mw_spelled("{hardware}");

    if (!g_file_test(path, G_FILE_TEST_IS_REGULAR)) /* is read once, and not here */
        return !of_all || mw_refuse(error,
                                    "%s: can be read only once, and not for the machine alone: "
                                    "give {hardware} for the one that the plan was made for",
                                    path);
    if (!words)
        return mw_refuse(error,
                         "%s: does not say for which machine it was made: give {hardware}; "
                         "{hardware=here} is this one",
                         path);
    if (check_machine(words, error))
        return true;
    g_prefix_error(error, "%s: line %d: made for a machine that %s has to name: ", path, line,
                   hardware);
    return false;
}

char *
mw_plan_file_machine(const char *path, char ***keys)
{
    int line;
    g_auto(GStrv) words = read_machine(path, &line);

    *keys = NULL;
    if (!words || !check_machine(words, NULL))
        return NULL;
    *keys = g_strdupv(words + 1);
    return g_strdup(is_here(words) ? "here" : words[0]);
}
