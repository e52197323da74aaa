// What is told of one node or one direction of a link, beside the view.

import { adjust, go } from "./address.js";
import { h, renew, s, shown } from "./dom.js";
import { count, linkLook, moment, nodeLook, rate } from "./format.js";
import { ask, now, store } from "./store.js";
import { commands, table } from "./table.js";

const REFRESH_MS = 5000;

export function panelOf(state) {
  const [source, target, ...more] = (state.link ?? "").split("->");
  if (state.link && target && !more.length) return following(`links/${encodeURIComponent(source)}/${encodeURIComponent(target)}`, linkParts);
  if (state.link) return { element: h("div", null, closing(), h("p", null, `No link is called “${shown(state.link)}”: write tk1->ny1.`)), again: () => {}, close: () => {} };
  if (state.node) return following(`nodes/${encodeURIComponent(state.node)}`, nodeParts);
  return null;
}

function following(path, parts) {
  const element = h("div", { "aria-busy": "true" }, h("p", { class: "soft" }, "Reading …"));
  let timer = 0;
  let isOver = false;
  let told = "";
  async function draw({ isForced = false } = {}) {
    clearTimeout(timer);
    let drawn = null;
    try {
      const data = await ask(path, { at: store.at });
      const text = JSON.stringify(data);
      if (text !== told || isForced) drawn = parts(data);
      told = text;
    } catch (error) {
      told = "";
      drawn = [h("p", null, shown(error.message))];
    }
    if (isOver) return;
    element.setAttribute("aria-busy", "false");
    if (drawn) renew(element, closing(), ...drawn);
    clearTimeout(timer);
    if (!store.at) timer = setTimeout(draw, REFRESH_MS);
  }
  draw();
  return { element, again: () => draw({ isForced: true }), close: () => { isOver = true; clearTimeout(timer); } };
}

const closing = () =>
  h("p", { class: "top" }, h("span"), h("button", { type: "button", "data-close": "1", onclick: () => adjust({ node: "", link: "" }) }, "Close"));

const pill = (look, text) => h("span", { class: `pill ${look}` }, text);

function linkParts(link) {
  const [look, word] = linkLook(link);
  const tint = { up: "ok", idle: "", paused: "warn", down: "bad", unknown: "" }[look];
  const since = link.since_ms ? ` since ${moment(link.since_ms, now())}` : "";
  return [
    h("h2", { class: "title" }, `${link.source} → ${link.target}`),
    h("p", { class: "soft" }, `zone ${link.zone}${titled(link.zone)}, ${link.kind} · `, pill(tint, word), since),
    link.reason ? h("p", null, shown(link.reason)) : null,
    h("h2", null, "Messages per second"),
    link.last_minute?.length ? spark(link.last_minute, "the last minute") : link.minutes.length ? spark(link.minutes.map((one) => one.per_s), "an hour") : h("p", { class: "soft" }, store.at ? "not on record" : "nothing in the last minute"),
    table([
      { name: "when", of: (row) => row[0] },
      { name: "guaranteed", of: (row) => row[1], number: true },
      { name: "direct", of: (row) => row[2], number: true },
    ], [
      [!store.at ? "now" : link.over_s > 60 ? "mean of that hour" : "that minute", rate(link.per_s?.guaranteed ?? null), rate(link.per_s?.direct ?? null)],
    ]),
    store.at ? h("p", { class: "soft" }, crossedThen(link.crossed)) : h("p", { class: "soft" }, `waiting: ${count(link.backlog_messages)} messages in ${count(link.backlog_frames)} frames. ${latency(link)}`),
    h("h2", null, `Carries, because ${link.target} asks for`),
    table([
      { name: "filter", of: (row) => h("code", null, shown(row.readable)) },
      { name: "for", of: (row) => (row.for.length ? row.for.map(shown).join(", ") : row.queue ? `queue ${row.queue}` : "nobody that is known") },
    ], link.carries.slice(0, 40), { empty: link.is_carried_known ? "Nothing: nobody behind this link wants anything." : `Not known: the Kafka cluster of ${link.target} does not answer.` }),
    link.carries.length + link.carries_more > 40 ? h("p", { class: "soft" }, `and ${count(link.carries.length + link.carries_more - 40)} more filters`) : null,
    h("h2", null, "Does not carry"),
    store.at ? h("p", { class: "soft" }, "What was kept off this link then is not on record.") : table([
      { name: "messages", of: (row) => count(row.messages), number: true },
      { name: "because", of: (row) => shown(row.text) },
    ], link.refused, { empty: "Nothing was kept off this link." }),
    link.counted_since_ms ? h("p", { class: "soft" }, `counted since ${moment(link.counted_since_ms, now())}`) : null,
    h("h2", null, "Proof"),
    audited(link),
    link.findings.length
      ? h("ul", null, link.findings.map((one) => h("li", null, pill(one.is_fault ? "bad" : "warn", shown(one.kind)), " ", shown(one.text))))
      : h("p", null, "No findings on this link."),
    commands(link.commands),
  ].filter(Boolean);
}

// What people call a zone, where that is not its name.
function titled(zone) {
  const title = store.mesh.zones.find((one) => one.zone === zone)?.title;
  return title && title !== zone ? ` “${shown(title)}”` : "";
}

// How long a message takes just now: known only where the auditor sends some of its own.
function latency({ canaries: areOn, canary }) {
  if (!areOn) return "Latency: canaries are off.";
  if (!canary) return "Latency: no canary has come yet.";
  const { latency_ms: newest, slowest_ms: slowest, lost } = canary;
  const came = newest === undefined ? "no canary has come" : `${newest} ms by the newest canary, ${slowest} ms by the slowest of the last six`;
  return `Latency: ${came}${lost ? `; ${count(lost)} were lost` : ""}.`;
}

