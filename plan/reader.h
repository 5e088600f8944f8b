/*
 * reader.h - lines of blank-separated words, for the text form of a plan.
 *
 * The first failure stays: later reads find the end of the line and do not change the message, so a
 * caller need not check after every word.
 */
#ifndef MW_PLAN_READER_H
#define MW_PLAN_READER_H

#include "plan/plan.h"

struct mw_plan_reader {
    FILE *in;
    char *line; /* the current line, cut into words in place */
    size_t line_size;
    unsigned long line_number;
    char *rest;         /* the part of the line that is not read yet */
    const char *word;   /* the word read last; "" at the end of the line */
    bool failed, ended; /* ended: behind the last line */
    char *why;
    size_t why_size;
};

/* Returns false at the end of the input and after a failure, such as a line that holds a NUL
 * byte. */
bool mw_plan_reader_next_line(struct mw_plan_reader *reader);
void mw_plan_reader_clear(struct mw_plan_reader *reader);

void mw_plan_reader_fail(struct mw_plan_reader *reader, const char *expected);

/* begin_line requires a next line; end_line requires that nothing follows on this one. */
void mw_plan_reader_begin_line(struct mw_plan_reader *reader, const char *expected);
void mw_plan_reader_end_line(struct mw_plan_reader *reader);

const char *mw_plan_reader_word(struct mw_plan_reader *reader);
bool mw_plan_reader_at_end(const struct mw_plan_reader *reader);
/* Whether the next word is `word`.  skip also takes it; key fails if it differs. */
bool mw_plan_reader_sees(const struct mw_plan_reader *reader, const char *word);
bool mw_plan_reader_skip(struct mw_plan_reader *reader, const char *word);
void mw_plan_reader_key(struct mw_plan_reader *reader, const char *word);

/* The number after `key`, from 0 to `limit`.  If `key` is NULL, just the number. */
uint64_t mw_plan_reader_number(struct mw_plan_reader *reader, const char *key, uint64_t limit);
/* The same, from -limit - 1 on: an unchecked plan may hold any number. */
int64_t mw_plan_reader_signed(struct mw_plan_reader *reader, const char *key, int64_t limit);
/* A finite number with a point, whatever the locale. */
double mw_plan_reader_real(struct mw_plan_reader *reader, const char *key);
/* The same for an index, or '-' for MW_NONE. */
uint32_t mw_plan_reader_reference(struct mw_plan_reader *reader, const char *key);
/* An enum by its name: `name` is one of the mw_*_name functions. */
uint8_t mw_plan_reader_name(struct mw_plan_reader *reader, const char *(*name)(int),
                            const char *expected);

/* The next word has the form INDEX:TEXT.  Returns TEXT, or NULL after a failure. */
const char *mw_plan_reader_pair(struct mw_plan_reader *reader, uint32_t *index,
                                const char *expected);

/* Parse parts of a word.  Digits: at most `limit`.  Return NULL if there is no such number, else
 * the text after it. */
const char *mw_plan_parse_digits(const char *text, uint64_t limit, uint64_t *number);
bool mw_plan_parse_signed(const char *text, int64_t limit, int64_t *number);
bool mw_plan_parse_name(const char *text, const char *(*name)(int), uint8_t *value);

#endif
