"""What roles may run: nothing that reaches files, settings or other databases, in any spelling."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as h

import ivm
from ivm.access import check
from ivm.access.check import Checks
from ivm.access.content import Definitions, definitions_of
from ivm.access.functions import allowed
from ivm.access.roles import Grant
from ivm.dispatch import _RUN, execute
from ivm.sql.statements import parse as st
from ivm.storage.errors import AccessError, IvmError, SqlError
from ivm.storage.identifiers import fold
from ivm.storage.warehouse.duckdb.duck import Cursor
from tests.tiers import examples

ROLES = ("read", "write")


class Served:
    """A database whose statements are checked for a role before they run."""

    def __init__(self) -> None:
        self.db = ivm.connect()
        self.checks = Checks(self.db._engine)

    def demand(self, role: str, sql: str, schema: str | None = None) -> None:
        """Checks a script, without running it."""
        session = self.db._session()
        for statement in st.parse(sql):
            self.checks.demand(session, Grant(role, schema), statement)

    def run(self, role: str, sql: str, schema: str | None = None) -> list[object]:
        """Checks and runs a statement."""
        self.demand(role, sql, schema)
        return list(execute(self.db._session(), sql).fetchall())


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    found = Served()
    found.db.execute("""
        CREATE SCHEMA s; CREATE TABLE s.u (a INTEGER);
        CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER); CREATE SEQUENCE numbers;
        CREATE SEQUENCE s.numbers;
        CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b;
        CREATE MATERIALIZED VIEW s.w AS SELECT b, sum(a) AS total FROM t GROUP BY b;
        CREATE VIEW plain AS SELECT * FROM t; CREATE VIEW s.plain AS SELECT * FROM t;
        CREATE VIEW of_file AS SELECT * FROM read_text('/etc/hostname');
        CREATE VIEW of_view AS SELECT * FROM of_file;
        CREATE MACRO twice(x) AS x * 2; CREATE MACRO reads(x) AS TABLE FROM read_text(x);
        CREATE MACRO hidden() AS (SELECT content FROM read_text('/etc/hostname'));
        CREATE MACRO above() AS lower(hidden());
        CREATE USER ann PASSWORD 'x' ROLE read;
        INSERT INTO t VALUES (1, 1), (2, 1);
    """)
    with found.db:
        yield found


def refused(served: Served, sql: str, schema: str | None = None) -> None:
    for role in ROLES:
        with pytest.raises(AccessError):
            served.demand(role, sql, schema)


@pytest.mark.full
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM t",
        "FROM v",
        "TABLE t",
        "VALUES (1, 'a')",
        "SELECT sum(b) OVER (ORDER BY a), rank() OVER () FROM plain WHERE a IN (SELECT a FROM t)",
        "SELECT x.a FROM t x, LATERAL (SELECT x.a), unnest([1]) ORDER BY ALL LIMIT 3",
        "WITH t AS (SELECT 1 AS a) FROM t UNION ALL FROM range(3)",
        "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r WHERE x < 3) FROM r",
        "WITH RECURSIVE r(x) AS (VALUES (1) UNION (WITH u AS (FROM r) FROM u WHERE x < 3)) FROM r",
        "WITH r AS (SELECT 1 AS x) FROM (WITH RECURSIVE r AS (FROM r UNION FROM r) FROM r)",
        "FROM (PIVOT t ON b IN (1, 2) USING sum(a))",
        "SELECT list_transform([1], lambda x: x + 1), {'a': 1}.a, [1, 2][1], 'a' LIKE 'b'",
        "SELECT twice(2), split_part('a', 'b', 1), now() > '2020-01-01', CAST('1' AS INTEGER)",
        "SELECT COLUMNS(*)::VARCHAR FROM t",
        "SHOW TABLES",
        "SHOW t",
        "DESCRIBE t",
        "DESCRIBE SELECT * FROM t",
        "SUMMARIZE t",
        "EXPLAIN SELECT * FROM t",
        "EXPLAIN ANALYZE SELECT * FROM t",
        "SELECT count(*) FROM information_schema.tables",
        "SELECT count(*) FROM pg_catalog.pg_class",
        "SHOW MATERIALIZED VIEWS",
        "EXPLAIN MATERIALIZED VIEW v",
        "SET TimeZone = 'UTC'",
    ],
)
def test_both_roles_read(served: Served, sql: str) -> None:
    for role in ROLES:
        served.run(role, sql)


@pytest.mark.full
@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t VALUES (3, 3)",
        "INSERT INTO t VALUES (4, 3) RETURNING a + 1",
        "INSERT INTO t VALUES (1, 3) ON CONFLICT (a) DO UPDATE SET b = excluded.b + 1",
        "INSERT INTO t SELECT a + 100, b FROM t",
        "INSERT INTO t SELECT nextval('numbers') + 1000, 1",
        "UPDATE t SET b = 5 WHERE a = 1",
        "UPDATE t SET b = (SELECT max(n) FROM v)",
        "DELETE FROM t USING v WHERE t.b = v.b",
        "TRUNCATE s.u",
    ],
)
def test_one_role_writes(served: Served, sql: str) -> None:
    with pytest.raises(AccessError, match="read"):
        served.demand("read", sql)
    served.run("write", sql)


@pytest.mark.cases(6)
@pytest.mark.parametrize(
    "sql",
    [
        "FROM '/etc/hostname.csv'",
        "FROM data.csv",
        'FROM "data.parquet"',
        "FROM 'https://example.org/a.parquet'",
        "SELECT (SELECT max(a) FROM 'a.csv') FROM t",
        "WITH x AS (FROM 'a.csv') SELECT 1",
        'SELECT (WITH "a.csv" AS (SELECT 1) FROM "a.csv"), * FROM "a.csv"',
        'WITH RECURSIVE "a.csv" AS (FROM "a.csv" UNION ALL FROM "a.csv") FROM "a.csv"',
        'INSERT INTO t WITH RECURSIVE "a.csv" AS (FROM "a.csv" UNION FROM "a.csv") FROM "a.csv"',
        "FROM t JOIN 'a.csv' USING (a)",
        "FROM t, LATERAL (SELECT t.a FROM 'a.csv')",
        "SELECT * FROM t WHERE EXISTS (FROM 'a.csv')",
        "FROM (PIVOT 'a.csv' ON b IN (1) USING sum(a))",
        "DESCRIBE 'a.csv'",
        "SUMMARIZE 'a.csv'",
        "SHOW 'a.csv'",
        "EXPLAIN FROM 'a.csv'",
        "EXPLAIN ANALYZE FROM 'a.csv'",
        "EXPLAIN (FORMAT json) FROM 'a.csv'",
        "FROM t ORDER BY (SELECT content FROM read_text('a'))",
        "FROM t LIMIT (SELECT 1 FROM read_text('a'))",
        "SELECT 1 WHERE (SELECT true FROM glob('*'))",
        "FROM range((SELECT 1 FROM read_text('a')))",
        "SELECT 'a'.read_text()",
        "SELECT current_setting('secret_directory')",
        "SHOW secret_directory",
        "FROM duckdb_settings()",
        "FROM pg_settings",
        "FROM query('FROM t')",
        "FROM query_table('t')",
        "SELECT json_serialize_plan('FROM ''a.csv''')",
        "FROM histogram('t', 'a')",
        "SELECT pg_sleep(100)",
        "FROM of_file",
        "FROM of_view",
        "FROM reads('a')",
        "SELECT hidden()",
        "SELECT above()",
        "PREPARE p AS FROM 'a.csv'",
        "PREPARE p AS SELECT hidden()",
        "PREPARE p AS INSERT INTO t SELECT 1, 1 FROM 'a.csv'",
        "INSERT INTO t SELECT * FROM 'a.csv'",
        "INSERT INTO t VALUES (9, 9) RETURNING (SELECT content FROM read_text('a'))",
        "INSERT INTO t VALUES (1, 1) ON CONFLICT (a) DO UPDATE SET b = (SELECT 1 FROM 'a.csv')",
        "UPDATE t SET b = (SELECT 1 FROM 'a.csv')",
        "UPDATE t SET b = 1 FROM 'a.csv'",
        "DELETE FROM t WHERE a = (SELECT 1 FROM read_text('a'))",
        "DELETE FROM t USING 'a.csv'",
        "MERGE INTO t USING 'a.csv' s ON t.a = s.a WHEN MATCHED THEN DELETE",
        "WITH x AS (COPY t TO 'f') SELECT 1",
        "WITH x AS (INSERT INTO t VALUES (9, 9) RETURNING a) FROM x",
        "EXPLAIN ANALYZE INSERT INTO t VALUES (9, 9)",
        "COPY t TO 'f'",
        "COPY (FROM t) TO 'f'",
        "COPY t FROM 'f'",
        "EXPORT DATABASE 'f'",
        "IMPORT DATABASE 'f'",
        "SET threads = 1",
        "SET GLOBAL TimeZone = 'UTC'",
        "SET TimeZone = (SELECT content FROM read_text('a'))",
        "SET VARIABLE x = (SELECT content FROM read_text('a'))",
        "RESET threads",
        "PRAGMA database_list",
        "CALL pragma_version()",
        "ATTACH 'f'",
        "DETACH f",
        "INSTALL httpfs",
        "LOAD httpfs",
        "UPDATE EXTENSIONS",
        "CHECKPOINT",
        "VACUUM",
        "USE s",
        "CREATE TABLE z AS FROM 'a.csv'",
        "CREATE TEMP TABLE z (a INTEGER)",
        "CREATE VIEW z AS FROM t",
        "CREATE MACRO z() AS 1",
        "CREATE SECRET z (TYPE s3)",
        "CREATE TABLE z FROM parquet 'a.parquet'",
        "ALTER TABLE t SET (retain = '1 day', retain_by = a)",
        "DROP TABLE t",
        "COMMENT ON TABLE t IS 'x'",
        "FROM elsewhere.main.plain",  # here is a view of this name
        """SELECT "<"(1, 2.5), "is distinct from"([1], 1)""",  # DuckDB does not survive it
        "SELECT __internal_decompress_string(1)",
        "FROM _ivm.users",
        "FROM _ivm.meta",
        "FROM memory._ivm.users",
        "INSERT INTO _ivm.users VALUES ('a', 'admin', NULL, '')",
        "SHOW USERS",
        "ALTER USER ann ROLE admin",
        "CREATE TOKEN x FOR USER ann",
        "PIVOT t ON b USING sum(a)",
    ],
)
def test_neither_role_reaches_outside(served: Served, sql: str) -> None:
    refused(served, sql)
    for before, after in (("", ";"), ("/* SELECT 1 */ ", " -- x"), ("SELECT 1; ", "; SELECT 2")):
        refused(served, f"{before}{sql}{after}")


def test_what_does_not_exist_is_for_nobody(served: Served) -> None:
    for sql in ("SELECT nothing(1)", "FROM s.nothing()", "EXPLAIN SELECT upper(nothing()) FROM t"):
        for role in ROLES:
            with pytest.raises(SqlError, match=r"the function nothing\(\) does not exist"):
                served.demand(role, sql)


def test_every_kind_of_statement_is_decided(served: Served) -> None:
    told = {
        "insert": "INSERT INTO t VALUES (1, 1)",
        "dml": "INSERT INTO t SELECT 7, 7",
        "keyed": "DELETE FROM t WHERE a = 1",
        "query": "FROM t",
        "transaction": "BEGIN",
        "prepare": "PREPARE p AS FROM t",
        "execute": "EXECUTE p",
        "deallocate": "DEALLOCATE p",
        "show": "SHOW MATERIALIZED VIEWS",
        "explain": "EXPLAIN MATERIALIZED VIEW v",
        "subscribe": "SUBSCRIBE v",
    }
    free = {type(st.parse(sql)[0]) for sql in told.values()}
    for_admins = [
        "CREATE TABLE z (a INTEGER)",
        "CHECKPOINT",
        "CREATE TABLE z FROM parquet 'f'",
        "ALTER TABLE t SET HISTORY 'f' AT EPOCH 1",
        "ALTER TABLE t RESET (retain)",
        "ALTER TABLE t SET WATERMARK FOR a AS a",
        "ALTER TABLE t ADVANCE WATERMARK TO now()",
        "CREATE MATERIALIZED VIEW z AS FROM t",
        "DROP MATERIALIZED VIEW v",
        "VERIFY MATERIALIZED VIEW v",
        "REFRESH MATERIALIZED VIEW v",
        "CREATE SOURCE z INTO t FROM FILES (path 'f', format 'json')",
        "DROP SOURCE z",
        "SHOW SOURCES",
        "CREATE SINK z FROM v INTO FILES (path 'f')",
        "DROP SINK z",
        "SHOW SINKS",
        "CREATE USER z PASSWORD 'x' ROLE admin",
        "CREATE TOKEN z FOR USER ann",
        "SHOW USERS",
    ]
    for sql in for_admins:
        refused(served, sql)
        served.demand("admin", sql)
    assert free | {type(st.parse(sql)[0]) for sql in for_admins} == _RUN.keys()


@pytest.mark.full
def test_every_function_is_decided(served: Served) -> None:
    """Each function of DuckDB's that is not on the list is refused, however it is written."""
    with duckdb.connect() as empty:
        listed = empty.execute(
            "SELECT DISTINCT function_name, function_type FROM duckdb_functions()"
        ).fetchall()
    functions = allowed()
    tables = {fold(name) for name, kind in listed if kind == "table"}
    assert functions.tables <= tables
    reaching = sorted(tables - functions.tables - {"json_execute_serialized_sql"})  # no statement
    assert {"read_csv", "read_text", "glob", "arrow_scan", "query"} <= set(reaching)
    for name in reaching:
        for call in (name, name.upper(), f'"{name}"', f"main.{name}", f"system.main.{name}"):
            refused(served, f"FROM {call}('a')")
            refused(served, f"INSERT INTO t FROM {call} /* */ ('a')")
    scalars = {fold(name) for name, kind in listed if kind == "scalar"}
    for name in sorted(scalars - functions.scalars - functions.tables - {"nextval"}):
        refused(served, f'SELECT "{name}"(1)')


