// What is proven, minute by minute, and what was found.

import { adjust, go } from "./address.js";
import { h, orDash, prose, setText, shown } from "./dom.js";
import { clock, count, moment, plural } from "./format.js";
import { OFTEN_MS, asking } from "./lists.js";
import { ask, askAll, now, store } from "./store.js";
import { columnsOf, commands, exporting, isTable, mostOf, table, tableButton } from "./table.js";

const MINUTE = 60_000;
const MARK = { equal: "", "not equal": "!", unproven: "?", waiting: "", quiet: "", blind: "" };
const verdict = (row) => (row.equal ? (row.sure === false ? "no proof" : "equal") : "not equal");
const classOf = (cell) => `cell ${cell.replace(" ", "-")}`;
const tint = (row) => (row.kind === "heal" ? "ok" : row.is_fault ? "bad" : "warn");

const EVIDENCE_MAX = 4; // the CSV has all

export const FINDINGS = [
  { name: "kind", of: (row) => h("span", { class: `pill ${tint(row)}` }, shown(row.kind)), text: (row) => row.kind, short: true },
  { name: "first seen", of: (row) => moment(row.first_seen_ms ?? row.first_said_ms, now()), short: true },
  { name: "where", of: (row) => orDash(row.endpoint || row.link || row.path || row.source), short: true },
  { name: "what", of: (row) => shown(row.text) },
  { name: "evidence", of: (row) => [(row.ids ?? []).slice(0, EVIDENCE_MAX).map((id) => h("div", null, evidence(row, String(id)))), (row.evidence ?? []).slice(0, EVIDENCE_MAX).map((one) => h("div", null, h("code", null, shown(text(one)))))], text: (row) => [...(row.ids ?? []), ...(row.evidence ?? []).map(text)].join(" ") },
  { name: "what to do", of: (row) => [h("div", null, prose(row.advice)), (row.commands ?? []).map((one) => h("div", null, h("code", null, shown(one))))], text: (row) => [row.advice, ...(row.commands ?? [])].join(" ") },
  { name: "last said", of: (row) => moment(row.last_said_ms, now()), short: true, isMore: true },
  { name: "finding", of: (row) => h("code", null, shown(row.id)), isMore: true },
];

const text = (one) => (typeof one === "string" ? one : JSON.stringify(one));

function evidence(row, id) {
  const message = id.replace(/(\/\d+)-\d+$/, "$1");
  if (!/\/\d+\/\d+\/\d+$/.test(message)) return h("code", null, shown(id));
  return h("button", { type: "button", class: "mono", title: "Trace this message", onclick: () => go("trace", { id: message }) }, shown(id));
}

const CERTIFICATES = [
  { name: "source", of: (row) => shown(row.source) },
  { name: "block", of: (row) => count(row.block), number: true },
  { name: "offsets", of: (row) => `${count(row.from)} to ${count(row.to)}`, short: true },
  { name: "expected", of: (row) => count(row.expected), number: true },
  { name: "delivered", of: (row) => count(row.delivered), number: true },
  { name: "verdict", of: (row) => h("span", { class: `pill ${{ equal: "ok", "no proof": "warn" }[verdict(row)] ?? "bad"}` }, verdict(row)), text: verdict },
  { name: "said", of: (row) => moment(row.issued_ms, now()), short: true },
];

const MINUTES = 60;
const FEW = 50;

export function audit(state) {
  const chosen = cellOf(state);
  const at = store.at;
  const read = asking(async () => {
    const [heatmap, standing, found, certificates] = await Promise.all([
      ask("audit/heatmap", { minutes: MINUTES, at }), ask("audit", { at }),
      chosen ? askAll("findings", { at, ...chosen }) : ask("findings", { at, limit: FEW }),
      chosen ? askAll("certificates", { at, ...chosen }) : [],
    ]);
    return { heatmap, standing, found, certificates };
  }, (data) => auditParts(state, chosen, data), { everyMs: 2 * OFTEN_MS });
  return { element: read.element, ready: read.ready, close: read.close };
}

