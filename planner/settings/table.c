#include "planner/settings/table.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "base/spell.h"
#include "plan/optimizers.h"
#include "planner/settings/drops.h"

const char *const mw_settings_group_titles[MW_SETTINGS_GROUPS] = {
    [MW_SETTINGS_BATCH] = "GPUs and batch",
    [MW_SETTINGS_PLACES] = "Where states are kept (default: offloaded only when needed)",
    [MW_SETTINGS_MEMORY] = "What takes memory",
    [MW_SETTINGS_SCHEDULE] = "Order of work in a step",
    [MW_SETTINGS_DURABLE] = "Durable steps",
    [MW_SETTINGS_OBJECTIVE] = "Fine-tuning from preferences (simulate)",
    [MW_SETTINGS_COST] = "Cost of a training",
};

static const struct mw_setting_choice commit_choices[] = {{"step", 1}, {"none", 0}, {NULL, 0}};
static const struct mw_setting_choice layout_choices[] = {
    {"zero16", MW_LAYOUT_ZERO16}, {"paper20", MW_LAYOUT_PAPER20}, {NULL, 0}};
static const struct mw_setting_choice partition_choices[] = {
    {"bandwidth", MW_PARTITION_BANDWIDTH}, {"owner", MW_PARTITION_OWNER}, {NULL, 0}};
static const struct mw_setting_choice dtype_choices[] = {
    {"bf16", MW_DTYPE_BF16}, {"fp16", MW_DTYPE_FP16}, {"fp32", MW_DTYPE_FP32}, {NULL, 0}};
static const struct mw_setting_choice matmul_choices[] = {
    {"16", MW_DTYPE_NONE}, {"fp8", MW_DTYPE_FP8}, {NULL, 0}};
static const struct mw_setting_choice weight_choices[] = {{"16", MW_DTYPE_NONE},
                                                          {"8", MW_DTYPE_MXFP8},
                                                          {"4", MW_DTYPE_NF4},
                                                          {"4-double", MW_DTYPE_NF4_DOUBLE},
                                                          {NULL, 0}};
static const struct mw_setting_choice checkpoint_choices[] = {
    {"16", MW_DTYPE_NONE}, {"8", MW_DTYPE_MXFP8}, {NULL, 0}};
static const struct mw_setting_choice group_choices[] = {{"node", MW_SHARD_NODE}, {NULL, 0}};
static const struct mw_setting_choice interval_choices[] = {{"sqrt", MW_INTERVAL_SQRT}, {NULL, 0}};
static const struct mw_setting_choice recompute_choices[] = {
    {"fewest", MW_RECOMPUTE_FEWEST}, {"auto", MW_RECOMPUTE_FASTEST}, {NULL, 0}};
static const struct mw_setting_choice data_parallel_choices[] = {
    {"sync", MW_DATA_PARALLEL_SYNC}, {"async", MW_DATA_PARALLEL_ASYNC}, {NULL, 0}};
static const struct mw_setting_choice capacity_choices[] = {{"none", 0}, {NULL, 0}};
static const struct mw_setting_choice overlap_choices[] = {{"on", 1}, {"off", 0}, {NULL, 0}};
static const struct mw_setting_choice context_choices[] = {
    {"ring", MW_CONTEXT_RING}, {"all-to-all", MW_CONTEXT_ALL_TO_ALL}, {NULL, 0}};
static const struct mw_setting_choice objective_choices[] = {{"causal", MW_OBJECTIVE_CAUSAL},
                                                             {"dpo", MW_OBJECTIVE_DPO},
                                                             {"reward", MW_OBJECTIVE_REWARD},
                                                             {"ppo", MW_OBJECTIVE_PPO},
                                                             {NULL, 0}};
static const struct mw_setting_choice tier_choices[] = {
    {"gpu", MW_TIER_GPU}, {"cpu", MW_TIER_CPU}, {"nvme", MW_TIER_NVME}, {NULL, 0}};
static const struct mw_setting_choice reference_choices[] = {{"step", 0}, {"before", 1}, {NULL, 0}};
static const struct mw_setting_choice update_on_choices[] = {{"host", 0}, {"gpu", 1}, {NULL, 0}};
static const struct mw_setting_choice content_choices[] = {
    {"inputs", 0}, {"activations", 1}, {NULL, 0}};
static const struct mw_setting_choice order_choices[] = {{"depth", 0}, {"layer", 1}, {NULL, 0}};
static const struct mw_setting_choice schedule_choices[] = {
    {"1f1b", MW_SCHEDULE_1F1B},
    {"gpipe", MW_SCHEDULE_GPIPE},
    {"interleaved", MW_SCHEDULE_INTERLEAVED},
    {"zb-h1", MW_SCHEDULE_ZB_H1},
    {"2bw", MW_SCHEDULE_2BW},
    {"pipedream", MW_SCHEDULE_PIPEDREAM},
    {"vertical-sync", MW_SCHEDULE_VERTICAL_SYNC},
    {NULL, 0}};
static const struct mw_setting_choice split_choices[] = {{"balanced", MW_STAGES_BALANCED},
                                                         {NULL, 0}};
static const struct mw_setting_choice update_choices[] = {{"end", 0}, {"beside", 1}, {NULL, 0}};

#define FIELD(field) offsetof(struct mw_settings, field), sizeof(((struct mw_settings *)0)->field)
#define STATE(state)                                                                               \
    offsetof(struct mw_settings, placement) + (state) * sizeof(struct mw_placement),               \
        sizeof(struct mw_placement)

