/* The roles, channels and partners that each kind of op may have. */
#include "plan/internal.h"

#define BIT(role) (1u << MW_ROLE_##role)
#define MOVE (BIT(SOURCE) | BIT(DESTINATION))
/* Homes that a chunk of the optimizer step reads or writes, besides its buffer. */
#define CHUNK (BIT(PARAMETER) | BIT(GRADIENT) | BIT(STATE))
#define DURABLE (BIT(RECORD) | BIT(SAVE))
#define ADDED (BIT(GRADIENT) | BIT(SUM))
#define SUMMED (BIT(GRADIENT) | BIT(OUTPUT) | BIT(SENT))
#define GATHERED (CHUNK | BIT(OUTPUT) | BIT(RECEIVED))
#define EXCHANGED (BIT(PARAMETER) | BIT(GRADIENT) | BIT(OUTPUT))
#define OPERATOR                                                                                   \
    (BIT(PARAMETER) | BIT(GRADIENT) | BIT(INPUT) | BIT(OUTPUT) | BIT(CHECKPOINT) | BIT(LOGITS) |   \
     BIT(RECEIVED) | BIT(SENT) | BIT(WIDENED))

/* clang-format off */
#define ROW(kind, name, agent, joins, pattern, writes, roles)             \
    [MW_OP_##kind] = {name, MW_AGENT_##agent, MW_JOINS_##joins,           \
                      MW_PATTERN_##pattern, writes, roles}

static const struct mw_op_traits rows[MW_OP_KIND_COUNT] = {
    ROW(BEGIN,          "begin",          NOBODY,  NOBODY, NONE,     false, 0),
    ROW(COMPUTE,        "compute",        CORES,   NOBODY, NONE,     false, OPERATOR),
    ROW(UPDATE,         "update",         CORES,   NOBODY, NONE,     false, MOVE | CHUNK),
    ROW(NORM,           "norm",           CORES,   NOBODY, NONE,     false, BIT(GRADIENT)),
    ROW(AGREE,          "agree",          NETWORK, GROUP,  REDUCE,   false, BIT(GRADIENT)),
    ROW(ACCUMULATE,     "accumulate",     CORES,   NOBODY, NONE,     false, ADDED),
    ROW(NVME_READ,      "nvme-read",      DRIVES,  NOBODY, NONE,     false, MOVE | CHUNK),
    ROW(NVME_WRITE,     "nvme-write",     DRIVES,  NOBODY, NONE,     true, MOVE | CHUNK),
    ROW(H2D,            "h2d",            LINK,    NOBODY, NONE,     false, MOVE | CHUNK),
    ROW(D2H,            "d2h",            LINK,    NOBODY, NONE,     false, MOVE | CHUNK),
    ROW(ALL_GATHER,     "all-gather",     NETWORK, GROUP,  GATHER,   false, MOVE | GATHERED),
    ROW(REDUCE_SCATTER, "reduce-scatter", NETWORK, GROUP,  GATHER,   false, MOVE | SUMMED),
    ROW(ALL_REDUCE,     "all-reduce",     NETWORK, GROUP,  REDUCE,   false, SUMMED),
    ROW(ALL_TO_ALL,     "all-to-all",     NETWORK, GROUP,  EXCHANGE, false, MOVE | EXCHANGED),
    ROW(RING_PASS,      "ring-pass",      NETWORK, GROUP,  PASS,     false, BIT(OUTPUT)),
    ROW(BROADCAST,      "broadcast",      NETWORK, GROUP,  SPREAD,   false, MOVE),
    ROW(SEND,           "send",           NETWORK, PAIR,   HOP,      false, BIT(SOURCE)),
    ROW(RECV,           "recv",           NETWORK, PAIR,   HOP,      false, BIT(DESTINATION)),
    ROW(COMMIT,         "commit",         NOBODY,  ALL,    NONE,     true, DURABLE),
};
/* clang-format on */

const struct mw_op_traits *
mw_op_traits(int kind)
{
    return kind >= 0 && kind < MW_OP_KIND_COUNT ? &rows[kind] : NULL;
}

bool
mw_op_kind_allows_role(int kind, int role)
{
    return role == MW_ROLE_NONE || rows[kind].roles >> role & 1;
}

int
mw_work_lane_kind(const struct mw_work *work)
{
    switch (rows[work->kind].agent) {
    case MW_AGENT_CORES:
        return work->host ? MW_LANE_HOST : MW_LANE_COMPUTE;
    case MW_AGENT_LINK:
        return work->kind == MW_OP_H2D ? MW_LANE_H2D : MW_LANE_D2H;
    case MW_AGENT_DRIVES:
        return rows[work->kind].writes ? MW_LANE_NVME_WRITE : MW_LANE_NVME_READ;
    case MW_AGENT_NETWORK:
        return MW_LANE_COLLECTIVE;
    case MW_AGENT_NOBODY:
        break;
    }
    return MW_LANE_HOST;
}
