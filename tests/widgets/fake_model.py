"""A page that shows a widget without Jupyter: the widget's own JavaScript and a model that keeps traits and sends nothing."""

from __future__ import annotations

import base64
import json
from typing import Any

PAGE = """<!doctype html><meta charset=utf-8><style>body{margin:0}%(css)s</style><body style="%(style)s"><script type=module>
const bytes = (text) => { const raw = Uint8Array.from(atob(text), (c) => c.charCodeAt(0)); return new DataView(raw.buffer); };
const state = %(state)s, handlers = {};
for (const [name, text] of Object.entries(%(buffers)s)) state[name] = bytes(text);
window.sent = [];
window.model = {
  get: (name) => state[name],
  set(name, value) { state[name] = value; (window.changed ??= []).push(name); this.fire(`change:${name}`); },
  save_changes() {},
  send: (message) => window.sent.push(message),
  on: (name, act) => (handlers[name] ??= []).push(act),
  off: (name, act) => { handlers[name] = (handlers[name] ?? []).filter((h) => h !== act); },
  fire: (name, ...values) => { for (const act of handlers[name] ?? []) act(...values); },
  count: () => Object.values(handlers).flat().length,
};
window.bytes = bytes;
window.receive = (message, text) => window.model.fire("msg:custom", message, [bytes(text)]);
const source = %(esm)s;
const { default: factory } = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
const widget = factory();
window.stop = widget.initialize({ model });
window.mount = () => { const el = document.createElement("div"); document.body.append(el); return widget.render({ model, el }); };
window.cleanups = [window.mount()];
window.ready = true;
</script>"""


def page(widget: Any, *, style: str = "", **changes: Any) -> str:
    """HTML that shows ``widget`` in its present state; ``changes`` are other values for its synced traits."""
    own = [name for name in widget.trait_names(sync=True) if not name.startswith("_") and name not in ("layout", "tabbable", "tooltip")]
    state = {name: getattr(widget, name) for name in own} | changes
    buffers = {name: base64.b64encode(value).decode() for name, value in state.items() if isinstance(value, bytes)}
    plain = {name: value for name, value in state.items() if not isinstance(value, bytes)}
    return PAGE % {
        "css": widget._css,
        "style": style,
        "state": json.dumps(plain),
        "buffers": json.dumps(buffers),
        "esm": json.dumps(widget._esm).replace("</", "<\\/"),
    }
