/*
 * memwall.h - libmemwall: asks how a model trains on a machine whose memory it does not fit into.
 * The `memwall` command asks through this header too.  docs/library.md lists the names of settings
 * and figures, and has an example.
 *
 * A question is set by names and texts, as the command takes options: "model", "hardware",
 * "strategy", "outlook", the settings of docs/reference.md without their dashes ("batch",
 * "param-device"), and keys of the hardware profile ("gpu.memory_gib").  An answer has figures by
 * the names that the command's JSON has.  "Does not fit" is an answer, not an error.
 *
 * Ownership: what a *_new function or memwall_ask returns belongs to the caller, who gives it to
 * the *_free function of its kind, which takes NULL.  Texts that an object hands out belong to the
 * object: they stay as they are until it is freed.
 *
 * Errors: a function that can fail takes `error`, which may be NULL.  It returns false or NULL and
 * sets *error, which belongs to the caller.  Where it succeeds it leaves *error alone.
 *
 * Threads: objects are independent of each other.  Several threads may ask the same question at
 * once while none sets it, and read the same answer or error.  The library prints nothing that it
 * is not asked to print, never ends the process, and changes no setting of it (locale, signals,
 * directory).
 *
 * The interface is stable within one number of the shared library, libmemwall.so.0: functions and
 * constants may be added, none changes.
 */
#ifndef MEMWALL_H
#define MEMWALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct memwall_question;
struct memwall_answer;
struct memwall_error;

/* The version of the library that is running, such as "0.1.0".  Static. */
const char *memwall_version(void);

/* --- errors ---------------------------------------------------------------------------------- */

enum memwall_code {
    MEMWALL_INVALID = 1, /* a value, a name or a combination that makes no sense */
    MEMWALL_FORMAT = 2,  /* a file that cannot be parsed */
    MEMWALL_IO = 3,      /* reading or writing fails */
    MEMWALL_DEVICE = 4,  /* a device fails */
    MEMWALL_LARGE = 5    /* the answer would take too long */
};

enum memwall_code memwall_error_code(const struct memwall_error *error);
/* One line in English: what is wrong, and what would be accepted. */
const char *memwall_error_message(const struct memwall_error *error);
/* The name of the setting that is wrong, or NULL where no single one is. */
const char *memwall_error_setting(const struct memwall_error *error);
void memwall_error_free(struct memwall_error *error);

/* --- questions ------------------------------------------------------------------------------- */

/* A question in which nothing is set: the model is missing, the hardware is this machine ("here",
 * as `memwall calibrate` measured it), and all else is for the planner to choose.  Never NULL. */
struct memwall_question *memwall_question_new(void);

/* Sets a name, or opens it again where `value` is NULL.  Checks what can be said of this value
 * alone (names, numbers, ranges); memwall_ask checks the rest.  Beside settings and keys:
 *
 *   model            a preset, or the path of a Hugging Face config.json
 *   hardware         a profile, the path of an .ini file, or parts, such as
 *                    "4xrtx4090,ram=256,nvme=2x4TB,pcie=4x8"
 *   software         a software profile, or the path of an .ini file; if left open "memwall" on a
 *                    machine that `memwall calibrate` measured, else what usually trains so; what
 *                    the machine allows is "ideal"
 *   strategy         one strategy, or several with commas between them, which are then compared
 *   outlook          low, typical or high: which end of the profile's ranges to take
 *   deepspeed        the path of a ds_config.json with settings; those that are set go before it
 *   deepspeed-notes  "on": notes say what of the plan a written ds_config.json cannot express
 *   plan             the path of a plan that was written before, to be simulated on `hardware`
 *                    (left open: the machine that it was made for); only keys and outlook go
 *                    with it
 *   machines         for MEMWALL_ADVISE, in place of `hardware`: profiles with commas between them,
 *                    patterns such as aws-*, any, or priced: those of `prices` (left open: any);
 *                    with `hardware` that depth says what to buy for it
 *   prices, region   a CSV file of prices (lib/prices.h), and which of its regions
 *   pay              rent, spot, buy or any
 *   max-nodes, deadline, budget, max-power, min-drive-life
 *                    of that search: the most nodes (left open: 8), days (left open: 365), USD and
 *                    kW, and the fewest days that drives must last
 *   over             of that search too: settings that it tries in every combination, as
 *                    "tp=1,2,4 prefetch=1,8"
 *   search           for MEMWALL_ADVISE: machines (left open), or parallel: all ways to divide the
 *                    training over the GPUs of `hardware`; `over` then has the values that an axis
 *                    is left with
 *   interruptions, checkpoint-every
 *                    with `pay` spot: how often a node is taken back a day, and minutes between two
 *                    saves (left open: 4, and the interval that loses least) */
bool memwall_question_set(struct memwall_question *question, const char *name, const char *value,
                          struct memwall_error **error);
/* The text that the name is set to; NULL: it is not set, or no setting has this name. */
const char *memwall_question_get(const struct memwall_question *question, const char *name);

/* Checks all that can be checked without the machine's figures: whether the model and the files can
 * be read, and whether the settings agree.  A profile is neither looked for nor read, so this holds
 * before a machine is measured. */
bool memwall_question_check(const struct memwall_question *question, struct memwall_error **error);

/* Called in the thread that asks, before each lengthy activity and with every plan that is
 * simulated: `doing` names the activity, `simulated` is the number of plans so far.  It must
 * return, and not ask. */
