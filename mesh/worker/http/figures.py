"""How a worker is at one moment, taken by its own loop, so that others read it without locks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mesh.lane.accounts import Accounts
from mesh.model.control import LinkStatus
from mesh.worker.trees.service import TreeFigures
from mesh.worker.worker import Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One moment of a worker.

    Attributes:
        is_ready: The node serves here, or this worker stands by.
        would_hear: It would notice that a lane has to be taken: it has one, or its Kafka cluster
            answers.
        leads: It writes for the node on the control topics.
        lanes, assigned: Lanes that it works on, and that the group assigned to it.
        links: Their states, as it sees them.
        stops: Sources that are read no further, by neighbour; empty for the own ingress.
        unread: Partitions that are deliberately not read, by reason.
        endpoints: Endpoints by the state to report (`full`, `lossy`, ...).
        filters: Filters that each neighbour offers.
        behind: Offsets that wait, by neighbour; empty for the own ingress.
        control_behind: Offsets of control topics that wait.
        refused: Unreadable control records.
        taken: Lanes taken since the worker began.
        pushed_out: Messages of full endpoints that became dead letters.
        accounts: What was committed since then; a copy.
        trees: The tree layer, if this worker hosts it.
    """

    is_ready: bool = False
    would_hear: bool = True
    leads: bool = False
    lanes: int = 0
    assigned: int = 0
    links: Sequence[LinkStatus] = ()
    stops: Mapping[str, int] = field(default_factory=dict)
    unread: Mapping[str, int] = field(default_factory=dict)
    endpoints: Mapping[str, int] = field(default_factory=dict)
    filters: Mapping[str, int] = field(default_factory=dict)
    behind: Mapping[str, int] = field(default_factory=dict)
    control_behind: int = 0
    refused: int = 0
    taken: int = 0
    pushed_out: int = 0
    accounts: Accounts = field(default_factory=Accounts)
    trees: TreeFigures | None = None


def figures_of(worker: Worker) -> Figures:
    """Return the state of a worker. Costs microseconds per link and partition; asks no broker."""
    lanes, machine = worker.lanes, worker.machine
    if lanes is None or machine is None:
        return Figures(control_behind=sum(_behind(worker).values()))
    learner, accounts = machine.learner, lanes.accounts
    faults = learner.faults
    of_queues, unheard = learner.clients.queues.statuses(), learner.clients.wanted.unheard()
    unwell = [*faults.endpoints.values(), *of_queues, *unheard]
    topics = lanes.sources.topics
    waiting, control = _sorted_out(_behind(worker), topics.names, topics.neighbours)
    return Figures(
        is_ready=worker.is_ready,
        would_hear=bool(lanes.owned) or _is_kafka_up(worker),
        leads=machine.leader is not None,
        lanes=len(lanes.owned),
        assigned=len(worker.given),
        links=[
            faults.seen(neighbour.status(faults.of_neighbour(name)))
            for name, neighbour in learner.neighbours.items()
        ],
        stops=Counter(neighbour for neighbour, _ in faults.stops.values()),
        unread=Counter(map(str, lanes.sources.unread.values())),
        endpoints=Counter(status.state for status in unwell),
        filters={
            name: sum(len(scope.view) for scope in neighbour.scopes.values())
            for name, neighbour in learner.neighbours.items()
        },
        behind=waiting,
        control_behind=control,
        refused=worker.refused,
        taken=lanes.taken,
        pushed_out=sum(lanes.pushed_out.values()),
        accounts=Accounts(
            accounts.commits,
            Counter(accounts.read),
            Counter(accounts.forwarded),
            Counter(accounts.frames),
            Counter(accounts.not_forwarded),
            Counter(accounts.delivered),
            Counter(accounts.dropped),
            Counter(accounts.needless),
        ),
        trees=None if worker.tree_service is None else worker.tree_service.figures,
    )


def _is_kafka_up(worker: Worker) -> bool:
    own = worker.topology.nodes[worker.node].kafka
    return worker.readers[own].reachable()


def _behind(worker: Worker) -> Mapping[str, int]:
    found: Counter[str] = Counter()
    for reader in worker.readers.values():
        for place, offsets in reader.behind().items():
            found[place.topic] += offsets
    return found


def _sorted_out(
    behind: Mapping[str, int], topics: Sequence[str], neighbours: Mapping[str, str]
) -> tuple[Mapping[str, int], int]:
    """Return how much waits by neighbour, and on control topics."""
    waiting: Counter[str] = Counter({"": 0})
    control = 0
    for topic, offsets in behind.items():
        if topic in topics:
            waiting[neighbours.get(topic, "")] += offsets
        else:
            control += offsets
    return waiting, control
