/* checkpoint_fixture.h - checkpoints of short runs, and runs that continue from them. */
#ifndef MW_TESTS_CHECKPOINT_FIXTURE_H
#define MW_TESTS_CHECKPOINT_FIXTURE_H

#include "tests/nvme_fixture.h"
#include "tests/trained_commits.h"
#include "tests/weights_fixture.h"

#define STEPS TRAINED_STEPS
#define STOP 5
#define GPT2 FIXTURES "gpt2-small/config.json"
#define LLAMA FIXTURES "llama-small/config.json"

/* Of all that the tests write; the program's, set by its main. */
extern char *checkpoint_directory;

extern const struct trained_case checkpoint_on_device;

struct trained_case checkpoint_of_model(const struct trained_case *common, const char *model);
/* `from` and `save` may be NULL; they are borrowed. */
struct trained_course checkpoint_course_to(int64_t stop, const char *from,
                                           const struct mw_checkpoint_options *save);
/* A path in the directory.  g_free it. */
char *checkpoint_place(const char *name);

/* In 16 bits, behind `stop` steps of a run on the device. */
void checkpoint_save(const char *path, const char *model, int64_t stop, bool optimizer,
                     const char *config);
/* That a step from `from`, or the checkpoint behind it at `to`, is refused with a line that has
 * `part`; either may be NULL. */
void checkpoint_refuse(const char *model, const char *from, const char *to, const char *part);

#endif
