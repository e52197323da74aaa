// Views that are lists: nodes and endpoints, queues and dead letters, roles.

import { adjust, here } from "./address.js";
import { h, orDash, renew, setAttribute, setText, shown } from "./dom.js";
import { age, count, moment, nodeLook, quoted, rate } from "./format.js";
import { certified } from "./panel.js";
import { ask, askAll, isSplit, now, silentNodes, store } from "./store.js";
import { columnsOf, commands, exporting, table, tableButton } from "./table.js";

// Asks something, shows it when it has come, and a line of text meanwhile; `ready` when it is shown.
// Of now it is asked again every `everyMs`, while anybody looks; if that fails, what was read stays,
// with a line that says from when it is.
export function asking(call, draw, { everyMs = 0 } = {}) {
  const body = h("div");
  const fault = h("p", { class: "fault" });
  const element = h("div", { "aria-busy": "true" }, fault, body);
  const waiting = setTimeout(() => body.replaceChildren(h("p", { class: "soft" }, "Reading …")), 300);
  const isPast = Boolean(store.at);
  let isOver = false;
  let isAsking = false;
  let isDue = false; // asked for once more meanwhile
  let told = "";
  let readMs = 0;
  const run = async () => {
    if (isAsking) { isDue = true; return; }
    isAsking = true;
    isDue = false;
    try {
      const data = await call();
      const text = JSON.stringify(data);
      clearTimeout(waiting);
      if (isOver) return;
      if (text !== told) renew(body, draw(data));
      told = text;
      readMs = now();
      setText(fault, "");
    } catch (error) {
      clearTimeout(waiting);
      if (isOver) return;
      if (readMs && !(error.status >= 400 && error.status < 500)) {
        setText(fault, `${shown(error.message)} What stands here was read at ${moment(readMs, now())}.`);
      } else {
        readMs = 0;
        told = "";
        renew(body, h("p", { class: "lead" }, shown(error.message)));
      }
    } finally {
      isAsking = false;
    }
    setAttribute(element, "aria-busy", "false");
    if (isDue) await run();
  };
  const ready = run();
  const timer = everyMs && !isPast ? setInterval(() => { if (!document.hidden) run(); }, everyMs) : 0;
  return { element, ready, again: run, close: () => { isOver = true; clearTimeout(waiting); clearInterval(timer); } };
}

export const OFTEN_MS = 5_000;
export const SELDOM_MS = 15_000; // what brokers are asked for

const nodeButton = (name) => h("button", { type: "button", onclick: () => adjust({ node: name, link: "" }) }, name);

const UNRECORDED = "not on record";
const noted = (number) => (store.at && number === null ? UNRECORDED : count(number));

// What holds since before this page's server looked on is older than that: nobody noted by how much.
const sinceOf = ({ since_ms: since }) =>
  (since ? moment(since, now()) : `before ${moment(store.mesh.on_record.states_since_ms, now())}`);

const NODES = [
  { name: "node", of: (row) => nodeButton(row.node), text: (row) => row.node },
  { name: "Kafka cluster", of: (row) => row.kafka, short: true },
  { name: "state", of: (row) => nodeLook(row.state)[1] || "up", short: true },
  { name: "publishes", of: (row) => rate(row.published ? row.published.guaranteed + row.published.direct : null), number: true },
  { name: "guaranteed", of: (row) => rate(row.published?.guaranteed ?? null), number: true, isMore: true },
  { name: "direct", of: (row) => rate(row.published?.direct ?? null), number: true, isMore: true },
  { name: "endpoints", of: (row) => (store.at ? UNRECORDED : count(row.endpoints)), number: true },
  { name: "subscriptions", of: (row) => (store.at ? UNRECORDED : count(row.subscriptions)), number: true, isMore: true },
  { name: "known everywhere", of: (row) => (store.at ? UNRECORDED : { true: "yes", false: "no" }[row.known_everywhere] ?? "?"), short: true },
  { name: "since", of: (row) => (store.at ? UNRECORDED : sinceOf(row)), short: true },
  { name: "lanes", of: (row) => (store.at ? UNRECORDED : count(row.lanes)), number: true, isMore: true },
  { name: "epoch", of: (row) => (store.at ? UNRECORDED : count(row.epoch)), number: true, isMore: true },
  { name: "realm", of: (row) => orDash(row.realm), short: true, isMore: true },
];

