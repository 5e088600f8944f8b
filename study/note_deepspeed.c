/* Notes on a DeepSpeed file that was read, and on one that is written. */
#include "base/format.h"
#include "base/spell.h"
#include "study/set_result.h"

/* A strategy that was named overrides the file's; placements of the file stay. */
static void
note_strategy(const struct mw_question *question, enum mw_strategy asked, GPtrArray *notes)
{
    const struct mw_deepspeed_said *said = &question->deepspeed;
    const struct mw_settings *s = &question->settings;
    g_autoptr(GString) places = g_string_new(NULL);

    if (!said->stage_said || asked == said->strategy)
        return;
    for (int state = 0; state < MW_STATE_COUNT; state++) {
        g_autofree char *where = mw_placement_text(&s->placement[state]);
        if (s->device_key[state] && (!state || s->device_key[state] != s->device_key[state - 1]))
            g_string_append_printf(places, "%s%s, %s",
                                   places->len ? "; " : "; still holds: ", s->device_key[state],
                                   where);
    }
    g_ptr_array_add(notes,
                    mw_spelled_printf("DeepSpeed file: {strategy=%s} goes before %s, which is %s%s",
                                      mw_strategy_name((int)asked), said->stage_said,
                                      mw_strategy_name((int)said->strategy), places->str));
}

/* --- sums of micro-batches -------------------------------------------------------------------- */

static double
gradient_elements(const struct mw_sizing *sizing)
{
    double bytes = 0;

    for (int tier = 0; tier < MW_TIER_COUNT; tier++)
        bytes += (double)sizing->ledger[tier][MW_PURPOSE_GRADIENTS];
    return bytes / (double)sizing->gradient_rest_bytes;
}

static const char *
what_is_summed(const struct mw_sizing *sizing)
{
    return sizing->settings.grad_accum > 1 ? "sums of micro-batches" : "gradients";
}

/* At stage 1 each GPU keeps the gradients of all parameters until the last micro-batch, wherever
 * the optimizer is (stage_1_and_2.py, reduce_gradients). */
static char *
whole_text(const struct mw_sizing *sizing, int64_t theirs, const char *planned)
{
    const char *model = mw_dtype_name(sizing->settings.dtype);

    return g_strdup_printf(
        "%s are planned in host memory, %s per GPU in %s; at stage 1 DeepSpeed "
        "has those of all parameters on the GPU, %s in %s%s",
        what_is_summed(sizing), planned, sizing->gradient_element_bytes == 4 ? "fp32" : model,
        mw_format_gib((double)theirs * (double)sizing->params), theirs == 4 ? "fp32" : model,
        theirs == 4 ? "" : "; stage 2 sends them to the host");
}

/* Whether it would fit with the smaller gradients that DeepSpeed keeps on the GPU. */
static bool
fits_halved(const struct mw_sizing *sizing)
{
    double saved = (double)sizing->ledger[MW_TIER_GPU][MW_PURPOSE_GRADIENTS] *
                   (double)(sizing->gradient_element_bytes - 2) /
                   (double)sizing->gradient_rest_bytes;

    return !sizing->fits && !sizing->fragmentation &&
           (double)mw_sizing_lack_of(sizing, MW_TIER_GPU) <= saved &&
           !mw_sizing_lack_of(sizing, MW_TIER_CPU) && !mw_sizing_lack_of(sizing, MW_TIER_NVME);
}

/* For sums that are planned in fp32. */
static char *
halved_text(const struct mw_sizing *sizing, int stage, const char *planned, const char *there)
{
    bool offloads = !mw_placement_has(&sizing->settings.placement[MW_STATE_OPTIMIZER], MW_TIER_GPU);
    g_autoptr(GString) text = g_string_new(NULL);

    g_string_printf(text, "%s are planned in fp32, %s per GPU; DeepSpeed has them in %s, %s",
                    what_is_summed(sizing), planned, mw_dtype_name(sizing->settings.dtype), there);
    if (fits_halved(sizing))
        g_string_append(text, ", with which it would fit");
    if (offloads)
        g_string_append(text, ", and a copy in fp32 for its CPU optimizer");
    if (!stage)
        g_string_append(text, ", and at stage 0 in no other format");
    else
        g_string_append_printf(text, "; with \"data_types\": {\"grad_accum_dtype\": \"fp32\"} %s",
                               offloads && stage < 3 ? "in fp32, on the GPU" : "as planned");
    return g_strdup(text->str);
}

