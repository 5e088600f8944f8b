#include "cli/run/homes.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/run/checkpoint_config.h"
#include "cli/run/entry.h"
#include "exec/commit/run_files.h"
#include "model/model.h"

/* Limits of a description, which is read whole. */
#define TEXT_BYTES_MAX (MW_JSON_BYTES_MAX / 2)
#define TILES_MAX 65536              /* per tensor: ops count them in 16 bits */
#define PARTS_MAX (INT64_C(1) << 24) /* in all tensors: each is examined */
#define RANKS_MAX 65536
#define SLICES_MAX 1024 /* as --tp takes them */

/* --- the model ------------------------------------------------------------------------------- */

#define OF_DECODER(member) #member, offsetof(struct mw_decoder, member)

/* The model file's dimensions have the same names. */
static const struct {
    const char *key;
    size_t at;
} dimensions[] =
    {
        {OF_DECODER(layers)},   {OF_DECODER(hidden)},
        {OF_DECODER(heads)},    {OF_DECODER(kv_heads)},
        {OF_DECODER(head_dim)}, {OF_DECODER(ffn)},
        {OF_DECODER(vocab)},    {OF_DECODER(position_rows)},
        {OF_DECODER(experts)},  {OF_DECODER(experts_per_token)},
},
  flags[] = {
      {OF_DECODER(tied_embedding)}, {OF_DECODER(attention_bias)},
      {OF_DECODER(qk_norm)},        {OF_DECODER(projection_bias)},
      {OF_DECODER(mlp_bias)},       {OF_DECODER(router_renormalizes)},
};

/* Names and shapes of weights follow from these alone. */
static void
write_decoder(struct mw_json_writer *json, const struct mw_decoder *decoder)
{
    const char *bytes = (const char *)decoder;

    mw_json_begin(json, "decoder", '{', true);
    mw_json_string(json, "kind", decoder->family->name);
    for (size_t i = 0; i < G_N_ELEMENTS(dimensions); i++)
        mw_json_integer(json, dimensions[i].key, *(const int64_t *)(bytes + dimensions[i].at));
    for (size_t i = 0; i < G_N_ELEMENTS(flags); i++)
        mw_json_boolean(json, flags[i].key, *(const bool *)(bytes + flags[i].at));
    mw_json_end(json, '}');
}

static bool
read_decoder(JsonObject *object, const char *origin, struct mw_decoder *decoder, GError **error)
{
    char *bytes = (char *)decoder;
    const char *kind = NULL;

    if (!mw_json_get_string(object, "kind", origin, &kind, error))
        return false;
    const struct mw_family *family = mw_family_find(kind ? kind : "");
    decoder->kind = family && family->run.tensors ? family->run.kind : MW_DECODER_KIND_COUNT;
    for (size_t i = 0; i < G_N_ELEMENTS(dimensions); i++)
        if (!mw_json_get_int(object, dimensions[i].key, 0,
                             mw_model_dimension_max(dimensions[i].key), origin,
                             (int64_t *)(bytes + dimensions[i].at), error))
            return false;
    for (size_t i = 0; i < G_N_ELEMENTS(flags); i++)
        if (!mw_json_get_bool(object, flags[i].key, origin, (bool *)(bytes + flags[i].at), error))
            return false;
    return true;
}

static bool
is_same(const struct mw_decoder *one, const struct mw_decoder *other, size_t at, size_t bytes)
{
    return !memcmp((const char *)one + at, (const char *)other + at, bytes);
}

/* The keys "decoder" and "config" each describe the model; both are compared with the records. */
static bool
take_model(const struct mw_decoder *described, const char *config, const char *origin,
           struct mw_decoder *decoder, GError **error)
{
    g_autofree char *place = g_strdup_printf("%s: key \"config\"", origin);
    const char *other = NULL;
    struct mw_model model;

    if (!mw_model_parse_config(config, -1, place, &model, error) ||
        !mw_model_decoder(&model, decoder, error))
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(dimensions); i++)
        if (!is_same(described, decoder, dimensions[i].at, sizeof(int64_t)))
            other = dimensions[i].key;
    for (size_t i = 0; i < G_N_ELEMENTS(flags); i++)
        if (!is_same(described, decoder, flags[i].at, sizeof(bool)))
            other = flags[i].key;
    if (described->kind != decoder->kind)
        other = "kind";
    return !other || mw_refuse(error,
                               "%s: keys \"decoder\" and \"config\" are of two models, by \"%s\": "
                               "it was changed, and is not used",
                               origin, other);
}

