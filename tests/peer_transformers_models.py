"""The models that peer_transformers.py builds: type, variant, class, what differs from defaults."""

SMALL = {"vocab_size": 1009, "hidden_size": 96, "num_hidden_layers": 5, "num_attention_heads": 6,
         "intermediate_size": 200}
GROUPED = {**SMALL, "num_key_value_heads": 2}
WIDE = {**GROUPED, "head_dim": 24, "tie_word_embeddings": True}
GPT = {"vocab_size": 1009, "n_embd": 96, "n_layer": 5, "n_head": 6, "n_positions": 128}
LABELS = {"num_labels": 7}


def decoders(kind, prefix, *more, base=None):
    """As the defaults are, tied and untied, a bare model, and what else is given."""
    base = GROUPED if base is None else base
    rows = [(kind, "plain", prefix + "ForCausalLM", base),
            (kind, "tied", prefix + "ForCausalLM", {**base, "tie_word_embeddings": True}),
            (kind, "untied", prefix + "ForCausalLM", {**base, "tie_word_embeddings": False}),
            (kind, "bare", prefix + "Model", base)]
    for number, changes in enumerate(more):
        rows.append((kind, f"other{number + 1}", prefix + "ForCausalLM", {**base, **changes}))
    return rows


def classifiers(kind, prefix, base=None):
    base = GROUPED if base is None else base
    return [(kind, "classes", prefix + "ForSequenceClassification", {**base, **LABELS}),
            (kind, "tokens", prefix + "ForTokenClassification", {**base, **LABELS})]


BIAS = {"attention_bias": True}
BOTH = {"attention_bias": True, "mlp_bias": True}
HEAD = {"head_dim": 24}

LATENT = {**SMALL, "num_key_value_heads": 6, "moe_intermediate_size": 56, "q_lora_rank": 40,
          "kv_lora_rank": 28, "qk_rope_head_dim": 8, "qk_nope_head_dim": 12, "v_head_dim": 20,
          "n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1,
          "first_k_dense_replace": 1}
DOTS = {**GROUPED, "n_routed_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 56,
        "n_shared_experts": 1, "first_k_dense_replace": 1}
DBRX = {"vocab_size": 1009, "d_model": 96, "n_heads": 6, "n_layers": 5, "max_seq_len": 128,
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 10000.0},
        "ffn_config": {"ffn_hidden_size": 56, "moe_num_experts": 5, "moe_top_k": 2}}

SSM = {"vocab_size": 1009, "hidden_size": 96, "num_hidden_layers": 5}
NEMOTRON = {"vocab_size": 1009, "hidden_size": 96, "num_attention_heads": 6,
            "num_key_value_heads": 2, "head_dim": 20, "intermediate_size": 200,
            "layers_block_type": ["mamba", "moe", "attention", "mlp", "mamba"],
            "ssm_state_size": 20, "mamba_num_heads": 12, "mamba_head_dim": 16, "n_groups": 2,
            "n_routed_experts": 4, "moe_intermediate_size": 56,
            "moe_shared_expert_intermediate_size": 40}
DEBERTA = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 16,
           "position_biased_input": False}
XLNET = {"vocab_size": 1009, "d_model": 96, "n_layer": 5, "n_head": 6, "d_inner": 200}
T5 = {"vocab_size": 1009, "d_model": 96, "d_kv": 20, "d_ff": 200, "num_layers": 4, "num_heads": 6}
BART = {"vocab_size": 1009, "d_model": 96, "encoder_layers": 4, "decoder_layers": 3,
        "encoder_attention_heads": 6, "decoder_attention_heads": 4, "encoder_ffn_dim": 200,
        "decoder_ffn_dim": 220, "max_position_embeddings": 128}
IMAGE = {"hidden_size": 64, "intermediate_size": 130, "num_hidden_layers": 3,
         "num_attention_heads": 4, "image_size": 56, "patch_size": 14}
DINO = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "image_size": 56}
CLIP_TEXT = {**SMALL, "max_position_embeddings": 40}


def encoders(kind, prefix, *changes, base=None, more=(), bare=False):
    base = SMALL if base is None else base
    tasks = ["MaskedLM", "SequenceClassification", "TokenClassification", "QuestionAnswering",
             "MultipleChoice", *more]
    rows = [(kind, task.lower(), f"{prefix}For{task}",
             {**base, **(LABELS if "Classification" in task else {})}) for task in tasks]
    rows.append((kind, "bare", prefix + "Model", base))
    for number, change in enumerate(changes):
        for suffix in ("ForMaskedLM", "Model"):
            rows.append((kind, f"other{number + 1}{suffix.lower()}", prefix + suffix,
                         {**base, **change}))
    return rows


