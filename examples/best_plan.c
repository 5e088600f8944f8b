/* best_plan MODEL HARDWARE [NAME=VALUE...] - asks for the best plan, and what would be better.
 *
 *   cc best_plan.c $(pkg-config --cflags --libs memwall) -o best_plan
 *   ./best_plan llama-3.1-8b rtx4090 seq=2048 host.memory_gib=256 */
#include <memwall.h>
#include <stdio.h>
#include <string.h>

static int
fail(struct memwall_error *error)
{
    fprintf(stderr, "%s\n", memwall_error_message(error));
    memwall_error_free(error);
    return 1;
}

int
main(int argc, char **argv)
{
    struct memwall_question *question = memwall_question_new();
    struct memwall_error *error = NULL;
    double tokens_per_s = 0, gpu_bytes = 0;
    char name[64];

    for (int i = 1; i < argc && !error; i++) {
        const char *equals = strchr(argv[i], '=');
        snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - argv[i]) : 0, argv[i]);
        memwall_question_set(question,
                             i == 1   ? "model"
                             : i == 2 ? "hardware"
                                      : name,
                             equals ? equals + 1 : argv[i], &error);
    }
    struct memwall_answer *best = error ? NULL : memwall_ask(question, MEMWALL_SIMULATE, &error);
    memwall_question_free(question);
    if (!best)
        return fail(error);
    if (!memwall_answer_fits(best)) {
        printf("does not fit; %s\n", memwall_answer_string(best, "remedy"));
    } else {
        memwall_answer_number(best, "tokens_per_s", &tokens_per_s);
        memwall_answer_number(best, "peak_bytes.gpu", &gpu_bytes);
        printf("%s: %.0f tokens/s, %.1f GB on each GPU, limited by %s\n",
               memwall_answer_string(best, "strategy"), tokens_per_s, gpu_bytes / 1e9,
               memwall_answer_string(best, "bottleneck"));
    }
    memwall_answer_free(best);
    return 0;
}