const struct mw_setting mw_settings_table[MW_SETTINGS_COUNT] = {
    {MW_SETTINGS_BATCH, "nodes", MW_SETTING_WHOLE_COUNT, FIELD(nodes), 1, 100000, NULL, NULL, "N",
     "use N nodes (default 1)"},
    {MW_SETTINGS_BATCH, "gpus", MW_SETTING_INTEGER, FIELD(gpus_per_node), 1, 1024, NULL, NULL, "N",
     "use N GPUs per node (default: all that the profile has)"},
    {MW_SETTINGS_BATCH, "batch", MW_SETTING_REAL, FIELD(micro_batch), 1e-3, 1e6, "auto", NULL,
     "N|auto",
     "give each GPU micro-batches of N sequences; GPUs that share sequences by {tp} or {cp} have N "
     "times their number together, so 0.125 is one sequence for 8 of them (default auto: the "
     "fastest that fit; with `run` at most 8 sequences per GPU and step)"},
    {MW_SETTINGS_BATCH, "global-batch", MW_SETTING_WHOLE_COUNT, FIELD(global_batch), 1, 1e9, NULL,
     NULL, "N",
     "train on N sequences per step, all GPUs together (default: what {batch=N} gives; with auto "
     "at most 0.5M to 3.2M tokens, by the number of parameters, as in GPT-3's table)"},
    {MW_SETTINGS_BATCH, "grad-accum", MW_SETTING_WHOLE_COUNT, FIELD(grad_accum), 1, 4096, NULL,
     NULL, "N",
     "accumulate gradients over N micro-batches per step (default 1; with {batch=auto} as many as "
     "fill the global batch)"},
    {MW_SETTINGS_BATCH, "seq", MW_SETTING_INTEGER, FIELD(seq), 1, 1 << 24, NULL, NULL, "N",
     "train on sequences of N tokens (default: the model's own length, at most 4096; 1024 for "
     "the ZeRO papers' presets)"},
    {MW_SETTINGS_BATCH, "tp", MW_SETTING_INTEGER, FIELD(tp), 1, 1024, NULL, NULL, "N",
     "slice tensors over N GPUs (default 1: no slicing)"},
    {MW_SETTINGS_BATCH, "sequence-parallel", MW_SETTING_CHOICE, FIELD(sequence_parallel), 0, 0,
     NULL, overlap_choices, "on|off",
     "with {tp}: each GPU computes and keeps its part of the tokens where tensors are not sliced, "
     "in norms, residuals and dropout (default: as the software does; on with {ep})"},
    {MW_SETTINGS_BATCH, "pp", MW_SETTING_INTEGER, FIELD(pp), 1, 1024, NULL, NULL, "N",
     "divide the layers into a pipeline of N stages, each on its own GPUs, which {grad-accum} "
     "micro-batches pass (default 1: no pipeline)"},
    {MW_SETTINGS_BATCH, "shard-group", MW_SETTING_INTEGER, FIELD(shard_group), 2, MW_PLAN_MAX_WORLD,
     "all", group_choices, "S|node|all",
     "partition states over groups of S data-parallel GPUs, or over those of a node, and replicate "
     "them over the groups, which sum up gradients (hybrid sharding, HSDP; default all: one "
     "group)"},
    {MW_SETTINGS_BATCH, "cp", MW_SETTING_INTEGER, FIELD(cp), 1, 1 << 16, NULL, NULL, "N",
     "divide the tokens of every sequence over N neighbouring data-parallel GPUs, which have all "
     "parameters of their slice (context parallelism; default 1: a GPU has whole sequences)"},
    {MW_SETTINGS_BATCH, "cp-kind", MW_SETTING_CHOICE, FIELD(cp_kind), 0, 0, NULL, context_choices,
     "ring|all-to-all",
     "how {cp} GPUs compute attention: keys and values pass around a ring, or all-to-alls give "
     "each GPU whole sequences of some heads (Ulysses; default ring)"},
    {MW_SETTINGS_BATCH, "ep", MW_SETTING_INTEGER, FIELD(ep), 1, 1 << 16, NULL, NULL, "N",
     "spread the experts of each mixture over N neighbouring data-parallel GPUs, which send each "
     "other tokens by all-to-alls (expert parallelism; default 1: every GPU has all experts of a "
     "layer)"},
    {MW_SETTINGS_BATCH, "etp", MW_SETTING_INTEGER, FIELD(etp), 1, 1024, "tp", NULL, "1|tp",
     "with {ep} and {tp}: 1 keeps experts whole and spreads them over all slices of neighbouring "
     "GPUs, whose tokens then go to {ep} GPUs at once (expert tensor parallelism 1, MoE parallel "
     "folding; default tp: experts are sliced as all else)"},
    {MW_SETTINGS_BATCH, "capacity-factor", MW_SETTING_REAL, FIELD(capacity_factor), 0.01, 100,
     "auto", capacity_choices, "CF|none|auto",
     "give each expert of a mixture room for CF times an even share of a micro-batch's tokens: "
     "less is filled up, and more is dropped (GShard, Switch); none: no limit, and as many tokens "
     "for each expert (default auto: as the gate has it, 1 or none)"},
    {MW_SETTINGS_BATCH, "expert-imbalance", MW_SETTING_REAL, FIELD(expert_imbalance), 1, 1 << 16,
     NULL, NULL, "F",
     "with {ep}: in each layer the GPU with the most tokens of those that share experts has F "
     "times the mean: the others wait for it, and it keeps as much more (default 1: experts are "
     "visited evenly; `memwall run` says what it was); at most what can come to one GPU, and none "
     "with a capacity, which is filled up"},
    {MW_SETTINGS_BATCH, "gate", MW_SETTING_GATE, FIELD(gate), 0, 0, NULL, NULL, "KIND",
     "how tokens and the experts of a mixture find each other: `memwall list gates` lists the "
     "kinds, "
     "with what each adds to the router (default top-k: as the model's type has it)"},
    {MW_SETTINGS_BATCH, "router-aux-loss-coef", MW_SETTING_REAL, FIELD(router_aux_loss), 0,
     MW_DECODER_LOSS_MAX, "model", NULL, "A|model",
     "add A times the loss that balances the experts of a mixture, the mean over its layers "
     "(Switch, "
     "GShard; default model: router_aux_loss_coef of the model's config.json where its "
     "output_router_logits is true, else what {gate} says; 0: no such loss)"},
    {MW_SETTINGS_BATCH, "router-z-loss-coef", MW_SETTING_REAL, FIELD(router_z_loss), 0,
     MW_DECODER_LOSS_MAX, "model", NULL, "Z|model",
     "add Z times the loss that keeps a router's scores small, the mean over the layers (ST-MoE; "
     "default model: router_z_loss_coef of the model's config.json where its output_router_logits "
     "is true; 0: no such loss)"},
    {MW_SETTINGS_PLACES, "param-device", MW_SETTING_PLACEMENT, STATE(MW_STATE_PARAMETERS), 0, 0,
     NULL, NULL, "WHERE",
     "keep parameters on gpu, cpu or nvme, or split them: cpu:60GB,nvme keeps 60 GB per "
     "node in CPU memory and the rest on NVMe, gpu:20%,cpu a fifth of them on the GPU"},
    {MW_SETTINGS_PLACES, "optimizer-device", MW_SETTING_PLACEMENT, STATE(MW_STATE_OPTIMIZER), 0, 0,
     NULL, NULL, "WHERE", "keep the optimizer state on gpu, cpu or nvme, or split it"},
    {MW_SETTINGS_PLACES, "gradient-device", MW_SETTING_PLACEMENT, STATE(MW_STATE_GRADIENTS), 0, 0,
     NULL, NULL, "WHERE",
     "keep gradients on gpu, cpu or nvme, or split them (default: with the optimizer state)"},
    {MW_SETTINGS_PLACES, "activation-device", MW_SETTING_PLACEMENT, STATE(MW_STATE_ACTIVATIONS), 0,
     0, NULL, NULL, "WHERE", "keep activation checkpoints on gpu, cpu or nvme, or split them"},
    {MW_SETTINGS_MEMORY, "activation-checkpoint-interval", MW_SETTING_INTEGER,
     FIELD(checkpoint_interval), 0, 1 << 20, "auto", interval_choices, "CI|sqrt|auto",
     "keep an activation checkpoint every CI layers and recompute the rest in backward; sqrt: "
     "every square root of their number; 0: keep all activations (default auto: 1, or 0 or fewer "
     "recomputed layers where that is faster and fits)"},
    {MW_SETTINGS_MEMORY, "checkpoints", MW_SETTING_CHOICE, FIELD(whole_checkpoints), 0, 0, NULL,
     content_choices, "inputs|activations",
     "keep of a layer its input, and recompute the rest in backward, or all its activations, which "
     "go to {activation-device} and come back: then nothing is recomputed but the layers that "
     "{recompute-layers} or {recompute-list} names, which keep their input (default inputs; "
     "activations with geeps)"},
    {MW_SETTINGS_MEMORY, "checkpoint-bits", MW_SETTING_CHOICE, FIELD(checkpoint_dtype), 0, 0, NULL,
     checkpoint_choices, "16|8",
     "keep activation checkpoints in 8 bits (mxfp8: a scale for each 32), from which backward "
     "recomputes; forward goes on with what it computed; 16: as all activations (default)"},
    {MW_SETTINGS_MEMORY, "recompute-layers", MW_SETTING_INTEGER, FIELD(recompute_layers), 1,
     1 << 20, NULL, recompute_choices, "N|fewest|auto",
     "recompute the first N layers alone, with {pp} of each stage, or of each of its stretches, "
     "and keep the activations of the others (default: all layers, or none with "
     "{checkpoints=activations}; fewest: as few as memory has room for, those that save least "
     "time; auto: with {checkpoints=activations}, as many as make the step fastest, evenly among "
     "the others)"},
    {MW_SETTINGS_MEMORY, "recompute-list", MW_SETTING_LAYERS, FIELD(recompute_set), 0, 0, "none",
     NULL, "LAYERS|none",
     "recompute these layers alone, such as 0-3,8; layers count from 0 (default none: as "
     "{recompute-layers} says)"},
    {MW_SETTINGS_MEMORY, "checkpoint-partition", MW_SETTING_CHOICE, FIELD(checkpoint_partition), 0,
     0, NULL, overlap_choices, "on|off",
     "with {tp}: each GPU keeps its part of an activation checkpoint, which is gathered for its "
     "recompute (ZeRO-R), or all of it, as Megatron-LM did before (default: on if the software "
     "can)"},
    {MW_SETTINGS_MEMORY, "kept-bits", MW_SETTING_CHOICE, FIELD(kept_as.dtype), 0, 0, NULL,
     checkpoint_choices, "16|8",
     "store activations that forward keeps for backward, of layers that are not recomputed, in 8 "
     "bits from the end of their layer on (mxfp8; Gist's delayed precision reduction); 16: as they "
     "are (default)"},
    {MW_SETTINGS_MEMORY, "relu-mask", MW_SETTING_CHOICE, FIELD(kept_as.relu_mask), 0, 0, NULL,
     overlap_choices, "on|off",
     "keep a bit of each of ReLU's inputs instead of the input, of which backward needs the sign "
     "alone (Gist's binarize; a model with ReLU; `run` has none; default off)"},
    {MW_SETTINGS_MEMORY, "relu-sparsity", MW_SETTING_REAL, FIELD(kept_as.relu_sparsity), 0.34, 1,
     "none", NULL, "S|none",
     "keep of ReLU's results those that are not zero, with their places: the share S of zeros as "
     "measured; stored elements take 3 bytes (Gist's sparse storage; `run` has none; default "
     "none)"},
    {MW_SETTINGS_MEMORY, "recompute-attention", MW_SETTING_CHOICE, FIELD(scores_again), 0, 0, NULL,
     overlap_choices, "on|off",
     "form attention's scores again in backward instead of keeping them (selective recomputation), "
     "where a software's attention stores them: fused kernels do so anyway (default off)"},
    {MW_SETTINGS_SCHEDULE, "param-loads", MW_SETTING_INTEGER, FIELD(param_loads), 2, 3, NULL, NULL,
     "2|3",
     "load parameters 3 times per micro-batch: forward, recompute, backward (default), or 2 times: "
     "the last two share a load"},
    {MW_SETTINGS_MEMORY, "tiles", MW_SETTING_INTEGER, FIELD(tiles), 1, 4096, "auto", NULL, "T|auto",
     "cut the largest operator into T tiles, computed in turn (default auto: as few as fit)"},
    {MW_SETTINGS_MEMORY, "logits-chunks", MW_SETTING_INTEGER, FIELD(logits_chunks), 1,
     MW_LOGITS_CHUNKS_MAX, "auto", NULL, "N|auto",
     "compute logits and loss in N parts of the tokens (default auto: as few as fit)"},
    {MW_SETTINGS_MEMORY, "share-slots", MW_SETTING_CHOICE, FIELD(share_slots), 0, 0, NULL,
     overlap_choices, "on|off",
     "buffers that are never needed at once share bytes: logits with what recomputed layers keep, "
     "and with gradients of a step of one micro-batch; the update's with those of the passes "
     "(default off)"},
    {MW_SETTINGS_SCHEDULE, "prefetch", MW_SETTING_DEPTHS, FIELD(prefetch), 0, 64, NULL, NULL,
     "D|NC:CG:GG",
     "fetch parameters D parts ahead of their use, in each transfer stage (default 1, or where "
     "parts are waited for as many as fit, up to a layer's; 0: none), or NC parts ahead from NVMe "
     "to the host, CG to the GPU and GG from the other GPUs"},
    {MW_SETTINGS_SCHEDULE, "partition", MW_SETTING_CHOICE, FIELD(partition), 0, 0, NULL,
     partition_choices, "bandwidth|owner",
     "partition parameters by bandwidth: each GPU fetches its share (default), or by owner: one "
     "GPU fetches and broadcasts (default of zero-offload)"},
    {MW_SETTINGS_MEMORY, "state-layout", MW_SETTING_CHOICE, FIELD(layout), 0, 0, NULL,
     layout_choices, "zero16|paper20",
     "keep state as zero16, 16 bytes per parameter (default), or paper20, 20 bytes: gradients in "
     "fp32 too"},
    {MW_SETTINGS_MEMORY, "optimizer", MW_SETTING_OPTIMIZER, FIELD(optimizer), 0, 0, NULL, NULL,
     "NAME",
     "update by this optimizer, which decides what state a parameter has (default adamw, 12 bytes; "
     "`memwall list optimizers` lists all, and which of them run)"},
    {MW_SETTINGS_MEMORY, "dtype", MW_SETTING_CHOICE, FIELD(dtype), 0, 0, NULL, dtype_choices,
     "bf16|fp16|fp32",
     "data type of parameters, activations and gradients (default bf16 where the GPU has it, else "
     "fp16)"},
    {MW_SETTINGS_MEMORY, "matmul-dtype", MW_SETTING_CHOICE, FIELD(matmul_dtype), 0, 0, NULL,
     matmul_choices, "16|fp8",
     "multiply by the layers' weights in fp8, as Transformer Engine does: operands are cast, and "
     "copies of the weights kept, while parameters, gradients and state stay as they are; 16: as "
     "{dtype}, unless the software says otherwise (default); `run` has no fp8"},
    {MW_SETTINGS_MEMORY, "train", MW_SETTING_TRAIN, FIELD(trained), 0, 0, "all", NULL,
     "lora:RANK|OPERATORS|all",
     "for fine-tuning: what is trained; all else stays as it is, without gradients or optimizer "
     "state (default all). With {weight-bits=4} this is QLoRA. "
     "lora:16: adapters (LoRA) of rank 16 on qkv, projection, mlp-up and mlp-down; "
     "lora:16@qkv+mlp-up: on some of these; lora:16@q,v: on some of their matrices, q, k, v, o, "
     "gate, up and down, or by PEFT's names (q_proj). OPERATORS, separated by commas, train these "
     "operators' own parameters, with lora:RANK or without: "},
    {MW_SETTINGS_MEMORY, "lora-alpha", MW_SETTING_REAL, FIELD(lora_alpha), MW_DECODER_ALPHA_MIN,
     MW_DECODER_ALPHA_MAX, "rank", NULL, "ALPHA|rank",
     "multiply what adapters give by ALPHA / RANK (default: by 1); a matter of training, not of "
     "bytes or time"},
    {MW_SETTINGS_MEMORY, "weight-bits", MW_SETTING_CHOICE, FIELD(frozen_dtype), 0, 0, NULL,
     weight_choices, "16|8|4|4-double",
     "keep the layers' weights that {train} leaves as they are in 8 bits (mxfp8: a scale for each "
     "32) or 4 bits (nf4: a scale of 32 bits for each 64; 4-double: scales quantised too, as QLoRA "
     "has them, 4.13 bits in all); 16: as all parameters (default). With {serve} all layers' "
     "weights"},
    {MW_SETTINGS_SCHEDULE, "overlap", MW_SETTING_CHOICE, FIELD(overlap), 0, 0, NULL,
     overlap_choices, "on|off",
     "run transfers and collectives while the GPU computes (default on)"},
    {MW_SETTINGS_SCHEDULE, "optimizer-chunk", MW_SETTING_INTEGER, FIELD(optimizer_chunk), 1, 1e12,
     "auto", NULL, "N|auto",
     "update N parameters at a time (default auto: a sixteenth of a GPU's parameters, from 1M to "
     "32M)"},
    {MW_SETTINGS_SCHEDULE, "buffer-sets", MW_SETTING_INTEGER, FIELD(buffer_sets), 1, 64, NULL, NULL,
     "N", "take turns among N sets of buffers in the optimizer step (default 3)"},
    {MW_SETTINGS_DURABLE, "commit", MW_SETTING_CHOICE, FIELD(commit), 0, 0, NULL, commit_choices,
     "step|none",
     "step: make every step a durable checkpoint of the state on NVMe (default where the drives "
     "have room); none: make none durable"},
    {MW_SETTINGS_DURABLE, "save-every", MW_SETTING_INTEGER, FIELD(save_every), 0, 1e9, NULL, NULL,
     "K", "save state that is not on NVMe every K steps (default 0: never)"},
    {MW_SETTINGS_SCHEDULE, "dpu-start", MW_SETTING_INTEGER, FIELD(dpu_start), 0, 1e9, "none", NULL,
     "STEP|none",
     "delay the parameter update by one step, from step STEP on, with zero-offload (default none)"},
    {MW_SETTINGS_SCHEDULE, "update", MW_SETTING_CHOICE, FIELD(update_beside), 0, 0, NULL,
     update_choices, "end|beside",
     "update at the end of the step, when the norm of all gradients is known, or beside backward, "
     "each chunk once its gradients are final: nothing is clipped by their norm, and on the GPU "
     "gradients of one micro-batch live no longer (default: as the software does, most at the "
     "end; `run` always)"},
    {MW_SETTINGS_SCHEDULE, "data-parallel", MW_SETTING_CHOICE, FIELD(data_parallel), 0, 0, NULL,
     data_parallel_choices, "sync|async",
     "data-parallel GPUs wait for the sum of their gradients and make one update of it (sync, the "
     "default), or each makes one of its own gradient, in turn, and goes on with the parameters "
     "that it leaves (async; with zero1): a step has as many updates as GPUs, each with a gradient "
     "of parameters that lack the last update of every other GPU"},
    {MW_SETTINGS_SCHEDULE, "schedule", MW_SETTING_CHOICE, FIELD(schedule), 0, 0, NULL,
     schedule_choices, "1f1b|gpipe|interleaved|zb-h1|2bw|pipedream|vertical-sync",
     "order of micro-batches in each stage of a pipeline ({pp}): one forward and one backward in "
     "turn, so that a stage keeps the activations of no more than there are stages (1f1b, the "
     "default), all forward before any goes back (gpipe), in turn over the stretches of layers of "
     "{virtual-stages}, which leave each other less time to wait (interleaved), with the "
     "gradients of weights as passes of their own, which fill the time of waiting (zb-h1), or on "
     "through the ends of steps with two versions of parameters (2bw), or as many as micro-batches "
     "in flight and an update after "
     "each of these (pipedream), and with one version for a micro-batch in all stages "
     "(vertical-sync)"},
    {MW_SETTINGS_SCHEDULE, "stage-split", MW_SETTING_LAYERS, FIELD(stage_begins), 0, 0, "even",
     split_choices, "even|balanced|LAYERS",
     "the first layers of all stages of a pipeline ({pp}) but the first, such as 9,20,31 (with "
     "{schedule=interleaved} of all their stretches, in the order of the layers; without it 0 may "
     "be the first of them, so that the first stage has the embedding alone, and the number of "
     "layers the last, so that the last one has the logits alone), or those with "
     "which the slowest stage is fastest by the FLOPs and bytes of its layers, as the last has the "
     "logits too, and all have room (balanced); default even: as many layers in each, or one more"},
    {MW_SETTINGS_SCHEDULE, "stage-replicas", MW_SETTING_REPLICAS, FIELD(stage_replicas), 0, 0,
     "even", NULL, "even|R,R,...",
     "give each stage of a pipeline R GPUs of its own, which take its micro-batches in turn and "
     "sum up their gradients, such as 2,1,1 for three stages on four GPUs (PipeDream; then {pp} is "
     "the "
     "number of stages, and {grad-accum} counts the micro-batches of all together); default even: "
     "as many GPUs for each, which take micro-batches of their own"},
    {MW_SETTINGS_SCHEDULE, "virtual-stages", MW_SETTING_INTEGER, FIELD(virtual_stages), 2, 1024,
     NULL, NULL, "V",
     "give each stage of a pipeline with {schedule=interleaved} V stretches of the layers instead "
     "of one, which micro-batches pass in V rounds over all stages (default 2)"},
    {MW_SETTINGS_SCHEDULE, "micro-batch-order", MW_SETTING_CHOICE, FIELD(layer_order), 0, 0, NULL,
     order_choices, "depth|layer",
     "take one micro-batch after the other through all layers, or all of them through a layer "
     "(through {activation-checkpoint-interval} layers) before the next: its parameters are loaded "
     "once for forward and once for recompute and backward (default depth; layer with l2l)"},
    {MW_SETTINGS_SCHEDULE, "update-on", MW_SETTING_CHOICE, FIELD(update_on), 0, 0, NULL,
     update_on_choices, "host|gpu",
     "update optimizer state that rests off the GPU by the host, or on the GPU: it comes chunk by "
     "chunk and goes back (default host; gpu with streamed-update)"},
    {MW_SETTINGS_SCHEDULE, "drop-layers", MW_SETTING_DROPS, FIELD(drop_layers), 0, 0, "none", NULL,
     "LAYERS/...[@STEP]|none",
     "leave out layers, other ones in each step of a cycle, from step STEP on: 1,3/5-7/-@100 is a "
     "cycle of three steps, the last with all layers; layers and steps count from 0 (default "
     "none)"},
    {MW_SETTINGS_OBJECTIVE, "objective", MW_SETTING_CHOICE, FIELD(objective), 0, 0, NULL,
     objective_choices, "causal|dpo|reward|ppo",
     "train the next token (causal, the default); on pairs of answers, by direct preference "
     "optimization with a frozen reference model (dpo) or as a reward model (reward); or on "
     "answers that the model gives, with a critic, a reference and a reward model (ppo)"},
    {MW_SETTINGS_OBJECTIVE, "frozen-device", MW_SETTING_CHOICE, FIELD(frozen_device), 0, 0, NULL,
     tier_choices, "gpu|cpu|nvme",
     "keep the frozen copies of dpo and ppo there (default: where a step is fastest; with adapters "
     "the reference is the model without them, and no copy)"},
    {MW_SETTINGS_OBJECTIVE, "reference-logprobs", MW_SETTING_CHOICE, FIELD(reference_before), 0, 0,
     NULL, reference_choices, "step|before",
     "compute the reference's log-probabilities for dpo in each step (default), or of all pairs "
     "before training, which needs no copy then"},
    {MW_SETTINGS_OBJECTIVE, "response", MW_SETTING_INTEGER, FIELD(response), 1, 1 << 20, NULL, NULL,
     "N", "of the tokens of a sequence ppo generates N (default half)"},
    {MW_SETTINGS_OBJECTIVE, "critic", MW_SETTING_NAME, FIELD(critic), 0, 0, NULL, NULL, "MODEL",
     "ppo's critic and reward model are of this size: a preset or config.json (default: the model "
     "itself)"},
    {MW_SETTINGS_COST, "serve", MW_SETTING_INTEGER, FIELD(serve), 1, 1 << 20, NULL, NULL, "N",
     "instead of training: generate N tokens after prompts of {seq} tokens (default 512); how many "
     "per second, by {batch} (default: several). Weights are on the GPUs as far as they have room "
     "there, then in host memory, then on drives, or where {param-device} says; those that are "
     "elsewhere are streamed to the GPUs. {weight-bits} says how a model is quantized"},
    {MW_SETTINGS_COST, "tokens", MW_SETTING_COUNT, FIELD(tokens), 1, 1e18, NULL, NULL, "N",
     "estimate the days, the energy and the money for training on N tokens, such as 15T or 1.5e13 "
     "(default: no estimate)"},
};

