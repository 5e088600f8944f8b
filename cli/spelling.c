#include "cli/spelling.h"

const struct mw_spelling cli_spelling = {
    .before = "--",
    .between = " ",
    .key = "--set ",
    .odd = {{"model", "-m"}, {"hardware", "-H"}, {"strategy", "-s"}},
};