/* DeepSpeed's sums have `theirs` bytes per element (engine.py, get_data_types).  At stage 2 its
 * fp32 sums are on the GPU, wherever the optimizer is (stage_1_and_2.py,
 * _build_compact_grad_partition_buffer).  NULL: DeepSpeed does as planned. */
static char *
sums_text(const struct mw_sizing *sizing, int stage, int64_t theirs)
{
    int64_t ours = sizing->gradient_element_bytes;
    double elements = gradient_elements(sizing);
    bool on_gpu = sizing->ledger[MW_TIER_GPU][MW_PURPOSE_GRADIENTS] > 0;
    bool moves = theirs == 4 && stage == 2 && !on_gpu;
    g_autofree char *planned = g_strdup(mw_format_gib(elements * (double)ours));
    g_autofree char *there = g_strdup(mw_format_gib(elements * (double)theirs));

    if (stage == 1 && !on_gpu)
        return whole_text(sizing, theirs, planned);
    if (theirs < ours)
        return halved_text(sizing, stage, planned, there);
    if (theirs > ours && stage > 0)
        return g_strdup_printf("%s are planned in %s, %s per GPU; DeepSpeed has them in fp32, %s%s",
                               sizing->settings.grad_accum > 1 ? "sums of micro-batches"
                                                               : "gradients of one micro-batch",
                               mw_dtype_name(sizing->settings.dtype), planned, there,
                               moves ? " on the GPU" : "");
    return moves ? g_strdup_printf("%s in fp32 are on the GPU at stage 2 of DeepSpeed: %s there "
                                   "that the plan has in host memory",
                                   what_is_summed(sizing), there)
                 : NULL;
}

static void
note_sums(const char *source, const struct mw_sizing *sizing, int stage, int64_t theirs,
          GPtrArray *notes)
{
    g_autofree char *text = sums_text(sizing, stage, theirs);

    if (text)
        g_ptr_array_add(notes, g_strdup_printf("%s: %s", source, text));
}

/* Says how large DeepSpeed's buffers are where the plan cuts finer; and if the model does not fit
 * with them. */
static void
note_buffers(const struct mw_sizing *sizing, GPtrArray *notes)
{
    struct mw_deepspeed_buffers buffers = mw_deepspeed_buffers(sizing);
    int64_t capacity_bytes = sizing->tiers[MW_TIER_CPU].capacity_bytes;
    g_autoptr(GString) text = g_string_new(NULL);

    if (buffers.swap.all_bytes <= buffers.swap.plan_bytes)
        return;
    mw_spelled_append(text,
                      "{write-deepspeed}: DeepSpeed cuts no parameter, and pins %s per "
                      "GPU in host memory to reach the drives",
                      mw_format_gib((double)buffers.swap.all_bytes));
    g_string_append_printf(text, ", where the plan has %s",
                           mw_format_gib((double)buffers.swap.plan_bytes));
    if (buffers.swap.state_sets > 0 && buffers.swap.state_sets < sizing->settings.buffer_sets)
        g_string_append(text, "; its update is not pipelined, as that would take more");
    if (buffers.gradient_bytes > buffers.planned_gradient_bytes)
        g_string_append_printf(text, "; it keeps %s of gradients there",
                               mw_format_gib((double)buffers.gradient_bytes));
    if (buffers.host_bytes > capacity_bytes) {
        g_string_append_printf(text, "; DOES NOT FIT there: host memory takes %s per GPU",
                               mw_format_gib((double)buffers.host_bytes));
        g_string_append_printf(text, " of %s", mw_format_gib((double)capacity_bytes));
    }
    g_ptr_array_add(notes, g_string_free(g_steal_pointer(&text), FALSE));
}

