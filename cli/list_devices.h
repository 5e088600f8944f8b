/* list_devices.h - `memwall list devices`: what was built in, and which of it this machine has. */
#ifndef MW_CLI_LIST_DEVICES_H
#define MW_CLI_LIST_DEVICES_H

#include <stdbool.h>

/* Returns the exit status. */
int cli_list_devices(bool as_json);

#endif
