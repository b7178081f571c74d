"""What is kept of statements is what is found anew, whatever has changed between: the rights to run
them, which words are the user's name, their parameters' types, and whether their columns are those
that were told."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import duckdb
import pytest

import ivm
from ivm.access.check import Checks
from ivm.access.roles import Grant
from ivm.serve import definition_texts, session_values
from ivm.serve.kept_by_meaning import meaning_of
from ivm.serve.pg.statements.describe import KnownParameters, result_columns
from ivm.serve.session_values import SessionValues, with_values
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.storage.errors import IvmError
from tests.tiers import examples

GRANTS = Grant("read"), Grant("write"), Grant("read", "s")
MADE = """
    CREATE SCHEMA s; CREATE TABLE s.notes (id INTEGER, owner VARCHAR);
    CREATE TABLE notes (id INTEGER, owner VARCHAR); CREATE TABLE logs (id VARCHAR, "user" VARCHAR);
    CREATE VIEW shown AS FROM notes; CREATE VIEW s.shown AS FROM main.shown;
    CREATE MACRO made(x) AS x; CREATE MACRO listed() AS TABLE FROM '{file}';
    CREATE VIEW over AS FROM listed();
"""
ASKED = (
    *("SELECT * FROM shown WHERE id = $1", "SELECT user AS u FROM shown", "FROM s.shown"),
    *("SELECT user AS u FROM notes WHERE id = $1", "SELECT user FROM s.notes", "FROM listed()"),
    *("SELECT user AS u FROM over WHERE id < $1", "SELECT made(id), current_user FROM s.notes"),
    *("SELECT user AS u FROM extra WHERE id = $1", "SELECT user, id FROM other.notes", "FROM over"),
    *("INSERT INTO notes (id, owner) VALUES ($1, user)", "UPDATE s.notes SET owner = made(user)"),
    *("INSERT INTO notes SELECT id, user FROM logs", "DELETE FROM s.notes WHERE id = $1"),
    *("SELECT user AS u FROM '{file}' WHERE id = $1", "SELECT getvariable('v') AS v, user"),
)
CHANGES = (
    *("CREATE OR REPLACE VIEW shown AS FROM notes", "CREATE OR REPLACE VIEW shown AS FROM logs"),
    *("CREATE OR REPLACE VIEW shown AS FROM '{file}'", "CREATE OR REPLACE VIEW shown AS FROM over"),
    "CREATE OR REPLACE VIEW shown AS SELECT id, current_user AS owner FROM notes",
    *(
        "CREATE OR REPLACE VIEW s.shown AS FROM s.notes",
        "CREATE OR REPLACE VIEW s.shown AS FROM logs",
    ),
    *("CREATE OR REPLACE MACRO made(x) AS x", "CREATE OR REPLACE MACRO made(x) AS session_user"),
    "CREATE OR REPLACE MACRO made(x) AS (SELECT max(content) FROM read_text(x))",
    "CREATE OR REPLACE MACRO made(x) AS (SELECT max(id) FROM main.notes)",
    "CREATE OR REPLACE MACRO listed() AS TABLE FROM notes",
    "CREATE OR REPLACE MACRO listed() AS TABLE FROM '{file}'",
    "CREATE OR REPLACE MACRO listed() AS TABLE SELECT 1 AS id, 'x' AS user",
    *("ALTER TABLE notes ADD COLUMN user VARCHAR", "ALTER TABLE notes DROP COLUMN user"),
    *("ALTER TABLE s.notes ALTER id TYPE BIGINT", "ALTER TABLE s.notes ALTER id TYPE VARCHAR"),
    *("CREATE TABLE extra (id BIGINT)", "CREATE TABLE extra (user VARCHAR, id DATE)"),
    *("CREATE VIEW extra AS FROM logs", "DROP TABLE extra", "DROP VIEW extra", "DROP VIEW shown"),
    *("ATTACH ':memory:' AS other", "CREATE TABLE other.notes (id INTEGER)", "DETACH other"),
    *("DROP TABLE other.notes", "CREATE TABLE other.notes (user VARCHAR)", "DROP MACRO made"),
    *("SET VARIABLE v = 1", "SET VARIABLE v = 'x'", "ALTER TABLE logs ALTER user SET DEFAULT 'x'"),
    *("CREATE TEMP TABLE notes (user VARCHAR)", "DROP TABLE temp.notes"),
)
HEADS = ("id,owner\n1,x\n", "id,user\n1,x\n", "user,id\nx,y\n")
VALUES = SessionValues("bob")


class Decisions:
    """What is decided about statements, with all that is kept of earlier ones."""

    def __init__(self, database: ivm.Database) -> None:
        self.checks, self.known = Checks(database._engine), KnownParameters()

    def of(self, session: Session, sql: str) -> list[Any]:
        """The decisions about a statement."""
        [statement] = st.parse(sql)
        return [
            *(_outcome(partial(self.checks.demand, session, g, statement)) for g in GRANTS),
            _outcome(lambda: with_values(session, statement, VALUES).text),
            _outcome(lambda: self.known.types(session, statement, ())),
        ]


def _outcome(decide: Callable[[], Any]) -> Any:
    try:
        return decide()
    except IvmError as error:
        return type(error)


def _anew(database: ivm.Database, session: Session, asked: Iterable[str]) -> list[list[Any]]:
    """The same decisions with nothing kept from before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_values, "_decided", WeakKeyDictionary())
        patch.setattr(definition_texts, "_known", WeakKeyDictionary())
        fresh = Decisions(database)
        return [fresh.of(session, sql) for sql in asked]


def _columns(session: Session, sql: str) -> Any:
    [statement] = st.parse(sql)
    try:
        return result_columns(session, statement, ())
    except duckdb.Error as error:
        return type(error)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_kept_is_what_is_found_anew(tmp_path: Path, seed: int) -> None:
    chance, file = random.Random(seed), tmp_path / "rows.csv"
    file.write_text(HEADS[0])
    asked, changes = (
        [sql.replace("{file}", str(file)) for sql in each] for each in (ASKED, CHANGES)
    )
    told: dict[str, tuple[Any, Any]] = {}
    with ivm.connect(tmp_path / "w.duckdb") as database, database.connection() as other:
        database.execute(MADE.replace("{file}", str(file)))
        kept, session = Decisions(database), database._session()

        def compare(where: str) -> None:
            some = chance.sample(asked, 6)
            found = [kept.of(session, sql) for sql in some]
            assert found == _anew(database, session, some), f"{where}: {some}"
            for sql in some:
                meaning, columns = meaning_of(session, sql), _columns(session, sql)
                before, then = told.get(sql, (None, None))
                assert meaning is None or meaning != before or columns == then, f"{where}: {sql}"
                told[sql] = meaning, columns

        for step in range(examples(20)):
            where, change = f"step {step}", chance.choice(changes)
            way = chance.choice(("file", "file", "alone", "alone", "COMMIT", "ROLLBACK"))
            if way == "file":
                file.write_text(chance.choice(HEADS))
            elif way == "alone":
                _outcome(partial(database.execute, change))
            else:
                other.execute("BEGIN")
                _outcome(partial(other.execute, change))
                compare(where)
                _outcome(partial(other.execute, way))
            compare(where)
