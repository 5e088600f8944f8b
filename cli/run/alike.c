#include "cli/run/alike.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/run/course.h"
#include "cli/run/planned.h"
#include "model/model.h"
#include "exec/commit/commit.h"
#include "exec/data/safetensors.h"
#include "exec/data/tokens.h"
#include "exec/trainer/checkpoint.h"

#define ONE_COMMAND "all ranks of a run need the same options: start them with the same command"
#define ONE_PLAN                                                                                   \
    "all ranks follow one plan: give them the same options, and the same -H FILE where each "      \
    "machine has a profile of its own"

/* A rank's settings, one phrase for each. */
struct look {
    GPtrArray *phrases; /* char * */
    guint must;         /* the phrases that must be alike; the others explain a difference in the
                         * last of these */
    const char *wanted;
};

/* Adds this rank's phrases to look->phrases; sets look->must if some of them may differ. */
typedef bool (*add_phrases)(struct cli_training *training, struct look *look, GError **error);

G_GNUC_PRINTF(2, 3)
static void
add(GPtrArray *phrases, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    g_ptr_array_add(phrases, g_strdup_vprintf(format, arguments));
    va_end(arguments);
}

static void
add_if(GPtrArray *phrases, const char *option, bool given)
{
    add(phrases, "%s%s", given ? "" : "no ", option);
}

/* --- rank 0's phrases ------------------------------------------------------------------------- */

/* Phrases, each with its terminating zero. */
static GString *
as_text(const GPtrArray *phrases)
{
    GString *text = g_string_new(NULL);

    for (guint i = 0; i < phrases->len; i++) {
        const char *phrase = g_ptr_array_index(phrases, i);
        g_string_append_len(text, phrase, (gssize)strlen(phrase) + 1);
    }
    return text;
}

static GPtrArray *
from_text(const GString *text)
{
    GPtrArray *phrases = g_ptr_array_new_with_free_func(g_free);

    for (const char *at = text->str; at < text->str + text->len; at += strlen(at) + 1)
        g_ptr_array_add(phrases, g_strdup(at));
    return phrases;
}

static GPtrArray *
receive_first(struct mw_ranks *ranks, const GPtrArray *mine, GError **error)
{
    GString *text = as_text(mine);
    int64_t bytes = (int64_t)text->len;

    if (!mw_ranks_broadcast(ranks, 0, &bytes, sizeof bytes, 0, error))
        return NULL; /* the text is kept, as below: messages may still be in flight */
    g_string_set_size(text, (gsize)bytes);
    if (!mw_ranks_broadcast(ranks, 0, text->str, bytes, 0, error))
        return NULL;
    GPtrArray *theirs = from_text(text);
    g_string_free(text, TRUE);
    return theirs;
}

/* --- comparing ------------------------------------------------------------------------------- */

static guint
first_difference(const GPtrArray *mine, const GPtrArray *theirs, guint from)
{
    guint i = from;

    while (i < mine->len && i < theirs->len &&
           !strcmp(g_ptr_array_index(mine, i), g_ptr_array_index(theirs, i)))
        i++;
    return i;
}

/* Index of the first phrase that differs and must not.  Where that is the plan's digest, the index
 * of the setting that explains it. */
static guint
find_difference(const struct look *look, const GPtrArray *theirs)
{
    guint at = first_difference(look->phrases, theirs, 0);

    if (at >= look->must)
        return G_MAXUINT;
    guint why = at + 1 == look->must ? first_difference(look->phrases, theirs, at + 1) : at;
    return why < look->phrases->len && why < theirs->len ? why : at;
}

static const char *
phrase_at(const GPtrArray *phrases, guint index)
{
    return index < phrases->len ? g_ptr_array_index(phrases, index) : "another memwall";
}

static bool
compare(struct mw_ranks *ranks, const struct look *look, bool *alike, GError **error)
{
    g_autoptr(GPtrArray) theirs = receive_first(ranks, look->phrases, error);
    if (!theirs)
        return false;
    guint at = find_difference(look, theirs);
    int differs = at != G_MAXUINT, who;
    if (!mw_ranks_worst(ranks, 0, differs, &differs, &who, error))
        return false;
    *alike = !differs;
    if (differs && who == mw_ranks_index(ranks))
        cli_say("rank %d has %s, rank 0 has %s: %s", who, phrase_at(look->phrases, at),
                phrase_at(theirs, at), look->wanted);
    return true;
}

