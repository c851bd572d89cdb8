"""
The `millrace` program: as `python3 -m millrace`, and as the command that comes with the package.
"""

import os
import sys
from typing import NoReturn

from ._capi import ffi as _ffi


def main() -> NoReturn:
    """Become the program of this package. One of PATH would be this command again."""
    program = _ffi.own_program()
    if program is None:
        sys.exit(
            "millrace: this package was installed without the program; "
            "install it again, or say where it is in MILLRACE_PROGRAM"
        )
    os.execv(program, ["millrace", *sys.argv[1:]])


if __name__ == "__main__":
    main()
