"""What a job of memwall export has whatever software trains it: options, model, data, the loop.

DATA is a file of tokens as llm.c and memwall write them (.bin: 256 32-bit words of head, then
16-bit or 32-bit tokens), or "random".
"""
import argparse
import functools
import itertools
import os
import time

import torch
import torch.utils.checkpoint
from transformers import AutoConfig, AutoModelForCausalLM

HEAD_WORDS = 256
MAGIC = {20240520: torch.uint16, 20240801: torch.int32}  # of llm.c: GPT-2's tokens, Llama 3's
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
LR, BETAS, EPSILON, DECAY, CLIP = 3e-4, (0.9, 0.95), 1e-8, 0.1, 1.0  # as `memwall run` has them


def parser():
    it = argparse.ArgumentParser()
    it.add_argument("--model", required=True, help="name or folder at Hugging Face, or config.json")
    it.add_argument("--data", required=True, help="file of tokens, or random")
    it.add_argument("--micro-batch", type=int, required=True, help="sequences")
    it.add_argument("--grad-accum", type=int, default=1)
    it.add_argument("--seq", type=int, required=True)
    it.add_argument("--steps", type=int, default=100)
    it.add_argument("--dtype", choices=TYPES, default="bf16")
    it.add_argument("--tp", type=int, default=1, help="ranks that share a micro-batch")
    it.add_argument("--recompute-layers", default="", help="all, or such as 0-3,8")
    it.add_argument("--offload-activations", action="store_true", help="checkpoints, to the host")
    it.add_argument("--lora", metavar="FILE", help="adapter_config.json of adapters to train")
    it.add_argument("--weight-bits", choices=("16", "8", "4", "4-double"), default="16",
                    help="of the layers' weights under adapters, by bitsandbytes")
    it.add_argument("--logits-chunks", type=int, default=1,
                    help="if over 1, the loss takes the tokens in parts, by Liger Kernel")
    it.add_argument("--save", metavar="FOLDER", help="keep checkpoints there; default: none")
    it.add_argument("--save-every", type=int, default=1000, help="steps; the last one too")
    it.add_argument("--resume", action="store_true", help="from the newest checkpoint of --save")
    it.add_argument("--seed", type=int, default=1)
    it.add_argument("--local_rank", type=int, default=-1, help="set by launchers")
    return it


def device_of(rank):
    return torch.device("cuda", rank) if torch.cuda.is_available() else torch.device("cpu")


def config_of(options):
    """Without a cache of keys and values, which a layer that is computed again would fill twice."""
    config = AutoConfig.from_pretrained(options.model)
    config.use_cache = False
    return config


def load_model(options, dtype, device=None):
    """With the weights of a folder or name; of a config.json alone, random ones.  Weights in fewer
    bits are made on the device."""
    torch.manual_seed(options.seed)
    config = config_of(options)
    if options.model.endswith(".json"):
        if options.weight_bits != "16":
            raise SystemExit(f"--weight-bits {options.weight_bits}: is of weights that are there: "
                             f"a folder or a name, and {options.model} has none")
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    else:
        model = AutoModelForCausalLM.from_pretrained(options.model, config=config, dtype=dtype,
                                                     **quantized(options, dtype, device))
    if options.logits_chunks > 1 and torch.cuda.is_available():
        take_loss_in_parts(model)
    return adapted(model, options) if options.lora else model


def quantized(options, dtype, device):
    if options.weight_bits == "16":
        return {}
    from transformers import BitsAndBytesConfig
    if options.weight_bits == "8":
        how = BitsAndBytesConfig(load_in_8bit=True)
    else:
        how = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4",
                                 bnb_4bit_use_double_quant=options.weight_bits == "4-double",
                                 bnb_4bit_compute_dtype=dtype)
    return {"quantization_config": how, "device_map": {"": device}}


def adapted(model, options):
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise SystemExit("the plan trains adapters, which PEFT makes: install peft") from error
    config = LoraConfig.from_pretrained(os.path.dirname(options.lora) or ".")
    config.inference_mode = False
    if options.offload_activations:  # the reentrant kind of checkpoint follows what needs gradients
        model.enable_input_require_grads()
    return get_peft_model(model, config)


