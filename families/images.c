/* Models of images, and of images and text: a tower, what carries its result over, a decoder. */
#include "families/rows.h"

/* --- a transformer of image patches ---------------------------------------------------------- */

/* LayerNorm before attention and MLP, biases on all products. */
#define IMAGE_LAYER(h, f)                                                                          \
    LAYER_NORM(NORM1, h), LINEAR(QKV, "3 * " h, h), LINEAR(PROJECTION, h, h),                      \
        LAYER_NORM(NORM2, h), LINEAR(UP, f, h), LINEAR(DOWN, h, f)

#define IMAGE_LETS                                                                                 \
    {"hidden_size", "768", false}, {"intermediate_size", "3072", false},                           \
        {"num_hidden_layers", "12", false}, {"num_attention_heads", "12", false},                  \
        {"num_channels", "3", false}, {"image_size", "224", false},                                \
        {"patches", "(image_size // patch_size) * (image_size // patch_size)", false},             \
    {                                                                                              \
        "patch", "num_channels * patch_size * patch_size", false                                   \
    }
#define IMAGE_KEYS(length)                                                                         \
    {"hidden_size", MW_DIMENSION_HIDDEN}, {"intermediate_size", MW_DIMENSION_FFN},                 \
        {"num_hidden_layers", MW_DIMENSION_LAYERS}, {"num_attention_heads", MW_DIMENSION_HEADS},   \
        {"0", MW_DIMENSION_VOCAB},                                                                 \
    {                                                                                              \
        length, MW_DIMENSION_SEQ                                                                   \
    }

static const struct mw_family_tensor image_layer[] = {
    IMAGE_LAYER("hidden_size", "intermediate_size"),
    END,
};
#define IMAGE_STACK(length, tensors_)                                                              \
    {                                                                                              \
        .name = "image layers", .layers = "num_hidden_layers", .tokens = length,                   \
        .heads = "num_attention_heads", .bidirectional = true, .tensors = tensors_                 \
    }
#define CLASSES "task == 'ImageClassification'"

static const struct mw_family_let vit_lets[] = {
    IMAGE_LETS,
    {"patch_size", "16", false},
    {"qkv_bias", "1", false},
    END,
};
static const struct mw_family_key vit_keys[] = {IMAGE_KEYS("patches + 1"), END};
static const struct mw_family_tensor vit_tensors[] = {
    LINEAR(EMBEDDING, "hidden_size", "patch"),
    VECTOR(EMBEDDING, "(patches + 2) * hidden_size"),
    VECTOR(EMBEDDING, "hidden_size", .when = "task == 'MaskedImageModeling'"),
    LAYER_NORM(FINAL_NORM, "hidden_size"),
    LINEAR(LOGITS, "pooler_output_size ?? hidden_size", "hidden_size", .when = "task == 'Model'",
           .table = true),
    LINEAR(LOGITS, "num_labels", "hidden_size", .when = CLASSES, .table = true),
    LINEAR(LOGITS, "encoder_stride * encoder_stride * num_channels", "hidden_size",
           .when = "task == 'MaskedImageModeling'"),
    END,
};
static const struct mw_family_tensor vit_layer[] = {
    LAYER_NORM(NORM1, "hidden_size"),
    MATRIX(QKV, "3 * hidden_size", "hidden_size", .bias = "qkv_bias"),
    LINEAR(PROJECTION, "hidden_size", "hidden_size"),
    LAYER_NORM(NORM2, "hidden_size"),
    LINEAR(UP, "intermediate_size", "hidden_size"),
    LINEAR(DOWN, "hidden_size", "intermediate_size"),
    END,
};
static const struct mw_family_stack vit_stacks[] = {
    IMAGE_STACK("patches + 1", vit_layer),
    END,
};

