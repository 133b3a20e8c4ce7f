"use strict";
// Draws what the JSON beside this script holds. Nothing is loaded from anywhere.
window.onerror = (message) => { document.documentElement.dataset.error = message; };
const started = performance.now();
const data = JSON.parse(document.getElementById("data").textContent);
const by = (id) => document.getElementById(id);
// Okabe and Ito's colours, which people with any vision of colours tell apart.
const palette = ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#0072b2", "#d55e00"];
const colours = new Map();
data.backends.filter((backend) => backend.name !== "not asked").forEach((backend, at) => colours.set(backend.name, palette[at % palette.length]));
const grey = "#a0a4ab";
const colour = (backend) => (backend === "unassigned" ? "#d00000" : colours.get(backend) || grey);

function element(tag, text, parent, attributes) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) made.textContent = text;
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  if (parent) parent.append(made);
  return made;
}

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (bytes >= 1024 && at < units.length - 1) { bytes /= 1024; at += 1; }
  return (at ? bytes.toFixed(1) : bytes) + " " + units[at];
}

function seconds(time) {
  if (time >= 1) return time.toFixed(2) + " s";
  return time >= 1e-3 ? (time * 1e3).toFixed(2) + " ms" : (time * 1e6).toFixed(1) + " \u00b5s";
}

// A table; cells are texts, numbers (to the right), or functions that fill their cell.
function table(parent, headings, rows) {
  const made = element("table", null, parent);
  const head = element("tr", null, element("thead", null, made));
  for (const heading of headings) element("th", heading.replace(">", ""), head, heading[0] === ">" ? { class: "number" } : {});
  const body = element("tbody", null, made);
  for (const row of rows) {
    const line = element("tr", null, body);
    row.forEach((cell, at) => {
      const made = element("td", null, line, headings[at][0] === ">" ? { class: "number" } : {});
      if (typeof cell === "function") cell(made); else made.textContent = cell;
    });
  }
}

function header() {
  by("title").textContent = data.title;
  by("facts").textContent = data.facts.concat(data.ports).join("\n");
  by("made").textContent = data.made;
  for (const backend of data.backends) {
    const item = element("li", null, by("legend"));
    element("i", null, item).style.background = colour(backend.name);
    const regions = backend.regions === 1 ? "1 region" : backend.regions + " regions";
    const nodes = backend.nodes === 1 ? "1 node" : backend.nodes + " nodes";
    item.append(backend.regions ? `${backend.name}: ${nodes} in ${regions}` : `${backend.name}: ${nodes}`);
  }
}

// ---- tabs
const tabs = [["graph", "Graph", data.nodes.length], ["regions", "Regions", data.regions.length],
  ["refusals", "Refusals", (data.reasons || []).length], ["bytes", "Bytes", data.tiles.length], ["times", "Times", data.times.length]];

function show(wanted) {
  // No element has that name, so that the browser does not scroll to one.
  history.replaceState(null, "", "#view-" + wanted);
  for (const [id] of tabs) {
    by(id).classList.toggle("shown", id === wanted);
    const tab = by("tab-" + id);
    if (tab) tab.setAttribute("aria-selected", id === wanted);
  }
  if (wanted === "graph") draw();
}

function bar() {
  for (const [id, label, count] of tabs) {
    if (!count) continue;
    const tab = element("button", label, by("tabs"), { id: "tab-" + id, role: "tab", "aria-selected": "false" });
    tab.onclick = () => show(id);
  }
}

// ---- the graph
const canvas = by("canvas");
const pen = canvas.getContext("2d");
const box = { width: 166, height: 42 };
let view = { x: 0, y: 0, zoom: 1 };
let chosen = null;
let hits = new Set();

function extent() {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const { at } of data.nodes) {
    left = Math.min(left, at.x); right = Math.max(right, at.x);
    top = Math.min(top, at.y); bottom = Math.max(bottom, at.y);
  }
  for (const { from, to } of data.groups) {
    left = Math.min(left, from.x); right = Math.max(right, to.x);
    top = Math.min(top, from.y); bottom = Math.max(bottom, to.y);
  }
  return { left: left - box.width, top: top - box.height, right: right + box.width, bottom: bottom + box.height };
}

