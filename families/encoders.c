/* Encoders of text. */
#include "families/rows.h"

#define TASK(name) "task == '" name "'"
#define POOLED                                                                                     \
    TASK("Model")                                                                                  \
    " or " TASK("SequenceClassification") " or " TASK("MultipleChoice") " or " TASK(               \
        "NextSentencePrediction") " or " TASK("PreTraining") " or " TASK("Tower")
#define LABELLED                                                                                   \
    TASK("SequenceClassification")                                                                 \
    " or " TASK("TokenClassification") " or " TASK("QuestionAnswering")
#define PREDICTS TASK("MaskedLM") " or " TASK("CausalLM") " or " TASK("PreTraining")

#define TIED                                                                                       \
    {                                                                                              \
        "tie_word_embeddings", MW_FLAG_TIED_EMBEDDING                                              \
    }
#define DROPOUT                                                                                    \
    {                                                                                              \
        "hidden_dropout_prob > 0 or attention_probs_dropout_prob > 0", MW_FLAG_DROPOUT             \
    }
#define BERT_KEYS                                                                                  \
    {"hidden_size", MW_DIMENSION_HIDDEN}, {"intermediate_size", MW_DIMENSION_FFN},                 \
        {"num_hidden_layers", MW_DIMENSION_LAYERS}, {"num_attention_heads", MW_DIMENSION_HEADS},   \
        {"vocab_size", MW_DIMENSION_VOCAB}, TIED, DROPOUT
#define BERT_LETS                                                                                  \
    {"tie_word_embeddings", "1", false}, {"hidden_dropout_prob", "0.1", false},                    \
        {"attention_probs_dropout_prob", "0.1", false}, {"max_position_embeddings", "512", false}, \
    {                                                                                              \
        "type_vocab_size", "2", false                                                              \
    }
/* Every head but the one that predicts tokens is a product for a sequence, or for a token a few
 * rows: no FLOPs are counted for it. */
#define LABELS LINEAR(LOGITS, "num_labels", "hidden_size", .when = LABELLED, .table = true)

/* LayerNorm behind attention and MLP, biases everywhere. */
static const struct mw_family_tensor bert_layer[] = {
    LINEAR(QKV, "3 * hidden_size", "hidden_size"),
    LINEAR(PROJECTION, "hidden_size", "hidden_size"),
    LAYER_NORM(NORM1, "hidden_size"),
    LINEAR(UP, "intermediate_size", "hidden_size"),
    LINEAR(DOWN, "hidden_size", "intermediate_size"),
    LAYER_NORM(NORM2, "hidden_size"),
    END,
};
#define ENCODER(tensors_)                                                                          \
    .name = "encoder", .layers = "num_hidden_layers", .heads = "num_attention_heads",              \
    .bidirectional = true, .tensors = tensors_

static const struct mw_family_stack bert_stacks[] = {{ENCODER(bert_layer)}, END};

/* --- BERT, RoBERTa --------------------------------------------------------------------------- */

static const struct mw_family_let bert_lets[] = {BERT_LETS, END};
static const struct mw_family_key bert_keys[] = {
    BERT_KEYS,
    {"max_position_embeddings", MW_DIMENSION_SEQ},
    END,
};
static const struct mw_family_tensor bert_tensors[] = {
    TABLE("type_vocab_size", "hidden_size"),
    LAYER_NORM(EMBEDDING, "hidden_size"),
    LINEAR(FINAL_NORM, "hidden_size", "hidden_size", .when = POOLED, .table = true),
    LINEAR(FINAL_NORM, "hidden_size", "hidden_size", .when = PREDICTS),
    LAYER_NORM(FINAL_NORM, "hidden_size", .when = PREDICTS),
    LABELS,
    LINEAR(LOGITS, "1", "hidden_size", .when = TASK("MultipleChoice"), .table = true),
    LINEAR(LOGITS, "2", "hidden_size",
           .when = TASK("NextSentencePrediction") " or " TASK("PreTraining"), .table = true),
    END,
};

