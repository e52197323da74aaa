// A way through the mesh drawn from left to right: a node for each step, its children behind it.

import { s, shown } from "./dom.js";
import { INSIDE_MAX, brief } from "./format.js";

const STEP = 150; // from node to node, or more where long notes stand side by side
const LETTER = 7;
const ROW = 78;
const RADIUS = 22;

// Paths are lists of nodes, the same beginnings shared; `notes` is what stands under a node.
export function drawTree(paths, { notes = new Map(), waits = new Set() } = {}) {
  const nodes = new Map();
  for (const path of paths) {
    path.forEach((node, depth) => {
      const key = path.slice(0, depth + 1).join(">");
      if (!nodes.has(key)) nodes.set(key, { key, node, depth, parent: path.slice(0, depth).join(">"), children: [] });
    });
  }
  for (const one of nodes.values()) nodes.get(one.parent)?.children.push(one);
  const longest = Math.max(0, ...[...notes.values()].map((note) => short(note).length));
  const step = Math.max(STEP, longest * LETTER + 16);
  let row = 0;
  const place = (one) => {
    one.children.forEach(place);
    one.y = one.children.length
      ? (one.children[0].y + one.children[one.children.length - 1].y) / 2
      : row++ * ROW;
    one.x = one.depth * step;
  };
  [...nodes.values()].filter((one) => one.depth === 0).forEach(place);
  const all = [...nodes.values()];
  const aside = Math.max(50, (longest * LETTER) / 2 - RADIUS);
  const width = Math.max(0, ...all.map((one) => one.x)) + 2 * (RADIUS + aside);
  const height = Math.max(0, ...all.map((one) => one.y)) + 2 * RADIUS + 56;
  const described = paths.map((path) => path.join(" to ")).join("; ");
  return s("svg", { class: "tree", width, height, viewBox: `${-RADIUS - aside} ${-RADIUS - 22} ${width} ${height}`, role: "img", "aria-label": `ways: ${described}` },
    all.filter((one) => one.parent).map((one) => {
      const from = nodes.get(one.parent);
      return s("path", { class: waits.has(one.key) ? "edge waits" : "edge", d: `M${from.x + RADIUS},${from.y} C${from.x + step / 2},${from.y} ${from.x + step / 2},${one.y} ${one.x - RADIUS},${one.y}` });
    }),
    all.map((one) => s("g", { class: "node" },
      s("circle", { cx: one.x, cy: one.y, r: RADIUS }),
      s("text", one.node.length > INSIDE_MAX ? { class: "name", x: one.x, y: one.y - RADIUS - 10 } : { x: one.x, y: one.y }, brief(one.node), s("title", null, one.node)),
      s("text", { class: "what", x: one.x, y: one.y + RADIUS + 13 }, short(notes.get(one.key) ?? "")))));
}

const short = (text) => (text.length > 34 ? `${shown(text.slice(0, 33))}…` : shown(text));