// The endpoint and the minute of a cell, as the API is asked for them; null if none is chosen.
function cellOf({ cell = "" }) {
  const cut = cell.lastIndexOf(" ");
  const [endpoint, ms] = [cell.slice(0, cut), Number(cell.slice(cut + 1))];
  if (cut < 1 || !(ms >= 0 && ms < now())) return null;
  // A minute that is not over yet has no end that the server would not call the future.
  const to = ms + MINUTE < now() - 5_000 ? new Date(ms + MINUTE - 1).toISOString() : "";
  return { endpoint, from: new Date(ms).toISOString(), to };
}

function auditParts(state, chosen, { heatmap, standing, found, certificates }) {
  const counts = standing.counts;
  const proven = counts.equal - counts.unsure;
  const rows = heatmap.rows.map((row) => Object.fromEntries([["endpoint", row.endpoint], ["messages", inAll(row)], ...kinds.map((kind) => [kind, minutesOf(row, kind)])]));
  const columns = [
    { name: "endpoint", of: (row) => shown(row.endpoint), short: true },
    { name: "messages", of: (row) => count(row.messages), number: true },
    ...kinds.map((kind) => ({ name: `minutes ${kind}`, of: (row) => row[kind], number: true })),
  ];
  return [
    h("div", { class: "bar" }, h("h2", { class: "title" }, "Audit"), isTable(state) ? exporting("audit", columns, () => rows) : null,
      tableButton(state)),
    heatmap.rows.length ? h("p", { class: "lead" }, hourOf(heatmap)) : null,
    h("p", null,
      h("span", { class: proven ? "pill ok" : "pill" }, `equal ${plural(proven, "certificate")}`), " ",
      h("span", { class: "pill" }, `owed ${count(counts.expected)}, came ${count(counts.delivered)}`), " ",
      counts.unsure ? h("span", { class: "pill warn" }, `no proof ${count(counts.unsure)}`) : null, " ",
      counts.certificates - counts.equal ? h("span", { class: "pill bad" }, `not equal ${count(counts.certificates - counts.equal)}`) : null, " ",
      standing.uncertified ? h("span", { class: "pill" }, `waiting ${plural(standing.uncertified, "range")}`) : null),
    standing.doubts.length ? h("ul", null, standing.doubts.map((doubt) => h("li", null, shown(doubt)))) : null,
    h("p", { class: "legend" }, kinds.map((kind) => h("span", { class: "key" }, h("span", { class: classOf(kind), "aria-hidden": "true" }, MARK[kind]), MEANING[kind]))),
    isTable(state) ? table(columns, rows, { caption: "The last hour", empty: "There is no endpoint to certify." }) : heatmapTable(state, heatmap),
    ...(chosen ? cellParts(state, chosen, heatmap, found, certificates) : newest(state, found)),
    commands(["mesh audit report"]),
  ];
}

const inAll = (row) => row.messages.reduce((sum, one) => sum + (one ?? 0), 0);
const minutesOf = (row, kind) => row.cells.filter((cell) => cell === kind).length;
const isUnusual = (row) => minutesOf(row, "not equal") + minutesOf(row, "unproven") > 0;

// The hour in a sentence: whoever looks at an even heatmap reads what it says.
function hourOf(heatmap) {
  const all = heatmap.rows.length;
  const unusual = heatmap.rows.filter(isUnusual);
  const of = plural(all, "endpoint");
  const blind = heatmap.rows[0].cells.filter((_, place) => heatmap.rows.every((row) => row.cells[place] === "blind")).length;
  const heard = blind ? ` In ${blind} of ${heatmap.rows[0].cells.length} minutes no auditor was heard.` : "";
  if (unusual.length) return `${unusual.length} of ${of} had minutes that are not equal or not proven${all === 1 ? "" : "; they stand first"}.${heard}`;
  const certified = heatmap.rows.filter((row) => minutesOf(row, "equal")).length;
  if (!certified) return `No minute of this hour is certified yet.${heard}`;
  const waiting = heatmap.rows.filter((row) => row.cells.includes("waiting")).length;
  const open = waiting ? ` What came last at ${waiting} of them waits for its certificate.` : "";
  return `${certified === all ? of : `${certified} of ${of}`} got what ${certified === 1 ? "it was" : "they were"} owed, each message once, in every minute that is certified.${open}${heard}`;
}

