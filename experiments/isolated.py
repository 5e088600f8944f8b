"""A cluster on which only one traffic of ZeRO-Infinity's Sec. 4 takes time: parameters and
gradients, optimizer state, or activation checkpoints.  Every other bandwidth is set as high as a
profile may."""

import common

GPUS_PER_NODE = 16
NODES = 32

_FREE = {
    "gpu.memory_gib": 4000, "gpu.memory_gb_per_s": 1e6, "fabric.gb_per_s": 1e6,
    "network.gb_per_s": 1e6, "pcie.h2d_gb_per_s": 1e5, "pcie.d2h_gb_per_s": 1e5,
    "pcie.node_h2d_gb_per_s": 1e6, "pcie.node_d2h_gb_per_s": 1e6, "host.memory_gib": 30000,
    "host.memory_gb_per_s": 1e5, "host.update_gparams_per_s": 1e4, "nvme.capacity_tb": 10000,
    "nvme.read_gb_per_s": 1e5, "nvme.write_gb_per_s": 1e5,
}


class Traffic:
    """Keys that limit it, how many of the paper's units (GB/s) one unit of a key is, its place in
    `closed_form.efficiency`, the plan that has it, and what `needs` calls its bandwidth."""

    def __init__(self, name, unit, keys, per_unit, efficiency, plan, need):
        self.name, self.unit, self.keys, self.per_unit = name, unit, keys, per_unit
        self.efficiency, self.plan, self.need = efficiency, plan, need

    def sets(self, bandwidth):
        """--set options; bandwidth in the paper's unit, None for what the profile has."""
        values = {k: v for k, v in _FREE.items() if k not in self.keys}
        if bandwidth is not None:
            values.update({k: bandwidth * scale / self.per_unit for k, scale in self.keys.items()})
        return [o for k, v in values.items() for o in ("--set", f"{k}={v:.9g}")]


PARAMETERS = Traffic(
    "parameters and gradients", "GB/s, GPU to GPU", {"network.gb_per_s": 1}, 1, "parameters",
    ("-s", "zero3"), "network bandwidth (a node)")

# Of all nodes together.  With paper20 and gradients on NVMe a step reads 16 bytes a parameter and
# writes 16: the gradient, and p, m, v.
STATE = Traffic(
    "optimizer state", "GB/s, all GPUs together",
    {"nvme.read_gb_per_s": 1, "nvme.write_gb_per_s": 1}, NODES, "optimizer_state",
    ("-s", "zero-infinity-nvme", "--state-layout", "paper20", "--param-device", "gpu",
     "--optimizer-device", "nvme", "--gradient-device", "nvme", "--activation-device", "gpu"),
    "NVMe bandwidth (a node)")

CHECKPOINTS = Traffic(
    "activation checkpoints", "GB/s per GPU",
    {"pcie.h2d_gb_per_s": 1, "pcie.d2h_gb_per_s": 1, "pcie.node_h2d_gb_per_s": GPUS_PER_NODE,
     "pcie.node_d2h_gb_per_s": GPUS_PER_NODE}, 1, "checkpoints",
    ("-s", "zero-infinity-cpu", "--param-device", "gpu", "--optimizer-device", "gpu",
     "--gradient-device", "gpu", "--activation-device", "cpu"), "PCIe bandwidth (a node)")


def simulate(traffic, model, batch, bandwidth, overlap, profile="paper-v100-cluster", options=()):
    return common.memwall(
        "simulate", "-m", model, "-H", profile, "--nodes", NODES, "--batch", batch,
        "--commit", "none", *traffic.plan, *traffic.sets(bandwidth), "--overlap",
        "on" if overlap else "off", *options)


def equation(answer, traffic):
    """Eq. 6 with the intensity of Eq. 9, 10 or 11."""
    return answer["closed_form"]["efficiency"][traffic.efficiency]
