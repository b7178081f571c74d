"""Users and tokens: stored as verifiers and hashes, changed in transactions, and never shown."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import ivm
from ivm.access.users import StoredToken, stored_tokens, stored_users
from ivm.access.verifiers import read, verifier_of
from ivm.errors import AccessError, IvmError, SqlError
from ivm.serve.users import Users
from ivm.shell.prompt import _Kept
from ivm.sql.statements.own.users import without_passwords
from ivm.storage.errors import InputError
from ivm.storage.warehouse.duckdb.duck import Cursor

SECRET = "geheim'3"
QUOTED = "'geheim''3'"


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as opened:
        opened.execute("CREATE SCHEMA s")
        yield opened


def users(db: ivm.Database) -> Users:
    return Users(db._engine, {})


def test_a_user_has_a_password_a_role_and_a_schema(db: ivm.Database) -> None:
    db.execute(f"CREATE USER Ann PASSWORD {QUOTED} ROLE write IN SCHEMA s")
    assert db.execute("SHOW USERS").fetchall() == [("ann", "write", "s")]
    gate = users(db)
    assert gate.login("ANN", SECRET) == gate.user("ann")
    db.execute("ALTER USER ann ROLE read IN ALL SCHEMAS; ALTER USER ann PASSWORD 'other'")
    assert db.execute("SHOW USERS").fetchall() == [("ann", "read", None)]
    assert gate.login("ann", "other").role == "read"
    with pytest.raises(AccessError):
        gate.login("ann", SECRET)
    db.execute("DROP USER ann; DROP USER IF EXISTS ann")
    with pytest.raises(AccessError):
        gate.login("ann", "other")


def test_a_schema_with_a_dot_is_another_one_than_one_within_one(db: ivm.Database) -> None:
    db.execute('CREATE SCHEMA s.x; CREATE SCHEMA "s.x"')
    db.execute("CREATE USER ann PASSWORD 'x' ROLE read IN SCHEMA S.X")
    db.execute("""CREATE USER bob PASSWORD 'x' ROLE read IN SCHEMA "S.x" """)
    verifier = str(verifier_of("x"))
    named = {
        "cid": {"verifier": verifier, "role": "read", "schema": "s.X"},
        "dan": {"verifier": verifier, "role": "read", "schema": '"s.x"'},
    }
    gate = Users(db._engine, named)
    for name, mine, other in (
        *(("ann", "s.x.t", '"s.x".t'), ("bob", '"s.x".t', "s.x.t")),
        *(("cid", "s.x.t", '"s.x".t'), ("dan", '"s.x".t', "s.x.t")),
    ):
        user = gate.user(name)
        assert user is not None
        user.grant.demand_relation(mine)
        with pytest.raises(AccessError):
            user.grant.demand_relation(other)


def test_a_login_without_a_user_is_refused(db: ivm.Database) -> None:
    gate = users(db)
    for name, password in (("", ""), ("ann", ""), ("ann", "\x00")):
        with pytest.raises(AccessError):
            gate.login(name, password)


def test_a_password_that_was_right_is_known(db: ivm.Database) -> None:
    db.execute(f"CREATE USER ann PASSWORD {QUOTED} ROLE read")
    gate = users(db)
    assert gate.known("ann", SECRET) is None
    assert gate.login("ann", SECRET) == gate.known("ANN", SECRET)
    assert gate.known("ann", "wrong") is gate.known("eve", SECRET) is None
    db.execute("ALTER USER ann PASSWORD 'other'")
    assert gate.known("ann", SECRET) is None


def test_a_verifier_of_postgresql_is_taken_as_it_is(db: ivm.Database) -> None:
    verifier = verifier_of(SECRET)
    assert SECRET not in str(verifier)
    assert read(str(verifier)) == verifier
    db.execute(f"CREATE USER ann PASSWORD '{verifier}' ROLE read")
    assert users(db).login("ann", SECRET).name == "ann"
    with pytest.raises(AccessError):
        users(db).login("ann", str(verifier))


@pytest.mark.parametrize("text", ["", "SCRAM-SHA-256$1:x", "SCRAM-SHA-256$1:!$YQ==:YQ=="])
def test_what_is_no_verifier_is_a_password(text: str) -> None:
    assert read(text) is None


def test_a_token_stands_for_its_user_until_it_expires(db: ivm.Database) -> None:
    db.execute(f"CREATE USER ann PASSWORD {QUOTED} ROLE read")
    ((name, token),) = db.execute("CREATE TOKEN dash FOR USER ann EXPIRES INTERVAL '1 day'")
    db.execute("CREATE TOKEN old FOR USER ann EXPIRES '2001-01-01 00:00:00+00'")
    listed = {name: (user, end) for name, user, end in db.execute("SHOW TOKENS").fetchall()}
    assert listed["dash"][1] - datetime.now(UTC) > timedelta(hours=23)
    gate = users(db)
    assert (name, gate.bearer(token).name) == ("dash", "ann")
    assert all(token not in str(stored) for stored in stored_tokens(db._engine.warehouse.cursor()))
    for wrong in ("", "x", token[:-1]):
        with pytest.raises(AccessError):
            gate.bearer(wrong)
    db.execute("DROP USER ann")
    assert db.execute("SHOW TOKENS").fetchall() == []
    with pytest.raises(AccessError):
        gate.bearer(token)


def test_an_expired_token_is_refused(db: ivm.Database) -> None:
    db.execute("CREATE USER ann PASSWORD 'x' ROLE read")
    ((_, token),) = db.execute("CREATE TOKEN old FOR USER ann EXPIRES '2001-01-01 00:00:00+00'")
    with pytest.raises(AccessError, match="expired"):
        users(db).bearer(token)


@pytest.mark.full
@pytest.mark.parametrize(
    ("end", "good"),
    [
        ("INTERVAL '99999999 days'", True),
        ("'infinity'", True),
        ("'200000-12-31 00:00:00+00'", True),
        ("'0044-03-15 (BC) 00:00:00+00'", False),
        ("'-infinity'", False),
    ],
)
def test_a_token_may_end_at_any_time(db: ivm.Database, end: str, good: bool) -> None:
    db.execute("CREATE USER ann PASSWORD 'x' ROLE read")
    ((_, token),) = db.execute(f"CREATE TOKEN far FOR USER ann EXPIRES {end}")
    assert len(db.execute("SHOW TOKENS").fetchall()) == 1
    gate = users(db)
    assert gate.login("ann", "x").name == "ann"
    if good:
        assert gate.bearer(token).name == "ann"
    else:
        with pytest.raises(AccessError):
            gate.bearer(token)
    db.execute("DROP TOKEN far")


@pytest.mark.parametrize("password", ["\u00ad", "\u200b\u00ad"])
def test_what_counts_for_nothing_is_no_password(db: ivm.Database, password: str) -> None:
    with pytest.raises(InputError, match="empty"):
        db.execute(f"CREATE USER ann PASSWORD '{password}' ROLE read")
    db.execute(f"CREATE USER ann PASSWORD 'x{password}' ROLE read")
    assert users(db).login("ann", "x").name == "ann"


def test_users_follow_transactions_and_reopening(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    with ivm.connect(path) as db:
        db.execute("BEGIN; CREATE USER bob PASSWORD 'x' ROLE admin")
        assert db.execute("SHOW USERS").fetchall() == [("bob", "admin", None)]
        db.execute("ROLLBACK")
        assert db.execute("SHOW USERS").fetchall() == []
        db.execute("BEGIN; CREATE USER bob PASSWORD 'x' ROLE admin; COMMIT")
    with ivm.connect(path) as db:
        assert users(db).login("bob", "x").role == "admin"


def test_no_password_is_in_any_file_or_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with ivm.connect(tmp_path / "a.duckdb") as db:
        db.execute("CREATE USER ann PASSWORD 'geheim1' ROLE read")
        db.execute("ALTER USER ann PASSWORD 'geheim2'")
        db.execute(f"EXPORT DATABASE '{tmp_path / 'copy'}'")
        files = [file for file in tmp_path.rglob("*") if file.is_file()]
        assert not [file for file in files if b"geheim" in file.read_bytes()]
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if b"geheim" in file.read_bytes()]
    assert "geheim" not in caplog.text


def test_a_history_has_no_password(tmp_path: Path) -> None:
    kept = _Kept(tmp_path / "history")
    kept.store_string("create user ann password 'geheim' role read; SELECT 'password', 'b'")
    text = (tmp_path / "history").read_text()
    assert "create user ann password '***' role read; SELECT 'password', 'b'" in text
    assert without_passwords("SELECT 1") == "SELECT 1"
    assert "geheim" not in without_passwords("CREATE USER a PASSWORD 'geheim")


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE USER bob 'geheim' ROLE read",
        "CREATE USER bob PASSWORD 'geheim'",
        "CREATE USER bob PASSWORD 'geheim' ROLE king",
        "CREATE USER bob PASSWORD geheim ROLE read",
        'CREATE USER bob PASSWORD "geheim" ROLE read',
        "CREATE USER bob PASSWORD 'geheim' ROLE read 'geheim'",
        "CREATE USER bob PASSWORD 'geheim' PASSWORD 'geheim' ROLE read",
        "CREATE USER bob PASSWORD 'geheim' ROLE admin IN SCHEMA s",
        "CREATE USER bob PASSWORD 'geheim' ROLE read IN SCHEMA nowhere",
        "CREATE USER bob PASSWORD 'geheim' ROLE read IN SCHEMA _ivm",
        "CREATE USER bob PASSWORD 'geheim' ROLE read IN SCHEMA nowhere.s",
        "CREATE USER bob PASSWORD '' ROLE read",
        "CREATE USER ann PASSWORD 'geheim' ROLE read",
        "ALTER USER bob PASSWORD 'geheim'",
        "ALTER USER ann",
        "DROP USER bob",
        "DROP USER ann 'geheim'",
        "CREATE TOKEN t FOR USER bob",
        "CREATE TOKEN t FOR USER ann EXPIRES 'never'",
        "DROP TOKEN t",
    ],
)
def test_a_mistake_is_an_error_without_the_password(db: ivm.Database, sql: str) -> None:
    db.execute("CREATE USER ann PASSWORD 'x' ROLE read")
    with pytest.raises(IvmError) as caught:
        db.execute(sql)
    assert "geheim" not in str(caught.value)
    assert db.execute("SHOW USERS").fetchall() == [("ann", "read", None)]
    assert stored_tokens(db._engine.warehouse.cursor()) == []


def test_if_exists_and_if_not_exists(db: ivm.Database) -> None:
    db.execute("CREATE USER ann PASSWORD 'x' ROLE read")
    db.execute("CREATE USER IF NOT EXISTS ann PASSWORD 'y' ROLE admin")
    [stored] = stored_users(db._engine.warehouse.cursor())
    assert stored.role == "read"
    db.execute("CREATE TOKEN t FOR USER ann")
    assert db.execute("CREATE TOKEN IF NOT EXISTS t FOR USER ann").kind == "done"
    with pytest.raises(SqlError):
        db.execute("CREATE TOKEN t FOR USER ann")


def test_users_of_the_settings_come_before_those_of_sql(db: ivm.Database) -> None:
    db.execute("CREATE USER ann PASSWORD 'x' ROLE read")
    named = {"Ann": {"verifier": str(verifier_of("y")), "role": "write", "schema": "s"}}
    gate = Users(db._engine, named)
    found = gate.login("ann", "y")
    assert (found.role, found.schema) == ("write", "s")
    with pytest.raises(AccessError):
        gate.login("ann", "x")
    gate.apply({})
    assert gate.login("ann", "x").role == "read"


@pytest.mark.parametrize(
    "given",
    [
        {"password": "geheim", "role": "read"},
        {"verifier": "geheim", "role": "read"},
        {"verifier": str(verifier_of("x")), "role": "king"},
        {"verifier": str(verifier_of("x")), "role": "admin", "schema": "s"},
        "geheim",
    ],
)
def test_settings_that_make_no_sense(db: ivm.Database, given: object) -> None:
    with pytest.raises(InputError) as caught:
        Users(db._engine, {"ann": given})
    assert "geheim" not in str(caught.value)


def test_users_of_the_file_that_are_taken_beside_a_login_stand(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bug: a login that had begun before put those of before in their place again."""
    gate = Users(db._engine, {"ann": {"verifier": str(verifier_of("x")), "role": "read"}})

    def reloaded(cursor: Cursor) -> list[StoredToken]:
        gate.apply({})
        return list(stored_tokens(cursor))

    with monkeypatch.context() as patch:
        patch.setattr("ivm.serve.users.stored_tokens", reloaded)
        assert gate.user("ann") is not None
    assert gate.user("ann") is None
