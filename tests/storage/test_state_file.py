"""Files of states: what is read is what was written, or an error; nothing else is run."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from ivm.storage.arrangement.arrangement import Arrangement
from ivm.storage.arrangement.layout import Layout
from ivm.storage.state.pickles import StateError, dump, load
from ivm.storage.state.state_file import StateFile, write
from ivm.storage.values import dictionary
from ivm.storage.values.column import DictionaryColumn
from ivm.storage.values.types import type_of
from ivm.storage.values.zset import ZSet, from_arrow
from tests.support.operator_bench import VALUES, Row, literal_rows, net, types_of, zset
from tests.support.type_values import VALUES as ALL_VALUES

from hypothesis import given, settings  # isort: skip
from hypothesis import strategies as st  # isort: skip
from tests.tiers import examples, some

TYPES = types_of("INTEGER", *[name for name in VALUES if name != "INTEGER"])
BATCHES = st.lists(
    st.lists(st.tuples(literal_rows(TYPES), st.sampled_from([-2, -1, 1, 3])), max_size=6),
    max_size=4,
)


def shown(z: ZSet) -> list[tuple[object, ...]]:
    names = tuple((f"c{i}", t) for i, t in enumerate(TYPES))
    rows = zip(*[map(str, a.to_pylist()) for a in z.to_arrow(names).columns], strict=True)
    return sorted(zip(rows, z.weights.tolist(), strict=True))


def reread(tmp_path: Path, state: object) -> object:
    path = tmp_path / "states"
    path.unlink(missing_ok=True)
    return StateFile(path, write(path, [("a", state), ("b", 1)]), ()).load("a")


@given(BATCHES)
@settings(max_examples=examples(40))
def test_an_arrangement_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[Row, int]]]
) -> None:
    folder = tmp_path_factory.mktemp("states")
    arranged = Arrangement.build(Layout(TYPES, (0, 1)), [])
    for batch in batches:
        arranged = arranged.append(zset(TYPES, batch))
        read = reread(folder, arranged)
        assert isinstance(read, Arrangement)
        assert read.layout == arranged.layout
        rows, again = [[z for z in a.batches() if len(z)] for a in (arranged, read)]
        assert [shown(z) for z in rows] == [shown(z) for z in again]
        keys = [z.columns[:2] for z in rows]
        for probe in keys:
            found, wanted = [shown(net(a.lookup(probe).rows, TYPES)) for a in (read, arranged)]
            assert found == wanted


def test_a_state_may_be_written_to_and_the_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "states"
    file = StateFile(path, write(path, [("a", np.arange(10))]), ())
    whole = path.read_bytes()
    values = file.load("a")
    values += 1
    assert path.read_bytes() == whole
    path.unlink()
    assert values.tolist() == list(range(1, 11))


def test_room_for_growth_takes_no_space(tmp_path: Path) -> None:
    values = np.zeros(1 << 23, np.int64)
    values[:1000] = np.arange(1000)
    path = tmp_path / "states"
    file = StateFile(path, write(path, [("a", values)]), ())
    assert np.array_equal(file.load("a"), values)
    assert path.stat().st_size > 1 << 26
    assert path.stat().st_blocks * 512 < 1 << 22


def test_every_damaged_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "states"
    state = zset(types_of("INTEGER", "VARCHAR"), [(("1", "'a'"), 1), (("2", "NULL"), -1)])
    spans = write(path, [("a", state)])
    whole = path.read_bytes()
    used = [at for s in spans["a"] for at in range(s.offset, s.offset + s.written)]
    for at in used[:: max(1, len(used) // 200)]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(StateError, match="damaged"):
            StateFile(path, spans, ()).load("a")
    for length in (1, len(whole) // 2):
        path.write_bytes(whole[:length])
        with pytest.raises(StateError):
            StateFile(path, spans, ()).load("a")


class Stranger:
    """What a pickle of somebody else may name."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("true",)


@pytest.mark.parametrize("state", [Stranger(), Path("x"), np.load, pa.compute.add, print])
def test_a_pickle_that_names_something_else_is_refused(state: object) -> None:
    pickled, buffers = dump(state)
    with pytest.raises(StateError, match="no part of one"):
        load(pickled, [memoryview(b) for b in buffers], (), None)


def test_strings_have_this_processs_numbers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    codes = dictionary.encode(
        pa.array(["x one", "x two", None, "x two"], "large_string"), force=True
    )
    assert codes is not None
    path = tmp_path / "states"
    spans = write(path, [("a", DictionaryColumn(codes))])
    monkeypatch.setattr(dictionary, "_numbers", {None: 0})
    monkeypatch.setattr(dictionary, "_texts", [None])
    monkeypatch.setattr(dictionary, "_array", pa.nulls(1, pa.large_string()))
    dictionary.encode(pa.array(["y", "x two"], "large_string"), force=True)
    read = StateFile(path, spans, ()).load("a")
    assert isinstance(read, DictionaryColumn)
    assert read.array.to_pylist() == ["x one", "x two", None, "x two"]
    assert dictionary.words(read.codes) == ["x one", "x two", None, "x two"]
    monkeypatch.setattr(dictionary, "_MOST", 2)
    monkeypatch.setattr(dictionary, "_numbers", {None: 0})
    monkeypatch.setattr(dictionary, "_texts", [None])
    with pytest.raises(StateError, match="no more room"):
        StateFile(path, spans, ()).load("a")


@pytest.mark.parametrize("name", some(list(ALL_VALUES), 4))
def test_columns_of_every_type_are_read(name: str) -> None:
    type = type_of(name)
    with duckdb.connect(config={"arrow_lossless_conversion": "true"}) as connection:
        for value in (*ALL_VALUES[name], "NULL"):
            found = connection.sql(f"SELECT CAST({value} AS {name}) AS v").to_arrow_table()
            column = from_arrow(found, (("v", type),)).columns[0]
            pickled, buffers = dump(column)
            read = load(pickled, [b.raw() for b in buffers], (), None)
            assert read.__class__ is column.__class__
            assert str(read.to_arrow(type)) == str(column.to_arrow(type))
            assert read.to_arrow(type).type == column.to_arrow(type).type