def pairs(kind, prefix, *changes, base, lm=None):
    lm = lm or prefix + "ForConditionalGeneration"
    rows = [(kind, "plain", lm, base), (kind, "bare", prefix + "Model", base),
            (kind, "untied", lm, {**base, "tie_word_embeddings": False})]
    for number, change in enumerate(changes):
        rows.append((kind, f"other{number + 1}", lm, {**base, **change}))
    return rows


def seeing(kind, prefix, text, vision, *changes):
    lm = prefix + "ForConditionalGeneration"
    base = {"text_config": text, "vision_config": vision}
    rows = [(kind, "plain", lm, base), (kind, "bare", prefix + "Model", base),
            (kind, "tied", lm, {**base, "tie_word_embeddings": True}),
            (kind, "texttied", lm, {**base, "text_config": {**text,
                                                            "tie_word_embeddings": True}})]
    for number, change in enumerate(changes):
        rows.append((kind, f"other{number + 1}", lm, {**base, **change}))
    return rows


QWEN3_EYES = {"hidden_size": 64, "intermediate_size": 130, "depth": 3, "num_heads": 4,
              "out_hidden_size": 96, "patch_size": 8, "num_position_embeddings": 100,
              "deepstack_visual_indexes": [0, 2]}


# Types whose products PyTorch's counter finds as memwall counts them.  Others compute what it has
# no formula for, or more than they need: scans in loops, all experts for all tokens.
COUNTED = set("""
albert apertus arcee bart bert biogpt bitnet bloom camembert codegen cohere cohere2 ctrl
deepseek_v2 deepseek_v3 distilbert dots1 electra ernie4_5 ernie4_5_moe exaone4 falcon
gemma gemma2 gemma3_text glm glm4 glm4_moe gpt2 gpt_bigcode gpt_neo gpt_neox gpt_oss gptj
granite granitemoe granitemoeshared helium hunyuan_v1_dense hunyuan_v1_moe llama m2m_100
marian mbart ministral mistral mixtral modernbert mpt mt5 nemotron olmo olmo2 olmo3 olmoe
openai-gpt opt pegasus persimmon phi phi3 phimoe qwen2 qwen2_moe qwen3 qwen3_moe roberta
seed_oss smollm3 stablelm starcoder2 t5 umt5 vaultgemma whisper xglm xlm-roberta
""".split())


