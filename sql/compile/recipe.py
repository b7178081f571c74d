"""Recipes: the operators of plan nodes, not yet made, and the conditions that they test."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from sqlglot import exp

from ivm.delta_ops.circuit import Factory
from ivm.delta_ops.linear.duck_eval import duck_predicate
from ivm.delta_ops.operator import CursorFactory, Operator, Predicate
from ivm.sql.plan.built_in import duck_text
from ivm.sql.plan.nodes import Plan, types
from ivm.sql.scalar.compile import compile_predicate
from ivm.storage.values.ordering.order import OrderKey

Operators = tuple[Operator, ...]


class Arranged(NamedTuple):
    """The rows of a plan, arranged by a key and, under it, in an order."""

    plan: Plan
    key: tuple[int, ...]
    order: tuple[OrderKey, ...] = ()


class Recipe(NamedTuple):
    """The operator of a plan node, not yet made.

    Attributes:
        plan: the node by which EXPLAIN describes the operator.
        key: the operator and all its parameters; equal keys mean equal operators.
        inputs: the plans whose nodes are its inputs.
        build: makes the operator from the operators of `inputs`.
    """

    plan: Plan
    key: tuple[Hashable, ...]
    inputs: Sequence[Plan | Arranged]
    build: Factory


def predicate_of(expr: exp.Expr, plan: Plan, cursors: CursorFactory) -> Predicate:
    """Compiles a condition over a plan's columns; DuckDB evaluates it if it has no kernel."""
    given = types(plan)
    return compile_predicate(expr, given) or duck_predicate(duck_text(expr), given, cursors)
