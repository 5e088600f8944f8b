/* The table of targets, and what becomes of each setting. */
#include "launch/internal.h"

#include <string.h>

#include "base/error.h"
#include "base/nearest.h"
#include "base/spell.h"
#include "planner/settings/table.h"

#define SLURM "slurm"

static const struct mw_launch_target *const targets[] = {
    &mw_launch_deepspeed,  &mw_launch_accelerate, &mw_launch_fsdp2,
    &mw_launch_torchtitan, &mw_launch_megatron,   &mw_launch_memwall,
};

/* Values that every software has anyway, or that say what a default is: nobody misses them. */
static const struct {
    const char *setting, *text;
} usual[] = {
    {"tiles", "1"},
    {"logits-chunks", "1"},
    {"prefetch", "1"},
    {"param-loads", "3"},
    {"commit", "none"},
    {"update", "end"},
    {"update-on", "host"},
    {"micro-batch-order", "depth"},
    {"checkpoints", "inputs"},
    {"schedule", "1f1b"},
    {"data-parallel", "sync"},
    {"overlap", "on"},
    {"partition", "bandwidth"},
    {"pp", "1"},
    {"tp", "1"},
    {"cp", "1"},
    {"ep", "1"},
    {"etp", "tp"},
    {"capacity-factor", "none"},
    {"tokens", NULL},          /* number of steps */
    {"global-batch", NULL},    /* follows from the others */
    {"optimizer-chunk", NULL}, /* size of a buffer */
    {"buffer-sets", NULL},
    {"lora-alpha", NULL}, /* of adapters, which say it themselves */
};

static bool
is_usual(const char *setting, const char *text)
{
    for (size_t i = 0; i < G_N_ELEMENTS(usual); i++)
        if (!strcmp(usual[i].setting, setting) && (!usual[i].text || !strcmp(usual[i].text, text)))
            return true;
    return false;
}

/* What every target says, unless a rule of its own comes first. */
static const struct mw_launch_rule common[] = {
    {"strategy", MW_LAUNCH_CARRIED, NULL, NULL},
    {"nodes", MW_LAUNCH_CARRIED, NULL, NULL},
    {"gpus", MW_LAUNCH_CARRIED, NULL, NULL},
    {"batch", MW_LAUNCH_CARRIED, NULL, NULL},
    {"grad-accum", MW_LAUNCH_CARRIED, NULL, NULL},
    {"seq", MW_LAUNCH_CARRIED, NULL, NULL},
    {"dtype", MW_LAUNCH_CARRIED, NULL, NULL},
    {"param-device", MW_LAUNCH_CARRIED, NULL, NULL},
    {"optimizer-device", MW_LAUNCH_CARRIED, NULL, NULL},
    {"gradient-device", MW_LAUNCH_CARRIED, NULL, NULL},
    {"activation-device", MW_LAUNCH_CARRIED, NULL, NULL},
    {"stage-replicas", MW_LAUNCH_REFUSED, NULL, "all its stages have as many GPUs"},
    {"cp", MW_LAUNCH_REFUSED, NULL, "the files that are written for it keep sequences whole"},
    {"capacity-factor", MW_LAUNCH_REFUSED, NULL,
     "the files that are written for it drop no tokens"},
    {"gate", MW_LAUNCH_REFUSED, NULL,
     "the files that are written for it have the gate of the model's type"},
    {"router-aux-loss-coef", MW_LAUNCH_REFUSED, NULL,
     "the files that are written for it have the losses of the model's config.json"},
    {"router-z-loss-coef", MW_LAUNCH_REFUSED, NULL,
     "the files that are written for it have the losses of the model's config.json"},
    {"ep", MW_LAUNCH_REFUSED, NULL, "the files that are written for it spread no experts"},
    {"data-parallel", MW_LAUNCH_REFUSED, NULL, "its GPUs wait for the sum of their gradients"},
    {NULL, MW_LAUNCH_LEFT, NULL, NULL},
};

static const struct mw_launch_rule *
rule_in(const struct mw_launch_rule *rule, const struct mw_launch_plan *plan, const char *setting)
{
    for (; rule && rule->setting; rule++)
        if (!strcmp(rule->setting, setting) && (!rule->when || rule->when(plan)))
            return rule;
    return NULL;
}

/* NULL: no rule knows it. */
static const struct mw_launch_rule *
rule_of(const struct mw_launch_target *target, const struct mw_launch_plan *plan,
        const char *setting)
{
    const struct mw_launch_rule *found = NULL;

    for (int i = 0; !found && i < MW_LAUNCH_LISTS; i++)
        found = rule_in(target->rules[i], plan, setting);
    return found ? found : rule_in(common, plan, setting);
}

/* The first rule that refuses a setting of the plan, and that setting's text. */
static const struct mw_launch_rule *
refusal(const struct mw_launch_target *target, const struct mw_launch_plan *plan, const char **text)
{
    const struct mw_launch_rule *strategy = rule_of(target, plan, "strategy");

    *text = mw_launch_asked(plan, "strategy");
    if (strategy && strategy->verdict == MW_LAUNCH_REFUSED)
        return strategy;
    for (size_t i = 0; i < MW_SETTINGS_COUNT; i++) {
        const char *name = mw_settings_table[i].name;
        *text = mw_launch_asked(plan, name);
        const struct mw_launch_rule *rule =
            *text && !is_usual(name, *text) ? rule_of(target, plan, name) : NULL;
        if (rule && rule->verdict == MW_LAUNCH_REFUSED)
            return rule;
    }
    return NULL;
}

