"""Records on the auditor's topics that no auditor wrote: left out, and nothing else is troubled."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesh.config.topology_file import topology_from_mapping
from mesh.operate.audit.entries import TYPES, entry_of
from mesh.operate.audit.latest import POSITION
from mesh.transport.port import TopicSpec
from tests.component.api.conftest import MakeApi
from tests.component.in_memory_mesh import CHAIN

PATHS = (
    "findings", "certificates", "audit", "audit/heatmap", "mesh", "endpoints", "nodes/c",
    "links/a/b", "mesh?at=1s", "audit/heatmap?at=1s", "findings?kind=split", "audit?at=1s",
    "queues?at=1s", "endpoints?at=1s", "nodes/c?at=1s", "explain?subject=x/y&from=a&at=1s",
    "links/a/b?at=1s", "endpoints",
)  # fmt: skip

ENDED = {"endpoint": "c/e", "kind": "channel", "class": "guaranteed", "from_ms": 0, "to_ms": 9e15}

ODD = [
    ("findings", b'{"kind": 5, "text": null, "ids": "abc"}'),
    ("findings", b'{"kind": "split", "ids": [null, 5, {"x": 1}], "first_seen_ms": "soon"}'),
    ("findings", b'{"kind": "duplicate", "link": 7, "endpoint": [1], "path": {}, "id": 7}'),
    ("findings", b'{"kind": "duplicate", "text": ["a"], "what_to_do": 5, "first_seen_ms": 1e300}'),
    ("certificates", b'{"endpoint": 5, "equal": "maybe"}'),
    ("certificates", b'{"endpoint": "c/e", "source": "s", "equal": true, "first_ms": NaN}'),
    ("certificates", b'{"endpoint": "c/e", "source": "s", "equal": true, "expected": "many"}'),
    ("certificates", b'{"endpoint": "c/e", "source": "s", "equal": true, "last_ms": 1e301}'),
    ("links", b'{"messages": "x", "direct": null, "dropped": [1]}'),
    ("status", b'{"at_ms": "x", "waiting": [5, null], "uncertified": "z", "sources": {"a": 5}}'),
    ("status", b'{"waiting": 7, "endpoints": 5, "positions": 7, "sources": [], "batch": null}'),
    ("canaries", b'{"way": "a->b", "sent": 1, "arrived": 0, "lost": "x", "latency_ms": [1]}'),
    ("canaries", b'{"way": 5, "sent": 1, "arrived": 0, "lost": 1, "latency_ms": "soon"}'),
    ("status", b"[" * 100_000),
    ("status", b"\xff{"),
    ("findings", b'{"kind": "duplicate", "more": [NaN, Infinity]}'),
    ("findings", b'{"kind": "duplicate", "count": 1' + b"0" * 400 + b"}"),
    ("findings", b'{"kind": "duplicate", "foo": 1e999}'),
    ("links", b'{"messages": 1, "frames": 1, "direct": 0, "sources": {"a": {"x": -1e999}}}'),
    ("findings", b'{"kind": "split", "text": "\xed\xa0\x80"}'),
    ("findings", '{"kind": "split", "text": "\\ud800"}'.encode("utf-16")),
    ("hours", b'{"from_ms": 5, "to_ms": 1' + b"0" * 400 + b"}"),
    ("findings", b'{"kind": "duplicate", "text": "\\ud800", "more": "\\uDC00"}'),
    ("minutes", b'{"from_ms": -1e15, "minutes": 0.5, "kafka": "left", "link": "a->b"}'),
    ("minutes", b'{"from_ms": 9e15, "minutes": 9e15, "link": "a->b", "guaranteed": 9e15}'),
    ("link-hours", b'{"from_ms": 0, "minutes": 60, "kafka": ["left"], "link": {"a": 1}}'),
    ("subscriptions", b'{"endpoint": "c", "filter": "", "kind": "x", "class": "y", "from_ms": 0}'),
    ("status", b'{"endpoints": null, "waiting": null, "sources": null, "positions": null}'),
    ("status", b'{"uncertified": 1, "waiting": [{"source": "s", "endpoint": "*", "block": null}]}'),
    ("status", b'{"waiting": [{"source": "s", "endpoint": "*", "block": 1' + b"0" * 400 + b"}]}"),
    ("status", b'{"sources": {"left": {"unread": [1], "read_ms": 1' + b"0" * 400 + b"}}}"),
    ("findings", b'{"kind": "duplicate", "ids": null, "evidence": null, "text": null}'),
    ("canaries", b'{"way": "a->b", "sent": 1, "arrived": 0, "lost": 1, "for": null}'),
    *(
        ("subscriptions", json.dumps({**ENDED, "filter": filter_, **more}).encode())
        for filter_ in ("x//y", "", ">/x", "$queue/q", "$queue/q/a/any/x", "x" * 400)
        for more in ({}, {"kind": "queue"}, {"endpoint": "c"}, {"endpoint": "zz/e"})
    ),
]


@pytest.mark.parametrize(("table", "value"), ODD)
def test_an_odd_record_troubles_nothing(api_of: MakeApi, table: str, value: bytes) -> None:
    """Every answer is given, and the mesh is looked at on."""
    topology = topology_from_mapping({**CHAIN, "audit": {"kafka": "left"}})
    api = api_of(topology)
    kafka = api.mesh.world.kafka["left"]
    names = [f"mesh.audit.{one}" for one in sorted({table for table, _ in ODD})]
    kafka.admin().create([TopicSpec(name=name, partitions=1, settings={}) for name in names])
    writer = kafka.writer("stranger")
    with api.turn:
        key = POSITION if table == "status" else b"a->b"
        writer.produce(f"mesh.audit.{table}", value, key, 0)
        writer.flush()
    api.lives(2)
    for path in PATHS:
        api.get(path)


def test_no_key_of_a_stranger_ends_a_list(api_of: MakeApi) -> None:
    """A list goes on from the key that a page ended with."""
    api = api_of(topology_from_mapping({**CHAIN, "audit": {"kafka": "left"}}))
    kafka = api.mesh.world.kafka["left"]
    kafka.admin().create([TopicSpec(name="mesh.audit.findings", partitions=1)])
    writer = kafka.writer("stranger")
    with api.turn:
        for key in (b"one", b"k" * 100_000, b"\xff\n\x00", b"two"):
            writer.produce("mesh.audit.findings", b'{"kind": "loop"}', key, 0)
        writer.flush()
    api.lives(2)
    found, cursor = 0, ""
    while cursor is not None:
        page = api.get(f"findings?limit=1&cursor={cursor}")
        found, cursor = found + len(page["items"]), page["next"]
    assert found == 3


def test_what_somebody_removed_of_the_findings_is_missed(api_of: MakeApi) -> None:
    """The auditor counts them, and takes one back by that count, too: then all is well."""
    api = api_of(topology_from_mapping({**CHAIN, "audit": {"kafka": "left"}}))
    kafka = api.mesh.world.kafka["left"]
    tables = ("findings", "certificates", "status")
    kafka.admin().create([TopicSpec(name=f"mesh.audit.{one}", partitions=1) for one in tables])

    def written(table: str, key: bytes, **fields: object) -> None:
        writer = kafka.writer("somebody")
        value = json.dumps(fields).encode() if fields else None
        with api.turn:
            writer.produce(f"mesh.audit.{table}", value, key, 0)
            writer.flush()
            writer.close()

    def proven(findings: int, key: bytes, **fields: object) -> tuple[str, str]:
        written("findings", key, **fields)
        for _ in range(3):
            heard = {"at_ms": api.mesh.now_ms(), "findings": findings, "endpoints": ["c/e"]}
            written("status", POSITION, **heard)
            api.lives(5)
        told = api.get("mesh")["proof"]
        return told["state"], told["text"]

    written("certificates", b"c", endpoint="c/e", source="s", equal=True, delivered=1)
    found = {"kind": "duplicate", "text": "twice", "endpoint": "c/e"}
    assert proven(1, b"one", **found) == ("findings", "1 finding open")
    assert proven(1, b"one") == ("findings", "1 finding removed by somebody")
    assert proven(1, b"one", **found) == ("findings", "1 finding open")
    assert proven(0, b"one")[0] == "proven"


def test_a_newer_auditor_may_have_kinds_of_its_own(api_of: MakeApi) -> None:
    """They are asked for by their names like all others, once there is one."""
    api = api_of(topology_from_mapping({**CHAIN, "audit": {"kafka": "left"}}))
    api.refused("/api/v1/findings?kind=echo", 422)
    kafka = api.mesh.world.kafka["left"]
    kafka.admin().create([TopicSpec(name="mesh.audit.findings", partitions=1, settings={})])
    writer = kafka.writer("auditor")
    with api.turn:
        writer.produce("mesh.audit.findings", b'{"kind": "echo", "text": "x"}', b"e", 0)
        writer.flush()
    api.lives(2)
    assert [one["kind"] for one in api.get("findings?kind=echo")["items"]] == ["echo"]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(string.printable, max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=5,
)


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from(sorted(TYPES)), _JSON, max_size=6))
def test_what_is_kept_has_its_type(said: dict[str, object]) -> None:
    """Whatever a record holds."""
    entry = entry_of("status", json.dumps(said).encode())
    if entry is None:
        return  # no JSON: it has a number that is none
    assert all(one is None or TYPES[field](one) for field, one in entry.items())
