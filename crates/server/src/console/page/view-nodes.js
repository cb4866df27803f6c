// All nodes: whether they are well, and how much of them is reserved.
import { age } from "./age.js";
import { amount } from "./amount.js";
import { element, heading, link } from "./element.js";
import { at } from "./path.js";
import { pager } from "./view-kind.js";
import { ask } from "./server.js";
import { badge } from "./state.js";
import { table } from "./table.js";

export const kinds = ["Node", "Binding"];

export function reserved(ledger, dimension) {
  const most = Number(ledger?.limits?.[dimension] ?? 0), used = Number(ledger?.used?.[dimension] ?? 0);
  if (!most) return "";
  return element("span", {}, element("meter", { value: used, max: most, high: most * 0.9, "aria-label": `${dimension} reserved` }), ` ${amount(dimension, used)} of ${amount(dimension, most)}`);
}

export function state(node) {
  const ready = at(node, '.status.conditions[type="Ready"].status') ?? "Unknown";
  const words = [badge(ready, ready === "True" ? "ready" : ready === "False" ? "not ready" : "unknown")];
  if (node.spec.drain) words.push(" ", badge("draining"));
  else if (node.spec.unschedulable) words.push(" ", badge("cordoned"));
  return element("span", {}, words);
}

export const taints = (node) => (node.spec.taints ?? []).map((it) => `${it.key}${it.value ? "=" + it.value : ""}:${it.effect}`).join(", ");

export async function draw(parts, page) {
  const found = await ask("list", { kind: "Node", limit: 100, continue: page.after });
  const names = found.objects.map((it) => it.metadata.name);
  const ledgers = await ask("ledgers", { prefix: "node/" }).catch(() => ({ ledgers: [] }));
  const of = new Map(ledgers.ledgers.map((it) => [it.name.slice(5), it]));
  const rows = found.objects.map((it, place) => {
    const ledger = of.get(names[place]);
    return { key: it.metadata.uid, revision: it.metadata.revision, cells: [link(names[place], "node", names[place]), state(it), it.spec.zone, reserved(ledger, "cpu"), reserved(ledger, "memory"), { long: taints(it) }, age(it.metadata.createdMs)] };
  });
  return {
    revision: found.revision,
    content: [heading("Nodes"), table("Nodes", ["Name", "State", "Zone", "CPU reserved", "Memory reserved", "Taints", "Age"], rows, "No agent has registered a node."), pager(page, found)],
  };
}
