#!/usr/bin/python3
"""`memwall run` where there is a GPU (one made of threads, fake.h), from outside; prints TAP.

best       --backend auto takes it, and with several ranks a GPU for each; where there are too few,
           cores, and a line says why.
fp16       As bf16.
narrow     Frozen weights in few bits, of one rank and gathered from two.
own        A rank takes the one GPU that it sees.
asked for  --backend cuda with too few GPUs: one line, and the exit status.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from check_resume import RanksBox  # noqa: E402
from check_run import TRAIN, good, losses  # noqa: E402
from command import answer_of  # noqa: E402
from tap import MPIRUN, RANKS_ENVIRONMENT, has_ranks, report_in  # noqa: E402

WHY = "GPUs: 2 ranks of this machine, 1 GPU: one rank has one GPU"
RUN = [*TRAIN, "-s", "zero3", "--log", "log.jsonl"]


class GpuBox(RanksBox):
    def __init__(self, folder):
        super().__init__(folder)
        del self.environment["CUDA_VISIBLE_DEVICES"]


def lines(done, words):
    return [line for line in done.said.splitlines() if words in line]


def check_alone(box):
    """With the bits of the cores."""
    done = box.run(*RUN, "--json")
    yield from good(done)
    run = answer_of(done.text)["run"]
    if run["backend"] != "cuda" or "made of threads" not in run["machine"] or lines(done, "GPUs"):
        yield f"run is {run}, said {done.said!r}"
    got = losses(box)
    yield from good(box.run(*RUN, "--backend", "cpu"))
    if got != losses(box):
        yield f"losses are {got}, on cores {losses(box)}"


def check_fp16(box):
    """With the bits of the cores, and other ones than in bf16."""
    lost = []
    for words in (["--dtype", "fp16"], ["--dtype", "fp16", "--backend", "cpu"], []):
        yield from good(box.run(*RUN, *words))
        lost.append(losses(box))
    if lost[0] != lost[1] or lost[0] == lost[2]:
        yield f"losses in fp16 are {lost[0]}, on cores {lost[1]}, in bf16 {lost[2]}"


def check_narrow(box, ranks):
    """With the bits of the cores, and other ones than in 16 bits."""
    for bits in ("8", "4"):
        words = [*RUN, "--train", "lora:4", "--weight-bits", bits]
        lost = []
        for more in ([], ["--backend", "cpu"], ["--backend", "cpu", "--weight-bits", "16"]):
            yield from good(box.launch(ranks, *words, *more) if ranks > 1
                            else box.run(*words, *more))
            lost.append(losses(box))
        if lost[0] != lost[1] or lost[0] == lost[2]:
            yield f"losses in {bits} bits {lost[0]}, on cores {lost[1]}, in 16 bits {lost[2]}"


def check_several(box):
    """With the bits of the cores."""
    box.environment["MEMWALL_TEST_GPUS"] = "2"
    done = box.launch(2, *RUN, "--json")
    yield from good(done)
    run = answer_of(done.text)["run"]
    if run["backend"] != "cuda" or lines(done, "GPUs"):
        yield f"run is {run}, said {done.said!r}"
    got = losses(box)
    yield from good(box.launch(2, *RUN, "--backend", "cpu"))
    if got != losses(box):
        yield f"losses are {got}, on cores {losses(box)}"


def check_on_cores(done):
    yield from good(done)
    backend = answer_of(done.text)["run"]["backend"]
    said = lines(done, "--backend cpu")
    if backend != "cpu" or len(said) != 1 or WHY not in said[0]:
        yield f"backend is {backend}, said {done.said!r}"


def check_too_few(box):
    yield from check_on_cores(box.launch(2, *RUN, "--json"))


def check_one_lacks(box):
    """What the second rank cannot, none does."""
    gpus = 'MEMWALL_TEST_GPUS=$((2 - OMPI_COMM_WORLD_RANK)) exec "$@"'
    done = box.run(*RUN, "--json", prefix=[*MPIRUN, "2", "sh", "-c", gpus, "sh"],
                   environment={**box.environment, **RANKS_ENVIRONMENT})
    yield from check_on_cores(done)


def check_one_each(box):
    """The launcher lets each rank see a GPU of its own."""
    own = 'CUDA_VISIBLE_DEVICES=$OMPI_COMM_WORLD_RANK exec "$@"'
    done = box.run(*RUN, "--json", "--backend", "cuda",
                   prefix=[*MPIRUN, "2", "sh", "-c", own, "sh"],
                   environment={**box.environment, **RANKS_ENVIRONMENT})
    yield from good(done)
    if answer_of(done.text)["run"]["backend"] != "cuda":
        yield done.text


def check_cores(box):
    """Asked for, there is nothing to explain."""
    done = box.launch(2, *RUN, "--backend", "cpu")
    yield from good(done)
    if lines(done, "GPU"):
        yield f"said {done.said!r}"


def check_refused(box):
    done = box.launch(2, *RUN, "--backend", "cuda")
    if done.returncode == 0 or not lines(done, WHY) or done.text:
        yield f"status {done.returncode}: {done.said}"


def tests(box):
    yield "best for one rank", check_alone(box)
    yield "fp16", check_fp16(box)
    yield "narrow", check_narrow(box, 1)
    if has_ranks():
        yield "best for two ranks", check_several(box)
        yield "narrow for two ranks", check_narrow(box, 2)
        del box.environment["MEMWALL_TEST_GPUS"]
        yield "best for two ranks with one GPU", check_too_few(box)
        yield "best where one rank has no GPU", check_one_lacks(box)
        yield "a GPU that each rank sees alone", check_one_each(box)
        yield "cores for two ranks", check_cores(box)
        yield "asked for by two ranks", check_refused(box)


if __name__ == "__main__":
    sys.exit(report_in(GpuBox, tests))
