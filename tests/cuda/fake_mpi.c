/* An MPI that starts CUDA, as one does that sends from GPUs' memory: what the driver reads of the
 * environment must be said by then. */
#include <glib.h>
#include <mpi.h>

int
MPI_Init_thread(int *argc, char ***argv, int wanted, int *provided)
{
    if (!g_getenv("CUDA_DEVICE_MAX_CONNECTIONS") || !g_getenv("CUDA_MODULE_LOADING"))
        g_error("CUDA starts before its environment is set");
    return PMPI_Init_thread(argc, argv, wanted, provided);
}
