"""A node that starts in the middle of a change knows which links the change has brought."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from structlog.testing import capture_logs

from mesh.config.published import published_text
from mesh.config.topology_file import topology_from_mapping
from mesh.errors import TransportUnreadableError
from mesh.model.control import Change, Stage
from mesh.model.topology import Topology, with_addresses
from mesh.node.relinking import with_node
from mesh.wire.control import encode_change, encode_config
from mesh.wire.keys import change_key, config_key
from mesh.worker.control.topology_start import read_start
from tests.said import Said


@dataclass(frozen=True)
class Told:
    told_key: bytes
    told_value: bytes | None

    def topic(self) -> str:
        return "mesh.config"

    def offset(self) -> int:
        return 7

    def key(self) -> bytes:
        return self.told_key

    def value(self) -> bytes | None:
        return self.told_value


def topology(nodes: str, *links: str) -> Topology:
    zones = {"Z": {"kind": "multi-hop", "links": [list(link) for link in links]}}
    return topology_from_mapping(
        {"kafka": {"k": {}}, "nodes": {name: {} for name in nodes}, "zones": zones}
    )


BEFORE, AFTER = topology("abc", "ab"), topology("abcd", "ab", "ac", "cd")


def change(stage: Stage) -> Told:
    return Told(change_key(), encode_change(Change(2, stage, published_text(AFTER))))


def in_force(number: int, one: Topology) -> Told:
    return Told(config_key(), encode_config(number, published_text(one)))


@pytest.mark.parametrize(
    ("node", "records", "added"),
    [
        ("a", [in_force(1, BEFORE), change(Stage.SWITCH)], ("c",)),
        ("d", [in_force(1, BEFORE), change(Stage.SWITCH)], ("c",)),  # it is new itself
        ("b", [in_force(1, BEFORE), change(Stage.SWITCH)], ()),
        ("a", [in_force(1, BEFORE), change(Stage.SWITCH), in_force(2, AFTER)], ()),
        ("a", [in_force(1, BEFORE), change(Stage.HOLD)], ()),
        ("a", [in_force(1, BEFORE), change(Stage.RUN)], ()),
        ("a", [change(Stage.SWITCH)], ["b", "c"]),  # nobody knows what was in force
    ],
)
def test_a_leader_awaits_what_the_change_brings(
    node: str, records: list[Told], added: tuple[str, ...]
) -> None:
    """Spec: K28."""
    start = read_start(AFTER, node, records)
    assert start.awaited == added


GARBAGE = [Told(config_key(), b"garbage"), Told(change_key(), b"garbage")]
NEWER = [
    Told(one.key(), b"\x04" + one.value()[1:]) for one in (in_force(3, AFTER), change(Stage.RUN))
]


@pytest.mark.parametrize("stray", GARBAGE, ids=["config", "change"])
def test_what_a_stranger_writes_beside_what_is_in_force_stops_nobody(
    said: Said, stray: Told
) -> None:
    """Spec: DESIGN 4."""
    start = read_start(BEFORE, "a", [in_force(2, AFTER), change(Stage.RUN), stray])
    assert (start.number, start.topology) == (2, with_node(AFTER, "a", BEFORE))
    [unread] = said.of("config.unreadable")
    assert (unread["log_level"], unread["offset"]) == ("warning", 7)
    assert unread["fault"]
    [differs] = said.of("topology.differs")
    assert (differs["log_level"], differs["in_force"]) == ("warning", 2)


def test_what_a_node_was_made_with_is_as_it_is_in_force() -> None:
    """Else one worker of it would have other lanes than the next. Spec: K2, K14."""
    own = AFTER.nodes["a"]
    others = {"a": replace(own, lanes=2, partitions=8), "e": replace(own, name="e", lanes=2)}
    file = replace(AFTER, nodes={**AFTER.nodes, **others})
    assert read_start(file, "a", [in_force(2, AFTER)]).topology.nodes["a"] == own
    unknown = read_start(file, "e", [in_force(2, AFTER)]).topology.nodes["e"]
    assert unknown == replace(others["e"], is_member=False)


@pytest.mark.parametrize(
    "records", [[GARBAGE[0]], [GARBAGE[1]], [in_force(2, AFTER), NEWER[0]], [NEWER[1]]]
)
def test_nobody_guesses_which_topology_is_in_force(records: list[Told]) -> None:
    """Where compaction has left a stranger's record alone, or a newer program has written."""
    with pytest.raises(TransportUnreadableError, match=r"mesh.config offset 7: .*no value"):
        read_start(BEFORE, "a", records)
    right = in_force(4, AFTER) if records[-1].key() == config_key() else change(Stage.RUN)
    assert read_start(BEFORE, "a", [*records, right]).number in (2, 4)


@pytest.mark.parametrize("stray", [*GARBAGE, *NEWER])
def test_what_hides_it_can_be_taken_back(stray: Told) -> None:
    """As those who start are told: compaction may come much later."""
    start = read_start(BEFORE, "a", [stray, Told(stray.key(), None)])
    assert (start.number, start.topology) == (-1, BEFORE)


def test_addresses_of_the_command_line_are_no_other_topology() -> None:
    """Nor is the order in which a file names things: a node warns of what means something else."""
    given = with_addresses(AFTER, dict.fromkeys(AFTER.kafka, "here:9092"))
    turned = replace(given, nodes=dict(reversed(AFTER.nodes.items())))
    with capture_logs() as logs:
        for file in (given, turned):
            assert read_start(file, "a", [in_force(2, AFTER)]).number == 2
    assert logs == []
    with capture_logs() as logs:
        read_start(BEFORE, "a", [in_force(2, AFTER)])
    assert [one["event"] for one in logs] == ["topology.differs"]
