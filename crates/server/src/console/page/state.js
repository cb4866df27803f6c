// States as badges: what is well, what is under way, what needs somebody.
import { element } from "./element.js";

const GOOD = ["True", "serving", "ready", "succeeded", "Complete", "Accepted", "Normal", "Active", "Bound", "leader", "Ready"];
const BUSY = ["Unknown", "pending", "admitted", "queued", "scheduled", "bound", "starting", "stopping", "Progressing", "Paused", "Held", "RollingBack", "Deferred", "cordoned", "draining", "unknown"];
const BAD = ["False", "failed", "Stuck", "RolledBack", "Rejected", "Warning", "Failed", "Unschedulable", "not ready"];

export function badge(state, text = state) {
  const tone = GOOD.includes(state) ? "good" : BUSY.includes(state) ? "busy" : BAD.includes(state) ? "bad" : "";
  return element("span", { class: "badge " + tone }, text);
}

/** Counts as badges, without those that are nothing. */
export function badges(counts) {
  return element("div", { class: "badges" }, Object.entries(counts ?? {}).filter(([, count]) => count > 0).map(([state, count]) => badge(state, `${count} ${state}`)));
}