// All of a small graph; of a large one its beginning, so that names can be read.
function fit(whole) {
  if (!data.nodes.length) return;
  const all = extent();
  const across = canvas.clientWidth / (all.right - all.left);
  const down = (canvas.clientHeight - 50) / (all.bottom - all.top);
  view.zoom = Math.min(1.4, across, down);
  view.x = (all.left + all.right) / 2;
  view.y = (all.top + all.bottom) / 2 - 25 / view.zoom;
  if (!whole && view.zoom < 0.2) {
    view.zoom = 0.8;
    view.x = data.nodes[0].at.x;
    view.y = all.top + (canvas.clientHeight / 2 - 60) / view.zoom;
  }
  draw();
}

const scheme = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const toScreen = (at) => [(at.x - view.x) * view.zoom + canvas.clientWidth / 2, (at.y - view.y) * view.zoom + canvas.clientHeight / 2];

function shortened(text, room) {
  if (pen.measureText(text).width <= room) return text;
  let kept = text.length;
  while (kept > 3 && pen.measureText(text.slice(0, kept) + "\u2026").width > room) kept -= 1;
  return text.slice(0, kept) + "\u2026";
}

// Frames of regions, with their names above their nodes.
function frames(text) {
  for (const group of data.groups) {
    const [left, top] = toScreen(group.from);
    const [right, bottom] = toScreen(group.to);
    pen.beginPath();
    pen.roundRect(left, top, right - left, bottom - top, 10 * view.zoom);
    pen.globalAlpha = 0.15;
    pen.fillStyle = colour(group.backend);
    pen.fill();
    pen.globalAlpha = 1;
    pen.lineWidth = 1;
    pen.strokeStyle = colour(group.backend);
    pen.stroke();
    const letters = Math.max(11, 13 * view.zoom);
    pen.fillStyle = text;
    pen.textAlign = "left";
    pen.font = `600 ${letters}px system-ui, sans-serif`;
    pen.fillText(shortened(group.label, right - left - 12 * view.zoom), left + 6 * view.zoom, top + Math.max(letters, 20 * view.zoom));
  }
}

function draw() {
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (!width) return;
  const density = window.devicePixelRatio || 1;
  canvas.width = width * density;
  canvas.height = height * density;
  pen.setTransform(density, 0, 0, density, 0, 0);
  pen.clearRect(0, 0, width, height);
  const [line, text, mark] = [scheme("--dim"), scheme("--text"), scheme("--mark")];
  const region = chosen === null ? null : data.nodes[chosen].region;
  frames(text);
  // Lines that cannot be seen are not drawn.
  pen.lineWidth = Math.max(0.6, 1.2 * view.zoom);
  pen.globalAlpha = 0.55;
  pen.strokeStyle = line;
  pen.beginPath();
  for (const [from, to] of data.edges) {
    const [x, y] = toScreen(data.nodes[from].at);
    const [u, v] = toScreen(data.nodes[to].at);
    if (Math.max(y, v) < 0 || Math.min(y, v) > height || Math.max(x, u) < 0 || Math.min(x, u) > width) continue;
    const half = box.height / 2 * view.zoom;
    const bend = Math.max(14 * view.zoom, Math.min(60 * view.zoom, Math.abs(v - y) / 2));
    pen.moveTo(x, y + half);
    pen.bezierCurveTo(x, y + half + bend, u, v - half - bend, u, v - half);
  }
  pen.stroke();
  pen.globalAlpha = 1;
  const [w, h] = [box.width * view.zoom, box.height * view.zoom];
  const readable = view.zoom > 0.4;
  for (let at = 0; at < data.nodes.length; at += 1) {
    const node = data.nodes[at];
    const [x, y] = toScreen(node.at);
    if (x + w < 0 || x - w > width || y + h < 0 || y - h > height) continue;
    pen.fillStyle = colour(node.backend);
    pen.beginPath();
    pen.roundRect(x - w / 2, y - h / 2, w, h, 6 * view.zoom);
    pen.fill();
    const same = region !== null && region !== "" && node.region === region;
    if (at === chosen || hits.has(at) || same) {
      pen.lineWidth = (at === chosen ? 4 : 2.5) * Math.max(0.5, view.zoom);
      pen.strokeStyle = at === chosen || hits.has(at) ? mark : text;
      pen.setLineDash(same && at !== chosen && !hits.has(at) ? [5, 3] : []);
      pen.stroke();
      pen.setLineDash([]);
    }
    if (!readable) continue;
    pen.fillStyle = node.backend === "unassigned" ? "#fff" : "#111";
    pen.textAlign = "center";
    pen.font = `600 ${13 * view.zoom}px system-ui, sans-serif`;
    pen.fillText(shortened(node.op, w - 12 * view.zoom), x, y - 3 * view.zoom);
    pen.font = `${11 * view.zoom}px system-ui, sans-serif`;
    pen.fillText(shortened(node.name, w - 12 * view.zoom), x, y + 13 * view.zoom);
  }
}

