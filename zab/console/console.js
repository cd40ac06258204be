"use strict";
// Change only the parts of `old` that differ from `now`. So nothing flickers, and selected text stays selected.
function morph(old, now) {
  if (old.nodeType !== now.nodeType || old.nodeName !== now.nodeName) { old.replaceWith(now.cloneNode(true)); return; }
  if (old.nodeType === Node.TEXT_NODE) { if (old.data !== now.data) old.data = now.data; return; }
  for (const { name } of [...old.attributes ?? []]) if (!now.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of [...now.attributes ?? []]) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const olds = [...old.childNodes], nows = [...now.childNodes];
  nows.forEach((node, i) => i < olds.length ? morph(olds[i], node) : old.append(node.cloneNode(true)));
  olds.slice(nows.length).forEach((node) => node.remove());
}
// Pages that may be refreshed are fetched again every few seconds; the button stops it.
const main = document.querySelector("main"), pause = document.getElementById("pause");
let stopped = false;
async function look() {
  if (stopped || document.hidden) return;
  try {
    const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(15000) });
    const next = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main[data-refresh]");
    if (!answer.ok || !next) throw new Error(answer.status);
    morph(main, next);
    document.querySelector("footer time").textContent = new Date().toISOString().slice(0, 19).replace("T", " ") + " UTC";
    document.body.classList.remove("stale");
  } catch { document.body.classList.add("stale"); }
}
if ("refresh" in main.dataset) {
  pause.hidden = false;
  pause.addEventListener("click", () => {
    stopped = !stopped;
    pause.textContent = stopped ? "Refresh again" : "Pause refreshing";
  });
  setInterval(look, 5000);
}
// A touch shows the value under it as text, as the pointer does with the title.
document.addEventListener("pointerdown", (event) => {
  const hit = event.target.closest?.(".hit");
  if (hit) hit.closest("figure").querySelector(".reading").textContent = hit.querySelector("title").textContent;
});