static const struct mw_family_let dinov2_lets[] = {
    {"patch_size", "14", false},
    {"mlp_ratio", "4", false},
    {"use_mask_token", "1", false},
    {"intermediate_size", "int(hidden_size * mlp_ratio)", false},
    {"swiglu", "((int(intermediate_size * 2 / 3) + 7) // 8) * 8", false},
    {"qkv_bias", "1", false},
    IMAGE_LETS,
    END,
};
static const struct mw_family_tensor dinov2_tensors[] = {
    LINEAR(EMBEDDING, "hidden_size", "patch"),
    VECTOR(EMBEDDING, "(patches + 2) * hidden_size"),
    VECTOR(EMBEDDING, "hidden_size", .when = "use_mask_token"),
    VECTOR(EMBEDDING, "(num_register_tokens ?? 4) * hidden_size",
           .when = "type == 'dinov2_with_registers'"),
    LAYER_NORM(FINAL_NORM, "hidden_size"),
    LINEAR(LOGITS, "num_labels", "2 * hidden_size", .when = CLASSES, .table = true),
    END,
};
static const struct mw_family_tensor dinov2_layer[] = {
    LAYER_NORM(NORM1, "hidden_size"),
    MATRIX(QKV, "3 * hidden_size", "hidden_size", .bias = "qkv_bias"),
    LINEAR(PROJECTION, "hidden_size", "hidden_size"),
    VECTOR(PROJECTION, "hidden_size"), /* scales of the residuals */
    LAYER_NORM(NORM2, "hidden_size"),
    LINEAR(UP, "use_swiglu_ffn ? 2 * swiglu : intermediate_size", "hidden_size"),
    LINEAR(DOWN, "hidden_size", "use_swiglu_ffn ? swiglu : intermediate_size"),
    VECTOR(DOWN, "hidden_size"),
    END,
};
static const struct mw_family_stack dinov2_stacks[] = {
    IMAGE_STACK("patches + 1", dinov2_layer),
    END,
};

/* --- CLIP, SigLIP: a tower of images, one of text -------------------------------------------- */

static const struct mw_family_let clip_vision_lets[] = {
    IMAGE_LETS,
    {"patch_size", "32", false},
    {"projection_dim", "512", false},
    {"vocab_size", "0", false},
    END,
};
static const struct mw_family_tensor clip_vision_tensors[] = {
    MATRIX(EMBEDDING, "hidden_size", "patch"),
    VECTOR(EMBEDDING, "(patches + 2) * hidden_size"),
    LAYER_NORM(EMBEDDING, "hidden_size"),
    LAYER_NORM(FINAL_NORM, "hidden_size"),
    MATRIX(LOGITS, "projection_dim", "hidden_size", .when = "task == 'Projection'", .table = true),
    END,
};
static const struct mw_family_stack clip_vision_stacks[] = {
    IMAGE_STACK("patches + 1", image_layer),
    END,
};

#define TEXT_KEYS                                                                                  \
    {"hidden_size", MW_DIMENSION_HIDDEN}, {"intermediate_size", MW_DIMENSION_FFN},                 \
        {"num_hidden_layers", MW_DIMENSION_LAYERS}, {"num_attention_heads", MW_DIMENSION_HEADS},   \
        {"vocab_size", MW_DIMENSION_VOCAB},                                                        \
    {                                                                                              \
        "max_position_embeddings", MW_DIMENSION_SEQ                                                \
    }

static const struct mw_family_let clip_text_lets[] = {
    {"vocab_size", "49408", false},       {"hidden_size", "512", false},
    {"intermediate_size", "2048", false}, {"num_hidden_layers", "12", false},
    {"num_attention_heads", "8", false},  {"max_position_embeddings", "77", false},
    {"projection_dim", "512", false},     END,
};
static const struct mw_family_let siglip_text_lets[] = {
    {"vocab_size", "32000", false},
    {"hidden_size", "768", false},
    {"intermediate_size", "3072", false},
    {"num_hidden_layers", "12", false},
    {"num_attention_heads", "12", false},
    {"max_position_embeddings", "64", false},
    {"projection_size", "hidden_size", false},
    END,
};
static const struct mw_family_key text_keys[] = {TEXT_KEYS, END};
static const struct mw_family_tensor siglip_text_tensors[] = {
    LINEAR(LOGITS, "projection_size", "hidden_size", .table = true),
    END,
};
static const struct mw_family_stack clip_text_stacks[] = {
    {.name = "text layers",
     .layers = "num_hidden_layers",
     .heads = "num_attention_heads",
     .tensors = image_layer},
    END,
};

