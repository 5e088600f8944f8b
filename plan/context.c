#include "plan/context.h"

int
mw_context_spans(const struct mw_context_share *share, int64_t own,
                 struct mw_context_span spans[MW_CONTEXT_SPANS_MAX])
{
    int64_t half = own / 2;

    if (share->count > 1 && share->kind == MW_CONTEXT_RING) {
        spans[0] = (struct mw_context_span){share->index * half, half, 0};
        spans[1] =
            (struct mw_context_span){(2 * share->count - 1 - share->index) * half, half, half};
        return 2;
    }
    spans[0] = (struct mw_context_span){share->index * own, own, 0};
    return 1;
}
