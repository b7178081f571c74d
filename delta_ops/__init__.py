"""DBSP operators over Z-sets, and the circuit that runs them."""
