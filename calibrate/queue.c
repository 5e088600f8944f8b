/* Times works of a device that queues ops, by the device's own clock. */
#include "calibrate/internal.h"

/* An op has pieces for this long, so that its cost on the host is small in comparison. */
#define OP_S 4e-3
#define PIECES_MAX 1024
/* The device works on one op while the host queues the other. */
#define OPS_AHEAD 2
/* Tickets after those of the lanes. */
#define CHAIN_TICKETS ((MW_CALIBRATE_COLLECTIVE + 1) * OPS_AHEAD)
#define SMALL_BYTES 4096
#define LONG_COPIES 8

/* Ops of one lane, in order. */
struct flow {
    const struct mw_calibrate_work *work;
    GMutex mutex;
    GCond changed;
    uint32_t queued;
    int under_way;
    int64_t first_ns, last_ns; /* start of the first op, end of the latest; 0: none */
};

bool
mw_calibrate_queues(const struct mw_calibrate_work *work)
{
    return work->of && work->of->backend->begin;
}

static void
flow_init(struct flow *flow, const struct mw_calibrate_work *work)
{
    *flow = (struct flow){.work = work};
    g_mutex_init(&flow->mutex);
    g_cond_init(&flow->changed);
}

/* Waits until at most `most` ops are in flight. */
static void
flow_wait(struct flow *flow, int most)
{
    g_mutex_lock(&flow->mutex);
    while (flow->under_way > most)
        g_cond_wait(&flow->changed, &flow->mutex);
    g_mutex_unlock(&flow->mutex);
}

static void
flow_clear(struct flow *flow)
{
    flow_wait(flow, 0);
    g_cond_clear(&flow->changed);
    g_mutex_clear(&flow->mutex);
}

/* Seconds since flow_init; 0 if nothing has run. */
static double
flow_s(struct flow *flow)
{
    flow_wait(flow, 0);
    return 1e-9 * (double)(flow->last_ns - flow->first_ns);
}

static void
note_done(void *data, int64_t start_ns, int64_t end_ns, GError *error)
{
    struct flow *flow = data;

    if (error)
        mw_calibrate_fail(flow->work->of, error);
    g_mutex_lock(&flow->mutex);
    if (!flow->first_ns)
        flow->first_ns = start_ns;
    flow->last_ns = end_ns;
    flow->under_way--;
    g_cond_broadcast(&flow->changed);
    g_mutex_unlock(&flow->mutex);
}

/* An error of a kernel also ends its op. */
static bool
end_op(struct flow *flow, GError **error)
{
    struct mw_calibrator *c = flow->work->of;
    bool kernels = flow->work->lane == MW_CALIBRATE_COMPUTE && c->backend->launched;

    if (kernels && !c->backend->launched(c->handle, error)) {
        c->backend->end(c->handle, NULL, NULL, NULL);
        return false;
    }
    g_mutex_lock(&flow->mutex);
    flow->under_way++;
    g_mutex_unlock(&flow->mutex);
    if (c->backend->end(c->handle, note_done, flow, error))
        return true;
    g_mutex_lock(&flow->mutex);
    flow->under_way--;
    g_mutex_unlock(&flow->mutex);
    return false;
}

/* Queues an op with this many pieces, after the ticket `after` unless that is NULL; returns its
 * units. */
static double
queue_op(struct flow *flow, uint32_t ticket, const uint32_t *after, int pieces)
{
    struct mw_calibrator *c = flow->work->of;
    GError *error = NULL;
    double units = 0;

    if (mw_calibrate_failed(c))
        return 0;
    if (c->backend->begin(c->handle, flow->work->lane, ticket, after, after ? 1 : 0, &error)) {
        for (int i = 0; i < pieces; i++)
            units += flow->work->run(flow->work->state);
        if (end_op(flow, &error))
            return units;
    }
    mw_calibrate_fail(c, error);
    return 0;
}

/* Queues the next op when fewer than the limit are in flight. */
static double
queue_next(struct flow *flow, int pieces)
{
    uint32_t ticket = (uint32_t)flow->work->lane * OPS_AHEAD + flow->queued % OPS_AHEAD;

    flow_wait(flow, OPS_AHEAD - 1);
    flow->queued++;
    return queue_op(flow, ticket, NULL, pieces);
}

