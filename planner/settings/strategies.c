#include "planner/settings/strategies.h"

#include <string.h>

#include "base/error.h"
#include "base/nearest.h"
#include "base/spell.h"

#define ZERO "ZeRO, arXiv 1910.02054, "
#define ZERO_OFFLOAD "ZeRO-Offload, arXiv 2101.06840, "
#define ZERO_INFINITY "ZeRO-Infinity, arXiv 2104.07857, "

/* Where the planner looks for a home: nearest and deepest tier. */
#define ON_GPU MW_TIER_GPU, MW_TIER_GPU
#define ON_CPU MW_TIER_CPU, MW_TIER_CPU
#define TO_CPU MW_TIER_GPU, MW_TIER_CPU
#define TO_NVME MW_TIER_GPU, MW_TIER_NVME
#define CPU_TO_NVME MW_TIER_CPU, MW_TIER_NVME

/* Bits of states. */
#define OF(state) (1u << MW_STATE_##state)

/* clang-format off */
static const struct mw_strategy_traits rows[MW_STRATEGY_COUNT] = {
    [MW_STRATEGY_AUTO] = {
        .name = "auto",
        .help = "the fastest that fits of those below that it tries, with the placement that it "
                "takes",
        .source = ZERO_INFINITY "Sec. 5.1",
        .partition = MW_PARTITION_BANDWIDTH,
    },
    [MW_STRATEGY_DDP] = {
        .name = "ddp",
        .help = "every GPU holds a whole replica; gradients are all-reduced",
        .source = "PyTorch Distributed, arXiv 2006.15704, Sec. 3.2",
        .complexity = 10,
        .state = {                /* partitioned, offloadable, nearest and deepest */
            [MW_STATE_PARAMETERS]  = {false, false, ON_GPU},
            [MW_STATE_GRADIENTS]   = {false, false, ON_GPU},
            [MW_STATE_OPTIMIZER]   = {false, false, ON_GPU},
            [MW_STATE_ACTIVATIONS] = {false, true,  ON_GPU},
        },
        .partition = MW_PARTITION_BANDWIDTH,
        .runs = true,
        .deepspeed = {.stage = 0, .least_stage = 0, .offload = MW_TIER_GPU},
    },
    [MW_STRATEGY_ZERO1] = {
        .name = "zero1",
        .help = "ZeRO stage 1: optimizer state partitioned over the ranks",
        .source = ZERO "Sec. 5.1",
        .complexity = 20,
        .state = {                /* partitioned, offloadable, nearest and deepest */
            [MW_STATE_PARAMETERS]  = {false, false, ON_GPU},
            [MW_STATE_GRADIENTS]   = {false, false, ON_GPU},
            [MW_STATE_OPTIMIZER]   = {true,  false, ON_GPU},
            [MW_STATE_ACTIVATIONS] = {false, true,  ON_GPU},
        },
        .partition = MW_PARTITION_BANDWIDTH,
        .runs = true,
        .deepspeed = {.stage = 1, .least_stage = 1, .offload = MW_TIER_GPU},
    },
    [MW_STRATEGY_ZERO2] = {
        .name = "zero2",
        .help = "ZeRO stage 2: gradients partitioned too",
        .source = ZERO "Sec. 5.2",
        .complexity = 30,
        .state = {                /* partitioned, offloadable, nearest and deepest */
            [MW_STATE_PARAMETERS]  = {false, false, ON_GPU},
            [MW_STATE_GRADIENTS]   = {true,  true,  ON_GPU},
            [MW_STATE_OPTIMIZER]   = {true,  true,  ON_GPU},
            [MW_STATE_ACTIVATIONS] = {false, true,  ON_GPU},
        },
        .partition = MW_PARTITION_BANDWIDTH,
        .runs = true,
        .offloads_by_another_name = true,
        .deepspeed = {.stage = 2, .least_stage = 2, .offload = MW_TIER_GPU},
    },
    [MW_STRATEGY_ZERO3] = {
        .name = "zero3",
        .help = "ZeRO stage 3: parameters partitioned too",
        .source = ZERO "Sec. 5.3",
        .complexity = 40,
        .state = {                /* partitioned, offloadable, nearest and deepest */
            [MW_STATE_PARAMETERS]  = {true,  true,  ON_GPU},
            [MW_STATE_GRADIENTS]   = {true,  true,  ON_GPU},
            [MW_STATE_OPTIMIZER]   = {true,  true,  ON_GPU},
            [MW_STATE_ACTIVATIONS] = {false, true,  ON_GPU},
        },
        .partition = MW_PARTITION_BANDWIDTH,
        .runs = true,
        .offloads_by_another_name = true,
        .deepspeed = {.stage = 3, .least_stage = 3, .offload = MW_TIER_GPU},
    },
    [MW_STRATEGY_ZERO_OFFLOAD] = {
        .name = "zero-offload",
        .help = "stage 2 with gradients, optimizer state and update on the CPU",
        .source = ZERO_OFFLOAD "Sec. 4",
        .complexity = 50,
        .state = {                /* partitioned, offloadable, nearest and deepest */
            [MW_STATE_PARAMETERS]  = {false, false, ON_GPU},
            [MW_STATE_GRADIENTS]   = {true,  true,  ON_CPU},
            [MW_STATE_OPTIMIZER]   = {true,  true,  ON_CPU},
            [MW_STATE_ACTIVATIONS] = {false, true,  ON_GPU},
        },
        .partition = MW_PARTITION_OWNER,
        .runs = true,
        .delays_update = true,
        .deepspeed = {.stage = 2, .least_stage = 1, .offload = MW_TIER_CPU},
    },
    [MW_STRATEGY_ZERO_INFINITY_CPU] = {
        .name = "zero-infinity-cpu",
        .help = "stage 3 with as much of the state in CPU memory as must leave the GPU",
        .source = ZERO_INFINITY "Sec. 5.1",
        .complexity = 60,
        .state = {                /* partitioned, offloadable, nearest and deepest */
            [MW_STATE_PARAMETERS]  = {true,  true,  TO_CPU},
            [MW_STATE_GRADIENTS]   = {true,  true,  TO_CPU},
            [MW_STATE_OPTIMIZER]   = {true,  true,  TO_CPU},
            [MW_STATE_ACTIVATIONS] = {false, true,  TO_CPU},
        },
        .partition = MW_PARTITION_BANDWIDTH,
        .runs = true,
        .deepspeed = {.stage = 3, .least_stage = 3, .offload = MW_TIER_CPU},
    },
    [MW_STRATEGY_ZERO_INFINITY_NVME] = {
        .name = "zero-infinity-nvme",
        .help = "as zero-infinity-cpu, with what CPU memory cannot hold on NVMe",
        .source = ZERO_INFINITY "Sec. 5.1",
        .complexity = 70,
        .state = {                /* partitioned, offloadable, nearest and deepest */
            [MW_STATE_PARAMETERS]  = {true,  true,  TO_NVME},
            [MW_STATE_GRADIENTS]   = {true,  true,  TO_NVME},
            [MW_STATE_OPTIMIZER]   = {true,  true,  TO_NVME},
            [MW_STATE_ACTIVATIONS] = {false, true,  TO_CPU},
        },
        .partition = MW_PARTITION_BANDWIDTH,
        .runs = true,
        .deepspeed = {.stage = 3, .least_stage = 3, .offload = MW_TIER_NVME},
    },
    [MW_STRATEGY_TWIN_FLOW] = {
        .name = "zero-offload++",
        .help = "stage 3 with the optimizer state on CPU and GPU, each part updated where it is "
                "at the same time (Twin-Flow): as much on the GPU as has room",
        .source = "ZeRO-Offload++, DeepSpeed pull request 4636; " ZERO_OFFLOAD "Sec. 4",
        .complexity = 55,
        .state = {                /* partitioned, offloadable, nearest and deepest */
            [MW_STATE_PARAMETERS]  = {true,  true,  TO_CPU},
            [MW_STATE_GRADIENTS]   = {true,  true,  TO_CPU},
            [MW_STATE_OPTIMIZER]   = {true,  true,  TO_CPU},
            [MW_STATE_ACTIVATIONS] = {false, true,  TO_CPU},
        },
        .partition = MW_PARTITION_BANDWIDTH,
        .runs = true,
        .fills_gpu = OF(GRADIENTS) | OF(OPTIMIZER),
        .by_name = true,
        .deepspeed = {.stage = 3, .least_stage = 3, .offload = MW_TIER_COUNT, .partly = true},
    },
    [MW_STRATEGY_L2L] = {
        .name = "l2l",
        .help = "layer to layer: all state on the CPU, a layer on the GPU at a time, which all "
                "micro-batches pass before the next; updated by the CPU",
        .source = "L2L, arXiv 2002.05645",
        .complexity = 57,
        .state = {                /* partitioned, offloadable, nearest and deepest */
            [MW_STATE_PARAMETERS]  = {true,  true,  ON_CPU},
            [MW_STATE_GRADIENTS]   = {true,  true,  ON_CPU},
            [MW_STATE_OPTIMIZER]   = {true,  true,  ON_CPU},
            [MW_STATE_ACTIVATIONS] = {false, true,  TO_CPU},
        },
        .partition = MW_PARTITION_BANDWIDTH,
        .runs = true,
        .layer_order = true,
        .by_name = true,
        .deepspeed = {.stage = 3, .offload = MW_TIER_COUNT},
    },
    [MW_STRATEGY_GEEPS] = {
        .name = "geeps",
        .help = "GPU memory first: as much of all state and activations there as has room, the "
                "rest swapped to the CPU and back; updated on the GPU, nothing recomputed",
        .source = "GeePS, EuroSys 2016, doi 10.1145/2901318.2901323",
        .complexity = 68,
        .state = {                /* partitioned, offloadable, nearest and deepest */
            [MW_STATE_PARAMETERS]  = {true,  true,  TO_CPU},
            [MW_STATE_GRADIENTS]   = {true,  true,  TO_CPU},
            [MW_STATE_OPTIMIZER]   = {true,  true,  TO_CPU},
            [MW_STATE_ACTIVATIONS] = {false, true,  TO_CPU},
        },
        .partition = MW_PARTITION_BANDWIDTH,
        .runs = true,
        .fills_gpu = OF(PARAMETERS) | OF(GRADIENTS) | OF(OPTIMIZER) | OF(ACTIVATIONS),
        .updates_on_gpu = true,
        .whole_checkpoints = true,
        .by_name = true,
        .deepspeed = {.stage = 3, .offload = MW_TIER_COUNT},
    },
    [MW_STRATEGY_STREAMED_UPDATE] = {
        .name = "streamed-update",
        .help = "as zero-infinity-nvme, with the update on the GPU: optimizer state rests on CPU "
                "or NVMe, and passes the GPU chunk by chunk",
        .source = "Deep Optimizer States, arXiv 2410.21316; paged optimizers: QLoRA, "
                  "arXiv 2305.14314, Sec. 3",
        .complexity = 65,
        .state = {                /* partitioned, offloadable, nearest and deepest */
            [MW_STATE_PARAMETERS]  = {true,  true,  TO_NVME},
            [MW_STATE_GRADIENTS]   = {true,  true,  TO_NVME},
            [MW_STATE_OPTIMIZER]   = {true,  true,  CPU_TO_NVME},
            [MW_STATE_ACTIVATIONS] = {false, true,  TO_CPU},
        },
        .partition = MW_PARTITION_BANDWIDTH,
        .runs = true,
        .updates_on_gpu = true,
        .by_name = true,
        .deepspeed = {.stage = 3, .offload = MW_TIER_COUNT},
    },
};
/* clang-format on */

