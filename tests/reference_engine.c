#include "tests/reference_engine.h"

#include <glib.h>
#include <math.h>
#include <string.h>

enum state { WAITING, STARTED, LEADING, ARRIVED, MOVING, FINISHED, DONE };

struct demand {
    double wanted, weight; /* of a link; the weight is its part in a fair share */
};

struct op_state {
    enum state state;
    int64_t ready_ns; /* its latency has passed */
    double left, speed;
};

struct reference {
    const struct mw_plan *plan;
    const struct mw_costs *costs;
    uint32_t steps;
    struct op_state *ops;           /* [steps * op_count] */
    uint32_t links;                 /* 3 * channel_count: the channel, reads, writes */
    double *shares;                 /* [op_count][links] what the op draws at full speed */
    double *levels;                 /* [links] */
    uint32_t *moving, moving_count; /* ops, without their step */
    struct demand *demands;         /* [moving_count] */
    int64_t now_ns;
    struct reference_result *result;
};

static struct op_state *
state_of(const struct reference *r, uint32_t step, uint32_t op)
{
    return &r->ops[(size_t)step * r->plan->op_count + op];
}

static const struct mw_work *
work_of(const struct reference *r, uint32_t op)
{
    return &r->plan->works[r->plan->ops[op].work];
}

static double
draw_of(const struct reference *r, uint32_t op, uint32_t channel)
{
    const struct mw_work *work = work_of(r, op);
    double rate = 0;

    for (uint32_t i = work->draw_begin; i < work->draw_begin + work->draw_count; i++)
        if (r->plan->draws[i].channel == channel)
            rate += r->costs->draw_rate[i];
    return rate;
}

/* Line 1 goes from reads alone to both at once, line 2 from there to writes alone. */
static double
share_of_line(const struct reference *r, uint32_t op, uint32_t channel, uint32_t way,
              const struct mw_cost_mixed *mixed)
{
    bool writes = mw_op_traits(work_of(r, op)->kind)->writes;
    double speed = draw_of(r, op, channel) / r->costs->capacity[channel];

    if (way == 0)
        return 0;
    if (way == 1)
        return writes ? speed * (1 - mixed->read) / mixed->write : speed;
    return writes ? speed : speed * (1 - mixed->write) / mixed->read;
}

/* What an op has of a link where as many reads as writes are at once: its part in a fair share. */
static double
weight_of(const struct reference *r, uint32_t op, uint32_t link)
{
    const struct mw_cost_mixed *mixed = r->costs->mixed ? &r->costs->mixed[link / 3] : NULL;
    bool writes = mw_op_traits(work_of(r, op)->kind)->writes;

    if (!mixed || !(mixed->read > 0))
        return 1;
    if (link % 3 == 1)
        return writes ? 1 - mixed->read : mixed->read;
    return writes ? mixed->write : 1 - mixed->write;
}

static double
share_of(const struct reference *r, uint32_t op, uint32_t link)
{
    const struct mw_work *work = work_of(r, op);
    uint32_t channel = link / 3, way = link % 3;
    double capacity = r->costs->capacity[channel], share = 0;
    const struct mw_cost_mixed *mixed = r->costs->mixed ? &r->costs->mixed[channel] : NULL;

    if (mixed && mixed->read > 0)
        return share_of_line(r, op, channel, way, mixed);
    if (way > 0) {
        if (!r->costs->one_way || way != 1u + mw_op_traits(work->kind)->writes)
            return 0;
        capacity *= r->costs->one_way[channel];
    }
    for (uint32_t i = work->draw_begin; i < work->draw_begin + work->draw_count; i++)
        if (r->plan->draws[i].channel == channel)
            share += r->costs->draw_rate[i] / capacity;
    return share;
}

static double
speed_without(const struct reference *r, uint32_t op, uint32_t but)
{
    const double *shares = &r->shares[(size_t)op * r->links];
    double speed = 1;

    for (uint32_t link = 0; link < r->links; link++)
        if (link != but && shares[link] > 0)
            speed = fmin(speed, r->levels[link] * weight_of(r, op, link) / shares[link]);
    return speed;
}

/* By what is wanted for each unit of weight. */
static int
compare_demands(const void *a, const void *b)
{
    const struct demand *p = a, *q = b;
    double x = p->wanted / p->weight, y = q->wanted / q->weight;
    return (x > y) - (x < y);
}

