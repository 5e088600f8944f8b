/* Fine-tuning from preferences: study/objective.h. */
#include <math.h>

#include "base/format.h"
#include "base/json_writer.h"
#include "base/schemas.h"
#include "base/spell.h"
#include "report/grid.h"
#include "report/json_result.h"
#include "report/report.h"
#include "report/table.h"
#include "report/wrap.h"

static const char *const places[MW_TIER_COUNT] = {
    [MW_TIER_GPU] = "GPU", [MW_TIER_CPU] = "host memory", [MW_TIER_NVME] = "drives"};

static bool
has_pairs(const struct mw_objective *it)
{
    return it->kind == MW_OBJECTIVE_DPO || it->kind == MW_OBJECTIVE_REWARD;
}

/* The most of any phase. */
static int64_t
peak_bytes(const struct mw_objective *it, int tier)
{
    int64_t most = 0;

    for (int p = 0; p < it->phase_count; p++)
        most = MAX(most, it->phases[p].need_bytes[tier]);
    return most;
}

/* As the reader would set it; NULL: none.  g_free it. */
static char *
remedy_text(const struct mw_objective *it)
{
    return it->remedy[0] ? mw_spelled_printf("{%s=%s}", it->remedy[0], it->remedy[1]) : NULL;
}

static void
print_lack(FILE *out, const struct mw_objective *it, const char *model, const char *hardware)
{
    mw_wrap_line(out, 14,
                 "DOES NOT FIT  %s by %s on %s, %" G_GINT64_FORMAT
                 " GPU%s: nearest with %s, where %s lacks %s of the %s's room in its phase",
                 model, mw_objective_name(it->kind), hardware, it->gpus, it->gpus == 1 ? "" : "s",
                 it->strategy, places[it->limiting_tier], mw_format_gib((double)it->short_bytes),
                 it->short_of);
    g_autofree char *remedy = remedy_text(it);
    mw_wrap_line(out, 14, "remedy        %s%s", remedy ? remedy : "none of the settings tried",
                 remedy ? " fits" : " makes it fit");
}

static void
print_speed(FILE *out, const struct mw_objective *it, const char *software)
{
    double step_s = it->step_s[MW_OUTLOOK_TYPICAL], share = has_pairs(it) ? 2 : 1;
    const char *unit = has_pairs(it) ? "pairs" : "answers";

    mw_wrap_line(out, 14, "step time     %s (%s .. %s), software %s", mw_format_seconds(step_s),
                 mw_format_seconds(it->step_s[MW_OUTLOOK_HIGH]),
                 mw_format_seconds(it->step_s[MW_OUTLOOK_LOW]), software);
    mw_wrap_line(out, 14,
                 "throughput    %s %s/s, %s %s per step (micro-batches of %s sequences per GPU, "
                 "%" G_GINT64_FORMAT " per step)",
                 mw_format_significant(it->global_batch / share / step_s), unit,
                 mw_format_batch(it->global_batch / share), unit, mw_format_batch(it->micro_batch),
                 it->grad_accum);
    if (it->prompt)
        mw_wrap_line(out, 14,
                     "generation    of %" G_GINT64_FORMAT " answers per GPU at once, layers %s "
                     "%" G_GINT64_FORMAT " GPU%s",
                     it->generated_at_once, it->generation_slices > 1 ? "sliced over" : "whole on",
                     it->generation_slices, it->generation_slices > 1 ? "s" : "");
    if (it->before_s > 0)
        mw_wrap_line(out, 14, "before it     the reference takes %s per pair, once",
                     mw_format_seconds(it->before_s));
    mw_wrap_line(out, 14, "memory        per GPU: gpu %s of %s, cpu %s of %s, nvme %s of %s",
                 mw_format_gib((double)peak_bytes(it, MW_TIER_GPU)),
                 mw_format_gib((double)it->capacity_bytes[MW_TIER_GPU]),
                 mw_format_gib((double)peak_bytes(it, MW_TIER_CPU)),
                 mw_format_gib((double)it->capacity_bytes[MW_TIER_CPU]),
                 mw_format_bytes((double)peak_bytes(it, MW_TIER_NVME)),
                 mw_format_bytes((double)it->capacity_bytes[MW_TIER_NVME]));
}

static const char *
kept_text(const struct mw_objective_model *model, int tier)
{
    return model->resident_bytes[tier] ? mw_format_gib((double)model->resident_bytes[tier]) : "";
}

static const char *
home_text(const struct mw_objective *it, const struct mw_objective_model *model)
{
    return model->without_adapters               ? "as trained, without adapters"
           : it->before_s > 0 && !model->trained ? "no step"
                                                 : places[model->home];
}

