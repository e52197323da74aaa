"""What the tests of this folder begin with."""

from __future__ import annotations

import pytest

from tests.streaming.planted import Plant


@pytest.fixture
def plant() -> Plant:
    """A mesh whose nodes have said who they are, and want anything, so that no copy is needless."""
    made = Plant()
    made.identities()
    made.want_all()
    return made
