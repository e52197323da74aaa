// One feed for all tabs of a browser: HTTP/1.1 allows six connections to a server.
//
// The browser gives a feed up for good once a server answers with an error, as ours does while it
// starts. So whatever ends a feed, it is asked for anew here, from the change seen last.

const RETRY_MS = 1000;
const RETRY_SPREAD_MS = 1500; // viewers of a server that comes back do not all come at once

const ports = new Set();
let address = "";
let source = null;
let isOpen = false;
let wasLost = false;
let lastId = "";
let silence = 0; // fires when nothing was heard for too long
let silentMs = 60_000;

const tell = (message) => { for (const port of ports) port.postMessage(message); };

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
  // After this long without a word the connection is dead, whatever the browser believes of it.
  if (said.ping_s) silentMs = said.ping_s * 2500;
  listen();
  lastId = lastEventId;
  tell({ kind: kind === "here" && wasLost ? "reset" : kind, data: said });
}

function listen() {
  clearTimeout(silence);
  silence = setTimeout(lose, silentMs);
}

function lose() {
  clearTimeout(silence);
  source.close();
  isOpen = false;
  wasLost = true;
  tell({ kind: "lost" });
  setTimeout(open, RETRY_MS + Math.random() * RETRY_SPREAD_MS);
}

function join(port) {
  port.onmessage = ({ data }) => {
    if (data.kind === "bye") { ports.delete(port); return; }
    ports.add(port);
    if (!source) { address = data.address; open(); }
    else if (isOpen) port.postMessage({ kind: "open" });
    else if (wasLost) port.postMessage({ kind: "lost" });
  };
}

if ("onconnect" in self) self.onconnect = (event) => join(event.ports[0]);
else join(self); // the worker of one tab

