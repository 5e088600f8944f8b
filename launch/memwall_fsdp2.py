"""Shards a Hugging Face model with PyTorch's fully_shard (FSDP2), as memwall export planned it, and
trains it.  torchrun starts it."""
import argparse
import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, \
    set_model_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, \
    fully_shard

import memwall_job


def parse():
    it = memwall_job.parser()
    it.add_argument("--reshard-after-forward", action=argparse.BooleanOptionalAction,
                    default=True, help="gather parameters again for backward")
    it.add_argument("--cpu-offload", action="store_true",
                    help="parameters, gradients and optimizer state rest in host memory")
    it.add_argument("--prefetch", type=int, default=1, help="layers gathered ahead")
    return it.parse_args()


def shard(model, mesh, options):
    """Each layer is a unit, and what is around them another one."""
    layers = memwall_job.layers_of(model)
    policy = {
        "mesh": mesh,
        "reshard_after_forward": options.reshard_after_forward,
        "mp_policy": MixedPrecisionPolicy(param_dtype=memwall_job.TYPES[options.dtype],
                                          reduce_dtype=torch.float32),
        "offload_policy": CPUOffloadPolicy(pin_memory=torch.cuda.is_available())
                          if options.cpu_offload else OffloadPolicy(),
    }
    for layer in layers:
        fully_shard(layer, **policy)
    fully_shard(model, **policy)
    for i, layer in enumerate(layers):
        layer.set_modules_to_forward_prefetch(list(layers[i + 1:i + 1 + options.prefetch]))
        layer.set_modules_to_backward_prefetch(
            list(layers[max(0, i - options.prefetch):i])[::-1])


def fill(model, options, device, rank):
    """The first rank alone has the whole model in its host memory, as it is stored; each gets its
    shards of it."""
    buffers = [(module, name, buffer) for module in model.modules()
               for name, buffer in module._buffers.items() if buffer is not None]
    model.to_empty(device="cpu" if options.cpu_offload else device)
    whole = {}
    if rank == 0:
        random = options.model.endswith(".json")
        whole = memwall_job.load_model(options, torch.float32 if random else "auto").state_dict()
    set_model_state_dict(model, whole, options=StateDictOptions(full_state_dict=True,
                                                                broadcast_from_rank0=True))
    for module, name, buffer in buffers:
        module._buffers[name] = buffer.to(device)


def main():
    options = parse()
    device = memwall_job.device_of(int(os.environ["LOCAL_RANK"]))
    if device.type == "cuda":
        torch.cuda.set_device(device)
    # Norms of state in host memory are reduced by gloo.
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = memwall_job.empty_model(options, torch.float32)
    memwall_job.recompute(model, options)
    shard(model, init_device_mesh(device.type, (ranks,)), options)
    fill(model, options, device, rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=memwall_job.LR, betas=memwall_job.BETAS,
                                  eps=memwall_job.EPSILON, weight_decay=memwall_job.DECAY)
    data = memwall_job.batches(options, model.config.vocab_size, rank, ranks)

    def micro_step(last):
        ids = next(data).to(device)
        model.set_is_last_backward(last)
        loss = model(input_ids=ids, labels=ids).loss
        (loss / options.grad_accum).backward()
        return loss.detach()

    def update():
        torch.nn.utils.clip_grad_norm_(model.parameters(), memwall_job.CLIP)
        optimizer.step()
        optimizer.zero_grad()

    def save(path):
        model_state, state = get_state_dict(model, optimizer)
        checkpoint.save({"model": model_state, "optimizer": state}, checkpoint_id=path)

    def load(path):
        model_state, state = get_state_dict(model, optimizer)
        checkpoint.load({"model": model_state, "optimizer": state}, checkpoint_id=path)
        set_state_dict(model, optimizer, model_state_dict=model_state, optim_state_dict=state)

    memwall_job.loop(options, ranks, rank, micro_step, update, save, load)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
