/* More models of images, and decoders that see: the towers and what carries their results over. */
#include <stddef.h>

#include "families/rows.h"

#define IMAGE_LAYER(h, f)                                                                          \
    LAYER_NORM(NORM1, h), LINEAR(QKV, "3 * " h, h), LINEAR(PROJECTION, h, h),                      \
        LAYER_NORM(NORM2, h), LINEAR(UP, f, h), LINEAR(DOWN, h, f)
#define PATCHES                                                                                    \
    {"num_channels", "3", false}, {"image_size", "224", false}, {"patch_size", "16", false},       \
        {"patches", "(image_size // patch_size) * (image_size // patch_size)", false},             \
    {                                                                                              \
        "patch", "num_channels * patch_size * patch_size", false                                   \
    }
#define BASE                                                                                       \
    {"hidden_size", "768", false}, {"intermediate_size", "3072", false},                           \
        {"num_hidden_layers", "12", false}, {"num_attention_heads", "12", false},                  \
        {"hidden_dropout_prob", "0", false},                                                       \
    {                                                                                              \
        "attention_probs_dropout_prob", "0", false                                                 \
    }
#define IMAGE_KEYS(length)                                                                         \
    {"hidden_size", MW_DIMENSION_HIDDEN}, {"intermediate_size", MW_DIMENSION_FFN},                 \
        {"num_hidden_layers", MW_DIMENSION_LAYERS}, {"num_attention_heads", MW_DIMENSION_HEADS},   \
        {"0", MW_DIMENSION_VOCAB},                                                                 \
    {                                                                                              \
        length, MW_DIMENSION_SEQ                                                                   \
    }
#define IMAGE_STACK(length, tensors_)                                                              \
    {                                                                                              \
        .name = "image layers", .layers = "num_hidden_layers", .tokens = length,                   \
        .heads = "num_attention_heads", .bidirectional = true, .tensors = tensors_                 \
    }
#define CLASSES "task == 'ImageClassification'"
#define MASKED "task == 'MaskedImageModeling'"
#define TEACHER "task == 'ImageClassificationWithTeacher'"

/* --- DeiT, BEiT, masked autoencoders --------------------------------------------------------- */

static const struct mw_family_let deit_lets[] = {
    BASE, PATCHES, {"qkv_bias", "1", false}, {"encoder_stride", "16", false}, END,
};
static const struct mw_family_key deit_keys[] = {IMAGE_KEYS("patches + 2"), END};
static const struct mw_family_tensor deit_tensors[] = {
    LINEAR(EMBEDDING, "hidden_size", "patch"),
    VECTOR(EMBEDDING, "(patches + 4) * hidden_size"),
    VECTOR(EMBEDDING, "hidden_size", .when = MASKED),
    LAYER_NORM(FINAL_NORM, "hidden_size"),
    LINEAR(LOGITS, "pooler_output_size ?? hidden_size", "hidden_size", .when = "task == 'Model'",
           .table = true),
    LINEAR(LOGITS, "num_labels", "hidden_size", .when = CLASSES " or " TEACHER, .table = true),
    LINEAR(LOGITS, "num_labels", "hidden_size", .when = TEACHER, .table = true),
    LINEAR(LOGITS, "encoder_stride * encoder_stride * num_channels", "hidden_size", .when = MASKED),
    END,
};
static const struct mw_family_tensor deit_layer[] = {
    LAYER_NORM(NORM1, "hidden_size"),
    MATRIX(QKV, "3 * hidden_size", "hidden_size", .bias = "qkv_bias"),
    LINEAR(PROJECTION, "hidden_size", "hidden_size"),
    LAYER_NORM(NORM2, "hidden_size"),
    LINEAR(UP, "intermediate_size", "hidden_size"),
    LINEAR(DOWN, "hidden_size", "intermediate_size"),
    END,
};
static const struct mw_family_stack deit_stacks[] = {IMAGE_STACK("patches + 2", deit_layer), END};

