"""The server's log: one line for each login and each statement, by `logging`, under `ivm.serve`.

Law: no line has a password: what stands behind words that announce one is left out.
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
_QUOTED = rf"(?P<tag>\${WORD_CHARACTER}*\$).*?(?:(?P=tag)|$)"
_SECRET = re.compile(
    r"(?i)(\b\w*(?:password|passwd|secret|token|access_key|private_key|credential)\w*['\"]?"
    rf"{_GAP}(?::=|=>|=|:)?{_GAP}\(?{_GAP})"
    rf"((?:E|N|X|U&)?'(?:[^']|'')*'?|{_QUOTED}|(?<=password=)[^\s'\",;)&]+)",
    re.DOTALL,
)
_OF_USER = re.compile(  # what else stands there in the place of a text, by mistake
    r"(?i)(\b(?:create|alter)\s+(?:user|role)\b[^;]*?\b(?:password|by)\b)\s*(.*?)"
    r"(?=\s+role\b|\s+in\s|;|$)",
    re.DOTALL,
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
        LOG.warning("%s: login of %r refused: %s", peer, name, one_line(str(reason)))

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
        reason = one_line(without_secrets(str(error)[: 4 * _MOST]))
        LOG.warning("%s: %s: failed: %s", _who(session), told(sql), reason)


def _who(session: ServedSession) -> str:
    return f"{session.peer} #{session.number}"


def told(sql: str) -> str:
    """A statement as one line without passwords, cut if it is long."""
    cut = sql if len(sql) <= 4 * _MOST else sql[: 4 * _MOST]
    line = one_line(without_secrets(cut))
    return line if len(line) <= _MOST else f"{line[:_MOST]}…"


def without_secrets(text: str) -> str:
    """The text without what stands behind words such as PASSWORD, and in URLs."""
    found = _URL.sub(r"\1***@", _SECRET.sub(r"\1'***'", text))
    return _OF_USER.sub(r"\1 '***'", found)


def one_line(text: str) -> str:
    """The text with its blanks and ends of lines as single blanks."""
    return " ".join(text.split())
