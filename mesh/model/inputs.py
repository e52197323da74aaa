"""Everything that can happen to a node's control plane: the inputs of `NodeMachine.step`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mesh.model.control import (
    UNKNOWN_LINEAGE,
    Acknowledgement,
    EndpointStatus,
    Heartbeat,
    Interest,
    Lineage,
    Mark,
    RepairRequest,
    Scope,
    Stage,
    Stop,
    Subscription,
    Version,
)
from mesh.model.interest_inputs import VersionByInput, VersionByScope
from mesh.model.links import NodeLinks
from mesh.model.topology import Topology


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed: `now_ms` of the time in which the worker takes its turns."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class SubscriptionRead:
    """A record of the node's own `clients` topic; None ends the subscription. Spec: K13."""

    offset: int
    endpoint: str
    filter_: str
    subscription: Subscription | None


@dataclass(frozen=True, slots=True)
class SubscriptionRefused:
    """An unusable record of `clients`; its offset is a version all the same."""

    offset: int


@dataclass(frozen=True, slots=True)
class SubscriptionElsewhere:
    """The newest record of a key in a partition of `clients` that is not read. K13."""

    partition: int
    endpoint: str
    filter_: str
    is_asked: bool


@dataclass(frozen=True, slots=True)
class ClientsCaughtUp:
    """The node's own `clients` topic has been read to the end that it had at the start."""


@dataclass(frozen=True, slots=True)
class AdvertRead:
    """A neighbour offers an entry, or with None withdraws it. Spec: K22."""

    neighbour: str
    scope: Scope
    filter_: str
    interest: Interest | None


@dataclass(frozen=True, slots=True)
class MarkRead:
    """A neighbour closes a version of a scope. Spec: K23."""

    neighbour: str
    scope: Scope
    mark: Mark


@dataclass(frozen=True, slots=True)
class BeatRead:
    """A neighbour's heartbeat. Spec: K32."""

    neighbour: str
    heartbeat: Heartbeat


@dataclass(frozen=True, slots=True)
class NeighbourCaughtUp:
    """A neighbour's control topic is read to the end that it had at the start, or is not there."""

    neighbour: str


@dataclass(frozen=True, slots=True)
class NeighbourReset:
    """A neighbour's control topic lost its tail, or was recreated: it is read from its beginning.

    Spec: K21, K23.
    """

    neighbour: str


@dataclass(frozen=True, slots=True)
class StreamReset:
    """A neighbour's topic of acknowledgements lost its tail, or was recreated. Spec: K24."""

    neighbour: str


@dataclass(frozen=True, slots=True)
class ClientsReset:
    """The node's `clients` topic lost its tail, or was recreated: it is read from its beginning."""


@dataclass(frozen=True, slots=True)
class OwnControlReset:
    """A control topic that this node writes lost its tail, or was recreated. Spec: K16."""


@dataclass(frozen=True, slots=True)
class NeighbourUnproven:
    """Nothing has proven what a neighbour offers within the time allowed. Spec: K21, K23.

    Attributes:
        neighbour: Its name.
        learned: Its guaranteed interest when that was last proven, per scope.
        versions: (epoch, number) of that, per scope.
        is_reached: Whether its control topic was read to its end; else its Kafka cluster did not
            answer.
    """

    neighbour: str
    learned: Mapping[Scope, Sequence[str]] = field(default_factory=dict)
    versions: VersionByScope = field(default_factory=dict)
    is_reached: bool = True


@dataclass(frozen=True, slots=True)
class NeighbourLags:
    """A lane's former owner acknowledged more of a neighbour than this worker has read.

    Attributes:
        neighbour: Its name.
        learned: Its guaranteed interest as the node kept it, per scope.
        versions: What the former owner knew, by input of interest.

    Spec: K16, K21.
    """

    neighbour: str
    learned: Mapping[Scope, Sequence[str]]
    versions: VersionByInput


@dataclass(frozen=True, slots=True)
class LinkDisabled:
    """Operators have disabled the link to a neighbour: nothing more is read from it.

    Attributes:
        neighbour: Its name.
        learned: Its guaranteed interest when the node last proved it, per scope.
        versions: (epoch, number) of that, per scope.

    Spec: DMR-10, K21.
    """

    neighbour: str
    learned: Mapping[Scope, Sequence[str]] = field(default_factory=dict)
    versions: VersionByScope = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LinkEnabled:
    """The link to a neighbour is enabled again: its control topic is read from its beginning."""

    neighbour: str


@dataclass(frozen=True, slots=True)
class AckRead:
    """A neighbour acknowledges one of this node's scopes. Spec: K24."""

    neighbour: str
    scope: Scope
    ack: Acknowledgement


@dataclass(frozen=True, slots=True)
class LaneApplied:
    """A lane of this node, here or in another worker, has committed these versions. Spec: K25.

    Attributes:
        lane: Its number.
        in_force: The versions.
        topology: Number of the topology that it works by, or waits for, in this worker; None if
            this was read in the records of another worker.
    """

    lane: int
    in_force: VersionByInput
    topology: int | None = 0


@dataclass(frozen=True, slots=True)
class LeadershipTaken:
    """This worker owns lane 0 now.

    Attributes:
        epoch: The node's new epoch.
        written: What its control topic offers now, per scope.
        stops: Topic partitions that its control topic reports as stopped.
        links: Records of nodes' links found there.
    """

    epoch: int
    written: Mapping[Scope, Mapping[str, Interest]]
    stops: Sequence[tuple[str, int]] = ()
    links: Sequence[NodeLinks] = ()


@dataclass(frozen=True, slots=True)
class LeadershipLost:
    """Lane 0 belongs to another worker now."""


