/*
 * To be loaded before all else (LD_PRELOAD): kills its process in front of the Nth call that
 * changes a folder, gives a file its length or makes it durable ($KILL_AT=N); or counts such calls
 * into the file $KILL_COUNT.
 */
#undef _FILE_OFFSET_BITS /* else one name of ftruncate stands for the other */
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_int calls;

static void
count(void)
{
    const char *at = getenv("KILL_AT");

    if (++calls == (at ? atoi(at) : 0))
        kill(getpid(), SIGKILL);
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

/* Its parameters, and their names. */
#define COUNTED(name, parameters, arguments)                                                       \
    int name parameters;                                                                           \
    int name parameters                                                                            \
    {                                                                                              \
        int(*real) parameters;                                                                     \
        *(void **)&real = dlsym(RTLD_NEXT, #name);                                                 \
        count();                                                                                   \
        return real arguments;                                                                     \
    }

COUNTED(rename, (const char *from, const char *to), (from, to))
COUNTED(renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
COUNTED(unlink, (const char *path), (path))
COUNTED(unlinkat, (int folder, const char *path, int flags), (folder, path, flags))
COUNTED(rmdir, (const char *path), (path))
COUNTED(mkdir, (const char *path, mode_t mode), (path, mode))
COUNTED(mkdirat, (int folder, const char *path, mode_t mode), (folder, path, mode))
COUNTED(ftruncate, (int fd, off_t bytes), (fd, bytes))
COUNTED(ftruncate64, (int fd, off_t bytes), (fd, bytes))
COUNTED(fsync, (int fd), (fd))
COUNTED(fdatasync, (int fd), (fd))
