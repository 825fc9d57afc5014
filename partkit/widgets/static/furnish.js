// What every view sets up, asks and takes down. First its element and the parts of it by name, its buttons, and what follows the size and the colours of the page.
function furnish(view, el, name) {
  view.root = make("div", el, "", `partkit-view ${name}`);
  view.root.innerHTML = view.model.get("look").html;
  for (const node of view.root.querySelectorAll("[data-part]")) view[node.dataset.part] = node;
  for (const node of view.root.querySelectorAll("button")) node.onclick = () => { view.act(node.value); view.over.focus({ preventScroll: true }); };
}

// `styled` says whether the view knows its colours, which it does once it is on a page; then a new size is for `resize`.
function follow(view, styled, resize) {
  view.sizes = new ResizeObserver(() => { if (styled()) resize(); else { view.restyle(); view.seen?.(); } });
  view.sizes.observe(view.stage);
  view.themes = new MutationObserver(() => view.restyle());
  for (const node of [document.body, document.documentElement]) view.themes.observe(node, { attributes: true });
}

// What a view leaves behind when it goes: nothing.
function vanish(view, traits, changed) {
  view.sizes.disconnect();
  view.themes.disconnect();
  for (const name of traits) view.model.off(`change:${name}`, changed);
  cancelAnimationFrame(view.frame);
  clearTimeout(-view.frame); // a frame that was put off
  view.root.remove();
}

// Of many values of a slider, or places of a drag, the newest, as fast as Python answers; each answer calls `answered`.
function slide(view, message) {
  view.wanted = view.sent ? message : null;
  if (view.sent) return;
  view.sent = message;
  view.ask(message);
}

function answered(view) {
  view.sent = null;
  if (view.wanted) slide(view, view.wanted);
}