/* DeepSpeed updates when all gradients are there, and waits for it. */
static void
note_update(const struct mw_settings *settings, GPtrArray *notes)
{
    if (mw_settings_update_beside(settings))
        g_ptr_array_add(notes, mw_spelled("{write-deepspeed}: {update=beside} is not in the file: "
                                          "DeepSpeed updates after backward; nor is clipping, as "
                                          "the plan has none"));
    if (mw_settings_updates_on_gpu(settings))
        g_ptr_array_add(notes, mw_spelled("{write-deepspeed}: {update-on=gpu} is not in the file: "
                                          "DeepSpeed updates offloaded state on the host"));
    if (mw_settings_layer_order(settings))
        g_ptr_array_add(notes, mw_spelled("{write-deepspeed}: {micro-batch-order=layer} is not in "
                                          "the file: DeepSpeed takes one micro-batch through all "
                                          "layers"));
    if (mw_settings_keeps_whole(settings))
        g_ptr_array_add(notes, mw_spelled("{write-deepspeed}: {checkpoints=activations} is not in "
                                          "the file: DeepSpeed offloads inputs of layers"));
    if (mw_settings_asynchronous(settings))
        g_ptr_array_add(notes, mw_spelled("{write-deepspeed}: {data-parallel=async} is not in the "
                                          "file: DeepSpeed's GPUs wait for the sum of their "
                                          "gradients"));
    if (settings->dpu_start != MW_AUTO)
        g_ptr_array_add(notes,
                        mw_spelled_printf("{write-deepspeed}: {dpu-start=%" G_GINT64_FORMAT
                                          "} is not in the file: DeepSpeed waits for its update",
                                          settings->dpu_start));
}

static void
note_written(const struct mw_sizing *sizing, GPtrArray *notes)
{
    int stage = mw_deepspeed_stage(&sizing->settings);

    if (sizing->tp > 1)
        g_ptr_array_add(notes,
                        mw_spelled("{write-deepspeed}: without train_batch_size, as DeepSpeed "
                                   "counts GPUs that share a model as replicas unless the "
                                   "training script gives it an mpu"));
    if (sizing->pp > 1)
        g_ptr_array_add(notes, mw_spelled_printf("{write-deepspeed}: {pp=%" G_GINT64_FORMAT
                                                 "} is not in the file: the training script "
                                                 "divides a model into DeepSpeed's PipelineModule",
                                                 sizing->settings.pp));
    if (sizing->replicas > 1)
        g_ptr_array_add(notes, mw_spelled_printf("{write-deepspeed}: {shard-group=%" G_GINT64_FORMAT
                                                 "} is not in the file: DeepSpeed partitions over "
                                                 "all data-parallel GPUs",
                                                 sizing->shards));
    if (sizing->settings.tiles > 1)
        g_ptr_array_add(notes, mw_spelled_printf("{write-deepspeed}: {tiles=%" G_GINT64_FORMAT
                                                 "} is not in the file: DeepSpeed tiles where the "
                                                 "model has its TiledLinear",
                                                 sizing->settings.tiles));
    note_update(&sizing->settings, notes);
    note_buffers(sizing, notes);
    g_autofree char *written = mw_spelled("{write-deepspeed}");
    bool narrow = !stage || mw_deepspeed_sums_leave(sizing);
    note_sums(written, sizing, stage, narrow ? 2 : sizing->gradient_element_bytes, notes);
}

void
mw_note_deepspeed(const struct mw_question *question, enum mw_strategy asked,
                  const struct mw_sizing *sizing, GPtrArray *notes)
{
    const struct mw_deepspeed_said *said = &question->deepspeed;

    for (char **note = said->notes; note && *note; note++)
        g_ptr_array_add(notes, g_strdup_printf("DeepSpeed file: %s", *note));
    note_strategy(question, asked, notes);
    if (said->sum_bytes)
        note_sums("DeepSpeed file", sizing,
                  asked == said->strategy ? said->stage : mw_deepspeed_stage(&sizing->settings),
                  said->sum_bytes, notes);
    if (said->ignored && *said->ignored) {
        g_autofree char *keys = g_strjoinv(", ", said->ignored);
        g_ptr_array_add(notes,
                        g_strdup_printf("DeepSpeed keys that the plan does not follow: %s", keys));
    }
    if (question->writes_deepspeed && sizing->fits)
        note_written(sizing, notes);
}
