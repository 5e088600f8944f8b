/* An encoder, and a decoder that attends to what it puts out. */
#include "families/rows.h"

#define TASK(name) "task == '" name "'"
#define TIED                                                                                       \
    {                                                                                              \
        "tie_word_embeddings", MW_FLAG_TIED_EMBEDDING                                              \
    }
#define LENGTHS "encoder and decoder are planned with as many tokens each"

/* --- T5 -------------------------------------------------------------------------------------- */

static const struct mw_family_let t5_lets[] = {
    {"tie_word_embeddings", "1", false},
    {"num_decoder_layers", "num_layers", false},
    {"relative_attention_num_buckets", "32", false},
    {"inner", "num_heads * d_kv", false},
    {"feed_forward_proj", "is_gated_act ? 'gated-gelu' : 'relu'", false},
    {"gated",
     "is_gated_act ?? (feed_forward_proj == 'gated-gelu' or "
     "feed_forward_proj == 'gated-silu' or feed_forward_proj == 'gated-relu')",
     false},
    {"dropout_rate", "0.1", false},
    {"tables", "type == 'umt5' ? 0 : 1", false},
    {"decodes", "task != 'Encoder' and task != 'TokenClassification'", false},
    END,
};
static const struct mw_family_key t5_keys[] = {
    {"d_model", MW_DIMENSION_HIDDEN},
    {"d_ff", MW_DIMENSION_FFN},
    {"num_layers", MW_DIMENSION_LAYERS},
    {"num_heads", MW_DIMENSION_HEADS},
    {"d_kv", MW_DIMENSION_HEAD_DIM},
    {"vocab_size", MW_DIMENSION_VOCAB},
    {"n_positions ?? 512", MW_DIMENSION_SEQ},
    {"dropout_rate > 0", MW_FLAG_DROPOUT},
    TIED,
    END,
};
static const struct mw_family_tensor t5_tensors[] = {
    VECTOR(EMBEDDING, "tables * relative_attention_num_buckets * num_heads"),
    VECTOR(EMBEDDING, "tables * relative_attention_num_buckets * num_heads", .when = "decodes"),
    VECTOR(FINAL_NORM, "d_model", .when = "decodes"),
    LINEAR(LOGITS, "d_model", "d_model", .when = TASK("SequenceClassification"), .table = true),
    LINEAR(LOGITS, "num_labels", "d_model",
           .when = TASK("SequenceClassification") " or " TASK("TokenClassification") " or " TASK(
               "QuestionAnswering"),
           .table = true),
    END,
};
#define T5_MLP                                                                                     \
    VECTOR(NORM2, "d_model"), MATRIX(UP, "(gated ? 2 : 1) * d_ff", "d_model"),                     \
        MATRIX(DOWN, "d_model", "d_ff")
static const struct mw_family_tensor t5_encoder[] = {
    VECTOR(NORM1, "d_model"),
    MATRIX(QKV, "3 * inner", "d_model"),
    VECTOR(QKV, "(1 - tables) * relative_attention_num_buckets * num_heads"),
    MATRIX(PROJECTION, "d_model", "inner"),
    T5_MLP,
    END,
};
static const struct mw_family_tensor t5_decoder[] = {
    VECTOR(NORM1, "2 * d_model"),
    MATRIX(QKV, "3 * inner", "d_model"),
    MATRIX(QKV, "3 * inner", "d_model"),
    VECTOR(QKV, "(1 - tables) * relative_attention_num_buckets * num_heads"),
    MATRIX(PROJECTION, "d_model", "inner", .count = "2"),
    T5_MLP,
    END,
};
static const struct mw_family_stack t5_stacks[] = {
    {.name = "encoder",
     .layers = "num_layers",
     .heads = "num_heads",
     .head_dim = "d_kv",
     .bidirectional = true,
     .tensors = t5_encoder},
    {.name = "decoder",
     .layers = "decodes ? num_decoder_layers : 0",
     .heads = "num_heads",
     .head_dim = "d_kv",
     .attentions = "2",
     .tensors = t5_decoder},
    END,
};

/* --- BART and its kin ------------------------------------------------------------------------ */

