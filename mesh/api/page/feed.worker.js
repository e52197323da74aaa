// One feed for all tabs of a browser: HTTP/1.1 allows six connections to a server.
//
// The browser gives a feed up for good once a server answers with an error, as ours does while it
// starts. So whatever ends a feed, it is asked for again here, from the change seen last.

const RETRY_MS = 1000;
const RETRY_SPREAD_MS = 1500; // viewers of a server that comes back do not all come at once

const KEPT_MAX = 60; // changes that a page may have missed while it was on its way

const ports = new Set();
const kept = []; // the newest changes: { id, data }
let address = "";
let source = null;
let isOpen = false;
let wasLost = false;
let lastId = "";
let silence = 0; // fires when nothing was heard for too long
let silentMs = 60_000;

const tell = (message) => { for (const port of ports) port.postMessage(message); };

const numberOf = (id) => Number(id.slice(id.lastIndexOf("-") + 1));
const runOf = (id) => id.slice(0, id.lastIndexOf("-"));

function open() {
  source = new EventSource(lastId ? `${address}?after=${encodeURIComponent(lastId)}` : address);
  source.onopen = () => { isOpen = true; tell({ kind: "open" }); };
  source.onerror = lose;
  for (const kind of ["here", "reset", "change"]) source.addEventListener(kind, (event) => take(kind, event));
  source.addEventListener("ping", ({ data }) => { listen(); tell({ kind: "ping", data: JSON.parse(data) }); });
  listen();
}

function take(kind, { data, lastEventId }) {
  const said = JSON.parse(data);
  expect(said.ping_s);
  listen();
  lastId = lastEventId;
  if (kind !== "change") kept.length = 0;
  else if (kept.push({ id: lastEventId, data: said }) > KEPT_MAX) kept.shift();
  tell({ kind: kind === "here" && wasLost ? "reset" : kind, data: said });
}

// After this long without a word the connection is dead, whatever the browser believes of it.
function expect(ping_s) {
  if (ping_s) silentMs = ping_s * 2500;
}

// A page begins with what was known at `after`: it is told what has changed since.
function bringUp(port, after) {
  if (!after || after === lastId) return;
  const isSame = runOf(after) === runOf(lastId);
  const missed = kept.filter(({ id }) => numberOf(id) > numberOf(after));
  const isWhole = isSame && missed.length >= numberOf(lastId) - numberOf(after);
  if (!isWhole) { port.postMessage({ kind: "reset" }); return; }
  for (const { data } of missed) port.postMessage({ kind: "change", data });
}

function listen() {
  clearTimeout(silence);
  silence = setTimeout(lose, silentMs);
}

// A feed does not say why it is refused; another answer tells whether to log in anew.
async function tellWhy() {
  const answer = await fetch(address, { method: "HEAD" }).catch(() => null);
  if (answer?.status === 401) tell({ kind: "login" });
}

function lose() {
  clearTimeout(silence);
  source.close();
  isOpen = false;
  wasLost = true;
  tell({ kind: "lost" });
  tellWhy();
  setTimeout(open, RETRY_MS + Math.random() * RETRY_SPREAD_MS);
}

function join(port) {
  port.onmessage = ({ data }) => {
    if (data.kind === "bye") { ports.delete(port); return; }
    ports.add(port);
    if (!source) {
      address = data.address;
      lastId = data.after;
      expect(data.ping_s);
      open();
    } else if (isOpen) { port.postMessage({ kind: "open" }); bringUp(port, data.after); }
    else if (wasLost) port.postMessage({ kind: "lost" });
  };
}

if ("onconnect" in self) self.onconnect = (event) => join(event.ports[0]);
else join(self); // the worker of one tab

