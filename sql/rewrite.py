"""The ordered rules between binding and compiling.

Law: every rule gives a plan with the same content and the same schema.
"""

from __future__ import annotations

from ivm.sql.plan import Plan


def rewrite(plan: Plan) -> Plan:
    """The plan after all rules, in their order."""
    return plan
