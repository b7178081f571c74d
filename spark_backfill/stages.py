"""The stages of a first fill: the contents that hydration asks for, each written by Spark once.

Law: a circuit that is hydrated from the staged contents has the state that it has after hydration
from the tables that Spark has read: the circuit itself is asked what it wants, so nothing is left
out. A stage that is done is noted in the folder, survives a crash, and is read by later stages
instead of being computed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ivm.delta_ops.aggregates.aggregate import Aggregate as AggregateOperator
from ivm.delta_ops.aggregates.aggregate import PartialState
from ivm.delta_ops.circuit import Circuit
from ivm.delta_ops.operator import CursorFactory, Fetch
from ivm.spark_backfill.attempts import computed
from ivm.spark_backfill.files.local_files import local, read_carriers
from ivm.spark_backfill.frames import Frames
from ivm.spark_backfill.workers.carriers import carrier
from ivm.spark_backfill.workers.partial_worker import LABELS, LANES, key_types, states_of
from ivm.sql.compile.compile import CircuitCompiler
from ivm.sql.plan.nodes import Aggregate, Plan, numbered, types
from ivm.sql.plan.render import render
from ivm.sql.resolve.duckdb_types import typed_nulls
from ivm.storage.durable_files import sync_folder
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.duckdb.carried import carried
from ivm.storage.warehouse.duckdb.duck import chunks
from ivm.storage.warehouse.own_parquet import reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Key: TypeAlias = tuple[int, ...]
"""Positions of the columns of a key."""

SORTED_ROWS = 1 << 24
"""The rows from which a stage is sorted by Spark. The loader sorts 10⁶ rows in 0.05 s, which takes
Spark 3.5 s of processors, but needs some 30 bytes a row beside the state for it: 500 MB."""
PART_ROWS = 1 << 20
_VERSION = 3


@dataclass(frozen=True)
class Stage:
    """One content to be computed.

    Attributes:
        node: the number of the circuit's node whose content it is.
        plan: of that node.
        label: what EXPLAIN calls the node.
        partial: it is an aggregate, and its partial states are computed, not its rows.
        keys: those by whose codes operators want the rows sorted, see `hydration_key`.
    """

    node: int
    plan: Plan
    label: str
    partial: bool = False
    keys: tuple[Key, ...] = ()

    @property
    def meaning(self) -> str:
        """A digest of what the stage computes, by which a later process knows it again."""
        text = f"{'partial states: ' if self.partial else ''}{render(self.plan)}"
        return hashlib.sha256(text.encode()).hexdigest()


def stages_of(plan: Plan, cursors: CursorFactory) -> list[Stage]:
    """The contents that hydrating a view and filling its table ask for, inputs first."""
    compiler = CircuitCompiler(Circuit(), cursors)
    circuit, root = compiler.circuit, compiler.add_view("view", plan)
    partial = [n for n in circuit.nodes_of("view") if _adds_up(compiler, n)]
    for node in partial:
        circuit.node(node).hydrated = True
    asked: set[int] = set()

    def fetch(node: int) -> Iterator[ZSet]:
        asked.add(node)
        return iter(())

    keys: dict[int, dict[Key, None]] = {}
    reading = from_state(circuit, partial, fetch)
    for number in sorted(circuit.needs_hydration()):
        for node, key in wanted_keys(circuit, number).items():
            keys.setdefault(node, {})[key] = None
        circuit.hydrate(reading, [number])
    for _ in contents_of(circuit, root, reading):
        pass
    return [
        Stage(
            node,
            compiler.plan(node),
            compiler.label(node),
            node in partial,
            () if node in partial else tuple(keys.get(node, ())),
        )
        for node in sorted(asked.union(partial))
    ]


def wanted_keys(circuit: Circuit, number: int) -> dict[int, Key]:
    """The nodes whose content a node's state is built of, where it wants that sorted by a key."""
    node = circuit.node(number)
    found = [(circuit.content_node(n), node.operator.hydration_key(i))
             for i, n in enumerate(node.inputs)]  # fmt: skip
    return {content: key for content, key in found if key}


def _adds_up(compiler: CircuitCompiler, number: int) -> bool:
    """Whether a node's state can be added up from partial states of its input's rows."""
    node = compiler.circuit.node(number)
    return (
        isinstance(node.operator, AggregateOperator)
        and node.operator.adds_up
        and isinstance(compiler.plan(number), Aggregate)
        and all(compiler.circuit.node(i).reproducible for i in node.inputs)
    )