static bool
can(const struct mw_launch_target *target, const struct mw_launch_plan *plan)
{
    g_autofree char *why = target->why_not ? target->why_not(plan) : NULL;
    const char *unused;

    return !why && !refusal(target, plan, &unused);
}

/* "; deepspeed and memwall do". */
static char *
who_can(const struct mw_launch_plan *plan)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new();
    GString *text = g_string_new("; ");

    for (size_t i = 0; i < G_N_ELEMENTS(targets); i++)
        if (can(targets[i], plan))
            g_ptr_array_add(names, (gpointer)targets[i]->name);
    for (guint i = 0; i < names->len; i++)
        g_string_append_printf(text, "%s%s",
                               i == 0               ? ""
                               : i + 1 < names->len ? ", "
                                                    : " and ",
                               (const char *)names->pdata[i]);
    g_string_append(text, names->len == 0 ? "no target can" : names->len == 1 ? " does" : " do");
    return g_string_free(text, FALSE);
}

static bool
check_can(const struct mw_launch_target *target, const struct mw_launch_plan *plan, GError **error)
{
    const char *text;
    const struct mw_launch_rule *rule = refusal(target, plan, &text);
    g_autofree char *why = !rule && target->why_not ? target->why_not(plan) : NULL;
    g_autofree char *others = rule || why ? who_can(plan) : NULL;

    if (why)
        return mw_refuse(error, "%s cannot train {model=%s}: %s%s", target->title,
                         mw_launch_asked(plan, "model"), why, others);
    return !rule || mw_refuse(error, "%s cannot carry out {%s=%s}: %s%s", target->title,
                              rule->setting, text, rule->why, others);
}

static void
note_settings(const struct mw_launch_target *target, const struct mw_launch_plan *plan,
              struct mw_launch *out)
{
    for (size_t i = 0; i < MW_SETTINGS_COUNT; i++) {
        const char *name = mw_settings_table[i].name, *text = mw_launch_asked(plan, name);
        const struct mw_launch_rule *rule = rule_of(target, plan, name);
        bool carried = rule ? rule->verdict == MW_LAUNCH_CARRIED : target->carries_all;
        if (!text || is_usual(name, text) || carried)
            continue;
        g_autofree char *spelled = mw_spelled_printf("{%s=%s}", name, text);
        if (rule)
            mw_launch_note(out, "%s: left out: %s", spelled, rule->why);
        else
            mw_launch_note(out, "%s: left out: %s has no option for it", spelled, target->title);
    }
}

/* --- names ------------------------------------------------------------------------------------ */

char *
mw_launch_names(void)
{
    GString *text = g_string_new(NULL);

    for (size_t i = 0; i < G_N_ELEMENTS(targets); i++)
        g_string_append_printf(text, "%s|", targets[i]->name);
    g_string_append(text, SLURM "[:TARGET]");
    return g_string_free(text, FALSE);
}

static const struct mw_launch_target *
find(const char *name, bool *batch, GError **error)
{
    const char *inner = name;

    *batch = g_str_has_prefix(name, SLURM) && (!name[strlen(SLURM)] || name[strlen(SLURM)] == ':');
    if (*batch)
        inner = name[strlen(SLURM)] ? name + strlen(SLURM) + 1 : mw_launch_memwall.name;
    for (size_t i = 0; i < G_N_ELEMENTS(targets); i++)
        if (!strcmp(targets[i]->name, inner))
            return targets[i];
    g_autofree char *names = mw_launch_names();
    mw_refuse(error, "{for=%s}: must be one of %s", name, names);
    return NULL;
}

bool
mw_launch_check(const char *target, GError **error)
{
    bool batch;

    return find(target, &batch, error) != NULL;
}

/* --- a launch --------------------------------------------------------------------------------- */

static void
free_file(void *data)
{
    struct mw_launch_file *file = data;

    g_free(file->name);
    g_free(file->text);
    g_free(file);
}

void
mw_launch_clear(struct mw_launch *launch)
{
    g_clear_pointer(&launch->files, g_ptr_array_unref);
    g_clear_pointer(&launch->left, g_ptr_array_unref);
    g_clear_pointer(&launch->fill, g_ptr_array_unref);
}

bool
mw_launch_make(const char *name, const struct mw_launch_plan *plan, struct mw_launch *out,
               GError **error)
{
    bool batch;
    const struct mw_launch_target *target = find(name, &batch, error);

    if (!target || !check_can(target, plan, error))
        return false;
    *out = (struct mw_launch){g_ptr_array_new_with_free_func(free_file),
                              g_ptr_array_new_with_free_func(g_free),
                              g_ptr_array_new_with_free_func(g_free)};
    if (!target->write(plan, out, error)) {
        mw_launch_clear(out);
        return false;
    }
    note_settings(target, plan, out);
    if (batch)
        mw_launch_slurm(plan, target, out);
    return true;
}