const kinds = ["equal", "not equal", "unproven", "waiting", "quiet", "blind"];
const MEANING = {
  equal: "equal", "not equal": "not equal", unproven: "unproven", waiting: "waiting",
  quiet: "nothing to certify", blind: "blind: no auditor was heard",
};

function heatmapTable(state, heatmap) {
  if (!heatmap.rows.length) return h("p", { class: "empty" }, "There is no endpoint to certify: nobody subscribes to guaranteed messages.");
  const times = heatmap.rows[0].cells.map((_, place) => heatmap.first_ms + place * MINUTE);
  const chosen = state.cell ?? "";
  let first = true;
  const sorted = [...heatmap.rows].sort((one, other) => isUnusual(other) - isUnusual(one));
  const cellOf = (row, cell, place) => {
    const name = `${row.endpoint} ${times[place]}`;
    const isChosen = name === chosen;
    const isStop = chosen ? isChosen : first;
    first = false;
    return h("td", null, h("button", {
      type: "button", class: `${classOf(cell)} ${levelOf(row, place)}`, tabindex: isStop ? "0" : "-1", "aria-pressed": String(isChosen),
      "data-key": name, "aria-label": `${row.endpoint} ${clock(times[place], { seconds: false })} ${cell}${came(row.messages[place])}`,
      title: `${clock(times[place], { seconds: false })} ${cell}${came(row.messages[place])}`,
      onclick: () => adjust({ cell: isChosen ? "" : name }),
    }, MARK[cell]));
  };
  const body = h("tbody", { onkeydown: walkCells }, sorted.map((row) =>
    h("tr", null, h("th", { scope: "row" }, shown(row.endpoint)), row.cells.map((cell, place) => cellOf(row, cell, place)),
      h("td", { class: "total" }, count(inAll(row))))));
  return h("div", { class: "scroll newest" }, h("table", { class: "heatmap" },
    h("caption", null, "One cell: one endpoint, one minute, filled as high as it was busy"),
    h("thead", null, h("tr", null, h("th", { scope: "col" }, h("span", { class: "unseen" }, "endpoint")),
      times.map((ms) => h("th", { scope: "col" }, h("span", { class: Math.floor(ms / MINUTE) % 10 ? "unseen" : null }, clock(ms, { seconds: false })))),
      h("th", { scope: "col", class: "total" }, "messages"))),
    body));
}

const came = (messages) => (messages ? `, ${plural(messages, "message")}` : "");

