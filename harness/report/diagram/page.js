"use strict";
// Draw the picture in #data. Only items in view are drawn, and at most DRAWN_MAX of them, so that the page stays responsive.
const DRAWN_MAX = 2500, GUTTER = 104, TOP = 46, CLIENT = 54, BAND = 15;
let LANE = 118;  // less where there are many servers
const data = JSON.parse(document.getElementById("data").textContent);
const COLOURS = {
  election: "#8e5bb5", discovery: "#1d8a99", synchronization: "#d0761b", broadcast: "#2f7d4f", barrier: "#b0397a",
  requests: "#3d6fb6", clients: "#3d6fb6", heartbeat: "#b3bac5", links: "#8793a5", notes: "#55606f", state: "#2f7d4f",
  disk: "#6b7c93", process: "#c0392b",
};
const STATES = {
  looking: "#f0cf86", elected: "#e8a87c", joins: "#a9c4e8", follows: "#4a80c4", leads: "#2f7d4f", paused: "#b9a3d0",
};
const text = number => data.texts[number];
const events = data.events.map(([at, lane, family, label, words, led], number) => (
  {number, at, lane, family: text(family), label: text(label), words: text(words), led: !!led, ends: false}));
const messages = data.messages.map(([source, target, sent, received, lost, family, label]) => (
  {source, target, sent: events[sent], received: received === null ? null : events[received], lost: !!lost,
    family: text(family), label: text(label)}));
for (const each of messages) { each.sent.ends = true; if (each.received) each.received.ends = true; }
const view = {from: 0, to: 1, even: true, led: !data.valid, hidden: new Set(["heartbeat", "links"]), away: new Set()};

// -- time: that of the clock, or one in which each moment with an event takes about the same room ---------------------

let times = [], places = [];
function measure() {
  const marks = new Set([0, data.end]);
  for (const each of events) if (shown(each)) marks.add(each.at);
  for (const [begin, end] of data.shades) { marks.add(begin); marks.add(end); }
  times = [...marks].sort((a, b) => a - b);
  places = [0];
  for (let at = 1; at < times.length; at++) {
    const gap = times[at] - times[at - 1];
    places.push(places[at - 1] + (view.even ? Math.min(0.25 + gap / 1500, 1 + Math.log10(1 + gap / 1500)) : gap));
  }
  const whole = places[places.length - 1] || 1;
  places = places.map(place => place / whole);
}
function between(value, from, to) {
  let low = 0, high = from.length - 1;
  if (value <= from[0]) return to[0];
  if (value >= from[high]) return to[high];
  while (high - low > 1) { const middle = (low + high) >> 1; if (from[middle] <= value) low = middle; else high = middle; }
  const span = from[high] - from[low];
  return to[low] + (span ? (value - from[low]) / span : 0) * (to[high] - to[low]);
}
const place = at => between(at, times, places);
const moment = share => between(share, places, times);

function shown(event) {
  return !view.hidden.has(event.family) && !view.away.has(event.lane) && (!view.led || event.led);
}

// -- room ------------------------------------------------------------------------------------------------------------

const stage = document.getElementById("stage"), overview = document.getElementById("overview");
let width = 0, middles = [], height = 0;
function lay() {
  width = Math.max(480, stage.clientWidth || document.body.clientWidth);
  const rows = data.lanes.filter(([, server], lane) => server && !view.away.has(lane)).length || 1;
  const others = data.lanes.filter(([, server], lane) => !server && !view.away.has(lane)).length;
  const free = innerHeight - stage.getBoundingClientRect().top - scrollY - TOP - 60 - CLIENT * others;
  LANE = Math.round(Math.min(150, Math.max(66, free / rows)));
  let y = TOP;
  middles = data.lanes.map(([, server], lane) => {
    if (view.away.has(lane)) return null;
    const tall = server ? LANE : CLIENT, middle = y + tall / 2;
    y += tall;
    return middle;
  });
  height = y + 8;
}
const across = at => GUTTER + (place(at) - view.from) / (view.to - view.from) * (width - GUTTER - 16);
const back = x => moment(view.from + (x - GUTTER) / (width - GUTTER - 16) * (view.to - view.from));

// -- drawing ---------------------------------------------------------------------------------------------------------

