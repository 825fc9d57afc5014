// What a model does: collect events as they come, and be shown in any number of places.
//
// A stored output must not hold a widget (without a kernel it would show an error), so Python swaps the output for a still
// picture when a run ends, or when a view of a finished one reports that it is shown. Where the page allows it (JupyterLab,
// Notebook), the view then takes its seat inside that picture: what is saved is still, what is on the screen stays alive.
const OUTPUT = ".jp-OutputArea-child";

export default () => {
  const store = new Store(), views = new Set(), seats = new Set(), draw = () => { for (const view of views) view.schedule(); };
  let model;
  const meta = () => model.get("meta");

  const show = (el, seen) => { const view = new View(store, model, el, seen); views.add(view); return () => { views.delete(view); view.dispose(); }; };

  // Take the seat: in output number `index` of an area, as soon as a still picture is there; then in whatever picture replaces it.
  const seat = (area, index) => {
    let child, host, leave;
    const look = () => {
      if (host?.isConnected) return;
      leave?.();
      leave = host = null;
      const figure = (child ?? area.children[index])?.querySelector("figure.partkit-figure");
      if (!figure) return;
      child = figure.closest(OUTPUT);
      figure.classList.add("pk-seated");
      leave = show((host = make("div", figure, "", "pk-host")));
    };
    const observer = new MutationObserver(look);
    observer.observe(area, { childList: true, subtree: true });
    const stop = () => { observer.disconnect(); leave?.(); host?.parentElement?.classList.remove("pk-seated"); host?.remove(); };
    seats.add(stop);
    look();
    setTimeout(function check() { if (host?.isConnected) setTimeout(check, 2000); else if (seats.delete(stop)) { stop(); gone(); } }, 2000);
  };

  const gone = () => { if (!views.size && !seats.size) model.send({ type: "gone" }); };

  const load = () => {
    const { run, total, size, sketch = 0 } = meta(), snapshot = model.get("snapshot"), there = snapshot?.byteLength;
    if (run === store.run && !(there && (store.n < (sketch || total) || (store.whole && !sketch)))) return;
    store.reset(run, size, sketch && total);
    if (there) store.add(snapshot);
    draw();
  };

  const receive = ({ first, run, size }, [block]) => {
    if (run !== store.run) store.reset(run, size);
    if (first === store.n) { store.add(block); draw(); } else if (first > store.n) model.send({ type: "resend" });
  };

  return {
    initialize(context) {
      ({ model } = context);
      const heard = { "msg:custom": receive, "change:snapshot": load, "change:meta": () => { load(); for (const view of views) view.restyle(); }, "change:selected": draw, "change:answers": draw, "change:outlined": draw, "change:sums": draw };
      const each = (way) => { for (const [name, act] of Object.entries(heard)) model[way](name, act); };
      each("on");
      load();
      return () => { each("off"); for (const stop of seats) { seats.delete(stop); stop(); } };
    },
    render({ el }) {
      // Asked when the view is drawn first, and again when the run ends: it may have ended before Python knew of this place.
      const report = () => output() && !meta().live && model.send({ type: "shown" });
      const output = () => el.closest(OUTPUT), leave = show(el, report);
      let spot;
      const settle = () => {
        const child = output(), area = child?.parentElement;
        if (area) spot = [area, [...area.children].indexOf(child)];
        if (!meta().frozen) report();
      };
      model.on("change:meta", settle);
      return () => {
        model.off("change:meta", settle);
        leave();
        if (spot && meta().frozen) seat(...spot);
        else if (spot || meta().frozen) setTimeout(gone, 2000);
      };
    },
  };
};
