// Elements are made from text alone: no name or message is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export const h = (tag, attributes, ...children) =>
  fill(document.createElement(tag), attributes, children);

export const s = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

// Text of a node changes only where it differs: screen readers and selections stay undisturbed.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element, name, value) {
  const text = String(value);
  if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

// Marks that turn text round, or that nobody sees, are shown, so that no name looks like another.
export const shown = (text) =>
  String(text ?? "").replace(/[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,
    (mark) => `\\u${mark.codePointAt(0).toString(16).padStart(4, "0")}`);

// Text of ours in which `words` that people type stand out.
export const prose = (text) =>
  String(text ?? "").split(/`([^`]+)`/).map((part, place) => (place % 2 ? h("code", null, shown(part)) : shown(part)));

// A cell without anything in it looks as if something was missing.
export const orDash = (text) => shown(text) || "–";

const FOCUSABLE = "a[href], button, input, select, textarea, [tabindex]";

const sameness = (element) =>
  element.id || element.dataset.key || `${element.tagName} ${element.getAttribute("aria-label") ?? element.textContent}`;

// Puts new content into an element for whoever uses it just now: focus, what is half written and
// what was scrolled to stay.
export function renew(element, ...children) {
  const all = [...element.querySelectorAll(FOCUSABLE)];
  const held = all.indexOf(document.activeElement);
  const key = held < 0 ? "" : sameness(all[held]);
  const place = all.slice(0, held).filter((one) => sameness(one) === key).length;
  const written = all.filter((one) => one.id && "defaultValue" in one && one.type !== "file" && one.value !== one.defaultValue);
  const scrolled = all.filter((one) => one.scrollLeft || one.scrollTop).map((one) => [sameness(one), one.scrollLeft, one.scrollTop]);
  const { selectionStart, selectionEnd } = held < 0 ? {} : all[held];
  element.replaceChildren(...children.flat(3).filter((one) => one !== null && one !== undefined && one !== false));
  const fresh = [...element.querySelectorAll(FOCUSABLE)];
  for (const { id, value, defaultValue } of written) {
    const again = fresh.find((one) => one.id === id && one.defaultValue === defaultValue);
    if (again) again.value = value;
  }
  for (const [name, left, top] of scrolled) fresh.find((one) => sameness(one) === name)?.scrollTo(left, top);
  if (held < 0) return;
  const same = fresh.filter((one) => sameness(one) === key);
  const next = same[Math.min(place, same.length - 1)] ?? fresh[Math.min(held, fresh.length - 1)];
  next?.focus({ preventScroll: true });
  if (next && typeof selectionStart === "number" && same.length) next.setSelectionRange(selectionStart, selectionEnd);
}
