"""The settings of PostgreSQL that drivers set and ask for, of one session.

Law: a setting that would change what values look like or names mean is refused unless it asks for
what is so anyway; the others are remembered and shown. A time zone and a time limit are real.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping

from ivm.storage.errors import InputError, UnsupportedError

VERSION = "15.0"
"""The version of PostgreSQL whose catalog and messages clients find."""

SERVER = f"PostgreSQL {VERSION} (ivm)"
"""What version() tells."""

REPORTED = (
    *("server_version", "server_encoding", "client_encoding", "application_name", "DateStyle"),
    *("IntervalStyle", "TimeZone", "integer_datetimes", "standard_conforming_strings"),
    *("is_superuser", "session_authorization", "default_transaction_read_only"),
)
"""The settings that clients are told at login, and when they change."""

_SPELLING = {name.lower(): name for name in REPORTED}
_DEFAULTS = {
    "application_name": "",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "client_min_messages": "notice",
    "datestyle": "ISO, MDY",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "extra_float_digits": "1",
    "idle_in_transaction_session_timeout": "0",
    "integer_datetimes": "on",
    "intervalstyle": "postgres",
    "is_superuser": "off",
    "lc_collate": "C",
    "lc_ctype": "C",
    "lock_timeout": "0",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "row_security": "off",
    "search_path": "main",
    "server_encoding": "UTF8",
    "server_version": VERSION,
    "server_version_num": "150000",
    "session_authorization": "",
    "ssl": "off",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "synchronous_commit": "on",
    "timezone": "UTC",
    "transaction_isolation": "read committed",
    "transaction_read_only": "off",
}
OWN_SETTINGS = frozenset(
    (
        *_DEFAULTS,
        *("backslash_quote", "check_function_bodies", "default_table_access_method"),
        *("default_tablespace", "default_toast_compression"),
        *("default_transaction_deferrable", "enable_seqscan", "escape_string_warning"),
        *("geqo", "jit", "lc_messages", "lc_monetary", "lc_numeric", "lc_time"),
        *("plan_cache_mode", "quote_all_identifiers", "role", "synchronize_seqscans"),
        *("tcp_keepalives_idle", "xmloption"),
    )
)
"""The settings of PostgreSQL that are kept for the session, or have an effect here."""
_LEVELS = ("serializable", "repeatable read", "read committed", "read uncommitted")
_OF_ONE = ("transaction_isolation", "transaction_read_only")
"""The settings of one transaction; those of later ones have `default_` before their names."""
_FIXED = frozenset(
    ("server_version", "server_version_num", "server_encoding", "integer_datetimes", "is_superuser")
)
_OF_WHO_ACTS = frozenset(("role", "session_authorization"))
_ON, _OFF = ("on", "true", "1", "yes"), ("off", "false", "0", "no")
_ONLY = {
    "bytea_output": ("hex",),
    "client_encoding": ("utf8", "utf-8", "unicode", "default", "sql_ascii"),
    "intervalstyle": ("postgres",),
    "standard_conforming_strings": _ON,
}
_HIDING_NOTHING = frozenset(("", "main", "temp", "$user", "pg_temp", "pg_catalog"))
"""The schemas of a search path in which names mean what they mean here anyway."""
_TOLD = _FIXED | {"client_encoding", "session_authorization"}
"""Settings of which the client is told what they are, whatever it asks for at its login."""
_FLIPPED = {"GMT-": "GMT+", "GMT+": "GMT-"}
"""PostgreSQL counts such zones to the west, as pgJDBC writes them, and DuckDB to the east."""
_OPTION = re.compile(r"(?:-c\s*|--)([\w.-]+)=((?:\\.|[^\s\\])*)")
_UNITS = {"": 0.001, "ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def asked_at_login(given: Mapping[str, str]) -> dict[str, str]:
    """The settings that a client asks for at its start, those in its `options`, too."""
    options = {
        name.replace("-", "_"): re.sub(r"\\(.)", r"\1", value)
        for name, value in _OPTION.findall(given.get("options", ""))
    }
    asked = {name.lower(): value for name, value in {**options, **given}.items()}
    zone = asked.get("timezone", "")
    if zone[:4] in _FLIPPED:
        asked["timezone"] = _FLIPPED[zone[:4]] + zone[4:]
    return {n: v for n, v in asked.items() if n in _DEFAULTS and n not in _TOLD}


class SessionSettings:
    """The settings of a session.

    Args:
        given: by name, at login.
    """

    def __init__(self, given: dict[str, str]) -> None:
        self._at_login = dict(_DEFAULTS)
        self._at_login.update(given)
        self._now = dict(self._at_login)
        self._before: dict[str, str] = {}  # what ROLLBACK gives again
        self._before_local: dict[str, str] = {}  # what COMMIT does
        self.begin()

    def get(self, name: str) -> str:
        """The value of a setting.

        Raises:
            InputError: there is none of this name.
        """
        found = self._now.get(name.lower())
        if found is None:
            raise InputError(f"there is no setting {name!r}")
        return found

    def remember(self, name: str, before: Mapping[str, str], *, local: bool) -> None:
        """A setting was set: what it was before is given again at the transaction's end."""
        value = before.get(name, "")
        self._before.setdefault(name, value)
        if local:
            self._before_local.setdefault(name, value)
        else:
            self._before_local.pop(name, None)

    def ended(self, *, commits: bool) -> dict[str, str]:
        """The transaction has ended: the settings that are to be what they were before."""
        found = self._before_local if commits else self._before
        self._before, self._before_local = {}, {}
        return found

    def keep(self) -> None:
        """What is set now is what RESET gives again."""
        self._at_login = dict(self._now)

    @property
    def is_read_only(self) -> bool:
        """Whether changes are refused now."""
        return self._now["transaction_read_only"] == "on"

    @property
    def is_pinned(self) -> bool:
        """Whether all queries of the transaction are to see one epoch."""
        return self._now["transaction_isolation"] in ("serializable", "repeatable read")

    def begin(self, modes: Iterable[tuple[str, str]] = ()) -> None:
        """A transaction begins, with these settings before the defaults, or has ended."""
        self._now.update({name: self._now[f"default_{name}"] for name in _OF_ONE})
        self._now.update(modes)

    def all(self) -> dict[str, str]:
        """All settings by name."""
        return dict(self._now)

    def set(self, name: str, value: str) -> str | None:
        """Sets a setting; returns its name as clients are told of the change, None if not.

        Raises:
            InputError: it cannot be changed.
            UnsupportedError: the value would change what values look like, or names mean.
        """
        name = name.lower()
        if value.lower() == "default":
            value = self._at_login.get(name, "")
        if name in _FIXED and value != self._now[name]:
            raise InputError(f"the setting {name!r} cannot be changed")
        allowed = _ONLY.get(name)
        if allowed is not None and value.lower() not in allowed:
            raise UnsupportedError(f"the setting {name!r} is {self._now[name]} here, not {value!r}")
        if name in _OF_WHO_ACTS and value not in ("", "none", self._now["session_authorization"]):
            raise UnsupportedError(
                f"the setting {name!r} cannot be {value!r}: a session has the rights of the user "
                "who has logged in, so log in as another"
            )
        if name == "client_encoding":
            value = "UTF8"
        if name == "datestyle":
            _demand_iso(value)
            value = self._now[name]
        self._now[name] = _mode(name, value)
        return _SPELLING.get(name)

    def reset(self, name: str | None) -> list[str]:
        """Gives a setting, or all, the value of the login; returns those that clients are told."""
        names = [n for n in self._now if n not in _OF_ONE] if name is None else [name.lower()]
        changed = [n for n in names if self._now.get(n) != self._at_login.get(n)]
        for each in names:
            if each in self._at_login:
                self._now[each] = self._at_login[each]
            else:
                self._now.pop(each, None)
        return [_SPELLING[n] for n in changed if n in _SPELLING]

    def column_name(self, name: str) -> str:
        """The name of SHOW's column."""
        return {"timezone": "TimeZone", "datestyle": "DateStyle"}.get(name, name)


