/*
 * library.h - libraries of CUDA that are loaded when a run needs them, so that this program starts
 * where they are not.
 */
#ifndef MW_EXEC_DEVICE_CUDA_LIBRARY_H
#define MW_EXEC_DEVICE_CUDA_LIBRARY_H

#include <glib.h>
#include <stdbool.h>

/* By its soname, such as libcublasLt.so.13: where the dynamic loader looks, else where the toolkit
 * was that this was built with.  NULL with *error (MW_ERROR_DEVICE).  Never unloaded: what it
 * allocates may live as long as the process. */
void *mw_cuda_library_open(const char *soname, GError **error);

/* *function, a pointer to a function, is that of the name. */
bool mw_cuda_library_find(void *library, const char *name, void *function, GError **error);

/* Whether this machine has GPU-direct storage (libcufile, and nvidia-fs in the kernel), in words.
 */
const char *mw_cuda_direct_storage(void);

#endif
