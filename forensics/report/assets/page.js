"use strict";
(() => {
  const blocks = [...document.querySelectorAll("script[data-figure]")];
  const drawn = new Set();
  let library = null;

  // The library is in the page once, packed; its hash is in the policy, so it may run inline.
  const load = () => {
    library ??= (async () => {
      const packed = atob(document.getElementById("plotly-js").textContent);
      const bytes = Uint8Array.from(packed, (mark) => mark.charCodeAt(0));
      const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      const script = document.createElement("script");
      script.textContent = await new Response(plain).text();
      document.head.append(script);
    })();
    return library;
  };

  const LIGHT = { "--text": "#000", "--grid": "#ddd", "--line": "#bbb", "--ground": "#fff" };
  const colour = (name, paper) =>
    paper ? LIGHT[name] : getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Figures carry data; light or dark is the reader's, so it is set here.
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

  const label = (box) => {
    for (const button of box.querySelectorAll(".modebar-btn")) {
      button.setAttribute("aria-label", button.getAttribute("data-title") ?? "figure tool");
      button.setAttribute("role", "button");
    }
  };

  const draw = async (block) => {
    const name = block.dataset.figure;
    if (drawn.has(name)) return;
    drawn.add(name);
    const box = document.getElementById(name);
    try {
      await load();
      const { data, layout, config } = JSON.parse(block.textContent);
      await Plotly.newPlot(box, data, apply(layout, theme(layout)), config);
      label(box);
    } catch (error) {
      box.textContent = `This figure could not be drawn: ${error.message}`;
    }
  };

  const repaint = (paper) => {
    for (const name of drawn) {
      const box = document.getElementById(name);
      if (!box.layout) continue;
      // Paper is narrower than most windows; a null width follows the box again.
      const size = paper ? { width: 680, autosize: false } : { width: null, autosize: true };
      Plotly.relayout(box, { ...theme(box.layout, paper), ...size });
    }
  };

  const watch = new IntersectionObserver(
    (seen) => {
      for (const entry of seen) {
        if (!entry.isIntersecting) continue;
        watch.unobserve(entry.target);
        draw(blocks.find((block) => block.dataset.figure === entry.target.id));
      }
    },
    { rootMargin: "400px" },
  );
  for (const block of blocks) watch.observe(document.getElementById(block.dataset.figure));

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => repaint(false));

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const box of opened) box.open = true;
    for (const block of blocks) draw(block);
    if (library) repaint(true);
  });
  addEventListener("afterprint", () => {
    for (const box of opened) box.open = false;
    repaint(false);
  });

  // A link to a finding that is folded away opens what hides it.
  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let box = target?.closest("details"); box; box = box.parentElement?.closest("details")) {
      box.open = true;
    }
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  if (location.hash) reveal();

  const copies = (holder, text) => {
    if (!navigator.clipboard) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    holder.append(button);
  };
  for (const block of document.querySelectorAll("pre.command")) {
    copies(block, block.textContent);
  }
})();