const escape = words => String(words).replace(/[&<>"]/g, one => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}[one]));
const ms = at => `${(at / 1000).toFixed(at % 1000 ? 3 : 0)} ms`;
const line = (x1, y1, x2, y2, kind) => `<line x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" class="${kind}"/>`;
let tips = [];
function tip(...lines) { tips.push(lines); return `data-tip="${tips.length - 1}"`; }

class Room {  // where words stand already: two must not cover each other
  constructor() { this.rows = new Map(); }
  take(x, y, words, size = 6.1) {
    const row = Math.round(y / 12), wide = words.length * size + 4;
    if (x + wide > width || x < GUTTER) return false;
    for (let near = row - 1; near <= row + 1; near++)
      for (const [from, to] of this.rows.get(near) || []) if (x < to && x + wide > from) return false;
    if (!this.rows.has(row)) this.rows.set(row, []);
    this.rows.get(row).push([x, x + wide]);
    return true;
  }
}

function grid(left, right) {
  const made = [], room = [];  // of what is shown: where, and when
  const step = view.even ? 0 : [.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].find(each => (right - left) / 1000 / each < 14) * 1000;
  const marks = step ? Array.from({length: 16}, (_, number) => (Math.ceil(left / step) + number) * step).filter(at => at <= right)
    : times.filter(at => at >= left && at <= right);
  for (const at of marks) {
    const x = across(at);
    if (x >= GUTTER && !room.some(([other]) => Math.abs(other - x) < 54)) room.push([x, at]);
  }
  const told = digits => room.map(([, at]) => (at / 1000).toFixed(digits));
  const fewest = !step && right - left < 40000 ? 1 : 0;
  const all = told([0, 1, 2].find(digits => digits >= fewest && new Set(told(digits)).size === room.length && (!step || step >= 1000 / 10 ** digits)) ?? 3);
  for (const [number, [x]] of room.entries()) {
    const words = all[number];
    made.push(line(x, TOP - 4, x, height - 6, "grid"), `<text class="tick" x="${x}" y="${TOP - 10}" text-anchor="middle">${words}</text>`);
  }
  made.push(`<text class="tick" x="10" y="${TOP - 10}">milliseconds</text>`);
  return made.join("");
}

function shades(left, right, room) {
  const made = [];
  for (const [begin, end, lanes, label] of data.shades) {
    if (end < left || begin > right) continue;
    const x = Math.max(GUTTER, across(begin)), wide = Math.max(2, across(end) - x);
    const rows = lanes.length ? lanes.filter(lane => middles[lane] !== null).map(lane => [middles[lane] - LANE / 2 + 4, LANE - 8])
      : [[TOP - 6, height - TOP - 2]];
    const about = tip(label, `${ms(begin)} to ${ms(end)}`);
    for (const [y, tall] of rows) {
      made.push(`<rect class="shade" x="${x}" y="${y}" width="${wide}" height="${tall}" ${about}/>`, line(x, y, x, y + tall, "edge"));
      if (wide > 3) made.push(line(x + wide, y, x + wide, y + tall, "edge"));
    }
    let y = rows.length ? rows[0][0] - 5 : TOP;
    if (!lanes.length) y = TOP + 6;
    const words = Math.max(GUTTER, Math.min(x + 3, width - 7 * label.length - 16));
    for (let tries = 0; tries < 4 && !room.take(words, y, label, 6.6); tries++) y += 13;
    made.push(`<text class="fault word" x="${words}" y="${y + 3}" ${about}>${escape(label)}</text>`);
  }
  return made.join("");
}

function bands(left, right, room) {
  const made = [], words = [];
  for (const [lane, begin, end, state, label] of data.bands) {
    const y = middles[lane];
    if (y === null || end < left || begin > right) continue;
    const x = Math.max(GUTTER, across(begin)), wide = Math.max(1, Math.min(width, across(end)) - x);
    const about = tip(`${data.lanes[lane][0]} ${label || "is not started yet"}`, `${ms(begin)} to ${ms(end)}`);
    if (state === "down") made.push(`<line x1="${x}" x2="${x + wide}" y1="${y}" y2="${y}" stroke="#c9ced6" stroke-width="2" stroke-dasharray="2 5" ${about}/>`);
    else made.push(`<rect class="band" x="${x}" y="${y - BAND / 2}" width="${wide}" height="${BAND}" fill="${STATES[state]}" ${about}/>`);
    const dark = !["leads", "follows"].includes(state);
    if (label && wide > label.length * 6.3 + 8)
      { room.take(x + 5, y + 4, label, 6.6); words.push(`<text class="what${dark ? " dark" : ""}" x="${x + 5}" y="${y + 4}" pointer-events="none">${escape(label)}</text>`); }
  }
  return [made.join(""), words.join("")];
}

function arrow(message, room) {
  const {source, target, sent, received, lost} = message, down = middles[target] > middles[source] ? 1 : -1;
  const x1 = across(sent.at), y1 = middles[source] + down * BAND / 2, whole = middles[target] - down * BAND / 2;
  let x2 = received ? across(received.at) : x1 + 26, y2 = received ? whole : y1 + (whole - y1) * (lost ? 0.38 : 0.6);
  const colour = COLOURS[message.family] || "#555", led = sent.led && (!received || received.led);
  const angle = Math.atan2(y2 - y1, x2 - x1), tipX = x2 - 7 * Math.cos(angle), tipY = y2 - 7 * Math.sin(angle);
  const side = [3.4 * Math.sin(angle), -3.4 * Math.cos(angle)];
  const fate = received ? `received at ${ms(received.at)}, after ${ms(received.at - sent.at)}` : lost ? "lost" : "under way when the run ended";
  const about = tip(message.label, `${data.lanes[source][0]} to ${data.lanes[target][0]}, at ${ms(sent.at)}; ${fate}`, (received || sent).words);
  let made = `<g class="message" ${about} stroke="${colour}" fill="${colour}">`;
  made += `<line class="halo" x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" stroke="transparent"/>`;
  made += `<line class="arrow${received || lost ? "" : " away"}" x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}"/>`;
  if (lost) made += `<path class="arrow lost" stroke="#c0392b" d="M${x2 - 4} ${y2 - 4}l8 8m0 -8l-8 8"/>`;
  else made += `<path stroke="none" d="M${x2} ${y2}L${tipX + side[0]} ${tipY + side[1]}L${tipX - side[0]} ${tipY - side[1]}z"/>`;
  for (const share of message.family === "clients" ? [] : [0.5, 0.32, 0.68, 0.2, 0.8]) {
    const x = x1 + (x2 - x1) * share + 5, y = y1 + (y2 - y1) * share + 4;
    if (room.take(x, y, message.label)) { made += `<text class="word" x="${x}" y="${y}" style="fill:${colour}" stroke="#fff">${escape(message.label)}</text>`; break; }
  }
  return [made + "</g>", led];
}

function dot(event, room) {
  const x = across(event.at), y = middles[event.lane], colour = COLOURS[event.family] || "#555";
  const about = tip(event.label, `${data.lanes[event.lane][0]}, at ${ms(event.at)}`, event.words);
  if (event.ends && event.family !== "clients") return "";
  if (event.family === "disk") return `<rect x="${x - 1}" y="${y + BAND / 2}" width="2" height="7" fill="${colour}" ${about}/>`;
  let made = `<circle cx="${x}" cy="${y}" r="${event.family === "process" ? 5 : 3.2}" fill="${colour}" stroke="#fff" stroke-width="1.2" ${about}/>`;
  if (["process", "notes", "requests", "clients", "barrier"].includes(event.family)) {
    for (const off of [-13, -24, 20, 31]) if (room.take(x + 3, y + off, event.label)) {
      made += `<text class="word" x="${x + 3}" y="${y + off}" style="fill:${colour}">${escape(event.label)}</text>`;
      break;
    }
  }
  return made;
}

function diskWrites(left, right) {
  const made = [];
  if (view.hidden.has("disk")) return "";
  for (const [lane, begin, end, label] of data.writes) {
    const until = end === null ? begin : end, y = middles[lane];
    if (y === null || until < left || begin > right) continue;
    const x = Math.max(GUTTER, across(begin)), about = tip(`to the disk: ${text(label)}`, end === null ? `${ms(begin)}, and never reported durable` : `${ms(begin)} to ${ms(end)}`);
    made.push(`<rect class="saving" x="${x}" y="${y + BAND / 2 + 2}" width="${Math.max(2, across(until) - x)}" height="4" ${about}/>`);
  }
  return made.join("");
}

function draw() {
  lay();
  tips = [];
  const left = moment(view.from), right = moment(view.to), room = new Room(), parts = [];
  let more = 0, drawn = 0;
  const visible = messages.filter(each => shown(each.sent) && middles[each.target] !== null && !view.hidden.has(each.family)
    && each.sent.at <= right && (each.received ? each.received.at : each.sent.at) >= left);
  const acts = events.filter(each => shown(each) && each.at >= left && each.at <= right);
  const total = visible.length + acts.length;
  const [lines, names] = bands(left, right, room);
  parts.push(grid(left, right), shades(left, right, room), lines, diskWrites(left, right));
  for (const event of acts.filter(each => ["process", "notes", "clients"].includes(each.family)).concat(acts.filter(each => !["process", "notes", "clients"].includes(each.family)))) {
    if (++drawn > DRAWN_MAX / 2) { more++; continue; }
    parts.push(event.led || data.valid ? dot(event, room) : `<g class="faint">${dot(event, room)}</g>`);
  }
  drawn = 0;
  for (const each of visible) {
    if (++drawn > DRAWN_MAX / 2) { more++; continue; }
    const [made, led] = arrow(each, room);
    parts.push(led || data.valid ? made : `<g class="faint">${made}</g>`);
  }
  parts.push(names);
  if (right >= data.end) {
    const x = across(data.end), kind = data.valid ? " valid" : "";
    parts.push(line(x, TOP - 30, x, height - 6, `end${kind}`), `<text class="verdict${kind}" x="${x - 4}" y="${TOP - 28}" text-anchor="end" ${tip(data.what || "the end: every invariant holds", ms(data.end))}>${data.valid ? "the end" : "the invariant is violated here"}</text>`);
  }
  const lanes = data.lanes.map(([name], lane) => middles[lane] === null ? "" : `<text class="name" x="10" y="${middles[lane] + 5}">${escape(name)}</text>`);
  stage.innerHTML = `<svg width="${width}" height="${height}" role="img" aria-label="space-time diagram"><defs><clipPath id="inside"><rect x="${GUTTER - 4}" y="0" width="${width}" height="${height}"/></clipPath></defs><g clip-path="url(#inside)">${parts.join("")}</g><g class="names">${lanes.join("")}</g></svg>`;
  document.getElementById("hint").dataset.drawn = total - more;
  document.getElementById("capped").textContent = more ? `${total - more} of ${total} items in view are drawn: zoom in` : `${total} items in view`;
  strip();
}

function strip() {  // the whole run, and which part of it is in view
  const tall = 40, rows = data.lanes.filter(([, server]) => server).length, each = (tall - 6) / Math.max(1, rows), wide = width - GUTTER - 16;
  const x = at => GUTTER + place(at) * wide, made = [];
  for (const [lane, begin, end, state] of data.bands) if (STATES[state])
    made.push(`<rect x="${x(begin)}" y="${3 + lane * each}" width="${Math.max(0.5, x(end) - x(begin))}" height="${Math.max(2, each - 3)}" fill="${STATES[state]}"/>`);
  for (const [begin, end] of data.shades) made.push(`<rect class="shade" x="${x(begin)}" y="0" width="${Math.max(1.5, x(end) - x(begin))}" height="${tall}"/>`);
  made.push(`<rect x="${GUTTER + view.from * wide}" y="1" width="${Math.max(3, (view.to - view.from) * wide)}" height="${tall - 2}" fill="#1f273314" stroke="#1f2733"/>`);
  overview.innerHTML = `<svg width="${width}" height="${tall}"><text class="tick" x="10" y="24">the whole run</text>${made.join("")}</svg>`;
}

// -- what a person does ----------------------------------------------------------------------------------------------

function show(from, to) {
  const span = Math.min(1, Math.max(1e-5, to - from));
  view.from = Math.min(Math.max(0, from), 1 - span);
  view.to = view.from + span;
  draw();
}
function zoom(factor, at = (view.from + view.to) / 2) { show(at - (at - view.from) * factor, at + (view.to - at) * factor); }
function again(change) {  // another measure of time, the same moments
  const left = moment(view.from), right = moment(view.to);
  change();
  measure();
  show(place(left), place(right));
}
const share = x => view.from + (x - GUTTER) / (width - GUTTER - 16) * (view.to - view.from);
stage.addEventListener("wheel", event => {
  event.preventDefault();
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    const by = (event.deltaX || event.deltaY) / width * (view.to - view.from);
    show(view.from + by, view.to + by);
  } else zoom(Math.exp(event.deltaY * 0.0016), share(event.clientX - stage.getBoundingClientRect().left));
}, {passive: false});
stage.addEventListener("pointerdown", event => {
  const start = event.clientX, {from, to} = view;
  stage.classList.add("moving");
  const move = moved => { const by = (start - moved.clientX) / (width - GUTTER) * (to - from); show(from + by, to + by); };
  const stop = () => { stage.classList.remove("moving"); removeEventListener("pointermove", move); removeEventListener("pointerup", stop); };
  addEventListener("pointermove", move);
  addEventListener("pointerup", stop);
});
overview.addEventListener("pointerdown", event => {
  const at = each => Math.min(1, Math.max(0, (each.clientX - overview.getBoundingClientRect().left - GUTTER) / (width - GUTTER - 16)));
  const start = at(event);
  const move = moved => { const now = at(moved); if (Math.abs(now - start) > 0.004) show(Math.min(start, now), Math.max(start, now)); };
  const stop = () => { removeEventListener("pointermove", move); removeEventListener("pointerup", stop); };
  const half = (view.to - view.from) / 2;
  show(start - half, start + half);
  addEventListener("pointermove", move);
  addEventListener("pointerup", stop);
});
addEventListener("keydown", event => {
  const by = (view.to - view.from) / 6;
  if (event.key === "ArrowRight") show(view.from + by, view.to + by);
  else if (event.key === "ArrowLeft") show(view.from - by, view.to - by);
  else if (event.key === "+" || event.key === "=") zoom(0.7);
  else if (event.key === "-") zoom(1.4);
});
const box = document.getElementById("tip");
stage.addEventListener("mousemove", event => {
  const about = event.target.closest("[data-tip]");
  for (const lit of stage.querySelectorAll(".lit")) lit.classList.remove("lit");
  box.hidden = !about;
  if (!about) return;
  about.classList.add("lit");
  const [name, ...lines] = tips[about.dataset.tip];
  box.innerHTML = `<b>${escape(name)}</b>${lines.map(each => `<i>${escape(each)}</i>`).join("")}`;
  box.style.left = `${Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8)}px`;
  box.style.top = `${Math.min(event.clientY + 14, innerHeight - box.offsetHeight - 8)}px`;
});
stage.addEventListener("mouseleave", () => { box.hidden = true; });
addEventListener("resize", draw);

function controls() {
  const nav = document.getElementById("controls");
  const group = () => nav.appendChild(Object.assign(document.createElement("span"), {className: "group"}));
  const check = (into, id, words, on, act, colour, count) => {
    const label = document.createElement("label");
    label.innerHTML = `<input type="checkbox" id="${id}"${on ? " checked" : ""}>${colour ? `<span class="chip" style="background:${colour}"></span>` : ""}${escape(words)}${count ? ` <span class="count">${count}</span>` : ""}`;
    label.firstChild.addEventListener("change", event => again(() => act(event.target.checked)));
    into.appendChild(label);
  };
  const flip = (set, member) => on => { if (on) set.delete(member); else set.add(member); };
  const first = group();
  if (!data.valid) check(first, "led", "only what led to the verdict", view.led, on => { view.led = on; });
  check(first, "even", "shorten quiet times", view.even, on => { view.even = on; });
  const kinds = group();
  for (const family of Object.keys(COLOURS)) if (data.families[family])
    check(kinds, `kind-${family}`, family, !view.hidden.has(family), flip(view.hidden, family), COLOURS[family], data.families[family]);
  const lanes = group();
  data.lanes.forEach(([name], lane) => check(lanes, `lane-${lane}`, name, true, flip(view.away, lane)));
  const last = group();
  for (const [words, act] of [["+", () => zoom(0.6)], ["\u2212", () => zoom(1.6)], ["whole run", () => show(0, 1)], ...(data.shades.length ? [["the faults", () => faults()]] : []), ["the end", () => end()]])
    last.appendChild(Object.assign(document.createElement("button"), {textContent: words, onclick: act}));
  last.appendChild(Object.assign(document.createElement("span"), {id: "capped", className: "count"}));
}
function faults() {  // from a little before the first to a little after the last
  const begin = Math.min(...data.shades.map(([from]) => place(from))), until = Math.max(...data.shades.map(([, to]) => place(to)));
  if (data.shades.length) show(Math.max(0, begin - 0.08), Math.min(1, until + 0.12));
  else show(0, 1);
}
function end() {  // as much of the end as can be read
  const readable = Math.max(24, (width - GUTTER) / 11);
  const seen = events.filter(shown);
  const first = seen[Math.max(0, seen.length - Math.round(readable))];
  show(first && seen.length > readable ? place(first.at) : 0, 1);
}

controls();
measure();
lay();
if (!data.valid) end();
else faults();
