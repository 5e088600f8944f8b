/*
 * To be loaded before all else (LD_PRELOAD): kills its process before the Nth call that
 * changes a folder, gives a file its length or makes it durable ($KILL_AT=N); or counts such calls
 * into the file $KILL_COUNT.  $FAIL_AT=N lets the Nth fail instead, and $FAIL_TO=NAME every rename
 * to a path that ends so, with EIO.
 *
 * $HOLD names where the calling thread waits, once: "SIGINT", once the process handles that signal,
 * or a file to whose name another is to be renamed.  It makes the file $HOLD_FILE, and continues
 * when that is gone.  Of several ranks $HOLD_RANK does so.
 */
#undef _FILE_OFFSET_BITS /* else one name of ftruncate stands for the other */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_int calls;

static const char *
value_of(const char *variable)
{
    const char *value = getenv(variable);

    return value ? value : "";
}

/* Whether the call is to fail. */
static int
count(void)
{
    int call = ++calls;

    if (call == atoi(value_of("KILL_AT")))
        kill(getpid(), SIGKILL);
    errno = EIO;
    return call == atoi(value_of("FAIL_AT"));
}

static int
fails_to(const char *path)
{
    const char *end = value_of("FAIL_TO");
    size_t length = strlen(path), of = strlen(end);

    errno = EIO;
    return of && length >= of && !strcmp(path + length - of, end);
}

static void
hold(const char *where)
{
    static atomic_flag was = ATOMIC_FLAG_INIT;
    const char *path = value_of("HOLD_FILE");

    if (!*path || strcmp(where, value_of("HOLD")) ||
        strcmp(value_of("OMPI_COMM_WORLD_RANK"), value_of("HOLD_RANK")) ||
        atomic_flag_test_and_set(&was))
        return;
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    while (!access(path, F_OK))
        usleep(1000);
}

static void
hold_at(const char *path)
{
    const char *slash = strrchr(path, '/');

    hold(slash ? slash + 1 : path);
}

static __attribute__((destructor)) void
report(void)
{
    const char *path = getenv("KILL_COUNT");
    FILE *out = path ? fopen(path, "w") : NULL;

    if (!out)
        return;
    fprintf(out, "%d\n", calls);
    fclose(out);
}

int
sigaction(int number, const struct sigaction *now, struct sigaction *before)
{
    int (*real)(int, const struct sigaction *, struct sigaction *);

    *(void **)&real = dlsym(RTLD_NEXT, "sigaction");
    int result = real(number, now, before);
    if (number == SIGINT && now && now->sa_handler != SIG_DFL && now->sa_handler != SIG_IGN)
        hold("SIGINT");
    return result;
}

/* Its parameters, and their names; what it does first. */
#define COUNTED(name, parameters, arguments, first)                                                \
    int name parameters;                                                                           \
    int name parameters                                                                            \
    {                                                                                              \
        int(*real) parameters;                                                                     \
        *(void **)&real = dlsym(RTLD_NEXT, #name);                                                 \
        if (count())                                                                               \
            return -1;                                                                             \
        first;                                                                                     \
        return real arguments;                                                                     \
    }

COUNTED(rename, (const char *from, const char *to), (from, to), {
    if (fails_to(to))
        return -1;
    hold_at(to);
})
COUNTED(renameat, (int a, const char *from, int b, const char *to), (a, from, b, to), {
    if (fails_to(to))
        return -1;
    hold_at(to);
})
/* As of a file system that has only rename, where $KILL_AT_NO_EXCHANGE is set. */
COUNTED(renameat2, (int a, const char *from, int b, const char *to, unsigned flags),
        (a, from, b, to, flags), {
            if (*value_of("KILL_AT_NO_EXCHANGE")) {
                errno = EINVAL;
                return -1;
            }
            hold_at(to);
        })
COUNTED(unlink, (const char *path), (path), (void)0)
COUNTED(unlinkat, (int folder, const char *path, int flags), (folder, path, flags), (void)0)
COUNTED(rmdir, (const char *path), (path), (void)0)
COUNTED(mkdir, (const char *path, mode_t mode), (path, mode), (void)0)
COUNTED(mkdirat, (int folder, const char *path, mode_t mode), (folder, path, mode), (void)0)
COUNTED(ftruncate, (int fd, off_t bytes), (fd, bytes), (void)0)
COUNTED(ftruncate64, (int fd, off_t bytes), (fd, bytes), (void)0)
COUNTED(fsync, (int fd), (fd), (void)0)
COUNTED(fdatasync, (int fd), (fd), (void)0)
