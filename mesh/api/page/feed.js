// The feed of changes. A page that tells itself how the mesh is follows it once that is on screen:
// the worker is a process more to start. Another one asks for it before the rest of the page is
// here, for nothing is read before changes are followed: what changed between would not be told.

export const root = document.querySelector('meta[name="root"]').content;

// What the server knew as it made this page, and the change behind which it goes on; null while
// the server starts.
export const first = JSON.parse(document.getElementById("first").textContent);

const RETRY_MS = 2000;
const early = []; // what is heard before anybody listens
let take = (message) => { early.push(message); };

export function onFeed(listener) {
  take = listener;
  early.splice(0).forEach(listener);
  if (first) onceShown(follow);
}

// A tab that nobody looks at draws nothing.
function onceShown(action) {
  if (document.hidden) action();
  else requestAnimationFrame(() => setTimeout(action));
}

// Changes come from a worker that all tabs share; a browser that has no such workers, as on some
// phones, gives each tab its own. What was missed comes when it asks again, or `reset`; a tab that
// slept in the browser's memory heard nothing, and reads all.
function follow() {
  const address = new URL(`${root}/api/v1/events`, location.href).href;
  const script = `${root}/static/feed.worker.js`;
  const worker = globalThis.SharedWorker ? new SharedWorker(script) : new Worker(script);
  const port = worker.port ?? worker;
  worker.onerror = () => { take({ kind: "lost" }); setTimeout(follow, RETRY_MS); };
  port.onmessage = ({ data }) => take(data);
  const listen = () => port.postMessage({ kind: "follow", address, after: first?.id ?? "", ping_s: first?.ping_s });
  listen();
  addEventListener("pagehide", () => port.postMessage({ kind: "bye" }));
  addEventListener("pageshow", (event) => { if (event.persisted) { listen(); take({ kind: "reset" }); } });
}

if (!first) follow();