def from_state(circuit: Circuit, partial: Collection[int], fetch: Fetch) -> Fetch:
    """Reads the content of aggregates from their state, which the partial states have built."""

    def read(number: int) -> Iterator[ZSet]:
        return circuit.contents(number, read) if number in partial else fetch(number)

    return read


def contents_of(circuit: Circuit, root: int, fetch: Fetch) -> Iterator[ZSet]:
    """The rows of a view: computed by Spark, unless the circuit's state has them."""
    node = circuit.node(root)
    if node.reproducible and not node.operator.stateful:
        return fetch(root)
    return circuit.contents(root, fetch)


class Staging:
    """The folder in which a first fill keeps what is done.

    Args:
        folder: of its own, which need not be there yet.

    Attributes:
        epoch: of the snapshot that the stages read; None if there is none.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._done: dict[str, dict[str, Any]] = {}
        found = _read(folder / "snapshot.json")
        self.epoch: int | None = found.get("epoch")
        self._id = found.get("id")
        self._meanings: list[str] = found.get("meanings", [])
        stages = _read(folder / "stages.json")
        if self._id is not None and stages.get("snapshot") == self._id:
            self._done = stages["stages"]

    def begin(self, epoch: int, stages: Sequence[Stage]) -> None:
        """Notes that everything the stages read lies in `tables`, as of an epoch."""
        self.epoch, self._id, self._done = epoch, uuid.uuid4().hex, {}
        self._meanings = [stage.meaning for stage in stages]
        body = {"epoch": epoch, "id": self._id, "meanings": self._meanings}
        _write(self.folder / "snapshot.json", body)

    def serves(self, stages: Sequence[Stage]) -> bool:
        """Whether the snapshot is there, and was taken for these stages."""
        return self.stands and self._meanings == [stage.meaning for stage in stages]

    def outdate(self) -> None:
        """Makes the snapshot, and with it all that is done, useless, durably."""
        if self.folder.exists():
            (self.folder / "snapshot.json").unlink(missing_ok=True)
            sync_folder(self.folder)

    @property
    def stands(self) -> bool:
        """Whether the snapshot that this object knows was not outdated since."""
        return self._id is not None and _read(self.folder / "snapshot.json").get("id") == self._id

    @property
    def is_outdated(self) -> bool:
        """Whether this object knows a snapshot that was outdated since."""
        return self.epoch is not None and not self.stands

    def clear(self) -> None:
        """Removes all that is there."""
        self.epoch, self._id, self._done = None, None, {}
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    @property
    def tables(self) -> Path:
        """The folder of the exported tables."""
        return self.folder / "tables"

    def is_done(self, stage: Stage) -> bool:
        """Whether a stage's content is there."""
        return self._done.get(str(stage.node), {}).get("meaning") == stage.meaning

    def rows(self, stage: Stage) -> int:
        """The rows of a stage that is done."""
        return int(self._done[str(stage.node)]["rows"])

    def bytes(self, stage: Stage) -> int:
        """The bytes of the files of a stage that is done."""
        return sum(file.stat().st_size for file in self.place(stage).glob("*.parquet"))

    def is_sorted(self, stage: Stage, key: Key) -> bool:
        """Whether a stage's content is there sorted by a key."""
        return self.is_done(stage) and list(key) in self._done[str(stage.node)]["sorted"]

    def path(self, node: int, key: Key = ()) -> Path:
        """The folder of a node's content, or of that sorted by a key."""
        by = f"-by-{'-'.join(map(str, key))}" if key else ""
        return self.folder / f"node-{node}{by}"

    def place(self, stage: Stage, key: Key = ()) -> Path:
        """Where the content of a stage that is done lies, if possible sorted by a key."""
        known = [tuple(each) for each in self._done[str(stage.node)]["sorted"]]
        return self.path(stage.node, key if key in known else known[0] if known else ())

    def finish(self, stage: Stage) -> None:
        """Notes that Spark has written a stage."""
        import pyarrow.dataset as ds  # takes a moment to load, also where there is no Spark

        rows = ds.dataset(self.path(stage.node), format="parquet").count_rows()
        body = {"meaning": stage.meaning, "rows": rows, "sorted": []}
        self._done[str(stage.node)] = body
        self._note()

    def finish_sorted(self, stage: Stage, key: Key) -> None:
        """Notes that Spark has written a stage sorted by a key; it need not be there otherwise."""
        self._done[str(stage.node)]["sorted"].append(list(key))
        self._note()
        shutil.rmtree(self.path(stage.node), ignore_errors=True)

    def _note(self) -> None:
        _write(self.folder / "stages.json", {"snapshot": self._id, "stages": self._done})

    def content(self, stage: Stage, cursors: CursorFactory, key: Key = ()) -> Iterator[ZSet]:
        """The content of a stage that is done, in chunks.

        Args:
            stage: which.
            cursors: of any database.
            key: by whose codes the rows come sorted, if they are there in that order.
        """
        with contextlib.closing(cursors()) as cursor:
            yield from chunks(cursor, self.query(stage, key), stage.plan.schema)

    def states(self, stage: Stage, cursors: CursorFactory) -> Iterator[PartialState]:
        """The partial states of a stage that is done."""
        assert isinstance(stage.plan, Aggregate)
        schema = numbered(key_types(stage.plan))
        files = sorted(self.path(stage.node).glob("*.parquet"))
        if not files:
            return
        back = [f"{carrier(t).back(f'c{i}')} AS c{i}" for i, (_, t) in enumerate(schema)]
        listed = ", ".join([*back, LABELS, LANES])
        with contextlib.closing(cursors()) as cursor:
            sql = f"SELECT {listed} FROM {reading(files)}"
            for batch in carried(cursor.sql(sql)).to_arrow_reader(1 << 17):
                yield from states_of(batch, schema)

    def query(self, stage: Stage, key: Key = ()) -> str:
        """The content of a stage that is done, as SQL; see `content`."""
        given = types(stage.plan)
        files = sorted(self.place(stage, key).glob("*.parquet"))
        if not files:  # Spark writes none where it has no partition
            return f"{typed_nulls(given)} WHERE FALSE"
        back = [carrier(t).back(f"c{i}") for i, t in enumerate(given)]
        listed = ", ".join(f"{value} AS c{i}" for i, value in enumerate(back)) or "1 AS nothing"
        return f"SELECT {listed} FROM {reading(files)}"


