"""The rows of a view under the key of its groups, out of the state of its aggregate.

Law: they are the rows that the view's committed deltas add up to under that key: the state gives a
group's row, and the linear operators above make of it what they make of its delta. No other row has
the key, as every group has one row.
"""

from __future__ import annotations

from collections.abc import Sequence

from ivm.delta_ops.aggregates.aggregate import Aggregate, CollectingAggregate
from ivm.delta_ops.circuit import Circuit, Node
from ivm.storage.values.column import Column
from ivm.storage.values.zset import ZSet


class GroupLookup:
    """The way from a key of a view to its row.

    Args:
        group: the node of the aggregate.
        order: for each of its grouping columns, which of the key's columns that is.
        above: the nodes from there to the view's output.
    """

    def __init__(self, group: Node, order: Sequence[int], above: Sequence[Node]) -> None:
        self._node, self._order = group, tuple(order)
        assert isinstance(group.operator, Aggregate)
        self._group = group.operator
        self._above = [node.operator for node in above]
        self._none = (above[-1] if above else group).empty

    @staticmethod
    def of(circuit: Circuit, view: str, key: Sequence[int]) -> GroupLookup | None:
        """The way to the rows of a view under a key; None if that is not the key of its groups.

        Args:
            circuit: has the view, or has not.
            view: its name.
            key: positions of its columns, at least one.
        """
        columns, above = list(key), list[Node]()
        for node in circuit.chain(view):
            operator = node.operator
            if isinstance(operator, Aggregate):
                is_key = sorted(columns) == list(range(operator.key_count))
                if not is_key or isinstance(operator, CollectingAggregate):
                    return None
                return GroupLookup(node, [columns.index(i) for i in range(len(columns))], above)
            below = [operator.origin(i) for i in columns]
            columns = [i for i in below if i is not None]
            if len(columns) < len(below):
                return None
            above.insert(0, node)
        return None

    @property
    def ready(self) -> bool:
        """Whether the state is built."""
        return self._node.hydrated

    def rows(self, key: Sequence[Column]) -> ZSet:
        """The rows under a key, as committed; no step and no commit may be under way meanwhile.

        Args:
            key: a column of one row for each of the key's columns, in their order; none is NULL.
        """
        batch = self._group.row_of([key[i] for i in self._order])
        if batch is None:
            return self._none
        for operator in self._above:
            batch = operator.step((batch,))
            if not len(batch.weights):
                return self._none
        return batch
