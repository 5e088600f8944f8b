#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/variants.h"
#include "tests/fuzz/fuzz.h"

/* What was read can be written. */
static char *
write_text(const struct mw_variants *variants)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (!out || !mw_variants_write(variants, out))
        abort();
    fclose(out);
    return text;
}

/* What is accepted passes the check and reads back; what is refused says why in a line. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[200] = "";
    struct mw_variants *variants = mw_variants_parse((const char *)data, size, why, sizeof why);

    if (!variants) {
        if (!*why || strchr(why, '\n'))
            abort();
        return 0;
    }
    if (!mw_variants_check(variants, why, sizeof why))
        abort();
    char *first = write_text(variants);
    struct mw_variants *copy = mw_variants_parse(first, strlen(first), why, sizeof why);
    if (!copy)
        abort();
    char *second = write_text(copy);
    if (strcmp(first, second))
        abort();
    mw_variants_free(variants);
    mw_variants_free(copy);
    free(first);
    free(second);
    return 0;
}
