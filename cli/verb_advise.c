/* `memwall advise`: which machines to train on, within a deadline and a budget. */
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/question.h"

/* Texts of the verb's own options. */
static char *machines, *prices, *region, *pay, *max_nodes, *deadline, *budget, *max_power;

/* Each goes by the same name in the library. */
static const GOptionEntry search[] = {
    {"machines", 0, 0, G_OPTION_ARG_STRING, &machines,
     "compare these profiles, separated by commas; a pattern such as aws-* stands for all "
     "that it matches, and priced for those of --prices (default any: every profile that memwall "
     "list hwprofiles names)",
     "any|priced|HW,..."},
    {"prices", 0, 0, G_OPTION_ARG_FILENAME, &prices,
     "take prices from a CSV file with columns profile, usd_per_hour, usd_to_buy, available, "
     "region, date and source, instead of the profiles'",
     "FILE"},
    {"region", 0, 0, G_OPTION_ARG_STRING, &region,
     "of several prices of a profile, take those of this region; it may be a pattern", "REGION"},
    {"pay", 0, 0, G_OPTION_ARG_STRING, &pay,
     "rent machines, buy them, or any (default): rent where there is one, else buy",
     "rent|buy|any"},
    {"max-nodes", 0, 0, G_OPTION_ARG_STRING, &max_nodes,
     "try 1, 2, 4 and so on up to N nodes of each (default 8)", "N"},
    {"deadline", 0, 0, G_OPTION_ARG_STRING, &deadline, "end within so many days (default 365)",
     "DAYS"},
    {"budget", 0, 0, G_OPTION_ARG_STRING, &budget,
     "cost at most so much: rent, or an owner's share of the price with electricity and worn "
     "drives",
     "USD"},
    {"max-power", 0, 0, G_OPTION_ARG_STRING, &max_power,
     "take at most so much power, where the profile states a node's", "KW"},
    G_OPTION_ENTRY_NULL};
static const struct cli_words_group groups[] = {{CLI_WORDS_OWN, search}, {NULL, NULL}};

static bool
ask_search(const struct cli_request *request, GError **error)
{
    for (const GOptionEntry *option = search; option->long_name; option++) {
        const char *text = *(char *const *)option->arg_data;
        if (text && !cli_question_set(request->asked, option->long_name, text, error))
            return false;
    }
    return true;
}

static int
answer(const struct cli_request *request)
{
    g_autoptr(GError) error = NULL;

    return ask_search(request, &error) ? cli_ask(request, MEMWALL_ADVISE) : cli_fail(error);
}

static int
run(int argc, char **argv)
{
    return cli_request_run(&cli_verb_advise, groups, NULL, NULL, argc, argv, answer);
}

const struct cli_verb cli_verb_advise = {
    .name = "advise",
    .summary = "find the machines that train a model the cheapest and the fastest",
    .arguments = "-m MODEL --tokens N",
    .examples = "memwall advise -m llama-3.1-8b --tokens 15B --deadline 10 --budget 5000\n"
                "memwall advise -m gpt3-175b --tokens 300B --machines 'aws-*' --max-nodes 64",
    .details =
        "Each machine is tried with 1, 2, 4 and so on nodes, and with the best strategy, placement "
        "and batch that the options leave open.  What cannot be within the limits, or cannot be "
        "faster or cheaper than another, is left out by a lower bound of its step "
        "(docs/MODEL.md): the answer is that of trying all.  Exit status 3: nothing is within "
        "the limits.",
    .run = run,
};
