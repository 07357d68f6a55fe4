#!/usr/bin/env python3
"""Converts the models of this folder with atc. Needs Python 3.7 or later and nothing else.

Source CANN's set_env.sh, then run `python3 convert.py`; `python3 convert.py --help` tells the rest.
"""

import sys

if __name__ == "__main__":
    if sys.version_info < (3, 7):  # noqa: UP036 (this one file runs on any Python)
        print("convert.py needs Python 3.7 or later")
        sys.exit(2)
    sys.dont_write_bytecode = True
    from convert_parts.handover_run import main  # pyright: ignore

    sys.exit(main(sys.argv[1:]))  # pyright: ignore
