"""The mistakes of mutants.py, in the order of the rules that they break (docs/change/simulation.md says what the rules are).

Each is: name, rule, what is wrong; the file; what it reads, once, and what it is to read instead; the tests that are to
find it, the likeliest first. "walks" are those of sim_main.
"""

from typing import NamedTuple

# Groups of rules. Of 4, 10, 12 and 13 nothing can be broken here: what is to come, who may do what, advice.
RULES = {
    "1": "commit, epochs, the right to answer",
    "2": "failover",
    "3": "splits and guarantees",
    "5": "coordinated reads",
    "6": "what is durable, and how much",
    "7": "clocks, liveness, retention",
    "8": "takeover",
    "9": "discovery",
    "11": "sharing",
}


class Mutation(NamedTuple):
    name: str
    rule: str
    what: str
    file: str
    old: str
    new: str
    tests: tuple


def _coord(name, rule, what, file, old, new, *tests):
    tests = tests or ("coord_commit_test", "coord_load_test", "coord_sim_test", "coord_walk_test")
    return Mutation(name, rule, what, f"coord/{file}", old, new, tests)


def _core(name, rule, what, file, old, new, *tests):
    tests = tests or ("core_test", "core_recovery_test", "core_model_test", "sim_story_test", "sim_protocol_test")
    return Mutation(name, rule, what, f"src/dispatcher/{file}", old, new, tests)


def _turn(name, rule, what, file, old, new, *tests):
    return Mutation(name, rule, what, f"src/dispatcher/turn/{file}", old, new, tests or ("turn_test",))


def _src(name, rule, what, file, old, new, *tests):
    return Mutation(name, rule, what, f"src/{file}", old, new, tests)


_DRAINS = ("core_drain_test", "core_recovery_test", "walks")
_RECOVERY = ("core_recovery_test", "sim_protocol_test", "walks")
_ROUNDS = ("core_rounds_test", "sim_rounds_test")
_CONSUMER = ("client_rounds_test", "sim_rounds_test")
_BOOK = ("worker_rounds_test", "sim_rounds_test")
_SHARING = ("core_joining_test", "core_sharing_test", "walks")
_WALKS = ("walks",)

_COMMIT = [
    _coord(
        "BATCH_UNGUARDED", "1.1", "batches do not compare the batch before",
        "commit.c", ".ncompares = 2,", ".ncompares = 1,",
    ),
    _coord(
        "ANY_NONCE", "1.1", "after a guard that failed any batch in the store counts as this one",
        "commit.c", "ours = strcmp(nonce, c->head->nonce) == 0;", "ours = true;",
    ),
    _coord(
        "AMBIGUITY_FORGOTTEN", "1.2", "a definite error of a resend settles what an earlier attempt left open",
        "commit.c", "c->ambiguous = c->ambiguous || maybe;", "c->ambiguous = maybe;",
    ),
    _coord(
        "DEPOSED_SAYS_NO", "1.2", "a fence that fails means that nothing was applied",
        "commit.c", "*maybe_applied = c->ambiguous;", "*maybe_applied = false;",
        "coord_commit_test", "coord_sim_test",
    ),
    _turn(
        "LOOP_SAYS_NO", "1.2", "whoever waits for a batch that is unknown hears that nothing was applied",
        "hold.c", "        if (!h->changed) {\n", "        if (true) {\n",
    ),
    _turn(
        "LOOP_ANSWERS_EARLY", "1.3", "the loop answers what is decided and not committed",
        "hold.c", "t->held != NULL && t->held->batch <= committed", "t->held != NULL && committed <= committed",
        *_WALKS,
    ),
    _core(
        "IDS_COME_AGAIN", "1.3", "after a second load in one term ids are given again",
        "machine/machine.c", "core->versions = (uint64_t)config->loads << 32;", "core->versions = 0;",
        "sim_story_test", "walks",
    ),
    _core(
        "THIRD_DELETE_LOST", "1.4", "the core loses deletes from the third change of a command on",
        "model/changes.c",
        "    if (core->out != NULL && core->failed == 0) {\n        change_of(core, key,",
        "    if (core->out != NULL && core->out->nchanges < 2) {\n        change_of(core, key,",
    ),
    _turn(
        "LOOP_LOSES_LAST_DELETE", "1.4", "the loop loses the last delete of a command with more than two changes",
        "step.c",
        "return mr_member_add(t->member, writes, n, alone, batch, err);",
        "return mr_member_add(t->member, writes, n - (n > 2 && writes[n - 1].value == NULL), alone, batch, err);",
    ),
    _coord(
        "COMMIT_LOSES_LAST_DELETE", "1.4", "the commit loses the last delete of a command with more than two changes",
        "commit.c",
        "    MR_TRY(copy_ops(c, writes, n, ops, err));\n",
        "    n -= n > 2 && writes[n - 1].value == NULL;\n    MR_TRY(copy_ops(c, writes, n, ops, err));\n",
    ),
    _core(
        "FIRST_CONTACT_SOFT", "1.7", "a worker begins on the word of a leader that may be deposed",
        "rules/register_worker.c", "mr_core_reply(core, true /* fenced */)", "mr_core_reply(core, false)",
        "core_test", "sim_protocol_test", "walks",
    ),
    _turn(
        "LOOP_DENIES_UNPROVEN", "1.7", "a denial is answered from memory",
        "hold.c", "    if (!e->fenced && (newest", "    if ((newest",
    ),
    _coord(
        "PROVEN_BY_ANSWER", "1.11", "the right to answer counts from the answer, not from when the batch was sent",
        "commit.c",
        "        c->status.full = false;\n        c->status.proven_ms = c->sent_ms;\n",
        "        c->status.full = false;\n        c->status.proven_ms = now_ms;\n",
    ),
    _coord(
        "SOFT_FOR_A_LEASE", "1.11", "memory answers for a whole lease",
        "member.c",
        "now_ms < mr_member_proven_ms(m) + m->election.ttl_ms / 2;",
        "now_ms < mr_member_proven_ms(m) + m->election.ttl_ms;",
    ),
    _core(
        "UNKNOWN_FEATURES_LED", "1.12", "a state with features that are not known is led all the same",
        "model/schema.c", "        if (!is_known(schema->features[i])) {\n", "        if (false) {\n",
        "core_test", "core_recovery_test",
    ),
]