const struct mw_setting *
mw_setting_find(const char *name)
{
    for (size_t i = 0; i < MW_SETTINGS_COUNT; i++)
        if (!strcmp(mw_settings_table[i].name, name))
            return &mw_settings_table[i];
    return NULL;
}

/* Of those that have parameters and are not frozen. */
static char *
operator_names(uint32_t frozen, const char *between)
{
    g_autoptr(GString) names = g_string_new(NULL);

    for (int i = 0; i < MW_OPERATOR_COUNT; i++)
        if (mw_operator_names_params(i) && !(frozen >> i & 1))
            g_string_append_printf(names, "%s%s", names->len ? between : "", mw_operator_name(i));
    return g_strdup(names->str);
}

char *
mw_setting_help(const struct mw_setting *setting)
{
    g_autofree char *operators =
        setting->kind == MW_SETTING_TRAIN ? operator_names(0, ", ") : g_strdup("");
    g_autofree char *help = g_strconcat(setting->help, operators, NULL);

    return mw_spelled(help);
}

bool
mw_setting_is_usual(const struct mw_setting *setting, const struct mw_settings *settings)
{
    struct mw_settings usual;

    mw_settings_init(&usual);
    return !memcmp((const char *)settings + setting->offset, (const char *)&usual + setting->offset,
                   setting->size);
}