def test_the_functions_beside_the_consistent_ones_were_looked_at() -> None:
    """A new version of DuckDB has other ones, which somebody has to look at."""
    with duckdb.connect() as empty:
        listed = empty.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions()"
            " WHERE function_type = 'scalar' AND stability <> 'CONSISTENT'"
        ).fetchall()
    refused_ones = {name for (name,) in listed} - allowed().scalars
    assert refused_ones == {
        *("current_setting", "nextval", "setval", "sleep_ms", "stats", "vector_type", "write_log")
    }


def test_prepared_statements_are_looked_through(served: Served) -> None:
    served.run("write", "PREPARE asked AS SELECT * FROM t WHERE a = ?")
    served.run("read", "EXECUTE asked(1)")
    served.run("write", "PREPARE by_name AS SELECT * FROM t WHERE a = $key")
    served.run("read", "EXECUTE by_name(key := 1)")
    with pytest.raises(IvmError):  # DuckDB takes constants alone
        served.demand("read", "EXECUTE asked((SELECT 1 FROM read_text('a')))")
    served.db.execute("PREPARE reading AS SELECT * FROM read_text('/etc/hostname')")
    refused(served, "EXECUTE reading")
    refused(served, "EXPLAIN EXECUTE reading")
    served.db.execute("DEALLOCATE asked; DEALLOCATE by_name; DEALLOCATE reading")


