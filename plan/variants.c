#include "plan/variants.h"

#include <stdlib.h>
#include <string.h>

#include "plan/internal.h"

/* --- the rule -------------------------------------------------------------------------------- */

struct mw_variants *
mw_variants_new(struct mw_plan *plan)
{
    static const uint32_t only[] = {0};

    if (!plan)
        return NULL;
    struct mw_variants *variants = mw_plan_allocate(1, sizeof *variants);
    mw_variants_add(variants, plan);
    mw_variants_from(variants, 0, only, 1);
    return variants;
}

/* These arrays are short. */
static void *
longer_by_one(void *array, uint32_t count, size_t size)
{
    void *longer = mw_plan_allocate(count, size);

    if (array)
        memcpy(longer, array, (count - 1) * size);
    free(array);
    return longer;
}

uint32_t
mw_variants_add(struct mw_variants *variants, struct mw_plan *plan)
{
    uint32_t number = variants->plan_count++;

    variants->plans = longer_by_one(variants->plans, variants->plan_count, sizeof *variants->plans);
    variants->plans[number] = plan;
    return number;
}

void
mw_variants_from(struct mw_variants *variants, int64_t first_step, const uint32_t *cycle,
                 uint32_t count)
{
    while (variants->span_count &&
           variants->spans[variants->span_count - 1].first_step >= first_step)
        variants->turn_count = variants->spans[--variants->span_count].first_turn;
    uint32_t span = variants->span_count++;
    variants->spans = longer_by_one(variants->spans, variants->span_count, sizeof *variants->spans);
    variants->spans[span] = (struct mw_variant_span){first_step, variants->turn_count, count};
    for (uint32_t i = 0; i < count; i++) {
        variants->turns =
            longer_by_one(variants->turns, ++variants->turn_count, sizeof *variants->turns);
        variants->turns[variants->turn_count - 1] = cycle[i];
    }
}

void
mw_variants_free(struct mw_variants *variants)
{
    if (!variants)
        return;
    for (uint32_t v = 0; v < variants->plan_count; v++)
        mw_plan_free(variants->plans[v]);
    free(variants->plans);
    free(variants->spans);
    free(variants->turns);
    free(variants);
}

static uint32_t
span_of(const struct mw_variants *variants, int64_t step)
{
    uint32_t span = variants->span_count - 1;

    while (span && variants->spans[span].first_step > step)
        span--;
    return span;
}

uint32_t
mw_variant_of(const struct mw_variants *variants, int64_t step)
{
    const struct mw_variant_span *span = &variants->spans[span_of(variants, step)];

    return variants->turns[span->first_turn + (step - span->first_step) % span->turn_count];
}

int64_t
mw_variants_alike(const struct mw_variants *variants, int64_t step, int64_t steps)
{
    uint32_t span = span_of(variants, step);
    int64_t alike = 1;

    if (variants->spans[span].turn_count == 1) {
        int64_t left =
            span + 1 < variants->span_count ? variants->spans[span + 1].first_step - step : steps;
        return left < steps ? left : steps;
    }
    while (alike < steps && mw_variant_of(variants, step + alike) == mw_variant_of(variants, step))
        alike++;
    return alike;
}

const uint32_t *
mw_variants_last(const struct mw_variants *variants, uint32_t *count)
{
    const struct mw_variant_span *span = &variants->spans[variants->span_count - 1];

    *count = span->turn_count;
    return variants->turns + span->first_turn;
}

bool
mw_plan_is_delayed(const struct mw_plan *plan)
{
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        if (plan->tensors[t].trainable)
            return plan->slots[plan->tensors[t].gradient_slot].persistent;
    return false;
}

int64_t
mw_variants_delayed_from(const struct mw_variants *variants)
{
    for (uint32_t s = 0; s < variants->span_count; s++) {
        const struct mw_variant_span *span = &variants->spans[s];
        if (mw_plan_is_delayed(variants->plans[variants->turns[span->first_turn]]))
            return span->first_step;
    }
    return -1;
}

/* --- the check ------------------------------------------------------------------------------- */

/* Bytes of one of the places in which saves of state take turns; 0 if there is none. */
static int64_t
save_bytes(const struct mw_plan *plan)
{
    for (uint32_t s = 0; s < plan->slot_count; s++)
        if (plan->slots[s].purpose == MW_PURPOSE_SAVES)
            return plan->slots[s].size_bytes;
    return 0;
}

const struct mw_plan *
mw_variants_saver(const struct mw_variants *variants)
{
    const struct mw_plan *saver = variants->plans[0];

    for (uint32_t v = 1; v < variants->plan_count; v++)
        if (save_bytes(variants->plans[v]) > save_bytes(saver))
            saver = variants->plans[v];
    return saver;
}

static bool
is_saved(const struct mw_plan *saver, const struct mw_slot *slot)
{
    if (slot->tier != MW_TIER_NVME || slot->purpose == MW_PURPOSE_SAVES)
        return false;
    for (uint32_t s = 0; s < saver->slot_count; s++) {
        const struct mw_slot *save = &saver->slots[s];
        if (save->purpose == MW_PURPOSE_SAVES && save->program == slot->program &&
            save->offset_bytes < slot->offset_bytes + slot->size_bytes &&
            slot->offset_bytes < save->offset_bytes + save->size_bytes)
            return true;
    }
    return false;
}

