// Keeps a page live: follows the node's beats, and says how it stands with that. Opens again after a cut, where it was.
// The stream is read with fetch because EventSource cannot send a token.
import { open } from "./server.js";

const SILENT_MS = 15000;
const AGAIN_MS = [500, 1000, 2000, 5000];

/** Calls `changed(revision)` after changes of the kinds, and `standing(state, text)`. Gives back what ends it. */
export function follow(kinds, from, changed, standing) {
  const end = new AbortController();
  let revision = from, heard = Date.now(), connected = false;
  const check = setInterval(() => {
    if (!connected) return;
    const silent = Date.now() - heard;
    if (silent > SILENT_MS) standing("behind", `behind: nothing heard for ${Math.round(silent / 1000)} s; this node may have no leader`);
  }, 1000);

  async function once() {
    const anew = revision === 0;
    const answer = await open("live", { kinds: kinds.join(","), from: revision }, end.signal);
    connected = true;
    // Followed from now on, and asked for after that: so nothing is missed in between.
    if (anew) changed(revision);
    heard = Date.now();
    standing("live", `live at revision ${revision}`);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      text += value;
      for (let cut; (cut = text.indexOf("\n\n")) >= 0; text = text.slice(cut + 2)) beat(JSON.parse(text.slice(5, cut)));
    }
  }

  function beat(told) {
    heard = Date.now();
    revision = Math.max(revision, told.revision);
    // Perhaps because the revision is no longer kept: the next stream does not ask for it.
    if (told.end) return (revision = 0);
    standing("live", `live at revision ${revision}`);
    if (Object.keys(told.changes).length) changed(revision);
  }

  (async () => {
    for (let failed = 0; !end.signal.aborted; ) {
      try {
        await once();
        failed = 0;
      } catch (problem) {
        if (end.signal.aborted) return;
        if ([400, 410].includes(problem.status)) revision = 0;
        standing("cut", `disconnected: ${problem.message}`);
        failed++;
      }
      connected = false;
      if (end.signal.aborted) return;
      await new Promise((done) => setTimeout(done, AGAIN_MS[Math.min(failed, AGAIN_MS.length - 1)]));
      // What was missed meanwhile, however the stream ended.
      changed(revision);
    }
  })();
  return () => {
    clearInterval(check);
    end.abort();
  };
}
