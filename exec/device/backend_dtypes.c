/* Which types a backend computes in. */
#include "base/error.h"
#include "exec/device/backend.h"

bool
mw_backend_computes(const struct mw_backend *backend, enum mw_dtype dtype, GError **error)
{
    g_autoptr(GString) names = g_string_new(NULL);

    if (backend->dtypes >> dtype & 1)
        return true;
    for (int i = 0; i < MW_DTYPE_COUNT; i++)
        if (backend->dtypes >> i & 1)
            g_string_append_printf(names, "%s%s", names->len ? " and " : "", mw_dtype_name(i));
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "backend %s computes in %s, not in %s; a plan of it can be simulated",
                backend->name, names->str, mw_dtype_name((int)dtype));
    return false;
}
