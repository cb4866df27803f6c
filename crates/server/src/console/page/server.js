// Questions to the node, and the token they are asked with. It is kept for this tab only, and only until it is closed.

const KEY = "setpoint-token";

/** A refusal, as one sentence. */
export class Refusal extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

export const token = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY)),
};

export async function open(name, query, signal) {
  const headers = { "X-Setpoint-Console": "1" };
  if (token.get()) headers.Authorization = "Bearer " + token.get();
  const asked = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  let answer;
  try {
    answer = await fetch(`api/${name}?${new URLSearchParams(asked)}`, { headers, signal, cache: "no-store", credentials: "omit" });
  } catch (problem) {
    if (signal?.aborted) throw problem;
    throw new Refusal(0, "This node does not answer. Is it running, and can this machine reach it?");
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  throw new Refusal(answer.status, told.error ?? `The node answered ${answer.status}.`);
}

export async function ask(name, query = {}) {
  return (await open(name, query)).json();
}
