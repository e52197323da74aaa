"""Records on the auditor's topics that no auditor wrote: left out, and nothing else is troubled."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesh.config.topology_file import topology_from_mapping
from mesh.operate.audit.entries import TYPES, entry_of
from mesh.transport.port import TopicSpec
from tests.component.api.conftest import MakeApi
from tests.component.in_memory_mesh import CHAIN

PATHS = (
    "findings", "certificates", "audit", "audit/wall", "mesh", "endpoints", "nodes/c",
    "links/a/b", "mesh?at=1s", "audit/wall?at=1s", "findings?kind=split", "audit?at=1s",
)  # fmt: skip

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
        writer.produce(f"mesh.audit.{table}", value, b"a->b", 0)
        writer.flush()
    api.lives(2)
    for path in PATHS:
        api.get(path)


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