const ENDPOINTS = [
  { name: "endpoint", of: (row) => shown(row.endpoint), short: true },
  { name: "kind", of: (row) => `${row.kind}, ${row.class}`, short: true },
  { name: "filters", of: (row) => row.subscriptions.map((one) => h("div", null, h("code", null, shown(one.filter)))), text: (row) => row.subscriptions.map((one) => one.filter).join(" ") },
  { name: "since", of: (row) => moment(Math.min(...row.subscriptions.map((one) => one.since_ms)), now()), short: true },
  { name: "gets", of: (row) => rate(row.delivered ? row.delivered.guaranteed + row.delivered.direct : null), number: true },
  { name: "guaranteed", of: (row) => rate(row.delivered?.guaranteed ?? null), number: true, isMore: true },
  { name: "direct", of: (row) => rate(row.delivered?.direct ?? null), number: true, isMore: true },
  { name: "exported", of: (row) => (row.subscriptions.every((one) => one.noexport) ? "no" : row.subscriptions.some((one) => one.noexport) ? "in part" : "yes"), short: true, isMore: true },
  { name: "certified", of: certified },
];

export function nodes(state) {
  const above = asking(() => askAll("nodes", { at: store.at }), (items) => [
    h("div", { class: "bar" }, h("h2", { class: "title" }, `${count(items.length)} node${items.length === 1 ? "" : "s"}`), exporting("nodes", NODES, () => items), tableButton(state)),
    table(columnsOf(state, NODES), items, { caption: "Nodes", isTitled: true }),
  ], { everyMs: OFTEN_MS });
  const below = asking(() => askAll("endpoints", { at: store.at }), (items) => [
    h("div", { class: "bar" }, h("h2", { class: "title" }, "Endpoints"), exporting("endpoints", ENDPOINTS, () => items)),
    ended(),
    table(columnsOf(state, ENDPOINTS), items, { caption: "Endpoints", isTitled: true, empty: silentNodes().length ? "No subscriptions are known." : "Nobody subscribes." }),
  ], { everyMs: OFTEN_MS });
  return {
    element: h("div", null, above.element, below.element, commands(["mesh status", "mesh interest"])),
    ready: Promise.all([above.ready, below.ready]),
    close: () => { above.close(); below.close(); },
    update: (data) => { if (data?.nodes) { above.again(); below.again(); } },
  };
}

// Of which nodes nobody can read what is subscribed, and of which Kafka clusters nobody noted which
// endpoints have ended since then.
function ended() {
  const silent = silentNodes();
  const read = store.at ? "was subscribed then at" : "is subscribed now at";
  const lacking = store.at ? "; what has ended since may be lacking" : "; what is shown of it was read before";
  if (silent.length) return h("p", { class: "soft" }, `What ${read} ${silent.join(", ")} cannot be read, for their Kafka cluster does not answer${lacking}.`);
  const lacks = store.at ? store.mesh.kafka.filter((one) => !one.is_on_record) : [];
  if (!lacks.length) return null;
  const where = lacks.length < store.mesh.kafka.length ? ` of ${lacks.map((one) => one.name).join(", ")}` : "";
  return h("p", { class: "soft" }, `Endpoints${where} that have ended since then are not on record.`);
}

const QUEUES = [
  { name: "queue", of: (row) => shown(row.queue), short: true },
  { name: "policy", of: (row) => `${row.policy}${row.home ? ` at ${row.home}` : ""}`, short: true },
  { name: "node", of: (row) => nodeButton(row.node), text: (row) => row.node },
  { name: "its part", of: (row) => row.part || "–", short: true },
  { name: "consumers", of: (row) => noted(row.consumers), number: true },
  { name: "move on", of: (row) => noted(row.movers), number: true, isMore: true },
  { name: "waiting", of: (row) => noted(row.waiting), number: true },
  { name: "counted in", of: (row) => (row.waiting === null ? "–" : row.is_counted ? "messages" : "offsets (upper bound)"), short: true, isMore: true },
  { name: "from", of: (row) => orDash(Object.entries(row.origins).map(([node, number]) => `${node}: ${number}`).join(", ")) },
  { name: "dead letters", of: (row) => noted(row.dead_letters), number: true },
  { name: "filters", of: (row) => row.filters.map((one) => h("div", null, h("code", null, shown(one)))), text: (row) => row.filters.join(" ") },
  { name: "declared", of: (row) => (row.is_declared ? "yes" : "no"), short: true, isMore: true },
  { name: "deliveries at most", of: (row) => orDash(row.max_deliveries), number: true, isMore: true },
  { name: "age at most", of: (row) => (row.max_age_s ? `${count(row.max_age_s)} s` : "–"), number: true, isMore: true },
];

