// How the whole stands.
import { bytes } from "./amount.js";
import { element, heading, link, notice } from "./element.js";
import { events } from "./record.js";
import { ask } from "./server.js";
import { badge, badges } from "./state.js";
import { table } from "./table.js";

export const kinds = ["Workload", "Node", "Event"];

const tile = (title, number, ...below) => element("section", { class: "tile" }, element("h2", {}, title), element("div", { class: "number" }, number), below);
const plus = (part) => (part.complete ? "" : "+");

export async function draw() {
  const [cluster, overview, latest] = await Promise.all([ask("cluster"), ask("overview"), ask("newest", { kind: "Event", fields: "spec.type=Warning", limit: 8 }).catch((refusal) => refusal)]);
  const { workloads, nodes } = overview, tiles = [], members = cluster.cluster;
  if (workloads.error) tiles.push(notice(workloads.error));
  else {
    const { desired, ...stages } = workloads.counts.replicas;
    tiles.push(tile(link("Workloads", "workloads"), workloads.counts.total + plus(workloads), badges(workloads.counts.phases)));
    tiles.push(tile(link("Replicas", "kind", "Replica"), `${stages.serving ?? 0} of ${desired ?? 0}`, badges(stages), badges(workloads.counts.pending)));
  }
  if (nodes.error) tiles.push(notice(nodes.error));
  else {
    const { total, ready, unready, unknown, cordoned, draining } = nodes.counts;
    tiles.push(tile(link("Nodes", "nodes"), total + plus(nodes), badges({ Ready: ready, "not ready": unready, unknown, cordoned, draining })));
  }
  if (!members.error) tiles.push(tile("Revision", String(members.revision), element("div", { class: "soft" }, `${bytes(members.bytes)} stored`)));
  const rows = (members.members ?? []).map((it) => ({ key: it.id, revision: String(it.leads), cells: [it.name, element("span", {}, it.leads ? badge("leader") : it.learner ? "learner" : "follower"), it.here ? "this one" : "", { long: it.clients.join(", ") }] }));
  return {
    revision: Math.max(workloads.revision ?? 0, nodes.revision ?? 0),
    content: [
      heading("Overview", `${cluster.asker.principal} · version ${cluster.version}`),
      (members.problems ?? []).map((problem) => notice(problem)),
      element("div", { class: "tiles" }, tiles),
      element("h2", {}, "Cluster"),
      members.error ? notice(members.error) : table("Members", ["Member", "Role", "", "Clients"], rows, "No member is known."),
      element("h2", {}, "Latest warnings"),
      latest.objects ? events(latest.objects) : notice(latest.message),
    ],
  };
}
