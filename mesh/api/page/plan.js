// What a topology file would change. Nothing is changed here.

import { here } from "./address.js";
import { h, setText, shown } from "./dom.js";
import { count, plural } from "./format.js";
import { ask, store } from "./store.js";
import { commands, exporting, isTable, table, tableButton } from "./table.js";

const BYTES_MAX = 1_048_576; // as of every file of this kind
let kept = ""; // what was sent last, for whoever goes away and comes back
let answer = null; // ... and what came of it: { made } or { error }

export function plan(state) {
  const text = h("textarea", { id: "topology", spellcheck: "false", class: "mono", placeholder: "apiVersion: mesh/v1 …" });
  text.value = kept;
  const file = h("input", { type: "file", id: "topology-file", accept: ".yaml,.yml,.json" });
  const result = h("div", { "aria-live": "polite" });
  let sent = 0;
  const send = async () => {
    const mine = ++sent;
    kept = text.value;
    if (!kept.trim()) { result.replaceChildren(h("p", null, "Give a topology file first.")); return; }
    result.replaceChildren(h("p", { class: "soft" }, "Planning …"));
    try {
      const made = await ask("plan", { allow_delete: allow.checked }, { method: "POST", body: kept, headers: { "Content-Type": "application/yaml" } });
      if (mine === sent) answer = { made };
    } catch (error) {
      if (mine === sent) answer = { error };
    }
    if (mine === sent) show();
  };
  const show = () => result.replaceChildren(...(answer.made ? planned(answer.made) : refused(state, answer.error)).filter(Boolean));
  const take = async (one) => {
    if (!one) return;
    if (one.size > BYTES_MAX) {
      result.replaceChildren(h("p", null, `${shown(one.name)} has ${count(one.size)} bytes, and a topology file at most ${count(BYTES_MAX)}.`));
      return;
    }
    text.value = await one.text();
    send();
  };
  file.addEventListener("change", () => take(file.files[0]));
  const allow = h("input", { type: "checkbox", id: "allow-delete" });
  const drop = h("div", {
    class: "drop",
    ondragover: (event) => { event.preventDefault(); drop.classList.add("over"); },
    ondragleave: () => drop.classList.remove("over"),
    ondrop: (event) => { event.preventDefault(); drop.classList.remove("over"); take(event.dataTransfer.files[0]); },
  },
  h("p", null, h("label", { for: "topology-file" }, "Topology file "), file, " or drop it here, or write it:"),
  h("label", { for: "topology", class: "unseen" }, "Topology"), text,
  h("p", null, h("button", { type: "button", onclick: send }, "Plan"), " ", allow, " ", h("label", { for: "allow-delete" }, "accept that unread messages are lost with their topics")));
  const against = h("p", { class: "soft" });
  const refresh = () => setText(against, `Compared with what is in force: ${store.mesh.mesh}, version ${store.mesh.version}${store.at ? " (a plan is made of now, not of then)" : ""}. Nothing is changed here.`);
  refresh();
  if (answer) show();
  return {
    refresh,
    element: h("div", null,
      h("div", { class: "bar" }, h("h2", { class: "title" }, "What would a change do?"), tableButton(state)),
      against,
      drop, result, commands(["mesh export > mesh.yaml", "mesh plan mesh.yaml", "mesh apply mesh.yaml"])),
  };
}

const editOf = ({ op, link, zone }) => `${op} link ${link.join("-")}${zone ? ` ${op === "move" ? "to" : "from"} zone ${zone}` : ""}`;
const walkOf = (place) => (row) => (row.walks?.[place] ?? []).map(shown).join(" → ");

const PROBLEMS = [
  { name: "where", of: (row) => shown(row.where) },
  { name: "problem", of: (row) => shown(row.message) },
  { name: "one walk", of: walkOf(0) },
  { name: "another", of: walkOf(1) },
  { name: "smallest edit", of: (row) => (row.edit ?? []).map(editOf).join(", ") },
];

