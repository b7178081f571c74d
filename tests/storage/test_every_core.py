"""Work that several threads do: the results, their order and the errors are those of one."""

from __future__ import annotations

import os
import threading
import time

import pytest

from ivm.storage.every_core import on_every_core


@pytest.mark.parametrize("cores", [1, 2, 8, None])
@pytest.mark.parametrize("parts", [0, 1, 3, 4, 100])
def test_results_come_in_order(
    monkeypatch: pytest.MonkeyPatch, cores: int | None, parts: int
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert list(on_every_core(lambda part: part * 2, range(parts))) == [2 * i for i in range(parts)]


def test_several_threads_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    both = threading.Barrier(2, timeout=10)  # broken, if one thread alone came to it

    def work(part: int) -> int:
        if part < 2:
            both.wait()
        return part

    assert list(on_every_core(work, range(8))) == list(range(8))


def test_an_error_is_raised_and_the_rest_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    done = []

    def work(part: int) -> int:
        if part == 3:
            raise ValueError("no")
        time.sleep(0.001)
        done.append(part)
        return part

    before = threading.active_count()
    with pytest.raises(ValueError, match="no"):
        list(on_every_core(work, range(2000)))
    assert len(done) < 2000
    assert threading.active_count() == before