static const struct mw_family_let bart_lets[] = {
    {"tie_word_embeddings", "1", false},
    {"max_position_embeddings", "1024", false},
    {"dropout", "0.1", false},
    {"attention_dropout", "0", false},
    {"sides", "task == 'CausalLM' ? 1 : 2", false},
    {"is_decoder", "0", false},
    {"last_norms", "type == 'bart' or type == 'marian' ? 0 : 1", false},
    {"first_norms", "type == 'pegasus' or type == 'm2m_100' or type == 'marian' ? 0 : 1", false},
    /* sines in buffers, sines in frozen parameters, or a table with two rows more */
    {"rows",
     "type == 'm2m_100' ? 0 : type == 'pegasus' or type == 'marian' "
     "? max_position_embeddings : max_position_embeddings + 2",
     false},
    END,
};
static const struct mw_family_key bart_keys[] = {
    {"d_model", MW_DIMENSION_HIDDEN},
    {"decoder_ffn_dim", MW_DIMENSION_FFN},
    {"sides == 2 ? encoder_layers : decoder_layers", MW_DIMENSION_LAYERS},
    {"decoder_attention_heads", MW_DIMENSION_HEADS},
    {"vocab_size", MW_DIMENSION_VOCAB},
    {"max_position_embeddings", MW_DIMENSION_SEQ},
    {"dropout > 0 or attention_dropout > 0", MW_FLAG_DROPOUT},
    TIED,
    END,
};
static const struct mw_family_tensor bart_tensors[] = {
    TABLE("sides * rows", "d_model"),
    TABLE("2 * vocab_size", "d_model",
          .when = "not tie_word_embeddings and sides == 2"), /* one table for each */
    LAYER_NORM(EMBEDDING, "sides * d_model", .when = "first_norms"),
    LAYER_NORM(FINAL_NORM, "sides * d_model", .when = "last_norms"),
    LINEAR(LOGITS, "d_model", "d_model", .when = TASK("SequenceClassification"), .table = true),
    LINEAR(LOGITS, "num_labels", "d_model",
           .when = TASK("SequenceClassification") " or " TASK("QuestionAnswering"), .table = true),
    END,
};
static const struct mw_family_tensor bart_encoder[] = {
    LINEAR(QKV, "3 * d_model", "d_model"),
    LINEAR(PROJECTION, "d_model", "d_model"),
    LAYER_NORM(NORM1, "d_model"),
    LINEAR(UP, "encoder_ffn_dim", "d_model"),
    LINEAR(DOWN, "d_model", "encoder_ffn_dim"),
    LAYER_NORM(NORM2, "d_model"),
    END,
};
/* Alone it has the parameters of cross attention and no use for them. */
static const struct mw_family_tensor bart_decoder[] = {
    LINEAR(QKV, "3 * d_model", "d_model"),
    LINEAR(QKV, "3 * d_model", "d_model", .met = "sides - 1"),
    LINEAR(PROJECTION, "d_model", "d_model", .count = "2", .met = "sides"),
    LAYER_NORM(NORM1, "2 * d_model"),
    LINEAR(UP, "decoder_ffn_dim", "d_model"),
    LINEAR(DOWN, "d_model", "decoder_ffn_dim"),
    LAYER_NORM(NORM2, "d_model"),
    END,
};
static const struct mw_family_stack bart_stacks[] = {
    {.name = "encoder",
     .layers = "sides == 2 ? encoder_layers : 0",
     .heads = "encoder_attention_heads",
     .bidirectional = true,
     .tensors = bart_encoder},
    {.name = "decoder",
     .layers = "decoder_layers",
     .heads = "decoder_attention_heads",
     .attentions = "sides",
     .tensors = bart_decoder},
    END,
};

/* --- Whisper --------------------------------------------------------------------------------- */

