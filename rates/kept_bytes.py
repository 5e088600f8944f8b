#!/usr/bin/python3
"""What autograd keeps of a Llama layer of transformers between forward and backward.

    python3 rates/kept_bytes.py >rates/kept_bytes.csv

Needs PyTorch and transformers; PyTorch's CPU build will do, as the GPU's operators name the same
tensors for backward.  Bytes are of a token and an element of the hidden size, without weights, and
without what autocast has cast of these.  `fused` is what a fused backward needs (docs/MODEL.md,
5.1): inputs and results of norms, of products and of attention, and of the gated activation.
"""
import csv
import sys

import torch
import transformers
from transformers.models.llama import modeling_llama

TOKENS, WIDTH = 251, 64  # tokens are a prime, so that no weight has as many bytes as an activation
# Heads, heads of keys and values, inner size over hidden size.
SHAPES = {"llama-2-7b": (32, 32, 2.6875), "llama-3.1-8b": (32, 8, 3.5), "llama-3.2-1b": (32, 8, 4)}
HOW = {"16 bits": (torch.bfloat16, False), "fp32, autocast": (torch.float32, True)}


def layer_of(heads, kv_heads, inner):
    hidden = heads * WIDTH
    config = transformers.LlamaConfig(hidden_size=hidden, intermediate_size=int(inner * hidden),
                                      num_attention_heads=heads, num_key_value_heads=kv_heads,
                                      num_hidden_layers=1, vocab_size=64)
    config._attn_implementation = "sdpa"
    return modeling_llama.LlamaDecoderLayer(config, 0), modeling_llama.LlamaRotaryEmbedding(config)


def kept_bytes(shape, dtype, autocast):
    layer, rotary = layer_of(*SHAPES[shape])
    layer = layer.to(dtype)
    hidden, storages = SHAPES[shape][0] * WIDTH, {}
    x = torch.randn(1, TOKENS, hidden, dtype=dtype, requires_grad=True)
    positions = rotary(x, torch.arange(TOKENS)[None])
    left_out = {t.untyped_storage().data_ptr() for t in (*layer.parameters(), *positions)}

    def keep(tensor):
        storage = tensor.untyped_storage()
        of_tokens = any(n == TOKENS for n in tensor.shape)
        if of_tokens and storage.data_ptr() not in left_out:
            storages[storage.data_ptr()] = storage  # also keeps its address from being used again
        return tensor

    with torch.autocast("cpu", torch.bfloat16, enabled=autocast), \
            torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        layer(x * 1, position_embeddings=positions)
    return sum(storage.nbytes() for storage in storages.values()) / TOKENS / hidden


def fused_bytes(heads, kv_heads, inner):
    """Both norms' inputs and results, q, k, v, attention's result, gate, up and their product."""
    return 2 * (2 + 2 + 1 + 2 * kv_heads / heads + 1 + 3 * inner)


def main():
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["shape", "weights", "kept", "fused", "times", "versions"])
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    for shape, dimensions in SHAPES.items():
        for how, (dtype, autocast) in HOW.items():
            kept, fused = kept_bytes(shape, dtype, autocast), fused_bytes(*dimensions)
            table.writerow([shape, how, f"{kept:.2f}", f"{fused:.2f}", f"{kept / fused:.3f}",
                            versions])


if __name__ == "__main__":
    main()
