// What was written down about objects: decisions, events and conditions, newest first.
import { age } from "./age.js";
import { link } from "./element.js";
import { badge } from "./state.js";
import { table } from "./table.js";

const about = (object) => link(`${object.kind}/${object.name}`, "object", object.kind, object.namespace ?? "", object.name);
const itself = (object, text) => link(text, "object", object.kind, object.metadata.namespace ?? "", object.metadata.name);
const row = (object, cells) => ({ key: object.metadata.uid, revision: object.metadata.revision, cells });

export function decisions(objects) {
  const rows = objects.map((it) => {
    const { spec, status = {} } = it, verdict = spec.verdict ?? {};
    return row(it, [itself(it, age(status.lastMs || spec.timeMs)), about(spec.object), spec.action, badge(verdict.outcome), verdict.reason, verdict.node, status.count ?? 1, spec.component, { long: verdict.message ?? "" }]);
  });
  return table("Decisions", ["Last", "Object", "Action", "Outcome", "Reason", "Node", "Count", "By", "Message"], rows, "No decision is kept.");
}

export function events(objects) {
  const rows = objects.map((it) => {
    const { spec, status = {} } = it;
    return row(it, [itself(it, age(status.lastMs)), badge(spec.type ?? "Normal"), spec.reason, about(spec.object), status.count ?? 1, spec.component, { long: spec.message ?? "" }]);
  });
  return table("Events", ["Last", "Type", "Reason", "Object", "Count", "By", "Message"], rows, "No event is kept.");
}

export function conditions(list) {
  const rows = (list ?? []).map((it) => ({ key: it.type, revision: it.status, cells: [it.type, badge(it.status), it.reason, age(it.lastTransitionMs ?? it.sinceMs), { long: it.message ?? "" }] }));
  return table("Conditions", ["Type", "Status", "Reason", "Since", "Message"], rows, "Nothing is said of it.");
}
