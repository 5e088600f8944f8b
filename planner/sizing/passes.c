/* The order of forward and backward in a pipeline's stage. */
#include <glib.h>

#include "base/arithmetic.h"
#include "planner/sizing/internal.h"

/* Forward passes before the first backward. One forward, one backward: a stage is ahead by the
 * number of stages behind it (PipeDream-flush; Narayanan et al. 2021, arXiv 2104.04473, Sec.
 * 2.2.1), and a replica that takes turns by its part of the ranks behind it; all forward before any
 * goes back (GPipe, arXiv 1811.06965, Sec. 2.3).  Interleaved: twice as many, and all but the last
 * stretch of as many micro-batches as there are stages (Megatron-LM,
 * megatron/core/pipeline_parallel/schedules.py, forward_backward_pipelining_with_interleaving). */
static int64_t
warm_up(const struct mw_sizing *sizing)
{
    int64_t micro_batches = MAX(1, mw_sizing_micro_batches(sizing)), all = micro_batches;
    int64_t behind = mw_settings_stage_in_flight(&sizing->settings, sizing->stage) - 1;

    if (mw_settings_layer_order(&sizing->settings) ||
        mw_schedule_row(sizing->settings.schedule)->all_forward)
        return all - 1;
    if (sizing->stretches > 1)
        return MIN(2 * behind + (sizing->stretches - 1) * sizing->pp, all * sizing->stretches);
    return MIN(behind, all - 1);
}

/* Places come round in each step, where steps overlap: as many rounds of them as a step has room
 * for, which differ by one in length.  Without a remainder there are as many as are needed. */
static int64_t
rounds_of_places(const struct mw_sizing *sizing, int64_t needed)
{
    return MAX(1, mw_sizing_micro_batches(sizing) / needed);
}

static int64_t
places_of(const struct mw_sizing *sizing, int64_t needed)
{
    return mw_divide_up(mw_sizing_micro_batches(sizing), rounds_of_places(sizing, needed));
}

static uint32_t
place_in_round(const struct mw_sizing *sizing, int64_t needed, int64_t micro_batch)
{
    int64_t all = mw_sizing_micro_batches(sizing), rounds = rounds_of_places(sizing, needed),
            begin = 0;

    for (int64_t round = 1; round < rounds && round * all / rounds <= micro_batch; round++)
        begin = round * all / rounds;
    return (uint32_t)(micro_batch - begin);
}

/* The version that a micro-batch takes was made by the micro-batch this many before it.  One
 * goes forward before that of the warm-up's length before it has come back, and takes what the one
 * before that has made; it goes back with the same (weight stashing; PipeDream, Narayanan et al.,
 * SOSP 2019, Sec. 3.3).  With vertical sync a stage takes what the first one does, whose warm-up is
 * the longest. */
static int64_t
versions_behind(const struct mw_sizing *sizing)
{
    int64_t all = mw_sizing_micro_batches(sizing);

    return mw_settings_vertical_sync(&sizing->settings) ? MIN(sizing->pp, all)
                                                        : warm_up(sizing) + 1;
}

int64_t
mw_sizing_versions(const struct mw_sizing *sizing)
{
    return places_of(sizing, versions_behind(sizing));
}

uint32_t
mw_sizing_version_made(const struct mw_sizing *sizing, int64_t micro_batch)
{
    return place_in_round(sizing, versions_behind(sizing), micro_batch);
}

uint32_t
mw_sizing_version_taken(const struct mw_sizing *sizing, int64_t micro_batch)
{
    int64_t all = mw_sizing_micro_batches(sizing), behind = versions_behind(sizing);

    return place_in_round(sizing, behind, (micro_batch - behind + all) % all);
}

int64_t
mw_sizing_passes_in_flight(const struct mw_sizing *sizing)
{
    int64_t micro_batches = MAX(1, mw_sizing_micro_batches(sizing));

    if (mw_settings_no_flush(&sizing->settings))
        return places_of(sizing, warm_up(sizing) + 1);
    return MIN(warm_up(sizing) + 1, micro_batches * sizing->stretches);
}

/* Micro-batches of the next step that a stage has sent forward at the end of one. */
static int64_t
sent_ahead(const struct mw_settings *settings, int64_t stage)
{
    int64_t replicas =
        mw_settings_takes_turns(settings) ? mw_settings_stage_ranks(settings, stage) : 1;

    return replicas * (mw_settings_stage_in_flight(settings, stage) - 1);
}

int64_t
mw_sizing_carried(const struct mw_sizing *sizing, int64_t replica)
{
    const struct mw_settings *settings = &sizing->settings;
    int64_t turns = mw_settings_takes_turns(settings) ? sizing->dp : 1;

    if (!mw_settings_no_flush(settings) || !sizing->stage)
        return 0;
    int64_t more = sent_ahead(settings, sizing->stage - 1) - sent_ahead(settings, sizing->stage);
    return replica < more ? mw_divide_up(more - replica, turns) : 0;
}

/* Zero-bubble, ZB-H1: as late as the stage's place in the pipeline, so that all stages have as many
 * micro-batches in flight as there are stages (Qi et al. 2023, arXiv 2401.10241, Sec. 2.1). */
int64_t
mw_sizing_weights_behind(const struct mw_sizing *sizing)
{
    return MIN(sizing->stage, MAX(1, mw_sizing_micro_batches(sizing)) - 1);
}

/* Of a pass through a layer, by its FLOPs and bytes. */
static double
seconds(const struct mw_sizing *sizing, double flops, double bytes)
{
    return flops / sizing->hardware->gpu_achievable_flops +
           bytes / sizing->hardware->gpu_memory_bytes_per_s;
}

/* With gradients of weights that come later, a stage waits for the passes of its neighbours less
 * what it has to do meanwhile. */
