"""The auditor's own matcher, and that it agrees with the mesh's. Spec: K7, K26, K31."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.model.subject import filter_fault, matches, subject_fault
from streaming.audits.matching import is_filter, is_subject, selects

LEVELS = st.lists(st.sampled_from(["a", "b", "acme", "$x", "*", ">", "", "a*", "x y"]), max_size=5)
ADDRESSES = LEVELS.map("/".join)


@pytest.mark.parametrize(
    ("filter_", "subject", "is_selected"),
    [
        ("acme/>", "acme/orders/eu", True),
        ("acme/>", "acme", False),
        ("acme/*", "acme/orders", True),
        ("acme/*", "acme/orders/eu", False),
        ("*/orders", "acme/orders", True),
        (">", "acme", True),
        (">", "$node/x", False),
        ("*/x", "$node/x", False),
        ("a.c", "abc", False),
        ("acme/orders", "acme/orders", True),
    ],
)
def test_filters_select_subjects(filter_, subject, is_selected):
    """Whole levels, and one or more at the end."""
    assert selects(filter_, subject) is is_selected


@given(ADDRESSES, ADDRESSES)
def test_both_matchers_give_the_same_answers(filter_, subject):
    """A disagreement is a bug of one of the two; neither can hide the other's."""
    assert is_subject(subject) is (subject_fault(subject) is None)
    assert is_filter(filter_) is (filter_fault(filter_) is None)
    if is_filter(filter_) and is_subject(subject):
        assert selects(filter_, subject) is matches(filter_, subject)


@pytest.mark.parametrize("subject", ["a" * 251, "/".join("a" * 17), "é" * 126, "a\x00b", "a\nb"])
def test_subjects_beyond_the_limits_are_refused(subject):
    """K7: 250 bytes, 16 levels, no control characters."""
    assert not is_subject(subject)
    assert subject_fault(subject) is not None