// Times of a node: of steps that name it; where none does, that of its region.
function timesOf(node) {
  const of_region = data.times.filter((time) => node.region && time.region === node.region);
  const own = of_region.filter((time) => time.nodes.includes(node.name));
  if (own.length) return own.map((time) => `${seconds(time.seconds)} (${time.name})`);
  const sum = of_region.reduce((all, time) => all + time.seconds, 0);
  return of_region.length ? [`${seconds(sum)} (the region)`] : [];
}

function choose(at, move) {
  chosen = at;
  const panel = by("panel");
  panel.replaceChildren();
  if (at !== null) {
    const node = data.nodes[at];
    if (move) { view.x = node.at.x; view.y = node.at.y; view.zoom = Math.max(view.zoom, 0.8); }
    element("h2", node.name, panel);
    const list = element("dl", null, panel);
    const entry = (what, text) => { if (text) { element("dt", what, list); element("dd", text, list); } };
    entry("operator", node.op);
    entry("backend", node.backend);
    entry("region", node.region);
    for (const time of timesOf(node)) entry("time", time);
    for (const [backend, reason] of node.refused) entry("not taken by " + backend, reason);
    for (const [what, text] of node.details) entry(what, text);
  }
  draw();
}

function nodeAt(event) {
  const area = canvas.getBoundingClientRect();
  const x = (event.clientX - area.left - canvas.clientWidth / 2) / view.zoom + view.x;
  const y = (event.clientY - area.top - canvas.clientHeight / 2) / view.zoom + view.y;
  const at = data.nodes.findIndex((node) => Math.abs(node.at.x - x) <= box.width / 2 && Math.abs(node.at.y - y) <= box.height / 2);
  return at < 0 ? null : at;
}

function zoomBy(factor) {
  view.zoom = Math.min(3, Math.max(0.01, view.zoom * factor));
  draw();
}

function search(jump) {
  const word = by("search").value.trim().toLowerCase();
  const found = [];
  if (word) data.nodes.forEach((node, at) => {
    if (node.name.toLowerCase().includes(word) || node.op.toLowerCase().includes(word)) found.push(at);
  });
  hits = new Set(found);
  by("hits").textContent = word ? (found.length === 1 ? "1 hit" : found.length + " hits") : "";
  if (jump && found.length) {
    const next = found.find((at) => chosen !== null && at > chosen);
    choose(next === undefined ? found[0] : next, true);
  } else draw();
}

function listen() {
  let dragged = null;
  canvas.onpointerdown = (event) => { dragged = { x: event.clientX, y: event.clientY, moved: false }; canvas.setPointerCapture(event.pointerId); };
  canvas.onpointermove = (event) => {
    if (!dragged) return;
    const [dx, dy] = [event.clientX - dragged.x, event.clientY - dragged.y];
    if (Math.abs(dx) + Math.abs(dy) < 3 && !dragged.moved) return;
    view.x -= dx / view.zoom; view.y -= dy / view.zoom;
    dragged = { x: event.clientX, y: event.clientY, moved: true };
    draw();
  };
  canvas.onpointerup = (event) => { if (dragged && !dragged.moved) choose(nodeAt(event), false); dragged = null; };
  canvas.onwheel = (event) => { event.preventDefault(); zoomBy(Math.exp(-event.deltaY / 500)); };
  canvas.onkeydown = (event) => {
    const step = 80 / view.zoom;
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    if (moves[event.key]) { view.x += moves[event.key][0]; view.y += moves[event.key][1]; draw(); }
    else if (event.key === "+") zoomBy(1.25);
    else if (event.key === "-") zoomBy(0.8);
    else if (event.key === "0") fit(true);
    else return;
    event.preventDefault();
  };
  by("more").onclick = () => zoomBy(1.25);
  by("less").onclick = () => zoomBy(0.8);
  by("all").onclick = () => fit(true);
  by("search").oninput = () => search(false);
  by("search").onkeydown = (event) => { if (event.key === "Enter") search(true); };
  window.onresize = draw;
  matchMedia("(prefers-color-scheme: dark)").onchange = draw;
}

