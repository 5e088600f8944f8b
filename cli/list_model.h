/* list_model.h - `memwall list models NAME`: one model, operator by operator. */
#ifndef MW_CLI_LIST_MODEL_H
#define MW_CLI_LIST_MODEL_H

#include <stdbool.h>

/* NAME is a preset or the path of a config.json.  Returns the exit status. */
int cli_list_model(const char *name, bool as_json);

#endif
