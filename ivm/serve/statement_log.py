"""The server's log: one line for each login and each statement, by `logging`, under `ivm.serve`.

Law: no line has a password. What stands behind words that announce one is left out, and in a
statement about a user or a secret whatever is none of its words: one of them may be misspelt.
"""

from __future__ import annotations

import logging
import re

from ivm.serve.served_session import ServedSession
from ivm.serve.settings import ServerSettings
from ivm.storage.identifiers import BLANKS_BEYOND_ASCII, WORD_CHARACTER

LOG = logging.getLogger("ivm.serve")
_MOST = 400  # characters of a statement
_GAP = rf"(?:[\s{BLANKS_BEYOND_ASCII}]|/\*.*?\*/|--[^\n]*(?:\n|$))*+"
_NAMES = ["password", "passwort", "passwd", "passw", "pwd", "pass", "passphrase", "secret", "token"]
_QUOTED = rf"(?P<tag>\${WORD_CHARACTER}*\$).*?(?:(?P=tag)|$)"
_BARE = rf"(?:{'|'.join(f'(?<={name}=)' for name in _NAMES)})[^\s'\",;)&]+"
_SECRET = re.compile(
    r"(?i)(\b\w*(?:passw\w*|passphrase|pass|pwd"
    r"|(?:secret|token|access_key|private_key|credential)\w*)\b['\"]?"
    rf"{_GAP}(?::=|=>|=|:)?{_GAP}\(?{_GAP})"
    rf"((?:E|N|X|U&)?'(?:[^']|'')*'?|{_QUOTED}|{_BARE})",
    re.DOTALL,
)
_TEXT = rf"""(?:E|N|X|U&)?'(?:[^']|'')*(?:'|$)|"(?:[^"]|"")*(?:"|$)|{_QUOTED}"""
_OF_USER = re.compile(
    rf"(?i)\b(?P<head>(?:create|alter){_GAP}(?:or{_GAP}replace{_GAP}|(?:persistent|temp|temporary)"
    rf"{_GAP})?(?:user|role|group|secret)\b{_GAP}(?:if{_GAP}(?:not{_GAP})?exists\b{_GAP})?[\w.]*)"
    rf"(?P<rest>(?:{_TEXT}|[^;])*)",
    re.DOTALL,
)
_PART = re.compile(rf"(?i){_TEXT.replace('tag', 'mark')}|[^\s(),=*]+", re.DOTALL)
_WORDS = frozenset(
    (
        *("password", "role", "read", "write", "admin", "in", "schema", "schemas", "all", "with"),
        *("if", "not", "exists", "type", "provider", "scope", "key_id", "secret", "region"),
        *("endpoint", "url_style", "use_ssl", "on", "to"),
    )
)
_URL = re.compile(r"(://[^/\s:@']+:)[^@\s']+@")


class StatementLog:
    """Writes the lines that the settings ask for.

    Args:
        settings: of the server.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.apply(settings)

    def apply(self, settings: ServerSettings) -> None:
        """Takes other settings."""
        self._logins = settings.log != "errors" and LOG.isEnabledFor(logging.INFO)
        self._statements = settings.log == "statements" and LOG.isEnabledFor(logging.INFO)

    def login(self, session: ServedSession, protocol: str) -> None:
        """Somebody has logged in."""
        if self._logins:
            user = session.user
            LOG.info("%s: login of %s (%s) by %s", _who(session), user.name, user.role, protocol)

    def refused(self, peer: str, name: str, reason: object) -> None:
        """Somebody was not let in."""
        LOG.warning("%s: login of %r refused: %s", peer, name, one_line(reason))

    def left(self, session: ServedSession) -> None:
        """Somebody has left."""
        if self._logins:
            LOG.info("%s: left", _who(session))

    def statement(self, session: ServedSession, sql: str, seconds: float) -> None:
        """A statement was run."""
        if self._statements:
            LOG.info("%s: %.1f ms: %s", _who(session), seconds * 1000, told(sql))

    def failed(self, session: ServedSession, sql: str, error: BaseException) -> None:
        """A statement has failed."""
        reason = _without(secrets_of(sql), str(error)[: 4 * _MOST])
        reason = one_line(without_secrets(reason))
        LOG.warning("%s: %s: failed: %s", _who(session), told(sql), reason)


def _who(session: ServedSession) -> str:
    return f"{session.peer} #{session.number}"


def told(sql: str) -> str:
    """A statement as one line without passwords, cut if it is long."""
    cut = sql if len(sql) <= 4 * _MOST else sql[: 4 * _MOST]
    line = one_line(without_secrets(cut))
    return line if len(line) <= _MOST else f"{line[:_MOST]}…"


def without_secrets(text: str) -> str:
    """The text without what stands behind words such as PASSWORD, in statements, and in URLs."""
    text = _OF_USER.sub(_user_told, text)
    return _URL.sub(r"\1***@", _SECRET.sub(r"\1'***'", text))


def _user_told(found: re.Match[str]) -> str:
    return found["head"] + _PART.sub(
        lambda part: part[0] if part[0].lower() in _WORDS else "'***'", found["rest"]
    )


def secrets_of(sql: str) -> set[str]:
    """What is left out of a statement, which an error may quote without the words before it."""
    found = [part[0] for each in _OF_USER.finditer(sql) for part in _PART.finditer(each["rest"])]
    found += [each[2] for each in _SECRET.finditer(sql)]
    bare = {text.strip("'\"$") for text in found if text.lower() not in _WORDS}
    return {text for text in bare if len(text) > 2}


def _without(secrets: set[str], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def one_line(text: object) -> str:
    """The text with its blanks and ends of lines as single blanks.

    What a terminal would obey, or has no bytes in UTF-8, is written as an escape: a client's text
    neither moves the cursor of who reads the log nor keeps a line from being written.
    """
    line = " ".join(str(text).split())
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)
