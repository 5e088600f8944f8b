/* fake_refused.h - machines none of whose GPUs can be used, and the message for each. */
#ifndef MW_TESTS_CUDA_FAKE_REFUSED_H
#define MW_TESTS_CUDA_FAKE_REFUSED_H

#include "tests/cuda/fake.h"

#define FAKE_OLD_DRIVER                                                                            \
    "GPUs: the NVIDIA driver is for CUDA 12.2, this build needs one for CUDA 13.0: version 580 "   \
    "or later"

/* Calls `assert_fails` on each of them; the machine is then as it was. */
static inline void
fake_each_refused(void (*assert_fails)(const char *why))
{
    const struct fake_machine good = fake_machine;
    struct {
        struct fake_machine machine;
        const char *why;
    } refused[] = {
        {good, "GPUs: no NVIDIA driver is loaded"},
        {good, FAKE_OLD_DRIVER},
        {good, "GPUs: 1 rank of this machine, 0 GPUs"},
        {good, "GPU 0 (made of threads): its compute capability is 7.0"},
    };

    refused[0].machine.driver_version = 0;
    refused[1].machine.driver_version = 12020;
    refused[2].machine.gpus = 0;
    refused[3].machine.major = 7;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        fake_machine = refused[i].machine;
        assert_fails(refused[i].why);
    }
    fake_machine = good;
}

#endif
