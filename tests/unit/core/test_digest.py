"""The hash of an entry is the same at both ends of a link, whatever versions they run. Spec: K23."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.core.digest import entry_digest
from mesh.core.scopes import ScopeWriter
from mesh.model.control import Interest

BOTH = Interest()
ADDRESS = Interest(clients_offset=7)


@pytest.mark.parametrize(
    ("filter_", "interest", "digest"),
    [
        ("acme/>", BOTH, 0x5A655A2450C39134),
        ("acme/>", replace(BOTH, durable=False), 0xD5457F77A4D94AE3),
        ("acme/>", replace(BOTH, live=False), 0x55333ABB32E71CEB),
        ("acme/>", replace(BOTH, static=True), 0xA22ADFA5AA59EF58),
        ("$node/u", ADDRESS, 0x83FA54BA7F0A2735),
    ],
)
def test_it_is_what_nodes_of_other_versions_compute(
    filter_: str, interest: Interest, digest: int
) -> None:
    """It goes over the wire: a node that computed another one would never be proven."""
    assert entry_digest(filter_, interest) == digest


def test_a_mark_has_the_sum_of_all_entries_in_whatever_order_they_came() -> None:
    """Below 2^64, and without what was withdrawn."""
    entries = {"acme/>": BOTH, "$node/u": ADDRESS, "x": replace(BOTH, live=False)}
    one, other = ScopeWriter(), ScopeWriter()
    for filter_, interest in entries.items():
        one.change(filter_, None, interest)
    for filter_, interest in reversed(entries.items()):
        other.change(filter_, None, interest)
    one.change("gone", None, BOTH)
    one.change("gone", BOTH, None)
    total = sum(entry_digest(filter_, interest) for filter_, interest in entries.items())
    assert one.next_mark(1).digest == other.next_mark(1).digest == total % (1 << 64)