/* The first rows of the table of positions, up to that of the padding's number, are not used. */
static const struct mw_family_let roberta_lets[] = {
    BERT_LETS,
    {"pad_token_id", "1", false},
    {"padding", "pad_token_id < 0 ? 0 : pad_token_id + 1", false},
    END,
};
static const struct mw_family_key roberta_keys[] = {
    BERT_KEYS,
    {"max_position_embeddings - padding", MW_DIMENSION_SEQ},
    {"padding", MW_FLAG_UNUSED_POSITIONS},
    END,
};
static const struct mw_family_tensor roberta_tensors[] = {
    TABLE("type_vocab_size", "hidden_size"),
    LAYER_NORM(EMBEDDING, "hidden_size"),
    LINEAR(FINAL_NORM, "hidden_size", "hidden_size",
           .when = TASK("Model") " or " TASK("MultipleChoice") " or " TASK("Tower"), .table = true),
    LINEAR(FINAL_NORM, "hidden_size", "hidden_size", .when = PREDICTS),
    LAYER_NORM(FINAL_NORM, "hidden_size", .when = PREDICTS),
    LINEAR(FINAL_NORM, "hidden_size", "hidden_size", .when = TASK("SequenceClassification"),
           .table = true),
    LABELS,
    LINEAR(LOGITS, "1", "hidden_size", .when = TASK("MultipleChoice"), .table = true),
    END,
};

/* --- DistilBERT ------------------------------------------------------------------------------ */

static const struct mw_family_let distilbert_lets[] = {
    {"tie_word_embeddings", "1", false},
    {"max_position_embeddings", "512", false},
    {"hidden_size", "dim", false},
    {"num_attention_heads", "n_heads", false},
    {"num_hidden_layers", "n_layers", false},
    {"intermediate_size", "hidden_dim", false},
    {"dropout", "0.1", false},
    {"attention_dropout", "0.1", false},
    END,
};
static const struct mw_family_key distilbert_keys[] = {
    {"dim", MW_DIMENSION_HIDDEN},
    {"hidden_dim", MW_DIMENSION_FFN},
    {"n_layers", MW_DIMENSION_LAYERS},
    {"n_heads", MW_DIMENSION_HEADS},
    {"vocab_size", MW_DIMENSION_VOCAB},
    {"max_position_embeddings", MW_DIMENSION_SEQ},
    {"dropout > 0 or attention_dropout > 0", MW_FLAG_DROPOUT},
    TIED,
    END,
};
static const struct mw_family_tensor distilbert_tensors[] = {
    LAYER_NORM(EMBEDDING, "hidden_size"),
    LINEAR(FINAL_NORM, "hidden_size", "hidden_size", .when = TASK("MaskedLM")),
    LAYER_NORM(FINAL_NORM, "hidden_size", .when = TASK("MaskedLM")),
    LINEAR(FINAL_NORM, "hidden_size", "hidden_size",
           .when = TASK("SequenceClassification") " or " TASK("MultipleChoice"), .table = true),
    LABELS,
    LINEAR(LOGITS, "1", "hidden_size", .when = TASK("MultipleChoice"), .table = true),
    END,
};

/* --- ALBERT, ELECTRA: a narrow embedding ----------------------------------------------------- */

static const struct mw_family_let albert_lets[] = {
    {"hidden_dropout_prob", "0", false},
    {"attention_probs_dropout_prob", "0", false},
    {"embedding_size", "128", false},
    {"num_hidden_groups", "1", false},
    {"inner_group_num", "1", false},
    BERT_LETS,
    END,
};
/* All that is as wide as the embedding is said by tensors. */
static const struct mw_family_key narrow_keys[] = {
    BERT_KEYS,
    {"max_position_embeddings", MW_DIMENSION_SEQ},
    {"embedding_size", MW_DIMENSION_EMBEDDING_DIM},
    END,
};
#define NARROW_EMBEDDING                                                                           \
    TABLE("max_position_embeddings + type_vocab_size", "embedding_size"),                          \
        LAYER_NORM(EMBEDDING, "embedding_size")
