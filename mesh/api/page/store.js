// What is known of the mesh, asked once and then kept by the feed of changes.

import { first as known, onFeed, root } from "./feed.js";

export class Problem extends Error {
  constructor(document) {
    super(document.detail ?? "The answer cannot be read");
    this.status = document.status ?? 0;
    this.problems = document.problems ?? [];
  }
}

// The login leads back to what is on screen.
function logIn() {
  const to = `${location.pathname.slice(root.length)}${location.search}`;
  location.assign(`${root}/login?${new URLSearchParams({ to })}`);
}

export async function ask(path, parameters = {}, options = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== "") query.append(name, value);
  }
  const text = query.toString();
  const answer = await fetch(`${root}/api/v1/${path}${text ? `?${text}` : ""}`, options).catch(() => {
    throw new Problem({ detail: "The server does not answer." });
  });
  if (answer.status === 401) logIn();
  const body = await answer.json().catch(() => null);
  if (!answer.ok) throw new Problem({ status: answer.status, ...body });
  if (!body) throw new Problem({ detail: "The answer of the server was cut short." });
  return body;
}

export async function askAll(path, parameters = {}) {
  const items = [];
  let cursor = "";
  do {
    const page = await ask(path, { limit: 5000, ...parameters, cursor });
    items.push(...page.items);
    cursor = page.next;
  } while (cursor);
  return items;
}

export const store = {
  mesh: null,
  nodes: new Map(),
  links: new Map(),
  at: null, // a moment gone by, or null for now
  wanted: undefined, // the moment that is read, or was tried to be
  isLost: false,
  trouble: "", // why what is shown may be old
  refusal: "", // why nothing can be shown of the moment that was asked for
  skew: null, // the server's clock less ours; null while nobody knows
  idleS: 0, // for how long the server itself has not looked at the mesh
};

// Whether nodes that links of the topology join, over however many, are in different parts: what
// nobody has joined is apart, and no split.
export function isSplit(parts) {
  const partOf = new Map(parts.flatMap((nodes, part) => nodes.map((node) => [node, part])));
  const next = new Map();
  for (const { source, target } of store.links.values()) next.set(source, [...(next.get(source) ?? []), target]);
  const seen = new Set();
  for (const first of store.nodes.keys()) {
    const found = new Set();
    const edge = seen.has(first) ? [] : [first];
    while (edge.length) {
      const node = edge.pop();
      if (seen.has(node)) continue;
      seen.add(node);
      if (partOf.has(node)) found.add(partOf.get(node));
      edge.push(...(next.get(node) ?? []));
    }
    if (found.size > 1) return true;
  }
  return false;
}

// Nodes of which nothing can be read now, neither of now nor of then.
export const silentNodes = () => store.mesh.kafka.filter((kafka) => !kafka.answers).flatMap((kafka) => kafka.nodes);

const listeners = new Set();
export const onChange = (listener) => { listeners.add(listener); };
const tell = (what) => { for (const listener of listeners) listener(what); };

export const now = () => Date.now() + (store.skew ?? 0);

const RETRY_MS = 2000;
let asked = 0;
let isFollowing = false;
let first = null; // the moment that the page was opened with
let meanwhile = null; // changes that come while all is read

function keep(at, mesh, nodes, links) {
  if (!at) store.skew = mesh.at_ms - Date.now();
  store.at = at ?? null;
  store.mesh = mesh;
  store.nodes = new Map(nodes.map((node) => [node.node, node]));
  store.links = new Map(links.map((link) => [link.link, link]));
  store.trouble = store.refusal = "";
}

// Reads all of a moment. False: nothing new is known, and it is tried again.
export async function load(at) {
  const mine = ++asked;
  meanwhile = [];
  store.wanted = at ?? null;
  let isTold = true;
  try {
    const [mesh, nodes, links] = await Promise.all([
      ask("mesh", { at }), askAll("nodes", { at }), askAll("links", { at }),
    ]);
    if (mine !== asked) return true;
    keep(at, mesh, nodes, links);
  } catch (error) {
    if (mine !== asked) return true;
    if (error.status >= 400 && error.status < 500) {
      store.at = at ?? null;
      store.refusal = error.message;
    } else {
      store.trouble = error.message;
      isTold = false;
      setTimeout(() => { if (mine === asked) load(at); }, RETRY_MS);
    }
  }
  const came = meanwhile;
  meanwhile = null;
  came.forEach(change); // before anything is drawn: a view would show what was read before them
  tell({ kind: isTold ? "all" : "trouble" });
  return isTold;
}

const reload = () => load(store.wanted === undefined ? first : store.wanted);

function change(data) {
  if (meanwhile) { meanwhile.push(data); return; }
  if (!store.mesh) return;
  // What was read of the former topology may lie beside what was read of this one.
  if (data.version !== undefined) { reload(); return; }
  // A change that comes late, as after a cut, tells a time gone by.
  store.skew = Math.max(store.skew ?? -Infinity, data.at_ms - Date.now());
  if (data.faults) {
    for (const kafka of store.mesh.kafka) {
      kafka.answers = !(kafka.name in data.faults);
      kafka.fault = data.faults[kafka.name] ?? null;
    }
  }
  if (store.at) { tell({ kind: "feed" }); return; }
  if (data.proof) store.mesh.proof = data.proof;
  if (data.parts) store.mesh.parts = data.parts;
  for (const [name, [state, subscriptions]] of Object.entries(data.nodes ?? {})) {
    const node = store.nodes.get(name);
    if (node) Object.assign(node, { state, subscriptions });
  }
  for (const [name, [state, guaranteed, direct, wanted, reason]] of Object.entries(data.links ?? {})) {
    const link = store.links.get(name);
    const per_s = guaranteed === null ? null : { guaranteed, direct };
    if (link) Object.assign(link, { state, per_s, wanted, reason });
  }
  tell({ kind: "change", data });
}

function take(message) {
  if (message.kind === "change") change(message.data);
  else if (message.kind === "reset") reload();
  else if (message.kind === "ping") { store.idleS = message.data.idle_s; tell({ kind: "feed" }); }
  else if (message.kind === "lost" && !store.isLost) { store.isLost = true; tell({ kind: "feed" }); }
  else if (message.kind === "login") logIn();
  else if (message.kind === "open" && store.isLost) { store.isLost = false; tell({ kind: "feed" }); }
  if (message.kind === "change") store.idleS = 0;
  if (!isFollowing && (message.kind === "open" || message.kind === "here")) {
    isFollowing = true;
    reload();
  }
}

// Begins with what the page itself tells of now, from where changes are followed. A moment gone by,
// and a mesh of which the server knew nothing yet, are read once changes are followed, for what
// changed before would not be told; but nobody waits for that longer than for a second.
export function begin(at) {
  first = at;
  isFollowing = Boolean(known) && !at;
  if (isFollowing) {
    store.wanted = null;
    keep(null, known.mesh, known.nodes, known.links);
    tell({ kind: "all" });
  }
  onFeed(take);
  setTimeout(() => { if (!isFollowing) reload(); }, 1000);
}