def seconds(value: str) -> float:
    """The seconds of a time limit such as `500`, `2s` or `1min`; a number alone is milliseconds.

    Raises:
        InputError: it is none.
    """
    text = value.strip()
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(digits) :].strip()
    try:
        return float(digits) * _UNITS[unit]
    except (ValueError, KeyError) as error:
        raise InputError(f"{value!r} is no length of time: write 500, 2s or 1min") from error


def _mode(name: str, value: str) -> str:
    """The value of a setting, one of transactions in the spelling that is shown.

    Raises:
        InputError: it is none of them.
    """
    one = name.removeprefix("default_")
    if one not in _OF_ONE:
        return value
    word = value.lower()
    if one == "transaction_read_only":
        word = "on" if word in _ON else "off" if word in _OFF else word
    known = ("on", "off") if one == "transaction_read_only" else _LEVELS
    if word not in known:
        raise InputError(f"{name} is one of {', '.join(known)}, not {value!r}")
    return word


def demand_main(path: str, schemas: Callable[[], Container[str]]) -> None:
    """Refuses a search path in which names would mean other relations than they do here.

    Args:
        path: the setting.
        schemas: gives the folded names of those of the database; where `public` is none, as in
            most, it stands for main in what tools of PostgreSQL's send.

    Raises:
        UnsupportedError: it is one.
    """
    other = {word.strip(" \"'").lower() for word in path.split(",")} - _HIDING_NOTHING
    if other and (other != {"public"} or "public" in schemas()):
        raise UnsupportedError(
            f"names without a schema are those of main here, not of {', '.join(sorted(other))}: "
            "write the schema before the name"
        )


def _demand_iso(value: str) -> None:
    words = {word.strip().lower() for word in value.split(",")}
    if words & {"sql", "postgres", "german"}:
        raise UnsupportedError(f"dates are written as ISO 8601 has them, not as {value!r}")