/* The product back to the embedding's width stands with the logits. */
#define NARROW_HEAD(when_)                                                                         \
    VECTOR(FINAL_NORM, "embedding_size", .when = when_),                                           \
        LAYER_NORM(FINAL_NORM, "embedding_size", .when = when_)
static const struct mw_family_tensor albert_tensors[] = {
    NARROW_EMBEDDING,
    VECTOR(EMBEDDING, "hidden_size"),
    MATRIX(EMBEDDING, "hidden_size", "embedding_size", .when = "embedding_size == hidden_size"),
    LINEAR(FINAL_NORM, "hidden_size", "hidden_size",
           .when = TASK("Model") " or " TASK("PreTraining") " or " TASK(
               "SequenceClassification") " or " TASK("MultipleChoice") " or " TASK("Tower"),
           .table = true),
    NARROW_HEAD(TASK("MaskedLM") " or " TASK("PreTraining")),
    MATRIX(FINAL_NORM, "embedding_size", "hidden_size",
           .when = "(" TASK("MaskedLM") " or " TASK(
               "PreTraining") ") and embedding_size == hidden_size"),
    LINEAR(LOGITS, "2", "hidden_size", .when = TASK("PreTraining"), .table = true),
    LABELS,
    LINEAR(LOGITS, "1", "hidden_size", .when = TASK("MultipleChoice"), .table = true),
    END,
};
static const struct mw_family_tensor albert_layer[] = {
    LINEAR(QKV, "3 * hidden_size", "hidden_size", .count = "inner_group_num"),
    LINEAR(PROJECTION, "hidden_size", "hidden_size", .count = "inner_group_num"),
    LAYER_NORM(NORM1, "hidden_size", .count = "inner_group_num"),
    LINEAR(UP, "intermediate_size", "hidden_size", .count = "inner_group_num"),
    LINEAR(DOWN, "hidden_size", "intermediate_size", .count = "inner_group_num"),
    LAYER_NORM(NORM2, "hidden_size", .count = "inner_group_num"),
    END,
};
static const struct mw_family_stack albert_stacks[] = {
    {ENCODER(albert_layer), .shared = "min(num_hidden_groups, num_hidden_layers)",
     .attentions = "inner_group_num"},
    END,
};

static const struct mw_family_let electra_lets[] = {
    {"embedding_size", "128", false},
    BERT_LETS,
    END,
};
static const struct mw_family_tensor electra_tensors[] = {
    NARROW_EMBEDDING,
    VECTOR(EMBEDDING, "hidden_size", .when = "embedding_size != hidden_size"),
    NARROW_HEAD(TASK("MaskedLM") " or " TASK("CausalLM")),
    MATRIX(FINAL_NORM, "embedding_size", "hidden_size",
           .when =
               "(" TASK("MaskedLM") " or " TASK("CausalLM") ") and embedding_size == hidden_size"),
    LINEAR(FINAL_NORM, "hidden_size", "hidden_size",
           .when = TASK("SequenceClassification") " or " TASK("Discriminator"), .table = true),
    LINEAR(LOGITS, "1", "hidden_size", .when = TASK("Discriminator"), .table = true),
    LABELS,
    LINEAR(FINAL_NORM, "hidden_size", "hidden_size", .when = TASK("MultipleChoice"), .table = true),
    LINEAR(LOGITS, "1", "hidden_size", .when = TASK("MultipleChoice"), .table = true),
    END,
};

/* --- DeBERTa --------------------------------------------------------------------------------- */

