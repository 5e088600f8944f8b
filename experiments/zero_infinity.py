"""What the experiments on ZeRO-Infinity's figures share: its machine, Table 1's configurations."""

import common

# The paper counts 20 bytes of state a parameter and writes no durable checkpoint in its runs.
SETTINGS = ("-H", "dgx2", "--state-layout", "paper20", "--commit", "none", "--software",
            "deepspeed-0.3.15")
SOURCE = "ZeRO-Infinity, arXiv 2104.07857"

OUTLOOKS = """\
**Typical, low and high** are the ranges of `hwprofiles/dgx2.ini`, whose comments and `.source` keys
say where each comes from (the paper's text, its Fig. 2b, its SC'21 slides, datasheets).  They were
written down before the comparison, save for the curve of matrix products, derived anew since from
figures that are not in it (`experiments/zero-infinity-offloaded/README.md` lists what changed); no
constant is fitted to a row.  Low takes the slow end of every range, high the fast end.  The slow
end of `gpu.collective_sm_share` is 1: a collective then leaves compute no multiprocessor, so
nothing overlaps with it, which is what the paper's efficiency formula (Sec. 4, Eq. 6) assumes.
"""

NUMERATOR = """\
**TFLOP/s per GPU** are counted as the paper counts them, 8 * 12 nl hd^2 a token (forward, backward
twice, recompute), for published, closed form and engine alike.  The engine's own time also holds
what this count leaves out: attention scores, norms, the update.
"""


def table1():
    """The rows of Table 1 as dictionaries."""
    return common.read_csv(common.ROOT / "experiments" / "zero-infinity-table1" / "published.csv")


def find(nodes, params):
    return next(r for r in table1() if r["nodes"] == str(nodes) and r["params"] == params)


def label(row):
    return f"{row['params']}, {row['nodes']} node" + ("" if row["nodes"] == "1" else "s")


def devices(row):
    return ("--param-device", row["param_device"].lower(),
            "--optimizer-device", row["optimizer_device"].lower())


def shape(row):
    """Model, machine and slicing of a row, without batch and placement."""
    return ("-m", "zi-" + row["params"].lower(), "--nodes", row["nodes"], "--tp", row["mp"],
            "-s", "zero-infinity-nvme", *SETTINGS)


def simulate(row, *options, placed=True):
    """A row as published; placed=False leaves the placement to the planner."""
    where = devices(row) if placed else ()
    return common.memwall("simulate", *shape(row), "--batch", row["batch_per_gpu"], *where,
                          *options)


def placement(answer):
    """parameters / optimizer state / checkpoints, as the planner settled them."""
    s = answer["settings"]
    return "/".join(s[k] for k in ("param_device", "optimizer_device", "activation_device"))


def gib(count):
    return count / 2**30


def shortage(answer):
    """'gpu 5.7 GiB a GPU short', for a plan that does not fit."""
    short = gib(answer["short_bytes"])
    amount = f"{common.figure(short, 2)} GiB" if short >= 0.01 else f"{short * 2**20:.0f} KiB"
    return f"{answer['limiting_tier']}, {amount} a GPU short"


def step_ratio(upper, lower):
    """Ratio of two step times; its least and greatest with both at the same end of the ranges."""
    ratios = {"typical": upper["step_time_s"] / lower["step_time_s"]}
    for end in ("low", "high"):
        ratios[end] = upper["range"]["step_time_s"][end] / lower["range"]["step_time_s"][end]
    return {"engine": ratios["typical"], "low": min(ratios.values()), "high": max(ratios.values())}
