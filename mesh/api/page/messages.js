// Where messages go, and where one went.

import { adjust, here } from "./address.js";
import { h, orDash, shown } from "./dom.js";
import { count, moment, plural, quoted, rate, total } from "./format.js";
import { FINDINGS } from "./audit.js";
import { OFTEN_MS, asking } from "./lists.js";
import { ask, askAll, now, silentNodes, store } from "./store.js";
import { columnsOf, commands, exporting, isTable, mostOf, table, tableButton } from "./table.js";
import { drawTree } from "./tree.js";

const arrow = (link) => link.replace("->", " → ");

function field(id, label, value, more = {}) {
  const input = h("input", { type: "text", id, value, autocomplete: "off", spellcheck: "false", ...more });
  return [input, h("div", { class: more.list ? null : "grow" }, h("label", { for: id }, label), input)];
}

export function interest(state) {
  const [subject, subjectField] = field("subject", "Subject", state.subject ?? "", { placeholder: "acme/orders/eu" });
  const [from, fromField] = field("from-node", "From node", state.from ?? "", { list: "all-nodes", placeholder: "node" });
  const submit = (event) => {
    event.preventDefault();
    adjust({ subject: subject.value.trim(), from: from.value.trim() });
  };
  const form = h("form", { class: "bar", onsubmit: submit }, subjectField, fromField,
    h("datalist", { id: "all-nodes" }, [...store.nodes.keys()].map((name) => h("option", { value: name }))),
    h("button", { type: "submit" }, "Explain"));
  if (state.subject && state.from) {
    let links = [];
    let ends = null; // what endpoints ask for, by node; read again where that may have changed
    const found = asking(async () => {
      const all = await explained(state);
      links = all.links ?? [];
      if (all.told) ends ??= await filtersByNode();
      return { ...all, ends };
    }, (data) => explanation(state, data), { everyMs: OFTEN_MS });
    const isOther = (one) => store.links.get(one.link)?.state !== one.state;
    return {
      element: h("div", null, form, found.element), ready: found.ready, close: found.close,
      update: (data) => {
        if (data?.nodes) ends = null;
        if (data?.nodes || links.some(isOther)) found.again();
      },
    };
  }
  if (state.subject) {
    const found = asking(() => askAll("interest", { filter: state.subject, at: store.at }), (rows) => [
      barOf(h("h2", { class: "title" }, "Who wants ", h("code", null, shown(state.subject)), "?"), state, rows),
      h("p", { class: "lead" }, "Choose the node where it is published to see its way. Who wants it, and since when:"),
      wanted(state, rows),
    ], { everyMs: OFTEN_MS });
    return { element: h("div", null, form, found.element), ready: found.ready, close: found.close };
  }
  const all = asking(() => askAll("interest", { at: store.at }), (rows) => [
    barOf(h("h2", { class: "title" }, "Interest"), state, rows),
    h("p", { class: "lead" }, "Who gets a message, over which links, and why nobody else? Give its subject and the node where it is published."),
    wanted(state, rows),
  ], { everyMs: OFTEN_MS });
  return { element: h("div", null, form, all.element), ready: all.ready, close: all.close };
}

const WANTED = [
  { name: "node", of: (row) => row.node, short: true },
  { name: "wanted by", of: (row) => (row.by === "endpoint" ? `endpoint ${shown(row.who)}` : row.by === "link" ? `link to ${row.who}` : row.by), short: true },
  { name: "filter", of: (row) => h("code", null, shown(row.filter)) },
  { name: "class", of: (row) => orDash(row.class), short: true, isMore: true },
  { name: "zone", of: (row) => orDash(row.zone), short: true, isMore: true },
  { name: "scope", of: (row) => orDash(row.scope), short: true, isMore: true },
  { name: "asks for", of: (row) => shown(row.interest ?? "not on record") },
  { name: "since", of: (row) => (row.since ? moment(Date.parse(row.since), now()) : "not on record"), short: true },
];

const barOf = (title, state, rows) =>
  h("div", { class: "bar" }, title, rows.length ? exporting("interest", WANTED, () => rows) : null, tableButton(state));

function wanted(state, rows) {
  const limit = mostOf(state, 300);
  const silent = silentNodes();
  return h("div", null,
    silent.length ? h("p", null, `What is wanted at these is not known, for their Kafka cluster does not answer: ${silent.join(", ")}`) : null,
    table(columnsOf(state, WANTED), rows.slice(0, limit), { caption: rows.length > limit ? `The first ${limit} of ${count(rows.length)}` : "Interest", empty: silent.length ? "Nobody that can be reached wants anything like that." : "Nobody wants anything like that." }));
}

