"use strict";
// Text comes into the page by textContent alone: names of jobs are what their users wrote.

const EVERY = 5000; // milliseconds
const byId = (id) => document.getElementById(id);

let token = new URLSearchParams(location.hash.slice(1)).get("token") || "";
let chosen = "";

function make(tag, content, classes) {
  const made = document.createElement(tag);
  if (classes) made.className = classes;
  for (const one of [].concat(content ?? [])) made.append(one); // a string becomes a text node
  return made;
}

function say(text, isWrong) {
  byId("state").textContent = text;
  byId("state").className = isWrong ? "wrong" : "";
}

const shown = (number) => Number(number).toLocaleString("en", { maximumFractionDigits: 2 });

function table(columns, rows) {
  const head = make("tr", columns.map(([name, isNumber]) => make("th", name, isNumber ? "number" : "")));
  const body = rows.map((row) => make("tr", row.map((value, i) => {
    const [name, isNumber] = columns[i];
    const cell = make("td", typeof value === "number" ? shown(value) : value, isNumber ? "number" : "");
    if (i > 0) cell.dataset.label = name;
    return cell;
  })));
  return make("table", [make("thead", head), make("tbody", body)]);
}

function put(id, rows, columns, empty) {
  byId(id).replaceChildren(rows.length ? table(columns, rows) : make("p", empty, "note"));
}

function figures(all) {
  const nodes = all.groups.flatMap((group) => group.nodes);
  const sum = (i) => nodes.reduce((total, node) => total + node[i], 0);
  const parts = [
    [`${shown(sum(2))} of ${shown(sum(1))}`, "GPUs in use"],
    [shown(nodes.length), "nodes"],
    [shown(all.unhealthy.length - all.draining.length), "unhealthy"],
    [shown(all.draining.length), "drained"],
    [shown(all.jobs.running + all.jobs.lent), "jobs run"],
    [shown(all.jobs.pending + all.jobs.reserved), "jobs wait"],
  ];
  byId("figures").replaceChildren(
    ...parts.map(([value, name]) => make("div", [make("b", value), make("span", name)])));
}

function tell(node) {
  const [name, gpus, used, jobs] = node;
  chosen = name;
  byId("node").textContent = `${name}: ${used} of ${gpus} GPUs in use; ${jobs.join(", ") || "no jobs"}`;
}

function heatMap(all) {
  const states = new Map(all.unhealthy.map((name) => [name, "bad"]));
  for (const name of all.draining) states.set(name, "drained");
  byId("nodes").replaceChildren(...all.groups.map((group) => {
    const cells = group.nodes.map((node) => {
      const [name, gpus, used] = node;
      const shade = used ? Math.max(1, Math.floor(4 * used / Math.max(gpus, 1))) : 0;
      const cell = make("i", [], states.get(name) ?? `b${Math.min(4, shade)}`);
      if (name === chosen) { cell.classList.add("chosen"); tell(node); }
      const what = { bad: ", unhealthy", drained: ", drained" }[states.get(name)] ?? "";
      cell.title = `${name}: ${used} of ${gpus} GPUs in use${what}`;
      const choose = () => {
        document.querySelectorAll(".chosen").forEach((one) => one.classList.remove("chosen"));
        cell.classList.add("chosen");
        tell(node);
      };
      cell.addEventListener("mouseenter", choose);
      cell.addEventListener("click", choose);
      return cell;
    });
    return make("div", [make("h3", group.name), make("div", cells, "cells")], "group");
  }));
}

function waiting(all) {
  const rows = all.waiting.map((one) => [
    one.job, one.tenant, one.gpus, one.pods,
    one.reason || (one.state === "reserved" ? "its victims are stopping" : "not tried yet: others come first"),
  ]);
  put("waiting", rows, [["job"], ["tenant"], ["GPUs", true], ["pods", true], ["why"]], "Nothing waits.");
  const left = all.jobs.pending + all.jobs.reserved - rows.length;
  if (left > 0) byId("waiting").append(make("p", `and ${shown(left)} more`, "note"));
}

function tenants(all) {
  const names = [...new Set([...Object.keys(all.tenants), ...Object.keys(all.owned)])].sort();
  const owns = Object.keys(all.owned).length > 0;
  const columns = [["tenant"], ["GPUs in use", true], ["run", true], ["on lent cells", true], ["wait", true]];
  if (owns) columns.splice(2, 0, ["GPUs owned", true]);
  put("tenants", names.map((name) => {
    const has = all.tenants[name] ?? { gpus: 0, running: 0, lent: 0, pending: 0, reserved: 0 };
    const row = [name, has.gpus, has.running, has.lent, has.pending + has.reserved];
    if (owns) row.splice(2, 0, all.owned[name] ?? 0);
    return row;
  }), columns, "No tenant has jobs.");
  const queues = Object.entries(all.queues).map(([name, length]) => `${name} ${shown(length)}`);
  if (queues.length) byId("tenants").append(make("p", `Length of queues: ${queues.join(", ")}`, "note"));
}

function bar({ max, used }, borrows) {
  const most = Math.max(max, used, 1), space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 100 10");
  svg.setAttribute("preserveAspectRatio", "none");
  const part = (from, to, name) => {
    const made = document.createElementNS(space, "rect");
    for (const [key, value] of Object.entries({ x: 100 * from / most, width: 100 * Math.max(0, to - from) / most, height: 10 }))
      made.setAttribute(key, value);
    made.setAttribute("class", name);
    svg.append(made);
  };
  part(0, used - borrows, "own");
  part(used - borrows, used, "borrowed");
  return make("i", [svg], "bar");
}

function quotas(all) {
  byId("quota-section").hidden = all.quotas.length === 0;
  const rows = all.quotas.flatMap(({ name, depth, amounts }, i) =>
    Object.entries(amounts).map(([dimension, of]) => {
      const isSum = all.quotas[i + 1]?.depth > depth && of.min === 0; // guarantees are below it
      const borrows = isSum ? 0 : Math.max(0, of.used - of.min);
      const reclaims = Math.max(0, Math.min(of.request, of.min) - of.used);
      return [
        "\u2003".repeat(depth) + name, dimension, bar(of, borrows), of.used, of.min, of.max,
        borrows ? make("span", shown(borrows), "over") : "0",
        Math.max(0, of.request - of.used), reclaims,
      ];
    }));
  put("quotas", rows, [["quota"], ["resource"], ["used; borrowed"], ["used", true], ["guaranteed", true], ["at most", true],
    ["borrows", true], ["asks for more", true], ["may reclaim", true]], "");
}

function show(all) {
  [figures, heatMap, waiting, tenants, quotas].forEach((part) => part(all));
}

async function look() {
  let answer;
  try {
    const headers = token ? { Authorization: `Bearer ${token}` } : {};
    answer = await fetch("v1/overview", { headers, cache: "no-store" });
  } catch {
    say("The service cannot be reached; what is below is from before.", true);
    return;
  }
  if (answer.status === 401) {
    say(token ? "The service refuses this token." : "The service needs a token.", true);
    document.querySelector("main").hidden = true;
    byId("login").hidden = false;
    return;
  }
  try {
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.Error);
    show(found);
    byId("login").hidden = true;
    document.querySelector("main").hidden = false;
    say(`as of ${new Date().toLocaleTimeString("en-GB")}`);
  } catch (error) {
    say(`The service answers with ${answer.status}: ${error.message}`, true);
  }
}

byId("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value.trim();
  look();
});

async function follow() {
  if (!document.hidden) await look();
  setTimeout(follow, EVERY);
}

follow();