static const struct mw_family_let whisper_lets[] = {
    {"tie_word_embeddings", "1", false},
    {"max_source_positions", "1500", false},
    {"max_target_positions", "448", false},
    {"max_position_embeddings", "max_target_positions", false},
    {"encodes", "task != 'CausalLM'", false},
    {"decodes", "task != 'AudioClassification'", false},
    {"is_decoder", "0", false},
    {"classifier_proj_size", "256", false},
    {"use_weighted_layer_sum", "0", false},
    {"num_labels", "2", false},
    {"num_mel_bins", "80", false},
    {"dropout", "0", false},
    END,
};
static const struct mw_family_key whisper_keys[] = {
    {"d_model", MW_DIMENSION_HIDDEN},
    {"decoder_ffn_dim", MW_DIMENSION_FFN},
    {"decodes ? decoder_layers : encoder_layers", MW_DIMENSION_LAYERS},
    {"decoder_attention_heads", MW_DIMENSION_HEADS},
    {"decodes ? vocab_size : 0", MW_DIMENSION_VOCAB},
    {"max_target_positions", MW_DIMENSION_SEQ},
    {"decodes", MW_FLAG_LEARNED_POSITIONS},
    {"decodes", MW_FLAG_FINAL_NORM},
    {"dropout > 0", MW_FLAG_DROPOUT},
    TIED,
    END,
};
static const struct mw_family_tensor whisper_tensors[] = {
    /* convolutions over three frames */
    LINEAR(EMBEDDING, "d_model", "3 * num_mel_bins", .when = "encodes"),
    LINEAR(EMBEDDING, "d_model", "3 * d_model", .when = "encodes"),
    TABLE("max_source_positions", "d_model", .when = "encodes"),
    LAYER_NORM(FINAL_NORM, "d_model", .when = "encodes"),
    LINEAR(FINAL_NORM, "classifier_proj_size", "d_model", .when = "not decodes"),
    LINEAR(FINAL_NORM, "num_labels", "classifier_proj_size", .when = "not decodes", .table = true),
    VECTOR(FINAL_NORM, "encoder_layers + 1", .when = "not decodes and use_weighted_layer_sum"),
    END,
};
/* k has no bias. */
static const struct mw_family_tensor whisper_encoder[] = {
    LINEAR(QKV, "2 * d_model", "d_model"),
    MATRIX(QKV, "d_model", "d_model"),
    LINEAR(PROJECTION, "d_model", "d_model"),
    LAYER_NORM(NORM1, "d_model"),
    LINEAR(UP, "encoder_ffn_dim", "d_model"),
    LINEAR(DOWN, "d_model", "encoder_ffn_dim"),
    LAYER_NORM(NORM2, "d_model"),
    END,
};
static const struct mw_family_tensor whisper_decoder[] = {
    LINEAR(QKV, "2 * d_model", "d_model"),
    MATRIX(QKV, "d_model", "d_model"),
    LINEAR(QKV, "2 * d_model", "d_model", .met = "encodes"),
    MATRIX(QKV, "d_model", "d_model", .met = "encodes"),
    LINEAR(PROJECTION, "d_model", "d_model", .count = "2", .met = "encodes ? 2 : 1"),
    LAYER_NORM(NORM1, "2 * d_model"),
    LINEAR(UP, "decoder_ffn_dim", "d_model"),
    LINEAR(DOWN, "d_model", "decoder_ffn_dim"),
    LAYER_NORM(NORM2, "d_model"),
    END,
};
static const struct mw_family_stack whisper_stacks[] = {
    {.name = "encoder",
     .layers = "encodes ? encoder_layers : 0",
     .tokens = "max_source_positions",
     .heads = "encoder_attention_heads",
     .bidirectional = true,
     .tensors = whisper_encoder},
    {.name = "decoder",
     .layers = "decodes ? decoder_layers : 0",
     .heads = "decoder_attention_heads",
     .attentions = "encodes ? 2 : 1",
     .tensors = whisper_decoder},
    END,
};

#define PAIR .why_not = "an encoder beside the decoder"
#define T5_TRAITS                                                                                  \
    .mlp_matrices = 2, .norms_per_layer = 2, .final_norm = true, .tied_embedding = true,           \
    .own_heads = true
#define BART                                                                                       \
    .traits = {.mlp_matrices = 2,                                                                  \
               .norms_per_layer = 2,                                                               \
               .norm_bias = true,                                                                  \
               .tied_embedding = true,                                                             \
               .own_heads = true},                                                                 \
    .keys = bart_keys, .lets = bart_lets, .tensors = bart_tensors, .stacks = bart_stacks,          \
    .task = "ConditionalGeneration", .approximates = LENGTHS, PAIR
#define T5                                                                                         \
    .traits = {T5_TRAITS}, .keys = t5_keys, .lets = t5_lets, .tensors = t5_tensors,                \
    .stacks = t5_stacks, .task = "ConditionalGeneration", .approximates = LENGTHS,                 \
    .score_bias = "a learned bias of relative positions (huggingface/transformers pull 47014, "    \
                  "_supports_flash_attn = False)",                                                 \
    .refused = "not gated and feed_forward_proj != 'relu' and feed_forward_proj != 'gelu' "        \
               "and feed_forward_proj != 'gelu_new' and feed_forward_proj != 'silu'",              \
    .refused_why = "feed_forward_proj: must be one of relu, gelu, gelu_new, silu, gated-relu, "    \
                   "gated-gelu, gated-silu",                                                       \
    PAIR

const struct mw_family mw_family_pairs[] = {
    {.name = "t5", .class_prefix = "T5", T5},
    {.name = "mt5", .class_prefix = "MT5", T5},
    {.name = "umt5", .class_prefix = "UMT5", T5},
    {.name = "bart", .class_prefix = "BartFor", BART},
    {.name = "mbart", .class_prefix = "MBartFor", BART},
    {.name = "pegasus", .class_prefix = "PegasusFor", BART},
    {.name = "m2m_100", .class_prefix = "M2M100For", BART},
    {.name = "marian", .class_prefix = "Marian", BART},
    {.name = "whisper",
     .class_prefix = "WhisperFor",
     .traits = {.mlp_matrices = 2,
                .norms_per_layer = 2,
                .norm_bias = true,
                .final_norm = true,
                .learned_positions = true,
                .tied_embedding = true,
                .own_heads = true},
     .keys = whisper_keys,
     .lets = whisper_lets,
     .tensors = whisper_tensors,
     .stacks = whisper_stacks,
     .task = "ConditionalGeneration",
     .approximates = "cross attention sees as many keys as the text has tokens",
     PAIR},
    END,
};
