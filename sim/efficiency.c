#include "sim/efficiency.h"

double
mw_efficiency(double ait, double bytes_per_s, double peak_flops)
{
    return 1 / (1 + peak_flops / (ait * bytes_per_s));
}

double
mw_efficiency_flops(double tokens, double params)
{
    return 2 * 4 * tokens * params;
}

double
mw_efficiency_ait_params(double tokens)
{
    return tokens;
}

double
mw_efficiency_ait_state(double tokens)
{
    return tokens / 4;
}

double
mw_efficiency_ait_checkpoints(double hidden, double ci)
{
    return 24 * hidden * ci;
}
