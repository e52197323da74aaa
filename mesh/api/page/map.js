// Kafka clusters as regions, nodes, and both directions of every link. Places do not move; only
// styles change each second.

import { adjust, here } from "./address.js";
import { h, s, setAttribute, setText, shown } from "./dom.js";
import { INSIDE_MAX, brief, linkLook, moment, nodeLook, rate, total } from "./format.js";
import { isSplit, now, store } from "./store.js";
import { exporting, isTable, retable, table, tableButton } from "./table.js";

const NODES_MAX = 60; // more are not drawn at once
const RADIUS = 21;
const APART = 5;
const SCALE_MAX = 1.8;

const COLUMNS = [
  { name: "link", of: (row) => h("button", { type: "button", onclick: () => adjust({ link: row.link, node: "" }) }, `${row.source} → ${row.target}`), text: (row) => `${row.source}->${row.target}` },
  { name: "state", of: (row) => linkLook(row)[1], short: true },
  { name: "guaranteed", of: (row) => rate(row.per_s?.guaranteed ?? null), number: true },
  { name: "direct", of: (row) => rate(row.per_s?.direct ?? null), number: true },
  { name: "Kafka cluster", of: (row) => store.nodes.get(row.source)?.kafka, short: true },
  { name: "zone", of: (row) => row.zone, short: true },
  { name: "kind", of: (row) => row.kind, short: true },
  { name: "why", of: (row) => shown(row.reason ?? "") },
];

export function map(state) {
  const shownNodes = chosen(state);
  const links = [...store.links.values()].filter((link) => shownNodes.has(link.source) && shownNodes.has(link.target));
  const bar = barOf(state, shownNodes.size, () => links);
  if (isTable(state)) {
    const drawn = table(...tableOf(links));
    return { element: h("div", null, bar, splitNote(), drawn), update: () => retable(drawn, ...tableOf(links)) };
  }
  if (!shownNodes.size) return { element: h("div", null, bar, h("p", { class: "empty" }, nothingCalled(state))) };
  if (shownNodes.size > NODES_MAX && !state.q && !state.kafka) return overview(bar);
  const drawing = new Drawing(shownNodes, links);
  return {
    element: h("div", null, bar, splitNote(), drawing.svg, legend()),
    update: (data) => drawing.restyle(data),
    select: (next) => drawing.select(next),
  };
}

const nothingCalled = ({ q, kafka }) =>
  (q ? `No node, Kafka cluster or zone is called “${shown(q)}”.` : `No Kafka cluster is called “${shown(kafka)}”.`);

function chosen(state) {
  const wanted = (state.q ?? "").toLowerCase();
  const found = new Map();
  for (const [name, node] of store.nodes) {
    const isOfKafka = !state.kafka || node.kafka === state.kafka;
    const isNamed = !wanted || name.toLowerCase().includes(wanted) || node.kafka.toLowerCase().includes(wanted)
      || store.mesh.zones.some((zone) => zone.zone.toLowerCase() === wanted && inZone(name, zone.zone));
    if (isOfKafka && isNamed) found.set(name, node);
  }
  if (state.kafka) {
    for (const link of store.links.values()) {
      const other = store.nodes.get(link.target);
      if (other && found.get(link.source)?.kafka === state.kafka) found.set(link.target, other);
    }
  }
  return found;
}

const inZone = (node, zone) =>
  [...store.links.values()].some((link) => link.zone === zone && (link.source === node || link.target === node));

function barOf(state, shownCount, rows) {
  const filter = h("input", { type: "search", id: "map-filter", value: state.q ?? "", placeholder: "Node, Kafka cluster or zone" });
  const form = h("form", { class: "grow", onsubmit: (event) => { event.preventDefault(); adjust({ q: filter.value.trim(), kafka: "" }); } },
    h("label", { for: "map-filter" }, "Filter"), filter);
  const all = store.nodes.size;
  return h("div", { class: "bar" },
    h("h2", { class: "title" }, `${shownCount === all ? all : `${shownCount} of ${all}`} node${all === 1 ? "" : "s"}${state.kafka ? ` around Kafka cluster ${state.kafka}` : ""}`),
    form,
    state.q || state.kafka ? h("button", { type: "button", onclick: () => adjust({ q: "", kafka: "" }) }, "Show all") : null,
    isTable(state) ? exporting("links", COLUMNS, rows) : null,
    tableButton(state));
}

