"""Logs as training frameworks write them, for the checks of `memwall check`: made here, of times
that a generator draws.  The forms are those that logs/ names, with their sources."""
import json
import math
import random


class Noise:
    """Factors on a time, about 1: noise of a few percent, outliers, a slow drift, and slow
    stretches, as of a machine that somebody else uses for a while."""

    def __init__(self, seed, sigma=0.03, drift=0.01, outliers=0.02, stretches=0.01):
        self.random, self.sigma = random.Random(seed), sigma
        self.outliers, self.stretches = outliers, stretches
        self.phase, self.drift = self.random.uniform(0, 2 * math.pi), drift
        self.slope = self.random.uniform(-drift, drift)

    def factors(self, count):
        slow = 0
        for i in range(count):
            if slow == 0 and self.random.random() < self.stretches / 10:
                slow = self.random.randrange(5, 20)
            factor = math.exp(self.random.gauss(0, self.sigma))
            factor *= 1 + self.drift * math.sin(self.phase + 2 * math.pi * i / count)
            factor *= 1 + self.slope * i / count + (0.15 if slow else 0)
            slow = max(slow - 1, 0)
            if self.random.random() < self.outliers:
                factor *= self.random.uniform(1.2, 3)
            yield factor


PARTS = {"forward": 0.3, "backward": 0.4, "reduce": 0.2, "update": 0.1}  # seconds of a step


def steps_of(seed, count=200, slower=0.0, part="reduce", scale=1.0, warm=5, **how):
    """Times of the parts of each step; `slower`: a share of the step that `part` takes longer.  The
    first steps take up to `warm` times longer, as compilers and caches make them."""
    noise = Noise(seed, **how)
    for i, factor in enumerate(noise.factors(count)):
        start = 1 + warm * math.exp(-i / 2)
        yield {name: (seconds + (slower if name == part else 0)) * scale * factor * start
               for name, seconds in PARTS.items()}


def deepspeed(steps):
    stamp = "[2026-01-02 03:04:05,678] [INFO] [logging.py:96:log_dist] [Rank 0] "
    for s in steps:
        f, b, r, u = (1000 * s[name] for name in PARTS)
        yield (f"{stamp}time (ms) | optimizer_allgather: {u / 4:.2f} | optimizer_gradients: "
               f"{u / 4:.2f} | optimizer_step: {u / 2:.2f}\n")
        yield (f"{stamp}time (ms) | fwd_microstep: {f:.2f} | bwd_microstep: {b + r:.2f} | "
               f"bwd_inner_microstep: {b:.2f} | bwd_allreduce_microstep: {r:.2f} | "
               f"step_microstep: {u:.2f}\n")
        yield (f"{stamp}time (ms) | fwd: {f:.2f} | bwd: {b + r:.2f} | bwd_inner: {b:.2f} | "
               f"bwd_allreduce: {r:.2f} | step: {u:.2f}\n")


def deepspeed_old(steps):
    for i, s in enumerate(steps, 1):
        f, b, r, u = (1000 * s[name] for name in PARTS)
        yield f"\r {i}/1000 [00:01<09:59, 1.00it/s][2023-06-21 07:39:09,443] [INFO] [Rank 0] "
        yield (f"rank=0 time (ms) | forward: {f:.2f} | backward: {b + r:.2f} | "
               f"backward_inner: {b:.2f} | backward_allreduce: {r:.2f} | step: {u:.2f}\n")


def deepspeed_rates(steps, batch=64):
    """CurrSamplesPerSec, and a mean that starts at the third step."""
    total = 0
    for i, s in enumerate(steps, 1):
        total += sum(s.values()) if i > 2 else 0
        mean = batch * (i - 2) / total if total else math.inf
        yield (f"[INFO] [timer.py:264:stop] epoch=0/micro_step={2 * i}/global_step={i}, "
               f"RunningAvgSamplesPerSec={mean}, CurrSamplesPerSec={batch / sum(s.values())}, "
               "MemAllocated=59.65GB, MaxMemAllocated=63.31GB\n")


def deepspeed_means(steps, batch=64):
    """Before 2022: the mean alone."""
    total = 0
    for i, s in enumerate(steps, 1):
        total += sum(s.values()) if i > 2 else 0
        if i > 2:
            yield f"[INFO 2020-06-08 06:02:19] 0/{i}, SamplesPerSec={batch * (i - 2) / total}\n"


def iteration(i, seconds, batch=128):
    return (f" [2026-01-02 03:04:05] iteration {i:8d}/    1000 | consumed samples: "
            f"{i * batch:12d} | elapsed time per iteration (ms): {1000 * seconds:.1f} | "
            f"throughput per GPU (TFLOP/s/GPU): 400.0 | learning rate: 1.000000E-04 | "
            f"global batch size: {batch:5d} | "
            "lm loss: 2.504220E+00 | loss scale: 1.0 | grad norm: 0.231 | number of skipped "
            "iterations:   0 | number of nan iterations:   0 |\n")


