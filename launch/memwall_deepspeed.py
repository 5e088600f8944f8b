"""Trains a Hugging Face model with DeepSpeed, by the ds_config.json that memwall export wrote."""
import json
import os

import deepspeed
import torch
from transformers.integrations import HfDeepSpeedConfig

import memwall_job


def main():
    parser = memwall_job.parser()
    parser.add_argument("--deepspeed_config", required=True)
    options = parser.parse_args()
    with open(options.deepspeed_config, encoding="utf-8") as file:
        config = json.load(file)
    deepspeed.init_distributed()
    rank, ranks = deepspeed.comm.get_rank(), deepspeed.comm.get_world_size()
    # While it is there, transformers makes models in shards at stage 3.
    sharded = HfDeepSpeedConfig(config)
    model = memwall_job.load_model(options, memwall_job.TYPES[options.dtype],
                                   memwall_job.device_of(int(os.environ["LOCAL_RANK"])))
    memwall_job.recompute(model, options)
    engine, *_ = deepspeed.initialize(model=model, model_parameters=memwall_job.trained(model),
                                      config=config)
    data = memwall_job.batches(options, model.config.vocab_size, rank, ranks)

    def micro_step(_last):
        ids = next(data).to(engine.device)
        loss = engine(input_ids=ids, labels=ids).loss
        engine.backward(loss)
        engine.step()  # updates behind the last micro-batch
        return loss.detach()

    def save(path):
        engine.save_checkpoint(*os.path.split(path), exclude_frozen_parameters=bool(options.lora))

    def load(path):
        engine.load_checkpoint(*os.path.split(path), load_module_strict=not options.lora)

    memwall_job.loop(options, ranks, rank, micro_step, lambda: None, save, load)
    del sharded
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
