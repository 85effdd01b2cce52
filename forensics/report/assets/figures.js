"use strict";
// The figures: drawn when they come into sight, in the reader's light or dark, and fit for paper.
globalThis.figures = (() => {
  const blocks = [...document.querySelectorAll("script[data-figure]")];
  const boxOf = (block) => document.getElementById(block.dataset.figure);
  const drawn = new Set();
  let library = null;

  // The library is in the page once, packed, and its hash is in the policy, so it may run inline;
  // or it lies beside many pages that share it.
  const kept = document.getElementById("plotly-js");
  const run = (source) => {
    if (globalThis.Plotly) return;
    const script = document.createElement("script");
    script.textContent = source;
    document.head.append(script);
  };
  const load = () => {
    library ??= (async () => {
      if (kept.dataset.file) {
        const script = document.createElement("script");
        script.src = kept.dataset.file;
        const lies = new Promise((done, failed) => {
          script.onload = done;
          script.onerror = () => failed(new Error(`${kept.dataset.file} is not beside this page`));
        });
        document.head.append(script);
        await lies;
        return;
      }
      run(await globalThis.unpacking.text(kept.textContent));
    })();
    return library;
  };

  // Figures carry data; light or dark is the reader's, so it is set here. Paper is light.
  const styles = getComputedStyle(document.documentElement);
  const colour = (name, paper) =>
    ((paper && styles.getPropertyValue(`${name}-on-paper`)) || styles.getPropertyValue(name)).trim();
  const parsed = (block, paper) =>
    JSON.parse(block.textContent.replace(/var\((--[a-z-]+)\)/g, (_, name) => colour(name, paper)));

  const theme = (layout, paper) => {
    const set = { "font.color": colour("--text", paper) };
    for (const key of Object.keys(layout).filter((name) => /^[xy]axis\d*$/.test(name))) {
      set[`${key}.gridcolor`] = colour("--grid", paper);
      set[`${key}.linecolor`] = colour("--line", paper);
    }
    set["hoverlabel.bgcolor"] = colour("--ground", paper);
    set["hoverlabel.font.color"] = colour("--text", paper);
    return set;
  };

  const apply = (layout, changes) => {
    for (const [path, value] of Object.entries(changes)) {
      const keys = path.split(".");
      const last = keys.pop();
      keys.reduce((at, key) => (at[key] ??= {}), layout)[last] = value;
    }
    return layout;
  };

  // Plotly's own buttons have neither a name nor a place in the order of tabs.
  const label = (box) => {
    for (const button of box.querySelectorAll(".modebar-btn")) {
      button.setAttribute("aria-label", button.getAttribute("data-title") ?? "figure tool");
      button.setAttribute("role", "button");
      button.setAttribute("tabindex", "0");
      button.onkeydown = (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        button.click();
      };
    }
  };

  // A cell of a heatmap shows one leader, or that there were several. All of them are in the bar of
  // its row, or, where it has none, in its history: a click goes there, to the time of the cell.
  const zone = Number(document.querySelector("main")?.dataset.zone ?? 0);
  const ofCell = ({ data, pointNumber: [, column], y }) => {
    const link = data.meta?.links?.[data.y.indexOf(y)];
    if (!link?.startsWith("#p/")) return link;
    const [from, to] = [0, 1].map((side) => Date.parse(`${data.x[column + side].replace(" ", "T")}Z`) - zone);
    const around = Math.max(1000, to - from);
    const [since, till] = [from - around, to + around].map((at) => new Date(at).toISOString());
    const bars = blocks.find((block) => block.dataset.figure === "figure-leaders");
    const has = bars && JSON.parse(bars.textContent).data.some((trace) => trace.y?.includes(y));
    return `${has ? "#figure-leaders" : link}&t/${since}..${till}`;
  };

  // A mark names what it stands for: a finding, a partition, a broker. A click goes there.
  const follow = (box) =>
    box.on("plotly_click", ({ points }) => {
      const ids = points.map((point) => (point.data.type === "heatmap" ? ofCell(point) : point.id));
      const id = ids.find((name) => name?.startsWith("#"));
      if (id) globalThis.addresses.go(id.slice(1));
    });

  // The words of a bar stand where its part begins that is in sight. Words that do not fit are made
  // small; too small to read, they are only dirt.
  const tidy = (box) => {
    const edge = box._fullLayout.xaxis._length;
    const places = [];
    for (const text of box.querySelectorAll(".bartext")) {
      const bar = text.parentNode.querySelector("path").getBBox();
      const words = text.getBBox();
      const left = Math.max(bar.x, 0) + 3;
      const scale = Math.min(1, (Math.min(bar.x + bar.width, edge) - 3 - left) / words.width);
      const middle = bar.y + bar.height / 2 - scale * (words.y + words.height / 2);
      places.push([text, scale, left - scale * words.x, middle]);
    }
    for (const [text, scale, x, y] of places) {
      text.style.visibility = scale < 0.75 ? "hidden" : "visible";
      if (scale >= 0.75) text.setAttribute("transform", `translate(${x},${y}) scale(${scale})`);
    }
  };

  // While a figure with its axis on top is scrolled through, the times stay in sight above it.
  const axes = new Map();
  const showAxis = (box) => {
    const axis = axes.get(box);
    const tick = box.querySelector(".xtick text");
    axis.hidden = !tick || tick.getBoundingClientRect().bottom > 0 || box.getBoundingClientRect().bottom < 120;
    axis.scrollLeft = box.closest(".scroll").scrollLeft;
  };
  const stick = (box) => {
    if (box.layout.xaxis.side !== "top") return;
    if (!axes.has(box)) {
      const axis = document.createElement("div");
      const holder = document.createElement("div");
      axis.className = "axis";
      holder.className = "axis-place";
      holder.setAttribute("aria-hidden", "true");
      holder.append(axis);
      box.closest(".scroll").before(holder);
      axes.set(box, axis);
    }
    const from = box.getBoundingClientRect();
    const times = document.createElement("div");
    times.style.width = `${from.width}px`;
    for (const tick of box.querySelectorAll(".xtick text")) {
      const mark = document.createElement("span");
      const place = tick.getBoundingClientRect();
      mark.textContent = (tick.querySelector("tspan") ?? tick).textContent;
      mark.style.left = `${(place.left + place.right) / 2 - from.left}px`;
      times.append(mark);
    }
    axes.get(box).replaceChildren(times);
    showAxis(box);
  };
  addEventListener("scroll", () => axes.forEach((_, box) => showAxis(box)), { capture: true, passive: true });

  // A cell holds a code; what it stands for is said in words when somebody points at it.
  const KINDS = { i1: Int8Array, i2: Int16Array, i4: Int32Array, f8: Float64Array };
  const word = (trace) => {
    const words = trace.meta?.words;
    if (!words || !trace.z?.bdata) return;
    const bytes = Uint8Array.from(atob(trace.z.bdata), (one) => one.charCodeAt(0));
    const flat = new KINDS[trace.z.dtype](bytes.buffer);
    const [rows, columns] = trace.z.shape.split(", ").map(Number);
    trace.text = Array.from({ length: rows }, (_, row) =>
      Array.from({ length: columns }, (_, column) => words[flat[row * columns + column]] ?? ""));
  };

  const plot = (box, block, paper = false, more = {}) => {
    const { data, layout, config } = parsed(block, paper);
    data.forEach(word);
    box.replaceChildren();
    const set = apply(layout, { ...theme(layout, paper), ...more });
    const done = Plotly.newPlot(box, data, set, config);
    const after = () => {
      tidy(box);
      if (!paper) stick(box);
    };
    box.on("plotly_afterplot", after);
    after();
    label(box);
    follow(box);
    return done;
  };

  const begin = async (block, box) => {
    try {
      await load();
      await plot(box, block);
    } catch (error) {
      const words = document.createElement("p");
      words.textContent = `This figure could not be drawn: ${error.message}`;
      box.replaceChildren(words);
    }
  };

  // Whoever asks for a figure that is being drawn waits for it.
  const drawing = new Map();
  const draw = (block) => {
    const box = boxOf(block);
    if (!drawn.has(box)) {
      drawn.add(box);
      drawing.set(box, begin(block, box));
    }
    return drawing.get(box);
  };

  const watch = new IntersectionObserver(
    (seen) => {
      for (const entry of seen) {
        if (!entry.isIntersecting) continue;
        watch.unobserve(entry.target);
        draw(blocks.find((block) => boxOf(block) === entry.target));
      }
    },
    { rootMargin: "400px" },
  );
  for (const block of blocks) watch.observe(boxOf(block));

  // Printing does not wait: what nobody has scrolled to yet is drawn while there is time.
  const idle = globalThis.requestIdleCallback ?? ((work) => setTimeout(work, 200));
  const prepare = async () => {
    for (const block of blocks) {
      await new Promise((free) => idle(free));
      // What is folded away has no width yet; it is drawn when somebody opens it.
      if (boxOf(block).checkVisibility?.() !== false) await draw(block);
    }
  };
  addEventListener("load", () => setTimeout(prepare, 500));

  // A program prints a page as soon as that has loaded. One that is printed with its figures has
  // loaded when the library is there, and a frame that is being written to says so.
  if (blocks.length && !document.querySelector(".unprinted")) {
    const hold = document.createElement("iframe");
    hold.hidden = true;
    document.body.append(hold);
    hold.contentDocument.open();
    load().catch(() => {}).finally(() => hold.remove());
  }

  const repaint = () => {
    for (const block of blocks) if (boxOf(block).layout) again(boxOf(block), block, false, {});
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);

  // A4 and Letter, whichever is narrower and whichever is shorter, less their margins and what a
  // figure says above it.
  const WIDE = 680;
  const HIGH = 800;
  let slices = [];

  // A figure with more rows than a sheet can hold goes on as many sheets as it needs.
  const sliced = (box, block, rows) => {
    const { layout } = JSON.parse(block.textContent);
    const frame = layout.height - rows.height * rows.count;
    const each = Math.floor((HIGH - frame) / rows.height);
    const size = { width: WIDE, autosize: false };
    for (let first = 0; first < rows.count; first += each) {
      const last = Math.min(first + each, rows.count);
      const part = document.createElement("div");
      part.className = "sheet";
      box.after(...slices.filter((one) => one.dataset.of === box.id), part);
      part.dataset.of = box.id;
      slices.push(part);
      const range = [rows.count - last - 0.5, rows.count - first - 0.5];
      const height = frame + rows.height * (last - first);
      plot(part, block, true, { ...size, height, "yaxis.range": range });
    }
    box.classList.add("off-paper");
  };

  // What the reader has zoomed to stays, on paper and after it.
  const again = (box, block, paper, size) => {
    const range = box.layout?.xaxis.range;
    // Nobody moves a strip on paper.
    const strip = JSON.parse(block.textContent).layout.xaxis2?.rangeslider;
    if (paper && strip) size = { ...size, "xaxis2.rangeslider.visible": false };
    plot(box, block, paper, { ...size, ...(range ? { "xaxis.range": range } : {}) });
  };
  const toPaper = () => {
    for (const block of blocks) {
      const box = boxOf(block);
      const plain = JSON.parse(block.textContent).layout;
      const rows = plain.meta?.rows;
      if (rows && plain.height > HIGH) sliced(box, block, rows);
      else again(box, block, true, { width: WIDE, autosize: false, height: Math.min(plain.height, HIGH) });
      drawn.add(box);
    }
  };
  const toScreen = () => {
    for (const part of slices) {
      Plotly.purge(part);
      part.remove();
    }
    slices = [];
    for (const block of blocks) {
      const box = boxOf(block);
      box.classList.remove("off-paper");
      again(box, block, false, {});
    }
  };
  // The page of one run is printed short, with the timeline that needs no script, but for those who
  // ask for all of it.
  const isShort = () => document.querySelector(".unprinted") && !document.querySelector(".print-all");
  let onPaper = false;
  addEventListener("beforeprint", () => {
    onPaper = Boolean(globalThis.Plotly) && !isShort();
    if (onPaper) toPaper();
  });
  addEventListener("afterprint", () => onPaper && toScreen());

  // Show a stretch of time on every figure that has time on its first axis.
  // A number would be shown by the reader's own clock; a text is shown as it stands.
  const written = (moment) => new Date(moment).toISOString().slice(0, 23).replace("T", " ");
  const zoom = async (from, to) => {
    for (const block of blocks) {
      const box = boxOf(block);
      if (box.checkVisibility?.() === false) continue;
      await draw(block);
      if (box.layout?.xaxis?.type === "date") {
        await Plotly.relayout(box, { "xaxis.range": [written(from), written(to)] });
      }
    }
  };
  const drawAll = async () => {
    for (const block of blocks) await draw(block);
  };
  return { draw, drawAll, zoom };
})();
