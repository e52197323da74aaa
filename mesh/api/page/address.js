// What is shown stands in the address: a link shows a colleague the same.

import { root } from "./feed.js";

export const VIEWS = ["Map", "Interest", "Trace", "Audit", "Findings", "Plan", "Queues", "Roles", "Nodes"];

export function here() {
  const path = location.pathname.slice(root.length).replace(/^\//, "");
  const view = VIEWS.map((name) => name.toLowerCase()).includes(path) ? path : "map";
  const { embed, ...rest } = Object.fromEntries(new URLSearchParams(location.search));
  // `?embed` alone is empty, and what is empty leaves the address.
  return { ...rest, ...(embed === undefined ? {} : { embed: embed || "1" }), view };
}

const KEPT = ["at", "embed"]; // from view to view

export function addressOf(state) {
  const { view, ...rest } = state;
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(rest)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, value);
  }
  const text = query.toString();
  return `${root}/${view}${text ? `?${text}` : ""}`;
}

export function viewAddress(view, more = {}) {
  const present = here();
  const kept = Object.fromEntries(KEPT.filter((name) => name in present).map((name) => [name, present[name]]));
  return addressOf({ view, ...kept, ...more });
}

let listener = () => {};
export const onMove = (call) => { listener = call; addEventListener("popstate", call); };

// Another view, or the same one with something changed.
export function go(view, more = {}) {
  history.pushState(null, "", viewAddress(view, more));
  listener();
}

export function adjust(changes, { replaces = false } = {}) {
  const address = addressOf({ ...here(), ...changes });
  history[replaces ? "replaceState" : "pushState"](null, "", address);
  listener();
}
