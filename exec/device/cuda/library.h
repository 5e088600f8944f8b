/*
 * library.h - CUDA libraries that are loaded when a run needs them, so that the program starts on
 * machines without them.
 */
#ifndef MW_EXEC_DEVICE_CUDA_LIBRARY_H
#define MW_EXEC_DEVICE_CUDA_LIBRARY_H

#include <glib.h>
#include <stdbool.h>

/* Loads a library by its soname, such as libcublasLt.so.13: from where the dynamic loader looks,
 * else from the toolkit of the build.  NULL with *error (MW_ERROR_DEVICE).  It is never unloaded:
 * memory that it allocates may live as long as the process. */
void *mw_cuda_library_open(const char *soname, GError **error);

/* Sets *function, a pointer to a function, to the one of this name. */
bool mw_cuda_library_find(void *library, const char *name, void *function, GError **error);

/* Whether this machine has GPU-direct storage (libcufile, and nvidia-fs in the kernel), in words.
 */
const char *mw_cuda_direct_storage(void);

#endif