_FAILOVER = [
    _coord(
        "DELETE_ANY_LEADER", "2.1", "the key of whoever leads by now is deleted",
        "member_send.c",
        "{.compares = &same, .ncompares = 1, .success = &op, .nsuccess = 1}",
        "{.compares = &same, .ncompares = 0, .success = &op, .nsuccess = 1}",
        "coord_sim_test", "coord_walk_test",
    ),
    _coord(
        "YOUNG_TERM_FORCED", "2.2", "a term is forced however young it is",
        "election_force.c", "    if (in->now_ms < e->leader_since_ms + tenure) {\n", "    if (false) {\n",
        "coord_sim_test",
    ),
    _coord(
        "NOT_DAMPED", "2.2", "wrong guesses do not make the next ones rarer",
        "election_force.c", "MIN_TENURE_MS << MR_MIN(wrong, 10);", "MIN_TENURE_MS;",
        "coord_sim_test", "coord_walk_test",
    ),
    _coord(
        "DEPOSED_FORCES", "2.2", "who was deposed alive forces others as before",
        "election_leave.c", "        e->no_force_ms = in->now_ms + e->ttl_ms;\n", "",
        "coord_sim_test",
    ),
    _coord(
        "ACCEPTING_IS_GONE", "2.2", "of two connections that prove that a process is gone one may be accepted",
        "election_force.c", "    if (in->refused && e->refusals++ > 0) {\n", "    if (e->refusals++ > 0) {\n",
        "coord_sim_test", "coord_walk_test",
    ),
    _coord(
        "ONE_IS_GONE", "2.2", "one connection that is refused proves that a process is gone",
        "election_force.c", "    if (in->refused && e->refusals++ > 0) {\n", "    if (in->refused) {\n",
        "coord_sim_test", "coord_walk_test",
    ),
    _coord(
        "RENEWALS_NOT_SEEN", "2.3", "a leader that renews its lease counts as silent",
        "election_force.c", "    if (in->ttl_s >= 0 && in->ttl_s >= e->ttl_last_s) {\n", "    if (false) {\n",
        "coord_sim_test", "coord_walk_test",
    ),
]

