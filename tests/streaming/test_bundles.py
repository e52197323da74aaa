"""Subjects that are taken together on the JVM, held against the auditor's matcher in Python."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import functions as F

from streaming.audits.block import BUNDLE
from streaming.audits.matching import claim_pattern, is_subject, selects
from streaming.job import auditor
from streaming.tables.bundles import BETWEEN, Bundles
from streaming.tables.filters import Filters
from tests.sim.drawn import random_filter, random_subject

pytestmark = pytest.mark.spark

ODD = (
    "it's",
    "a\\b/'",
    "a/${x}",
    "a/${env:HOME}/b",
    "a/'x",
    "a/\\",
    "a/\\n\\u0041",
    "\u00fc/\U0001f600",
    "a b/c",
    "x" * 250,
    "/".join("abcdefghijklmnop"),
)
NONE = ("", "/", "a//b", "$node/x", "a/*", ">", "a/>b", "a\x00b", "a\x7f", "/".join("a" * 17))


def test_a_bundle_is_what_the_same_filters_select(spark) -> None:
    """All shapes, odd names, and what is no subject. K7, K26."""
    rng = random.Random(7)
    filters = Filters()
    filters.know(random_filter(rng) for _ in range(60))
    filters.know((">", "*", "*/*", "a/*/>", *ODD, *(f"{one}/>" for one in ODD[:4])))
    subjects = [*(random_subject(rng) for _ in range(200)), *ODD, *(f"{one}/y" for one in ODD[:4])]
    rows = [(one,) for one in dict.fromkeys((*subjects, *NONE))]
    bundles = Bundles(filters.by_shape(), filters.known)
    (claimed,) = rng.sample([*filters.numbers], 1)
    pattern = claim_pattern([claimed, "a/>"], ["*/>"], ["a/b"])
    told = (
        spark.createDataFrame(rows, "subject string")
        .withColumn("selected", bundles.column)
        .withColumn("claimed", F.rlike("subject", F.lit(pattern)))
    )
    for subject, selected, is_claimed in told.collect():
        if not is_subject(subject):
            assert (subject, selected, is_claimed) == (subject, None, False)
            continue
        found = {one for one in filters.numbers if selects(one, subject)}
        assert (subject, {*selected.split(BETWEEN)} - {""}) == (subject, found)
        wanted = (selects(claimed, subject) or selects("a/>", subject)) and "/" in subject
        assert (subject, is_claimed) == (subject, wanted and subject != "a/b")


def test_subjects_are_taken_together_and_certified(bench, plant) -> None:
    """From the batch on whose filters are known before it is read."""
    plant.cuts_everywhere("b", plant.subscribe("b", "s1", "acme/>"))
    plant.carry(2, ["b/s1"])
    bench.take()
    for number in range(3):
        plant.carry(2, ["b/s1"], subject=f"acme/{number}")
    plant.carry(1, [], subject="other")
    bench.settle()
    (block,) = bench.auditor.state.certifier.blocks.open["mesh.a.in.g", 0].values()
    counts = {key: tally.digest.count for key, tally in block.subjects.items()}
    both = BETWEEN.join((">", "acme/>"))
    assert counts == {"acme/x": 2, f"{BUNDLE}{both}": 6, f"{BUNDLE}>": 1}
    (certificate,) = bench.certificates.values()
    assert (certificate.expected, certificate.delivered, certificate.equal) == (8, 8, True)


def test_what_was_taken_together_before_a_filter_was_known_is_read_again(bench, plant) -> None:
    """The subscription was written before the messages, and is read after them."""
    plant.cuts_everywhere("b", plant.subscribe("b", "s1", "acme/>"))
    bench.take()
    plant.cuts_everywhere("c", plant.subscribe("c", "s2", "acme/y"))
    plant.carry(5, ["b/s1"])
    offsets = plant.carry(5, ["b/s1"], subject="acme/y")
    plant.deliver("c/s2", offsets[:4], ["a", "b", "c"], subject="acme/y")
    bench.take("mesh.c.clients")
    assert bench.settle() == ["missing"]
    (missing,) = bench.auditor.state.register.findings.values()
    assert (missing.endpoint, missing.first, missing.last) == ("c/s2", 9, 9)
    told = {str(one.endpoint): (one.expected, one.equal) for one in bench.certificates.values()}
    assert told == {"b/s1": (10, True), "c/s2": (5, False)}


def test_of_a_large_batch_filters_are_known_before_it_is_read(bench, plant, monkeypatch) -> None:
    """Of much Spark reads a part of all, and what clients ask for would come with the last."""
    monkeypatch.setattr(auditor, "ONE_TASK_MAX", -1)
    plant.cuts_everywhere("b", plant.subscribe("b", "s1", "acme/>"))
    plant.carry(3, ["b/s1"])
    bench.take()
    (block,) = bench.auditor.state.certifier.blocks.open["mesh.a.in.g", 0].values()
    assert [*block.subjects] == [f"{BUNDLE}{BETWEEN.join(('>', 'acme/>'))}"]
    assert bench.settle() == []
    (certificate,) = bench.certificates.values()
    assert (certificate.expected, certificate.equal) == (3, True)
