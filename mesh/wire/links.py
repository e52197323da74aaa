"""Bytes of nodes' records of their links. Spec: K27."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from mesh.model.joins import Join
from mesh.model.links import Gate, GateStatus, HeldLink, NodeLinks, YieldProposal, YieldReply
from mesh.wire.records import RecordCodec

_FORMER = "links.former"
"""Entry of `ext`: JSON, a list of digests."""

_PROPOSAL, _REPLY = "links.word", "links.answer"
"""Entries of `ext`: JSON, lists of the attributes in their order."""


def _ext_of(value: NodeLinks) -> Mapping[str, bytes]:
    ext: dict[str, object] = {}
    if value.former:
        ext[_FORMER] = list(value.former)
    if value.proposal is not None:
        ext[_PROPOSAL] = [value.proposal.attempt, value.proposal.facts, value.proposal.step]
    if value.reply != YieldReply():
        reply = value.reply
        ext[_REPLY] = [
            reply.to,
            reply.attempt,
            reply.number,
            reply.asked,
            reply.done,
            reply.is_idle,
        ]
    return {key: json.dumps(one).encode() for key, one in ext.items()}


def _proposal_of(ext: Mapping[str, bytes]) -> YieldProposal | None:
    if _PROPOSAL not in ext:
        return None
    attempt, facts, step = json.loads(ext[_PROPOSAL])
    return YieldProposal(int(attempt), str(facts), int(step))


def _reply_of(ext: Mapping[str, bytes]) -> YieldReply:
    if _REPLY not in ext:
        return YieldReply()
    to, attempt, number, asked, done, is_idle = json.loads(ext[_REPLY])
    return YieldReply(str(to), int(attempt), int(number), int(asked), int(done), bool(is_idle))


def _former_of(ext: Mapping[str, bytes]) -> Sequence[str]:
    return tuple(map(str, json.loads(ext.get(_FORMER, b"[]"))))


_NODE_LINKS = RecordCodec[NodeLinks](
    "node_links",
    lambda value: {
        "node": value.node,
        "uuid": value.uuid,
        "cluster_id": value.cluster_id,
        "digest": value.digest,
        "number": value.number,
        "sequence": value.sequence,
        "seen": value.seen,
        "gate_number": value.gate_number,
        "links": [
            {
                "neighbour": link.neighbour,
                "zone": link.zone,
                "kind": link.kind,
                "created": link.version,
                "peer": link.peer,
                "joins": [
                    {
                        "zone": join.zone,
                        "source": join.source,
                        "target": join.target,
                        "filter": join.filter,
                        "hops": join.hops,
                    }
                    for join in link.joins
                ],
            }
            for link in value.links
        ],
        "gates": [
            {
                "neighbour": gate.neighbour,
                "state": gate.state,
                "reason": gate.reason,
                "drains": gate.drains,
            }
            for gate in value.gates
        ],
        "ext": _ext_of(value),
    },
    lambda fields: NodeLinks(
        node=fields["node"],
        uuid=fields["uuid"],
        cluster_id=fields["cluster_id"],
        digest=fields["digest"],
        number=fields["number"],
        sequence=fields["sequence"],
        seen=fields["seen"],
        gate_number=fields["gate_number"],
        links=tuple(
            HeldLink(
                neighbour=link["neighbour"],
                zone=link["zone"],
                kind=link["kind"],
                version=link["created"],
                peer=link["peer"],
                joins=tuple(Join(**join) for join in link["joins"]),
            )
            for link in fields["links"]
        ),
        gates=tuple(
            GateStatus(gate["neighbour"], Gate(gate["state"]), gate["reason"], gate["drains"])
            for gate in fields["gates"]
        ),
        former=_former_of(fields["ext"]),
        proposal=_proposal_of(fields["ext"]),
        reply=_reply_of(fields["ext"]),
    ),
)

encode_node_links, decode_node_links = _NODE_LINKS.encode, _NODE_LINKS.decode
