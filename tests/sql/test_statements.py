"""Splitting scripts into statements and telling their kinds; DuckDB's parser is the oracle."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.sql.statements.nodes.expressions import Expression
from ivm.sql.statements.nodes.nodes import Conflict
from ivm.sql.statements.parse import (
    CreateView,
    Ddl,
    Deallocate,
    Dml,
    DropView,
    Execute,
    ExplainView,
    Insert,
    Other,
    Prepare,
    Query,
    ShowViews,
    Statement,
    Subscribe,
    TransactionControl,
    VerifyView,
    parse,
)
from ivm.sql.statements.text.tokens import tokens
from ivm.storage.errors import SqlError, UnsupportedError
from tests.tiers import examples


def one(sql: str) -> Statement:
    (statement,) = parse(sql)
    return statement


def dml(sql: str) -> Dml:
    statement = one(sql)
    assert isinstance(statement, Dml)
    return statement


def ddl(sql: str) -> Ddl:
    statement = one(sql)
    assert isinstance(statement, Ddl)
    return statement


# --- splitting ---


def test_semicolons_inside_tokens_do_not_split() -> None:
    script = "SELECT ';', $$;$$, $q$;$q$, \";\" /* ; /* ; */ ; */ FROM t -- ;\n; ;; SELECT E'\\';'"
    texts = [s.text for s in parse(script)]
    assert texts == [script[: script.index(" -- ;")], "SELECT E'\\';'"]


def test_offsets_count_characters() -> None:
    script = "SELECT 'é'; -- ü\n  CREATE MATERIALIZED VIEW ñ AS SELECT 'ö;' AS x"
    view = parse(script)[1]
    assert script[view.offset :] == view.text
    assert isinstance(view, CreateView)
    assert view.name == ("ñ",)
    assert view.text[view.query_offset :] == view.query == "SELECT 'ö;' AS x"


def test_blanks_beyond_ascii_are_blanks_outside_of_texts() -> None:
    insert = "INSERT\u3000INTO\u2003t\u00a0VALUES (1,\u200b'ä\u3000b')\ufeff"
    script = insert + '; DELETE\u202fFROM "a\u00a0b"'
    found = tokens(script)
    assert [token.text for token in found[:4]] == ["INSERT", "INTO", "t", "VALUES"]
    assert "'ä\u3000b'" in [token.text for token in found]
    assert [token.text for token in found[-4:]] == [";", "DELETE", "FROM", '"a\u00a0b"']
    assert all(script[token.start : token.end] == token.text for token in found)


def test_words_of_operators_and_types_begin_no_clause() -> None:
    sql = "SELECT DISTINCT a is not distinct /* ! */ FROM b, c::TIMESTAMP WITH time zone FROM t"
    words = [token.word for token in tokens(sql)]
    assert [words.count(word) for word in ("DISTINCT", "FROM", "WITH")] == [1, 1, 0]
    assert words[-2:] == ["FROM", "T"]
    assert tokens("WITH time AS (FROM t) FROM time")[0].word == "WITH"


def test_empty_scripts_have_no_statements() -> None:
    assert parse("") == parse(" ;; -- nothing\n;") == ()


PIECES = (
    "SELECT 1",
    "SELECT ';' AS \"a;b\"",
    "INSERT INTO t VALUES (1, 'x;''y')",
    "UPDATE t SET a = $$;$$",
    "CREATE TABLE t (a INT /* ; */)",
    "DROP TABLE IF EXISTS ü",
    "FROM t",
    "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE",
    "WITH c AS (SELECT 1) DELETE FROM t USING c",
    "COPY t FROM 'a;b.csv'",
    "BEGIN",
    "SET threads = 1",
)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from((";", " ; ", ";--;\n")))))
def test_split_agrees_with_duckdb(parts: list[tuple[str, str]]) -> None:
    script = "".join(piece + end for piece, end in parts)
    found = parse(script)
    assert [s.text for s in found] == [piece for piece, _ in parts]
    assert all(script.startswith(s.text, s.offset) for s in found)
    if parts:
        assert len(duckdb.connect().extract_statements(script)) == len(found)


# --- our own statements ---


def test_create_view_keeps_the_query_verbatim() -> None:
    sql = 'CREATE OR REPLACE MATERIALIZED VIEW "a b".v (x, "Y") AS /* c */ FROM t  -- end'
    view = one(sql)
    assert isinstance(view, CreateView)
    assert (view.name, view.columns, view.query) == (("a b", "v"), ("x", "Y"), "FROM t")
    assert (view.replace, view.if_not_exists) == (True, False)


def test_the_other_statements_on_views() -> None:
    names = (("a",), ("s", "b"))
    sql = "DROP MATERIALIZED VIEW IF EXISTS a, s.b CASCADE"
    assert one(sql) == DropView(sql, 0, names, True, True)
    sql = "EXPLAIN (ANALYZE, FORMAT json) MATERIALIZED VIEW v"
    assert one(sql) == ExplainView(sql, 0, ("v",), True, "json")
    sql = "EXPLAIN (analyze true, format 'JSON') MATERIALIZED VIEW v"
    assert one(sql) == ExplainView(sql, 0, ("v",), True, "json")
    with pytest.raises(UnsupportedError, match="runs the statement all the same"):
        one("EXPLAIN (ANALYZE false) DELETE FROM t")
    with pytest.raises(UnsupportedError, match="write the statement itself"):
        one('FROM "json_execute_serialized_sql"($1)')
    sql = "EXPLAIN ANALYZE MATERIALIZED VIEW v"
    assert one(sql) == ExplainView(sql, 0, ("v",), True, "text")
    sql = "verify materialized view s.v"
    assert one(sql) == VerifyView(sql, 0, ("s", "v"))
    assert one("VERIFY MATERIALIZED VIEWS") == VerifyView("VERIFY MATERIALIZED VIEWS", 0, None)
    assert one("SHOW MATERIALIZED VIEWS") == ShowViews("SHOW MATERIALIZED VIEWS", 0)
    assert one("SUBSCRIBE TO v") == Subscribe("SUBSCRIBE TO v", 0, ("v",))
    assert one("SUBSCRIBE v") == Subscribe("SUBSCRIBE v", 0, ("v",))


@pytest.mark.parametrize(
    ("sql", "position"),
    [
        ("SELECT 1; SELEC 2", 10),
        ("SELECT 'é', 'x", 12),
        ("CREATE MATERIALIZED VIEW AS SELECT 1", 28),
        ("CREATE MATERIALIZED VIEW v AS", 29),
        ("CREATE MATERIALIZED VIEW v AS\nSELECT a b c FROM t", 41),
        ("CREATE MATERIALIZED VIEW v AS INSERT INTO t VALUES (1)", 30),
        ("SELECT 1; VERIFY VIEW v", 17),
        ("SUBSCRIBE", 9),
        ("DROP MATERIALIZED VIEW a b", 25),
        ("SELECT ?, $1 + $name", 0),
        ("INSERT INTO t VALUES (1,, 2)", 24),
    ],
)
def test_errors_have_a_position(sql: str, position: int) -> None:
    with pytest.raises(SqlError) as error:
        parse(sql)
    assert error.value.position == position


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER MATERIALIZED VIEW v RENAME TO w",
        "CREATE TABLE x AS (WITH d AS (DELETE FROM t RETURNING *) FROM d)",
    ],
)
def test_what_has_no_meaning_names_the_way_out(sql: str) -> None:
    with pytest.raises(UnsupportedError, match=r"use|run"):
        parse(sql)


# --- changes ---


def test_kinds_of_insert() -> None:
    fast = one('INSERT INTO s."T" (a, "b c") VALUES (1, ?), (2, ?)')
    assert isinstance(fast, Insert)
    assert (fast.table, fast.insertion.columns, fast.rows.count) == (("s", "T"), ("a", "b c"), 2)
    assert type(one("INSERT INTO t VALUES (DEFAULT)")) is Dml
    clauses = one("INSERT INTO t VALUES (?) ON CONFLICT DO UPDATE SET a = ? RETURNING a, b")
    assert isinstance(clauses, Insert)
    assert clauses.insertion.conflict == Conflict(None, (("a", Expression('"?0"', (1,))),))
    assert (clauses.insertion.returned, clauses.parameters) == ("a, b", frozenset({0, 1}))
    assert type(one("INSERT INTO t VALUES (1) ON CONFLICT (a) WHERE b DO NOTHING")) is Dml
    assert dml("INSERT INTO t VALUES (1) RETURNING *").returning
    assert dml("INSERT OR REPLACE INTO t VALUES (1)").or_action == "replace"
    assert dml("INSERT OR IGNORE INTO t VALUES (1)").or_action == "ignore"
    assert dml("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING").on_conflict
    assert dml("INSERT INTO t (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET b = 1").on_conflict
    assert dml("INSERT INTO t AS x BY NAME SELECT 1 AS a").alias == "x"
    assert dml("INSERT INTO t (SELECT 1)").sources
    joined = dml("INSERT INTO t SELECT 1 FROM a JOIN b ON conflict = 1")
    assert not joined.on_conflict


def test_kinds_of_other_changes() -> None:
    update = dml("UPDATE s.t AS x SET a = 1 FROM u WHERE x.a = u.a RETURNING *")
    assert (update.kind, update.table, update.alias) == ("update", ("s", "t"), "x")
    assert (update.returning, update.sources) == (True, True)
    assert dml("UPDATE t x SET a = (SELECT 1 FROM u)").alias == "x"
    assert not dml("UPDATE t SET a = (SELECT 1 FROM u)").sources
    delete = dml("DELETE FROM t USING u WHERE t.a = u.a")
    assert (delete.kind, delete.alias, delete.sources) == ("delete", None, True)
    assert dml("MERGE INTO t AS x USING u ON x.a = u.a WHEN MATCHED THEN DELETE").alias == "x"
    assert dml("TRUNCATE TABLE t").table == dml("TRUNCATE t").table == ("t",)
    assert dml("COPY s.t (a, b) FROM 'x.csv' (HEADER)").table == ("s", "t")


def test_with_before_a_change() -> None:
    sql = "WITH a AS (SELECT 1), b (x) AS MATERIALIZED (SELECT 2) INSERT INTO t FROM a"
    change = dml(sql)
    assert (change.kind, change.table) == ("insert", ("t",))
    assert sql[change.body :] == "INSERT INTO t FROM a"
    recursive = "WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT n FROM r) UPDATE t SET a = 1"
    assert dml(recursive).kind == "update"


@pytest.mark.parametrize(
    "sql",
    [
        "WITH d AS (DELETE FROM t RETURNING *) SELECT * FROM d",
        "WITH d AS (UPDATE t AS x SET a = 1 RETURNING *) SELECT * FROM d",
        "WITH d AS (INSERT INTO t VALUES (1) RETURNING *) INSERT INTO u FROM d",
        "INSERT INTO u WITH d AS (DELETE FROM t RETURNING *) FROM d",
        "WITH d AS (WITH e AS (SELECT 1) INSERT INTO t FROM e RETURNING *) SELECT * FROM d",
        "EXPLAIN ANALYZE INSERT INTO t VALUES (1)",
        "COPY (WITH d AS (DELETE FROM t RETURNING *) FROM d) TO 'x'",
    ],
)
def test_hidden_changes_are_no_queries(sql: str) -> None:
    assert dml(sql).kind == "other"


# --- everything else ---


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT 1", "select"),
        ("(SELECT 1) UNION (SELECT 2)", "select"),
        ("FROM t", "from"),
        ("WITH a AS (SELECT 1) FROM a", "with"),
        ("VALUES (1)", "values"),
        ("EXPLAIN SELECT 1", "explain"),
        ("EXPLAIN ANALYZE SELECT 1", "explain"),
        ("DESCRIBE t", "describe"),
        ("SHOW TABLES", "show"),
        ("SUMMARIZE t", "summarize"),
        ("PIVOT t ON a USING sum(b)", "pivot"),
        ("COPY t TO 'x.csv'", "copy"),
        ("COPY (SELECT 1) TO 'x.csv'", "copy"),
        ("EXPORT DATABASE 'x'", "export"),
    ],
)
def test_queries(sql: str, kind: str) -> None:
    found = one(sql)
    assert isinstance(found, Query)
    assert (found.text, found.offset, found.kind) == (sql, 0, kind)


def test_explain_knows_the_query_that_it_does_not_run() -> None:
    explained = one("EXPLAIN SELECT 1")
    assert isinstance(explained, Query)
    assert explained.explained == Query("SELECT 1", 8, "select")
    analyzed = one("EXPLAIN ANALYZE SELECT 1")
    assert isinstance(analyzed, Query)
    assert analyzed.explained is None


def test_explain_of_a_change() -> None:
    explained = one("EXPLAIN INSERT INTO t VALUES (1)")
    assert isinstance(explained, Query)
    assert isinstance(explained.explained, Insert)


def test_transactions() -> None:
    actions = {"BEGIN": "begin", "START TRANSACTION": "begin", "COMMIT": "commit", "END": "commit"}
    for sql, action in (actions | {"ROLLBACK": "rollback", "ABORT": "rollback"}).items():
        assert one(sql) == TransactionControl(sql, 0, action)
    sql = "BEGIN TRANSACTION READ ONLY"
    assert one(sql) == TransactionControl(sql, 0, "begin", read_only=True)


def test_prepared_statements() -> None:
    sql = "SELECT 1; PREPARE p AS INSERT INTO t VALUES (?)"
    prepared = parse(sql)[1]
    assert isinstance(prepared, Prepare)
    assert isinstance(prepared.statement, Insert)
    assert prepared.text[prepared.statement.offset :] == prepared.statement.text
    assert one("EXECUTE p(1, 'a)')") == Execute("EXECUTE p(1, 'a)')", 0, "p", "1, 'a)'")
    assert one("EXECUTE p") == Execute("EXECUTE p", 0, "p", "")
    assert one("DEALLOCATE PREPARE p") == Deallocate("DEALLOCATE PREPARE p", 0, "p")


def test_ddl_heads() -> None:
    table = ddl("CREATE OR REPLACE TEMP TABLE s.t AS SELECT 1")
    assert (table.action, table.target, table.name) == ("create", "table", ("s", "t"))
    assert (table.replace, table.temporary, table.if_exists) == (True, True, False)
    index = ddl("CREATE UNIQUE INDEX IF NOT EXISTS i ON s.t (a)")
    assert (index.target, index.name, index.on) == ("index", ("i",), ("s", "t"))
    trigger = ddl("CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW INSERT INTO u VALUES (1)")
    assert (trigger.target, trigger.on) == ("trigger", ("t",))
    assert ddl("CREATE FUNCTION f(a) AS TABLE SELECT 1").target == "macro"
    assert ddl("CREATE SECRET (TYPE s3)").names == ()
    dropped = ddl("DROP TABLE IF EXISTS a CASCADE")
    assert (dropped.name, dropped.if_exists, dropped.cascade) == (("a",), True, True)
    assert ddl("DROP MACRO TABLE f").name == ("f",)
    assert ddl("COMMENT ON COLUMN t.a IS 'x'").name == ("t", "a")


@pytest.mark.parametrize(
    "change",
    [
        "RENAME TO u",
        "RENAME COLUMN a TO b",
        "ADD COLUMN IF NOT EXISTS c INT",
        "DROP c CASCADE",
        'ALTER COLUMN "c c" SET NOT NULL',
        "ADD PRIMARY KEY (a)",
    ],
)
def test_alter(change: str) -> None:
    found = ddl(f"ALTER TABLE IF EXISTS t {change}")
    assert (found.action, found.target, found.name) == ("alter", "table", ("t",))
    assert (found.if_exists, found.cascade) == (True, "CASCADE" in change)


def test_session_statements() -> None:
    attached = ddl("ATTACH IF NOT EXISTS 'f.db' AS f")
    assert (attached.action, attached.name) == ("attach", ("f",))
    assert ddl("DETACH DATABASE f").name == ("f",)
    assert ddl("USE a.b").name == ("a", "b")
    assert ddl("SET VARIABLE x = 1").target == "variable"
    assert ddl("SET GLOBAL threads = 2").name == ("threads",)
    assert ddl("PRAGMA database_list").action == "pragma"
    assert ddl("CALL pragma_version()").action == "call"
    assert ddl("UPDATE EXTENSIONS").action == "update"
    assert one("CHECKPOINT") == Other("CHECKPOINT", 0, "checkpoint")


def test_texts_are_cached() -> None:
    sql = "INSERT INTO t VALUES (?, ?)"
    assert parse(sql) is parse(sql)


@pytest.mark.parametrize(
    ("passed", "refused"),
    [
        ("SELECT 'a', 1", "SELECT 'a, 1"),
        ("SELECT 'a', 1", "SELECT 'a'', 1"),
        ("SELECT 1 AS x", "SELECT 1.5.5 AS x"),
        ("SELECT $1", "SELECT $0"),
        ("SELECT 'a'\n'b'", "SELECT 'a' 'b'"),
    ],
)
def test_a_statement_is_refused_beside_one_that_differs_in_literals(
    passed: str, refused: str
) -> None:
    parse(passed)
    parse(passed.replace("1", "2").replace("'a'", "'c'"))
    with pytest.raises(SqlError):
        parse(refused)


def test_a_long_insert_of_literals_is_not_tokenized() -> None:
    rows = ", ".join(f"({i}, 'it''s {i}')" for i in range(2000))
    fast = one(f"INSERT INTO t VALUES {rows};")
    assert isinstance(fast, Insert)
    assert fast.rows.count == 2000
    slow = parse(f"INSERT INTO t VALUES {rows}; SELECT 1")
    assert [type(s) for s in slow] == [Insert, Query]
    ignoring = one(f"INSERT INTO t VALUES {rows} ON CONFLICT DO NOTHING;")
    assert isinstance(ignoring, Insert)
    assert (ignoring.rows.count, ignoring.insertion.conflict) == (2000, Conflict())
    with pytest.raises(SqlError):
        parse(f"INSERT INTO t VALUES {rows} ON CONFLICT DO NOTHING WHERE a b")


def test_with_ties_is_answered_by_what_duckdb_has() -> None:
    script = "SELECT * FROM t ORDER BY a FETCH FIRST 2 ROWS WITH TIES"
    with pytest.raises(SqlError, match="QUALIFY rank"):
        parse(script)


@pytest.mark.parametrize(
    ("script", "position"),
    [("SELECT 1 /* x", 9), ("SELECT 'é'; /* a /* b */", 12), ("/* x\nSELECT 1;", 0)],
)
def test_a_comment_that_nothing_ends_hides_no_statement(script: str, position: int) -> None:
    with pytest.raises(SqlError, match="unterminated /\\* comment") as caught:
        parse(script)
    assert caught.value.position == position


@pytest.mark.parametrize(
    "script", ["/* a /* b */ */ SELECT '/* c'", "SELECT 1 -- /* c", "SELECT 1 /**/"]
)
def test_comments_that_end(script: str) -> None:
    assert type(one(script)) is Query
