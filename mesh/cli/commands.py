"""Every command: its name, where it is, and what it is for in a few words.

A command line imports and builds the one command that it names; help for all of them imports none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        place: `module:function`, the module below `mesh.cli`.
        summary: What the list of commands says about it.
    """

    place: str
    summary: str


@dataclass(frozen=True, slots=True)
class CommandGroup:
    """Commands that share their first word.

    Attributes:
        summary: What the list of commands, and their own help, say about them.
        commands: Them, by their second word.
    """

    summary: str
    commands: Mapping[str, Command]


Entry = Command | CommandGroup
Sections = Mapping[str, Mapping[str, Entry]]
"""Heading of a part of the help -> commands by name, in the order in which they are shown."""

COMMANDS: Sections = {
    "See how the mesh is": {
        "status": Command("status:status", "Nodes: up or down, links, subscriptions"),
        "links": Command("status:links", "Links: state, what waits on them, who wants what"),
        "interest": Command("interest:interest", "Who wants what since when, now or earlier"),
        "endpoint": CommandGroup(
            "Endpoints and their readers",
            {
                "list": Command(
                    "endpoint:list_endpoints", "All endpoints, what waits, the slowest reader"
                ),
                "delete": Command(
                    "endpoint:delete_endpoint",
                    "Delete the topics of an endpoint without subscriptions",
                ),
            },
        ),
        "queue": CommandGroup(
            "Queues and their consumers",
            {
                "list": Command("queue:list_queues", "All queues, and what waits in them"),
                "show": Command("queue:show_queue", "One queue, member by member"),
                "consume": Command("queue:consume_queue", "Print messages and acknowledge them"),
            },
        ),
        "role": CommandGroup(
            "Roles on trees: who has them, and the way to them",
            {
                "list": Command("role:list_roles", "All roles, and who wants them"),
                "show": Command("role:show_role", "One role, and what each node knows of it"),
                "send": Command("role_send:send_to_role", "Send to a role, and print the replies"),
                "route": Command("role:route_role", "All routes to a role, node by node"),
                "trace": Command("role_send:trace_role", "The way of one message to a role"),
                "clean": Command(
                    "role_clean:clean_roles", "Delete what applications that are gone have left"
                ),
            },
        ),
        "doctor": Command("doctor:doctor", "What is wrong, and what to do about it"),
        "audit": CommandGroup(
            "Run the auditor, and see what it found",
            {
                "run": Command("audit_live:run", "Audit a mesh live"),
                "status": Command("audit:status", "How far the auditor is"),
                "report": Command("audit:report", "Findings and certificates"),
                "explain": Command("audit_explain:explain", "One finding, and what to do"),
                "follow": Command("audit_live:follow", "What the auditor says from now on"),
            },
        ),
        "top": Command("top:top", "Rates, what waits, what is not up, and findings, live"),
        "dlq": Command("dlq:dlq", "Dead letters of a node, and why they are dead"),
        "dashboard": Command("dashboard:dashboard", "Serve the page of a mesh"),
        "api": Command("dashboard:api", "Serve the API alone"),
        "wait": Command("wait:wait", "Wait until every subscription is known everywhere"),
    },
    "Follow messages": {
        "explain": Command("explain:explain", "Who would get a message, and why nobody else"),
        "route": Command("route:route", "The way from one node to another"),
        "trace": Command("trace:trace", "Find one message in all topics"),
    },
    "Publish and receive": {
        "publish": Command("publish:publish", "Publish messages at a node"),
        "subscribe": Command("subscribe:subscribe", "Subscribe an endpoint, print what it gets"),
        "unsubscribe": Command("subscribe:unsubscribe", "End a subscription"),
    },
    "Write a topology": {
        "validate": Command("validate:validate", "Is this topology file legal?"),
        "walks": Command("validate:walks", "The way from one node to every other"),
        "topology": Command("topology:topology_command", "Show or draw a topology"),
        "schema": Command("validate:schema", "JSON Schema of topology files, for editors"),
    },
    "Change a running mesh": {
        "export": Command("export:export", "The topology in force, as a file"),
        "plan": Command("plan:plan", "What a topology file would change"),
        "apply": Command("apply:apply", "Put a topology file in force, without loss"),
        "zone": CommandGroup(
            "Make, change and show zones",
            {
                "create": Command("zone:create", "Make a zone"),
                "delete": Command("zone:delete", "Take a zone away"),
                "add": Command("zone:add", "Add nodes or links to a zone"),
                "remove": Command("zone:remove", "Take nodes or links out of a zone"),
                "rename": Command("zone:rename", "Give a zone another title"),
                "list": Command("zone_view:list_zones", "All zones"),
                "show": Command("zone_view:show", "One zone and its links"),
            },
        ),
        "link": CommandGroup(
            "Pause, disable and resume links",
            {
                "pause": Command("link:pause_link", "Read nothing more from a link for now"),
                "resume": Command("link:resume_link", "End a pause, or accept what was lost"),
                "disable": Command("disable:disable_link", "Take a link out of use"),
                "enable": Command("disable:enable_link", "Put a disabled link into use again"),
            },
        ),
        "node": CommandGroup(
            "Run, disable and resume nodes",
            {
                "run": Command("node:run", "Serve a node: one worker process"),
                "resume": Command("resume:resume_node", "Accept what was lost, and go on"),
                "forget": Command(
                    "forget:forget_node", "End what a node keeps of a former neighbour"
                ),
                "disable": Command("disable:disable_node", "Disable all links of a node"),
                "enable": Command("disable:enable_node", "Enable all links of a node again"),
            },
        ),
        "subject": CommandGroup(
            "Pause and resume subjects",
            {
                "pause": Command("subject:pause_subject", "Take nothing under a filter for now"),
                "resume": Command("subject:resume_subject", "End the pause of a filter"),
                "list": Command("subject:list_subjects", "What is paused, and where"),
            },
        ),
    },
    "Run and try": {
        "up": Command("up:up", "A whole mesh on this machine"),
        "demo": Command("demo:demo", "Thirteen nodes, a real feed, certified live"),
        "drill": Command("drill:drill", "Plant a fault, and see the auditor find it"),
        "lab": CommandGroup(
            "Scenarios and storms",
            {
                "run": Command("lab:run", "Run a scenario file"),
                "storm": Command("lab:storm", "Random faults under load, judged"),
                "check": Command("lab:check", "Judge what a storm has written down"),
            },
        ),
        "context": CommandGroup(
            "Which mesh commands speak to",
            {
                "add": Command("context:add", "Save a context"),
                "list": Command("context:list_all", "All contexts"),
                "use": Command("context:use", "Select a context"),
                "previous": Command("context:previous", "Select the one before"),
                "show": Command("context:show", "The context in force"),
                "rm": Command("context:remove", "Remove a context"),
            },
        ),
    },
}
