"""`python -m tests.conformance /path/to/suites [--out FILE] [--only SUITE …]`"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.conformance.known import entries, stale
from tests.conformance.run import SHARES, SUITES, run, table, without_recompute


def main() -> int:
    """Run, report, and give 1 if something failed or the list of what is known is stale."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance")
    parser.add_argument("suites", type=Path)
    parser.add_argument("--out", type=Path, help="a file for the outcomes as JSON")
    parser.add_argument("--only", nargs="+", choices=SUITES, default=SUITES)
    arguments = parser.parse_args()
    outcomes = run(arguments.suites, arguments.only)
    if arguments.out:
        arguments.out.write_text(json.dumps([o.record() for o in outcomes], indent=1))
    print(table(outcomes))
    failed = any(outcome.verdict == "fail" for outcome in outcomes)
    for suite in [suite for suite in SHARES if suite in arguments.only]:
        share, least = without_recompute(outcomes, suite), SHARES[suite]
        print(f"{suite} with no whole recompute: {share:.1%} (at least {least:.0%})")
        failed |= share < least
    if set(arguments.only) == set(SUITES):  # only then must every entry have its outcome
        for entry in stale(outcomes, entries()):
            print(f"STALE {entry.reason}: nothing matches {entry.pattern}")
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
