/* Fields that say how a run is trained: values that no run can have are refused by name, others are
 * accepted.
 */
#include <string.h>

#include "cli/run/fields.h"
#include "planner/settings/settings.h"
#include "tests/says.h"

#define NAN_BITS UINT64_C(0x7ff8000000000000)
#define INFINITE_BITS UINT64_C(0x7ff0000000000000)
#define ALL_ONES UINT64_MAX

static uint64_t
bits_of(double value)
{
    return mw_commit_field_real("", value).value;
}

static bool
takes(const char *name, uint64_t bits, GError **error)
{
    struct mw_commit_field fields[] = {mw_commit_field("other", ALL_ONES),
                                       mw_commit_field(name, bits)};
    const struct mw_commit_record record = {.fields = fields, .field_count = 2};

    return cli_run_fields_check(&record, error);
}

static void
refuse(const char *name, uint64_t bits, const char *value, const char *wanted)
{
    g_autofree char *start = g_strdup_printf("field \"%s\" is %s: must be ", name, value);
    GError *error = NULL;

    if (takes(name, bits, &error))
        g_error("%s: %s is taken", name, value);
    mw_test_error_says(error, start, wanted);
}

static void
test_refused(void)
{
    static const struct {
        const char *name;
        uint64_t bits;
        const char *value, *wanted;
    } rows[] = {
        {"layers", NAN_BITS, "9221120237041090560", "a whole number from 1 to 100000"},
        {"layers", 0, "0", "from 1 to"},
        {"heads", ALL_ONES, "18446744073709551615", "a whole number from 1 to 65536"},
        {"position-rows", ALL_ONES, "18446744073709551615", "from 0 to 536870912"},
        {"batch", ALL_ONES, "18446744073709551615", "from 1 to 1000000000"},
        {"seq", 0, "0", "from 1 to"},
        {"tokens", ALL_ONES, "18446744073709551615", "from 0 to 9007199254740992"},
        {"sequences", (UINT64_C(1) << 53) + 1, "9007199254740993", "from 0 to 9007199254740992"},
        {"dpu-start", ALL_ONES - 1, "18446744073709551614", "from 0 to 1000000000, or none"},
        {"norm-epsilon", NAN_BITS, "nan", "a number from 0 to 1"},
        {"rope-theta", NAN_BITS, "nan", "a number from 0 to 1000000000000"},
        {"rope-factor", INFINITE_BITS, "inf", "a number from 1 to 1000000"},
        {"rope-low", 0, "0", "a number from 0.001 to 1000000"},
        {"rope-positions", 0, "0", "from 1 to 1099511627776"},
        {"decoder", 2, "2", "0 (GPT-2) or 1 (Llama)"},
        {"activation", 4, "4", "0 (gelu_new) or 1 (gelu) or 2 (relu) or 3 (silu)"},
        {"dtype", 4, "4", "1 (bf16) or 2 (fp16) or 3 (fp32)"},
        {"tied", 2, "2", "0 (no) or 1 (yes)"},
        {"shuffle", ALL_ONES, "18446744073709551615", "0 (no) or 1 (yes)"},
        {"lr-schedule", 2, "2", "0 (constant) or 1 (cosine)"},
        {"tiles", 0, "0", "a whole number from 1 to 1000000000"},
        {"lr", 0, "0", "a number from 1e-12 to 1000"},
        {"lr", NAN_BITS, "nan", "a number from 1e-12 to 1000"},
        {"warmup", NAN_BITS, "9221120237041090560", "a whole number from 0 to 1000000000"},
        {"beta1", NAN_BITS, "nan", "a number from 0 to 0.999999"},
        {"epsilon", 0, "0", "a number from 1e-20 to 1"},
        {"seed", ALL_ONES, "18446744073709551615", "a whole number from 0 to 1000000000000000"},
        {"scaling", NAN_BITS, "nan", "a power of two, such as 1024, or 0 (dynamic)"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        refuse(rows[i].name, rows[i].bits, rows[i].value, rows[i].wanted);
    refuse("scaling", bits_of(3), "3", "a power of two");
    refuse("scaling", bits_of(-0.0), "-0", "a power of two");
    refuse("clip", bits_of(-1), "-1", "a number from 0 to 1000000000");
    refuse("beta2", bits_of(1), "1", "a number from 0 to 0.99999999");
}

/* Both ends of every row's range, as the options and config.json take them. */
static void
test_taken(void)
{
    static const struct {
        const char *name;
        uint64_t least, most;
    } wholes[] = {
        {"layers", 1, 100000},
        {"position-rows", 0, 1 << 29},
        {"dpu-start", 0, (uint64_t)MW_AUTO},
        {"warmup", 0, 1000000000},
        {"seed", 0, UINT64_C(1000000000000000)},
        {"shuffle", 0, 1},
        {"activation", 0, 3},
        {"sequences", 0, UINT64_C(1) << 53},
        {"scaling", 0, 0x3ff0000000000000},
    };
    static const struct {
        const char *name;
        double least, most;
    } reals[] = {
        {"lr", 1e-12, 1e3},       {"lr-min", 0, 1e3},      {"beta1", 0, 0.999999},
        {"beta2", 0, 0.99999999}, {"epsilon", 1e-20, 1},   {"weight-decay", 0, 10},
        {"clip", 0, 1e9},         {"rope-theta", 0, 1e12},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(wholes); i++)
        for (int end = 0; end < 2; end++)
            g_assert_true(takes(wholes[i].name, end ? wholes[i].most : wholes[i].least, NULL));
    for (size_t i = 0; i < G_N_ELEMENTS(reals); i++)
        for (int end = 0; end < 2; end++) {
            const double value = end ? reals[i].most : reals[i].least;
            g_assert_true(takes(reals[i].name, bits_of(value), NULL));
        }
}

/* No row is without a range or a name, and none takes what is none of its kind; a digest may be any
 * number. */
static void
check_row(const struct cli_run_field *row)
{
    const bool real = row->kind == CLI_FIELD_REAL || row->kind == CLI_FIELD_LOSS_SCALE;

    g_assert_nonnull(row->field);
    g_assert_nonnull(row->what);
    g_assert_cmpint(strlen(row->field), <, MW_COMMIT_NAME_BYTES);
    bool any = row->kind == CLI_FIELD_DIGEST;
    g_assert_true(cli_run_field_check(row, real ? NAN_BITS : ALL_ONES - 1, NULL) == any);
    g_assert_true(cli_run_field_check(row, real ? bits_of(-1) : NAN_BITS, NULL) == any);
    const uint64_t good = real ? bits_of(1) : MAX(1, (uint64_t)row->least);
    g_assert_true(cli_run_field_check(row, good, NULL));
    g_autofree char *text = cli_run_field_text(row, good);
    g_assert_nonnull(text);
}

static void
test_rows(void)
{
    for (int i = 0; i < CLI_FIXEDS; i++)
        check_row(&cli_run_fixed[i]);
    for (int i = 0; i < CLI_COURSES; i++)
        if (i != CLI_COURSE_BETA1 && i != CLI_COURSE_BETA2) /* below 1 */
            check_row(&cli_run_courses[i]);
    for (int i = 0; i < CLI_DIGITS; i++)
        check_row(&cli_run_digits[i]);
}

static void
test_texts(void)
{
    const struct {
        const struct cli_run_field *row;
        uint64_t bits;
        const char *text;
    } rows[] = {
        {&cli_run_fixed[CLI_FIXED_DPU_START], (uint64_t)MW_AUTO, "none"},
        {&cli_run_fixed[CLI_FIXED_DPU_START], 7, "7"},
        {&cli_run_fixed[CLI_FIXED_DROPS], 0, "none"},
        {&cli_run_fixed[CLI_FIXED_DROPS], 0xabc, "of digest 0000000000000abc"},
        {&cli_run_courses[CLI_COURSE_LOSS_SCALE], 0, "dynamic"},
        {&cli_run_courses[CLI_COURSE_LOSS_SCALE], bits_of(1024), "1024"},
        {&cli_run_courses[CLI_COURSE_LR], bits_of(3e-4), "0.0003"},
        {&cli_run_courses[CLI_COURSE_SHUFFLE], 1, "yes"},
        {&cli_run_courses[CLI_COURSE_SHAPE], MW_LR_COSINE, "cosine"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text = cli_run_field_text(rows[i].row, rows[i].bits);
        g_assert_cmpstr(text, ==, rows[i].text);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/run_fields/refused", test_refused);
    g_test_add_func("/run_fields/taken", test_taken);
    g_test_add_func("/run_fields/rows", test_rows);
    g_test_add_func("/run_fields/texts", test_texts);
    return g_test_run();
}
