/* The options of plan, simulate, sweep, run and compare, and which of them a verb takes. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/options.h"
#include "cli/request_internal.h"
#include "cli/words.h"
#include "model/model.h"

/* Options that a verb refuses with a message of its own; its help leaves them out. */
static const struct {
    const struct cli_verb *verb;
    const char *options[20];
} refused[] = {
    {&cli_verb_simulate, {"largest", "strategies"}},
    {&cli_verb_sweep,
     {"serve", "objective", "frozen-device", "reference-logprobs", "response", "critic"}},
    {&cli_verb_check,
     {"serve", "objective", "frozen-device", "reference-logprobs", "response", "critic"}},
    {&cli_verb_advise,
     {"deepspeed", "csv", "largest", "strategies", "details", "what-if", "output", "trace", "plot",
      "write-deepspeed", "serve", "objective", "frozen-device", "reference-logprobs", "response",
      "critic"}},
    {&cli_verb_plan,
     {"details", "what-if", "trace", "plot", "tokens", "serve", "objective", "frozen-device",
      "reference-logprobs", "response", "critic"}},
    {&cli_verb_run,
     {"csv", "largest", "strategies", "details", "what-if", "tokens", "serve", "software",
      "objective", "frozen-device", "reference-logprobs", "response", "critic"}},
};

static const char *const *
refused_by(const struct cli_verb *verb)
{
    static const char *const none[] = {NULL};

    for (size_t i = 0; i < G_N_ELEMENTS(refused); i++)
        if (refused[i].verb == verb)
            return refused[i].options;
    return none;
}

bool
cli_request_refuses(const struct cli_verb *verb, const char *option)
{
    return g_strv_contains(refused_by(verb), option);
}

static void
hide(const char *const *names, GOptionEntry *entries)
{
    for (GOptionEntry *entry = entries; entry->long_name; entry++)
        if (g_strv_contains(names, entry->long_name))
            entry->flags |= G_OPTION_FLAG_HIDDEN;
}

/* The options of compare, whose plan is the run's. */
static const char *const of_compare[] = {"help", "hardware", "set",  "outlook",
                                         "json", "trace",    "plot", NULL};

static void
keep_those_of_compare(GOptionEntry *entries)
{
    GOptionEntry *kept = entries;

    for (const GOptionEntry *entry = entries; entry->long_name; entry++)
        if (g_strv_contains(of_compare, entry->long_name))
            *kept++ = *entry;
    *kept = (GOptionEntry)G_OPTION_ENTRY_NULL;
}

#define GROUPS_MAX 16

static void
append_groups(struct cli_words_group groups[GROUPS_MAX], const struct cli_words_group *more)
{
    int count = 0;

    while (groups[count].title)
        count++;
    for (; more && more->title; more++) {
        g_assert_cmpint(count, <, GROUPS_MAX - 1);
        groups[count++] = *more;
    }
}

#define GROUP_MAX 16 /* options per group */

static void
set_question(GOptionEntry entries[GROUP_MAX], struct cli_request *request,
             struct cli_request_words *words)
{
    const GOptionEntry question[] = {
        {"help", 'h', 0, G_OPTION_ARG_NONE, &words->help, "print this help", NULL},
        {"model", 'm', 0, G_OPTION_ARG_FILENAME, &request->model_name,
         "use this preset (memwall list models), Hugging Face config.json, or dimensions: "
         "layers=96,hidden=12288,heads=96 (default: ffn 4 * hidden, a head per 128, vocab 50257, "
         "seq 2048, the block of architecture=gpt2)",
         "MODEL"},
        {"hardware", 'H', 0, G_OPTION_ARG_FILENAME, &request->hardware_name,
         "use this hardware profile (memwall list hwprofiles), .ini file, or parts: "
         "4xrtx4090,ram=256,nvme=2x4TB,pcie=4x8 (a profile of one GPU and how many; of a node "
         "memory in GiB, memory channels as dram=8xDDR5-4800, drives, network as net=400 in Gb/s; "
         "PCIe generation and lanes of each GPU; the rest as in the profile) (default: here, this "
         "machine; it is measured first if it never was)",
         "HW"},
        {"software", 0, 0, G_OPTION_ARG_FILENAME, &request->software_name,
         "predict the step of this software (memwall list software) or .ini file (default: memwall "
         "where it measured the machine, else what usually trains so; ideal: "
         "what the machine allows)",
         "SOFTWARE"},
        {"strategy", 's', 0, G_OPTION_ARG_STRING, &words->strategies,
         "use this strategy (memwall list strategies); plan and simulate compare several, "
         "separated by commas (default auto: the fastest that fits, within 2% the simplest)",
         "STRATEGY"},
        {"set", 0, 0, G_OPTION_ARG_STRING_ARRAY, &request->sets,
         "change a key of the hardware profile, such as gpu.memory_gib=80, or of the software's, "
         "such as software.operators.share=0.8; memwall list hwprofiles NAME and memwall list "
         "software NAME show keys, units and values",
         "SECTION.KEY=VALUE"},
        {"outlook", 0, 0, G_OPTION_ARG_STRING, &words->outlook,
         "take every range of the profile at its low (slow) end, its typical value or its high end "
         "(default: typical, with the times at both ends beside it)",
         "low|typical|high"},
        {"deepspeed", 0, 0, G_OPTION_ARG_FILENAME, &request->deepspeed_file,
         "read settings from a ds_config.json", "FILE"},
        G_OPTION_ENTRY_NULL};

