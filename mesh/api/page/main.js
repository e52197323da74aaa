// The frame of every view: name, proof, search, time, rail, panel.

import { VIEWS, adjust, go, here, onMove, viewAddress } from "./address.js";
import { h, renew, setAttribute, setText, shown } from "./dom.js";
import { age, clock, moment, proofLook, showLocalTimes, timesAreLocal } from "./format.js";
import { askAll, begin, load, now, onChange, store } from "./store.js";
import { audit, findings, openSplit } from "./audit.js";
import { interest, trace } from "./messages.js";
import { map, noteSplit } from "./map.js";
import { nodes, queues, roles } from "./lists.js";
import { plan } from "./plan.js";
import { panelOf } from "./panel.js";
import { turnTable } from "./table.js";

const MAKERS = { map, interest, trace, audit, findings, plan, queues, roles, nodes };
const $ = (id) => document.getElementById(id);
const MINUTE = 60_000;
const DAY_MINUTES = 24 * 60;
const MONTH_HOURS = 29 * 24;

let view = null; // the view on screen: { element, update?, close? }
let openFindings = 0;
const deferred = new Map(); // what waits until the mesh is known: name -> { text, action }, and the text says so

const rail = new Map(VIEWS.map((name) => {
  const count = h("span", { class: "count", hidden: true });
  const link = h("a", {
    onclick: (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      $("views").classList.remove("open");
      setAttribute($("menu"), "aria-expanded", "false");
      deferred.delete("find");
      go(name.toLowerCase());
      $("main").focus();
    },
  }, name, count);
  return [name.toLowerCase(), { link, count }];
}));
$("views").replaceChildren(...[...rail.values()].map(({ link }) => link));

