#include "cli/run/options.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/input.h"
#include "base/number.h"
#include "cli/run/backend.h"
#include "cli/runs/runs.h"
#include "exec/data/tokens.h"

enum number {
    STEPS,
    SEED,
    LR,
    LR_MIN,
    WARMUP,
    BETA1,
    BETA2,
    EPSILON,
    DECAY,
    CLIP,
    DEVICE_THREADS,
    HOST_THREADS,
    MAX_SKIPPED,
    PATIENCE,
    NUMBERS
};

/* In the order of the help. */
enum group { DATA, COURSE, DRIVES, MACHINE, RECORD, GROUPS };

static const char *const group_titles[GROUPS] = {
    [DATA] = "Data and weights",           [COURSE] = "Course of the training",
    [DRIVES] = "Drives and durable steps", [MACHINE] = "What computes",
    [RECORD] = "Record of the run",
};

/* Rows of numbers: name, range, default, help. */
static const struct number_row {
    enum group group;
    const char *name;
    double min, max, otherwise;
    bool whole;
    const char *help;
} rows[NUMBERS] = {
    [STEPS] = {COURSE, "steps", 1, 1e9, 10, true,
               "train until N steps are done in all, those before a --resume or --from included "
               "(default 10)"},
    [SEED] = {DATA, "seed", CLI_RANGE_SEED, 1, true,
              "draw starting weights and --shuffle from this seed (default 1)"},
    [LR] = {COURSE, "lr", CLI_RANGE_LR, 3e-4, false, "set the learning rate (default 3e-4)"},
    [LR_MIN] = {COURSE, "lr-min", CLI_RANGE_LR_MIN, NAN, false,
                "end the cosine at this learning rate (default: a tenth of --lr)"},
    [WARMUP] = {COURSE, "warmup", CLI_RANGE_WARMUP, 0, true,
                "raise the learning rate over the first N steps (default 0)"},
    [BETA1] = {COURSE, "beta1", CLI_RANGE_BETA1, NAN, false,
               "set the decay of momentum per step, of Lion in what it takes the sign of (default "
               "0.9)"},
    [BETA2] = {COURSE, "beta2", CLI_RANGE_BETA2, NAN, false,
               "set the decay of variance per step (default 0.95), of Lion that of momentum "
               "(default 0.99)"},
    [EPSILON] = {COURSE, "epsilon", CLI_RANGE_EPSILON, 1e-8, false,
                 "set the epsilon of AdamW (default 1e-8)"},
    [DECAY] = {COURSE, "weight-decay", CLI_RANGE_DECAY, 0.1, false,
               "set the weight decay of matrices (default 0.1)"},
    [CLIP] = {COURSE, "clip", CLI_RANGE_CLIP, 1, false,
              "clip the gradient to this norm (default 1; 0: no clipping)"},
    [DEVICE_THREADS] = {MACHINE, "device-threads", 1, 4096, 0, true,
                        "let N cores stand for the GPU (default: all)"},
    [HOST_THREADS] = {MACHINE, "host-threads", 1, 4096, 0, true,
                      "run the optimizer step of the host on N cores (default: all)"},
    [MAX_SKIPPED] = {COURSE, "max-skipped", 1, 1e9, 0, true,
                     "fail after N steps in a row whose loss or gradient is not finite (default 8; "
                     "in fp16, 8 more than the loss scale can halve)"},
    [PATIENCE] = {MACHINE, "patience", 0, 1e9, 1800, false,
                  "with several ranks, fail after N seconds without the end of an op (default "
                  "1800; 0: never)"},
};

static char *numbers[NUMBERS];
static char *loss_scale, *from_path, *save_path, *data_path, *weights_path, *adapter_path,
    *log_path, *lr_shape, *timeline_path, *backend_name, *resume_at;
static char *plan_path;
static char **nvme_directories, **limits;
static char *resume_run, *newest_run, *newest_note, *taken_line;
static struct cli_run_division divided_then;
static gboolean shuffle, resume, overwrite, compare;

