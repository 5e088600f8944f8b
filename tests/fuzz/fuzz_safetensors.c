#include <glib.h>
#include <string.h>

#include "base/error.h"
#include "exec/data/safetensors.h"
#include "tests/fuzz/fuzz.h"

/* What is accepted lies in the file, without gap or overlap; what is refused says why in a line. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(GError) error = NULL;
    struct mw_safetensors_header *header =
        mw_safetensors_header_parse(data, size, (int64_t)size, "model.safetensors", &error);

    if (!header) {
        g_assert_true(error->domain == MW_ERROR);
        g_assert_null(strchr(error->message, '\n'));
        g_assert_true(g_utf8_validate(error->message, -1, NULL));
        return 0;
    }
    g_assert_no_error(error);
    int64_t end = (int64_t)size;
    for (size_t i = header->tensor_count; i-- > 0;) {
        const struct mw_safetensor *tensor = &header->tensors[i];
        g_assert_cmpint(tensor->offset_bytes + tensor->size_bytes, ==, end);
        g_assert_cmpint(tensor->elements * mw_safetensors_dtype_bytes(tensor->dtype), ==,
                        tensor->size_bytes);
        end = tensor->offset_bytes;
    }
    g_assert_cmpint(end, >=, 8);
    mw_safetensors_header_free(header);
    return 0;
}
