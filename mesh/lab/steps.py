"""The steps of a scenario, as they are written. Spec: lab.md 1."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Unpack, get_args

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from mesh.config.queues import PolicyName
from mesh.config.shapes import StrictModel

TIMEOUT_S = 60.0
SECONDS_MAX = 1e9
"""Thirty years: what is longer is a slip of the pen, or no number."""

Detail = Mapping[str, object]
"""What there is to say about a step that was run."""

ClassName = Literal["guaranteed", "direct"]
Pair = Annotated[list[str], Field(min_length=2, max_length=2)]
Timeout = Annotated[float | None, Field(gt=0, le=SECONDS_MAX)]
Share = Annotated[float, Field(ge=0, le=0.9)]


def _refusal(value: object) -> object:
    if isinstance(value, bool) or (isinstance(value, str) and value):
        return value
    raise PydanticCustomError("refusal", "must be true or false, or a code such as TWO_WALKS")


Refused = Annotated[bool | str, BeforeValidator(_refusal)]
FaultName = Literal["kill", "stop", "pause", "cut", "slow", "kill_broker", "clock"]

DrillName = Literal[
    "loop", "duplicate", "loss", "disorder", "unplanned-path", "wrong-recipient", "forged-origin",
    "corrupt",
]  # fmt: skip

FAULTS_DEFAULT: tuple[FaultName, ...] = ("kill", "stop", "pause", "cut", "slow", "kill_broker")
"""What a storm draws from unless it says otherwise."""


class _Step(StrictModel):
    """What all steps have. In files each is called as its class is: `kill_broker`."""

    word: ClassVar[str]
    timeout: Timeout = None

    def __init_subclass__(cls, **given: Unpack[ConfigDict]) -> None:
        super().__init_subclass__(**given)
        cls.word = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()

    @property
    def timeout_s(self) -> float:
        """How long it may take, in seconds; virtual ones on the simulator."""
        return float(self.timeout or TIMEOUT_S)

    @property
    def is_of_trees(self) -> bool:
        """Whether it needs the tree layer."""
        return isinstance(self, TreeStep)


class OfNode(_Step):
    """A step at a node that exists."""

    node: str


class OfWorkers(OfNode):
    """A step with all workers of a node, or with one."""

    worker: int | None = Field(default=None, ge=0)


class OfLink(_Step):
    """A step with a link that exists."""

    link: Pair


class OfBrokers(_Step):
    """A step with all brokers of an embedded Kafka cluster, or with one, counted from 1."""

    kafka: str
    broker: int | None = Field(default=None, ge=1)


class Subscribe(OfNode):
    """Write a subscription; returns when Kafka has acknowledged it."""

    endpoint: str
    filter: str
    kind: Literal["channel", "queue"] = "channel"
    policy: PolicyName | None = None
    class_: ClassName = Field("guaranteed", alias="class")
    noexport: bool = False


class Unsubscribe(OfNode):
    """Write the end of a subscription."""

    endpoint: str
    filter: str


class Settle(_Step):
    """Wait until every subscription is known everywhere."""


class Publish(OfNode):
    """Publish messages at a node, whether or not it runs."""

    subject: str
    count: int = Field(1, ge=1, le=10_000_000)
    class_: ClassName = Field("guaranteed", alias="class")
    key: str | None = None
    payload: str = ""
    headers: dict[str, str] = Field(default_factory=dict, description="The client's own.")


class Consume(OfNode):
    """Join the consumers of a queue at a node, and stay; wait until so many were consumed there.

    Without a number, until the node tells the queue's other members that somebody consumes there.
    """

    queue: str
    count: int | None = Field(None, ge=0)


class Leave(OfNode):
    """End what `consume` began, or an application without a word: its lease runs out."""

    queue: str | None = None
    app: str | None = None

    @property
    def is_of_trees(self) -> bool:
        """Whether an application is meant."""
        return self.app is not None


class Drain(_Step):
    """Wait until nothing is left to read but what waits for the stopped and the cut."""


class Kill(OfWorkers):
    """End the workers of a node as `kill -9` does, or one of them."""


class Start(OfWorkers):
    """Start the workers of a node, or one that was killed alone."""


class Stop(OfNode):
    """End the workers of a node in good order."""


class Pause(OfNode):
    """Suspend the workers of a node."""


class Resume(OfNode):
    """Let the workers of a paused node go on."""


class Cut(OfLink):
    """Let neither end of a link read anything; with `only` that end alone."""

    only: str | None = None


class Heal(OfLink):
    """Let both ends of a link read again, and at once."""


class Disable(OfLink):
    """Disable a link, as operators do."""


class Enable(OfLink):
    """Enable a link again."""


class Wait(_Step):
    """Let time pass."""

    seconds: Annotated[float, Field(gt=0, le=SECONDS_MAX)]


class Script(StrictModel):
    """How an application answers: these, the last one marked, so long after the message."""

    replies: list[str]
    after_s: Annotated[float, Field(ge=0, le=SECONDS_MAX)] = 0.0


def _script(value: object) -> object:
    if isinstance(value, str):
        return {"replies": [] if value == "never" else [value]}
    return value


Answer = Annotated[Script | None, BeforeValidator(_script)]
"""A text that is given once, `never`, or a script."""


class Role(_Step):
    """An application at a node takes a role; returns once the node has it in force.

    Attributes:
        answer: What it answers; the node's name if that is left out.
    """

    node: str
    tree: str
    role: str
    exclusive: bool = False
    extent: Literal["cloud", "realm", "node"] = "cloud"
    app: str | None = None
    answer: Answer = None


class Unrole(_Step):
    """It gives the role up."""

    node: str
    tree: str
    role: str
    app: str | None = None


class Send(_Step):
    """An application at a node sends to a role, and waits for the last reply or the timeout."""

    node: str
    tree: str
    role: str
    name: str
    payload: str = ""
    one_way: bool = False
    one_instance: bool = False
    one_response: bool = False
    local_realm: bool = False


class Move(_Step):
    """An exclusive role is handed over to a node's application by grant and give-up."""

    tree: str
    role: str
    to: str


