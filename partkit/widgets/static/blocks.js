// What Python sends: blocks, each a head in JSON and the arrays that it announces, padded to 8 bytes. See partkit/figures/encoding.py.
// `each` gets the head, and `take(type, n)`, which gives the next array.
function blocks(view, each) {
  const buffer = view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
  let at = 0;
  const take = (type, n) => { const part = new type(buffer, at, n); at += part.byteLength; return part; };
  while (at < buffer.byteLength) {
    const length = take(Uint32Array, 2)[0];
    each(JSON.parse(new TextDecoder().decode(take(Uint8Array, length))), take);
    at += -at & 7;
  }
}
