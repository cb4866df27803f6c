// One workload: its replicas, what they wait for, and what was decided about it.
import { age } from "./age.js";
import { element, facts, heading, link, notice } from "./element.js";
import { conditions, decisions, events } from "./record.js";
import { ask } from "./server.js";
import { badge, badges } from "./state.js";
import { table } from "./table.js";

export const kinds = ["Workload", "Replica", "Event", "Decision"];

const shown = (found, draw) => (found.objects ? draw(found.objects) : notice(found.message));

export async function draw([namespace, name]) {
  const about = { namespace, fields: `spec.object.kind=Workload,spec.object.name=${name}`, limit: 30 };
  const may = (answer) => answer.catch((refusal) => refusal);
  const [{ object, revision }, replicas, decided, happened] = await Promise.all([
    ask("object", { kind: "Workload", namespace, name }),
    may(ask("list", { kind: "Replica", namespace, fields: `spec.workload=${name}`, limit: 200 })),
    may(ask("newest", { kind: "Decision", ...about })),
    may(ask("newest", { kind: "Event", ...about })),
  ]);
  const status = object.status ?? {}, rollout = status.rollout ?? {}, { desired, admitted, updated, available, ...stages } = status.replicas ?? {};
  return {
    revision,
    content: [
      heading(name, [`Workload in ${namespace} · `, link("as YAML", "object", "Workload", namespace, name)]),
      object.metadata.deletedMs ? notice(`It is being deleted, and waits for: ${(object.metadata.finalizers ?? []).join(", ")}`) : "",
      facts([
        ["Serving", `${stages.serving ?? 0} of ${desired ?? 0}`],
        ["Stages", badges(stages)],
        ["Waits for", (status.pendingReasons ?? []).map((it) => `${it.count} ${it.reason}${it.message ? ": " + it.message : ""}`).join("; ")],
        ["Rollout", element("span", {}, badge(rollout.phase ?? "Complete"), ` revision ${rollout.revision ?? 0}`, rollout.message ? ": " + rollout.message : "")],
        ["Last error", status.lastError ? `${status.lastError.reason}: ${status.lastError.message} (${age(status.lastError.timeMs)} ago)` : ""],
        ["Deadline", status.deadline ? status.deadline.state : ""],
        ["Runs", object.spec.template?.image ?? (object.spec.template?.command ?? []).join(" ")],
        ["Age", age(object.metadata.createdMs)],
      ]),
      element("h2", {}, "Replicas"),
      shown(replicas, (objects) => table("Replicas", ["Name", "Stage", "Node", "Restarts", "Revision", "Age", "Waits for"], objects.map((it) => {
        const is = it.status ?? {}, blocked = is.blocked;
        return { key: it.metadata.uid, revision: it.metadata.revision, cells: [link(it.metadata.name, "object", "Replica", namespace, it.metadata.name), badge(is.stage ?? "admitted"), is.node ? link(is.node, "node", is.node) : "", is.restarts ?? 0, it.spec.revision, age(it.metadata.createdMs), { long: blocked ? `${blocked.reason}${blocked.message ? ": " + blocked.message : ""}` : "" }] };
      }), "It has no replicas.")),
      replicas.continue ? element("p", { class: "soft" }, "There are more; ", link("all replicas", "kind", "Replica")) : "",
      element("h2", {}, "Conditions"), conditions(status.conditions),
      element("h2", {}, "Decisions"), shown(decided, decisions),
      element("h2", {}, "Events"), shown(happened, events),
    ],
  };
}
