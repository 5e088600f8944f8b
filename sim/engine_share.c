/*
 * engine_share.c - how ops share a channel.
 *
 * Max-min fairness on the share of the channel that a rank draws: every oversubscribed link has a
 * level, and each rank of its ops draws what it asks for, but at most the level, unless another
 * link limits it further (Bertsekas and Gallager, Data Networks, 6.5.2; SimGrid's LMM solver).  A
 * level that no other link can raise is final, and so are the speeds of the ops that it limits.  In
 * most cases each round finds such a link.  Where ops weigh their links differently, two levels can
 * depend on each other; iteration then finds them.
 */
#include "sim/engine_internal.h"

#include <math.h>

/* Below this, a link's remaining capacity is rounding error. */
#define LEVEL_MIN 1e-12

/* For two levels that depend on each other the iteration is certain to contract; for more it nearly
 * always does. */
#define SWEEPS_MAX 200
#define SWEEP_TOLERANCE 1e-12

/* The arguments are numbers, never NaN, so unlike fmin each of these is one instruction. */
static inline double
smaller(double a, double b)
{
    return a < b ? a : b;
}

static inline double
larger(double a, double b)
{
    return a > b ? a : b;
}

static void
list_pull(struct mw_engine *engine, uint32_t stream, uint32_t pull)
{
    struct mw_link *link = &engine->links[engine->pulls[pull].link];

    if (link->count == link->allocated) {
        link->allocated = link->allocated ? 2 * link->allocated : 8;
        link->pulls = g_renew(uint32_t, link->pulls, link->allocated);
        link->streams = g_renew(uint32_t, link->streams, link->allocated);
    }
    engine->pulls[pull].position = link->count;
    link->pulls[link->count] = pull;
    link->streams[link->count] = stream;
    link->count++;
}

static void
unlist_pull(struct mw_engine *engine, uint32_t pull)
{
    struct mw_link *link = &engine->links[engine->pulls[pull].link];
    uint32_t position = engine->pulls[pull].position;

    link->count--;
    link->pulls[position] = link->pulls[link->count];
    link->streams[position] = link->streams[link->count];
    engine->pulls[link->pulls[position]].position = position;
}

/* Brings the loads of a stream's links up to date with the number of its ops in flight. */
static void
load_links(struct mw_engine *engine, uint32_t index)
{
    struct mw_stream *stream = &engine->streams[index];
    uint64_t more = (uint64_t)stream->queue.count - stream->shared_count;

    for (uint32_t i = 0; i < stream->pull_count; i++) {
        uint32_t pull = stream->pull_begin + i;
        uint32_t at = engine->pulls[pull].link;
        struct mw_link *link = &engine->links[at];

        link->load += more * engine->pulls[pull].units;
        if (stream->shared_count == 0)
            list_pull(engine, index, pull);
        else if (stream->queue.count == 0)
            unlist_pull(engine, pull);
        if (!link->touched) {
            link->touched = true;
            engine->touched_links[engine->touched_link_count++] = at;
        }
    }
    stream->shared_count = stream->queue.count;
}

static void
add_stream(struct mw_engine *engine, uint32_t index)
{
    struct mw_stream *stream = &engine->streams[index];

    if (stream->in_component)
        return;
    stream->in_component = true;
    stream->fixed = false;
    stream->limit = stream->next_speed = 1;
    engine->component_streams[engine->component_stream_count++] = index;
    for (uint32_t i = 0; i < stream->pull_count; i++) {
        uint32_t at = engine->pulls[stream->pull_begin + i].link;
        struct mw_link *link = &engine->links[at];

        if (link->over && !link->in_component) {
            link->in_component = true;
            link->fixed = false;
            engine->component_links[engine->component_link_count++] = at;
        }
    }
}

