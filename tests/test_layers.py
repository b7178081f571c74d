"""The layer rule: a folder imports only from itself and the folders below it.

Read from the syntax trees of the imported package, so it holds for a checkout and a wheel alike.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import ivm

# From the bottom up; "ivm" stands for the modules directly in the package.
LAYERS = ("storage", "delta_ops", "sql", "spark_backfill", "ivm")
ROOT = Path(ivm.__file__).parent


def layer_of(module: str) -> str:
    """The layer of a dotted name such as `ivm.storage.run`."""
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
        ("storage", "from ivm.sql.plan import Scan"),
        ("storage", "import ivm"),
        ("delta_ops", "def f():\n    import ivm.sql.bind"),
        ("sql", "from ivm import database"),
        ("sql", "from ivm.spark_backfill import session"),
        ("sql", "from storage.keys import group"),
        ("ivm", "from .result import Result"),
    ],
)
def test_the_rule_sees_a_breach(layer: str, source: str) -> None:
    assert len(faults_of(layer, source)) == 1


@pytest.mark.parametrize(
    ("layer", "source"),
    [
        ("storage", "from ivm.storage.types import Schema\nimport numpy"),
        ("sql", "from ivm import storage, delta_ops"),
        ("ivm", "from ivm.spark_backfill import session\nfrom ivm.result import Result"),
    ],
)
def test_the_rule_lets_the_rest_pass(layer: str, source: str) -> None:
    assert faults_of(layer, source) == []
