"""Micro-benchmark of the crossing points in `ivm.storage.values.thresholds`.

    python -m benchmarks.micro.micro_thresholds

prints, of each that is the choice of one call, the microseconds of both ways over a growing number
of rows, up to where the large way is the faster one, beside the number that stands there. It means
something on a quiet machine alone.
"""

from __future__ import annotations

import platform
import timeit
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ivm.storage.values import thresholds
from ivm.storage.values.column import ArrowColumn, FixedColumn
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.dictionary import encode
from ivm.storage.values.group_numbers import number_exact
from ivm.storage.values.hashing import hash_rows
from ivm.storage.values.ordering.sort import sort_rows
from ivm.storage.values.radix_sort import order_of
from ivm.storage.values.types import type_of
from ivm.storage.values.zset import ZSet, ones

Case = Callable[[int], Callable[[], object]]
SIZES = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 2048, 4096]
HUGE = 1 << 40
NUMBER, TEXT = type_of("BIGINT"), type_of("VARCHAR")


def numbers(count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.random.default_rng(count).integers(0, 1 << 40, count)


def texts(count: int) -> pa.Array:
    return pa.array([f"status {i}" for i in range(count)], pa.large_string())


def hashed(count: int) -> Callable[[], object]:
    column = FixedColumn(numbers(count))
    return lambda: hash_rows([column], [NUMBER], grouping=True)


def hashed_strings(count: int) -> Callable[[], object]:
    column = ArrowColumn(texts(count))
    return lambda: hash_rows([column], [TEXT], grouping=True)


def consolidated(count: int) -> Callable[[], object]:
    zset = ZSet((FixedColumn(numbers(count)),), ones(count))
    return lambda: consolidate(zset, [NUMBER])


def sorted_codes(count: int) -> Callable[[], object]:
    codes = numbers(count)
    return lambda: sort_rows(codes, (), ())


def labelled(count: int) -> Callable[[], object]:
    array = texts(count)
    encode(array, force=True)
    return lambda: encode(array)


def radix(count: int) -> Callable[[], object]:
    codes = numbers(count)
    return lambda: order_of(codes)


def grouped(count: int) -> Callable[[], object]:
    codes = numbers(count)
    return lambda: number_exact(codes)


CASES: dict[str, Case] = {
    "HASHED_ROWS": hashed,
    "HASHED_STRINGS": hashed_strings,
    "TUPLE_ROWS": consolidated,
    "SORTED_CODES": sorted_codes,
    "LABELLED_ROWS": labelled,
    "RADIX_ROWS": radix,
    "SCATTERED_ROWS": grouped,
}


def micros(call: Callable[[], object]) -> float:
    """The best of several times a call."""
    loops = max(1, int(0.002 / max(timeit.timeit(call, number=1), 1e-7)))
    return min(timeit.repeat(call, number=loops, repeat=7)) / loops * 1e6


def both(name: str, call: Callable[[], object]) -> tuple[float, float]:
    """Microseconds of the small way and of the large one."""
    stands = getattr(thresholds, name)
    found = []
    for rows in (HUGE, 1 if name in ("RADIX_ROWS", "SCATTERED_ROWS") else 0):
        setattr(thresholds, name, rows)
        found.append(micros(call))
    setattr(thresholds, name, stands)
    return found[0], found[1]


def main() -> None:
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    for name, case in CASES.items():
        print(f"\n{name} = {getattr(thresholds, name)}\n{'rows':>6} {'small':>9} {'large':>9}  µs")
        after = 0
        for rows in SIZES:
            small, large = both(name, case(rows))
            print(f"{rows:6} {small:9.2f} {large:9.2f}")
            after = after + 1 if large < small else 0
            if after == 2:
                break


if __name__ == "__main__":
    main()
