#include "cli/list_model.h"

#include "base/format.h"
#include "base/json_writer.h"
#include "cli/cli.h"
#include "report/grid.h"
#include "report/wrap.h"

/* One operator of all layers that have it: parameters, and work for one sequence.
 * mw_model_validate_shape: the sums fit. */
struct row {
    int64_t layers; /* 0: at the ends of the model */
    int64_t params, forward_flops, backward_flops, recompute_flops, saved_bytes;
};

/* One row per operator, and the sum of all. */
struct rows {
    struct row of[MW_OPERATOR_COUNT], total;
    struct mw_shape shape;
};

/* Only blocks are recomputed, from their checkpoints; the ends of the model never are. */
static void
add_operator(struct row *row, const struct mw_operator_info *info, bool in_layer)
{
    row->layers += in_layer;
    row->params += info->params;
    row->forward_flops += info->forward_flops;
    row->backward_flops += info->backward_flops;
    row->recompute_flops += in_layer ? info->forward_flops : 0;
    row->saved_bytes += info->saved_bytes;
}

static void
add_operators(struct rows *rows, const struct mw_operator_info *infos, int count, bool in_layer)
{
    for (int i = 0; i < count; i++) {
        add_operator(&rows->of[infos[i].operator_], &infos[i], in_layer);
        add_operator(&rows->total, &infos[i], in_layer);
    }
}

static void
collect_rows(struct rows *rows, const struct mw_model *model)
{
    struct mw_operator_info infos[MW_LAYER_OPERATORS_MAX];

    add_operators(rows, infos, mw_model_head(model, &rows->shape, infos), false);
    for (int64_t layer = 0; layer < model->layers; layer++)
        add_operators(rows, infos, mw_model_layer(model, layer, &rows->shape, infos), true);
    add_operators(rows, infos, mw_model_tail(model, &rows->shape, infos), false);
    rows->total.layers = 0;
}

static bool
is_there(const struct row *row)
{
    return row->params || row->forward_flops || row->saved_bytes;
}

/* The paper's FLOPs per step: forward, twice that in backward, and the recompute. */
static double
paper_flops(const struct mw_model *model, int64_t seq)
{
    return 8.0 * (double)mw_model_params_paper(model) * (double)seq;
}

/* --- as a table ------------------------------------------------------------------------------ */

static void
print_row(struct mw_grid *grid, const char *name, const struct row *row)
{
    g_autofree char *layers =
        row->layers ? g_strdup_printf("%" G_GINT64_FORMAT, row->layers) : g_strdup("");

    mw_grid_row(
        grid, name, layers, mw_format_count((double)row->params),
        mw_format_count((double)row->forward_flops), mw_format_count((double)row->backward_flops),
        mw_format_count((double)row->recompute_flops), mw_format_gib(row->saved_bytes), NULL);
}

static void
print_table(const struct mw_model *model, const struct rows *rows)
{
    struct mw_grid *grid = mw_grid_new("lrrrrrr");

    printf("%s: %s, %" G_GINT64_FORMAT " layers, hidden %" G_GINT64_FORMAT ", %" G_GINT64_FORMAT
           " heads (%" G_GINT64_FORMAT " of keys and values)\n",
           model->name, model->architecture, model->layers, model->hidden, model->heads,
           model->kv_heads);
    printf("FLOPs and activations of one sequence of %" G_GINT64_FORMAT
           " tokens, with flash attention\n\n",
           rows->shape.seq);
    mw_grid_row(grid, "operator", "layers", "params", "forward", "backward", "recompute",
                "activations", NULL);
    for (int o = 0; o < MW_OPERATOR_COUNT; o++)
        if (is_there(&rows->of[o]))
            print_row(grid, mw_operator_name(o), &rows->of[o]);
    print_row(grid, "= total", &rows->total);
    mw_grid_print(grid, stdout, 0);
    printf("\nBy the paper's approximation (ZeRO-Infinity, Sec. 3): 12·nl·hd² = %s parameters, "
           "8 FLOPs per\nparameter and token = %s; by operator %s\n",
           mw_format_count((double)mw_model_params_paper(model)),
           mw_format_count(paper_flops(model, rows->shape.seq)),
           mw_format_count((double)rows->total.forward_flops + (double)rows->total.backward_flops +
                           (double)rows->total.recompute_flops));
    if (*model->note) {
        g_autofree char *note = g_strdup_printf("note: config.json: %s", model->note);
        mw_wrap_text(stdout, note, 0, 6, mw_wrap_columns(stdout));
    }
}

/* --- as JSON --------------------------------------------------------------------------------- */

static void
write_row(struct mw_json_writer *json, const char *name, const struct row *row)
{
    mw_json_begin(json, NULL, '{', true);
    mw_json_string(json, "operator", name);
    mw_json_integer(json, "layers", row->layers);
    mw_json_integer(json, "params", row->params);
    mw_json_integer(json, "forward_flops", row->forward_flops);
    mw_json_integer(json, "backward_flops", row->backward_flops);
    mw_json_integer(json, "recompute_flops", row->recompute_flops);
    mw_json_integer(json, "activation_bytes", row->saved_bytes);
    mw_json_end(json, '}');
}

static void
write_json(const struct mw_model *model, const struct rows *rows)
{
    struct mw_json_writer json = {.out = stdout};

    mw_json_begin_answer(&json, "memwall-model/1");
    mw_json_string(&json, "model", model->name);
    mw_json_string(&json, "architecture", model->architecture);
    mw_json_integer(&json, "params", mw_model_params(model));
    mw_json_integer(&json, "paper_params", mw_model_params_paper(model));
    mw_json_integer(&json, "seq", rows->shape.seq);
    mw_json_number(&json, "paper_flops", paper_flops(model, rows->shape.seq));
    if (*model->note)
        mw_json_string(&json, "note", model->note);
    mw_json_begin(&json, "operators", '[', false);
    for (int o = 0; o < MW_OPERATOR_COUNT; o++)
        if (is_there(&rows->of[o]))
            write_row(&json, mw_operator_name(o), &rows->of[o]);
    mw_json_end(&json, ']');
    mw_json_end(&json, '}');
}

int
cli_list_model(const char *name, bool as_json)
{
    g_autoptr(GError) error = NULL;
    struct rows rows = {0};
    struct mw_model model;

    if (!mw_model_load(name, &model, &error))
        return cli_fail(error);
    rows.shape = (struct mw_shape){
        .sequences = 1,
        .seq = mw_settings_default_seq(&model),
        .tp = 1,
        .flash_attention = true,
    };
    if (!mw_model_validate_shape(&model, &rows.shape, &error))
        return cli_fail(error);
    collect_rows(&rows, &model);
    if (as_json)
        write_json(&model, &rows);
    else
        print_table(&model, &rows);
    return cli_flush();
}
