"""A process that runs the sources of a database until it is killed, or its input ends.

Usage: python -m tests.support.source_child FILE
"""

from __future__ import annotations

import sys

import ivm


def main() -> None:
    with ivm.connect(sys.argv[1]) as db:
        db.start_sources()
        print("started", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