static const struct mw_family_let deberta_lets[] = {
    {"type_vocab_size", "0", false},
    BERT_LETS,
    {"embedding_size", "hidden_size", false},
    {"relative_attention", "0", false},
    {"position_biased_input", "1", false},
    {"share_att_key", "0", false},
    {"conv_kernel_size", "0", false},
    {"max_relative",
     "(max_relative_positions ?? -1) < 1 ? max_position_embeddings "
     ": max_relative_positions",
     false},
    {"span", "(position_buckets ?? -1) > 0 ? 2 * position_buckets : 2 * max_relative", false},
    {"pooler_hidden_size", "hidden_size", false},
    {"normed", "norm_rel_ebd == 'layer_norm'", false},
    {"c2p",
     "relative_attention and ('c2p' in pos_att_type or "
     "pos_att_type == 'c2p' or pos_att_type == 'c2p|p2c' or pos_att_type == 'p2c|c2p')",
     false},
    {"p2c",
     "relative_attention and ('p2c' in pos_att_type or "
     "pos_att_type == 'p2c' or pos_att_type == 'c2p|p2c' or pos_att_type == 'p2c|c2p')",
     false},
    END,
};
static const struct mw_family_key deberta_keys[] = {
    BERT_KEYS,
    {"max_position_embeddings", MW_DIMENSION_SEQ},
    END,
};
static const struct mw_family_tensor deberta_tensors[] = {
    TABLE("max_position_embeddings", "embedding_size", .when = "position_biased_input"),
    TABLE("type_vocab_size", "embedding_size"),
    LAYER_NORM(EMBEDDING, "hidden_size"),
    TABLE("span", "hidden_size", .when = "relative_attention"),
    LAYER_NORM(EMBEDDING, "hidden_size", .when = "relative_attention and normed"),
    LINEAR(EMBEDDING, "hidden_size", "hidden_size * conv_kernel_size",
           .when = "conv_kernel_size > 0"),
    LAYER_NORM(EMBEDDING, "hidden_size", .when = "conv_kernel_size > 0"),
    LINEAR(FINAL_NORM, "hidden_size", "hidden_size", .when = TASK("MaskedLM")),
    LAYER_NORM(FINAL_NORM, "hidden_size", .when = TASK("MaskedLM")),
    LINEAR(FINAL_NORM, "pooler_hidden_size", "pooler_hidden_size",
           .when = TASK("SequenceClassification") " or " TASK("MultipleChoice"), .table = true),
    LABELS,
    LINEAR(LOGITS, "1", "hidden_size", .when = TASK("MultipleChoice"), .table = true),
    END,
};
static const struct mw_family_tensor deberta_layer[] = {
    LINEAR(QKV, "3 * hidden_size", "hidden_size"),
    LINEAR(QKV, "hidden_size", "hidden_size", .when = "c2p and not share_att_key"),
    LINEAR(QKV, "hidden_size", "hidden_size", .when = "p2c and not share_att_key"),
    LINEAR(PROJECTION, "hidden_size", "hidden_size"),
    LAYER_NORM(NORM1, "hidden_size"),
    LINEAR(UP, "intermediate_size", "hidden_size"),
    LINEAR(DOWN, "hidden_size", "intermediate_size"),
    LAYER_NORM(NORM2, "hidden_size"),
    END,
};
static const struct mw_family_stack deberta_stacks[] = {{ENCODER(deberta_layer)}, END};

/* --- ModernBERT ------------------------------------------------------------------------------ */

static const struct mw_family_let modernbert_lets[] = {
    {"tie_word_embeddings", "1", false},
    {"norm_bias", "0", false},
    {"attention_bias", "0", false},
    {"mlp_bias", "0", false},
    {"decoder_bias", "1", false},
    {"classifier_bias", "0", false},
    {"local_attention", "128", false},
    {"max_position_embeddings", "8192", false},
    {"global_attn_every_n_layers", "3", false},
    END,
};
static const struct mw_family_key modernbert_keys[] = {
    {"hidden_size", MW_DIMENSION_HIDDEN},
    {"intermediate_size", MW_DIMENSION_FFN},
    {"num_hidden_layers", MW_DIMENSION_LAYERS},
    {"num_attention_heads", MW_DIMENSION_HEADS},
    {"vocab_size", MW_DIMENSION_VOCAB},
    {"max_position_embeddings", MW_DIMENSION_SEQ},
    {"decoder_bias", MW_FLAG_LOGITS_BIAS},
    {"norm_bias", MW_FLAG_NORM_BIAS},
    TIED,
    END,
};
#define HEAD_OF_MODERNBERT                                                                         \
    TASK("MaskedLM")                                                                               \
    " or " TASK("SequenceClassification") " or " TASK("TokenClassification") " or " TASK(          \
        "QuestionAnswering") " or " TASK("MultipleChoice")
