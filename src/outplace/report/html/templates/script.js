(() => {
  "use strict";
  const ready = "outplaceReady";
  const all = (root, selector) => [...root.querySelectorAll(selector)];

  // Everything that points at one line of source lights up together.
  function linkPlaces(bug) {
    const light = (place, name) => {
      for (const one of all(bug, "[data-place]")) one.classList.toggle(name, one.dataset.place === place);
    };
    const show = (place) => {
      const line = all(bug, ".line[data-place]").find((one) => one.dataset.place === place);
      if (!line) return;
      const folded = line.closest("details");
      if (folded) folded.open = true;
      light(place, "chosen");
      const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
      line.scrollIntoView({ block: "nearest", behavior: still ? "auto" : "smooth" });
    };
    for (const one of all(bug, "[data-place]")) {
      const place = one.dataset.place;
      one.addEventListener("mouseenter", () => light(place, "near"));
      one.addEventListener("mouseleave", () => light(null, "near"));
      one.addEventListener("focus", () => light(place, "near"));
      one.addEventListener("blur", () => light(null, "near"));
      one.addEventListener("click", (event) => {
        event.preventDefault();
        show(place);
      });
    }
    const rows = all(bug, ".row a");
    rows.forEach((row, at) => row.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      const next = step && rows[at + step];
      if (next) {
        event.preventDefault();
        next.focus();
      }
    }));
  }

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const box = document.createElement("textarea");
      box.value = text;
      box.style.position = "fixed";
      document.body.append(box);
      box.select();
      const done = document.execCommand("copy");
      box.remove();
      return done;
    }
  }

  function copyButtons(bug) {
    for (const button of all(bug, "[data-copy]")) {
      button.hidden = false;
      const head = button.closest(".remedy-head");
      button.addEventListener("click", async () => {
        const text = head.querySelector(`[data-copied="${button.dataset.copy}"]`).textContent;
        head.querySelector(".said").textContent = (await copy(text)) ? "Copied" : "Select the text to copy it";
      });
    }
  }

  function openRule(link) {
    const page = document.getElementById(link.hash.slice(1));
    if (page) page.closest("details").open = true;
  }

  function theme(button) {
    const order = ["auto", "light", "dark"];
    let kept = "auto";
    try {
      kept = localStorage.getItem("outplace-theme") || "auto";
    } catch {}
    const use = (name) => {
      if (name === "auto") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = name;
      button.querySelector("[data-theme-name]").textContent = `Theme: ${name}`;
      try {
        localStorage.setItem("outplace-theme", name);
      } catch {}
    };
    use(order.includes(kept) ? kept : "auto");
    button.hidden = false;
    button.addEventListener("click", () => {
      const now = document.documentElement.dataset.theme || "auto";
      use(order[(order.indexOf(now) + 1) % order.length]);
    });
  }

  for (const bug of all(document, ".outplace [data-bug]")) {
    if (bug.dataset[ready]) continue; // a notebook runs this once for each cell
    bug.dataset[ready] = "yes";
    linkPlaces(bug);
    copyButtons(bug);
    for (const link of all(bug, "[data-rule]")) link.addEventListener("click", () => openRule(link));
  }
  for (const button of all(document, "[data-theme-toggle]")) theme(button);
})();
