/* The verdict as JSON (docs/schema.json, "check"). */
#include <math.h>

#include "base/json_writer.h"
#include "report/gate.h"

static void
write_limits(struct mw_json_writer *json, const struct mw_gate_report *report)
{
    const struct mw_gate_limits *limits = report->limits;

    mw_json_begin(json, "limits", '{', false);
    mw_json_number(json, "max_drop", limits->drop);
    mw_json_number(json, "min_of_predicted", limits->of_predicted);
    mw_json_boolean(json, "either_way", limits->either_way);
    mw_json_integer(json, "min_steps", limits->steps_min);
    mw_json_begin(json, "tolerances", '{', false);
    for (int i = 0; i < MW_GATE_FIGURES; i++)
        mw_json_number(json, mw_gate_figures[i].name, limits->worse[i]);
    mw_json_end(json, '}');
    mw_json_end(json, '}');
}

static void
write_moved(struct mw_json_writer *json, const struct mw_gate_moved *moved)
{
    bool figure = moved->figure >= 0;

    mw_json_begin(json, NULL, '{', true);
    mw_json_string(json, "name", moved->before->name);
    mw_json_string(json, "figure", figure ? mw_gate_figures[moved->figure].name : NULL);
    mw_json_number(json, "before", figure ? moved->before->figures[moved->figure] : NAN);
    mw_json_number(json, "after", figure ? moved->after->figures[moved->figure] : NAN);
    mw_json_number(json, "change", moved->change);
    mw_json_boolean(json, "worse", moved->worse);
    mw_json_string(json, "because", moved->because);
    mw_json_end(json, '}');
}

static void
write_cases(struct mw_json_writer *json, const struct mw_gate_report *report)
{
    const struct mw_gate_verdict *verdict = report->cases;

    mw_json_begin(json, "predictions", '{', false);
    mw_json_integer(json, "baseline", report->before->len);
    mw_json_integer(json, "compared", verdict->compared);
    mw_json_integer(json, "added", verdict->added);
    mw_json_begin(json, "moved", '[', false);
    for (guint i = 0; i < verdict->moved->len; i++)
        write_moved(json, &g_array_index(verdict->moved, struct mw_gate_moved, i));
    mw_json_end(json, ']');
    mw_json_end(json, '}');
}

static void
write_side(struct mw_json_writer *json, const char *key, const struct mw_gate_side *side)
{
    bool is_time = side->steps && side->steps->measure == MW_GATE_STEP_TIME;

    if (!side->steps) {
        mw_json_string(json, key, NULL);
        return;
    }
    mw_json_begin(json, key, '{', true);
    mw_json_string(json, "format", side->steps->format);
    mw_json_integer(json, "steps", side->used);
    mw_json_integer(json, "warm_up_steps", side->warm_up);
    mw_json_integer(json, "left_out", side->steps->left_out);
    mw_json_boolean(json, "cut_off", side->steps->cut);
    mw_json_number(json, "median_step_time_s", is_time ? side->median_s : NAN);
    mw_json_number(json, "median_rate", is_time ? NAN : 1 / side->median_s);
    mw_json_end(json, '}');
}

static void
write_interval(struct mw_json_writer *json, const char *key, const struct mw_robust_interval *of)
{
    if (!isfinite(of->value)) {
        mw_json_string(json, key, NULL);
        return;
    }
    mw_json_begin(json, key, '{', true);
    mw_json_number(json, "value", of->value);
    mw_json_number(json, "low", of->low);
    mw_json_number(json, "high", of->high);
    mw_json_number(json, "confidence", of->confidence);
    mw_json_integer(json, "blocks", (int64_t)of->blocks);
    mw_json_boolean(json, "slow_noise", of->slow);
    mw_json_end(json, '}');
}

static void
write_part(struct mw_json_writer *json, const struct mw_gate_speed *speed)
{
    if (speed->part < 0) {
        mw_json_string(json, "part", NULL);
        return;
    }
    mw_json_begin(json, "part", '{', true);
    mw_json_string(json, "name", speed->after.steps->parts[speed->part].name);
    mw_json_number(json, "before_s", speed->part_before_s);
    mw_json_number(json, "after_s", speed->part_after_s);
    mw_json_number(json, "share", speed->part_share);
    mw_json_end(json, '}');
}

static void
write_runs(struct mw_json_writer *json, const struct mw_gate_speed *speed)
{
    mw_json_begin(json, "runs", '{', false);
    write_side(json, "before", &speed->before);
    write_side(json, "after", &speed->after);
    write_interval(json, "speed", &speed->speed);
    write_interval(json, "of_predicted", &speed->of_predicted);
    mw_json_boolean(json, "slower", speed->slower);
    mw_json_boolean(json, "below_predicted", speed->below_predicted);
    mw_json_boolean(json, "undecided", speed->undecided);
    write_part(json, speed);
    mw_json_end(json, '}');
}

void
mw_gate_json_write(FILE *out, const struct mw_gate_report *report)
{
    struct mw_json_writer json = {.out = out};

    mw_json_begin_answer(&json, "memwall-check/1");
    mw_json_boolean(&json, "failed", mw_gate_failed(report));
    mw_json_string(&json, "baseline", report->baseline);
    mw_json_string(&json, "baseline_version", report->wrote);
    mw_json_string(&json, "current", report->current);
    mw_json_string(&json, "predicted", report->predicted);
    write_limits(&json, report);
    if (report->cases)
        write_cases(&json, report);
    else
        write_runs(&json, report->runs);
    mw_json_end(&json, '}');
}
