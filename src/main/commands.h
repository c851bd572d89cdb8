/* The subcommands: each takes its own argv (argv[0] is its name) and returns the exit status. */
#ifndef MR_MAIN_COMMANDS_H
#define MR_MAIN_COMMANDS_H

int command_dispatcher(int argc, char **argv);
int command_worker(int argc, char **argv);
int command_dev(int argc, char **argv);
int command_status(int argc, char **argv);
int command_state(int argc, char **argv);
int command_dataset(int argc, char **argv);
int command_job(int argc, char **argv);

#endif