static void
print_models(FILE *out, const struct mw_objective *it)
{
    struct mw_grid *grid = mw_grid_new("llrrlrrr");

    mw_table_heading(out, "Models (per GPU, what each keeps while others work)");
    mw_grid_row(grid, "model", "is", "parameters", "trained", "weights in", "gpu", "cpu", "nvme",
                NULL);
    for (int m = 0; m < it->model_count; m++) {
        const struct mw_objective_model *model = &it->models[m];
        mw_grid_row(grid, model->role, model->name, mw_format_count((double)model->params),
                    model->trained ? mw_format_count((double)model->trained_params) : "",
                    home_text(it, model), kept_text(model, MW_TIER_GPU),
                    kept_text(model, MW_TIER_CPU), kept_text(model, MW_TIER_NVME), NULL);
    }
    mw_grid_print(grid, out, 2);
}

static int
trained_models(const struct mw_objective *it)
{
    int trained = 0;

    for (int m = 0; m < it->model_count; m++)
        trained += it->models[m].trained;
    return trained;
}

/* Of each trained model, as of a plan of one. */
static void
print_settings(FILE *out, const struct mw_objective *it)
{
    for (int m = 0; m < it->model_count; m++) {
        const struct mw_result *plan = it->models[m].plan;
        if (plan && trained_models(it) > 1)
            mw_table_line(out, it->models[m].role,
                          "micro-batches of %s sequences per GPU, %" G_GINT64_FORMAT " per step",
                          mw_format_batch(plan->micro_batch), plan->grad_accum);
        if (plan)
            mw_table_states(out, plan);
    }
}

/* What is said of several models once. */
static bool
is_said(const struct mw_objective *it, int before, const char *note)
{
    for (int m = 0; m < before; m++)
        if (it->models[m].plan && it->models[m].plan->notes &&
            g_strv_contains((const char *const *)it->models[m].plan->notes, note))
            return true;
    return false;
}

static void
print_notes(FILE *out, const struct mw_objective *it)
{
    for (int m = 0; m < it->model_count; m++) {
        const struct mw_result *plan = it->models[m].plan;
        for (char **note = plan ? plan->notes : NULL; note && *note; note++)
            if (!is_said(it, m, *note))
                mw_table_line(out, "note", "%s%s%s",
                              trained_models(it) > 1 ? it->models[m].role : "",
                              trained_models(it) > 1 ? ": " : "", *note);
    }
}

static void
print_phases(FILE *out, const struct mw_objective *it)
{
    struct mw_grid *grid = mw_grid_new("llrrrrr");
    double step_s = it->step_s[MW_OUTLOOK_TYPICAL];

    mw_table_heading(out, "Phases of a step");
    mw_grid_row(grid, "phase", "of", "times", "each", "all", "of step", "gpu in use", NULL);
    for (int p = 0; p < it->phase_count; p++) {
        const struct mw_objective_phase *phase = &it->phases[p];
        double all_s = (double)phase->times * phase->each_s;
        g_autofree char *times = g_strdup_printf("%" G_GINT64_FORMAT, phase->times);
        mw_grid_row(grid, phase->name, it->models[phase->model].role, times,
                    mw_format_seconds(phase->each_s), mw_format_seconds(all_s),
                    mw_format_percent(all_s / step_s),
                    mw_format_gib((double)phase->need_bytes[MW_TIER_GPU]), NULL);
    }
    mw_grid_print(grid, out, 2);
}

void
mw_table_objective(FILE *out, const struct mw_objective *it, const char *model,
                   const char *hardware, const char *software)
{
    if (!it->fits) {
        print_lack(out, it, model, hardware);
        return;
    }
    g_autofree char *prompts =
        it->prompt ? g_strdup_printf(", %" G_GINT64_FORMAT " of them prompt", it->prompt)
                   : g_strdup("");
    mw_wrap_line(out, 14,
                 "fits          %s trains by %s on %s, %" G_GINT64_FORMAT
                 " GPU%s with %s, sequences of %" G_GINT64_FORMAT " tokens%s",
                 model, mw_objective_name(it->kind), hardware, it->gpus, it->gpus == 1 ? "" : "s",
                 it->strategy, it->seq, prompts);
    print_speed(out, it, software);
    print_settings(out, it);
    print_notes(out, it);
    print_models(out, it);
    print_phases(out, it);
}

/* --- JSON ------------------------------------------------------------------------------------ */

static void
write_tiers(struct mw_json_writer *json, const char *key, const int64_t bytes[MW_TIER_COUNT])
{
    mw_json_begin(json, key, '{', true);
    for (int tier = 0; tier < MW_TIER_COUNT; tier++)
        mw_json_integer(json, mw_tier_name(tier), bytes[tier]);
    mw_json_end(json, '}');
}