const byKafka = (one, other) =>
  (store.nodes.get(one.source)?.kafka ?? "").localeCompare(store.nodes.get(other.source)?.kafka ?? "") || one.link.localeCompare(other.link);

const tableOf = (links) => [COLUMNS, [...links].sort(byKafka), { caption: "Links, both directions", empty: "No links." }];

const OVERVIEW = [
  { name: "Kafka cluster", of: (row) => h("button", { type: "button", onclick: () => adjust({ kafka: row.kafka.name }) }, row.kafka.name) },
  { name: "answers", of: (row) => (row.kafka.answers ? "yes" : "no"), short: true },
  { name: "nodes", of: (row) => row.nodes.length, number: true },
  { name: "not up", of: (row) => row.unusual, number: true },
  { name: "links not up", of: (row) => row.links, number: true },
  { name: "inside", of: (row) => rate(row.inside), number: true },
  { name: "to others", of: (row) => rate(row.outside), number: true },
];

function overview(bar) {
  const drawn = table(...overviewOf());
  return {
    element: h("div", null, bar, h("p", { class: "lead" }, `${store.nodes.size} nodes are too many to read at once: choose a Kafka cluster, or filter.`), splitNote(), h("div", { class: "bar" }, exporting("kafka-clusters", OVERVIEW, () => overviewOf()[1])), drawn),
    update: () => retable(drawn, ...overviewOf()),
  };
}

function overviewOf() {
  const rows = store.mesh.kafka.map((kafka) => {
    const nodes = kafka.nodes.map((name) => store.nodes.get(name)).filter(Boolean);
    const links = [...store.links.values()].filter((link) => kafka.nodes.includes(link.source));
    return {
      kafka, nodes,
      unusual: counted(nodes, (node) => node.state !== "up"),
      links: counted(links, (link) => !["up", "idle"].includes(linkLook(link)[0])),
      inside: summed(links.filter((link) => kafka.nodes.includes(link.target))),
      outside: summed(links.filter((link) => !kafka.nodes.includes(link.target))),
    };
  });
  return [OVERVIEW, rows, { caption: "Kafka clusters" }];
}

const counted = (all, holds) => (all.some((one) => one.state === null) ? "not on record" : all.filter(holds).length);

// Null where the rate of one is not known.
const summed = (links) => (links.some((link) => !link.per_s) ? null : links.reduce((sum, link) => sum + total(link.per_s), 0));

function legend() {
  const line = (look) => s("svg", { "aria-hidden": "true", viewBox: "0 0 26 10" }, s("g", { class: `link ${look}` }, s("line", { class: "line", x1: 1, y1: 5, x2: 25, y2: 5, "stroke-width": 3 })));
  return h("p", { class: "legend" },
    h("span", null, "width: rate"),
    h("span", null, line("up"), "up"), h("span", null, line("idle"), "idle, nobody wants anything"),
    h("span", null, line("paused"), "paused, disabled or full"), h("span", null, line("down"), "✕ refused or down"),
    h("span", null, line("unknown"), "unknown"));
}

class Drawing {
  constructor(nodes, links) {
    this.nodes = new Map();
    this.links = new Map();
    this.labels = s("g");
    const regions = s("g");
    const lines = s("g");
    const names = s("g", { class: "region" });
    const circles = s("g");
    const kept = store.mesh.kafka.filter((kafka) => kafka.region && kafka.nodes.some((name) => nodes.has(name)));
    for (const kafka of kept) {
      regions.append(this.region(kafka));
      names.append(nameOf(kafka)); // above the links that cross it
    }
    for (const link of links) lines.append(this.link(link));
    for (const node of nodes.values()) circles.append(this.node(node));
    this.svg = s("svg", { class: "map", role: "group", "aria-label": "Map of the mesh", viewBox: boxOf(kept), preserveAspectRatio: "xMidYMid meet" }, regions, lines, names, circles, this.labels);
    this.parts = partsOf();
    this.restyle(null);
  }