static const struct mw_family_let siglip_vision_lets[] = {
    IMAGE_LETS,
    {"patch_size", "16", false},
    {"vision_use_head", "1", false},
    END,
};
static const struct mw_family_key siglip_vision_keys[] = {IMAGE_KEYS("patches"), END};
static const struct mw_family_tensor siglip_vision_tensors[] = {
    LINEAR(EMBEDDING, "hidden_size", "patch"),
    VECTOR(EMBEDDING, "patches * hidden_size"),
    LAYER_NORM(FINAL_NORM, "hidden_size"),
    /* a head that one learned query attends with */
    VECTOR(LOGITS, "hidden_size", .when = "vision_use_head"),
    LINEAR(LOGITS, "4 * hidden_size", "hidden_size", .when = "vision_use_head", .table = true),
    LAYER_NORM(LOGITS, "hidden_size", .when = "vision_use_head"),
    LINEAR(LOGITS, "intermediate_size", "hidden_size", .when = "vision_use_head", .table = true),
    LINEAR(LOGITS, "hidden_size", "intermediate_size", .when = "vision_use_head", .table = true),
    END,
};
static const struct mw_family_stack siglip_vision_stacks[] = {
    IMAGE_STACK("patches", image_layer),
    END,
};

#define ONE_IMAGE "a sequence of text is planned with one image"

static const struct mw_family_let no_lets[] = {{"tie_word_embeddings", "0", false}, END};

static const struct mw_family_let clip_lets[] = {{"projection_dim", "512", false}, END};
static const struct mw_family_tensor clip_tensors[] = {
    MATRIX(LOGITS, "projection_dim", "vision_config.hidden_size", .table = true),
    MATRIX(LOGITS, "projection_dim", "text_config.hidden_size", .table = true),
    VECTOR(LOGITS, "1"),
    END,
};
static const struct mw_family_tower clip_towers[] = {
    {.key = "text_config", .family = "clip_text_model", .is_text = true},
    {.key = "vision_config", .family = "clip_vision_model"},
    END,
};
static const struct mw_family_tensor siglip_tensors[] = {VECTOR(LOGITS, "2"), END};
static const struct mw_family_tower siglip_towers[] = {
    {.key = "text_config", .family = "siglip_text_model", .is_text = true},
    {.key = "vision_config", .family = "siglip_vision_model"},
    END,
};

/* --- decoders that see ----------------------------------------------------------------------- */

/* Two products with an activation between them, from the tower's width to the decoder's. */
static const struct mw_family_let llava_lets[] = {
    {"text_hidden", "text_config.hidden_size ?? 4096", false}, /* of LlamaConfig */
    {"multimodal_projector_bias", "1", false},
    {"features", "len(vision_feature_layer) ? len(vision_feature_layer) : 1", false},
    END,
};
static const struct mw_family_tensor llava_tensors[] = {
    MATRIX(EMBEDDING, "text_hidden", "features * vision_config.hidden_size",
           .bias = "multimodal_projector_bias"),
    MATRIX(EMBEDDING, "text_hidden", "text_hidden", .bias = "multimodal_projector_bias"),
    VECTOR(EMBEDDING, "text_hidden", .when = "type == 'llava_next' or type == 'llava_onevision'"),
    END,
};
static const struct mw_family_tower llava_towers[] = {
    {.key = "text_config", .family = "llama", .is_text = true},
    {.key = "vision_config", .family = "clip_vision_model"},
    END,
};
static const struct mw_family_tower onevision_towers[] = {
    {.key = "text_config", .family = "qwen2", .is_text = true},
    {.key = "vision_config", .family = "siglip_vision_model"},
    END,
};