/* clang-format off */
static const struct fixed_row {
    enum group group;
    GOptionEntry entry;
} fixed[] = {
    {DATA, {"data", 0, 0, G_OPTION_ARG_FILENAME, &data_path,
            "train on this file (required): tokens (.bin, the format of llm.c), or UTF-8 text, one "
            "token per byte", "FILE"}},
    {DATA, {"plan", 0, 0, G_OPTION_ARG_FILENAME, &plan_path,
            "run the plan that `memwall plan -o` wrote to this file, as it is: it has model, "
            "placement and batch, so -m is not given", "FILE"}},
    {DATA, {"shuffle", 0, 0, G_OPTION_ARG_NONE, &shuffle,
            "take sequences in random order (default: in the order of the file)", NULL}},
    {DATA, {"weights", 0, 0, G_OPTION_ARG_FILENAME, &weights_path,
            "start from the weights of a .safetensors file, its index, or their folder; with "
            "--resume: where what is not trained lies now", "PATH"}},
    {DATA, {"adapter", 0, 0, G_OPTION_ARG_FILENAME, &adapter_path,
            "start from the adapters of a folder that PEFT or --save wrote: --train and "
            "--lora-alpha are by default what its adapter_config.json says", "DIR"}},
    {DATA, {"from", 0, 0, G_OPTION_ARG_FILENAME, &from_path,
            "continue from a checkpoint, written with any placement and number of ranks. Options "
            "of the course and --seed, --shuffle, --loss-scale keep the checkpoint's values unless "
            "they are given; a line says what differs (to begin a new course from its weights "
            "alone: --weights)", "DIR"}},
    {DATA, {"save", 0, 0, G_OPTION_ARG_FILENAME, &save_path,
            "write a checkpoint at the end: weights under their Hugging Face names, adapters as "
            "PEFT reads them, optimizer state. A checkpoint that is there is replaced, unless it "
            "has more steps, is of another model or is unreadable.", "DIR"}},
    {COURSE, {"lr-schedule", 0, 0, G_OPTION_ARG_STRING, &lr_shape,
              "keep the learning rate constant (default), or let it fall as a cosine",
              "constant|cosine"}},
    {COURSE, {"loss-scale", 0, 0, G_OPTION_ARG_STRING, &loss_scale,
              "scale the loss by S, a power of two, or by what keeps gradients finite: dynamic "
              "(default: 1 in bf16, dynamic in fp16)", "S|dynamic"}},
    {DRIVES, {"nvme", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &nvme_directories,
              "keep state on NVMe in this directory; give one per drive (default: one of the "
              "run's own in " CLI_RUNS_PLACE ")", "DIR"}},
    {DRIVES, {"resume", 0, G_OPTION_FLAG_OPTIONAL_ARG, G_OPTION_ARG_CALLBACK, NULL,
              "continue from the newest durable step: of RUN, a name of `memwall list runs` or a "
              "directory; else of the run in the --nvme directories; else of the newest run. "
              "Options not given keep the run's values: model, data, plan, course, number of "
              "steps; lines say what is taken and what changes", "RUN"}},
    {DRIVES, {"at", 0, 0, G_OPTION_ARG_STRING, &resume_at,
              "with --resume, continue from the newest durable step (default), or from the "
              "previous one, if the newest is damaged or the run diverges after it",
              "newest|previous"}},
    {DRIVES, {"overwrite", 0, 0, G_OPTION_ARG_NONE, &overwrite,
              "start anew, and delete the run that the directories hold once the first step of the "
              "new one is durable (or done, if it makes none durable)", NULL}},
    {MACHINE, {"backend", 0, 0, G_OPTION_ARG_STRING, &backend_name,
               "compute on cpu (cores), on cuda (GPUs), or auto: on GPUs where there are any "
               "(default); null computes nothing: it orders ops and moves bytes",
               "auto|cpu|cuda|null"}},
    {MACHINE, {"limit", 0, 0, G_OPTION_ARG_STRING_ARRAY, &limits,
               "slow a link or drive down to a rate, as in h2d=2GB/s; also d2h, nvme-read, "
               "nvme-write, in GB/s or MB/s (default: no limit)",
               "LANE=RATE"}},
    {RECORD, {"log", 0, 0, G_OPTION_ARG_FILENAME, &log_path, "write one line of JSON per step; a "
              "resume continues the log of its run (if that was killed, the line of its last "
              "durable step may be missing)", "FILE"}},
    {RECORD, {"compare", 0, 0, G_OPTION_ARG_NONE, &compare,
              "print predicted beside measured times, by lane, operator and op", NULL}},
    {RECORD, {"save-timeline", 0, 0, G_OPTION_ARG_FILENAME, &timeline_path,
              "write the measured times of all ops, for memwall compare", "FILE"}},
};
/* clang-format on */

static gboolean
take_resume(const char *name, const char *value, gpointer data, GError **error)
{
    (void)name, (void)data, (void)error;
    resume = TRUE;
    g_free(resume_run);
    resume_run = g_strdup(value);
    return TRUE;
}

