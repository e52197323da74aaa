"""Subjects, filters and the matcher."""

from __future__ import annotations

import pytest

from mesh.errors import MeshError, SubjectError
from mesh.model.subject import check_filter, check_subject, filter_fault, matches, subject_fault


@pytest.mark.parametrize(
    ("filter_", "subject", "expected"),
    [
        ("acme/a", "acme/a", True),
        ("acme/a", "acme/A", False),
        ("acme/a", "acme", False),
        ("acme", "acme/a", False),
        ("acme/*", "acme/a", True),
        ("acme/*", "acme/a/b", False),
        ("acme/*", "acme", False),
        ("*/a", "acme/a", True),
        ("acme/*/c", "acme/b/c", True),
        ("acme/>", "acme/a", True),
        ("acme/>", "acme/a/b/c", True),
        ("acme/>", "acme", False),
        (">", "acme", True),
        (">", "acme/a", True),
        ("*/>", "acme/a", True),
        ("*/>", "acme", False),
        (">", "$node/x", False),
        ("*/x", "$node/x", False),
        ("*/>", "$node/x", False),
        ("$node/x", "$node/x", True),
        ("$node/*", "$node/x", True),
        ("$node/>", "$node/x", True),
        ("a/>", "a/$b", True),
    ],
)
def test_matches(filter_: str, subject: str, expected: bool) -> None:
    """`*` is one whole level, `>` one or more, and neither is a first `$` level. Spec: K26."""
    assert matches(filter_, subject) is expected


@pytest.mark.parametrize("subject", ["a", "a/b", "a b/c", "ä/ö", "/".join("a" * 16), "a" * 250])
def test_subject_accepts(subject: str) -> None:
    """Up to 16 levels and 250 bytes of anything printable. Spec: K7."""
    assert subject_fault(subject) is None
    assert filter_fault(subject) is None


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        ("", "subject is empty; write levels separated by '/'"),
        ("/a", "subject '/a' has an empty level 1; write text between the slashes"),
        ("a//b", "subject 'a//b' has an empty level 2; write text between the slashes"),
        ("a/", "subject 'a/' has an empty level 2; write text between the slashes"),
        ("a" * 251, "subject has 251 bytes in UTF-8; at most 250 are allowed"),
        ("ä" * 126, "subject has 252 bytes in UTF-8; at most 250 are allowed"),
        ("$node/x", "subject '$node/x' starts with '$'; such addresses belong to the mesh"),
        ("a/*", "subject 'a/*' has '*' at position 3; only filters have wildcards"),
        ("a/b>", "subject 'a/b>' has '>' at position 4; only filters have wildcards"),
        (
            "a\x00b",
            "subject has the control character or lone surrogate U+0000 at position 2; remove it",
        ),
        (
            "a/\ud800",
            "subject has the control character or lone surrogate U+D800 at position 3; remove it",
        ),
    ],
)
def test_subject_refuses(subject: str, message: str) -> None:
    """Each bad subject is refused with what is wrong and where. Spec: K7."""
    assert subject_fault(subject) == message
    with pytest.raises(SubjectError) as caught:
        check_subject(subject)
    assert str(caught.value) == message
    assert isinstance(caught.value, MeshError)
    assert isinstance(caught.value, ValueError)


def test_subject_counts_levels() -> None:
    """A seventeenth level is one too many. Spec: K7."""
    fault = subject_fault("/".join("a" * 17))
    assert fault is not None
    assert fault.endswith("has 17 levels; at most 16 are allowed")


@pytest.mark.parametrize("filter_", ["*", ">", "a/*", "a/>", "*/b/>", "*/*"])
def test_filter_accepts(filter_: str) -> None:
    """A wildcard is a whole level. Spec: DESIGN 2."""
    assert check_filter(filter_) == filter_


@pytest.mark.parametrize(
    ("filter_", "message"),
    [
        ("a/>/b", "filter 'a/>/b' has '>' at level 2; it may only be the last level"),
        ("a*/b", "filter 'a*/b' has '*' inside level 1; a wildcard is a whole level"),
        ("a/b>", "filter 'a/b>' has '>' inside level 2; a wildcard is a whole level"),
        ("**", "filter '**' has '*' inside level 1; a wildcard is a whole level"),
        ("", "filter is empty; write levels separated by '/'"),
        ("$node/>", "filter '$node/>' starts with '$'; such addresses belong to the mesh"),
    ],
)
def test_filter_refuses(filter_: str, message: str) -> None:
    """Each bad filter is refused with what is wrong and where. Spec: DESIGN 2, K26."""
    assert filter_fault(filter_) == message
    with pytest.raises(SubjectError):
        check_filter(filter_)
