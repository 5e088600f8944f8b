/* Files of a launch: launch.sh, scripts, notes. */
#include <stdarg.h>
#include <string.h>

#include "base/datadir.h"
#include "base/error.h"
#include "launch/internal.h"

void
mw_launch_add(struct mw_launch *out, const char *name, char *text, bool runs)
{
    struct mw_launch_file *file = g_new(struct mw_launch_file, 1);

    *file = (struct mw_launch_file){g_strdup(name), text, runs};
    g_ptr_array_add(out->files, file);
}

void
mw_launch_note(struct mw_launch *out, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    g_ptr_array_add(out->left, g_strdup_vprintf(format, arguments));
    va_end(arguments);
}

void
mw_launch_fill(struct mw_launch *out, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    g_ptr_array_add(out->fill, g_strdup_vprintf(format, arguments));
    va_end(arguments);
}

void
mw_launch_note_fp32(const struct mw_launch_plan *plan, struct mw_launch *out, const char *by)
{
    if (plan->sizing->settings.dtype != MW_DTYPE_FP32)
        mw_launch_note(out, "%s", by);
}

bool
mw_launch_add_script(struct mw_launch *out, const char *name, GError **error)
{
    g_autofree char *path = mw_datadir_find("launch", name);
    g_autoptr(GError) failed = NULL;
    char *text = NULL;

    if (!path || !g_file_get_contents(path, &text, NULL, &failed)) {
        g_set_error(error, MW_ERROR, MW_ERROR_IO, "launch/%s: %s", name,
                    failed ? failed->message : "is not in any data folder of memwall");
        return false;
    }
    mw_launch_add(out, name, text, false);
    return true;
}

/* --- launch.sh -------------------------------------------------------------------------------- */

char *
mw_launch_quoted(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_@%+=:,./-";

    return *word && strspn(word, plain) == strlen(word) ? g_strdup(word) : g_shell_quote(word);
}

void
mw_launch_word(GString *shell, const char *word)
{
    g_autofree char *text = mw_launch_quoted(word);

    g_string_append_printf(shell, " \\\n    %s", text);
}

void
mw_launch_variable(GString *shell, const char *name, const char *variable)
{
    g_string_append_printf(shell, " \\\n    %s \"$%s\"", name, variable);
}

void
mw_launch_option(GString *shell, const char *name, const char *value)
{
    g_autofree char *text = mw_launch_quoted(value);

    g_string_append_printf(shell, " \\\n    %s %s", name, text);
}

void
mw_launch_option_number(GString *shell, const char *name, int64_t value)
{
    g_string_append_printf(shell, " \\\n    %s %" G_GINT64_FORMAT, name, value);
}

/* A comment has one line, whatever a name has. */
static char *
one_line(const char *text)
{
    return g_strdelimit(g_strdup(text), "\n\r", ' ');
}

GString *
mw_launch_shell(const struct mw_launch_plan *plan, const char *target)
{
    const struct mw_settings *s = &plan->sizing->settings;
    g_autofree char *model = one_line(mw_launch_asked(plan, "model"));
    g_autofree char *machine = one_line(mw_launch_asked(plan, "hardware"));
    GString *shell = g_string_new("#!/bin/bash\n");

    g_string_append_printf(shell,
                           "# memwall export --for %s: %s on %" G_GINT64_FORMAT " x %s, %s\n",
                           target, model, s->nodes, machine, mw_strategy_name((int)s->strategy));
    g_string_append(shell, "set -euo pipefail\n");
    return shell;
}

void
mw_launch_shell_go(GString *shell)
{
    g_string_append(shell, "# What is named from where this is called; then on in its folder.\n"
                           "for name in MODEL DATA HOSTFILE HF_ASSETS; do\n"
                           "    [ ! -e \"${!name:-}\" ] ||\n"
                           "        printf -v \"$name\" %s \"$(realpath -- \"${!name}\")\"\n"
                           "done\n"
                           "cd -- \"$(dirname -- \"${BASH_SOURCE[0]}\")\"\n");
}

