"""Clients of Kafka's brokers, and what their errors mean to a source.

Contract: every call ends in time. A broker that cannot be reached is an `UnavailableError` as soon
as all of them have refused, else after `PATIENCE` seconds; what somebody must mend (credentials,
rights, settings) is a `SourceError`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from ivm.cdc.sources.kafka.properties import parse_properties
from ivm.cdc.sources.secrets import resolved
from ivm.cdc.sources.source import SourceError
from ivm.storage.errors import IvmError, UnavailableError

T = TypeVar("T")

PATIENCE = 10.0
"""Seconds to wait for an answer."""
_GLANCE = 0.02
_MENDABLE = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError._INVALID_ARG,
        KafkaError._UNSUPPORTED_FEATURE,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_QUIET = {"log_level": 0}  # what the client logs comes as errors, too


class Cluster:
    """A Kafka cluster, as one source or sink sees it.

    Args:
        brokers: to ask first.
        properties: for each client.
    """

    def __init__(self, brokers: str, properties: Mapping[str, str]) -> None:
        self._brokers = brokers
        self._properties = {**_QUIET, **properties, "bootstrap.servers": brokers}
        self._trouble: KafkaError | None = None
        self._down = False
        self.admin: AdminClient = self._make(AdminClient, {})

    @classmethod
    def read_by(cls, group: str, brokers: str, properties: str) -> Cluster:
        """The cluster of a source.

        Args:
            group: the consumer group, by which brokers know who reads.
            brokers: of the definition.
            properties: of the definition, see `parse_properties`.

        Raises:
            SourceError: a secret is not in the environment, or the client does not accept them.
        """
        return cls(brokers, {"group.id": group, **resolved(parse_properties(properties), "Kafka")})

    def consumer(self, settings: Mapping[str, Any]) -> Consumer:
        """A consumer.

        Args:
            settings: where the properties say nothing else.

        Raises:
            SourceError: the client does not accept the settings.
        """
        return self._make(Consumer, settings)

    def producer(self, settings: Mapping[str, Any]) -> Producer:
        """A producer; see `consumer`."""
        return self._make(Producer, settings)

    def answer(self, future: Future[T]) -> T:
        """Waits for an answer to the admin client.

        Raises:
            UnavailableError: there is none.
            SourceError: it is one that somebody must mend.
            KafkaException: any other error that the brokers have answered.
        """
        until = time.monotonic() + PATIENCE
        while True:
            try:
                answered = future.result(_GLANCE)
            except FutureTimeoutError:
                self.admin.poll(0)  # lets `_heard` be called
                if self._down or time.monotonic() > until or self._mendable():
                    raise self.unreachable() from None
            except KafkaException as error:
                raise self.meaning(error.args[0]) or error from error
            else:
                self._trouble, self._down = None, False
                return answered

    def unreachable(self) -> IvmError:
        """That no broker answers, with the reason that the client has told."""
        if self._trouble is not None:
            found = self.meaning(self._trouble)
            if found is not None:
                return found
        return self._unavailable("they do not answer")

    def meaning(self, error: KafkaError) -> IvmError | None:
        """What an error means; None if that depends on what was asked."""
        if error.code() in _MENDABLE:
            return SourceError(f"the brokers at {self._brokers} refuse: {error.str()}")
        if error.code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._RESOLVE):
            return self._unavailable(error.str())
        if error.code() == KafkaError._ALL_BROKERS_DOWN or error.retriable():
            return self._unavailable(error.str())
        return None

    def _mendable(self) -> bool:
        return self._trouble is not None and self._trouble.code() in _MENDABLE

    def _unavailable(self, reason: str) -> UnavailableError:
        return UnavailableError(
            f"Kafka's brokers at {self._brokers} cannot be reached: {reason}. Are they running, "
            "and is the address theirs?"
        )

    def _make(self, kind: Any, settings: Mapping[str, Any]) -> Any:
        try:
            return kind({**settings, **self._properties, "error_cb": self._heard})
        except KafkaException as error:
            raise SourceError(
                f"Kafka's client does not take the properties: {error.args[0].str()}"
            ) from error

    def _heard(self, error: KafkaError) -> None:
        """Called by the clients while they are polled."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._down = True
        elif not self._mendable():
            self._trouble = error