@pytest.mark.full
def test_a_macro_of_another_database_is_none_of_duckdbs_own(served: Served, tmp_path: Path) -> None:
    """Even if it has the name of one that every role may call."""
    with duckdb.connect(tmp_path / "aside.duckdb") as aside:
        aside.execute("""
            CREATE SCHEMA s; CREATE TABLE kept (a INTEGER); CREATE MACRO s.lower(x) AS x;
            CREATE MACRO today() AS (SELECT max(a) FROM aside.main.kept);
            CREATE MACRO range(x) AS TABLE FROM aside.main.kept
        """)
    served.db.execute(f"ATTACH '{tmp_path / 'aside.duckdb'}'")
    served.db.execute("CREATE MACRO calls() AS aside.today()")
    for sql in (
        *("SELECT aside.today()", "SELECT aside.main.today()", 'SELECT "ASIDE".s.lower(1)'),
        *("FROM aside.range(1)", "FROM aside.main.range(1)", "SELECT calls()"),
        "INSERT INTO t SELECT aside.today(), 1",
    ):
        refused(served, sql)
    served.run("read", "SELECT today(), main.lower('A'), system.main.upper('a') FROM range(1)")
    served.db.execute("DROP MACRO calls; DETACH aside")


def test_a_schema_limits_relations(served: Served) -> None:
    for sql in ("FROM s.u", "FROM s.w", "FROM S.W", "WITH t AS (SELECT 1) FROM t", "SELECT 1"):
        served.run("read", sql, "s")
    served.run("write", "INSERT INTO s.u VALUES (1)", "s")
    served.run("write", "INSERT INTO s.u SELECT nextval('s.numbers')", "s")
    for sequence in ("'numbers'", "'main.numbers'", "concat('s.', 'numbers')"):
        refused(served, f"INSERT INTO s.u SELECT nextval({sequence})", "s")
    for sql in (
        *("FROM t", "FROM main.t", "FROM v", "FROM s.plain", "WITH t AS (FROM t) FROM t"),
        *("SELECT 1 WHERE 1 IN (SELECT a FROM t)", "INSERT INTO t VALUES (1, 1)"),
        "WITH RECURSIVE t AS (FROM t UNION ALL FROM t WHERE false) FROM t",  # the first t is ours
        *("INSERT INTO s.u SELECT a FROM t", "EXPLAIN MATERIALIZED VIEW v", "SHOW t"),
    ):
        refused(served, sql, "s")