class Evict(_Step):
    """A node forgets the routes of a tree, as when its cache is full."""

    node: str
    tree: str


class Slow(OfLink):
    """Delay what both ends read over a link, until it is healed."""

    delay_ms: int = Field(200, ge=0, le=60_000)
    loss: Share = 0.0


class KillBroker(OfBrokers):
    """Kill the brokers of an embedded Kafka cluster: all of them, or one from 1."""


class StartBroker(OfBrokers):
    """Start them again."""


class Truncate(_Step):
    """Take the newest records from a log, as an unclean leader election does."""

    topic: str
    partition: int = Field(0, ge=0)
    records: int = Field(ge=1)


class DeleteRecords(_Step):
    """Delete the records before an offset, as retention does."""

    topic: str
    partition: int = Field(0, ge=0)
    before: int = Field(ge=0)


class RecreateTopic(_Step):
    """Delete and recreate a topic, with its settings and another id."""

    topic: str


class Clock(OfNode):
    """Have the wall clock of a node jump."""

    jump_s: float = Field(ge=-SECONDS_MAX, le=SECONDS_MAX)


class Inject(_Step):
    """Plant a fault for the auditor to find, as `mesh drill` does.

    Attributes:
        from_, to: Where its messages are published, and where its endpoint is; two neighbours
            where that is left out.
    """

    drill: DrillName
    from_: str | None = Field(None, alias="from")
    to: str | None = None


class Storm(_Step):
    """Random faults from a seed under steady load, then everything healed, drained and judged."""

    seed: int = 1
    seconds: Annotated[float, Field(gt=0, le=7 * 86_400)] = 60
    rate: int = Field(200, ge=1, le=100_000)
    faults: list[FaultName] = Field(list(FAULTS_DEFAULT), min_length=1)
    every_s: Annotated[float, Field(ge=0.1, le=3600)] = 3
    direct: Share = 0.1
    transactions: Share = 0.1


class Apply(_Step):
    """Merge a patch into the Mesh spec, and put in force what comes of it.

    Whether that is refused is `refused`, or the code of a problem for which. All other keys are
    the patch. Spec: lab.md 1, RFC 7396.
    """

    model_config = ConfigDict(extra="allow")

    refused: Refused = False

    @property
    def patch(self) -> Mapping[str, object]:
        """What is merged into the spec."""
        return self.model_extra or {}


class Expect(_Step):
    """Judge cumulative counts at once, or what is wanted over a link just then.

    Of findings of the auditor: wait until there are so many.
    """

    findings: dict[str, int] | None = None
    endpoint: str | None = None
    link: str | None = None
    interest: str | None = None
    filters: list[str] | None = None
    queue: str | None = None
    count: int | None = Field(None, ge=0)
    messages: int | None = Field(None, ge=0)
    frames: int | None = Field(None, ge=0)
    control: int | None = Field(None, ge=0)
    ordered: bool | None = None
    send: str | None = None
    reached: list[str] | None = None
    replies: int | None = Field(None, ge=0)
    nulls: int | None = Field(None, ge=0)
    not_found: int | None = Field(None, ge=0)
    last: int | None = Field(None, ge=0)
    holder: str | None = None
    node: str | None = None
    parts: list[list[str]] | None = None

    @property
    def is_of_trees(self) -> bool:
        """Whether sends, holders or parts are meant."""
        return any(one is not None for one in (self.send, self.holder, self.parts))


TreeStep = Role | Unrole | Send | Move | Evict

Fault = Kill | Start | Stop | Pause | Resume | Cut | Heal | Slow | KillBroker | StartBroker | Clock
"""What breaks or mends nodes, links, brokers or clocks, at once."""

Step = (
    Subscribe
    | Unsubscribe
    | Settle
    | Publish
    | Consume
    | Leave
    | Drain
    | Disable
    | Enable
    | Truncate
    | DeleteRecords
    | RecreateTopic
    | Inject
    | Storm
    | Apply
    | Expect
    | Wait
    | TreeStep
    | Fault
)

KINDS: Mapping[str, type[Step]] = {kind.word: kind for kind in get_args(Step)}
"""What each word of a step is followed by."""
