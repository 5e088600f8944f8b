/* Settings from a DeepSpeed file, beside those of options. */
#include "cli/deepspeed_file.h"

#include "base/error.h"
#include "cli/options.h"
#include "study/fill.h"

/* Data-parallel GPUs that the options ask for; 0: tensor slicing does not divide them. */
static int64_t
replicas(const struct cli_request *request)
{
    const struct mw_settings *s = &request->question.settings;
    int64_t gpus = s->gpus_per_node == MW_AUTO
                       ? request->question.hardware[MW_OUTLOOK_TYPICAL].gpus_per_node
                       : s->gpus_per_node;

    return s->nodes * gpus % s->tp ? 0 : s->nodes * gpus / s->tp;
}

/* What the options say of the ranks is there already; they go before what the file says of the
 * batch, so its own sum need not come out. */
bool
cli_deepspeed_load(struct cli_request *request, GError **error)
{
    const char *path = request->deepspeed_file;
    struct mw_settings *s = &request->question.settings;
    bool named = s->global_batch != MW_AUTO;
    bool own_batch = named || s->micro_batch != MW_AUTO || s->grad_accum != MW_AUTO ||
                     !request->question.profile; /* nothing is known of the ranks yet */
    bool placed[MW_STATE_COUNT];

    for (int state = 0; state < MW_STATE_COUNT; state++)
        placed[state] = s->placement[state].count > 0;
    if (!mw_deepspeed_load(path, own_batch ? 0 : replicas(request), s, &request->question.deepspeed,
                           error))
        return false;
    if (named)
        s->batch_source = NULL;
    for (int state = 0; state < MW_STATE_COUNT; state++)
        if (placed[state])
            s->device_key[state] = NULL;
    int64_t tp = s->tp;
    if (!cli_options_apply(s, error))
        return false;
    return s->tp == tp || mw_refuse(error,
                                    "--tp %" G_GINT64_FORMAT ": %s has tensor_parallel.autotp_size "
                                    "%" G_GINT64_FORMAT "; leave one of them out",
                                    s->tp, path, tp);
}

void
cli_deepspeed_blame(const struct cli_request *request, GError **error)
{
    if (!error || !*error || !request->deepspeed_file ||
        !cli_options_untyped(&request->question.settings, (*error)->message))
        return;
    g_prefix_error(error, "%s, read as ", request->deepspeed_file);
}

void
cli_deepspeed_tell(const struct cli_request *request, const struct mw_sizing *sizing)
{
    g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);

    mw_note_deepspeed(&request->question, request->question.strategies[0], sizing, notes);
    for (guint i = 0; i < notes->len; i++)
        cli_say("%s", (const char *)notes->pdata[i]);
}
