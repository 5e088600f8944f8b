#include "study/answers.h"

#include <locale.h>

struct mw_answer *
mw_answer_best(const struct mw_question *question, enum mw_depth depth, GError **error)
{
    struct mw_answer *best = NULL;

    for (int i = 0; i < question->strategy_count; i++) {
        g_autoptr(GError) refused = NULL;
        struct mw_answer *one =
            mw_answer_new(question, question->strategies[i], depth, false, &refused);
        bool better = one && (!best || (one->result->feasible && !(best->result->tokens_per_s >=
                                                                   one->result->tokens_per_s)));
        if (better) {
            mw_answer_free(best);
            best = one;
        } else {
            mw_answer_free(one);
        }
        if (refused && error && !*error)
            g_propagate_error(error, g_steal_pointer(&refused));
    }
    if (best)
        g_clear_error(error);
    return best;
}

struct mw_result *
mw_answer_result(struct mw_answer *answer)
{
    struct mw_result *result = g_steal_pointer(&answer->result);

    result->plan = NULL;
    result->timeline = NULL;
    mw_answer_free(answer);
    return result;
}

/* In the locale of the thread that asks. */
static void
answer_one(gpointer data, gpointer user)
{
    struct mw_asked *asked = data;
    g_autoptr(GError) refused = NULL;
    locale_t before = uselocale(user);
    struct mw_answer *answer = mw_answer_best(&asked->question, MW_DEPTH_ROW, &refused);

    uselocale(before);
    if (answer)
        asked->result = mw_answer_result(answer);
    else
        asked->why = g_strdup(refused->message);
}

void
mw_answer_each(struct mw_asked *asked, int count)
{
    int threads = MAX(1, MIN((int)g_get_num_processors(), count));
    locale_t user = uselocale((locale_t)0);
    g_autoptr(GError) none = NULL; /* no thread: the system has no more of them */
    GThreadPool *pool = g_thread_pool_new(answer_one, user, threads, TRUE, &none);

    for (int i = 0; i < count; i++) {
        if (none)
            answer_one(&asked[i], user);
        else
            g_thread_pool_push(pool, &asked[i], NULL);
    }
    g_thread_pool_free(pool, none != NULL, !none);
}
