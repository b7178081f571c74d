"""The server's side of SCRAM-SHA-256 (RFC 5802 and 7677), as PostgreSQL's clients speak it.

They leave the name empty in these messages, which the package that makes the verifiers refuses.
Law: the proof p is right if H(p XOR HMAC(stored key, messages)) is the stored key.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

from ivm.serve.access import Verifier

MECHANISM = "SCRAM-SHA-256"


class ScramError(Exception):
    """Messages that make no sense, or a proof that is wrong."""


class Scram:
    """One exchange.

    Args:
        verifier: of the password that the client should have.
        client_first: the client's first message.

    Attributes:
        server_first: the answer to it.

    Raises:
        ScramError: the message makes no sense.
    """

    def __init__(self, verifier: Verifier, client_first: str) -> None:
        flag, _, rest = client_first.partition(",")
        identity, _, bare = rest.partition(",")
        fields = _fields(bare)
        if flag not in ("n", "y") or identity.startswith("m=") or not fields.get("r"):
            raise ScramError("a first message without a nonce, or with what is not offered")
        self._verifier = verifier
        self._header = f"{flag},{identity},"
        self._bare = bare
        self._nonce = fields["r"] + secrets.token_urlsafe(18)
        salt = base64.b64encode(verifier.salt).decode()
        self.server_first = f"r={self._nonce},s={salt},i={verifier.iterations}"

    def server_final(self, client_final: str) -> str:
        """The answer to the client's last message, which proves that it knows the password.

        Raises:
            ScramError: it does not.
        """
        unproven, _, proof = client_final.rpartition(",p=")
        fields = _fields(unproven)
        header = base64.b64encode(self._header.encode()).decode()
        if fields.get("r") != self._nonce or fields.get("c") != header:
            raise ScramError("a last message of another exchange")
        messages = f"{self._bare},{self.server_first},{unproven}".encode()
        signature = _hmac(self._verifier.stored_key, messages)
        try:
            proven = base64.b64decode(proof, validate=True)
            key = bytes(a ^ b for a, b in zip(proven, signature, strict=True))
        except ValueError as error:
            raise ScramError("a proof that is none") from error
        if not hmac.compare_digest(hashlib.sha256(key).digest(), self._verifier.stored_key):
            raise ScramError("a wrong proof")
        return f"v={base64.b64encode(_hmac(self._verifier.server_key, messages)).decode()}"


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hashlib.sha256).digest()


def _fields(message: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in message.split(",") if part[1:2] == "="}
