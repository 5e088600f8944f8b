#include "study/interruptions.h"

#include <math.h>
#include <stdbool.h>

#define DAY_S 86400.0
#define BISECTIONS 60

/* Work between two saves as a share x of the mean time M between interruptions; a save takes d M.
 * The x with (1 - x) e^x = e^-d, at which the time below is least (Daly's equation for the optimum,
 * which he solves by a series). */
static double
least_loss(double d)
{
    double low = 0, high = 1;

    for (int i = 0; i < BISECTIONS; i++) {
        double x = (low + high) / 2;
        bool below = log1p(-x) + x > -d;
        low = below ? x : low;
        high = below ? high : x;
    }
    return (low + high) / 2;
}

/* With M between two interruptions, that come at any moment alike, saves of C after every T of
 * work, and a restart of R, all of which may be interrupted too, a second of work takes
 *
 *   M e^(R/M) (e^((T + C)/M) - 1) / T
 *
 * (J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, Future
 * Generation Computer Systems 22(3), 2006: the complete model, of which Young's, CACM 17(9), 1974,
 * is the first order). */
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
    out.every_s =
        asked->every_s > 0 ? asked->every_s : between_s * least_loss(out.save_s / between_s);
    out.times = between_s * exp(out.restart_s / between_s) *
                expm1((out.every_s + out.save_s) / between_s) / out.every_s;
    return out;
}
