/*
 * internal.h - a target: its rules, what it writes, and what targets write with.
 */
#ifndef MW_LAUNCH_INTERNAL_H
#define MW_LAUNCH_INTERNAL_H

#include "launch/launch.h"

enum mw_launch_verdict {
    MW_LAUNCH_CARRIED, /* what is written says it */
    MW_LAUNCH_LEFT,    /* a note says that it is not in there */
    MW_LAUNCH_REFUSED  /* without it there is nothing to write */
};

/* What becomes of a setting.  Of the rules for one setting the first decides whose `when` holds. */
struct mw_launch_rule {
    const char *setting;
    enum mw_launch_verdict verdict;
    bool (*when)(const struct mw_launch_plan *plan); /* NULL: always */
    const char *why; /* of LEFT and REFUSED, behind the setting's name and a colon */
};

#define MW_LAUNCH_LISTS 4

struct mw_launch_target {
    const char *name;
    const char *title; /* as a sentence has it */
    /* One behind the other, each ended by a NULL setting; NULL: no more. */
    const struct mw_launch_rule *rules[MW_LAUNCH_LISTS];
    /* Why the model is none that it trains; NULL: it does, or any.  g_free it. */
    char *(*why_not)(const struct mw_launch_plan *plan);
    bool (*write)(const struct mw_launch_plan *plan, struct mw_launch *out, GError **error);
    bool carries_all; /* settings without a rule: they are its own */
};

extern const struct mw_launch_target mw_launch_deepspeed, mw_launch_accelerate, mw_launch_fsdp2,
    mw_launch_torchtitan, mw_launch_megatron, mw_launch_memwall;

/* Updates for the tokens that are asked for; 0: nobody says how many. */
int64_t mw_launch_steps(const struct mw_launch_plan *plan);
/* Sequences of a micro-batch of the GPUs that share a model. */
int64_t mw_launch_micro_batch(const struct mw_launch_plan *plan);
int64_t mw_launch_global_batch(const struct mw_launch_plan *plan);

/* Conditions of rules. */
bool mw_launch_is_by_name(const struct mw_launch_plan *plan);  /* the strategy: others lack it */
bool mw_launch_trains_else(const struct mw_launch_plan *plan); /* than by AdamW */
bool mw_launch_has_groups(const struct mw_launch_plan *plan);  /* several sharding groups */
bool mw_launch_offloads(const struct mw_launch_plan *plan);    /* optimizer state */
bool mw_launch_offloads_activations(const struct mw_launch_plan *plan);
/* State that leaves the GPU, and not all of it together. */
bool mw_launch_offloads_a_part(const struct mw_launch_plan *plan);
bool mw_launch_is_split(const struct mw_launch_plan *plan, enum mw_state state);
bool mw_launch_is_off_gpu(const struct mw_launch_plan *plan, enum mw_state state);
bool mw_launch_is_on_nvme(const struct mw_launch_plan *plan, enum mw_state state);
bool mw_launch_uses_nvme(const struct mw_launch_plan *plan);
/* A checkpoint for several layers together. */
bool mw_launch_groups_layers(const struct mw_launch_plan *plan);
bool mw_launch_overlaps_steps(const struct mw_launch_plan *plan);
bool mw_launch_fills_bubbles(const struct mw_launch_plan *plan); /* by gradients of weights */
bool mw_launch_trains_lora(const struct mw_launch_plan *plan);

/* Rules of several targets (rules.c): of software that has the usual strategies and reaches no
 * drives; of what memwall_job.py does for every script; of adapters (adapters.c). */
extern const struct mw_launch_rule mw_launch_no_drives_rules[], mw_launch_script_rules[],
    mw_launch_adapter_rules[];

/* --- what is written -------------------------------------------------------------------------- */

/* Takes the text. */
void mw_launch_add(struct mw_launch *out, const char *name, char *text, bool runs);
/* What is left out, and what to fill in. */
void mw_launch_note(struct mw_launch *out, const char *format, ...) G_GNUC_PRINTF(2, 3);
void mw_launch_fill(struct mw_launch *out, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* A script of the project, copied. */
bool mw_launch_add_script(struct mw_launch *out, const char *name, GError **error);

/* The begin of launch.sh: what it is of, and where it goes on. */
GString *mw_launch_shell(const struct mw_launch_plan *plan, const char *target);
/* Goes to its folder, where the target's files are; paths that variables have stay right. */
void mw_launch_shell_go(GString *shell);
/* MODEL, and the tokens to train on: from the environment, else as the plan has them. */
void mw_launch_shell_model(GString *shell, const struct mw_launch_plan *plan,
                           struct mw_launch *out);
/* Of several nodes: MASTER_ADDR, MASTER_PORT and NODE_RANK, from the environment. */
void mw_launch_shell_node(GString *shell, struct mw_launch *out);
/* "exec torchrun ...", up to what is run. */
void mw_launch_shell_torchrun(GString *shell, const struct mw_launch_plan *plan,
                              struct mw_launch *out);
/* Another word of a command, or an option with its value, in a line of its own. */
void mw_launch_word(GString *shell, const char *word);
void mw_launch_option(GString *shell, const char *name, const char *value);
/* The value is that of a variable of the shell. */
void mw_launch_variable(GString *shell, const char *name, const char *variable);
void mw_launch_option_number(GString *shell, const char *name, int64_t value);
/* The options of the scripts: model, data, batch, length, number of steps, type, recomputation. */
void mw_launch_shell_job(GString *shell, const struct mw_launch_plan *plan);

/* Parameters and gradients in fp32 where the plan has 16 bits: `by` says so. */
void mw_launch_note_fp32(const struct mw_launch_plan *plan, struct mw_launch *out, const char *by);
/* PEFT's file of a plan that trains adapters, and what of them differs. */
#define MW_LAUNCH_ADAPTERS "adapter_config.json"
void mw_launch_add_adapters(const struct mw_launch_plan *plan, struct mw_launch *out);

/* DeepSpeed's rules and its file, which accelerate reads too. */
extern const struct mw_launch_rule mw_launch_deepspeed_rules[];
void mw_launch_add_ds_config(const struct mw_launch_plan *plan, struct mw_launch *out);

/* A batch job for the files of a target. */
void mw_launch_slurm(const struct mw_launch_plan *plan, const struct mw_launch_target *target,
                     struct mw_launch *out);

#endif
