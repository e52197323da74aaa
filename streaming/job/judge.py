"""One judgement: what is certified, and what only the whole or the time that has passed shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mesh.errors import TransportUnavailableError
from mesh.model.findings import FindingKind
from streaming.audits.block_judgements import World
from streaming.audits.cases import Case, CaseOutcome, case_findings
from streaming.audits.certificates import ended_of
from streaming.audits.finding_register import Finding
from streaming.audits.late_cases import copy_cases, late_cases, unreadable
from streaming.audits.settlement import put_off, settle
from streaming.audits.silences import silent
from streaming.audits.tickets import Standstill
from streaming.audits.untaken_subscriptions import untaken_subscriptions
from streaming.job.kafka_clusters import AuditedKafkaClusters
from streaming.job.rereads import Rereader
from streaming.job.state import State


@dataclass(slots=True)
class Judge:
    """Judges what has been read so far; the findings go to the register.

    Attributes:
        rereader: Reads ranges again.
        state: The audits.
        world: What they say of each other.
        now_s: The auditor's clock, in seconds.
    """

    rereader: Rereader
    state: State
    world: World
    now_s: float

    @property
    def kafka_clusters(self) -> AuditedKafkaClusters:
        """The Kafka clusters, by what their brokers report."""
        return self.rereader.kafka_clusters

    def certify(self, *, is_last: bool) -> None:
        """Certify what can be, and read again what is doubtful.

        Args:
            is_last: There will be no later judgement: open ranges are certified at once.
        """
        certifier = self.state.certifier
        certification = certifier.judge(self.world, self.now_s, is_last=is_last)
        for case, outcome in zip(
            certification.cases, self.outcomes(certification.cases), strict=True
        ):
            if outcome is None:
                put_off(certification, case)
            else:
                settle(certification, case, outcome)
        certifier.finish(certification)

    def look_at_parts(self, *, is_lagging: bool) -> None:
        """Tell who is connected with whom just now, and whether the mesh has found the same.

        Args:
            is_lagging: What nodes say of it may not have been read yet.
        """
        state = self.state
        state.splits.until = self.kafka_clusters.read_until()
        self._add(state.splits.judge(self.now_s))
        if not is_lagging:
            self._add(state.colours.judge(state.splits, self.now_s))

    def look_at_rest(self, seen_s: float, *, is_past: bool) -> None:
        """Report what only all that was written shows, where that has been read.

        What excuses it may be in another Kafka cluster, which is read later: so what counts is not
        the time, but up to which moment all has been read everywhere.

        Args:
            seen_s: That moment.
            is_past: A past range is judged: ledgers tell which of its topics are gone, and frames
                may be of those.
        """
        state = self.state
        for place, finding in state.eras.invented(seen_s):
            state.register.add(finding)
            state.interest.lanes.forget_era(place, state.eras.numbers_of(place)[-1])
        self._add(state.certifier.blocks.unplaced.forged(state.eras.prefix, seen_s))
        self._add(
            state.excuses.judge(state.interest, state.progress.generations, state.names, seen_s)
        )
        if not is_past:
            self._add(state.strangers.judge(state.names, seen_s))
        self._look_at_late(seen_s)
        self._add(state.unwanted.judge(state.interest, state.names, seen_s))
        self._add(state.needless.judge(state.interest, state.eras, state.names, seen_s))

    def look_at_stalls(self, seen_s: float) -> None:
        """Report hops that have stood still for long, where all that was written has been read.

        Args:
            seen_s: All that was written before this moment has been read.
        """
        state = self.state
        tickets = [one for _, _, block in state.certifier.blocks.walk() for one in block.tickets]
        stops = {
            hop: stop
            for ticket in tickets
            for hop, stop in state.progress.stops(ticket, state.read)
        }
        for endpoint in state.certifier.undecided:
            stops[str(endpoint)] = Standstill(endpoint.node, ended_of(endpoint))
        state.stalls.judge_hops(stops, seen_s, state.register)

    def look_at_silences(self, seen_s: float) -> None:
        """Report subscriptions that nobody takes up, and silent links, likewise.

        Args:
            seen_s: All that was written before this moment has been read.
        """
        state, now_s = self.state, self.now_s
        news = untaken_subscriptions(state.certifier.blocks, self.world, state.splits, now_s)
        state.stalls.judge_interest(news, seen_s, state.register)
        silences = silent(state.splits, state.progress, state.chains, state.accounts, now_s)
        state.stalls.judge_links(silences, seen_s, state.register)

    def _look_at_late(self, seen_s: float) -> None:
        """Read late deliveries of finally certified blocks: they may be unrequested or copies."""
        unplaced, world = self.state.certifier.blocks.unplaced, self.world
        late = {
            key: one
            for key, one in unplaced.ripe(seen_s).items()
            if self.kafka_clusters.can_read([key.place])
        }
        if not late:
            return
        begins = self.kafka_clusters.beginnings({key.place: None for key in late})
        for key, finding in unreadable(late, begins):
            self.state.register.add(finding)
            del late[key], unplaced.late[key]
        cases = late_cases(late, world)
        copies = copy_cases(late, cases, world)
        doubled = dict(zip(copies, self.outcomes(list(copies.values())), strict=True))
        for key, case, outcome in zip(late, cases, self.outcomes(cases), strict=True):
            found = doubled.get(key)
            if outcome is None or (key in copies and found is None):
                continue  # it is asked again
            self._add(case_findings(case, outcome))
            copied = () if found is None else case_findings(copies[key], found)
            self._add(one for one in copied if one.kind is FindingKind.DUPLICATE)
            del unplaced.late[key]

    def outcomes(self, cases: Sequence[Case]) -> Sequence[CaseOutcome | None]:
        """Read cases message by message; None for those that cannot be read just now."""
        can = [self.rereader.can_read(case) for case in cases]
        readable = [case for case, is_readable in zip(cases, can, strict=True) if is_readable]
        try:
            found = iter(self.rereader.cases(readable) if readable else ())
        except TransportUnavailableError:
            if len(cases) == 1:
                return [None]
            return [outcome for case in cases for outcome in self.outcomes([case])]
        return [next(found) if is_readable else None for is_readable in can]

    def _add(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self.state.register.add(finding)
