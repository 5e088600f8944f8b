"""What the experiments on ZeRO-Offload's figures share: how its authors ran it."""

import common

SOURCE = "ZeRO-Offload, arXiv 2101.06840"

# The authors' own configurations (DeepSpeedExamples, Megatron-LM/model_size_test/*.json) have
# reduce_bucket_size 50000000 and contiguous_gradients, which is one bucket.
SOFTWARE = ("--software", "deepspeed-0.3", "--set", "software.memory.bucket_elements=5e7", "--set",
            "software.memory.buckets=1")

# The paper's own CPU-Adam, where it differs from that of the release.  It writes 16-bit parameters
# for the GPU (Algorithm 1: its output is p16), 2 bytes and as many read as their lines come to the
# cache.  Table 4 has 10B parameters in 2.57 s, 28 bytes each: 109 GB/s, more than a socket of
# that machine gives (90, microway.com), so its memory was on both.
PAPER_ADAM = ("--set", "software.offload.update_bytes_per_parameter=38; 40; 44",
              "--set", "software.offload.one_node_bytes_per_parameter=0",
              "--set", "software.offload.parameter_link_bytes=2")

# The release's own behaviour, where an option of memwall states it.
RELEASED = ("--state-layout", "paper20", "--overlap", "off", "--activation-device", "cpu",
            *SOFTWARE)
# That of the paper's figures.
AS_RUN = (*RELEASED, *PAPER_ADAM)
# What the plan can do: transfers beside compute, checkpoints where they fit.
PLANNED_RELEASED = ("--state-layout", "paper20", *SOFTWARE)
PLANNED = (*PLANNED_RELEASED, *PAPER_ADAM)

HOW_RELEASED = """\
**As run** takes four things from the software that the figures were measured with, none from the
figures:

- `--overlap off`: ZeRO stage 2 reduces gradients and copies them to the CPU on the stream that
  computes, unless `overlap_comm` is set; its default is false (DeepSpeed,
  `deepspeed/runtime/zero/stage2.py` and `constants.py`).  The authors' own configurations of these
  models write `comm_overlap`, a key that DeepSpeed does not read (DeepSpeedExamples,
  `Megatron-LM/model_size_test/*.json`).
- `--activation-device cpu`: the same files set `cpu_checkpointing`.
- one bucket of 50M elements for gradients, as the same files set (`software.memory`);
- `--state-layout paper20`: the optimizer step makes an fp32 copy of its gradients (`stage2.py`), so
  a parameter takes 20 bytes, not the paper's 16.

They were looked up after the overlapped plan had come out faster than published, so both are shown.

**Overlapped** is the same plan as memwall would run it: transfers beside compute.
"""

HOW_IT_RAN = f"""{HOW_RELEASED}
The update is the paper's own, which is not that of the release of 2020 in two respects: it hands
16-bit parameters to the GPU (Algorithm 1), where the release sends fp32 ones; and Table 4 has
109 GB/s for its 28 bytes per parameter, more than one socket of that machine gives, where the
release pins gradients on the NUMA node of one thread.
"""


def phase_s(answer, name):
    """Wall seconds of a phase of the step."""
    phase = next(p for p in answer["phases"] if p["name"] == name)
    return phase["end_s"] - phase["start_s"]


def ends(verb, *options):
    """The answers at the slow end, the typical value and the fast end of the profile's ranges."""
    return {end: common.memwall(verb, *options, "--outlook", end,
                                *common.TYPICAL_MEMORY)
            for end in ("low", "typical", "high")}


def seconds(answers, measure):
    """A time at both ends, for common.compare: low and high as numbers."""
    values = {end: measure(answer) for end, answer in answers.items()}
    return {"engine": values["typical"], "low": values["high"], "high": values["low"]}
