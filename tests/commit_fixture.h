/* commit_fixture.h - records to commit and to find again. */
#ifndef MW_TESTS_COMMIT_FIXTURE_H
#define MW_TESTS_COMMIT_FIXTURE_H

#include "exec/commit/commit.h"
#include "nvme_fixture.h"

enum { MW_COMMIT_FIXTURE_EXTENTS = 300 };

/* For the record file of one rank in the first directory, without a tier. */
struct mw_commit_options mw_commit_fixture_options(const struct mw_nvme_fixture *fixture);

struct mw_commit *mw_commit_fixture_open(const struct mw_commit_options *options);
/* Opening fails, and the message has this part. */
void mw_commit_fixture_refuse(const struct mw_commit_options *options, const char *part);

/* A record that differs from step to step in every number. */
struct mw_commit_record mw_commit_fixture_record(int64_t step, int64_t extents);
void mw_commit_fixture_commit(struct mw_commit *commit, int64_t step);
/* Resumes the step and finds the record that was committed. */
void mw_commit_fixture_expect(struct mw_commit *commit, int64_t step);
/* Its record is on the drive, and no newer one: commits may follow. */
void mw_commit_fixture_take_over(struct mw_commit *commit);

#endif