def _read(file: Path) -> dict[str, Any]:
    """What a file of ours says; nothing if it is not there, or of another version."""
    try:
        found = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return found if found.get("version") == _VERSION else {}


def _write(file: Path, body: dict[str, Any]) -> None:
    """Replaces a file durably, in one piece."""
    draft = file.with_suffix(".new")
    with open(draft, "w") as opened:
        json.dump({"version": _VERSION, **body}, opened)
        opened.flush()
        os.fsync(opened.fileno())
    os.replace(draft, file)
    sync_folder(file.parent)


def _frame(frames: Frames, stage: Stage) -> DataFrame:
    if not stage.partial:
        return frames.frame(stage.plan)
    assert isinstance(stage.plan, Aggregate)
    return frames.partial(stage.plan)


def run_stage(
    spark: SparkSession, frames: Frames, staging: Staging, stages: Sequence[Stage], at: int
) -> None:
    """Computes the stage at a position of the list, if it is not done, for later ones to read."""
    stage = stages[at]
    if not staging.is_done(stage):
        path = local(staging.path(stage.node))
        computed(frames, lambda given: _frame(given, stage).write.mode("overwrite").parquet(path))
        staging.finish(stage)
    if stage.partial:
        return
    for key in stage.keys if staging.rows(stage) > SORTED_ROWS else ():
        if not staging.is_sorted(stage, key):
            parts = -(-staging.rows(stage) // PART_ROWS)
            frame = frames.in_order(stage.plan, _read_back(spark, staging, stage), key, parts)
            frame.write.mode("overwrite").parquet(local(staging.path(stage.node, key)))
            staging.finish_sorted(stage, key)
    frames.know(stage.plan, _read_back(spark, staging, stage))


def _read_back(spark: SparkSession, staging: Staging, stage: Stage) -> DataFrame:
    """The rows of a stage that is done."""
    ddl = ", ".join(f"c{i} {carrier(t).spark}" for i, t in enumerate(types(stage.plan)))
    return read_carriers(spark, ddl, staging.place(stage))
