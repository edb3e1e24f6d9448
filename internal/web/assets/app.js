// SPDX-License-Identifier: Apache-2.0
"use strict";
// Copy buttons, and a theme that changes when it is chosen. Everything else works without.
for (const box of document.querySelectorAll(".copy")) {
  if (!navigator.clipboard) break;
  const code = box.querySelector("code");
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
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
const theme = document.querySelector("form.theme");
if (theme) {
  theme.querySelector("button").hidden = true;
  theme.querySelector("select").addEventListener("change", () => theme.requestSubmit());
}
