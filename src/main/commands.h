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

/* The same for their help. */
struct opt_program;
const struct opt_program *dispatcher_program(void);
const struct opt_program *worker_program(void);
const struct opt_program *dev_program(void);
const struct opt_program *status_program(void);
const struct opt_program *state_program(void);
const struct opt_program *dataset_program(void);
const struct opt_program *job_program(void);

#endif
