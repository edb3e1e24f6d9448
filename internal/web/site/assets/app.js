// SPDX-License-Identifier: Apache-2.0
"use strict";
// Copy buttons, and a theme that changes when it is chosen. Everything else works without.
for (const pre of document.querySelectorAll(".markdown pre")) {
  const box = document.createElement("div");
  box.className = "copy";
  pre.replaceWith(box);
  box.append(pre);
}
function addCopy(box) {
  if (!navigator.clipboard || box.querySelector("button")) return;
  const code = box.querySelector("pre, code"), name = box.closest("dd")?.previousElementSibling?.textContent;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  if (name) button.setAttribute("aria-label", "Copy " + name);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select it by hand";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  box.append(button);
}
document.querySelectorAll(".copy").forEach(addCopy);
const theme = document.querySelector("form.theme");
if (theme) {
  theme.querySelector("button").hidden = true;
  theme.querySelector("select").addEventListener("change", () => theme.requestSubmit());
}

// "/" leads to the search, which answers while somebody writes.
const find = document.getElementById("q");
const slash = (e) => find && e.key === "/" && !e.ctrlKey && !e.metaKey && !e.altKey && !e.target.closest("input, select, textarea");
document.addEventListener("keydown", (e) => { if (slash(e)) e.preventDefault(); }); // some browsers search in the page then
document.addEventListener("keyup", (e) => { if (slash(e)) find.select(); });
if (find) {
  const near = document.createElement("datalist");
  near.id = "near";
  find.after(near);
  find.setAttribute("list", near.id);
  find.autocomplete = "off";
  let soon = 0;
  find.addEventListener("input", () => {
    clearTimeout(soon);
    soon = setTimeout(async () => {
      const text = find.value.trim();
      if (text.length < 2) { near.replaceChildren(); return; }
      try {
        const answer = await fetch(new URL("../api/v1/search?q=" + encodeURIComponent(text), find.form.action));
        const found = answer.ok ? (await answer.json()).results : [];
        if (text === find.value.trim()) near.replaceChildren(...found.slice(0, 8).map((one) => { const o = document.createElement("option"); o.value = one.address; o.label = one.kind + (one.description ? ": " + one.description : ""); return o; }));
      } catch { near.replaceChildren(); }
    }, 150);
  });
}

// Many changes can be filtered.
const narrow = document.querySelector(".changed .narrow"), lines = [...document.querySelectorAll(".changed .change")];
if (narrow && lines.length > 5) {
  narrow.hidden = false;
  narrow.querySelector("input").addEventListener("input", (e) => {
    const words = e.target.value.trim().toLowerCase();
    for (const line of lines) line.hidden = !line.firstElementChild.textContent.toLowerCase().includes(words);
    narrow.querySelector("[role=status]").textContent = lines.filter((l) => !l.hidden).length + " of " + lines.length;
  });
}

// The list of pages shows where this one is.
const here = document.querySelector(".pages [aria-current]"), pages = here?.closest(".pages");
if (here) pages.scrollTop = here.getBoundingClientRect().top - pages.getBoundingClientRect().top - pages.clientHeight / 2;

// There is room for the contents beside the text on a wide screen.
const contents = document.querySelector(".read .contents");
if (contents && matchMedia("(min-width: 64rem)").matches) contents.open = true;

// Rows of lists and maps come and go without a round to the server, which makes them too.
function number(node, from, to, rows) {
  for (const e of node.querySelectorAll("*")) {
    for (const a of e.attributes) if (a.value.includes(from)) a.value = a.value.split(from).join(to);
    if (e.content) number(e.content, from, to, rows);
    if (!e.children.length) e.textContent = e.textContent.replace(" #", " " + (rows + 1));
  }
}
document.addEventListener("click", (e) => {
  const button = e.target.closest("button[name=more], button[name=less]");
  if (!button) return;
  e.preventDefault();
  const set = button.closest("fieldset");
  if (button.name === "less") {
    button.parentElement.remove();
    set.querySelector(":scope > button").focus();
    return;
  }
  const rows = set.querySelector(":scope > .rows"), row = set.querySelector(":scope > template").content.cloneNode(true);
  set.next = Math.max(set.next ?? 0, ...[...rows.children].map((r) => Number(r.querySelector(":scope > button").value.split(".").pop()) + 1));
  number(row, button.value + ".#", button.value + "." + set.next++, rows.children.length);
  rows.append(row);
  rows.lastElementChild.querySelector("input:not([type=hidden]), select, textarea, button")?.focus();
});

