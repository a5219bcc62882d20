"use strict";
// One step at a time; without scripts, all of them are shown.
(() => {
  const byId = (id) => document.getElementById(id);
  const steps = [...document.querySelectorAll("main > section")];
  const last = steps.length - 1;
  let at = 0;

  function show(to) {
    at = Math.max(0, Math.min(last, Number(to) || 0));
    steps.forEach((step, number) => { step.hidden = number !== at; });
    byId("at").max = last;
    byId("at").value = at;
    byId("back").disabled = at === 0;
    byId("next").disabled = at === last;
    byId("where").textContent = `step ${at} of ${last}`;
    history.replaceState(null, "", `#${at}`);
  }

  byId("back").addEventListener("click", () => show(at - 1));
  byId("next").addEventListener("click", () => show(at + 1));
  byId("at").addEventListener("input", () => show(byId("at").value));
  window.addEventListener("hashchange", () => show(location.hash.slice(1)));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    show(to);
    event.preventDefault();
  });
  show(location.hash.slice(1));
  document.documentElement.dataset.ready = "1";
})();
