/*
 * The update of hidden matrices by Muon (K. Jordan et al., Muon, 2024; J. Liu et al., arXiv
 * 2502.16982): the momentum of each is made orthogonal by products, of the whole matrix, in bf16.
 * Ranks that share the state gather it first (arXiv 2502.16982, Algorithm 1).
 */
#include <glib.h>

#include "base/arithmetic.h"
#include "planner/sizing/internal.h"

/* Newton-Schulz iterations of a matrix. */
#define STEPS 5
/* Of an element of what the iterations work on. */
#define BF16_BYTES 2
/* One pass for the sum of squares, one that divides by its root, and in each iteration three
 * products, which also add what they scale. */
#define LAUNCHES (2 + 3 * STEPS)
/* Shapes of a chunk's matrices that its work says: two products each. */
#define SHAPES_MAX (MW_WORK_PRODUCTS_MAX / 2)

/* The smaller side is the first: a taller matrix is transposed. */
static struct mw_matrix
lying(struct mw_matrix matrix)
{
    return (struct mw_matrix){MIN(matrix.rows, matrix.columns), MAX(matrix.rows, matrix.columns),
                              matrix.count};
}

int64_t
mw_orthogonal_flops(int64_t rows, int64_t columns)
{
    struct mw_matrix x = lying((struct mw_matrix){rows, columns, 1});

    return MW_PRODUCT(STEPS, 2, x.rows, x.rows, MW_SUM(x.columns, x.rows, x.columns));
}

static int64_t
flops_of(const struct mw_matrix *matrix)
{
    return MW_PRODUCT(matrix->count, mw_orthogonal_flops(matrix->rows, matrix->columns));
}

bool
mw_sizing_gathers_momentum(const struct mw_sizing *sizing, const struct mw_chunk *chunk)
{
    return chunk->matrix_params && sizing->optimizer_partitioned && sizing->shards > 1;
}

/* --- a chunk's matrices ---------------------------------------------------------------------- */

static void
add_shape(GArray *shapes, struct mw_matrix matrix)
{
    for (guint i = 0; i < shapes->len; i++) {
        struct mw_matrix *like = &g_array_index(shapes, struct mw_matrix, i);
        if (like->rows == matrix.rows && like->columns == matrix.columns) {
            like->count = MW_SUM(like->count, matrix.count);
            return;
        }
    }
    g_array_append_val(shapes, matrix);
}

static void
add_tensor(const struct mw_sizing *sizing, uint32_t number, GArray *shapes)
{
    int32_t layer;
    int index;
    const struct mw_class_info *class =
        &sizing->classes[mw_sizing_locate(sizing, number, &layer, &index)];
    const struct mw_unit_tensor *tensor = &class->tensors[index];

    for (int i = tensor->first; tensor->trained && i < tensor->first + tensor->count; i++)
        for (int m = 0; m < class->operators[i].matrix_count; m++)
            add_shape(shapes, lying(class->operators[i].matrices[m]));
}

static gint
by_flops(gconstpointer one, gconstpointer other)
{
    int64_t a = flops_of(one), b = flops_of(other);

    return (a < b) - (a > b);
}

/* Those with the most FLOPs first. */
static GArray *
shapes_of(const struct mw_sizing *sizing, const struct mw_chunk *chunk)
{
    GArray *shapes = g_array_new(FALSE, FALSE, sizeof(struct mw_matrix));

    for (uint32_t t = 0; t < chunk->tensor_count; t++)
        add_tensor(sizing, chunk->first_tensor + t, shapes);
    g_array_sort(shapes, by_flops);
    return shapes;
}

/* --- its work -------------------------------------------------------------------------------- */

/* An iteration of X, of m rows and n columns, forms A = X X^T, B = b A + c A A and a X + B X: of
 * m·m·n, m·m·m and m·m·n multiplications and additions (Jordan et al., "Runtime analysis").  The
 * first two products are said as one. */
static void
add_products(struct mw_orthogonal *out, const struct mw_matrix *x)
{
    int64_t m = x->rows, n = x->columns, count = MW_PRODUCT(STEPS, x->count);

    out->products[out->product_count++] = (struct mw_work_product){
        .m = m, .n = m, .k = MW_SUM(n, m), .count = count, .dtype = MW_DTYPE_BF16};
    out->products[out->product_count++] =
        (struct mw_work_product){.m = m, .n = n, .k = m, .count = count, .dtype = MW_DTYPE_BF16};
}

/* Matrices of other shapes than a work can say make its last product so much wider. */
static void
add_flops(struct mw_orthogonal *out, int64_t flops)
{
    struct mw_work_product *last = &out->products[out->product_count - 1];
    double columns =
        (double)flops / (2.0 * (double)last->m * (double)last->k * (double)last->count);

    last->n = MW_SUM(last->n, (int64_t)(columns + 0.5));
}

void
mw_sizing_orthogonal(const struct mw_sizing *sizing, const struct mw_chunk *chunk,
                     struct mw_orthogonal *out)
{
    int64_t others = 0;

    *out = (struct mw_orthogonal){0};
    if (!chunk->matrix_params)
        return;
    g_autoptr(GArray) shapes = shapes_of(sizing, chunk);
    for (guint i = 0; i < shapes->len; i++) {
        const struct mw_matrix *x = &g_array_index(shapes, struct mw_matrix, i);
        int64_t elements = MW_PRODUCT(x->rows, x->columns);
        if (i < SHAPES_MAX)
            add_products(out, x);
        else
            others = MW_SUM(others, flops_of(x));
        out->flops = MW_SUM(out->flops, flops_of(x));
        out->params = MW_SUM(out->params, MW_PRODUCT(x->count, elements));
        out->launches = MW_SUM(out->launches, MW_PRODUCT(x->count, LAUNCHES));
        out->room_bytes =
            MAX(out->room_bytes, MW_PRODUCT(BF16_BYTES, 2, x->rows, MW_SUM(x->rows, x->columns)));
    }
    if (others)
        add_flops(out, others);
    /* The update writes its momentum in bf16 and reads what is made of it; of whole matrices one
     * pass adds squares, and one reads and writes. */
    out->bytes = MW_PRODUCT(
        BF16_BYTES, MW_SUM(MW_PRODUCT(2, chunk->matrix_params), MW_PRODUCT(3, out->params)));
    out->gathered_bytes = MW_PRODUCT(BF16_BYTES, out->params);
}