async function explained({ subject, from }) {
  const [told, asked] = await Promise.all([
    ask("explain", { subject, from, at: store.at }).catch(unrecorded), askAll("interest", { filter: subject, at: store.at }),
  ]);
  if (told.lacks) return { lacks: told.lacks, asked };
  const links = told.links.map((one) => store.links.get(one.link)).filter(Boolean);
  return { told, asked, links: links.map(({ link, state, per_s, reason }) => ({ link, state, per_s, reason })) };
}

// Of a moment before the topology in force no way can be told, but still who wanted it.
function unrecorded(error) {
  if (error.problems?.some(({ code }) => code === "NOT_ON_RECORD")) return { lacks: error.problems[0].message };
  throw error;
}

async function filtersByNode() {
  const found = {};
  for (const { node, name, subscriptions } of await askAll("endpoints", { at: store.at })) {
    (found[node] ??= []).push({ name, filters: subscriptions.map(({ filter }) => filter) });
  }
  return found;
}

const UNRECORDED = "not on record";
const SHOWN_MAX = 3;
const withMore = (all, of) =>
  [all.slice(0, SHOWN_MAX).map((one, place) => [place ? ", " : "", of(one)]), all.length > SHOWN_MAX ? ` and ${count(all.length - SHOWN_MAX)} more` : ""];

// Whoever misses something at an endpoint sees it by name, with what it asks for instead.
const askedFor = (ends) => (!ends ? "–" : !ends.length ? "it has no endpoint"
  : withMore(ends, ({ name, filters }) => h("span", null, shown(name), ": ", withMore(filters, (one) => h("code", null, shown(one))))));

