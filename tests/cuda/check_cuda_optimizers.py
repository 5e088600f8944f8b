#!/usr/bin/python3
"""`--optimizer` on a GPU (one made of threads, fake.h), from outside; prints TAP.

updates   The GPU updates moments of any bits wherever the plan places the state: the files are
          those of cores that update on the host.
killed    So are those of a run that was killed and continued.
vectors   Optimizers with vectors of rows and columns are updated by the cores alone: another plan
          is refused in one line, and nothing is left behind.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from check_optimizers import SIDES, empty, files, fixture, train  # noqa: E402
from command import Box, kill_after, refused  # noqa: E402
from tap import report_in  # noqa: E402

NARROW = ("adamw-16bit", "adamw-8bit")
WIDE = ("lion", "sgd", "sgd-momentum")
# Each says where state rests; on all of them the GPU updates, beside cores or alone.
PLACEMENTS = {
    "on the GPU": "-s ddp",
    "from host memory": "-s streamed-update --optimizer-device cpu --optimizer-chunk 8192",
    "from drives": "-s streamed-update --param-device cpu --optimizer-device nvme "
                   "--gradient-device nvme",
    "swapped": "-s geeps --optimizer-device cpu --gradient-device cpu",
    "beside cores": "-s zero-offload++ --optimizer-device gpu:0.2MB,cpu --optimizer-chunk 8192",
}


class GpuBox(Box):
    def __init__(self, folder):
        super().__init__(folder)
        del self.environment["CUDA_VISIBLE_DEVICES"]


def line_of(optimizer, options, backend="cuda"):
    folder = fixture("gpt2-small")
    return (f"-m {folder}/config.json -H rtx4090 --set gpu.memory_gib=2 --backend {backend} "
            f"--seq 16 --batch 2 --grad-accum 2 --tiles 3 --weights {folder} "
            f"--data {folder}/lora/text.txt --lr 2e-3 --optimizer {optimizer} --nvme drive "
            f"{options}")


def trained(box, line):
    """The tensors of weights and state, or what went wrong."""
    empty(box, "drive", "out")
    wrong = list(train(box, f"{line} --commit none --save out"))
    return wrong or [data[8 + int.from_bytes(data[:8], "little"):] for data in files(box, "out")]


def check_updates(box, optimizer, placements):
    cores = trained(box, line_of(optimizer, "-s zero-offload --steps 4", "cpu"))
    for what in placements:
        got = trained(box, line_of(optimizer, f"{PLACEMENTS[what]} --steps 4"))
        if got != cores:
            yield f"{what}: other weights or state than of cores: {got if len(got) == 1 else ''}"


def check_killed(box, optimizer):
    line = line_of(optimizer, f"{PLACEMENTS['from drives']} --commit step --steps 12")
    empty(box, "drive", "whole", "resumed")
    yield from train(box, f"{line} --save whole")
    empty(box, "drive")
    kill_after(box, line, 2)
    yield from train(box, "--resume --nvme drive --save resumed")
    if files(box, "resumed") != files(box, "whole"):
        yield "other bits than of a run that was not killed"


def check_vectors(box, optimizer):
    options = "-s zero-offload --steps 5"
    if trained(box, line_of(optimizer, options)) != \
            trained(box, line_of(optimizer, options, "cpu")):
        yield "other weights or state than of cores"
    for what, placement in PLACEMENTS.items():
        empty(box, "drive", "out", "state")
        line = line_of(optimizer, placement)
        if "nvme" not in placement:
            line = line.replace("--nvme drive", "")
        done = box.run(f"run {line} --steps 5 --save out --log log.jsonl")
        for wrong in refused(done, [f"--optimizer {optimizer}", "backend cuda",
                                    "--optimizer-device cpu", "--backend cpu"]):
            yield f"{what}: {wrong}"
        left = sorted(path.name for path in box.folder.rglob("*")
                      if path.name not in ("drive", "config"))
        if left:
            yield f"{what}: {left} is left behind"


def tests(box):
    for optimizer in SIDES:
        yield f"{optimizer}: cores alone", check_vectors(box, optimizer)
    for optimizer in NARROW:
        yield f"{optimizer}: as cores", check_updates(box, optimizer, PLACEMENTS)
    for optimizer in WIDE:
        yield f"{optimizer}: as cores", check_updates(box, optimizer, ["from drives"])
    yield "adamw-8bit: killed", check_killed(box, "adamw-8bit")


if __name__ == "__main__":
    sys.exit(report_in(GpuBox, tests))
