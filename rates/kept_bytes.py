#!/usr/bin/python3
"""What autograd keeps of a Llama layer of transformers between forward and backward, eager and compiled.

    python3 rates/kept_bytes.py >rates/kept_bytes.csv

Needs PyTorch and transformers; PyTorch's CPU build will do, as the GPU's operators name the same
tensors for backward, and what compiled layers save is decided before any kernel is made.  Bytes are of
a token and an element of the hidden size, without weights; `casts` are bytes kept of the casts of an
element of these.  `fused` is what a fused backward needs (docs/MODEL.md,
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
COMPILED = "aot_eager_decomp_partition"  # of the compiler all but the kernels


def layer_of(heads, kv_heads, inner):
    hidden = heads * WIDTH
    config = transformers.LlamaConfig(hidden_size=hidden, intermediate_size=int(inner * hidden),
                                      num_attention_heads=heads, num_key_value_heads=kv_heads,
                                      num_hidden_layers=1, vocab_size=64)
    config._attn_implementation = "sdpa"
    return modeling_llama.LlamaDecoderLayer(config, 0), modeling_llama.LlamaRotaryEmbedding(config)


def kept_bytes(shape, dtype, autocast, backend):
    layer, rotary = layer_of(*SHAPES[shape])
    layer = layer.to(dtype)
    hidden, storages = SHAPES[shape][0] * WIDTH, {True: {}, False: {}}
    x = torch.randn(1, TOKENS, hidden, dtype=dtype, requires_grad=True)
    positions = rotary(x, torch.arange(TOKENS)[None])
    left_out = {t.untyped_storage().data_ptr() for t in (*layer.parameters(), *positions)}
    if backend:
        torch.compiler.reset()
        layer.compile(backend=backend)

    def keep(tensor):
        storage = tensor.untyped_storage()
        of_tokens = any(n == TOKENS for n in tensor.shape)
        if storage.data_ptr() not in left_out:  # a storage that is kept keeps its address too
            storages[of_tokens][storage.data_ptr()] = storage
        return tensor

    with torch.autocast("cpu", torch.bfloat16, enabled=autocast), \
            torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        layer(x * 1, position_embeddings=positions)
    of_tokens, of_weights = (sum(s.nbytes() for s in storages[of].values()) for of in (True, False))
    return of_tokens / TOKENS / hidden, of_weights / sum(p.numel() for p in layer.parameters())


def fused_bytes(heads, kv_heads, inner):
    """Both norms' inputs and results, q, k, v, attention's result, gate, up and their product."""
    return 2 * (2 + 2 + 1 + 2 * kv_heads / heads + 1 + 3 * inner)


def main():
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["shape", "weights", "how", "kept", "fused", "times", "casts", "versions"])
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    for shape, dimensions in SHAPES.items():
        for how, backend in (("eager", None), ("compiled", COMPILED)):
            for weights, (dtype, autocast) in HOW.items():
                kept, casts = kept_bytes(shape, dtype, autocast, backend)
                fused = fused_bytes(*dimensions)
                table.writerow([shape, weights, how, f"{kept:.2f}", f"{fused:.2f}",
                                f"{kept / fused:.3f}", f"{casts:.2f}", versions])


if __name__ == "__main__":
    main()