/* --- homes ----------------------------------------------------------------------------------- */

struct mw_plan *
cli_run_homes_of(const struct mw_plan *plan)
{
    struct mw_plan *homes = mw_plan_new(plan->title);

    mw_plan_copy_head(homes, plan);
    for (uint32_t i = 0; i < plan->slot_count; i++)
        mw_plan_add_slot(homes, plan->slots[i]);
    for (uint32_t i = 0; i < plan->tensor_count; i++)
        mw_plan_add_tensor(homes, plan->tensors[i]);
    for (uint32_t i = 0; i < plan->chunk_count; i++)
        mw_plan_add_chunk(homes, plan->chunks[i]);
    return homes;
}

static char *
homes_text(const struct mw_plan *plan)
{
    struct mw_plan *homes = cli_run_homes_of(plan);
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    bool good = out && mw_plan_write(homes, out);
    if (out)
        good &= !fclose(out);
    mw_plan_free(homes);
    char *copy = good && length <= TEXT_BYTES_MAX ? g_strndup(text, length) : NULL;
    free(text);
    return copy;
}

void
cli_run_homes_write(struct mw_json_writer *json, const struct cli_training *training)
{
    const struct cli_request *request = training->request;
    g_autofree char *config = cli_checkpoint_config(request->model_name, &training->decoder);
    g_autofree char *fingerprint =
        g_strdup_printf("%016" PRIx64, cli_training_fingerprint(training));
    g_autofree char *homes = homes_text(training->homes ? training->homes : training->answer->plan);

    mw_json_string(json, "fingerprint", fingerprint);
    write_decoder(json, &training->decoder);
    mw_json_string(json, "config", config);
    mw_json_string(json, "homes", homes);
}

/* What is exported needs tensors of every layer. */
static bool
check_layers(const struct cli_run_homes *homes, const char *origin, GError **error)
{
    int64_t tensors = homes->plan->tensor_count;

    for (int i = 0; i < homes->later_count; i++)
        tensors += homes->later[i]->tensor_count;
    return homes->decoder.layers <= tensors ||
           mw_refuse(error,
                     "%s: key \"decoder\": has %" G_GINT64_FORMAT " layers, and \"homes\" has "
                     "%" G_GINT64_FORMAT " tensors: must have one for each layer",
                     origin, homes->decoder.layers, tensors);
}

/* The text of a pipeline has the programs of all stages, each of as many ranks. */
static bool
take_stages(struct cli_run_homes *homes, const char *origin, GError **error)
{
    struct mw_plan *all = homes->plan;
    uint32_t stages = all->program_count, of_stage = all->world_ranks / stages;
    char why[256] = "";
    bool good = true;

    if (stages < 2)
        return true;
    homes->later = g_new0(struct mw_plan *, stages);
    homes->plan = mw_plan_extract(all, 0, why, sizeof why);
    for (uint32_t s = 1; homes->plan && s < stages && good; s++) {
        struct mw_plan *stage = mw_plan_extract(all, s * of_stage, why, sizeof why);
        good = stage && stage->tensor_count;
        if (stage)
            homes->later[homes->later_count++] = stage;
    }
    mw_plan_free(all);
    return (good && homes->plan && homes->plan->tensor_count) ||
           mw_refuse(error, "%s: key \"homes\": a stage without tensors%s%s", origin,
                     *why ? ": " : "", why);
}

/* Limits numbers that are short to write but long to loop over. */
static bool
check_homes(const struct mw_plan *plan, const char *origin, GError **error)
{
    int64_t parts = 0;

    if (plan->world_ranks > RANKS_MAX)
        return mw_refuse(error, "%s: key \"homes\": %u ranks: must be at most %d", origin,
                         plan->world_ranks, RANKS_MAX);
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        if (plan->tensors[t].tiles > TILES_MAX)
            return mw_refuse(error, "%s: key \"homes\": tensor %u has %u tiles: must be at most %d",
                             origin, t, plan->tensors[t].tiles, TILES_MAX);
        parts += plan->tensors[t].tiles;
    }
    return parts <= PARTS_MAX ||
           mw_refuse(error,
                     "%s: key \"homes\": tensors have %" G_GINT64_FORMAT " tiles together: must be "
                     "at most %" G_GINT64_FORMAT,
                     origin, parts, PARTS_MAX);
}

static void
add_way_out(GError **error)
{
    if (!error || !*error)
        return;
    char *text = g_strconcat((*error)->message,
                             ": `memwall run --resume`, with the options that the run had and one "
                             "step more, writes that file anew",
                             NULL);
    g_free((*error)->message);
    (*error)->message = text;
}

