"""Casts of strings to other types against DuckDB: plain forms by the kernel, all others not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.scalar_oracle import check, decided, extremes
from tests.tiers import examples

PLAIN = {
    "TINYINT": ["0", "-5", "127", "-128", "007", "-0", None],
    "INTEGER": ["0", "-5", "2147483647", "-2147483648", "000000000000000012", None],
    "BIGINT": ["0", "-999999999999999999", "999999999999999999", None],
    "UINTEGER": ["0", "4294967295", None],
    "DOUBLE": ["0", "-0", "-0.0", "0.1", "123456789012345.123456789012345", "007.50", None],
    "DECIMAL(10,2)": ["0", "-0.01", "12345678.99", "7.5", "-1", None],
    "DECIMAL(4,4)": ["0.1234", "-0.1", "0", None],
    "DECIMAL(38,10)": ["-1234567890123456789012345678.0123456789", "0", None],
    "DECIMAL(5,0)": ["12345", "-1", None],
    "DATE": ["1970-01-01", "2024-02-29", "1000-12-31", "2999-06-01", None],
    "TIMESTAMP": ["1970-01-01", "2024-02-29 23:59:59", "2024-01-01T00:00:00.5",
                  "1850-07-09 01:02:03.000001", None],
}  # fmt: skip
ODD = ["", " 1", "1 ", "+1", "1e3", "1_000", "0x10", "1.", ".5", "1.5", "-1.55", "nan", "inf",
       "99999999999999999999", "-", "--1", "1,5", "a", "١", "1\n", "0.12345", "128", "true",
       "123456789.12", "12345.678",
       "2024-02-30", "2024-13-01", "0000-01-01", "2024-1-1", "2024-01-01 24:00:00",
       "2024-01-01 10:00:60", "2024-01-01 10:00", "2024-01-01 10:00:00.1234567",
       "2024-01-01 10:00:00Z", "2024-01-01 10:00:00+01", "infinity", "epoch", "10000-01-01",
       "2024-01-01 (BC)"]  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("kind", PLAIN)
@pytest.mark.parametrize("form", ["c0::{}", "TRY_CAST(c0 AS {})"])
def test_casts(form: str, kind: str) -> None:
    text = form.format(kind)
    decided(text, ["VARCHAR"], PLAIN[kind])
    for value in [*ODD, *extremes("VARCHAR")]:
        check(text, ["VARCHAR"], [value])
        check(text, ["VARCHAR"], [value, *PLAIN[kind]])


@pytest.mark.parametrize("kind", ["INTEGER", "DOUBLE", "DATE"])
def test_nulls_alone(kind: str) -> None:
    decided(f"c0::{kind}", ["VARCHAR"], [None, None])


_NUMBERS = st.from_regex(r"-?[0-9]{1,20}(\.[0-9]{1,12})?", fullmatch=True)
_TIMES = st.from_regex(
    r"[0-9]{4}-[01][0-9]-[0-3][0-9]([ T][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{1,7})?)?",
    fullmatch=True,
)


@pytest.mark.full
@settings(max_examples=examples(300), deadline=None)
@given(st.data(), st.sampled_from([*PLAIN]), st.sampled_from(["c0::{}", "TRY_CAST(c0 AS {})"]))
def test_random_strings(data: st.DataObject, kind: str, form: str) -> None:
    texts = _TIMES if kind in ("DATE", "TIMESTAMP") else _NUMBERS
    values = data.draw(st.lists(st.none() | texts, min_size=1, max_size=4))
    check(form.format(kind), ["VARCHAR"], values)