function refused(state, error) {
  const problems = error.problems.length ? error.problems : [{ message: error.message, where: "", walks: [], edit: [] }];
  const parts = [
    h("div", { class: "bar" }, h("h2", { class: "title" }, "Refused"), exporting("problems", PROBLEMS, () => problems)),
    h("p", { class: "lead" }, h("span", { class: "pill bad" }, error.problems.length ? plural(error.problems.length, "problem") : "refused"), " nothing would be put in force."),
  ];
  if (isTable(state)) return [...parts, table(PROBLEMS, problems, { caption: "Why it is refused" })];
  for (const one of problems) {
    const walks = one.walks ?? [];
    const last = walks.length ? walks[0][walks[0].length - 1] : "";
    parts.push(h("p", null, one.where ? h("code", null, `${shown(one.where)}: `) : null, shown(one.message)));
    for (const walk of walks) {
      parts.push(h("div", { class: "walk", role: "img", "aria-label": `walk ${walk.join(" to ")}` }, walk.map((node, place) => [place ? "→" : null, h("span", { class: node === last ? "same" : null }, shown(node))])));
    }
    if (one.edit?.length) {
      parts.push(h("p", null, "The smallest edit that makes it legal: ", one.edit.map((edit) => h("code", null, `${editOf(edit)} `))));
    }
  }
  return parts;
}

const value = (one) => (one === null || one === undefined ? "none" : typeof one === "object" ? JSON.stringify(one) : String(one));

const CHANGES = [
  { name: "do", of: (row) => row.action, short: true },
  { name: "what", of: (row) => row.what, short: true },
  { name: "name", of: (row) => shown(row.name), short: true },
  { name: "before and after", of: (row) => attributesOf(row).map((one) => h("div", null, shown(one))), text: (row) => attributesOf(row).join("; ") },
];

const attributesOf = (row) => row.attributes.map((one) => `${one.name}: ${value(one.before)} → ${value(one.after)}`);

const MOVES = [
  { name: "before", of: (row) => row.old.nodes.join(" → ") },
  { name: "after", of: (row) => row.new.nodes.join(" → ") },
  { name: "walks", of: (row) => count(row.walks), number: true },
];

const REACH = [
  { name: "published at", of: (row) => row.source, short: true },
  { name: "newly reaches", of: (row) => row.gained.join(", ") },
  { name: "no longer reaches", of: (row) => row.lost.join(", ") },
  { name: "links crossed", of: (row) => `${row.links_before ?? "–"} → ${row.links_after ?? "–"}`, short: true },
];

const UNREAD = [
  { name: "topic", of: (row) => shown(row.topic) },
  { name: "records", of: (row) => count(row.records), number: true },
  { name: "what becomes of them", of: (row) => (row.is_read ? `${row.reader} reads them first` : "lost") },
];

function planned(made) {
  const changes = made.changes;
  const moves = made.reach.moves;
  const sources = made.reach.sources;
  if (!changes.length) return [h("h2", null, "Plan"), h("p", { class: "lead" }, "It changes nothing: what is in force says the same.")];
  return [
    h("h2", null, "Plan"),
    h("p", { class: "lead" }, `${plural(changes.length, "change")}, ${plural(moves.reduce((sum, one) => sum + one.walks, 0), "walk")} that move, ${plural(made.topics.created.length, "topic")} to create, ${count(made.topics.deleted.length)} to delete.`),
    h("div", { class: "bar" }, exporting("changes", CHANGES, () => changes)),
    table(CHANGES, changes, { caption: "What changes" }),
    moves.length ? h("div", { class: "bar" }, exporting("walks", MOVES, () => moves)) : null,
    table(MOVES, moves, { caption: "Walks that move, each a cut-over", empty: "No walk moves." }),
    sources.length ? h("div", { class: "bar" }, exporting("reach", REACH, () => sources)) : null,
    table(REACH, sources, { caption: "Reach, if everybody wants everything", empty: "Every node reaches the same nodes as before." }),
    made.unread.length ? h("div", { class: "bar" }, exporting("unread", UNREAD, () => made.unread)) : null,
    made.unread.length ? table(UNREAD, made.unread, { caption: "Guaranteed messages in topics that go" }) : null,
    made.restart.length ? h("p", null, `To be started again with the changed file: ${made.restart.join(", ")}`) : null,
  ];
}
