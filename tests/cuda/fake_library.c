/* The libraries that are loaded when a run needs them: fakes. */
#include <cublasLt.h>
#include <glib.h>
#include <nccl.h>
#include <string.h>

#include "base/error.h"
#include "exec/device/cuda/library.h"
#include "tests/cuda/fake.h"

struct symbol {
    const char *name;
    void (*function)(void);
};

static const struct symbol cublaslt[] = {
#define X(name)                                                                                    \
    {                                                                                              \
#name, (void (*)(void))name                                                                \
    }
    X(cublasLtCreate),
    X(cublasLtDestroy),
    X(cublasLtGetStatusString),
    X(cublasLtMatmul),
    X(cublasLtMatmulAlgoGetHeuristic),
    X(cublasLtMatmulDescCreate),
    X(cublasLtMatmulDescDestroy),
    X(cublasLtMatmulDescSetAttribute),
    X(cublasLtMatmulPreferenceCreate),
    X(cublasLtMatmulPreferenceDestroy),
    X(cublasLtMatmulPreferenceSetAttribute),
    X(cublasLtMatrixLayoutCreate),
    X(cublasLtMatrixLayoutDestroy),
    {0},
};

static const struct symbol nccl[] = {
    X(ncclAllGather),
    X(ncclAllReduce),
    X(ncclBroadcast),
    X(ncclCommAbort),
    X(ncclCommDestroy),
    X(ncclCommFinalize),
    X(ncclCommGetAsyncError),
    X(ncclCommInitRankConfig),
    X(ncclCommSplit),
    X(ncclGetErrorString),
    X(ncclGetLastError),
    X(ncclGetUniqueId),
    X(ncclGetVersion),
    X(ncclGroupEnd),
    X(ncclGroupStart),
    X(ncclRecv),
    X(ncclReduce),
    X(ncclReduceScatter),
    X(ncclSend),
    {0},
#undef X
};

void *
mw_cuda_library_open(const char *soname, GError **error)
{
    if (!strcmp(soname, "libcublasLt.so.13") && !fake_machine.lacks_cublaslt)
        return (void *)cublaslt;
    if (!strcmp(soname, "libnccl.so.2") && !fake_nccl.missing)
        return (void *)nccl;
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE,
                "GPUs: %s: cannot open shared object file: No such file or directory", soname);
    return NULL;
}

bool
mw_cuda_library_find(void *library, const char *name, void *function, GError **error)
{
    /* Some calls are younger than others. */
    bool finalizes = !strcmp(name, "ncclCommFinalize"), splits = !strcmp(name, "ncclCommSplit");
    if (library == (const void *)nccl &&
        ((finalizes && fake_nccl.version < 21400) || (splits && fake_nccl.version < 21801))) {
        g_set_error(error, MW_ERROR, MW_ERROR_DEVICE, "GPUs: undefined symbol: %s", name);
        return false;
    }
    for (const struct symbol *at = library; at->name; at++)
        if (!strcmp(at->name, name)) {
            memcpy(function, &at->function, sizeof at->function);
            return true;
        }
    g_error("no library has %s here", name);
}
