// Amounts out of ledgers, which count in the smallest unit: thousandths of processors, bytes, pieces.

export function amount(dimension, value) {
  if (dimension === "cpu") return value % 1000 ? (value / 1000).toFixed(value < 10000 ? 2 : 1) : String(value / 1000);
  if (dimension === "memory" || dimension === "storage") return bytes(value);
  return String(value);
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  for (; value >= 1024 && at < units.length - 1; at++) value /= 1024;
  return (value >= 100 || Number.isInteger(value) ? Math.round(value) : value.toFixed(1)) + " " + units[at];
}
