// Which page is shown, and that it stays true: draws it, follows its kinds, draws it again.
import { element, heading, notice } from "./element.js";
import { follow } from "./live.js";
import { token } from "./server.js";
import { forget } from "./table.js";
import * as kind from "./view-kind.js";
import * as node from "./view-node.js";
import * as nodes from "./view-nodes.js";
import * as object from "./view-object.js";
import * as overview from "./view-overview.js";
import * as workload from "./view-workload.js";
import * as workloads from "./view-workloads.js";

const PAGES = {
  "": overview, workloads, workload, nodes, node,
  decisions: { kinds: ["Decision"], draw: kind.newest("Decision") },
  events: { kinds: ["Event"], draw: kind.newest("Event") },
  kinds: { kinds: ["KindDefinition"], draw: kind.all },
  kind: { of: ([of]) => [of], draw: kind.draw },
  object: { of: ([of]) => [of], draw: object.draw },
};
const MENU = [["Overview", ""], ["Workloads", "workloads"], ["Nodes", "nodes"], ["Decisions", "decisions"], ["Events", "events"], ["Kinds", "kinds"]];
const PARENT = { workload: "workloads", node: "nodes", kind: "kinds", object: "kinds" };
const REDRAW_MS = 1000;

const content = document.getElementById("content"), standing = document.getElementById("standing"), nav = document.getElementById("nav");
let shown = 0, leave = () => {};

function says(state, text) {
  standing.dataset.state = state;
  if (standing.textContent !== text) standing.textContent = text;
}

function route() {
  const [name = "", ...parts] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  return PAGES[name] ? { name, parts, view: PAGES[name] } : { name: "", parts: [], view: PAGES[""] };
}

function refused(refusal) {
  if (![401, 403].includes(refusal.status)) return [notice(refusal.message)];
  const field = element("input", { id: "token", type: "password", autocomplete: "off", spellcheck: "false" });
  const send = (event) => {
    event.preventDefault();
    token.set(field.value.trim());
    show();
  };
  const drop = element("button", { type: "button", onclick: () => { token.set(""); show(); } }, "Go on without a token");
  return [heading("Who are you?", "This cluster wants to know who asks."), notice(refusal.message),
    element("form", { onsubmit: send }, element("label", { for: "token" }, "Token, as setpointd token makes it. It is kept for this tab until it is closed."), field,
      element("div", { class: "tools" }, element("button", { class: "main" }, "Use this token"), token.get() ? drop : ""))];
}

/** Keeps the keyboard where it was: links and rows are found again by where they lead. */
function put(elements) {
  const focused = content.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  content.replaceChildren(...elements.flat(3).filter(Boolean));
  if (focused) [...content.querySelectorAll("a")].find((it) => it.getAttribute("href") === focused)?.focus();
}

async function show(after = "") {
  const turn = ++shown, { name, parts, view } = route();
  leave();
  leave = () => {};
  forget();
  nav.replaceChildren(...MENU.map(([title, to]) => element("a", { href: "#/" + to, "aria-current": (PARENT[name] ?? name) === to ? "page" : undefined }, title)));
  document.title = [parts.at(-1) ?? MENU.find(([, to]) => to === name)?.[0], "Setpoint"].filter(Boolean).join(" · ");
  const page = { after, go: show };
  let drawing = false, again = false, timer;
  async function draw() {
    if (drawing) return (again = true);
    drawing = true;
    let answer;
    try {
      answer = await view.draw(parts, page);
      if (turn === shown) put(answer.content);
    } catch (refusal) {
      if (turn === shown) put(refused(refusal));
      if (turn === shown && refusal.status === undefined) throw refusal;
    }
    drawing = false;
    if (again) later();
    return answer;
  }
  function later() {
    again = false;
    timer ??= setTimeout(() => { timer = undefined; if (turn === shown) draw(); }, REDRAW_MS);
  }
  says("", "loading");
  const answer = await draw();
  if (turn !== shown) return;
  if (!answer) return says("cut", "not live");
  const end = follow(view.kinds ?? view.of(parts), answer.revision, later, (state, text) => turn === shown && says(state, text));
  leave = () => { end(); clearTimeout(timer); };
}

addEventListener("hashchange", () => { content.focus({ preventScroll: true }); scrollTo(0, 0); show(); });
// A browser has few connections for a site: a page that nobody looks at gives its own back.
document.addEventListener("visibilitychange", () => (document.hidden ? (leave(), (leave = () => {}), says("", "asleep")) : show()));
show();
