/* sort.cuh - keys in rising order, on the device: Batcher's bitonic network ("Sorting networks and
 * their applications", AFIPS 1968), whose order is the only one where keys differ. */
#ifndef MW_EXEC_DEVICE_CUDA_SORT_CUH
#define MW_EXEC_DEVICE_CUDA_SORT_CUH

#include <stdint.h>

/* The least power of two from n on that the network sorts. */
int64_t mw_cuda_sort_size(int64_t n);
/* size: of mw_cuda_sort_size.  cudaGetLastError() says whether it started. */
void mw_cuda_sort(void *stream, uint64_t *key, int64_t size);

#endif