// ---- the other views
const counts = (operators) => Object.entries(operators).sort((a, b) => b[1] - a[1]).map(([name, count]) => `${count} ${name}`).join(", ");

function jumpTo(test) {
  return (wanted) => {
    const at = data.nodes.findIndex(test(wanted));
    show("graph");
    choose(at < 0 ? null : at, true);
  };
}

function regions() {
  const jump = jumpTo((symbol) => (node) => node.region === symbol);
  table(by("regions"), ["region", "backend", ">nodes", "operators"], data.regions.map((region) => [
    (cell) => { element("button", region.region, cell).onclick = () => jump(region.region); },
    region.backend, region.nodes, counts(region.operators),
  ]));
}

function refusals() {
  const jump = jumpTo((name) => (node) => node.name === name);
  table(by("refusals"), ["not taken by", ">nodes", "because", "what helps", "for example"], (data.reasons || []).map((reason) => [
    reason.backend, reason.nodes, reason.words, reason.remedy || "",
    (cell) => { element("button", `${reason.example} (${reason.op})`, cell).onclick = () => jump(reason.example); },
  ]));
}

const kinds = { stored: ["#56b4e9", "constants as the model has them"], packed: ["#e69f00", "constants packed by a backend"],
  code: ["#009e73", "code of regions"], other: ["#bbbbbb", "graph, header and padding"] };

function bytes() {
  const parent = by("bytes");
  if (!data.tiles.length) return;
  const space = "http://www.w3.org/2000/svg";
  const svg = (tag, attributes) => {
    const made = document.createElementNS(space, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  };
  const keys = element("p", null, parent);
  for (const [kind, [fill, label]] of Object.entries(kinds)) {
    const sum = data.tiles.filter((tile) => tile.kind === kind).reduce((all, tile) => all + tile.bytes, 0);
    if (!sum) continue;
    const key = element("span", null, keys, { class: "key" });
    element("i", null, key).style.background = fill;
    key.append(`${label}: ${size(sum)}`);
  }
  const map = svg("svg", { id: "map", viewBox: "0 0 1000 520", role: "img", "aria-label": "The bytes of the file" });
  const told = element("p", "Each rectangle is a part of the file, as large as its bytes.", null, { id: "told", "aria-live": "polite" });
  for (const tile of data.tiles) {
    const rect = svg("rect", { x: tile.x, y: tile.y, width: tile.width, height: tile.height, fill: kinds[tile.kind][0], tabindex: tile.width > 20 ? 0 : -1 });
    rect.onmouseenter = rect.onfocus = () => { told.textContent = `${tile.label}: ${size(tile.bytes)}. ${tile.text}`; };
    map.append(rect);
    const letters = Math.floor((tile.width - 8) / 6.2);
    if (letters >= 6 && tile.height >= 16) {
      const label = svg("text", { x: tile.x + 5, y: tile.y + 14 });
      label.textContent = tile.label.length > letters ? "\u2026" + tile.label.slice(tile.label.length - letters + 1) : tile.label;
      map.append(label);
    }
  }
  parent.append(map, told);
  table(parent, ["constant", "type", ">bytes", "readers", "owner", "fate"], data.constants.slice().sort((a, b) => b.bytes - a.bytes).map((row) => [
    row.names.join(", "), row.ty, size(row.bytes), row.readers.join(", "), row.owner, row.fate,
  ]));
}

function times() {
  const total = data.times.reduce((all, time) => all + time.seconds, 0);
  const longest = data.times.length ? data.times[0].seconds : 1;
  table(by("times"), ["step", "backend", ">time", ">share", ""], data.times.map((time) => [
    time.name, time.backend, seconds(time.seconds), (total ? 100 * time.seconds / total : 0).toFixed(1) + "%",
    (cell) => {
      cell.style.width = "40%";
      const line = element("div", null, cell, { class: "bar" });
      line.style.width = (longest ? 100 * time.seconds / longest : 0) + "%";
      line.style.background = colour(time.backend);
    },
  ]));
}

header();
bar();
regions();
refusals();
bytes();
times();
listen();
const named = tabs.find(([id, , count]) => count && "#view-" + id === location.hash);
show((named || tabs.find(([, , count]) => count) || tabs[0])[0]);
fit(false);
document.documentElement.dataset.readyMs = Math.ceil(performance.now() - started);
