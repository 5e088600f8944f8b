"""ZeRO-Infinity Fig. 2b: what the planner and the engine make of a DGX-2 cluster."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common

# Parts large enough that the latency of a read or a ring is small beside its transfer; the
# optimizer state must fit the hosts.
MODELS = {"1": "zi-50b", "4": "zi-50b", "16": "zi-1t", "64": "zi-1t", "96": "zi-1t"}
OUTLOOKS = ("low", "typical", "high")
# No overlap with compute, which at the low outlook takes multiprocessors from collectives.
STATES = ("--optimizer-device", "cpu", "--gradient-device", "cpu", "--activation-device", "gpu",
          "--overlap", "off")
SLIDES = {"cpu_per_gpu": 64 / 16, "nvme_per_gpu": 28 / 16}


def gpus_of(row):
    return "1" if row["gpus"] == "1" else "16"


def machine(row):
    return ("-m", MODELS[row["nodes"]], "-H", "dgx2", "--nodes", row["nodes"], "--gpus",
            gpus_of(row), "--batch", "1", "--commit", "none")


def capacities(row):
    """TB of all nodes (GPU memory in binary TB), reserves included."""
    answer = common.memwall("plan", *machine(row), "-s", "zero-infinity-nvme")
    settings = answer["settings"]
    ranks = settings["nodes"] * settings["gpus_per_node"]
    of = {tier: ranks * (t["capacity_bytes"] + t["reserve_bytes"])
          for tier, t in answer["tiers"].items()}
    return {"gpu_memory_tb": of["gpu"] / 2**40, "cpu_memory_tb": of["cpu"] / 1e12,
            "nvme_tb": of["nvme"] / 1e12}


def fetched(answer):
    """Bytes that one GPU's links carry: its part of three loads of all 16-bit parameters."""
    settings = answer["settings"]
    return 3 * 2 * answer["params"] / (settings["nodes"] * settings["gpus_per_node"])


def simulate(row, outlook, device):
    """zero-infinity-nvme offers every tier; states other than parameters stay off the drives."""
    return common.memwall("simulate", *machine(row), "-s", "zero-infinity-nvme", "--param-device",
                          device, *STATES, "--outlook", outlook)


def from_cpu(row, outlook):
    answer = simulate(row, outlook, "cpu")
    return fetched(answer) / common.lane_s(answer, "h2d") / 1e9


def from_nvme(row, outlook):
    answer = simulate(row, outlook, "nvme")
    slower = max(common.lane_s(answer, lane) for lane in ("h2d", "nvme-read"))
    return fetched(answer) / slower / 1e9


def gpu_to_gpu(row, outlook):
    """Rings inside a node carry (n-1)/n of the data over a GPU's port, between nodes over a NIC."""
    if row["gpus"] == "1":
        return None
    answer = simulate(row, outlook, "cpu")
    members = int(row["nodes"]) if int(row["nodes"]) > 1 else int(gpus_of(row))
    carried = 8 * answer["params"] * (members - 1) / members
    return carried / common.lane_s(answer, "collective") / 1e9


def gpu_memory(row):
    answer = common.memwall("simulate", *machine(row), "-s", "zero-infinity-nvme", "--what-if")
    return next(n["present_bytes_per_s"] / 1e9 for n in answer["needs"]
                if n["what"] == "GPU memory bandwidth")


BANDWIDTHS = (("cpu_per_gpu", "from host memory", from_cpu),
              ("nvme_per_gpu", "from drives", from_nvme),
              ("gpu_gpu", "GPU to GPU", gpu_to_gpu))


def number(text):
    return float(text) if text else None


def published_range(row, name):
    """(low, high); one figure stands for both."""
    if name in row:
        return number(row[name]), number(row[name])
    return number(row[name + "_low"]), number(row[name + "_high"])


def case(row):
    bandwidths = {name: [measure(row, o) for o in OUTLOOKS] for name, _, measure in BANDWIDTHS}
    bandwidths["gpu_memory"] = [gpu_memory(row)] * 3
    return {"row": row, "capacities": capacities(row), "bandwidths": bandwidths}


def name_of(row):
    return "1 GPU" if row["gpus"] == "1" else f"{row['nodes']} node{'s' * (row['nodes'] != '1')}"


def agrees(low, high, predicted):
    """The predicted range meets the published one within 5%."""
    margin = common.RANGE_MARGIN
    return predicted[0] <= high * (1 + margin) and predicted[2] >= low * (1 - margin)


def capacity_rows(cases):
    for c in cases:
        for name, what in (("gpu_memory_tb", "GPU memory, TiB"),
                           ("cpu_memory_tb", "host memory, TB"), ("nvme_tb", "NVMe, TB")):
            printed, value = float(c["row"][name]), c["capacities"][name]
            yield [name_of(c["row"]), what, printed, value, common.error_percent(value, printed)]