static void
store_integer(const struct mw_setting *setting, struct mw_settings *settings, int64_t value)
{
    char *field = (char *)settings + setting->offset;

    if (setting->size == sizeof(int64_t))
        memcpy(field, &value, sizeof value);
    else if (setting->size == sizeof(int))
        *(int *)field = value;
    else
        *(bool *)field = value;
}

static bool
is_batch(const struct mw_setting *setting)
{
    return setting->offset == offsetof(struct mw_settings, micro_batch);
}

static bool
recomputes_layers(const struct mw_setting *setting)
{
    return setting->offset == offsetof(struct mw_settings, recompute_layers);
}

/* A fraction of a sequence per GPU can make whole sequences where GPUs share a micro-batch. */
static bool
is_whole(const struct mw_setting *setting, bool sliced)
{
    return setting->kind == MW_SETTING_INTEGER || setting->kind == MW_SETTING_WHOLE_COUNT ||
           setting->kind == MW_SETTING_DEPTHS || (is_batch(setting) && !sliced);
}

/* What a refusal adds to the range; g_free it. */
static char *
how_else(const struct mw_setting *setting, const char *text, bool whole)
{
    double value;
    const char *end = mw_number_scan(text, &value);

    if (is_batch(setting) && whole && end && !*end && value > 0 && value < setting->max)
        return mw_spelled(", or auto; fractions need {tp} or {cp}");
    if (setting->kind == MW_SETTING_INTEGER && end && *end && strchr("kKmM", *end) && !end[1])
        return g_strdup(", written out: k may be 1000 or 1024");
    if (!setting->open && !setting->choices)
        return g_strdup(setting->kind == MW_SETTING_COUNT ? ", as 15T or 1.5e13" : "");
    GString *words = g_string_new(",");
    for (const struct mw_setting_choice *choice = setting->choices; choice && choice->name;
         choice++)
        g_string_append_printf(words, " or %s", choice->name);
    if (setting->open)
        g_string_append_printf(words, " or %s", setting->open);
    if (recomputes_layers(setting) && end && !*end && value == 0)
        mw_spelled_append(words, "; {activation-checkpoint-interval=0} recomputes none");
    return g_string_free(words, FALSE);
}