typedef void (*memwall_listener)(void *data, const char *doing, int simulated);
void memwall_question_listen(struct memwall_question *question, memwall_listener listener,
                             void *data);

void memwall_question_free(struct memwall_question *question);

/* --- answers --------------------------------------------------------------------------------- */

enum memwall_depth {
    MEMWALL_PLAN = 0,     /* what is kept where, and whether it fits */
    MEMWALL_SIMULATE = 1, /* and how long a step takes, what limits it, what would help most */
    MEMWALL_WHAT_IF = 2,  /* and tables of other bandwidths and latencies; of one strategy only */
    MEMWALL_STEP = 3,     /* the step time without its range and without advice: the quickest */
    MEMWALL_LARGEST = 4,  /* the most layers of the model that fit, for each strategy */
    MEMWALL_CUTS = 5,     /* ways to divide a step between the tiers, by ZeRO-Offload's argument */
    MEMWALL_ROW = 6,      /* a row of many: the step time with its range, without notes, remedies
                           * or advice */
    MEMWALL_ESTIMATE = 7, /* the same by the closed form, which builds and simulates no plan: in
                           * milliseconds.  What only a plan tells is not known, such as the
                           * bottleneck */
    MEMWALL_ESTIMATE_CHECKED = 8, /* and the step of that plan by the engine */
    MEMWALL_ADVISE = 9 /* which of "machines" train on "tokens" the cheapest and the fastest;
                           * with "hardware" what to buy for it, or with "search" how to divide
                           * its GPUs */
};

/* The best plan that the planner finds, as deep as asked.  Takes from milliseconds to seconds.
 * Where several strategies are compared, each has the best of its plans, and none has advice; one
 * that would take too long is left out, and a warning says so. */
struct memwall_answer *memwall_ask(const struct memwall_question *question,
                                   enum memwall_depth depth, struct memwall_error **error);

/* Whether a plan fits: that of any strategy, where several are compared. */
bool memwall_answer_fits(const struct memwall_answer *answer);

/* A figure by its name in the JSON (docs/schema.json, "result"), with dots into objects and numbers
 * from 0 into lists: "step_time_s", "peak_bytes.gpu", "lanes.0.busy_s".  Of several strategies the
 * first is meant; "answers.1.step_time_s" is of the second.  MEMWALL_LARGEST has
 * "largest.0.layers", MEMWALL_CUTS "placements_front.0.at_least_s".  False: no figure has this
 * name, or it is no number.  What is not known (null in JSON) is NAN.  true is 1. */
bool memwall_answer_number(const struct memwall_answer *answer, const char *name, double *value);
/* The same of a text: "strategy", "bottleneck", "remedy".  NULL: there is none, or it is null. */
const char *memwall_answer_string(const struct memwall_answer *answer, const char *name);

/* A key of the profile that the answer is for, as its file has it, or as it was set:
 * "gpu.memory_gib", "profile.description"; "profile.name" is the profile's name.  NULL: the profile
 * does not give it. */
const char *memwall_answer_key(const struct memwall_answer *answer, const char *name);

/* What to know before trusting the answer, one line each from index 0 on: a strategy was left out,
 * a plan was made for another machine.  NULL: there are no more. */
const char *memwall_answer_warning(const struct memwall_answer *answer, size_t index);

enum memwall_form {
    MEMWALL_TEXT = 0,      /* tables for people */
    MEMWALL_DETAILS = 1,   /* the same with lanes, channels, phases and closed forms */
    MEMWALL_JSON = 2,      /* docs/schema.json describes it */
    MEMWALL_CSV = 3,       /* a line for each strategy */
    MEMWALL_PLAN_TEXT = 4, /* the plan, for "plan", `memwall simulate` and `memwall run` */
    MEMWALL_DEEPSPEED = 5, /* the plan as a ds_config.json */
    MEMWALL_TRACE = 6,     /* a Chrome trace, which Perfetto opens; only as a file */
    MEMWALL_PLOT = 7       /* a picture, made by gnuplot; only as a file, .png or .svg */
};

/* Prints the answer in one form to the caller's stream, whose own error flag says whether writing
 * succeeded.  Tables fit the width of a terminal.  Fails where the answer has nothing of this
 * form: forms from MEMWALL_PLAN_TEXT on need the plan of one strategy, and that it fits;
 * MEMWALL_LARGEST, MEMWALL_CUTS and MEMWALL_ADVISE have text and JSON only; estimates have JSON and
 * CSV only. */
bool memwall_answer_print(const struct memwall_answer *answer, enum memwall_form form, FILE *out,
                          struct memwall_error **error);
/* The same into a file, which is written whole or not at all. */
bool memwall_answer_write(const struct memwall_answer *answer, enum memwall_form form,
                          const char *path, struct memwall_error **error);

/* MEMWALL_JSON, MEMWALL_TEXT and MEMWALL_PLAN_TEXT as strings; the plan's is NULL where
 * memwall_answer_print would fail. */
const char *memwall_answer_json(const struct memwall_answer *answer);
const char *memwall_answer_text(const struct memwall_answer *answer);
const char *memwall_answer_plan(const struct memwall_answer *answer);

void memwall_answer_free(struct memwall_answer *answer);

/* --- what there is --------------------------------------------------------------------------- */

/* Names of "models", "hardware", "software", "strategies", "settings" or "keys", up to NULL; NULL:
 * no list is called `what`.  Give them to memwall_names_free. */
char **memwall_names(const char *what);
void memwall_names_free(char **names);

#ifdef __cplusplus
}
#endif

#endif