static double
piece_s(const struct mw_calibrate_work *work)
{
    struct flow flow;

    flow_init(&flow, work);
    queue_next(&flow, 1);
    double seconds = flow_s(&flow);
    flow_clear(&flow);
    return seconds;
}

void
mw_calibrate_queued_once(const struct mw_calibrate_work *work)
{
    piece_s(work);
}

/* A device's queue has room for some thousands of kernels; whoever fills it waits for it. */
static int
most_pieces(const struct mw_calibrate_work *work)
{
    return MAX(1, PIECES_MAX / MAX(1, work->kernels));
}

double
mw_calibrate_queued_rate(const struct mw_calibrate_work *work, double seconds)
{
    const double began_s = mw_calibrate_now_s(), one_s = piece_s(work);
    int pieces = one_s > 0 ? (int)CLAMP(OP_S / one_s, 1, most_pieces(work)) : 1;
    struct flow flow;
    double units = 0;

    flow_init(&flow, work);
    do
        units += queue_next(&flow, pieces);
    while (mw_calibrate_now_s() - began_s < seconds && !mw_calibrate_failed(work->of));
    double elapsed_s = flow_s(&flow);
    flow_clear(&flow);
    return elapsed_s > 0 ? units / elapsed_s : 0;
}

double
mw_calibrate_counted_s(const struct mw_calibrate_work *work, int pieces)
{
    uint32_t ticket = (uint32_t)work->lane * OPS_AHEAD;
    struct flow meeting, flow;

    flow_init(&meeting, work);
    flow_init(&flow, work);
    queue_op(&meeting, ticket, NULL, 1);
    queue_op(&flow, ticket + 1, NULL, pieces);
    flow_clear(&meeting);
    double seconds = flow_s(&flow);
    flow_clear(&flow);
    return seconds;
}

/* --- from lane to lane ----------------------------------------------------------------------- */

static double
run_small(void *data)
{
    struct mw_calibrate_copies *copies = data;
    struct mw_calibrator *c = copies->c;
    char *device = c->ends[copies->to_host].device, *host = c->ends[copies->to_host].host;
    GError *error = NULL;

    if (!c->backend->copy(c->handle, copies->to_host ? host : device,
                          copies->to_host ? device : host, SMALL_BYTES, &error))
        mw_calibrate_fail(c, error);
    return 1;
}

/* Queues a long work first, so that the host has queued the chain before it begins. */
static double
time_chain(struct flow flows[2], int count)
{
    struct mw_calibrate_copies long_copies = {.c = flows[0].work->of};
    const struct mw_calibrate_work long_work = mw_calibrate_copies_work(&long_copies);
    struct flow first;
    uint32_t before = CHAIN_TICKETS;

    flow_init(&first, &long_work);
    queue_op(&first, before, NULL, LONG_COPIES);
    for (int i = 0; i < count; i++) {
        uint32_t ticket = CHAIN_TICKETS + 1 + (uint32_t)i;
        queue_op(&flows[i % 2], ticket, &before, 1);
        before = ticket;
    }
    flow_clear(&first);
    for (int i = 0; i < 2; i++)
        flow_wait(&flows[i], 0);
    return 1e-9 * (double)(MAX(flows[0].last_ns, flows[1].last_ns) - flows[0].first_ns) / count;
}

double
mw_calibrate_chain_s(struct mw_calibrator *c, int count)
{
    struct mw_calibrate_copies copies[2] = {{.c = c}, {.c = c, .to_host = true}};
    struct mw_calibrate_work works[2];
    struct flow flows[2];

    for (int i = 0; i < 2; i++) {
        works[i] = (struct mw_calibrate_work){run_small, &copies[i], c,
                                              i ? MW_CALIBRATE_D2H : MW_CALIBRATE_H2D, 1};
        flow_init(&flows[i], &works[i]);
    }
    double seconds = time_chain(flows, count);
    for (int i = 0; i < 2; i++)
        flow_clear(&flows[i]);
    return seconds;
}