function explanation(state, { told, asked, links, lacks, ends: byNode }) {
  const known = new Map((links ?? []).map((one) => [one.link, one]));
  const command = commands([`mesh explain ${quoted(state.subject)} --from ${quoted(state.from)}`, `mesh interest`]);
  if (lacks) {
    return [barOf(h("h2", { class: "title" }, "Who wanted it then"), state, asked), h("p", { class: "lead" }, `The way cannot be told: ${shown(lacks)}. What was wanted is:`), wanted(state, asked), command];
  }
  const isDim = (node) => (told.ends_unknown ?? []).includes(node); // its endpoints that have ended since are not on record
  const isSilent = (node) => told.unknown.includes(node); // what it wants now nobody can ask
  const asOf = store.at ? `as of ${moment(told.at_ms, now())}` : "as of now";
  const endpoints = told.reached.flatMap((one) => one.endpoints.map((name) => `${one.node}/${name}`));
  const nodesWith = new Set(told.reached.filter((one) => one.endpoints.length).map((one) => one.node));
  const notes = new Map(told.reached.filter((one) => one.endpoints.length).map((one) => [one.path.join(">"), `=> ${one.endpoints.join(", ")}`]));
  const carried = told.links.map((one) => {
    const [source, target] = one.link.split("->");
    const filters = asked.filter((row) => row.by === "link" && row.node === source && row.who === target).map((row) => row.filter);
    const behind = told.reached.filter(({ path }) => path.some((node, place) => node === source && path[place + 1] === target));
    const ends = behind.flatMap((reached) => reached.endpoints.map((name) => `${reached.node}/${name}`));
    const { per_s = null, reason = "", state = "unknown" } = known.get(one.link) ?? {};
    const word = state ?? UNRECORDED;
    return { ...one, source, target, filters, ends, per_s, word, reason };
  });
  const stand = carried.filter((one) => one.word !== "up" && one.word !== UNRECORDED);
  const isBefore = ({ source, target }, path) => path.some((node, place) => node === source && path[place + 1] === target);
  const waits = new Set(told.reached.filter((one) => one.waits || stand.some((link) => isBefore(link, one.path))).map((one) => one.path.join(">")));
  const CARRIED = [
    { name: "link", of: (row) => h("button", { type: "button", onclick: () => adjust({ link: row.link, node: "" }) }, arrow(row.link)), text: (row) => row.link },
    { name: "zone", of: (row) => row.zone, short: true },
    { name: "because", of: (row) => (row.filters.length ? [`${row.target} asks for `, row.filters.slice(0, 3).map((one) => [h("code", null, shown(one)), " "]), row.filters.length > 3 ? `and ${row.filters.length - 3} more` : ""] : isSilent(row.target) ? `what ${row.target} asks for cannot be known now` : "the link carries it unasked"), text: (row) => (row.filters.length || !isSilent(row.target) ? `${row.target} asks for ${row.filters.join(" ")}` : "not known") },
    { name: "for", of: (row) => row.ends.map(shown).join(", ") },
    { name: store.at ? "then" : "now", of: (row) => (row.reason ? `${row.word}: ${shown(row.reason)}` : row.word) },
    { name: "all on this link", of: (row) => rate(total(row.per_s)), number: true },
  ];
  // First who wants it and does not get it: that is what people come for.
  const endsOf = (node) => (told.unknown.includes(node) ? null : byNode[node] ?? (isDim(node) ? null : []));
  const away = told.not_reached.map((one) => ({ what: one.node, ends: endsOf(one.node), why: `${one.text || one.reason.replaceAll("_", " ")}${one.link ? `; its way ends before ${arrow(one.link)}` : ""}`, wants: one.wants === null ? (store.at ? UNRECORDED : "not known") : one.wants ? "yes" : "no" }));
  const refused = [
    ...away.filter((one) => one.wants === "yes"),
    ...told.reached.filter((one) => !one.endpoints.length).map(({ node }) => ({ what: node, ends: endsOf(node), why: `it ${node === told.source ? "is published" : "comes"} here, and ${isSilent(node) ? "what endpoints here ask for cannot be known now" : isDim(node) ? "endpoints that have ended since are not on record" : "no endpoint here asks for it"}`, wants: isSilent(node) ? "not known" : isDim(node) ? UNRECORDED : "no" })),
    ...away.filter((one) => one.wants !== "yes"),
    ...told.refused.map((one) => ({ what: `${one.node} → ${one.neighbour}`, why: one.text || one.reason.replaceAll("_", " "), wants: "–" })),
  ];
  const REFUSED = [
    { name: "node or link", of: (row) => row.what, short: true },
    { name: "because", of: (row) => shown(row.why) },
    { name: "wants it", of: (row) => row.wants, short: true },
    { name: "its endpoints ask for", of: (row) => askedFor(row.ends), text: (row) => (row.ends ?? []).map(({ name, filters }) => `${name}: ${filters.join(" ")}`).join("; ") },
  ];
  return [
    h("div", { class: "bar" },
      h("h2", { class: "title" }, "Who gets ", h("code", null, shown(told.subject)), ` published at ${told.source}${store.at ? " then" : ""}?`),
      exporting("carried", CARRIED, () => carried),
      tableButton(state)),
    h("p", { class: "lead" }, endpoints.length
      ? `${plural(endpoints.length, "endpoint")} on ${plural(nodesWith.size, "node")}, ${plural(told.links.length, "link")} crossed, 1 copy each · ${asOf}`
      : `Nobody gets it${told.reached.some((one) => isDim(one.node)) ? ", as far as is on record" : ""}: ${plural(told.links.length, "link")} crossed · ${asOf}`),
    told.has_states === false ? h("p", { class: "soft" }, "Which nodes and links were up then is not on record.") : null,
    stand.length ? h("p", null, h("span", { class: "pill warn" }, "not through at once"), ` Not every link on the way is up: ${stand.map((one) => `${arrow(one.link)} is ${one.word}`).join(", ")}.`) : null,
    told.unknown.length ? h("p", null, `Not known, for their Kafka cluster does not answer: ${told.unknown.join(", ")}`) : null,
    isTable(state) ? null : h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The tree of links" }, drawTree(told.reached.map((one) => one.path), { notes, waits })),
    ...told.queues.map((line) => h("p", null, shown(line))),
    h("h2", null, "Carried, because"),
    table(CARRIED, carried, { empty: "No link carries it." }),
    h("div", { class: "bar" }, h("h2", null, "Not carried, one reason each"), refused.length ? exporting("not-carried", REFUSED, () => refused) : null),
    table(REFUSED, refused, { empty: "Every link carries it." }),
    command,
  ];
}

const LOOKED_AT_MAX = 100_000; // newest records of each partition, when somebody asks

export function trace(state) {
  const [id, idField] = field("message", "Message id", state.id ?? "", { placeholder: "mesh.tk1.in.g/0/5" });
  const form = h("form", { class: "bar", onsubmit: (event) => { event.preventDefault(); adjust({ id: id.value.trim() }); } },
    idField, h("button", { type: "submit" }, "Trace"));
  if (!state.id) {
    return { element: h("div", null, form, h("div", { class: "bar" }, h("h2", { class: "title" }, "Trace"), tableButton(state)), isTable(state) ? table(HOPS, [], { empty: "No message was asked for." }) : h("p", { class: "empty" }, "One message hop by hop: its ingress topic, partition and offset, or the id that mesh subscribe prints."), commands(["mesh trace mesh.NODE.in.g/PARTITION/OFFSET"])) };
  }
  const found = asking(() => followed(state), (data) => traced(state, data));
  const note = store.at ? h("p", { class: "soft" }, `What of it was written by ${moment(store.mesh.at_ms, now())}, as far as topics hold it still.`) : null;
  return { element: h("div", null, form, note, found.element), ready: found.ready, close: found.close };
}

