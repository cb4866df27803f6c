// All workloads: what is wanted, what is, and what the rest waits for.
import { age } from "./age.js";
import { element, heading, link } from "./element.js";
import { pager } from "./view-kind.js";
import { ask } from "./server.js";
import { badge } from "./state.js";
import { table } from "./table.js";

export const kinds = ["Workload"];

export async function draw(parts, page) {
  const found = await ask("list", { kind: "Workload", limit: 100, continue: page.after });
  const rows = found.objects.map((it) => {
    const { namespace = "", name, uid, revision, createdMs } = it.metadata, status = it.status ?? {}, count = status.replicas ?? {};
    const waits = (status.pendingReasons ?? []).map((each) => `${each.count} ${each.reason}`).join(", ");
    const rollout = status.rollout ?? {};
    return { key: uid, revision, cells: [link(name, "workload", namespace, name), namespace, element("span", { class: "count" }, `${count.serving ?? 0} of ${count.desired ?? 0}`), count.pending || "", { long: waits }, badge(rollout.phase ?? "Complete"), rollout.revision, age(createdMs)] };
  });
  const empty = "There is no workload yet. Begin with: setpoint apply -f FILE";
  return {
    revision: found.revision,
    content: [heading("Workloads"), table("Workloads", ["Name", "Namespace", "Serving", "Pending", "Waits for", "Rollout", "Revision", "Age"], rows, empty), pager(page, found)],
  };
}
