// SPDX-License-Identifier: Apache-2.0
// What is wrong with a page that has loaded, in words. The structure is looked at once,
// the look of it at each width and in each theme. What people are told about it is in
// names.go, by the accessibility tree.
(() => {
  const name = (e) => e.localName + (e.id ? "#" + e.id : "") + (e.className && e.className.trim ? "." + e.className.trim().replaceAll(" ", ".") : "");
  const visible = (e) => e.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const once = (say) => { const told = new Set(); return (text) => { if (!told.has(text)) { told.add(text); say(text); } }; };

  // Colours, by WCAG 2.2.
  const part = (c) => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const color = (text) => { const m = text.match(/[\d.]+/g).map(Number); return { r: m[0], g: m[1], b: m[2], a: m.length > 3 ? m[3] : 1 }; };
  const light = (c) => 0.2126 * part(c.r) + 0.7152 * part(c.g) + 0.0722 * part(c.b);
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const backs = () => {
    const known = new Map();
    const back = (e) => {
      if (!e) return { r: 255, g: 255, b: 255 };
      if (!known.has(e)) {
        const c = color(getComputedStyle(e).backgroundColor);
        known.set(e, c.a > 0 ? c : back(e.parentElement));
      }
      return known.get(e);
    };
    return back;
  };

  const structure = () => {
    const problems = [], say = (text) => problems.push(text);
    const ids = new Map();
    for (const e of document.querySelectorAll("[id]")) ids.set(e.id, (ids.get(e.id) || 0) + 1);
    for (const [id, n] of ids) if (n > 1) say(n + " elements have the id " + id);
    for (const a of ["for", "aria-labelledby", "aria-describedby"])
      for (const e of document.querySelectorAll("[" + a + "]"))
        for (const id of e.getAttribute(a).split(/\s+/)) if (!ids.has(id)) say(a + " of " + name(e) + " names " + id + ", which is not there");
    if (!document.documentElement.lang) say("no language");
    for (const i of document.querySelectorAll("img")) if (!i.hasAttribute("alt")) say("an image without a text: " + i.src);
    for (const f of document.querySelectorAll("input:not([type=hidden]), select, textarea"))
      if (!f.hidden && !(f.labels && f.labels.length) && !f.getAttribute("aria-label")) say("a field without a label: " + name(f));
    for (const t of document.querySelectorAll("main table"))
      if (!t.closest(".markdown") && !t.caption) say("a table without a caption: " + name(t));
    for (const e of document.querySelectorAll("[style]")) say("a style of its own: " + name(e));
    for (const e of document.querySelectorAll("[tabindex]")) if (e.tabIndex > 0) say("out of the order of the document: " + name(e));
    for (const f of document.querySelectorAll("form")) if (![...f.elements].some((e) => e.type === "submit" && (visible(e) || e.closest("details:not([open])") || f.matches(".theme")))) say("a form that nothing sends: " + name(f));
    return { problems, links: [...document.querySelectorAll("a[href]")].map((a) => new URL(a.getAttribute("href"), document.baseURI).href) };
  };

  const look = () => {
    const problems = [], say = once((text) => problems.push(text));
    if (document.documentElement.scrollWidth > window.innerWidth)
      say("wider than the window: " + document.documentElement.scrollWidth + " px, by " + [...document.querySelectorAll("body *")].filter((e) => visible(e) && !e.closest(".scroll, pre, .hidden") && e.getBoundingClientRect().right > window.innerWidth).slice(0, 3).map(name).join(", "));
    for (const e of document.querySelectorAll("main *")) {
      if (visible(e) && e.scrollWidth > e.clientWidth + 1 && e.clientWidth && ["hidden", "clip"].includes(getComputedStyle(e).overflowX) && !e.matches(".hidden, .digest")) say("cut off at the right: " + name(e));
    }
    const broken = document.createRange();
    for (const e of document.querySelectorAll("td[data-th=Type] code, td[data-th=Default] code, td[data-th=Now] code, td time, .mark")) {
      const words = document.createTreeWalker(e, NodeFilter.SHOW_TEXT);
      for (let n = words.nextNode(); n && visible(e); n = words.nextNode())
        for (const w of n.data.matchAll(/\w{1,30}/g)) {
          broken.setStart(n, w.index);
          broken.setEnd(n, w.index + w[0].length);
          if (new Set([...broken.getClientRects()].map((r) => r.top)).size > 1) say("broken in " + name(e) + ": " + w[0]);
        }
    }
    if (window.innerWidth < 400)
      for (const s of document.querySelectorAll(".scroll:has(table)")) if (s.scrollWidth > s.clientWidth + 1 && visible(s)) say("a table wider than the window: " + s.getAttribute("aria-label"));
    const back = backs();
    for (const e of document.querySelectorAll("body *")) {
      if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || !visible(e)) continue;
      const got = ratio(color(getComputedStyle(e).color), back(e));
      if (got < 4.5) say("contrast " + got.toFixed(2) + " of " + name(e));
    }
    for (const e of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")) {
      if (!visible(e) || e.disabled) continue;
      e.focus({ preventScroll: true });
      if (document.activeElement !== e) { say("the keyboard does not reach " + name(e)); continue; }
      const style = getComputedStyle(e);
      if (!e.matches(":focus-visible") || style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) { say("the focus on " + name(e) + " cannot be seen"); continue; }
      const got = ratio(color(style.outlineColor), back(e.parentElement));
      if (got < 3) say("contrast " + got.toFixed(2) + " of the focus on " + name(e));
    }
    document.activeElement.blur();
    return { problems, links: [] };
  };

  const kept = async () => {
    const all = [];
    for (const [where, store] of [["localStorage", localStorage], ["sessionStorage", sessionStorage]])
      for (let i = 0; i < store.length; i++) all.push(where + ": " + store.key(i));
    for (const db of await indexedDB.databases()) all.push("IndexedDB: " + db.name);
    if (window.name) all.push("the name of the window: " + window.name);
    if (location.hash) all.push("a fragment: " + location.hash);
    return all;
  };
  return { structure, look, kept };
})()