_SPLITS = [
    _core(
        "SUPERSEDED_COMES_BACK", "3.1", "a worker that was superseded registers anew",
        "rules/register_worker.c", "    if (last != NULL && (last->rec->superseded || (", "    if (last != NULL && (false || (",
    ),
    _core(
        "NEVER_AGAIN", "3.1", "a repeated request is answered anew",
        "rules/get_splits.c", "    return grant == NULL || grant->seq != in->seq;\n", "    return true;\n",
        "core_test", "sim_story_test", "walks",
    ),
    _core(
        "ANY_NUMBER", "3.1", "a request of any number is taken",
        "rules/get_splits.c", "    if (!again && in->seq != stored + 1) {\n", "    if (false) {\n",
        "core_test", "walks",
    ),
    _core(
        "GREEDY", "3.3", "a worker may take all that is left",
        "rules/hand_out.c",
        "uint64_t sharers = 2 * MR_MAX(asking, 1);",
        "uint64_t sharers = 1;",
    ),
    _core(
        "NOT_CUT", "3.3", "what was given back unopened stays in the grant of whoever gave it back",
        "model/apply_splits.c",
        "            cut_grants(core, u->task, in->provider, first, range->count, give_back_piece, &g);\n",
        "            give_back_piece(&g, first, range->count, 0);\n",
        *_DRAINS,
    ),
    _core(
        "DRAINED_IS_ENDED", "3.3", "a worker that drains goes on to get tasks",
        "model/worker.c", "    return was_there && !went_before;\n", "    return was_there;\n", *_DRAINS,
    ),
    _core(
        "JOINED_DONE_BY_FIRST", "3.4", "grants that were joined are finished with the first of them",
        "model/apply_splits.c",
        "covers(u->report, open->seq, mr_open_last(open), &at)",
        "covers(u->report, open->seq, open->seq, &at)",
        *_RECOVERY,
    ),
    _core(
        "OWED_STAYS", "3.4", "what came back is handed out and stays in its list",
        "model/apply_splits.c",
        "mr_split_list_take(mr_pool(it, u->provider), u->at, u->range.count);",
        "mr_split_list_take(mr_pool(it, u->provider), u->at, u->range.count - (u->range.count > 1));",
        "core_recovery_test", "walks",
    ),
    _core(
        "LOSS_UNCOUNTED", "3.4", "at most once, what a lost worker had is not counted",
        "model/apply_workers.c",
        "            mr_task_move(core, task, MR_TASK_LOST);\n",
        "            mr_task_move(core, task, MR_TASK_LOST);\n            mr_task_set_counted(task);\n",
    ),
    _core(
        "NOBODY_RECOVERS", "3.5", "what comes back after the end was told is left where it is",
        "rules/recovery.c", "    if (is_forsaken(it)) {\n", "    if (false) {\n", *_RECOVERY,
    ),
    _core(
        "SUSPECTS_WAIT", "3.6", "suspects wait after the end was told, until something else happens",
        "rules/hand_out.c", "        mr_iteration_mark(core, it); /* suspects' turn */\n", "", *_RECOVERY,
    ),
    _core(
        "NO_CRASH_COUNTS", "3.6", "a split that comes back from a crash is not suspected",
        "rules/at_least_once.c",
        "    uint32_t losses = range->losses + (r->crashed ? 1 : 0);\n", "    uint32_t losses = range->losses;\n",
        "core_recovery_test", "walks",
    ),
    _core(
        "NO_QUARANTINE", "3.6", "a split that kills its readers is given up never",
        "rules/at_least_once.c",
        "    if (losses >= MR_QUARANTINE_LOSSES && range->count == 1) {\n", "    if (false) {\n", *_RECOVERY,
    ),
    _core(
        "SILENT_IS_UNREACHABLE", "3.6", "a worker that is silent itself is closed as one that no client reaches",
        "rules/closing.c",
        "        if (task->state == MR_TASK_OPEN && !mr_core_worker_is_unheard(core, task->worker) &&\n",
        "        if (task->state == MR_TASK_OPEN &&\n",
        *_RECOVERY,
    ),
    _src(
        "TAKEN_TWICE", "3.7", "a reader takes again what it has when a worker sends it again",
        "client/session.c", "uint64_t known = s->received - first;", "uint64_t known = 0;", "session_test",
    ),
    _src(
        "GAP_TAKEN", "3.7", "a reader takes what comes behind a gap",
        "client/session.c", "    if (first > s->received) {\n", "    if (false) {\n", "session_test",
    ),
    _src(
        "OLD_STREAM_SERVED", "3.7", "a worker goes on with a session that was replaced",
        "worker/session/book_sessions.c", "    if (s != NULL && number < s->number) {\n", "    if (false) {\n",
        "worker_book_test", "worker_book_walk_test",
    ),
    _src(
        "BREAK_FORGOTTEN", "3.7", "a worker goes on behind what a broken stream had lost",
        "worker/session/book_sessions.c", "    s->cursor = index;\n", "",
        "worker_book_test", "worker_book_walk_test", "walks",
    ),
    _src(
        "ALIVE_IS_FINISHED", "3.6", "a grant is finished while something that came of it is on its way",
        "worker/session/splits.c",
        "            if ((held & bit) != 0) {\n", "            if ((held & bit) != 0 && k > 0) {\n",
        "worker_split_feed_test", "walks",
    ),
    _src(
        "MISSED_UPDATE_TAKEN", "3.9", "a worker applies an update of its list that follows on one that it missed",
        "worker/session/registration.c",
        "    if (follows != 0 && follows != s->list_version) {\n", "    if (false) {\n",
        "worker_registration_test", "walks",
    ),
    _src(
        "LINK_DROPS_UPDATES", "3.9", "a worker's link drops messages: what follows on an update is not applied",
        "worker/link_thread.c",
        "        mr_assignments_apply(link->worker, update);\n",
        "        if (update->follows == 0) {\n            mr_assignments_apply(link->worker, update);\n        }\n",
        "worker_service_test", "worker_drain_test", "cluster_local_test",
    ),
    _src(
        "OTHER_PROCESS_SERVED", "3.9", "a worker serves reads that are for another process at its address",
        "worker/conn.c", "    if (strcmp(open->worker_incarnation, w->incarnation) != 0) {\n", "    if (false) {\n",
        "worker_service_test",
    ),
    _src(
        "OTHER_CLUSTER_SERVED", "3.9", "a worker serves reads of another incarnation of the cluster",
        "worker/conn.c",
        "    if (is_another(open->cluster_incarnation, ours.incarnation)) {\n", "    if (false) {\n",
        "worker_service_test",
    ),
    _core(
        "DROPPED_UNCOUNTED", "3.11", "what a jump over repetitions leaves out is not counted",
        "model/apply_splits.c",
        "    cursor->dropped += u->dropped;\n",
        "",
        "core_recovery_test", "core_test", "core_model_test",
    ),
]

