"""Conditions of selectors: what they see, what they say where there is no answer."""

from __future__ import annotations

import pytest

from mesh.config.conditions import condition_fault
from mesh.core.conditions import (
    condition,
    first_refusing,
    header_texts,
    needs_headers,
    selects_subject,
)

ORDER = 'headers["kind"] == "order"'
ACME = 'subject.startsWith("acme/")'


def test_a_condition_sees_subject_and_headers() -> None:
    """Spec: EMS-14."""
    both = condition(f"{ACME} && {ORDER}")
    assert both.holds("acme/x", {"kind": "order"})
    assert not both.holds("acme/x", {"kind": "quote"})
    assert not both.holds("other/x", {"kind": "order"})


@pytest.mark.parametrize(
    "text",
    [ORDER, "size(headers.kind) > 0", "1 / size(headers) == 1", "subject", "int(subject) > 3"],
)
def test_what_cannot_be_answered_is_false(text: str) -> None:
    """A missing header, a fault of arithmetic, no truth at all. Spec: EMS-14."""
    assert not condition(text).holds("acme/x", {})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('subject.matches("[")', "'[' is not a regular expression: unclosed character class"),
        ('headers.x == "1" || subject.matches(r"a*{")', "'a*{' is not a regular expression"),
        ("matches(subject, '(?<=a)b')", "look-around, including"),
        ('subject.matches("a" + "[")', "'a[' is not a regular expression"),
        ("subject.startsWith(1)", "calls startsWith() with what it does not take"),
        ("headers.price > 3", "write int(headers.x) > 3"),
        ("(" * 200 + "true" + ")" * 200, "nested too deeply"),
    ],
)
def test_what_no_message_can_be_asked_is_refused(text: str, complaint: str) -> None:
    """It would hold back everything, in silence. Spec: EMS-14."""
    fault = condition_fault(text)
    assert fault is not None
    assert complaint in fault
    assert "\n" not in fault


@pytest.mark.parametrize(
    "text",
    [
        "subject.matches(headers.pattern)",
        "int(headers.price) > 3",
        "1 / size(headers) == 1",
        'has(headers.x) && headers.x.matches("a.b|[c]")',
    ],
)
def test_what_some_message_can_be_asked_is_none(text: str) -> None:
    """Spec: EMS-14."""
    assert condition_fault(text) is None


def test_of_each_header_counts_the_first_value_if_it_is_text() -> None:
    """Spec: EMS-14."""
    headers = [("a", b"1"), ("a", b"2"), ("b", b"\xff"), ("b", b"x"), ("c", None), ("d", b"")]
    assert header_texts(headers) == {"a": "1", "d": ""}


def test_only_what_asks_for_headers_must_be_asked_per_message() -> None:
    assert not condition(ACME).asks_headers
    assert condition(ORDER).asks_headers
    assert condition(ACME) is condition(ACME)
    conditions = [condition(ACME), condition(ORDER)]
    assert selects_subject(conditions, "acme/x")
    assert not selects_subject(conditions, "other/x")
    assert needs_headers(conditions, "acme/x")
    assert not needs_headers(conditions[:1], "acme/x")
    found = first_refusing(conditions, "acme/x", {"kind": "quote"})
    assert found is not None
    assert found.text == ORDER


def test_addresses_of_the_mesh_are_not_asked() -> None:
    """Queue messages follow no zone and no selector. Spec: EMS-14."""
    conditions = [condition(ACME), condition(ORDER)]
    assert selects_subject(conditions, "$queue/orders/u")
    assert not needs_headers(conditions, "$queue/orders/u")
    assert first_refusing(conditions, "$queue/orders/u", {}) is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (f"{ACME} &&", "does not parse at character 31: mismatched input '<EOF>'"),
        ("true &&\n1 +", "does not parse at line 2, character 4"),
        ('header["kind"] == "order"', "uses header, which it does not know"),
        ('subject.lowerAscii() == "a"', "uses lowerAscii(), which it does not know"),
        ("subject", "neither true nor false"),
        ("", "does not parse"),
        ('subject == "' + 1_000 * "x" + '"', "at most 1000"),
    ],
)
def test_faults_are_one_line(text: str, complaint: str) -> None:
    """Spec: EMS-14."""
    fault = condition_fault(text)
    assert fault is not None
    assert complaint in fault
    assert "\n" not in fault


@pytest.mark.parametrize(
    "text",
    [ACME, ORDER, 'has(headers.kind) && headers.exists(name, name == "kind")', "true"],
)
def test_what_is_a_condition_has_no_fault(text: str) -> None:
    assert condition_fault(text) is None
