"""From the plan of a view to the operators of the circuit, and EXPLAIN."""