const struct mw_strategy_traits *
mw_strategy_traits(enum mw_strategy strategy)
{
    return &rows[strategy];
}

bool
mw_strategy_is_simpler(enum mw_strategy one, enum mw_strategy other)
{
    return rows[one].complexity < rows[other].complexity;
}

enum mw_strategy
mw_strategy_sized_as(enum mw_strategy strategy)
{
    for (int first = MW_STRATEGY_AUTO + 1; first < (int)strategy; first++) {
        bool same = true;
        for (int state = 0; state < MW_STATE_COUNT; state++)
            same = same &&
                   rows[first].state[state].partitioned == rows[strategy].state[state].partitioned;
        if (same)
            return (enum mw_strategy)first;
    }
    return strategy;
}

/* The strategies of more than this complexity, and those that must be named only if `named`. */
static struct mw_strategies
sorted(int least, bool named)
{
    struct mw_strategies list = {.count = 0};

    for (int s = 0; s < MW_STRATEGY_COUNT; s++) {
        int place = list.count;
        if (rows[s].complexity <= least || (rows[s].by_name && !named))
            continue;
        for (; place > 0 && mw_strategy_is_simpler(s, list.one[place - 1]); place--)
            list.one[place] = list.one[place - 1];
        list.one[place] = (enum mw_strategy)s;
        list.count++;
    }
    return list;
}

