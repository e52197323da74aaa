// Every view as a table, with all its columns as text for a spreadsheet.

import { adjust, here } from "./address.js";
import { h, renew, shown } from "./dom.js";

// On a phone the map is a table unless somebody wants it drawn.
export const isTable = (state) =>
  (state.table ? state.table === "1" : state.view === "map" && matchMedia("(max-width: 700px)").matches);

// By the button or the key, which may come before the button: which of both is shown stands in the address.
export function turnTable() {
  const state = here();
  const isWanted = !isTable(state);
  adjust({ table: isWanted === isTable({ view: state.view }) ? "" : Number(isWanted) });
}

// A view that is a list anyway shows as a table all that is known: more columns, and more rows.
export const columnsOf = (state, columns) => (isTable(state) ? columns : columns.filter((one) => !one.isMore));
export const mostOf = (state, most) => (isTable(state) ? Math.max(most, ROWS_MAX) : most);
const ROWS_MAX = 2_000; // more make a browser slow; the CSV has all

export const tableButton = (state) =>
  h("button", { type: "button", id: "as-table", "aria-pressed": String(isTable(state)), onclick: turnTable }, "Table");

// A column is { name, of: row => text or element, text: row => plain, number, short, isMore }.
export function table(columns, rows, { caption = "", isTitled = false, empty = "Nothing." } = {}) {
  if (!rows.length) return h("p", { class: "empty" }, empty);
  const kind = (column) => (column.number ? "number" : column.short ? "short" : null);
  const text = (value) => (value instanceof Node || Array.isArray(value) ? value : shown(value));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption || columns.map((c) => c.name).join(", ") },
    h("table", null,
      caption && h("caption", { class: isTitled ? "unseen" : null }, caption), // not where the title above says the same
      h("thead", null, h("tr", null, columns.map((one) =>
        h("th", { scope: "col", class: kind(one) }, one.name || h("span", { class: "unseen" }, "Actions"))))),
      h("tbody", null, rows.map((row) =>
        h("tr", null, columns.map((one) => h("td", { class: kind(one) }, text(one.of(row)))))))));
}

// Puts newer rows where rows are: only cells that differ change, so that focus, what is selected and
// what was scrolled to stay, however often it is done.
export function retable(drawn, ...told) {
  const fresh = table(...told);
  const [old, now] = [drawn, fresh].map((one) => [...one.querySelectorAll("tbody tr")]);
  if (!old.length || old.length !== now.length) {
    renew(drawn, ...fresh.childNodes);
    return;
  }
  old.forEach((row, place) => [...row.cells].forEach((one, column) => {
    const other = now[place].cells[column];
    if (one.textContent !== other.textContent) one.replaceChildren(...other.childNodes);
  }));
}

function cell(column, row) {
  const value = column.text ? column.text(row) : column.of(row);
  const text = value instanceof Node ? value.textContent : Array.isArray(value) ? value.join(" ") : String(value ?? "");
  // A spreadsheet would run what begins like a formula.
  const safe = /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function csv(columns, rows) {
  const named = columns.filter((one) => one.name);
  const lines = [named.map((one) => one.name).join(",")];
  for (const row of rows) lines.push(named.map((one) => cell(one, row)).join(","));
  return `${lines.join("\r\n")}\r\n`;
}

export function exporting(name, columns, rows) {
  const save = () => {
    const address = URL.createObjectURL(new Blob([csv(columns, rows())], { type: "text/csv" }));
    h("a", { href: address, download: `${name}.csv` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  };
  const copy = async (event) => {
    const button = event.currentTarget;
    try {
      await navigator.clipboard.writeText(csv(columns, rows()));
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not allowed";
    }
    setTimeout(() => { button.textContent = "Copy rows"; }, 1500);
  };
  return [
    h("button", { type: "button", onclick: copy }, "Copy rows"),
    h("button", { type: "button", onclick: save }, "Save as CSV"),
  ];
}

export const commands = (lines) =>
  lines.length ? h("pre", { class: "commands mono", tabindex: "0", "aria-label": "Commands" }, lines.map(shown).join("\n")) : null;