static const struct mw_family_let paligemma_lets[] = {
    {"tie_word_embeddings", "0", false},
    {"use_bidirectional_attention", "1", false},
    END,
};
static const struct mw_family_tensor paligemma_tensors[] = {
    LINEAR(EMBEDDING, "projection_dim ?? vision_config.projection_dim",
           "vision_config.hidden_size"),
    END,
};
static const struct mw_family_tower paligemma_towers[] = {
    {.key = "text_config", .family = "gemma", .is_text = true},
    {.key = "vision_config", .family = "siglip_vision_model"},
    END,
};

/* A file from before vision has the decoder's keys alone. */
static const struct mw_family_tensor gemma3_tensors[] = {
    VECTOR(EMBEDDING, "vision_config.hidden_size", .when = "vision_config"),
    MATRIX(EMBEDDING, "text_config.hidden_size", "vision_config.hidden_size",
           .when = "vision_config"),
    END,
};
static const struct mw_family_tower gemma3_towers[] = {
    {.key = "text_config", .family = "gemma3_text", .is_text = true},
    {.key = "vision_config", .family = "siglip_vision_model", .when = "vision_config"},
    END,
};

static const struct mw_family_let idefics_lets[] = {{"scale_factor", "2", false}, END};
static const struct mw_family_let idefics_vision_lets[] = {
    {"hidden_size", "1152", false},
    {"num_attention_heads", "16", false},
    IMAGE_LETS,
    {"patch_size", "32", false},
    END,
};
static const struct mw_family_tensor idefics_vision_tensors[] = {
    LINEAR(EMBEDDING, "hidden_size", "patch"),
    VECTOR(EMBEDDING, "patches * hidden_size"),
    LAYER_NORM(FINAL_NORM, "hidden_size"),
    END,
};
static const struct mw_family_tensor idefics_tensors[] = {
    MATRIX(EMBEDDING, "text_config.hidden_size",
           "vision_config.hidden_size * scale_factor * scale_factor"),
    END,
};
static const struct mw_family_tower idefics_towers[] = {
    {.key = "text_config", .family = "llama", .is_text = true},
    {.key = "vision_config", .family = "idefics3_vision"},
    END,
};
static const struct mw_family_tower smolvlm_towers[] = {
    {.key = "text_config", .family = "llama", .is_text = true},
    {.key = "vision_config", .family = "smolvlm_vision"},
    END,
};

/* Qwen2-VL: patches in space and time, four of them merged into one token of the decoder. */
#define QWEN_VISION_LETS                                                                           \
    {"depth", "32", false}, {"num_heads", "16", false}, {"in_channels", "in_chans ?? 3", false},   \
        {"patch_size", "14", false}, {"temporal_patch_size", "2", false},                          \
        {"spatial_merge_size", "2", false},                                                        \
        {"patch", "in_channels * temporal_patch_size * patch_size * patch_size", false},           \
    {                                                                                              \
        "merged", "spatial_merge_size * spatial_merge_size * width", false                         \
    }
static const struct mw_family_let qwen2_vision_lets[] = {
    {"embed_dim", "1280", false},
    {"hidden_size", "3584", false},
    {"mlp_ratio", "4", false},
    {"width", "embed_dim", false},
    {"inner", "int(embed_dim * mlp_ratio)", false},
    QWEN_VISION_LETS,
    END,
};
static const struct mw_family_let qwen25_vision_lets[] = {
    {"hidden_size", "3584", false},
    {"out_hidden_size", "3584", false},
    {"intermediate_size", "3420", false},
    {"width", "hidden_size", false},
    {"inner", "intermediate_size", false},
    {"window_size", "112", false},
    QWEN_VISION_LETS,
    END,
};
#define QWEN_VISION_KEYS                                                                           \
    {"width", MW_DIMENSION_HIDDEN}, {"inner", MW_DIMENSION_FFN}, {"depth", MW_DIMENSION_LAYERS},   \
        {"num_heads", MW_DIMENSION_HEADS}, {"0", MW_DIMENSION_VOCAB},                              \
    {                                                                                              \
        "1024", MW_DIMENSION_SEQ                                                                   \
    }
