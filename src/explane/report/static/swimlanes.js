"use strict";
/**
 * The swimlanes of the median step: zoomed with wheel, buttons or keys, dragged, kernels picked.
 *
 * All events of the step are embedded; Vega is given only those in view, slivers merged, so that
 * every frame costs about the same however long the step is.
 */
(() => {
  const { explane } = window;
  const PIXELS_PER_LETTER = 6.4;
  const UNITS = [["s", 1e12], ["ms", 1e9], ["µs", 1e6], ["ns", 1e3], ["ps", 1]];

  /** Picoseconds as text. */
  function time(ps) {
    const [unit, size] = UNITS.find(([, s]) => Math.abs(ps) >= s) ?? UNITS[4];
    return size === 1 ? `${ps} ps` : `${(ps / size).toFixed(3)} ${unit}`;
  }

  class Swimlanes {
    constructor(figure, lanes) {
      this.figure = figure;
      this.lanes = lanes;
      this.element = figure.querySelector(".canvas");
      this.details = figure.querySelector(".details");
      this.full = lanes.window;
      this.from = this.full[0];
      this.to = this.full[1];
      this.current = -1;
      this.frames = [];
      this.pending = false;
      for (let i = 0; i < lanes.events.start.length; i += 1) {
        explane.learn(this.text("op", i), this.text("line", i), this.text("scope", i));
      }
      this.wire();
    }

    async draw() {
      this.view?.finalize();
      this.view = await explane.draw(this.element, this.lanes.vega, (value) => this.tip(value));
      this.view.addEventListener("click", (_event, item) => {
        if (!this.moved && item?.datum?.i !== undefined) this.choose(item.datum.i, true);
      });
      this.refresh();
      this.figure.dataset.ready = "yes";
    }

    text(column, i) {
      const code = this.lanes.events[column][i];
      return code < 0 ? "" : this.lanes.strings[code];
    }

    about(i) {
      const { events } = this.lanes;
      return [
        ["kernel or call", this.text("name", i)],
        ["instruction", this.text("instruction", i)],
        ["op name", this.text("scope", i)],
        ["line", this.text("line", i)],
        ["match", this.text("match", i)],
        ["kind", this.lanes.kinds[events.kind[i]]],
        ["where", this.lanes.lanes[events.lane[i]]],
        ["start", time(events.start[i])],
        ["duration", time(events.duration[i])],
        ["critical path", events.path[i] ? "yes" : ""],
      ];
    }

    tip(value) {
      if (value.n > 1) return [["merged", `${value.n} short ${value.kind} events: zoom in`]];
      return value.i === undefined ? null : this.about(value.i);
    }

    /** Rows in view for Vega: events of a pixel and more, and one mark per kind for slivers. */
    rows() {
      const { events, unit, lanes, kinds } = this.lanes;
      const pixel = (this.to - this.from) / Math.max(this.view.width(), 1);
      const { kind: pickKind, key } = this.picked ?? {};
      const wanted = new Set();
      this.lanes.strings.forEach((text, code) => {
        if (pickKind === "scope" ? explane.inside(text, key) : text === key) wanted.add(code);
      });
      const column = { line: events.line, scope: events.scope }[pickKind] ?? events.op;
      const rows = [];
      const merged = new Map();
      for (let i = 0; i < events.start.length; i += 1) {
        const start = events.start[i];
        const end = start + events.duration[i];
        if (end < this.from || start > this.to) continue;
        const faded = Boolean(key) && !wanted.has(column[i]);
        if (end - start >= pixel) {
          const next = events.lane[i + 1] === events.lane[i] ? events.start[i + 1] : end;
          const free = Math.min(end, Math.max(next, start)) - Math.max(start, this.from);
          const room = Math.floor(free / pixel / PIXELS_PER_LETTER) - 1;
          const name = room > 6 ? this.text("instruction", i) || this.text("name", i) : "";
          rows.push({
            i, n: 1, lane: lanes[events.lane[i]], kind: kinds[events.kind[i]],
            start: start / unit.size_ps, end: end / unit.size_ps, path: events.path[i], faded,
            label: name.length > Math.max(room, 0) ? `${name.slice(0, room - 1)}…` : name,
          });
          continue;
        }
        const slot = Math.floor(start / pixel);
        const id = `${events.lane[i]} ${events.kind[i]} ${slot} ${faded}`;
        const mark = merged.get(id);
        if (mark) {
          mark.n += 1;
          mark.end = Math.max(mark.end, end / unit.size_ps);
          mark.path = Math.max(mark.path, events.path[i]);
          delete mark.i;
        } else {
          merged.set(id, {
            i, n: 1, lane: lanes[events.lane[i]], kind: kinds[events.kind[i]],
            start: start / unit.size_ps, end: Math.max(end, start + pixel) / unit.size_ps,
            path: events.path[i], faded, label: "",
          });
        }
      }
      return [...rows, ...merged.values()];
    }

    /** Draws the window at the next frame; several calls before it cost one drawing. */
    refresh() {
      if (this.pending || !this.view) return;
      this.pending = true;
      requestAnimationFrame(async () => {
        const began = performance.now();
        const { size_ps: size } = this.lanes.unit;
        this.view.signal("view_from", this.from / size).signal("view_to", this.to / size);
        await this.view.data("events", this.rows()).runAsync();
        this.frames.push(performance.now() - began);
        this.pending = false;
      });
    }

    show(from, to) {
      const [first, last] = this.full;
      const length = Math.min(Math.max(to - from, (last - first) / 1e5, 10), last - first);
      this.from = Math.min(Math.max(from, first), last - length);
      this.to = this.from + length;
      this.refresh();
    }

    /** Zooms about a share of the width. */
    zoom(factor, at = 0.5) {
      const length = this.to - this.from;
      const anchor = this.from + length * at;
      this.show(anchor - length * factor * at, anchor + length * factor * (1 - at));
    }

    shift(share) {
      const length = (this.to - this.from) * share;
      this.show(this.from + length, this.to + length);
    }

    /** Makes an event the current one: details, and its operation picked. */
    choose(i, pick) {
      this.current = i;
      this.details.replaceChildren(explane.describe(this.about(i)));
      const op = this.text("op", i);
      if (pick && op) explane.pick("op", op);
    }

    /** Goes to the next or the previous event of the same lane. */
    step(direction) {
      const { events } = this.lanes;
      let i = this.current < 0 ? -1 : this.current + direction;
      const lane = this.current < 0 ? null : events.lane[this.current];
      if (this.current < 0) i = direction > 0 ? 0 : events.start.length - 1;
      if (i < 0 || i >= events.start.length || (lane !== null && events.lane[i] !== lane)) return;
      this.choose(i, false);
      const middle = events.start[i] + events.duration[i] / 2;
      const half = (this.to - this.from) / 2;
      if (middle < this.from || middle > this.to) this.show(middle - half, middle + half);
    }

    /** Where on the plotting area a pointer is, from 0 to 1. */
    share(event) {
      const box = this.element.querySelector("canvas").getBoundingClientRect();
      const left = box.left + this.view.origin()[0];
      return Math.min(Math.max((event.clientX - left) / this.view.width(), 0), 1);
    }

    wire() {
      const { element } = this;
      explane.onPick((picked) => {
        this.picked = picked;
        this.refresh();
      });
      element.tabIndex = 0;
      element.classList.add("lanes");
      element.addEventListener("wheel", (event) => {
        if (!this.view || event.ctrlKey) return;
        event.preventDefault();
        if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.shift(event.deltaX / 800);
        else this.zoom(Math.exp(event.deltaY / 400), this.share(event));
      }, { passive: false });
      let drag = null;
      element.addEventListener("pointerdown", (event) => {
        drag = { x: event.clientX, from: this.from, to: this.to };
        this.moved = false;
      });
      window.addEventListener("pointermove", (event) => {
        if (!drag) return;
        if (Math.abs(event.clientX - drag.x) > 3) this.moved = true;
        if (!this.moved) return;
        element.classList.add("dragging");
        const length = drag.to - drag.from;
        const moved = ((event.clientX - drag.x) / this.view.width()) * length;
        this.show(drag.from - moved, drag.to - moved);
      });
      window.addEventListener("pointerup", () => {
        drag = null;
        element.classList.remove("dragging");
      });
      const actions = {
        "zoom-in": () => this.zoom(0.5), "zoom-out": () => this.zoom(2),
        left: () => this.shift(-0.25), right: () => this.shift(0.25),
        all: () => this.show(...this.full),
        next: () => this.step(1), previous: () => this.step(-1),
      };
      const keys = {
        "+": "zoom-in", "=": "zoom-in", "-": "zoom-out", ArrowLeft: "left", ArrowRight: "right",
        0: "all", Home: "all", n: "next", p: "previous",
      };
      element.addEventListener("keydown", (event) => {
        const name = keys[event.key];
        if (name) {
          event.preventDefault();
          actions[name]();
        } else if (event.key === "Enter" && this.current >= 0) {
          this.choose(this.current, true);
        }
      });
      for (const button of this.figure.querySelectorAll("button[data-action]")) {
        button.addEventListener("click", () => actions[button.dataset.action]());
      }
    }
  }

  explane.swimlanes = [];
  for (const figure of document.querySelectorAll("figure[data-swimlanes]")) {
    const lanes = explane.data.swimlanes[Number(figure.dataset.swimlanes)];
    const swimlanes = new Swimlanes(figure, lanes);
    explane.swimlanes.push(swimlanes);
    const drawn = swimlanes.draw();
    explane.onTheme(() => drawn.then(() => swimlanes.draw()));
    explane.drawn = [...(explane.drawn ?? []), drawn];
  }
})();
