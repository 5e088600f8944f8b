#include "exec/lanes/crew.h"

#include <pthread.h> /* whose locks the thread sanitizer sees */

#include "exec/host/thread.h"

struct member {
    uint32_t number; /* number of the lane, */
    uint8_t kind;    /* and kind of ops that it issues */
    struct mw_crew *crew;
    GThread *thread;
    GThreadFunc work; /* NULL if the member has no work */
    void *data;
};

struct mw_crew {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* a member has got work, has done it, or must end */
    GPtrArray *members;
    bool ends;
};

static gpointer
serve(gpointer data)
{
    struct member *member = data;
    struct mw_crew *crew = member->crew;

    pthread_mutex_lock(&crew->mutex);
    for (;;) {
        while (!member->work && !crew->ends)
            pthread_cond_wait(&crew->changed, &crew->mutex);
        if (!member->work)
            break;
        pthread_mutex_unlock(&crew->mutex);
        member->work(member->data);
        pthread_mutex_lock(&crew->mutex);
        member->work = NULL;
        pthread_cond_broadcast(&crew->changed);
    }
    pthread_mutex_unlock(&crew->mutex);
    return NULL;
}

static struct member *
find(struct mw_crew *crew, const struct mw_lane *lane, uint32_t number)
{
    for (guint i = 0; i < crew->members->len; i++) {
        struct member *member = crew->members->pdata[i];
        if (member->number == number && member->kind == lane->kind)
            return member;
    }
    return NULL;
}

/* Call with the mutex held. */
static struct member *
add(struct mw_crew *crew, const struct mw_lane *lane, uint32_t number, GError **error)
{
    struct member *member = g_new0(struct member, 1);

    *member = (struct member){.number = number, .kind = lane->kind, .crew = crew};
    member->thread = mw_thread_start(mw_lane_kind_name(lane->kind), serve, member, error);
    if (member->thread) {
        g_ptr_array_add(crew->members, member);
        return member;
    }
    g_free(member);
    return NULL;
}

bool
mw_crew_begin(struct mw_crew *crew, const struct mw_lane *lane, uint32_t number, GThreadFunc work,
              void *data, GError **error)
{
    pthread_mutex_lock(&crew->mutex);
    struct member *member = find(crew, lane, number);
    if (!member)
        member = add(crew, lane, number, error);
    if (member) {
        member->work = work;
        member->data = data;
        pthread_cond_broadcast(&crew->changed);
    }
    pthread_mutex_unlock(&crew->mutex);
    return member != NULL;
}

void
mw_crew_wait(struct mw_crew *crew, const struct mw_lane *lane, uint32_t number)
{
    pthread_mutex_lock(&crew->mutex);
    const struct member *member = find(crew, lane, number);
    while (member && member->work)
        pthread_cond_wait(&crew->changed, &crew->mutex);
    pthread_mutex_unlock(&crew->mutex);
}

struct mw_crew *
mw_crew_new(void)
{
    struct mw_crew *crew = g_new0(struct mw_crew, 1);

    pthread_mutex_init(&crew->mutex, NULL);
    pthread_cond_init(&crew->changed, NULL);
    crew->members = g_ptr_array_new_with_free_func(g_free);
    return crew;
}

void
mw_crew_free(struct mw_crew *crew)
{
    if (!crew)
        return;
    pthread_mutex_lock(&crew->mutex);
    crew->ends = true;
    pthread_cond_broadcast(&crew->changed);
    pthread_mutex_unlock(&crew->mutex);
    for (guint i = 0; i < crew->members->len; i++)
        g_thread_join(((struct member *)crew->members->pdata[i])->thread);
    g_ptr_array_unref(crew->members);
    pthread_cond_destroy(&crew->changed);
    pthread_mutex_destroy(&crew->mutex);
    g_free(crew);
}
