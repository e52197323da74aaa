"""One lane: what it keeps, and what it commits in one transaction."""
