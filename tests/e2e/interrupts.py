"""Reading while signal handlers raise, wherever that is."""

import os
import signal

import millrace as mr


class Interrupt(Exception):
    pass


def interrupted(read, handler=None):
    """
    Calls @read() until it has nothing more to do, while signals come whose handler raises where it meets the package (else
    the element that was returned would be the test's to lose). How often it did. Now and then they come less often, so
    that slow machines get through a block, too.
    """
    package = os.path.dirname(mr.__file__) + os.sep
    raised = 0
    reading = True

    def tick(_, frame):
        nonlocal raised
        if not reading:
            return  # a late one must not set the timer again: nobody would be there for its signal
        signal.setitimer(signal.ITIMER_REAL, 0.0005 * 2**(raised % 8))
        codes = [f.f_code for f in stack(frame)]
        deaf = any(c.co_name in ("__del__", "_remove") for c in codes)  # Python drops what is raised there
        if any(c.co_filename.startswith(package) for c in codes) and not deaf:
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


def stack(frame):
    while frame is not None:
        yield frame
        frame = frame.f_back