function drawRail() {
  const state = here();
  for (const [view, { link }] of rail) {
    setAttribute(link, "href", viewAddress(view));
    if (state.view === view) setAttribute(link, "aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const { count } = rail.get("findings");
  count.hidden = !openFindings;
  setText(count, openFindings ? ` ${openFindings}` : "");
}

function drawProof() {
  if (!store.mesh || store.refusal) return;
  const proof = store.mesh.proof;
  // What was proven is no proof of now where nothing is heard.
  const isHeard = store.at || !(store.isLost || standsStill());
  setText($("proof"), isHeard ? proof.text : `Not known now; last: ${proof.text}`);
  setAttribute($("proof"), "class", `pill ${isHeard ? proofLook[proof.state] ?? "" : "warn"}`);
  if (openFindings !== proof.open) { openFindings = proof.open; drawRail(); }
  drawAge();
}

const STILL_S = 30;
const standsStill = () => store.idleS > STILL_S;

function drawAge() {
  if (!store.mesh) return;
  const { state, until_ms: until, heard_ms: heard } = store.mesh.proof;
  let text = "";
  if (store.at) text = `as of ${moment(store.mesh.at_ms, now())}`;
  else if (state === "blind") text = `since ${clock(heard)}, ${age(heard, now())} ago`;
  else if (until) text = `${state === "proven" ? "" : "certified "}until ${clock(until)}, ${age(until, now())} ago`;
  else if (heard) text = "not everything certified yet";
  setText($("proof-age"), text);
}

function drawTime() {
  if (!store.mesh) return;
  const record = store.mesh.on_record;
  const starts = [record.traffic_since_ms, record.crossed_since_ms, record.states_since_ms, record.audit_since_ms].filter(Boolean);
  const begin = starts.length ? Math.min(...starts) : now();
  const steps = Math.min(DAY_MINUTES + MONTH_HOURS, Math.max(1, Math.ceil(stepsBack(now() - begin))));
  const slider = $("time");
  const at = store.at ? store.mesh.at_ms : null;
  const isOnItsWay = (here().at ?? null) !== store.at || deferred.has("time"); // until then the slider stays where it was put
  if (!sliding && !isOnItsWay) {
    setAttribute(slider, "max", steps);
    slider.value = at !== null ? Math.max(0, steps - Math.round(stepsBack(now() - at))) : steps;
    showTime(at);
  }
  setAttribute($("live"), "aria-pressed", String(at === null));
  setText($("zone"), timesAreLocal() ? "Local" : "UTC");
}

// Steps of the slider are minutes for a day, then hours, as long as they are on record.
const stepsBack = (ms) => (ms <= DAY_MINUTES * MINUTE ? ms / MINUTE : DAY_MINUTES + (ms / MINUTE - DAY_MINUTES) / 60);
const msBack = (steps) => (Math.min(steps, DAY_MINUTES) + Math.max(0, steps - DAY_MINUTES) * 60) * MINUTE;

let sliding = 0; // while somebody is at it

function showTime(at) {
  const text = at !== null ? moment(at, now()) : "now";
  setText($("time-shown"), text);
  setAttribute($("time"), "aria-valuetext", text);
}

function slide() {
  const slider = $("time");
  const back = msBack(Number(slider.max) - Number(slider.value));
  showTime(back ? now() - back : null);
  clearTimeout(sliding);
  sliding = setTimeout(() => {
    sliding = 0;
    // By the clock of the server.
    onceKnown("time", "The time is turned back as soon as the mesh is known.", () => {
      const at = back ? new Date(Math.floor((now() - back) / 1000) * 1000).toISOString().replace(".000", "") : "";
      adjust({ at });
    });
  }, 200);
}

function drawTrouble() {
  const told = [];
  if (store.isLost) told.push("The feed of changes is lost: what is shown may be old. It is tried again by itself.");
  else if (standsStill()) told.push(`The server has not looked at the mesh for more than ${STILL_S} s: what is shown may be old.`);
  if (store.trouble) told.push(store.trouble);
  for (const { text } of deferred.values()) told.push(text);
  for (const kafka of store.mesh?.kafka ?? []) {
    if (!kafka.answers) told.push(`Kafka cluster ${kafka.name} does not answer: its part of the mesh is not shown as it is now.`);
  }
  if (store.at && store.mesh) told.push(pastNote());
  setText($("trouble"), told.filter(Boolean).join(" "));
}

function pastNote() {
  const record = store.mesh.on_record;
  const at = store.mesh.at_ms;
  const lacks = [];
  if (!record.states_since_ms || at < record.states_since_ms) lacks.push("states of nodes and links");
  const unknown = [...store.links.values()].filter((link) => !link.per_s).length;
  if (unknown) lacks.push(unknown < store.links.size ? "the rates of some links" : "rates");
  if (!record.audit_since_ms || at < record.audit_since_ms) lacks.push("the audit");
  const changed = record.topology_since_ms;
  const drawn = changed && at < changed ? ` The nodes and links are those of the topology in force since ${moment(changed, now())}; what it took away is not shown.` : "";
  return (lacks.length ? `Of ${moment(at, now())} these are not on record: ${lacks.join(", ")}.` : "") + drawn;
}

const named = (view) => VIEWS.find((name) => name.toLowerCase() === view);

let place = ""; // the address of what is on screen, without its panel
let isStale = false; // what is on screen was made from what has changed since
let draws = 0;

async function draw() {
  const mine = ++draws;
  const state = here();
  if (store.wanted !== undefined && (state.at ?? null) !== store.wanted) {
    if (await load(state.at) || mine !== draws) return; // what it told has been drawn
  }
  document.body.classList.toggle("embed", "embed" in state);
  document.title = `${named(state.view)} · ${store.mesh?.mesh ?? "Trellis"}`;
  drawRail();
  drawTime();
  drawTrouble();
  if (!store.mesh && !store.refusal) return;
  const { node, link, ...rest } = state;
  const wanted = JSON.stringify([rest, store.at, store.refusal]);
  if (wanted !== place || !view) {
    place = wanted;
    isStale = false;
    show(store.refusal ? refused() : MAKERS[state.view](state), state);
  } else if (isStale && view.refresh) {
    isStale = false;
    view.refresh();
  } else if (isStale) {
    // What is there stays until there is something to show instead.
    const fresh = store.refusal ? refused() : MAKERS[state.view](state);
    await fresh.ready;
    if (mine !== draws) { fresh.close?.(); return; }
    isStale = false;
    show(fresh, state);
    fresh.update?.(null); // what has changed while it was made
  }
  view.select?.(state);
  drawPanel(state);
}

function show(fresh, state) {
  const main = $("main");
  const heading = h("h1", { class: "unseen" }, named(state.view));
  const isLeft = main.dataset.view !== state.view && main.contains(document.activeElement);
  view?.close?.();
  view = fresh;
  if (main.dataset.view === state.view) renew(main, heading, view.element);
  else main.replaceChildren(heading, view.element);
  main.dataset.view = state.view;
  if (isLeft) main.focus();
}

const refused = () => ({ element: h("p", { class: "lead" }, shown(store.refusal)) });

let panelPlace = "";
let panel = null;
let opened = ""; // what the panel tells of
let opener = null; // what was in focus when it was asked for

function drawPanel(state) {
  const wanted = store.refusal ? "" : JSON.stringify([state.node, state.link, store.at]);
  if (wanted === panelPlace) return;
  panelPlace = wanted;
  const isHeld = $("panel").contains(document.activeElement);
  const asked = JSON.stringify([state.node, state.link]);
  const isNew = asked !== opened && Boolean(state.node || state.link);
  if (isNew && !isHeld) opener = document.activeElement;
  opened = asked;
  panel?.close();
  panel = store.refusal ? null : panelOf(state);
  $("panel").hidden = !panel;
  $("panel").replaceChildren(...(panel ? [panel.element] : []));
  // Who asked for it by keyboard goes on there; a page that is opened with it begins at its top.
  if (panel && (isHeld || (isNew && opener !== document.body))) $("panel").focus();
  if (isHeld && !panel) (opener?.isConnected && opener !== document.body ? opener : $("main")).focus();
}

function renewAll() {
  isStale = true;
  panel?.again();
  return draw();
}

// Who is faster than the first answer of the server is served as soon as that is here.
function onceKnown(name, text, action) {
  if (store.mesh) { action(); return; }
  deferred.set(name, { text, action });
  drawTrouble();
}

function runDeferred() {
  const actions = [...deferred.values()].map(({ action }) => action);
  deferred.clear();
  for (const action of actions) action();
}

function find(text) {
  const wanted = text.trim();
  if (wanted) onceKnown("find", `“${shown(wanted)}” is looked for as soon as the mesh is known.`, () => findKnown(wanted));
  else deferred.delete("find");
}

function findKnown(wanted) {
  const name = [...store.nodes.keys()].find((one) => one.toLowerCase() === wanted.toLowerCase());
  const link = linkCalled(wanted.toLowerCase());
  if (name) go("map", { node: name });
  else if (link) go("map", { link });
  else if (/^([\da-f]{32}|\S+\.in\.[gd])\/\d+\/(\d+\/)?\d+$/i.test(wanted)) go("trace", { id: wanted });
  else go("interest", { subject: wanted, from: here().from ?? "" });
}

// Names of nodes may have a - in them.
function linkCalled(text) {
  const plain = text.replace(/\s*(?:->|→|–>)\s*|\s+to\s+|\s+-\s+/, "->");
  return [...store.links.values()].find(({ link, source, target }) =>
    link.toLowerCase() === plain || `${source}-${target}`.toLowerCase() === text)?.link;
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input:not([type=range]), textarea, select")) return;
  if (event.key === "t") {
    event.preventDefault();
    turnTable();
  } else if (event.key === "/") {
    event.preventDefault();
    $("find").focus();
  } else if (event.key === "Escape" && (here().node || here().link)) {
    adjust({ node: "", link: "" });
  }
}

$("find-form").addEventListener("submit", (event) => { event.preventDefault(); find($("find").value); });
$("time").addEventListener("input", slide);
$("live").addEventListener("click", () => { deferred.delete("time"); adjust({ at: "" }); });
$("zone").addEventListener("click", () => {
  showLocalTimes(!timesAreLocal());
  renewAll();
  drawProof();
});
$("menu").addEventListener("click", () => {
  const isOpen = $("views").classList.toggle("open");
  setAttribute($("menu"), "aria-expanded", String(isOpen));
});
async function readSplit() {
  try {
    const kinds = await Promise.all(["split", "heal"].map((kind) => askAll("findings", { kind, at: store.at })));
    const newest = kinds.flat().sort((one, other) => other.last_said_ms - one.last_said_ms);
    if (noteSplit(openSplit(newest))) { isStale = true; draw(); }
  } catch { /* said elsewhere: the view itself asks too */ }
}

// Of an Enter that comes before this script the browser makes an address.
function takeEarly() {
  const { find: text } = here();
  if (!text) return;
  adjust({ find: "" }, { replaces: true });
  $("find").value = text;
  find(text);
}

addEventListener("keydown", keys);
onMove(draw);
onChange((what) => {
  if (what.kind === "all") {
    setText($("mesh-name"), shown(store.mesh?.mesh ?? "Trellis"));
    if (store.mesh) runDeferred();
    renewAll();
    if (store.mesh && !store.refusal) readSplit();
  }
  if (what.kind === "change") {
    view?.update?.(what.data);
    if (what.data.faults) renewAll(); // which Kafka clusters answer stands in many places
    if (what.data.findings !== undefined || what.data.parts) readSplit();
  }
  drawProof();
  drawTrouble();
});
setInterval(() => { drawAge(); if (!store.at) drawTime(); }, 1000);
drawRail();
takeEarly();
begin(here().at);