/* Serves the smallest demands first, each within what other links leave its op. */
static double
level_of(const struct reference *r, uint32_t link)
{
    double left = 1, wanted = 0, weight = 0;
    uint32_t count = 0;

    for (uint32_t i = 0; i < r->moving_count; i++) {
        double share = r->shares[(size_t)r->moving[i] * r->links + link];

        if (share > 0)
            r->demands[count++] = (struct demand){share * speed_without(r, r->moving[i], link),
                                                  weight_of(r, r->moving[i], link)};
    }
    qsort(r->demands, count, sizeof *r->demands, compare_demands);
    for (uint32_t i = 0; i < count; i++) {
        wanted += r->demands[i].wanted;
        weight += r->demands[i].weight;
    }
    if (wanted <= 1 + 1e-12)
        return INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        if (r->demands[i].wanted / r->demands[i].weight * weight > left)
            return left / weight;
        left -= r->demands[i].wanted;
        weight -= r->demands[i].weight;
    }
    return INFINITY;
}

/* The fair speeds are where no link's level would change, given all others. */
static void
share_channels(struct reference *r)
{
    bool changed = true;

    r->moving_count = 0;
    for (uint32_t n = 0; n < r->steps * r->plan->op_count; n++)
        if (r->ops[n].state == MOVING)
            r->moving[r->moving_count++] = n % r->plan->op_count;
    for (uint32_t link = 0; link < r->links; link++)
        r->levels[link] = INFINITY;
    for (int i = 0; i < 100 && changed; i++) {
        changed = false;
        for (uint32_t link = 0; link < r->links; link++) {
            double level = level_of(r, link);
            changed = changed ||
                      (level != r->levels[link] && !(fabs(level / r->levels[link] - 1) < 1e-11));
            r->levels[link] = level;
        }
    }
    if (changed)
        r->result->converged = false;
    for (uint32_t n = 0; n < r->steps * r->plan->op_count; n++)
        if (r->ops[n].state == MOVING)
            r->ops[n].speed = speed_without(r, n % r->plan->op_count, MW_NONE);
}

static bool
step_is_done(const struct reference *r, uint32_t step)
{
    for (uint32_t op = 0; op < r->plan->op_count; op++)
        if (state_of(r, step, op)->state != DONE)
            return false;
    return true;
}

static bool
deps_are_done(const struct reference *r, uint32_t step, uint32_t op)
{
    for (uint32_t d = 0; d < r->plan->ops[op].dep_count; d++) {
        uint32_t dep = r->plan->deps[r->plan->ops[op].dep_begin + d];
        bool previous = dep & MW_DEP_PREVIOUS_STEP;

        if (!(previous && step == 0) &&
            state_of(r, step - previous, MW_DEP_INDEX(dep))->state != DONE)
            return false;
    }
    return true;
}

/* Earlier ops of the lane have started and its window has left. */
static bool
lane_lets_in(const struct reference *r, uint32_t step, uint32_t op)
{
    const struct mw_lane *lane = &r->plan->lanes[r->plan->ops[op].lane];
    uint32_t in_flight = 0;
    int64_t bytes = 0;

    for (uint32_t n = 0; n < r->steps * r->plan->op_count; n++) {
        uint32_t other = n % r->plan->op_count;

        if (r->plan->ops[other].lane != r->plan->ops[op].lane || r->ops[n].state == DONE)
            continue;
        if (r->ops[n].state != WAITING) {
            in_flight++;
            bytes += work_of(r, other)->bytes;
        } else if (n < step * r->plan->op_count + op) {
            return false;
        }
    }
    return in_flight == 0 ||
           (in_flight < lane->window_ops &&
            (lane->window_bytes == 0 || bytes + work_of(r, op)->bytes <= lane->window_bytes));
}

static int64_t
lead_ns(const struct reference *r, uint32_t op)
{
    return r->costs->lead_ns ? r->costs->lead_ns[r->plan->ops[op].work] : 0;
}

/* All before it in its lane are done. */
static bool
has_turn(const struct reference *r, uint32_t n)
{
    uint32_t lane = r->plan->ops[n % r->plan->op_count].lane;

    for (uint32_t i = 0; i < n; i++)
        if (r->plan->ops[i % r->plan->op_count].lane == lane && r->ops[i].state != DONE)
            return false;
    return true;
}

