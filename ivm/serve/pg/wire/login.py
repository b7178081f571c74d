"""The login of a client by SCRAM-SHA-256.

Law: a name without a verifier goes through the same messages as one with a wrong password, so that
nobody learns which users there are.
"""

from __future__ import annotations

import hashlib
import secrets

from ivm.serve.access import Gate, User, Verifier
from ivm.serve.pg.wire import codec
from ivm.serve.pg.wire.codec import Frame, ProtocolError, Reader
from ivm.serve.pg.wire.errors import BAD_LOGIN, PgError
from ivm.serve.pg.wire.scram import MECHANISM, Scram, ScramError

_SASL, _CONTINUE, _FINAL = 10, 11, 12
_ITERATIONS = 4096
_SALT_KEY = secrets.token_bytes(32)


class Login:
    """The login of one client.

    Args:
        gate: knows the users.
        name: by which the client wants to be known.
    """

    def __init__(self, gate: Gate, name: str) -> None:
        self._gate = gate
        self._name = name
        self._exchange: Scram | None = None

    def begin(self) -> bytes:
        """The message that asks for a login."""
        return codec.authentication(_SASL, MECHANISM.encode() + b"\0\0")

    def answer(self, frame: Frame) -> tuple[bytes, User | None]:
        """Takes a message; returns the answer, and who is logged in once that is certain.

        Raises:
            PgError: the password is wrong, or there is no such user.
            ProtocolError: the message has no place here.
        """
        if frame.tag != "p":
            raise ProtocolError(f"a message of kind {frame.tag!r} before the login")
        try:
            if self._exchange is None:
                return self._first(Reader(frame.body)), None
            final = self._exchange.server_final(frame.body.decode())
        except (ScramError, UnicodeError) as error:
            raise PgError(
                BAD_LOGIN, f"the user {self._name!r} is unknown, or the password is wrong"
            ) from error
        user = self._gate.user(self._name)
        if user is None:
            raise PgError(BAD_LOGIN, f"the user {self._name!r} is unknown")
        return codec.authentication(_FINAL, final.encode()) + codec.authentication(0), user

    def _first(self, reader: Reader) -> bytes:
        mechanism = reader.text()
        if mechanism != MECHANISM:
            raise ProtocolError(f"logins are by {MECHANISM}, not {mechanism}")
        data = reader.take(reader.long()).decode()
        self._exchange = Scram(self._gate.verifier(self._name) or _unknown(self._name), data)
        return codec.authentication(_CONTINUE, self._exchange.server_first.encode())


def _unknown(name: str) -> Verifier:
    """A verifier that no password fits, the same one whenever a name is tried again."""
    salt = hashlib.sha256(_SALT_KEY + name.encode()).digest()[:16]
    return Verifier(salt, _ITERATIONS, secrets.token_bytes(32), secrets.token_bytes(32))