    memcpy(entries, question, sizeof question);
}

static void
set_output(GOptionEntry entries[GROUP_MAX], struct cli_request *request)
{
    const GOptionEntry output[] = {
        {"json", 0, 0, G_OPTION_ARG_NONE, &request->json, "print JSON instead of tables", NULL},
        {"csv", 0, 0, G_OPTION_ARG_NONE, &request->csv, "print CSV instead of tables", NULL},
        {"largest", 0, 0, G_OPTION_ARG_NONE, &request->largest,
         "print the most layers of this model that fit, for each strategy, as a table or, with "
         "--json, as JSON",
         NULL},
        {"strategies", 0, 0, G_OPTION_ARG_NONE, &request->cuts,
         "print every way to divide a step between GPU, CPU and NVMe: ZeRO-Offload's argument for "
         "any model, and for this one on this machine",
         NULL},
        {"details", 0, 0, G_OPTION_ARG_NONE, &request->details,
         "print lanes, channels, phases, closed forms and bars of memory too (JSON always has "
         "their figures)",
         NULL},
        {"what-if", 0, 0, G_OPTION_ARG_NONE, &request->sensitivity,
         "print the step time at other bandwidths and latencies, and the bandwidths that "
         "efficiencies need",
         NULL},
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &request->output, "write the plan as text",
         "FILE"},
        {"trace", 0, 0, G_OPTION_ARG_FILENAME, &request->trace,
         "write a Chrome trace, for ui.perfetto.dev", "FILE"},
        {"plot", 0, 0, G_OPTION_ARG_FILENAME, &request->plot,
         "draw timeline and memory as .png or .svg, with gnuplot", "FILE"},
        {"write-deepspeed", 0, 0, G_OPTION_ARG_FILENAME, &request->write_deepspeed,
         "write a ds_config.json for the plan", "FILE"},
        G_OPTION_ENTRY_NULL};

    memcpy(entries, output, sizeof output);
}

/* Where no file has that name. */
static bool
is_preset(const char *name)
{
    struct mw_model model;

    return !strchr(name, G_DIR_SEPARATOR) && !g_file_test(name, G_FILE_TEST_EXISTS) &&
           mw_model_load_preset(name, &model, NULL);
}

/* Takes the argument after the options: the file that simulate may read, and that compare reads. */
static bool
take_file(struct cli_request *request, const struct cli_verb *verb, int argc, char **argv,
          GError **error)
{
    bool simulate = verb == &cli_verb_simulate, compare = verb == &cli_verb_compare;

    if (argc == 2 && (compare || (simulate && !request->model_name)))
        request->plan_file = g_strdup(argv[1]);
    else if (argc == 2 && simulate && g_file_test(argv[1], G_FILE_TEST_IS_REGULAR))
        return mw_refuse(error, "-m %s: a plan file, such as %s, takes no -m: it has its model",
                         request->model_name, argv[1]);
    else if (argc > 1)
        return mw_refuse(error, "unexpected argument \"%s\"; see memwall %s --help",
                         argv[compare ? 2 : 1], verb->name);
    if (simulate && request->plan_file && is_preset(request->plan_file))
        return mw_refuse(error, "%s: no such plan file; for the model, -m %s", argv[1], argv[1]);
    if (compare && !request->plan_file)
        return mw_refuse(error,
                         "RUNFILE is missing: a file that `memwall run --save-timeline` wrote");
    return true;
}

bool
cli_request_read_words(struct cli_request *request, struct cli_request_words *words,
                       const struct cli_verb *verb, const struct cli_words_group *more, int argc,
                       char **argv, GError **error)
{
    GOptionEntry question[GROUP_MAX], output[GROUP_MAX];
    struct cli_words_group groups[GROUPS_MAX] = {{"Question", question}, {"Answer", output}};
    const struct cli_words all = {verb, groups, NULL};

    set_question(question, request, words);
    set_output(output, request);
    hide(refused_by(verb), question);
    hide(refused_by(verb), output);
    if (verb == &cli_verb_sweep || verb == &cli_verb_check) /* their answers are others */
        groups[1] = (struct cli_words_group){NULL, NULL};
    if (verb == &cli_verb_compare) {
        keep_those_of_compare(question);
        keep_those_of_compare(output);
    } else {
        append_groups(groups, more);
        append_groups(groups, cli_options_groups(refused_by(verb)));
    }
    if (!cli_words_parse(&all, &argc, &argv, error))
        return false;
    if (words->help)
        cli_words_help(&all, stdout);
    return words->help || take_file(request, verb, argc, argv, error);
}

void
cli_request_words_clear(struct cli_request_words *words)
{
    g_free(words->strategies);
    g_free(words->outlook);
}
