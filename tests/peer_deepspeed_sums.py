#!/usr/bin/env python3
"""What DeepSpeed's own engine sums micro-batches in, stage by stage.

    PYTHON-WITH-DEEPSPEED tests/peer_deepspeed_sums.py

Needs DeepSpeed 0.19 and PyTorch; no part of the tests, no GPU: one rank on the CPU trains two of
four micro-batches of a small model, and the dtype of what has been summed by then is looked up.
study/note_deepspeed.c says the same of files.  Prints a line per case; status 1 if one differs.
"""
import logging
import os
import sys

os.environ.update(DS_ACCELERATOR="cpu", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1",
                  MASTER_ADDR="127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29577")
logging.disable(logging.CRITICAL)
import torch  # noqa: E402
import deepspeed  # noqa: E402

# Attributes of DeepSpeed's optimizers that hold sums, by stage and offload; "whole": the model's
# own gradients, all of them on its device.
FLAT, PARTS = "grad_partitions_flat_buffer", "averaged_gradients"
CASES = [  # stage, offload, data_types.grad_accum_dtype, where, dtype
    (0, None, None, "whole", "bfloat16"), (0, None, "fp32", "refused", None),
    (1, None, None, "whole", "bfloat16"),
    (1, None, "fp32", "fp32_groups_gradients_flat", "float32"),  # its BF16 optimizer
    (1, "cpu", None, "whole", "bfloat16"), (1, "cpu", "fp32", "whole", "float32"),
    (1, "nvme", None, "whole", "bfloat16"),
    (1, "nvme", "fp32", "fp32_groups_gradients_flat", "float32"),
    (2, None, None, "all_grad_tensors", "bfloat16"), (2, None, "fp32", PARTS, "float32"),
    (2, "cpu", None, "accumulated_grads_in_cpu", "bfloat16"), (2, "cpu", "fp32", PARTS, "float32"),
    (2, "nvme", None, "accumulated_grads_in_cpu", "bfloat16"),
    (3, None, None, FLAT, "bfloat16"), (3, None, "fp32", FLAT, "float32"),
    (3, "cpu", None, FLAT, "bfloat16"), (3, "cpu", "fp32", FLAT, "float32"),
]


def first_tensor(value):
    while isinstance(value, (dict, list, tuple)) and value:
        value = list(value.values())[0] if isinstance(value, dict) else value[0]
    return value if torch.is_tensor(value) else None


def engine_of(model, stage, offload, sums):
    zero = {"stage": stage}
    if offload:
        zero["offload_optimizer"] = {"device": offload, "pin_memory": False}
    config = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4,
              "bf16": {"enabled": True}, "zero_optimization": zero,
              "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False,
              **({"data_types": {"grad_accum_dtype": sums}} if sums else {})}
    return deepspeed.initialize(model=model, config=config,
                                optimizer=torch.optim.AdamW(model.parameters()))[0]


def found(stage, offload, sums, where):
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))
    try:
        engine = engine_of(model, stage, offload, sums)
    except NotImplementedError:
        return None
    for _ in range(2):
        row = torch.randn(1, 64, dtype=torch.bfloat16)
        engine.backward(engine(row).float().pow(2).sum())
        engine.step()
    weight = next(model.parameters())
    tensor = first_tensor(getattr(engine.optimizer, where, None)) if where != "whole" else \
        weight.grad if weight.grad is not None else getattr(weight, "grad_accum", None)
    return "nowhere" if tensor is None else str(tensor.dtype).replace("torch.", "")


def main():
    wrong = 0
    deepspeed.init_distributed("gloo")
    for stage, offload, sums, where, dtype in CASES:
        said = found(stage, offload, sums, where)
        wrong += said != dtype
        print(f"{'as noted' if said == dtype else 'OTHERWISE'}: stage {stage}, offload {offload}, "
              f"data_types {sums}: {where} {said or ''}")
    print(f"{wrong} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
