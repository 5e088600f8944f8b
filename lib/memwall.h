/*
 * memwall.h - libmemwall: how a model trains on a machine that it does not fit into, asked by a
 * program.  docs/library.md has the names of settings and figures, and an example.
 *
 * A question is set by names and texts, as the command takes options: "model", "hardware",
 * "strategy", "outlook", the settings of docs/reference.md without their dashes ("batch",
 * "param-device"), and keys of the hardware profile ("gpu.memory_gib").  An answer has figures by
 * the names that the command's JSON has.  "Does not fit" is an answer, not an error.
 *
 * Ownership: what a function named *_new or memwall_ask returns is the caller's, to be given to
 * the *_free of its kind, which takes NULL.  Texts that an object hands out are the object's: they
 * live and stay as they are until it is freed.
 *
 * Errors: a function that can fail takes `error`, which may be NULL.  It returns false or NULL and
 * sets *error, which is the caller's; where it succeeds *error is left alone.
 *
 * Threads: objects are independent of each other.  One question may be asked by several threads at
 * once while none sets it; an answer and an error are read by any number of threads.  The library
 * neither prints nor ends the process, and changes no setting of it (locale, signals, directory).
 *
 * The interface is stable within one number of the shared library, libmemwall.so.0.
 */
#ifndef MEMWALL_H
#define MEMWALL_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct memwall_question;
struct memwall_answer;
struct memwall_error;

/* Of the library that is running, such as "0.1.0".  Static. */
const char *memwall_version(void);

/* --- errors ---------------------------------------------------------------------------------- */

enum memwall_code {
    MEMWALL_INVALID = 1, /* a value, a name or a combination that makes no sense */
    MEMWALL_FORMAT = 2,  /* a file that cannot be parsed */
    MEMWALL_IO = 3,      /* reading fails */
    MEMWALL_DEVICE = 4,  /* a device fails */
    MEMWALL_LARGE = 5    /* the answer would take too long */
};

enum memwall_code memwall_error_code(const struct memwall_error *error);
/* One line in English: what is wrong, and what would be accepted. */
const char *memwall_error_message(const struct memwall_error *error);
/* The name of the setting that is wrong, or NULL where it is no single one. */
const char *memwall_error_setting(const struct memwall_error *error);
void memwall_error_free(struct memwall_error *error);

/* --- questions ------------------------------------------------------------------------------- */

/* Nothing is set: a model is missing, hardware is this machine ("here", as `memwall calibrate`
 * measured it), and all else is for the planner to choose.  Never NULL. */
struct memwall_question *memwall_question_new(void);

/* Sets, or with a NULL value opens again.  What can be told of this value alone is checked here:
 * names, numbers, ranges; the rest by memwall_ask. */
bool memwall_question_set(struct memwall_question *question, const char *name, const char *value,
                          struct memwall_error **error);
/* The text that it is set to; NULL: it is not set, or there is none of this name. */
const char *memwall_question_get(const struct memwall_question *question, const char *name);

/* Called in the thread that asks, before whatever takes time and with every plan that is simulated:
 * `doing` says in words what the question is at, `simulated` how many plans there were.  It must
 * return, and not ask. */
typedef void (*memwall_listener)(void *data, const char *doing, int simulated);
void memwall_question_listen(struct memwall_question *question, memwall_listener listener,
                             void *data);

void memwall_question_free(struct memwall_question *question);

/* --- answers --------------------------------------------------------------------------------- */

enum memwall_depth {
    MEMWALL_PLAN = 0,     /* what is where, and whether it fits */
    MEMWALL_SIMULATE = 1, /* and how long a step takes, what limits it, what would help most */
    MEMWALL_WHAT_IF = 2   /* and tables of other bandwidths and latencies */
};

/* The best plan that the planner finds, as deep as asked.  Takes from milliseconds to seconds. */
struct memwall_answer *memwall_ask(const struct memwall_question *question,
                                   enum memwall_depth depth, struct memwall_error **error);

bool memwall_answer_fits(const struct memwall_answer *answer);

/* A figure by its name in the JSON (docs/schema.json, "result"), with dots into what holds it and
 * numbers from 0 into lists: "step_time_s", "peak_bytes.gpu", "lanes.0.busy_s".  False: there is
 * none of this name, or it is no number.  What is not known (null in JSON) is NAN.  true is 1. */
bool memwall_answer_number(const struct memwall_answer *answer, const char *name, double *value);
/* The same of a text: "strategy", "bottleneck", "remedy".  NULL: there is none, or it is null. */
const char *memwall_answer_string(const struct memwall_answer *answer, const char *name);

/* As the command prints it: JSON with one answer, or tables for people. */
const char *memwall_answer_json(const struct memwall_answer *answer);
const char *memwall_answer_text(const struct memwall_answer *answer);
/* The plan as text, for `memwall simulate PLANFILE` and `memwall run`; NULL where it does not
 * fit. */
const char *memwall_answer_plan(const struct memwall_answer *answer);

void memwall_answer_free(struct memwall_answer *answer);

/* --- what there is --------------------------------------------------------------------------- */

/* Names of "models", "hardware", "strategies", "settings" or "keys", up to NULL; NULL: nothing is
 * called `what`.  To be given to memwall_names_free. */
char **memwall_names(const char *what);
void memwall_names_free(char **names);

#ifdef __cplusplus
}
#endif

#endif