def test_names_in_a_view_mean_those_of_its_schema(served: Served) -> None:
    served.db.execute("""
        CREATE SCHEMA own; CREATE TABLE own.t (c VARCHAR); INSERT INTO own.t VALUES ('own');
        CREATE MACRO all_of_t() AS TABLE FROM t; CREATE SEQUENCE own.numbers;
        CREATE VIEW own.plain AS SELECT c FROM t; CREATE VIEW own.nested AS SELECT c FROM plain;
        CREATE VIEW own.called AS FROM all_of_t(); CREATE VIEW own.other AS SELECT b FROM v;
        CREATE VIEW own.of_file AS SELECT 1 AS a; CREATE VIEW of_own AS FROM own.plain;
        CREATE VIEW own.counted AS SELECT nextval('numbers');
    """)
    for view in ("own.plain", "own.nested", "own.called", "memory.own.plain", "of_own"):
        assert served.run("read", f"FROM {view}", "own") == [("own",)]
        refused(served, f"FROM {view}", "main")
    served.run("read", "FROM own.other", "main")
    refused(served, "FROM own.other", "own")
    refused(served, "FROM own.counted", "main")
    for view in ("plain", "main.plain", "memory.plain"):  # own.plain is another view
        served.run("read", f"FROM {view}", "main")
    refused(served, "FROM of_file")
    served.run("read", "FROM own.of_file", "own")
    served.db.execute("DROP SCHEMA own CASCADE; DROP VIEW of_own; DROP MACRO TABLE all_of_t")


