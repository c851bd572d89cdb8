#!/bin/sh
# models.sh BUILD: spin over docs/models. What is right must have no error; of everything that is known to be wrong, spin
# must find one, or the models would prove nothing. About three minutes on one core.
set -eu
mkdir -p "$1"
build=$(cd "$1" && pwd)
models=$(cd "$(dirname "$0")/../docs/models" && pwd)
right=0
found=0
status=0

# search MODEL FLAGS...: an exhaustive search; its report goes to $build/report. FLAGS that begin with -DNP or -DCOLLAPSE
# are the verifier's own.
search() {
    model=$1
    shift
    wrong=""
    verifier="-O2 -w -DMEMLIM=4000"
    run="-m100000"
    for flag in "$@"; do
        case $flag in
        -DNP) verifier="$verifier -DNP" run="$run -l" ;;
        -DCOLLAPSE) verifier="$verifier -DCOLLAPSE" ;;
        *) wrong="$wrong $flag" ;;
        esac
    done
    case $verifier in *-DNP*) ;; *) verifier="$verifier -DSAFETY -DNOREDUCE" ;; esac
    # shellcheck disable=SC2086 # lists of words, both
    (cd "$build" && rm -f pan pan.* && spin -a $wrong "$models/$model.pml" && gcc $verifier -o pan pan.c &&
        ./pan $run) >"$build/report" 2>&1 || {
        cat "$build/report"
        echo "models: $model $*: spin or the compiler failed" >&2
        exit 1
    }
    if grep -q "error: max search depth too small\|out of memory\|Search not completed\|reached -DMEMLIM" "$build/report" &&
        grep -q "errors: 0" "$build/report"; then
        echo "models: $model $*: the search was not exhaustive" >&2
        exit 1
    fi
}

# no_error MODEL FLAGS...
no_error() {
    search "$@"
    if grep -q "errors: 0" "$build/report"; then
        right=$((right + 1))
        printf '%-10s %-42s %10s states, no error\n' "$1" "$(shift; echo "$*")" \
            "$(awk '/states, stored/ { print $1; exit }' "$build/report")"
    else
        cat "$build/report"
        echo "models: $*: an error where there should be none; its trace: spin -t -p" >&2
        status=1
    fi
}

# an_error MODEL FLAGS...: the last flag is the mistake, or the rare thing that is said never to happen.
an_error() {
    search "$@"
    if grep -q "errors: 1" "$build/report"; then
        found=$((found + 1))
        printf '%-10s %-42s %s\n' "$1" "$(shift; echo "$*")" "$(sed -n 's/^pan:1: //p' "$build/report")"
    else
        echo "models: $*: no error was found, and there is one" >&2
        status=1
    fi
}

no_error commit
no_error commit -DTERMS=4 -DBATCHES=3
no_error commit -DEPOCH_AND_NUMBER
for mistake in READ_DECIDES NO_NONCE_CHECK NUMBER_ALONE NO_FENCE NO_BATCH_GUARD FENCE_MEANS_NOT_APPLIED REFUSAL_SETTLES \
    RESUME_TERM LOAD_BEFORE_ELECTION DECIDE_ON_COMMITTED REPLY_EARLY UNFENCED_DENIAL NEVER_LATE NEVER_BY_NONCE NEVER_BY_SUCCESSOR; do
    an_error commit -D$mistake
done

an_error commit -DRESUME_TERM -DEPOCH_AND_NUMBER

no_error splits -DLOSSES=1
no_error splits -DLOSSES=1 -DNP
no_error splits -DLOSSES=1 -DSPLITS=3 -DLOST_ANSWERS=0
no_error splits -DLOST_ANSWERS=0 -DDEATHS_ONLY -DCOLLAPSE
no_error splits -DLOSSES=1 -DAT_MOST_ONCE
for mistake in FINISHED_IS_READ FINISHED_IS_SENT FINISHED_WITHOUT_GRANTS END_WHEN_NOTHING_IS_OUT NO_RECOVERY \
    NO_STORED_ANSWER CURSOR_APART LOST_LIVES_MAY_ASK LOSS_KEEPS_TASKS NEVER_RECOVERED NEVER_REPEATED; do
    an_error splits -DLOSSES=1 -D$mistake
done
an_error splits -DLOSSES=1 -DAT_MOST_ONCE -DGIVEN_AGAIN

no_error rounds -DCOLLAPSE
no_error rounds -DFAILOVERS=1 -DRESTARTS=0
no_error rounds -DJOIN
for mistake in NO_COMPLETE NO_PROMISE NO_FENCE NO_START_BARRIER RECEIPT_IS_RETURNED ALL_HOLD_IT SOMEBODY_HOLDS_IT BLIND_START \
    NEVER_DELIVERED NEVER_VOID NEVER_BEHIND; do
    an_error rounds -D$mistake
done
an_error rounds -DFAILOVERS=1 -DTOLD_EARLY
an_error rounds -DJOIN -DJOIN_BELOW_HORIZON

no_error quarantine
no_error quarantine -DNP
no_error quarantine -DBAD_LUCK=2
for mistake in SUSPECTS_TOGETHER ANY_CRASH_COUNTS COUNTS_IN_MEMORY ALONE=1; do
    an_error quarantine -D$mistake
done
an_error quarantine -DBAD_LUCK=2 -DNEVER_UNJUST

echo "models: $right searches without an error, $found mistakes and rare events found"
exit $status
