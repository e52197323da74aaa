// One feed for all tabs of a browser: HTTP/1.1 allows six connections to a server.

const ports = new Set();
let source = null;
let isOpen = false;

const tell = (message) => { for (const port of ports) port.postMessage(message); };

function follow(address) {
  source = new EventSource(address);
  source.onopen = () => { isOpen = true; tell({ kind: "open" }); };
  source.onerror = () => { isOpen = false; tell({ kind: "lost" }); };
  for (const kind of ["here", "reset", "change"]) {
    source.addEventListener(kind, (event) => tell({ kind, data: JSON.parse(event.data) }));
  }
}

onconnect = (event) => {
  const port = event.ports[0];
  ports.add(port);
  port.onmessage = ({ data }) => {
    if (data.kind === "bye") ports.delete(port);
    else if (!source) follow(data.address);
    else port.postMessage({ kind: isOpen ? "open" : "lost" });
  };
};