static const struct mw_family_key qwen_vision_keys[] = {QWEN_VISION_KEYS, END};
static const struct mw_family_tensor qwen2_vision_tensors[] = {
    MATRIX(EMBEDDING, "width", "patch"),
    LAYER_NORM(EMBEDDING, "width"),
    LINEAR(EMBEDDING, "merged", "merged"),
    LINEAR(EMBEDDING, "hidden_size", "merged"),
    END,
};
static const struct mw_family_tensor qwen2_vision_layer[] = {IMAGE_LAYER("width", "inner"), END};
static const struct mw_family_tensor qwen25_vision_tensors[] = {
    MATRIX(EMBEDDING, "width", "patch"),
    VECTOR(EMBEDDING, "width"),
    LINEAR(EMBEDDING, "merged", "merged"),
    LINEAR(EMBEDDING, "out_hidden_size", "merged"),
    END,
};
static const struct mw_family_tensor qwen25_vision_layer[] = {
    VECTOR(NORM1, "width"),
    LINEAR(QKV, "3 * width", "width"),
    LINEAR(PROJECTION, "width", "width"),
    VECTOR(NORM2, "width"),
    LINEAR(UP, "2 * inner", "width"),
    LINEAR(DOWN, "width", "inner"),
    END,
};
#define QWEN_VISION_STACK(tensors_)                                                                \
    {                                                                                              \
        .name = "image layers", .layers = "depth", .tokens = "1024", .heads = "num_heads",         \
        .bidirectional = true, .tensors = tensors_                                                 \
    }
static const struct mw_family_stack qwen2_vision_stacks[] = {
    QWEN_VISION_STACK(qwen2_vision_layer),
    END,
};
/* Some of the layers see the whole image, the others windows of so many pixels. */
static const struct mw_family_stack qwen25_vision_stacks[] = {
    {.name = "image layers",
     .when = "layer in fullatt_block_indexes",
     .tokens = "1024",
     .heads = "num_heads",
     .bidirectional = true,
     .tensors = qwen25_vision_layer},
    {.name = "windowed image layers",
     .tokens = "1024",
     .heads = "num_heads",
     .window = "len(fullatt_block_indexes) ? (window_size // patch_size) * (window_size // "
               "patch_size) : 0",
     .bidirectional = true,
     .tensors = qwen25_vision_layer},
    END,
};
static const struct mw_family_tower qwen2_vl_towers[] = {
    {.key = "text_config", .family = "qwen2", .is_text = true},
    {.key = "vision_config", .family = "qwen2_vl_vision"},
    END,
};
static const struct mw_family_tower qwen25_vl_towers[] = {
    {.key = "text_config", .family = "qwen2", .is_text = true},
    {.key = "vision_config", .family = "qwen2_5_vl_vision"},
    END,
};
#define QWEN_IMAGE "a sequence of text is planned with one image of 1024 patches"

/* --- Llama 3.2 Vision: layers of cross attention among those of the decoder ------------------ */

static const struct mw_family_let mllama_text_lets[] = {
    {"hidden_size", "4096", false},
    {"intermediate_size", "14336", false},
    {"num_hidden_layers", "40", false},
    {"num_attention_heads", "32", false},
    {"num_key_value_heads", "8", false},
    {"vocab_size", "128256", false},
    {"max_position_embeddings", "131072", false},
    {"tie_word_embeddings", "0", false},
    {"dim", "hidden_size / num_attention_heads", false},
    END,
};
static const struct mw_family_key mllama_text_keys[] = {
    {"hidden_size", MW_DIMENSION_HIDDEN},
    {"intermediate_size", MW_DIMENSION_FFN},
    {"num_hidden_layers", MW_DIMENSION_LAYERS},
    {"num_attention_heads", MW_DIMENSION_HEADS},
    {"num_key_value_heads", MW_DIMENSION_KV_HEADS},
    {"vocab_size", MW_DIMENSION_VOCAB},
    {"max_position_embeddings", MW_DIMENSION_SEQ},
    {"tie_word_embeddings", MW_FLAG_TIED_EMBEDDING},
    END,
};
static const struct mw_family_tensor mllama_text_tensors[] = {
    TABLE("8", "hidden_size"), /* tokens that no text has */
    END,
};
#define MLLAMA_LAYER                                                                               \
    VECTOR(NORM1, "hidden_size"),                                                                  \
        MATRIX(QKV, "(num_attention_heads + 2 * num_key_value_heads) * dim", "hidden_size"),       \
        MATRIX(PROJECTION, "hidden_size", "num_attention_heads * dim"),                            \
        VECTOR(NORM2, "hidden_size"), MATRIX(UP, "2 * intermediate_size", "hidden_size"),          \
        MATRIX(DOWN, "hidden_size", "intermediate_size")
