/* machine.h - which machine this is: what a profile's [profile] machine says. */
#ifndef MW_EXEC_HOST_MACHINE_H
#define MW_EXEC_HOST_MACHINE_H

/* "AMD EPYC, 2 cores": cores that this process may use.  g_free it. */
char *mw_machine_processor(void);

/* "AMD EPYC, 2 cores, host NAME", one line.  g_free it. */
char *mw_machine_name(void);

#endif
