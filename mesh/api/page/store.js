// What is known of the mesh, asked once and then kept by the feed of changes.

export const root = document.querySelector('meta[name="root"]').content;

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
  const answer = await fetch(`${root}/api/v1/${path}${text ? `?${text}` : ""}`, options);
  if (answer.status === 401) logIn();
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Problem({ status: answer.status, ...body });
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
  isLost: false,
  trouble: "", // why what is shown may be old
  refusal: "", // why nothing can be shown of the moment that was asked for
  skew: 0, // the server's clock less ours
};

const listeners = new Set();
export const onChange = (listener) => { listeners.add(listener); };
const tell = (what) => { for (const listener of listeners) listener(what); };

export const now = () => Date.now() + store.skew;

const RETRY_MS = 2000;
let asked = 0;
let isFollowing = false;
let first; // the moment that the page was opened with
let meanwhile = null; // changes that come while all is read

export async function load(at) {
  const mine = ++asked;
  meanwhile = [];
  try {
    const [mesh, nodes, links] = await Promise.all([
      ask("mesh", { at }), askAll("nodes", { at }), askAll("links", { at }),
    ]);
    if (mine !== asked) return;
    if (!at) store.skew = mesh.at_ms - Date.now();
    store.at = at ?? null;
    store.mesh = mesh;
    store.nodes = new Map(nodes.map((node) => [node.node, node]));
    store.links = new Map(links.map((link) => [link.link, link]));
    store.trouble = store.refusal = "";
  } catch (error) {
    if (mine !== asked) return;
    if (error.status >= 400 && error.status < 500) {
      store.at = at ?? null;
      store.refusal = error.message;
    } else {
      store.trouble = error.status ? error.message : "The server does not answer.";
      setTimeout(() => { if (mine === asked) load(at); }, RETRY_MS);
    }
  }
  const came = meanwhile;
  meanwhile = null;
  came.forEach(change); // before anything is drawn: a view would show what was read before them
  tell({ kind: "all" });
}

function change(data) {
  if (meanwhile) { meanwhile.push(data); return; }
  if (!store.mesh) return;
  if (data.version !== undefined && data.version !== store.mesh.version) {
    load(store.at);
    return;
  }
  store.skew = data.at_ms - Date.now();
  if (data.proof) store.mesh.proof_now = data.proof;
  if (store.at) { tell({ kind: "proof" }); return; }
  if (data.proof) store.mesh.proof = data.proof;
  if (data.parts) store.mesh.parts = data.parts;
  for (const [name, [state, subscriptions]] of Object.entries(data.nodes ?? {})) {
    const node = store.nodes.get(name);
    if (node) Object.assign(node, { state, subscriptions });
  }
  for (const [name, [state, guaranteed, direct]] of Object.entries(data.links ?? {})) {
    const link = store.links.get(name);
    if (link) Object.assign(link, { state, per_s: { guaranteed, direct } });
  }
  if (data.faults) {
    for (const kafka of store.mesh.kafka) {
      kafka.answers = !(kafka.name in data.faults);
      kafka.fault = data.faults[kafka.name] ?? null;
    }
  }
  tell({ kind: "change", data });
}

function take(message) {
  if (message.kind === "change") change(message.data);
  else if (message.kind === "reset") load(store.at);
  else if (message.kind === "lost" && !store.isLost) { store.isLost = true; tell({ kind: "feed" }); }
  else if (message.kind === "open" && store.isLost) { store.isLost = false; tell({ kind: "feed" }); }
  if (!isFollowing && (message.kind === "open" || message.kind === "here")) {
    isFollowing = true;
    load(store.mesh || store.refusal ? store.at : first);
  }
}

// Reads all of a moment once changes are followed, for what changed before would not be told; but
// nobody waits for that longer than for a second.
export function begin(at) {
  first = at;
  follow();
  setTimeout(() => { if (!isFollowing) load(at); }, 1000);
}

// Changes come from a worker that all tabs share. What was missed comes when it asks again, or
// `reset`; a tab that slept in the browser's memory heard nothing, and reads all.
function follow() {
  const address = new URL(`${root}/api/v1/events`, location.href).href;
  const worker = new SharedWorker(`${root}/static/feed.worker.js`);
  worker.onerror = () => { take({ kind: "lost" }); setTimeout(follow, RETRY_MS); };
  worker.port.onmessage = ({ data }) => take(data);
  const listen = () => worker.port.postMessage({ kind: "follow", address });
  listen();
  addEventListener("pagehide", () => worker.port.postMessage({ kind: "bye" }));
  addEventListener("pageshow", (event) => { if (event.persisted) { listen(); load(store.at); } });
}
