/* Where no machine is within the limits: how far each limit would have to give. */
#include <math.h>

#include "study/capacity_internal.h"

double
mw_capacity_excess(const struct mw_capacity_row *row, const struct mw_capacity_bill *bill,
                   const struct mw_capacity *it)
{
    switch (it->toward) {
    case MW_LIMIT_USD:
        return mw_capacity_spent(bill, &it->limits);
    case MW_LIMIT_DAYS:
        return bill->days;
    case MW_LIMIT_POWER:
        return mw_capacity_row_power_w(row);
    case MW_LIMIT_NODES:
        return (double)row->nodes;
    case MW_LIMIT_DRIVES:
        return -row->drives_last_s;
    case MW_CAPACITY_LIMITS:
        break;
    }
    return NAN;
}

#define MORE_NODES 16 /* times as many as there may be are tried */

static bool
lift(enum mw_capacity_limit limit, struct mw_capacity_limits *limits)
{
    const struct mw_capacity_limits before = *limits;

    switch (limit) {
    case MW_LIMIT_USD:
        limits->usd = INFINITY;
        return isfinite(before.usd);
    case MW_LIMIT_DAYS:
        limits->days = INFINITY;
        return isfinite(before.days);
    case MW_LIMIT_POWER:
        limits->power_w = INFINITY;
        return isfinite(before.power_w);
    case MW_LIMIT_NODES:
        limits->nodes_max = MORE_NODES * before.nodes_max;
        return true;
    case MW_LIMIT_DRIVES:
        limits->drives_last_s = 0;
        return before.drives_last_s > 0;
    case MW_CAPACITY_LIMITS:
        break;
    }
    return false;
}

/* Of a machine that does not say what it takes nobody knows how near it is. */
static const struct mw_capacity_row *
nearest(const struct mw_capacity *it)
{
    const struct mw_capacity_row *best = NULL;
    double least = INFINITY;

    for (int i = 0; i < it->row_count; i++) {
        const struct mw_capacity_row *row = &it->rows[i];
        double over = mw_capacity_excess(row, &row->typical, it);
        if (row->fate == MW_CAPACITY_WITHIN && !isnan(over) && (!best || over < least)) {
            best = row;
            least = over;
        }
    }
    return best;
}

/* Lifts one limit at a time, and at last those that can be without, for the front that is left. */
void
mw_capacity_find_nearest(const struct mw_capacity_machine *machines, int count,
                         const struct mw_capacity_limits *limits, struct mw_capacity *out)
{
    struct mw_capacity_limits lifted = *limits;

    lift(MW_LIMIT_NODES, &lifted);
    mw_capacity_clear(out);
    mw_capacity_add_machines(machines, count, &lifted, out);
    for (int l = 0; l < MW_CAPACITY_LIMITS; l++) {
        lifted = *limits;
        if (!lift((enum mw_capacity_limit)l, &lifted))
            continue;
        out->toward = (enum mw_capacity_limit)l;
        mw_capacity_search(&lifted, out);
        out->nearest[l] = nearest(out);
    }
    out->toward = MW_CAPACITY_LIMITS;
    lifted = *limits;
    for (int l = 0; l < MW_CAPACITY_LIMITS; l++)
        if (l != MW_LIMIT_NODES)
            lift((enum mw_capacity_limit)l, &lifted);
    mw_capacity_search(&lifted, out);
    out->limits = *limits;
}