def timers(s, form):
    f, b, r, u = (1000 * s[name] for name in PARTS)
    rows = {"forward-backward": f + b, "forward-compute": f, "backward-compute": b,
            "batch-generator": f / 10, "all-grads-sync": r, "optimizer": u,
            "optimizer-inner-step": 0.8 * u}
    if form == "line":
        return "time (ms) | " + " | ".join(f"{name}: {ms:.2f}" for name, ms in rows.items()) + "\n"
    head = "(min, max) time" if form == "minmax" else "max time"
    text = f"{head} across ranks (ms):\n"
    for name, ms in rows.items():
        value = f"({0.9 * ms:.2f}, {ms:.2f})" if form == "minmax" else f"{ms:.2f}"
        text += f"    {(name + ' ').ljust(48, '.')}: {value}\n"
    return text


def megatron(steps, form="minmax", batch=128):
    for i, s in enumerate(steps, 1):
        yield iteration(i, sum(s.values()), batch)
        yield timers(s, form)


def torchtitan(steps, tokens=8192, ranks=1, colour="\x1b[31m"):
    off = "\x1b[39m" if colour else ""
    for i, s in enumerate(steps, 1):
        for rank in range(ranks):
            yield (f"[rank{rank}]:[titan] 2026-01-02 03:04:05,678 - root - INFO - {colour}step: "
                   f"{i:2}  {off}loss:  7.6258  grad_norm: 26.6250  memory: 66.91GiB(37.51%)  "
                   f"{colour}tps: {round(tokens / sum(s.values())):,}  {off}tflops: 1,314.71  "
                   "mfu: 13.99%\n")
        if i % 50 == 0:
            yield f"[titan] - INFO - validate step: {i}  loss:  7.1  memory:  9.46GiB  tps: 99\n"


def trainer_state(steps):
    now, rows = 0, []
    for i, s in enumerate(steps, 1):
        now += sum(s.values())
        rows.append({"epoch": i / 100, "loss": 2.5, "grad_norm": 1.5, "learning_rate": 1e-4,
                     "num_input_tokens_seen": 8192 * i, "train_runtime": round(now, 4),
                     "train_tokens_per_second": 8192 * i / now, "step": i})
        if i % 50 == 0:
            now += 30
            rows.append({"epoch": i / 100, "eval_loss": 2.4, "eval_runtime": 30.0, "step": i})
    rows.append({"epoch": 2.0, "train_runtime": round(now, 4), "train_loss": 2.5, "step": len(rows),
                 "train_steps_per_second": 1.0, "total_flos": 1e18})
    yield json.dumps({"best_metric": None, "global_step": len(rows), "log_history": rows})


def exported(steps, tokens=8192):
    for i, s in enumerate(steps, 1):
        seconds = sum(s.values())
        yield f"step {i} loss 3.1000 {seconds:.3f} s {tokens / seconds:.0f} tokens/s\n"


def memwall(steps, predicted=1.0):
    for i, s in enumerate(steps, 1):
        seconds = sum(s.values())
        yield json.dumps({"step": i, "loss": 2.5, "gradient_norm": 1.0, "lr": 1e-4,
                          "step_time_s": seconds, "tokens": 8192, "tokens_per_s": 8192 / seconds,
                          "mfu": 0.4, "of_predicted_speed": predicted / seconds, "loss_scale": 1,
                          "skipped": False}) + "\n"


# A format, whether it names parts, and what it calls the reduction of gradients.
FORMATS = {
    "deepspeed": (deepspeed, "bwd_allreduce of bwd"),
    "deepspeed-old": (deepspeed_old, "backward_allreduce of backward"),
    "deepspeed-rates": (deepspeed_rates, None),
    "deepspeed-means": (deepspeed_means, None),
    "megatron": (megatron, "all-grads-sync"),
    "megatron-max": (lambda steps: megatron(steps, "max"), "all-grads-sync"),
    "megatron-torchrun": (lambda steps: (f"[default7]:{line}\n" for text in megatron(steps)
                                         for line in text.splitlines()), "all-grads-sync"),
    "megatron-line": (lambda steps: megatron(steps, "line"), "all-grads-sync"),
    "torchtitan": (torchtitan, None),
    "torchtitan-plain": (lambda steps: torchtitan(steps, ranks=3, colour=""), None),
    "trainer-state": (trainer_state, None),
    "memwall": (memwall, None),
    "exported": (exported, None),
}


def text_of(name, *what, **how):
    return "".join(FORMATS[name][0](steps_of(*what, **how)))