const struct cli_words_group *
cli_run_groups(void)
{
    static const union {
        GOptionArgFunc function;
        void *data; /* G_OPTION_ARG_* writes to it */
    } resuming = {take_resume};
    static GOptionEntry entries[NUMBERS + G_N_ELEMENTS(fixed) + GROUPS];
    static struct cli_words_group groups[GROUPS + 1];
    size_t count = 0;

    for (int group = 0; group < GROUPS; group++) {
        groups[group] = (struct cli_words_group){group_titles[group], &entries[count]};
        for (size_t i = 0; i < G_N_ELEMENTS(fixed); i++)
            if ((int)fixed[i].group == group) {
                entries[count] = fixed[i].entry;
                if (entries[count].arg == G_OPTION_ARG_CALLBACK)
                    entries[count].arg_data = resuming.data;
                count++;
            }
        for (int i = 0; i < NUMBERS; i++)
            if ((int)rows[i].group == group)
                entries[count++] = (GOptionEntry){
                    rows[i].name, 0, 0, G_OPTION_ARG_STRING, &numbers[i], rows[i].help, "N"};
        entries[count++] = (GOptionEntry)G_OPTION_ENTRY_NULL;
    }
    return groups;
}

struct cli_run_resuming
cli_run_options_resuming(void)
{
    return (struct cli_run_resuming){resume, resume_run, nvme_directories};
}

bool
cli_run_options_check_start(GError **error)
{
    if (from_path && (weights_path || resume))
        return mw_refuse(error, "--weights, --from, --resume: give one of them to start from");
    if (adapter_path && (from_path || resume))
        return mw_refuse(error, "--adapter: what --from and --resume continue has adapters of its "
                                "own; leave one out");
    if (!g_strcmp0(backend_name, mw_backend_null.name) && (save_path || resume))
        return mw_refuse(error, "--backend null trains nothing: no --save, no --resume");
    if (resume && overwrite)
        return mw_refuse(error, "--resume, --overwrite: give one of them: --resume continues the "
                                "run that is there, --overwrite deletes it");
    return true;
}

char *
cli_run_options_data(void)
{
    return g_strdup(data_path);
}

char *
cli_run_options_weights(void)
{
    return g_strdup(weights_path);
}

bool
cli_run_options_take(enum cli_run_option option, const char *value)
{
    char **const of[] = {[CLI_RUN_DATA] = &data_path,
                         [CLI_RUN_STEPS] = &numbers[STEPS],
                         [CLI_RUN_LOG] = &log_path,
                         [CLI_RUN_WEIGHTS] = &weights_path};

    if (!value || *of[option])
        return false;
    *of[option] = g_strdup(value);
    return true;
}

char *
cli_run_options_adapter(void)
{
    return g_strdup(adapter_path);
}

const char *
cli_run_options_plan(void)
{
    return plan_path;
}

bool
cli_run_options_saves(void)
{
    return save_path != NULL;
}

void
cli_run_options_found(const char *run, const char *note)
{
    newest_run = g_strdup(run);
    newest_note = g_strdup(note);
}

void
cli_run_options_divided(const struct cli_run_division *was)
{
    divided_then = *was;
}

void
cli_run_options_say(char *line)
{
    taken_line = line;
}

static bool
read_number(enum number which, double *value, GError **error)
{
    const struct number_row *row = &rows[which];
    const char *text = numbers[which];

    *value = row->otherwise;
    if (!text)
        return true;
    const struct mw_number number = {
        .name = row->name,
        .min = row->min,
        .max = row->max,
        .whole = row->whole,
        .counts = which == STEPS || which == WARMUP,
    };
    return mw_number_read(&number, text, value, error);
}

static bool
read_shape(struct mw_lr_schedule *schedule, GError **error)
{
    schedule->shape = MW_LR_CONSTANT;
    if (!lr_shape || mw_lr_shape_parse(lr_shape, &schedule->shape))
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "--lr-schedule %s: must be constant or cosine",
                lr_shape);
    return false;
}

static bool
read_loss_scale(struct mw_loss_scaling *scaling, GError **error)
{
    double value;

    *scaling = (struct mw_loss_scaling){0};
    if (!loss_scale)
        return true;
    if (!strcmp(loss_scale, "dynamic")) {
        *scaling = mw_loss_scaling_dynamic(65536);
    } else {
        const char *end = mw_number_scan(loss_scale, &value);
        if (!end || *end)
            value = NAN;
        *scaling = (struct mw_loss_scaling){.start = value, .min = value, .max = value};
    }
    if (mw_loss_scaling_check(scaling, NULL))
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "--loss-scale %s: must be a power of two, such as 1024, or dynamic", loss_scale);
    return false;
}

/* Refuses empty names: what a shell makes of a variable that is not set. */
static bool
check_names(GError **error)
{
    const struct {
        const char *option, *path;
    } names[] = {{"--data", data_path},       {"--plan", plan_path},
                 {"--weights", weights_path}, {"--adapter", adapter_path},
                 {"--from", from_path},       {"--save", save_path},
                 {"--log", log_path},         {"--save-timeline", timeline_path}};

    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        if (names[i].path && !*names[i].path)
            return mw_refuse(error, "%s: a file's name is missing", names[i].option);
    if (resume_run && !*resume_run)
        return mw_refuse(error, "--resume: a run's name is missing");
    if (resume_run && nvme_directories)
        return mw_refuse(error, "--resume %s, --nvme: give one of them: the run says where it is",
                         resume_run);
    for (char **directory = nvme_directories; directory && *directory; directory++)
        if (!**directory)
            return mw_refuse(error, "--nvme: a directory's name is missing");
    return true;
}

