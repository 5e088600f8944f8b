#include "sim/engine_internal.h"

#include <math.h>

/* A channel with two more links: whose directions have limits of their own, or slow each other
 * unequally. */
static bool
has_directions(const struct mw_costs *costs, uint32_t channel)
{
    return (costs->one_way && costs->one_way[channel] < 1) || mw_engine_mixed(costs, channel);
}

static void
number_links(struct mw_engine *engine)
{
    const struct mw_plan *plan = engine->plan;
    const struct mw_costs *costs = engine->costs;

    engine->link_count = plan->channel_count;
    engine->one_way_link = g_new(uint32_t, plan->channel_count);
    for (uint32_t c = 0; c < plan->channel_count; c++) {
        engine->one_way_link[c] = MW_NONE;
        if (has_directions(costs, c)) {
            engine->one_way_link[c] = engine->link_count;
            engine->link_count += 2;
        }
    }
}

/* Adds to the work's pull on a link.  Two draws of a work on one channel become one pull of as many
 * ranks.  `share` is the sum over these ranks. */
static void
add_pull(struct mw_engine *engine, struct mw_stream *stream, uint32_t link, double ranks,
         double share)
{
    struct mw_pull *pulls = engine->pulls + stream->pull_begin;
    uint32_t i = 0;

    while (i < stream->pull_count && pulls[i].link != link)
        i++;
    if (i == stream->pull_count)
        pulls[stream->pull_count++] = (struct mw_pull){.link = link, .ranks = ranks};
    pulls[i].share += share / ranks;
    /* Rounded down, so that shares that add up to the whole never exceed it. */
    pulls[i].units = (uint64_t)(fmin(ranks * pulls[i].share, 2) * (double)MW_LINK_FULL);
}

/* Where reads keep the part x of their rate beside writes, which keep y of theirs, the drive does
 * what lies below the line from (1, 0) to (x, y) and below the line from (x, y) to (0, 1).  The
 * first line is a link of which a read at full speed takes 1 and a write (1 - x)/y; the second, one
 * of which they take (1 - y)/x and 1.  Each op's weight on a link is what it has of it at (x, y),
 * so that equally many reads and writes come to rest there, and not where their shares of a link
 * are equal. */
static void
add_mixed_pulls(struct mw_engine *engine, struct mw_stream *stream, uint32_t link, uint32_t ranks,
                double share, bool writes, const struct mw_cost_mixed *mixed)
{
    double x = mixed->read, y = mixed->write;
    double weights[2] = {writes ? 1 - x : x, writes ? y : 1 - y};

    for (int i = 0; i < 2; i++)
        if (weights[i] > 0)
            add_pull(engine, stream, link + (uint32_t)i, ranks * weights[i],
                     share * weights[i] / (writes ? y : x));
}

static void
init_stream(struct mw_engine *engine, uint32_t index, uint32_t pull_begin)
{
    const struct mw_costs *costs = engine->costs;
    const struct mw_work *work = &engine->plan->works[index];
    struct mw_stream *stream = &engine->streams[index];

    int64_t lead_ns = costs->lead_ns ? costs->lead_ns[index] : 0;

    *stream = (struct mw_stream){.lead_ns = lead_ns,
                                 .work_ns = costs->work_ns[index] - lead_ns,
                                 .bytes = work->bytes,
                                 .speed = 1,
                                 .scheduled_head = MW_NONE,
                                 .pull_begin = pull_begin};
    for (uint32_t i = work->draw_begin; i < work->draw_begin + work->draw_count; i++) {
        uint32_t channel = engine->plan->draws[i].channel, ranks = engine->plan->draws[i].ranks;
        double rate = costs->draw_rate[i];

        if (rate <= 0)
            continue;
        if (mw_engine_mixed(costs, channel)) {
            add_mixed_pulls(engine, stream, engine->one_way_link[channel], ranks,
                            rate / costs->capacity[channel], mw_op_traits(work->kind)->writes,
                            &costs->mixed[channel]);
            continue;
        }
        add_pull(engine, stream, channel, ranks, rate / costs->capacity[channel]);
        if (engine->one_way_link[channel] != MW_NONE)
            add_pull(engine, stream,
                     engine->one_way_link[channel] + mw_op_traits(work->kind)->writes, ranks,
                     rate / (costs->capacity[channel] * costs->one_way[channel]));
    }
}

void
mw_engine_share_init(struct mw_engine *engine)
{
    const struct mw_plan *plan = engine->plan;
    uint32_t begin = 0;
    size_t draws = 0;

    for (uint32_t w = 0; w < plan->work_count; w++)
        draws += plan->works[w].draw_count;
    number_links(engine);
    engine->links = g_new0(struct mw_link, engine->link_count);
    engine->touched_links = g_new(uint32_t, engine->link_count);
    engine->component_links = g_new(uint32_t, engine->link_count);
    engine->pulls = g_new(struct mw_pull, 2 * draws);
    engine->streams = g_new(struct mw_stream, plan->work_count);
    engine->touched_streams = g_new(uint32_t, plan->work_count);
    engine->component_streams = g_new(uint32_t, plan->work_count);
    mw_heap_init(&engine->heap, plan->work_count + plan->lane_count);
    for (uint32_t w = 0; w < plan->work_count; w++) {
        init_stream(engine, w, begin);
        begin += engine->streams[w].pull_count;
    }
}

void
mw_engine_share_clear(struct mw_engine *engine)
{
    for (uint32_t i = 0; engine->links && i < engine->link_count; i++) {
        g_free(engine->links[i].pulls);
        g_free(engine->links[i].streams);
    }
    g_free(engine->links);
    g_free(engine->one_way_link);
    g_free(engine->touched_links);
    g_free(engine->component_links);
    g_free(engine->pulls);
    g_free(engine->streams);
    g_free(engine->touched_streams);
    g_free(engine->component_streams);
    mw_heap_clear(&engine->heap);
}

void
mw_engine_channels_busy(const struct mw_engine *engine, double *busy_ns)
{
    double *links = g_new0(double, engine->link_count);

    for (uint32_t w = 0; w < engine->plan->work_count; w++) {
        const struct mw_stream *stream = &engine->streams[w];
        double work_ns = (double)engine->graph->work_uses[w] * (double)stream->work_ns;

        for (uint32_t i = 0; i < stream->pull_count; i++) {
            const struct mw_pull *pull = &engine->pulls[stream->pull_begin + i];
            links[pull->link] += work_ns * pull->ranks * pull->share;
        }
    }
    for (uint32_t c = 0; c < engine->plan->channel_count; c++) {
        uint32_t one_way = engine->one_way_link[c];

        busy_ns[c] = links[c];
        if (one_way != MW_NONE)
            busy_ns[c] = fmax(busy_ns[c], fmax(links[one_way], links[one_way + 1]));
    }
    g_free(links);
}