/* Finds the streams and oversubscribed links that a change of the touched links can affect. */
static void
find_component(struct mw_engine *engine)
{
    uint32_t seeds = 0;

    engine->component_stream_count = engine->component_link_count = 0;
    for (uint32_t i = 0; i < engine->touched_link_count; i++) {
        uint32_t at = engine->touched_links[i];
        struct mw_link *link = &engine->links[at];
        bool was_over = link->over;

        link->touched = false;
        link->over = link->load > MW_LINK_FULL;
        if (link->over || was_over)
            engine->touched_links[seeds++] = at;
    }
    engine->touched_link_count = 0;
    for (uint32_t i = 0; i < seeds; i++) {
        const struct mw_link *link = &engine->links[engine->touched_links[i]];
        for (uint32_t j = 0; j < link->count; j++)
            add_stream(engine, link->streams[j]);
    }
    for (uint32_t i = 0; i < engine->component_link_count; i++) {
        const struct mw_link *link = &engine->links[engine->component_links[i]];

        for (uint32_t j = 0; j < link->count; j++)
            add_stream(engine, link->streams[j]);
    }
}

/* The level at which the link is just full, given its streams' limits; INFINITY if all fit. */
static double
link_level(const struct mw_engine *engine, const struct mw_link *link)
{
    double level = 0;

    for (;;) {
        double left = 1, cut = 0;

        for (uint32_t j = 0; j < link->count; j++) {
            const struct mw_stream *stream = &engine->streams[link->streams[j]];
            const struct mw_pull *pull = &engine->pulls[link->pulls[j]];
            double ranks = stream->shared_count * pull->ranks;
            double share = pull->share * stream->limit;

            if (stream->fixed || share <= level)
                left -= ranks * share;
            else
                cut += ranks;
        }
        if (cut == 0)
            return INFINITY;
        left = larger(left / cut, LEVEL_MIN);
        if (left <= level)
            return level;
        level = left;
    }
}

/* The speed that all open links except `but` allow the stream. */
static double
speed_within(const struct mw_engine *engine, const struct mw_stream *stream,
             const struct mw_link *but)
{
    double speed = 1;

    for (uint32_t j = 0; j < stream->pull_count; j++) {
        const struct mw_pull *pull = &engine->pulls[stream->pull_begin + j];
        const struct mw_link *link = &engine->links[pull->link];

        if (link->in_component && !link->fixed && link != but)
            speed = smaller(speed, link->level / pull->share);
    }
    return speed;
}

static void
cap_streams(struct mw_engine *engine)
{
    for (uint32_t i = 0; i < engine->component_stream_count; i++) {
        struct mw_stream *stream = &engine->streams[engine->component_streams[i]];
        if (!stream->fixed)
            stream->next_speed = speed_within(engine, stream, NULL);
    }
}

/* Whether all streams of the link draw what its level assumed.  Then the level is final. */
static bool
link_is_final(const struct mw_engine *engine, const struct mw_link *link)
{
    for (uint32_t j = 0; j < link->count; j++) {
        const struct mw_stream *stream = &engine->streams[link->streams[j]];
        double share = engine->pulls[link->pulls[j]].share;

        if (!stream->fixed && stream->next_speed != smaller(1, link->level / share))
            return false;
    }
    return true;
}

static void
fix_stream(struct mw_stream *stream)
{
    stream->fixed = true;
    stream->limit = stream->next_speed;
}

/* Fixes the streams that this link holds back. */
static void
fix_streams(struct mw_engine *engine, const struct mw_link *link)
{
    for (uint32_t j = 0; j < link->count; j++) {
        struct mw_stream *stream = &engine->streams[link->streams[j]];
        double speed = link->level / engine->pulls[link->pulls[j]].share;

        if (!stream->fixed && speed < 1 && stream->next_speed == speed)
            fix_stream(stream);
    }
}

/* Gauss-Seidel: each level given all others; returns the largest relative change. */
static double
sweep(struct mw_engine *engine)
{
    double change = 0;

    for (uint32_t i = 0; i < engine->component_link_count; i++) {
        struct mw_link *link = &engine->links[engine->component_links[i]];
        double before = link->level;

        if (link->fixed)
            continue;
        for (uint32_t j = 0; j < link->count; j++) {
            struct mw_stream *stream = &engine->streams[link->streams[j]];
            if (!stream->fixed)
                stream->limit = speed_within(engine, stream, link);
        }
        link->level = link_level(engine, link);
        if (link->level != before)
            change = larger(change, fabs(1 - before / link->level));
    }
    return change;
}

/* Called when no level is final: finds all open levels together. */
static void
iterate(struct mw_engine *engine)
{
    for (int i = 0; i < SWEEPS_MAX && sweep(engine) > SWEEP_TOLERANCE; i++)
        ;
    cap_streams(engine);
    for (uint32_t i = 0; i < engine->component_stream_count; i++) {
        struct mw_stream *stream = &engine->streams[engine->component_streams[i]];
        if (!stream->fixed)
            fix_stream(stream);
    }
}