// How busy a minute was, in quarters of the busiest of its endpoint.
function levelOf(row, place) {
  const most = Math.max(1, ...row.messages.map((one) => one ?? 0));
  const messages = row.messages[place];
  return messages === null ? "" : `level-${Math.ceil((4 * messages) / most)}`;
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

function newest(state, { items, next }) {
  if (!items.length) return [h("p", { class: "empty" }, nothingFound())];
  const caption = next ? `The newest ${FEW}; Findings has all of them` : titleOf(items);
  return [h("h2", null, "Findings"), rowsOf("findings", FINDINGS, items), foundAs(state, items, caption)];
}

// What coloured a cell: findings of that minute, and certificates that speak for it.
function cellParts(state, { endpoint, from }, heatmap, found, certificates) {
  const ms = Date.parse(from);
  const row = heatmap.rows.find((one) => one.endpoint === endpoint);
  const cell = row?.cells[(ms - heatmap.first_ms) / MINUTE];
  return [
    h("h2", null, `${clock(ms, { seconds: false })}, ${shown(endpoint)}: ${cell ? MEANING[cell] : "not within this hour"}`),
    rowsOf("findings", FINDINGS, found),
    table(columnsOf(state, FINDINGS), found, { caption: "Findings of that minute", empty: "No findings of that minute." }),
    rowsOf("certificates", CERTIFICATES, certificates),
    table(CERTIFICATES, certificates, { caption: "Certificates that cover it", empty: "No certificate names that minute; one that was written later may cover it." }),
  ];
}

const rowsOf = (name, columns, rows) => (rows.length ? h("div", { class: "bar" }, exporting(name, columns, () => rows)) : null);

// On a phone what was found stands one below the other: nobody moves a table about at night.
const isNarrow = () => matchMedia("(max-width: 700px)").matches;

const listOf = (found, label) => h("ul", { class: "found", "aria-label": label }, found.map((row) => {
  const [kind, seen, where, what, proof, todo] = FINDINGS.filter((one) => !one.isMore).map((one) => one.of(row));
  return h("li", null, h("p", null, kind, ` ${seen} `, h("strong", null, where)), h("p", null, what), proof, todo);
}));

const foundAs = (state, found, caption) =>
  (isNarrow() && !isTable(state) ? listOf(found, caption) : table(columnsOf(state, FINDINGS), found, { caption }));

export function findings(state) {
  const limit = mostOf(state, 200);
  let isNew = false;
  let readMs = Date.now();
  let none = null; // the sentence where there are none
  const read = asking(() => askAll("findings", { at: store.at }), (all) => {
    const kinds = [...new Set([...all.map((one) => one.kind), ...(state.kind ? [state.kind] : [])])].sort();
    const found = state.kind ? all.filter((one) => one.kind === state.kind) : all;
    const choice = h("select", { id: "kind", onchange: () => adjust({ kind: choice.value }) }, h("option", { value: "" }, "all kinds"), kinds.map((kind) => h("option", { value: kind, selected: kind === state.kind }, shown(kind))));
    return [
      h("div", { class: "bar" }, h("h2", { class: "title" }, titleOf(found)),
        h("div", null, h("label", { for: "kind" }, "Kind"), choice), exporting("findings", FINDINGS, () => found), tableButton(state)),
      none = found.length ? null : h("p", { class: "empty" }, all.length ? noneOf(state.kind) : nothingFound()),
      found.length ? foundAs(state, found.slice(0, limit), found.length > limit ? `The newest ${limit}; the rest is in the CSV` : "The newest first") : null,
      commands(["mesh audit report", "mesh audit follow"]),
    ];
  });
  // Thousands may be open: they are read when there is something new, and not at every one.
  const again = () => { isNew = false; readMs = Date.now(); read.again(); };
  const timer = setInterval(() => { if (isNew) again(); }, OFTEN_MS);
  return {
    element: read.element, ready: read.ready,
    update: (data) => {
      isNew ||= data?.findings !== undefined;
      if (isNew && Date.now() - readMs > OFTEN_MS) again();
      if (none && data?.proof && !state.kind) setText(none, nothingFound());
    },
    close: () => { clearInterval(timer); read.close(); },
  };
}

// How many are open, as the frame counts them, and what else the auditor noted.
function titleOf(found) {
  const notes = found.filter((one) => !one.is_fault).length;
  const open = found.length - notes;
  return `${plural(open, "finding")}${notes ? ` and ${plural(notes, "note")}` : ""}`;
}

const noneOf = (kind) => `No findings of kind ${shown(kind)}; there are others.`;

function nothingFound() {
  const proof = store.mesh.proof;
  if (store.at && (proof.state === "none" || proof.state === "blind")) return "No findings on record of then; the auditor was not heard.";
  if (proof.state === "none") return "No findings, for no auditor has looked: nothing is proven.";
  if (proof.state === "blind") return `No findings, but the auditor was last heard at ${clock(proof.heard_ms)}.`;
  if (proof.state === "partial") return "No findings so far; not all is proven yet.";
  if (proof.state === "findings") return `No findings; ${proof.text}.`;
  return `No findings; ${proof.until_ms ? `all is proven until ${clock(proof.until_ms)}` : "all is proven"}.`;
}

// The split that stands, as the auditor says it, or null: its parts, and since when.
export function openSplit(all) {
  const [newest] = all.filter((one) => one.kind === "split" || one.kind === "heal");
  if (!newest) return null;
  // What says that parts have come together may leave others apart.
  const leavesApart = Boolean(newest.link) && newest.ids?.length > 1;
  if (newest.kind !== "split" && !leavesApart) return null;
  return { parts: newest.ids.map((part) => String(part).split(",")), since_ms: newest.first_seen_ms ?? newest.first_said_ms };
}
