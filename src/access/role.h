/* What somebody may do to a cluster. Threads: constants. */
#pragma once

enum mr_role {
    MR_ROLE_READ = 1,   /* attach to jobs, see the status */
    MR_ROLE_WRITE = 2,  /* register datasets, start jobs; and what READ may */
    MR_ROLE_WORKER = 4, /* be a worker */
    MR_ROLE_ADMIN = 8,  /* delete, drain; and what WRITE may */
};
#define MR_ROLES_ALL 15u