_COORDINATED = [
    _src(
        "COMPLETE_AT_ONCE", "5.1", "a round is complete when it is fixed",
        "worker/session/round_book.c",
        "book->complete = MR_MAX(book->complete, complete);", "book->complete = MR_MAX(complete, book->next);",
        *_BOOK,
    ),
    _src(
        "RECEIPTS_INHERITED", "5.1", "what a consumer's process before received counts as received by the next",
        "worker/session/round_book.c", "    consumer->received = 0;\n", "", *_BOOK,
    ),
    _src(
        "BEYOND_THE_HORIZON", "5.1", "a worker fixes rounds beyond the horizon",
        "worker/session/round_book.c", "|| round >= book->horizon) {\n        return false;", ") {\n        return false;",
        *_BOOK,
    ),
    _src(
        "PROMISE_BROKEN", "5.1", "a consumer returns rounds of a worker that it promised not to listen to",
        "client/rounds.c", "(!task->closing && round < task->complete)", "round < task->complete", *_CONSUMER,
    ),
    _src(
        "INCOMPLETE_RETURNED", "5.1", "a consumer returns a round that is not complete",
        "client/rounds.c", "(!task->closing && round < task->complete)", "!task->closing", *_CONSUMER,
    ),
    _src(
        "RESUMES_FROM_THE_START", "3.7", "a broken stream is asked for everything again",
        "client/modes/plain.c", "ret->resume_from = s->received;", "ret->resume_from = 0;", "read_test",
    ),
    _src(
        "SESSION_KEPT", "3.7", "a session that the worker has forgotten is asked for on and on",
        "client/modes/plain.c", "    mr_session_next(s);\n", "", "reader_test", "walks",
    ),
    _src(
        "LEFT_WITH_ELEMENTS", "3.8", "a reader is silent from the end of its iteration on, whatever it holds",
        "client/read/attach.c", "return r->finished && !(r->lingers && !mr_read_is_used_up(r));",
        "return r->finished;", "read_test", "reader_leave_test",
    ),
    _core(
        "RETURNED_IS_VOID", "5.1", "a round that somebody has returned is void if somebody else lacks it",
        "rules/rounds.c", "    held = MR_MAX(held, returned);\n", "", *_ROUNDS,
    ),
    _core(
        "RESTARTS_AT_LEAST", "5.3", "a restarted consumer begins at the least position of the others",
        "rules/consumers.c", "    *from = others.most;\n", "    *from = others.least;\n", *_ROUNDS,
    ),
    _core(
        "OLD_SESSION_REPORTS", "5.4", "the dispatcher believes reports of another session of a consumer",
        "rules/consumers.c", "seat->rec->session != report->session || ", "", *_ROUNDS,
    ),
    _src(
        "OLD_SESSION_READS", "5.4", "a worker serves a consumer whose place another process has taken",
        "worker/session/round_book.c", "    if (open->session < consumer->session) {\n", "    if (false) {\n", *_BOOK,
    ),
]