// What topics hold of a message, and what the auditor found of it: a record that no hop wrote lies
// where no way leads.
async function followed({ id, last }) {
  const told = await ask(`trace/${id.split("/").map(encodeURIComponent).join("/")}`, { last, at: store.at });
  return { told, findings: await askAll("findings", { message: told.id, at: store.at }) };
}

const HOPS = [
  { name: "step", of: (row) => row.step, short: true },
  { name: "where", of: (row) => row.where, short: true },
  { name: "record", of: (row) => h("code", null, shown(row.place)) },
  { name: "written", of: (row) => (row.ms ? `${moment(row.ms, now())}.${String(row.ms % 1000).padStart(3, "0")}` : "not on record"), short: true },
  { name: "how", of: (row) => row.how },
];

function traced(state, { told: data, findings }) {
  const { ingress } = data;
  const ways = [...data.frames.map((one) => [...one.path, one.link.split("->")[1]]), ...data.deliveries.map((one) => one.path)];
  const notes = new Map();
  for (const one of data.deliveries) {
    const key = one.path.join(">");
    notes.set(key, [notes.get(key), `=> ${one.endpoint.split("/").slice(1).join("/")}`].filter(Boolean).join(" "));
  }
  const twice = data.deliveries.map((one) => one.endpoint).filter((one, place, all) => all.indexOf(one) !== place);
  const rows = [
    { step: "published", where: ingress.node, place: data.id, ms: ingress.created_ms, how: ingress.there ? `${count(ingress.payload_bytes)} bytes, time of the publisher` : "its record is gone" },
    ...data.frames.map((one) => ({ step: "frame", where: arrow(one.link), place: one.place, ms: one.appended_ms, how: `${count(one.messages)} message${one.messages === 1 ? "" : "s"}, ${one.first === one.last ? `offset ${one.first}` : `offsets ${one.first} to ${one.last}`}${one.repair ? ", a repair" : ""}` })),
    ...data.deliveries.map((one) => ({ step: "delivered", where: one.endpoint, place: one.place, ms: one.committed_ms, how: `by ${one.path.join(" → ")}` })),
  ];
  const isFound = ingress.there || data.frames.length || data.deliveries.length || data.refused;
  const timeless = store.at ? data.deliveries.filter((one) => one.committed_ms === null).length : 0;
  return [
    h("div", { class: "bar" }, h("h2", { class: "title" }, shown(data.id)), exporting("trace", HOPS, () => rows), tableButton(state)),
    h("p", { class: "lead" }, !isFound ? (store.at ? "Nothing of this message had been written by then, as far as is on record." : "Nothing of this message is left, if it ever existed.")
      : `${ingress.subject ? `${shown(ingress.subject)}, ` : ""}published at ${ingress.node}, ${{ true: "routed", false: "not routed yet" }[ingress.routed] ?? "whether it was routed is not on record"}: ${data.deliveries.length} deliver${data.deliveries.length === 1 ? "y" : "ies"}, ${data.frames.length} frame${data.frames.length === 1 ? "" : "s"} on its way${data.not_looked_at.length ? "; there may be more in records that were not looked at" : ""}.`),
    timeless ? h("p", { class: "soft" }, `Of ${plural(timeless, "delivery", "deliveries")} it is not on record whether that was before or after then.`) : null,
    data.refused ? h("p", null, h("span", { class: "pill bad" }, "refused"), ` ${shown(data.refused.reason)}: ${shown(data.refused.detail)}`) : null,
    findings.length ? table(columnsOf(state, FINDINGS), findings, { caption: `${count(findings.length)} finding${findings.length === 1 ? " names" : "s name"} it, with the records` }) : null,
    twice.length ? h("p", null, h("span", { class: "pill bad" }, "twice"), ` delivered more than once to ${[...new Set(twice)].map(shown).join(", ")}`) : null,
    data.unknown.length ? h("p", null, `It came to ${data.unknown.join(", ")}, whose Kafka cluster does not answer: what became of it there is not known.`) : null,
    ways.length && !isTable(state) ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Its way" }, drawTree(ways, { notes })) : null,
    table(HOPS, isFound ? rows : [], { caption: "Hop by hop, with the records that prove it", empty: "No record." }),
    data.not_looked_at.length ? h("p", { class: "soft" }, `There may be more in ${data.not_looked_at.map(shown).join(", ")} `,
      state.last ? null : h("button", { type: "button", onclick: () => adjust({ last: LOOKED_AT_MAX }) }, `Look at the newest ${count(LOOKED_AT_MAX)} of each; this takes longer`)) : null,
    commands([`mesh trace ${quoted(data.id)}`]),
  ];
}
