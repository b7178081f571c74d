"""Which types of columns hold which others: whether an upstream's values fit into a column of ours.

Law: type a is within type b if the cast of each of its values to b, and back, gives the value (in
VARCHAR: if each has a text).
Within are integers in wider ones, in DECIMALs with enough digits and in floats that are exact for
them; DECIMALs in wider ones and in floats with as many digits; FLOAT in DOUBLE; seconds in parts of
them; ENUMs in those with more labels; lists by their elements; and every type in VARCHAR.

DATE is not within TIMESTAMP, whose years end much earlier; BIGINT not within DOUBLE.
"""

from __future__ import annotations

from ivm.storage.values.types import MOST_DIGITS, ColumnType, type_of

_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}
_RANGES = {
    name: bounds
    for type, bits in _BITS.items()
    for name, bounds in (
        (type, (-(1 << bits - 1), (1 << bits - 1) - 1)),
        ("U" + type, (0, (1 << bits) - 1)),
    )
}
_EXACT = {"FLOAT": (1 << 24, 6), "DOUBLE": (1 << 53, 15)}
"""Up to which number integers are exact, and how many decimal digits are."""
_FINER = (("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP"), ("TIME", "TIME_NS"))


def fits(theirs: ColumnType, ours: ColumnType) -> bool:
    """Returns whether every value of `theirs` can be stored in `ours`, and is not changed by it."""
    return ours.sql == "VARCHAR" or wider(ours, theirs) == ours


def wider(ours: ColumnType, theirs: ColumnType) -> ColumnType | None:
    """The narrowest type in which the values of both are; None if there is none.

    Stored values do not become texts, except those that are texts: how another database writes a
    number or time as text may differ.
    """
    if ours == theirs:
        return ours
    sides = {ours.base: ours, theirs.base: theirs}
    if "LIST" in sides:
        return _lists(ours, theirs)
    if sides.keys() == {"ENUM"}:
        return _enums(ours, theirs)
    if "VARCHAR" in sides and sides.keys() & {"ENUM", "JSON"}:
        return sides["VARCHAR"]
    for family in _FINER:
        if sides.keys() <= set(family):
            return sides[max(sides, key=family.index)]
    return _numbers(ours, theirs)


def _lists(ours: ColumnType, theirs: ColumnType) -> ColumnType | None:
    if ours.base != theirs.base:
        return None
    (element, size), (other, other_size) = (t.sql.rsplit("[", 1) for t in (ours, theirs))
    if size != other_size:
        return None
    inner = wider(type_of(element), type_of(other))
    return None if inner is None else type_of(f"{inner.sql}[{size}")


def _enums(ours: ColumnType, theirs: ColumnType) -> ColumnType | None:
    """Of two ENUMs the one with all labels; a label that is replaced may have been renamed."""
    if set(ours.labels) >= set(theirs.labels):
        return ours
    return theirs if set(ours.labels) <= set(theirs.labels) else None


def _numbers(ours: ColumnType, theirs: ColumnType) -> ColumnType | None:
    types = (ours, theirs)
    if not all(t.is_integer or t.is_decimal or t.is_float for t in types):
        return None
    floats = [t.sql for t in types if t.is_float]
    if floats:
        enough = [name for name in _EXACT if all(_is_exact(t, name) for t in types)]
        return type_of(enough[0]) if enough else None
    if any(t.is_decimal for t in types):
        return _decimal(types)
    low = min(_RANGES[t.sql][0] for t in types)
    high = max(_RANGES[t.sql][1] for t in types)
    holding = [name for name, (least, most) in _RANGES.items() if least <= low and high <= most]
    return type_of(holding[0]) if holding else None


def _is_exact(type: ColumnType, name: str) -> bool:
    """Returns whether each value of a type of numbers is in the floating-point type."""
    integers, digits = _EXACT[name]
    if type.is_integer:
        low, high = _RANGES[type.sql]
        return -integers <= low and high <= integers
    return type.precision <= digits if type.is_decimal else name == "DOUBLE" or type.sql == name


def _decimal(types: tuple[ColumnType, ColumnType]) -> ColumnType | None:
    scale = max(t.scale for t in types)
    whole = max(t.precision - t.scale if t.is_decimal else _digits(t) for t in types)
    return type_of(f"DECIMAL({whole + scale},{scale})") if whole + scale <= MOST_DIGITS else None


def _digits(integer: ColumnType) -> int:
    return len(str(_RANGES[integer.sql][1]))
