"""Two laws of imports: a layer imports from itself and the layers below, and so does a room in it.

Read from the syntax trees of the imported package, so they hold for a checkout and a wheel alike.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import ivm
from tests import support

# From the bottom up; "ivm" stands for the modules directly in the package.
LAYERS = ("storage", "delta_ops", "sql", "spark_backfill", "ivm")
# The rooms of each layer from the bottom up; "" stands for the modules directly in its folder.
ROOMS = {
    "storage": (
        *("", "values", "values/ordering", "arrangement", "ordered", "state", "log"),
        *("warehouse/duckdb", "warehouse/flush", "warehouse/tables", "warehouse/opening"),
        "warehouse",
    ),
    "delta_ops": ("state", "", "linear", "joins", "aggregates/lanes", "aggregates", "ordered"),
    "sql": (
        *("statements/text", "statements/nodes", "statements/changes", "statements/own"),
        *("statements", "plan", "plan/times", "parse", "resolve", "rewrite", "subqueries"),
        *("bind", "scalar/operands", "scalar/logic", "scalar/times", "scalar/strings"),
        *("scalar/numbers", "scalar", "compile", ""),
    ),
    "spark_backfill": ("workers", "translation", "files", ""),
    "ivm": (
        *("catalog", "ingest/values", "ingest"),
        *("changes/values", "changes/read", "changes/rows", "capture"),
        *("engine/base", "engine/tables", "engine/feeds", "engine/views", "engine"),
        *("engine/transactions", "engine/opening", "backfill", "reads"),
        *("session/results", "session/names", "session", "session/queries", "session/ddl"),
        "changes",
        *("access", "client"),
        *(
            "cdc/formats",
            "cdc/sources",
            "cdc/sources/files",
            "cdc/sources/kafka",
            "cdc/sources/postgres/connections",
            "cdc/sources/postgres/log",
            "cdc/sources/postgres/rows",
            "cdc/sources/postgres/tables",
            "cdc/sources/postgres",
        ),
        "cdc/sources/debezium",
        "cdc/merge",
        *("cdc", "cdc/pipeline", "cdc/sinks", "", "serve"),
        *("serve/pg/wire", "serve/pg/values", "serve/pg/catalog", "serve/pg/statements"),
        *("serve/pg/copy", "serve/pg"),
        *("serve/console", "serve/http"),
        *("shell/display", "shell/editing", "shell", "shell/command_line", "notebook"),
    ),
}
ROOT = Path(ivm.__file__).parent


def layer_of(module: str) -> str:
    """The layer of a dotted name such as `ivm.storage.arrangement.run`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LAYERS else "ivm"


def files_of(layer: str) -> list[Path]:
    """The Python files of a layer."""
    if layer != "ivm":
        return sorted((ROOT / layer).rglob("*.py"))
    lower = [ROOT / name for name in LAYERS if name != "ivm"]
    return sorted(f for f in ROOT.rglob("*.py") if not any(f.is_relative_to(p) for p in lower))


def imports_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every import in a module, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            # `from ivm import storage` names a layer in the alias.
            names = [f"ivm.{a.name}" for a in node.names] if base == "ivm" else [base]
            yield from ((node.lineno, "." * node.level + name) for name in names)


def faults_of(layer: str, source: str) -> list[str]:
    """What in a module's source breaks the rule: `line: reason` each."""
    allowed = LAYERS[: LAYERS.index(layer) + 1]
    faults = []
    for line, name in imports_of(ast.parse(source)):
        top = name.split(".")[0]
        if top != "ivm" and top in LAYERS:
            faults.append(f"{line}: import ivm.{name}, not {name}")
        elif name.startswith("."):
            faults.append(f"{line}: write {name} as an absolute import")
        elif top == "ivm" and layer_of(name) not in allowed:
            faults.append(f"{line}: {layer} may not import {name}")
    return faults


@pytest.mark.full
@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_only_from_below(layer: str) -> None:
    files = files_of(layer)
    assert files, f"no files found for {layer}"
    faults = [
        f"{path.relative_to(ROOT)}:{fault}"
        for path in files
        for fault in faults_of(layer, path.read_text(encoding="utf-8"))
    ]
    assert faults == []


