"""What a delivery holds is what its client wrote: digests, and the finding `corrupt`. Spec: K8."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.model.control import Stop
from mesh.wire.control import encode_stop
from mesh.wire.keys import stop_key
from streaming.tables.columns import NO_UTF8
from tests.streaming.planted import Record, topic_id

pytestmark = pytest.mark.spark

WRITTEN = Record(b"key", b"payload", (("x", b"1"), ("y", None), ("x", b"2")))

#: Endpoint -> what it gets instead, and the subject that it is told.
SWAPPED = {
    "key": (replace(WRITTEN, key=b"kez"), "acme/x"),
    "no-key": (replace(WRITTEN, key=None), "acme/x"),
    "moved": (replace(WRITTEN, key=b"payload", value=b"key"), "acme/x"),
    "payload": (replace(WRITTEN, value=b"payloae"), "acme/x"),
    "tombstone": (replace(WRITTEN, value=None), "acme/x"),
    "less": (replace(WRITTEN, headers=WRITTEN.headers[:2]), "acme/x"),
    "more": (replace(WRITTEN, headers=(*WRITTEN.headers, ("z", b""))), "acme/x"),
    "mesh": (replace(WRITTEN, headers=(("mesh-x", b"1"), *WRITTEN.headers)), "acme/x"),
    "order": (replace(WRITTEN, headers=WRITTEN.headers[::-1]), "acme/x"),
    "null": (replace(WRITTEN, headers=(("x", b"1"), ("y", b""), ("x", b"2"))), "acme/x"),
    "other-null": (replace(WRITTEN, headers=(("x", None), ("y", b"1"), ("x", b"2"))), "acme/x"),
    "time": (replace(WRITTEN, at_ms=WRITTEN.at_ms + 1), "acme/x"),
    "subject": (WRITTEN, "acme/y"),
}


def publish(plant, *records: Record) -> None:
    """Publish at c, where all endpoints are; what is reserved for the mesh is removed."""
    for one in records:
        headers = [("mesh-y", b"z"), *one.headers, ("mesh-subject", b"acme/x"), ("mesh", b"?")]
        plant.put("c.in.g", 0, one.key, one.value, headers, at_ms=one.at_ms)
    plant.cut("c", "c.in.g", 0, "c", 999)


def told(bench) -> set[tuple[str, str, tuple[str, ...]]]:
    bench.settle()
    found = bench.auditor.state.register.findings.values()
    return {(one.kind.value, one.endpoint, one.ids) for one in found}


def test_each_part_of_a_message_counts(bench, plant):
    """Of ten messages the third is another one at each endpoint but the first."""
    for endpoint in ("clean", *SWAPPED):
        plant.subscribe("c", endpoint, "acme/>")
    publish(plant, *[WRITTEN] * 10)
    plant.deliver("c/clean", range(10), ["c"], origin="c.in.g", like=WRITTEN)
    for endpoint, (record, subject) in SWAPPED.items():
        more = {"origin": "c.in.g", "path": ["c"]}
        plant.deliver(f"c/{endpoint}", range(2), like=WRITTEN, **more)
        plant.deliver(f"c/{endpoint}", [2], like=record, subject=subject, **more)
        plant.deliver(f"c/{endpoint}", range(3, 10), like=WRITTEN, **more)
    wrong = {("corrupt", f"c/{endpoint}", ("mesh.c.in.g/0/0/2",)) for endpoint in SWAPPED}
    assert told(bench) == wrong
    equal = {endpoint for (_, endpoint), one in bench.certificates.items() if one.equal}
    assert equal == {"c/clean"}


def test_a_create_time_of_zero_comes_as_the_next_one(bench, plant):
    """Nobody's message is another one for that: the mesh's client library cannot write 0."""
    plant.subscribe("c", "s", "acme/>")
    first, second = replace(WRITTEN, at_ms=0), replace(WRITTEN, at_ms=1)
    publish(plant, first, second, first)
    plant.deliver("c/s", range(2), ["c"], origin="c.in.g", like=second)
    plant.deliver("c/s", [2], ["c"], origin="c.in.g", like=replace(WRITTEN, at_ms=2))
    assert told(bench) == {("corrupt", "c/s", ("mesh.c.in.g/0/0/2",))}


def test_contents_that_changed_places_are_corrupt(bench, plant):
    """The same contents, but not each under its own identity; nothing waits for a hop."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s", "acme/>"))
    publish(plant, WRITTEN, replace(WRITTEN, value=b"other"))
    plant.deliver("c/s", [0], ["c"], origin="c.in.g", like=replace(WRITTEN, value=b"other"))
    plant.deliver("c/s", [1], ["c"], origin="c.in.g", like=WRITTEN)
    bench.take()
    bench.wait(3)
    assert told(bench) == {("corrupt", "c/s", ("mesh.c.in.g/0/0/0", "mesh.c.in.g/0/0/1"))}
    (certificate,) = bench.certificates.values()
    assert (certificate.expected, certificate.delivered, certificate.equal) == (2, 2, False)