static const struct mw_family_tensor mllama_self[] = {MLLAMA_LAYER, END};
static const struct mw_family_tensor mllama_cross[] = {
    MLLAMA_LAYER,
    VECTOR(QKV, "2 * dim"),
    VECTOR(PROJECTION, "1"), /* gates */
    VECTOR(DOWN, "1"),
    END,
};
static const struct mw_family_stack mllama_text_stacks[] = {
    {.name = "cross attention",
     .when = "layer in cross_attention_layers",
     .heads = "num_attention_heads",
     .kv_heads = "num_key_value_heads",
     .bidirectional = true,
     .tensors = mllama_cross},
    {.name = "self attention",
     .heads = "num_attention_heads",
     .kv_heads = "num_key_value_heads",
     .tensors = mllama_self},
    END,
};

static const struct mw_family_let mllama_vision_lets[] = {
    {"hidden_size", "1280", false},
    {"intermediate_size", "5120", false},
    {"num_hidden_layers", "32", false},
    {"num_global_layers", "8", false},
    {"attention_heads", "16", false},
    {"image_size", "448", false},
    {"patch_size", "14", false},
    {"max_num_tiles", "4", false},
    {"ratios", "len(supported_aspect_ratios) ? len(supported_aspect_ratios) : 8", false},
    IMAGE_LETS,
    END,
};
static const struct mw_family_key mllama_vision_keys[] = {
    {"hidden_size", MW_DIMENSION_HIDDEN},
    {"intermediate_size", MW_DIMENSION_FFN},
    {"num_hidden_layers + num_global_layers", MW_DIMENSION_LAYERS},
    {"attention_heads", MW_DIMENSION_HEADS},
    {"0", MW_DIMENSION_VOCAB},
    {"max_num_tiles * (patches + 1)", MW_DIMENSION_SEQ},
    END,
};
static const struct mw_family_tensor mllama_vision_tensors[] = {
    VECTOR(EMBEDDING, "hidden_size"),
    MATRIX(EMBEDDING, "hidden_size", "patch"),
    TABLE("patches + 1", "hidden_size"),
    TABLE("ratios + 1", "max_num_tiles * (patches + 1) * hidden_size"),
    TABLE("2 * (ratios + 1)", "max_num_tiles * hidden_size"),
    VECTOR(EMBEDDING, "3"), /* gates */
    LAYER_NORM(EMBEDDING, "2 * hidden_size"),
    END,
};
#define MLLAMA_VISION_LAYER                                                                        \
    LAYER_NORM(NORM1, "hidden_size"), MATRIX(QKV, "3 * hidden_size", "hidden_size"),               \
        MATRIX(PROJECTION, "hidden_size", "hidden_size"), LAYER_NORM(NORM2, "hidden_size"),        \
        LINEAR(UP, "intermediate_size", "hidden_size"),                                            \
        LINEAR(DOWN, "hidden_size", "intermediate_size")
