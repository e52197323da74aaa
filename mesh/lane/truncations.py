"""Ends that logs have lost, kept for whoever reads them again once that was accepted. Spec: R6."""

from __future__ import annotations

from collections.abc import Sequence

from mesh.lane.lane import Lane
from mesh.lane.run import Run
from mesh.lane.sources import Source
from mesh.model.facts import Truncation, Truncations


def keep_truncation(run: Run, truncation: Truncation) -> None:
    """Record in the next commit that a source lost its end, and that this was accepted."""
    source = run.source
    before = accepted_truncations(run.lane, source)
    run.lane.note(run.batch, Truncations(source.at, source.topic_id, (*before, truncation)))


def accepted_truncations(lane: Lane, source: Source) -> Sequence[Truncation]:
    """Return the losses at the end of a source that were accepted, in order."""
    kept = lane.progress.truncations.get(source.at)
    return kept.each if kept is not None and kept.topic_id == source.topic_id else ()