// Fields that count only with certain values of others are hidden else, and keep theirs.
const dependent = document.querySelectorAll("[data-when]");
const among = (e, texts) => texts.includes(e.type === "checkbox" ? String(e.checked) : e.value.trim()) || e.inputMode === "decimal" && e.value.trim() !== "" && texts.some((t) => t !== "" && Number(t) === Number(e.value));
function depend() {
  for (const box of dependent) {
    box.hidden = !Object.entries(JSON.parse(box.dataset.when)).every(([name, texts]) => {
      const other = document.querySelector("[name='" + CSS.escape(name) + "']");
      return other && !other.closest("[data-when]")?.hidden && among(other, texts);
    });
  }
}
if (dependent.length) {
  document.addEventListener("input", depend);
  addEventListener("pageshow", depend); // a page that comes back has what was typed
  depend();
}

// What a change would send is shown while somebody fills it in, as the server says it.
const changes = document.getElementById("changes");
if (changes) {
  const form = changes.closest("form"), look = form.querySelector("button[name=look]");
  let soon = 0, asked = null;
  const ask = () => {
    const body = new URLSearchParams(new FormData(form));
    body.set(look.name, look.value);
    asked?.abort();
    asked = new XMLHttpRequest();
    asked.open("POST", location.href);
    asked.responseType = "document";
    asked.addEventListener("load", (e) => {
      const now = e.target.status === 200 ? e.target.response?.getElementById("changes") : null;
      look.hidden = now !== null;
      if (now && now.textContent !== changes.textContent) changes.replaceChildren(...now.childNodes);
    });
    asked.send(body);
  };
  const later = () => { clearTimeout(soon); soon = setTimeout(ask, 200); };
  look.hidden = true;
  form.addEventListener("input", later);
  form.addEventListener("click", (e) => { if (e.target.closest("button[name=more], button[name=less]")) later(); });
  addEventListener("pageshow", (e) => { if (e.persisted || performance.getEntriesByType("navigation")[0]?.type !== "navigate") later(); }); // it has what was typed
}

// The time that is left, in the words of the server; it is spoken in the last hour only.
function span(ms) {
  const min = Math.floor(ms / 60000), hour = Math.floor(min / 60), day = Math.floor(hour / 24);
  const two = (a, unit, b, smaller) => a + " " + unit + (b ? " " + b + " " + smaller : "");
  if (min < 1) return "less than a minute";
  if (hour < 1) return min + " min";
  return day < 1 ? two(hour, "h", min % 60, "min") : two(day, "d", hour % 24, "h");
}
function count() {
  const ends = document.querySelectorAll("time[data-left]");
  for (const t of ends) {
    t.shown ??= Date.now();
    const ms = t.dataset.left * 1000 - (Date.now() - t.shown);
    if (ends.length === 1 && ms < 3600000) t.setAttribute("aria-live", "polite");
    if (t.textContent !== span(ms)) t.textContent = span(ms);
  }
}
count();
setInterval(count, 10000);

// Parts that change while something goes on are taken from the page as it is now.
let asked = null, again = false;
function renew() {
  if (!document.querySelector("[data-live]")) return;
  if (asked) { again = true; return; }
  asked = new XMLHttpRequest();
  asked.open("GET", location.href);
  asked.responseType = "document";
  asked.addEventListener("loadend", () => {
    const page = asked.status === 200 ? asked.response : null;
    asked = null;
    if (page) show(page);
    if (again) { again = false; renew(); }
  });
  asked.send();
}
// What is the same keeps the focus and what was opened; a button never becomes another one.
function update(old, now) {
  if (old.nodeName !== now.nodeName || old.nodeName.match(/^(A|BUTTON|SUMMARY)$/) && old.textContent !== now.textContent) { old.replaceWith(now); return; }
  if (old.nodeType === Node.TEXT_NODE) { if (old.data !== now.data) old.data = now.data; return; }
  for (const a of [...old.attributes]) if (!now.hasAttribute(a.name) && a.name !== "open") old.removeAttribute(a.name);
  for (const a of now.attributes) if (old.getAttribute(a.name) !== a.value) old.setAttribute(a.name, a.value);
  if (old.dataset.left) delete old.shown;
  if (old.matches(".copy") && old.querySelector("code").textContent === now.querySelector("code").textContent) return;
  let at = old.firstChild;
  const drop = (until) => { while (at !== until) { const gone = at; at = at.nextSibling; gone.remove(); } };
  for (const n of [...now.childNodes]) {
    let same = at;
    while (same && (same.nodeName !== n.nodeName || same.className !== n.className)) same = n.nodeType === Node.TEXT_NODE ? null : same.nextSibling;
    if (!same) { old.insertBefore(n, at); continue; }
    drop(same);
    at = same.nextSibling;
    update(same, n);
  }
  drop(null);
}
function show(page) {
  const log = document.querySelector(".logbox"), next = page.querySelector(".logbox");
  if (next && (!log || log.dataset.run !== next.dataset.run)) {
    if (log) log.replaceWith(next); else document.querySelector("[data-log-here]")?.append(next);
    const end = next.querySelector(".log");
    end.scrollTop = end.scrollHeight;
    follow(next);
  }
  for (const part of document.querySelectorAll("[data-live]")) {
    const now = page.getElementById(part.id);
    if (!now) continue;
    const at = part.contains(document.activeElement) ? document.activeElement.textContent : null;
    update(part, now);
    part.querySelectorAll(".copy").forEach(addCopy);
    if (at !== null && !part.contains(document.activeElement)) {
      const same = [...part.querySelectorAll("a, button")].find((e) => e.textContent === at) || part;
      if (same === part) part.tabIndex = -1;
      same.focus();
    }
  }
  watch();
}

