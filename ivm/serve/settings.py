"""How a database is served: the section `[server]` of `ivm.toml`, and the command line before it.

[server]
pg = "127.0.0.1:5432"
trust = "loopback"               # programs of this machine need no password
tls = "self-made"                # or "off", or certificate = "…" and key = "…"
connections = 100
statement_seconds = 300
result_megabytes = 1024
send_seconds = 60                # for which a client may read nothing of its result
idle_seconds = 0                 # after which a connection is closed; 0: never
log = "statements"               # or "logins", or "errors"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ivm.engine.base.settings_file import section
from ivm.storage.errors import InputError

_CHOICES = {
    "trust": ("", "loopback"),
    "tls": ("off", "self-made"),
    "log": ("statements", "logins", "errors"),
}


@dataclass(frozen=True)
class ServerSettings:
    """The settings of a server.

    Attributes:
        pg: address for PostgreSQL's protocol; "" for none.
        http: address for HTTP; "" for none.
        trust: "loopback" if programs of this machine need no password.
        tls: "off", or "self-made" for a certificate that the server makes.
        certificate: path of a PEM file with a certificate and its chain; it implies TLS.
        key: path of its key, if that is another file.
        connections: at most, of both protocols together.
        statement_seconds: after which a statement is cancelled; 0: never.
        result_megabytes: of one result, at most; 0: no limit.
        send_seconds: for which a client may read nothing of what it is sent; 0: for ever.
        idle_seconds: after which a connection without a statement is closed; 0: never.
        grace_seconds: for statements that run when the server is asked to stop, and their answers.
        log: what is logged: every statement, logins, or errors alone.
        request_megabytes: of the body of one HTTP request, at most.
        subscribers: of changefeeds over HTTP, at most.
        origins: of pages, other than the server's own, that may speak to it; with commas.
    """

    pg: str = ""
    http: str = ""
    trust: str = ""
    tls: str = "off"
    certificate: str = ""
    key: str = ""
    connections: int = 100
    statement_seconds: float = 300.0
    result_megabytes: float = 1024.0
    send_seconds: float = 60.0
    idle_seconds: float = 0.0
    grace_seconds: float = 10.0
    log: str = "statements"
    request_megabytes: float = 64.0
    subscribers: int = 1000
    origins: str = ""

    def __post_init__(self) -> None:
        for field in fields(self):
            _demand(field.name, getattr(self, field.name), str(field.type))
        if self.key and not self.certificate:
            raise InputError("[server] key is of no use without certificate: nothing is encrypted")

    @property
    def has_tls(self) -> bool:
        """Whether connections can be encrypted."""
        return bool(self.certificate) or self.tls != "off"


def read_settings(database: str, given: Mapping[str, Any]) -> ServerSettings:
    """The settings of `ivm.toml`, and before them what the command line says.

    Args:
        database: the path of its file.
        given: settings by name; None for what the command line leaves open.

    Raises:
        InputError: the file cannot be read, or a setting makes no sense.
    """
    names = [field.name for field in fields(ServerSettings)]
    found = section(database, "server", names) or {}
    return replace(ServerSettings(**found), **{n: v for n, v in given.items() if v is not None})


def address(text: str) -> tuple[str, int]:
    """The host and port of `host:port`; a port alone is one of this machine.

    Raises:
        InputError: it is neither.
    """
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise InputError(f"{text!r} is no address: write host:port, such as 127.0.0.1:5432")
    return host.strip("[]") or "127.0.0.1", int(port)


def _demand(name: str, value: Any, type: str) -> None:
    wanted = {"str": str, "int": int, "float": int | float}[type]
    if not isinstance(value, wanted) or isinstance(value, bool):
        kind = {"str": "a text", "int": "an integer", "float": "a number"}[type]
        raise InputError(f"[server] {name} is {kind}, not {value!r}")
    if name in _CHOICES and value not in _CHOICES[name]:
        choices = " or ".join(f'"{choice}"' for choice in _CHOICES[name] if choice)
        raise InputError(f"[server] {name} is {choices}, not {value!r}")
    if not isinstance(value, str) and (value < 0 or (name == "connections" and value < 1)):
        raise InputError(f"[server] {name} is at least {int(name == 'connections')}, not {value}")
    if name in ("pg", "http") and value:
        address(str(value))
