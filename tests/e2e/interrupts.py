"""Reading while signal handlers raise, wherever that is."""

import dis
import os
import signal
import sys

import millrace as mr

PACKAGE = os.path.dirname(mr.__file__) + os.sep
DEAF = ("__del__", "_goodbye")  # Python drops what is raised there


class Interrupt(Exception):
    pass


def interrupted(read, handler=None):
    """
    Calls @read() until it has nothing more to do, while signals come whose handler raises where it
    meets the package (else the element that was returned would be the test's to lose). How often it
    did. Now and then they come less often, so that slow machines get through a block, too.
    """
    raised = 0
    reading = True

    def tick(_, frame):
        nonlocal raised
        if not reading:
            return  # a late one must not set the timer again: nobody would be there for its signal
        signal.setitimer(signal.ITIMER_REAL, 0.0005 * 2 ** (raised % 8))
        codes = [f.f_code for f in stack(frame)]
        if any(c.co_filename.startswith(PACKAGE) for c in codes) and not any(
            c.co_name in DEAF for c in codes
        ):
            raised += 1
            if handler is not None:
                handler()
            raise Interrupt

    old = signal.signal(signal.SIGALRM, tick)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005)
        while True:
            try:
                read()
                return raised
            except Interrupt:
                pass
    finally:
        reading = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def cut_off(call, step):
    """
    Calls @call() and raises at the @step-th place in the package at which Python asks for signals:
    where a function begins, behind a call, before a loop goes round. Whether it raised; else the
    call was through before that.
    """

    def cut():
        raise Interrupt

    try:
        return during(call, step, cut)
    except Interrupt:
        return True


def during(call, step, handler):
    """As cut_off(), but @handler() is called there, and the call goes on. Whether it was."""
    places = 0
    last = {}  # frame -> the instruction before

    def trace(frame, event, arg):
        nonlocal places
        if not frame.f_code.co_filename.startswith(PACKAGE) or any(
            f.f_code.co_name in DEAF for f in stack(frame)
        ):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            before, last[frame] = (
                last.get(frame, ""),
                dis.opname[frame.f_code.co_code[frame.f_lasti]],
            )
            places += before.startswith(("RESUME", "CALL", "JUMP_BACKWARD"))
            if places > step:
                sys.settrace(None)
                handler()
        return trace

    old = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
        return places > step
    finally:
        sys.settrace(old)
        last.clear()  # frames hold what they have made


def stack(frame):
    while frame is not None:
        yield frame
        frame = frame.f_back