static bool
check_saves(const struct mw_variants *variants, uint32_t v, char *why, size_t why_size)
{
    const struct mw_plan *plan = variants->plans[v], *saver = mw_variants_saver(variants);

    for (uint32_t s = 0; s < plan->slot_count; s++) {
        if (!is_saved(saver, &plan->slots[s]))
            continue;
        snprintf(why, why_size,
                 "variant %u: slot %u lies where another variant saves state on NVMe", v, s);
        return false;
    }
    return true;
}

static char *
shared_text(const struct mw_plan *plan)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    bool good = out && mw_plan_write_shared(plan, out);

    if (out)
        fclose(out);
    if (good)
        return text;
    free(text);
    return NULL;
}

/* Length of the entity that a line begins with: "slot 12", "step". */
static int
subject_length(const char *line)
{
    size_t word = strcspn(line, " \n");
    size_t digits = line[word] == ' ' ? strspn(line + word + 1, "0123456789") : 0;

    return (int)(digits && strchr(" \n", line[word + 1 + digits]) ? word + 1 + digits : word);
}

/* The first line in which two texts differ, or NULL.  The end of a text counts as a line of the
 * other. */
static const char *
find_difference(const char *a, const char *b)
{
    while (*a && *b) {
        size_t length = strcspn(a, "\n");
        if (length != strcspn(b, "\n") || memcmp(a, b, length))
            return a;
        a += length + 1;
        b += length + 1;
    }
    return *a ? a : *b ? b : NULL;
}

static bool
check_shared(const struct mw_variants *variants, uint32_t v, char *why, size_t why_size)
{
    char *first = shared_text(variants->plans[0]), *other = shared_text(variants->plans[v]);
    const char *line = first && other ? find_difference(other, first) : "text";

    if (line)
        snprintf(why, why_size,
                 "variant %u: \"%.*s\" is another than that of variant 0; variants share ranks, "
                 "the step's shape, the model and its homes",
                 v, subject_length(line), line);
    free(first);
    free(other);
    return !line;
}

static char *
text_of(const struct mw_variants *variants)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    bool good = out && mw_variants_write(variants, out);

    if (out)
        fclose(out);
    if (good)
        return text;
    free(text);
    return NULL;
}

/* The text from its first line on that is not of what a plan was made for. */
static const char *
skip_made_for(const char *text)
{
    static const char *const words[] = {"machine ", "software ", "asked ", "chosen ", "tier "};
    size_t w = 0;

    while (*text && w < sizeof words / sizeof *words)
        if (strncmp(text, words[w], strlen(words[w]))) {
            w++;
        } else {
            text += strcspn(text, "\n");
            text += *text == '\n';
            w = 0;
        }
    return text;
}

bool
mw_variants_agree(const struct mw_variants *a, const struct mw_variants *b)
{
    char *of_a = text_of(a), *of_b = text_of(b);
    const char *at_a = of_a ? skip_made_for(of_a) : "", *at_b = of_b ? skip_made_for(of_b) : NULL;
    bool same = at_a && at_b;

    while (same && (*at_a || *at_b)) {
        size_t length = strcspn(at_a, "\n");
        same = length == strcspn(at_b, "\n") && !memcmp(at_a, at_b, length) &&
               at_a[length] == at_b[length];
        at_a = skip_made_for(at_a + length + (at_a[length] == '\n'));
        at_b = same ? skip_made_for(at_b + length + (at_b[length] == '\n')) : at_b;
    }
    free(of_a);
    free(of_b);
    return same;
}

/* Gradients that wait for the next step must not be lost, or meet other layers. */
static bool
check_delays(const struct mw_variants *variants, char *why, size_t why_size)
{
    uint32_t delayed = MW_NONE;

    for (uint32_t t = 0; t < variants->turn_count; t++) {
        uint32_t v = variants->turns[t];
        if (delayed != MW_NONE && v != delayed) {
            snprintf(why, why_size,
                     "variant %u: follows variant %u, whose gradients wait for an update in the "
                     "next step",
                     v, delayed);
            return false;
        }
        if (mw_plan_is_delayed(variants->plans[v]))
            delayed = v;
    }
    return true;
}

/* Checks that the first variant of a cycle may follow its last one. */
static bool
check_rule(const struct mw_variants *variants, char *why, size_t why_size)
{
    for (uint32_t s = 0; s < variants->span_count; s++) {
        const struct mw_variant_span *span = &variants->spans[s];
        uint32_t first = variants->turns[span->first_turn];
        uint32_t last = variants->turns[span->first_turn + span->turn_count - 1];
        if (first == last || !mw_plan_is_delayed(variants->plans[last]))
            continue;
        snprintf(why, why_size,
                 "variant %u: follows variant %u, whose gradients wait for an update in the next "
                 "step",
                 first, last);
        return false;
    }
    return check_delays(variants, why, why_size);
}

bool
mw_variants_check(const struct mw_variants *variants, char *why, size_t why_size)
{
    for (uint32_t v = 0; v < variants->plan_count; v++) {
        const struct mw_plan *plan = variants->plans[v];
        const char *lacks = !plan->checked ? "was not checked"
                            : variants->plan_count > 1 && !plan->barriered
                                ? "lets a step begin before the one before it has ended"
                                : NULL;
        if (lacks) {
            snprintf(why, why_size, "variant %u: %s", v, lacks);
            return false;
        }
        if ((v && !check_shared(variants, v, why, why_size)) ||
            !check_saves(variants, v, why, why_size))
            return false;
    }
    return check_rule(variants, why, why_size);
}
