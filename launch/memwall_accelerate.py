"""Trains a Hugging Face model with accelerate, by the configuration that memwall export wrote."""
import os

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType, DummyOptim

import memwall_job


def keep_adapters(accelerator, model):
    """Checkpoints have them as PEFT reads them; what is below them is as it was loaded."""
    from peft import set_peft_model_state_dict
    from safetensors.torch import load_file

    def save(_models, weights, folder):
        weights.clear()
        if accelerator.is_main_process:
            accelerator.unwrap_model(model).save_pretrained(folder)

    def load(models, folder):
        models.clear()
        set_peft_model_state_dict(accelerator.unwrap_model(model),
                                  load_file(os.path.join(folder, "adapter_model.safetensors")))

    accelerator.register_save_state_pre_hook(save)
    accelerator.register_load_state_pre_hook(load)


def main():
    options = memwall_job.parser().parse_args()
    accelerator = Accelerator(gradient_accumulation_steps=options.grad_accum)
    by_deepspeed = accelerator.distributed_type == DistributedType.DEEPSPEED
    # Without DeepSpeed, autocast computes in 16 bits from trained parameters in fp32.
    whole = not by_deepspeed and not options.lora
    model = memwall_job.load_model(
        options, torch.float32 if whole else memwall_job.TYPES[options.dtype], accelerator.device)
    memwall_job.recompute(model, options)
    optimizer = DummyOptim(memwall_job.trained(model), lr=memwall_job.LR) if by_deepspeed else \
        torch.optim.AdamW(memwall_job.trained(model), lr=memwall_job.LR, betas=memwall_job.BETAS,
                          eps=memwall_job.EPSILON, weight_decay=memwall_job.DECAY)
    vocab = model.config.vocab_size
    model, optimizer = accelerator.prepare(model, optimizer)
    if options.lora and not by_deepspeed:
        keep_adapters(accelerator, model)
    data = memwall_job.batches(options, vocab, accelerator.process_index,
                               accelerator.num_processes)

    def micro_step(_last):
        ids = next(data).to(accelerator.device)
        with accelerator.accumulate(model):
            loss = model(input_ids=ids, labels=ids).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients and not by_deepspeed:
                accelerator.clip_grad_norm_(model.parameters(), memwall_job.CLIP)
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    memwall_job.loop(options, accelerator.num_processes, accelerator.process_index, micro_step,
                     lambda: None, accelerator.save_state, accelerator.load_state)
    accelerator.end_training()


if __name__ == "__main__":
    main()