static const struct mw_family_tensor modernbert_tensors[] = {
    VECTOR(EMBEDDING, "hidden_size", .bias = "norm_bias"),
    MATRIX(LOGITS, "hidden_size", "hidden_size", .bias = "classifier_bias",
           .when = HEAD_OF_MODERNBERT),
    VECTOR(LOGITS, "hidden_size", .bias = "norm_bias", .when = HEAD_OF_MODERNBERT),
    LABELS,
    LINEAR(LOGITS, "1", "hidden_size", .when = TASK("MultipleChoice"), .table = true),
    END,
};
#define MODERN_LAYER                                                                               \
    MATRIX(QKV, "3 * hidden_size", "hidden_size", .bias = "attention_bias"),                       \
        MATRIX(PROJECTION, "hidden_size", "hidden_size", .bias = "attention_bias"),                \
        VECTOR(NORM2, "hidden_size", .bias = "norm_bias"),                                         \
        MATRIX(UP, "2 * intermediate_size", "hidden_size", .bias = "mlp_bias"),                    \
        MATRIX(DOWN, "hidden_size", "intermediate_size", .bias = "mlp_bias")
static const struct mw_family_tensor modernbert_first[] = {MODERN_LAYER, END};
static const struct mw_family_tensor modernbert_layer[] = {
    VECTOR(NORM1, "hidden_size", .bias = "norm_bias"),
    MODERN_LAYER,
    END,
};
static const struct mw_family_stack modernbert_stacks[] = {
    {.name = "first layer",
     .when = "layer == 0",
     .heads = "num_attention_heads",
     .bidirectional = true,
     .tensors = modernbert_first},
    {.name = "full attention",
     .when = "layer_types ? layer_types[layer] == 'full_attention' "
             ": layer % global_attn_every_n_layers == 0",
     .heads = "num_attention_heads",
     .bidirectional = true,
     .tensors = modernbert_layer},
    {.name = "windowed attention",
     .heads = "num_attention_heads",
     .window = "local_attention",
     .bidirectional = true,
     .tensors = modernbert_layer},
    END,
};

/* --- XLNet ----------------------------------------------------------------------------------- */

static const struct mw_family_let xlnet_lets[] = {
    {"tie_word_embeddings", "1", false},
    {"d_head", "d_model / n_head", false},
    {"dropout", "0.1", false},
    {"mem_len", "0", false}, /* training has no memory of other segments */
    {"hidden_size", "d_model", false},
    END,
};
static const struct mw_family_key xlnet_keys[] = {
    {"d_model", MW_DIMENSION_HIDDEN},
    {"d_inner", MW_DIMENSION_FFN},
    {"n_layer", MW_DIMENSION_LAYERS},
    {"n_head", MW_DIMENSION_HEADS},
    {"vocab_size", MW_DIMENSION_VOCAB},
    {"512", MW_DIMENSION_SEQ},
    {"dropout > 0", MW_FLAG_DROPOUT},
    TIED,
    END,
};
static const struct mw_family_tensor xlnet_tensors[] = {
    VECTOR(EMBEDDING, "d_model"),
    LINEAR(FINAL_NORM, "d_model", "d_model", .when = TASK("SequenceClassification"), .table = true),
    LINEAR(LOGITS, "num_labels", "d_model",
           .when = TASK("SequenceClassification") " or " TASK("TokenClassification"),
           .table = true),
    END,
};
static const struct mw_family_tensor xlnet_layer[] = {
    MATRIX(QKV, "4 * n_head * d_head", "d_model"),
    VECTOR(QKV, "5 * n_head * d_head"),
    MATRIX(PROJECTION, "d_model", "n_head * d_head"),
    LAYER_NORM(NORM1, "d_model"),
    LINEAR(UP, "d_inner", "d_model"),
    LINEAR(DOWN, "d_model", "d_inner"),
    LAYER_NORM(NORM2, "d_model"),
    END,
};
static const struct mw_family_stack xlnet_stacks[] = {
    {.name = "layers",
     .layers = "n_layer",
     .heads = "n_head",
     .head_dim = "d_head",
     .bidirectional = true,
     .tensors = xlnet_layer},
    END,
};

