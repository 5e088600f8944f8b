#include "plan/reader.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void
mw_plan_reader_fail(struct mw_plan_reader *reader, const char *expected)
{
    const char *quote = *reader->word ? "'" : "";

    if (reader->failed)
        return;
    reader->failed = true;
    snprintf(reader->why, reader->why_size, "line %lu: expected %s, found %s%.40s%s",
             reader->line_number, expected, quote,
             *reader->word   ? reader->word
             : reader->ended ? "the end of the file"
                             : "the end of the line",
             quote);
}

bool
mw_plan_reader_next_line(struct mw_plan_reader *reader)
{
    ssize_t length;

    if (reader->failed)
        return false;
    reader->word = "";
    reader->line_number++;
    length = getline(&reader->line, &reader->line_size, reader->in);
    reader->ended = length < 0;
    if (reader->ended)
        return false;
    if (length && reader->line[length - 1] == '\n')
        reader->line[--length] = '\0';
    reader->rest = reader->line;
    if (strlen(reader->line) == (size_t)length)
        return true;
    mw_plan_reader_fail(reader, "text without NUL bytes");
    return false;
}

void
mw_plan_reader_clear(struct mw_plan_reader *reader)
{
    free(reader->line);
    reader->line = NULL;
}

const char *
mw_plan_reader_word(struct mw_plan_reader *reader)
{
    char *word;

    if (reader->failed)
        return "";
    word = reader->rest + strspn(reader->rest, " ");
    reader->rest = word + strcspn(word, " ");
    if (*reader->rest)
        *reader->rest++ = '\0';
    reader->word = word;
    return word;
}

bool
mw_plan_reader_at_end(const struct mw_plan_reader *reader)
{
    return reader->failed || !reader->rest[strspn(reader->rest, " ")];
}

bool
mw_plan_reader_sees(const struct mw_plan_reader *reader, const char *word)
{
    const char *next;
    size_t length = strlen(word);

    if (reader->failed)
        return false;
    next = reader->rest + strspn(reader->rest, " ");
    return !strncmp(next, word, length) && (!next[length] || next[length] == ' ');
}

bool
mw_plan_reader_skip(struct mw_plan_reader *reader, const char *word)
{
    if (!mw_plan_reader_sees(reader, word))
        return false;
    mw_plan_reader_word(reader);
    return true;
}

void
mw_plan_reader_key(struct mw_plan_reader *reader, const char *word)
{
    char expected[32];

    if (!strcmp(mw_plan_reader_word(reader), word))
        return;
    snprintf(expected, sizeof expected, "'%s'", word);
    mw_plan_reader_fail(reader, expected);
}

const char *
mw_plan_parse_digits(const char *text, uint64_t limit, uint64_t *number)
{
    const char *c = text;

    for (*number = 0; *c >= '0' && *c <= '9'; c++) {
        uint64_t digit = (uint64_t)(*c - '0');
        if (digit > limit || *number > (limit - digit) / 10)
            return NULL;
        *number = *number * 10 + digit;
    }
    return c == text ? NULL : c;
}

bool
mw_plan_parse_signed(const char *text, int64_t limit, int64_t *number)
{
    bool negative = *text == '-';
    uint64_t size = 0;
    const char *end = mw_plan_parse_digits(text + negative, (uint64_t)limit + negative, &size);

    *number = (int64_t)(negative ? -size : size);
    return end && !*end;
}

bool
mw_plan_parse_name(const char *text, const char *(*name)(int), uint8_t *value)
{
    for (int i = 0; name(i); i++)
        if (!strcmp(text, name(i))) {
            *value = (uint8_t)i;
            return true;
        }
    return false;
}

uint64_t
mw_plan_reader_number(struct mw_plan_reader *reader, const char *key, uint64_t limit)
{
    uint64_t number = 0;
    char expected[48];
    const char *end;

    if (key)
        mw_plan_reader_key(reader, key);
    end = mw_plan_parse_digits(mw_plan_reader_word(reader), limit, &number);
    if (end && !*end)
        return number;
    snprintf(expected, sizeof expected, "a number from 0 to %llu", (unsigned long long)limit);
    mw_plan_reader_fail(reader, expected);
    return 0;
}

int64_t
mw_plan_reader_signed(struct mw_plan_reader *reader, const char *key, int64_t limit)
{
    int64_t number;
    char expected[64];

    if (key)
        mw_plan_reader_key(reader, key);
    if (mw_plan_parse_signed(mw_plan_reader_word(reader), limit, &number))
        return number;
    snprintf(expected, sizeof expected, "a number up to %lld", (long long)limit);
    mw_plan_reader_fail(reader, expected);
    return 0;
}

double
mw_plan_reader_real(struct mw_plan_reader *reader, const char *key)
{
    char text[40] = "";
    char *end = text, *point;
    double number = 0;

    if (key)
        mw_plan_reader_key(reader, key);
    const char *word = mw_plan_reader_word(reader);
    if (strlen(word) < sizeof text && strspn(word, "+-.0123456789e") == strlen(word))
        strcpy(text, word);
    if ((point = strchr(text, '.')))
        *point = *localeconv()->decimal_point;
    if (*text)
        number = strtod(text, &end);
    if (end > text && !*end && isfinite(number))
        return number;
    mw_plan_reader_fail(reader, "a number such as 1e-05");
    return 0;
}

void
mw_plan_reader_begin_line(struct mw_plan_reader *reader, const char *expected)
{
    if (!mw_plan_reader_next_line(reader))
        mw_plan_reader_fail(reader, expected);
}

void
mw_plan_reader_end_line(struct mw_plan_reader *reader)
{
    if (mw_plan_reader_at_end(reader))
        return;
    mw_plan_reader_word(reader);
    mw_plan_reader_fail(reader, "the end of the line");
}

uint32_t
mw_plan_reader_reference(struct mw_plan_reader *reader, const char *key)
{
    if (key)
        mw_plan_reader_key(reader, key);
    if (mw_plan_reader_skip(reader, "-"))
        return MW_NONE;
    return (uint32_t)mw_plan_reader_number(reader, NULL, MW_NONE - 1);
}

uint8_t
mw_plan_reader_name(struct mw_plan_reader *reader, const char *(*name)(int), const char *expected)
{
    uint8_t value = 0;

    if (!mw_plan_parse_name(mw_plan_reader_word(reader), name, &value))
        mw_plan_reader_fail(reader, expected);
    return value;
}

const char *
mw_plan_reader_pair(struct mw_plan_reader *reader, uint32_t *index, const char *expected)
{
    uint64_t number = 0;
    const char *end = mw_plan_parse_digits(mw_plan_reader_word(reader), UINT32_MAX, &number);

    *index = (uint32_t)number;
    if (end && *end == ':')
        return end + 1;
    mw_plan_reader_fail(reader, expected);
    return NULL;
}
