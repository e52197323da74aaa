"""Names of Kafka topics, groups and transactional ids: built and parsed only here.

Spec: kafka.md 1, K15, K16.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from mesh.model.frames import MessageClass


class SourceName(NamedTuple):
    """The parts of the name of an ingress or outbox.

    Attributes:
        owner: The node in whose Kafka cluster it is.
        reader: Its reader: for an ingress the owner itself.
        message_class: The class of everything in it.
    """

    owner: str
    reader: str
    message_class: MessageClass


@dataclass(frozen=True, slots=True)
class TopicNames:
    """Names of one mesh.

    Attributes:
        prefix: Start of every name, `mesh.` by default; two meshes on one Kafka cluster need two.
    """

    prefix: str = "mesh."

    def of_node(self, node: str) -> str:
        """Start of all names that belong to the node."""
        return f"{self.prefix}{node}."

    def ingress(self, node: str, message_class: MessageClass) -> str:
        """Where clients of the node publish."""
        return f"{self.prefix}{node}.in.{message_class.letter}"

    def clients(self, node: str) -> str:
        """Where clients of the node subscribe."""
        return f"{self.prefix}{node}.clients"

    def control(self, node: str) -> str:
        """Where the node advertises: identity, adverts, marks, heartbeat."""
        return f"{self.prefix}{node}.control"

    def control_log(self, node: str) -> str:
        """The control records uncompacted."""
        return f"{self.prefix}{node}.control.log"

    def link(self, node: str, neighbour: str) -> str:
        """Start of the names of everything that the node writes for one neighbour."""
        return f"{self.prefix}{node}.to.{neighbour}"

    def to_control(self, node: str, neighbour: str) -> str:
        """Acknowledgements and requests of the node to one neighbour."""
        return f"{self.link(node, neighbour)}.c"

    def outbox(self, node: str, neighbour: str, message_class: MessageClass) -> str:
        """Frames of the node for one neighbour."""
        return f"{self.link(node, neighbour)}.{message_class.letter}"

    def to_trees(self, node: str, neighbour: str) -> str:
        """Frames of the node's tree layer for one neighbour."""
        return f"{self.link(node, neighbour)}.t"

    def roles(self, node: str) -> str:
        """What roles applications of the node want, and how long they live."""
        return f"{self.prefix}{node}.roles"

    def sends(self, node: str) -> str:
        """Where applications of the node send to roles, and answer."""
        return f"{self.prefix}{node}.sends"

    def routes(self, node: str) -> str:
        """What the node knows of the routes to roles, for those who only look."""
        return f"{self.prefix}{node}.routes"

    def app(self, node: str, app: str) -> str:
        """What an application of the node receives."""
        return f"{self.prefix}{node}.app.{app}"

    def endpoint(self, node: str, endpoint: str) -> str:
        """Deliveries to one endpoint."""
        return f"{self.prefix}{node}.ep.{endpoint}"

    def progress(self, node: str) -> str:
        """Positions of the node's lanes."""
        return f"{self.prefix}{node}.progress"

    def ledger(self, node: str) -> str:
        """What each batch of the node's lanes did."""
        return f"{self.prefix}{node}.ledger"

    def learned(self, node: str) -> str:
        """Last proven interest per neighbour."""
        return f"{self.prefix}{node}.learned"

    def lanes(self, node: str) -> str:
        """The topic whose partitions stand for lanes in the group protocol."""
        return f"{self.prefix}{node}.lanes"

    def dead_letters(self, node: str) -> str:
        """Refused records."""
        return f"{self.prefix}{node}.dlq"

    def queue_letters(self, node: str, queue: str) -> str:
        """What consumers of a queue at the node gave up."""
        return f"{self.endpoint(node, queue)}.dlq"

    def queue_transactions(self, node: str, queue: str, member: str) -> str:
        """Transactional id under which one consumer of a queue gives messages up."""
        return f"{self.endpoint(node, queue)}.{member}"

    def config(self) -> str:
        """The topology in force."""
        return f"{self.prefix}config"

    def audit_transactions(self) -> str:
        """Transactional id of the auditor."""
        return f"{self.prefix}audit"

    def change_transactions(self) -> str:
        """Transactional id shared by all who change the topology."""
        return f"{self.prefix}config.change"

    def audit(self, table: str) -> str:
        """One output table of the auditor: findings, certificates, links."""
        return f"{self.prefix}audit.{table}"

    def lanes_group(self, node: str) -> str:
        """Consumer group by which the node's workers share its lanes."""
        return f"{self.prefix}{node}.lanes"

    def lane_transactions(self, node: str, lane: int) -> str:
        """Stable transactional id of a lane."""
        return f"{self.prefix}{node}.lane.{lane}"

    def second_writer_transactions(self, node: str, lane: int) -> str:
        """Transactional id of a lane's second writer. Spec: K16, K20."""
        return f"{self.prefix}{node}.lane.{lane}.held"

    def mover_transactions(self, node: str, lane: int, queue: str) -> str:
        """Transactional id under which a lane moves messages of a queue to other members."""
        return f"{self.prefix}{node}.lane.{lane}.moved.{queue}"

    def control_transactions(self, node: str) -> str:
        """Transactional id of lane 0's control writer."""
        return f"{self.prefix}{node}.control"

    def spare_transactions(self, node: str) -> str:
        """Transactional id of that writer while the usual one is held. Spec: K16."""
        return f"{self.prefix}{node}.control.spare"

    # -- parsing names --------------------------------------------------------------------

    def source_of(self, topic: str) -> SourceName | None:
        """Parse the name of an ingress or outbox; return None for any other topic."""
        match topic.removeprefix(self.prefix).split("."):
            case [node, "in", letter] if letter in _BY_LETTER:
                return SourceName(node, node, _BY_LETTER[letter])
            case [node, "to", neighbour, letter] if letter in _BY_LETTER:
                return SourceName(node, neighbour, _BY_LETTER[letter])
        return None

    def class_of(self, topic: str) -> MessageClass | None:
        """Return the class of an ingress or outbox; None for any other topic."""
        found = self.source_of(topic)
        return None if found is None else found.message_class

    def endpoint_of(self, node: str, topic: str) -> str:
        """Return the endpoint of a node to which a topic delivers; empty for any other topic."""
        return _behind(self.endpoint(node, ""), topic)

    def queue_of_letters(self, node: str, topic: str) -> str:
        """Return the queue of a node whose dead letters a topic has; empty for any other."""
        queue = topic.removesuffix(".dlq")
        return "" if queue == topic else self.endpoint_of(node, queue)

    def app_of(self, node: str, topic: str) -> str:
        """Return the application of a node that a topic is for; empty for any other topic."""
        return _behind(self.app(node, ""), topic)

    def is_endpoint(self, topic: str) -> bool:
        """Return whether a topic delivers to an endpoint, of any node."""
        return topic.removeprefix(self.prefix).split(".")[1:2] == ["ep"]


def shared_begin(topic: str) -> str:
    """Return the common prefix of all names for one neighbour, for endpoints, or for the node.

    Args:
        topic: A topic of any node, in any mesh.
    """
    node, to, rest = topic.partition(".to.")
    if to:
        return f"{node}{to}{rest.rpartition('.')[0]}."
    node, to_endpoint, _ = topic.partition(".ep.")
    if to_endpoint:
        return f"{node}{to_endpoint}"
    for end in (".control.log", ".in.g", ".in.d"):
        if topic.endswith(end):
            return topic.removesuffix(end) + "."
    return topic.rpartition(".")[0] + "."


_BY_LETTER = {one.letter: one for one in MessageClass}


def _behind(begin: str, topic: str) -> str:
    """Return the single word after a name's prefix, or an empty text."""
    word = topic.removeprefix(begin)
    return "" if word == topic or "." in word else word
