"""`python -m tests.conformance /path/to/suites [--out FILE] [--only SUITE …] [--spark FOLDER]`"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.conformance.captures import Captures
from tests.conformance.known import entries, stale
from tests.conformance.on_spark import compute, spark_table
from tests.conformance.run import SHARES, SUITES, run, table, without_recompute


def main() -> int:
    """Run, report, and give 1 if something failed or the list of what is known is stale."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance")
    parser.add_argument("suites", type=Path)
    parser.add_argument("--out", type=Path, help="a file for the outcomes as JSON")
    parser.add_argument("--only", nargs="+", choices=SUITES, default=SUITES)
    parser.add_argument(
        "--spark", type=Path, help="compute the views on Spark, too; what it is given is kept here"
    )
    parser.add_argument(
        "--spark-every", type=int, default=1, metavar="N", help="one in N of the views on Spark"
    )
    arguments = parser.parse_args()
    captures = _captures(arguments)
    outcomes = run(arguments.suites, arguments.only, captures=captures)
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
    if captures is not None:
        on_spark = compute(captures)
        print(spark_table(on_spark))
        failed |= any(outcome.verdict in ("wrong", "error") for outcome in on_spark)
    return int(failed)


def _captures(arguments: argparse.Namespace) -> Captures | None:
    if arguments.spark is None:
        return None
    folder = arguments.spark.absolute()  # the suites' processes run elsewhere
    folder.mkdir(parents=True)
    return Captures(folder, arguments.spark_every)


if __name__ == "__main__":
    sys.exit(main())