static bool
compare_with_first(struct cli_training *training, add_phrases add_mine, const char *wanted,
                   bool *alike, GError **error)
{
    g_autoptr(GPtrArray) phrases = g_ptr_array_new_with_free_func(g_free);
    struct look look = {phrases, 0, wanted};

    *alike = true;
    if (mw_ranks_count(training->ranks) == 1)
        return true;
    if (!add_mine(training, &look, error))
        return false;
    look.must = look.must ? look.must : phrases->len;
    return compare(training->ranks, &look, alike, error);
}

/* --- what was requested ----------------------------------------------------------------------- */

/* All ranks write to one folder, whose name may differ between machines. */
static void
add_save(const struct cli_training *training, GPtrArray *phrases)
{
    const bool one_machine =
        mw_ranks_node_count(training->ranks) == mw_ranks_count(training->ranks);
    struct stat above = {0};

    add_if(phrases, "--save", training->options.save);
    if (!training->options.save)
        return;
    g_autofree char *whole = g_canonicalize_filename(training->options.save, NULL);
    g_autofree char *name = g_path_get_basename(whole);
    g_autofree char *folder = g_path_get_dirname(whole);
    add(phrases, "--save %s", name);
    const bool known = one_machine && !stat(folder, &above);
    add(phrases, "--save %s in the folder of inode %ju", name, known ? (uintmax_t)above.st_ino : 0);
}

/* All ranks use the drives of rank 0. */
static void
add_drives(const struct cli_run_options *o, GPtrArray *phrases)
{
    g_autofree char *directories = o->nvme ? g_strjoinv(" --nvme ", o->nvme) : NULL;

    add(phrases, "%s--nvme%s%s", directories ? "" : "no ", directories ? " " : "",
        directories ? directories : "");
    if (o->resume_run)
        add(phrases, "--resume %s", o->resume_run);
    else
        add_if(phrases, "--resume", o->resume);
}

static bool
add_asked(struct cli_training *training, struct look *look, GError **error)
{
    const struct cli_run_options *o = &training->options;
    GPtrArray *phrases = look->phrases;

    add(phrases, "--backend %s", o->backend ? o->backend->name : "auto");
    add_drives(o, phrases);
    add_if(phrases, "--at previous", o->previous);
    add_if(phrases, "--overwrite", o->overwrite);
    add_if(phrases, "--from", o->from);
    add_if(phrases, "--weights", o->weights);
    add_if(phrases, "--adapter", o->adapter);
    add_save(training, phrases);
    return true;
}

bool
cli_run_alike_asked(struct cli_training *training, bool *alike, GError **error)
{
    return compare_with_first(training, add_asked, ONE_COMMAND, alike, error);
}

/* --- what is planned ------------------------------------------------------------------------- */

static void
put_number(GArray *numbers, int64_t number)
{
    g_array_append_val(numbers, number);
}

static int
tier_of(const struct mw_plan *plan, uint32_t slot)
{
    return slot == MW_NONE ? MW_TIER_COUNT : plan->slots[slot].tier;
}

/* Which part of each tensor each rank has, and where: a save visits what all have together. */
static void
put_tensor(GArray *numbers, const struct mw_plan *plan, const struct mw_tensor *t)
{
    put_number(numbers, tier_of(plan, t->param_slot));
    put_number(numbers, tier_of(plan, t->gradient_slot));
    put_number(numbers, t->layer);
    put_number(numbers, t->operators);
    put_number(numbers, t->gradient_dtype);
    put_number(numbers, t->tiles);
    put_number(numbers, t->elements);
    put_number(numbers, t->tile_elements);
    put_number(numbers, t->shard_elements);
    put_number(numbers, t->params_whole << 2 | t->gradients_whole << 1 | t->state_whole);
}

/* What each rank computes of the same step. */
static void
put_shape(GArray *numbers, const struct mw_step_shape *s)
{
    put_number(numbers, s->sequences);
    put_number(numbers, s->seq);
    put_number(numbers, s->micro_batches);
    put_number(numbers, s->tiles);
    put_number(numbers, s->token_chunks);
    put_number(numbers, s->checkpoint_interval);
    put_number(numbers, s->checkpoint_dtype);
    put_number(numbers, s->kept_encodings);
    put_number(numbers, s->weights_later << 3 | s->updates_on_gpu << 2 | s->layer_order << 1 |
                            s->whole_checkpoints);
}