static const struct mw_family_let beit_lets[] = {
    BASE,
    PATCHES,
    {"layer_scale_init_value", "0.1", false},
    {"use_mask_token", "0", false},
    {"use_absolute_position_embeddings", "0", false},
    {"use_relative_position_bias", "0", false},
    {"use_shared_relative_position_bias", "0", false},
    {"use_mean_pooling", "1", false},
    {"vocab_size", "8192", false},
    {"side", "2 * (image_size // patch_size) - 1", false},
    {"biases", "(side * side + 3) * num_attention_heads", false},
    /* of other heads, for segmentation */
    {"add_fpn", "0", false},
    {"auxiliary_channels", "0", false},
    {"auxiliary_concat_input", "0", false},
    {"auxiliary_loss_weight", "0", false},
    {"auxiliary_num_convs", "0", false},
    {"pool_scales", "0", false},
    {"semantic_loss_ignore_index", "0", false},
    {"use_auxiliary_head", "0", false},
    END,
};
static const struct mw_family_key beit_keys[] = {IMAGE_KEYS("patches + 1"), END};
static const struct mw_family_tensor beit_tensors[] = {
    LINEAR(EMBEDDING, "hidden_size", "patch"),
    VECTOR(EMBEDDING, "hidden_size"),
    VECTOR(EMBEDDING, "hidden_size", .when = "use_mask_token"),
    VECTOR(EMBEDDING, "(patches + 1) * hidden_size", .when = "use_absolute_position_embeddings"),
    VECTOR(EMBEDDING, "biases", .when = "use_shared_relative_position_bias"),
    /* behind the layers, or in the pooler */
    LAYER_NORM(FINAL_NORM, "hidden_size", .when = "not (use_mean_pooling and " MASKED ")"),
    LAYER_NORM(FINAL_NORM, "hidden_size", .when = MASKED),
    LINEAR(LOGITS, "vocab_size", "hidden_size", .when = MASKED),
    LINEAR(LOGITS, "num_labels", "hidden_size", .when = CLASSES, .table = true),
    END,
};
/* k has no bias. */
static const struct mw_family_tensor beit_layer[] = {
    LAYER_NORM(NORM1, "hidden_size"),
    LINEAR(QKV, "2 * hidden_size", "hidden_size"),
    MATRIX(QKV, "hidden_size", "hidden_size"),
    VECTOR(QKV, "biases", .when = "use_relative_position_bias"),
    LINEAR(PROJECTION, "hidden_size", "hidden_size"),
    VECTOR(PROJECTION, "hidden_size", .when = "layer_scale_init_value > 0"),
    LAYER_NORM(NORM2, "hidden_size"),
    LINEAR(UP, "intermediate_size", "hidden_size"),
    LINEAR(DOWN, "hidden_size", "intermediate_size"),
    VECTOR(DOWN, "hidden_size", .when = "layer_scale_init_value > 0"),
    END,
};
static const struct mw_family_stack beit_stacks[] = {IMAGE_STACK("patches + 1", beit_layer), END};

