"""How far inputs were read: what a lane waits for that was taken by somebody who knew more."""

from __future__ import annotations

from mesh.node.versions import InputVersions


def test_what_was_void_of_a_former_neighbour_is_waited_for_of_who_has_its_name() -> None:
    """Its epochs may begin anew, and a lane must not route by less than it had. Spec: K16, K21."""
    versions = InputVersions()
    versions.note("n Z", (50, 9))
    versions.begin_again("n Z")
    assert not versions.is_late("n Z", (1, 2))
    versions.forget(["n"])
    assert versions.is_late("n Z", (1, 2))