static bool
fail_lacking(const char *origin, GError **error)
{
    return mw_refuse(error,
                     "%s: does not say where the state of the run lies: it can be written by "
                     "`memwall run --resume --save FOLDER`, with the options that the run had and "
                     "one step more",
                     origin);
}

/* What no record has: the text of a plan has the adapters of its model, other keys where the rest
 * comes from. */
static bool
take_start(JsonObject *object, const char *origin, struct cli_run_homes *homes, GError **error)
{
    const struct mw_decoder *planned = &homes->plan->shape.decoder;
    JsonNode *node = json_object_get_member(object, "training");
    JsonObject *training = node && JSON_NODE_HOLDS_OBJECT(node) ? json_node_get_object(node) : NULL;
    const char *weights = NULL;
    int64_t seed = 0;

    homes->decoder.lora_rank = planned->lora_rank;
    homes->decoder.lora_alpha = planned->lora_alpha;
    homes->decoder.lora_adapted = planned->lora_adapted;
    homes->decoder.lora_bare = planned->lora_bare;
    if (!training)
        return true;
    if (!mw_json_get_string(training, "weights", origin, &weights, error) ||
        !mw_json_get_int(training, "seed", 0, G_MAXINT64, origin, &seed, error))
        return false;
    homes->weights = g_strdup(weights);
    homes->seed = (uint64_t)seed;
    return true;
}

static bool
read_object(JsonObject *object, const char *origin, struct cli_run_homes *homes, bool *lacking,
            GError **error)
{
    JsonNode *decoder = json_object_get_member(object, "decoder");
    const char *text = NULL, *config = NULL, *fingerprint = NULL;
    struct mw_decoder described = {0};
    guint64 number = 0;
    char why[256] = "";

    if (!mw_json_get_string(object, "homes", origin, &text, error) ||
        !mw_json_get_string(object, "config", origin, &config, error) ||
        !mw_json_get_string(object, "fingerprint", origin, &fingerprint, error))
        return false;
    if (!text || !config || !fingerprint || !decoder || !JSON_NODE_HOLDS_OBJECT(decoder) ||
        !g_ascii_string_to_unsigned(fingerprint, 16, 0, G_MAXUINT64, &number, NULL)) {
        *lacking = true;
        return fail_lacking(origin, error);
    }
    if (!read_decoder(json_node_get_object(decoder), origin, &described, error) ||
        !take_model(&described, config, origin, &homes->decoder, error))
        return false;
    homes->fingerprint = number;
    homes->config = g_strdup(config);
    homes->slices = homes->replicas = 1;
    homes->plan = mw_plan_parse(text, strlen(text), why, sizeof why);
    if (homes->plan && homes->plan->tensor_count)
        return check_homes(homes->plan, origin, error) && take_stages(homes, origin, error) &&
               take_start(object, origin, homes, error) && check_layers(homes, origin, error) &&
               mw_json_get_int(object, "slices", 1, SLICES_MAX, origin, &homes->slices, error) &&
               mw_json_get_int(object, "sharding_groups", 1, RANKS_MAX, origin, &homes->replicas,
                               error);
    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT, "%s: key \"homes\": %s", origin,
                homes->plan ? "no tensors" : why);
    return false;
}

bool
cli_run_homes_read(const char *directory, struct cli_run_homes *homes, GError **error)
{
    g_autofree char *path = g_build_filename(directory, MW_RUN_DESCRIPTION, NULL);
    g_autoptr(GError) reason = NULL;
    JsonNode *root = cli_run_entry_parse(directory, &reason);

    *homes = (struct cli_run_homes){0};
    if (!root) {
        if (g_error_matches(reason, G_FILE_ERROR, G_FILE_ERROR_NOENT))
            return fail_lacking(path, error);
        g_propagate_error(error, g_steal_pointer(&reason));
        add_way_out(error);
        return false;
    }
    bool lacking = false;
    bool good = read_object(json_node_get_object(root), path, homes, &lacking, error);
    json_node_unref(root);
    if (!good)
        cli_run_homes_clear(homes);
    if (!good && !lacking)
        add_way_out(error);
    return good;
}

void
cli_run_homes_clear(struct cli_run_homes *homes)
{
    mw_plan_free(homes->plan);
    for (int i = 0; i < homes->later_count; i++)
        mw_plan_free(homes->later[i]);
    g_free(homes->later);
    g_free(homes->config);
    g_free(homes->weights);
    *homes = (struct cli_run_homes){0};
}