def test_after_an_accepted_truncation_offsets_go_on_in_another_generation(bench, plant):
    """K9: who delivers them says so; they are expected as ever."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s", "acme/>"))
    publish(plant, *[WRITTEN] * 20)
    plant.deliver("c/s", range(12), ["c"], origin="c.in.g", like=WRITTEN)
    plant.deliver("c/s", range(10, 20), ["c"], origin="c.in.g", like=WRITTEN, generation=1)
    plant.progress("c", "c.in.g", 0, 20, generation=1)
    assert told(bench) == set()
    (certificate,) = bench.certificates.values()
    assert (certificate.expected, certificate.delivered, certificate.equal) == (20, 20, True)


@pytest.mark.parametrize("is_again", [True, False])
def test_another_generation_that_nobody_told_of_takes_nothings_place(bench, plant, is_again):
    """Neither a copy beside the first one nor one in its stead. Spec: K9."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s", "acme/>"))
    publish(plant, *[WRITTEN] * 3)
    plant.deliver("c/s", range(3 if is_again else 2), ["c"], origin="c.in.g", like=WRITTEN)
    plant.deliver("c/s", [2], ["c"], origin="c.in.g", like=WRITTEN, generation=1)
    plant.progress("c", "c.in.g", 0, 3)
    third = ("mesh.c.in.g/0/0/2",)
    lost = set() if is_again else {("missing", "c/s", third)}
    assert told(bench) == {("unexpected", "c/s", third), *lost}
    (certificate,) = bench.certificates.values()
    assert (certificate.expected, certificate.equal) == (3, False)


def test_where_a_truncation_was_told_copies_below_it_are_not_excused(bench, plant):
    """K9: of what was not lost there is one copy, whatever generation it has."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s", "acme/>"))
    publish(plant, *[WRITTEN] * 6)
    plant.deliver("c/s", range(6), ["c"], origin="c.in.g", like=WRITTEN)
    plant.deliver("c/s", range(3, 6), ["c"], origin="c.in.g", like=WRITTEN, generation=1)
    stop = Stop("mesh.c.in.g", 0, topic_id("mesh.c.in.g"), "truncated", 4, 6)
    plant.put("c.control", 0, stop_key(stop.topic, 0), encode_stop(stop))
    plant.progress("c", "c.in.g", 0, 6, generation=1)
    found = {one for one in told(bench) if one[0] != "gap"}
    assert found == {("duplicate", "c/s", ("mesh.c.in.g/0/1/3",))}


@pytest.mark.parametrize("asked", ["with the messages", "before them"])
@pytest.mark.parametrize("comes", [True, False])
def test_a_header_whose_name_may_be_no_text_is_owed_to_nobody(bench, plant, comes, asked):
    """Who wrote bytes is refused, who wrote the sign that Java puts for them is not. Spec: K7."""
    plant.cuts_everywhere("b", plant.subscribe("b", "s1", "acme/>"))
    if asked == "before them":
        bench.take()  # so the messages are read in bundles
    plant.publish("a", "acme/x", 2)
    odd = Record(b"k", b"v", ((f"na{NO_UTF8}me", b"1"),), plant.at_ms)
    headers = [*odd.headers, ("mesh-subject", b"acme/x")]
    plant.put("a.in.g", 0, odd.key, odd.value, headers)
    plant.publish("a", "acme/x", 3)
    plant.progress("a", "a.in.g", 0, 6)
    plant.deliver("b/s1", range(2), ["a", "b"])
    plant.deliver("b/s1", [2] if comes else [], ["a", "b"], like=odd)
    plant.deliver("b/s1", [3, 5], ["a", "b"])
    assert told(bench) == {("missing", "b/s1", ("mesh.a.in.g/0/0/4",))}
    plant.deliver("b/s1", [4], ["a", "b"])
    bench.settle()
    (certificate,) = bench.certificates.values()
    count = 6 if comes else 5
    assert (certificate.expected, certificate.delivered, certificate.equal) == (count, count, True)


def test_java_puts_a_sign_for_what_is_no_text(spark):
    """Kafka's client does so, whose records Spark hands on."""
    jvm = spark._jvm
    name = jvm.java.nio.ByteBuffer.wrap(bytearray(b"na\xffme"))
    header = jvm.org.apache.kafka.common.header.internals.RecordHeader(name, None)
    assert header.key() == f"na{NO_UTF8}me"