/* Reads --at: the step to resume from. */
static bool
read_at(bool *previous, GError **error)
{
    *previous = resume_at && !strcmp(resume_at, "previous");
    if (resume_at && !*previous && strcmp(resume_at, "newest"))
        return mw_refuse(error, "--at %s: must be newest or previous", resume_at);
    return !resume_at || resume || mw_refuse(error, "--at %s: needs --resume", resume_at);
}

/* Which options of the course the command line gives: a resume may change those. */
static uint32_t
given_course(void)
{
    static const struct {
        enum number number;
        enum cli_course course;
    } of[] = {{LR, CLI_COURSE_LR},       {LR_MIN, CLI_COURSE_LR_MIN}, {WARMUP, CLI_COURSE_WARMUP},
              {BETA1, CLI_COURSE_BETA1}, {BETA2, CLI_COURSE_BETA2},   {EPSILON, CLI_COURSE_EPSILON},
              {DECAY, CLI_COURSE_DECAY}, {CLIP, CLI_COURSE_CLIP},     {SEED, CLI_COURSE_SEED}};
    uint32_t bits = (uint32_t) !!lr_shape << CLI_COURSE_SHAPE |
                    (uint32_t) !!shuffle << CLI_COURSE_SHUFFLE |
                    (uint32_t) !!loss_scale << CLI_COURSE_LOSS_SCALE;

    for (size_t i = 0; i < G_N_ELEMENTS(of); i++)
        bits |= (uint32_t) !!numbers[of[i].number] << of[i].course;
    return bits;
}

bool
cli_run_options_read(struct cli_run_options *options, GError **error)
{
    double v[NUMBERS];

    memset(options, 0, sizeof *options);
    for (int i = 0; i < NUMBERS; i++)
        if (!read_number(i, &v[i], error))
            return false;
    if (!check_names(error))
        return false;
    if (!data_path) {
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "--data FILE is missing: tokens (.bin) or UTF-8 text to train on");
        return false;
    }
    if (!mw_input_is_there(data_path, MW_TOKENS_WANTED, error))
        return false;
    options->steps = v[STEPS];
    options->seed = v[SEED];
    options->shuffle = shuffle;
    options->resume = resume;
    options->resume_run = g_strdup(resume_run);
    options->newest = g_strdup(newest_run);
    options->note = g_strdup(newest_note);
    options->taken = g_strdup(taken_line);
    options->was = divided_then;
    options->overwrite = overwrite;
    options->compare = compare;
    options->schedule = (struct mw_lr_schedule){
        .lr = v[LR],
        .lr_min = isnan(v[LR_MIN]) ? v[LR] / 10 : v[LR_MIN],
        .warmup_steps = v[WARMUP],
        .total_steps = v[STEPS],
    };
    options->optimizer = (struct mw_optimizer){v[BETA1], v[BETA2], v[EPSILON], v[DECAY], v[CLIP]};
    options->given = given_course();
    options->device_threads = v[DEVICE_THREADS];
    options->host_threads = v[HOST_THREADS];
    options->max_skipped = v[MAX_SKIPPED];
    options->patience_s = v[PATIENCE];
    options->data = g_strdup(data_path);
    options->weights = g_strdup(weights_path);
    options->adapter = g_strdup(adapter_path);
    options->log = g_strdup(log_path);
    options->from = g_strdup(from_path);
    options->save = g_strdup(save_path);
    options->save_timeline = g_strdup(timeline_path);
    options->nvme = g_strdupv(nvme_directories);
    return cli_limits_parse(&options->limits, limits, error) &&
           cli_run_backend_read(backend_name, &options->backend, error) &&
           read_loss_scale(&options->loss_scaling, error) && read_at(&options->previous, error) &&
           read_shape(&options->schedule, error) &&
           /* The run to resume has a rate of its own, which is checked together with these
            * options. */
           (options->resume || options->from || mw_lr_schedule_check(&options->schedule, error));
}

void
cli_run_options_clear(struct cli_run_options *options)
{
    g_free(options->data);
    g_free(options->weights);
    g_free(options->adapter);
    g_free(options->log);
    g_free(options->from);
    g_free(options->save);
    g_free(options->save_timeline);
    g_strfreev(options->nvme);
    g_free(options->resume_run);
    g_free(options->newest);
    g_free(options->note);
    g_free(options->taken);
    memset(options, 0, sizeof *options);
}
