// What is proven, minute by minute, and what was found.

import { adjust, go } from "./address.js";
import { h, shown } from "./dom.js";
import { clock, count, moment } from "./format.js";
import { asking } from "./lists.js";
import { ask, askAll, now, store } from "./store.js";
import { commands, exporting, table } from "./table.js";

const MINUTE = 60_000;
const MARK = { equal: "", "not equal": "!", unproven: "?", waiting: "", quiet: "", blind: "" };
const verdict = (row) => (row.equal ? (row.sure === false ? "no proof" : "equal") : "not equal");
const classOf = (cell) => `cell ${cell.replace(" ", "-")}`;
const tint = (row) => (row.kind === "heal" ? "ok" : row.is_news || row.kind === "split" || row.kind === "unproven" ? "warn" : "bad");

export const FINDINGS = [
  { name: "kind", of: (row) => h("span", { class: `pill ${tint(row)}` }, shown(row.kind)), text: (row) => row.kind, short: true },
  { name: "first seen", of: (row) => moment(row.first_seen_ms ?? row.first_said_ms, now()), short: true },
  { name: "where", of: (row) => shown(row.endpoint || row.link || row.path || row.source || ""), short: true },
  { name: "what", of: (row) => shown(row.text) },
  { name: "evidence", of: (row) => [(row.ids ?? []).slice(0, 4).map((id) => h("div", null, evidence(row, String(id)))), (row.evidence ?? []).slice(0, 4).map((one) => h("div", null, h("code", null, shown(text(one)))))], text: (row) => [...(row.ids ?? []), ...(row.evidence ?? []).map(text)].join(" ") },
  { name: "what to do", of: (row) => [h("div", null, shown(row.advice)), (row.commands ?? []).map((one) => h("div", null, h("code", null, shown(one))))], text: (row) => row.advice },
];

const text = (one) => (typeof one === "string" ? one : JSON.stringify(one));

function evidence(row, id) {
  const message = id.replace(/(\/\d+)-\d+$/, "$1");
  if (!/\/\d+\/\d+\/\d+$/.test(message)) return h("code", null, shown(id));
  return h("button", { type: "button", class: "mono", title: "Trace this message", onclick: () => go("trace", { id: message }) }, shown(id));
}

const CERTIFICATES = [
  { name: "source", of: (row) => shown(row.source) },
  { name: "block", of: (row) => row.block, number: true },
  { name: "offsets", of: (row) => `${row.from} to ${row.to}`, short: true },
  { name: "expected", of: (row) => count(row.expected), number: true },
  { name: "delivered", of: (row) => count(row.delivered), number: true },
  { name: "verdict", of: (row) => h("span", { class: `pill ${row.equal ? "ok" : "bad"}` }, verdict(row)), text: verdict },
  { name: "said", of: (row) => moment(row.issued_ms, now()), short: true },
];

export function audit(state) {
  const minutes = 60;
  let timer = 0;
  const read = asking(async () => {
    const [wall, standing, found] = await Promise.all([
      ask("audit/wall", { minutes, at: store.at }), ask("audit", { at: store.at }), askAll("findings", { at: store.at }),
    ]);
    return { wall, standing, found };
  }, (data) => auditParts(state, data));
  if (!store.at) {
    timer = setInterval(read.again, 10_000);
  }
  return { element: read.element, ready: read.ready, close: () => { clearInterval(timer); read.close(); } };
}

function auditParts(state, { wall, standing, found }) {
  const counts = standing.counts;
  const isTable = state.table === "1";
  const rows = wall.rows.map((row) => Object.fromEntries([["endpoint", row.endpoint], ...kinds.map((kind) => [kind, row.cells.filter((cell) => cell === kind).length])]));
  const columns = [
    { name: "endpoint", of: (row) => shown(row.endpoint), short: true },
    ...kinds.map((kind) => ({ name: `minutes ${kind}`, of: (row) => row[kind], number: true })),
  ];
  return [
    h("div", { class: "bar" }, h("h2", { class: "title" }, "Audit"), isTable ? exporting("audit", columns, () => rows) : null,
      h("button", { type: "button", "aria-pressed": String(isTable), onclick: () => adjust({ table: isTable ? "" : "1" }) }, "Table")),
    h("p", null,
      h("span", { class: counts.equal ? "pill ok" : "pill" }, `equal ${count(counts.equal)} certificates, ${count(counts.delivered)} of ${count(counts.expected)} deliveries`), " ",
      counts.certificates - counts.equal ? h("span", { class: "pill bad" }, `not equal ${count(counts.certificates - counts.equal)}`) : null, " ",
      standing.uncertified ? h("span", { class: "pill" }, `waiting ${count(standing.uncertified)} ranges`) : null),
    standing.doubts.length ? h("ul", null, standing.doubts.map((doubt) => h("li", null, shown(doubt)))) : null,
    h("p", { class: "legend" }, kinds.map((kind) => h("span", { class: "key" }, h("span", { class: classOf(kind), "aria-hidden": "true" }, MARK[kind]), MEANING[kind]))),
    isTable ? table(columns, rows, { caption: "The last hour", empty: "No endpoint is to be certified." }) : wallTable(state, wall),
    ...cellParts(state, wall, found),
    commands(["mesh audit report"]),
  ];
}

const kinds = ["equal", "not equal", "unproven", "waiting", "quiet", "blind"];
const MEANING = {
  equal: "equal", "not equal": "not equal", unproven: "unproven", waiting: "waiting",
  quiet: "nothing to certify", blind: "blind: no auditor was heard",
};

