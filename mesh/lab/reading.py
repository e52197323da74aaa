"""Steps of a scenario file, read one after another. Spec: lab.md 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mesh.config.located import Document
from mesh.config.nearest import nearest
from mesh.config.shapes import check_shape
from mesh.errors import Problem
from mesh.lab.proposals import Mesh, Proposal, propose
from mesh.lab.step_rules import faults_of
from mesh.lab.steps import KINDS, Apply, Consume, Expect, Step, Subscribe, TreeStep, Unsubscribe
from mesh.lab.subscription_rules import SubscriptionRules
from mesh.lab.tree_rules import TreeNames
from mesh.model.topology import Topology


def problem(code: str, message: str, part: Document) -> Problem:
    """Return what is wrong with a part of a file, with its place."""
    return Problem(code=code, message=message, where=part.where())


class Steps:
    """Reads steps one after another, each against the mesh as it is then.

    Attributes:
        steps: Those read so far that are steps at all.
        problems: What is wrong with any.
        proposals: What each `apply` leads to, by the number of the step.
        known: Every topology so far.

    Args:
        mesh: Of the scenario; None if it cannot be read: then steps are not judged by it.
        written: All steps of the file.
        workers: How many workers nodes have, where it is not one.
        is_audited: Whether the file asks for the auditor.
    """

    def __init__(
        self,
        mesh: Mesh | None,
        written: Sequence[Mapping[str, object]],
        workers: Mapping[str, int],
        *,
        is_audited: bool,
    ) -> None:
        self.steps: list[Step] = []
        self.problems: list[Problem] = []
        self.proposals: dict[int, Proposal] = {}
        self.known = [] if mesh is None else [mesh.topology]
        self._mesh = mesh
        self._workers = workers
        self._is_audited = is_audited
        self._subscriptions = SubscriptionRules()
        self._tree_names = TreeNames(written)
        self._has_gap = False  # a step with a mistake may have made what is expected later

    def add(self, part: Document, written: Mapping[str, object]) -> None:
        """Read the next step."""
        step, problems = _step(part, written)
        self.problems += problems
        if step is None:
            self._has_gap = True
            return
        inner = part.within(step.word)
        if self._mesh is not None:
            faults = self._faults(step, self._mesh.topology)
            in_order = self._in_order(step, self._mesh.topology, is_right=not faults)
            faults = faults or in_order
            self._has_gap |= bool(faults) and not isinstance(step, Expect)
            self.problems += [problem("BAD_VALUE", text, inner) for text in faults]
            if isinstance(step, Apply):
                self._propose(self._mesh, step, inner)
        self.steps.append(step)

    def _faults(self, step: Step, topology: Topology) -> Sequence[str]:
        """Return what is wrong; what is counted may have been there before a change."""
        is_of_now = isinstance(step, Expect) and (step.parts is not None or bool(step.holder))
        former = self.known if isinstance(step, Expect) and not is_of_now else []
        listed = [faults_of(step, one, self._workers) for one in (*former, topology)]
        return [] if [] in listed else listed[-1]

    def _in_order(self, step: Step, topology: Topology, *, is_right: bool) -> Sequence[str]:
        """Return what is wrong with a step after those before it.

        Args:
            step: Which one.
            topology: In force by then.
            is_right: Whether nothing is wrong with it in itself.
        """
        faults: list[str] = []
        if isinstance(step, Subscribe | Unsubscribe | Consume | Expect):
            faults += self._subscriptions.follow(step, topology)
        if is_right and isinstance(step, TreeStep | Expect):
            faults += self._tree_names.follow(step)
        if isinstance(step, Expect):
            if self._has_gap:
                return []
            if step.findings is not None and not self._is_audited:
                faults.append("nobody audits this scenario; add `audit: true` to `spec`")
        return faults

    def _propose(self, mesh: Mesh, step: Apply, part: Document) -> None:
        """Work out what a step leads to.

        A slip of the pen is no refusal, whatever is expected: who means it names its code.
        """
        proposal = propose(mesh, step.patch, part.where)
        self.proposals[len(self.steps)] = proposal
        if proposal.mesh is None:
            if step.refused not in [one.code for one in proposal.misformed]:
                self.problems += proposal.misformed
            return
        if not step.refused:
            self._mesh = proposal.mesh
            self.known.append(proposal.mesh.topology)


def _step(
    part: Document,
    written: Mapping[str, object],
) -> tuple[Step | None, list[Problem]]:
    if len(written) != 1:
        return None, [problem("BAD_STEP", "write one word with its mapping per step", part)]
    [(word, value)] = written.items()
    model = KINDS.get(word)
    if model is None:
        text = f"unknown step {word!r}{nearest(word, list(KINDS))}"
        return None, [problem("UNKNOWN_STEP", text, part)]
    return check_shape(model, {} if value is None else value, part.within(word).where)