_DURABLE = [
    _core(
        "CURSOR_UNWRITTEN", "6.1", "what is handed out is not written to the cursor",
        "model/apply_splits.c",
        "    if (u->from != MR_FROM_NOWHERE) {\n",
        "    if (u->from == MR_FROM_POOL) {\n",
        "core_test", "core_model_test", "walks",
    ),
    _core(
        "GRANTS_GROW", "6.2", "the list of open grants grows without an end",
        "model/apply_splits.c", "    if (rec->n_open > MR_GRANTS_OPEN_MAX && core->failed == 0) {\n", "    if (false) {\n",
        *_RECOVERY,
    ),
    _core(
        "NOT_STRETCHED", "6.3", "grants do not become larger when etcd must be spared",
        "rules/hand_out.c", "(uint64_t)core->grant_ms / MR_GRANT_MS;", "1;",
    ),
    _core(
        "FULL_STORE_WRITTEN", "6.4", "workers are given up while the store takes nothing but deletes",
        "rules/timer.c", "    } else if (core->full) {\n        mr_alarm_at(core, &worker->alarm",
        "    } else if (false) {\n        mr_alarm_at(core, &worker->alarm",
        "core_test", "core_random_test", "core_retention_test",
    ),
]

_LIVENESS = [
    _core(
        "NO_BRAKE", "7.1", "however many workers fall silent at once, all are given up",
        "rules/timer.c", "    if (quiet <= limit) {\n", "    if (true) {\n",
    ),
    _core(
        "LATENESS_IGNORED", "7.1", "a turn that comes late does not move deadlines",
        "machine/machine.c", "    if (in->late_ms > 0) {\n", "    if (false) {\n",
    ),
    _core(
        "TAKEOVER_ARMS_NOTHING", "7.2", "a takeover does not arm the timeouts of workers",
        "model/apply_takeover.c",
        "mr_alarm_at(core, &worker->alarm, mr_core_worker_is_live(worker) ? worker->deadline : core->now);",
        "mr_alarm_at(core, &worker->alarm, mr_core_worker_is_live(worker) ? MR_NEVER : core->now);",
        "core_test", "walks",
    ),
    _core(
        "ONE_REPORT_CLOSES", "7.3", "a worker that one of several readers does not reach is closed",
        "model/worker.c", "        if (!reported) {\n            return false;", "        if (!reported) {\n            continue;",
    ),
    _core(
        "CLOSED_AT_ONCE", "7.3", "a worker is closed as soon as all readers have missed it once",
        "model/worker.c",
        "mr_time_add(report->since, core->config.worker_timeout_ms) <= core->now", "report->since <= core->now",
    ),
    _core(
        "REPORTS_CARRIED", "7.3", "a client that moves takes along since when it has missed a worker",
        "model/apply_clients.c",
        "    forget_misses(client);\n    join(client, it);\n",
        "    join(client, it);\n",
        *_RECOVERY,
    ),
    _core(
        "SHARED_WAITS", "7.3", "who reads a production waits for another worker when only a closed one is left",
        "rules/recovery.c", "it->rules->recovers && !it->rec->joining;", "it->rules->recovers && it->uses == NULL;",
        "core_sharing_test", "sim_story_test", "walks",
    ),
    _src(
        "PLACE_FORGOTTEN", "7.3", "who goes on in a window begins at its start",
        "worker/chain_reader.c", "    place->is_set = true;\n", "    place->is_set = false;\n", "worker_sharing_test",
    ),
    _core(
        "LOSSES_UNTOLD", "7.5", "readers are told an end without its losses",
        "model/news.c", "        news->end = mr_core_copy(core, &it->rec->end->base);",
        "        news->end = MR_NEW_RECORD(core, iteration_end);",
    ),
    _core(
        "ENDED_TOO_FAR", "7.6", "with a repetition the one after it counts as ended, too",
        "model/ended.c", "        rec->ended_below++;\n", "        rec->ended_below += 2;\n", "core_test", "walks",
    ),
    _core(
        "ENDED_RUNS_AGAIN", "7.6", "a repetition that has ended is run again when its record is gone",
        "model/job.c", "    if (repetition < rec->ended_below) {\n        return true;",
        "    if (repetition < rec->ended_below) {\n        return false;",
    ),
    _core(
        "RETENTION_ARMED_ANEW", "7.8", "each leader counts long retention from its own beginning",
        "rules/retention.c", "    if (keep_ms < MR_LONG_MS) {\n", "    if (true) {\n",
        "core_retention_test", "sim_retention_test",
    ),
    _core(
        "USED_SINCE_UNUSED", "7.8", "the record of a job that is used says since when nobody uses it",
        "model/apply_clients.c", "        it->job->rec->released_ms = 0;\n", "",
        "core_retention_test", "walks",
    ),
    _core(
        "READ_SINCE_UNREAD", "7.8", "the record of an iteration that is read says since when nobody reads it",
        "model/apply_clients.c", "        it->rec->unread_ms = 0;\n        mr_touch", "        mr_touch",
        "core_retention_test", "walks",
    ),
    _core(
        "NAMED_COLLECTED", "7.9", "datasets that have a name are forgotten like others",
        "rules/timer.c", " || mr_dataset_is_named(dataset)", "", "core_test", "core_retention_test",
    ),
]