/* As of an answer to a question of one model. */
static void
write_plan(struct mw_json_writer *json, const struct mw_result *plan)
{
    mw_json_settings(json, plan);
    mw_json_begin(json, "notes", '[', false);
    for (char **note = plan->notes; note && *note; note++)
        mw_json_string(json, NULL, *note);
    mw_json_end(json, ']');
}

static void
write_model(struct mw_json_writer *json, const struct mw_objective_model *model)
{
    mw_json_begin(json, NULL, '{', !model->plan);
    mw_json_string(json, "role", model->role);
    mw_json_string(json, "model", model->name);
    mw_json_boolean(json, "trained", model->trained);
    mw_json_boolean(json, "scores", model->scores);
    mw_json_boolean(json, "without_adapters", model->without_adapters);
    mw_json_integer(json, "parameters", model->params);
    mw_json_integer(json, "trained_parameters", model->trained_params);
    mw_json_string(json, "weights_in", mw_tier_name((int)model->home));
    write_tiers(json, "resident_bytes", model->resident_bytes);
    if (model->plan)
        write_plan(json, model->plan);
    mw_json_end(json, '}');
}

static void
write_phase(struct mw_json_writer *json, const struct mw_objective *it,
            const struct mw_objective_phase *phase)
{
    mw_json_begin(json, NULL, '{', true);
    mw_json_string(json, "phase", phase->name);
    mw_json_string(json, "role", it->models[phase->model].role);
    mw_json_integer(json, "times", phase->times);
    mw_json_number(json, "each_s", phase->each_s);
    mw_json_number(json, "all_s", (double)phase->times * phase->each_s);
    write_tiers(json, "need_bytes", phase->need_bytes);
    mw_json_end(json, '}');
}

static void
write_verdict(struct mw_json_writer *json, const struct mw_objective *it)
{
    mw_json_boolean(json, "feasible", it->fits);
    mw_json_string(json, "limiting_tier", it->fits ? NULL : mw_tier_name((int)it->limiting_tier));
    mw_json_string(json, "limiting_role", it->fits ? NULL : it->short_of);
    mw_json_integer(json, "short_bytes", it->short_bytes);
    g_autofree char *remedy = remedy_text(it);
    mw_json_string(json, "remedy", remedy);
    mw_json_string(json, "strategy", it->strategy);
    mw_json_integer(json, "gpus", it->gpus);
    mw_json_integer(json, "seq", it->seq);
    mw_json_integer(json, "prompt_tokens", it->prompt);
    mw_json_number(json, "micro_batch", it->micro_batch);
    mw_json_integer(json, "grad_accum", it->grad_accum);
    mw_json_number(json, "global_batch", it->global_batch);
    mw_json_integer(json, "generated_at_once", it->generated_at_once);
    mw_json_integer(json, "generation_slices", it->generation_slices);
}

static void
write_times(struct mw_json_writer *json, const struct mw_objective *it)
{
    static const char *const keys[MW_OUTLOOK_COUNT] = {
        [MW_OUTLOOK_LOW] = "step_time_slowest_s",
        [MW_OUTLOOK_TYPICAL] = "step_time_s",
        [MW_OUTLOOK_HIGH] = "step_time_fastest_s",
    };

    for (int outlook = 0; outlook < MW_OUTLOOK_COUNT; outlook++)
        mw_json_number(json, keys[outlook], it->fits ? it->step_s[outlook] : NAN);
    mw_json_number(json, "sequences_per_s",
                   it->fits ? it->global_batch / it->step_s[MW_OUTLOOK_TYPICAL] : NAN);
    mw_json_number(json, "reference_before_s_per_pair", it->before_s);
}

void
mw_json_objective_write(FILE *out, const struct mw_objective *it, const char *model,
                        const char *hardware, const char *software)
{
    struct mw_json_writer json = {.out = out};

    mw_json_begin_answer(&json, MW_SCHEMA_OBJECTIVE);
    mw_json_string(&json, "objective", mw_objective_name(it->kind));
    mw_json_string(&json, "model", model);
    mw_json_string(&json, "hardware", hardware);
    mw_json_string(&json, "software", software);
    write_verdict(&json, it);
    write_times(&json, it);
    write_tiers(&json, "capacity_bytes", it->capacity_bytes);
    mw_json_begin(&json, "models", '[', false);
    for (int m = 0; m < it->model_count; m++)
        write_model(&json, &it->models[m]);
    mw_json_end(&json, ']');
    mw_json_begin(&json, "phases", '[', false);
    for (int p = 0; p < it->phase_count; p++)
        write_phase(&json, it, &it->phases[p]);
    mw_json_end(&json, ']');
    mw_json_end(&json, '}');
}
