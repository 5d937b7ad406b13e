"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const specs = read("specs"), copies = read("copies");
  const say = (text) => { document.getElementById("said").textContent = text; };

  const button = (label, spoken, action) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = label;
    made.setAttribute("aria-label", spoken);
    made.addEventListener("click", action);
    return made;
  };

  const tools = (parent, buttons) => {
    const bar = document.createElement("div");
    bar.className = "tools";
    bar.append(...buttons);
    parent.append(bar);
  };

  const copied = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  };

  const save = (blob, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };

  const picture = (chart) => {
    const svg = chart.querySelector("svg").cloneNode(true);
    svg.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    return new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" });
  };

  const pixels = (chart) => new Promise((resolve, reject) => {
    const image = new Image(), url = URL.createObjectURL(picture(chart));
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = image.width * 2;
      canvas.height = image.height * 2;
      const context = canvas.getContext("2d");
      context.fillStyle = "white";
      context.fillRect(0, 0, canvas.width, canvas.height);
      context.drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob(resolve, "image/png");
      URL.revokeObjectURL(url);
    };
    image.onerror = reject;
    image.src = url;
  });

  for (const grid of document.querySelectorAll("[data-table]")) {
    const forms = copies[grid.dataset.table];
    tools(grid, Object.keys(forms).map((form) => button(`Copy ${form}`, `Copy ${form} of this table`, async (event) => {
      await copied(forms[form]);
      event.target.textContent = "Copied";
      say(`Table copied as ${form}`);
      setTimeout(() => { event.target.textContent = `Copy ${form}`; }, 1500);
    })));
  }

  for (const chart of document.querySelectorAll("[data-figure]")) {
    if (!chart.querySelector("svg")) continue;
    const name = chart.dataset.figure;
    tools(chart.parentElement, [
      button("Save SVG", `Save SVG of the figure ${name}`, () => save(picture(chart), `${name}.svg`)),
      button("Save PNG", `Save PNG of the figure ${name}`, async () => save(await pixels(chart), `${name}.png`)),
    ]);
  }

  // the static picture stays until the interactive one stands; where a policy forbids evaluation it stays for good
  const upgrade = async (chart) => {
    const place = document.createElement("div");
    try {
      const options = { actions: false, renderer: "svg", tooltip: { disableDefaultStyle: true } };
      await vegaEmbed(place, specs[chart.dataset.figure], options);
      chart.replaceChildren(place);
      chart.dataset.live = "";
    } catch (problem) {
      chart.dataset.still = String(problem);
    }
  };

  // the libraries lie compressed in the page; they are unpacked when the rest of it stands
  const unpacked = async (packed) => {
    const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  };

  const live = async () => {
    const seen = new IntersectionObserver((entries) => {
      for (const entry of entries.filter((one) => one.isIntersecting)) {
        seen.unobserve(entry.target);
        setTimeout(() => upgrade(entry.target), 0);
      }
    }, { rootMargin: "200px" });
    await unpacked(document.getElementById("vega").textContent);
    document.querySelectorAll("[data-figure]").forEach((chart) => seen.observe(chart));
  };

  // a link to a folded part opens it, in browsers that do not do so by themselves
  const unfold = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let part = target && target.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  unfold();

  // inside the live frame: say how far down the reader is and what is open, and go there again when told
  if (window.parent !== window) {
    const parts = [...document.querySelectorAll("details")];
    const place = () => {
      const open = parts.flatMap((part, i) => part.open ? [i] : []);
      window.parent.postMessage({ scroll: window.scrollY, open }, "*");
    };
    addEventListener("scroll", place, { passive: true });
    parts.forEach((part) => part.addEventListener("toggle", place));
    addEventListener("message", (event) => {
      if (event.source !== window.parent || !Number.isFinite(event.data?.scroll)) return;
      const open = new Set(Array.isArray(event.data.open) ? event.data.open : []);
      parts.forEach((part, i) => { if (open.has(i)) part.open = true; });
      window.scrollTo(0, event.data.scroll);
    });
  }

  if (document.getElementById("vega") && typeof DecompressionStream === "function") {
    setTimeout(() => live().catch((problem) => say(`Charts stay still: ${problem}`)), 0);
  }
})();
