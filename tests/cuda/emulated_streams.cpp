/* Emulated kernels in the streams of fake.h. */
#include <mutex>

#include "exec/device/cuda/device.h"
#include "tests/cuda/fake.h"

namespace
{

struct delivery {
    void (*call)(void *data);
    void *data;
};

std::mutex one_at_a_time;

void
take(void *data)
{
    delivery *it = static_cast<delivery *>(data);
    std::lock_guard<std::mutex> lock(one_at_a_time);
    it->call(it->data);
    if (cudaGetLastError() != cudaSuccess)
        abort();
    delete it;
}

void
deliver(cudaStream_t stream, void (*call)(void *data), void *data)
{
    fake_push(stream, take, new delivery{call, data});
}

/* Before main. */
const bool delivered = [] {
    mw_emulated::deliver = deliver;
    return true;
}();

} // namespace
