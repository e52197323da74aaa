"""Questions to brokers, repeated until everything is answered or time is up."""

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
from mesh.model.patience import Patience
from mesh.transport.kafka.faults import (
    Site,
    error_of,
    is_away,
    is_denied,
    is_refused,
    transport_error,
)
from mesh.transport.kafka.settings import Settings

REQUEST_S = 3.0
DEADLINE_S = 5.0
IMPATIENT_S = Patience(0.5, DEADLINE_S)
"""Both of the above after a call that nobody answered: callers try again anyway. It doubles with
each further one, up to those. Brokers may answer later than that, and the client library closes a
connection when a request on it times out: a client that stayed impatient would never hear them
again."""
PARTS_S = 2.0
"""How long to repeat a request for missing parts of an answer, such as leaderless partitions."""
RETRY_S = 0.1
_K = TypeVar("_K")
_V = TypeVar("_V")
_A = TypeVar("_A")


class _Identity:
    """Whether brokers accept this identity; if not, requests only time out.

    It is separate from the owner of the admin client: a client that is kept alive by its own
    callback would end, with its threads, whenever Python looks for cycles.

    Attributes:
        refused: Their refusal, until one answers: the connection closed by it says less.
    """

    def __init__(self) -> None:
        self.refused: KafkaError | None = None

    def on_error(self, error: KafkaError) -> None:
        """Record what the client reports."""
        if is_refused(error):
            self.refused = error


def as_raised(send: Callable[[], _A]) -> _A:
    """Return what a call of the client library returns.

    The library (as of 2.16) returns a result even if a signal handler has raised meanwhile, which
    Python reports as a SystemError: after Ctrl-C people should see what the handler raised.
    """
    try:
        return send()
    except SystemError as exc:
        if exc.__cause__ is None:
            raise
        raise exc.__cause__ from None


class Asking:
    """An admin client, and how long to wait for it; threads may share it.

    A broker answers requests on one connection in order: those after a waiting request wait too.

    Attributes:
        client: Sends requests.
    """

    def __init__(self, site: Site, settings: Settings, answer_within_s: float) -> None:
        self._answer_within_s = answer_within_s
        self._site = site
        self._impatient_s: float | None = None  # since a call without any answer
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
        return self._at_most(min(REQUEST_S, self._answer_within_s))

    def _at_most(self, patient_s: float) -> float:
        return patient_s if self._impatient_s is None else min(patient_s, self._impatient_s)

    def answers(
        self,
        what: str,
        ask: Callable[[], Mapping[_K, Future[_V]]],
        *,
        good: Iterable[int] = (),
        refusals: dict[_K, str] | None = None,
        is_told: Callable[[_V], bool] = lambda _answer: True,
    ) -> dict[_K, _V]:
        """Ask until every part is answered, or the deadline has passed.

        Args:
            what: Start of the text of an error.
            ask: Sends the whole request; repeating it does no harm.
            good: Error codes that count as an answer; such parts are left out.
            refusals: Receives the broker's message for each refused part, instead of an error.
            is_told: Whether an answer says anything; else it counts as missing.
        """
        passed = frozenset(good)
        begun_s = time.monotonic()
        deadline_s = begun_s + self._at_most(self._answer_within_s)
        while True:
            self.client.poll(0)
            answers: dict[_K, _V] = {}
            again: KafkaError | None = None
            denied: TransportError | None = None
            for key, future in as_raised(ask).items():
                try:
                    answer = future.result(self.request_s + 1)
                    if is_told(answer):
                        answers[key] = answer
                    else:
                        again = KafkaError(KafkaError._TIMED_OUT, "the answer did not come")
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
                raise denied.with_answers(answers)
            if again is None:
                self._impatient_s, self._identity.refused = None, None
                return answers
            if answers:
                deadline_s = min(deadline_s, begun_s + PARTS_S)
            if time.monotonic() > deadline_s:
                self._impatient_s = None if answers else IMPATIENT_S.after(self._impatient_s)
                self.client.poll(0)
                if (refused := self._identity.refused) is not None:
                    # It may pass: a broker that has just started learns of its users a little
                    # later.
                    refusal = transport_error(self._site, what, refused)
                    raise TransportUnavailableError(str(refusal))
                raise transport_error(self._site, what, again).with_answers(answers)
            time.sleep(RETRY_S)


def _label(key: object) -> str:
    if isinstance(key, Place):
        return f"{key.topic}[{key.partition}]"
    return str(key)
