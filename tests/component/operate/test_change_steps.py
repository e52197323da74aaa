"""The way of a change, stage by stage, against nodes that answer as they are told to."""

from __future__ import annotations

from dataclasses import replace

from mesh.core.cutover import CutOver
from mesh.model.control import Change, ChangeStatus, Stage
from mesh.operate.changes.steps import (
    ChangeSteps,
    Ended,
    LookAgain,
    Next,
    NodeReport,
    NoteEnds,
    Observation,
    PublishTopology,
    Write,
)

CUT = CutOver(
    holding=["a"],
    drain_waves=[[("a", "b")], [("b", "c")]],
    taking_part=["a", "b", "d", "n"],
    arriving=["n"],
    leaving=["d"],
)
NODES = ["a", "b", "c", "d", "n"]


class Answers:
    """Nodes: all up, none of which follows before it is told to."""

    def __init__(self) -> None:
        self.nodes = {node: NodeReport(is_up=True) for node in NODES}
        self.seen = Observation(nodes=self.nodes)

    def say(self, stage: Stage, *nodes: str, number: int = 7, is_done: bool = True) -> None:
        for node in nodes:
            status = ChangeStatus(number, stage, is_done)
            self.nodes[node] = replace(self.nodes[node], change=status)

    def down(self, *nodes: str) -> None:
        self.nodes.update({node: NodeReport(is_up=False) for node in nodes})


def way(stage: Stage = Stage.HOLD, *, is_written: bool = False) -> ChangeSteps:
    return ChangeSteps(Change(7, stage, "{}", ("a",)), CUT, is_written=is_written)


def waits_for(todo: Next) -> str:
    assert isinstance(todo, LookAgain)
    return "; ".join(todo.reasons)


def stage_written(steps: ChangeSteps, answers: Answers) -> Stage:
    todo = steps.next(answers.seen)
    assert isinstance(todo, Write)
    assert todo.change.number == 7
    steps.written()
    return todo.change.stage


def test_from_the_plan_to_in_force() -> None:
    """Spec: K28."""
    answers, steps = Answers(), way()
    assert stage_written(steps, answers) is Stage.HOLD
    assert waits_for(steps.next(answers.seen)) == "a, b, c, d have not read stage hold"
    answers.say(Stage.HOLD, "a", "b", "c", "d")
    answers.say(Stage.HOLD, "a", is_done=False)
    assert waits_for(steps.next(answers.seen)) == "a still commits what it has taken"
    answers.say(Stage.HOLD, "a")
    answers.seen = replace(answers.seen, owing={"b": ["mesh.b.to.c.g"], "c": []})
    assert waits_for(steps.next(answers.seen)) == "b is still writing what mesh.b.to.c.g lacks"
    answers.seen = replace(answers.seen, owing={})
    for directions, reader in (CUT.drain_waves[0], "b"), (CUT.drain_waves[1], "c"):
        assert steps.next(answers.seen) == NoteEnds(directions)
        steps.marked()
        answers.seen = replace(answers.seen, behind={directions[0]: 1})
        assert waits_for(steps.next(answers.seen)).startswith(f"{reader} has not read 1 record")
        answers.seen = replace(answers.seen, behind={})
    assert stage_written(steps, answers) is Stage.SWITCH
    answers.say(Stage.SWITCH, "a", "b", "c")
    assert waits_for(steps.next(answers.seen)) == "n has not read stage switch"
    answers.say(Stage.SWITCH, "n")
    answers.seen = replace(answers.seen, owing={"b": ["x"]})
    assert steps.next(answers.seen) == PublishTopology()
    answers.seen = replace(answers.seen, owing={})
    assert steps.next(answers.seen) == PublishTopology()
    steps.published()
    assert stage_written(steps, answers) is Stage.RUN
    answers.say(Stage.RUN, "a", "b", "c")
    assert waits_for(steps.next(answers.seen)) == "n has not read stage run"
    answers.say(Stage.RUN, "n")
    assert steps.next(answers.seen) is Ended.IN_FORCE


def test_nothing_is_switched_while_a_new_node_is_not_what_the_target_says() -> None:
    """It may have been started since the change began. Spec: K2, K14."""
    answers, steps = Answers(), way()
    fit = answers.nodes["n"]
    answers.nodes["n"] = replace(fit, unfit=["n was made with 2 lanes"])
    assert waits_for(steps.next(answers.seen)) == "n was made with 2 lanes"
    answers.nodes["n"] = fit
    assert stage_written(steps, answers) is Stage.HOLD
    answers.say(Stage.HOLD, "a", "b", "c", "d")
    answers.nodes["n"] = replace(fit, unfit=["n was made with 2 lanes"])
    assert waits_for(steps.next(answers.seen)) == "n was made with 2 lanes"
    answers.nodes["n"] = fit
    assert isinstance(steps.next(answers.seen), NoteEnds)


