"""One segment file of the change log: its header, its records, and its synced mark.

Layout: a first page with the magic and the *synced mark* (the offset up to which an fdatasync has
succeeded, written after it succeeded, so the mark never promises too much), then the header
(JSON, checksummed), then the records.

Invariant: a record's checksum covers its predecessor's checksum, so a segment is readable exactly
up to its first damaged byte.

Zeros behind the last record are room for the next ones, so that a sync has no end of the file to
write, too.

Formats: 1 keeps no columns and repeats no strings, see `record`; 1 and 2 check records by another
sum. Headers of all formats have the same form and sum, so that each says which one it is.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash

from ivm.storage.errors import CorruptionError
from ivm.storage.log.change import Record
from ivm.storage.log.record import TableCodes, decode
from ivm.storage.values.types import Schema, type_of

FORMAT = 3
_OLD = (1, 2)
HEADER_AT = 4096
MARK_AT = 64
_MAGIC = b"IVM-LOG\n"
_MARK = struct.Struct("<QQ")  # synced offset, its complement
_FRAME = struct.Struct("<QQ")  # bytes of payload, epoch
_SUM = struct.Struct("<Q")
_SIZE = struct.Struct("<Q")
_JOIN_BELOW = 1 << 20  # bytes; a smaller record is joined and written by one call
FRAME_BYTES = _FRAME.size + _SUM.size
"""The bytes of a record in the file that are not its payload."""


@dataclass(frozen=True)
class SegmentHeader:
    """The header of a segment.

    Attributes:
        database_id: of the database file the log belongs to.
        after_epoch: last epoch before this segment's first record.
        chain: checksum that the first record builds on.
        tables: schemas of all base tables while this segment is written.
        format: of the records.
    """

    database_id: str
    after_epoch: int
    chain: int
    tables: Mapping[str, Schema]
    format: int = FORMAT


@dataclass(frozen=True)
class SegmentScan:
    """The part of a segment whose records are right.

    Attributes:
        header: the segment's header.
        end: offset behind the last right record.
        last_epoch, chain: of that record (or of the header, if there is none).
        size: offset behind the last byte that is not zero, at least `end`: zeros are room for the
            next records, what else is in [end, size) is no record.
        synced: offset up to which the file is known to have been synced.
    """

    header: SegmentHeader
    end: int
    last_epoch: int
    chain: int
    size: int
    synced: int


def segment_path(folder: Path, after_epoch: int) -> Path:
    """The file of the segment whose first record has the epoch after `after_epoch`."""
    return folder / f"log-{after_epoch + 1:020d}.seg"


def first_epoch(path: Path) -> int:
    """The lowest epoch that a record in this segment file can have, by its name."""
    return int(path.stem.removeprefix("log-"))


def segment_paths(folder: Path) -> list[Path]:
    """All segment files of a folder, oldest first."""
    return sorted(folder.glob("log-*.seg"))


def checksum(parts: list[Any], chain: int) -> int:
    """A 64-bit checksum of a record's buffers and the chain (XXH3, Yann Collet's xxHash 0.8)."""
    if len(parts) == 1:
        return xxhash.xxh3_64_intdigest(parts[0], chain)
    digest = xxhash.xxh3_64(seed=chain)
    for part in parts:
        digest.update(part)
    return digest.intdigest()


def header_sum(part: Any, chain: int = 0) -> int:
    """CRC-32 and Adler-32 side by side: of a header, and of a record of the old formats."""
    seed = _SUM.pack(chain)
    return zlib.adler32(part, zlib.adler32(seed)) << 32 | zlib.crc32(part, zlib.crc32(seed))


def frame(epoch: int, parts: list[Any], size: int, chain: int) -> tuple[list[Any], int]:
    """The buffers of a record in the file (one, if it is small), and its checksum.

    Args:
        parts: the payload's buffers.
        size: their total length in bytes.
        chain: checksum of the record before.
    """
    framed = [_FRAME.pack(size, epoch), *parts]
    if size < _JOIN_BELOW:
        framed = [b"".join(framed)]
        own = checksum(framed, chain)
        return [framed[0] + _SUM.pack(own)], own
    own = checksum(framed, chain)
    framed.append(_SUM.pack(own))
    return framed, own


def mark_bytes(synced: int) -> bytes:
    """The synced mark, to be written at `MARK_AT`."""
    return _MARK.pack(synced, ~synced & 0xFFFFFFFFFFFFFFFF)


def header_bytes(header: SegmentHeader) -> bytes:
    """A whole new segment file without records."""
    body = json.dumps(
        {
            "format": header.format,
            "database_id": header.database_id,
            "after_epoch": header.after_epoch,
            "chain": header.chain,
            "tables": {
                name: [[column, type.sql] for column, type in schema]
                for name, schema in header.tables.items()
            },
        }
    ).encode()
    body = _SIZE.pack(len(body)) + body
    body += _SUM.pack(header_sum(body))
    page = bytearray(HEADER_AT)
    page[: len(_MAGIC)] = _MAGIC
    page[MARK_AT : MARK_AT + _MARK.size] = mark_bytes(HEADER_AT + len(body))
    return bytes(page) + body


class SegmentFile:
    """A segment opened for reading: its bytes are mapped as long as this object lives."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with open(path, "rb") as file:
            self.size = os.fstat(file.fileno()).st_size
            if self.size < HEADER_AT + _SIZE.size:
                raise self._damaged(self.size, "the file ends inside its header")
            self._view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        self.header, self._start = self._read_header()
        self.codes = TableCodes(self.header.tables)

    def scan(self) -> SegmentScan:
        """Checks every record up to the first one that is not right."""
        end, chain, epoch = self._start, self.header.chain, self.header.after_epoch
        for last in self._frames():
            end, chain, epoch = last[:3]
        size = end + len(bytes(self._view[end:]).rstrip(b"\0"))
        return SegmentScan(self.header, end, epoch, chain, size, self._synced())

    def records(self, after_epoch: int) -> Iterator[Record]:
        """The records with an epoch above `after_epoch`, in order."""
        for _, _, epoch, payload in self._frames():
            if epoch > after_epoch:
                yield decode(payload, self.codes)

    def _frames(self) -> Iterator[tuple[int, int, int, memoryview]]:
        """The end offset, checksum, epoch and payload of each right record."""
        at, chain, epoch = self._start, self.header.chain, self.header.after_epoch
        summed = header_sum if self.header.format in _OLD else xxhash.xxh3_64_intdigest
        while at + _FRAME.size + _SUM.size <= self.size:
            length, next_epoch = _FRAME.unpack_from(self._view, at)
            body = at + _FRAME.size + length
            if next_epoch <= epoch or body + _SUM.size > self.size:
                return
            chain = summed(self._view[at:body], chain)
            if chain != _SUM.unpack_from(self._view, body)[0]:
                return
            payload = self._view[at + _FRAME.size : body]
            at, epoch = body + _SUM.size, next_epoch
            yield at, chain, epoch, payload

    def _synced(self) -> int:
        synced, complement = _MARK.unpack_from(self._view, MARK_AT)
        if mark_bytes(synced) != _MARK.pack(synced, complement):
            raise self._damaged(MARK_AT, "the synced mark contradicts itself")
        return int(synced)

    def _read_header(self) -> tuple[SegmentHeader, int]:
        if self._view[: len(_MAGIC)] != _MAGIC:
            raise self._damaged(0, "the file does not begin as a log segment")
        (size,) = _SIZE.unpack_from(self._view, HEADER_AT)
        end = HEADER_AT + _SIZE.size + size
        if end + _SUM.size > self.size:
            raise self._damaged(HEADER_AT, "the header is longer than the file")
        if header_sum(self._view[HEADER_AT:end]) != _SUM.unpack_from(self._view, end)[0]:
            raise self._damaged(HEADER_AT, "the header's checksum is wrong")
        return self._parse(bytes(self._view[HEADER_AT + _SIZE.size : end])), end + _SUM.size

    def _parse(self, body: bytes) -> SegmentHeader:
        fields = json.loads(body)
        format: int = fields["format"]
        if format not in (*_OLD, FORMAT):
            raise CorruptionError(
                f"The log segment {self.path} has format {format}, this program reads"
                f" up to format {FORMAT}: open the database with the version that wrote it, or a"
                " later one. Nothing was changed."
            )
        tables = {
            name: tuple([(column, type_of(sql)) for column, sql in columns])
            for name, columns in fields["tables"].items()
        }
        return SegmentHeader(
            fields["database_id"], fields["after_epoch"], fields["chain"], tables, format
        )

    def _damaged(self, offset: int, reason: str) -> CorruptionError:
        return CorruptionError(
            f"The log segment {self.path} is damaged at offset {offset}: {reason}. Nothing was"
            " changed; restore the database file and its side folder from one backup."
        )