const LETTERS = [
  { name: "message", of: (row) => orDash(row.identity) },
  { name: "subject", of: (row) => h("code", null, orDash(row.subject)) },
  { name: "written", of: (row) => moment(row.written_ms, now()), short: true },
  { name: "reason", of: (row) => shown(row.reason), short: true },
  { name: "bytes", of: (row) => count(row.size), number: true },
  { name: "lacks it", of: (row) => orDash(row.target) },
  { name: "came in", of: (row) => orDash(row.source), isMore: true },
  { name: "kept", of: (row) => (row.is_whole ? "whole" : "in part"), short: true, isMore: true },
  { name: "place", of: (row) => shown(row.place) },
  { name: "detail", of: (row) => shown(row.detail) },
];

// What nobody noted of a moment gone by, and the way to what is.
const notNoted = (text) => (store.at ? h("p", { class: "soft" }, `${text} `,
  h("button", { type: "button", onclick: () => adjust({ at: "" }) }, "Show now")) : null);

export function queues(state) {
  const list = asking(() => askAll("queues", { at: store.at }), (items) => {
    const rows = items.flatMap((one) => one.members.map((member) => ({ ...one, ...member, part: member.kind })));
    const alone = items.filter((one) => !one.members.length).map((one) => one.queue);
    return [
      h("div", { class: "bar" }, h("h2", { class: "title" }, `${items.length} queue${items.length === 1 ? "" : "s"}`), exporting("queues", QUEUES, () => rows), tableButton(state)),
      notNoted("What waited in queues then, and who consumed from them, is not on record."),
      ended(),
      table(columnsOf(state, QUEUES), rows, { caption: "Queues, member by member", empty: store.at ? "No queue that was subscribed then is on record." : silentNodes().length ? "No subscribed queue is known." : "No queue is subscribed anywhere." }),
      alone.length ? h("p", { class: "soft" }, `Declared, and nowhere subscribed: ${alone.map(shown).join(", ")}`) : null,
    ];
  }, { everyMs: SELDOM_MS });
  const choice = h("select", { id: "letters-of", onchange: () => adjust({ letters: choice.value }) },
    h("option", { value: "" }, "choose a node"),
    [...store.nodes.keys()].map((name) => h("option", { value: name, selected: name === state.letters }, name)));
  const letters = state.letters
    ? asking(() => askAll("dead-letters", { node: state.letters, at: store.at }), (items) => [
      table(columnsOf(state, LETTERS), items, { caption: `Dead letters of ${shown(state.letters)}`, empty: `No dead letters at ${shown(state.letters)}${store.at ? " of then that are still there" : ""}.` }),
      items.length ? h("div", { class: "bar" }, exporting("dead-letters", LETTERS, () => items)) : null,
    ], { everyMs: SELDOM_MS }) : null;
  return {
    element: h("div", null,
      list.element,
      h("div", { class: "bar" }, h("h2", { class: "title" }, "Dead letters"), h("div", null, h("label", { for: "letters-of" }, "Node"), choice)),
      letters?.element ?? h("p", { class: "empty" }, "What a node refused, with the reason; payloads stay where they are."),
      commands(["mesh queue list", `mesh dlq ${state.letters || "NODE"}`])),
    ready: Promise.all([list.ready, letters?.ready]),
    close: () => { list.close?.(); letters?.close(); },
  };
}

const leaseOf = ({ lease_holds: holds }) => (holds === null ? UNRECORDED : holds ? "holds" : "has run out");

const ROLES = [
  { name: "tree", of: (row) => shown(row.tree) },
  { name: "role", of: (row) => h("button", { type: "button", "aria-label": `routes to ${shown(row.role)}`, onclick: () => adjust({ tree: row.tree_id, role: row.role }) }, shown(row.role)), text: (row) => shown(row.role) },
  { name: "held", of: (row) => (row.exclusive ? "by one alone" : "shared"), short: true },
  { name: "node", of: (row) => nodeButton(row.node), text: (row) => row.node },
  { name: "application", of: (row) => shown(row.app) },
  { name: "lease", of: (row) => (row.lease_holds === null ? UNRECORDED : h("span", { class: `pill ${row.lease_holds ? "ok" : "warn"}` }, leaseOf(row))), text: (row) => leaseOf(row), short: true },
  { name: "part", of: (row) => (row.part ? `part ${row.part}` : "–"), short: true },
  { name: "since", of: (row) => moment(row.since_ms, now()), short: true },
  { name: "extent", of: (row) => orDash(row.extent), short: true, isMore: true },
  { name: "tree id", of: (row) => h("code", null, shown(row.tree_id)), isMore: true },
];