static bool
parse_number(const struct mw_setting *setting, const char *text, bool sliced, double *value,
             GError **error)
{
    bool whole = is_whole(setting, sliced);
    bool count = setting->kind == MW_SETTING_COUNT || setting->kind == MW_SETTING_WHOLE_COUNT ||
                 is_batch(setting);
    g_autofree char *or_as = how_else(setting, text, whole);
    const struct mw_number number = {
        .name = setting->name,
        .min = whole ? ceil(setting->min) : setting->min,
        .max = setting->max,
        .whole = whole,
        .noun = whole && setting->kind == MW_SETTING_REAL ? "whole number of sequences" : NULL,
        .counts = count,
        .or_as = or_as,
    };

    return mw_number_read(&number, text, value, error);
}

static bool
parse_choice(const struct mw_setting *setting, const char *text, struct mw_settings *settings,
             GError **error)
{
    g_autoptr(GString) names = g_string_new(NULL);

    for (const struct mw_setting_choice *choice = setting->choices; choice->name; choice++) {
        if (!strcmp(choice->name, text)) {
            store_integer(setting, settings, choice->value);
            return true;
        }
        g_string_append_printf(names, "%s%s",
                               !names->len      ? ""
                               : choice[1].name ? ", "
                                                : " or ",
                               choice->name);
    }
    return mw_refuse(error, "{%s=%s}: must be %s", setting->name, text, names->str);
}