MODELS = [
    # those that run
    ("gpt2", "plain", "GPT2LMHeadModel", GPT),
    ("gpt2", "inner", "GPT2LMHeadModel", {**GPT, "n_inner": 100, "tie_word_embeddings": False}),
    ("gpt2", "bare", "GPT2Model", GPT),
    ("gpt2", "classes", "GPT2ForSequenceClassification", {**GPT, **LABELS}),
    *decoders("llama", "Llama", BOTH, HEAD),
    *classifiers("llama", "Llama"),
    ("llama", "answers", "LlamaForQuestionAnswering", GROUPED),
    *decoders("mistral", "Mistral", HEAD),
    *classifiers("mistral", "Mistral"),
    *decoders("mixtral", "Mixtral", {"num_local_experts": 3}),
    *decoders("qwen2", "Qwen2"),
    *classifiers("qwen2", "Qwen2"),
    *decoders("qwen3", "Qwen3", BIAS, HEAD),
    *classifiers("qwen3", "Qwen3"),
    *decoders("gemma", "Gemma", BIAS, HEAD),
    *decoders("gemma2", "Gemma2", BIAS, HEAD),
    *decoders("gemma3_text", "Gemma3Text", base={**GROUPED})[-1:],
    ("gemma3_text", "plain", "Gemma3ForCausalLM", GROUPED),
    ("gemma3_text", "head", "Gemma3ForCausalLM", {**GROUPED, **HEAD}),
    *decoders("phi", "Phi", {"qk_layernorm": True}),
    *decoders("phi3", "Phi3", {"pad_token_id": 0}, base={**GROUPED, "pad_token_id": 0}),
    ("opt", "plain", "OPTForCausalLM", {**SMALL, "ffn_dim": 200}),
    ("opt", "narrow", "OPTForCausalLM",
     {**SMALL, "ffn_dim": 200, "word_embed_proj_dim": 48, "do_layer_norm_before": False}),
    ("opt", "unbiased", "OPTForCausalLM", {**SMALL, "ffn_dim": 200, "enable_bias": False}),
    ("bloom", "plain", "BloomForCausalLM",
     {"vocab_size": 1009, "hidden_size": 96, "n_layer": 5, "n_head": 6}),
    ("bloom", "bare", "BloomModel",
     {"vocab_size": 1009, "hidden_size": 96, "n_layer": 5, "n_head": 6}),
    ("bloom", "classes", "BloomForSequenceClassification",
     {"vocab_size": 1009, "hidden_size": 96, "n_layer": 5, "n_head": 6, **LABELS}),
    # decoders
    ("gpt_neo", "plain", "GPTNeoForCausalLM",
     {"vocab_size": 1009, "hidden_size": 96, "num_layers": 6, "num_heads": 6,
      "attention_types": [[["global", "local"], 3]]}),
    ("gpt_neo", "inner", "GPTNeoForCausalLM",
     {"vocab_size": 1009, "hidden_size": 96, "num_layers": 4, "num_heads": 6,
      "intermediate_size": 100, "attention_types": [[["global"], 4]],
      "tie_word_embeddings": False}),
    ("gpt_neo", "bare", "GPTNeoModel",
     {"vocab_size": 1009, "hidden_size": 96, "num_layers": 6, "num_heads": 6,
      "attention_types": [[["global", "local"], 3]]}),
    ("gpt_neo", "classes", "GPTNeoForSequenceClassification",
     {"vocab_size": 1009, "hidden_size": 96, "num_layers": 6, "num_heads": 6,
      "attention_types": [[["global", "local"], 3]], **LABELS}),
    *decoders("gptj", "GPTJ", {"n_inner": 100}, base={**GPT, "rotary_dim": 8}),
    ("gptj", "classes", "GPTJForSequenceClassification", {**GPT, **LABELS, "rotary_dim": 8}),
    *decoders("codegen", "CodeGen", {"n_inner": 100}, base={**GPT, "rotary_dim": 8}),
    *decoders("gpt_neox", "GPTNeoX", {"attention_bias": False}, {"use_parallel_residual": False},
              base=SMALL),
    *classifiers("gpt_neox", "GPTNeoX", SMALL),
    *decoders("gpt_bigcode", "GPTBigCode", {"multi_query": False}, {"n_inner": 100}, base=GPT),
    ("gpt_bigcode", "classes", "GPTBigCodeForSequenceClassification", {**GPT, **LABELS}),
    ("openai-gpt", "plain", "OpenAIGPTLMHeadModel", GPT),
    ("openai-gpt", "bare", "OpenAIGPTModel", GPT),
    ("openai-gpt", "long", "OpenAIGPTLMHeadModel", {**GPT, "n_positions": 200, "n_layer": 3}),
    ("ctrl", "plain", "CTRLLMHeadModel", {**GPT, "dff": 100}),
    ("ctrl", "bare", "CTRLModel", {**GPT, "dff": 100}),
    ("ctrl", "wide", "CTRLLMHeadModel", {**GPT, "dff": 300, "n_layer": 3}),
    *decoders("xglm", "XGLM", base={"vocab_size": 1009, "d_model": 96, "num_layers": 5,
                                    "attention_heads": 6, "ffn_dim": 200}),
    *decoders("biogpt", "BioGpt", base=SMALL),
    *decoders("falcon", "Falcon", {"multi_query": False}, {"bias": True},
              {"new_decoder_architecture": True, "num_kv_heads": 2},
              {"new_decoder_architecture": True, "num_kv_heads": 3, "num_ln_in_parallel_attn": 1},
              {"parallel_attn": False, "alibi": True, "bias": True},
              {"ffn_hidden_size": 100},
              base={"vocab_size": 1009, "hidden_size": 96, "num_hidden_layers": 5,
                    "num_attention_heads": 6}),
    *classifiers("falcon", "Falcon", {"vocab_size": 1009, "hidden_size": 96,
                                      "num_hidden_layers": 5, "num_attention_heads": 6}),
    *decoders("mpt", "Mpt", base={"vocab_size": 1009, "d_model": 96, "n_layers": 5, "n_heads": 6}),
    *decoders("starcoder2", "Starcoder2", {"use_bias": False}, {"sliding_window": 64}),
    *decoders("olmo", "Olmo", BIAS),
    *decoders("olmo2", "Olmo2", BIAS),
    *decoders("olmo3", "Olmo3", BIAS, {"num_hidden_layers": 8}),
    *decoders("cohere", "Cohere", BIAS, {"use_qk_norm": True}),
    *decoders("cohere2", "Cohere2", BIAS, HEAD),
    *decoders("granite", "Granite", BIAS, BOTH),
    *decoders("nemotron", "Nemotron", BIAS, BOTH, HEAD,
              base={**GROUPED, "head_dim": 16}),
    *decoders("arcee", "Arcee", BOTH, HEAD),
    *decoders("smollm3", "SmolLM3", BOTH,
              base={**GROUPED, "pad_token_id": 0}),
    *decoders("helium", "Helium", BIAS, base={**GROUPED, "head_dim": 16}),
    *decoders("glm", "Glm", {"attention_bias": False}, HEAD, base={**GROUPED, "pad_token_id": 0}),
    *decoders("glm4", "Glm4", BIAS, HEAD, base={**GROUPED, "pad_token_id": 0}),
    *decoders("seed_oss", "SeedOss", {"attention_out_bias": True}, {"mlp_bias": True}),
    *decoders("stablelm", "StableLm", {"use_qkv_bias": True}, {"qk_layernorm": True},
              {"use_parallel_residual": True}),
    *decoders("persimmon", "Persimmon", {"qk_layernorm": False}, base=SMALL),
    *decoders("exaone4", "Exaone4", {"sliding_window_pattern": 2}, HEAD),
    *decoders("ernie4_5", "Ernie4_5", {"use_bias": True}, HEAD),
    *decoders("ministral", "Ministral", base={**GROUPED, "head_dim": 20}),
    *decoders("hunyuan_v1_dense", "HunYuanDenseV1", BIAS, base={**GROUPED, "head_dim": 20}),
    *decoders("apertus", "Apertus", BIAS),
    *decoders("bitnet", "BitNet", BIAS),
    *decoders("diffllama", "DiffLlama", BIAS),
    *decoders("vaultgemma", "VaultGemma", BIAS, HEAD),
    # mixtures of experts
    *decoders("granitemoe", "GraniteMoe", BIAS, {"num_local_experts": 3}),
    *decoders("granitemoeshared", "GraniteMoeShared", {"shared_intermediate_size": 40}),
    *decoders("olmoe", "Olmoe", BIAS, {"num_experts": 3, "num_experts_per_tok": 1}),
    *decoders("phimoe", "Phimoe", BIAS, {"lm_head_bias": True}, {"num_local_experts": 3}),
    ("dbrx", "plain", "DbrxForCausalLM", DBRX),
    ("dbrx", "bare", "DbrxModel", DBRX),
    ("dbrx", "heads", "DbrxForCausalLM",
     {**DBRX, "attn_config": {**DBRX["attn_config"], "kv_n_heads": 3}}),
    *decoders("gpt_oss", "GptOss", {"num_local_experts": 3, "num_experts_per_tok": 2}, HEAD,
              {"num_hidden_layers": 4}),
    ("llama4_text", "plain", "Llama4ForCausalLM", {**GROUPED, "intermediate_size_mlp": 300}),
    ("llama4_text", "turns", "Llama4ForCausalLM",
     {**GROUPED, "intermediate_size_mlp": 300, "interleave_moe_layer_step": 2,
      "num_local_experts": 3, "num_hidden_layers": 6}),
    ("llama4_text", "biased", "Llama4ForCausalLM",
     {**GROUPED, "attention_bias": True, "attention_chunk_size": 32, "num_hidden_layers": 8}),
    *decoders("qwen2_moe", "Qwen2Moe", {"mlp_only_layers": [1, 3]}, {"decoder_sparse_step": 2},
              {"qkv_bias": False, "num_experts": 5}),
    *decoders("qwen3_moe", "Qwen3Moe", {"mlp_only_layers": [0]}, {"decoder_sparse_step": 2},
              BIAS, HEAD),
    *classifiers("qwen3_moe", "Qwen3Moe"),
    *decoders("deepseek_v2", "DeepseekV2", {"q_lora_rank": None}, {"first_k_dense_replace": 2},
              {"attention_bias": True, "n_shared_experts": 1}, base=LATENT),
    *decoders("deepseek_v3", "DeepseekV3", {"q_lora_rank": None}, {"first_k_dense_replace": 2},
              {"attention_bias": True, "n_shared_experts": 3}, base=LATENT),
    *decoders("glm4_moe", "Glm4Moe", BIAS, {"use_qk_norm": True}, {"first_k_dense_replace": 3},
              HEAD, {"n_shared_experts": 2, "n_routed_experts": 9}),
    *decoders("dots1", "Dots1", BIAS, {"first_k_dense_replace": 2}, base=DOTS),
    *decoders("ernie4_5_moe", "Ernie4_5_Moe", {"use_bias": True},
              {"moe_layer_start_index": 2, "moe_layer_end_index": 3, "moe_layer_interval": 1},
              {"moe_num_shared_experts": 0, "moe_num_experts": 7}),
    *decoders("hunyuan_v1_moe", "HunYuanMoEV1", BIAS,
              base={**GROUPED, "head_dim": 20, "num_experts": 3, "moe_topk": 2}),
    # state-space layers, convolutions, linear attention
    *decoders("mamba", "Mamba", {"use_bias": True}, {"use_conv_bias": False},
              {"expand": 3, "state_size": 12}, base=SSM),
    *decoders("falcon_mamba", "FalconMamba", {"use_bias": True, "time_step_rank": 9}, base=SSM),
    *decoders("mamba2", "Mamba2", {"use_bias": True}, {"n_groups": 4, "state_size": 20},
              base={**SSM, "num_heads": 12, "head_dim": 16, "n_groups": 2}),
    *decoders("jamba", "Jamba", {"attn_layer_period": 2, "attn_layer_offset": 1},
              {"num_experts": 1}, {"mamba_proj_bias": True, "mamba_conv_bias": False},
              base={**GROUPED, "num_hidden_layers": 8, "num_experts": 3, "mamba_d_state": 10,
                    "mamba_dt_rank": 7}),
    *decoders("bamba", "Bamba", {"attn_layer_indices": [2]}, BOTH, {"mamba_proj_bias": True},
              base={**GROUPED, "mamba_n_heads": 12, "mamba_d_head": 16, "mamba_d_state": 20,
                    "attn_layer_indices": [1, 4]}),
    *decoders("falcon_h1", "FalconH1", {"mamba_rms_norm": True}, BOTH, {"projectors_bias": True},
              {"mamba_d_ssm": None, "mamba_n_heads": 12, "mamba_d_head": 16},
              base={**GROUPED, "mamba_d_ssm": 64, "mamba_n_heads": 8, "mamba_d_head": 8,
                    "mamba_d_state": 20}),
    *decoders("granitemoehybrid", "GraniteMoeHybrid",
              {"layer_types": ["mamba", "attention", "mamba", "mamba", "attention"]},
              {"num_local_experts": 0}, BIAS,
              base={**GROUPED, "mamba_n_heads": 12, "mamba_d_head": 16, "mamba_d_state": 20,
                    "num_local_experts": 3}),
    ("nemotron_h", "plain", "NemotronHForCausalLM", NEMOTRON),
    ("nemotron_h", "tied", "NemotronHForCausalLM", {**NEMOTRON, "tie_word_embeddings": True}),
    ("nemotron_h", "bare", "NemotronHModel", {**NEMOTRON, "mlp_bias": True}),
    *decoders("lfm2", "Lfm2", {"conv_bias": True}, {"block_auto_adjust_ff_dim": False},
              {"block_multiple_of": 48},
              base={**GROUPED, "layer_types": ["conv", "conv", "full_attention", "conv",
                                               "full_attention"]}),
    *decoders("qwen3_next", "Qwen3Next", {"mlp_only_layers": [1, 2]}, BIAS, HEAD,
              base={**GROUPED, "num_hidden_layers": 8, "linear_num_key_heads": 2,
                    "linear_num_value_heads": 4, "linear_key_head_dim": 12,
                    "linear_value_head_dim": 20, "num_experts": 4, "num_experts_per_tok": 2,
                    "moe_intermediate_size": 56, "shared_expert_intermediate_size": 40}),
    *decoders("minimax", "MiniMax", HEAD, {"num_local_experts": 3},
              {"layer_types": ["linear_attention", "linear_attention", "full_attention",
                               "linear_attention", "linear_attention"]}),
    *decoders("recurrent_gemma", "RecurrentGemma", {"lru_width": 120}, BIAS,
              {"block_types": ["recurrent", "attention"]}, base=SMALL),
    # encoders
    *encoders("bert", "Bert", {"type_vocab_size": 3}, more=["PreTraining",
                                                            "NextSentencePrediction"]),
    *encoders("roberta", "Roberta", {"type_vocab_size": 1, "max_position_embeddings": 514}),
    *encoders("xlm-roberta", "XLMRoberta",
              {"type_vocab_size": 1, "max_position_embeddings": 514}),
    *encoders("camembert", "Camembert", {"type_vocab_size": 1}),
    *encoders("distilbert", "DistilBert", {"sinusoidal_pos_embds": True},
              base={"vocab_size": 1009, "dim": 96, "n_layers": 5, "n_heads": 6,
                    "hidden_dim": 200}, bare=True),
    *encoders("albert", "Albert", {"embedding_size": 96}, {"num_hidden_groups": 2},
              {"inner_group_num": 2}, base={**SMALL, "embedding_size": 40, "num_hidden_layers": 6},
              more=["PreTraining"]),
    *encoders("electra", "Electra", {"embedding_size": 96}, base={**SMALL, "embedding_size": 40},
              more=["PreTraining", "CausalLM"]),
    *encoders("deberta-v2", "DebertaV2", DEBERTA, {**DEBERTA, "share_att_key": True},
              {**DEBERTA, "conv_kernel_size": 3, "norm_rel_ebd": "layer_norm"},
              {"type_vocab_size": 2, "embedding_size": 96}),
    *encoders("modernbert", "ModernBert", {**BOTH, "norm_bias": True},
              {"decoder_bias": False, "classifier_bias": True},
              base={**SMALL, "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2,
                    "cls_token_id": 2, "sep_token_id": 1}),
    ("xlnet", "plain", "XLNetLMHeadModel", XLNET),
    ("xlnet", "bare", "XLNetModel", XLNET),
    ("xlnet", "classes", "XLNetForSequenceClassification", {**XLNET, **LABELS}),
    # an encoder and a decoder
    *pairs("t5", "T5", {"feed_forward_proj": "gated-gelu", "num_decoder_layers": 3}, base=T5),
    ("t5", "encoder", "T5EncoderModel", T5),
    *pairs("mt5", "MT5", {"feed_forward_proj": "relu", "num_decoder_layers": 3}, base=T5),
    *pairs("umt5", "UMT5", {"num_decoder_layers": 3}, base=T5),
    *pairs("bart", "Bart", {"decoder_layers": 2, "encoder_ffn_dim": 120}, base=BART),
    ("bart", "classes", "BartForSequenceClassification", {**BART, **LABELS}),
    *pairs("mbart", "MBart", {"decoder_layers": 2}, base=BART),
    *pairs("pegasus", "Pegasus", {"decoder_layers": 2}, base=BART),
    *pairs("m2m_100", "M2M100", {"decoder_layers": 2}, base=BART),
    *pairs("marian", "Marian", {"decoder_layers": 2},
           base={**BART, "pad_token_id": 1008, "decoder_start_token_id": 1008}, lm="MarianMTModel"),
    *pairs("whisper", "Whisper", {"decoder_layers": 2, "num_mel_bins": 128},
           base={**BART, "pad_token_id": 1, "eos_token_id": 2, "bos_token_id": 0,
                 "decoder_start_token_id": 3, "max_source_positions": 60,
                 "max_target_positions": 44}),
    # images
    ("vit", "plain", "ViTForImageClassification", {**IMAGE, **LABELS}),
    ("vit", "bare", "ViTModel", IMAGE),
    ("vit", "unbiased", "ViTForImageClassification", {**IMAGE, "qkv_bias": False}),
    ("vit", "masked", "ViTForMaskedImageModeling", IMAGE),
    ("dinov2", "plain", "Dinov2Model", DINO),
    ("dinov2", "classes", "Dinov2ForImageClassification", {**DINO, **LABELS}),
    ("dinov2", "gated", "Dinov2Model", {**DINO, "use_swiglu_ffn": True, "mlp_ratio": 3}),
    ("dinov2_with_registers", "plain", "Dinov2WithRegistersModel", DINO),
    ("dinov2_with_registers", "six", "Dinov2WithRegistersModel",
     {**DINO, "num_register_tokens": 6}),
    ("dinov2_with_registers", "gated", "Dinov2WithRegistersModel",
     {**DINO, "use_swiglu_ffn": True}),
    ("clip", "plain", "CLIPModel", {"text_config": CLIP_TEXT, "vision_config": IMAGE}),
    ("clip", "narrow", "CLIPModel",
     {"text_config": CLIP_TEXT, "vision_config": IMAGE, "projection_dim": 30}),
    ("clip", "defaults", "CLIPModel", {}),
    ("clip_text_model", "plain", "CLIPTextModel", CLIP_TEXT),
    ("clip_text_model", "long", "CLIPTextModel", {**CLIP_TEXT, "max_position_embeddings": 90}),
    ("clip_text_model", "defaults", "CLIPTextModel", {}),
    ("clip_vision_model", "plain", "CLIPVisionModel", IMAGE),
    ("clip_vision_model", "projection", "CLIPVisionModelWithProjection", IMAGE),
    ("clip_vision_model", "defaults", "CLIPVisionModel", {}),
    ("siglip", "plain", "SiglipModel", {"text_config": CLIP_TEXT, "vision_config": IMAGE}),
    ("siglip", "headless", "SiglipModel",
     {"text_config": CLIP_TEXT, "vision_config": {**IMAGE, "vision_use_head": False}}),
    ("siglip", "defaults", "SiglipModel", {}),
    ("siglip_vision_model", "plain", "SiglipVisionModel", IMAGE),
    ("siglip_vision_model", "headless", "SiglipVisionModel", {**IMAGE, "vision_use_head": False}),
    ("siglip_vision_model", "defaults", "SiglipVisionModel", {}),
    # images and text
    *seeing("gemma3", "Gemma3", {**GROUPED, "model_type": "gemma3_text"},
            {**IMAGE, "model_type": "siglip_vision_model"}),
    *seeing("llava", "Llava", {**GROUPED, "model_type": "llama"},
            {**IMAGE, "model_type": "clip_vision_model"},
            {"multimodal_projector_bias": False}, {"vision_feature_layer": [-2, -1]}),
    ("llava", "mistral", "LlavaForConditionalGeneration",
     {"text_config": {**GROUPED, "model_type": "mistral"},
      "vision_config": {**IMAGE, "model_type": "siglip_vision_model"}}),
    ("llava", "defaults", "LlavaForConditionalGeneration", {}),
    *seeing("llava_next", "LlavaNext", {**GROUPED, "model_type": "llama"},
            {**IMAGE, "model_type": "clip_vision_model"}),
    *seeing("llava_onevision", "LlavaOnevision", {**GROUPED, "model_type": "qwen2"},
            {**IMAGE, "model_type": "siglip_vision_model"}),
    *seeing("paligemma", "PaliGemma", {**GROUPED, "model_type": "gemma"},
            {**IMAGE, "model_type": "siglip_vision_model"}, {"projection_dim": 96}),
    *seeing("idefics3", "Idefics3", {**GROUPED, "model_type": "llama"}, IMAGE,
            {"scale_factor": 4}),
    *seeing("smolvlm", "SmolVLM", {**GROUPED, "model_type": "llama"}, IMAGE, {"scale_factor": 4}),
    *seeing("qwen2_vl", "Qwen2VL", GROUPED, {"depth": 3, "embed_dim": 64, "num_heads": 4,
                                             "hidden_size": 96, "mlp_ratio": 3}),
    *seeing("qwen2_5_vl", "Qwen2_5_VL", GROUPED,
            {"depth": 3, "hidden_size": 64, "num_heads": 4, "out_hidden_size": 96,
             "intermediate_size": 130}),
    *seeing("mllama", "Mllama", {**GROUPED, "cross_attention_layers": [1, 3], "pad_token_id": 0},
            {"hidden_size": 64, "attention_heads": 4, "intermediate_size": 130, "image_size": 56,
             "num_hidden_layers": 4, "num_global_layers": 2, "vision_output_dim": 192,
             "intermediate_layers_indices": [1, 3]}),
    # more images, and decoders that see
    ("deit", "plain", "DeiTForImageClassification", {**IMAGE, **LABELS}),
    ("deit", "bare", "DeiTModel", IMAGE),
    ("deit", "teacher", "DeiTForImageClassificationWithTeacher",
     {**IMAGE, **LABELS, "qkv_bias": False}),
    ("deit", "masked", "DeiTForMaskedImageModeling", {**IMAGE, "encoder_stride": 14}),
    ("beit", "plain", "BeitForImageClassification", {**IMAGE, **LABELS}),
    ("beit", "bare", "BeitModel", {**IMAGE, "use_relative_position_bias": True}),
    ("beit", "shared", "BeitModel",
     {**IMAGE, "use_shared_relative_position_bias": True, "use_mean_pooling": False,
      "use_absolute_position_embeddings": True, "layer_scale_init_value": 0.0}),
    ("beit", "masked", "BeitForMaskedImageModeling",
     {**IMAGE, "use_mask_token": True, "vocab_size": 1009}),
    ("vit_mae", "plain", "ViTMAEForPreTraining",
     {**IMAGE, "decoder_hidden_size": 48, "decoder_num_attention_heads": 4,
      "decoder_intermediate_size": 100, "decoder_num_hidden_layers": 2}),
    ("vit_mae", "bare", "ViTMAEModel", IMAGE),
    ("vit_mae", "unbiased", "ViTMAEForPreTraining",
     {**IMAGE, "qkv_bias": False, "decoder_num_hidden_layers": 3}),
    ("pixtral", "plain", "PixtralVisionModel", IMAGE),
    ("pixtral", "wide", "PixtralVisionModel", {**IMAGE, "hidden_size": 96}),
    ("pixtral", "gray", "PixtralVisionModel", {**IMAGE, "num_channels": 1}),
    *seeing("mistral3", "Mistral3", {"model_type": "mistral", **GROUPED, "head_dim": 24},
            {"model_type": "pixtral", **IMAGE}, {"spatial_merge_size": 1},
            {"multimodal_projector_bias": True}),
    *seeing("internvl", "InternVL", {"model_type": "qwen2", **GROUPED},
            {"model_type": "internvl_vision", **IMAGE, "image_size": [56, 56],
             "patch_size": [14, 14]},
            {"downsample_ratio": 0.25},
            {"vision_config": {"model_type": "internvl_vision", **IMAGE, "image_size": [56, 28],
                               "patch_size": [14, 14], "use_qk_norm": True,
                               "attention_bias": True, "norm_type": "rms_norm",
                               "use_mean_pooling": False, "use_mask_token": True}}),
    *seeing("aya_vision", "AyaVision", {"model_type": "cohere2", **GROUPED},
            {"model_type": "siglip_vision_model", **IMAGE, "vision_use_head": False},
            {"alignment_intermediate_size": 120}, {"downsample_factor": 1}),
    *seeing("qwen3_vl", "Qwen3VL", {**GROUPED, "head_dim": 24}, QWEN3_EYES,
            {"tie_word_embeddings": True},
            {"vision_config": {**QWEN3_EYES, "deepstack_visual_indexes": [1]}}),
    *seeing("qwen3_vl_moe", "Qwen3VLMoe",
            {**GROUPED, "head_dim": 24, "num_experts": 4, "num_experts_per_tok": 2,
             "moe_intermediate_size": 56}, QWEN3_EYES,
            {"tie_word_embeddings": True},
            {"vision_config": {**QWEN3_EYES, "num_position_embeddings": 64}}),
    # a decoder without its encoder
    *[(kind, "alone", prefix + "ForCausalLM", {**BART, "decoder_layers": 2, "pad_token_id": 1})
      for kind, prefix in (("bart", "Bart"), ("mbart", "MBart"), ("pegasus", "Pegasus"),
                           ("marian", "Marian"))],
    ("bart", "aloneuntied", "BartForCausalLM", {**BART, "tie_word_embeddings": False}),
    ("mbart", "classes", "MBartForSequenceClassification", {**BART, **LABELS}),
    ("bart", "answers", "BartForQuestionAnswering", {**BART, **LABELS}),
    ("t5", "classes", "T5ForSequenceClassification", {**T5, **LABELS}),
    ("t5", "tokens", "T5ForTokenClassification", {**T5, **LABELS}),
    ("t5", "answers", "T5ForQuestionAnswering", {**T5, **LABELS}),
    ("mt5", "encoder", "MT5EncoderModel", T5),
    ("umt5", "classes", "UMT5ForSequenceClassification", {**T5, **LABELS}),
    *[("whisper", variant, prefix, {**BART, "pad_token_id": 1, "eos_token_id": 2,
                                    "bos_token_id": 0, "decoder_start_token_id": 3,
                                    "max_source_positions": 60, "max_target_positions": 44,
                                    **more})
      for variant, prefix, more in (
          ("alone", "WhisperForCausalLM", {}),
          ("classes", "WhisperForAudioClassification", LABELS),
          ("weighted", "WhisperForAudioClassification",
           {"use_weighted_layer_sum": True, "classifier_proj_size": 40}))],
    *seeing("llama4", "Llama4",
            {**GROUPED, "intermediate_size_mlp": 300, "num_local_experts": 3},
            {**IMAGE, "intermediate_size": 256, "projector_input_dim": 72,
             "projector_output_dim": 72, "vision_output_dim": 72})[:1],
    ("llama4", "turns", "Llama4ForConditionalGeneration",
     {"text_config": {**GROUPED, "intermediate_size_mlp": 300, "interleave_moe_layer_step": 2,
                      "num_local_experts": 3, "num_hidden_layers": 6},
      "vision_config": {**IMAGE, "intermediate_size": 256, "vision_output_dim": 80}}),
    ("llama4", "biased", "Llama4ForConditionalGeneration",
     {"text_config": {**GROUPED, "attention_bias": True, "intermediate_size_mlp": 300},
      "vision_config": {**IMAGE, "num_channels": 1}}),
    *[row for row in decoders(
        "gemma3n_text", "Gemma3n", {"num_kv_shared_layers": 0}, {"altup_num_inputs": 3},
              {"laurel_rank": 12, "num_hidden_layers": 10, "num_kv_shared_layers": 4},
              base={**GROUPED, "head_dim": 24, "hidden_size_per_layer_input": 20,
                    "vocab_size_per_layer_input": 900, "num_kv_shared_layers": 2,
                    "num_hidden_layers": 8}) if row[1] != "bare"],
    ("gemma3n_text", "bare", "Gemma3nTextModel",
     {**GROUPED, "head_dim": 24, "num_kv_shared_layers": 2, "num_hidden_layers": 8}),
]