// What the auditor wrote of the minute, or of the hour, beside the rates.
function crossedThen(crossed) {
  if (!crossed) return "Bytes, changes of interest and what waited then are not on record.";
  const bytes = crossed.guaranteed_bytes + crossed.direct_bytes;
  const told = [`${count(bytes)} bytes`, `${count(crossed.control)} changes of interest`];
  if (crossed.repairs) told.push(`${count(crossed.repairs)} messages sent again as repairs`);
  if (crossed.waited) told.push(`${count(crossed.waited)} records of the outbox waited all the while`);
  if (crossed.waited === 0) told.push("nothing waited for long");
  return `${told.join(", ")}.`;
}

// What the auditor itself has read on a link, and whether its other end says the same.
function audited({ audited: counts, backlog_messages: waiting }) {
  if (store.at) return h("p", { class: "soft" }, "What the auditor had counted then is not on record.");
  if (!counts) return h("p", { class: "soft" }, "The auditor has counted nothing on this link.");
  const dropped = Object.entries(counts.dropped ?? {}).map(([why, number]) => `${count(number)} ${shown(why.replaceAll("_", " "))}`);
  const lacks = counts.direct - counts.direct_read;
  const direct = !counts.direct ? "" : lacks === 0 ? " Direct messages: sent equals read."
    : ` Direct messages: ${count(counts.direct)} sent, ${count(counts.direct_read)} read${waiting ? ", and some wait" : ""}.`;
  return h("p", null, `The auditor read ${count(counts.messages)} messages in ${count(counts.frames)} frames, and ${count(counts.repairs)} repairs. `
    + "That guaranteed ones follow one another without a gap is checked frame by frame."
    + direct, dropped.length ? ` Dropped: ${dropped.join(", ")}.` : "");
}

function nodeParts(node) {
  const [look, word] = nodeLook(node.state);
  return [
    h("h2", { class: "title" }, node.node),
    h("p", { class: "soft" }, `Kafka cluster ${node.kafka} · `, pill(look || "ok", word || "up"),
      node.since_ms ? ` since ${moment(node.since_ms, now())}` : ""),
    node.published ? h("p", null, `Publishes ${rate(node.published.guaranteed)} guaranteed, ${rate(node.published.direct)} direct.`) : null,
    node.lost_topology ? h("p", null, pill("bad", "reads nothing"), ` mesh.config has lost version ${node.lost_topology}, by which it worked`) : null,
    node.unrecorded_topology ? h("p", null, pill("bad", "may wait"), ` mesh.config has lost version ${node.unrecorded_topology}, by which it works: a worker that has started since reads nothing`) : null,
    ...(node.stopped ?? []).map((one) => h("p", null, pill("bad", "stopped"), " ", shown(one.text))),
    ...(node.endpoints_full ?? []).map((one) => h("p", null, pill("warn", one.state), ` ${shown(one.endpoint)}: ${shown(one.reason)}`)),
    ...(node.paused_subjects ?? []).map((one) => h("p", null, pill("warn", "paused"), " ", h("code", null, shown(one.filter)), one.why ? `: ${shown(one.why)}` : "")),
    node.known_everywhere === false ? h("p", null, pill("warn", "not known everywhere"), ` over ${node.open_links.join(", ")}`) : null,
    h("h2", null, "Endpoints"),
    table([
      { name: "endpoint", of: (row) => [shown(row.name), h("div", { class: "soft" }, `${row.kind}, ${row.class}`)] },
      { name: "filters", of: (row) => row.subscriptions.map((one) => h("div", null, h("code", null, shown(one.filter)))) },
      { name: "gets", of: (row) => rate(row.delivered ? row.delivered.guaranteed + row.delivered.direct : null), number: true },
      { name: "certified, and what waits", of: (row) => [h("div", null, certified(row)), h("div", { class: "soft" }, waiting(row.lag))] },
    ], node.ends, { empty: node.ends_known ? "No endpoints." : "Not known: its Kafka cluster does not answer." }),
    h("h2", null, "Links"),
    table([
      { name: "link", of: (row) => h("button", { type: "button", onclick: () => go("map", { link: row.link }) }, row.link.replace("->", " → ")) },
      { name: "state", of: (row) => linkLook(row)[1], short: true },
      { name: "rate", of: (row) => rate(row.per_s ? row.per_s.guaranteed + row.per_s.direct : null), number: true },
    ], node.directions, { empty: "No links." }),
    node.lanes ? h("p", { class: "soft" }, `${node.lanes} lane${node.lanes === 1 ? "" : "s"}, epoch ${node.epoch}`) : null,
    commands(node.commands),
  ].filter(Boolean);
}

function waiting(lag) {
  if (!lag || lag.readers === null) return "what waits is not on record";
  if (!lag.readers) return "no consumer group reads it";
  return `${count(lag.waiting)} wait for ${shown(lag.slowest)}`;
}

export function certified(endpoint) {
  if (endpoint.class !== "guaranteed") return "direct: checked for duplicates";
  const { certificates, equal, last_ms: last } = endpoint.certified;
  if (!certificates) return "no certificate yet";
  return `${count(equal)} of ${count(certificates)} equal, last ${moment(last, now())}`;
}

function spark(values, over) {
  const top = Math.max(1, ...values);
  const step = 300 / Math.max(1, values.length - 1);
  const points = values.map((value, place) => `${(place * step).toFixed(1)},${(38 - (value / top) * 34).toFixed(1)}`);
  return s("svg", { class: "spark", viewBox: "0 0 300 40", preserveAspectRatio: "none", role: "img", "aria-label": `rates of ${over}, at most ${rate(top)}` },
    s("polyline", { points: points.join(" ") }));
}
