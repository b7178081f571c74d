"""DuckDB's faults, each with a reproduction and the modules that work around it.

Contract: each fault has a reproduction on plain DuckDB, and a test that fails as soon as its
outcome is another one (tests/storage/test_duckdb_faults.py): then DuckDB is right, and the
workarounds can be deleted once no version with the fault is taken. A module that works around a
fault names it there by the name here.

Behaviour of DuckDB's that is only unusual is no fault, and is not listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Way: TypeAlias = Literal["rows", "to Arrow", "through Arrow", "sliced", "given up"]
"""The form of the last statement's answer in a reproduction: rows of Python values; an Arrow table
of these; a query over the Arrow table `lent`, the answer of the statement before it; or the same
with the first row of that table cut off; or rows, after the answer of the statement before was
interrupted and dropped."""
Outcome: TypeAlias = "list[tuple[object, ...]] | str"
"""The rows; or the class and the beginning of an error; or "the process ends"."""


@dataclass(frozen=True)
class Fault:
    """One fault of DuckDB's.

    Attributes:
        name: by which the modules refer to it.
        does: the wrong behaviour.
        right: the right behaviour.
        script: statements for a connection of its own, split by semicolons; `{folder}` stands for
            an empty folder, and `interrupted()` is a Python function that raises KeyboardInterrupt.
        outcome: the wrong one.
        modules: those that work around it.
        seen: versions in which the reproduction has that outcome, the oldest and the newest one.
        mended: the first version that is right, and what it answers. The workarounds stay as long
            as an older version is taken, and are right with both.
        issues: of duckdb/duckdb, about it or its cause; none is known of the others.
        way: the form of the last statement's answer.
        apart: the reproduction may end the process, or not show the fault at each run.
    """

    name: str
    does: str
    right: str
    script: str
    outcome: Outcome
    modules: tuple[str, ...]
    seen: tuple[str, str] = ("1.5.6", "2.0.1")
    mended: tuple[str, Outcome] | None = None
    issues: tuple[int, ...] = ()
    way: Way = "rows"
    apart: bool = False


ENDS = "the process ends"

FAULTS = (
    Fault(
        "lost_empty_groups",
        does="a correlated aggregate without groups that is NULL over no rows has no row below a"
        " DISTINCT or a set operation, nor where a scalar subquery or a LEFT JOIN LATERAL joins,"
        " lists or numbers it",
        right="an aggregate without groups has one row, (2, NULL) here, whatever stands above it",
        script="""SELECT k, m FROM (VALUES (1), (2)) AS t(k), LATERAL (SELECT DISTINCT max(v) AS m
            FROM (VALUES (1, 3)) AS u(k, v) WHERE u.k = t.k)""",
        outcome=[(1, 3)],
        modules=("ivm.sql.subqueries.empty_groups",),
        seen=("1.5.6", "2.0.0"),
        mended=("2.0.1", [(1, 3), (2, None)]),
        issues=(24049, 24563),
    ),
    Fault(
        "pivot_filters",
        does="the FILTER of an aggregate in a PIVOT is dropped",
        right="the sum of the rows that meet it, 2 here",
        script="PIVOT (VALUES (1, 1), (1, 2)) AS t(k, v) ON k IN (1) USING sum(v) FILTER (v > 1)",
        outcome=[(3,)],
        modules=("ivm.sql.bind.pivot",),
        seen=("1.5.6", "2.0.0"),
        mended=("2.0.1", [(2,)]),
        issues=(11802,),
    ),
    Fault(
        "fields_of_parameters",
        does="beside a column x, x.a in a lambda with the parameter x is a field of the column in"
        " the select list, and of the parameter in WHERE",
        right="one of them, and the parameter, which is nearer",
        script="""CREATE TABLE t AS SELECT {'a': 'column'} AS x;
            SELECT list_transform([{'a': 'own'}], lambda x: x.a)[1] FROM t
            WHERE list_transform([{'a': 'own'}], lambda x: x.a) = ['own']""",
        outcome=[("column",)],
        modules=("ivm.sql.bind.scalars", "ivm.sql.resolve.macros"),
        issues=(18315,),
    ),
    Fault(
        "row_ids_by_equality",
        does="a filter of row ids that an equality join hands to the scan passes over rows, or"
        " reads beyond its buffers, where an open transaction has appended rows and deleted others",
        right="342, as IS NOT DISTINCT FROM gives, of which no such filter is made",
        script="""CREATE TABLE t AS SELECT i::INTEGER AS i FROM range(3) AS r(i);
            BEGIN; INSERT INTO t SELECT i FROM range(3, 2051) AS r(i);
            CREATE TEMP TABLE ids AS SELECT rowid AS id FROM t WHERE i % 6 = 1;
            DELETE FROM t WHERE i % 2 = 0;
            SELECT count(*) FROM t JOIN ids ON t.rowid = ids.id""",
        outcome=[(341,)],
        modules=("ivm.storage.warehouse.flush.row_ids", "ivm.session.duck_writer"),
        seen=("2.0.0", "2.0.0"),
        mended=("2.0.1", [(342,)]),
        apart=True,
    ),
    Fault(
        "hidden_row_ids",
        does="a column named rowid hides the row ids, and these have no other name",
        right="another name, as SQLite has _rowid_ and oid",
        script="""CREATE TABLE t (rowid INTEGER); INSERT INTO t VALUES (7);
            SELECT rowid FROM t""",
        outcome=[(7,)],
        modules=(
            *(
                "ivm.storage.warehouse.flush.flush",
                "ivm.session.duck_writer",
                "ivm.capture.row_diff",
            ),
            *("ivm.capture.update", "ivm.capture.merge"),
        ),
    ),
    Fault(
        "unwritten_values",
        does="UPDATE does not write a value that equals the old one and is another: -0.0 over 0.0,"
        " 30 days over 1 month",
        right="the value of the UPDATE",
        script="""CREATE TABLE t AS SELECT INTERVAL 1 MONTH AS x; UPDATE t SET x = INTERVAL 30 DAY;
            SELECT x::VARCHAR FROM t""",
        outcome=[("1 month",)],
        modules=("ivm.capture.update", "ivm.storage.warehouse.flush.flush"),
    ),
    Fault(
        "returned_values",
        does="the RETURNING of an UPDATE shows a value that was not written",
        right="what the table holds",
        script="""CREATE TABLE t AS SELECT INTERVAL 1 MONTH AS x;
            UPDATE t SET x = INTERVAL 30 DAY RETURNING x::VARCHAR""",
        outcome=[("30 days",)],
        modules=("ivm.capture.update",),
    ),
    Fault(
        "returning_of_referenced_rows",
        does="an UPDATE with RETURNING deletes and inserts its rows, which a foreign key forbids"
        " though no key changes",
        right="the row, as the UPDATE without RETURNING changes it",
        script="""CREATE TABLE p (i INTEGER PRIMARY KEY, x INTEGER);
            CREATE TABLE c (p INTEGER REFERENCES p(i));
            INSERT INTO p VALUES (1, 2); INSERT INTO c VALUES (1);
            UPDATE p SET x = 3 RETURNING x""",
        outcome="ConstraintException: Constraint Error: Violates foreign key constraint",
        modules=("ivm.capture.update",),
        issues=(25654, 16409, 20246),
    ),
    Fault(
        "rows_deleted_twice",
        does="a DELETE fails that meets a row of the running transaction twice, if it is in an"
        " index",
        right="the row goes once, as one of another transaction does",
        script="""CREATE TABLE t (i INTEGER PRIMARY KEY); BEGIN; INSERT INTO t VALUES (1);
            DELETE FROM t USING (VALUES (1), (1)) AS d(i) WHERE t.i = d.i""",
        outcome="InvalidInputException: Invalid Input Error: Failed to delete all rows from index",
        modules=("ivm.storage.warehouse.duckdb.appender",),
        seen=("1.5.6", "2.0.0"),
        mended=("2.0.1", [(1,)]),
    ),
    Fault(
        "attached_without_log",
        does="disable_checkpoint_on_shutdown, which is about our own file, holds for attached ones"
        " too: one that is attached without a write-ahead log loses all at DETACH",
        right="one table, as without that setting",
        script="""PRAGMA disable_checkpoint_on_shutdown;
            ATTACH '{folder}/a.duckdb' AS a (RECOVERY_MODE NO_WAL_WRITES);
            CREATE TABLE a.t AS SELECT 1 AS i; DETACH a; ATTACH '{folder}/a.duckdb' AS b;
            SELECT count(*) FROM duckdb_tables() WHERE database_name = 'b'""",
        outcome=[(0,)],
        modules=("ivm.storage.warehouse.attached",),
    ),
    Fault(
        "arrays_in_tuples",
        does="a TUPLE that holds an ARRAY of fixed length can be stored, but ends the process, or"
        " all further work, where such values are joined or grouped",
        right="9",
        script="""CREATE TABLE t AS SELECT ROW([1, 2]::INTEGER[2]) AS r FROM range(3);
            SELECT count(*) FROM t AS a JOIN t AS b ON a.r = b.r""",
        outcome=ENDS,
        modules=("ivm.catalog.fatal_types",),
        seen=("2.0.0", "2.0.0"),  # 1.5 had no such columns
        mended=("2.0.1", [(9,)]),
        apart=True,
    ),
    Fault(
        "asof_of_intervals",
        does="an ASOF join of INTERVALs is an internal error, after which the database answers"
        " nothing any more",
        right="(1,)",
        script="""CREATE TABLE t AS SELECT INTERVAL 1 DAY AS x, 1 AS n;
            SELECT a.n FROM t AS a ASOF JOIN t AS b ON a.x >= b.x""",
        outcome="InternalException: INTERNAL Error: Failed to cast expression to type",
        modules=("ivm.storage.warehouse.duckdb.duckdb_errors",),
        seen=("2.0.0", "2.0.0"),
        mended=("2.0.1", [(1,)]),
    ),
    Fault(
        "extreme_intervals",
        does="min(x, n) and max(x, n) of INTERVALs compare months before days, and days before the"
        " rest, as if a month were longer than 360 days",
        right="[INTERVAL 360 DAYS], as max(x) has it",
        script="""SELECT max(x, 1)::VARCHAR
            FROM (VALUES (INTERVAL 1 MONTH), (INTERVAL 360 DAYS)) AS t(x)""",
        outcome=[("[1 month]",)],
        modules=("ivm.delta_ops.aggregates.row_aggregates",),
    ),
    Fault(
        "unread_type_names",
        does="the name that DESCRIBE gives a type is not read: that of an aggregate's state, and of"
        " a geometry of an unknown coordinate system",
        right="every type has a name by which it can be written",
        script="""CREATE TABLE t AS SELECT sum(i) EXPORT_STATE AS s FROM range(3) AS r(i);
            SELECT NULL::AGGREGATE_STATE""",
        outcome="CatalogException: Catalog Error: Type with name AGGREGATE_STATE does not exist",
        modules=("ivm.storage.values.types",),
    ),
    Fault(
        "intervals_to_arrow",
        does="an INTERVAL of more than 2^63 nanoseconds beside its months and days wraps round",
        right="an error",
        script="SELECT INTERVAL '3000000 hours' AS i",
        outcome=[("MonthDayNano(months=0, days=0, nanoseconds=-7646744073709551616)",)],
        modules=("ivm.storage.warehouse.duckdb.carried",),
        way="to Arrow",
    ),
    Fault(
        "states_to_arrow",
        does="an aggregate's state that is a HUGEINT, UUID or BIT, as that of sum() is, ends the"
        " process where it goes to Arrow without loss",
        right="3",
        script="SELECT sum(i) EXPORT_STATE AS s FROM range(3) AS r(i)",
        outcome=ENDS,
        modules=("ivm.storage.warehouse.duckdb.carried",),
        seen=("2.0.0", "2.0.1"),
        way="to Arrow",
        apart=True,
    ),
    Fault(
        "members_to_arrow",
        does="a UNION whose member is NULL arrives as a NULL that is no UNION's",
        right="(False, 'a')",
        script="""SELECT union_value(a := NULL::INTEGER)::UNION(a INTEGER, b VARCHAR) AS u;
            SELECT u IS NULL, union_tag(u) FROM lent""",
        outcome=[(True, None)],
        modules=("ivm.storage.warehouse.duckdb.carried",),
        way="through Arrow",
    ),
    Fault(
        "merge_joins_in_recursion",
        does="a SEMI or ANTI JOIN by one inequality in a recursive step ends the database",
        right="[(9,)]",
        script="""WITH RECURSIVE w(a, b) AS (SELECT i, 0 FROM range(6) AS r(i)
            UNION SELECT a, b + 1 FROM (FROM w WHERE b < 3) AS l
            ANTI JOIN range(6) AS r(i) ON i > a)
            SELECT count(*) FROM w""",
        outcome="InternalException: INTERNAL Error: Attempted to dereference unique_ptr",
        modules=("ivm.sql.plan.render",),
        seen=("2.0.0", "2.0.0"),
        mended=("2.0.1", [(9,)]),
    ),
    Fault(
        "types_through_arrow",
        does="an ENUM comes back as VARCHAR and a TUPLE as a struct with names, in spite of"
        " arrow_lossless_conversion",
        right="the types that were given",
        script="""SELECT 'a'::ENUM('a', 'b') AS e, ROW(1, 2) AS r;
            SELECT typeof(e), typeof(r) FROM lent""",
        outcome=[("VARCHAR", "STRUCT(element1 INTEGER, element2 INTEGER)")],
        modules=("ivm.storage.warehouse.duckdb.duck",),
        seen=("2.0.0", "2.0.1"),  # 1.5 had no tuples with a type of their own
        way="through Arrow",
    ),
    Fault(
        "slices_from_arrow",
        does="a struct or union inside of another one is refused where it is a slice of a longer"
        " array (1.5 read the wrong rows)",
        right="({'a': {'b': 1}},)",
        script="SELECT {'a': {'b': i}} AS s FROM range(2) AS r(i); FROM lent",
        outcome="InvalidInputException: Invalid Input Error: an Arrow batch carried column 0",
        modules=("ivm.storage.values.column",),
        seen=("2.0.0", "2.0.0"),
        mended=("2.0.1", [({"a": {"b": 1}},)]),
        way="sliced",
    ),
    Fault(
        "empty_enum_lists",
        does="lists over a dictionary that are all empty are refused (1.5 ended the database)",
        right="([],)",
        script="SELECT []::ENUM('a')[] AS l; FROM lent",
        outcome="InvalidInputException: Invalid Input Error: an Arrow batch carried column 0",
        modules=("ivm.storage.values.types",),
        seen=("2.0.0", "2.0.0"),
        mended=("2.0.1", [([],)]),
        way="through Arrow",
    ),
    Fault(
        "enum_arrays",
        does="ENUMs in an array arrive as numbers",
        right="(('y',),)",
        script="SELECT ['y']::ENUM('x', 'y')[1] AS a; FROM lent",
        outcome=[((0,),)],
        modules=("ivm.storage.values.types",),
        seen=("2.0.0", "2.0.1"),
        way="through Arrow",
    ),
    Fault(
        "null_enum_maps",
        does="maps of ENUMs that are all NULL are an internal error, which ends the database",
        right="(None,)",
        script="SELECT NULL::MAP(ENUM('x', 'y'), ENUM('x', 'y')[]) AS m; FROM lent",
        outcome="InternalException: INTERNAL Error: Attempted to dereference unique_ptr",
        modules=("ivm.storage.values.types",),
        seen=("2.0.0", "2.0.0"),
        mended=("2.0.1", [(None,)]),
        way="through Arrow",
    ),
    Fault(
        "described_names",
        does="of a column that is renamed in capitals alone DESCRIBE tells the name in the table",
        right="V",
        script="""CREATE TABLE t (v INTEGER);
            SELECT column_name FROM (DESCRIBE SELECT v AS V FROM t)""",
        outcome=[("v",)],
        modules=("ivm.storage.warehouse.duckdb.duck",),
        seen=("2.0.0", "2.0.0"),
        mended=("2.0.1", [("V",)]),
    ),
    Fault(
        "counted_matches",
        does="UPDATE … FROM counts, and may return, a row that it changes once for each match",
        right="(1,)",
        script="""CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (0);
            UPDATE t SET a = b FROM (VALUES (1), (2)) AS u(b)""",
        outcome=[(2,)],
        modules=("ivm.capture.update",),
        seen=("2.0.1", "2.0.1"),
    ),
    Fault(
        "kept_interrupts",
        does="in a transaction the interrupt of an answer that is then dropped is raised where a"
        " relation over a view is made",
        right="(1,)",
        script="CREATE VIEW v AS SELECT 1 AS i; BEGIN; SELECT i FROM range(3) AS r(i); FROM v",
        outcome="InterruptException: INTERRUPT Error: Interrupted!",
        modules=("ivm.storage.warehouse.duckdb.duck",),
        seen=("2.0.0", "2.0.1"),
        way="given up",
    ),
    Fault(
        "signals_in_functions",
        does="KeyboardInterrupt or MemoryError in a Python function becomes an error of the"
        " function's input",
        right="the exception",
        script="SELECT interrupted()",
        outcome="InvalidInputException: Invalid Input Error: Python exception occurred while",
        modules=("ivm.storage.warehouse.duckdb.duckdb_errors",),
    ),
    Fault(
        "undecodable_messages",
        does="an error whose message quotes bytes that are no text becomes a UnicodeDecodeError,"
        " or has no message at all (by the version of Python)",
        right="a ConversionException with its message",
        script=r"SELECT '\xFF'::BLOB::UUID",
        outcome="an error without its message",
        modules=("ivm.ingest.literal_columns", "ivm.storage.warehouse.duckdb.duckdb_errors"),
    ),
)
