"""Columns of texts, drawn at random: letters, choices, and the channels and pages of bids."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]

HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
CHANNELS = 10_000  # others, each with a page of its own


def letters(rng: np.random.Generator, count: int, least: int, most: int) -> pa.Array:
    """Random texts of `least` to `most` small letters."""
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(rng.integers(least, most + 1, count), out=offsets[1:])
    drawn = rng.integers(ord("a"), ord("z") + 1, int(offsets[-1]), dtype=np.uint8)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(drawn))


def chosen(rng: np.random.Generator, count: int, options: tuple[str, ...]) -> pa.Array:
    """One of the options for each row."""
    return pa.array(options).take(pa.array(rng.integers(0, len(options), count)))


def joined(*parts: pa.Array | str) -> pa.Array:
    """The texts of columns and constants, one behind the other."""
    return pc.binary_join_element_wise(*parts, "")


def channels(rng: np.random.Generator, count: int) -> tuple[pa.Array, pa.Array]:
    """The channel of each bid and its page: one of the hot ones for half of them.

    Nine of ten pages of the other channels say by `channel_id` which they are.
    """
    hot, kinds = len(HOT_CHANNELS), len(HOT_CHANNELS) + CHANNELS
    parts = [letters(rng, kinds, 3, 5) for _ in range(3)]
    pages = joined("https://www.nexmark.com/", *_slashed(parts), "item.htm?query=1")
    ids = np.arange(kinds)
    told = (ids >= hot) & (rng.random(kinds) < 0.9)
    numbers = pa.array(ids).cast(pa.string())
    urls = pc.if_else(pa.array(told), joined(pages, "&channel_id=", numbers), pages)
    others = joined("channel-", numbers.slice(hot))
    names = pa.concat_arrays([pa.array(HOT_CHANNELS), others])
    is_hot = rng.random(count) < 0.5
    drawn = np.where(is_hot, rng.integers(0, hot, count), rng.integers(hot, kinds, count))
    return names.take(pa.array(drawn)), urls.take(pa.array(drawn))


def _slashed(parts: list[pa.Array]) -> list[pa.Array | str]:
    return [piece for part in parts for piece in (part, "/")]
