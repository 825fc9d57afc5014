// What a model does: collect events as they come, and be shown in any number of places.
//
// A stored output must not hold a widget (without a kernel it would show an error), so Python swaps the output for a still
// picture when a run ends, or when a view of a finished one reports that it is shown. Where the page allows it (JupyterLab,
// Notebook), the view then takes its seat inside that picture: what is saved is still, what is on the screen stays alive.
export default () => {
  const store = new Store(), views = new Set(), seats = new Set(), draw = () => { for (const view of views) view.schedule(); };
  let model;

  const show = (el) => { const view = new View(store, model, el); views.add(view); return () => { views.delete(view); view.dispose(); }; };

  const report = (el) => {
    if (el.closest(".jp-OutputArea-child") && !model.get("meta").live) model.send({ type: "shown" });
  };

  // Follow the output number `index` of an output area: whenever a still picture is there, show the view in its stead.
  const seat = (area, index) => {
    let host, leave;
    const look = () => {
      if (host?.isConnected) return;
      leave?.();
      leave = null;
      const figure = area.children[index]?.querySelector("figure.partkit-figure");
      if (!figure) return;
      figure.classList.add("pk-seated");
      host = make("div", "pk-host", figure);
      leave = show(host);
    };
    const observer = new MutationObserver(look);
    observer.observe(area, { childList: true, subtree: true });
    const stop = () => { observer.disconnect(); leave?.(); host?.parentElement?.classList.remove("pk-seated"); host?.remove(); };
    seats.add(stop);
    look();
    setTimeout(function check() { if (host?.isConnected || !seats.has(stop)) setTimeout(check, 2000); else { stop(); seats.delete(stop); gone(); } }, 2000);
  };

  const gone = () => { if (!views.size && !seats.size) model.send({ type: "gone" }); };

  const load = () => {
    const { run, total, size } = model.get("meta"), snapshot = model.get("snapshot");
    if (run !== store.run || (snapshot?.byteLength && store.n < total)) { store.reset(run, size); if (snapshot?.byteLength) store.add(snapshot); draw(); }
  };

  const receive = ({ first, run, size }, [block]) => {
    if (run !== store.run) store.reset(run, size);
    if (first === store.n) { store.add(block); draw(); } else if (first > store.n) model.send({ type: "resend" });
  };

  return {
    initialize(context) {
      ({ model } = context);
      const heard = { "msg:custom": receive, "change:snapshot": load, "change:meta": () => { load(); for (const view of views) view.restyle(); }, "change:selected": draw };
      for (const [name, act] of Object.entries(heard)) model.on(name, act);
      load();
      return () => { for (const [name, act] of Object.entries(heard)) model.off(name, act); for (const stop of seats) stop(); };
    },
    render({ el }) {
      const leave = show(el);
      const found = setTimeout(() => report(el), 100);
      let spot;
      const settle = () => {
        const child = el.closest(".jp-OutputArea-child");
        if (child) spot = [child.parentElement, [...child.parentElement.children].indexOf(child)];
      };
      model.on("change:meta", settle);
      return () => {
        clearTimeout(found);
        model.off("change:meta", settle);
        leave();
        if (spot && model.get("meta").frozen) seat(...spot);
        else if (spot || model.get("meta").frozen) setTimeout(gone, 2000);
      };
    },
  };
};
