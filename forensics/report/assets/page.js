"use strict";
// Addresses within the page: #F-3f2a91c0, #p/orders/17, #b/3, #t/2026-03-01T14:02:11Z..14:09:40Z,
// #q/words of the filter, and any of them together with & between them.
globalThis.addresses = (() => {
  let folded = [];
  const unfold = () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const box of folded) box.open = true;
  };
  const fold = () => {
    for (const box of folded) box.open = false;
    folded = [];
  };
  // Of the page of a run stands on paper what answers; the rest is printed when somebody asks for it.
  const foot = document.querySelector(".unprinted") && document.querySelector("footer");
  if (!foot) {
    addEventListener("beforeprint", unfold);
    addEventListener("afterprint", fold);
  } else {
    const made = document.createElement("button");
    made.type = "button";
    made.id = "print-all";
    made.textContent = "Print everything";
    made.addEventListener("click", async () => {
      unfold();
      document.documentElement.classList.add("print-all");
      await globalThis.figures.drawAll();
      addEventListener("afterprint", () => {
        document.documentElement.classList.remove("print-all");
        fold();
      }, { once: true });
      print();
    });
    foot.append(made);
  }

  const decoded = (text) => {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  };

  // Gives the element that an address means, having opened what hides it; null where there is none.
  const found = (part) => {
    const [kind, ...names] = part.split("/");
    if (kind === "p" && names.length === 2) {
      return globalThis.partitions?.open(decoded(names[0]), decoded(names[1])) ?? null;
    }
    const target = document.getElementById(part) ?? document.getElementById(decoded(part));
    for (let box = target?.closest("details"); box; box = box.parentElement?.closest("details")) {
      box.open = true;
    }
    const fold = target?.querySelector(":scope > details.fold");
    if (fold) fold.open = true;
    // Who comes to a card from the summary wants to know what to do.
    const doing = target?.classList.contains("card") && target.querySelector("details.doing");
    if (doing) doing.open = true;
    target?.closest("[data-hidden]")?.removeAttribute("data-hidden");
    return target;
  };

  // The second time may leave out the day.
  const stretch = (text) => {
    const [from, to = ""] = decoded(text).split("..");
    const whole = /^\d{4}-/.test(to) ? to : `${from.slice(0, 11)}${to}`;
    const moments = [from, whole].map((one) => Date.parse(/Z|[+-]\d\d:?\d\d$/.test(one) ? one : `${one}Z`));
    return moments.some(Number.isNaN) || moments[0] >= moments[1] ? null : moments;
  };
  const windowOf = (id) => {
    const block = document.getElementById("report-data");
    const story = block && JSON.parse(block.textContent).findings?.find((one) => one.id === id);
    const moments = [Date.parse(story?.from), Date.parse(story?.to)];
    if (moments.some(Number.isNaN)) return null;
    const around = Math.max((moments[1] - moments[0]) * 0.2, 5000);
    return [moments[0] - around, moments[1] + around];
  };

  const lost = (parts) => {
    document.getElementById("no-such-place")?.remove();
    if (!parts.length) return;
    const says = document.createElement("p");
    says.id = "no-such-place";
    says.className = "warning";
    says.setAttribute("role", "alert");
    says.textContent = `This page has nothing at ${parts.map((part) => `“${decoded(part)}”`).join(", ")}.`;
    document.querySelector("main")?.before(says);
    says.scrollIntoView({ block: "center" });
  };

  const zone = Number(document.querySelector("main")?.dataset.zone ?? 0);
  let last = "";
  const follow = async (address = location.hash.slice(1)) => {
    last = address;
    for (const one of document.querySelectorAll(".here")) one.classList.remove("here");
    const unknown = [];
    let target = null;
    let moments = null;
    for (const part of address.split("&").filter(Boolean)) {
      if (part.startsWith("t/")) {
        moments = stretch(part.slice(2));
        if (!moments) unknown.push(part);
        continue;
      }
      if (part.startsWith("q/")) {
        globalThis.filter?.set(decoded(part.slice(2)));
        continue;
      }
      const element = found(part);
      if (!element) unknown.push(part);
      else {
        element.classList.add("here");
        target ??= element;
      }
    }
    lost(unknown);
    target?.scrollIntoView();
    const finding = target?.classList.contains("card") ? windowOf(target.id) : null;
    moments ??= finding;
    if (!moments || !globalThis.figures?.zoom) return;
    // Figures that are drawn now push down what is below them.
    const before = target?.getBoundingClientRect().top;
    await globalThis.figures.zoom(...moments.map((one) => one + zone));
    const stays = last === address && target;
    if (stays && Math.abs(target.getBoundingClientRect().top - before) > 4) target.scrollIntoView();
    if (!target) document.getElementById("timeline")?.scrollIntoView();
  };
  addEventListener("hashchange", () => follow());
  if (location.hash) follow();

  // In a sandboxed frame, in which previews of archives show a page, browsers refuse to go anywhere,
  // even to a part of the page: there the page goes by itself, and has no address.
  const boxed = globalThis.parent !== globalThis && globalThis.origin === "null";
  const go = (address) => {
    if (boxed) follow(address);
    else location.hash = address;
  };
  if (boxed) {
    document.addEventListener("click", (event) => {
      const link = event.target.closest?.("a[href^='#']");
      if (!link || event.defaultPrevented) return;
      event.preventDefault();
      const address = link.getAttribute("href").slice(1);
      follow(address);
      document.getElementById(decoded(address))?.focus({ preventScroll: true });
    });
  }
  return { boxed, go };
})();