/* A quarter of the patches goes through the encoder, all through a narrower decoder. */
#define PRETRAINS "task == 'Pixels'"
static const struct mw_family_let mae_lets[] = {
    BASE,
    PATCHES,
    {"qkv_bias", "1", false},
    {"mask_ratio", "0.75", false},
    {"norm_pix_loss", "0", false},
    {"decoder_hidden_size", "512", false},
    {"decoder_intermediate_size", "2048", false},
    {"decoder_num_hidden_layers", "8", false},
    {"decoder_num_attention_heads", "16", false},
    END,
};
static const struct mw_family_tensor mae_tensors[] = {
    LINEAR(EMBEDDING, "hidden_size", "patch"),
    VECTOR(EMBEDDING, "(patches + 2) * hidden_size"),
    LAYER_NORM(FINAL_NORM, "hidden_size"),
    LINEAR(FINAL_NORM, "decoder_hidden_size", "hidden_size", .when = PRETRAINS),
    VECTOR(FINAL_NORM, "(patches + 2) * decoder_hidden_size", .when = PRETRAINS),
    LAYER_NORM(FINAL_NORM, "decoder_hidden_size", .when = PRETRAINS),
    LINEAR(LOGITS, "patch", "decoder_hidden_size", .when = PRETRAINS),
    LINEAR(LOGITS, "num_labels", "hidden_size", .when = CLASSES, .table = true),
    END,
};
static const struct mw_family_tensor mae_decoder[] = {
    LAYER_NORM(NORM1, "decoder_hidden_size"),
    MATRIX(QKV, "3 * decoder_hidden_size", "decoder_hidden_size", .bias = "qkv_bias"),
    LINEAR(PROJECTION, "decoder_hidden_size", "decoder_hidden_size"),
    LAYER_NORM(NORM2, "decoder_hidden_size"),
    LINEAR(UP, "decoder_intermediate_size", "decoder_hidden_size"),
    LINEAR(DOWN, "decoder_hidden_size", "decoder_intermediate_size"),
    END,
};
static const struct mw_family_stack mae_stacks[] = {
    IMAGE_STACK("int(patches * (1 - mask_ratio)) + 1", deit_layer),
    {.name = "decoder",
     .layers = PRETRAINS " ? decoder_num_hidden_layers : 0",
     .hidden = "decoder_hidden_size",
     .tokens = "patches + 1",
     .heads = "decoder_num_attention_heads",
     .bidirectional = true,
     .tensors = mae_decoder},
    END,
};

/* --- Pixtral, Mistral 3 ---------------------------------------------------------------------- */

static const struct mw_family_let pixtral_lets[] = {
    {"hidden_size", "1024", false},
    {"intermediate_size", "4096", false},
    {"num_hidden_layers", "24", false},
    {"num_attention_heads", "16", false},
    {"head_dim", "hidden_size / num_attention_heads", false},
    {"image_size", "1024", false},
    PATCHES,
    END,
};
static const struct mw_family_key pixtral_keys[] = {IMAGE_KEYS("patches"), END};
static const struct mw_family_tensor pixtral_tensors[] = {
    MATRIX(EMBEDDING, "hidden_size", "patch"),
    VECTOR(EMBEDDING, "hidden_size"),
    END,
};
static const struct mw_family_tensor pixtral_layer[] = {
    VECTOR(NORM1, "hidden_size"),
    MATRIX(QKV, "3 * hidden_size", "hidden_size"),
    MATRIX(PROJECTION, "hidden_size", "hidden_size"),
    VECTOR(NORM2, "hidden_size"),
    MATRIX(UP, "2 * intermediate_size", "hidden_size"),
    MATRIX(DOWN, "hidden_size", "intermediate_size"),
    END,
};
static const struct mw_family_stack pixtral_stacks[] = {IMAGE_STACK("patches", pixtral_layer), END};

static const struct mw_family_let mistral3_lets[] = {
    {"tie_word_embeddings", "0", false},
    {"multimodal_projector_bias", "0", false},
    {"spatial_merge_size", "2", false},
    {"features", "len(vision_feature_layer) ? len(vision_feature_layer) : 1", false},
    END,
};
static const struct mw_family_tensor mistral3_tensors[] = {
    VECTOR(EMBEDDING, "vision_config.hidden_size"),
    MATRIX(EMBEDDING, "vision_config.hidden_size",
           "spatial_merge_size * spatial_merge_size * vision_config.hidden_size"),
    MATRIX(EMBEDDING, "text_config.hidden_size", "features * vision_config.hidden_size",
           .bias = "multimodal_projector_bias"),
    MATRIX(EMBEDDING, "text_config.hidden_size", "text_config.hidden_size",
           .bias = "multimodal_projector_bias"),
    END,
};
static const struct mw_family_tower mistral3_towers[] = {
    {.key = "text_config", .family = "mistral", .is_text = true},
    {.key = "vision_config", .family = "pixtral"},
    END,
};