@dataclass(frozen=True, slots=True)
class SourceStopped:
    """A lane has stopped at a source; `neighbour` is empty for the node's own ingress. Spec: R6."""

    neighbour: str
    stop: Stop


@dataclass(frozen=True, slots=True)
class SourceResumed:
    """A lane reads a source again."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class LossAccepted:
    """An operator accepts the loss of exactly a stop's range; None: no longer. Spec: R6."""

    topic: str
    partition: int
    stop: Stop | None


@dataclass(frozen=True, slots=True)
class GapFound:
    """A lane found a gap in a neighbour's outbox, and requests a repair. Spec: K11."""

    neighbour: str
    request: RepairRequest


@dataclass(frozen=True, slots=True)
class GapMended:
    """The requested repair has arrived. Spec: K20."""

    neighbour: str
    request: RepairRequest


@dataclass(frozen=True, slots=True)
class LinksRead:
    """A node's record of its links, on its own control topic or passed on by another. K27."""

    record: NodeLinks


@dataclass(frozen=True, slots=True)
class DrainStepDone:
    """This worker completed a step of the drain by which an open link gives way. Spec: K27, K28.

    Attributes:
        number, step: Of the `YieldReply` of the node.
        is_idle: Nothing has arrived since the probe before.
    """

    number: int
    step: int
    is_idle: bool = False

    @property
    def version(self) -> Version:
        """The version that the lanes commit for it."""
        return self.number, 2 * self.step + self.is_idle


@dataclass(frozen=True, slots=True)
class IdentityRead:
    """The writer of a neighbour's control topic. Spec: K4, EMS-16.

    Attributes:
        neighbour: Its name here.
        uuid, cluster_id: As it reports them.
        read_in: Id of the Kafka cluster that the topic is read from; empty if it is not known.
    """

    neighbour: str
    uuid: str
    cluster_id: str
    read_in: str = ""


@dataclass(frozen=True, slots=True)
class OwnAdvertRead:
    """An entry on the node's own control topic; it should be what is offered. K16."""

    scope: Scope
    filter: str
    interest: Interest | None


@dataclass(frozen=True, slots=True)
class OwnMarkRead:
    """A mark found on the node's own control topic; it should be the newest. Spec: K16."""

    scope: Scope
    mark: Mark | None


@dataclass(frozen=True, slots=True)
class OwnBeatRead:
    """A heartbeat found on the node's own control topic, whoever wrote it. Spec: K16, K32."""

    epoch: int
    number: int


@dataclass(frozen=True, slots=True)
class OwnControlCaughtUp:
    """The node's own control topic has been read to the end that it had at the start."""


@dataclass(frozen=True, slots=True)
class OutboxFull:
    """The outbox to a neighbour is full, and why; with an empty text, no longer. Spec: R14."""

    neighbour: str
    text: str


@dataclass(frozen=True, slots=True)
class NeighbourAwaited:
    """Lanes wait until more is read from a neighbour, or no longer wait. Spec: K16, K21."""

    neighbour: str
    is_awaited: bool


@dataclass(frozen=True, slots=True)
class VersionsVoided:
    """Versions that nobody can read any more: the topics that announced them lost their ends. K16.

    Attributes:
        versions: By input of interest.
    """

    versions: VersionByInput


@dataclass(frozen=True, slots=True)
class RoundRequested:
    """A lane has stopped waiting: a round should begin, even without news. Spec: K16, K28."""


@dataclass(frozen=True, slots=True)
class TopologyLost:
    """`mesh.config` no longer holds what lanes have worked by: they read nothing. Spec: K28.

    Attributes:
        number: Of that topology; 0 once they no longer wait for it.
    """

    number: int


@dataclass(frozen=True, slots=True)
class EndpointSeen:
    """What to report about an endpoint with a limit; None: nothing any longer. Spec: R14."""

    endpoint: str
    status: EndpointStatus | None


@dataclass(frozen=True, slots=True)
class EndpointMade:
    """Whether an endpoint has its topic is settled: no change of interest waits for it. K20."""

    endpoint: str


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """How many messages a queue of this node could take in; None: nothing is reported about it.

    Spec: DESIGN 6.
    """

    queue: str
    room: int | None


@dataclass(frozen=True, slots=True)
class ChangeRead:
    """The operator's newest record about a change of the topology. Spec: K28.

    Attributes:
        number, stage: The change, and how far it has come.
        topology: The target, if nodes should follow it at this stage.
        lineage: Of the target.
    """

    number: int
    stage: Stage
    topology: Topology | None = None
    lineage: Lineage = UNKNOWN_LINEAGE


Input = (
    Ticked
    | SubscriptionRead
    | SubscriptionRefused
    | SubscriptionElsewhere
    | ClientsCaughtUp
    | AdvertRead
    | MarkRead
    | BeatRead
    | NeighbourCaughtUp
    | NeighbourReset
    | StreamReset
    | ClientsReset
    | OwnControlReset
    | NeighbourUnproven
    | NeighbourLags
    | LinkDisabled
    | LinkEnabled
    | AckRead
    | LaneApplied
    | LeadershipTaken
    | LeadershipLost
    | SourceStopped
    | DrainStepDone
    | SourceResumed
    | LossAccepted
    | GapFound
    | GapMended
    | OutboxFull
    | NeighbourAwaited
    | VersionsVoided
    | RoundRequested
    | TopologyLost
    | LinksRead
    | IdentityRead
    | OwnAdvertRead
    | OwnMarkRead
    | OwnBeatRead
    | OwnControlCaughtUp
    | EndpointSeen
    | EndpointMade
    | QueueSeen
    | ChangeRead
)
