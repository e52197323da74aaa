// The feed of changes. It is asked for before the rest of the page is here, for nothing is read
// before changes are followed: what changed between the two would not be told.

export const root = document.querySelector('meta[name="root"]').content;

const RETRY_MS = 2000;
const early = []; // what is heard before anybody listens
let take = (message) => { early.push(message); };

export function onFeed(listener) {
  take = listener;
  early.splice(0).forEach(listener);
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
  const listen = () => port.postMessage({ kind: "follow", address });
  listen();
  addEventListener("pagehide", () => port.postMessage({ kind: "bye" }));
  addEventListener("pageshow", (event) => { if (event.persisted) { listen(); take({ kind: "reset" }); } });
}

follow();
