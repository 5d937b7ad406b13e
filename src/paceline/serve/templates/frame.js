"use strict";
(() => {
  const { study, page } = document.body.dataset;
  const where = new URLSearchParams(study ? { study, page } : { page });
  const list = document.getElementById("list"), said = document.getElementById("said");
  let frame = document.querySelector("iframe"), version = Number(document.body.dataset.version), scroll = 0, open = [];

  // the report has no origin of its own to be asked, so it tells how far down its reader is
  addEventListener("message", (event) => {
    if (frame && event.source === frame.contentWindow && Number.isFinite(event.data?.scroll)) ({ scroll, open = [] } = event.data);
  });

  // the new report is made ready behind the old one, and then takes its place where the reader was
  const renew = () => {
    document.querySelector("iframe.coming")?.remove();
    const next = frame.cloneNode();
    next.classList.add("coming");
    next.src = `report?${new URLSearchParams({ study, version })}`;
    next.addEventListener("load", () => {
      next.contentWindow.postMessage({ scroll, open }, "*");
      const before = frame;
      frame = next;
      next.classList.remove("coming");
      before.remove();
    }, { once: true });
    frame.after(next);
  };

  const events = new EventSource(`events?${where}`);
  events.addEventListener("study", (event) => {
    const now = JSON.parse(event.data).version;
    if (now === version) return;
    version = now;
    if (frame) renew();
  });
  events.addEventListener("list", async () => {
    const answer = await fetch(`list?${where}`);
    if (answer.ok) list.innerHTML = await answer.text();
    if (!frame && list.querySelector("a")) location.reload();
  });
  events.addEventListener("open", () => { said.textContent = ""; });
  events.addEventListener("error", () => {
    said.textContent = events.readyState === EventSource.CLOSED ? "The server has ended." : "Waiting for the server.";
  });
})();
