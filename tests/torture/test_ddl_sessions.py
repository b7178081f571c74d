"""Random transactions with DDL in several sessions: nobody sees them before they are committed.

Each transaction runs statement by statement in one session while another one reads; then all must
be as in plain DuckDB, at once, in the image of a crash and after another opening.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import ivm
from ivm.errors import IvmError
from tests.support.crash_image import image
from tests.support.view_oracle import assert_verified
from tests.tiers import examples, seeds
from tests.torture.ddl_twins import VIEWS, Twins
from tests.torture.test_ddl_in_transactions import DDL, DML, READS

pytestmark = pytest.mark.full(smoke=1)


class Sessions(Twins):
    """Twins whose side of ours has several sessions, each in a thread of its own.

    Args:
        path: of our file.
        views: to create.
        choice: of sessions, and of what is read.
    """

    def __init__(self, path: Path, views: Iterable[str], choice: random.Random) -> None:
        super().__init__(path, views)
        self.choice = choice
        self.pools = [ThreadPoolExecutor(1) for _ in range(3)]
        self.committed: dict[str, Counter[tuple[object, ...]]] = {}
        self.compare("set up")

    def _ours(self, statements: Sequence[str], end: str) -> IvmError | None:
        pool, other = self.choice.sample(self.pools, 2)

        def run(statement: str) -> None:
            pool.submit(self.ours.execute, statement).result()

        if len(statements) == 1 and end == "COMMIT" and self.choice.random() < 0.5:
            return _raised(lambda: run(statements[0]))
        run("BEGIN")
        for statement in statements:
            if (error := _raised(lambda text=statement: run(text))) is not None:  # type: ignore[misc]
                run("ROLLBACK")
                return error
            self._look(other)
        if (error := _raised(lambda: run(end))) is not None:
            _raised(lambda: run("ROLLBACK"))
        return error

    def _look(self, pool: ThreadPoolExecutor) -> None:
        """Another session reads what was committed, whatever the open transaction did."""
        for name in self.choice.sample(sorted(self.committed), 2):
            found = pool.submit(self._rows, f"FROM {name}").result(timeout=50)
            assert found == self.committed[name], name

    def compare(self, told: object = "") -> None:
        super().compare(told)
        names = [*[t.name for t in self.ours.tables()], *[v.name for v in self.ours.views()]]
        self.committed = {name: self._rows(f"FROM {name}") for name in names}

    def check_image(self, told: object) -> None:
        """What a crash would leave now is right."""
        place = self.path.parent / "image"
        place.mkdir()
        with ivm.connect(image(self.path, place / self.path.name)) as copy:
            for name, rows in self.committed.items():
                assert Counter(copy.execute(f"FROM {name}").fetchall()) == rows, (told, name)
            if copy.views():
                assert_verified(copy, told=told)

    def close(self) -> None:
        for pool in self.pools:
            pool.shutdown()
        super().close()


def _raised(job: Callable[[], Any]) -> IvmError | None:
    try:
        job()
    except IvmError as error:
        return error
    return None


def _some_views(choice: random.Random) -> list[str]:
    """A few views, and what they read."""
    chosen = {"linear", *choice.sample(list(VIEWS), 4)}
    chosen |= {name.removeprefix("over_") for name in chosen}
    return [name for name in VIEWS if name in chosen]


@pytest.mark.parametrize("seed", seeds(examples(6)))
def test_random_ddl_in_several_sessions(tmp_path: Path, seed: int) -> None:
    choice = random.Random(seed)
    twins = Sessions(tmp_path / "twins.duckdb", _some_views(choice), choice)
    texts = [part for pair in DDL.values() for text in pair for part in text.split(";") if part]
    done: list[Any] = []
    for _ in range(6):
        kinds = [texts if choice.random() < 0.4 else [*DML, *READS[:1]] for _ in range(4)]
        statements = [choice.choice(kind) for kind in kinds[: choice.randint(1, 4)]]
        end = choice.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"])
        done.append((statements, end))
        twins.transaction(statements, end)
        twins.compare((seed, done))
    twins.check_image((seed, done))
    twins.reopen()
    twins.compare((seed, done, "opened again"))
    twins.close()
