"""Plans as Spark DataFrames: each node in Spark SQL, or by DuckDB in the workers.

Law: the rows of `frame(plan)` are the carriers of content(plan), columns c0, c1, …, as a multiset.
A node that Spark cannot be trusted with is computed by DuckDB over partitions that its own groups
or keys do not cross: of any partition where it is linear, else of the rows with one code of the
key, and where it has none, of all rows at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from ivm.spark_backfill.refusals import not_carried, refuse_foreign
from ivm.spark_backfill.session import worker_memory
from ivm.spark_backfill.translation.not_translatable import NotTranslatableError
from ivm.spark_backfill.translation.render import spark_body
from ivm.spark_backfill.workers.carried_sql import (
    arrow_schema,
    ddl_of,
    in_arrow,
    linear_source,
    listed,
    read_back,
    select_back,
    struct_of,
)
from ivm.spark_backfill.workers.carriers import NotCarriedError, carrier
from ivm.spark_backfill.workers.code_worker import coding_runner
from ivm.spark_backfill.workers.partial_worker import (
    DDL,
    LABELS,
    LANES,
    adding_runner,
    key_types,
    partial_runner,
)
from ivm.spark_backfill.workers.worker import CODE, GIVEN, NO_SIDE, SIDE, Body, Pieces, runner
from ivm.sql.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    GroupRecompute,
    Join,
    Plan,
    Project,
    Recursive,
    Scan,
    SetOp,
    TableFunction,
    TopK,
    Union,
    Unnest,
    Values,
    ViewScan,
    Window,
    numbered,
    types,
    width,
)
from ivm.sql.plan.render import render, render_body
from ivm.sql.plan.walks import free_recursions, inputs
from ivm.storage.identifiers import literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_numbers = itertools.count()
_LINEAR = Filter | Project | Unnest


class Relations(Protocol):
    """Where the rows of base relations lie."""

    def pieces(self, scan: Scan) -> Pieces | None:
        """The pieces of a scan's rows, for workers to read; None if `frame` has them."""

    def frame(self, scan: Scan) -> DataFrame:
        """The rows of a scan as carriers, columns c0, c1, …"""


@dataclass
class Report:
    """How nodes were computed, for reports.

    Attributes:
        native: how many in Spark SQL.
        workers: for each of the others its kind and the construct that Spark was not trusted with.
    """

    native: int = 0
    workers: list[tuple[str, str]] = field(default_factory=list)


