"""What minor versions added to records: it comes back, and its absence means nothing to tell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.errors import DecodeError
from mesh.model.control import ChangeStatus, EndpointStatus, Heartbeat, Stage
from mesh.model.links import SWITCH, NodeLinks, YieldProposal, YieldReply
from mesh.model.state import DeadLetter
from mesh.model.words import EndpointWord
from mesh.wire.control import decode_heartbeat, encode_heartbeat
from mesh.wire.links import decode_node_links, encode_node_links
from mesh.wire.state import decode_dead_letter, encode_dead_letter
from tests.unit.wire.vector_cases import by_fastavro, of_fastavro

BEAT = Heartbeat(3, 900, True)
LETTER = DeadLetter(reason="QUARANTINED", detail="too large", topic="t", partition=1, offset=2)


def test_a_heartbeat_tells_which_endpoints_are_full() -> None:
    """Spec: R14."""
    value = (
        EndpointStatus("orders", EndpointWord.FULL, "発注 waits"),
        EndpointStatus("ticker", EndpointWord.LOSSY, ""),
    )
    beat = replace(BEAT, endpoints=value)
    assert decode_heartbeat(encode_heartbeat(beat)) == beat
    assert decode_heartbeat(encode_heartbeat(BEAT)) == BEAT
    assert by_fastavro("heartbeat", encode_heartbeat(BEAT))["ext"] == {}


def test_a_heartbeat_tells_how_far_a_node_follows_a_change() -> None:
    """It is a record of its own, with a version."""
    status = ChangeStatus(8, Stage.SWITCH, is_done=False, open_links=(("a", "b"),))
    beat = replace(BEAT, change=status)
    assert decode_heartbeat(encode_heartbeat(beat)) == beat
    fields = by_fastavro("heartbeat", encode_heartbeat(BEAT))
    wrong = of_fastavro("heartbeat", {**fields, "ext": {"beat.change": b"\x02"}})
    with pytest.raises(DecodeError):
        decode_heartbeat(wrong)


def test_a_heartbeat_tells_which_topology_its_lanes_miss() -> None:
    beat = replace(BEAT, lost_topology=7)
    assert decode_heartbeat(encode_heartbeat(beat)) == beat
    fields = by_fastavro("heartbeat", encode_heartbeat(BEAT))
    wrong = of_fastavro("heartbeat", {**fields, "ext": {"beat.lost_topology": b"seven"}})
    with pytest.raises(DecodeError):
        decode_heartbeat(wrong)


@pytest.mark.parametrize("text", [b"{", b"7", b'[["orders"]]'])
def test_what_is_no_list_of_endpoints_is_refused(text: bytes) -> None:
    fields = by_fastavro("heartbeat", encode_heartbeat(BEAT))
    wrong = of_fastavro("heartbeat", {**fields, "ext": {"beat.endpoints": text}})
    with pytest.raises(DecodeError):
        decode_heartbeat(wrong)


def test_a_dead_letter_tells_its_target_and_identity() -> None:
    """Spec: R12."""
    letter = replace(LETTER, target="mesh.b.ep.e", identity="00/1/0/7-9")
    assert decode_dead_letter(encode_dead_letter(letter)) == letter
    assert by_fastavro("dead_letter", encode_dead_letter(LETTER))["ext"] == {}


def test_a_node_tells_which_topologies_were_in_force_before() -> None:
    """Spec: K27."""
    plain = NodeLinks(node="a", uuid="ua", cluster_id="k", digest="now")
    proposal, reply = (
        YieldProposal(3, "facts", SWITCH),
        YieldReply("ub", 7, 2, SWITCH, 4, is_idle=True),
    )
    value = replace(plain, former=("before", "first"), proposal=proposal, reply=reply)
    assert decode_node_links(encode_node_links(value)) == value
    assert decode_node_links(encode_node_links(plain)) == plain
    assert by_fastavro("node_links", encode_node_links(plain))["ext"] == {}