@pytest.mark.parametrize(
    ("layer", "source"),
    [
        ("storage", "from ivm.sql.plan.nodes import Scan"),
        ("storage", "import ivm"),
        ("delta_ops", "def f():\n    import ivm.sql.bind.bind"),
        ("sql", "from ivm import database"),
        ("sql", "from ivm.spark_backfill import session"),
        ("sql", "from storage.keys import group"),
        ("ivm", "from .session.result import Result"),
    ],
)
def test_the_rule_sees_a_breach(layer: str, source: str) -> None:
    assert len(faults_of(layer, source)) == 1


@pytest.mark.parametrize(
    ("layer", "source"),
    [
        ("storage", "from ivm.storage.values.types import Schema\nimport numpy"),
        ("sql", "from ivm import storage, delta_ops"),
        (
            "ivm",
            "from ivm.spark_backfill import session\nfrom ivm.session.results.result import Result",
        ),
    ],
)
def test_the_rule_lets_the_rest_pass(layer: str, source: str) -> None:
    assert faults_of(layer, source) == []


def room_of(module: str) -> tuple[str, str]:
    """The layer and the room of a dotted name such as `ivm.storage.log.record`."""
    layer = layer_of(module)
    inside = module.split(".")[1 if layer == "ivm" else 2 :]
    nested = "/".join(inside[:2])
    if nested in ROOMS[layer]:
        return layer, nested
    return layer, inside[0] if inside and inside[0] in ROOMS[layer] else ""


def modules_of(layer: str) -> Iterator[tuple[str, Path]]:
    """Dotted name and file of each module of a layer but the package's own and its entry point."""
    for path in files_of(layer):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if path.name not in ("__init__.py", "__main__.py"):
            yield ".".join(("ivm", *parts)), path


def breaches(module: str, source: str) -> list[str]:
    """What a module imports from a room above its own: `line: reason` each."""
    layer, room = room_of(module)
    order = ROOMS[layer]
    found = []
    for line, name in imports_of(ast.parse(source)):
        if name.split(".")[0] == "ivm" and name != "ivm":
            other, theirs = room_of(name)
            if other == layer and order.index(theirs) > order.index(room):
                found.append(f"{line}: {room or layer} may not import {name}")
    return found


@pytest.mark.full
@pytest.mark.parametrize("layer", LAYERS)
def test_a_room_imports_only_from_below(layer: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{breach}"
        for module, path in modules_of(layer)
        for breach in breaches(module, path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("module", "source", "count"),
    [
        ("ivm.storage.log.record", "from ivm.storage.warehouse.duckdb import duck", 1),
        ("ivm.storage.errors", "from ivm.storage.values.types import Schema", 1),
        ("ivm.sql.plan.nodes", "from ivm.sql.bind.bind import bind", 1),
        ("ivm.engine.engine", "from ivm.session.session import Session", 1),
        ("ivm.engine.engine", "from ivm.database import Database", 1),
        ("ivm.database", "from ivm.engine.engine import Engine", 0),
        ("ivm.sql.bind.bind", "from ivm.sql.plan.nodes import Plan", 0),
    ],
)
def test_the_rule_of_rooms_sees_a_breach(module: str, source: str, count: int) -> None:
    assert len(breaches(module, source)) == count


def test_no_modules_of_the_session_import_each_other() -> None:
    """Nor under TYPE_CHECKING."""
    imported: dict[str, set[str]] = {}
    for module, path in modules_of("ivm"):
        if room_of(module)[1].split("/")[0] in ("session", "changes"):
            nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
            found = [node for node in nodes if isinstance(node, ast.ImportFrom)]
            imported[module] = {f"{node.module}" for node in found}
            imported[module] |= {f"{node.module}.{a.name}" for node in found for a in node.names}
    assert imported["ivm.session.ddl.ddl"] & imported.keys()
    while free := [module for module, names in imported.items() if not names & imported.keys()]:
        for module in free:
            del imported[module]
    assert not imported


def test_every_room_is_listed_and_packaged() -> None:
    """A folder left out of `packages` is missing from the wheel, and nothing says so."""
    folders = {
        path.parent.relative_to(ROOT).parts
        for layer in LAYERS
        for path in files_of(layer)
        if path.name == "__init__.py"
    }
    rooms = {".".join(("ivm", *folder)) for folder in folders}
    listed = {
        ".".join(["ivm", *[p.replace("/", ".") for p in (layer, room) if p not in ("", "ivm")]])
        for layer in LAYERS
        for room in ROOMS[layer]
    }
    assert rooms == listed
    settings = tomllib.loads((support.ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    data = {package for package in settings["package-data"] if package.startswith("ivm.")}
    assert set(settings["packages"]) - data == rooms
