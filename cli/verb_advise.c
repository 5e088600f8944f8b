/* `memwall advise`: which machines to train on, or what to buy for one, within deadline and budget.
 */
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/question.h"

/* Texts of the verb's own options. */
static char *machines, *prices, *region, *pay, *max_nodes, *deadline, *budget, *max_power,
    *min_drive_life, *interruptions, *checkpoint_every, *budget_of, *include, *search_of;
static char **over;

/* Each goes by the same name in the library. */
static const GOptionEntry search[] = {
    {"search", 0, 0, G_OPTION_ARG_STRING, &search_of,
     "search machines (default), or with -H all ways to divide the training over its GPUs "
     "(parallel): tensor slices, pipeline stages, data-parallel ranks, micro-batch, order, "
     "recomputation, what is partitioned and where states rest; the fastest is certified by a "
     "bound",
     "machines|parallel"},
    {"machines", 0, 0, G_OPTION_ARG_STRING, &machines,
     "compare these profiles, separated by commas; a pattern such as aws-* stands for all "
     "that it matches, and priced for those of --prices (default any: every profile that memwall "
     "list hwprofiles names, but machines that are only simulated)",
     "any|priced|HW,..."},
    {"prices", 0, 0, G_OPTION_ARG_FILENAME, &prices,
     "take prices from a CSV file with columns profile, usd_per_hour, usd_per_hour_spot, "
     "usd_to_buy, available, condition (new, used or discontinued), region, date and source, "
     "instead of the profiles'; profiles such as part:drive are parts, for -H",
     "FILE"},
    {"region", 0, 0, G_OPTION_ARG_STRING, &region,
     "of several prices of a profile, take those of this region; it may be a pattern", "REGION"},
    {"pay", 0, 0, G_OPTION_ARG_STRING, &pay,
     "rent machines, rent those that may be taken back (spot), buy them, or any (default): rent "
     "where there is one, else buy",
     "rent|spot|buy|any"},
    {"over", 0, 0, G_OPTION_ARG_STRING_ARRAY, &over,
     "try these values of a setting too, on every machine and in every combination with others: "
     "tp, pp, tiles, prefetch, grad-accum and what else plan a step; with --search parallel these "
     "values of an axis alone",
     "NAME=V1,V2"},
    {"max-nodes", 0, 0, G_OPTION_ARG_STRING, &max_nodes,
     "try 1, 2, 4 and so on up to N nodes of each (default 8)", "N"},
    {"deadline", 0, 0, G_OPTION_ARG_STRING, &deadline, "end within so many days (default 365)",
     "DAYS"},
    {"budget", 0, 0, G_OPTION_ARG_STRING, &budget,
     "pay at most so much: rent, or the price of all nodes with electricity and replaced drives; "
     "with -H what is bought, or what the training costs on a rented machine",
     "USD"},
    {"budget-of", 0, 0, G_OPTION_ARG_STRING, &budget_of,
     "what --budget bounds of machines that are bought: what has to be paid (cash, the default), "
     "or "
     "an owner's share of the price over node.amortisation_years, with electricity and wear of "
     "drives (share)",
     "cash|share"},
    {"include", 0, 0, G_OPTION_ARG_STRING, &include,
     "rank what is no longer sold at the price that is known too", "discontinued"},
    {"max-power", 0, 0, G_OPTION_ARG_STRING, &max_power,
     "take at most so much power, where the profile states a node's", "KW"},
    {"min-drive-life", 0, 0, G_OPTION_ARG_STRING, &min_drive_life,
     "leave out machines whose drives last less than so many days of this training, by their rated "
     "endurance",
     "DAYS"},
    {"interruptions", 0, 0, G_OPTION_ARG_STRING, &interruptions,
     "with --pay spot, a node is taken back so often a day (default 4, what traces of AWS have)",
     "N"},
    {"checkpoint-every", 0, 0, G_OPTION_ARG_STRING, &checkpoint_every,
     "with --pay spot, save the state at this interval (default: that which loses least time)",
     "MINUTES"},
    G_OPTION_ENTRY_NULL};
static const struct cli_words_group groups[] = {{CLI_WORDS_OWN, search}, {NULL, NULL}};

static bool
ask_search(const struct cli_request *request, GError **error)
{
    g_autofree char *axes = over ? g_strjoinv(" ", over) : NULL;

    for (const GOptionEntry *option = search; option->long_name; option++) {
        bool several = option->arg == G_OPTION_ARG_STRING_ARRAY;
        const char *text = several ? axes : *(char *const *)option->arg_data;
        if (text && !cli_question_set(request->asked, option->long_name, text, error))
            return false;
    }
    return true;
}

/* What is searched decides what else may be asked. */
static bool
check(const struct cli_request *request, bool measures, GError **error)
{
    (void)measures;
    return !search_of || cli_question_set(request->asked, "search", search_of, error);
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
    return cli_request_run(&cli_verb_advise, groups, NULL, check, argc, argv, answer);
}

const struct cli_verb cli_verb_advise = {
    .name = "advise",
    .summary = "find the machines to train a model on, or what to buy for one",
    .arguments = "-m MODEL (--tokens N [-H HW] | --search parallel -H HW)",
    .examples = "memwall advise -m llama-3.1-8b --tokens 15B --deadline 10 --budget 5000\n"
                "memwall advise -m gpt3-175b --tokens 300B --machines 'aws-*' --max-nodes 64\n"
                "memwall advise -m llama-3.1-70b --tokens 20M -H rtx4090\n"
                "memwall advise -m gpt3-175b -H dgx-a100 --nodes 64 --search parallel",
    .details =
        "Each machine is tried with 1, 2, 4 and so on nodes, and with the best strategy, placement "
        "and batch that the options leave open.  What cannot be within the limits, or cannot be "
        "faster or cheaper than another, is left out by a lower bound of its step "
        "(docs/MODEL.md): the answer is that of trying all.  Exit status 3: nothing is within "
        "the limits.\n"
        "USD is the rent, or an owner's share of the price for the time of the training, with "
        "electricity and wear of drives; to pay is the whole sum that has to be there.  The "
        "headroom of a candidate is the share that is left of each memory that it uses (with what "
        "the software takes of it), and, at the slow end of its range (at most), of the deadline "
        "and of the budget; its margin is the least of these.  The least risk is the candidate of "
        "the front with the largest margin.\n"
        "With -H: what to buy for a machine that one has, each step with its price and what it "
        "brings per USD (a drive, memory, a card, another card, a node, a network; for a rented "
        "machine another instance of its provider), and pairs of steps where none gains alone.\n"
        "With --search parallel and -H: the fastest way to divide a step of --global-batch "
        "sequences over all GPUs.  Each point of the space is evaluated by the closed form, or "
        "left "
        "out by a lower bound of its time or its memory (of orders, 1f1b, gpipe and interleaved "
        "are "
        "searched); the gap says how far the fastest of the "
        "answer may be from the fastest of all by the closed form, which has no latency and lets "
        "all lanes overlap.  So the fastest rows are simulated too, and what they take beside "
        "their closed form is evidence, not proof, of how far the fastest of them may be from the "
        "fastest of all.  options is what simulate and plan need to say more of that row.",
    .run = run,
};
