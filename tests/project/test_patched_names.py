"""What the tests replace by name is there: most of them run in the full tier alone."""

from __future__ import annotations

import ast
import pkgutil
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
FILES = sorted(TESTS.rglob("*.py"))


def patched_names(source: str) -> Iterator[str]:
    """The dotted names of what the tests replace.

    They stand in a `setattr` of a dotted text, or of an imported thing and a text, and in tuples of
    such a thing, or of a module's name and a class's, and a text.
    """
    tree = ast.parse(source)
    imported = dict(_imports_of(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".setattr"):
            given = node.args[:-1]
        elif isinstance(node, ast.Tuple):
            given = node.elts
        else:
            continue
        match given:
            case [ast.Constant(value=str(target))] if isinstance(node, ast.Call):
                yield target
            case [ast.Name(id=owner), ast.Constant(value=str(name)), *_] if owner in imported:
                if name.isidentifier() and not _is_error(imported[owner]):
                    yield f"{imported[owner]}.{name}"
            case [
                ast.Constant(value=str(at)),
                ast.Constant(value=str(owner)),
                ast.Constant(value=str(name)),
                *_,
            ] if at.startswith("ivm.") and owner.isidentifier() and name.isidentifier():
                yield f"{at}.{owner}.{name}"


def _is_error(name: str) -> bool:
    """Whether a name is of an exception: a text beside it is what it says."""
    thing = pkgutil.resolve_name(name) if _exists(name) else None
    return isinstance(thing, type) and issubclass(thing, BaseException)


def _imports_of(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((a.asname or a.name, a.name) for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((a.asname or a.name, f"{node.module}.{a.name}") for a in node.names)


def _exists(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (AttributeError, ImportError):
        return False
    return True


def test_they_are_there() -> None:
    gone = [
        f"{file}: {name}"
        for file in FILES
        for name in patched_names(file.read_text())
        if not _exists(name)
    ]
    assert not gone


def test_a_name_that_is_gone_is_seen() -> None:
    source = "from ivm.storage import log\nimport os\npatch.setattr(log, 'gone', 1)\n"
    assert list(patched_names(source)) == ["ivm.storage.log.gone"]
    assert not _exists("ivm.storage.log.gone")
    assert list(patched_names("patch.setattr('os.path.join', 1)")) == ["os.path.join"]
    points = "from a import B\nPOINTS = [(B, '_write'), ('ivm.c', 'D', '_write', 'fast')]\n"
    assert list(patched_names(points)) == ["a.B._write", "ivm.c.D._write"]