/* A lane runs its collectives in plan order. */
static void
put_collectives(GArray *numbers, const struct mw_plan *plan, uint32_t lane)
{
    for (uint32_t i = 0; i < mw_plan_unfolded_ops(plan); i++) {
        const struct mw_op op = mw_plan_numbered_op(plan, i);
        const struct mw_work *work = &plan->works[op.work];
        if (op.lane != lane || work->comm == MW_NONE)
            continue;
        put_number(numbers, plan->lanes[lane].index);
        put_number(numbers, work->kind);
        put_number(numbers, work->dtype);
        put_number(numbers, work->bytes);
        put_number(numbers, op.layer);
        put_number(numbers, op.micro_batch);
        put_number(numbers, op.tile);
    }
}

static uint64_t
digest_of(const struct mw_plan *plan)
{
    g_autoptr(GArray) numbers = g_array_new(FALSE, FALSE, sizeof(int64_t));

    put_number(numbers, plan->peak_bytes[MW_TIER_NVME] > 0);
    put_shape(numbers, &plan->shape);
    for (uint32_t p = 0; p < plan->program_count; p++)
        put_number(numbers, plan->programs[p].in_flight); /* by the order of a pipeline's passes */
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        put_tensor(numbers, plan, &plan->tensors[t]);
    for (uint32_t c = 0; c < plan->chunk_count; c++) {
        put_number(numbers, plan->chunks[c].elements);
        put_number(numbers, tier_of(plan, plan->chunks[c].slot));
    }
    for (uint32_t lane = 0; lane < plan->lane_count; lane++)
        put_collectives(numbers, plan, lane);
    return mw_commit_checksum(numbers->data, (int64_t)numbers->len * (int64_t)sizeof(int64_t));
}

static bool
add_planned(struct cli_training *training, struct look *look, GError **error)
{
    const struct cli_request *request = training->request;
    const struct mw_step_shape *s = &training->answer->plan->shape;
    GPtrArray *phrases = look->phrases;

    if (!cli_run_decoder(request, &training->decoder, NULL, error))
        return false;
    cli_run_course_list_fixed(training, phrases);
    add(phrases, "%s", s->commits ? "--commit step" : "--commit none");
    add(phrases, "--save-every %" PRId64, s->save_every);
    add(phrases, "a plan of another shape, or other shards or collectives (%016" PRIx64 ")",
        digest_of(training->answer->plan));
    look->must = phrases->len;
    cli_run_course_list_settings(training, phrases);
    return true;
}

bool
cli_run_alike_planned(struct cli_training *training, bool *alike, GError **error)
{
    return compare_with_first(training, add_planned, ONE_PLAN, alike, error);
}

/* --- what is trained ------------------------------------------------------------------------- */

static bool
add_contents(const struct cli_training *training, GPtrArray *phrases, GError **error)
{
    const int64_t tokens = mw_tokens_count(training->tokens);
    uint64_t digest;

    if (!mw_tokens_sample(training->tokens, &digest, error))
        return false;
    add(phrases, "--data of %" PRId64 " tokens (%016" PRIx64 ")", tokens, digest);
    if (training->weights) {
        if (!mw_safetensors_sample(training->weights, &digest, error))
            return false;
        add(phrases, "--weights of other content (%016" PRIx64 ")", digest);
    }
    if (training->adapters) {
        if (!mw_safetensors_sample(training->adapters, &digest, error))
            return false;
        add(phrases, "--adapter of other content (%016" PRIx64 ")", digest);
    }
    if (training->checkpoint) {
        if (!mw_checkpoint_sample(training->checkpoint, &digest, error))
            return false;
        add(phrases, "--from of step %" PRId64 " (%016" PRIx64 ")",
            mw_checkpoint_record(training->checkpoint)->step + 1, digest);
    }
    return true;
}

static bool
add_trained(struct cli_training *training, struct look *look, GError **error)
{
    const struct cli_run_options *o = &training->options;
    GPtrArray *phrases = look->phrases;

    add(phrases, "--steps %" PRId64, o->steps);
    cli_run_course_list(training, phrases);
    add(phrases, "--max-skipped %" PRId64, o->max_skipped);
    return add_contents(training, phrases, error);
}

bool
cli_run_alike_trained(struct cli_training *training, bool *alike, GError **error)
{
    return compare_with_first(training, add_trained, ONE_COMMAND, alike, error);
}
