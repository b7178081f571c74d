"""The state of a circuit's nodes by what they compute, to be taken up by another process.

Law: nodes with equal identities compute the same from the same sources, whatever circuit they are
in; so a state fits a node if the identities are equal and no source has changed in between.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping

from ivm.delta_ops.circuit import Circuit
from ivm.delta_ops.state.hash_index import HashIndex
from ivm.delta_ops.state.integral import Integral
from ivm.delta_ops.state.key_store import ArrowStore, FixedStore, KeyStore
from ivm.storage.state.state_file import StateFile

CLASSES = (ArrowStore, FixedStore, HashIndex, Integral, KeyStore)
"""What the states of operators are made of."""


def identities(circuit: Circuit) -> dict[int, str]:
    """What each node computes, as a digest of its operator, its parameters and all below it."""
    found: dict[int, str] = {}
    for number in circuit.numbers:
        node = circuit.node(number)
        operator = node.operator
        types = [type.sql for type in operator.types]
        below = [found[i] for i in node.inputs]
        told = repr((type(operator).__qualname__, node.key, types, below))
        found[number] = hashlib.sha256(told.encode()).hexdigest()
    return found


def states(circuit: Circuit) -> Iterator[tuple[str, object]]:
    """The identity and state of every node that has a state which can be saved."""
    for number, identity in identities(circuit).items():
        node = circuit.node(number)
        if node.operator.stateful and node.hydrated:
            state = node.operator.saved()
            if state is not None:
                yield identity, state


def restore(
    circuit: Circuit, nodes: Iterable[int], known: Mapping[int, str], file: StateFile
) -> None:
    """Restores the state of nodes that lack it, as far as a file has it.

    Args:
        circuit: of the nodes.
        nodes: their numbers.
        known: identities of nodes.
        file: of states, since which no source of the nodes has changed.

    Raises:
        StateError: the file is damaged, or of other operators.
    """
    for number in nodes:
        node = circuit.node(number)
        if not node.hydrated and known[number] in file:
            node.operator.restore(file.load(known[number]))
            node.hydrated = True