void
mw_launch_shell_model(GString *shell, const struct mw_launch_plan *plan, struct mw_launch *out)
{
    const char *model = mw_launch_asked(plan, "model");
    g_autofree char *absolute = plan->is_path ? g_canonicalize_filename(model, NULL) : NULL;
    g_autofree char *path = absolute ? g_shell_quote(absolute) : NULL;

    if (path) {
        g_string_append_printf(shell, "default_model=%s\n: \"${MODEL:=$default_model}\"\n", path);
    } else {
        g_string_append(shell, ": \"${MODEL:?is missing: name or folder of the model at Hugging "
                               "Face}\"\n");
        mw_launch_fill(out,
                       "MODEL: fill in a name, a folder or a config.json of %s, as Hugging "
                       "Face has it",
                       model);
    }
    g_string_append(shell, ": \"${DATA:?is missing: a file of tokens, as llm.c writes them; or "
                           "random, to measure speed}\"\n");
    mw_launch_fill(out, "DATA: fill in a file of tokens (.bin, the format of llm.c), or random to "
                        "measure speed alone");
}

void
mw_launch_shell_node(GString *shell, struct mw_launch *out)
{
    g_string_append(shell, ": \"${MASTER_ADDR:?is missing: name or address of the first node}\"\n"
                           ": \"${NODE_RANK:?is missing: number of this node, from 0 on}\"\n"
                           ": \"${MASTER_PORT:=29500}\"\n");
    mw_launch_fill(out, "MASTER_ADDR, NODE_RANK: launch.sh is started on every node, with the name "
                        "of the first one and its own number from 0 on");
}

void
mw_launch_shell_torchrun(GString *shell, const struct mw_launch_plan *plan, struct mw_launch *out)
{
    const struct mw_settings *s = &plan->sizing->settings;

    if (s->nodes > 1)
        mw_launch_shell_node(shell, out);
    g_string_append(shell, "exec torchrun");
    if (s->nodes > 1) {
        mw_launch_option_number(shell, "--nnodes", s->nodes);
        mw_launch_variable(shell, "--node-rank", "NODE_RANK");
        mw_launch_variable(shell, "--master-addr", "MASTER_ADDR");
        mw_launch_variable(shell, "--master-port", "MASTER_PORT");
    } else {
        mw_launch_word(shell, "--standalone");
    }
    mw_launch_option_number(shell, "--nproc-per-node", s->gpus_per_node);
}

/* Layers that backward computes again: "all", "0-3,8"; NULL: none. */
static char *
recomputed_text(const struct mw_settings *s)
{
    char list[MW_LAYER_SET_TEXT_MAX];

    if (s->checkpoint_interval == 0)
        return NULL;
    if (!mw_layer_set_is_empty(&s->recompute_set)) {
        mw_layer_set_write(&s->recompute_set, list);
        return g_strdup(list);
    }
    return s->recompute_layers > 0 ? g_strdup_printf("0-%" G_GINT64_FORMAT, s->recompute_layers - 1)
                                   : g_strdup("all");
}

void
mw_launch_shell_job(GString *shell, const struct mw_launch_plan *plan)
{
    const struct mw_settings *s = &plan->sizing->settings;
    int64_t steps = mw_launch_steps(plan);

    mw_launch_variable(shell, "--model", "MODEL");
    mw_launch_variable(shell, "--data", "DATA");
    mw_launch_option_number(shell, "--micro-batch", mw_launch_micro_batch(plan));
    mw_launch_option_number(shell, "--grad-accum", s->grad_accum);
    mw_launch_option_number(shell, "--seq", s->seq);
    if (steps)
        mw_launch_option_number(shell, "--steps", steps);
    mw_launch_option(shell, "--dtype", mw_dtype_name(s->dtype));
    if (s->tp > 1)
        mw_launch_option_number(shell, "--tp", s->tp);
    if (s->logits_chunks > 1)
        mw_launch_option_number(shell, "--logits-chunks", s->logits_chunks);
    if (mw_launch_trains_lora(plan))
        mw_launch_option(shell, "--lora", MW_LAUNCH_ADAPTERS);
    if (s->frozen_dtype != MW_DTYPE_NONE)
        mw_launch_option(shell, "--weight-bits", mw_launch_asked(plan, "weight-bits"));
    g_autofree char *layers = recomputed_text(s);
    if (layers)
        mw_launch_option(shell, "--recompute-layers", layers);
    if (layers && mw_launch_is_off_gpu(plan, MW_STATE_ACTIVATIONS))
        mw_launch_word(shell, "--offload-activations");
    g_string_append(shell, " \\\n    --save \"${SAVE:-checkpoints}\" \\\n    \"$@\"\n");
}