class Frames:
    """The DataFrames of plans over one snapshot; equal nodes have one.

    Args:
        spark: a prepared session.
        relations: the rows of base relations.
        zone: the time zone in which expressions are computed.
        sql: nodes may be computed in Spark SQL.
    """

    def __init__(
        self, spark: SparkSession, relations: Relations, zone: str, *, sql: bool = True
    ) -> None:
        self._spark = spark
        self._relations = relations
        self._zone = zone
        self._sql = sql
        memory = worker_memory(spark) >> 20
        self._settings = (f"SET TimeZone = {literal(zone)}", f"SET memory_limit = '{memory}MiB'")
        self._known: dict[int, tuple[Plan, int]] = {}
        self._numbers: dict[str, int] = {}
        self._frames: dict[int, DataFrame] = {}
        self._given: set[int] = set()
        self._told: list[tuple[Plan, DataFrame]] = []
        self._views: list[str] = []
        self.said = Report()

    def frame(self, plan: Plan) -> DataFrame:
        """The rows of a plan.

        Raises:
            UnsupportedError: a value in them has no form in Spark.
        """
        try:
            return self._frames[self._number(plan)]
        except NotCarriedError as error:
            raise not_carried(error) from error

    def partial(self, plan: Aggregate) -> DataFrame:
        """Partial states of an aggregate whose operator `adds_up`; see `partial_worker`.

        Projections right below it are computed by the workers too, where the rows are anyway:
        DuckDB's DECIMALs are integers, Spark's objects.
        """
        base, found = self._in_files(plan.input)
        if found is None:
            base = plan.input
            while isinstance(base, Project):
                base = base.input
        below = self.frame(base) if found is None else self._numbers_of(found)
        source = f"({select_back(types(base))} FROM {GIVEN})"
        stub = Values((), numbered(types(plan.input)))  # the workers need the types alone
        apart = replace(plan, input=stub)
        keys = [carrier(t) for t in key_types(plan)]
        ddl = ", ".join(filter(None, [ddl_of(keys), DDL]))
        coded = f"{ddl}, {CODE} BIGINT"
        sql = f"FROM {linear_source(plan.input, base, source)}"
        body = self._body(sql, coded, found or in_arrow(below.schema))
        parts = below.mapInArrow(partial_runner(apart, body), coded)
        parts = parts.repartition(CODE) if keys else parts.repartition(1)
        parts = parts.sortWithinPartitions(CODE)
        back = [f"{c.back(f'c{i}')} AS c{i}" for i, c in enumerate(keys)]
        sql = f"SELECT {', '.join([*back, LABELS, LANES, CODE])} FROM {GIVEN}"
        body = self._body(sql, ddl, in_arrow(parts.schema))
        return parts.mapInArrow(adding_runner(apart, body), ddl)

    def in_order(self, plan: Plan, frame: DataFrame, key: Sequence[int], parts: int) -> DataFrame:
        """The rows of a plan sorted by the code of a key, each partition after the one before.

        Args:
            plan: whose rows they are.
            frame: the rows.
            key: positions of the key's columns.
            parts: how many partitions.
        """
        from pyspark.sql.functions import expr

        given = types(plan)
        every = [carrier(t) for t in given]
        ddl = f"{ddl_of(every)}, {CODE} BIGINT"
        back = [f"{every[i].back(f'c{i}')} AS k{n}" for n, i in enumerate(key)]
        columns = ", ".join([*[f"c{i}" for i in range(len(every))], *back])
        body = self._body(f"SELECT {columns} FROM {GIVEN}", ddl, in_arrow(frame.schema))
        coded = frame.mapInArrow(coding_runner(body, [given[i] for i in key]), ddl)
        # NULL has the code of a zero: their rows are not to be mixed.
        apart = [f"c{key[0]} IS NULL"] if len(key) == 1 else []
        order = [expr(text) for text in (CODE, *apart)]
        return coded.repartitionByRange(parts, CODE).sortWithinPartitions(*order).drop(CODE)

    def _body(self, sql: str, ddl: str, given: pa.Schema | Pieces) -> Body:
        """SQL over the rows as they come, for our own kernels."""
        return Body((), sql, arrow_schema(ddl), given, self._settings, stored=False)

    def know(self, plan: Plan, frame: DataFrame) -> None:
        """Takes a frame with the rows of a plan for that plan from now on."""
        number = self._number(plan, frame)
        self._frames[number] = frame
        self._given.add(number)
        self._told.append((plan, frame))

    def by_workers(self) -> Frames:
        """Frames of the same rows, in which DuckDB computes every node in the workers."""
        made = Frames(self._spark, self._relations, self._zone, sql=False)
        for plan, frame in self._told:
            made.know(plan, frame)
        return made

    def close(self) -> None:
        """Forgets the names under which Spark's session knows the DataFrames."""
        for name in self._views:
            self._spark.catalog.dropTempView(name)
        self._views.clear()

    def _number(self, plan: Plan, known: DataFrame | None = None) -> int:
        """Numbers nodes of equal content alike.

        Args:
            known: a frame of the plan, if there is one.
        """
        if isinstance(plan, ViewScan):
            return self._number(plan.input, known)
        if id(plan) not in self._known:
            below = () if isinstance(plan, Recursive) else inputs(plan)
            numbers = [self._number(part) for part in below]
            body = (
                render(plan)
                if not below
                else render_body(plan, [f"#{number}" for number in numbers])
            )
            if body not in self._numbers:
                made = known
                if made is None:
                    made = self._made(plan, [self._frames[i] for i in numbers])
                number = self._numbers[body] = len(self._numbers)
                self._frames[number] = made
            self._known[id(plan)] = (plan, self._numbers[body])
        return self._known[id(plan)][1]

    def _made(self, plan: Plan, below: Sequence[DataFrame]) -> DataFrame:
        refuse_foreign(plan)
        base, found = self._in_files(plan)
        if found is not None:
            return self._in_pieces(plan, base, found)
        match plan:
            case Scan():
                return self._relations.frame(plan)
            case Values() | TableFunction():
                return self._by_duckdb(plan, (), [], render_body(plan, []), alone=True)
            case Recursive():
                return self._recursive(plan)
        try:
            made = self._by_spark(plan, below)
        except NotTranslatableError as construct:
            self.said.workers.append((type(plan).__name__, str(construct)))
        else:
            self.said.native += 1
            return made
        parts, keys = inputs(plan), _keys(plan)
        sql = render_body(plan, [f"i{n}" for n in range(len(parts))])
        if isinstance(plan, _LINEAR):
            return self._by_duckdb(plan, parts, below, sql, linear=True)
        together = self._together(parts, keys, below)
        return self._by_duckdb(plan, parts, together, sql, alone=not keys[0])

    def _recursive(self, plan: Recursive) -> DataFrame:
        """Computes a recursive query at one place; what does not read its last rows is input."""
        self.said.workers.append(("Recursive", "a recursive query"))
        parts: list[Plan] = []

        def source(part: Plan) -> str:
            if not free_recursions(part):
                parts.append(part)
                return f"i{len(parts) - 1}"
            return f"({render_body(part, [source(below) for below in inputs(part)])})"

        sql = render_body(plan, [source(plan.base), source(plan.step)])
        below = [self._frames[self._number(part)] for part in parts]
        together = self._together(parts, [()] * len(parts), below)
        return self._by_duckdb(plan, parts, together, sql, alone=True)

    def _by_spark(self, plan: Plan, below: Sequence[DataFrame]) -> DataFrame:
        if not self._sql:
            raise NotTranslatableError("a value on which Spark SQL fails")
        spark_body(plan, ["t"] * len(below), self._zone)  # before names are given
        names = []
        for frame in below:
            names.append(f"_ivm_{next(_numbers)}")
            frame.createOrReplaceTempView(names[-1])
        self._views += names
        text = spark_body(plan, names, self._zone)
        return self._spark.sql(text)

    # -- from files -----------------------------------------------------------------------------

    def _in_files(self, plan: Plan) -> tuple[Plan, Pieces | None]:
        """What lies below the linear nodes from here on, and its pieces, if it lies in files."""
        while isinstance(plan, _LINEAR | ViewScan) and self._number(plan.input) not in self._given:
            plan = plan.input
        return plan, self._relations.pieces(plan) if isinstance(plan, Scan) else None

    def _in_pieces(self, plan: Plan, base: Plan, found: Pieces) -> DataFrame:
        """Computes linear nodes where the files are read: what they leave out does not travel."""
        source = linear_source(plan, base, "i0")
        return self._by_duckdb(plan, [base], [], f"FROM {source}", linear=True, found=found)

    def _numbers_of(self, found: Pieces) -> DataFrame:
        """The numbers of the pieces, each in a partition of its own."""
        return self._spark.range(0, found.count, 1, found.count)

    # -- by DuckDB ------------------------------------------------------------------------------

    def _by_duckdb(
        self,
        plan: Plan,
        parts: Sequence[Plan],
        below: Sequence[DataFrame],
        sql: str,
        *,
        linear: bool = False,
        alone: bool = False,
        found: Pieces | None = None,
    ) -> DataFrame:
        """Computes a node in the workers.

        Args:
            parts: the plans of its inputs.
            below: the input of a linear node; else one frame with the rows of all inputs.
            sql: the node over its inputs, i0, i1, …
            linear: any rows can be computed without the others.
            alone: the one partition has all rows.
            found: the pieces of the input of a linear node, where it lies in files.
        """
        carriers = [carrier(t) for t in types(plan)]
        outer = listed([c.out(f"q.c{i}") for i, c in enumerate(carriers)])
        given = [
            (f"i{n}", read_back(types(part), None if linear else n)) for n, part in enumerate(parts)
        ]
        if found is not None:
            frame = self._numbers_of(found)
        else:
            frame = below[0] if below else self._spark.sql(f"SELECT {NO_SIDE} AS {SIDE}")
        if alone:
            frame = frame.repartition(1)
        body = Body(
            tuple(given) or (("nothing__", "SELECT 1"),),
            f"SELECT {outer} FROM ({sql}) AS q",
            arrow_schema(ddl_of(carriers)),
            found or in_arrow(frame.schema),
            self._settings,
            stored=not linear,
        )
        return frame.mapInArrow(runner(body), ddl_of(carriers))

    def _together(
        self, parts: Sequence[Plan], keys: Sequence[Sequence[int]], below: Sequence[DataFrame]
    ) -> list[DataFrame]:
        """One frame with the rows of all inputs, of which those with one key are together."""
        structs = [struct_of(types(part)) for part in parts]
        frames = []
        for side, (frame, part, key) in enumerate(zip(below, parts, keys, strict=True)):
            coded, code = self._coded(frame, part, key)
            rows = [
                f"struct({', '.join(f'c{i}' for i in range(width(part)))}) AS s{n}"
                if n == side
                else f"CAST(NULL AS {struct}) AS s{n}"
                for n, struct in enumerate(structs)
            ]
            frames.append(coded.selectExpr(f"{code} AS {CODE}", f"{side} AS {SIDE}", *rows))
        if not keys[0]:
            nulls = [f"CAST(NULL AS {struct}) AS s{n}" for n, struct in enumerate(structs)]
            row = f"SELECT CAST(0 AS BIGINT) AS {CODE}, {NO_SIDE} AS {SIDE}, {', '.join(nulls)}"
            frames.append(self._spark.sql(row))
        whole = frames[0]
        for frame in frames[1:]:
            whole = whole.unionAll(frame)
        return [whole.repartition(CODE) if keys[0] else whole]

    def _coded(self, frame: DataFrame, part: Plan, key: Sequence[int]) -> tuple[DataFrame, str]:
        """The frame, and the SQL of a code in it that is one for equal keys."""
        given = [carrier(types(part)[i]) for i in key]
        if not key:
            return frame, "CAST(0 AS BIGINT)"
        if all(c.equal for c in given):
            return frame, f"xxhash64({', '.join(f'c{i}' for i in key)})"
        every = [carrier(t) for t in types(part)]
        values = ", ".join(c.back(f"c{i}") for i, c in zip(key, given, strict=True))
        columns = ", ".join(f"c{i}" for i in range(len(every)))
        code = f"CAST(system.main.hash({values}) >> 1 AS BIGINT)"
        ddl = f"{ddl_of(every)}, {CODE} BIGINT"
        body = Body(
            (("i0", "SELECT * FROM {rows}"),),
            f"SELECT {columns}, {code} AS {CODE} FROM i0",
            arrow_schema(ddl),
            in_arrow(frame.schema),
            self._settings,
            stored=False,
        )
        return frame.mapInArrow(runner(body), ddl), CODE


def _keys(plan: Plan) -> list[tuple[int, ...]]:
    """For each input the columns that rows must agree in to be computed together; () for none."""
    match plan:
        case Join():
            return [plan.left_keys, plan.right_keys]
        case Aggregate():
            return [plan.groups]
        case GroupRecompute() | TopK() | Window():
            return [plan.partition]
        case Distinct() | SetOp() | Union():
            return [tuple(range(width(part))) for part in inputs(plan)]
        case _:
            return [() for _ in inputs(plan)]