/* --- InternVL, Aya --------------------------------------------------------------------------- */

/* Sides of images and patches are lists of two. */
static const struct mw_family_let internvl_vision_lets[] = {
    {"hidden_size", "1024", false},
    {"intermediate_size", "4096", false},
    {"num_hidden_layers", "24", false},
    {"num_attention_heads", "16", false},
    BASE,
    {"num_channels", "3", false},
    {"image_size", "448", false},
    {"patch_size", "14", false},
    {"patches", "(image_size[0] // patch_size[0]) * (image_size[1] // patch_size[1])", false},
    {"patch", "num_channels * patch_size[0] * patch_size[1]", false},
    {"attention_bias", "0", false},
    {"use_qk_norm", "0", false},
    {"use_mask_token", "0", false},
    {"use_absolute_position_embeddings", "1", false},
    {"use_mean_pooling", "1", false},
    {"norm_type", "'layer_norm'", false},
    {"layer_scale_init_value", "0.1", false},
    {"projection_dropout", "0", false},
    END,
};
static const struct mw_family_key internvl_vision_keys[] = {IMAGE_KEYS("patches + 1"), END};
static const struct mw_family_tensor internvl_vision_tensors[] = {
    LINEAR(EMBEDDING, "hidden_size", "patch"),
    VECTOR(EMBEDDING, "hidden_size"),
    VECTOR(EMBEDDING, "hidden_size", .when = "use_mask_token"),
    VECTOR(EMBEDDING, "(patches + 1) * hidden_size", .when = "use_absolute_position_embeddings"),
    LAYER_NORM(FINAL_NORM, "hidden_size", .when = "not use_mean_pooling"),
    END,
};
static const struct mw_family_tensor internvl_vision_layer[] = {
    VECTOR(NORM1, "hidden_size", .bias = "norm_type == 'layer_norm'"),
    MATRIX(QKV, "3 * hidden_size", "hidden_size", .bias = "attention_bias"),
    VECTOR(QKV, "2 * hidden_size", .when = "use_qk_norm"),
    LINEAR(PROJECTION, "hidden_size", "hidden_size"),
    VECTOR(PROJECTION, "hidden_size"),
    VECTOR(NORM2, "hidden_size", .bias = "norm_type == 'layer_norm'"),
    LINEAR(UP, "intermediate_size", "hidden_size"),
    LINEAR(DOWN, "hidden_size", "intermediate_size"),
    VECTOR(DOWN, "hidden_size"),
    END,
};
static const struct mw_family_stack internvl_vision_stacks[] = {
    IMAGE_STACK("patches + 1", internvl_vision_layer),
    END,
};

static const struct mw_family_let internvl_lets[] = {
    {"tie_word_embeddings", "1", false},
    {"downsample_ratio", "0.5", false},
    {"merged", "vision_config.hidden_size * int(1 / downsample_ratio) * int(1 / downsample_ratio)",
     false},
    {"vision_feature_layer", "0", false},
    END,
};
static const struct mw_family_tensor internvl_tensors[] = {
    LAYER_NORM(EMBEDDING, "merged"),
    LINEAR(EMBEDDING, "text_config.hidden_size", "merged"),
    LINEAR(EMBEDDING, "text_config.hidden_size", "text_config.hidden_size"),
    END,
};
static const struct mw_family_tower internvl_towers[] = {
    {.key = "text_config", .family = "qwen2", .is_text = true},
    {.key = "vision_config", .family = "internvl_vision"},
    END,
};

static const struct mw_family_let aya_lets[] = {
    {"tie_word_embeddings", "1", false},
    {"downsample_factor", "2", false},
    {"adapter_layer_norm_eps", "0", false},
    {"vision_feature_layer", "0", false},
    {"merged", "vision_config.hidden_size * downsample_factor * downsample_factor", false},
    {"inner", "alignment_intermediate_size ?? text_config.hidden_size", false},
    END,
};
static const struct mw_family_tensor aya_tensors[] = {
    LAYER_NORM(EMBEDDING, "merged"),
    LINEAR(EMBEDDING, "inner", "merged"),
    LINEAR(EMBEDDING, "text_config.hidden_size", "inner // 2"),
    END,
};
static const struct mw_family_tower aya_towers[] = {
    {.key = "text_config", .family = "cohere2", .is_text = true},
    {.key = "vision_config", .family = "siglip_vision_model"},
    END,
};

