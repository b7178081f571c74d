"""What became of one case of a suite."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Outcome:
    """What became of one case.

    Attributes:
        suite: the part of the suites, such as "openivm".
        case: the file, the place in it, the name of a test.
        verdict: "pass"; "open" (SQL leaves the answer open, and ours is one of the right ones);
            "known" (listed in known.toml with its reason); "fail".
        strategy: of the slowest view of the case, "" if it has none.
        detail: why it did not pass.
    """

    suite: str
    case: str
    verdict: str
    strategy: str = ""
    detail: str = ""

    def record(self) -> dict[str, str]:
        """As JSON has it."""
        return asdict(self)
