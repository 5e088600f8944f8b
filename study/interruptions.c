#include "study/interruptions.h"

#include <math.h>

#define DAY_S 86400.0

/* With M between two interruptions, saves of C every T, and a restart of R (Young, CACM 17(9),
 * 1974; Daly, Future Generation Computer Systems 22(3), 2006, first order):
 *
 *   a second of work takes (1 + C/T) / (1 - (T/2 + R)/M), least at T = sqrt(2 C M)
 */
struct mw_interrupted
mw_interrupted_of(const struct mw_interruptions *asked, int64_t nodes, int64_t state_bytes,
                  double start_s)
{
    struct mw_interrupted out = {.times = 1};

    if (!asked || !(asked->per_node_day > 0))
        return out;
    out.per_day = asked->per_node_day * (double)nodes;
    double between_s = DAY_S / out.per_day;
    out.save_s = (double)state_bytes / (double)nodes / MW_SAVE_BYTES_PER_S;
    out.restart_s = out.save_s + start_s;
    out.every_s = asked->every_s > 0 ? asked->every_s : sqrt(2 * out.save_s * between_s);
    double left = 1 - (out.every_s / 2 + out.restart_s) / between_s;
    out.times = left > 0 ? (1 + out.save_s / out.every_s) / left : INFINITY;
    return out;
}
