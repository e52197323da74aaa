// Loaded before all else, and no module: when a file of the page does not come, as where the network
// changes under a browser, nothing else is left that could say so. It is tried again by itself.

const AGAIN_MS = 3000;
let isWaiting = false;

async function again() {
  const answer = await fetch(location.href, { method: "HEAD" }).catch(() => null);
  if (answer?.ok) location.reload(); // not before: a browser's own page would stay
  else setTimeout(again, AGAIN_MS);
}

function tell() {
  const place = document.getElementById("trouble");
  if (!place) { addEventListener("DOMContentLoaded", tell, { once: true }); return; }
  place.textContent = "A part of this page could not be loaded. It is tried again by itself.";
}

addEventListener("error", ({ target }) => {
  if (isWaiting || !(target instanceof HTMLScriptElement)) return;
  isWaiting = true;
  tell();
  setTimeout(again, AGAIN_MS);
}, true);
