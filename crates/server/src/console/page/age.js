// Times, as people read them: how long ago.

export function age(ms, now = Date.now()) {
  if (!ms) return "";
  const seconds = Math.max(0, Math.floor((now - ms) / 1000));
  if (seconds < 120) return seconds + "s";
  if (seconds < 7200) return Math.floor(seconds / 60) + "m";
  if (seconds < 172800) return Math.floor(seconds / 3600) + "h";
  return Math.floor(seconds / 86400) + "d";
}