@pytest.mark.full
def test_answers_are_forgotten_when_definitions_change(served: Served) -> None:
    served.db.execute("CREATE VIEW changing AS SELECT 1 AS a")
    served.demand("read", "FROM changing")
    served.db.execute("CREATE OR REPLACE VIEW changing AS FROM read_text('/etc/hostname')")
    refused(served, "FROM changing")
    served.db.execute("DROP VIEW changing")


@pytest.mark.full
def test_names_mean_what_is_committed(served: Served) -> None:
    """What another session has open is not what a role's statement reads."""
    served.db.execute("CREATE VIEW s.shown AS FROM main.t")
    with served.db.connection() as other:
        other.execute("BEGIN; DROP VIEW s.shown; CREATE TABLE s.shown (a INTEGER)")
        other.execute("DROP TABLE s.u; CREATE TABLE s.made (a INTEGER)")
        refused(served, "FROM s.shown", "s")
        refused(served, "FROM s.made", "s")
        served.run("read", "FROM s.u", "s")
        served.demand("write", "INSERT INTO s.u VALUES (1)", "s")
        other.execute("ROLLBACK")
    served.db.execute("DROP VIEW s.shown")


@pytest.mark.full
def test_definitions_that_change_while_they_are_read_are_not_kept(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    db, made = served.db, definitions_of
    db.execute("CREATE VIEW changing AS SELECT 1 AS a")

    def read(cursor: Cursor) -> Definitions:
        found = made(cursor)
        monkeypatch.setattr(check, "definitions_of", made)
        db.execute("CREATE OR REPLACE VIEW changing AS FROM read_text('/etc/hostname')")
        served.demand("read", "SELECT 1")  # another session's, that reads the new ones
        return found

    monkeypatch.setattr(check, "definitions_of", read)
    served.demand("read", "FROM changing")
    refused(served, "FROM changing")
    db.execute("DROP VIEW changing")


@pytest.mark.full
def test_a_view_that_is_replaced_while_a_query_begins_is_looked_through(served: Served) -> None:
    db, session = served.db, served.db._session()
    db.execute("CREATE VIEW changing AS SELECT 1 AS a")
    [query] = st.parse("FROM changing")
    with served.checks.allowing(session, Grant("read"), query):
        db.execute("CREATE OR REPLACE VIEW changing AS SELECT 2 AS a")
    with (
        pytest.raises(AccessError, match="read_text"),
        served.checks.allowing(session, Grant("read"), query),
    ):
        db.execute("CREATE OR REPLACE VIEW changing AS FROM read_text('/etc/hostname')")
    db.execute("DROP VIEW changing")


@pytest.mark.full
def test_names_in_a_read_only_transaction_mean_those_of_its_snapshot(served: Served) -> None:
    served.db.execute("CREATE VIEW s.changing AS FROM main.t; CREATE MACRO s_a() AS 1")
    with served.db.connection() as reader:
        session = reader._session

        def demand(sql: str) -> None:
            [statement] = st.parse(sql)
            with served.checks.allowing(session, Grant("read", "s"), statement):
                execute(session, sql).fetchall()

        reader.execute("BEGIN TRANSACTION READ ONLY")
        demand("FROM s.u")
        served.db.execute("CREATE OR REPLACE VIEW s.changing AS FROM s.u")
        served.db.execute("CREATE OR REPLACE MACRO s_a() AS (SELECT max(a) FROM main.t)")
        for _ in range(2):
            with pytest.raises(AccessError, match="in the view changing"):
                demand("FROM s.changing")
            demand("SELECT s_a()")
        reader.execute("COMMIT")
        demand("FROM s.changing")
        with pytest.raises(AccessError, match="in the macro s_a"):
            demand("SELECT s_a()")
    served.db.execute("DROP VIEW s.changing; DROP MACRO s_a")


@pytest.mark.full
def test_arguments_are_looked_through_with_the_newest_definitions(served: Served) -> None:
    served.db.execute("PREPARE adding AS INSERT INTO t VALUES (?, 1)")
    served.db.execute("CREATE MACRO changing() AS 1")
    served.demand("write", "EXECUTE adding(changing())")
    served.db.execute("CREATE OR REPLACE MACRO changing() AS hidden()")
    refused(served, "EXECUTE adding(changing())")
    served.db.execute("DROP MACRO changing; DEALLOCATE adding")


def test_a_name_of_the_server_is_no_table(served: Served, tmp_path: Path) -> None:
    with pytest.raises(AccessError):
        served.demand("read", f"FROM '{tmp_path}/x.json'")


_FILES = ("'a.csv'", "read_text('a')", "READ_CSV ('a')", "main.\"glob\"('*')", "of_view")
_WRAPS = (
    "SELECT * FROM ({0})",
    "WITH x AS ({0}) FROM x",
    "{0} UNION ALL SELECT 1, 2",
    "SELECT (SELECT count(*) FROM ({0}))",
    "EXPLAIN {0}",
    "SELECT * FROM t WHERE a IN ({0})",
    "SELECT twice((SELECT 1 FROM ({0})))",
    "SELECT list_transform([1], lambda x: (SELECT 1 FROM ({0})))",
    "FROM t x, LATERAL ({0})",
    "SELECT sum(a) FILTER (EXISTS ({0})) OVER (PARTITION BY ({0})) FROM t",
    "SELECT CASE WHEN EXISTS ({0}) THEN 1 END",
    "FROM t QUALIFY row_number() OVER (ORDER BY ({0})) = 1",
    "FROM t GROUP BY ALL HAVING EXISTS ({0})",
    "SELECT COLUMNS(c -> EXISTS ({0})) FROM t",
    "DESCRIBE {0}",
)


@pytest.mark.full
@settings(max_examples=examples(150), deadline=None)
@given(h.sampled_from(_FILES), h.lists(h.sampled_from(_WRAPS), max_size=4))
def test_no_nesting_hides_a_file(file: str, wraps: list[str]) -> None:
    sql = f"SELECT * FROM {file}"
    for wrap in wraps:
        sql = wrap.format(sql)
    try:
        st.parse(sql)
    except IvmError:
        return  # DuckDB would not run it
    refused(_kept(), sql)


_shared: list[Served] = []


def _kept() -> Served:
    """One database for all examples."""
    if not _shared:
        found = Served()
        found.db.execute("""
            CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER); CREATE MACRO twice(x) AS x * 2;
            CREATE VIEW of_file AS SELECT * FROM read_text('/etc/hostname');
            CREATE VIEW of_view AS SELECT * FROM of_file;
        """)
        _shared.append(found)
    return _shared[0]


def test_the_wraps_themselves_are_allowed() -> None:
    """So that it is the file for which they are refused."""
    good = [wrap.format("SELECT a, b FROM t") for wrap in _WRAPS]
    served, passed = _kept(), 0
    for sql in good:
        try:
            statements = st.parse(sql)
        except IvmError:
            continue
        for statement in statements:
            served.checks.demand(served.db._session(), Grant("read"), statement)
        passed += 1
    assert passed > len(good) * 3 // 4
    served.db.close()
    _shared.clear()


def test_whoever_reads_a_table_may_know_its_watermark() -> None:
    served = Served()
    with served.db as db:
        db.execute("""
            CREATE SCHEMA s; CREATE TABLE s.u (ts TIMESTAMP, WATERMARK FOR ts AS ts);
            CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts);
            CREATE VIEW open AS FROM t WHERE ts >= watermark('t');
        """)
        for role in ROLES:
            assert served.run(role, "SELECT watermark('t'), watermark('s.u')") == [(None, None)]
            assert served.run(role, "FROM open") == []
            assert served.run(role, "SELECT watermark('s.u')", "s") == [(None,)]
            for sql, schema in (
                ("SELECT watermark('t')", "s"),
                ("FROM open", "s"),
                ("FROM _ivm.watermarks", None),
                ('FROM _ivm."watermark nope"', None),
            ):
                with pytest.raises(AccessError):
                    served.demand(role, sql, schema)
