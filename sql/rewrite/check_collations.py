"""Columns with a collation: a plan may pass them on, and do nothing else with them.

Law: operators compare strings byte by byte, so a string that DuckDB would compare by a collation
may pass through a plan, but no operator and no expression may read it. A view's columns have none.
"""

from __future__ import annotations

from ivm.sql.plan.columns import origins, reads
from ivm.sql.plan.nodes import NotIncremental, Plan, Scan, ViewScan
from ivm.sql.plan.walks import inputs
from ivm.sql.statements.text.tokens import depths, tokens, unquoted
from ivm.storage.identifiers import fold


def refuse_collations(plan: Plan) -> Plan:
    """Returns the plan unchanged.

    Raises:
        NotIncremental: it reads a column with a collation.
    """
    _collated(plan)
    return plan


def collated_names(table: str) -> set[str]:
    """Folded names of a table's columns with a collation.

    If there are any, a generated column counts as one of them: it may have that of its expression.

    Args:
        table: its CREATE TABLE, as DuckDB writes it.
    """
    words = tokens(table)
    inside = [i for i, depth in enumerate(depths(words)) if depth == 1]
    begins = [i + 1 for i in inside if words[i].word in ("(", ",")]
    entries = [words[a:b] for a, b in zip(begins, [*begins[1:], len(words)], strict=True)]
    some = any("COLLATE" in [t.word for t in entry] for entry in entries)
    marks = {"COLLATE", "GENERATED"} if some else set()
    named = [entry for entry in entries if marks & {token.word for token in entry}]
    return {fold(unquoted(entry[0])) for entry in named}


def _collated(plan: Plan) -> frozenset[int]:
    """Positions of the output columns that have a collation."""
    if isinstance(plan, Scan):
        return frozenset(plan.collated)
    found: set[int] = set()
    if not isinstance(plan, ViewScan):
        for part, read, own in zip(inputs(plan), reads(plan), origins(plan), strict=True):
            given = _collated(part)
            if not given.isdisjoint(read):
                raise NotIncremental("what is done with a column that has a collation")
            found.update(i for i, source in own.items() if source in given)
    return frozenset(found)
