"""Certificates and what is missing, on static frames. Spec: K25, K29, K30, K31."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.spark


def test_a_clean_mesh_is_certified_without_a_finding(bench, plant):
    """All messages on both partitions reach both endpoints, each once: K29."""
    for node in ("b", "c"):
        offset = plant.subscribe(node, "s1", "acme/>")
        plant.cuts_everywhere(node, offset)
    plant.carry(100, ["b/s1", "c/s1"])
    plant.carry(50, ["b/s1", "c/s1"], partition=1)
    assert bench.settle() == []
    told = {
        key: (one.expected, one.delivered, one.equal, one.partial, one.first, one.last)
        for key, one in bench.certificates.items()
    }
    assert told == {
        ("mesh.a.in.g/0", "b/s1"): (100, 100, True, True, 0, 99),
        ("mesh.a.in.g/0", "c/s1"): (100, 100, True, True, 0, 99),
        ("mesh.a.in.g/1", "b/s1"): (50, 50, True, True, 0, 49),
        ("mesh.a.in.g/1", "c/s1"): (50, 50, True, True, 0, 49),
    }
    assert bench.auditor.state.certifier.waiting == []


def test_a_message_that_every_hop_passed_but_nobody_got_is_missing(bench, plant):
    """K30: named by identity, at the endpoint that lacks it."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/*"))
    plant.carry(10, ["c/s1"], lost=[3, 7])
    assert bench.settle() == ["missing"]
    (finding,) = bench.auditor.state.register.findings.values()
    assert finding.ids == ("mesh.a.in.g/0/0/3", "mesh.a.in.g/0/0/7")
    assert (finding.endpoint, finding.first, finding.last, finding.count) == ("c/s1", 3, 7, 2)
    (certificate,) = bench.certificates.values()
    assert (certificate.expected, certificate.delivered, certificate.equal) == (10, 8, False)
