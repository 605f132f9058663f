"use strict";
/**
 * Charts from the embedded Vega descriptions, drawn offline and without evaluating code (Vega's
 * expressions are interpreted, so the page's content security policy needs no exception).
 */
(() => {
  const { explane } = window;
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const DARK = { "#e6e8eb": "#2b333d", "#111827": "#f0f3f6", "#24292f": "#0f1318" };

  /** A description in the colours of the current theme. */
  function themed(description) {
    let text = JSON.stringify(description);
    if (document.documentElement.dataset.theme === "dark") {
      for (const [light, dark] of Object.entries(DARK)) text = text.replaceAll(light, dark);
    }
    const spec = JSON.parse(text);
    const ink = { labelColor: style("--ink"), titleColor: style("--faint") };
    const lines = { gridColor: style("--grid"), domainColor: style("--line") };
    spec.background = "transparent";
    spec.config = { ...spec.config, background: "transparent" };
    spec.config.axis = { ...spec.config.axis, ...ink, ...lines, tickColor: style("--line") };
    spec.config.legend = { ...spec.config.legend, ...ink };
    spec.config.title = { ...spec.config.title, color: style("--ink") };
    return spec;
  }

  /** Draws a description into an element as wide as fits; resolves to the view. */
  async function draw(element, description, tooltip) {
    const spec = themed(description);
    if (typeof spec.width === "number") {
      spec.width = Math.max(element.clientWidth - 8, 320);
      spec.autosize = { type: "fit-x", contains: "padding" };
    }
    const options = { mode: "vega", ast: true, actions: false, renderer: "canvas", hover: false };
    const { view } = await window.vegaEmbed(element, spec, {
      ...options,
      defaultStyle: false,
      tooltip: (_handler, event, item, value) =>
        explane.showTip(event, value == null || value === "" ? null : tooltip(value, item)),
    });
    return view;
  }

  /** Terms and texts of a plain tooltip object. */
  const pairs = (value) =>
    typeof value === "object" ? Object.entries(value) : [["", String(value)]];

  explane.draw = draw;
  explane.views = {};

  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    const description = explane.data.charts[figure.dataset.chart];
    if (!description) continue;
    const element = figure.querySelector(".canvas");
    let view = null;
    const show = async () => {
      view?.finalize();
      view = await draw(element, description, pairs);
      explane.views[figure.dataset.chart] = view;
      view.addEventListener("click", (_event, item) => {
        const datum = item?.datum ?? {};
        const kind = ["op", "line", "scope"].find((name) => datum[name]);
        if (kind) explane.pick(kind, datum[kind]);
      });
      mark(explane.picked());
      figure.dataset.ready = "yes";
    };
    /** Shows the picked thing; a chart without its kind shows the line or scope of the operation. */
    const mark = ({ kind, key }) => {
      const signals = view?.getState().signals ?? {};
      const known = ["op", "line", "scope"].filter((name) => `picked_${name}` in signals);
      for (const name of known) {
        const other = known.includes(kind) ? "" : explane.wanted(name);
        view.signal(`picked_${name}`, kind === name ? key : other);
      }
      view?.runAsync();
    };
    const drawn = show();
    explane.onPick(mark);
    explane.onTheme(() => drawn.then(show));
    explane.drawn = [...(explane.drawn ?? []), drawn];
  }
})();
