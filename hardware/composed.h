/*
 * composed.h - a machine by its parts: "4xrtx4090,ram=256,nvme=2x4TB,pcie=4x8".
 *
 * It is a profile of one GPU with other numbers of its parts.  What is not named stays as that
 * profile has it; what follows from the parts is derived, by the rules of Sec. 13 of docs/MODEL.md
 * (hardware/composed_rules.c).
 */
#ifndef MW_HARDWARE_COMPOSED_H
#define MW_HARDWARE_COMPOSED_H

#include "hardware/hwprofile.h"

/* What the words say; 0: not said. */
struct mw_machine_parts {
    int gpus; /* as many of the base's GPU */
    int64_t ram_bytes;
    int drives;
    int64_t drive_bytes;                          /* capacity of each */
    bool no_drives;                               /* nvme=0 */
    int pcie_generation, pcie_lanes;              /* of each GPU */
    int dram_channels, dram_mega_transfers_per_s; /* of a node; 8 bytes a transfer */
    double net_gbit_per_s;                        /* of a node */
};

/* Whether `name` is parts rather than the name of a profile or a path. */
bool mw_machine_is_composed(const char *name);

/* The machine under the name `text`.  NULL with one line that names the part, its value and what
 * would be accepted. */
struct mw_profile *mw_machine_compose(const char *text, GError **error);

/* Makes `base` the machine of these parts; false: the base cannot have one of them. */
bool mw_machine_derive(struct mw_profile *base, const struct mw_machine_parts *parts,
                       GError **error);

#endif
