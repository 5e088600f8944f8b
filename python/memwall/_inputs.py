"""Arguments for a forward pass of a model of transformers, on the meta device; for describe.py alone.
"""
import inspect

import torch

DEVICE = ["meta"]


def tokens(length):
    return (torch.zeros((1, length), dtype=torch.long, device=DEVICE[0]),)


def first_of(config, *names):
    """A number of the configuration, or of the first one within it that has it."""
    inner = [getattr(config, key, None) for key in
             ("text_config", "vision_config", "audio_config", "encoder", "decoder",
              "backbone_config", "thinker_config")] if config else []
    for source in (config, *inner):
        for name in names:
            value = getattr(source, name, None) if source is not None else None
            if isinstance(value, (list, tuple)) and value and isinstance(value[0], int):
                return value
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None


def longest_of(config):
    longest = first_of(config, "max_position_embeddings", "n_positions", "max_sequence_length",
                       "max_seq_len", "seq_length", "max_source_positions", "max_target_positions")
    return longest if isinstance(longest, int) else 1


def length_of(model, config):
    """Of the first run, so that twice as much is within the model's positions."""
    if getattr(model, "main_input_name", "") == "input_values":
        return 16000
    return max(1, min(256, longest_of(config) // 2 - 2)) if longest_of(config) > 8 else 64


def image(config):
    size = first_of(config, "image_size", "input_size") or 224
    height, width = size[-2:] if isinstance(size, (list, tuple)) else (size, size)
    channels = first_of(config, "num_channels", "in_channels", "in_chans") or 3
    return torch.zeros((1, channels if isinstance(channels, int) else 3, height, width),
                       device=DEVICE[0])


def features(config, length):
    bins = first_of(config, "num_mel_bins", "input_feat_per_channel", "feature_size") or 80
    if getattr(config, "model_type", "") in ("whisper", "whisper_encoder", "qwen2_audio_encoder"):
        return torch.zeros((1, bins, 2 * config.max_source_positions), device=DEVICE[0])
    return torch.zeros((1, length, bins), device=DEVICE[0])


def maker(model, config):
    """inputs(length) of what the forward of the model takes."""
    main = getattr(model, "main_input_name", "input_ids")
    taken = inspect.signature(model.forward).parameters
    ids = tokens

    def inputs(length):
        one = {}
        if main == "pixel_values" or ("pixel_values" in taken and "input_ids" not in taken) or (
                "pixel_values" in taken and "logit_scale" in
                                      dict(model.named_parameters(recurse=False))):
            one["pixel_values"] = image(config)
        if main in ("input_values", "waveform"):
            one[main] = torch.zeros((1, length), device=DEVICE[0])
        if main == "input_features":
            one[main] = features(config, length)
        if "input_ids" in taken and (not one or main == "input_ids" or
                                     "logit_scale" in dict(model.named_parameters(recurse=False))):
            one["input_ids"] = ids(length)[0]
        if "aspect_ratio_ids" in taken and "input_ids" not in taken:
            one["pixel_values"] = one["pixel_values"][:, None, None]
            one["aspect_ratio_ids"] = torch.ones((1, 1), dtype=torch.long, device=DEVICE[0])
            one["aspect_ratio_mask"] = torch.ones((1, 1, config.max_num_tiles), dtype=torch.long,
                                                  device=DEVICE[0])
            one["pixel_values"] = one["pixel_values"].expand(1, 1, config.max_num_tiles, -1, -1, -1)
        if not one and main in taken:
            one[main] = ids(length)[0]
        if "decoder_input_ids" in taken and getattr(config, "is_encoder_decoder", False):
            one["decoder_input_ids"] = ids(length)[0]
        if "use_cache" in taken:
            one["use_cache"] = False
        return one
    return inputs
