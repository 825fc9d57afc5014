// Where the numbers of an axis and the names beside a picture go.

// The multiples of 1, 2 or 5 times a power of ten, at least `rough` apart.
function roundNumbers(low, high, rough) {
  const power = 10 ** floor(log10(rough)), step = [1, 2, 5, 10].find((m) => m * power >= rough * 0.999) * power, found = [];
  for (let k = ceil(low / step - 1e-9); k <= high / step + 1e-9; k++) found.push(k * step);
  return found;
}

// Moved apart until neighbours have `gap` between them, with their middle where they want to be; those without room are left out.
function spread(places, gap, bottom) {
  const order = places.map((_, i) => i).filter((i) => places[i] >= 0).sort((a, b) => places[a] - places[b]).slice(0, floor(bottom / gap)), groups = [], out = [];
  const top = (group) => max(0, min(bottom - gap * (group.length - 1), group.reduce((sum, i) => sum + places[i], 0) / group.length - gap * (group.length - 1) / 2));
  for (const i of order) {
    groups.push([i]);
    for (let k = groups.length - 1; k > 0 && top(groups[k]) < top(groups[k - 1]) + gap * groups[k - 1].length; k--) groups[k - 1].push(...groups.pop());
  }
  for (const group of groups) group.forEach((i, k) => { out[i] = top(group) + gap * k; });
  return out;
}
