"""Kafka clusters that do not answer: people are told at once, whatever the auditor waits for.

Spark asks a Kafka cluster for a minute before its query fails, and a transaction waits for one for
a quarter of that. So each is asked beside both, and where the auditor begins as well. Spec: DESIGN
4.2, 4.6.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Protocol, TypeVar

from mesh.errors import TransportUnavailableError
from streaming.connectors.failures import is_silent

T = TypeVar("T")

ASK_EVERY_S = 2.0
"""Between two questions whether a Kafka cluster answers, in seconds."""

VAIN_MAX = 2
"""So many answers in a row are missed before that is said: under load one may be."""

AGAIN_S = 0.2
"""Between two questions where the auditor begins, in seconds."""


class Asked(Protocol):
    """A Kafka cluster that is asked whether it answers."""

    def ask(self) -> Callable[[], None]:
        """Ask; return what waits for an answer. Both raise `TransportUnavailableError`."""


@dataclass(slots=True)
class KafkaOutages:
    """What people are told of Kafka clusters that cannot be read: once, until one is read again.

    Attributes:
        say: Tells a person.
        stopping: Set when the auditor shall end.
        told: Kafka clusters of which it has been said.
        vain: Kafka cluster -> answers in a row that were missed.
    """

    say: Callable[[str], None]
    stopping: threading.Event = field(default_factory=threading.Event)
    told: dict[str, None] = field(default_factory=dict)
    vain: dict[str, int] = field(default_factory=dict)

    def tell(self, kafka: str, what: str) -> None:
        """Say what is wrong with a Kafka cluster, if nothing has been said of it yet."""
        if kafka not in self.told:
            self.told[kafka] = None
            self.say(f"{kafka} {what}; trying again")

    def end(self, kafka: str) -> None:
        """Note that a Kafka cluster was read."""
        self.told.pop(kafka, None)

    def watch(self, needed: Callable[[], Mapping[str, Asked]]) -> None:
        """Look at the Kafka clusters that are needed until the auditor shall end."""
        while not self.stopping.wait(ASK_EVERY_S):
            self.look(needed())

    def look(self, needed: Mapping[str, Asked]) -> None:
        """Ask Kafka clusters, all at the same time, and tell which of them do not answer."""
        answers: dict[str, Callable[[], None]] = {}
        for kafka, one in needed.items():
            with suppress(TransportUnavailableError):  # without a client its query fails, and tells
                answers[kafka] = one.ask()
        for kafka, answer in answers.items():
            try:
                answer()
            except TransportUnavailableError as error:
                if is_silent(error):  # what it refuses is told by whoever is refused
                    self.vain[kafka] = self.vain.get(kafka, 0) + 1
            else:
                self.vain.pop(kafka, None)
            if self.vain.get(kafka, 0) >= VAIN_MAX:
                self.tell(kafka, "does not answer")

    def insist(self, kafka: str, ask: Callable[[], T], patience_s: float = inf) -> T:
        """Return what a Kafka cluster answers, without which nothing begins, however late.

        Args:
            kafka: Its name.
            ask: Asks it.
            patience_s: For how long it is asked, in seconds.

        Raises:
            TransportUnavailableError: It refuses, has not answered by then, or the auditor shall
                end.
        """
        begun_s = time.monotonic()
        while True:
            try:
                return ask()
            except TransportUnavailableError as error:
                if not is_silent(error) or time.monotonic() - begun_s >= patience_s:
                    raise
                self.tell(kafka, "does not answer")
                if self.stopping.wait(AGAIN_S):
                    raise