/* A name of a table whose rows are numbered from 0; NULL after the last. */
static bool
parse_row(const struct mw_setting *setting, const char *(*name_of)(int number), const char *text,
          struct mw_settings *settings, GError **error)
{
    g_autoptr(GString) names = g_string_new(NULL);
    const char *name;

    for (int i = 0; (name = name_of(i)); i++) {
        if (!strcmp(name, text)) {
            store_integer(setting, settings, i);
            return true;
        }
        g_string_append_printf(names, "%s%s", i ? ", " : "", name);
    }
    return mw_refuse(error, "{%s=%s}: must be one of %s", setting->name, text, names->str);
}

/* "D", or "NC:CG:GG". */
static bool
parse_depths(const struct mw_setting *setting, const char *text, struct mw_settings *settings,
             GError **error)
{
    g_auto(GStrv) parts = g_strsplit(text, ":", -1);
    guint count = g_strv_length(parts);
    bool good = count == 1 || count == MW_FETCH_STAGES;
    int64_t depth[MW_FETCH_STAGES], deepest = 0;
    double value;

    for (guint i = 0; good && i < count; i++) {
        good = parse_number(setting, parts[i], false, &value, NULL);
        depth[i] = good ? (int64_t)value : 0;
        deepest = MAX(deepest, depth[i]);
    }
    if (!good)
        return mw_refuse(error, "{%s=%s}: must be a whole number from %g to %g, or three: NC:CG:GG",
                         setting->name, text, setting->min, setting->max);
    mw_settings_set_prefetch(settings, deepest);
    if (count == MW_FETCH_STAGES)
        memcpy(settings->prefetch_stage, depth, sizeof depth);
    return true;
}

/* Names of matrices: short ones, and those of the modules that PEFT adapts, by the end of their
 * path.  Modules of one name in two places are of two operators (GPT-2's c_proj). */
struct module {
    const char *name;
    enum mw_operator operator_, other; /* other: NONE where the name is of one alone */
    uint32_t targets;                  /* bits 1 << enum mw_target; 0: all of the operator's */
};

#define TARGET(name) (UINT32_C(1) << MW_TARGET_##name)
#define MODULE(name_, of, targets_)                                                                \
    {                                                                                              \
        .name = name_, .operator_ = MW_OPERATOR_##of, .targets = targets_                          \
    }

static const struct module modules[] = {
    MODULE("q", QKV, TARGET(Q)),
    MODULE("q_proj", QKV, TARGET(Q)),
    MODULE("k", QKV, TARGET(K)),
    MODULE("k_proj", QKV, TARGET(K)),
    MODULE("v", QKV, TARGET(V)),
    MODULE("v_proj", QKV, TARGET(V)),
    MODULE("qkv_proj", QKV, 0),
    MODULE("query_key_value", QKV, 0),
    MODULE("c_attn", QKV, 0),
    MODULE("Wqkv", QKV, 0),
    MODULE("o", PROJECTION, 0),
    MODULE("o_proj", PROJECTION, 0),
    MODULE("out_proj", PROJECTION, 0),
    MODULE("dense", PROJECTION, 0),
    MODULE("attn.c_proj", PROJECTION, 0),
    MODULE("gate", MLP_UP, TARGET(GATE)),
    MODULE("gate_proj", MLP_UP, TARGET(GATE)),
    MODULE("up", MLP_UP, TARGET(UP)),
    MODULE("up_proj", MLP_UP, TARGET(UP)),
    MODULE("gate_up_proj", MLP_UP, 0),
    MODULE("fc1", MLP_UP, 0),
    MODULE("fc_in", MLP_UP, 0),
    MODULE("c_fc", MLP_UP, 0),
    MODULE("dense_h_to_4h", MLP_UP, 0),
    MODULE("down", MLP_DOWN, 0),
    MODULE("down_proj", MLP_DOWN, 0),
    MODULE("fc2", MLP_DOWN, 0),
    MODULE("fc_out", MLP_DOWN, 0),
    MODULE("dense_4h_to_h", MLP_DOWN, 0),
    MODULE("mlp.c_proj", MLP_DOWN, 0),
    {"c_proj", MW_OPERATOR_PROJECTION, MW_OPERATOR_MLP_DOWN, 0},
    MODULE("embed_tokens", EMBEDDING, 0),
    MODULE("wte", EMBEDDING, 0),
    MODULE("lm_head", LOGITS, 0),
};
G_STATIC_ASSERT(G_N_ELEMENTS(modules) <= 64); /* mw_settings.trained_modules has a bit of each */

static const struct module *
module_named(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(modules); i++)
        if (!strcmp(name, modules[i].name))
            return &modules[i];
    return NULL;
}

/* Not a name of memwall's own, as q, which goes with all models. */
static uint64_t
module_bit(const struct module *module)
{
    const char *name = module ? module->name : "";

    for (int t = 0; t < MW_TARGET_COUNT; t++)
        if (!strcmp(name, mw_target_name(t)))
            return 0;
    return *name && strcmp(name, "o") && strcmp(name, "down") ? UINT64_C(1) << (module - modules)
                                                              : 0;
}

static bool
has_adapters(int operator_)
{
    for (int i = 0; i < MW_OPERATOR_COUNT; i++)
        if (operator_ && mw_operator_row(i)->adapts == (enum mw_operator)operator_)
            return true;
    return false;
}

/* What follows "there is no operator 'x'"; g_free it. */
static char *
why_no_operator(const char *name)
{
    const struct module *module = module_named(name);

    if (!strcmp(name, "lora") || !strcmp(name, "qlora"))
        return mw_spelled(", and adapters have a rank: {train=lora:16}");
    if (!module)
        return g_strdup("");
    if (module->other)
        return mw_spelled_printf(
            ", and %s and %s have a matrix of that name each, which may have "
            "adapters: {train=lora:16@%s} is of both, and %s or %s of one",
            mw_operator_name((int)module->operator_), mw_operator_name((int)module->other), name,
            mw_operator_name((int)module->operator_), mw_operator_name((int)module->other));
    if (has_adapters((int)module->operator_))
        return mw_spelled_printf(", and %s has that matrix, which may have adapters: "
                                 "{train=lora:16@%s}",
                                 mw_operator_name((int)module->operator_), name);
    return g_strdup_printf(", and %s has that tensor", mw_operator_name((int)module->operator_));
}

static bool
refuse_trained(const struct mw_setting *setting, const char *text, const char *fault,
               GError **error)
{
    g_autofree char *names = operator_names(0, ", ");

    return mw_refuse(error,
                     "{%s=%s}: %s; must be %s, lora:RANK, lora:RANK@q+v, lora:RANK@OPERATOR, or "
                     "some of %s, separated by commas",
                     setting->name, text, fault, setting->open, names);
}