_TAKEOVER = [
    _core(
        "COMING_BACK_WRITES", "8.2", "a worker that finds the new leader is written once more",
        "model/apply_workers.c",
        "    worker->awaited = worker->awaited && !u->is_watch;\n",
        "    worker->awaited = worker->awaited && !u->is_watch;\n    mr_touch(core, MR_STORED_WORKER, worker, 0);\n",
    ),
    _core(
        "BLOBS_STAY", "8.1", "parts of definitions that no dataset names stay for ever",
        "takeover/load.c", "        if (mr_map_get(&used, blob) == NULL) {\n", "        if (false) {\n",
        "core_test", "core_retention_test",
    ),
    _core(
        "LOST_TASKS_OPEN", "8.1", "tasks of workers that were lost are open after a takeover",
        "model/apply_takeover.c", "    if (mr_core_worker_is_live(worker)) {\n        return;",
        "    if (true) {\n        return;",
    ),
]

_DISCOVERY = [
    _src(
        "FORMER_COMES_BACK", "9.4", "a cluster that was replaced is believed when it answers again",
        "control/lists.c",
        "    if (is_same(&list->former, said)) {\n        return true;", "    if (false) {\n        return true;",
        "control_test",
    ),
    _src(
        "TWO_CLUSTERS", "9.4", "two clusters behind one list are taken for one",
        "control/lists.c",
        "    return elsewhere && strcmp(list->now.cluster, said->cluster) != 0;\n", "    return false;\n",
        "control_test",
    ),
    _turn(
        "LOOP_SERVES_OTHERS", "9.4", "a dispatcher answers calls to another cluster",
        "calls.c", " || strcmp(h->cluster, t->cluster) == 0) {", " || true) {",
    ),
]

_SHARED = [
    _core(
        "GOES_WITH_THE_FIRST", "11.1", "a production goes when one of its users has finished",
        "model/production.c", "(p->nusers == 0 || (p->rec", "(p->open_users < p->nusers || (p->rec",
        *_SHARING,
    ),
    _core(
        "MODES_MIXED", "11.1", "jobs that split the data share with jobs that do not",
        "model/production.c", " && p->rec->mode == job->rec->mode &&\n", " &&\n", *_SHARING,
    ),
    _core(
        "JOINED_TRIMMED", "11.2", "a production is joined of which a worker has trimmed the start",
        "rules/reading.c", "    if (join->first > 0) {\n", "    if (join->first > 1000) {\n", *_SHARING,
    ),
    _core(
        "JOINED_LOSSES", "11.2", "a production is joined of which splits went with a worker",
        "rules/reading.c", "!p->rec->endless && lost > 0", "!p->rec->endless && lost > 1000000", *_SHARING,
    ),
    _core(
        "JOINED_UNASKED", "11.2", "a finite production is joined without asking its workers",
        "rules/reading.c", "        rec->joining = !p->rec->endless;\n", "        rec->joining = false;\n", *_SHARING,
    ),
]

MUTATIONS = (
    _COMMIT + _FAILOVER + _SPLITS + _COORDINATED + _DURABLE + _LIVENESS + _TAKEOVER + _DISCOVERY + _SHARED
)
