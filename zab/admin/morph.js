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
