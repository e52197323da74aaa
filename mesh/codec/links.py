"""Bytes of what nodes say of their links. Spec: K27."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from mesh.codec.records import RecordCodec
from mesh.model.joins import Join
from mesh.model.links import Gate, GateStatus, HeldLink, NodeLinks

_FORMER = "links.former"
"""Entry of `ext`: JSON, a list of digests."""


def _former_ext(former: Sequence[str]) -> Mapping[str, bytes]:
    return {_FORMER: json.dumps(list(former)).encode()} if former else {}


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
        "ext": _former_ext(value.former),
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
    ),
)

encode_node_links, decode_node_links = _NODE_LINKS.encode, _NODE_LINKS.decode