  region(kafka) {
    const { x, y, width, height } = kafka.region;
    return s("g", { class: kafka.answers ? "region" : "region dead" }, s("rect", { x, y, width, height, rx: 12 }));
  }

  node({ node: name, place }) {
    const choose = () => adjust({ node: name, link: "" });
    const isLong = name.length > INSIDE_MAX; // then it stands below
    const word = s("text", { class: "word", x: place.x, y: place.y + RADIUS + (isLong ? 25 : 11) });
    const element = s("g", { class: "node", tabindex: "0", role: "button", "aria-label": `node ${name}`, onclick: choose, onkeydown: pressed(choose) },
      s("circle", { cx: place.x, cy: place.y, r: RADIUS }),
      isLong ? s("text", { class: "name", x: place.x, y: place.y + RADIUS + 11 }, brief(name)) : s("text", { x: place.x, y: place.y }, name), word,
      s("title", null, name));
    this.nodes.set(name, { element, word });
    return element;
  }

  link({ link: name, source, target }) {
    const from = store.nodes.get(source).place;
    const to = store.nodes.get(target).place;
    const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
    const [dx, dy] = [(to.x - from.x) / length, (to.y - from.y) / length];
    const at = (along, aside) => [from.x + dx * along - dy * aside, from.y + dy * along + dx * aside];
    const [x1, y1] = at(RADIUS + 1, APART);
    const [x2, y2] = at(length - RADIUS - 1, APART);
    const middle = at(length * 0.58, APART);
    const ends = { x1, y1, x2, y2 };
    const choose = () => adjust({ link: name, node: "" });
    const line = s("line", { class: "line", ...ends });
    const turn = `translate(${middle[0].toFixed(1)} ${middle[1].toFixed(1)}) rotate(${((Math.atan2(dy, dx) * 180) / Math.PI).toFixed(1)})`;
    const arrow = s("path", { class: "arrow", d: "M-6,-5 L6,0 L-6,5 Z", transform: turn });
    const cross = s("path", { class: "cross", d: "M-6,-6 L6,6 M-6,6 L6,-6", transform: turn });
    const element = s("g", {
      class: "link", tabindex: "0", role: "button", "aria-label": `link ${source} to ${target}`, onclick: choose, onkeydown: pressed(choose),
      onmouseenter: () => this.showLabel(name, "hover"), onmouseleave: () => this.hideLabel(name, "hover"),
      onfocus: () => this.showLabel(name, "hover"), onblur: () => this.hideLabel(name, "hover"),
    }, s("line", { class: "hit", ...ends }), line, arrow, cross);
    this.links.set(name, { element, line, arrow, cross, middle: at(length * 0.5, APART + 13), label: null, why: new Set(), shown: "" });
    return element;
  }

  restyle(data) {
    for (const name of data ? Object.keys(data.links ?? {}) : this.links.keys()) {
      const drawn = this.links.get(name);
      const link = store.links.get(name);
      if (!drawn || !link) continue;
      const [look, word] = linkLook(link);
      const all = total(link.per_s) ?? 0;
      const width = (1.4 + Math.log10(1 + all) * 2.2).toFixed(1);
      const key = `${look} ${width} ${word}`;
      if (drawn.shown !== key) {
        drawn.shown = key;
        const isSelected = drawn.element.classList.contains("selected");
        setAttribute(drawn.element, "class", `link ${look}${isSelected ? " selected" : ""}`);
        setAttribute(drawn.element, "aria-description", word);
        setAttribute(drawn.line, "stroke-width", width);
        setAttribute(drawn.cross, "display", look === "down" ? "inline" : "none");
        setAttribute(drawn.arrow, "display", look === "down" ? "none" : "inline");
        if (look === "paused" || look === "down") this.showLabel(name, "state");
        else this.hideLabel(name, "state");
      }
      if (drawn.label) this.fillLabel(name);
    }
    for (const name of data ? Object.keys(data.nodes ?? {}) : this.nodes.keys()) {
      const drawn = this.nodes.get(name);
      const node = store.nodes.get(name);
      if (!drawn || !node) continue;
      const [look, word] = nodeLook(node.state);
      const part = this.parts.get(name);
      const told = [word, part === undefined ? "" : `part ${part + 1}`].filter(Boolean).join(", ");
      const isSelected = drawn.element.classList.contains("selected");
      setAttribute(drawn.element, "class", `node ${look} ${part === undefined ? "" : `part-${part % 4}`}${isSelected ? " selected" : ""}`);
      setAttribute(drawn.word, "class", `word ${look}`);
      setText(drawn.word, told);
      setAttribute(drawn.element, "aria-description", told || "up");
    }
  }