/* Finds the levels of links whose streams exceed their capacity.  Other links hold no stream back
 * and are fixed. */
static uint32_t
find_levels(struct mw_engine *engine)
{
    uint32_t open = 0;

    for (uint32_t i = 0; i < engine->component_link_count; i++) {
        struct mw_link *link = &engine->links[engine->component_links[i]];

        if (link->fixed)
            continue;
        link->level = link_level(engine, link);
        link->fixed = isinf(link->level);
        open += !link->fixed;
    }
    return open;
}

/* Judges all links before it fixes any stream, since a stream that one link fixes drew more from
 * another. */
static uint32_t
fix_final_links(struct mw_engine *engine)
{
    uint32_t fixed = 0;

    for (uint32_t i = 0; i < engine->component_link_count; i++) {
        struct mw_link *link = &engine->links[engine->component_links[i]];
        link->final = !link->fixed && link_is_final(engine, link);
    }
    for (uint32_t i = 0; i < engine->component_link_count; i++) {
        struct mw_link *link = &engine->links[engine->component_links[i]];

        if (!link->final)
            continue;
        fix_streams(engine, link);
        link->fixed = true;
        fixed++;
    }
    return fixed;
}

/* Most components are one link and its streams, and need no rounds. */
static void
fill_link(struct mw_engine *engine, const struct mw_link *link)
{
    double level = link_level(engine, link);

    for (uint32_t j = 0; j < link->count; j++)
        engine->streams[link->streams[j]].next_speed =
            smaller(1, level / engine->pulls[link->pulls[j]].share);
}

static void
fill_component(struct mw_engine *engine)
{
    uint32_t open = engine->component_link_count;

    if (open == 1) {
        fill_link(engine, &engine->links[engine->component_links[0]]);
        return;
    }
    while (open > 0) {
        uint32_t fixed;

        open = find_levels(engine);
        cap_streams(engine);
        fixed = fix_final_links(engine);
        if (open > 0 && fixed == 0) {
            iterate(engine);
            return;
        }
        open -= fixed;
    }
}

static void
apply_speeds(struct mw_engine *engine)
{
    for (uint32_t i = 0; i < engine->component_link_count; i++)
        engine->links[engine->component_links[i]].in_component = false;
    for (uint32_t i = 0; i < engine->component_stream_count; i++) {
        uint32_t index = engine->component_streams[i];
        struct mw_stream *stream = &engine->streams[index];

        stream->in_component = false;
        if (stream->next_speed == stream->speed)
            continue;
        mw_stream_advance(stream, engine->now_ns);
        stream->speed = stream->next_speed;
        stream->scheduled_head = MW_NONE;
        mw_stream_touch(engine, index);
    }
}

static void
schedule(struct mw_engine *engine, uint32_t index)
{
    struct mw_stream *stream = &engine->streams[index];
    double left;
    int64_t whole;

    if (stream->queue.count == 0 || stream->queue.head == stream->scheduled_head)
        return;
    stream->scheduled_head = stream->queue.head;
    mw_stream_advance(stream, engine->now_ns);
    left = engine->flows[stream->queue.head].finish - stream->progress;
    left = smaller(larger(left / stream->speed - MW_PROGRESS_SLACK, 0), 4e18);
    whole = (int64_t)left;
    whole += (double)whole < left;
    mw_heap_set(&engine->heap, index, engine->now_ns + whole);
}

void
mw_engine_update_rates(struct mw_engine *engine)
{
    for (uint32_t i = 0; i < engine->touched_stream_count; i++) {
        struct mw_stream *stream = &engine->streams[engine->touched_streams[i]];
        if (stream->queue.count != stream->shared_count)
            load_links(engine, engine->touched_streams[i]);
    }
    find_component(engine);
    if (engine->component_stream_count > 0) {
        engine->reshares++;
        fill_component(engine);
        apply_speeds(engine);
    }
    for (uint32_t i = 0; i < engine->touched_stream_count; i++) {
        engine->streams[engine->touched_streams[i]].touched = false;
        schedule(engine, engine->touched_streams[i]);
    }
    engine->touched_stream_count = 0;
}