static const struct mw_family_tensor mllama_vision_layer[] = {MLLAMA_VISION_LAYER, END};
static const struct mw_family_tensor mllama_global_layer[] = {
    MLLAMA_VISION_LAYER,
    VECTOR(PROJECTION, "1"),
    VECTOR(DOWN, "1"),
    END,
};
static const struct mw_family_stack mllama_vision_stacks[] = {
    {.name = "image layers",
     .layers = "num_hidden_layers",
     .tokens = "max_num_tiles * (patches + 1)",
     .heads = "attention_heads",
     .bidirectional = true,
     .tensors = mllama_vision_layer},
    {.name = "global image layers",
     .layers = "num_global_layers",
     .tokens = "max_num_tiles * (patches + 1)",
     .heads = "attention_heads",
     .bidirectional = true,
     .tensors = mllama_global_layer},
    END,
};
static const struct mw_family_tensor mllama_tensors[] = {
    LINEAR(EMBEDDING, "text_config.hidden_size", "vision_config.vision_output_dim ?? 7680"),
    END,
};
/* Never tied, as the table has tokens that the logits lack. */
static const struct mw_family_key mllama_keys[] = {{"0", MW_FLAG_TIED_EMBEDDING}, END};
static const struct mw_family_tower mllama_towers[] = {
    {.key = "text_config", .family = "mllama_text_model", .is_text = true},
    {.key = "vision_config", .family = "mllama_vision_model"},
    END,
};

#define VISION                                                                                     \
    .why_not = "layers over an image",                                                             \
    .traits = {.mlp_matrices = 2, .norms_per_layer = 2, .own_heads = true}
#define SEES .why_not = "a tower of images"

