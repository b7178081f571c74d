"""Canaries: each fault of DuckDB's that something is built around is there, in the versions named.

One that fails says that DuckDB is mended: note the version with the fault in
`ivm.storage.duckdb_faults`, or, if none with it is taken any more, delete the fault there and what
the modules named there do about it.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import ivm
from ivm.storage.duckdb_faults import ENDS, FAULTS, Fault, Outcome

ROOT = Path(ivm.__file__).parent
TRIES = 200  # of what does not show itself at each run


def interrupted() -> int:
    raise KeyboardInterrupt


def answer(fault: Fault, folder: Path) -> Outcome:
    """What plain DuckDB answers to the reproduction."""
    with duckdb.connect(config={"arrow_lossless_conversion": "true"}) as connection:
        connection.create_function("interrupted", interrupted, [], "INTEGER")
        *before, last = fault.script.replace("{folder}", str(folder)).split(";")
        try:
            for statement in before:
                given = connection.sql(statement)
            if fault.way == "to Arrow":
                found = connection.sql(last).to_arrow_table().to_pylist()
                return [tuple(str(value) for value in row.values()) for row in found]
            if fault.way == "given up":
                connection.execute(before[-1])
                connection.interrupt()
                connection.abort()
                return connection.sql(last).fetchall()
            if fault.way != "rows":
                assert given is not None
                connection.register("lent", lent(given.to_arrow_table(), fault))
            return connection.execute(last).fetchall()
        except (duckdb.Error, UnicodeDecodeError) as error:
            if isinstance(error, UnicodeDecodeError) or not str(error):
                return "an error without its message"
            return f"{type(error).__name__}: {error}"


def lent(table: pa.Table, fault: Fault) -> pa.Table:
    return table.combine_chunks().slice(1) if fault.way == "sliced" else table


def is_wrong(fault: Fault, found: Outcome) -> bool:
    """Whether it is the outcome that the fault is known by."""
    if isinstance(found, str) and isinstance(fault.outcome, str):
        return found.startswith(fault.outcome)
    return found == fault.outcome


def answer_apart(fault: Fault, folder: Path) -> Outcome:
    """The answer of a process of its own, which may not live to give one."""
    command = f"from {__name__} import tell; tell({fault.name!r}, {str(folder)!r})"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)
    if done.returncode < 0:
        return ENDS
    assert done.returncode == 0, done.stderr
    found: Outcome = eval(done.stdout)
    return found


def tell(name: str, folder: str) -> None:
    """Print the wrong outcome as soon as it is there, or the last one."""
    (fault,) = [fault for fault in FAULTS if fault.name == name]
    for _ in range(TRIES):
        found = answer(fault, Path(folder))
        if is_wrong(fault, found):
            break
    print(repr(found))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_duckdb_is_not_mended_yet(fault: Fault, tmp_path: Path) -> None:
    found = (answer_apart if fault.apart else answer)(fault, tmp_path)
    if fault.mended is not None and numbers(duckdb.__version__) >= numbers(fault.mended[0]):
        assert found == fault.mended[1]
        return
    if numbers(duckdb.__version__) < numbers(fault.seen[0]):
        assert not is_wrong(fault, found)
        return
    assert found == ENDS or is_wrong(fault, found), (
        f"DuckDB {duckdb.__version__} answers {found!r} now, where it was {fault.outcome!r} in "
        f"{fault.seen[1]}. If it is right ({fault.right}), the fault {fault.name!r} is mended: "
        f"{', '.join(fault.modules)} have to do something about it for older versions alone."
    )


def numbers(version: str) -> list[int]:
    """A version as numbers, which can be compared."""
    return [int(part) for part in re.findall(r"\d+", version)[:3]]


def test_the_faults_name_versions_in_order() -> None:
    for fault in FAULTS:
        first = numbers(fault.mended[0]) if fault.mended else [10**6]
        assert numbers(fault.seen[0]) <= numbers(fault.seen[1]) < first, fault.name


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_modules_name_the_fault(fault: Fault) -> None:
    for module in fault.modules:
        found = importlib.util.find_spec(module)
        assert found is not None, module
        text = Path(found.origin or "").read_text(encoding="utf-8")
        assert f"`{fault.name}`" in text, module


def test_every_fault_that_a_module_names_is_listed() -> None:
    known = {fault.name for fault in FAULTS}
    assert len(known) == len(FAULTS)
    named = {
        name
        for folder in (".", "storage", "delta_ops", "sql")  # in a checkout the last are links
        for path in (ROOT / folder).rglob("*.py")
        for name in re.findall(r"DuckDB's fault `(\w+)`", path.read_text(encoding="utf-8"))
    }
    assert named == known