def test_nothing_begins_while_a_node_that_must_take_part_is_down() -> None:
    answers, steps = Answers(), way()
    answers.down("b", "n")
    told = waits_for(steps.next(answers.seen))
    assert "node b must take part and sends no heartbeats" in told
    assert "node n is new and sends no heartbeats: start it with the new topology file" in told
    answers.nodes.update({node: NodeReport(is_up=True) for node in "bn"})
    answers.down("c")  # which has no part in it
    assert stage_written(steps, answers) is Stage.HOLD
    answers.say(Stage.HOLD, "a", "b", "d")
    assert isinstance(steps.next(answers.seen), NoteEnds)


def test_a_node_that_leaves_is_read_to_its_end_before_and_after_the_hold() -> None:
    answers, steps = Answers(), way()
    answers.seen = replace(answers.seen, untaken={"d": 3})
    assert "node d leaves and does not take 3 records" in waits_for(steps.next(answers.seen))
    answers.seen = replace(answers.seen, untaken={})
    steps.next(answers.seen)
    steps.written()
    answers.say(Stage.HOLD, "a", "b", "c", "d")
    steps.drain_wave = 2
    answers.seen = replace(answers.seen, untaken={"d": 1})
    assert "holds and has not taken 1 record of" in waits_for(steps.next(answers.seen))


def test_what_was_said_of_another_change_does_not_count() -> None:
    """A node may still tell of one that was given up."""
    answers, steps = Answers(), way()
    answers.say(Stage.HOLD, *NODES, number=6)
    steps.next(answers.seen)
    steps.written()
    assert waits_for(steps.next(answers.seen)) == "a, b, c, d have not read stage hold"


def test_a_change_is_gone_on_with_where_its_record_says() -> None:
    answers = Answers()
    steps = way(Stage.SWITCH)
    assert stage_written(steps, answers) is Stage.SWITCH  # some Kafka cluster may lack it
    answers.say(Stage.SWITCH, "a", "b", "c", "n")
    assert steps.next(answers.seen) == PublishTopology()
    steps = way(Stage.RUN)
    answers.say(Stage.RUN, "a", "b", "c", "n")
    assert stage_written(steps, answers) is Stage.RUN
    assert steps.next(answers.seen) is Ended.IN_FORCE


def test_a_change_that_holds_can_go_back() -> None:
    answers, steps = Answers(), way(is_written=True)
    steps.is_aborting = True
    assert stage_written(steps, answers) is Stage.ABORT
    assert waits_for(steps.next(answers.seen)) == "a, b, c, d have not read stage abort"
    answers.say(Stage.ABORT, "a", "b", "c", "d")
    assert steps.next(answers.seen) is Ended.ABORTED


def test_who_is_down_and_no_part_of_the_change_need_not_acknowledge_new_links() -> None:
    """c is down: what is open beyond it is excused, and nothing else. Spec: K24, K28."""
    answers, steps = Answers(), way(Stage.SWITCH, is_written=True)
    answers.say(Stage.SWITCH, "a", "n", "c")
    answers.down("c")
    for links, is_over in (([("b", "c"), ("c", "x")], True), ([("b", "c"), ("b", "n")], False)):
        status = ChangeStatus(7, Stage.SWITCH, is_done=False, open_links=links)
        answers.nodes["b"] = replace(answers.nodes["b"], change=status)
        assert isinstance(steps.next(answers.seen), PublishTopology) == is_over


def test_nobody_waits_for_who_is_behind_a_disabled_link() -> None:
    """Nothing is heard over it, and nothing new is sent before it is proven. Spec: K24, DMR-10."""
    answers, steps = Answers(), way(Stage.SWITCH, is_written=True)
    answers.say(Stage.SWITCH, "a", "n", "c")
    status = ChangeStatus(7, Stage.SWITCH, is_done=False, open_links=[("b", "c")])
    answers.nodes["b"] = replace(answers.nodes["b"], change=status)
    assert waits_for(steps.next(answers.seen)) == (
        "b does not work by the new topology yet: c has not acknowledged what b offers "
        "(or `mesh link disable b c`)"
    )
    disabled = {("b", "c")}
    answers.seen = replace(answers.seen, is_disabled=lambda *link: link in disabled)
    assert steps.next(answers.seen) == PublishTopology()


def test_nobody_waits_for_who_is_behind_a_link_that_is_down() -> None:
    """But for what walks move to: its sender would not hear what is wanted. Spec: K21, K28."""
    answers = Answers()
    answers.say(Stage.SWITCH, "a", "n", "c")
    status = ChangeStatus(7, Stage.SWITCH, is_done=False, open_links=[("b", "c")])
    answers.nodes["b"] = replace(answers.nodes["b"], change=status)
    answers.seen = replace(answers.seen, is_down=lambda *link: sorted(link) == ["b", "c"])
    assert way(Stage.SWITCH, is_written=True).next(answers.seen) == PublishTopology()
    for rerouted, is_over in ([("b", "c")], True), ([("c", "b")], False):
        cut = replace(CUT, rerouted=rerouted)
        switching = ChangeSteps(Change(7, Stage.SWITCH, "after"), cut, is_written=True)
        assert isinstance(switching.next(answers.seen), PublishTopology) == is_over
        told = waits_for(ChangeSteps(Change(7, Stage.HOLD, "after"), cut).next(answers.seen))
        assert told.startswith("link b-c is down, and walks move to it")