static bool
all_members_are(const struct reference *r, uint32_t step, uint32_t op, enum state state)
{
    uint32_t match = r->plan->ops[op].match;

    for (uint32_t other = 0; other < r->plan->op_count; other++)
        if (other == op || (match != MW_NONE && r->plan->ops[other].match == match))
            if (state_of(r, step, other)->state < state)
                return false;
    return true;
}

/* Takes every op one state further that can go; true if there was one. */
static bool
go_on(struct reference *r)
{
    bool moved = false;

    for (uint32_t n = 0; n < r->steps * r->plan->op_count; n++) {
        uint32_t step = n / r->plan->op_count, op = n % r->plan->op_count;
        struct op_state *o = &r->ops[n];
        enum state before = o->state;

        if (o->state == WAITING && deps_are_done(r, step, op) && lane_lets_in(r, step, op) &&
            (step < 2 || step_is_done(r, step - 2))) {
            o->state = STARTED;
            o->ready_ns = r->now_ns + lead_ns(r, op);
        } else if (o->state == STARTED && has_turn(r, n)) {
            o->state = LEADING;
            r->result->start_ns[n] = r->now_ns;
        } else if (o->state == LEADING && o->ready_ns <= r->now_ns) {
            o->state = ARRIVED;
        } else if (o->state == ARRIVED && all_members_are(r, step, op, ARRIVED)) {
            o->state = MOVING;
            o->left = (double)(r->costs->work_ns[r->plan->ops[op].work] - lead_ns(r, op));
        } else if (o->state == MOVING && o->left <= 1e-6) {
            o->state = FINISHED;
        } else if (o->state == FINISHED && all_members_are(r, step, op, FINISHED)) {
            o->state = DONE;
            r->result->end_ns[n] = r->now_ns;
        }
        moved = moved || o->state != before;
    }
    return moved;
}

/* To the next completion or end of a latency; false if nothing goes on. */
static bool
pass_time(struct reference *r)
{
    double next = INFINITY;

    for (uint32_t n = 0; n < r->steps * r->plan->op_count; n++)
        if (r->ops[n].state == MOVING)
            next = fmin(next, ceil(r->ops[n].left / r->ops[n].speed - 1e-6));
        else if (r->ops[n].state == LEADING)
            next = fmin(next, (double)(r->ops[n].ready_ns - r->now_ns));
    if (isinf(next))
        return false;
    for (uint32_t n = 0; n < r->steps * r->plan->op_count; n++)
        if (r->ops[n].state == MOVING)
            r->ops[n].left -= r->ops[n].speed * next;
    r->now_ns += (int64_t)next;
    return true;
}

void
reference_run(const struct mw_plan *plan, const struct mw_costs *costs, uint32_t steps,
              struct reference_result *result)
{
    struct reference r = {.plan = plan, .costs = costs, .steps = steps, .result = result};
    size_t runs = (size_t)steps * plan->op_count;

    r.ops = g_new0(struct op_state, runs);
    r.links = 3 * plan->channel_count;
    r.shares = g_new(double, (size_t)plan->op_count *r.links);
    for (uint32_t op = 0; op < plan->op_count; op++)
        for (uint32_t link = 0; link < r.links; link++)
            r.shares[(size_t)op * r.links + link] = share_of(&r, op, link);
    r.levels = g_new(double, r.links);
    r.moving = g_new(uint32_t, runs);
    r.demands = g_new(struct demand, runs);
    result->start_ns = g_new0(int64_t, runs);
    result->end_ns = g_new0(int64_t, runs);
    result->step_end_ns = g_new0(int64_t, steps);
    result->converged = true;
    do {
        while (go_on(&r))
            ;
        share_channels(&r);
    } while (pass_time(&r));
    for (uint32_t step = 0; step < steps; step++) {
        if (step > 0)
            result->step_end_ns[step] = result->step_end_ns[step - 1];
        for (uint32_t op = 0; op < plan->op_count; op++)
            result->step_end_ns[step] =
                MAX(result->step_end_ns[step], result->end_ns[(size_t)step * plan->op_count + op]);
    }
    g_free(r.ops);
    g_free(r.shares);
    g_free(r.levels);
    g_free(r.moving);
    g_free(r.demands);
}

void
reference_clear(struct reference_result *result)
{
    g_free(result->start_ns);
    g_free(result->end_ns);
    g_free(result->step_end_ns);
    memset(result, 0, sizeof *result);
}
