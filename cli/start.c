#include "cli/start.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>

#define STACK_BYTES (8 << 20) /* the usual default of systems */

bool
cli_start_descriptors(void)
{
    static const int modes[] = {O_WRONLY, O_RDONLY, O_RDONLY}; /* never read or written */

    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", modes[fd]) != fd)
            return false;
    return true;
}

/* A search makes and frees one plan after the other.  Of many layers one takes tens of megabytes,
 * whose pages the kernel would clear anew each time. */
void
cli_start_keeping_memory(void)
{
#ifdef M_TRIM_THRESHOLD /* glibc's */
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TOP_PAD, 1 << 20);
#endif
}

struct start {
    int (*body)(int argc, char **argv);
    int argc, status;
    char **argv;
};

static void *
run(void *data)
{
    struct start *start = data;

    start->status = start->body(start->argc, start->argv);
    return NULL;
}

/* Applies to threads that libraries start, too. */
static bool
raise_default(pthread_attr_t *attributes)
{
    return !pthread_attr_init(attributes) && !pthread_attr_setstacksize(attributes, STACK_BYTES) &&
           !pthread_setattr_default_np(attributes);
}

/* This thread's stack cannot grow beyond its limit; that of a new thread can be larger. */
int
cli_start_with_stack(int (*body)(int argc, char **argv), int argc, char **argv)
{
    struct start start = {body, argc, 1, argv};
    struct rlimit limit;
    pthread_attr_t attributes;
    pthread_t thread;

    if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur >= STACK_BYTES || !raise_default(&attributes) ||
        pthread_create(&thread, &attributes, run, &start))
        return body(argc, argv);
    pthread_join(thread, NULL);
    return start.status;
}