function wallTable(state, wall) {
  if (!wall.rows.length) return h("p", { class: "empty" }, "No endpoint is to be certified: nobody subscribes guaranteed messages.");
  const times = wall.rows[0].cells.map((_, place) => wall.first_ms + place * MINUTE);
  const chosen = state.cell ?? "";
  let first = true;
  const cellOf = (row, cell, place) => {
    const name = `${row.endpoint} ${times[place]}`;
    const isChosen = name === chosen;
    const isStop = chosen ? isChosen : first;
    first = false;
    return h("td", null, h("button", {
      type: "button", class: classOf(cell), tabindex: isStop ? "0" : "-1", "aria-pressed": String(isChosen),
      "data-key": name, "aria-label": `${row.endpoint} ${clock(times[place], { seconds: false })} ${cell}`,
      onclick: () => adjust({ cell: isChosen ? "" : name }),
    }, MARK[cell]));
  };
  const body = h("tbody", { onkeydown: walkCells }, wall.rows.map((row) =>
    h("tr", null, h("th", { scope: "row" }, shown(row.endpoint)), row.cells.map((cell, place) => cellOf(row, cell, place)))));
  return h("div", { class: "scroll" }, h("table", { class: "wall" },
    h("caption", null, "One cell is one endpoint and one minute"),
    h("thead", null, h("tr", null, h("th", { scope: "col" }, h("span", { class: "unseen" }, "endpoint")),
      times.map((ms) => h("th", { scope: "col" }, h("span", { class: Math.floor(ms / MINUTE) % 10 ? "unseen" : null }, clock(ms, { seconds: false })))))),
    body));
}

function walkCells(event) {
  const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  const cell = event.target.closest("td");
  if (!move || !cell) return;
  const row = cell.parentElement;
  const next = row.parentElement.rows[row.sectionRowIndex + move[0]]?.cells[cell.cellIndex + move[1]]?.querySelector("button");
  if (!next) return;
  event.preventDefault();
  event.target.setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
}

function cellParts(state, wall, found) {
  if (!state.cell) {
    return found.length
      ? [h("h2", null, "Findings"), table(FINDINGS, found.slice(0, 50), { caption: `${count(found.length)} open` })]
      : [h("p", { class: "empty" }, nothingFound())];
  }
  const cut = state.cell.lastIndexOf(" ");
  const [endpoint, ms] = [state.cell.slice(0, cut), Number(state.cell.slice(cut + 1))];
  const here = found.filter((one) => one.endpoint === endpoint && one.first_said_ms < ms + MINUTE && one.last_said_ms >= ms);
  const listed = asking(() => askAll("certificates", { endpoint, from: new Date(ms).toISOString(), to: new Date(Math.min(ms + MINUTE - 1, now() - 1)).toISOString() }),
    (items) => [table(CERTIFICATES, items, { caption: "Certificates of that minute", empty: "No certificate that still stands was written in that minute; a later one may speak for it." })]);
  return [
    h("h2", null, `${clock(ms, { seconds: false })}, ${shown(endpoint)}: ${here.length} finding${here.length === 1 ? "" : "s"}`),
    table(FINDINGS, here, { empty: "No findings." }),
    listed.element,
  ];
}

export function findings(state) {
  let timer = 0;
  const limit = 200;
  const read = asking(() => askAll("findings", { at: store.at }), (all) => {
    const kinds = [...new Set(all.map((one) => one.kind))].sort();
    const found = state.kind ? all.filter((one) => one.kind === state.kind) : all;
    const choice = h("select", { id: "kind", onchange: () => adjust({ kind: choice.value }) }, h("option", { value: "" }, "all kinds"), kinds.map((kind) => h("option", { value: kind, selected: kind === state.kind }, kind)));
    return [
      h("div", { class: "bar" }, h("h2", { class: "title" }, `${count(found.length)} finding${found.length === 1 ? "" : "s"}`),
        h("div", null, h("label", { for: "kind" }, "Kind"), choice), exporting("findings", FINDINGS, () => found)),
      found.length ? null : h("p", { class: "empty" }, nothingFound()),
      found.length ? table(FINDINGS, found.slice(0, limit), { caption: found.length > limit ? `The newest ${limit}; the rest is in the CSV` : "The newest first" }) : null,
      commands(["mesh audit report", "mesh audit follow"]),
    ];
  });
  if (!store.at) timer = setInterval(read.again, 5_000);
  return { element: read.element, ready: read.ready, close: () => { clearInterval(timer); read.close(); } };
}

function nothingFound() {
  const proof = store.mesh.proof;
  if (proof.state === "none") return "No findings, for no auditor has looked: nothing is proven.";
  if (proof.state === "blind") return `No findings, but the auditor was last heard at ${clock(proof.heard_ms)}.`;
  if (proof.state === "partial") return "No findings so far; not all is proven yet.";
  if (proof.state === "findings") return "No findings of this kind.";
  return `No findings; ${proof.until_ms ? `all is proven until ${clock(proof.until_ms)}` : "all is proven"}.`;
}

// The split that stands, as the auditor says it, or null: its parts, and since when.
export function openSplit(all) {
  const [newest] = all.filter((one) => one.kind === "split" || one.kind === "heal");
  if (newest?.kind !== "split") return null;
  return { parts: newest.ids.map((part) => String(part).split(",")), since_ms: newest.first_seen_ms ?? newest.first_said_ms };
}