// Where somebody else has to act, the events of the server say when he did.
let events = null;
function watch() {
  const on = document.querySelector("[data-events]");
  if (!on) { events?.close(); events = null; return; }
  if (events) return;
  events = new EventSource(on.dataset.events);
  events.addEventListener("instance", (e) => { if (JSON.parse(e.data).instance === on.dataset.of) renew(); });
}
watch();

// A log opens at its end, where a failure is.
for (const log of document.querySelectorAll(".logbox .log")) log.scrollTop = log.scrollHeight;

// The log of a run that goes on. What comes is text, and stays text.
function follow(box) {
  if (!box?.dataset.log) return;
  const pre = box.querySelector(".log"), code = pre.querySelector("code"), state = box.querySelector(".logstate"), bar = box.querySelector("progress");
  const plan = /^Plan: (?:\d+ to import, )?(\d+) to add, (\d+) to change, (\d+) to destroy/, complete = /: (?:Creation|Modifications|Destruction) complete/;
  const clean = (s) => s.replace(/\x1b\[[0-?]*[ -\/]*[@-~]/g, "").replace(/[\0-\x08\x0b-\x1f\x7f-\x9f]/g, "").replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
  const most = 512 * 1024; // characters that are kept
  let first = true, rest = "", done = 0, total = 0;
  const say = (text) => { if (state.textContent !== text) state.textContent = text; };
  const begin = () => { if (rest) add(rest + "\n"); rest = ""; done = total = 0; };
  const line = (text) => {
    const m = plan.exec(text);
    if (m) { done = 0; total = m.slice(1).reduce((sum, n) => sum + Math.min(Number(n), 1048576), 0); }
    else if (done < total && complete.test(text)) done++;
  };
  const add = (text) => {
    const end = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 40;
    if (first) { code.textContent = ""; first = false; }
    code.append(text);
    while (code.textContent.length > most && code.firstChild !== code.lastChild) code.firstChild.remove();
    if (end) pre.scrollTop = pre.scrollHeight;
  };
  const source = new EventSource(box.dataset.log);
  source.addEventListener("message", (e) => {
    const text = rest + clean(JSON.parse(e.data));
    const end = text.length > 65536 ? text.length : text.lastIndexOf("\n") + 1; // a line is shown when it is whole
    rest = text.slice(end);
    if (end) add(text.slice(0, end));
    text.slice(0, end).split("\n").forEach(line);
    bar.hidden = !total;
    if (total) { bar.max = total; bar.value = done; }
    say(total ? done + " of " + total + " done" : "Running");
  });
  source.addEventListener("attempt", (e) => { begin(); add("\n--- attempt " + Number(e.data) + " ---\n"); renew(); });
  source.addEventListener("wait", (e) => {
    const w = JSON.parse(e.data);
    if (w.place) say("Position " + w.place + " in the queue");
    else if (w.reason) say("Waiting" + (w.message ? ": " + clean(w.message) : ""));
    else say("Running");
    renew();
  });
  source.addEventListener("phase", renew);
  source.addEventListener("end", (e) => {
    source.close();
    begin();
    if (document.querySelector("[data-live]")) {
      say("Run ended: " + clean(String(JSON.parse(e.data).result)));
      renew();
      return;
    }
    if (document.activeElement === document.body) { location.reload(); return; }
    const link = document.createElement("a");
    link.href = location.href;
    link.textContent = "Show the current status";
    say("Run ended: " + clean(String(JSON.parse(e.data).result)) + ". ");
    state.append(link);
  });
  source.addEventListener("error", () => { if (source.readyState === EventSource.CLOSED) say("The log stopped updating. Reload the page."); });
}
follow(document.querySelector("[data-log]"));
