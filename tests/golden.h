/*
 * golden.h - texts that must stay as they are: tests/golden/NAME holds what is expected.
 * With MW_UPDATE_GOLDEN set in the environment the files are written anew instead.
 */
#ifndef MW_TESTS_GOLDEN_H
#define MW_TESTS_GOLDEN_H

/* Fails the running test, showing the first line that differs, unless `text` is the file's. */
void mw_golden_check(const char *name, const char *text);

#endif
