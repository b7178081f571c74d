"""What every maker of random SQL draws alike."""

from __future__ import annotations

from random import Random


class Choices:
    """Choices, fresh names, and predicates on a query.

    Args:
        random: decides everything.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._count = 0

    def _pick(self, *options: str) -> str:
        return self._random.choice(options)

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _fresh(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def _compared(self, x: str, y: str, source: str) -> str:
        """A predicate on the values of y in a query, given from its FROM on."""
        comparison = self._pick("=", "<", ">=", "<>")
        return self._pick(
            f"EXISTS (SELECT 1 {source})", f"NOT EXISTS (SELECT 1 {source})",
            f"{x} IN (SELECT {y} {source})", f"{x} NOT IN (SELECT {y} {source})",
            f"{x} {comparison} ANY (SELECT {y} {source})",
            f"{x} {comparison} ALL (SELECT {y} {source})",
        )  # fmt: skip