const struct mw_family mw_family_images[] = {
    {.name = "vit",
     .class_prefix = "ViTFor",
     .keys = vit_keys,
     .lets = vit_lets,
     .tensors = vit_tensors,
     .stacks = vit_stacks,
     .task = "ImageClassification",
     VISION},
    {.name = "dinov2",
     .class_prefix = "Dinov2",
     .keys = vit_keys,
     .lets = dinov2_lets,
     .tensors = dinov2_tensors,
     .stacks = dinov2_stacks,
     .task = "Model",
     VISION},
    {.name = "dinov2_with_registers",
     .class_prefix = "Dinov2WithRegisters",
     .keys = vit_keys,
     .lets = dinov2_lets,
     .tensors = dinov2_tensors,
     .stacks = dinov2_stacks,
     .task = "Model",
     VISION},
    {.name = "clip_vision_model",
     .class_prefix = "CLIPVision",
     .keys = vit_keys,
     .lets = clip_vision_lets,
     .tensors = clip_vision_tensors,
     .stacks = clip_vision_stacks,
     .task = "Model",
     VISION},
    {.name = "siglip_vision_model",
     .class_prefix = "SiglipVision",
     .keys = siglip_vision_keys,
     .lets = siglip_vision_lets,
     .tensors = siglip_vision_tensors,
     .stacks = siglip_vision_stacks,
     .task = "Model",
     VISION},
    {.name = "clip_text_model",
     .class_prefix = "CLIPText",
     .traits = {GPT2_BLOCK(2), .learned_positions = true, .own_heads = true},
     .keys = text_keys,
     .lets = clip_text_lets,
     .stacks = clip_text_stacks,
     .task = "Model",
     .why_not = "no logits over the vocabulary"},
    {.name = "siglip_text_model",
     .class_prefix = "SiglipText",
     .traits = {GPT2_BLOCK(2), .learned_positions = true, .own_heads = true},
     .keys = text_keys,
     .lets = siglip_text_lets,
     .tensors = siglip_text_tensors,
     .stacks = clip_text_stacks,
     .task = "Model",
     .why_not = "no logits over the vocabulary"},
    {.name = "clip",
     .class_prefix = "CLIPModel",
     .lets = clip_lets,
     .tensors = clip_tensors,
     .towers = clip_towers,
     .task = "Model",
     .approximates = ONE_IMAGE,
     SEES},
    {.name = "siglip",
     .class_prefix = "SiglipModel",
     .lets = no_lets,
     .tensors = siglip_tensors,
     .towers = siglip_towers,
     .task = "Model",
     .approximates = ONE_IMAGE,
     SEES},
    {.name = "llava",
     .class_prefix = "LlavaFor",
     .lets = llava_lets,
     .tensors = llava_tensors,
     .towers = llava_towers,
     .approximates = ONE_IMAGE,
     SEES},
    {.name = "llava_next",
     .class_prefix = "LlavaNextFor",
     .lets = llava_lets,
     .tensors = llava_tensors,
     .towers = llava_towers,
     .approximates = ONE_IMAGE,
     SEES},
    {.name = "llava_onevision",
     .class_prefix = "LlavaOnevisionFor",
     .lets = llava_lets,
     .tensors = llava_tensors,
     .towers = onevision_towers,
     .approximates = ONE_IMAGE,
     SEES},
    {.name = "paligemma",
     .class_prefix = "PaliGemmaFor",
     .lets = paligemma_lets,
     .tensors = paligemma_tensors,
     .towers = paligemma_towers,
     .approximates = ONE_IMAGE "; attention to image and prompt is counted as causal",
     SEES},
    {.name = "gemma3",
     .class_prefix = "Gemma3ForConditional",
     .lets = no_lets,
     .tensors = gemma3_tensors,
     .towers = gemma3_towers,
     .approximates = ONE_IMAGE,
     SEES},
    {.name = "idefics3_vision",
     .keys = siglip_vision_keys,
     .lets = idefics_vision_lets,
     .tensors = idefics_vision_tensors,
     .stacks = siglip_vision_stacks,
     .task = "Model",
     VISION},
    {.name = "smolvlm_vision", .same = "idefics3_vision"},
    {.name = "idefics3",
     .class_prefix = "Idefics3For",
     .lets = idefics_lets,
     .tensors = idefics_tensors,
     .towers = idefics_towers,
     .approximates = ONE_IMAGE,
     SEES},
    {.name = "smolvlm",
     .class_prefix = "SmolVLMFor",
     .lets = idefics_lets,
     .tensors = idefics_tensors,
     .towers = smolvlm_towers,
     .approximates = ONE_IMAGE,
     SEES},
    {.name = "qwen2_vl_vision",
     .keys = qwen_vision_keys,
     .lets = qwen2_vision_lets,
     .tensors = qwen2_vision_tensors,
     .stacks = qwen2_vision_stacks,
     .task = "Model",
     VISION},
    {.name = "qwen2_5_vl_vision",
     .keys = qwen_vision_keys,
     .lets = qwen25_vision_lets,
     .tensors = qwen25_vision_tensors,
     .stacks = qwen25_vision_stacks,
     .task = "Model",
     VISION},
    {.name = "qwen2_vl",
     .class_prefix = "Qwen2VLFor",
     .lets = no_lets,
     .towers = qwen2_vl_towers,
     .approximates = QWEN_IMAGE,
     SEES},
    {.name = "qwen2_5_vl",
     .class_prefix = "Qwen2_5_VLFor",
     .lets = no_lets,
     .towers = qwen25_vl_towers,
     .approximates = QWEN_IMAGE,
     SEES},
    {.name = "qwen2_vl_text", .same = "qwen2"},
    {.name = "qwen2_5_vl_text", .same = "qwen2"},
    {.name = "mllama_text_model",
     .class_prefix = "MllamaForCausal",
     .traits = {LLAMA_BLOCK(2)},
     .keys = mllama_text_keys,
     .lets = mllama_text_lets,
     .tensors = mllama_text_tensors,
     .stacks = mllama_text_stacks,
     .approximates = "cross attention sees as many keys as the text has tokens",
     .why_not = "cross attention"},
    {.name = "mllama_vision_model",
     .keys = mllama_vision_keys,
     .lets = mllama_vision_lets,
     .tensors = mllama_vision_tensors,
     .stacks = mllama_vision_stacks,
     .task = "Model",
     VISION},
    {.name = "mllama",
     .class_prefix = "MllamaForConditional",
     .keys = mllama_keys,
     .lets = no_lets,
     .tensors = mllama_tensors,
     .towers = mllama_towers,
     .approximates = ONE_IMAGE,
     SEES},
    END,
};