struct mw_strategies
mw_strategies_all(void)
{
    return sorted(0, true);
}

struct mw_strategies
mw_strategies_of(enum mw_strategy asked)
{
    return asked == MW_STRATEGY_AUTO ? sorted(0, false) : (struct mw_strategies){1, {asked}};
}

struct mw_strategies
mw_strategies_beyond(enum mw_strategy strategy)
{
    return strategy == MW_STRATEGY_AUTO ? (struct mw_strategies){.count = 0}
                                        : sorted(rows[strategy].complexity, false);
}

char *
mw_strategies_text(bool (*takes)(const struct mw_strategy_traits *))
{
    const struct mw_strategies all = mw_strategies_of(MW_STRATEGY_AUTO);
    const char *last = NULL;
    GString *text = g_string_new(NULL);

    for (int i = 0; i < all.count; i++) {
        const struct mw_strategy_traits *row = &rows[all.one[i]];
        if (!takes(row))
            continue;
        if (last)
            g_string_append_printf(text, "%s%s", text->len ? ", " : "", last);
        last = row->name;
    }
    if (last)
        g_string_append_printf(text, "%s%s", text->len ? " or " : "", last);
    return g_string_free(text, FALSE);
}

const char *
mw_strategy_name(int strategy)
{
    return strategy >= 0 && strategy < MW_STRATEGY_COUNT ? rows[strategy].name : NULL;
}