#define TEXT .why_not = "attention to both sides"
#define BERT_TRAITS                                                                                \
    .mlp_matrices = 2, .norms_per_layer = 2, .norm_bias = true, .tied_embedding = true,            \
    .own_heads = true

const struct mw_family mw_family_encoders[] = {
    {.name = "bert",
     .class_prefix = "BertFor",
     .traits = {BERT_TRAITS, .learned_positions = true, .logits_bias = true},
     .keys = bert_keys,
     .lets = bert_lets,
     .tensors = bert_tensors,
     .stacks = bert_stacks,
     .task = "MaskedLM",
     TEXT},
    {.name = "roberta",
     .class_prefix = "RobertaFor",
     .traits = {BERT_TRAITS, .learned_positions = true, .logits_bias = true},
     .keys = roberta_keys,
     .lets = roberta_lets,
     .tensors = roberta_tensors,
     .stacks = bert_stacks,
     .task = "MaskedLM",
     TEXT},
    {.name = "xlm-roberta", .class_prefix = "XLMRobertaFor", .same = "roberta"},
    {.name = "camembert", .class_prefix = "CamembertFor", .same = "roberta"},
    {.name = "distilbert",
     .class_prefix = "DistilBertFor",
     .traits = {BERT_TRAITS, .learned_positions = true, .logits_bias = true},
     .keys = distilbert_keys,
     .lets = distilbert_lets,
     .tensors = distilbert_tensors,
     .stacks = bert_stacks,
     .task = "MaskedLM",
     TEXT},
    {.name = "albert",
     .class_prefix = "AlbertFor",
     .traits = {BERT_TRAITS, .logits_bias = true},
     .keys = narrow_keys,
     .lets = albert_lets,
     .tensors = albert_tensors,
     .stacks = albert_stacks,
     .task = "MaskedLM",
     .refused = "num_hidden_groups < 1",
     .refused_why =
         "num_hidden_groups: value 0: must be a whole number from 1 to num_hidden_layers",
     TEXT},
    {.name = "electra",
     .class_prefix = "ElectraFor",
     .traits = {BERT_TRAITS, .logits_bias = true},
     .keys = narrow_keys,
     .lets = electra_lets,
     .tensors = electra_tensors,
     .stacks = bert_stacks,
     .task = "Discriminator",
     TEXT},
    {.name = "deberta-v2",
     .class_prefix = "DebertaV2For",
     .traits = {BERT_TRAITS, .logits_bias = true},
     .keys = deberta_keys,
     .lets = deberta_lets,
     .tensors = deberta_tensors,
     .stacks = deberta_stacks,
     .task = "MaskedLM",
     .approximates = "attention to relative positions is counted as one attention",
     .score_bias = "scores of relative positions (transformers 4 and 5, modeling_deberta_v2.py: "
                   "its class says of no kernel that it supports it)",
     TEXT},
    {.name = "modernbert",
     .class_prefix = "ModernBertFor",
     .traits = {LLAMA_BLOCK(2), .own_heads = true, .tied_embedding = true},
     .keys = modernbert_keys,
     .lets = modernbert_lets,
     .tensors = modernbert_tensors,
     .stacks = modernbert_stacks,
     .task = "MaskedLM",
     TEXT},
    {.name = "xlnet",
     .class_prefix = "XLNet",
     .traits = {BERT_TRAITS, .logits_bias = true},
     .keys = xlnet_keys,
     .lets = xlnet_lets,
     .tensors = xlnet_tensors,
     .stacks = xlnet_stacks,
     .approximates = "attention to relative positions is counted as one attention",
     .score_bias = "scores of relative positions (transformers 4 and 5, modeling_xlnet.py: "
                   "its class says of no kernel that it supports it)",
     TEXT},
    END,
};
