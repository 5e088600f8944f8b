#!/usr/bin/python3
"""What a Llama layer of transformers with PEFT's adapters keeps between forward and backward, and the
most that is alive of it while it is recomputed and in backward.

    python3 rates/adapter_bytes.py >rates/adapter_bytes.csv

Needs PyTorch, transformers, PEFT and bitsandbytes; their CPU builds will do: three things that differ on
a GPU are set as they are there (as_on_a_gpu).  All that operators return is followed from when it is
made until it is freed, also what autograd's own functions keep outside of its hooks.  Bytes are of a
token and an element of the hidden size, without weights, whose shapes have no tokens.  `kept` has the
layer's input; `most` is beside it, as it is a checkpoint, and has the gradient that comes in.
"""
import csv
import gc
import logging
import sys
import weakref

import bitsandbytes
import peft
import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten
from torch.utils.checkpoint import checkpoint
from transformers.models.llama import modeling_llama

TOKENS = 1999  # a prime, and more than anything else has
WIDTH, RANK = 64, 2
# Heads, heads of keys and values, inner size over hidden size.
SHAPES = {"llama-2-7b": (8, 8, 2.6875), "llama-3.1-8b": (8, 2, 3.5)}
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
ADAPTERS = {"all": ATTENTION + ["gate_proj", "up_proj", "down_proj"], "attention": ATTENTION}
# Bits of a weight, whether PEFT has cast what is not narrow to fp32, and whether an engine that
# partitions state, as DeepSpeed's, has cast all of it to 16 bits behind that and no autocast is on.
WEIGHTS = {"16 bits": (16, False, False), "4 bits": (4, True, False),
           "4 bits as they are": (4, False, False), "8 bits": (8, True, False),
           "8 bits as they are": (8, False, False), "16 bits in an engine": (16, False, True),
           "4 bits in an engine": (4, True, True), "8 bits in an engine": (8, True, True)}


def as_on_a_gpu():
    """Dropout is one kernel that keeps a mask of bytes; bitsandbytes multiplies in 8 bits; and PEFT
    asks whether autocast is enabled for a GPU."""
    def dropout(x, p=0.5, training=True, *_, **__):
        return torch.native_dropout(x, p, True)[0] if training and p else x

    torch.nn.functional.dropout = dropout
    functions = bitsandbytes.autograd._functions
    functions.MatMul8bitFp = functions.MatMul8bitLt
    enabled = torch.is_autocast_enabled
    torch.is_autocast_enabled = lambda *_: enabled("cpu")


class Alive(TorchDispatchMode):
    """Bytes of all storages of tokens that operators have returned and that somebody still holds."""

    def __init__(self, left_out):
        super().__init__()
        self.left_out, self.storages, self.bytes, self.most = left_out, {}, 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        results = func(*args, **(kwargs or {}))
        for tensor in tree_flatten(results)[0]:
            if isinstance(tensor, torch.Tensor) and TOKENS in tensor.shape:
                self.add(tensor.untyped_storage())
        return results

    def add(self, storage):
        key = storage._cdata
        if key in self.storages or storage.data_ptr() in self.left_out:
            return
        count = storage.nbytes()

        def freed(_):
            del self.storages[key]
            self.bytes -= count

        self.storages[key] = weakref.ref(storage, freed)
        self.bytes += count
        self.most = max(self.most, self.bytes)


class Behind(torch.autograd.Function):
    """Stands for what follows a layer: keeps nothing, and makes its gradient."""

    @staticmethod
    def forward(ctx, y):
        ctx.made = y.shape, y.dtype
        return y.new_zeros(())

    @staticmethod
    def backward(ctx, _):
        shape, dtype = ctx.made
        return torch.ones(shape, dtype=dtype)


def narrow(linear, bits):
    if bits == 8:
        made = bitsandbytes.nn.Linear8bitLt(linear.in_features, linear.out_features, bias=False,
                                            has_fp16_weights=False, threshold=6.0)
        made.weight = bitsandbytes.nn.Int8Params(linear.weight.data, requires_grad=False,
                                                 has_fp16_weights=False)
    else:
        made = bitsandbytes.nn.Linear4bit(linear.in_features, linear.out_features, bias=False,
                                          compute_dtype=torch.bfloat16, quant_type="nf4")
        made.weight = bitsandbytes.nn.Params4bit(linear.weight.data, requires_grad=False,
                                                 quant_type="nf4")
    return made.to("cpu")


def layer_of(shape, weights, adapters, dropout):
    bits, cast, engine = WEIGHTS[weights]
    heads, kv_heads, inner = SHAPES[shape]
    hidden = heads * WIDTH
    config = transformers.LlamaConfig(hidden_size=hidden, intermediate_size=int(inner * hidden),
                                      num_attention_heads=heads, num_key_value_heads=kv_heads,
                                      num_hidden_layers=1, vocab_size=64)
    config._attn_implementation = "sdpa"
    model = modeling_llama.LlamaForCausalLM(config).to(torch.bfloat16)
    for parent in model.model.layers[0].children():
        for name, child in list(parent.named_children()):
            if bits < 16 and isinstance(child, torch.nn.Linear):
                setattr(parent, name, narrow(child, bits))
    model.is_loaded_in_8bit, model.is_loaded_in_4bit = bits == 8, bits == 4
    if cast:
        model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    wanted = peft.LoraConfig(r=RANK, lora_dropout=dropout, target_modules=adapters,
                             task_type="CAUSAL_LM")
    model = peft.get_peft_model(model, wanted).base_model.model.model.train()
    if engine:
        model = model.bfloat16()  # deepspeed/runtime/engine.py, _configure_distributed_model
    return model.layers[0], model.rotary_emb, hidden


def alive_bytes(shape, weights, adapters, dropout, recomputed):
    _, cast, engine = WEIGHTS[weights]
    layer, rotary, hidden = layer_of(shape, weights, ADAPTERS[adapters], dropout)
    wide = cast and not engine
    x = torch.randn(1, TOKENS, hidden, dtype=torch.float32 if wide else torch.bfloat16,
                    requires_grad=True)
    positions = rotary(x, torch.arange(TOKENS)[None])
    alive = Alive({t.untyped_storage().data_ptr() for t in positions})

    def forward(x):
        return layer(x, position_embeddings=positions)

    with alive:
        with torch.autocast("cpu", torch.bfloat16, enabled=not engine):
            entering = x * 1
            checkpointed = entering.nbytes
            leaving = checkpoint(forward, entering, use_reentrant=True) if recomputed \
                else forward(entering)
            loss = Behind.apply(leaving)
        del entering, leaving
        gc.collect()
        kept, alive.most = alive.bytes, 0
        loss.backward()
    of_element = TOKENS * hidden
    return (alive.most - checkpointed if recomputed else kept) / of_element


def main():
    logging.disable(logging.WARNING)
    as_on_a_gpu()
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["shape", "weights", "adapters", "dropout", "kept", "most", "versions"])
    versions = ", ".join(f"{module.__name__} {module.__version__}"
                         for module in (torch, transformers, peft, bitsandbytes))
    for shape in SHAPES:
        for weights in WEIGHTS:
            for adapters in ADAPTERS:
                for dropout in (0, 0.05):
                    row = [shape, weights, adapters, dropout]
                    kept, most = (alive_bytes(*row, recomputed) for recomputed in (False, True))
                    table.writerow([*row, f"{kept:.2f}", f"{most:.2f}", versions])
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
