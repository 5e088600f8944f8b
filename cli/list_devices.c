#include "cli/list_devices.h"

#include <stdio.h>

#include "base/format.h"
#include "base/json_writer.h"
#include "cli/cli.h"
#include "config.h"
#include "exec/device/backend.h"
#include "exec/device/cpu/kernels.h"
#include "report/wrap.h"

/* The instruction sets that this machine can run, from the slowest to the fastest. */
static void
list_instruction_sets(struct mw_json_writer *json)
{
    mw_json_begin(json, "instruction_sets", '[', false);
    for (int isa = 0; isa < MW_CPU_ISAS; isa++)
        if (mw_cpu_isa_runs((enum mw_cpu_isa)isa))
            mw_json_string(json, NULL, mw_cpu_isa_name((enum mw_cpu_isa)isa));
    mw_json_end(json, ']');
    mw_json_string(json, "instruction_set", mw_cpu_isa_name(mw_cpu_isa_used(NULL)));
}

static void
print_instruction_sets(void)
{
    bool forced;
    const char *used = mw_cpu_isa_name(mw_cpu_isa_used(&forced));
    g_autoptr(GString) sets = g_string_new(NULL);

    for (int isa = 0; isa < MW_CPU_ISAS; isa++)
        if (mw_cpu_isa_runs((enum mw_cpu_isa)isa))
            g_string_append_printf(sets, "%s%s", sets->len ? ", " : "",
                                   mw_cpu_isa_name((enum mw_cpu_isa)isa));
    putchar('\n');
    mw_wrap_line(stdout, 2, "instruction sets of the cores: %s; in use: %s%s", sets->str, used,
                 forced ? ", as " MW_CPU_ISA_VARIABLE " says"
                        : " (" MW_CPU_ISA_VARIABLE "=NAME forces one)");
}

/* Prints one device; `why` says why there is none. */
static void
print_device(struct mw_json_writer *json, const struct mw_backend *backend, int index,
             const struct mw_backend_device *device, const char *why)
{
    if (!json) {
        g_autofree char *number = device ? g_strdup_printf("%d", index) : g_strdup("-");
        mw_wrap_line(stdout, 28, "%-8s %6s %10s  %s", backend->name, number,
                     device ? mw_format_gib(device->memory_bytes) : "-",
                     device ? device->name : why);
        return;
    }
    mw_json_begin(json, NULL, '{', true);
    mw_json_string(json, "backend", backend->name);
    if (device) {
        mw_json_integer(json, "device", index);
        mw_json_string(json, "name", device->name);
        mw_json_integer(json, "memory_bytes", device->memory_bytes);
        if (backend == &mw_backend_cpu)
            list_instruction_sets(json);
    } else {
        mw_json_string(json, "why", why);
    }
    mw_json_end(json, '}');
}

static void
print_backend(struct mw_json_writer *json, const struct mw_backend *backend)
{
    g_autoptr(GError) error = NULL;
    int count = backend->devices ? backend->devices(&error) : 0;

    if (count < 1)
        print_device(json, backend, 0, NULL,
                     error              ? error->message
                     : backend->devices ? "no device"
                                        : "computes nothing, needs no device");
    for (int i = 0; i < count; i++) {
        struct mw_backend_device device;
        g_autoptr(GError) lost = NULL;
        bool there = backend->describe(i, &device, &lost);
        print_device(json, backend, i, there ? &device : NULL, there ? NULL : lost->message);
    }
}

static void
print_build(void)
{
    print_instruction_sets();
    if (!MW_CUDA || !MW_MPI)
        printf("not built in: %s%s%s\n", MW_CUDA ? "" : "GPUs (-Dcuda)",
               MW_CUDA || MW_MPI ? "" : ", ", MW_MPI ? "" : "MPI (-Dmpi)");
}

int
cli_list_devices(bool as_json)
{
    struct mw_json_writer writer = {.out = stdout}, *json = as_json ? &writer : NULL;

    if (json) {
        mw_json_begin_answer(json, "memwall-devices/1");
        mw_json_begin(json, "devices", '[', false);
    } else {
        printf("%-8s %6s %10s  %s\n", "backend", "device", "memory", "description");
    }
    for (const struct mw_backend *const *at = mw_backends; *at; at++)
        print_backend(json, *at);
    if (json) {
        mw_json_end(json, ']');
        mw_json_end(json, '}');
    } else {
        print_build();
    }
    return cli_flush();
}
