"use strict";
(() => {
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const box of opened) box.open = true;
  });
  addEventListener("afterprint", () => {
    for (const box of opened) box.open = false;
  });

  // What a person has typed or cut off may be no text at all.
  const wanted = () => {
    try {
      return decodeURIComponent(location.hash.slice(1));
    } catch {
      return "";
    }
  };

  // A link to a finding that is folded away opens what hides it.
  const reveal = () => {
    const target = document.getElementById(wanted());
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