static bool
refuse_operator(const struct mw_setting *setting, const char *text, const char *name, bool twice,
                GError **error)
{
    g_autofree char *why = why_no_operator(name);
    g_autofree char *fault = twice   ? g_strdup_printf("'%s' is given twice", name)
                             : *name ? g_strdup_printf("there is no operator '%s'%s", name, why)
                                     : g_strdup("an operator's name is empty");

    return refuse_trained(setting, text, fault, error);
}

/* Of those that `may` have; MW_OPERATOR_COUNT: none has this name. */
static int
find_operator(const char *name, bool (*may)(int operator_))
{
    int i = 0;

    while (i < MW_OPERATOR_COUNT && (!may(i) || strcmp(name, mw_operator_name(i))))
        i++;
    return i;
}

static uint32_t
all_that(bool (*may)(int operator_))
{
    uint32_t all = 0;

    for (int i = 0; i < MW_OPERATOR_COUNT; i++)
        all |= may(i) ? UINT32_C(1) << i : 0;
    return all;
}

#define LORA "lora:"
#define RANK_MAX (1 << 20)

/* Which operators have adapters, and which of the matrices of these. */
struct adapted {
    uint32_t operators, targets; /* bits 1 << enum mw_operator, 1 << enum mw_target */
};

/* Of an operator's own name, or a module's; none: it has no adapters. */
static struct adapted
adapted_by(const char *name)
{
    int i = find_operator(name, has_adapters);
    const struct module *module = module_named(name);

    if (i < MW_OPERATOR_COUNT)
        return (struct adapted){UINT32_C(1) << i, mw_targets_of(i)};
    if (!strcmp(name, "all-linear"))
        return (struct adapted){all_that(has_adapters), (1u << MW_TARGET_COUNT) - 1};
    if (!module || !has_adapters((int)module->operator_))
        return (struct adapted){0, 0};
    uint32_t other = module->other ? UINT32_C(1) << module->other : 0;
    return (struct adapted){UINT32_C(1) << module->operator_ | other,
                            module->targets ? module->targets
                                            : mw_targets_of((int)module->operator_)};
}

/* Whether some of it is there already: an operator is, or of one with several matrices one of
 * these. */
static bool
overlaps(const struct mw_trained *trained, uint32_t targets, struct adapted more)
{
    uint32_t both = trained->adapted & more.operators;

    for (int i = 0; i < MW_OPERATOR_COUNT; i++)
        if (both >> i & 1 && (!mw_targets_of(i) || mw_targets_of(i) & targets & more.targets))
            return true;
    return false;
}

static uint32_t
targets_of_all(uint32_t operators)
{
    uint32_t all = 0;

    for (int i = 0; i < MW_OPERATOR_COUNT; i++)
        all |= operators >> i & 1 ? mw_targets_of(i) : 0;
    return all;
}

/* One more of "q+v+mlp-down". */
static bool
add_adapted(const struct mw_setting *setting, const char *text, const char *name,
            struct mw_settings *settings, GError **error)
{
    struct mw_trained *trained = &settings->trained;
    uint32_t targets = targets_of_all(trained->adapted) & ~trained->bare;
    struct adapted more = adapted_by(name);

    if (!more.operators || overlaps(trained, targets, more)) {
        g_autofree char *fault = g_strdup_printf(
            "'%s' %s", name,
            more.operators ? "is given twice"
                           : "has no adapters: qkv (of it q, k, v), projection (o), mlp-up (of it "
                             "gate, up) and mlp-down (down) do, by these names or PEFT's, such as "
                             "q_proj, or all-linear");
        return refuse_trained(setting, text, fault, error);
    }
    trained->adapted |= more.operators;
    trained->bare = targets_of_all(trained->adapted) & ~(targets | more.targets);
    settings->trained_modules |= module_bit(module_named(name));
    return true;
}

/* "q+v+mlp-down". */
static bool
parse_adapted(const struct mw_setting *setting, const char *text, const char *list,
              struct mw_settings *settings, GError **error)
{
    g_auto(GStrv) names = g_strsplit(list, "+", -1);

    for (guint n = 0; n == 0 || names[n]; n++)
        if (!add_adapted(setting, text, names[n] ? names[n] : "", settings, error))
            return false;
    return true;
}

/* "lora:16", or "lora:16@q+v+mlp-down". */
static bool
parse_adapters(const struct mw_setting *setting, const char *text, const char *item,
               struct mw_settings *settings, GError **error)
{
    struct mw_trained *trained = &settings->trained;
    const char *begin = item + strlen(LORA), *at = strchr(begin, '@');
    g_autofree char *rank = at ? g_strndup(begin, (gsize)(at - begin)) : g_strdup(begin);
    double value;
    const char *end = mw_number_scan(rank, &value);

    if (trained->rank)
        return refuse_trained(setting, text, "adapters are given twice", error);
    if (!end || *end || !(value >= 1 && value <= RANK_MAX) || value != floor(value)) {
        g_autofree char *fault =
            g_strdup_printf("a rank is a whole number from 1 to %d, not '%s'", RANK_MAX, rank);
        return refuse_trained(setting, text, fault, error);
    }
    trained->rank = (int64_t)value;
    if (at)
        return parse_adapted(setting, text, at + 1, settings, error);
    trained->adapted = all_that(has_adapters);
    return true;
}

static bool
check_adapted(const struct mw_setting *setting, const char *text, const struct mw_trained *trained,
              GError **error)
{
    uint32_t both = trained->adapted & ~trained->frozen;
    int i = 0;

    if (!both)
        return true;
    while (!(both >> i & 1))
        i++;
    g_autofree char *fault =
        g_strdup_printf("%s is trained itself, and needs no adapters", mw_operator_name(i));
    return refuse_trained(setting, text, fault, error);
}

/* Of names behind "lora:16@q" those of matrices go on with the list, "lora:16@q,v": no operator has
 * them. */
static bool
goes_on(const char *name, bool listed)
{
    return listed && find_operator(name, mw_operator_names_params) == MW_OPERATOR_COUNT &&
           adapted_by(name).operators;
}

/* "lora:16@q,projection" may mean either. */
static bool
refuse_behind_list(const struct mw_setting *setting, const char *text, const char *name,
                   GError **error)
{
    g_autofree char *fault = g_strdup_printf(
        "'%s' behind a list of matrices: write it as @...+%s for its adapter, or before lora: to "
        "train all of it",
        name, name);
    return refuse_trained(setting, text, fault, error);
}

