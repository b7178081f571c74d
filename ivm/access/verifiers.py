"""What is stored of passwords and tokens: SCRAM-SHA-256 verifiers, and hashes.

Law: no password can be read from a verifier. Its text is PostgreSQL's:
`SCRAM-SHA-256$iterations:salt$stored key:server key`, the bytes in base64.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

from ivm.storage.errors import InputError, UnavailableError

ITERATIONS = 4096
_SALT = 16  # bytes
_TEXT = re.compile(r"SCRAM-SHA-256\$(\d+):([^$:]+)\$([^$:]+):([^$:]+)")
_TOKEN = "ivm_"  # by which a token is known that lies somewhere in the open


@dataclass(frozen=True)
class Verifier:
    """What is stored of a password, for SCRAM-SHA-256.

    Attributes:
        salt: random bytes.
        iterations: how often the password was hashed.
        stored_key: verifies the client.
        server_key: proves to the client that the server knows the verifier.
    """

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __str__(self) -> str:
        salt, stored, server = (
            base64.b64encode(part).decode()
            for part in (self.salt, self.stored_key, self.server_key)
        )
        return f"SCRAM-SHA-256${self.iterations}:{salt}${stored}:{server}"

    def verifies(self, password: str) -> bool:
        """Returns whether this is the password."""
        try:
            made = _verifier(password, self.salt, self.iterations)
        except InputError:
            return False
        return hmac.compare_digest(made.stored_key, self.stored_key)


def verifier_of(password: str) -> Verifier:
    """The verifier of a password; a text that is one already is read.

    Raises:
        InputError: the password has characters that none may have, or none that count.
        UnavailableError: the package that makes verifiers is missing.
    """
    found = read(password)
    if found is not None:
        return found
    made = _verifier(password, secrets.token_bytes(_SALT), ITERATIONS)
    if made.verifies(""):
        raise InputError("the password has no characters that count: it would be an empty one")
    return made


def read(text: str) -> Verifier | None:
    """Reads the text of a verifier; None if it is none."""
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    try:
        salt, stored, server = (base64.b64decode(found[i], validate=True) for i in (2, 3, 4))
    except binascii.Error:
        return None
    iterations = int(found[1])
    if len(stored) != 32 or len(server) != 32 or not 0 < iterations <= 10_000_000:
        return None
    return Verifier(salt, iterations, stored, server)


def _verifier(password: str, salt: bytes, iterations: int) -> Verifier:
    try:
        from scramp import ScramMechanism
    except ImportError as error:
        raise UnavailableError(
            f"passwords cannot be verified ({error}): pip install 'ivmdb[server]'"
        ) from error
    try:
        made = ScramMechanism("SCRAM-SHA-256").make_auth_info(password, iterations, salt)
    except Exception as error:  # of scramp's own kinds, for characters that SASLprep forbids
        raise InputError(
            "the password has characters that no password may have: control characters and the like"
        ) from error
    salt, stored, server, count = made
    return Verifier(salt, count, stored, server)


def new_token() -> str:
    """A token that nobody can guess."""
    return _TOKEN + secrets.token_urlsafe(32)


def token_hash(token: str) -> str:
    """What is stored of a token; it has too many bits to be guessed from that."""
    return hashlib.sha256(token.encode()).hexdigest()
