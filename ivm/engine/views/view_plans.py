"""Plans of views: a view's query, bound, rewritten and compiled, by when its rows come.

Law: a view without a plan is recomputed, and says why; one whose rows stay has a plan, and reads
nothing that is recomputed, which would be behind when its rows are made.
"""

from __future__ import annotations

from dataclasses import replace

from ivm.catalog.binding import BindingCatalog
from ivm.catalog.version import CatalogVersion, View
from ivm.delta_ops.aggregates.aggregate import CollectingAggregate
from ivm.delta_ops.aggregates.group_recompute import GroupRecompute
from ivm.delta_ops.circuit import Circuit
from ivm.delta_ops.operator import CursorFactory
from ivm.delta_ops.ordered.window import Window
from ivm.engine.views.arrival_views import arrived
from ivm.engine.views.final_views import emitted, stored_rows
from ivm.sql.bind.bind import bind
from ivm.sql.compile.compile import CircuitCompiler
from ivm.sql.parse.function_list import FunctionList
from ivm.sql.plan.nodes import NotIncremental, Plan, Scan
from ivm.sql.plan.unique_key import unique_key
from ivm.sql.plan.walks import nodes
from ivm.sql.rewrite.rewrite import rewrite
from ivm.sql.statements.own.views import CLAUSES
from ivm.storage.errors import UnsupportedError
from ivm.storage.warehouse.duckdb.duck import Cursor


def compiled(
    view: View,
    version: CatalogVersion,
    cursor: Cursor,
    functions: FunctionList | None,
    cursors: CursorFactory,
) -> View:
    """A view with its plan in a circuit of its own, or with the reason why it is recomputed.

    Args:
        view: with its query.
        version: of the catalog.
        cursor: sees the relations that it reads.
        functions: those that the cursor sees, listed anew if not given.
        cursors: for what only DuckDB computes.

    Raises:
        UnsupportedError: its rows stay, and it would be recomputed, or reads what is.
        duckdb.Error: DuckDB does not accept the query.
    """
    try:
        plan = _plan(view, version, cursor, functions)
        compiler = CircuitCompiler(Circuit(), cursors)
        node = compiler.add_view(view.name, plan)
        _demand_read(compiler, view, version)
        _refuse_whole_groups(compiler.circuit, view.name)
    except (NotIncremental, RecursionError) as verdict:
        deep = "an expression nested too deeply to be planned"
        reason = verdict.reason if isinstance(verdict, NotIncremental) else deep
        if view.stays:
            raise UnsupportedError(
                f"{CLAUSES[view.emits]} needs a view that is maintained by changes, and this "
                f"one is recomputed: {reason}"
            ) from verdict
        return replace(view, plan=None, reason=reason, key=None, compiled=None, rounds=False)
    key, rounds = unique_key(plan), not compiler.circuit.node(node).reproducible
    return replace(view, plan=plan, reason=None, key=key, compiled=compiler, rounds=rounds)


def _plan(
    view: View, version: CatalogVersion, cursor: Cursor, functions: FunctionList | None
) -> Plan:
    bound = bind(view.query, BindingCatalog(version), cursor, functions, view.tick)
    if view.stays:
        _refuse_recomputed(bound, version, CLAUSES[view.emits])
    match view.emits:
        case "arrival":
            return arrived(bound, stored_rows(version, view))
        case "final":
            return emitted(rewrite(bound), view, version, cursor, functions)
        case "changes":
            return rewrite(bound)


def _refuse_recomputed(plan: Plan, version: CatalogVersion, what: str) -> None:
    """Refuses a query over a recomputed view, unless that reads no table."""
    names = BindingCatalog(version)
    for node in nodes(plan):
        name = names.canonical(node.relation) if isinstance(node, Scan) else ""
        if name in version.views and not version.views[name].constant:
            raise UnsupportedError(
                f"{what}: {name!r} is recomputed, when it is read, so it may be behind when a row "
                f"is made for good; EXPLAIN MATERIALIZED VIEW {name} says what is recomputed"
            )


def _refuse_whole_groups(circuit: Circuit, view: str) -> None:
    """Refuses an operator that would recompute one group of all rows at every change.

    Such a view is recomputed when it is read, which may be after many changes.

    Raises:
        NotIncremental: there is one.
    """
    for number in circuit.nodes_of(view):
        operator = circuit.node(number).operator
        recomputes = CollectingAggregate | GroupRecompute | Window
        if isinstance(operator, recomputes) and operator.whole:
            raise NotIncremental("an aggregate or window over all rows without a rule of its own")


def _demand_read(compiler: CircuitCompiler, view: View, version: CatalogVersion) -> None:
    """Refuses a plan that scans a relation that DuckDB does not read for the query."""
    names = BindingCatalog(version)
    scanned = {names.canonical(scan.relation) for scan in compiler.sources().values()}
    if not scanned <= version.with_sources(view.reads):
        raise NotIncremental("a name that DuckDB takes for another relation")
