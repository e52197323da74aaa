// Numbers, times, names and states as people read them.

import { store } from "./store.js";

let isLocal = false;
try { isLocal = localStorage.getItem("times") === "local"; } catch { /* storage may be closed */ }

export const timesAreLocal = () => isLocal;

export function showLocalTimes(value) {
  isLocal = value;
  try { localStorage.setItem("times", value ? "local" : "utc"); } catch { /* as above */ }
}

const two = (number) => String(number).padStart(2, "0");

export function clock(ms, { seconds = true } = {}) {
  if (ms === null || ms === undefined) return "–";
  const date = new Date(ms);
  const [hour, minute, second] = isLocal
    ? [date.getHours(), date.getMinutes(), date.getSeconds()]
    : [date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds()];
  return `${two(hour)}:${two(minute)}${seconds ? `:${two(second)}` : ""}`;
}

export function moment(ms, now) {
  if (ms === null || ms === undefined) return "not on record";
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return `${count(ms)} ms`; // in no calendar
  const [month, day] = isLocal
    ? [date.getMonth(), date.getDate()] : [date.getUTCMonth(), date.getUTCDate()];
  const isOld = Math.abs((now ?? Date.now()) - ms) > 20 * 3600 * 1000;
  return `${isOld ? `${two(month + 1)}-${two(day)} ` : ""}${clock(ms)}`;
}

export function age(ms, now) {
  const passed = Math.max(0, Math.round((now - ms) / 1000));
  if (passed < 120) return `${passed} s`;
  if (passed < 7200) return `${Math.round(passed / 60)} min`;
  return `${Math.round(passed / 3600)} h`;
}

// Thousands by thin spaces.
export const count = (number) =>
  number === null || number === undefined ? "?"
    : String(number).replace(/\B(?=(\d{3})+(?!\d))/g, "\u2009");

export const plural = (number, noun, nouns = `${noun}s`) => `${count(number)} ${number === 1 ? noun : nouns}`;

export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return store.at ? "not on record" : "not known";
  const rounded = perSecond >= 10 ? Math.round(perSecond) : Math.round(perSecond * 10) / 10;
  return `${count(rounded)}/s`;
}

export const total = (perS) => (perS ? perS.guaranteed + perS.direct : null);

export const INSIDE_MAX = 5; // letters that stand within a circle

// A long name by its two ends: names of one mesh often begin alike.
export const brief = (name) => (name.length > 12 ? `${name.slice(0, 5)}…${name.slice(-6)}` : name);

// How a link looks: colour, dash and a word say the same.
export function linkLook(link) {
  const { state } = link;
  if (state === null || state === undefined) return ["unknown", "not on record"];
  if (state === "up") {
    return total(link.per_s) > 0 || (link.wanted ?? 1) > 0 ? ["up", "up"] : ["idle", "idle"];
  }
  if (state === "paused" || state === "disabled" || state === "full") return ["paused", state];
  if (state === "unknown") return ["unknown", "unknown"];
  return ["down", state];
}

export function nodeLook(state) {
  if (state === "up") return ["", ""];
  if (state === null || state === undefined) return ["warn", "not on record"];
  return [state === "starting" || state === "never" ? "warn" : "bad", state];
}

export const proofLook = { proven: "ok", partial: "warn", findings: "bad", blind: "bad", none: "warn" };

// A word of a command, as a shell must be given it: names and subjects may hold anything.
export const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`);
