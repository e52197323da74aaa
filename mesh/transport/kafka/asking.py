"""Questions to brokers, asked again until all is answered or time is up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from mesh.errors import TransportError, TransportUnavailableError
from mesh.transport.kafka.faults import (
    IDENTITY,
    Site,
    error_of,
    is_away,
    is_denied,
    transport_error,
)
from mesh.transport.kafka.settings import Settings

REQUEST_S = 3.0
DEADLINE_S = 5.0
IMPATIENT_S = 0.5
"""Both of the above after a call that nobody answered, until one is: callers try again anyway."""
PARTS_S = 2.0
"""How long is asked again for some parts of an answer, as of partitions that have no leader."""
RETRY_S = 0.1
_K = TypeVar("_K")
_V = TypeVar("_V")


class _Identity:
    """Whether brokers want who this is; if not, requests only run out of time.

    Apart from the admin client's owner: a client that its own callback keeps alive would end, with
    its threads, whenever Python looks for cycles.

    Attributes:
        refused: What they said, until one answers: the connection that it closes says less.
    """

    def __init__(self) -> None:
        self.refused: KafkaError | None = None

    def on_error(self, error: KafkaError) -> None:
        """Take note of what the client tells."""
        if error.code() in IDENTITY:
            self.refused = error


class Asking:
    """An admin client, and how patient one is with it; threads may share it.

    A broker answers what comes over one connection in order: what stands behind a request that
    waits for others waits too.

    Attributes:
        client: Sends requests.
    """

    def __init__(self, site: Site, settings: Settings, answer_within_s: float) -> None:
        self._answer_within_s = answer_within_s
        self._site = site
        self._is_away = False
        self._identity = _Identity()
        # Kept referenced: requests of a temporary client end with its destruction.
        try:
            own = {**settings, "error_cb": self._identity.on_error}
            self.client = AdminClient(own)  # type: ignore[arg-type] # it takes a logger too
        except KafkaException as exc:
            raise transport_error(site, "open the admin client", error_of(exc)) from exc

    @property
    def request_s(self) -> float:
        """How long one request may take."""
        return IMPATIENT_S if self._is_away else min(REQUEST_S, self._answer_within_s)

    def answers(
        self,
        what: str,
        ask: Callable[[], Mapping[_K, Future[_V]]],
        *,
        good: Iterable[int] = (),
        refusals: dict[_K, str] | None = None,
    ) -> dict[_K, _V]:
        """Ask until every part is answered, or the deadline is over.

        Args:
            what: Begins the text of an error.
            ask: Sends the whole request; it can be repeated without harm.
            good: Error codes that are as good as an answer; such parts are left out.
            refusals: Gets the broker's words for each part that it refuses, instead of an error.
        """
        passed = frozenset(good)
        begun_s = time.monotonic()
        deadline_s = begun_s + (IMPATIENT_S if self._is_away else self._answer_within_s)
        while True:
            self.client.poll(0)
            answers: dict[_K, _V] = {}
            again: KafkaError | None = None
            denied: TransportError | None = None
            for key, future in ask().items():
                try:
                    answers[key] = future.result(self.request_s + 1)
                except FutureTimeoutError:
                    again = KafkaError(KafkaError._TIMED_OUT, "no answer in time")
                except KafkaException as exc:
                    error = error_of(exc)
                    if error.code() in passed:
                        continue
                    if refusals is not None and is_denied(error):
                        refusals[key] = error.str()
                        continue
                    if not is_away(error):
                        part = f"{what} {_label(key)}".rstrip()
                        denied = denied or transport_error(self._site, part, error)
                        continue
                    again = error
            if denied is not None:
                denied.told = answers
                raise denied
            if again is None:
                self._is_away, self._identity.refused = False, None
                return answers
            if answers:
                deadline_s = min(deadline_s, begun_s + PARTS_S)
            if time.monotonic() > deadline_s:
                self._is_away = not answers
                self.client.poll(0)
                if (refused := self._identity.refused) is not None:
                    # It may be a moment's: a broker that begins knows its users a little later.
                    refusal = transport_error(self._site, what, refused)
                    raise TransportUnavailableError(str(refusal))
                fault = transport_error(self._site, what, again)
                fault.told = answers
                raise fault
            time.sleep(RETRY_S)


def _label(key: object) -> str:
    if isinstance(key, Place):
        return f"{key.topic}[{key.partition}]"
    return str(key)