def trained(model):
    """Parameters that are not frozen."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


class NoMemory:
    """While it is there, modules are made without memory for their parameters; buffers, such as
    frequencies of rotary positions, are as always."""

    def __enter__(self):
        self.register = register = torch.nn.Module.register_parameter

        def without(module, name, parameter):
            register(module, name, parameter)
            if parameter is not None and not parameter.is_meta:  # one that two modules share is
                module._parameters[name] = torch.nn.Parameter(parameter.to("meta"),
                                                              parameter.requires_grad)

        torch.nn.Module.register_parameter = without

    def __exit__(self, *_):
        torch.nn.Module.register_parameter = self.register


def empty_model(options, dtype):
    """Its parameters have shapes alone."""
    with NoMemory():
        model = AutoModelForCausalLM.from_config(config_of(options), dtype=dtype)
    if options.logits_chunks > 1 and torch.cuda.is_available():
        take_loss_in_parts(model)
    return model


def take_loss_in_parts(model):
    """The logits of all tokens at once do not fit where the plan has them in parts."""
    try:
        from liger_kernel.transformers import _apply_liger_kernel_to_instance
    except ImportError as error:
        raise SystemExit("the plan has a loss in parts, which Liger Kernel computes: install "
                         "liger-kernel, or export a plan made with --logits-chunks 1") from error
    _apply_liger_kernel_to_instance(model=model)


def layers_of(model):
    """The blocks that a decoder repeats: its longest list of modules."""
    lists = [module for module in model.modules() if isinstance(module, torch.nn.ModuleList)]
    return max(lists, key=len)


def recompute(model, options):
    """Keeps the inputs of these layers and computes the rest again in backward."""
    layers = layers_of(model)
    chosen = set(range(len(layers))) if options.recompute_layers == "all" else set()
    if options.recompute_layers not in ("", "all"):
        for part in options.recompute_layers.split(","):
            first, _, last = part.partition("-")
            chosen.update(range(int(first), int(last or first) + 1))
    for i in sorted(chosen):
        wrap(layers[i], options)


def wrap(layer, options):
    """The reentrant kind saves the layer's input where hooks see it, and so can be moved."""
    inner = layer.forward

    def forward(*args, **kwargs):
        if not options.offload_activations:
            return torch.utils.checkpoint.checkpoint(inner, *args, use_reentrant=False, **kwargs)
        with torch.autograd.graph.save_on_cpu(pin_memory=torch.cuda.is_available()):
            return torch.utils.checkpoint.checkpoint(functools.partial(inner, **kwargs), *args,
                                                     use_reentrant=True)

    layer.forward = forward


def read_tokens(path):
    head = torch.from_file(path, size=HEAD_WORDS, dtype=torch.int32)
    dtype = MAGIC.get(int(head[0]))
    if dtype is None:
        raise SystemExit(f"{path}: must be a file of tokens in the format of llm.c")
    count = (os.path.getsize(path) - 4 * HEAD_WORDS) // dtype.itemsize
    begin = 4 * HEAD_WORDS // dtype.itemsize
    return torch.from_file(path, size=begin + count, dtype=dtype)[begin:]


def batches(options, vocab, rank, ranks):
    """Endless micro-batches of this rank; ranks that share a model have the same ones."""
    rank, ranks = rank // options.tp, ranks // options.tp
    tokens = None if options.data == "random" else read_tokens(options.data)
    sequences = 0 if tokens is None else (len(tokens) - 1) // options.seq
    if tokens is not None and sequences < options.micro_batch * ranks:
        raise SystemExit(f"{options.data}: must have a micro-batch for each rank: "
                         f"{options.micro_batch * ranks} sequences of {options.seq} tokens")
    for number in itertools.count(first_step(options) * options.grad_accum):
        if tokens is None:
            dice = torch.Generator().manual_seed(options.seed + number * ranks + rank)
            yield torch.randint(vocab, (options.micro_batch, options.seq), generator=dice)
            continue
        first = (number * ranks + rank) * options.micro_batch
        rows = [(first + i) % sequences * options.seq for i in range(options.micro_batch)]
        yield torch.stack([tokens[at:at + options.seq].long() for at in rows])


def first_step(options):
    """Steps that the newest checkpoint has; a name is there once the checkpoint is whole."""
    newest = os.path.join(options.save or "", "newest")
    if not options.resume or not options.save or not os.path.exists(newest):
        return 0
    with open(newest, encoding="utf-8") as file:
        return int(file.read())


def checkpoint_of(options, step):
    return os.path.join(options.save, f"step-{step}")


def keep(options, rank, step, save):
    """All ranks save; then the first one names the checkpoint."""
    save(checkpoint_of(options, step))
    if torch.distributed.is_initialized():  # accelerate does not for a single process
        torch.distributed.barrier()
    if rank == 0:
        name = os.path.join(options.save, "newest")
        with open(name + ".new", "w", encoding="utf-8") as file:
            file.write(str(step))
        os.replace(name + ".new", name)


def mean_of(losses):
    """Of all micro-batches of a step, on all ranks."""
    loss = torch.stack([loss.float() for loss in losses]).mean()
    if torch.distributed.is_initialized():
        torch.distributed.all_reduce(loss)
        loss /= torch.distributed.get_world_size()
    return float(loss)


def loop(options, ranks, rank, micro_step, update, save, load):
    """`micro_step(last)` is forward and backward of one micro-batch, and returns its loss;
    `update()` follows the last one of a step; `save(path)` and `load(path)` are of a checkpoint."""
    tokens = options.micro_batch * options.grad_accum * options.seq * ranks // options.tp
    begun = first_step(options)
    if begun:
        load(checkpoint_of(options, begun))
    for step in range(begun, options.steps):
        begin = time.monotonic()
        losses = [micro_step(i + 1 == options.grad_accum) for i in range(options.grad_accum)]
        update()
        loss = mean_of(losses)
        took = time.monotonic() - begin
        if rank == 0:
            print(f"step {step + 1} loss {loss:.4f} {took:.3f} s {tokens / took:.0f} tokens/s",
                  flush=True)
        last = step + 1 == options.steps
        if options.save and (last or (step + 1) % options.save_every == 0):
            keep(options, rank, step + 1, save)