/* --- Qwen3-VL -------------------------------------------------------------------------------- */

/* Some layers give the decoder's first ones what they see, each by a merger of its own. */
static const struct mw_family_let qwen3_vision_lets[] = {
    {"hidden_size", "1152", false},
    {"intermediate_size", "4304", false},
    {"depth", "27", false},
    {"num_heads", "16", false},
    {"in_channels", "3", false},
    {"patch_size", "16", false},
    {"temporal_patch_size", "2", false},
    {"spatial_merge_size", "2", false},
    {"out_hidden_size", "3584", false},
    {"num_position_embeddings", "2304", false},
    {"patch", "in_channels * temporal_patch_size * patch_size * patch_size", false},
    {"merged", "spatial_merge_size * spatial_merge_size * hidden_size", false},
    END,
};
static const struct mw_family_key qwen3_vision_keys[] = {
    {"hidden_size", MW_DIMENSION_HIDDEN},
    {"intermediate_size", MW_DIMENSION_FFN},
    {"depth", MW_DIMENSION_LAYERS},
    {"num_heads", MW_DIMENSION_HEADS},
    {"0", MW_DIMENSION_VOCAB},
    {"1024", MW_DIMENSION_SEQ},
    END,
};
#define DEEP .count = "len(deepstack_visual_indexes)"
static const struct mw_family_tensor qwen3_vision_tensors[] = {
    LINEAR(EMBEDDING, "hidden_size", "patch"),
    TABLE("num_position_embeddings", "hidden_size"),
    LAYER_NORM(EMBEDDING, "hidden_size"),
    LINEAR(EMBEDDING, "merged", "merged"),
    LINEAR(EMBEDDING, "out_hidden_size", "merged"),
    LAYER_NORM(EMBEDDING, "merged", DEEP),
    LINEAR(EMBEDDING, "merged", "merged", DEEP),
    LINEAR(EMBEDDING, "out_hidden_size", "merged", DEEP),
    END,
};
static const struct mw_family_tensor qwen3_vision_layer[] = {
    IMAGE_LAYER("hidden_size", "intermediate_size"),
    END,
};
static const struct mw_family_stack qwen3_vision_stacks[] = {
    {.name = "image layers",
     .layers = "depth",
     .tokens = "1024",
     .heads = "num_heads",
     .bidirectional = true,
     .tensors = qwen3_vision_layer},
    END,
};
static const struct mw_family_let untied_lets[] = {{"tie_word_embeddings", "0", false}, END};
static const struct mw_family_tower qwen3_vl_towers[] = {
    {.key = "text_config", .family = "qwen3", .is_text = true},
    {.key = "vision_config", .family = "qwen3_vl_vision"},
    END,
};
static const struct mw_family_tower qwen3_vl_moe_towers[] = {
    {.key = "text_config", .family = "qwen3_moe", .is_text = true},
    {.key = "vision_config", .family = "qwen3_vl_vision"},
    END,
};

/* --- Llama 4 --------------------------------------------------------------------------------- */