const ROUTES = [
  { name: "tree", of: (row) => shown(row.tree) },
  { name: "role", of: (row) => shown(row.role) },
  { name: "at node", of: (row) => nodeButton(row.node), text: (row) => row.node },
  { name: "next", of: (row) => nextOf(row), text: (row) => row.link || "here", short: true },
  { name: "ends at", of: (row) => (row.to ? nodeButton(row.to) : "–"), text: (row) => row.to ?? "" },
  { name: "hops", of: (row) => orDash(row.hops), number: true },
  { name: "by", of: (row) => orDash(row.reason), short: true },
  { name: "since", of: (row) => (row.since_ms ? `${moment(row.since_ms, now())}, ${row.age} ago` : "–"), short: true },
  { name: "instance", of: (row) => h("code", null, shown(row.instance)), isMore: true },
  { name: "within", of: (row) => orDash(row.scope), short: true, isMore: true },
  { name: "certain", of: (row) => (row.certain ? "yes" : "no: the next send asks first") },
];

function nextOf({ node, link, scope }) {
  if (!link) return "here";
  const open = () => adjust({ link: `${node}->${link}`, node: "" });
  return [h("button", { type: "button", "aria-label": `link ${node} to ${link}`, onclick: open }, link), scope === "realm" ? " in the realm" : ""];
}

const ROUTES_MAX = 1000;

export function roles(state) {
  const { tree = "", role = "" } = state;
  const all = async () => {
    const [items, { unknown }, routes] = await Promise.all([
      askAll("roles", { at: store.at }), ask("roles", { limit: 1, at: store.at }),
      store.at ? { items: [], unknown: [] } : ask("roles/routes", { tree, role, limit: ROUTES_MAX }),
    ]);
    const names = new Map(items.map((one) => [one.tree_id, one.tree]));
    const named = routes.items.map((one) => ({ ...one, tree: names.get(one.tree_id) ?? one.tree_id, age: age(one.since_ms, now()) }));
    return { items, unknown, routes: { ...routes, items: named } };
  };
  const list = asking(all, ({ items, unknown, routes }) => {
    const parts = store.mesh.parts ?? []; // of then nobody noted them
    const rows = items.map((one) => ({ ...one, part: parts.findIndex((nodes) => nodes.includes(one.node)) + 1 }));
    const number = new Set(items.map((one) => `${one.tree_id} ${one.role}`)).size;
    const [first] = rows.filter((one) => !role || one.role === role);
    const place = first ? `${quoted(first.tree)} ${quoted(first.role)}` : "TREE ROLE";
    return [
      h("div", { class: "bar" }, h("h2", { class: "title" }, `${count(number)} role${number === 1 ? "" : "s"}`), exporting("roles", ROLES, () => rows), tableButton(state)),
      notNoted("Roles that were given up since then may be lacking. The routes to roles then are not on record."),
      partsLine(parts),
      notKnown(unknown, "for their Kafka cluster does not answer"),
      table(columnsOf(state, ROLES), rows, { caption: store.at ? "Who had which role" : "Who has which role", empty: store.at ? "No application is on record that had a role then." : "No application has taken a role." }),
      ...(store.at ? [] : routesOf(state, routes)),
      commands(["mesh role list", `mesh role show ${place}`, `mesh role route ${place}`]),
    ];
  }, { everyMs: OFTEN_MS });
  return { element: list.element, ready: list.ready, close: list.close };
}

function routesOf(state, routes) {
  const { tree = "", role = "" } = state;
  return [
    h("div", { class: "bar" }, h("h2", { class: "title" }, role ? `Routes to ${shown(role)}` : "Routes"),
      role || tree ? h("button", { type: "button", onclick: () => adjust({ tree: "", role: "" }) }, "Show all") : null,
      routes.items.length ? exporting("routes", ROUTES, () => routes.items) : null),
    notKnown(routes.unknown, "for they do not tell of routes now"),
    routes.unknown.length < store.nodes.size ? table(columnsOf(state, ROUTES), routes.items, {
      caption: routes.next ? `The first ${count(ROUTES_MAX)}; choose a role above` : "The next link from each node, as nodes have told it",
      empty: "No node knows a way to a role: ways are found when somebody sends.",
    }) : null,
  ];
}

const notKnown = (nodes, why) => (nodes.length ? h("p", null, `Not known, ${why}: ${nodes.join(", ")}`) : null);

// Each part has the colour that its nodes have on the map of a mesh that is split.
function partsLine(parts) {
  if (parts.length < 2) return null;
  return h("p", null, isSplit(parts) ? h("span", { class: "pill warn" }, "split") : null, ` for roles the mesh is in ${parts.length} parts: `,
    parts.map((nodes, place) => [place ? " " : "", h("span", { class: `part part-${place % 4}` }, `part ${place + 1}: ${nodes.join(", ")}`)]));
}
