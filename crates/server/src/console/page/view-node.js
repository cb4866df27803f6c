// One node: what is seen of it, what is reserved, and what runs there.
import { age } from "./age.js";
import { element, facts, heading, link, notice } from "./element.js";
import { conditions, events } from "./record.js";
import { reserved, state, taints } from "./view-nodes.js";
import { ask } from "./server.js";
import { badge } from "./state.js";
import { table } from "./table.js";

export const kinds = ["Node", "Replica", "Event"];

export async function draw([name]) {
  const may = (answer) => answer.catch((refusal) => refusal);
  const [{ object, revision }, ledgers, replicas, happened] = await Promise.all([
    ask("object", { kind: "Node", name }),
    may(ask("ledgers", { prefix: "node/" + name })),
    may(ask("list", { kind: "Replica", fields: `status.node=${name}`, limit: 200 })),
    may(ask("newest", { kind: "Event", fields: `spec.object.kind=Node,spec.object.name=${name}`, limit: 30 })),
  ]);
  const ledger = ledgers.ledgers?.find((it) => it.name === "node/" + name), agent = object.status?.agent ?? {};
  const rows = (replicas.objects ?? []).map((it) => ({ key: it.metadata.uid, revision: it.metadata.revision, cells: [link(it.metadata.name, "object", "Replica", it.metadata.namespace, it.metadata.name), it.metadata.namespace, link(it.spec.workload, "workload", it.metadata.namespace, it.spec.workload), badge(it.status?.stage ?? "admitted"), it.status?.restarts ?? 0, age(it.metadata.createdMs)] }));
  return {
    revision,
    content: [
      heading(name, ["Node · ", link("as YAML", "object", "Node", "", name)]),
      facts([
        ["State", state(object)], ["Zone", object.spec.zone], ["Taints", taints(object)],
        ...Object.keys(ledger?.limits ?? {}).map((dimension) => [`${dimension} reserved`, reserved(ledger, dimension)]),
        ["Agent", [agent.version, agent.os, agent.arch, (agent.runtimes ?? []).join(", ")].filter(Boolean).join(" · ")], ["Age", age(object.metadata.createdMs)],
      ]),
      element("h2", {}, "Conditions"), conditions(object.status?.conditions),
      element("h2", {}, "Replicas"), replicas.objects ? table("Replicas", ["Name", "Namespace", "Workload", "Stage", "Restarts", "Age"], rows, "Nothing runs there.") : notice(replicas.message),
      element("h2", {}, "Events"), happened.objects ? events(happened.objects) : notice(happened.message),
    ],
  };
}
