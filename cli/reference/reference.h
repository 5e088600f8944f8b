/*
 * reference.h - describes the whole command, from the tables that parse it: man pages, a page for
 * docs/, completion for shells.
 *
 * `memwall --reference FORM` prints one of them, `memwall --reference man PAGE` the page of a verb
 * or of profiles; the build runs it.  `memwall --names LIST` prints values that completion
 * offers.  Help leaves both out.
 */
#ifndef MW_CLI_REFERENCE_REFERENCE_H
#define MW_CLI_REFERENCE_REFERENCE_H

/* Both take the words after --reference or --names, and return the exit status. */
int cli_reference(int argc, char **argv);
int cli_reference_names(int argc, char **argv);

/* What the reference says beside verbs and options.  An array ends with a name of NULL. */
struct cli_fact {
    const char *name, *text;
};
extern const struct cli_fact cli_exit_statuses[], cli_environment[], cli_files[];

#endif