/* "norm1,norm2": trained, and all others with parameters frozen; with "lora:16" adapters too. */
static bool
parse_trained(const struct mw_setting *setting, const char *text, struct mw_settings *settings,
              GError **error)
{
    g_auto(GStrv) names = g_strsplit(text, ",", -1);
    struct mw_settings read = {.trained.frozen = all_that(mw_operator_names_params)};
    bool listed = false;

    for (guint n = 0; n == 0 || names[n]; n++) {
        const char *name = names[n] ? names[n] : "";
        if (g_str_has_prefix(name, LORA)) {
            if (!parse_adapters(setting, text, name, &read, error))
                return false;
            listed = strchr(name, '@') != NULL;
            continue;
        }
        if (goes_on(name, listed)) {
            if (!add_adapted(setting, text, name, &read, error))
                return false;
            continue;
        }
        int i = find_operator(name, mw_operator_names_params);
        if (listed && i < MW_OPERATOR_COUNT && has_adapters(i))
            return refuse_behind_list(setting, text, name, error);
        if (i == MW_OPERATOR_COUNT || !(read.trained.frozen >> i & 1))
            return refuse_operator(setting, text, name, i < MW_OPERATOR_COUNT, error);
        read.trained.frozen &= ~(UINT32_C(1) << i);
    }
    if (!check_adapted(setting, text, &read.trained, error))
        return false;
    settings->trained = read.trained;
    settings->trained_modules = read.trained_modules;
    return true;
}

/* Whether the model has a module of the name: one of its tensors', or one that holds several. */
static bool
has_module(const struct mw_family *family, const char *name)
{
    g_autofree char *tensor = g_strconcat(name, ".weight", NULL);
    g_autofree char *inside = g_strconcat(".", tensor, NULL);

    for (int role = 0; role < MW_WEIGHT_ROLE_COUNT; role++) {
        const char *its = family->run.tensors->of[role];
        if (its && (!strcmp(its, tensor) || g_str_has_suffix(its, inside)))
            return true;
    }
    return !g_strcmp0(family->fused_qkv, name) || !g_strcmp0(family->fused_gate, name);
}

bool
mw_setting_check_modules(const struct mw_model *model, uint64_t named, GError **error)
{
    const struct mw_family *family = model->family;
    g_autoptr(GString) own = g_string_new(NULL);
    const char *foreign = NULL;

    if (!named || !family || !family->run.tensors)
        return true;
    for (size_t i = 0; i < G_N_ELEMENTS(modules); i++) {
        bool has = has_module(family, modules[i].name);
        if (!has && named >> i & 1)
            foreign = modules[i].name;
        if (has && module_bit(&modules[i]) && has_adapters((int)modules[i].operator_))
            g_string_append_printf(own, "%s, ", modules[i].name);
    }
    return !foreign ||
           mw_refuse(error,
                     "{train}: model %s has no module '%s': give %sor qkv, projection, mlp-up or "
                     "mlp-down, which all models have",
                     model->name, foreign, own->str);
}

char *
mw_setting_trained_text(const struct mw_trained *trained)
{
    if (!trained->frozen)
        return NULL;
    g_autofree char *own = operator_names(trained->frozen, ",");
    if (!trained->rank)
        return g_steal_pointer(&own);
    g_autofree char *adapters = mw_model_adapters_text(trained);
    /* In front: behind a list of matrices an operator may be meant as one more of these. */
    return g_strconcat(own, *own ? "," : "", adapters, NULL);
}

/* Makes it open again: a file may have set it. */
static void
leave_open(const struct mw_setting *setting, struct mw_settings *settings)
{
    struct mw_settings open;

    mw_settings_init(&open);
    memcpy((char *)settings + setting->offset, (const char *)&open + setting->offset,
           setting->size);
}

/* A choice of layers that the planner makes is the set of one that no such list has. */
static bool
read_layers(const struct mw_setting *setting, const char *text, struct mw_settings *settings,
            GError **error)
{
    struct mw_layer_set *layers =
        (struct mw_layer_set *)(void *)((char *)settings + setting->offset);

    if (setting->choices && !strcmp(text, setting->choices->name)) {
        *layers = (struct mw_layer_set){{0}};
        mw_layer_set_add(layers, setting->choices->value);
        return true;
    }
    bool read = mw_layer_set_read(text, layers);
    if (read && !(setting->choices && mw_layer_set_has(layers, setting->choices->value)))
        return true;
    if (setting->choices)
        return mw_refuse(error,
                         "{%s=%s}: must be even, balanced, or the first layers of all stages but "
                         "the first in order, up to %d, such as 9,20,31",
                         setting->name, text, (int)setting->choices->value - 1);
    return mw_refuse(error, "{%s=%s}: must be layers from 0 to %d in order, such as 0-3,8",
                     setting->name, text, MW_LAYER_SET_MAX - 1);
}

/* They say how many stages there are, where nothing else does. */
static bool
read_replicas(const struct mw_setting *setting, const char *text, struct mw_settings *settings,
              GError **error)
{
    if (!mw_stage_replicas_read(text, &settings->stage_replicas))
        return mw_refuse(error,
                         "{%s=%s}: must be %s, or a number of GPUs from 1 to %d for each of 2 to "
                         "%d stages, such as 2,1,1",
                         setting->name, text, setting->open, MW_STAGE_REPLICAS_MAX,
                         MW_REPLICATED_STAGES_MAX);
    if (settings->pp == 1)
        settings->pp = settings->stage_replicas.stages;
    return true;
}

static void
store_number(const struct mw_setting *setting, struct mw_settings *settings, double value)
{
    if (setting->kind == MW_SETTING_REAL || setting->kind == MW_SETTING_COUNT)
        *(double *)((char *)settings + setting->offset) = value;
    else
        store_integer(setting, settings, (int64_t)value);
}

bool
mw_setting_read(const struct mw_setting *setting, const char *text, bool sliced,
                struct mw_settings *settings, GError **error)
{
    double value;

    if (setting->kind == MW_SETTING_CHOICE)
        return parse_choice(setting, text, settings, error);
    if (setting->kind == MW_SETTING_PLACEMENT) {
        g_autofree char *name = mw_spelled_printf("{%s}", setting->name);
        return mw_placement_parse(
            text, name, (struct mw_placement *)((char *)settings + setting->offset), error);
    }
    if (setting->kind == MW_SETTING_OPTIMIZER)
        return parse_row(setting, mw_optimizer_name, text, settings, error);
    if (setting->kind == MW_SETTING_GATE)
        return parse_row(setting, mw_gate_name, text, settings, error);
    if (setting->kind == MW_SETTING_DEPTHS)
        return parse_depths(setting, text, settings, error);
    if (setting->open && !strcmp(text, setting->open)) {
        leave_open(setting, settings);
        return true;
    }
    if (setting->kind == MW_SETTING_DROPS) {
        if (!mw_drops_check(text, error))
            return false;
        settings->drop_layers = g_intern_string(text);
        return true;
    }
    if (setting->kind == MW_SETTING_LAYERS)
        return read_layers(setting, text, settings, error);
    if (setting->kind == MW_SETTING_REPLICAS)
        return read_replicas(setting, text, settings, error);
    if (setting->kind == MW_SETTING_NAME) {
        settings->critic = g_intern_string(text);
        return true;
    }
    if (setting->kind == MW_SETTING_TRAIN)
        return parse_trained(setting, text, settings, error);
    for (const struct mw_setting_choice *choice = setting->choices; choice && choice->name;
         choice++)
        if (!strcmp(text, choice->name)) {
            store_number(setting, settings, (double)choice->value);
            return true;
        }
    if (!parse_number(setting, text, sliced, &value, error))
        return false;
    store_number(setting, settings, value);
    return true;
}
