"""Which queries ask about the catalog as PostgreSQL has it.

Law: a query is one only if it names a relation of `pg_catalog` or `information_schema`, or calls a
function of PostgreSQL's that tells about the session or the server and reads no relation.
"""

from __future__ import annotations

import re

_RELATIONS = re.compile(r"(?i)\bpg_catalog\s*\.|\binformation_schema\s*\.|\bpg_[a-z_]+\b")
_FUNCTIONS = re.compile(
    r"(?i)\b(?:version|pg_[a-z_]+|current_schemas?|current_setting|set_config|inet_server_addr"
    r"|inet_server_port|inet_client_addr|txid_current|has_[a-z_]+_privilege|current_database"
    r"|current_catalog|current_user|session_user|current_role|to_regclass|to_regtype|obj_description"
    r"|col_description|format_type|quote_ident)\b"
)
_READS = re.compile(r"(?i)\bfrom\b")
_STRINGS = re.compile(r"'(?:[^']|'')*'")


def asks_catalog(text: str) -> bool:
    """Returns whether a query asks about the catalog."""
    if "pg_" not in text and "PG_" not in text and not _FUNCTIONS.search(text):
        return "information_schema" in text.lower()
    bare = _STRINGS.sub("''", text)
    return bool(_RELATIONS.search(bare)) or (
        _FUNCTIONS.search(bare) is not None and not _READS.search(bare)
    )