  select({ node, link }) {
    for (const [name, drawn] of this.nodes) drawn.element.classList.toggle("selected", name === node);
    for (const [name, drawn] of this.links) {
      drawn.element.classList.toggle("selected", name === link);
      if (name === link) this.showLabel(name, "selected");
      else this.hideLabel(name, "selected");
    }
  }

  showLabel(name, why) {
    const drawn = this.links.get(name);
    drawn.why.add(why);
    if (drawn.label) return;
    drawn.rect = s("rect", { rx: 6, height: 20 });
    drawn.text = s("text");
    drawn.label = s("g", { class: "label" }, drawn.rect, drawn.text);
    this.labels.append(drawn.label);
    this.fillLabel(name);
  }

  hideLabel(name, why) {
    const drawn = this.links.get(name);
    drawn.why.delete(why);
    if (drawn.why.size || !drawn.label) return;
    drawn.label.remove();
    drawn.label = null;
  }

  fillLabel(name) {
    const drawn = this.links.get(name);
    const link = store.links.get(name);
    const [look, word] = linkLook(link);
    const text = look === "up" ? `${link.zone} ${rate(total(link.per_s))}` : `${link.zone} ${word}`;
    const width = text.length * 7.2 + 16;
    const [x, y] = drawn.middle;
    setText(drawn.text, text);
    setAttribute(drawn.label, "class", `label ${look === "paused" ? "warn" : look === "down" ? "bad" : ""}`);
    setAttribute(drawn.text, "x", x); setAttribute(drawn.text, "y", y);
    setAttribute(drawn.rect, "x", x - width / 2); setAttribute(drawn.rect, "y", y - 10);
    setAttribute(drawn.rect, "width", width);
  }
}

const nameOf = ({ name, answers, region: { x, y, height } }) =>
  s("text", { x: x + 14, y: y + height - 12 }, `Kafka cluster ${name}${answers ? "" : ": does not answer"}`);

const pressed = (call) => (event) => {
  if (event.key !== "Enter" && event.key !== " ") return;
  event.preventDefault();
  call();
  document.getElementById("panel").focus(); // what was asked for stands there
};

function boxOf(kafkas) {
  if (!kafkas.length) return "0 0 100 100";
  const edges = kafkas.map(({ region }) => region);
  const x = Math.min(...edges.map((one) => one.x)) - 12;
  const y = Math.min(...edges.map((one) => one.y)) - 12;
  const wide = Math.max(...edges.map((one) => one.x + one.width)) + 12 - x;
  const high = Math.max(...edges.map((one) => one.y + one.height)) + 12 - y;
  const width = Math.max(wide, innerWidth / SCALE_MAX); // a few nodes do not fill a wall
  return `${x - (width - wide) / 2} ${y} ${width} ${high}`;
}

// The split that stands, or null while the mesh is whole: { parts, since_ms }.
let split = null;

// Takes it from the auditor, or else from the colours of the tree layer; tells whether it is new.
export function noteSplit(audited) {
  const parts = store.mesh.parts;
  const next = audited ?? (parts && isSplit(parts) ? { parts, since_ms: null } : null);
  const isNew = JSON.stringify(next) !== JSON.stringify(split);
  split = next;
  return isNew;
}

function partsOf() {
  return new Map((split?.parts ?? []).flatMap((part, number) => part.map((node) => [node, number])));
}

function splitNote() {
  if (!split) return null;
  return h("p", null, h("span", { class: "pill warn" }, "split"),
    split.since_ms ? ` since ${moment(split.since_ms, now())}: ` : ": ",
    split.parts.map((part, number) => `${number ? " | " : ""}part ${number + 1}: ${part.map(shown).join(", ")}`));
}