static const struct mw_family_let llama4_vision_lets[] = {
    {"hidden_size", "768", false},
    {"intermediate_size", "5632", false},
    {"num_hidden_layers", "34", false},
    {"num_attention_heads", "16", false},
    {"image_size", "448", false},
    {"patch_size", "14", false},
    {"projector_input_dim", "4096", false},
    {"projector_output_dim", "4096", false},
    {"vision_output_dim", "7680", false},
    {"pixel_shuffle_ratio", "0.5", false},
    {"multi_modal_projector_bias", "0", false},
    {"projector_dropout", "0", false},
    PATCHES,
    END,
};
static const struct mw_family_key llama4_vision_keys[] = {IMAGE_KEYS("patches + 1"), END};
static const struct mw_family_tensor llama4_vision_tensors[] = {
    MATRIX(EMBEDDING, "hidden_size", "patch"),
    VECTOR(EMBEDDING, "(patches + 2) * hidden_size"),
    LAYER_NORM(EMBEDDING, "2 * hidden_size"),
    MATRIX(EMBEDDING, "projector_input_dim", "intermediate_size"),
    MATRIX(EMBEDDING, "projector_output_dim", "projector_output_dim"),
    END,
};
static const struct mw_family_tensor llama4_vision_layer[] = {
    IMAGE_LAYER("hidden_size", "intermediate_size"),
    END,
};
static const struct mw_family_stack llama4_vision_stacks[] = {
    IMAGE_STACK("patches + 1", llama4_vision_layer),
    END,
};
static const struct mw_family_tensor llama4_tensors[] = {
    MATRIX(EMBEDDING, "text_config.hidden_size", "vision_config.vision_output_dim"),
    END,
};
static const struct mw_family_tower llama4_towers[] = {
    {.key = "text_config", .family = "llama4_text", .is_text = true},
    {.key = "vision_config", .family = "llama4_vision_model"},
    END,
};

#define VISION                                                                                     \
    .traits = {.mlp_matrices = 2, .norms_per_layer = 2, .norm_bias = true, .own_heads = true},     \
    .why_not = "images"
#define SEES(lets_, tensors_, towers_)                                                             \
    .lets = lets_, .tensors = tensors_, .towers = towers_,                                         \
    .approximates = "a sequence of text is planned with one image", .why_not = "images"
#define TOWER(name_)                                                                               \
    .keys = name_##_keys, .lets = name_##_lets, .tensors = name_##_tensors,                        \
    .stacks = name_##_stacks, .task = "Model", VISION

const struct mw_family mw_family_views[] = {
    {.name = "deit", .class_prefix = "DeiT", TOWER(deit)},
    {.name = "beit",
     .class_prefix = "Beit",
     .refused = "task == 'SemanticSegmentation'",
     .refused_why = "heads that segment are not supported yet",
     TOWER(beit)},
    {.name = "vit_mae",
     .class_prefix = "ViTMAE",
     .keys = beit_keys,
     .lets = mae_lets,
     .tensors = mae_tensors,
     .stacks = mae_stacks,
     .task = "Pixels",
     VISION},
    {.name = "pixtral", .class_prefix = "Pixtral", TOWER(pixtral)},
    {.name = "mistral3",
     .class_prefix = "Mistral3For",
     SEES(mistral3_lets, mistral3_tensors, mistral3_towers)},
    {.name = "internvl_vision", TOWER(internvl_vision)},
    {.name = "internvl",
     .class_prefix = "InternVLFor",
     SEES(internvl_lets, internvl_tensors, internvl_towers)},
    {.name = "aya_vision", .class_prefix = "AyaVisionFor", SEES(aya_lets, aya_tensors, aya_towers)},
    {.name = "qwen3_vl_vision", TOWER(qwen3_vision)},
    {.name = "qwen3_vl_moe_vision", .same = "qwen3_vl_vision"},
    {.name = "qwen3_vl_text", .same = "qwen3"},
    {.name = "qwen3_vl_moe_text", .same = "qwen3_moe"},
    {.name = "qwen3_vl", .class_prefix = "Qwen3VLFor", SEES(untied_lets, NULL, qwen3_vl_towers)},
    {.name = "qwen3_vl_moe",
     .class_prefix = "Qwen3VLMoeFor",
     SEES(untied_lets, NULL, qwen3_vl_moe_towers)},
    {.name = "llama4_vision_model", TOWER(llama4_vision)},
    {.name = "llama4",
     .class_prefix = "Llama4ForConditional",
     SEES(untied_lets, llama4_tensors, llama4_towers)},
    END,
};