/* What other programs call a way to train, and which it is here; NULL: not such a name. */
static const char *
meant_by(const char *name)
{
    static const struct {
        const char *name, *meant;
    } others[] = {
        {"fsdp", "FSDP, which shards parameters, gradients and optimizer state, is zero3"},
        {"lora", "adapters of a rank go with every strategy: {train=lora:16}"},
        {"qlora", "it goes with every strategy: {train=lora:16} with {weight-bits=4}"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
        if (!g_ascii_strcasecmp(name, others[i].name))
            return others[i].meant;
    return NULL;
}

bool
mw_strategy_parse(const char *name, enum mw_strategy *out, GError **error)
{
    g_autoptr(GString) accepted = g_string_new(NULL);
    const char *names[MW_STRATEGY_COUNT + 1] = {NULL};

    for (int i = 0; i < MW_STRATEGY_COUNT; i++) {
        if (!strcmp(name, rows[i].name)) {
            *out = (enum mw_strategy)i;
            return true;
        }
        names[i] = rows[i].name;
        g_string_append_printf(accepted, "%s%s", i ? ", " : "", names[i]);
    }
    const char *meant = meant_by(name);
    g_autofree char *spelled = meant ? mw_spelled(meant) : NULL;
    if (meant)
        return mw_refuse(error, "strategy: unknown \"%s\"; %s", name, spelled);
    g_autofree char *like = mw_names_like(name, names, "");
    if (like)
        return mw_refuse(error, "strategy: unknown \"%s\"; did you mean %s?", name, like);
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "strategy: unknown \"%s\"; accepted: %s", name,
                accepted->str);
    return false;
}