static double
waiting_share(const struct mw_sizing *sizing)
{
    double all_s = 0, weights_s = 0;

    if (!mw_settings_weights_later(&sizing->settings) ||
        mw_sizing_micro_batches(sizing) < sizing->pp)
        return 1;
    for (int c = MW_CLASS_LAYERS; c < MW_CLASS_TAIL; c++) {
        const struct mw_class_info *class = &sizing->classes[c];
        for (int i = 0; i < class->operator_count; i++) {
            const struct mw_operator_info *info = &class->operators[i];
            double blocks = (double)class->blocks;
            all_s += blocks * seconds(sizing, (double)(info->forward_flops + info->backward_flops),
                                      (double)(info->forward_bytes + info->backward_bytes));
            if (mw_sizing_weights_later(sizing, info))
                weights_s += blocks * seconds(sizing, (double)info->forward_flops,
                                              (double)info->weight_bytes);
        }
    }
    return all_s > 0 ? (all_s - 2 * weights_s) / all_s : 1;
}

double
mw_sizing_bubble(const struct mw_sizing *sizing)
{
    if (mw_settings_no_flush(&sizing->settings))
        return 0;
    double passes = (double)(MAX(1, mw_sizing_micro_batches(sizing)) * sizing->stretches);

    return (double)(sizing->pp - 1) / passes * waiting_share(sizing);
}

/* As many micro-batches as there are stages pass the first stretch one after the other, then the
 * second; then come the next ones.  Back they go the other way. */
static struct mw_pass
pass_of(const struct mw_sizing *sizing, int64_t number, bool back)
{
    int64_t stretches = sizing->stretches, group = stretches > 1 ? sizing->pp : 1;
    int64_t first = number / (group * stretches) * group;
    int64_t here = MIN(group, mw_sizing_micro_batches(sizing) - first);
    int64_t within = number - first * stretches;
    int64_t stretch = within / here;

    return (struct mw_pass){.micro_batch = (uint16_t)(first + within % here),
                            .stretch = (uint16_t)(back ? stretches - 1 - stretch : stretch),
                            .back = back};
}

/* Places that are free, the one to take next last. */
struct places {
    uint32_t *free, count;
    uint32_t *of; /* [micro_batches * stretches] */
};

static void
add_pass(const struct mw_sizing *sizing, GArray *passes, struct places *places, int64_t number,
         bool back)
{
    struct mw_pass pass = pass_of(sizing, number, back);
    uint32_t *place = &places->of[pass.micro_batch * sizing->stretches + pass.stretch];

    if (back)
        places->free[places->count++] = *place;
    else
        *place = places->free[--places->count];
    pass.place = *place;
    g_array_append_val(passes, pass);
}

/* The gradients of weights that are due behind the way back of a micro-batch: behind the last one
 * all that are left. */
static void
add_weights(const struct mw_sizing *sizing, GArray *passes, int64_t number)
{
    int64_t behind = mw_sizing_weights_behind(sizing),
            all = MAX(1, mw_sizing_micro_batches(sizing));
    int64_t end = number + 1 == all ? all : number - behind + 1;

    for (int64_t n = MAX(0, number - behind); n < end; n++) {
        struct mw_pass pass = {.micro_batch = (uint16_t)n, .back = true, .of_weights = true};
        g_array_append_val(passes, pass);
    }
}

/* Each micro-batch that goes forward is the warm-up's length ahead of the one that goes back: at
 * the end of a step the first ones of the next go forward (Narayanan et al. 2021, arXiv
 * 2006.09503). */
static struct mw_pass *
passes_without_flush(const struct mw_sizing *sizing, int64_t *count)
{
    int64_t all = mw_sizing_micro_batches(sizing), ahead = warm_up(sizing);
    struct mw_pass *passes = g_new0(struct mw_pass, 2 * all);

    for (int64_t number = 0; number < all; number++) {
        int64_t forth = (number + ahead) % all;
        passes[2 * number] = (struct mw_pass){.micro_batch = (uint16_t)forth,
                                              .place = place_in_round(sizing, ahead + 1, forth),
                                              .next = number + ahead >= all};
        passes[2 * number + 1] =
            (struct mw_pass){.micro_batch = (uint16_t)number,
                             .place = place_in_round(sizing, ahead + 1, number),
                             .back = true};
    }
    *count = 2 * all;
    return passes;
}

struct mw_pass *
mw_sizing_passes(const struct mw_sizing *sizing, int64_t *count)
{
    int64_t all = MAX(1, mw_sizing_micro_batches(sizing)) * sizing->stretches;
    int64_t ahead = warm_up(sizing), in_flight = sizing->micro_batches_in_flight;
    g_autofree uint32_t *free_places = g_new(uint32_t, in_flight);
    g_autofree uint32_t *of = g_new(uint32_t, all);
    if (mw_settings_no_flush(&sizing->settings))
        return passes_without_flush(sizing, count);
    struct places places = {free_places, (uint32_t)in_flight, of};
    GArray *passes = g_array_sized_new(FALSE, FALSE, sizeof(struct mw_pass), (guint)(2 * all));

    for (int64_t i = 0; i < in_flight; i++)
        free_places[i] = (uint32_t)(in_flight - 1 - i);
    for (int64_t number = 0; number < ahead; number++)
        add_pass(sizing, passes, &places, number, false);
    for (int64_t number = 0; number < all; number++) {
        if (number + ahead < all)
            add_pass(sizing, passes, &places, number + ahead, false);
        add_pass(sizing, passes, &places, number, true);
        if (mw_settings_weights_later(&sizing->settings))
            add_weights(sizing, passes, number);
    }
    *count = passes->len;
    return (struct mw_pass *)(gpointer)g_array_free(passes, FALSE);
}
