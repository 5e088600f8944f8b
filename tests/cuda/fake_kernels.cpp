/* The kernels of exec/device/cuda by those of the cpu backend, queued in the streams of fake.h. */
#include <glib.h>

#include <functional>

#include <cuda_runtime_api.h>

extern "C" {
#include "exec/device/cpu/kernels.h"
#include "exec/device/cuda/half.h"
#include "tests/cuda/fake.h"
}

#if defined(_OPENMP)
#include <omp.h>
#endif

#include <cstring>
#include <tuple>
#include <type_traits>

namespace
{

/* Kernels are queued with what they are given: an address of the device's becomes one that they
 * reach, a description is kept, a number stays. */

/* What a pointer to a description led to. */
template <class T>
struct kept {
    T description;
    operator const T *() const { return &description; }
};

/* Scratch has been asked for, and has no content when a kernel begins. */
#define SCRATCH_BYTES 64

struct scratch {
    void *memory;
    operator void *() const { return memset(memory, 0xff, SCRATCH_BYTES); }
};

template <class T>
T *
operand(T *memory)
{
    return static_cast<T *>(fake_at(memory));
}

scratch
operand(void *memory)
{
    return {fake_at(memory)};
}

struct mw_gradient
operand(struct mw_gradient gradient)
{
    gradient.data = fake_at(gradient.data);
    return gradient;
}

kept<struct mw_attention>
operand(const struct mw_attention *shape)
{
    return {*shape};
}

kept<struct mw_update_step>
operand(const struct mw_update_step *step)
{
    return {*step};
}

kept<struct mw_update_spans>
operand(const struct mw_update_spans *spans)
{
    return {*spans};
}

kept<struct mw_narrow_moments>
operand(const struct mw_narrow_moments *moments)
{
    return {{fake_at(moments->m), fake_at(moments->v), moments->m_codes, moments->v_codes}};
}

template <class T>
std::enable_if_t<std::is_arithmetic_v<T>, T>
operand(T number)
{
    return number;
}

template <class Kernel, class... Arguments>
int
queue(void *stream, Kernel kernel, Arguments... arguments)
{
    auto operands = std::make_tuple(operand(arguments)...);

    fake_push(
        stream,
        [](void *data) {
            std::function<void()> *work = static_cast<std::function<void()> *>(data);
#if defined(_OPENMP)
            omp_set_num_threads(fake_machine.threads);
#endif
            (*work)();
            delete work;
        },
        new std::function<void()>([kernel, operands] { std::apply(kernel, operands); }));
    return cudaGetLastError();
}

const struct mw_cpu_kernels &
cpu()
{
#if defined(MW_HALF_FP16)
    return *mw_cpu_kernels(MW_DTYPE_FP16);
#else
    return *mw_cpu_kernels(MW_DTYPE_BF16);
#endif
}

} // namespace

extern "C" {

#define MW_ELEMENT uint16_t
#define MW_KERNEL(name, parameters, arguments)                                                     \
    int MW_CUDA(name)(void *stream, MW_BARE parameters)                                            \
    {                                                                                              \
        return queue(stream, cpu().name, MW_BARE arguments);                                       \
    }
#define MW_KERNEL_PASS MW_KERNEL
#define MW_KERNEL_SCRATCH(name, parameters, arguments)                                             \
    int64_t MW_CUDA(name) parameters                                                               \
    {                                                                                              \
        return SCRATCH_BYTES + cpu().name(MW_BARE arguments, fake_machine.threads);                \
    }
#include "exec/operators/kernel_list.h"

} /* extern "C" */