def test_no_link_that_is_down_becomes_another_one_and_one_that_is_disabled_may() -> None:
    """Its sender would not hear again what is wanted, and drop what is published. Spec: K28."""
    answers = Answers()
    answers.say(Stage.SWITCH, "a", "n", "c")
    status = ChangeStatus(7, Stage.SWITCH, is_done=False, open_links=[("b", "c")])
    answers.nodes["b"] = replace(answers.nodes["b"], change=status)
    answers.seen = replace(answers.seen, is_down=lambda *link: sorted(link) == ["b", "c"])
    cut = replace(CUT, remade=[("c", "b")])
    begun = ChangeSteps(Change(7, Stage.HOLD, "after"), cut)
    switching = ChangeSteps(Change(7, Stage.SWITCH, "after"), cut, is_written=True)
    assert waits_for(begun.next(answers.seen)).startswith("link b-c is down, and it becomes")
    assert "link b-c is down" in waits_for(switching.next(answers.seen))
    answers.seen = replace(answers.seen, is_disabled=answers.seen.is_down)
    assert begun.next(answers.seen) == Write(begun.target)
    assert switching.next(answers.seen) == PublishTopology()


def test_before_anybody_holds_it_is_known_what_is_down_and_what_waits_there() -> None:
    """Spec: K28."""
    answers, steps = Answers(), way()
    answers.seen = replace(answers.seen, silent=lambda: [("a", "c")])
    assert waits_for(steps.next(answers.seen)) == "c hears nothing of a just now"
    answers.seen = replace(answers.seen, silent=list, is_down=lambda *_: True)
    answers.seen = replace(answers.seen, unread={("b", "c"): 2})
    assert waits_for(steps.next(answers.seen)) == (
        "link b-c is down, and c has to read 2 records of b before walks move: mend the link"
    )
    answers.seen = replace(answers.seen, unread={})
    assert steps.next(answers.seen) == Write(steps.target)


def test_queues_are_not_shared_out_otherwise_over_a_link_that_nobody_hears() -> None:
    """Sources would go on without knowing who gets their messages now. Spec: K28, DMR-10."""
    answers = Answers()
    cut = replace(CUT, heard=[("a", "b"), ("b", "c")])
    disabled = {("c", "b"), ("b", "c")}
    answers.seen = replace(answers.seen, is_disabled=lambda *link: link in disabled)
    begun = ChangeSteps(Change(7, Stage.HOLD, "after"), cut)
    assert "link b-c is disabled" in waits_for(begun.next(answers.seen))
    answers.say(Stage.SWITCH, "a", "n", "c")
    status = ChangeStatus(7, Stage.SWITCH, is_done=False, open_links=[("b", "c")])
    answers.nodes["b"] = replace(answers.nodes["b"], change=status)
    switching = ChangeSteps(Change(7, Stage.SWITCH, "after"), cut, is_written=True)
    assert "link b-c is disabled" in waits_for(switching.next(answers.seen))
    disabled.clear()
    assert begun.next(answers.seen) == Write(begun.target)
    answers.say(Stage.SWITCH, "b")
    assert switching.next(answers.seen) == PublishTopology()


def test_nothing_is_switched_where_a_queue_came_that_more_nodes_must_hold_for() -> None:
    """Its messages would be routed by the one rule here, and by the other there."""
    steps, answers = way(is_written=True), Answers()
    steps.cut_over = replace(CUT, drain_waves=[], arriving=[])
    answers.say(Stage.HOLD, *NODES)
    answers.seen = replace(answers.seen, new_queues=lambda: ["jobs"])
    assert "queues made meanwhile: jobs" in waits_for(steps.next(answers.seen))
    answers.seen = replace(answers.seen, new_queues=list)
    steps.cut_over = replace(steps.cut_over, holding=["a", "b"])  # whoever goes on sees that
    told = waits_for(steps.next(answers.seen))
    assert told.startswith("b would have to hold")
    assert "--abort" in told
    steps.cut_over = replace(steps.cut_over, holding=["a"])
    assert stage_written(steps, answers) is Stage.SWITCH


def test_nothing_is_switched_before_a_new_node_has_its_lanes() -> None:
    """Behind the switch there would be no way back."""
    steps, answers = way(is_written=True), Answers()
    steps.cut_over = replace(CUT, drain_waves=[])
    answers.say(Stage.HOLD, *NODES)
    answers.nodes["n"] = replace(answers.nodes["n"], serves=False)
    assert waits_for(steps.next(answers.seen)).startswith("node n is new and has not taken")
    answers.nodes["n"] = replace(answers.nodes["n"], serves=True)
    assert stage_written(steps, answers) is Stage.SWITCH
