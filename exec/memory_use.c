#include "exec/memory_internal.h"

static void
take(struct mw_memory_use *use, int64_t bytes)
{
    const int64_t now_bytes = __atomic_add_fetch(&use->current_bytes, bytes, __ATOMIC_RELAXED);
    int64_t peak_bytes = __atomic_load_n(&use->peak_bytes, __ATOMIC_RELAXED);

    while (now_bytes > peak_bytes &&
           !__atomic_compare_exchange_n(&use->peak_bytes, &peak_bytes, now_bytes, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

void
mw_memory_take(struct mw_memory_ledger *ledger, int purpose, int64_t bytes)
{
    g_assert(purpose >= 0 && purpose < MW_MEMORY_PURPOSES_MAX);
    take(&ledger->purposes[purpose], bytes);
    take(&ledger->all, bytes);
}

static struct mw_memory_use
look(const struct mw_memory_use *use)
{
    return (struct mw_memory_use){
        .current_bytes = __atomic_load_n(&use->current_bytes, __ATOMIC_RELAXED),
        .peak_bytes = __atomic_load_n(&use->peak_bytes, __ATOMIC_RELAXED),
    };
}

struct mw_memory_use
mw_memory_use(const struct mw_memory_ledger *ledger, int purpose)
{
    g_assert(purpose >= 0 && purpose < MW_MEMORY_PURPOSES_MAX);
    return look(&ledger->purposes[purpose]);
}

struct mw_memory_use
mw_memory_use_of_all(const struct mw_memory_ledger *ledger)
{
    return look(&ledger->all);
}
