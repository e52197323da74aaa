"""Which rule a finding says is broken, and what to do about it: for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mesh.model.findings import FindingKind


@dataclass(frozen=True, slots=True)
class Rule:
    """What ought to hold, and what to do where it does not.

    Attributes:
        text: The rule, with the clause of the specification that says it.
        advice: What a person does next.
    """

    text: str
    advice: str


_TRACE = "`mesh trace ID` shows each record of a message on its way"

RULES: Mapping[FindingKind, Rule] = {
    FindingKind.LOOP: Rule(
        "A message visits a node once (DESIGN 3).",
        f"`mesh status` tells which topology each node on the path goes by; {_TRACE}.",
    ),
    FindingKind.DUPLICATE: Rule(
        "A message crosses a link once, enters a node over one link, and is in an endpoint once"
        " (DESIGN 6, K11).",
        f"{_TRACE}: the first node after which there are two is the one to look at; see its log"
        " about the time of the second record, and whether two workers held one lane.",
    ),
    FindingKind.MISSING: Rule(
        "An accepted guaranteed message is in every endpoint that subscribes (DESIGN 6, K30).",
        f"{_TRACE}: the last node that has it is the one to look at; `mesh dlq NODE` tells what"
        " it refused, and `mesh status` what stands still.",
    ),
    FindingKind.UNEXPECTED: Rule(
        "An endpoint gets what it subscribes to and what was published, and nothing else (K31).",
        f"{_TRACE}; see who may write to the topic besides its node, and who subscribed when.",
    ),
    FindingKind.CORRUPT: Rule(
        "A delivery holds what its client wrote: key, value, headers, subject, time (K8).",
        "Compare both records byte by byte: the offsets are in the ids; see what stands between.",
    ),
    FindingKind.FORGED_ORIGIN: Rule(
        "The identity of a message is a record of an ingress topic (K9).",
        "See who may write to the topic besides its node: `kafka-acls --list`.",
    ),
    FindingKind.GAP: Rule(
        "What is sent on a link goes on where it ended; a loss is announced (K11, DESIGN 6).",
        "`mesh status` and `mesh doctor` name what stands still; `mesh link resume` or `mesh node"
        " resume` shows what is lost and goes on once that is accepted.",
    ),
    FindingKind.DISORDER: Rule(
        "Messages of one ingress partition keep their order (DESIGN 6).",
        f"{_TRACE}: the first record that is out of order tells the node.",
    ),
    FindingKind.UNPLANNED_PATH: Rule(
        "A path is a walk by the rules of the zones (DESIGN 3).",
        "`mesh walks FILE --from NODE` shows the lawful walks; `mesh status` which topology each"
        " node goes by.",
    ),
    FindingKind.STALE_INTEREST: Rule(
        "A subscription is known to every live node that can be reached (K24, K25).",
        "`mesh wait NODE` names who has not acknowledged it; `mesh links` shows links that are not"
        " up.",
    ),
    FindingKind.NEEDLESS_COPY: Rule(
        "A message crosses a link only if somebody behind it wants it (DESIGN 1, 3).",
        "`mesh explain SUBJECT --from NODE` tells why it would go where; `mesh interest NODE` what"
        " each neighbour has asked it for.",
    ),
    FindingKind.UNACCOUNTED: Rule(
        "A direct message that is lost is counted, with a reason (DESIGN 6, K18).",
        "See the log of the node about that time, and the counts in its ledger topic: it skipped"
        " frames without counting them, or counted some twice.",
    ),
    FindingKind.STALLED: Rule(
        "A hop passes on what waits for it.",
        "`mesh status` shows the node and its lanes; start it, or see its log. Nothing is lost.",
    ),
    FindingKind.SILENT_LINK: Rule(
        "Of two live neighbours each reads what the other writes (K24, K32).",
        "`mesh links` shows how both ends see the link; look whether the reader can reach the Kafka"
        " cluster of the other. Guaranteed messages wait there.",
    ),
    FindingKind.UNPROVEN: Rule(
        "What was deleted before it was read is neither proven nor a fault (K5).",
        "Run the auditor all the time, or keep topics longer: `spec.keep`.",
    ),
    FindingKind.SPLIT: Rule(
        "Nodes that beat are joined by links that are read (K32).",
        "`mesh links` shows what is cut; guaranteed messages wait.",
    ),
    FindingKind.HEAL: Rule("The parts of the mesh have come together (K32).", ""),
    FindingKind.COLOURS_DIFFER: Rule(
        "While all nodes live their colours name the parts of the mesh (tree_layer 7.1, 13).",
        "`mesh doctor` names links without HELLO, `mesh status` the parts as roles on trees see"
        " them: sends may miss who is on the other side of the difference.",
    ),
}