def bandwidth_rows(cases):
    kinds = [(name, what) for name, what, _ in BANDWIDTHS] + [("gpu_memory", "GPU memory")]
    for c in cases:
        for name, what in kinds:
            low, high = published_range(c["row"], name)
            predicted = c["bandwidths"][name]
            if low is not None:
                yield [name_of(c["row"]), what, low, high, *predicted, agrees(low, high, predicted)]


def span(low, high):
    return common.figure(low) if low == high else f"{low:.0f} to {high:.0f}"


def write(cases):
    capacity, bandwidth = list(capacity_rows(cases)), list(bandwidth_rows(cases))
    close = sum(abs(r[4]) <= 2.5 for r in capacity)
    common.write_text(HERE / "result.md", f"""\
# Result: ZeRO-Infinity Fig. 2b, a cluster of DGX-2

{sum(abs(r[4]) <= 0.1 for r in capacity)} of {len(capacity)} capacities are the printed ones and \
{close} of {len(capacity)} within 2.5%; {sum(r[-1] for r in bandwidth)} of {len(bandwidth)}
bandwidths meet the printed figure or range within 5%.

## Capacity

{common.markdown_table(["cluster", "memory", "published", "profile", "error"],
                       [r[:4] + [common.percent(r[4])] for r in capacity], 4)}
1 GPU: the paper prints 0.032 TB for 32 GB, in binary TB 0.03125.  The planner keeps back 1.5 GiB of
each GPU, 64 GiB of each host and 1% of the drives (`.reserve` in the profile); they are in here.

## Bandwidth with every GPU at work, GB/s per GPU

GPU to GPU of several nodes is what all GPUs of a node get through its network together: the
all-gather brings the same bytes to each.

{common.markdown_table(["cluster", "path", "published", "engine", "low", "high", "agrees"],
                       [[r[0], r[1], span(r[2], r[3]), r[5], r[4], r[6], common.yes(r[7])]
                        for r in bandwidth])}
## Notes

{common.bullets(
    "The authors' slides say 64 GB/s a node from host memory and 28 from drives, "
    f"{SLIDES['cpu_per_gpu']:.1f} and {SLIDES['nvme_per_gpu']:.2f} a GPU, where the paper prints "
    "3.0 and 1.6: they are the high end of the profile's ranges.",
    "One GPU alone is limited by its PCIe link, 12 GB/s, also from drives that give 25.6: the "
    "paper prints 12.0 for both.",
    "GPU memory is the profile's derated figure, one value without a range.",
    "Drives and GPU to GPU fall a little with the nodes: parts get smaller, and each read costs "
    "its 100 us, each ring step its 5 us.  A plan reads one part at a time from the drives, so "
    "that "
    "latency does not hide behind the next read.")}""")
    common.write_csv(HERE / "result.csv",
                     ["cluster", "what", "published_low", "published_high", "flag", "engine", "low",
                      "high", "agrees"],
                     [[r[0], r[1], r[2], r[2], "printed", r[3], "", "", ""] for r in capacity]
                     + [[r[0], f"{r[1]}, GB/s per GPU", r[2], r[3], "printed", r[5], r[4], r[6],
                         common.yes(r[7])] for r in bandwidth])


def plot(cases):
    blocks, plots = {}, []
    colours = {"cpu_per_gpu": common.ENGINE, "nvme_per_gpu": common.OTHER,
               "gpu_gpu": common.CLOSED_FORM}
    for name, what, _ in BANDWIDTHS:
        rows = []
        for i, c in enumerate(cases):
            low, high = published_range(c["row"], name)
            if low is not None:
                engine = c["bandwidths"][name]
                rows.append([i, (low + high) / 2, low, high, engine[1], engine[0], engine[2]])
        blocks[name] = rows
        plots += [f"${name} using ($1-0.1):2:3:4 with yerrorbars pt 5 ps 1.2 lw 2 lc rgb "
                  f"'{common.PUBLISHED}' {'notitle' if plots else 'title ' + repr('published')}",
                  f"${name} using ($1+0.1):5:6:7 with yerrorbars pt 7 ps 1 lw 2 lc rgb "
                  f"'{colours[name]}' title 'engine, {what}'"]
    ticks = ", ".join(f"'{name_of(c['row'])}' {i}" for i, c in enumerate(cases))
    common.gnuplot(HERE / "plot.svg", f"""
set title 'ZeRO-Infinity Fig. 2b: bandwidth with every GPU at work' font ',16'
set ylabel 'GB/s per GPU'
set logscale y
set yrange [1:400]
set xrange [-0.5:{len(cases) - 0.5}]
set xtics ({ticks})
set key outside bottom center horizontal samplen 1
set bars 1.2
plot {', '.join(plots)}
""", blocks)


def main():
    cases = [case(row) for row in common.read_csv(HERE / "published.csv")]
    write(cases)
    plot(cases)


if __name__ == "__main__":
    main()
