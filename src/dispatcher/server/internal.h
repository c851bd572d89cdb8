/* What the files of the server share: the loop's state. */
#pragma once

#include "dispatcher/server/definitions.h"
#include "dispatcher/server/link.h"
#include "dispatcher/server/loop.h"
#include "dispatcher/server/monitor.h"
#include "dispatcher/server/rpc.h"

struct mr_loop {
    mr_turn *turn;
    struct mr_mailbox mailbox;
    pthread_t thread;
    bool started;
    bool exiting; /* the thread's own */
    mr_leader_link *link;
    mr_definition_thread *definitions;
    struct mr_rpc_service *services; /* as many as there are methods */
    struct mr_loop_numbers numbers;

    pthread_mutex_t lock; /* guards all that follows */
    pthread_cond_t left_cond;
    bool left;       /* the election was left */
    mr_error health; /* code 0 = fine */
};
