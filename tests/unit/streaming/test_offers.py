"""What bundles of subjects tell about an endpoint, and what they leave open. Spec: K29, K31."""

from __future__ import annotations

import pytest

from streaming.audits.block import BUNDLE, Block, SubjectTally
from streaming.audits.claims import Claim, Level, Span
from streaming.audits.offers import Offer
from streaming.audits.verdicts import DigestVerdict, compare, is_proof
from streaming.audits.ways import Between
from streaming.tables.bundles import BETWEEN, Bundles
from streaming.tables.digest import NOTHING
from streaming.tables.filters import ALL, FILTERS_MAX, LITERAL, SHAPES_MAX, Filters, Shape
from streaming.tables.rows import IngressRow, TopicPartition
from tests.unit.streaming.certified import digest

PLACE = TopicPartition("mesh.a.in.g", 0)


def offer(*bundles: tuple[str, int, tuple[int, ...]]) -> Offer:
    """Return an offer of bundles: their filters, how many were known, and their offsets."""
    block = Block()
    for selected, known, offsets in bundles:
        tally = SubjectTally(digest(*offsets), min(offsets), max(offsets), known)
        block.subjects[f"{BUNDLE}{selected.replace(' ', BETWEEN)}"] = tally
    return Offer.of(block)


def claim(filter_: str, newest: int, first: int | None = 0, **more: object) -> Claim:
    return Claim(filter_, None if first is None else Span(first), newest=newest, **more)


def test_what_a_filter_selects_must_come_and_nothing_else() -> None:
    made = offer(("a/>", 3, (0, 1)), ("a/> b", 3, (2,)), ("", 3, (3, 4)))
    wanted = [claim("a/>", 0)]
    assert compare(made, digest(0, 1, 2), wanted) is DigestVerdict.EQUAL
    assert compare(made, digest(0, 1), wanted) is DigestVerdict.UNEQUAL
    assert compare(made, digest(0, 1, 2, 3), wanted) is DigestVerdict.UNEQUAL
    assert compare(made, NOTHING, [claim("c", 2)]) is DigestVerdict.NOTHING


def test_joins_select_and_what_is_kept_local_does_not_come() -> None:
    made = offer(("a/> j", 4, (0,)), ("a/> j k", 4, (1,)), ("a/>", 4, (2,)))
    between = Between(joins=("j",), kept=("k",))
    assert compare(made, digest(0), [claim("a/>", 3, between=between)]) is DigestVerdict.EQUAL


def test_one_that_a_bundle_did_not_know_makes_it_unsure_where_something_may_be_owed() -> None:
    """What was subscribed after the messages were taken together may select some of them."""
    made = offer(("a/>", 1, (0, 1)), ("a/> x", 2, (7,)))
    old, new = claim("a/>", 0), claim("b", 1)
    assert compare(made, digest(0, 1, 7), [old]) is DigestVerdict.EQUAL
    assert compare(made, digest(0, 1, 7), [old, new]) is DigestVerdict.UNSURE
    assert compare(made, NOTHING, [new]) is DigestVerdict.UNSURE
    later = claim("b", 1, first=2)
    assert compare(made, digest(0, 1, 7), [old, later]) is DigestVerdict.EQUAL
    assert compare(made, digest(0, 1), [old, later]) is DigestVerdict.UNSURE
    assert compare(made, NOTHING, [later]) is DigestVerdict.NOTHING
    assert compare(made, NOTHING, [claim("b", 1, first=None)]) is DigestVerdict.NOTHING
    assert compare(made, digest(0), [claim("b", 1, first=None)]) is DigestVerdict.UNSURE


def test_behind_a_selector_what_was_taken_together_too_early_is_no_proof() -> None:
    between = Between(is_sure=False)
    refusable = {"first": None, "between": between, "is_refusable": True}
    assert is_proof(offer(("a/>", 1, (0,))), digest(0), [claim("a/>", 0, **refusable)])
    assert not is_proof(offer(("a/>", 1, (0,))), NOTHING, [claim("a/>", 0, **refusable)])
    assert is_proof(offer(("a/>", 2, (0,))), NOTHING, [claim("b", 1, **refusable)])
    assert not is_proof(offer(("a/>", 1, (0,))), NOTHING, [claim("b", 1, **refusable)])


def test_a_subject_that_is_alone_is_matched_by_every_claim() -> None:
    block = Block()
    block.publish(IngressRow(PLACE, 0, "b", digest(0), 0, 0))
    block.publish(IngressRow(PLACE, 0, None, digest(1), 1, 1, "a/>", 1))
    block.publish(IngressRow(PLACE, 0, None, digest(2), 2, 2))
    assert list(block.subjects) == ["b", f"{BUNDLE}a/>"]
    assert block.subjects["b"].known == ALL
    assert block.last == 2
    levels = Offer.of(block).levels([claim("b", 7)])
    assert [(level, tally.first) for level, tally in levels] == [(Level.MUST, 0)]


def test_a_bundle_knows_as_little_as_the_first_of_it() -> None:
    block = Block()
    for offset, known in ((0, 5), (1, 3), (2, 9)):
        block.publish(IngressRow(PLACE, 0, None, digest(offset), offset, offset, "", known))
    (tally,) = block.subjects.values()
    assert (tally.known, tally.first, tally.last, tally.digest) == (3, 0, 2, digest(0, 1, 2))


def test_filters_keep_their_numbers_and_too_many_tell_nothing_apart() -> None:
    filters = Filters()
    filters.know(["b", "a/>", "b"])
    filters.know(["*/c", "a/>"])
    assert filters.numbers == {"b": 0, "a/>": 1, "*/c": 2}
    assert filters.newest(["b", "*/c"]) == 2
    assert filters.newest(["b", "d"]) == ALL - 1
    assert filters.by_shape() == {
        LITERAL: ["b"],
        Shape((False,), is_open=True): ["a/>"],
        Shape((True, False)): ["*/c"],
    }
    assert Bundles(filters.by_shape(), filters.known).count == 3
    filters.know(str(number) for number in range(FILTERS_MAX))
    assert filters.by_shape() == {}


@pytest.mark.parametrize("count", [SHAPES_MAX, SHAPES_MAX + 1])
def test_too_many_shapes_tell_nothing_apart(count: int) -> None:
    filters = Filters()
    stars = [
        f"{number:07b}".replace("0", "x/").replace("1", "*/") for number in range(1, count + 1)
    ]
    filters.know(one.removesuffix("/") for one in stars)
    assert (filters.by_shape() == {}) is (count > SHAPES_MAX)


def test_a_filter_that_comes_again_is_a_new_one() -> None:
    """What was read while it was forgotten does not tell whether it selects any of it."""
    filters = Filters()
    filters.know(["a", "b", "c"])
    filters.keep(["a", "c"])
    filters.know(["d", "b"])
    assert filters.numbers == {"a": 0, "c": 2, "d": 3, "b": 4}
    assert filters.known == 5
